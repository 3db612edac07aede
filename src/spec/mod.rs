//! Pipelines as data: a TOML file with the ops of each field and the loader's settings.
//!
//! ```toml
//! batch_size = 256                # settings, all optional
//! order = "random"
//! seed = 42
//!
//! [fields]                        # the ops of each field, in order
//! image = [
//!     { op = "RandomResizedCrop", size = { from = 128, to = 224, epochs = 16, step = 32 } },
//!     "RandomHorizontalFlip",     # an op that needs nothing may be its name alone
//!     { op = "Convert", to = "f16" },
//!     "ToChannelsFirst",
//! ]
//! label = [{ op = "OneHot", classes = 1000 }]
//! ```
//!
//! `[[fields.image]]` before each op is TOML's other notation for the same list. `fuseloop ops` lists
//! the ops and their parameters; the names are those of the Rust constructors
//! ([`registry`](fuseloop_ops::internals::registry)).
//!
//! | setting | default | what it is |
//! |---|---|---|
//! | `batch_size`, `workers`, `batches_ahead` | the loader's | see the methods of [`LoaderBuilder`] |
//! | `order` | `"sequential"` | or `"random"`, `"quasi_random"`: [`Order`] |
//! | `open_pages` | 64 | pages that a quasi-random order keeps open |
//! | `seed` | 0 | the seed of the order and of all draws |
//! | `drop_last` | false | whether a short last batch is left out |
//! | `number_rule` | `"fused"` | or `"exact"`, `"relaxed"`: [`NumberRule`] |
//! | `recompile` | lists in which a number follows the epoch | true: all lists are compiled for each epoch |
//! | `on_damaged` | `"fail"` | or `"skip"`, `"substitute"`: [`OnDamaged`] |
//! | `unordered` | false | whether batches are delivered in the order in which they are finished |
//! | `memory_limit` | none | most bytes of all batches together: a number, or a text such as `"2GiB"` |
//! | `timeout` | none | the most seconds to wait for a batch |
//! | `in_memory` | the loader's | whether `.beton` files are read into memory: [`LoaderBuilder::in_memory`] |
//! | `pin_memory` | none | the GPU whose context locks the pages of batches: [`LoaderBuilder::pin_memory`] |
//! | `indices` | all | the samples to load, by their numbers |
//! | `device` | as in each `ToDevice` | where the ops after `ToDevice` run: `"auto"`, `"cpu"`, `"cuda:0"` |
//! | `device_batches` | the loader's | most batches on the device at a time |
//! | `exif_orientation` | the loader's | whether images are turned as their EXIF orientation says: [`LoaderBuilder::exif_orientation`] |
//! | `scaled_decode` | false | whether large JPEGs are decoded at a smaller scale: [`LoaderBuilder::scaled_decode`] |
//! | `share_draws` | none | a table: outputs whose ops draw the same numbers as those of another: [`LoaderBuilder::share_draws`] |
//! | `views` | none | a table for each further output of a field: `{ of = "image", ops = [..] }`, with `after = 2` a branch behind two ops of `of` |
//! | `without` | none | fields to leave out of the batches |
//! | `masks` | none | the image fields that hold class numbers: [`LoaderBuilder::masks`] |
//! | `read_mode` | none | a table: for image fields, `"rgb"`, `"gray"`, `"gray16"`, `"rgb_alpha"` or `"index"`: [`ImageReadMode`] |
//! | `axes` | none | a table: for fields of arrays, one letter for each axis: [`LoaderBuilder::axes`] |
//! | `targets` | none | `"auto"` for those that the dataset knows of ([`LoaderBuilder::auto_targets`]), or a table for each image: the masks, boxes, keypoints and columns that follow it ([`LoaderBuilder::targets`]) |
//! | `arrays` | none | a table: for fields of bytes, the arrays they are: `{ dtype = "f32", shape = [-1, 3] }`, [`LoaderBuilder::arrays`] |
//! | `expect_classes` | none | the names of the classes, by their numbers from 0: a dataset with others is refused |
//! | `collate` | none | a table: for each output, how samples that differ in size become a batch: [`Collate`] |
//!
//! Where a number is expected, `{ from, to, epochs, step }` stands for a number that follows the epoch.
//! The text has at most 1 MiB; hostile text is refused and never causes a panic.

