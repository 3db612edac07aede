//! Shared by several commands: opens a dataset and assigns ops to its fields.

use super::folder::InFolder;
use super::number;
use super::output;
use super::print::{counted, note};
use super::problem::Problem;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use fuseloop::internals::source::{Escaped, ObjectField, fields_of_videos};
use fuseloop::internals::workload::{Workload, on_device};
use fuseloop::ops::{Device, Ops, ParamError};
use fuseloop::order::{Ranks, Uneven};
use fuseloop::sample::Epoch;
use fuseloop::spec::Settings;
use fuseloop::{Loader, LoaderBuilder, OnDamaged, Order, Spec, loader};
use std::fmt;
use std::path::{Path, PathBuf};

/// The ops, and the options for running them.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct Pipeline {
    /// Built-in pipeline: W1 (imagenet), W2 (val), W3 (jitter), W4 (cifar) or W5 (crop)
    #[arg(long, short, default_value = "W1", value_parser = workload)]
    workload: Workload,
    /// Pipeline file (TOML), instead of a workload. Command-line options override it. `fuseloop ops` lists
    /// the ops.
    #[arg(long, short, value_name = "FILE.toml", conflicts_with = "workload")]
    pipeline: Option<PathBuf>,
    /// Number of worker threads [default: one per core]
    #[arg(long, short = 'j', value_parser = number::whole::<usize>)]
    workers: Option<usize>,
    /// Batch size [default: 64]
    #[arg(long, short, value_parser = number::whole::<usize>)]
    batch_size: Option<usize>,
    /// Random seed for the order and the augmentations [default: 0]
    #[arg(long, value_parser = number::whole::<u64>)]
    seed: Option<u64>,
    /// Do not shuffle. By default workloads shuffle, and pipeline files use their `order`.
    #[arg(long)]
    sequential: bool,
    /// Apply the EXIF orientation of images. Required when rotated images have boxes, keypoints or masks:
    /// `true` if these refer to the upright image, `false` if to the stored pixels.
    #[arg(long, value_name = "BOOL")]
    exif_orientation: Option<bool>,
    /// Any setting of a pipeline file, such as `number_rule=exact` or `clips.frames=8` (repeatable). A dotted name sets
    /// one key of a table and leaves the others.
    #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
    set: Vec<String>,
    #[command(flatten)]
    folder: InFolder,
}

/// The device of the last ops.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct OnDevice {
    /// Device for the last image ops: `auto` (a GPU if available), `cpu`, `cuda:0`. Workloads move to it
    /// before Normalize; pipeline files use their own ToDevice.
    #[arg(long, value_parser = device)]
    device: Option<Device>,
}

/// The rank whose share of each epoch is loaded, among several processes.
#[derive(clap::Args, Clone, Debug)]
pub(super) struct OnRank {
    /// Rank to load, starting at 0
    #[arg(long, requires = "world_size")]
    rank: Option<u32>,
    /// Number of ranks
    #[arg(long, requires = "rank")]
    world_size: Option<u32>,
    /// How to share samples that the number of ranks does not divide [default: pad]
    #[arg(long, value_name = "HOW", requires = "rank", value_parser = uneven())]
    uneven: Option<Uneven>,
}

/// Parses how samples are shared that the number of ranks does not divide.
fn uneven() -> impl TypedValueParser<Value = Uneven> {
    let words = PossibleValuesParser::new([
        PossibleValue::new("pad").help("Repeat the first samples"),
        PossibleValue::new("drop").help("Leave out the last samples"),
        PossibleValue::new("exact").help("Repeat the first samples, marked as padding"),
    ]);
    words.map(|word| match word.as_str() {
        "drop" => Uneven::Drop,
        "exact" => Uneven::Exact,
        _ => Uneven::Pad,
    })
}

impl OnRank {
    /// Returns the requested rank. A launcher's environment variables are not used, because a job's own
    /// script has some too, whatever it starts. If such variables contain a rank, a note says so.
    fn ranks(&self) -> Result<Option<Ranks>, Problem> {
        if let (Some(rank), Some(world_size)) = (self.rank, self.world_size) {
            let ranks = Ranks::new(rank, world_size, self.uneven.unwrap_or_default())?;
            return Ok(Some(ranks));
        }
        if let Ok(Some(ranks)) = Ranks::from_env()
            && ranks.world_size() > 1
        {
            let (rank, world) = (ranks.rank(), ranks.world_size());
            note(&format!(
                "the environment sets rank {rank} of {world}, which is ignored: `--rank {rank} --world-size {world}` loads its share"
            ));
        }
        Ok(None)
    }
}

fn device(name: &str) -> Result<Device, ParamError> {
    name.parse()
}

/// Checks the form of a setting for clap.
fn assignment(text: &str) -> Result<String, &'static str> {
    match text.split_once('=') {
        None => Err("expected NAME=VALUE, such as number_rule=exact"),
        Some((name, _)) if name.trim() == "device" => Err(
            "the device is an option of its own: `--device`, of the commands that can use a GPU",
        ),
        Some(_) => Ok(text.to_owned()),
    }
}

