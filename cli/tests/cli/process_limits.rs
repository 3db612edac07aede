//! A process at its limits (few files, little address space) gets errors, and does not die.
//!
//! The limits are set by the shell of a child process, which runs one of the tests of this binary.
#![cfg(target_os = "linux")]

use crate::{dataset, threads};
use fuseloop::ErrorKind;
use fuseloop::internals::jit::evaluate_steps;
use fuseloop::internals::plan::{Draws, ImagePlan};
use fuseloop::internals::workload::imagenet;
use fuseloop::ops::author::{Dim, ImageType};
use fuseloop::ops::internals::{ImageView, SampleKey};
use fuseloop::ops::*;
use fuseloop::recut::Tile;
use fuseloop::sample::Limits;
use fuseloop::source::{FieldKind, FieldSpec};
use fuseloop::write::{FieldValue, ImageInput, ImageOptions, WriteMode, WriteOptions, write_iter};
use fuseloop::{Loader, LoaderBuilder, OnDamaged};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

/// The environment variable that names the dataset to the child.
const DATASET: &str = "FUSELOOP_TEST_LIMITED";

/// Runs a test of this binary after `limits`, with a dataset; returns its output.
fn child(test: &str, limits: &str) -> String {
    let (_dir, path) = dataset::write(20, WriteMode::Jpg, dataset::varied);
    let program = env::current_exe().unwrap();
    let output = Command::new("sh")
        .args(["-c", &format!("{limits}; exec \"$0\" --exact process_limits::{test} --nocapture")])
        .arg(program)
        .env(DATASET, path)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}\n{text}\n{errors}", output.status);
    text
}

fn builder(path: &Path) -> LoaderBuilder {
    Loader::open(path).unwrap().batch_size(8).workers(2).pipeline("image", imagenet(64).unwrap())
}

/// The dataset of the child; `None` if this process is not a child.
fn dataset() -> Option<std::path::PathBuf> {
    env::var_os(DATASET).map(Into::into)
}

#[test]
fn child_with_few_files() {
    let Some(path) = dataset() else { return };
    let mut open = vec![];
    let error = loop {
        assert!(open.len() < 100, "the limit does not hold");
        match Loader::open(&path) {
            Ok(builder) => open.push(builder),
            Err(error) => break error,
        }
    };
    let all = open.len();
    println!("after {all} files: {error}");
    // With the datasets already open, everything continues to work.
    drop(open.split_off(all - 1));
    let loader = builder(&path).build().unwrap();
    assert!(loader.epoch(0).unwrap().all(|batch| batch.is_ok()));
}

#[test]
fn too_many_open_files_are_an_error() {
    let said = child("child_with_few_files", "ulimit -n 64");
    assert!(said.contains("Too many open files"), "{said}");
}

#[test]
fn child_with_little_memory() {
    let Some(path) = dataset() else { return };
    let loader = builder(&path).build().unwrap();
    assert!(loader.epoch(0).unwrap().all(|batch| batch.is_ok()));
    let large = builder(&path).batch_size(100_000).drop_last(false).build().unwrap();
    let error = large.epoch(0).unwrap().next().unwrap().err().unwrap();
    println!("a large batch: {error}");
    assert!(loader.epoch(1).unwrap().all(|batch| batch.is_ok()));
}

/// The exit code and output of a command run under `limits`.
fn command(dir: &Path, limits: &str, args: &[&str]) -> (Option<i32>, String) {
    let script = format!("{limits}; exec \"$0\" \"$@\"");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, env!("CARGO_BIN_EXE_fuseloop")]).args(args).current_dir(dir);
    let output = shell.output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The names in a folder.
fn names(dir: &Path) -> BTreeSet<OsString> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name()).collect()
}

/// With the smallest limit, some commands fail and others succeed.
#[test]
fn no_command_dies_of_little_memory() {
    let (dir, _) = threads::datasets();
    let dir = dir.path();
    let given = names(dir);
    let of_threads = threads::COMMANDS.map(|args| [args, &["-j", "8"]].concat());
    let others: [&[&str]; 2] = [&["info", "pictures.beton"], &["ops"]];
    let others = threads::OTHERS.into_iter().chain(others).map(<[_]>::to_vec);
    // It draws its own images, which takes too long for all limits.
    let others = others.filter(|args| args[0] != "demo");
    for args in of_threads.into_iter().chain(others) {
        // The crate that reads the coefficients of a JPEG aborts where it gets no memory, and eight threads
        // share what was there before the call.
        let is_recut = args.iter().any(|arg| ["recut", "tiled"].contains(arg));
        let mut sizes: Vec<u32> = [64, 96, 128, 256, 512].map(|megabytes| megabytes << 10).into();
        sizes.drain(..usize::from(is_recut));
        // A compiler in a process that has just enough memory for the rest of the command.
        if args[0] == "explain" {
            sizes.extend((66 << 10..80 << 10).step_by(300));
        }
        let sizes = sizes.into_iter().map(|kilobytes| kilobytes.to_string());
        for limit in sizes.chain(["unlimited".to_owned()]) {
            let (code, said) = command(dir, &format!("ulimit -v {limit}"), &args);
            assert!(matches!(code, Some(0 | 1)), "{limit} KiB, {args:?}: {code:?} {said}");
            let is_error = code == Some(1) && said.starts_with("error: ") && limit != "unlimited";
            assert!(code == Some(0) || is_error, "{limit} KiB, {args:?}: {said}");
            assert!(!said.contains("panicked"), "{limit} KiB, {args:?}: {said}");
            // The next run writes the same files again.
            for name in names(dir).difference(&given) {
                let path = dir.join(name);
                if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
                    .unwrap();
            }
        }
    }
}