mod arrays;
mod collate;
pub(crate) mod error;
mod read;
pub(crate) mod schedule;
pub(crate) mod targets;

use crate::decode::ImageReadMode;
use crate::error::Error;
use crate::loader::{Collate, LoaderBuilder, OnDamaged, Pipeline, Targets};
use crate::order::Order;
use crate::sample::Epoch;
use fuseloop_ops::internals::DefaultFloats;
use fuseloop_ops::internals::registry::{
    OpArgs, ParamInfo, ParamKind, ParamValue, SpecCause, SpecData, SpecEntry, SpecError, SpecTable,
    SpecValue, build_ops, optional, required,
};
use fuseloop_ops::{Device, NumberRule, Ops, ParamError};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Most bytes of a pipeline file.
pub(crate) const MAX_BYTES: usize = 1 << 20;

/// A checked set of pipelines and settings.
///
/// ```
/// use fuseloop::{Epoch, spec::Spec};
///
/// let spec: Spec = r#"
///     seed = 42
///     [fields]
///     image = [{ op = "Resize", size = 256 }, { op = "CenterCrop", size = 224 }]
/// "#.parse()?;
/// assert_eq!(spec.settings().seed, Some(42));
/// assert_eq!(spec.ops("image", Epoch(0))?.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A loader takes all of it: `Spec::open("imagenet.toml")?.apply(Loader::open("train.beton")?)`.
#[derive(Clone, Debug)]
pub struct Spec {
    settings: Settings,
    fields: BTreeMap<String, FieldOps>,
    views: Vec<(String, ViewOps)>,
}

/// The ops of a field: as the file has them, and built, if they are the same in all epochs.
#[derive(Clone, Debug)]
struct FieldOps {
    value: Arc<SpecValue>,
    fixed: Option<Ops>,
    /// The file, the line and the column of each op.
    positions: Vec<String>,
}

/// The loader settings in a file. `None` means the loader's default.
///
/// ```
/// let text = "batch_size = 256\norder = 'random'\n[fields]\nimage = ['RandomHorizontalFlip']";
/// let spec: fuseloop::Spec = text.parse()?;
/// assert_eq!(spec.settings().batch_size, Some(256));
/// assert_eq!(spec.settings().seed, None);
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// The number of samples in a batch.
    pub batch_size: Option<usize>,
    /// The seed of the order and of all draws.
    pub seed: Option<u64>,
    /// The order of the samples.
    pub order: Option<Order>,
    /// Leaves a short last batch out if true.
    pub drop_last: Option<bool>,
    /// How values are rounded between ops.
    pub number_rule: Option<NumberRule>,
    /// Compiles all pipelines for each epoch if true. False is an error if a number follows the epoch.
    pub recompile: Option<bool>,
    /// The number of worker threads.
    pub workers: Option<usize>,
    /// The number of batches that are begun before they are asked for.
    pub batches_ahead: Option<usize>,
    /// The treatment of damaged samples.
    pub on_damaged: Option<OnDamaged>,
    /// Delivers batches in the order in which they are finished if true.
    pub unordered: Option<bool>,
    /// Most bytes of all batches together.
    pub memory_limit: Option<u64>,
    /// The longest wait for a batch.
    pub timeout: Option<Duration>,
    /// Reads `.beton` files into memory if true.
    pub in_memory: Option<bool>,
    /// The GPU whose context locks the pages of batches.
    pub pin_memory: Option<u32>,
    /// The samples to load.
    pub indices: Option<Vec<u64>>,
    /// Outputs that draw as others do.
    pub share_draws: Vec<(String, String)>,
    /// Where the ops after `ToDevice` run.
    pub device: Option<Device>,
    /// Most batches on the device at a time.
    pub device_batches: Option<usize>,
    /// Turns images as their EXIF orientation says if true.
    pub exif_orientation: Option<bool>,
    /// Decodes large JPEGs at a smaller scale if true.
    pub scaled_decode: Option<bool>,
    /// Fields to leave out of the batches.
    pub without: Vec<String>,
    /// The image fields that hold masks.
    pub masks: Vec<String>,
    /// What the images of a field are read as.
    pub read_mode: Vec<(String, ImageReadMode)>,
    /// The fields that follow images.
    pub targets: Vec<(String, Targets)>,
    /// True for the targets that the dataset knows of.
    pub auto_targets: bool,
    /// The axes of fields of arrays, one letter for each.
    pub axes: Vec<(String, String)>,
    /// The types and shapes that the bytes of fields are.
    pub arrays: Vec<(String, arrays::DeclaredArray)>,
    /// The names that the classes must have, by their numbers from 0.
    pub expect_classes: Option<Vec<String>>,
    /// How the samples of an output that differ in size become a batch.
    pub collate: Vec<(String, Collate)>,
}

