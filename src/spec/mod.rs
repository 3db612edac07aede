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
//! `[[fields.image]]` before each op is TOML's other way to write the same list. `fuseloop ops`
//! lists the ops and what they take: the names are those of the Rust constructors
//! ([`registry`](fuseloop_ops::registry)).
//!
//! | setting | default | what it is |
//! |---|---|---|
//! | `batch_size`, `workers`, `batches_ahead` | the loader's | as the methods of [`LoaderBuilder`] |
//! | `order` | `"sequential"` | or `"random"`, `"quasi_random"`: [`Order`] |
//! | `open_pages` | 64 | pages that a quasi-random order has open |
//! | `seed` | 0 | of the order and all draws |
//! | `drop_last` | true | whether a short last batch is left out |
//! | `rule` | `"fused"` | or `"exact"`, `"relaxed"`: [`NumberRule`] |
//! | `recompile` | whether a number follows the epoch | pipelines are made for each epoch |
//! | `on_damaged` | `"fail"` | or `"skip"`, `"substitute"`: [`OnDamaged`] |
//! | `unordered` | false | whether batches are delivered as they are finished |
//! | `memory_limit` | none | most bytes of all batches together |
//! | `device` | as each `ToDevice` says | where what stands after it is computed: `"auto"`, `"cpu"`, `"cuda:0"` |
//! | `device_batches` | the loader's | most batches on the device at a time |
//! | `exif_orientation` | false | whether JPEGs are turned as they say |
//! | `without` | none | fields to leave out of the batches |
//! | `collate` | none | a table: for each output, how samples that differ in size become a batch: [`Collate`] |
//!
//! Where a number is expected, `{ from, to, epochs, step }` gives one that follows the epoch: see
//! [`Schedule`]. The text is at most [`MAX_BYTES`] long; hostile text is refused, never a panic.

mod collate;
mod error;
mod read;
mod schedule;

pub use error::{ParseCause, ParseError, Place};
pub use schedule::Schedule;

use crate::loader::{Collate, LoaderBuilder, OnDamaged};
use crate::order::Order;
use crate::sample::Epoch;
use fuseloop_ops::registry::{
    Args, Kind, ParamInfo, SpecCause, SpecError, Table, Value, build_ops, maybe,
};
use fuseloop_ops::{Device, NumberRule, Ops, ParamError};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// Most bytes of a pipeline file.
pub const MAX_BYTES: usize = 1 << 20;

/// Pipelines and settings, checked.
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
/// A loader takes it whole: `Spec::open("imagenet.toml")?.apply(Loader::open("train.beton")?)`.
#[derive(Clone, Debug)]
pub struct Spec {
    settings: Settings,
    fields: Arc<BTreeMap<String, Value>>,
    changes: bool,
}

/// What a file says of the loader; what it does not say is the loader's default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Samples of a batch.
    pub batch_size: Option<usize>,
    /// What order and draws depend on.
    pub seed: Option<u64>,
    /// The order of the samples.
    pub order: Option<Order>,
    /// Whether a short last batch is left out.
    pub drop_last: Option<bool>,
    /// How values are rounded between ops.
    pub rule: Option<NumberRule>,
    /// Whether pipelines are made for each epoch.
    pub recompile: Option<bool>,
    /// Threads.
    pub workers: Option<usize>,
    /// Batches begun before they are asked for.
    pub batches_ahead: Option<usize>,
    /// What becomes of damaged samples.
    pub on_damaged: Option<OnDamaged>,
    /// Whether batches are delivered as they are finished.
    pub unordered: Option<bool>,
    /// Most bytes of all batches together.
    pub memory_limit: Option<u64>,
    /// Where what stands after `ToDevice` is computed.
    pub device: Option<Device>,
    /// Most batches on the device at a time.
    pub device_batches: Option<usize>,
    /// Whether JPEGs are turned as their EXIF orientation says.
    pub exif_orientation: Option<bool>,
    /// Fields to leave out.
    pub without: Vec<String>,
    /// How the samples of an output that differ in size become a batch.
    pub collate: Vec<(String, Collate)>,
}

/// An order, of the pages it has open if it has any.
type MakeOrder = fn(u32) -> Order;

