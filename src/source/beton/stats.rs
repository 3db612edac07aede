//! What the sample table says of a field as a whole, without touching the data.

use super::{Beton, Cell, ImageMode};
use crate::parallel;
use crate::sample::SampleId;
use fuseloop_ops::Size;
use std::ops::Range;

/// Rows that one thread scans in a stroke: well under a millisecond.
const SCANNED_AT_ONCE: u64 = 1 << 14;

/// What the rows say of a field's pictures. Rows that can't be read, or ask for more than the
/// limits allow, are counted and left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageStats {
    /// Pictures stored as JPEG.
    pub jpeg: u64,
    /// Pictures stored raw.
    pub raw: u64,
    /// Rows left out.
    pub unreadable: u64,
    /// Fewest rows and fewest columns, not of one picture; `None` without a picture.
    pub min: Option<Size>,
    /// Most rows and most columns, not of one picture; `None` without a picture.
    pub max: Option<Size>,
    /// Most pixels of one picture.
    pub max_pixels: u64,
}

impl ImageStats {
    pub(super) fn scan(beton: &Beton, field: usize) -> Self {
        let scan = |samples: Range<u64>| {
            let mut stats = Self::default();
            for sample in samples {
                stats.add(beton, SampleId(sample), field);
            }
            stats
        };
        let samples = beton.len();
        if samples <= SCANNED_AT_ONCE {
            return scan(0..samples); // not worth waking other threads
        }
        let part = |k| k * SCANNED_AT_ONCE..samples.min((k + 1) * SCANNED_AT_ONCE);
        let parts: Vec<Range<u64>> = (0..samples.div_ceil(SCANNED_AT_ONCE)).map(part).collect();
        // Without other threads this one has the time.
        let scanned = parallel::map(&parts, |part| scan(part.clone()))
            .unwrap_or_else(|_| vec![scan(0..samples)]);
        scanned.iter().fold(Self::default(), |sum, part| sum.merged(part))
    }

    /// The stats of two parts of the table, or of two datasets.
    pub(in crate::source) fn merged(&self, other: &Self) -> Self {
        let both = |of: fn(u32, u32) -> u32, a: Option<Size>, b: Option<Size>| match (a, b) {
            (Some(a), Some(b)) => Some(Size::new(of(a.height, b.height), of(a.width, b.width))),
            (a, b) => a.or(b),
        };
        Self {
            jpeg: self.jpeg + other.jpeg,
            raw: self.raw + other.raw,
            unreadable: self.unreadable + other.unreadable,
            min: both(u32::min, self.min, other.min),
            max: both(u32::max, self.max, other.max),
            max_pixels: self.max_pixels.max(other.max_pixels),
        }
    }

    fn add(&mut self, beton: &Beton, sample: SampleId, field: usize) {
        let Ok((_, at, Cell::Image(cell))) = beton.cell(sample, field) else {
            self.unreadable += 1;
            return;
        };
        let Ok(size) = beton.checked_size(&cell, at) else {
            self.unreadable += 1;
            return;
        };
        match cell.mode {
            ImageMode::Jpeg => self.jpeg += 1,
            ImageMode::Raw => self.raw += 1,
            ImageMode::Png => {} // no cell is read as one
        }
        let (min, max) = (self.min.unwrap_or(size), self.max.unwrap_or(size));
        self.min = Some(Size::new(min.height.min(size.height), min.width.min(size.width)));
        self.max = Some(Size::new(max.height.max(size.height), max.width.max(size.width)));
        self.max_pixels = self.max_pixels.max(size.pixels());
    }

    /// The size that all readable pictures share, if they do.
    #[must_use]
    pub fn uniform(&self) -> Option<Size> {
        self.min.filter(|_| self.min == self.max)
    }
}

/// What the sample table says of one field.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FieldStats {
    /// A float field. NaN is not counted; both are `None` without another value.
    Float {
        /// Smallest value.
        min: Option<f64>,
        /// Greatest value.
        max: Option<f64>,
    },
    /// An int field; both are `None` without a sample.
    Int {
        /// Smallest value.
        min: Option<i64>,
        /// Greatest value.
        max: Option<i64>,
    },
    /// An image field.
    Image(ImageStats),
    /// A Bytes or JSON field; both are `None` without a sample.
    Bytes {
        /// Fewest bytes of a value.
        min: Option<u64>,
        /// Most bytes of a value.
        max: Option<u64>,
    },
    /// An array or user-defined field: every sample's is as the field's kind says.
    Fixed,
}

impl Beton {
    /// What the sample table says of a field; `None` if there is no such field.
    ///
    /// Reads the whole sample table, and none of the data.
    #[must_use]
    pub fn field_stats(&self, field: usize) -> Option<FieldStats> {
        use super::FieldKind as Kind;
        Some(match self.fields().get(field)?.kind {
            Kind::Float => {
                let (min, max) = self.extremes(field, |cell| match cell {
                    Cell::Float(value) if !value.is_nan() => Some(value),
                    _ => None,
                });
                FieldStats::Float { min, max }
            }
            Kind::Int => {
                let (min, max) = self.extremes(field, |cell| match cell {
                    Cell::Int(value) => Some(value),
                    _ => None,
                });
                FieldStats::Int { min, max }
            }
            Kind::Bytes | Kind::Json => {
                let (min, max) = self.extremes(field, |cell| match cell {
                    Cell::Bytes { size, .. } => Some(size),
                    _ => None,
                });
                FieldStats::Bytes { min, max }
            }
            Kind::RgbImage => FieldStats::Image(self.image_stats(field)?.clone()),
            Kind::NdArray { .. } | Kind::TorchTensor { .. } | Kind::Custom { .. } => {
                FieldStats::Fixed
            }
        })
    }

    /// The smallest and the greatest of what `number` finds in a field's cells.
    fn extremes<N: PartialOrd + Copy>(
        &self,
        field: usize,
        number: impl Fn(Cell<'_>) -> Option<N>,
    ) -> (Option<N>, Option<N>) {
        let cells = self.samples().filter_map(|sample| self.cell(sample, field).ok());
        cells.filter_map(|(_, _, cell)| number(cell)).fold((None, None), |(min, max), n| {
            (
                Some(min.map_or(n, |min| if n < min { n } else { min })),
                Some(max.map_or(n, |max| if n > max { n } else { max })),
            )
        })
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
