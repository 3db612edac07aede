//! Concatenates, splits and selects from `.beton` files.
//!
//! ```text
//! concat   a.beton b.beton         -> one file: all samples of a, then all of b
//! split    a.beton                 -> several files of consecutive samples
//! subset   a.beton, samples        -> one file: the given samples, in the given order
//! ```
//!
//! Values are copied byte for byte, without decoding. Class names are copied too, and what the fields of
//! objects are; files whose class names contradict each other are refused. The new file has the first
//! one's fields and the largest page size of all. User-defined fields are refused when the file is opened,
//! because their rows may point to offsets that have moved.

use super::atomic_file::{check_free, check_local, check_replaceable};
use super::beside::Beside;
use super::beside::refuse_input;
use super::beton::stored_values;
use super::convert::refuse_others;
use super::shards::Template;
use super::step::{StepObserver, unwatched};
use super::{FieldValue, FileRequest, ImageOptions, WriteOptions, WriteReport, write_jobs};
use crate::error::{Error, fail};
use crate::sample::{Limits, SampleId};
use crate::source::{Beton, Escaped, FieldSpec};
use crate::write::value::WriteSampleError;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Writes one `.beton` with the samples of all `paths`, one file after another.
///
/// Their fields must be the same: names, kinds, order. Two of the `options` are ignored: images are
/// copied as stored, and the page size is the largest of the inputs'. With
/// [`OnUnreadable::Skip`](super::OnUnreadable), samples that can't be read are left out.
///
/// # Errors
///
/// If a file can't be read or written, or if `out` exists and [`WriteOptions::overwrite`] is not set. `out` is then
/// unchanged, unless only its class names could not be written.
pub fn concat_beton(
    paths: &[impl AsRef<Path>],
    out: impl AsRef<Path>,
    options: &WriteOptions,
) -> Result<WriteReport, Error> {
    let paths: Vec<&Path> = paths.iter().map(AsRef::as_ref).collect();
    paths.iter().try_for_each(|path| refuse_input(path, out.as_ref()))?;
    check_free(out.as_ref(), options.overwrite)?;
    let beside = beside_all(&paths, &options.limits)?;
    let report = concat(&paths, out.as_ref(), options, &unwatched)?;
    beside.put(out.as_ref(), &unwatched)?;
    Ok(report)
}

/// Merges what is known of all files: the class names, if all have some, and what the fields of objects
/// are, if all say the same.
fn beside_all(paths: &[&Path], limits: &Limits) -> Result<Beside, Error> {
    let mut all: Option<Beside> = None;
    for path in paths {
        let more = Beside::of(&Beton::open(path, &(*limits).into())?)?;
        let Some(before) = all else {
            all = Some(more);
            continue;
        };
        let classes = before.classes.zip(more.classes).map(|(names, more)| names.merged(more));
        let differ =
            "a class has another name in an earlier file: the same number must mean the same class";
        if let Some(None) = classes {
            let (path, reason) = (path.to_path_buf(), differ.to_owned());
            return Err(fail!(Parameter, "{path:?}: {reason}").named_path(path));
        }
        let objects = before.objects.filter(|objects| more.objects.as_ref() == Some(objects));
        all = Some(Beside { classes: classes.flatten(), objects });
    }
    Ok(all.unwrap_or_default())
}

/// Does the work of [`concat_beton`]; each step is shown to `watch`.
pub(super) fn concat(
    paths: &[&Path],
    out: &Path,
    options: &WriteOptions,
    watch: StepObserver<'_>,
) -> Result<WriteReport, Error> {
    let mut files = Vec::with_capacity(paths.len());
    for path in paths {
        refuse_input(path, out)?;
        files.push(Beton::open(path, &options.limits.into())?);
    }
    let Some(first) = files.first() else {
        return Err(fail!(Parameter, "no files to concatenate"));
    };
    for (path, file) in paths.iter().zip(&files) {
        check_same_fields(paths[0], first.fields(), path, file.fields())?;
    }
    let samples = files.iter().flat_map(|file| file.samples().map(move |id| (file, id)));
    let count = files.iter().map(Beton::len).fold(0, u64::saturating_add);
    let page_size = files.iter().map(|file| file.header().page_size).max();
    write_picked(samples, count, first.fields(), page_size, out, options, watch)
}

/// Writes one `.beton` with some samples of another, in the given order. A sample that is given twice is
/// written twice.
///
/// # Errors
///
/// If a file can't be read or written, or if `out` exists and [`WriteOptions::overwrite`] is not set. `out` is then
/// unchanged, unless only its class names could not be written.
pub fn subset_beton(
    src: impl AsRef<Path>,
    samples: &[u64],
    out: impl AsRef<Path>,
    options: &WriteOptions,
) -> Result<WriteReport, Error> {
    subset(src.as_ref(), samples, out.as_ref(), options)
}

