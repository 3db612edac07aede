//! Malicious archives: each is read correctly or refused with a message, and no file appears anywhere.

use super::build::{Archive, header, pax};
use super::*;
use crate::source::Location;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// The keys of an archive that is read, or a fragment of the error if it is refused.
type Told = Result<&'static [&'static str], &'static str>;

const HUGE: &[u8] = b"\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff";
/// Names that fill a header's field except for one byte, and completely.
const EDGE_99: &str = concat!(
    "12345678901234567890123456789012345678901234567",
    "890123456789012345678901234567890123456789012345.txt"
);
const EDGE_100: &str = concat!(
    "123456789012345678901234567890123456789012345678",
    "901234567890123456789012345678901234567890123456.txt"
);

/// The keys of those names, without `.txt`.
const KEY_99: &[&str] = &[EDGE_99.split_at(95).0];
const KEY_100: &[&str] = &[EDGE_100.split_at(96).0];

const MAX: &str = "18446744073709551615";

fn of(name: &str) -> Archive {
    Archive::default().file(name, b"x")
}

fn sparse() -> Archive {
    let mut archive = Archive::default();
    archive.0.extend(header(b'S', b"s.txt", b"00000000001\0"));
    archive.data(b"s").file("a.txt", b"x")
}

/// Names are only keys; links are not followed.
fn names() -> Vec<(&'static str, Vec<u8>, Told)> {
    let a = || of("a.txt");
    vec![
        ("up", of("../../up.txt").end(), Ok(&["../../up"])),
        ("root", of("/etc/passwd.txt").end(), Ok(&["/etc/passwd"])),
        ("device's name", of("/dev/stdin.txt").end(), Ok(&["/dev/stdin"])),
        ("windows", of("C:\\x.txt").end(), Ok(&["C:\\x"])),
        ("escape", of("\u{1b}[2J.txt").end(), Ok(&["\u{1b}[2J"])),
        ("newline", of("a\nb.txt").end(), Ok(&["a\nb"])),
        ("not UTF-8", Archive::default().member(b'0', b"\xff.txt", b"x").end(), Ok(&["\u{fffd}"])),
        ("symlink", a().member(b'2', b"l.txt", b"").file("l/b.txt", b"x").end(), Ok(&["a", "l/b"])),
        ("hard link", a().member(b'1', b"l.txt", b"").end(), Ok(&["a"])),
        ("device", a().member(b'3', b"d.txt", b"").member(b'4', b"e.txt", b"").end(), Ok(&["a"])),
        ("FIFO", a().member(b'6', b"f.txt", b"").end(), Ok(&["a"])),
        ("folder", a().member(b'5', b"f.txt", b"").end(), Ok(&["a"])),
        ("old folder", a().member(0, b"f.txt/", b"").end(), Ok(&["a"])),
        (
            "unknown kind",
            a().member(b'Q', b"q.txt", b"data").file("b.txt", b"x").end(),
            Ok(&["a", "b"]),
        ),
        (
            "no name",
            Archive::default().member(b'0', b"", b"x").file("a.txt", b"x").end(),
            Ok(&["a"]),
        ),
        ("sparse", sparse().end(), Err("byte 0: s.txt is a sparse file")),
        (
            "sparse in PAX",
            a().pax(&[("GNU.sparse.major", "1")]).file("s.txt", b"x").end(),
            Err("s.txt is a sparse file"),
        ),
        ("empty name in PAX", a().pax(&[("path", "")]).file("b.txt", b"x").end(), Ok(&["a", "b"])),
        (
            "long link",
            a().member(b'K', b"k", &[b'k'; 300]).member(b'2', b"l", b"").end(),
            Ok(&["a"]),
        ),
        ("two slashes", of("//x.txt").file("b//y.txt", b"x").end(), Ok(&["//x", "b//y"])),
        ("dots in the midst", of("a/../../b.txt").end(), Ok(&["a/../../b"])),
        ("NUL", of("b\0evil.cls").file("c.txt", b"x").end(), Ok(&["c"])),
        (
            "NUL in PAX",
            a().pax(&[("path", "b\0evil.txt")]).file("c.txt", b"x").end(),
            Ok(&["a", "b\0evil"]),
        ),
        (
            "link's path in PAX",
            a().pax(&[("linkpath", "/etc/passwd")]).member(b'2', b"l.txt", b"").end(),
            Ok(&["a"]),
        ),
        (
            "link's path in PAX before a file",
            a().pax(&[("linkpath", "/etc/passwd")]).file("b.txt", b"x").end(),
            Ok(&["a", "b"]),
        ),
        ("99 bytes", of(EDGE_99).end(), Ok(KEY_99)),
        ("100 bytes and no NUL", of(EDGE_100).end(), Ok(KEY_100)),
        // The PAX size applies: the data contains headers of its own, which are not members.
        (
            "PAX smuggling",
            a().pax(&[("size", "2048")])
                .claims(b'0', b"b.txt", b"00000000000\0")
                .data(&of("evil.txt").end())
                .file("c.txt", b"x")
                .end(),
            Ok(&["a", "b", "c"]),
        ),
        ("key again", a().file("b.txt", b"x").file("a.txt", b"x").end(), Ok(&["a", "b", "a"])),
    ]
}

