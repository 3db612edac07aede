//! What several commands share: opening a file and giving its images a workload's ops.

use super::problem::Problem;
use fuseloop::ops::{Ops, ParamError};
use fuseloop::sample::Epoch;
use fuseloop::source::{Escaped, FieldKind};
use fuseloop::workload::{UnknownWorkload, Workload};
use fuseloop::{Loader, LoaderBuilder, Order};
use std::path::Path;

/// Which ops, and how they run.
#[derive(clap::Args, Clone, Copy, Debug)]
pub(super) struct Pipeline {
    /// What is done to the images: W1 (imagenet), W2 (val), W3 (jitter), W4 (cifar) or W5 (crop).
    #[arg(long, short, default_value = "W1", value_parser = workload)]
    pub(super) workload: Workload,
    /// Threads that read, decode and augment; one a core if not given.
    #[arg(long, short = 'j')]
    pub(super) workers: Option<usize>,
    /// Images of a batch.
    #[arg(long, short, default_value_t = 64)]
    pub(super) batch_size: usize,
    /// What the order and the random draws depend on, beside the epoch.
    #[arg(long, default_value_t = 0)]
    pub(super) seed: u64,
    /// Take the samples in the file's order instead of shuffled.
    #[arg(long)]
    pub(super) sequential: bool,
}

/// A name as clap wants it.
pub(super) fn workload(name: &str) -> Result<Workload, UnknownWorkload> {
    name.parse()
}

impl Pipeline {
    /// A loader of `path` with the workload's ops on every image field.
    pub(super) fn builder(&self, path: &Path) -> Result<LoaderBuilder, Problem> {
        let workload = self.workload;
        let builder = on_images(path, move |_| workload.ops())?;
        let order = if self.sequential { Order::Sequential } else { Order::Random };
        let builder =
            builder.batch_size(self.batch_size).seed(self.seed).order(order).drop_last(false);
        Ok(match self.workers {
            Some(workers) => builder.workers(workers),
            None => builder,
        })
    }

    /// Threads there will be.
    pub(super) fn threads(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.workers.unwrap_or_else(cores)
    }
}

/// A loader of `path` with the ops of `make` on every image field.
pub(super) fn on_images(
    path: &Path,
    make: impl Fn(Epoch) -> Result<Ops, ParamError> + Clone + Send + Sync + 'static,
) -> Result<LoaderBuilder, Problem> {
    let mut builder = Loader::open(path)?;
    if builder.source().len() == 0 {
        return Err(Problem::Empty { path: path.to_owned() });
    }
    let images = image_fields(&builder);
    if images.is_empty() {
        let known: Vec<String> =
            builder.source().fields().iter().map(|f| Escaped(&f.name).to_string()).collect();
        return Err(Problem::NoImages { path: path.to_owned(), known: known.join(", ") });
    }
    for name in images {
        builder = builder.pipeline(&name, make.clone());
    }
    Ok(builder)
}

fn image_fields(builder: &LoaderBuilder) -> Vec<String> {
    let fields = builder.source().fields().iter();
    let images = fields.filter(|field| field.kind == FieldKind::RgbImage);
    images.map(|field| field.name.clone()).collect()
}