/// Makes an order from its number of open pages, which not every order uses.
type MakeOrder = fn(u32) -> Order;

const ORDERS: [(&str, MakeOrder); 3] = [
    ("sequential", |_| Order::Sequential),
    ("random", |_| Order::Random),
    ("quasi_random", |open_pages| Order::QuasiRandom { open_pages }),
];

/// The default number of open pages in a quasi-random order: 128 MB of our pages, 512 MB of FFCV's.
const OPEN_PAGES: u32 = 64;

const DAMAGED: [(&str, OnDamaged); 3] =
    [("fail", OnDamaged::Fail), ("skip", OnDamaged::Skip), ("substitute", OnDamaged::Substitute)];

const RULES: [(&str, NumberRule); 3] =
    [("fused", NumberRule::Fused), ("exact", NumberRule::Exact), ("relaxed", NumberRule::Relaxed)];

/// The settings at the top of a file.
const TOP: &[ParamInfo] = &[
    optional("fields", ParamKind::Table, "the ops of each field"),
    optional("batch_size", ParamKind::Whole, "number of samples per batch"),
    optional("seed", ParamKind::Whole, "seed of the order and of the draws"),
    optional(
        "order",
        ParamKind::Word(&["sequential", "random", "quasi_random"]),
        "the order of the samples",
    ),
    optional("open_pages", ParamKind::Whole, "pages that a quasi-random order has open"),
    optional(
        "on_damaged",
        ParamKind::Word(&["fail", "skip", "substitute"]),
        "how to handle damaged samples",
    ),
    optional("unordered", ParamKind::Bool, "deliver batches as soon as they are ready"),
    optional("memory_limit", ParamKind::Bytes, "maximum size of all batches together"),
    optional("timeout", ParamKind::Number, "maximum number of seconds to wait for a batch"),
    optional("in_memory", ParamKind::Bool, "read .beton files into memory"),
    optional("pin_memory", ParamKind::Whole, "GPU whose context locks the pages of batches"),
    optional("indices", ParamKind::Ids, "samples to load"),
    optional("share_draws", ParamKind::Table, "outputs that draw the same numbers as others"),
    optional("views", ParamKind::Table, "more outputs of fields"),
    optional("drop_last", ParamKind::Bool, "drop a short last batch"),
    optional(
        "number_rule",
        ParamKind::Word(&["fused", "exact", "relaxed"]),
        "how to round values between ops",
    ),
    optional("recompile", ParamKind::Bool, "compile all pipelines for each epoch"),
    optional("workers", ParamKind::Whole, "number of worker threads"),
    optional("batches_ahead", ParamKind::Whole, "batches started before they are requested"),
    optional("device", ParamKind::Text, "device that runs the ops after ToDevice"),
    optional("device_batches", ParamKind::Whole, "maximum number of batches on the device"),
    optional("exif_orientation", ParamKind::Bool, "apply the EXIF orientation"),
    optional("scaled_decode", ParamKind::Bool, "decode large JPEGs at a smaller scale"),
    optional("without", ParamKind::Words, "fields to leave out of the batches"),
    optional("masks", ParamKind::Words, "image fields that hold class numbers"),
    optional("read_mode", ParamKind::Table, "pixel format to read the images of a field in"),
    optional("targets", ParamKind::Table, "the fields that follow an image, or `auto`"),
    optional("axes", ParamKind::Table, "the axes of a field of arrays, a letter for each"),
    optional("arrays", ParamKind::Table, "the types and shapes that bytes are read as"),
    optional(
        "expect_classes",
        ParamKind::Words,
        "the names of the classes, by their numbers from 0",
    ),
    optional("collate", ParamKind::Table, "how samples that differ in size become a batch"),
];