/// A contact sheet holds its cells, and not the images they are scaled from.
#[test]
fn a_preview_of_pictures_that_do_not_fit_into_memory_together() {
    let dir = tempfile::tempdir().unwrap();
    let mut jpeg = vec![];
    let encoder = jpeg_encoder::Encoder::new(&mut jpeg, 90);
    encoder.encode(&vec![90; 2000 * 2000], 2000, 2000, jpeg_encoder::ColorType::Luma).unwrap();
    fs::create_dir_all(dir.path().join("folder/a")).unwrap();
    for k in 0..32 {
        fs::write(dir.path().join(format!("folder/a/{k}.jpg")), &jpeg).unwrap();
    }
    let args = ["preview", "folder", "-n", "32", "-m", "1", "-j", "2", "-o", "out.png"];
    let (code, said) = command(dir.path(), "ulimit -v 524288", &args);
    assert_eq!(code, Some(0), "{said}");
}

/// An image that does not fit into the memory is not left out as a damaged one.
#[test]
fn an_image_without_memory_is_not_skipped_when_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut jpeg = vec![];
    let encoder = jpeg_encoder::Encoder::new(&mut jpeg, 50);
    encoder.encode(&vec![90; 9000 * 9000], 9000, 9000, jpeg_encoder::ColorType::Luma).unwrap();
    fs::create_dir_all(dir.path().join("folder/a")).unwrap();
    fs::write(dir.path().join("folder/a/large.jpg"), &jpeg).unwrap();
    for (form, dst) in [("write", "x.beton"), ("convert", "x.tar")] {
        let args =
            [form, "folder", dst, "--max-resolution", "99", "--on-damaged", "skip", "-j", "1"];
        let (code, said) = command(dir.path(), "ulimit -v 196608", &args);
        assert_eq!(code, Some(1), "{said}");
        assert!(
            said.contains("could not allocate 243000000 bytes for the pixels of an image"),
            "{said}"
        );
        assert_eq!(command(dir.path(), "true", &args).0, Some(0));
    }
    // A JPEG whose coefficients find no memory is not left as it is.
    let recut = ["recut", "folder", "recut", "--overwrite", "--on-damaged", "skip", "-j", "1"];
    let write = [
        "write",
        "folder",
        "y.beton",
        "--overwrite",
        "--tile",
        "32",
        "--on-damaged",
        "skip",
        "-j",
        "1",
    ];
    for args in [&recut[..], &write] {
        let (code, said) = command(dir.path(), "ulimit -v 196608", args);
        assert_eq!(code, Some(1), "{args:?}: {said}");
        assert!(said.contains("bytes for the coefficients of a JPEG"), "{args:?}: {said}");
        assert_eq!(command(dir.path(), "true", args).0, Some(0));
    }
    // Nor is a file left out that does not fit into the memory.
    let file = fs::File::create(dir.path().join("folder/a/large.jpg")).unwrap();
    file.set_len(250 << 20).unwrap();
    for args in [&recut[..], &write, &["convert", "folder", "z.tar", "--on-damaged", "skip"]] {
        let (code, said) = command(dir.path(), "ulimit -v 196608", args);
        assert_eq!(code, Some(1), "{args:?}: {said}");
        assert!(said.contains("out of memory"), "{args:?}: {said}");
    }
}

#[test]
fn memory_that_is_not_there_is_an_error() {
    let said = child("child_with_little_memory", "ulimit -v 524288");
    assert!(said.contains("a large batch: no memory for a tensor of 4915200000 bytes"), "{said}");
}

