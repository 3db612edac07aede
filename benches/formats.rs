//! The same photographs as a folder, as tar shards and as a `.beton`, read by 1 to 8 readers.
//!
//! | | |
//! |---|---|
//! | in order  | each sample once, in stored order; a reader takes 64 at a time |
//! | at random | each sample once, in one shuffled order for all formats |
//! | warm      | all files are in the page cache, read once before |
//! | cold      | the page cache is asked to drop the files before each run (`POSIX_FADV_DONTNEED`) |
//!
//! `Source::value` reads the image and the label of each sample into the reader's own buffer;
//! nothing is decoded. The folder has one file per photograph; its rows are the yardstick of the
//! ratio.
//!
//! ```text
//! cargo bench --bench formats                  photographs of FUSELOOP_PHOTOS, or ../shared/data/imagenet
//! cargo bench --bench formats -- --test        a few samples of each, unmeasured
//! ```

#![allow(clippy::unwrap_used, reason = "a benchmark may panic")]

use fuseloop::SampleId;
use fuseloop::ops::internals::SampleKey;
use fuseloop::source::{
    Beton, Buffer, Folder, FolderOptions, OpenOptions, Source, Tar, TarOptions, Value,
};
use fuseloop::write::{WriteOptions, convert};
use rustix::fs::Advice;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

/// Samples of the dataset: the photographs, repeated as often as needed.
const SAMPLES: usize = 4000;
/// Samples of a shard.
const SHARD: usize = 1000;
/// Samples that a reader takes at a time in the runs in order.
const STROKE: u64 = 64;
/// The number of rounds; the median counts.
const ROUNDS: usize = 5;

fn main() {
    let once = std::env::args().any(|word| word == "--test" || word == "nothing");
    let Some(photos) = photographs() else {
        println!("no photographs: FUSELOOP_PHOTOS=FOLDER names some");
        return;
    };
    let samples = if once { 20 } else { SAMPLES };
    // On a disk: files in a tmpfs are always warm.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let made = Made::new(dir.path(), &photos, samples);
    println!("{samples} photographs, {:.0} MB", made.bytes as f64 / 1e6);
    for how in [
        How { random: false, cold: false },
        How { random: true, cold: false },
        How { random: false, cold: true },
        How { random: true, cold: true },
    ] {
        table(&made, how, if once { 1 } else { ROUNDS });
    }
}

/// How samples are read.
#[derive(Clone, Copy)]
struct How {
    random: bool,
    cold: bool,
}