/// The word for the targets that the dataset knows of.
const AUTO: [(&str, ()); 1] = [("auto", ())];

/// The words for what images are read as.
const READ_MODES: [(&str, ImageReadMode); 5] = [
    ("rgb", ImageReadMode::Rgb),
    ("gray", ImageReadMode::Gray),
    ("gray16", ImageReadMode::Gray16),
    ("rgb_alpha", ImageReadMode::RgbAlpha),
    ("index", ImageReadMode::Index),
];

const READ_MODE: &[ParamInfo] = &[required(
    "mode",
    ParamKind::Word(&["rgb", "gray", "gray16", "rgb_alpha", "index"]),
    ParamValue::Word("rgb"),
    "pixel format to read the images in",
)];

/// Returns what the fields of a `[read_mode]` table are read as.
fn read_modes(SpecTable(entries): SpecTable) -> Result<Vec<(String, ImageReadMode)>, SpecError> {
    let read = |SpecEntry { name, at, value }: SpecEntry| {
        let mode = SpecTable(vec![SpecEntry { name: "mode".to_owned(), at, value }]);
        let choice = |args: &OpArgs<'_>| args.choice("mode", &READ_MODES);
        Ok((name, OpArgs::with("read_mode", READ_MODE, &mode, at, choice)?))
    };
    entries.into_iter().map(read).collect()
}

/// Returns a number of seconds.
fn seconds(args: &OpArgs<'_>, name: &str) -> Result<Duration, SpecError> {
    let found = args.float(name)?;
    Duration::try_from_secs_f64(found)
        .map_err(|_| ParamError::new("timeout", "timeout", found, "a number of seconds").into())
}

const SHARE: &[ParamInfo] =
    &[required("with", ParamKind::Text, ParamValue::Word("image"), "the output that draws first")];

/// Returns the outputs of a `[share_draws]` table, each with the one whose draws it shares.
fn shares(SpecTable(entries): SpecTable) -> Result<Vec<(String, String)>, SpecError> {
    let share = |SpecEntry { name, at, value }: SpecEntry| {
        let table = SpecTable(vec![SpecEntry { name: "with".to_owned(), at, value }]);
        let with = OpArgs::with("share_draws", SHARE, &table, at, |args| args.text("with"))?;
        Ok((name, with))
    };
    entries.into_iter().map(share).collect()
}

/// A further output of a field.
#[derive(Clone, Debug)]
struct ViewOps {
    of: String,
    /// The number of ops of `of` that a branch shares.
    after: Option<usize>,
    ops: FieldOps,
}

const VIEW: &[ParamInfo] = &[
    required("of", ParamKind::Text, ParamValue::Word("image"), "the field, or the output"),
    optional("after", ParamKind::Whole, "number of ops of `of` after which it branches off"),
    optional("ops", ParamKind::Ops, "the ops of the view"),
];

/// A view as the file has it: its name, its field, where it branches off, and its ops.
type StoredView = (String, String, Option<usize>, SpecValue);

/// Returns the views of a `[views]` table.
fn views_of(SpecTable(entries): SpecTable) -> Result<Vec<StoredView>, SpecError> {
    let view = |SpecEntry { name, at, value }: SpecEntry| {
        let mut table = value.into_table("of", at);
        let (of, after) = OpArgs::with("views", VIEW, &table, at, |args| {
            Ok((args.text("of")?, args.if_given("after", OpArgs::usize)?))
        })?;
        let ops = table.0.iter().position(|entry| entry.name == "ops");
        let none = SpecValue { datum: SpecData::List(vec![]), at };
        let ops = ops.map_or(none, |index| table.0.swap_remove(index).value);
        Ok((name, of, after, ops))
    };
    entries.into_iter().map(view).collect()
}

