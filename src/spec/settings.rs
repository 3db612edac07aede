//! The settings of a loader as data, each declared once: a pipeline file, the arguments of Python's `Loader` and `--set`
//! of the command are read by this table.

use super::assigned::AssignedTexts;
use super::{arrays, clips, collate, image_lists, targets};
use crate::decode::ImageReadMode;
use crate::error::Error;
use crate::loader::{Clips, Collate, ImageList, LoaderBuilder, OnDamaged, Targets};
use crate::order::Order;
use fuseloop_ops::internals::registry::{
    OpArgs, ParamInfo, ParamKind, ParamValue, SpecCause, SpecEntry, SpecError, SpecTable, names_of,
    optional, required,
};
use fuseloop_ops::{Device, NumberRule, ParamError};
use std::path::Path;
use std::time::Duration;

/// Declares settings: the doc, the name and the type of each, the form of its value, how it is read, and the method of the
/// builder that takes it.
macro_rules! settings {
    ($(
        $(#[doc = $doc:literal])+
        $name:ident: $type:ty = $kind:expr, $read:expr, $set:expr;
    )+) => {
        /// The loader settings of a pipeline file. `None` means the loader's default.
        ///
        /// ```
        /// let text = "batch_size = 256\norder = 'random'\n[fields]\nimage = ['RandomHorizontalFlip']";
        /// let spec: fuseloop::Spec = text.parse()?;
        /// assert_eq!(spec.settings().batch_size, Some(256));
        /// assert_eq!(spec.settings().seed, None);
        /// # Ok::<(), fuseloop::Error>(())
        /// ```
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct Settings {$(
            $(#[doc = $doc])+
            pub $name: Option<$type>,
        )+}

        impl Settings {
            pub(super) const TABLE: &[ParamInfo] = &[
                $(optional(stringify!($name), $kind, concat!($($doc),+)),)+
                OPEN_PAGES,
            ];

            /// The names at the top of a file.
            pub(super) const TOP: &[ParamInfo] = &[
                $(optional(stringify!($name), $kind, concat!($($doc),+)),)+
                OPEN_PAGES,
                optional("views", ParamKind::Table, VIEWS),
                optional("fields", ParamKind::Table, "the ops of each field"),
            ];

            /// Returns the name and the meaning of each setting, as docs/pipelines.md shows them.
            #[doc(hidden)]
            pub fn documented() -> impl Iterator<Item = (&'static str, &'static str)> {
                let settings = Self::TOP.iter().filter(|setting| setting.name != "fields");
                settings.map(|setting| (setting.name, setting.doc.trim()))
            }

            pub(super) fn of(args: &OpArgs<'_>) -> Result<Self, SpecError> {
                let settings = Self { $($name: args.if_given(stringify!($name), $read)?,)+ };
                if args.given("open_pages") && !matches!(settings.order, Some(Order::QuasiRandom { .. })) {
                    let found = "given for another order";
                    return Err(ParamError::new("order", "open_pages", found, "order = \"quasi_random\"").into());
                }
                Ok(settings)
            }

            /// Applies the settings to a loader's builder.
            #[doc(hidden)]
            #[must_use]
            pub fn apply(&self, mut builder: LoaderBuilder) -> LoaderBuilder {
                $(if let Some(value) = self.$name.clone() {
                    builder = applied(builder, value, $set);
                })+
                builder
            }

            /// Returns these settings, and where they have none, those of another.
            #[doc(hidden)]
            #[must_use]
            pub fn or(self, other: Self) -> Self {
                Self { $($name: self.$name.or(other.$name),)+ }
            }
        }
    };
}

/// Named values, of fields or outputs.
type Named<T> = Vec<(String, T)>;

settings! {
    /// The number of samples in a batch. Default 64.
    batch_size: usize = ParamKind::Whole, count, LoaderBuilder::batch_size;
    /// The seed of the order and of all draws. Default 0.
    seed: u64 = ParamKind::Whole, OpArgs::u64, LoaderBuilder::seed;
    /// The order of the samples: `"sequential"` (default), `"random"`, `"permuted"` for more samples than memory can list,
    /// `"bucketed"` for batches with images of one size, or `"quasi_random"` with `open_pages` pages open at once (default 64).
    order: Order = ParamKind::Word(&names_of(&ORDERS)), order, LoaderBuilder::order;
    /// Drops a short last batch if true. Default false.
    drop_last: bool = ParamKind::Bool, OpArgs::bool, LoaderBuilder::drop_last;
    /// The number of worker threads, at most 1,024. Default one per core.
    workers: usize = ParamKind::Whole, count, LoaderBuilder::workers;
    /// The number of batches that are started before they are requested. Default 3.
    batches_ahead: usize = ParamKind::Whole, count, LoaderBuilder::batches_ahead;
    /// The maximum size of all batches together: a number of bytes, or a text such as `"2GiB"`.
    memory_limit: u64 = ParamKind::Bytes, OpArgs::bytes, LoaderBuilder::memory_limit;
    /// The maximum number of seconds to wait for a batch.
    timeout: Duration = ParamKind::Number, seconds, LoaderBuilder::timeout;
    /// Delivers batches as soon as they are ready, in any order, if true. Default false.
    unordered: bool = ParamKind::Bool, OpArgs::bool, LoaderBuilder::unordered;
    /// How damaged samples are handled: `"fail"` (default), `"skip"` or `"substitute"`.
    on_damaged: OnDamaged =
        ParamKind::Word(&names_of(&DAMAGED)), |args, name| args.choice(name, &DAMAGED), LoaderBuilder::on_damaged;
    /// Reads `.beton` files into memory if true, and never if false. By default, small ones are.
    in_memory: bool = ParamKind::Bool, OpArgs::bool, LoaderBuilder::in_memory;
    /// The number of the GPU whose context locks the pages of batches.
    pin_memory: u32 = ParamKind::Whole, OpArgs::u32, |builder, gpu| builder.pin_memory(gpu);
    /// The numbers of the samples to load. By default all.
    indices: Vec<u64> = ParamKind::Ids, OpArgs::ids, |builder, samples| builder.indices(samples);
    /// How values are rounded between ops: `"fused"` (default) keeps fractions until the final store, `"exact"` rounds to
    /// u8 after each op, as torchvision does, and `"relaxed"` also multiplies consecutive colour matrices.
    number_rule: NumberRule =
        ParamKind::Word(&names_of(&RULES)), |args, name| args.choice(name, &RULES), LoaderBuilder::number_rule;
    /// Compiles all lists for each epoch if true. Those in which a number follows the epoch always are; false is an error
    /// if there is one.
    recompile: bool = ParamKind::Bool, OpArgs::bool, LoaderBuilder::recompile;
    /// The device that runs the ops after `ToDevice`: `"auto"`, `"cpu"` or `"cuda:0"`. By default, each `ToDevice` names
    /// its own.
    device: Device =
        ParamKind::Text, |args, name| Ok(args.text(name)?.parse()?), |builder, device| builder.device(&device.to_string());
    /// The maximum number of batches on the device at a time.
    device_batches: usize = ParamKind::Whole, count, LoaderBuilder::device_batches;
    /// Turns images as their EXIF orientation says if true. Without it they are not turned, and those that would be are
    /// refused if they have targets.
    exif_orientation: bool = ParamKind::Bool, OpArgs::bool, LoaderBuilder::exif_orientation;
    /// Decodes large JPEGs at 1/2, 1/4 or 1/8 of their size where their resize allows it if true. Default false.
    scaled_decode: bool = ParamKind::Bool, OpArgs::bool, LoaderBuilder::scaled_decode;
    /// The fields to leave out of the batches.
    without: Vec<String> =
        ParamKind::Words, OpArgs::texts, |builder, fields| for_each(builder, fields, |builder, field| builder.without(&field));
    /// The image fields whose values are class numbers: ops that would blend or change them are refused.
    masks: Vec<String> =
        ParamKind::Words, OpArgs::texts, |builder, fields| for_each(builder, fields, |builder, field| builder.masks(&field));
    /// The pixel format that the images of a field are read in: `"rgb"`, `"gray"`, `"gray16"`, `"rgb_alpha"` or `"index"`.
    read_mode: Named<ImageReadMode> = ParamKind::Table, read_modes, |builder, modes| {
        for_each(builder, modes, |builder, (field, mode)| builder.read_mode(&field, mode))
    };
    /// The axes of fields of arrays, one letter for each, such as `"HWC"` or `"DHW"`.
    axes: Named<String> = ParamKind::Table, |args, name| arrays::axes_of(args.table(name)?), |builder, fields| {
        for_each(builder, fields, |builder, (field, axes)| builder.axes(&field, &axes))
    };
    /// The arrays that fields of bytes hold, such as `{ dtype = "f32", shape = [-1, 3] }`, or `{ sample_rate = 16000 }`
    /// for audio files.
    arrays: Named<arrays::DeclaredArray> =
        ParamKind::Table, |args, name| arrays::of_table(args.table(name)?), |builder, fields| {
            for_each(builder, fields, |builder, (field, array)| array.of_field(builder, &field))
        };
    /// The clips of videos that are the samples: the sampler, its frames, and how they are chosen.
    clips: Clips = ParamKind::Table, |args, name| clips::of_table(&args.table(name)?), LoaderBuilder::clips;
    /// The fields of lists of images that become images: the maximum number of images of a sample, or a table with `max`,
    /// `truncate` and `per_image`.
    image_lists: Named<ImageList> =
        ParamKind::Table, |args, name| image_lists::of_table(args.table(name)?), |builder, fields| {
            for_each(builder, fields, |builder, (field, list)| builder.image_lists(&field, list))
        };
    /// The fields that follow images: `"auto"` for what the dataset knows of its objects, or a table for each image with
    /// its boxes, keypoints, columns and masks.
    targets: TargetFields = ParamKind::Table, target_fields, |builder, targets| match targets {
        TargetFields::Auto => builder.auto_targets(),
        TargetFields::Of(images) => {
            for_each(builder, images, |builder, (image, targets)| builder.targets(&image, targets))
        }
    };
    /// The names that the classes must have, by their numbers from 0: a dataset whose classes differ is refused.
    expect_classes: Vec<String> = ParamKind::Words, OpArgs::texts, |builder, names| {
        builder.expect_classes((0..).zip(names).collect())
    };
    /// How the samples of an output that differ in size become a batch.
    collate: Named<Collate> = ParamKind::Table, |args, name| collate::of_table(args.table(name)?), |builder, outputs| {
        for_each(builder, outputs, |builder, (output, collate)| builder.collate(&output, collate))
    };
    /// The outputs whose ops draw the same numbers as those of another, such as `mask = "image"`.
    share_draws: Named<String> = ParamKind::Table, shares, |builder, outputs| {
        for_each(builder, outputs, |builder, (output, with)| builder.share_draws(&output, &with))
    };
}

/// Calls a method of the builder.
fn applied<T>(
    builder: LoaderBuilder,
    value: T,
    apply: fn(LoaderBuilder, T) -> LoaderBuilder,
) -> LoaderBuilder {
    apply(builder, value)
}

/// Calls a method of the builder with each item.
fn for_each<T>(
    builder: LoaderBuilder,
    items: Vec<T>,
    apply: fn(LoaderBuilder, T) -> LoaderBuilder,
) -> LoaderBuilder {
    items.into_iter().fold(builder, apply)
}

impl Settings {
    /// Reads settings that Python has as a dict. Errors call them those of `owner`.
    ///
    /// # Errors
    ///
    /// If a setting is unknown, or has a value of another form.
    #[doc(hidden)]
    pub fn of_table(owner: &'static str, table: &SpecTable) -> Result<Self, SpecError> {
        OpArgs::with(owner, Self::TABLE, table, None, Self::of)
    }

    /// Reads settings from texts such as `number_rule=exact`, whose values are those of a pipeline file; a word needs no
    /// quotes. A name with dots, such as `clips.frames`, is that of one key of a table.
    ///
    /// # Errors
    ///
    /// If a setting is unknown, is given twice in one text, or has a value of another form.
    #[doc(hidden)]
    pub fn of_texts(texts: &[String]) -> Result<Self, Error> {
        let mut table = SpecTable::default();
        let texts = AssignedTexts::set(&mut table, 0, texts)?;
        let settings = Self::of_table("a pipeline file", &table);
        settings.map_err(|error| texts.error(error, ("", Path::new(""))).into())
    }
}

/// Reads a number that is at least 1. The loader refuses 0.
fn count(args: &OpArgs<'_>, name: &str) -> Result<usize, SpecError> {
    args.usize(name).map_err(|mut error| {
        if let SpecCause::Kind { expected, .. } = &mut error.cause {
            *expected = "a whole number, 1 or more".to_owned();
        }
        error
    })
}

/// The fields that follow images.
///
/// ```
/// use fuseloop::spec::{Spec, TargetFields};
///
/// let spec: Spec = "targets = 'auto'".parse()?;
/// assert_eq!(spec.settings().targets, Some(TargetFields::Auto));
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum TargetFields {
    /// Those that the dataset knows of: [`LoaderBuilder::auto_targets`].
    Auto,
    /// Those of each image: [`LoaderBuilder::targets`].
    Of(Vec<(String, Targets)>),
}

/// Makes an order from its number of open pages, which not every order uses.
type MakeOrder = fn(u32) -> Order;

const ORDERS: [(&str, MakeOrder); 5] = [
    ("sequential", |_| Order::Sequential),
    ("random", |_| Order::Random),
    ("permuted", |_| Order::Permuted),
    ("bucketed", |_| Order::Bucketed),
    ("quasi_random", |open_pages| Order::QuasiRandom { open_pages }),
];

/// The default number of open pages in a quasi-random order: 128 MB of our pages, 512 MB of FFCV's.
const DEFAULT_OPEN_PAGES: u32 = 64;

const OPEN_PAGES: ParamInfo = optional(
    "open_pages",
    ParamKind::Whole,
    "The number of pages that a quasi-random order has open at once. Default 64.",
);

const VIEWS: &str = "Further outputs of fields: `{ of = \"image\", ops = [..] }`, and with `after = 2` a branch behind two ops of `of`.";

const DAMAGED: [(&str, OnDamaged); 3] =
    [("fail", OnDamaged::Fail), ("skip", OnDamaged::Skip), ("substitute", OnDamaged::Substitute)];

const RULES: [(&str, NumberRule); 3] =
    [("fused", NumberRule::Fused), ("exact", NumberRule::Exact), ("relaxed", NumberRule::Relaxed)];

/// The words for what images are read as.
const READ_MODES: [(&str, ImageReadMode); 5] = [
    ("rgb", ImageReadMode::Rgb),
    ("gray", ImageReadMode::Gray),
    ("gray16", ImageReadMode::Gray16),
    ("rgb_alpha", ImageReadMode::RgbAlpha),
    ("index", ImageReadMode::Index),
];

fn order(args: &OpArgs<'_>, name: &str) -> Result<Order, SpecError> {
    let open_pages = args.if_given("open_pages", OpArgs::u32)?.unwrap_or(DEFAULT_OPEN_PAGES);
    Ok(args.choice(name, &ORDERS)?(open_pages))
}

/// Returns a number of seconds.
fn seconds(args: &OpArgs<'_>, name: &str) -> Result<Duration, SpecError> {
    let found = args.float(name)?;
    Duration::try_from_secs_f64(found)
        .map_err(|_| ParamError::new("timeout", "timeout", found, "a number of seconds").into())
}

const READ_MODE: &[ParamInfo] = &[required(
    "mode",
    ParamKind::Word(&names_of(&READ_MODES)),
    ParamValue::Word("rgb"),
    "pixel format to read the images in",
)];

/// Returns what the fields of a `[read_mode]` table are read as.
fn read_modes(args: &OpArgs<'_>, name: &str) -> Result<Named<ImageReadMode>, SpecError> {
    each("read_mode", READ_MODE, args.table(name)?, |args| args.choice("mode", &READ_MODES))
}

const SHARE: &[ParamInfo] =
    &[required("with", ParamKind::Text, ParamValue::Word("image"), "the output that draws first")];

/// Returns the outputs of a `[share_draws]` table, each with the one whose draws it shares.
fn shares(args: &OpArgs<'_>, name: &str) -> Result<Named<String>, SpecError> {
    each("share_draws", SHARE, args.table(name)?, |args| args.text("with"))
}

/// Reads the single value of each entry of a table.
pub(super) fn each<T>(
    owner: &'static str,
    params: &'static [ParamInfo],
    SpecTable(entries): SpecTable,
    read: impl Fn(&OpArgs<'_>) -> Result<T, SpecError>,
) -> Result<Named<T>, SpecError> {
    let one = |SpecEntry { name, at, value }: SpecEntry| {
        let table = SpecTable(vec![SpecEntry { name: params[0].name.to_owned(), at, value }]);
        match OpArgs::with(owner, params, &table, at, &read) {
            Ok(found) => Ok((name, found)),
            Err(mut error) => {
                if let SpecCause::Kind { param, .. } = &mut error.cause {
                    *param = name;
                }
                Err(error)
            }
        }
    };
    entries.into_iter().map(one).collect()
}

fn target_fields(args: &OpArgs<'_>, name: &str) -> Result<TargetFields, SpecError> {
    match args.choice(name, &[("auto", ())]) {
        Ok(()) => Ok(TargetFields::Auto),
        Err(_) => Ok(TargetFields::Of(targets::of_table(args.table(name)?)?)),
    }
}