/// The same samples in three formats.
struct Made {
    sources: [(&'static str, Box<dyn Source>); 3],
    files: Vec<PathBuf>,
    samples: u64,
    bytes: u64,
}

impl Made {
    fn new(dir: &Path, photos: &[Vec<u8>], samples: usize) -> Self {
        let folder = dir.join("folder");
        let tars: Vec<_> =
            (0..samples.div_ceil(SHARD)).map(|k| dir.join(format!("{k:03}.tar"))).collect();
        for (k, tar) in tars.iter().enumerate() {
            let mut shard = tar::Builder::new(File::create(tar).unwrap());
            for sample in k * SHARD..samples.min((k + 1) * SHARD) {
                let (photo, class) = (&photos[sample % photos.len()], sample % 10);
                let class_dir = folder.join(format!("class_{class}"));
                fs::create_dir_all(&class_dir).unwrap();
                fs::write(class_dir.join(format!("{sample:06}.jpg")), photo).unwrap();
                member(&mut shard, &format!("{sample:06}.jpg"), photo);
                member(&mut shard, &format!("{sample:06}.cls"), class.to_string().as_bytes());
            }
            shard.into_inner().unwrap().sync_all().unwrap();
        }
        let beton = dir.join("photos.beton");
        let listed = Folder::open(&folder, &FolderOptions::default()).unwrap();
        convert(&listed, &beton, &WriteOptions::default()).unwrap();
        let paths = (0..listed.facts().samples)
            .map(|k| folder.join(&*listed.locate(SampleId(k), 0).unwrap().key.unwrap()));
        let files: Vec<PathBuf> = paths.chain(tars).chain([beton.clone()]).collect();
        files.iter().for_each(|file| File::open(file).unwrap().sync_all().unwrap());
        let shards = format!("{}/*.tar", dir.display());
        let bytes = (0..samples).map(|k| photos[k % photos.len()].len() as u64).sum();
        let sources: [(_, Box<dyn Source>); 3] = [
            ("folder", Box::new(listed)),
            ("tar", Box::new(Tar::open(&shards, &TarOptions::default()).unwrap())),
            (".beton", Box::new(Beton::open(&beton, &OpenOptions::default()).unwrap())),
        ];
        Self { sources, files, samples: samples as u64, bytes }
    }

    /// Makes the system drop all files from its cache, or load them into it.
    fn prepare(&self, cold: bool) {
        for file in &self.files {
            if cold {
                let file = File::open(file).unwrap();
                rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
            } else {
                std::io::copy(&mut File::open(file).unwrap(), &mut std::io::sink()).unwrap();
            }
        }
    }
}

fn member(shard: &mut tar::Builder<File>, name: &str, bytes: &[u8]) {
    let mut header = tar::Header::new_ustar();
    header.set_size(bytes.len() as u64);
    header.set_mode(0o644);
    shard.append_data(&mut header, name, bytes).unwrap();
}

fn table(made: &Made, how: How, rounds: usize) {
    let order = if how.random { "at random" } else { "in order" };
    println!("\n{order}, {}", if how.cold { "page cache dropped" } else { "warm" });
    println!(
        "{:>8} {:>8} {:>12} {:>9} {:>10}",
        "format", "readers", "images/s", "MB/s", "of folder"
    );
    let order = order_of(made.samples, how.random);
    for readers in [1, 2, 4, 8] {
        let mut rates = [const { vec![] }; 3];
        for _ in 0..rounds {
            for (rates, (_, source)) in rates.iter_mut().zip(&made.sources) {
                made.prepare(how.cold);
                rates.push(rate(&**source, &order, readers));
            }
        }
        let medians = rates.map(median);
        for ((name, _), rate) in made.sources.iter().zip(medians) {
            let megabytes = rate * made.bytes as f64 / made.samples as f64 / 1e6;
            let ratio = rate / medians[0];
            println!("{name:>8} {readers:>8} {rate:>12.0} {megabytes:>9.0} {ratio:>9.2}x");
        }
    }
}

fn order_of(samples: u64, random: bool) -> Vec<u64> {
    let mut order: Vec<u64> = (0..samples).collect();
    if random {
        let mut rng = SampleKey::new(1, 0, 0).op(0);
        for last in (1..order.len()).rev() {
            order.swap(last, rng.below(last as u32 + 1) as usize);
        }
    }
    order
}

/// Returns samples per second.
fn rate(source: &dyn Source, order: &[u64], readers: usize) -> f64 {
    let next = AtomicU64::new(0);
    let begun = Instant::now();
    thread::scope(|scope| {
        for _ in 0..readers {
            scope.spawn(|| {
                let mut buffer = Buffer::default();
                loop {
                    let first = next.fetch_add(STROKE, Ordering::Relaxed) as usize;
                    let Some(stroke) = order.get(first..) else { break };
                    if stroke.is_empty() {
                        break;
                    }
                    stroke.iter().take(STROKE as usize).for_each(|&k| read(source, k, &mut buffer));
                }
            });
        }
    });
    order.len() as f64 / begun.elapsed().as_secs_f64()
}

fn read(source: &dyn Source, sample: u64, buffer: &mut Buffer) {
    for field in 0..source.fields().len() {
        if let Value::Image(image) = source.value(SampleId(sample), field, buffer).unwrap() {
            std::hint::black_box(image.bytes.last());
        }
    }
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// Returns the available JPEGs.
fn photographs() -> Option<Vec<Vec<u8>>> {
    let shared = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/data/imagenet");
    let dir = std::env::var("FUSELOOP_PHOTOS").unwrap_or_else(|_| shared.to_owned());
    let found = fs::read_dir(dir).ok()?.map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = found
        .filter(|path| {
            path.extension()
                .is_some_and(|e| e.eq_ignore_ascii_case("jpg") || e.eq_ignore_ascii_case("jpeg"))
        })
        .collect();
    paths.sort();
    let photos: Vec<_> = paths.iter().map(|path| fs::read(path).unwrap()).collect();
    (!photos.is_empty()).then_some(photos)
}