impl Settings {
    fn of(args: &OpArgs<'_>) -> Result<Self, SpecError> {
        let open_pages = args.if_given("open_pages", OpArgs::u32)?.unwrap_or(OPEN_PAGES);
        let order = args.if_given("order", |args, name| args.choice(name, &ORDERS))?;
        let auto_targets = args.given("targets") && args.choice("targets", &AUTO).is_ok();
        let targets = args.if_given("targets", OpArgs::table);
        let targets = if auto_targets { None } else { targets? };
        Ok(Self {
            batch_size: args.if_given("batch_size", OpArgs::usize)?,
            seed: args.if_given("seed", OpArgs::u64)?,
            order: order.map(|make| make(open_pages)),
            on_damaged: args.if_given("on_damaged", |args, name| args.choice(name, &DAMAGED))?,
            unordered: args.if_given("unordered", OpArgs::bool)?,
            memory_limit: args.if_given("memory_limit", OpArgs::bytes)?,
            timeout: args.if_given("timeout", seconds)?,
            in_memory: args.if_given("in_memory", OpArgs::bool)?,
            pin_memory: args.if_given("pin_memory", OpArgs::u32)?,
            indices: args.if_given("indices", OpArgs::ids)?,
            share_draws: shares(args.if_given("share_draws", OpArgs::table)?.unwrap_or_default())?,
            drop_last: args.if_given("drop_last", OpArgs::bool)?,
            number_rule: args.if_given("number_rule", |args, name| args.choice(name, &RULES))?,
            recompile: args.if_given("recompile", OpArgs::bool)?,
            workers: args.if_given("workers", OpArgs::usize)?,
            batches_ahead: args.if_given("batches_ahead", OpArgs::usize)?,
            device: args.if_given("device", |args, name| Ok(args.text(name)?.parse()?))?,
            device_batches: args.if_given("device_batches", OpArgs::usize)?,
            exif_orientation: args.if_given("exif_orientation", OpArgs::bool)?,
            scaled_decode: args.if_given("scaled_decode", OpArgs::bool)?,
            without: args.if_given("without", OpArgs::texts)?.unwrap_or_default(),
            masks: args.if_given("masks", OpArgs::texts)?.unwrap_or_default(),
            read_mode: read_modes(args.if_given("read_mode", OpArgs::table)?.unwrap_or_default())?,
            auto_targets,
            targets: targets::of_table(targets.unwrap_or_default())?,
            axes: arrays::axes_of(args.if_given("axes", OpArgs::table)?.unwrap_or_default())?,
            arrays: arrays::of_table(args.if_given("arrays", OpArgs::table)?.unwrap_or_default())?,
            expect_classes: args.if_given("expect_classes", OpArgs::texts)?,
            collate: collate::of_table(
                args.if_given("collate", OpArgs::table)?.unwrap_or_default(),
            )?,
        })
    }
}