const ORDERS: [(&str, MakeOrder); 3] = [
    ("sequential", |_| Order::Sequential),
    ("random", |_| Order::Random),
    ("quasi_random", |open_pages| Order::QuasiRandom { open_pages }),
];

/// What a quasi-random order has open if nothing is said: 128 MB of our pages, 512 MB of FFCV's.
const OPEN_PAGES: u32 = 64;

const DAMAGED: [(&str, OnDamaged); 3] =
    [("fail", OnDamaged::Fail), ("skip", OnDamaged::Skip), ("substitute", OnDamaged::Substitute)];

const RULES: [(&str, NumberRule); 3] =
    [("fused", NumberRule::Fused), ("exact", NumberRule::Exact), ("relaxed", NumberRule::Relaxed)];

/// What may stand at the top of a file.
const TOP: &[ParamInfo] = &[
    maybe("fields", Kind::Table, "the ops of each field"),
    maybe("batch_size", Kind::Whole, "samples of a batch"),
    maybe("seed", Kind::Whole, "what order and draws depend on"),
    maybe(
        "order",
        Kind::Word(&["sequential", "random", "quasi_random"]),
        "the order of the samples",
    ),
    maybe("open_pages", Kind::Whole, "pages that a quasi-random order has open"),
    maybe(
        "on_damaged",
        Kind::Word(&["fail", "skip", "substitute"]),
        "what becomes of damaged samples",
    ),
    maybe("unordered", Kind::Bool, "whether batches are delivered as they are finished"),
    maybe("memory_limit", Kind::Whole, "most bytes of all batches together"),
    maybe("drop_last", Kind::Bool, "whether a short last batch is left out"),
    maybe("rule", Kind::Word(&["fused", "exact", "relaxed"]), "how values are rounded between ops"),
    maybe("recompile", Kind::Bool, "whether pipelines are made for each epoch"),
    maybe("workers", Kind::Whole, "threads"),
    maybe("batches_ahead", Kind::Whole, "batches begun before they are asked for"),
    maybe("device", Kind::Text, "where what stands after ToDevice is computed"),
    maybe("device_batches", Kind::Whole, "most batches on the device at a time"),
    maybe("exif_orientation", Kind::Bool, "whether JPEGs are turned as they say"),
    maybe("without", Kind::Words, "fields to leave out of the batches"),
    maybe("collate", Kind::Table, "how samples that differ in size become a batch"),
];

impl Settings {
    fn of(args: &Args<'_>) -> Result<Self, SpecError> {
        let open_pages = args.if_given("open_pages", Args::u32)?.unwrap_or(OPEN_PAGES);
        let order = args.if_given("order", |args, name| args.choice(name, &ORDERS))?;
        Ok(Self {
            batch_size: args.if_given("batch_size", Args::usize)?,
            seed: args.if_given("seed", Args::u64)?,
            order: order.map(|make| make(open_pages)),
            on_damaged: args.if_given("on_damaged", |args, name| args.choice(name, &DAMAGED))?,
            unordered: args.if_given("unordered", Args::bool)?,
            memory_limit: args.if_given("memory_limit", Args::u64)?,
            drop_last: args.if_given("drop_last", Args::bool)?,
            rule: args.if_given("rule", |args, name| args.choice(name, &RULES))?,
            recompile: args.if_given("recompile", Args::bool)?,
            workers: args.if_given("workers", Args::usize)?,
            batches_ahead: args.if_given("batches_ahead", Args::usize)?,
            device: args.if_given("device", |args, name| Ok(args.text(name)?.parse()?))?,
            device_batches: args.if_given("device_batches", Args::usize)?,
            exif_orientation: args.if_given("exif_orientation", Args::bool)?,
            without: args.if_given("without", Args::texts)?.unwrap_or_default(),
            collate: collate::of_table(args.if_given("collate", Args::table)?.unwrap_or_default())?,
        })
    }
}

impl Spec {
    /// Reads and checks a pipeline file.
    ///
    /// # Errors
    ///
    /// If it can't be read, or as [`parse`](Self::parse).
    pub fn open(path: &Path) -> Result<Self, ParseError> {
        let text = read::text(path)?;
        Self::parse(&text, path)
    }

