//! Shards whose index is one file in their folder, and the three ways to the positions of their samples.

use super::build::{Archive, usual};
use super::*;
use crate::cancel::CancelFlag;
use crate::error::ErrorKind;
use crate::source::SampleLocation;
use crate::source::columns::As;
use crate::source::index_file::{JoinedWriter, Kind};
use crate::source::index_shards::join_until;
use crate::source::shards::{IndexPages, MemberLayout, PackedIndex, Shard, ShardIndex};
use crate::source::{index_shards, join_index};
use crate::warnings::recorded;
use std::fs;
use std::path::Path;
use std::time::Instant;

/// A `.npy` file of a column of floats.
fn npy(rows: usize) -> Vec<u8> {
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, 2), }}");
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((118_u16).to_le_bytes());
    file.extend(format!("{header:<117}\n").as_bytes());
    file.extend((0..2 * rows).flat_map(|n| (n as f32).to_le_bytes()));
    file
}

/// Samples of a text and a number, and an array in some.
fn samples(count: usize, key: impl Fn(usize) -> String) -> Vec<u8> {
    let mut archive = Archive::default();
    for n in 0..count {
        let key = key(n);
        archive = archive.file(&format!("{key}.txt"), &vec![b'a' + (n % 26) as u8; n * 37 % 900]);
        if n % 3 != 1 {
            archive = archive.file(&format!("{key}.cls"), n.to_string().as_bytes());
        }
        if n % 2 == 0 {
            archive = archive.file(&format!("{key}.box.npy"), &npy(1 + n % 5));
        }
    }
    archive.end()
}

/// Writes shards of every kind: with links and long names, without samples, of one sample, of as many as a block has and
/// one less and more.
fn write_odd(dir: &Path) {
    let folders = Archive::default()
        .file("README", b"of no sample")
        .member(b'5', b"a/", b"")
        .file("a/1.txt", b"one")
        .file("a/1.cls", b"1")
        .member(b'5', b"b/", b"")
        .file("__meta__/x.txt", b"passed over")
        .file("a/1.json", b"{\"still\": 1}")
        .member(b'2', b"link.txt", b"")
        .file("b/1.cls", b"2")
        .file("a/1.txt", b"again")
        .file("b/c.d.txt", b"")
        .end();
    let shards = [
        samples(65, |n| format!("{n:06}")),
        usual(),
        Archive::default().end(),
        samples(1, |_| "only".to_owned()),
        folders,
        samples(127, |n| format!("n{:08}/x_{}", n * 7919 % 1000, n * n)),
        samples(128, |n| format!("{:x}", n * 0x9e37_79b9)),
        samples(129, |n| format!("dir{}/{}", n / 50, n)),
        Archive::default().file("none", b"").end(),
    ];
    for (number, shard) in shards.iter().enumerate() {
        fs::write(dir.join(format!("{number:03}.tar")), shard).unwrap();
    }
}

fn spec(dir: &Path) -> String {
    dir.join("{000..008}.tar").to_str().unwrap().to_owned()
}

/// The facts of a dataset that a user sees: its fingerprint, its longest values, its values or errors, and where they lie.
type Seen =
    (u64, Vec<Option<u64>>, Vec<(String, Result<Record, String>)>, Vec<Option<SampleLocation>>);

fn seen(spec: &str, options: &TarOptions) -> Result<Seen, String> {
    let tar = Tar::open_shards(spec, options).map_err(|error| error.to_string())?;
    let facts = tar.facts();
    let fields = 0..facts.fields.len();
    let longest = fields.clone().map(|field| facts.longest(field)).collect();
    let located = (0..facts.samples)
        .flat_map(|sample| fields.clone().map(move |field| (SampleId(sample), field)));
    let located = located.map(|(sample, field)| tar.locate(sample, field)).collect();
    Ok((facts.fingerprint, longest, in_order(&tar), located))
}