/// The name of the frames of clips.
const CLIPS: &str = "video";

/// Parses a workload's name for clap.
pub(super) fn workload(name: &str) -> Result<Workload, fuseloop::Error> {
    name.parse()
}

/// The options of a command, with the pipeline file read.
pub(super) struct Setup {
    pub(super) ops: FieldOps,
    /// The settings of the command line.
    settings: Settings,
    /// The device on which op lists run; `None` if the lists decide.
    device: Option<Device>,
    /// The rank whose share is loaded, if there are several.
    ranks: Option<Ranks>,
    /// True if a workload also moves the boxes, keypoints and masks that the dataset knows of.
    moves_targets: bool,
    folder: InFolder,
}

/// The origin of the fields' ops.
#[derive(Clone)]
pub(super) enum FieldOps {
    /// A workload, which is the same for every image field.
    Workload(Workload),
    /// The ops of a pipeline file.
    File { path: PathBuf, spec: Box<Spec> },
}

impl Pipeline {
    /// Reads the pipeline file, if there is one.
    pub(super) fn setup(&self) -> Result<Setup, Problem> {
        let (ops, assigned) = match &self.pipeline {
            Some(path) => {
                let spec = Box::new(Spec::open_with(path, &self.set)?);
                (FieldOps::File { path: path.clone(), spec }, Settings::default())
            }
            None => (FieldOps::Workload(self.workload), Settings::of_texts(&self.set)?),
        };
        let options = Settings {
            batch_size: self.batch_size,
            seed: self.seed,
            workers: self.workers,
            order: self.sequential.then_some(Order::Sequential),
            exif_orientation: self.exif_orientation,
            ..Settings::default()
        };
        Ok(Setup {
            ops,
            settings: options.or(assigned),
            // Values that are shown or written to files are computed on the CPU, which produces the same
            // numbers.
            device: Some(Device::Cpu),
            ranks: None,
            moves_targets: false,
            folder: self.folder.clone(),
        })
    }
}

impl Setup {
    /// Returns a setting of the command line or, if it has none, of the pipeline file.
    fn setting<T>(&self, of: impl Fn(&Settings) -> Option<T>) -> Option<T> {
        of(&self.settings).or_else(|| match &self.ops {
            FieldOps::Workload(_) => None,
            FieldOps::File { spec, .. } => of(spec.settings()),
        })
    }

    pub(super) fn batch_size(&self) -> usize {
        self.setting(|settings| settings.batch_size).unwrap_or(64)
    }

    pub(super) fn seed(&self) -> u64 {
        self.setting(|settings| settings.seed).unwrap_or(0)
    }

    /// Returns the setup with the options for a device.
    pub(super) fn on(self, on: &OnDevice) -> Self {
        Self { device: on.device, ..self }
    }

    /// Returns the setup in which a workload also moves the boxes, keypoints and masks that the dataset knows of. A
    /// pipeline file declares its own.
    pub(super) fn with_targets(self) -> Self {
        Self { moves_targets: true, ..self }
    }

    /// Returns the setup with the seed of a run, unless the command line has one.
    pub(super) fn seeded(mut self, seed: u64) -> Self {
        self.settings.seed.get_or_insert(seed);
        self
    }

    /// Returns the setup with the options for a rank.
    pub(super) fn of_rank(self, on: &OnRank) -> Result<Self, Problem> {
        Ok(Self { ranks: on.ranks()?, ..self })
    }

    /// Returns the rank and the number of ranks, if there are several.
    pub(super) fn rank(&self) -> Option<(u32, u32)> {
        self.ranks.map(|ranks| (ranks.rank(), ranks.world_size()))
    }

    /// Returns a loader builder for `path` with these ops.
    pub(super) fn builder(&self, path: &Path) -> Result<LoaderBuilder, Problem> {
        let builder = match &self.ops {
            FieldOps::Workload(workload) => {
                let ops = workload.ops()?;
                let ops = match self.device {
                    None | Some(Device::Cpu) => ops,
                    Some(device) => on_device(ops, device),
                };
                let has_clips = self.settings.clips.is_some();
                let builder = with_ops(path, self.opened(path)?, &ops.into(), has_clips)?;
                let moves_targets = self.moves_targets || has_mask(&builder);
                let builder = if moves_targets { builder.dataset_targets()? } else { builder };
                // A stream has only its own order.
                if builder.is_stream() { builder } else { builder.order(Order::Random) }
            }
            FieldOps::File { spec, .. } => spec.apply(self.opened(path)?),
        };
        let builder = self.settings.apply(builder).ranks(self.ranks);
        Ok(match self.device {
            Some(device) => builder.device(&device.to_string()),
            None => builder,
        })
    }

    fn opened(&self, path: &Path) -> Result<LoaderBuilder, Problem> {
        opened(path, Loader::from_dataset(self.folder.open(path)?))
    }

    /// Refuses an output that the command reads: the dataset, a file of it, or the pipeline file.
    pub(super) fn check_output(
        &self,
        out: &Path,
        dataset: &Path,
        loader: &Loader,
    ) -> Result<(), Problem> {
        let pipeline = self.ops.file().map(Path::to_owned);
        output::refuse_input(out, dataset, pipeline.into_iter().chain(loader.source().paths()))
    }