/// Archives that readers interpret differently, and sizes that no memory can hold.
fn refused() -> Vec<(&'static str, Vec<u8>, Told)> {
    let a = || of("a.txt");
    let inner = || of("evil.txt").end();
    let long = vec![b'n'; (64 << 10) + 2];
    let two = [a().end(), of("b.txt").end()].concat();
    let mut lone = a().end();
    lone.truncate(lone.len() - 512);
    lone.extend(of("b.txt").end());
    vec![
        ("nothing", vec![], Err("the file is empty")),
        ("zeros alone", vec![0; 1024], Err("no samples found")),
        ("no tar", vec![b'x'; 2048], Err("byte 0: not a tar header: the checksum is wrong")),
        (
            "largest size",
            a().claims(b'0', b"b.txt", HUGE).end(),
            Err("a member of 18446744073709551615 bytes"),
        ),
        (
            "size below 0",
            a().claims(b'0', b"b.txt", &[0xff; 12]).end(),
            Err("size in a tar header"),
        ),
        (
            "size of letters",
            a().claims(b'0', b"b.txt", b"0x000000001\0").end(),
            Err("size in a tar header"),
        ),
        (
            "beyond the end",
            a().claims(b'0', b"b.txt", b"00000010000\0").end(),
            Err("byte 1024: a member of 4096 bytes, and the file ends at byte 2560"),
        ),
        (
            "largest PAX size",
            a().pax(&[("size", MAX)]).file("b.txt", b"x").end(),
            Err("a member of 18446744073709551615 bytes"),
        ),
        (
            "PAX size of letters",
            a().pax(&[("size", "1e3")]).file("b.txt", b"x").end(),
            Err("the size in a PAX header"),
        ),
        ("longest PAX header", a().claims(b'x', b"p", HUGE).end(), Err("bytes, and the file ends")),
        (
            "PAX header over its limit",
            a().member(b'x', b"p", &vec![b'1'; (1 << 20) + 1]).end(),
            Err("a PAX header of 1048577 bytes, the limit is 1048576"),
        ),
        (
            "PAX header of no records",
            a().member(b'x', b"p", b"hello").end(),
            Err("no valid record at byte 0 of a PAX header"),
        ),
        (
            "name over its limit",
            a().member(b'L', b"l", &long).file("b", b"x").end(),
            Err("a name of 65538 bytes, the limit is 65537"),
        ),
        (
            "two long names",
            a().member(b'L', b"l", b"b.txt\0").member(b'L', b"l", b"c.txt\0").file("d", b"x").end(),
            Err("name the same member"),
        ),
        (
            "two PAX headers",
            a().pax(&[("path", "b.txt")]).pax(&[("path", "c.txt")]).file("d", b"x").end(),
            Err("name the same member"),
        ),
        (
            "a long name and a path",
            a().member(b'L', b"l", b"b.txt\0").pax(&[("path", "c.txt")]).file("d", b"x").end(),
            Err("name the same member"),
        ),
        (
            "global size",
            a().member(b'g', b"g", &pax(&[("size", "512")])).file("b.txt", b"x").end(),
            Err("a global PAX header with a path or a size"),
        ),
        (
            "global path",
            a().member(b'g', b"g", &pax(&[("path", "p.txt")])).file("b.txt", b"x").end(),
            Err("a global PAX header with a path or a size"),
        ),
        ("a link with data", a().member(b'1', b"l.txt", &inner()).end(), Err("readers differ")),
        ("a folder with data", a().member(b'5', b"d/", &inner()).end(), Err("readers differ")),
        (
            "a link with PAX data",
            a().pax(&[("size", "512")]).member(b'2', b"l", b"").end(),
            Err("readers differ"),
        ),
        ("two archives", two, Err("the archive ended at byte 1024, and something follows")),
        ("a lone block of zeros", lone, Err("byte 1536: the archive ended at byte 1024")),
        (
            "a name and no member",
            a().member(b'L', b"l", b"b.txt\0").end(),
            Err("announced one more member"),
        ),
        (
            "a PAX header and no file",
            a().pax(&[("path", "b.txt")]).0,
            Err("announced one more member"),
        ),
        ("twice one part", a().file("a.TXT", b"y").end(), Err("byte 1536: sample a has txt twice")),
        (
            "escapes in a duplicate",
            of("\u{1b}[1m.a").file("\u{1b}[1m.A", b"y").end(),
            Err("sample \\u{1b}[1m has a twice"),
        ),
        (
            "half a header",
            a().0[..1000].to_vec(),
            Err("byte 0: a member of 1 bytes, and the file ends at byte 1000"),
        ),
        (
            "zeros after the end",
            [a().end(), vec![0; 17 << 20]].concat(),
            Err("more than 16777216 bytes follow"),
        ),
        ("no text", Archive::default().file("noext", b"x").end(), Err("no samples found")),
        ("not a label", of("a.cls").end(), Ok(&["a"])),
    ]
}