fn remove_indexes(dir: &Path) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "fidx" || extension == "fjdx") {
            fs::remove_file(path).unwrap();
        }
    }
}

#[test]
fn samples_are_the_same_by_a_scan_an_index_beside_each_shard_and_a_joined_one() {
    let dir = tempfile::tempdir().unwrap();
    write_odd(dir.path());
    let spec = spec(dir.path());
    let subset = dir.path().join("{007,004,000,007}.tar").to_str().unwrap().to_owned();
    let all_options = [
        small(),
        small().field("label", "cls", As::Int).field("text", "txt;json", As::Bytes),
        small().field("boxes", "box.npy", As::NdArray),
        small().field("none", "flac", As::Bytes),
    ];
    let look = || {
        let look = |options| (seen(&spec, options), seen(&subset, options));
        all_options.iter().map(look).collect::<Vec<_>>()
    };
    let scanned = look();
    assert!(scanned[0].0.is_ok() && scanned[1].1.is_ok() && scanned[3].0.is_err());
    let samples = scanned[0].0.as_ref().unwrap().2.len();
    assert_eq!(samples, 65 + 3 + 1 + 4 + 127 + 128 + 129);
    index_shards(&spec, &|_, _| {}).unwrap();
    assert!(look() == scanned, "an index beside each shard");
    remove_indexes(dir.path());
    let report = join_index(&spec, &|_, _| {}).unwrap();
    let size = fs::metadata(dir.path().join("joined.fjdx")).unwrap().len();
    assert_eq!((report.shards, report.samples, report.bytes), (9, samples as u64, size));
    assert!(look() == scanned, "a joined index");
    assert_eq!(join_index(&spec, &|_, _| {}).unwrap(), report, "written again");
    // Some by each.
    fs::remove_file(dir.path().join("joined.fjdx")).unwrap();
    join_index(dir.path().join("{000,004,005}.tar").to_str().unwrap(), &|_, _| {}).unwrap();
    index_shards(dir.path().join("{001,005,007}.tar").to_str().unwrap(), &|_, _| {}).unwrap();
    assert!(look() == scanned, "some by each");
}

#[test]
fn shards_of_a_joined_index_are_opened_when_they_are_read() {
    let dir = tempfile::tempdir().unwrap();
    write_odd(dir.path());
    let spec = spec(dir.path());
    join_index(&spec, &|_, _| {}).unwrap();
    // The first array would be read when the dataset is opened, to know its shape.
    let options = small().field("text", "txt", As::Bytes);
    let whole = in_order(&Tar::open_shards(&spec, &options).unwrap());
    // A folder that was moved, and a shard that is not there.
    let moved = dir.path().join("moved");
    fs::create_dir(&moved).unwrap();
    for entry in fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::rename(&path, moved.join(path.file_name().unwrap())).unwrap();
        }
    }
    let spec = self::spec(&moved);
    fs::rename(moved.join("005.tar"), moved.join("renamed.tar")).unwrap();
    // A shard that grew, one of the same length, and two that were exchanged.
    let grown = moved.join("007.tar");
    fs::write(&grown, [fs::read(&grown).unwrap(), vec![0; 512]].concat()).unwrap();
    let mut replaced = fs::read(moved.join("000.tar")).unwrap();
    replaced[600] ^= 1;
    fs::write(moved.join("000.tar"), &replaced).unwrap();
    fs::rename(moved.join("001.tar"), moved.join("x")).unwrap();
    fs::rename(moved.join("003.tar"), moved.join("001.tar")).unwrap();
    fs::rename(moved.join("x"), moved.join("003.tar")).unwrap();
    let tar = Tar::open_shards(&spec, &options).unwrap();
    let shards =
        [(65, Some("belongs to")), (3, Some("belongs to")), (1, Some("belongs to")), (4, None)]
            .into_iter()
            .chain([(127, Some("No such file")), (128, None), (129, Some("belongs to"))]);
    let expected = shards.flat_map(|(count, error)| std::iter::repeat_n(error, count));
    for (sample, ((found, whole), expected)) in
        in_order(&tar).iter().zip(&whole).zip(expected).enumerate()
    {
        assert_eq!(found.0, whole.0, "the key of sample {sample}");
        match (&found.1, expected) {
            (Err(error), Some(expected)) => {
                // A field that the sample lacks is not read.
                let is_lacking = whole.1.as_ref().is_err_and(|error| error.contains("has no"));
                assert!(error.contains(expected) || is_lacking, "sample {sample}: {error}");
                assert!(!error.contains("belongs") || error.contains("fuseloop index --join"));
            }
            (found, _) => assert_eq!(found.is_ok(), whole.1.is_ok(), "sample {sample}"),
        }
    }
    // A shard by its other name is scanned.
    let renamed = moved.join("renamed.tar");
    let renamed = Tar::open_shards(renamed.to_str().unwrap(), &options).unwrap();
    assert!(in_order(&renamed).iter().any(|(_, record)| record.is_ok()));
    // Written again, the index is that of the files that are there.
    join_index(moved.join("{001,003}.tar").to_str().unwrap(), &|_, _| {}).unwrap();
    let both = moved.join("{003,001}.tar");
    let both = in_order(&Tar::open_shards(both.to_str().unwrap(), &options).unwrap());
    assert!(both.iter().map(|(key, _)| key).eq(whole[65..69].iter().map(|(key, _)| key)));
    assert!(both.iter().all(|(_, record)| record.is_ok()), "{both:?}");
}

