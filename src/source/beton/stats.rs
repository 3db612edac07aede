//! What the sample table says of a field as a whole, without touching the data.

use super::{Beton, Cell, ImageMode};
use crate::sample::SampleId;
use fuseloop_ops::Size;

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
        let mut stats = Self::default();
        for sample in beton.samples() {
            stats.add(beton, sample, field);
        }
        stats
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