impl Spec {
    /// Reads and checks a pipeline file.
    ///
    /// # Errors
    ///
    /// If the file can't be read, and the errors of [`parse`](Self::parse).
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::parse(&read::text(path)?, path)
    }

    /// Checks a pipeline file's text. Errors call the file `path`.
    ///
    /// The ops of every field are built once here, for epoch 0 and for the epochs in which numbers that
    /// follow the epoch start and stop changing, so that errors in them are found at once.
    ///
    /// # Errors
    ///
    /// If the text is not TOML, or names an op, a parameter or a setting that does not exist. The message has the
    /// line and the column.
    pub fn parse(text: &str, path: &Path) -> Result<Self, Error> {
        // Numbers in texts are read by arithmetic.
        DefaultFloats::during(|| Self::parse_text(text, path))
    }

    fn parse_text(text: &str, path: &Path) -> Result<Self, Error> {
        let top = read::table(text).map_err(|fault| fault.in_text(text, path))?;
        let spec = Self::of_table(&top);
        let mut spec = spec.map_err(|error| read::SpecFault::from(error).in_text(text, path))?;
        let of_ops = |value: &SpecValue| match &value.datum {
            SpecData::List(ops) => ops.iter().map(|op| op.at).collect(),
            _ => vec![],
        };
        let views = spec.views.iter().map(|(_, view)| &view.ops);
        let bytes =
            spec.fields.values().chain(views).flat_map(|list| of_ops(&list.value)).flatten();
        let found = read::Positions::new(text, bytes);
        let views = spec.views.iter_mut().map(|(_, view)| &mut view.ops);
        for FieldOps { value, positions, .. } in spec.fields.values_mut().chain(views) {
            *positions = of_ops(value).into_iter().map(|at| found.shown(at, path)).collect();
        }
        Ok(spec)
    }

    fn of_table(top: &SpecTable) -> Result<Self, SpecError> {
        let (settings, fields, views) = OpArgs::with("a pipeline file", TOP, top, None, |args| {
            let table = |name| args.if_given(name, OpArgs::table).map(Option::unwrap_or_default);
            Ok((Settings::of(args)?, table("fields")?, views_of(table("views")?)?))
        })?;
        let mut epochs = BTreeSet::from([0]);
        for entry in &fields.0 {
            schedule::change_epochs(&entry.value, &mut epochs)?;
        }
        for (.., ops) in &views {
            schedule::change_epochs(ops, &mut epochs)?;
        }
        let fields = fields
            .0
            .into_iter()
            .map(|SpecEntry { name, value, .. }| Ok((name, FieldOps::built(value, &epochs)?)));
        let fields = fields.collect::<Result<_, SpecError>>()?;
        let views = views.into_iter().map(|(name, of, after, value)| {
            Ok((name, ViewOps { of, after, ops: FieldOps::built(value, &epochs)? }))
        });
        Ok(Self { settings, fields, views: views.collect::<Result<_, SpecError>>()? })
    }

    /// Returns the file's loader settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the names of the fields that have ops, sorted.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.fields.keys().map(String::as_str)
    }

    /// Returns whether a number follows the epoch.
    pub(crate) fn changes(&self) -> bool {
        let views = self.views.iter().map(|(_, view)| &view.ops);
        self.fields.values().chain(views).any(|ops| ops.fixed.is_none())
    }

    /// Returns the ops of a field in an epoch; no ops for a field that is not in the file.
    ///
    /// # Errors
    ///
    /// If a number that follows the epoch has a value that its op does not accept, between two values
    /// that it accepts.
    pub fn ops(&self, field: &str, epoch: Epoch) -> Result<Ops, ParamError> {
        match self.fields.get(field) {
            Some(FieldOps { fixed: Some(ops), .. }) => Ok(ops.clone()),
            Some(FieldOps { value, .. }) => {
                DefaultFloats::during(|| build_at(value, epoch)).map_err(param_error)
            }
            None => Ok(Ops::new()),
        }
    }

    /// Applies the pipelines and the settings to a loader's builder. Later calls on the builder override
    /// them.
    #[must_use]
    pub fn apply(&self, mut builder: LoaderBuilder) -> LoaderBuilder {
        let settings = &self.settings;
        builder = set(builder, settings.recompile, LoaderBuilder::recompile);
        builder = set(builder, settings.batch_size, LoaderBuilder::batch_size);
        builder = set(builder, settings.seed, LoaderBuilder::seed);
        builder = set(builder, settings.order.clone(), LoaderBuilder::order);
        builder = set(builder, settings.on_damaged, LoaderBuilder::on_damaged);
        builder = set(builder, settings.unordered, LoaderBuilder::unordered);
        builder = set(builder, settings.memory_limit, LoaderBuilder::memory_limit);
        builder = set(builder, settings.timeout, LoaderBuilder::timeout);
        builder = set(builder, settings.in_memory, LoaderBuilder::in_memory);
        builder = set(builder, settings.pin_memory, |b, gpu| b.pin_memory(gpu));
        builder = set(builder, settings.indices.clone(), |b, indices| b.indices(indices));
        builder = set(builder, settings.drop_last, LoaderBuilder::drop_last);
        builder = set(builder, settings.number_rule, LoaderBuilder::number_rule);
        builder = set(builder, settings.workers, LoaderBuilder::workers);
        builder = set(builder, settings.batches_ahead, LoaderBuilder::batches_ahead);
        builder = set(builder, settings.exif_orientation, LoaderBuilder::exif_orientation);
        builder = set(builder, settings.scaled_decode, LoaderBuilder::scaled_decode);
        builder = set(builder, settings.device, |b, device| b.device(&device.to_string()));
        builder = set(builder, settings.device_batches, LoaderBuilder::device_batches);
        for field in &settings.without {
            builder = builder.without(field);
        }
        for field in &settings.masks {
            builder = builder.masks(field);
        }
        for (field, mode) in &settings.read_mode {
            builder = builder.read_mode(field, *mode);
        }
        for (field, axes) in &settings.axes {
            builder = builder.axes(field, axes);
        }
        if settings.auto_targets {
            builder = builder.auto_targets();
        }
        for (image, targets) in &settings.targets {
            builder = builder.targets(image, targets.clone());
        }
        for (field, (dtype, shape)) in &settings.arrays {
            builder = builder.arrays(field, *dtype, shape);
        }
        if let Some(names) = &settings.expect_classes {
            builder = builder.expect_classes((0..).zip(names.iter().cloned()).collect());
        }
        for (output, collate) in &settings.collate {
            builder = builder.collate(output, collate.clone());
        }
        for (output, with) in &settings.share_draws {
            builder = builder.share_draws(output, with);
        }
        for (name, ViewOps { of, after, ops }) in &self.views {
            builder = match after {
                Some(after) => builder.branch(name, of, *after, ops.pipeline()),
                None => builder.view(name, of, ops.pipeline()),
            };
            builder = builder.positions(name, ops.positions.clone());
        }
        let pipelines = self.fields.iter();
        let pipelines =
            pipelines.map(|(field, ops)| (field.clone(), (ops.pipeline(), ops.positions.clone())));
        builder.pipelines(pipelines.collect())
    }
}