#[test]
fn shards_of_another_call_stay_in_the_joined_index() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    for name in ["train-0", "train-1", "val-0"] {
        fs::write(path(&format!("{name}.tar")), samples(70, |n| format!("{name}/{n}"))).unwrap();
    }
    let open = |names: &str| in_order(&Tar::open_shards(&path(names), &small()).unwrap());
    let (train, val) = (open("train-{0,1}.tar"), open("val-0.tar"));
    let progress = std::sync::Mutex::new(vec![]);
    join_index(&path("train-{0,1}.tar"), &|done, of| progress.lock().unwrap().push((done, of)))
        .unwrap();
    progress.lock().unwrap().sort_unstable();
    assert_eq!(*progress.lock().unwrap(), [(1, 2), (2, 2)]);
    let first = fs::read(path("joined.fjdx")).unwrap();
    join_index(&path("val-*.tar"), &|_, _| {}).unwrap();
    let both = fs::read(path("joined.fjdx")).unwrap();
    assert!(both.len() > first.len());
    assert_eq!((open("train-{0,1}.tar"), open("val-0.tar")), (train, val));
    // A shard that is gone is left out, and a damaged index is replaced.
    fs::remove_file(path("train-0.tar")).unwrap();
    join_index(&path("val-*.tar"), &|_, _| {}).unwrap();
    let less = fs::read(path("joined.fjdx")).unwrap();
    assert!(less.len() < both.len() && less.len() > first.len() / 2);
    fs::write(path("joined.fjdx"), &less[..less.len() - 1]).unwrap();
    let error = Tar::open_shards(&path("val-0.tar"), &small()).map(drop).unwrap_err().to_string();
    assert!(error.contains("joined.fjdx") && error.contains("index --join"), "{error}");
    join_index(&path("val-*.tar"), &|_, _| {}).unwrap();
    open("val-0.tar");
    // A file of another program is left as it is.
    fs::write(path("joined.fjdx"), "another file").unwrap();
    open("val-0.tar");
    let error = join_index(&path("val-*.tar"), &|_, _| {}).unwrap_err();
    assert!(error.kind() == ErrorKind::AlreadyExists && error.to_string().contains("joined.fjdx"));
    assert_eq!(fs::read(path("joined.fjdx")).unwrap(), b"another file");
}