fn subset(
    src: &Path,
    samples: &[u64],
    out: &Path,
    options: &WriteOptions,
) -> Result<WriteReport, Error> {
    refuse_input(src, out)?;
    check_free(out, options.overwrite)?;
    let file = Beton::open(src, &options.limits.into())?;
    if let Some(sample) = samples.iter().find(|&&sample| sample >= file.len()) {
        let reason = format!("sample {sample} does not exist: the file has {} samples", file.len());
        return Err(fail!(Parameter, "{src:?}: {reason}").named_path(src));
    }
    let picked = samples.iter().map(|&sample| (&file, SampleId(sample)));
    let (count, page) = (samples.len() as u64, Some(file.header().page_size));
    let beside = Beside::of(&file)?;
    let report = write_picked(picked, count, file.fields(), page, out, options, &unwatched)?;
    beside.put(out, &unwatched)?;
    Ok(report)
}

/// How a file is split.
#[derive(Debug, Clone, PartialEq)]
pub enum Split {
    /// The number of files. Their sample counts differ by at most one.
    Parts(u64),
    /// The shares of the files, which add up to at most 1. Any remainder becomes one more file: `[0.9]`
    /// produces nine tenths and one tenth.
    At(Vec<f64>),
}

/// Splits a `.beton` into several files of consecutive samples. `train-{000}.beton` is a template for
/// their names. Returns the paths and reports of the files.
///
/// # Errors
///
/// If a file can't be read or written, or exists and [`WriteOptions::overwrite`] is not set. Files that were complete
/// by then stay.
pub fn split_beton(
    src: impl AsRef<Path>,
    split: &Split,
    template: impl AsRef<Path>,
    options: &WriteOptions,
) -> Result<Vec<(PathBuf, WriteReport)>, Error> {
    write_parts(src.as_ref(), split, template.as_ref(), options)
}

fn write_parts(
    src: &Path,
    split: &Split,
    template: &Path,
    options: &WriteOptions,
) -> Result<Vec<(PathBuf, WriteReport)>, Error> {
    check_local(template)?;
    let template = Template::parse(template)?;
    let file = Beton::open(src, &options.limits.into())?;
    let parts = split.ranges(file.len())?;
    if parts.len() > 1 && !template.has_number() {
        let reason = "the name has no number for several files: train-{000}.beton";
        return Err(fail!(Parameter, "{reason}"));
    }
    let outs: Vec<PathBuf> =
        (0..).zip(&parts).map(|(k, _)| template.path(k, parts.len() as u64)).collect();
    for out in &outs {
        refuse_input(src, out)?;
        check_replaceable(out)?;
        check_free(out, options.overwrite)?;
    }
    if template.has_number() {
        refuse_others(&template, &outs)?;
    }
    let page_size = Some(file.header().page_size);
    let beside = Beside::of(&file)?;
    let write = |(part, out): (Range<u64>, PathBuf)| {
        let count = part.end - part.start;
        let picked = part.map(|sample| (&file, SampleId(sample)));
        let fields = file.fields();
        let report = write_picked(picked, count, fields, page_size, &out, options, &unwatched)?;
        beside.put(&out, &unwatched)?;
        Ok((out, report))
    };
    parts.into_iter().zip(outs).map(write).collect()
}

impl Split {
    /// Returns the range of samples of each file.
    fn ranges(&self, samples: u64) -> Result<Vec<Range<u64>>, Error> {
        let refused = |reason: &str| Err(fail!(Parameter, "{reason}"));
        let ends: Vec<u64> = match self {
            Self::Parts(0) => return refused("0 parts requested, expected at least 1"),
            Self::Parts(parts) if *parts > samples.max(1) => {
                return refused("more parts than samples");
            }
            Self::Parts(parts) => {
                let share = |k: u64| u128::from(k) * u128::from(samples) / u128::from(*parts);
                // At most `samples`.
                (1..=*parts).map(|k| share(k) as u64).collect()
            }
            Self::At(shares) => {
                let is_share = |share: &f64| *share > 0.0 && *share <= 1.0;
                let sum: f64 = shares.iter().sum();
                if shares.is_empty() || !shares.iter().all(is_share) || sum > 1.0 + 1e-9 {
                    return refused("each share must be above 0, and their sum at most 1");
                }
                share_ends(shares, samples)
            }
        };
        let starts = [0].into_iter().chain(ends.iter().copied());
        Ok(starts.zip(&ends).map(|(start, &end)| start..end).collect())
    }
}

