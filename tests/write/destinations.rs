//! Destinations are local: an address is refused before anything is read or written.

use fuseloop::loader::Cache;
use fuseloop::source::{Folder, FolderOptions};
use fuseloop::write::{FieldValue, WriteOptions, convert, recut_folder, write_iter};
use fuseloop::{Error, ErrorKind, Loader};
use std::fs;
use std::path::Path;

#[test]
fn every_function_that_writes_refuses_an_address_before_it_reads() {
    let dir = tempfile::tempdir().unwrap();
    let photos = dir.path().join("photos/cat");
    fs::create_dir_all(&photos).unwrap();
    fs::write(photos.join("1.jpg"), [0xff, 0xd8]).unwrap();
    let folder = Folder::open(dir.path().join("photos"), &FolderOptions::default()).unwrap();
    let options = WriteOptions::default();
    let rows = || -> std::iter::Once<Vec<FieldValue>> { unreachable!("no sample is asked for") };
    let missing = "no/such/file.beton";
    for scheme in ["s3", "gs", "https", "hdfs", "file"] {
        let address = format!("{scheme}://bucket/x.beton");
        let out = &*address;
        let calls: Vec<(&str, Result<(), Error>)> = vec![
            (
                "write_iter",
                write_iter(std::iter::once_with(rows).flatten(), &[], out, &options).map(drop),
            ),
            ("convert", convert(&folder, out, &WriteOptions::default()).map(drop)),
            ("recut_folder", recut_folder(missing, out, &WriteOptions::default()).map(drop)),
        ];
        for (name, result) in calls {
            let error = result.err().unwrap_or_else(|| panic!("{name} wrote {address}"));
            assert_eq!(error.kind(), ErrorKind::Parameter, "{name}: {error}");
            let text = error.to_string();
            assert!(text.starts_with(&address), "{name}: {text}");
            assert!(text.contains("only local files and folders are written"), "{name}: {text}");
        }
        let error = folder.save_listing(out).unwrap_err().to_string();
        assert!(error.contains("only local files"), "{error}");
        let loader = Loader::open(dir.path().join("photos")).unwrap();
        let error = loader.cache(Cache::disk(out, 1 << 20)).build().unwrap_err().to_string();
        assert!(error.contains("only local files"), "{error}");
        assert!(!Path::new(&format!("{scheme}:")).exists());
    }
}