#[test]
fn an_interrupted_or_failed_join_leaves_the_index_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    for shard in 0..9 {
        fs::write(dir.path().join(format!("{shard}.tar")), usual()).unwrap();
    }
    let spec = dir.path().join("?.tar");
    let spec = spec.to_str().unwrap();
    join_index(spec, &|_, _| {}).unwrap();
    let before = fs::read(dir.path().join("joined.fjdx")).unwrap();
    let cancel = CancelFlag::new();
    let error = join_until(spec, &cancel, &|_, _| cancel.cancel()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    fs::write(dir.path().join("4.tar"), &usual()[..2000]).unwrap();
    let error = join_index(spec, &|_, _| {}).unwrap_err().to_string();
    assert!(error.contains("4.tar: byte "), "{error}");
    assert_eq!(fs::read(dir.path().join("joined.fjdx")).unwrap(), before);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 10, "no other file is left");
}

#[test]
fn a_joined_index_cut_or_changed_anywhere_is_refused_or_gives_the_same_samples() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.tar");
    fs::write(&path, samples(3, |n| format!("k{n}"))).unwrap();
    fs::write(dir.path().join("b.tar"), samples(131, |n| format!("k{n}"))).unwrap();
    let spec = dir.path().join("{a,b}.tar");
    let spec = spec.to_str().unwrap();
    join_index(spec, &|_, _| {}).unwrap();
    let joined = dir.path().join("joined.fjdx");
    let whole = fs::read(&joined).unwrap();
    let expected = in_order(&Tar::open_shards(spec, &small()).unwrap());
    let mut refused = [0, 0];
    let mut check = |bytes: &[u8], what: &str| {
        fs::write(&joined, bytes).unwrap();
        match Tar::open_shards(spec, &small()) {
            Err(error) => {
                assert!(error.to_string().contains("joined.fjdx"), "{what}: {error}");
                refused[0] += 1;
            }
            Ok(tar) => {
                for (sample, (_, expected)) in (0..).map(SampleId).zip(&expected) {
                    match tar.read(sample) {
                        Ok(record) => assert_eq!(Ok(record), *expected, "{what}"),
                        Err(error) if expected.is_err() && !error.to_string().contains("fjdx") => {}
                        Err(error) => {
                            let text = error.to_string();
                            assert!(text.contains("joined.fjdx: byte "), "{what}: {text}");
                            refused[1] += 1;
                            break;
                        }
                    }
                }
            }
        }
    };
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1 << (at % 8);
        check(&changed, &format!("byte {at}"));
        check(&whole[..at], &format!("{at} bytes"));
    }
    assert!(refused[0] > whole.len() && refused[1] > 0, "{refused:?}");
}

#[test]
fn an_index_is_advised_where_many_shards_have_none() {
    let dir = tempfile::tempdir().unwrap();
    let shard = Archive::default().file("a.cls", b"1").end();
    for number in 0..1001 {
        fs::write(dir.path().join(format!("{number:04}.tar")), &shard).unwrap();
    }
    let open = |names: &str| {
        let spec = dir.path().join(names);
        recorded(|| Tar::open_shards(spec.to_str().unwrap(), &small()).unwrap()).1
    };
    let warnings = open("{0000..1000}.tar");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("(1001 shards): many shards have no index"), "{warnings:?}");
    assert_eq!(open("{0000..0998}.tar"), Vec::<String>::new());
    join_index(dir.path().join("*.tar").to_str().unwrap(), &|_, _| {}).unwrap();
    assert_eq!(open("{0000..1000}.tar"), Vec::<String>::new());
}

