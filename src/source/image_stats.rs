//! The statistics of the images of a field, which are known without reading them.

use fuseloop_ops::Size;

/// The statistics of a field's images, from the rows. Rows that can't be read, or that exceed the
/// limits, are counted and left out.
///
/// ```no_run
/// use fuseloop::source::{Beton, OpenOptions, Source};
///
/// let beton = Beton::open("train.beton", &OpenOptions::default())?;
/// if let Some(stats) = beton.facts().image_stats(0) {
///     println!("{} JPEGs, {} raw images, the largest {} pixels", stats.jpeg, stats.raw, stats.max_pixels);
/// }
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageStats {
    /// The number of images stored as JPEG.
    pub jpeg: u64,
    /// The number of images stored raw.
    pub raw: u64,
    /// The number of images stored as bit planes.
    pub bit_planes: u64,
    /// The number of rows left out.
    pub unreadable: u64,
    /// The least height and the least width, not of one image; `None` if there is no image.
    pub min: Option<Size>,
    /// The greatest height and the greatest width, not of one image; `None` if there is no image.
    pub max: Option<Size>,
    /// The most pixels of one image.
    pub max_pixels: u64,
}

impl ImageStats {
    /// Returns the statistics of two ranges of the table, or of two datasets, together.
    pub(in crate::source) fn merged(&self, other: &Self) -> Self {
        let both = |of: fn(u32, u32) -> u32, a: Option<Size>, b: Option<Size>| match (a, b) {
            (Some(a), Some(b)) => Some(Size::new(of(a.height, b.height), of(a.width, b.width))),
            (a, b) => a.or(b),
        };
        Self {
            jpeg: self.jpeg + other.jpeg,
            raw: self.raw + other.raw,
            bit_planes: self.bit_planes + other.bit_planes,
            unreadable: self.unreadable + other.unreadable,
            min: both(u32::min, self.min, other.min),
            max: both(u32::max, self.max, other.max),
            max_pixels: self.max_pixels.max(other.max_pixels),
        }
    }

    /// Returns the number of JPEGs, stored as they are or as bit planes.
    pub(crate) fn jpegs(&self) -> u64 {
        self.jpeg + self.bit_planes
    }

    /// Returns the size that all readable images share, if they share one.
    #[must_use]
    pub fn uniform(&self) -> Option<Size> {
        self.min.filter(|_| self.min == self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_table_add_up() {
        let part = |jpeg, min: Option<(u32, u32)>, max: Option<(u32, u32)>| ImageStats {
            jpeg,
            min: min.map(|(height, width)| Size::new(height, width)),
            max: max.map(|(height, width)| Size::new(height, width)),
            ..ImageStats::default()
        };
        let a = part(2, Some((10, 40)), Some((90, 50)));
        let b = part(3, Some((20, 30)), Some((60, 70)));
        assert_eq!(a.merged(&b), part(5, Some((10, 30)), Some((90, 70))));
        assert_eq!(a.merged(&part(0, None, None)), a);
    }
}
