//! Statistics of a field, from the sample table: the data is not read.

use super::sample_table::SampleTable;
use super::{Beton, Cell};
use crate::parallel;
use crate::sample::SampleId;
use crate::source::{ImageMode, ImageStats};
use fuseloop_ops::Size;
use std::ops::Range;

/// The number of rows that one thread scans in one piece of work: well under a millisecond.
const SCANNED_AT_ONCE: u64 = 1 << 14;

impl ImageStats {
    pub(super) fn scan(table: &SampleTable, field: usize) -> Self {
        let scan = |samples: Range<u64>| {
            let mut stats = Self::default();
            for sample in samples {
                stats.add(table, SampleId(sample), field);
            }
            stats
        };
        let samples = table.len();
        if samples <= SCANNED_AT_ONCE {
            return scan(0..samples); // not worth waking other threads
        }
        let part = |k| k * SCANNED_AT_ONCE..samples.min((k + 1) * SCANNED_AT_ONCE);
        let parts: Vec<Range<u64>> = (0..samples.div_ceil(SCANNED_AT_ONCE)).map(part).collect();
        // If no threads can be started, this one scans all rows.
        let scanned = parallel::map(&parts, |part| scan(part.clone()))
            .unwrap_or_else(|_| vec![scan(0..samples)]);
        scanned.iter().fold(Self::default(), |sum, part| sum.merged(part))
    }

    fn add(&mut self, table: &SampleTable, sample: SampleId, field: usize) {
        let Ok((_, at, Cell::Image(cell))) = table.cell(sample, field) else {
            self.unreadable += 1;
            return;
        };
        let Ok(size) = table.checked_size(&cell, at) else {
            self.unreadable += 1;
            return;
        };
        match cell.mode {
            ImageMode::Jpeg => self.jpeg += 1,
            ImageMode::Raw => self.raw += 1,
            ImageMode::BitPlanes => self.bit_planes += 1,
            _ => {} // no cell is read as one
        }
        let (min, max) = (self.min.unwrap_or(size), self.max.unwrap_or(size));
        self.min = Some(Size::new(min.height.min(size.height), min.width.min(size.width)));
        self.max = Some(Size::new(max.height.max(size.height), max.width.max(size.width)));
        self.max_pixels = self.max_pixels.max(size.pixels());
    }
}

/// The statistics of one field, from the sample table.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FieldStats {
    /// A float field. NaN is not counted; both are `None` if there is no other value.
    Float {
        /// Smallest value.
        min: Option<f64>,
        /// Greatest value.
        max: Option<f64>,
    },
    /// An int field; both are `None` if there is no sample.
    Int {
        /// Smallest value.
        min: Option<i64>,
        /// Greatest value.
        max: Option<i64>,
    },
    /// An image field.
    Image(ImageStats),
    /// A Bytes or JSON field; both are `None` if there is no sample.
    Bytes {
        /// Fewest bytes of a value.
        min: Option<u64>,
        /// Most bytes of a value.
        max: Option<u64>,
    },
    /// An array or user-defined field: the field's kind tells the size of all values.
    Fixed,
}

impl Beton {
    /// Returns the statistics of a field from the sample table; `None` if there is no such field.
    ///
    /// Reads the whole sample table, and none of the data.
    #[doc(hidden)]
    pub fn field_stats(&self, field: usize) -> Option<FieldStats> {
        use crate::source::FieldKind as Kind;
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
            Kind::RgbImage | Kind::BitPlaneImage => {
                FieldStats::Image(self.image_stats(field)?.clone())
            }
            Kind::NdArray { .. } | Kind::TorchTensor { .. } | Kind::Custom { .. } => {
                FieldStats::Fixed
            }
        })
    }

    /// Returns the smallest and the greatest number that `number` finds in a field's cells.
    fn extremes<N: PartialOrd + Copy>(
        &self,
        field: usize,
        number: impl Fn(Cell<'_>) -> Option<N>,
    ) -> (Option<N>, Option<N>) {
        let cells = self.samples().filter_map(|sample| self.table.cell(sample, field).ok());
        cells.filter_map(|(_, _, cell)| number(cell)).fold((None, None), |(min, max), n| {
            (
                Some(min.map_or(n, |min| if n < min { n } else { min })),
                Some(max.map_or(n, |max| if n > max { n } else { max })),
            )
        })
    }
}