    /// Checks a pipeline file's text. `path` is what errors call it.
    ///
    /// The ops of every field are made once here, for epoch 0 and for the epochs where numbers
    /// that follow the epoch begin and cease to change: what is wrong is known now.
    ///
    /// # Errors
    ///
    /// See [`ParseCause`]; with line and column.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ParseError> {
        let top = read::table(text).map_err(|fault| fault.in_text(text, path))?;
        Self::of_table(&top).map_err(|error| read::Fault::from(error).in_text(text, path))
    }

    fn of_table(top: &Table) -> Result<Self, SpecError> {
        let (settings, fields) = Args::with("a pipeline file", TOP, top, None, |args| {
            Ok((Settings::of(args)?, args.if_given("fields", Args::table)?.unwrap_or_default()))
        })?;
        let fields: BTreeMap<_, _> =
            fields.0.into_iter().map(|entry| (entry.name, entry.value)).collect();
        let mut epochs = BTreeSet::from([0]);
        for ops in fields.values() {
            schedule::turns(ops, &mut epochs)?;
        }
        let spec = Self { settings, fields: Arc::new(fields), changes: epochs.len() > 1 };
        for epoch in epochs {
            spec.fields.values().try_for_each(|ops| made(ops, Epoch(epoch)).map(drop))?;
        }
        Ok(spec)
    }

    /// What the file says of the loader.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The fields that have ops, by name.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.fields.keys().map(String::as_str)
    }

    /// Whether a number follows the epoch.
    #[must_use]
    pub fn changes(&self) -> bool {
        self.changes
    }

    /// The ops of a field in an epoch; none for a field that the file does not name.
    ///
    /// # Errors
    ///
    /// If a number that follows the epoch leaves what its op accepts on the way between two values
    /// that do not.
    pub fn ops(&self, field: &str, epoch: Epoch) -> Result<Ops, ParamError> {
        match self.fields.get(field) {
            Some(ops) => made(ops, epoch).map_err(param_error),
            None => Ok(Ops::new()),
        }
    }

    /// Gives a loader the pipelines and the settings. What the builder is told after this holds.
    #[must_use]
    pub fn apply(&self, mut builder: LoaderBuilder) -> LoaderBuilder {
        let settings = &self.settings;
        builder = builder.recompile(settings.recompile.unwrap_or(self.changes));
        builder = set(builder, settings.batch_size, LoaderBuilder::batch_size);
        builder = set(builder, settings.seed, LoaderBuilder::seed);
        builder = set(builder, settings.order.clone(), LoaderBuilder::order);
        builder = set(builder, settings.on_damaged, LoaderBuilder::on_damaged);
        builder = set(builder, settings.unordered, LoaderBuilder::unordered);
        builder = set(builder, settings.memory_limit, LoaderBuilder::memory_limit);
        builder = set(builder, settings.drop_last, LoaderBuilder::drop_last);
        builder = set(builder, settings.rule, LoaderBuilder::number_rule);
        builder = set(builder, settings.workers, LoaderBuilder::workers);
        builder = set(builder, settings.batches_ahead, LoaderBuilder::batches_ahead);
        builder = set(builder, settings.exif_orientation, LoaderBuilder::exif_orientation);
        builder = set(builder, settings.device, |b, device| b.device(&device.to_string()));
        builder = set(builder, settings.device_batches, LoaderBuilder::device_batches);
        for field in &settings.without {
            builder = builder.without(field);
        }
        for (output, collate) in &settings.collate {
            builder = builder.collate(output, collate.clone());
        }
        for field in self.fields.keys() {
            let (spec, name) = (self.clone(), field.clone());
            builder = builder.pipeline(field, move |epoch| spec.ops(&name, epoch));
        }
        builder
    }
}

/// From text without a file: errors call it `pipeline`.
impl std::str::FromStr for Spec {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::parse(text, Path::new("pipeline"))
    }
}

/// The ops of a field in an epoch.
fn made(ops: &Value, epoch: Epoch) -> Result<Ops, SpecError> {
    build_ops(&schedule::at_epoch(ops, epoch)?)
}

/// A setting, if the file has it.
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

/// As a loader's pipeline reports it. All but parameters out of range were found by `parse`.
fn param_error(error: SpecError) -> ParamError {
    match error.cause {
        SpecCause::Param(error) => error,
        cause => ParamError::new("pipeline", "ops", cause, "what `fuseloop ops` lists"),
    }
}
