//! What a cancelled write returns, and what it leaves behind: nothing.

use super::value::WriteSampleError;
use crate::cancel::CancelFlag;

/// # Errors
///
/// If the flag is set.
pub(super) fn check(cancel: &CancelFlag) -> Result<(), WriteSampleError> {
    if cancel.is_cancelled() { Err(WriteSampleError::Cancelled) } else { Ok(()) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends where it fails")]
mod tests {
    use super::*;
    use crate::error::{BoxError, Error, ErrorKind};
    use crate::source::{Beton, FieldKind, FieldSpec, Folder, FolderOptions, OpenOptions};
    use crate::write::{
        FieldValue, OnUnreadable, ProgressFn, WriteOptions, convert, recut_folder, try_write_iter,
        write_iter,
    };
    use std::fs;
    use std::path::Path;

    fn fields() -> [FieldSpec; 1] {
        [FieldSpec { name: "n".to_owned(), kind: FieldKind::Int }]
    }

    /// Returns a flag, and a function that sets it when the first sample is done.
    fn after_the_first() -> (CancelFlag, ProgressFn) {
        let cancel = CancelFlag::new();
        let flag = cancel.clone();
        (cancel, ProgressFn::new(move |_| flag.cancel()))
    }

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_cancelled_write_leaves_nothing_and_is_no_damage() {
        let dir = tempfile::tempdir().unwrap();
        for on_damaged in [OnUnreadable::Fail, OnUnreadable::Skip] {
            let (cancel, progress) = after_the_first();
            let flag = cancel.clone();
            let options = WriteOptions { cancel, progress, on_damaged, ..WriteOptions::default() };
            // Without end, if the flag did nothing.
            let rows = (0..).map(|n| Ok::<_, BoxError>(vec![FieldValue::Int(n)]));
            let error =
                try_write_iter(rows, &fields(), dir.path().join("x.beton"), &options).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
            assert!(error.to_string().ends_with("the write was cancelled"), "{error}");
            assert!(flag.is_cancelled() && names(dir.path()).is_empty());
        }
    }

    #[test]
    fn a_write_that_is_cancelled_at_its_very_end_does_not_appear() {
        let dir = tempfile::tempdir().unwrap();
        let (cancel, progress) = after_the_first();
        let options = WriteOptions { cancel, progress, ..WriteOptions::default() };
        let rows = [vec![FieldValue::Int(0)]];
        let error = write_iter(rows, &fields(), dir.path().join("x.beton"), &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
        assert_eq!(error.to_string(), "the write was cancelled");
        assert!(names(dir.path()).is_empty());
    }

    #[test]
    fn every_function_that_writes_can_be_cancelled() {
        let dir = tempfile::tempdir().unwrap();
        let src = dir.path().join("src.beton");
        let rows = (0..20_000).map(|n| vec![FieldValue::Int(n)]);
        write_iter(rows, &fields(), &src, &WriteOptions::default()).unwrap();
        let pictures = dir.path().join("pictures");
        fs::create_dir(&pictures).unwrap();
        for n in 0..200 {
            fs::write(pictures.join(format!("{n}.txt")), "text").unwrap();
        }
        let check = |what: &str, outcome: Result<(), Error>| {
            let error = outcome.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Cancelled, "{what}: {error}");
        };
        let beton = Beton::open(&src, &OpenOptions::default()).unwrap();
        let mut forms =
            vec!["x.beton", "x-{000}.tar", "x-{000}.tfrecord", "x-{0}.beton", "index.json"];
        forms.extend(cfg!(feature = "parquet").then_some("x-{000}.parquet"));
        for name in forms {
            let out = tempfile::tempdir().unwrap();
            let (cancel, progress) = after_the_first();
            let shards = name.ends_with("}.beton").then_some(2);
            let options = WriteOptions { cancel, progress, shards, ..WriteOptions::default() };
            check(name, convert(&beton, out.path().join(name), &options).map(drop));
            assert!(names(out.path()).is_empty(), "{name}: {:?}", names(out.path()));
        }
        let (cancel, progress) = after_the_first();
        let options = WriteOptions { cancel, progress, ..WriteOptions::default() };
        check("folder", recut_folder(&pictures, dir.path().join("copy"), &options).map(drop));
        assert!(names(&dir.path().join("copy")).len() < 200);
        assert_eq!(names(dir.path()), ["copy", "pictures", "src.beton"]);
    }

    #[test]
    fn a_folder_is_not_listed_to_its_end_by_a_write_that_is_cancelled() {
        let dir = tempfile::tempdir().unwrap();
        let pictures = dir.path().join("pictures");
        fs::create_dir_all(pictures.join("a")).unwrap();
        fs::write(pictures.join("a/1.jpg"), "").unwrap();
        let cancel = CancelFlag::new();
        cancel.cancel();
        let options = FolderOptions::default().cancel(cancel.clone());
        let listed = "the listing was cancelled";
        let error = Folder::open(&pictures, &options).map(drop).unwrap_err();
        assert_eq!((error.kind(), &*error.to_string()), (ErrorKind::Cancelled, listed));
        let options = WriteOptions { cancel, ..WriteOptions::default() };
        let error = recut_folder(&pictures, dir.path().join("copy"), &options).unwrap_err();
        assert_eq!((error.kind(), &*error.to_string()), (ErrorKind::Cancelled, listed));
        assert_eq!(names(dir.path()), ["pictures"]);
    }
}
