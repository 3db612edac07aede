//! The limit on the number of threads, and the behaviour of a system that starts no threads: an error
//! sentence, in the library and in every command.
//!
//! A system without threads is simulated by asking, with Rust's `RUST_MIN_STACK`, for thread stacks of
//! half the address space: a limit on processes does not apply to root, and a limit on memory would
//! affect more than threads.
#![cfg(unix)]

use crate::dataset;
use fuseloop::internals::source::beton::PagedBeton;
use fuseloop::source::stream::Interleave;
use fuseloop::source::{
    Beton, BoxError, FieldKind, FieldSpec, Folder, FolderOptions, Generator, OpenOptions,
    OwnedValue, ProcessCache, RunPlan, Source, Stream, Tar, TarOptions, TfOptions, TfRecords,
    Upcoming, index_shards, join_index,
};
use fuseloop::verify::{VerifyOptions, verify};
use fuseloop::write::{FieldValue, ImageInput, WriteMode, WriteOptions, convert, write_iter};
use fuseloop::{Epoch, Loader, SampleId};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::{env, fs};

/// Numbers above the limit, up to the largest integer.
const TOO_MANY: [usize; 3] = [1025, 20_000, usize::MAX];

/// Asserts the text that the sentence must contain.
#[track_caller]
fn assert_bounded(error: &impl ToString, found: usize) {
    let text = error.to_string();
    assert!(text.contains(&found.to_string()) && text.contains("the limit is 1024"), "{text}");
}

/// The environment variable that names the folder of datasets to a child.
const FOLDER: &str = "FUSELOOP_TEST_THREADS";

/// A size larger than the stack of a thread can be.
const NO_STACK: &str = "4611686018427387904";

/// Creates a `.beton`, one of bit planes, a folder of images with classes, and shards of tar and of TFRecord.
pub(super) fn datasets() -> (tempfile::TempDir, std::path::PathBuf) {
    let (dir, path) = dataset::write(40, WriteMode::Jpg, dataset::varied);
    let beton = Beton::open(&path, &OpenOptions::default()).unwrap();
    let two = WriteOptions { shards: Some(2), ..WriteOptions::default() };
    convert(&beton, dir.path().join("folder"), &WriteOptions::default()).unwrap();
    convert(&beton, dir.path().join("a-{0}.tar"), &two).unwrap();
    convert(&beton, dir.path().join("a-{0}.tfrecord"), &two).unwrap();
    let planes = ["convert", "pictures.beton", "planes.beton", "--write-mode", "planes"];
    assert!(fuseloop(dir.path(), &planes, None).status.success());
    (dir, path)
}

fn fuseloop(dir: &Path, args: &[&str], stack: Option<&str>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fuseloop"));
    command.args(args).current_dir(dir);
    stack.map(|stack| command.env("RUST_MIN_STACK", stack));
    command.output().unwrap()
}

/// Every command with an option for the number of its threads, without that option.
pub(super) const COMMANDS: [&[&str]; 14] = [
    &["bench", "pictures.beton"],
    &["preview", "pictures.beton", "-n", "8", "-m", "2", "-o", "out.png"],
    &["dump", "pictures.beton", "-o", "out"],
    &["explain", "pictures.beton"],
    &["replay", "pictures.beton", "--sample", "3", "-o", "out"],
    &["verify", "pictures.beton"],
    &["convert", "folder", "out.beton"],
    &["convert", "pictures.beton", "out.tar"],
    &["recut", "folder", "out"],
    &["convert", "pictures.beton", "out.beton", "--write-mode", "tiled"],
    &["convert", "planes.beton", "out.beton"],
    &["convert", "pictures.beton", "pictures.beton", "out.beton"],
    &["convert", "pictures.beton", "out-{0}.beton", "--shards", "2"],
    &["convert", "pictures.beton", "out.beton", "--indices", "3..5"],
];

/// The other commands that start threads.
pub(super) const OTHERS: [&[&str]; 7] = [
    &["info", "folder"],
    &["info", "a-{0..1}.tar"],
    &["info", "a-{0..1}.tfrecord"],
    &["index", "a-{0..1}.tar"],
    &["demo"],
    &["bench", "a-{0..1}.tar"],
    &["capacity", "pictures.beton", "--gpus", "1", "--images-per-gpu", "9", "--cores", "2"],
];

