//! The sample cache: epochs of a loader without a cache, with one in memory and with one on disk.
//!
//! The yardstick is the same pixels in a raw `.beton`: the cost of an epoch with nothing left to
//! decode, read through the system's page cache. All contenders take turns in one process, each
//! round with fresh loaders, so that every round has a first epoch; figures are medians of the
//! rounds.
//!
//! | images | source and ops                                                                    |
//! |--------|-----------------------------------------------------------------------------------|
//! | jpeg   | `data/imagenet` of `FUSELOOP_SHARED` or `../shared`, else drawn images of 500 x 375: crop, flip, normalize (`w1`) |
//! | small  | drawn images of 16 x 16, flipped: the cost of a look-up beside a loop of a microsecond |
//!
//! `-- --test` runs one round.

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

mod common;
#[path = "../cli/src/demo/pictures.rs"]
#[allow(dead_code, reason = "the demo draws pictures of many sizes, this of one")]
mod pictures;

use common::median;
use fuseloop::internals::workload::Workload;
use fuseloop::loader::Cache;
use fuseloop::ops::{Ops, ParamError, RandomHorizontalFlip, ops};
use fuseloop::source::{FieldKind, FieldSpec, Folder, FolderOptions};
use fuseloop::write::{
    FieldValue, ImageInput, ImageOptions, WriteMode, WriteOptions, convert, write_iter,
};
use fuseloop::{Loader, LoaderBuilder, Order};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Instant;

const ROUNDS: usize = 7;

/// Large enough for all samples.
const BUDGET: u64 = 4 << 30;

/// The contenders, in the order of the table.
const HOW: [&str; 4] = ["no cache", "in memory", "on disk", "raw .beton"];

fn main() {
    let is_quick = std::env::args().skip(1).any(|word| word == "--test" || !word.starts_with('-'));
    let rounds = if is_quick { 1 } else { ROUNDS };
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, mode, write: &dyn Fn(&Path, &WriteOptions)| {
        let file = dir.path().join(name);
        let image = ImageOptions { write_mode: mode, ..ImageOptions::default() };
        write(&file, &WriteOptions { image, ..WriteOptions::default() });
        file
    };
    let photographs = |mode, name| write(name, mode, &write_photographs);
    let small =
        |mode, name| write(name, mode, &|file, options| drawn(20_000, 16, 16, file, options));
    let jpeg = [photographs(WriteMode::Jpg, "jpeg"), photographs(WriteMode::Raw, "raw")];
    let small = [small(WriteMode::Jpg, "small jpeg"), small(WriteMode::Raw, "small raw")];
    for threads in [1, 2] {
        compare("jpeg", &jpeg, || Workload::ImageNet.ops(), threads, rounds);
        compare("small", &small, || Ok(ops![RandomHorizontalFlip::new(0.5)?]), threads, rounds);
    }
}

/// Writes the shared photographs, or drawn images if there are none.
fn write_photographs(file: &Path, options: &WriteOptions) {
    let shared = std::env::var_os("FUSELOOP_SHARED").map(PathBuf::from);
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
    let folder = shared.unwrap_or_else(beside).join("data/imagenet");
    if folder.is_dir() {
        let photos = Folder::open(&folder, &FolderOptions::default()).unwrap();
        let _ = convert(&photos, file, options).unwrap();
    } else {
        println!("no photographs at hand: jpeg are drawn pictures of 500 x 375");
        drawn(128, 500, 375, file, options);
    }
}

/// Writes `count` images that repeat at most 128 drawn ones: their content does not affect the
/// time.
fn drawn(count: usize, width: u32, height: u32, file: &Path, options: &WriteOptions) {
    let draw = |k| pictures::draw_at(k % pictures::CLASSES.len(), k as u32, width, height).pixels;
    let pictures: Vec<Vec<u8>> = (0..count.min(128)).map(draw).collect();
    let field = |name: &str, kind| FieldSpec { name: name.into(), kind };
    let fields = [field("image", FieldKind::RgbImage), field("label", FieldKind::Int)];
    let rows = (0..count).map(|k| {
        let pixels = pictures[k % pictures.len()].clone();
        vec![FieldValue::Image(ImageInput::Rgb { pixels, width, height }), FieldValue::Int(0)]
    });
    let _ = write_iter(rows, &fields, file, options).unwrap();
}

/// Returns the images/s of a loader's first and second epoch.
fn two_epochs(builder: LoaderBuilder) -> [f64; 2] {
    let loader = builder.build().unwrap();
    [0, 1].map(|epoch| {
        let (start, mut images) = (Instant::now(), 0);
        for batch in loader.epoch(epoch).unwrap() {
            images += black_box(batch.unwrap()).len();
        }
        images as f64 / start.elapsed().as_secs_f64()
    })
}

fn compare(
    what: &str,
    [jpeg, raw]: &[PathBuf; 2],
    make: fn() -> Result<Ops, ParamError>,
    threads: usize,
    rounds: usize,
) {
    let folder = tempfile::tempdir().unwrap();
    let open = |file: &Path| -> LoaderBuilder {
        let builder = Loader::open(file).unwrap().batch_size(64).order(Order::Random);
        builder.drop_last(false).workers(threads).pipeline("image", make().unwrap())
    };
    let contender = |how: usize| match how {
        0 => open(jpeg),
        1 => open(jpeg).cache(Cache::memory(BUDGET)),
        2 => open(jpeg).cache(Cache::disk(folder.path(), BUDGET)),
        _ => open(raw),
    };
    let mut rates = [const { [vec![], vec![]] }; HOW.len()];
    for _ in 0..rounds {
        for (how, rates) in rates.iter_mut().enumerate() {
            let [first, second] = two_epochs(contender(how));
            rates[0].push(first);
            rates[1].push(second);
        }
    }
    let rates = rates.map(|of| of.map(|rates| median(rates.into_iter())));
    let plain = rates[0][1];
    for (how, [first, second]) in HOW.iter().zip(rates) {
        println!(
            "cache/{what}/{threads} threads/{how:<10} epoch 1 {first:>9.0} images/s, \
             epoch 2 {second:>9.0} ({:.2} us an image), {:.2} and {:.2} times no cache",
            1e6 / second,
            first / plain,
            second / plain
        );
    }
}