/// Ops whose images fit the limits but not the memory: half a gigabyte between two ops.
#[test]
fn child_with_little_memory_for_its_ops() {
    let Some(path) = dataset() else { return };
    for ops in [
        // A frame that is copied, an image between two loops, and rows that are all stored.
        || ops![Pad::new(6500).unwrap(), Resize::new((8, 8)).unwrap()],
        || ops![Resize::new((13_300, 13_300)).unwrap(), Resize::new((8, 8)).unwrap()],
        || {
            let contrast = RandomContrast::new(0.5).unwrap().p(1.0).unwrap();
            ops![Resize::new((13_300, 13_300)).unwrap(), contrast, CenterCrop::new(8).unwrap()]
        },
    ] as [fn() -> Ops; 3]
    {
        // Too little memory is no damage, so nothing is skipped.
        let loader = Loader::open(&path).unwrap().batch_size(2).workers(2);
        let loader = loader.on_damaged(OnDamaged::Skip).pipeline("image", ops()).build().unwrap();
        let error = loader.epoch(0).unwrap().next().unwrap().err().unwrap();
        println!("a large op: {error}");
    }
    // The oracle, whose images take 12 bytes per pixel.
    let input = ImageType::decoded(Dim::fixed(20), Dim::fixed(20));
    let large = ops![Pad::new(4000).unwrap(), CenterCrop::new(8).unwrap()];
    let plan = ImagePlan::new(large, input, NumberRule::Fused).unwrap();
    let (pixels, size) = ([7; 1200], Size::new(20, 20));
    let mut draws = Draws::default();
    plan.draw(SampleKey::new(0, 0, 0), size, &mut draws);
    let view = ImageView::packed(&pixels, size).unwrap();
    println!("the oracle: {}", evaluate_steps(&plan, &view, &draws).err().unwrap());
}

#[test]
fn memory_that_is_not_there_for_an_op_is_an_error_that_names_the_sample() {
    let said = child("child_with_little_memory_for_its_ops", "ulimit -v 524288");
    let errors: Vec<&str> = said.lines().filter(|line| line.starts_with("a large op: ")).collect();
    assert_eq!(errors.len(), 3, "{said}");
    for error in errors {
        assert!(error.contains("sample ") && error.contains("(image)"), "{error}");
        assert!(error.contains("out of memory: could not allocate "), "{error}");
    }
    assert!(said.contains("the oracle: out of memory: could not allocate 771"), "{said}");
}

/// The sizes that a loader accepts depend on its limits.
#[test]
fn limits_are_the_loaders_own() {
    let (_dir, path) = dataset::write(4, WriteMode::Jpg, dataset::varied);
    let limits = Limits { max_pixels: 64 * 64, max_batch_bytes: 4 * 8 * 12_288, ..Limits::DEFAULT };
    let small = Limits { max_pixels: 60 * 60, ..limits };
    // The stored images are larger, and a crop makes them small: the decoded size counts as well.
    let error = builder(&path).limits(small).build().err().unwrap();
    assert!(error.to_string().contains("RandomResizedCrop produces an image of 64x64"), "{error}");
    let floats = || ops![CenterCrop::new(32).unwrap(), Convert::to(DType::F32)];
    let build = |batch| {
        let loader = Loader::open(&path).unwrap().batch_size(batch).without("label");
        loader.limits(limits).pipeline("image", floats())
    };
    assert!(build(8).build().is_ok());
    let error = build(9).build().err().unwrap();
    let expected = "4 batches of 9 samples take 442368 bytes, 12288 a sample; the limit is 393216";
    assert!(error.to_string().starts_with(expected), "{error}");
    assert_eq!(error.kind(), ErrorKind::Memory);
    assert!(build(9).memory_limit(1 << 20).build().is_ok(), "a limit of the user's own");
    assert!(build(8).limits(Limits { max_row_bytes: 12_287, ..limits }).build().is_err());
}

/// The peak memory of this process, in bytes.
fn peak() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

/// Writes a PNG of 3 bytes per pixel re-cut into tiles; prints the growth of the peak memory.
#[test]
fn child_that_writes_a_large_png_in_tiles() {
    let Some(path) = dataset() else { return };
    let side = 3000;
    let mut file = vec![];
    let mut encoder = png::Encoder::new(&mut file, side, side);
    encoder.set_color(png::ColorType::Rgb);
    let mut writer = encoder.write_header().unwrap();
    {
        use std::io::Write as _;
        let mut stream = writer.stream_writer().unwrap();
        for y in 0..side {
            let row: Vec<u8> = (0..3 * side).map(|x| (x / 40 + y / 9) as u8).collect();
            stream.write_all(&row).unwrap();
        }
        stream.finish().unwrap();
    }
    writer.finish().unwrap();
    let before = peak();
    let fields = [FieldSpec { name: "image".to_owned(), kind: FieldKind::RgbImage }];
    let rows = [vec![FieldValue::Image(ImageInput::JpegBytes(file))]];
    let image = ImageOptions {
        write_mode: WriteMode::Jpg,
        tile: Some(Tile::default()),
        ..Default::default()
    };
    let to = path.with_file_name("png.beton");
    let report =
        write_iter(rows, &fields, &to, &WriteOptions { image, ..WriteOptions::default() }).unwrap();
    let took = peak() - before;
    println!("tiles: {report:?}");
    println!("bytes a pixel: {:.1}", took as f64 / f64::from(side * side));
}

/// The decoded image takes 3 bytes per pixel, and so do its coefficients. Earlier versions held eight copies.
#[test]
fn a_large_png_is_not_held_in_many_copies() {
    let said = child("child_that_writes_a_large_png_in_tiles", "true");
    let line = said.lines().find_map(|line| line.strip_prefix("bytes a pixel: ")).unwrap();
    let found: f64 = line.parse().unwrap();
    println!("{found} bytes a pixel");
    assert!(found < 12.0, "{found} bytes a pixel\n{said}");
}
