//! The report of a check as text for people, and as JSON.

use super::layout::{Finding, LayoutReport};
use super::report::{DamagedValue, DegenerateObject, VerifyReport};
use crate::amounts::{bytes, count, counted};
use crate::escape::Escaped;
use crate::source::SampleLocation;
use crate::source::beton::Allocation;
use serde_json::{Value, json};
use std::fmt::{self, Display};

/// The most damaged values, and the most degenerate objects, that are listed in text.
const LISTED: usize = 50;

/// Writes the counts, a line for each kind of damage, the first damaged values, and notes about what is no damage.
impl Display for VerifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} checked", counted(self.samples, "sample"))?;
        if self.samples < self.of_samples {
            write!(f, " of {}", count(self.of_samples))?;
        }
        let decoded = [
            (self.pictures, "image"),
            (self.audio_files, "audio file"),
            (self.video_files, "video file"),
        ];
        let mut decoded: Vec<_> = decoded.iter().filter(|(files, _)| *files > 0).collect();
        if decoded.is_empty() {
            decoded.push(&(0, "image"));
        }
        let decoded: Vec<_> = decoded.into_iter().map(|(n, noun)| counted(*n, noun)).collect();
        let decoded = decoded.join(" and ");
        let values = counted(self.values, "value");
        writeln!(f, "\n{values}, {} read, {decoded} decoded", bytes(self.bytes))?;
        if self.is_whole() {
            writeln!(f, "no damage found")?;
        }
        if self.damaged_samples > 0 {
            let samples = counted(self.damaged_samples, "damaged sample");
            writeln!(f, "\n{samples}, {}:", counted(self.damaged_values(), "damaged value"))?;
            for (kind, found) in &self.troubles {
                writeln!(f, "  {kind}: {}", count(*found))?;
            }
            writeln!(f)?;
            list(f, &self.first, self.damaged_values())?;
        }
        for (field, found) in &self.undecoded_videos {
            let values = counted(*found, "value");
            let begin =
                if *found == 1 { "begins as a video file does" } else { "begin as video files do" };
            writeln!(
                f,
                "note: {values} of {0} {begin}, not decoded: if {0} has video files, name it by `video`",
                Escaped(field)
            )?;
        }
        for (kind, found) in &self.degenerate {
            writeln!(f, "note: {kind}: {}", count(*found))?;
        }
        list(f, &self.first_degenerate, self.degenerate.values().sum())?;
        self.tables.as_ref().map_or(Ok(()), |tables| write_tables(f, tables))
    }
}

/// Lists the first of `all` damaged values or degenerate objects.
fn list(f: &mut fmt::Formatter<'_>, first: &[impl Display], all: u64) -> fmt::Result {
    for one in first.iter().take(LISTED) {
        writeln!(f, "  {}", Escaped(&one.to_string()))?;
    }
    match all.saturating_sub(LISTED as u64) {
        0 => Ok(()),
        more => writeln!(f, "  and {} more (`VerifyReport` lists up to 1,000)", count(more)),
    }
}

fn write_tables(f: &mut fmt::Formatter<'_>, tables: &LayoutReport) -> fmt::Result {
    let at = |record: &Allocation| format!("at byte {}", record.ptr);
    let lines = [
        line(
            "damaged: overlapping records of the allocation table",
            &tables.overlapping,
            |[_, record]| at(record),
        ),
        line("damaged: records of the allocation table outside the data", &tables.outside, at),
        line("note: records of missing samples", &tables.no_sample, at),
        line(
            "note: values in two pages, which FFCV can't read with `os_cache=False`",
            &tables.across_pages,
            at,
        ),
        line(
            "note: samples in several pages, which FFCV can't read with `os_cache=False`",
            &tables.several_pages,
            |sample| format!("is sample {sample}"),
        ),
        line("note: values shared by several samples", &tables.shared, |[a, b]| {
            format!("of samples {a} and {b}")
        }),
        line("note: records that no sample refers to", &tables.unreferenced, at),
    ];
    lines.iter().flatten().try_for_each(|line| f.write_str(line))
}

/// Returns a line such as `note: records that no sample refers to: 3, 12.1 kB, the first at byte 8192`.
fn line<T>(what: &str, finding: &Finding<T>, first: impl Fn(&T) -> String) -> Option<String> {
    let location = first(finding.first.as_ref()?);
    let (found, size) = (count(finding.count), bytes(finding.bytes));
    Some(format!("{what}: {found}, {size}, the first {location}\n"))
}

/// Returns a report as JSON, without the list of intact samples.
#[must_use]
pub fn report_json(report: &VerifyReport) -> Value {
    let kinds = report.troubles.iter().map(|(kind, &found)| (kind.word(), found));
    let degenerate = report.degenerate.iter().map(|(kind, &found)| (kind.word(), found));
    json!({
        "is_whole": report.is_whole(),
        "samples": report.samples,
        "of_samples": report.of_samples,
        "values": report.values,
        "images": report.pictures,
        "pixels": report.pixels,
        "audio_files": report.audio_files,
        "video_files": report.video_files,
        "bytes": report.bytes,
        "damaged_samples": report.damaged_samples,
        "damaged_values": report.damaged_values(),
        "undecoded_videos": report.undecoded_videos,
        "kinds": kinds.collect::<Value>(),
        "damaged": report.first.iter().map(damaged_json).collect::<Value>(),
        "degenerate_kinds": degenerate.collect::<Value>(),
        "degenerate": report.first_degenerate.iter().map(object_json).collect::<Value>(),
        "tables": report.tables.as_ref().map(tables_json),
    })
}

fn damaged_json(damaged: &DamagedValue) -> Value {
    let (path, key) = path_and_key(damaged.location.as_ref());
    json!({
        "sample": damaged.sample.0,
        "field": damaged.field,
        "kind": damaged.kind.word(),
        "path": path,
        "key": key,
        "offset": damaged.offset,
        "error": damaged.error,
        "text": damaged.to_string(),
    })
}

fn object_json(object: &DegenerateObject) -> Value {
    let (path, key) = path_and_key(object.location.as_ref());
    json!({
        "sample": object.sample.0,
        "field": object.field,
        "object": object.object,
        "annotation": object.annotation,
        "kind": object.kind.word(),
        "path": path,
        "key": key,
        "text": object.to_string(),
    })
}

fn path_and_key(location: Option<&SampleLocation>) -> (Option<&str>, Option<&str>) {
    location.map_or((None, None), |location| (location.file.as_deref(), location.key.as_deref()))
}

fn tables_json(tables: &LayoutReport) -> Value {
    fn found<T>(finding: &Finding<T>, first: impl Fn(&T) -> Value) -> Value {
        let first = finding.first.as_ref().map(first);
        json!({ "count": finding.count, "bytes": finding.bytes, "first": first })
    }
    let record = |record: &Allocation| json!({ "sample": record.sample, "offset": record.ptr, "bytes": record.size });
    json!({
        "records": tables.records,
        "page_bytes": tables.page_bytes,
        "value_bytes": tables.value_bytes,
        "overlapping": found(&tables.overlapping, |[a, b]| json!([record(a), record(b)])),
        "outside": found(&tables.outside, record),
        "no_sample": found(&tables.no_sample, record),
        "across_pages": found(&tables.across_pages, record),
        "several_pages": found(&tables.several_pages, |sample| json!(sample.0)),
        "shared": found(&tables.shared, |[a, b]| json!([a.0, b.0])),
        "unreferenced": found(&tables.unreferenced, record),
    })
}