impl FieldOps {
    /// Builds the ops for each of these epochs, so that errors are found at once.
    fn built(value: SpecValue, epochs: &BTreeSet<u32>) -> Result<Self, SpecError> {
        let lists = epochs.iter().map(|epoch| build_at(&value, Epoch(*epoch)));
        let mut lists = lists.collect::<Result<Vec<_>, _>>()?;
        let fixed = if schedule::changes(&value) { None } else { lists.pop() };
        Ok(Self { value: Arc::new(value), fixed, positions: vec![] })
    }

    fn pipeline(&self) -> Pipeline {
        if let Some(ops) = &self.fixed {
            return ops.clone().into();
        }
        let value = Arc::clone(&self.value);
        Pipeline::by_epoch(move |epoch| build_at(&value, epoch).map_err(param_error))
    }
}

/// Parses text that is not in a file; errors call it `pipeline`.
impl std::str::FromStr for Spec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::parse(text, Path::new("pipeline"))
    }
}

/// Builds the ops of a field for an epoch.
fn build_at(ops: &SpecValue, epoch: Epoch) -> Result<Ops, SpecError> {
    build_ops(&schedule::at_epoch(ops, epoch)?)
}

/// Applies a setting if the file has it.
fn set<T>(
    builder: LoaderBuilder,
    value: Option<T>,
    with: impl FnOnce(LoaderBuilder, T) -> LoaderBuilder,
) -> LoaderBuilder {
    match value {
        Some(value) => with(builder, value),
        None => builder,
    }
}

/// Converts to the error type of a loader's pipelines. `parse` found all errors but parameters out of
/// range.
fn param_error(error: SpecError) -> ParamError {
    match error.cause {
        SpecCause::Param(error) => error,
        cause => ParamError::new("pipeline", "ops", cause, "what `fuseloop ops` lists"),
    }
}