/// Returns the end of each share of the samples, including the remainder's.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share is rounded to whole samples, `as` saturates"
)]
fn share_ends(shares: &[f64], samples: u64) -> Vec<u64> {
    let sums = shares.iter().scan(0.0, |sum, share| {
        *sum += share;
        Some(*sum)
    });
    let mut ends: Vec<u64> =
        sums.map(|sum| ((sum * samples as f64).round() as u64).min(samples)).collect();
    let sum: f64 = shares.iter().sum();
    if sum < 1.0 - 1e-9 {
        ends.push(samples);
    } else if let Some(last) = ends.last_mut() {
        *last = samples;
    }
    ends
}

/// Copies samples of open files as they are stored.
fn write_picked<'a>(
    picked: impl Iterator<Item = (&'a Beton, SampleId)>,
    count: u64,
    fields: &[FieldSpec],
    page_size: Option<u32>,
    out: &Path,
    options: &WriteOptions,
    watch: StepObserver<'_>,
) -> Result<WriteReport, Error> {
    let options = WriteOptions { page_size, ..options.copying(ImageOptions::default()) };
    let row = |_, (file, id): (&Beton, SampleId)| row(file, id);
    let request = FileRequest { fields, out, options: &options, is_part: true };
    write_jobs(picked, |_| 0, row, Some(count), request, &watch)
}

/// Reads a sample's values, to be written as they are stored.
fn row(file: &Beton, id: SampleId) -> Result<Vec<FieldValue>, WriteSampleError> {
    stored_values(file, id).map_err(|error| {
        let from = file.shown();
        let from = from.display();
        WriteSampleError::Source(format!("{from}, sample {id}: {error}").into())
    })
}