/// A new command must be added to one of the lists above.
#[test]
fn the_lists_have_every_command() {
    let help = fuseloop(Path::new("."), &["--help"], None).stdout;
    let help = String::from_utf8(help).unwrap();
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let commands = commands.lines().take_while(|line| !line.is_empty());
    let commands = commands.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let mut found: Vec<&str> =
        commands.map(|line| line.split_whitespace().next().unwrap()).collect();
    // These start no threads, or serve until they are ended.
    found.retain(|name| {
        !["help", "compile", "diff", "ops", "studio", "completions", "man"].contains(name)
    });
    assert!(found.len() > 10, "{help}");
    for name in found {
        assert!(COMMANDS.iter().chain(&OTHERS).any(|args| args[0] == name), "{name} is not listed");
    }
}

#[test]
fn every_command_refuses_too_many_threads_with_a_sentence() {
    let (dir, _) = datasets();
    for command in COMMANDS {
        for count in TOO_MANY {
            let count_text = count.to_string();
            let args = [command, &["-j", &count_text]].concat();
            let output = fuseloop(dir.path(), &args, None);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
            assert_bounded(&said, count);
        }
    }
}

#[test]
fn a_pipeline_file_may_not_ask_for_more_either() {
    let (dir, _) = datasets();
    let text = "workers = 20000\nwithout = [\"image\"]\n";
    fs::write(dir.path().join("p.toml"), text).unwrap();
    let output = fuseloop(dir.path(), &["bench", "pictures.beton", "-p", "p.toml"], None);
    assert_eq!(output.status.code(), Some(1));
    assert_bounded(&String::from_utf8_lossy(&output.stderr), 20_000);
}

fn made(_: Epoch, sample: u64) -> Result<Vec<OwnedValue>, BoxError> {
    Ok(vec![OwnedValue::Int(sample as i64)])
}

#[test]
fn every_part_of_the_library_refuses_too_many_threads() {
    let (_dir, path) = dataset::write(3, WriteMode::Jpg, dataset::varied);
    let open = || Loader::open(&path).unwrap().without("image");
    for count in TOO_MANY {
        let threads = NonZeroUsize::new(count).unwrap();
        assert_bounded(&open().workers(count).build().err().unwrap(), count);
        let cache = ProcessCache { io_threads: threads, ..ProcessCache::default() };
        assert_bounded(&open().process_cache(cache).build().err().unwrap(), count);
        let paged = PagedBeton::new(Beton::open(&path, &OpenOptions::default()).unwrap(), cache);
        assert_bounded(&Source::begin(Arc::new(paged), &run()).err().unwrap(), count);
        let fields = vec![FieldSpec { name: "label".to_owned(), kind: FieldKind::Int }];
        let generator = || Generator::new(count, 4);
        assert_bounded(&generator().source(fields.clone(), 9, made).err().unwrap(), count);
        let queue = generator().start(|ticket| Ok::<_, BoxError>(Some(ticket)));
        assert_bounded(&queue.err().unwrap(), count);
        let numbers = Stream::of(Arc::new(Generator::new(1, 4).source(fields, 9, made).unwrap()));
        let how = Interleave { reads: count, ..Interleave::default() };
        assert_bounded(&Stream::interleave([numbers], how).err().unwrap(), count);
        let beton = Beton::open(&path, &OpenOptions::default()).unwrap();
        let options = VerifyOptions { threads: Some(threads), ..VerifyOptions::default() };
        assert_bounded(&verify(&beton, &options, &|_| {}).err().unwrap(), count);
        let rows = std::iter::empty::<Vec<FieldValue>>();
        let fields = [FieldSpec { name: "label".to_owned(), kind: FieldKind::Int }];
        let options = WriteOptions { threads: Some(threads), ..WriteOptions::default() };
        assert_bounded(&write_iter(rows, &fields, "out.beton", &options).err().unwrap(), count);
    }
}

