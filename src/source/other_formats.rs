//! Files of other formats, by their first bytes or by their names: for the error of a name that opens no dataset.
//!
//! | found                                | what to do                                            |
//! |--------------------------------------|-------------------------------------------------------|
//! | packed with xz, bzip2 or lz4         | unpack it, or pack it with gzip or zstd                |
//! | a ZIP, 7z or RAR archive             | unpack it and open the folder                         |
//! | a tar archive under another name     | call it .tar                                          |
//! | arrays, tables and checkpoints       | write the samples to a .beton file, or give them from Python |
//! | a picture or a video in a format that is not read | convert it                              |
//! | JSON that is not COCO's              | a table of JSON lines                                 |
//! | YAML, as YOLO has beside its folders | the folder of the images                              |
//! | XML, as of Pascal VOC                | the folder of the dataset                             |

use super::image_format::format_name;
use super::{ReadAt as _, file_pool, video_format};
use std::path::Path;

/// The bytes at the beginning of a file that tell its format.
const FIRST: usize = 512;

const PACKED: &str = "unpack it, or pack it with gzip (.tar.gz) or zstd (.tar.zst)";
const ARCHIVE: &str = "unpack it and open the folder";
const SAMPLES: &str = "write its samples to a .beton file, or give them as a dataset of Python";

/// Returns what a file is and what to do with it; `None` if nothing is known of it. `path` may be an address.
pub(super) fn what_to_do(path: &Path) -> Option<String> {
    let name = path.to_string_lossy().to_ascii_lowercase();
    let first = first_bytes(path).unwrap_or_default();
    let (what, advice) = by_bytes(&first, &name).or_else(|| by_name(&name))?;
    Some(format!("it is {what}: {advice}"))
}

fn first_bytes(path: &Path) -> Option<Vec<u8>> {
    let is_file = std::fs::metadata(path).ok()?.is_file();
    let file = is_file.then(|| file_pool::open(path).ok()).flatten()?;
    let mut bytes = vec![0; FIRST];
    let count = file.read_at(&mut bytes, 0).ok()?;
    bytes.truncate(count);
    Some(bytes)
}

fn by_bytes(first: &[u8], name: &str) -> Option<(&'static str, &'static str)> {
    let begins = |magic: &[u8]| first.starts_with(magic);
    Some(match () {
        () if first.is_empty() => return None,
        () if begins(b"\xfd7zXZ\0") => ("packed with xz", PACKED),
        () if begins(b"BZh") => ("packed with bzip2", PACKED),
        () if begins(b"\x04\x22\x4d\x18") => ("packed with lz4", PACKED),
        () if begins(b"\x1f\x8b") || begins(b"\x28\xb5\x2f\xfd") => (
            "packed with gzip or zstd",
            "if it is a tar archive or a TFRecord file, its name must end so (.tar.gz, .tar.zst, .tfrecord.gz)",
        ),
        () if first.get(257..262) == Some(b"ustar") => {
            ("a tar archive", "its name must end in .tar")
        }
        () if begins(b"\x93NUMPY") => ("an array of NumPy", SAMPLES),
        () if begins(b"PK\x03\x04") => {
            return Some(by_name(name).unwrap_or(("a ZIP archive", ARCHIVE)));
        }
        () if begins(b"7z\xbc\xaf\x27\x1c") => ("a 7z archive", ARCHIVE),
        () if begins(b"Rar!") => ("a RAR archive", ARCHIVE),
        () if begins(b"\x89HDF") => ("an HDF5 file", SAMPLES),
        () if begins(b"PAR1") => ("a Parquet file", "its name must end in .parquet"),
        () if begins(b"ARROW1") => ("an Arrow file", SAMPLES),
        () if begins(b"\x80") && first.get(1).is_some_and(|version| (2..=5).contains(version)) => {
            ("a pickle of Python, which is never loaded", SAMPLES)
        }
        () if let Some(picture) = format_name(first)
            && !begins(b"<") =>
        {
            (picture, "a dataset is a folder, a pattern or a table of images")
        }
        () if [&b"{"[..], b"[", b"\xef\xbb\xbf{"].into_iter().any(begins) => (
            "JSON, but no file of COCO, which has `images` and `annotations`",
            "a table of JSON lines (.jsonl) has an object with the path of an image on each line",
        ),
        () => return None,
    })
}

