//! `fuseloop explain`: the plan of a workload or a pipeline on a file, and the code made of it.

use super::print::say;
use super::problem::Problem;
use super::source::{FieldOps, Pipeline};
use fuseloop::Loader;
use fuseloop::jit::Kernel;
use fuseloop::ops::{Dim, ImageType};
use fuseloop::plan::ImagePlan;
use std::path::PathBuf;

/// Show the plan of a workload or a pipeline: its blocks, what was fused into each, and what that compiled to.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fuseloop explain train.beton --workload W3
  fuseloop explain train.beton --pipeline imagenet.toml
  fuseloop explain train.beton --ir | less")]
pub(super) struct Args {
    /// The file.
    file: PathBuf,
    #[command(flatten)]
    pipeline: Pipeline,
    /// Also the intermediate code (Cranelift IR) of every block.
    #[arg(long)]
    ir: bool,
}

pub(super) fn run(args: &Args) -> Result<(), Problem> {
    let setup = args.pipeline.setup()?;
    let loader = setup.builder(&args.file)?.build()?;
    let mut text = format!("{}: {}\n", setup.ops, setup.ops.summary());
    text.push_str(&loader.explain());
    if args.ir {
        text.push_str(&ir(&loader, &setup.ops)?);
    }
    say(&text)
}

/// The IR of every image field, made once more: a loader keeps only what runs.
fn ir(loader: &Loader, ops: &FieldOps) -> Result<String, Problem> {
    let source = loader.source();
    let mut text = String::new();
    for (field, spec) in source.fields().iter().enumerate() {
        let sizes = source.image_stats(field).and_then(|stats| stats.min.zip(stats.max));
        let Some((min, max)) = sizes else { continue };
        let height = Dim { min: min.height, max: max.height };
        let width = Dim { min: min.width, max: max.width };
        let input = ImageType::decoded(height, width);
        let plan = ImagePlan::new(ops.of(&spec.name)?, input, ops.rule())?;
        text.push_str(&Kernel::compile(plan)?.ir());
    }
    Ok(text)
}
