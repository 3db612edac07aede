//! Compares a `.beton` file's tables with each other: the allocation table, the sample table, and the
//! pages that both refer to. No value is read.
//!
//! | finding         | what it is                                                 | it means          |
//! |-----------------|------------------------------------------------------------|-------------------|
//! | `overlapping`   | two records share some of their bytes, and are not the same| damage: one value was written over the other |
//! | `outside`       | a record's bytes are not all in the data                   | damage            |
//! | `no_sample`     | a record names a sample that is not in the file            | FFCV may fail     |
//! | `across_pages`  | a record's bytes lie in two pages                          | FFCV can't read it with `os_cache=False` |
//! | `several_pages` | a sample's values lie in several pages                     | the same          |
//! | `shared`        | a sample's bytes are also another sample's                 | nothing: they were stored once |
//! | `unreferenced`  | a record that no sample's pointer leads to                 | room is wasted    |
//!
//! Pages are counted from the start of the file, as FFCV counts them. The two rules about pages come
//! from FFCV's memory manager, which reads whole pages: all of a sample must be in one page.

use super::{VerifyOptions, VerifyReport, verify};
use crate::error::{AtPath as _, Error};
use crate::sample::SampleId;
use crate::source::beton::Allocation;
use crate::source::{Beton, Dataset, Source};
use std::ops::Range;

/// The number of times a finding occurred, and its first occurrence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding<T> {
    /// The number of occurrences.
    pub count: u64,
    /// The total bytes affected.
    pub bytes: u64,
    /// The first occurrence.
    pub first: Option<T>,
}

impl<T> Default for Finding<T> {
    fn default() -> Self {
        Self { count: 0, bytes: 0, first: None }
    }
}

impl<T> Finding<T> {
    fn add(&mut self, bytes: u64, found: T) {
        self.count += 1;
        self.bytes += bytes;
        self.first.get_or_insert(found);
    }
}

/// The result of comparing a file's tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LayoutReport {
    /// The number of records in the allocation table.
    pub records: u64,
    /// Bytes from the first page up to the allocation table.
    pub page_bytes: u64,
    /// Bytes that samples refer to, each counted once.
    pub value_bytes: u64,
    /// Records that overlap the previous record in the order of their pointers.
    pub overlapping: Finding<[Allocation; 2]>,
    /// Records outside the data.
    pub outside: Finding<Allocation>,
    /// Records of samples that do not exist.
    pub no_sample: Finding<Allocation>,
    /// Records that lie in two pages.
    pub across_pages: Finding<Allocation>,
    /// Samples whose values lie in several pages.
    pub several_pages: Finding<SampleId>,
    /// Samples that share bytes with a sample whose bytes begin at or before theirs: both samples.
    pub shared: Finding<[SampleId; 2]>,
    /// Records that no sample refers to.
    pub unreferenced: Finding<Allocation>,
}

impl LayoutReport {
    /// Returns whether no finding means damage.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.overlapping.count == 0 && self.outside.count == 0
    }
}

/// Checks a dataset as [`verify`] does and, if it is a `.beton` file, first its tables. `source` is the dataset's.
///
/// # Errors
///
/// If the allocation table can't be read, or the check fails.
pub fn verify_with_tables(
    dataset: &Dataset,
    source: &dyn Source,
    options: &VerifyOptions,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<VerifyReport, Error> {
    let tables = match dataset {
        Dataset::Beton(beton) => Some(layout(beton).at(&beton.facts().name)?),
        _ => None,
    };
    let mut report = verify(source, options, progress)?;
    report.tables = tables;
    Ok(report)
}

/// The bytes of one value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Extent {
    start: u64,
    end: u64,
    sample: SampleId,
}