fn by_name(name: &str) -> Option<(&'static str, &'static str)> {
    let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
    Some(match () {
        () if ends(&[".xz", ".txz"]) => ("packed with xz", PACKED),
        () if ends(&[".bz2", ".tbz", ".tbz2"]) => ("packed with bzip2", PACKED),
        () if ends(&[".tar.lz4"]) => ("packed with lz4", PACKED),
        () if ends(&[".npy"]) => ("an array of NumPy", SAMPLES),
        () if ends(&[".npz"]) => ("an archive of NumPy's arrays", SAMPLES),
        () if ends(&[".pt", ".pth"]) => ("a file of PyTorch", SAMPLES),
        () if ends(&[".xlsx"]) => ("a table of Excel", "save it as .csv"),
        () if ends(&[".zip"]) => ("a ZIP archive", ARCHIVE),
        () if ends(&[".h5", ".hdf5"]) => ("an HDF5 file", SAMPLES),
        () if ends(&[".mdb", ".lmdb"]) => ("a file of LMDB", SAMPLES),
        () if ends(&[".yaml", ".yml"]) => (
            "YAML, which describes a dataset of YOLO",
            "open the folder of a split, which has `images` and `labels`, or `images/SPLIT` next to `labels/SPLIT`",
        ),
        () if video_format::is_unread_video(name.rsplit('.').next().unwrap_or_default()) => (
            "a video file of a format that is not read, which AVI, MP4, M4V, MOV, Matroska and WebM are",
            "convert it, as by `ffmpeg -i in.ts out.mp4`",
        ),
        () if ends(&[".xml"]) => (
            "XML, such as the annotations of an image of Pascal VOC",
            "open the folder of the dataset, which has `JPEGImages` and `Annotations`",
        ),
        () => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_by_its_bytes_or_else_by_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let mut tar = vec![0; 512];
        tar[257..262].copy_from_slice(b"ustar");
        for (name, bytes, want) in [
            (
                "a.tar.xz",
                &b"\xfd7zXZ\0\0"[..],
                Some("it is packed with xz: unpack it, or pack it with gzip"),
            ),
            ("a", b"BZh9", Some("it is packed with bzip2: unpack it")),
            ("a.npy", b"\x93NUMPY\x01\0", Some("it is an array of NumPy: write its samples")),
            ("a.npz", b"PK\x03\x04", Some("it is an archive of NumPy's arrays: ")),
            ("a.pt", b"PK\x03\x04", Some("it is a file of PyTorch: ")),
            ("a.zip", b"PK\x03\x04", Some("it is a ZIP archive: unpack it and open the folder")),
            ("shard", &tar, Some("it is a tar archive: its name must end in .tar")),
            ("a.gif", b"GIF89a", Some("it is a GIF: a dataset is a folder")),
            ("a.json", b"{\"a\": 1}", Some("it is JSON, but no file of COCO")),
            ("a.pkl", b"\x80\x04\x95", Some("it is a pickle of Python, which is never loaded")),
            ("a.h5", b"", Some("it is an HDF5 file")),
            ("a.ts", b"\x47\x40\x11\x10", Some("it is a video file of a format that is not read")),
            (
                "data.yaml",
                b"train: images/train",
                Some("it is YAML, which describes a dataset of YOLO: open the folder"),
            ),
            (
                "1.xml",
                b"<annotation>",
                Some("it is XML, such as the annotations of an image of Pascal VOC: open"),
            ),
            ("a.txt", b"hello", None),
        ] {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            let found = what_to_do(&path);
            assert_eq!(found.is_some(), want.is_some(), "{name}: {found:?}");
            assert!(want.is_none_or(|want| found.as_ref().unwrap().starts_with(want)), "{found:?}");
        }
        let found = what_to_do(Path::new("s3://bucket/x.tar.bz2")).unwrap();
        assert!(found.starts_with("it is packed with bzip2"), "{found}");
    }
}
