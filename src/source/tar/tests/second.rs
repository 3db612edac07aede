//! The `tar` crate as a second reader: the same files at the same places, in any archive that both take.
//!
//! `FUSELOOP_ARCHIVES=10000 cargo test --release --lib tar::tests::second`

use super::build::{Archive, pax};
use super::*;
use crate::source::shards::Shard;
use crate::source::tar::error::Found;
use crate::source::tar::header::text;
use crate::source::tar::members::Members;
use arbitrary::{Result, Unstructured};
use fuseloop_ops::SampleKey;

type Files = Vec<(Vec<u8>, u64, u64)>;

fn ours(bytes: &[u8]) -> std::result::Result<Files, Found> {
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
        // A long name ends at its first NUL: theirs has all there are but one.
        let name = text(&entry.path_bytes()).to_vec();
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

/// An archive as writers write them: any of the ways to say a long name or a size.
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

/// Words at random, of which an archive is made.
fn words(number: u64) -> Vec<u8> {
    let mut draws = SampleKey::new(3, 0, number).op(0);
    (0..4000).map(|_| draws.below(256) as u8).collect()
}

#[test]
fn a_second_reader_finds_the_same_files_at_the_same_places() {
    let asked = std::env::var("FUSELOOP_ARCHIVES").ok().and_then(|count| count.parse().ok());
    let mut files = 0;
    for number in 0..asked.unwrap_or(500) {
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
    assert!(files > asked.unwrap_or(500));
}

/// With a digit or a kind of some header changed, its sum put right.
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