    /// Returns a line about the damaged samples that a loader has found and went on without; `None` if
    /// there are none.
    pub(super) fn damaged_line(&self, dataset: &Path, loader: &Loader) -> Option<String> {
        let found = loader.quarantine();
        let first = found.samples.first()?;
        let fate = match self.setting(|settings| settings.on_damaged) {
            Some(OnDamaged::Substitute) => "replaced by others",
            _ => "left out",
        };
        Some(format!(
            "{}{} found and {fate}, of them sample {}: {}; `fuseloop verify {}` lists them all",
            counted(found.samples.len() as u64, "damaged sample"),
            if found.is_cut { " or more" } else { "" },
            first.sample,
            Escaped(&first.error),
            Escaped(&dataset.display().to_string()),
        ))
    }

    /// Returns the number of worker threads.
    pub(super) fn threads(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        self.setting(|settings| settings.workers).unwrap_or_else(cores)
    }
}

impl FieldOps {
    /// Returns the ops of an output that is no image; its field may have several names.
    pub(super) fn of_other(
        &self,
        loader: &Loader,
        output: &str,
        epoch: u32,
    ) -> Result<Ops, ParamError> {
        let Self::File { spec, .. } = self else { return Ok(Ops::new()) };
        let field = loader.source().field_index(output);
        let is_its_own =
            |name: &&str| field.is_some() && loader.source().field_index(name) == field;
        let name = spec.fields().find(is_its_own).unwrap_or(output);
        spec.ops(name, Epoch(epoch))
    }

    /// Describes the ops on one line.
    pub(super) fn summary(&self) -> String {
        match self {
            Self::Workload(workload) => workload.summary().to_owned(),
            Self::File { spec, .. } => {
                let fields = spec.fields().collect::<Vec<_>>().join(", ");
                let fields = if fields.is_empty() { "no field" } else { &fields };
                let changes = if spec.changes() { ", changing with the epoch" } else { "" };
                format!("ops for {}{changes}", Escaped(fields))
            }
        }
    }

    /// Returns the workload's short name, if the ops come from a workload.
    pub(super) fn workload(&self) -> Option<&'static str> {
        match self {
            Self::Workload(workload) => Some(workload.id()),
            Self::File { .. } => None,
        }
    }

    /// Returns the path of the pipeline file, if the ops come from one.
    pub(super) fn file(&self) -> Option<&Path> {
        match self {
            Self::Workload(_) => None,
            Self::File { path, .. } => Some(path),
        }
    }
}

/// Displays the workload, or the name of the pipeline file.
impl fmt::Display for FieldOps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Workload(workload) => workload.fmt(f),
            Self::File { path, .. } => Escaped(&path.display().to_string()).fmt(f),
        }
    }
}

/// Refuses a dataset without samples.
fn opened(path: &Path, builder: LoaderBuilder) -> Result<LoaderBuilder, Problem> {
    if builder.source().len() == 0 {
        return Err(Problem::Empty { path: path.to_owned() });
    }
    Ok(builder)
}

/// Returns a loader builder for `path` with these ops on every image field.
pub(super) fn on_images(
    path: &Path,
    ops: fn(Epoch) -> Result<Ops, ParamError>,
) -> Result<LoaderBuilder, Problem> {
    with_ops(path, opened(path, Loader::open(path)?)?, &loader::Pipeline::by_epoch(ops), false)
}

/// Returns a builder with ops for every image field, or for the frames of clips of video files.
fn with_ops(
    path: &Path,
    mut builder: LoaderBuilder,
    ops: &loader::Pipeline,
    has_clips: bool,
) -> Result<LoaderBuilder, Problem> {
    let mut images = image_fields(&builder);
    if images.is_empty() && has_clips {
        images.push(CLIPS.to_owned());
    }
    if images.is_empty() {
        let source = builder.source();
        let videos = if builder.is_stream() { vec![] } else { fields_of_videos(source) };
        if let Some(field) = videos.first() {
            let field = source.field_name(*field).to_owned();
            return Err(Problem::NoClips { path: path.to_owned(), field });
        }
        let known: Vec<String> =
            builder.source().fields().iter().map(|f| Escaped(&f.name).to_string()).collect();
        return Err(Problem::NoImages { path: path.to_owned(), known: known.join(", ") });
    }
    for name in images {
        builder = builder.pipeline(&name, ops.clone());
    }
    Ok(builder)
}

/// Returns whether an image field is known to be a mask, which has no colours for ops to change.
fn has_mask(builder: &LoaderBuilder) -> bool {
    let known = builder.source().object_fields().ok().flatten().unwrap_or_default();
    known.iter().any(|(_, field)| field == ObjectField::Mask)
}

fn image_fields(builder: &LoaderBuilder) -> Vec<String> {
    let fields = builder.source().fields().iter();
    let images = fields.filter(|field| field.kind.is_image());
    images.map(|field| field.name.clone()).collect()
}
