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
//! [`Settings`] has the settings; `[views]` is a table for each further output of a field, `{ of = "image", ops = [..] }`, with
//! `after = 2` a branch behind two ops of `of`.
//!
//! Where a number is expected, `{ from, to, epochs, step }` stands for a number that follows the epoch.
//! The text has at most 1 MiB; hostile text is refused and never causes a panic.

mod arrays;
mod assigned;
mod clips;
mod collate;
pub(crate) mod error;
mod image_lists;
mod read;
pub(crate) mod schedule;
mod settings;
mod targets;
pub(crate) mod transform;

use crate::error::{Error, fail};
use crate::loader::{LoaderBuilder, Pipeline};
use crate::sample::Epoch;
use assigned::AssignedTexts;
use fuseloop_ops::internals::DefaultFloats;
use fuseloop_ops::internals::registry::{
    OpArgs, ParamInfo, ParamKind, ParamValue, SpecCause, SpecData, SpecEntry, SpecError, SpecTable,
    SpecValue, build_ops, optional, required,
};
use fuseloop_ops::{Ops, ParamError};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

pub use settings::{Settings, TargetFields};

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

impl Spec {
    /// Reads and checks a pipeline file.
    ///
    /// # Errors
    ///
    /// If the file can't be read, and the errors of [`parse`](Self::parse).
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::parse(&read::text(path)?, path)
    }

    /// Reads and checks a pipeline file, in which texts such as `clips.frames=8` set further settings: see
    /// [`Settings::of_texts`].
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open), which the file may have without the texts, and those of [`Settings::of_texts`].
    #[doc(hidden)]
    pub fn open_with(path: &Path, assigned: &[String]) -> Result<Self, Error> {
        let text = read::text(path)?;
        DefaultFloats::during(|| Self::parse_text(&text, path, assigned))
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
        DefaultFloats::during(|| Self::parse_text(text, path, &[]))
    }

    fn parse_text(text: &str, path: &Path, assigned: &[String]) -> Result<Self, Error> {
        let mut top = read::table(text).map_err(|fault| fault.in_text(text, path))?;
        if let Some(split) = top.0.iter().find(|entry| entry.name == "split") {
            let error = fail!(
                Parameter,
                "`split` is no setting of a pipeline file, which names no dataset: remove it, and set `--split`, or `split` \
                 where a program opens the dataset"
            );
            return Err(read::SpecFault::new(split.at, error).in_text(text, path).into());
        }
        let spec = Self::of_table(&top);
        let mut spec = spec.map_err(|error| read::SpecFault::from(error).in_text(text, path))?;
        if !assigned.is_empty() {
            let texts = AssignedTexts::set(&mut top, text.len(), assigned)?;
            spec = Self::of_table(&top).map_err(|error| texts.error(error, (text, path)))?;
        }
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
        let (settings, fields, views) =
            OpArgs::with("a pipeline file", Settings::TOP, top, None, |args| {
                let table =
                    |name| args.if_given(name, OpArgs::table).map(Option::unwrap_or_default);
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
    #[doc(hidden)]
    pub fn changes(&self) -> bool {
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
        builder = self.settings.apply(builder);
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

/// Converts to the error type of a loader's pipelines. `parse` found all errors but parameters out of
/// range.
fn param_error(error: SpecError) -> ParamError {
    match error.cause {
        SpecCause::Param(error) => error,
        cause => ParamError::new("pipeline", "ops", cause, "what `fuseloop ops` lists"),
    }
}