fn check_same_fields(
    first: &Path,
    wanted: &[FieldSpec],
    path: &Path,
    found: &[FieldSpec],
) -> Result<(), Error> {
    if wanted == found {
        return Ok(());
    }
    let differs = wanted.iter().zip(found).find(|(wanted, found)| wanted != found);
    let reason = match differs {
        Some((wanted, found)) => {
            let words = |field: &FieldSpec| {
                format!("field {:?}, {}", Escaped(&field.name).to_string(), field.kind.described())
            };
            format!("{}, expected {}", words(found), words(wanted))
        }
        None => format!("{} fields, expected {}", found.len(), wanted.len()),
    };
    Err(fail!(Field, "{path:?} has other fields than {first:?}: {reason}").named_path(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::recut::Tile;
    use crate::source::Source;
    use crate::source::{FieldKind, ImageMode, OwnedImage, OwnedValue};
    use crate::write::{ImageInput, ImageOptions, WriteMode, write_iter};
    use std::fs;

    /// Writes a file of `count` samples from `first` on; every third image is raw.
    fn file(dir: &Path, name: &str, first: i64, count: i64, page_size: u32) -> PathBuf {
        let field = |name: &str, kind| FieldSpec { name: name.to_owned(), kind };
        let fields = [field("i", FieldKind::Int), field("p", FieldKind::RgbImage)];
        let rows = (first..first + count).map(|n| {
            let image = if n % 3 == 0 {
                OwnedImage::rgb((4, 3), vec![n as u8; 36])
            } else {
                let bytes = vec![0xff; 20 + n as usize];
                OwnedImage { width: 9, height: 9, mode: ImageMode::Jpeg, bytes }
            };
            vec![FieldValue::Int(n), FieldValue::Image(ImageInput::Stored(image))]
        });
        let path = dir.join(name);
        let options = WriteOptions { page_size: Some(page_size), ..WriteOptions::default() };
        write_iter(rows, &fields, &path, &options).unwrap();
        path
    }

    fn read(path: &Path) -> Vec<Vec<OwnedValue>> {
        let beton = Beton::open(path, &Limits::SMALL.into()).unwrap();
        beton.samples().map(|id| Source::read(&beton, id).unwrap()).collect()
    }

    /// Options that would change the images if they were not ignored.
    fn options() -> WriteOptions {
        let image = ImageOptions {
            write_mode: WriteMode::Raw,
            tile: Some(Tile::default()),
            ..ImageOptions::default()
        };
        WriteOptions { image, page_size: Some(4096), overwrite: true, ..WriteOptions::default() }
    }

    #[test]
    fn what_is_split_and_put_together_is_the_same_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let src = file(dir.path(), "a.beton", 0, 50, 8192);
        for (split, sizes) in [
            (Split::Parts(4), vec![12, 13, 12, 13]),
            (Split::At(vec![0.9]), vec![45, 5]),
            (Split::At(vec![0.5, 0.5]), vec![25, 25]),
            (Split::At(vec![0.3, 0.01]), vec![15, 1, 34]),
        ] {
            let template = path(&format!("part-of-{}-{{00}}.beton", sizes.len()));
            let parts = split_beton(&src, &split, &template, &options()).unwrap();
            let found: Vec<u64> = parts.iter().map(|(_, report)| report.samples).collect();
            assert_eq!(found, sizes);
            let paths: Vec<PathBuf> = parts.into_iter().map(|(path, _)| path).collect();
            concat_beton(&paths, path("b.beton"), &options()).unwrap();
            assert!(fs::read(path("b.beton")).unwrap() == fs::read(&src).unwrap());
        }
        let keep = WriteOptions { overwrite: false, ..options() };
        let error = split_beton(&src, &Split::Parts(2), path("part-of-2-{00}.beton"), &keep);
        assert_eq!(error.unwrap_err().kind(), ErrorKind::AlreadyExists);
        let error = concat_beton(&[&src], path("b.beton"), &keep).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert!(error.to_string().contains("set `overwrite: true`"), "{error}");
        let error = subset_beton(&src, &[0], path("b.beton"), &keep).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    }

    #[test]
    fn values_of_files_are_put_together_as_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("c.beton");
        let (a, b) = (file(dir.path(), "a", 0, 7, 4096), file(dir.path(), "b", 7, 9, 16384));
        let empty = file(dir.path(), "e", 0, 0, 4096);
        concat_beton(&[&a, &empty, &b], &out, &options()).unwrap();
        assert_eq!(read(&out), [read(&a), read(&b)].concat());
        assert_eq!(Beton::open(&out, &Limits::SMALL.into()).unwrap().header().page_size, 16384);
    }

    #[test]
    fn some_samples_are_taken_in_the_order_named() {
        let dir = tempfile::tempdir().unwrap();
        let (src, out) = (file(dir.path(), "a", 0, 9, 4096), dir.path().join("b"));
        subset_beton(&src, &[8, 0, 3, 3], &out, &options()).unwrap();
        let all = read(&src);
        let want: Vec<_> = [8, 0, 3, 3].map(|n: usize| all[n].clone()).into();
        assert_eq!(read(&out), want);
        let error = subset_beton(&src, &[9], &out, &options()).unwrap_err().to_string();
        assert!(error.ends_with("sample 9 does not exist: the file has 9 samples"), "{error}");
        assert_eq!(read(&out), want, "the old file stays");
    }

    #[test]
    fn files_that_do_not_go_together_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (file(dir.path(), "a", 0, 3, 4096), dir.path().join("b"));
        let fields = [FieldSpec { name: "i".to_owned(), kind: FieldKind::Int }];
        write_iter([vec![FieldValue::Int(1)]], &fields, &b, &options()).unwrap();
        let out = dir.path().join("c");
        let message = |files: &[&PathBuf], out: &Path| {
            concat_beton(files, out, &options()).unwrap_err().to_string()
        };
        assert!(message(&[&a, &b], &out).ends_with("1 fields, expected 2"));
        assert!(message(&[&a, &a], &a).contains("is an input of this command"));
        let beside = dir.path().join("a.classes.json");
        assert!(message(&[&a, &a], &beside).contains("is an input of this command"));
        assert!(!beside.exists());
        assert!(message(&[], &out).contains("no files"));
        assert!(!out.exists());
        let split = |split, name| split_beton(&a, &split, dir.path().join(name), &options());
        for (how, name) in [
            (Split::Parts(0), "x-{0}"),
            (Split::Parts(4), "x-{0}"),
            (Split::Parts(2), "x"),
            (Split::At(vec![]), "x-{0}"),
            (Split::At(vec![0.5, 0.6]), "x-{0}"),
            (Split::At(vec![f64::NAN]), "x-{0}"),
            (Split::At(vec![-0.1]), "x-{0}"),
        ] {
            assert!(split(how.clone(), name).is_err(), "{how:?}");
        }
        split(Split::Parts(3), "y-{0}").unwrap();
        let again = WriteOptions { overwrite: true, ..options() };
        let fewer = split_beton(&a, &Split::Parts(2), dir.path().join("y-{0}"), &again);
        let error = fewer.unwrap_err().to_string();
        assert!(
            error.contains("y-2\": readers would take it for another of the 2 new files"),
            "{error}"
        );
    }
}
