//! The `tar` crate and Python's `tarfile` as reference readers: they find the same files at the same
//! offsets in any archive that both accept.
//!
//! `FUSELOOP_ARCHIVES=10000 cargo test --release --lib tar::tests::second`

use super::build::{Archive, pax};
use super::*;
use crate::error::Error;
use crate::source::shards::Shard;
use crate::source::tar::header::text;
use crate::source::tar::members::Members;
use arbitrary::{Result, Unstructured};
use fuseloop_ops::internals::SampleKey;

type Files = Vec<(Vec<u8>, u64, u64)>;

fn ours(bytes: &[u8]) -> std::result::Result<Files, Error> {
    let mut members = Members::plain(&Shard::held("a.tar", bytes));
    let mut files = vec![];
    while let Some(member) = members.next()? {
        files.push((member.name, member.offset, member.size));
    }
    Ok(files)
}

fn theirs(bytes: &[u8]) -> std::io::Result<Files> {
    let mut files = vec![];
    for entry in ::tar::Archive::new(bytes).entries()? {
        let entry = entry?;
        let kind = entry.header().entry_type();
        // A long name ends at its first NUL; the `tar` crate removes only one NUL.
        let name = text(&entry.path_bytes()).to_vec();
        // The `tar` crate returns a global header as a member and applies the preceding PAX header to
        // it, not to the file behind it.
        if kind.is_pax_global_extensions() && name != text(&entry.header().path_bytes()) {
            return Err(std::io::Error::other("a name for a global header"));
        }
        let is_old_folder = entry.header().as_bytes()[156] == 0 && name.ends_with(b"/");
        if (kind.is_file() || kind.is_contiguous()) && !is_old_folder {
            files.push((name, entry.raw_file_position(), entry.size()));
        }
    }
    Ok(files)
}

/// A name of any length and letters.
fn name(u: &mut Unstructured<'_>) -> Result<String> {
    let len = if u.ratio(1, 4)? { u.int_in_range(90..=300)? } else { u.int_in_range(1..=40)? };
    let letters: Vec<char> = "abcAB01._-/ßé".chars().collect();
    let name: Result<String> = (0..len).map(|_| u.choose(&letters).copied()).collect();
    Ok(name?.trim_matches('/').to_owned() + "x")
}

/// An archive as real writers write it: with any encoding of a long name or size.
fn regular(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    for _ in 0..u.int_in_range(1..=8)? {
        let name = name(u)?;
        let data = vec![b'd'; u.int_in_range(0..=1500)?];
        let size = data.len().to_string();
        archive = match u.int_in_range(0..=6)? {
            0 => archive.member(b'5', b"folder/", b""),
            1 => archive.member(b'2', b"link", b""),
            2 => archive.pax(&[("path", &name), ("mtime", "1.5")]).file("short", &data),
            3 => archive
                .pax(&[("path", &name), ("size", &size)])
                .claims(b'0', b"s", b"0")
                .data(&data),
            4 => archive.member(b'g', b"g", &pax(&[("comment", &name)])).file("x.y", &data),
            5 => archive
                .member(b'L', b"././@LongLink", format!("{name}\0").as_bytes())
                .member(b'7', b"short", &data),
            _ => {
                let head = &name.as_bytes()[..name.len().min(99)];
                archive.member(*u.choose(b"0\0")?, &[head, b"x"].concat(), &data)
            }
        };
    }
    Ok(archive.end())
}

/// Random words that an archive is built from.
fn words(number: u64) -> Vec<u8> {
    let mut draws = SampleKey::new(3, 0, number).op(0);
    (0..4000).map(|_| draws.below(256) as u8).collect()
}

/// The number of archives to test.
fn archives() -> u64 {
    fuseloop_counts::rounds("FUSELOOP_ARCHIVES")
}

#[test]
fn a_second_reader_finds_the_same_files_at_the_same_places() {
    let mut files = 0;
    for number in 0..archives() {
        let words = words(number);
        let bytes = regular(&mut Unstructured::new(&words)).unwrap();
        let (ours, theirs) = (ours(&bytes).unwrap(), theirs(&bytes).unwrap());
        assert_eq!(ours, theirs, "archive {number}");
        files += ours.len() as u64;
        let changed = changed(bytes, &mut Unstructured::new(&words[2000..])).unwrap();
        if let (Ok(ours), Ok(theirs)) = (self::ours(&changed), self::theirs(&changed)) {
            assert_eq!(ours, theirs, "archive {number}, changed");
        }
    }
    println!("{files} files");
    assert!(files > archives());
}

