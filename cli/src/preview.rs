//! `fuseloop preview`: shows what the ops do to some samples, as one PNG or JPEG.

use super::output;
use super::pick::image_field;
use super::picture::{self, PictureFormat};
use super::print::{counted, say};
use super::problem::Problem;
use super::source::Pipeline;
use clap::builder::RangedU64ValueParser;
use fuseloop::internals::source::Escaped;
use fuseloop::ops::Size;
use fuseloop::preview::PreviewOptions;
use std::path::PathBuf;

/// Save a contact sheet of augmented samples and their drawn parameters
///
/// Each row is a sample: the stored image, then its augmentations in several epochs or, with --each-op, the
/// image after every op of one epoch. Values after Normalize are shown as the pixel values before it. Boxes
/// with class names, keypoints and masks are drawn over the images: those that the pipeline file declares or,
/// without one, those that the dataset describes.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fuseloop preview train.beton --out sheet.png
  fuseloop preview train.beton --workload W3 -n 8 -m 6 --seed 42
  fuseloop preview train.beton --pipeline imagenet.toml --each-op --epoch 5
  fuseloop preview satellite.beton --pipeline bands.toml --bands 7,3,2
  fuseloop preview coco/annotations/instances_val2017.json -n 4 -m 3    # boxes and masks of COCO
  fuseloop preview coco.beton --pipeline detection.toml --each-op
  fuseloop preview clips/ --set clips.sampler=random --set clips.frames=16    # clips of videos")]
pub(super) struct Args {
    /// Dataset: any kind that `fuseloop info` shows
    #[arg(value_name = "DATASET")]
    file: PathBuf,
    #[command(flatten)]
    pipeline: Pipeline,
    /// Number of samples, spread over the dataset
    #[arg(long, short = 'n', default_value_t = 6, value_parser = RangedU64ValueParser::<usize>::new().range(1..=32))]
    samples: usize,
    /// Number of epochs per sample
    #[arg(long, short = 'm', default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=16))]
    draws: u32,
    /// Show the image after every op of one epoch
    #[arg(long, conflicts_with = "draws")]
    each_op: bool,
    /// First epoch
    #[arg(long, default_value_t = 0)]
    epoch: u32,
    /// Image field [default: the first one]
    #[arg(long)]
    field: Option<String>,
    /// Channels to show: one (gray) or three (red, green, blue) [default: the first ones]
    #[arg(long, value_delimiter = ',')]
    bands: Vec<usize>,
    /// Output file (.png or .jpg). An existing file is replaced.
    #[arg(long, short, default_value = "preview.png", value_parser = output::local())]
    out: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<(), Problem> {
    PictureFormat::of(&args.out)?;
    let setup = args.pipeline.setup()?.with_targets();
    let loader = setup.builder(&args.file)?.build()?;
    setup.check_output(&args.out, &args.file, &loader)?;
    let field = image_field(&loader, &args.file, args.field.as_deref())?;
    let epochs = if args.each_op { 1 } else { args.draws };
    let sheet = loader.preview(&PreviewOptions {
        samples: args.samples,
        epoch: args.epoch,
        epochs,
        each_op: args.each_op,
        output: Some(field),
        bands: args.bands.clone(),
        ..PreviewOptions::default()
    })?;
    picture::save(&args.out, sheet.rgb(), Size::new(sheet.height(), sheet.width()))?;
    let samples = loader.source().len().min(args.samples as u64);
    let (count, columns) = (counted(samples, "sample"), columns(args, epochs));
    let out = args.out.display().to_string();
    let damaged = match sheet.damaged().len() as u64 {
        0 => String::new(),
        found => {
            let dataset = args.file.display().to_string();
            let found = counted(found, "damaged sample");
            format!(
                "{found}, shown by the error: `fuseloop verify {}` lists all of them\n",
                Escaped(&dataset)
            )
        }
    };
    say(&format!("saved {}: {count} of {}, {columns}\n{damaged}", Escaped(&out), setup.ops))
}

fn columns(args: &Args, epochs: u32) -> String {
    match (args.each_op, epochs) {
        (true, _) => format!("each after every op of epoch {}", args.epoch),
        (false, 1) => format!("each in epoch {}", args.epoch),
        _ => format!("each in epochs {} to {}", args.epoch, args.epoch.saturating_add(epochs - 1)),
    }
}
