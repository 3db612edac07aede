//! The command, run as a user runs it, on a small dataset.

use jpeg_encoder::{ColorType, Encoder};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Runs the command in a folder.
pub(crate) fn fuseloop(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fuseloop"));
    command.args(args).current_dir(dir).output().unwrap()
}

/// Runs the command and returns its stdout.
pub(crate) fn stdout_of(dir: &Path, args: &[&str]) -> String {
    let output = fuseloop(dir, args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {:?}\n{errors}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// Runs the command and returns its exit code and its stderr.
pub(crate) fn refused(dir: &Path, args: &[&str]) -> (i32, String) {
    let output = fuseloop(dir, args);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.stdout.is_empty(), "{args:?}: {}", String::from_utf8_lossy(&output.stdout));
    (output.status.code().unwrap(), errors)
}

pub(crate) fn jpeg(width: u16, height: u16, seed: usize) -> Vec<u8> {
    let shade = |i: usize| ((i * (3 + seed) / 64) % 256) as u8;
    let pixels: Vec<u8> = (0..usize::from(width) * usize::from(height) * 3).map(shade).collect();
    let mut out = vec![];
    Encoder::new(&mut out, 90).encode(&pixels, width, height, ColorType::Rgb).unwrap();
    out
}

/// A folder of two classes: six JPEGs of different sizes and a text file.
pub(crate) fn folder(dir: &Path) -> PathBuf {
    let folder = dir.join("photos");
    for (class, k) in [("cat", 0), ("cat", 1), ("cat", 2), ("dog", 3), ("dog", 4), ("dog", 5)] {
        fs::create_dir_all(folder.join(class)).unwrap();
        let size = 40 + 10 * k as u16;
        fs::write(folder.join(class).join(format!("{k}.jpg")), jpeg(size + 7, size, k)).unwrap();
    }
    fs::write(folder.join("cat/notes.txt"), "not a picture").unwrap();
    folder
}

/// A temporary folder with `photos.beton` in it.
pub(crate) fn dataset() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    folder(dir.path());
    stdout_of(dir.path(), &["write", "photos", "photos.beton"]);
    dir
}

/// The type, shape and elements of a `.npy` file, read by its specification.
pub(crate) fn npy(path: &Path) -> (String, String, Vec<u8>) {
    let bytes = fs::read(path).unwrap();
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
    let end = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    assert_eq!(end % 64, 0, "elements are aligned");
    let header = std::str::from_utf8(&bytes[10..end]).unwrap();
    assert!(header.contains("'fortran_order': False") && header.ends_with('\n'), "{header}");
    let between = |from: &str, to: &str| {
        let rest = header.split_once(from).unwrap().1;
        rest.split_once(to).unwrap().0.to_owned()
    };
    (between("'descr': '", "'"), between("'shape': (", ")"), bytes[end..].to_vec())
}