/// Compares the tables of a file. Needs 24 bytes of memory for each record and for each value.
///
/// # Errors
///
/// If the allocation table can't be read.
pub fn layout(file: &Beton) -> Result<LayoutReport, Error> {
    let mut records = file.allocations()?;
    let mut layout = LayoutReport { records: records.len() as u64, ..LayoutReport::default() };
    let end = file.header().alloc_table_ptr;
    let start = file.header().data_start(file.row_bytes()).unwrap_or(end);
    layout.page_bytes = end.saturating_sub(start);
    // A value without bytes may have any pointer, because no bytes are stored for it.
    records.retain(|record| record.size > 0);
    records.sort_unstable_by_key(|record| (record.ptr, record.size, record.sample));
    check_records(&records, file, &mut layout);

    let mut extents = extents(file, &mut layout);
    extents.sort_unstable();
    check_extents(&extents, &mut layout);
    check_references(&records, &extents, &mut layout);
    Ok(layout)
}

fn check_records(records: &[Allocation], file: &Beton, layout: &mut LayoutReport) {
    let header = file.header();
    let data =
        header.sample_table_end(file.row_bytes()).unwrap_or(u64::MAX)..header.alloc_table_ptr;
    // The farthest-reaching record so far: a record inside it may be followed by another one inside it.
    let mut farthest: Option<&Allocation> = None;
    for record in records {
        let end = record.ptr.saturating_add(record.size);
        if record.ptr < data.start || end > data.end {
            layout.outside.add(record.size, *record);
        }
        if record.sample >= header.num_samples {
            layout.no_sample.add(record.size, *record);
        }
        if page(file, record.ptr) != page(file, end - 1) {
            layout.across_pages.add(record.size, *record);
        }
        if let Some(before) = farthest {
            let both = before.ptr.saturating_add(before.size).min(end).saturating_sub(record.ptr);
            let is_same = (before.ptr, before.size) == (record.ptr, record.size);
            if both > 0 && !is_same {
                layout.overlapping.add(both, [*before, *record]);
            }
        }
        let reaches = |record: &Allocation| record.ptr.saturating_add(record.size);
        if farthest.is_none_or(|before| reaches(before) < end) {
            farthest = Some(record);
        }
    }
}

/// Returns the byte ranges of the values of all samples; counts samples with values in several pages.
fn extents(file: &Beton, layout: &mut LayoutReport) -> Vec<Extent> {
    let mut all = vec![];
    let fields = file.fields().len();
    for sample in (0..file.len()).map(SampleId) {
        let first = all.len();
        for field in 0..fields {
            if let Some(Range { start, end }) = file.stored_at(sample, field) {
                all.push(Extent { start, end, sample });
            }
        }
        let own = &all[first..];
        let pages = own.iter().flat_map(|e| [page(file, e.start), page(file, e.end - 1)]);
        let mut pages: Vec<u64> = pages.collect();
        pages.dedup();
        if pages.len() > 1 {
            layout.several_pages.add(own.iter().map(|e| e.end - e.start).sum(), sample);
        }
    }
    all
}

fn check_extents(extents: &[Extent], layout: &mut LayoutReport) {
    let mut farthest: Option<Extent> = None;
    for extent in extents {
        let reached = farthest.map_or(0, |before| before.end);
        layout.value_bytes += extent.end.saturating_sub(extent.start.max(reached));
        if let Some(before) = farthest
            && before.end > extent.start
            && before.sample != extent.sample
        {
            let both = before.end.min(extent.end) - extent.start;
            layout.shared.add(both, [before.sample, extent.sample]);
        }
        if extent.end > reached {
            farthest = Some(*extent);
        }
    }
}

/// Counts records whose pointer is not the start of a value.
fn check_references(records: &[Allocation], extents: &[Extent], layout: &mut LayoutReport) {
    for record in records {
        let index = extents.partition_point(|extent| extent.start < record.ptr);
        if extents.get(index).is_none_or(|extent| extent.start != record.ptr) {
            layout.unreferenced.add(record.size, *record);
        }
    }
}

fn page(file: &Beton, offset: u64) -> u64 {
    offset / u64::from(file.header().page_size.max(1))
}
