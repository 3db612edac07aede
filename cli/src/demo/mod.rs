//! `fuseloop demo`: runs everything once, on images that it draws itself.
//!
//! The demo draws, writes, loads three epochs, and saves a contact sheet. The three epochs resize
//! progressively and the last one adds an op, so that both recompilation and reuse of compiled code can
//! be seen.

mod pictures;
mod sheet;

use super::measure::{self, Measured};
use super::output;
use super::picture::PictureFormat;
use super::print::{bar, bytes, counted, millis, rate, say};
use super::problem::Problem;
use super::source::on_images;
use fuseloop::internals::plan::ImagePlan;
use fuseloop::internals::source::{Escaped, note_unfinished};
use fuseloop::internals::threads::on_all_cores;
use fuseloop::ops::author::{Dim, ImageType};
use fuseloop::ops::internals::ImageView;
use fuseloop::ops::{
    ColorJitter, Normalize, NumberRule, Ops, ParamError, RandomHorizontalFlip, RandomResizedCrop,
    Size, ToChannelsFirst, ops,
};
use fuseloop::sample::Epoch;
use fuseloop::source::{Folder, FolderOptions};
use fuseloop::write::{WriteOptions, WriteReport, convert};
use fuseloop::{Loader, Order};
use jpeg_encoder::{ColorType, Encoder};
use pictures::CLASSES;
use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};
use sheet::Sheet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Generate test images, write them to a .beton file, and load it
///
/// Needs no data and takes a few seconds. Saves a contact sheet of the originals and their augmentations in
/// three epochs.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fuseloop demo
  fuseloop demo --out sheet.png --keep demo-files
  fuseloop bench demo-files/demo.beton")]
pub(super) struct Args {
    /// Contact sheet to write (.png or .jpg). An existing file is replaced.
    #[arg(long, short, default_value = "fuseloop-demo.png", value_parser = output::local())]
    out: PathBuf,
    /// Keep the images and .beton file in this new or empty folder
    #[arg(long, value_name = "DIR", value_parser = output::local())]
    keep: Option<PathBuf>,
}

/// The number of images of a class.
const PER_CLASS: u32 = 24;
const SEED: u64 = 42;
const BATCH: usize = 32;
/// The side of the images in each epoch.
const SIDES: [u32; 3] = [160, 192, 224];
/// The samples of the contact sheet, by their indices in their classes.
const SHOWN: [u32; 2] = [3, 17];

pub(super) fn run(args: &Args, start: Instant) -> Result<(), Problem> {
    PictureFormat::of(&args.out)?;
    // Without the folder of the contact sheet, all the work would be for nothing.
    if let Some(folder) = args.out.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::metadata(folder).map_err(Problem::io(&args.out))?;
    }
    // The folder is noted before it exists, so that a signal never leaves it.
    let parent = std::env::temp_dir();
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let name = format!(".fuseloop-demo-{}-{}", std::process::id(), since.as_nanos());
    note_unfinished(&parent.join(&name));
    let temporary = tempfile::Builder::new().prefix(&name).rand_bytes(0).tempdir_in(&parent);
    let temporary = temporary.map_err(Problem::io(&parent))?;
    let dir = args.keep.as_deref().unwrap_or(temporary.path());
    claim(dir)?;
    let (images, file) = (dir.join("images"), dir.join("demo.beton"));

    let drawing = Instant::now();
    let drawn = draw_all(&images)?;
    let took = drawing.elapsed().as_secs_f64();
    let all = counted(u64::from(PER_CLASS) * CLASSES.len() as u64, "image");
    say(&format!(
        "drew    {all} of {} classes, {} of JPEG, in {took:.2} s\n",
        CLASSES.len(),
        bytes(drawn)
    ))?;

    let writing = Instant::now();
    let folder = Folder::open(&images, &FolderOptions::default())?;
    let report = convert(&folder, &file, &WriteOptions::default())?;
    say(&written(&report, writing.elapsed()))?;

    let loader =
        on_images(&file, training)?.batch_size(BATCH).order(Order::Random).seed(SEED).build()?;
    let epochs = train(&loader)?;
    say(&summary(&loader, &epochs)?)?;

    save_sheet(&file, &args.out)?;
    let out = args.out.display().to_string();
    say(&format!(
        "saved {}: each original and its augmentations in epochs 0, 1 and 2\n",
        Escaped(&out)
    ))?;
    if args.keep.is_some() {
        say(&format!("kept  {}\n", Escaped(&file.display().to_string())))?;
    }
    say(&format!("finished in {:.1} s\n", start.elapsed().as_secs_f64()))
}