/// Reads paths of archives and prints the files of each, as one line of JSON.
const TARFILE: &str = r#"
import json, sys, tarfile
for path in sys.stdin.read().split("\n"):
    try:
        with tarfile.open(path, "r:") as archive:
            files = [m for m in archive if m.isreg() and not m.issparse()]
            text = lambda name: name.encode("utf-8", "surrogateescape").decode("latin-1")
            print(json.dumps([[text(m.name), m.offset_data, m.size] for m in files]))
    except (tarfile.Error, ValueError, OverflowError) as error:
        print("null")
"#;

/// The files that Python's `tarfile` finds in each archive; `None` for an archive that it refuses.
/// Returns `None` if there is no Python.
fn of_python(archives: &[Vec<u8>]) -> Option<Vec<Option<Files>>> {
    use std::io::Write as _;
    use std::process::{Command, Stdio};
    let dir = tempfile::tempdir().unwrap();
    let path = |index: usize| dir.path().join(format!("{index}.tar")).display().to_string();
    let paths: Vec<String> = (0..archives.len()).map(path).collect();
    paths.iter().zip(archives).for_each(|(path, bytes)| std::fs::write(path, bytes).unwrap());
    let mut python = Command::new("python3");
    python.args(["-c", TARFILE]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut python = python.spawn().ok()?;
    python.stdin.take().unwrap().write_all(paths.join("\n").as_bytes()).unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success(), "python3 failed: {:?}", output.status);
    let file = |file: &serde_json::Value| -> Option<(Vec<u8>, u64, u64)> {
        // One letter per byte.
        let name = file[0].as_str()?.chars().map(|c| c as u8).collect();
        Some((name, file[1].as_u64()?, file[2].as_u64()?))
    };
    let files = |line: &str| {
        let found: serde_json::Value = serde_json::from_str(line).unwrap();
        found.as_array().map(|files| files.iter().map(|f| file(f).unwrap()).collect::<Files>())
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let found: Vec<Option<Files>> = text.lines().map(files).collect();
    assert_eq!(found.len(), archives.len());
    Some(found)
}

#[test]
fn pythons_tarfile_finds_the_same_files_at_the_same_places() {
    let archive = |number| regular(&mut Unstructured::new(&words(number))).unwrap();
    let archives: Vec<Vec<u8>> = (0..archives()).map(archive).collect();
    let Some(found) = of_python(&archives) else {
        println!("skipped: there is no python3");
        return;
    };
    for (number, (bytes, theirs)) in archives.iter().zip(found).enumerate() {
        assert_eq!(Some(ours(bytes).unwrap()), theirs, "archive {number}");
    }
    // Literal names, so that all readers can't be wrong in the same way.
    let plain = Archive::default().file("a.txt", b"one").file("b.txt", &[0; 600]).end();
    let want = vec![(b"a.txt".to_vec(), 512, 3), (b"b.txt".to_vec(), 1536, 600)];
    assert_eq!(ours(&plain).unwrap(), want);
    assert_eq!(of_python(&[plain]).unwrap(), [Some(want)]);
}

/// Changes a digit or a kind in some header and corrects its checksum.
fn changed(mut bytes: Vec<u8>, u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let headers: Vec<usize> = (0..bytes.len())
        .step_by(512)
        .filter(|&at| bytes[at + 257..at + 262] == *b"ustar")
        .collect();
    let at = *u.choose(&headers)?;
    let mut block: [u8; 512] = bytes[at..at + 512].try_into().unwrap_or([0; 512]);
    match u.int_in_range(0..=2)? {
        0 => block[156] = *u.choose(b"0157xgLKSD2")?,
        1 => block[124 + u.int_in_range(6..=10)?] = b'0' + u.int_in_range(0..=7u8)?,
        _ => block[u.int_in_range(0..=20)?] = u.int_in_range(32..=126)?,
    }
    bytes[at..at + 512].copy_from_slice(&build::summed(block));
    Ok(bytes)
}