#[test]
fn shards_in_several_folders_have_an_index_in_each() {
    let dir = tempfile::tempdir().unwrap();
    for folder in ["a", "b", "c"] {
        fs::create_dir(dir.path().join(folder)).unwrap();
        let shard = samples(5, |n| format!("{folder}{n}"));
        fs::write(dir.path().join(folder).join("0.tar"), shard).unwrap();
    }
    let spec = dir.path().join("{a,b,c}/0.tar");
    let spec = spec.to_str().unwrap();
    let scanned = in_order(&Tar::open_shards(spec, &small()).unwrap());
    assert_eq!(join_index(spec, &|_, _| {}).unwrap().shards, 3);
    assert!(dir.path().join("c/joined.fjdx").is_file());
    fs::remove_file(dir.path().join("b/joined.fjdx")).unwrap();
    assert_eq!(in_order(&Tar::open_shards(spec, &small()).unwrap()), scanned);
    let remote = join_index("https://example.org/a.tar", &|_, _| {});
    assert!(remote.is_err());
}

/// The number of samples of a shard.
const MANY: u64 = 10_000;

/// Returns the index of a shard of images of 10 to 210 KB and labels.
fn synthetic() -> ShardIndex {
    let (mut index, mut end) = (ShardIndex::default(), 0_u64);
    for n in 0..MANY {
        let random = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        for (name, len) in [("jpg", 10_000 + random % 200_000), ("cls", 1 + random % 3)] {
            let offset = end.next_multiple_of(512) + 512;
            end = offset + len;
            index.add(name, offset..end).unwrap();
        }
        index.end(format!("{n:09}").as_bytes()).unwrap();
    }
    index
}

/// The resident memory of the process in KiB.
fn resident() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4
}

/// The shards themselves do not exist: they are not looked at.
#[test]
fn memory_for_many_shards_of_a_joined_index_follows_the_shards() {
    let dir = tempfile::tempdir().unwrap();
    let shards = fuseloop_counts::rounds::<u64>("FUSELOOP_JOINED_SHARDS");
    let one = synthetic();
    let of = (MemberLayout::Tar, 2 << 30, 7);
    let packed = PackedIndex::pack(&one, of, |_| false).unwrap();
    let IndexPages::Memory(pages) = &packed.pages else { panic!("in memory") };
    let loaded = pages.len() as f64 / MANY as f64;
    assert!(loaded < 4.0, "{loaded} bytes a sample");
    let names = one.names().to_vec();
    let mut writer = JoinedWriter::create(dir.path(), &Limits::DEFAULT).unwrap();
    for number in 0..shards {
        let shard = Shard::held(&format!("{number:06}.tar"), b"");
        writer.add(&shard, (Kind::Tar, packed.clone()), &names).unwrap();
    }
    let size = writer.finish().unwrap();
    let spec = dir.path().join(format!("{{000000..{:06}}}.tar", shards - 1));
    let options = TarOptions::default();
    let (before, begun) = (resident(), Instant::now());
    let tar = Tar::open_shards(spec.to_str().unwrap(), &options).unwrap();
    let (opened, grown) = (begun.elapsed(), resident().saturating_sub(before));
    assert_eq!(tar.facts().samples, shards * MANY);
    assert_eq!(tar.facts().longest(0).unwrap(), packed.names[0].longest);
    let begun = Instant::now();
    let located = 100_000_u64;
    for n in 0..located {
        let sample = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % tar.facts().samples;
        let number = (sample % MANY) as usize;
        let expected = one.members(number)[0];
        let found = tar.plan.locate(SampleId(sample), 0).unwrap();
        assert_eq!((found.shard as u64, found.part), (sample / MANY, expected));
    }
    let (each, read) = (begun.elapsed() / located as u32, resident().saturating_sub(before));
    println!(
        "{shards} shards of {MANY} samples: an index of {:.2} bytes a sample, opened in {opened:.2?} with {grown} KiB; \
         {loaded:.2} bytes a sample in memory; {each:.2?} to locate any sample, {read} KiB after {located}",
        size as f64 / (shards * MANY) as f64
    );
    // Some hundred bytes for each shard, and none for a sample.
    assert!(read < (64 << 10) + 2 * shards, "{read} KiB");
}