/// Creates a new folder, or accepts an empty one: a stray image in it would become part of the dataset.
fn claim(dir: &Path) -> Result<(), Problem> {
    fs::create_dir_all(dir).map_err(Problem::io(dir))?;
    match fs::read_dir(dir).map_err(Problem::io(dir))?.next() {
        None => Ok(()),
        Some(_) => Err(Problem::NotEmpty { path: dir.to_owned() }),
    }
}

/// Returns the ops of an epoch whose result a person can look at.
fn augmentation(epoch: Epoch) -> Result<Ops, ParamError> {
    let last = SIDES.len() - 1;
    let index = (epoch.index() as usize).min(last);
    let mut list = ops![RandomResizedCrop::new(SIDES[index])?, RandomHorizontalFlip::new(0.5)?,];
    if index == last {
        list.push(std::sync::Arc::new(ColorJitter::new(0.4, 0.4, 0.4)?));
    }
    Ok(list)
}

/// Returns the same ops, and those that a network needs.
fn training(epoch: Epoch) -> Result<Ops, ParamError> {
    let mut list = augmentation(epoch)?;
    list.push(std::sync::Arc::new(Normalize::imagenet()));
    list.push(std::sync::Arc::new(ToChannelsFirst));
    Ok(list)
}

/// Draws all images as JPEGs below `dir`, in a folder per class. Returns their size in bytes.
fn draw_all(dir: &Path) -> Result<u64, Problem> {
    for class in CLASSES {
        let dir = dir.join(class);
        fs::create_dir_all(&dir).map_err(Problem::io(&dir))?;
    }
    let all = CLASSES.len() as u32 * PER_CLASS;
    let bar = bar(all.into(), BAR).with_message("drawing");
    let sizes = (0..all).into_par_iter().map(|index| {
        let (class, number) = ((index / PER_CLASS) as usize, index % PER_CLASS);
        let path = dir.join(CLASSES[class]).join(format!("{}_{number:02}.jpg", CLASSES[class]));
        let jpeg = encode(&pictures::draw(class, number))?;
        fs::write(&path, &jpeg).map_err(Problem::io(&path))?;
        bar.inc(1);
        Ok(jpeg.len() as u64)
    });
    let total = on_all_cores(all as usize, || sizes.sum::<Result<u64, Problem>>())?;
    bar.finish_and_clear();
    total
}

fn encode(picture: &pictures::Picture) -> Result<Vec<u8>, Problem> {
    let mut jpeg = vec![];
    // Both are at most 500.
    let (width, height) = (picture.width as u16, picture.height as u16);
    Encoder::new(&mut jpeg, 90).encode(&picture.pixels, width, height, ColorType::Rgb)?;
    Ok(jpeg)
}

/// The template of the demo's progress bars.
const BAR: &str = "{msg:<26} {wide_bar:.cyan/dim} {pos}/{len} images, {per_sec}";

fn written(report: &WriteReport, took: Duration) -> String {
    let (samples, size) = (counted(report.samples, "sample"), bytes(report.bytes));
    format!("wrote   {samples} as a .beton file of {size}, in {:.2} s\n\n", took.as_secs_f64())
}

fn train(loader: &Loader) -> Result<Vec<Measured>, Problem> {
    let mut epochs = vec![];
    for epoch in 0..SIDES.len() as u32 {
        let bar = bar(loader.samples(), BAR);
        bar.set_message(format!("epoch {epoch}: {}", name(epoch)));
        let step = |batch: &fuseloop::Batch| bar.inc(batch.len() as u64);
        epochs.push(measure::epoch(loader, epoch, u64::MAX, step)?);
        bar.finish_and_clear();
    }
    Ok(epochs)
}