fn snapshot(folder: &Path) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    let mut left = vec![folder.to_owned()];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let meta = entry.metadata().unwrap();
            found.insert(entry.path().display().to_string(), meta.len());
            if meta.is_dir() {
                left.push(entry.path());
            }
        }
    }
    found
}

#[test]
fn hostile_archives_are_read_as_they_should_be_or_refused() {
    let archives = [names(), refused()].concat();
    assert!(archives.len() >= 50);
    for (what, bytes, outcome) in archives {
        let begun = Instant::now();
        let read = both(&bytes, &small());
        let keys = read.as_ref().map(|found| found.iter().map(|(key, _)| key.as_str()).collect());
        match outcome {
            Ok(expected) => assert_eq!(keys, Ok(expected.to_vec()), "{what}"),
            Err(part) => {
                let error = read.expect_err(what);
                assert!(error.contains(part), "{what}: {error}");
                assert!(!error.contains('\u{1b}'), "{what}: {error}");
            }
        }
        assert!(begun.elapsed() < Duration::from_secs(5), "{what} took {:?}", begun.elapsed());
    }
}

#[test]
fn reading_creates_no_file_and_follows_no_link() {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("a/b");
    fs::create_dir_all(&folder).unwrap();
    let opened = names().into_iter().filter(|(_, _, told)| told.is_ok());
    for (index, (_, bytes, _)) in opened.enumerate() {
        fs::write(folder.join(format!("{index:03}.tar")), bytes).unwrap();
    }
    let before = snapshot(outer.path());
    let spec = folder.join("*.tar");
    let tar = Tar::open_shards(spec.to_str().unwrap(), &small()).unwrap();
    assert!(in_order(&tar).len() > 20);
    let stream = TarStream::open_shards(spec.to_str().unwrap(), &small()).unwrap();
    assert_eq!(in_sequence(&stream).unwrap(), in_order(&tar));
    assert_eq!(snapshot(outer.path()), before);
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut packer = flate2::write::GzEncoder::new(vec![], flate2::Compression::fast());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

/// 640 MiB of zeros compress to some 600 KB; a plain shard may have a member of that size.
#[test]
fn a_compressed_member_of_640_mib_is_over_the_default_limit() {
    let shard = of("a.txt").claims(b'0', b"b.bin", b"05000000000\0").data(&[0; 512]).0;
    let read_all = |bytes: &[u8]| {
        let stream = TarStream::from_bytes(bytes, &TarOptions::default());
        stream.map_err(|error| error.to_string()).and_then(|stream| in_sequence(&stream))
    };
    let error = read_all(&gz(&shard)).unwrap_err();
    let want = "a member that unpacks to 671088640 bytes, and the limit is 268435456 \
                (`Limits::max_unpacked_bytes`): unpack the shard, or raise the limit";
    assert!(error.contains(want), "{error}");
    let error = read_all(&shard).unwrap_err();
    assert!(error.contains("a member of 671088640 bytes, and the file ends"), "{error}");
}

/// Small files that unpack to very many bytes.
#[test]
fn bombs_are_refused_before_they_go_off() {
    let size = b"00037777777\0";
    let (file, name) =
        (of("a.txt").claims(b'0', b"b.bin", size), of("a.txt").claims(b'L', b"l", HUGE));
    let tail = [of("a.txt").end(), vec![0; 64 << 20]].concat();
    for (bytes, part) in [
        (
            gz(&file.data(&vec![0; 8 << 20]).0),
            "a member that unpacks to 8388607 bytes, and the limit is 4194304",
        ),
        (
            gz(&name.0),
            "a member that unpacks to 18446744073709551615 bytes, and the limit is 4194304",
        ),
        (gz(&tail), "more than 16777216 bytes follow"),
        (gz(&[0; 4 << 20]), "no samples found"),
    ] {
        let begun = Instant::now();
        let stream = TarStream::from_bytes(&bytes, &small());
        let message =
            stream.map_err(|error| error.to_string()).and_then(|stream| in_sequence(&stream));
        let message = message.unwrap_err();
        assert!(message.contains(part), "{message}");
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
}

/// A value over the limit makes only its own sample unreadable.
#[test]
fn a_value_over_the_limit_is_one_damaged_sample() {
    let limits = Limits { max_sample_bytes: 10, ..Limits::SMALL };
    let options = TarOptions::default().limits(limits);
    let bytes = of("a.txt").file("b.txt", &[0; 11]).file("c.txt", b"y").end();
    let read = both(&bytes, &options).unwrap();
    let message = read[1].1.as_ref().unwrap_err();
    let location = Location::Path("memory.tar".into());
    assert_eq!(
        *message,
        format!("{location}: sample b, txt at byte 1536: 11 bytes, the limit is 10")
    );
    assert!(read[0].1.is_ok() && read[2].1.is_ok());
}