#[test]
fn as_many_as_the_limit_are_started() {
    let (_dir, path) = dataset::write(3, WriteMode::Jpg, dataset::varied);
    let beton = Beton::open(&path, &OpenOptions::default()).unwrap();
    let options = VerifyOptions { threads: NonZeroUsize::new(1024), ..VerifyOptions::default() };
    assert!(verify(&beton, &options, &|_| {}).unwrap().is_whole());
}

/// All samples of a `.beton` with 40 samples.
struct All;

impl Upcoming for All {
    fn samples(&self) -> u64 {
        40
    }

    fn at(&self, positions: Range<u64>, samples: &mut Vec<SampleId>) {
        samples.extend(positions.map(SampleId));
    }
}

fn run() -> RunPlan {
    let (upcoming, fields) = (Arc::new(All), vec![0, 1]);
    RunPlan { seed: 0, epoch: Epoch(0), upcoming, batch_size: 8, batches_ahead: 3, fields }
}

#[test]
fn every_command_says_that_no_thread_can_be_started() {
    let (dir, _) = datasets();
    for args in COMMANDS.iter().chain(&OTHERS) {
        let output = fuseloop(dir.path(), args, Some(NO_STACK));
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
        assert!(said.starts_with("error: ") && said.contains("thread"), "{args:?}: {said}");
    }
}

/// The folder given to the child; `None` if this process is not a child.
fn given() -> Option<std::path::PathBuf> {
    env::var_os(FOLDER).map(Into::into)
}

#[track_caller]
fn assert_no_threads<T, E: ToString>(outcome: Result<T, E>) {
    let text = outcome.err().unwrap().to_string();
    assert!(text.contains("thread") && text.contains("os error"), "{text}");
}

#[test]
fn child_without_threads() {
    let Some(dir) = given() else { return };
    let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    let beton = || Beton::open(path("pictures.beton"), &OpenOptions::default()).unwrap();
    let open = || Loader::open(path("pictures.beton")).unwrap().without("image");
    assert!(std::thread::Builder::new().spawn(|| ()).is_err(), "the system starts threads");
    assert_no_threads(open().build());
    assert_no_threads(open().filter("label", |_| true).build());
    assert_no_threads(Folder::open(path("folder"), &FolderOptions::default()));
    assert_no_threads(Tar::open(&path("a-{0..1}.tar"), &TarOptions::default()));
    assert_no_threads(TfRecords::open(&path("a-{0..1}.tfrecord"), &TfOptions::default()));
    assert_no_threads(index_shards(&path("a-{0..1}.tar"), &|_, _| {}));
    assert_no_threads(join_index(&path("a-{0..1}.tar"), &|_, _| {}));
    assert_no_threads(verify(&beton(), &VerifyOptions::default(), &|_| {}));
    let paged = PagedBeton::new(beton(), ProcessCache::default());
    assert_no_threads(Source::begin(Arc::new(paged), &run()));
    assert_no_threads(Generator::new(1, 4).start(|ticket| Ok::<_, BoxError>(Some(ticket))));
    // Then a large table is scanned on the current thread, which is not an error.
    let large = Beton::open(path("large.beton"), &OpenOptions::default()).unwrap();
    assert_eq!(large.facts().image_stats(0).unwrap().raw, 20_000);
}

#[test]
fn a_system_that_starts_no_thread_is_an_error() {
    let (dir, _) = datasets();
    let fields = [FieldSpec { name: "image".to_owned(), kind: FieldKind::RgbImage }];
    let dot = || ImageInput::Rgb { pixels: vec![1, 2, 3], width: 1, height: 1 };
    let rows = (0..20_000).map(|_| vec![FieldValue::Image(dot())]);
    let mut options = WriteOptions::default();
    options.image.write_mode = WriteMode::Raw;
    write_iter(rows, &fields, dir.path().join("large.beton"), &options).unwrap();
    let output = Command::new(env::current_exe().unwrap())
        .args(["--exact", "threads::child_without_threads", "--nocapture", "--test-threads=1"])
        .env(FOLDER, dir.path())
        .env("RUST_MIN_STACK", NO_STACK)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1 passed"), "{text}");
}