fn name(epoch: u32) -> String {
    let jitter = if epoch as usize == SIDES.len() - 1 { " + ColorJitter" } else { "" };
    format!("{} px{jitter}", SIDES[epoch as usize])
}

fn summary(loader: &Loader, epochs: &[Measured]) -> Result<String, Problem> {
    let mut text = String::new();
    for (number, epoch) in (0..).zip(epochs) {
        let cpu = epoch.cpu_ms().map_or_else(String::new, |ms| format!("{ms:.2} CPU-ms/image, "));
        let _ = writeln!(
            text,
            "epoch {number} {:<20} {:>6} images/s, {cpu}first batch after {}, {}",
            name(number),
            rate(epoch.images_per_second()),
            millis(epoch.first_batch),
            compiled(loader, number, epoch.compile)?,
        );
    }
    let _ = writeln!(text, "\nthe plan of the last epoch:");
    for line in loader.explain().lines() {
        let _ = writeln!(text, "  {line}");
    }
    text.push('\n');
    Ok(text)
}

/// Describes whether the epoch ran new code.
fn compiled(loader: &Loader, epoch: u32, took: Duration) -> Result<String, Problem> {
    let took = millis(took);
    let key = |epoch| code_key(loader, Epoch(epoch));
    Ok(match epoch.checked_sub(1) {
        Some(before) if key(before)? == key(epoch)? => {
            format!("code of epoch {before} reused ({took})")
        }
        Some(_) => format!("recompiled in {took}"),
        None => format!("compiled in {took}"),
    })
}

/// Returns a key for the code of an epoch: equal keys run the same code.
fn code_key(loader: &Loader, epoch: Epoch) -> Result<String, Problem> {
    let stats = loader.source().field_index("image").and_then(|f| loader.source().image_stats(f));
    let (min, max) = stats.and_then(|stats| stats.min.zip(stats.max)).unwrap_or_default();
    let height = Dim { min: min.height, max: max.height };
    let input = ImageType::decoded(height, Dim { min: min.width, max: max.width });
    Ok(ImagePlan::new(training(epoch)?, input, NumberRule::default())?.code_key())
}

/// Saves two samples of each class: as drawn, and as each epoch produced them, without the ops that only
/// a network needs. The draws depend on seed, epoch and sample, so these are the images of the training.
fn save_sheet(file: &Path, out: &Path) -> Result<(), Problem> {
    let classes = 0..CLASSES.len() as u32;
    let shown: Vec<(u32, u32)> =
        SHOWN.iter().flat_map(|&n| classes.clone().map(move |class| (class, n))).collect();
    let mut sheet = Sheet::new(classes.len() as u32, SIDES.len() as u32)?;
    for (cell, &(class, number)) in (0..).zip(&shown) {
        let picture = pictures::draw(class as usize, number);
        let size = Size::new(picture.height, picture.width);
        put(&mut sheet, cell, 0, &picture.pixels, size);
    }
    let loader = on_images(file, augmentation)?
        .batch_size(shown.len())
        .indices(shown.iter().map(|(class, number)| u64::from(class * PER_CLASS + number)))
        .seed(SEED)
        .build()?;
    for (epoch, side) in (0..).zip(SIDES) {
        for batch in loader.epoch(epoch)? {
            let batch = batch?;
            let images = batch.tensor::<u8>("image")?;
            for (cell, _) in (0..).zip(&shown) {
                let pixels = images.row(cell as usize).unwrap_or_default();
                put(&mut sheet, cell, 1 + epoch, pixels, Size::new(side, side));
            }
        }
    }
    sheet.save(out)
}

fn put(sheet: &mut Sheet, cell: u32, column: u32, pixels: &[u8], size: Size) {
    if let Some(view) = ImageView::packed(pixels, size) {
        sheet.put(cell, column, view);
    }
}
