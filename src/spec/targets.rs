//! The fields that follow an image, as data: see [`Targets`].
//!
//! ```toml
//! [targets.image]
//! bbox = { as = "boxes", format = "xywh", to = "cxcywh", normalized = true }
//! category_id = { as = "column", dtype = "i64" }
//! keypoints = { as = "keypoints", each = 17, flip_pairs = [1, 2, 3, 4] }    # 1 with 2, 3 with 4
//! segmentation = "instance_masks"                                        # the form alone
//! semantic = { as = "mask", fill = 255 }
//! ```
//!
//! | `as` | others, with their defaults |
//! |---|---|
//! | `"boxes"` | `format = "xyxy"`, `to` (the stored format), `clamping = "soft"`, `normalized = false` |
//! | `"keypoints"` | `each`, `flip_pairs = []`, `visibility = true`, `continuous = false`, `keep_visibility = false` |
//! | `"column"` | `dtype = "i64"` |
//! | `"instance_masks"` | |
//! | `"mask"` | `fill = 0` |

use crate::loader::{BoundingBoxes, KeyPoints, Targets};
use fuseloop_ops::internals::registry::{
    BOX_FORMAT_WORDS, OpArgs, ParamInfo, ParamKind, ParamValue, SpecEntry, SpecError, SpecTable,
    optional, required,
};
use fuseloop_ops::{ClampingMode, DType, ParamError};

/// Adds one kind of target.
type AddTarget = fn(Targets, &str, &OpArgs<'_>) -> Result<Targets, SpecError>;

const FORMS: [(&str, AddTarget); 5] = [
    ("boxes", boxes),
    ("keypoints", keypoints),
    ("column", column),
    ("instance_masks", |targets, field, _| Ok(targets.instance_masks(field))),
    ("mask", mask),
];

const PARAMS: &[ParamInfo] = &[
    required(
        "as",
        ParamKind::Word(&["boxes", "keypoints", "column", "instance_masks", "mask"]),
        ParamValue::Word("boxes"),
        "kind of target",
    ),
    optional("format", BOX_FORMAT_WORDS, "the numbers that a box is stored as"),
    optional("to", BOX_FORMAT_WORDS, "the numbers of a box in a batch"),
    optional(
        "clamping",
        ParamKind::Word(&["soft", "hard", "none"]),
        "how boxes are cut at the edges of the image",
    ),
    optional("normalized", ParamKind::Bool, "divide boxes by the image's size"),
    optional("each", ParamKind::Whole, "keypoints of an object"),
    optional("flip_pairs", ParamKind::Ids, "keypoints that change places in a mirror, two by two"),
    optional("visibility", ParamKind::Bool, "keypoints have three numbers"),
    optional("continuous", ParamKind::Bool, "keypoints are positions, not pixel indices"),
    optional(
        "keep_visibility",
        ParamKind::Bool,
        "keep the visibility of keypoints outside of the image",
    ),
    optional("dtype", ParamKind::DType, "the type of a column"),
    optional("fill", ParamKind::Whole, "the class outside of the image"),
];

/// Returns the targets of each image of a `[targets]` table.
pub(super) fn of_table(SpecTable(entries): SpecTable) -> Result<Vec<(String, Targets)>, SpecError> {
    entries.into_iter().map(of_image).collect()
}

fn of_image(SpecEntry { name, at, value }: SpecEntry) -> Result<(String, Targets), SpecError> {
    let table = SpecTable(vec![SpecEntry { name: "fields".to_owned(), at, value }]);
    const FIELDS: &[ParamInfo] =
        &[required("fields", ParamKind::Table, ParamValue::Word("a table"), "kind of each field")];
    let fields = OpArgs::with("targets", FIELDS, &table, at, |args| args.table("fields"))?;
    let targets = fields.0.into_iter().try_fold(Targets::new(), add)?;
    Ok((name, targets))
}

/// Adds a field, which is a table, or a single word that stands for `as`.
fn add(targets: Targets, SpecEntry { name, at, value }: SpecEntry) -> Result<Targets, SpecError> {
    let table = value.into_table("as", at);
    OpArgs::with("targets", PARAMS, &table, at, |args| {
        args.choice("as", &FORMS)?(targets, &name, args)
    })
}

fn boxes(targets: Targets, field: &str, args: &OpArgs<'_>) -> Result<Targets, SpecError> {
    let stored = args.if_given("format", OpArgs::box_format)?.unwrap_or_default();
    let mut boxes = BoundingBoxes::new(stored);
    if let Some(format) = args.if_given("to", OpArgs::box_format)? {
        boxes = boxes.to(format);
    }
    let modes = ClampingMode::ALL.map(|mode| (mode.name(), mode));
    if let Some(mode) = args.if_given("clamping", |args, name| args.choice(name, &modes))? {
        boxes = boxes.clamping(mode);
    }
    let is_normalized = args.if_given("normalized", OpArgs::bool)? == Some(true);
    Ok(targets.boxes(field, if is_normalized { boxes.normalized() } else { boxes }))
}

fn keypoints(targets: Targets, field: &str, args: &OpArgs<'_>) -> Result<Targets, SpecError> {
    let mut points = KeyPoints::new(args.if_given("each", OpArgs::usize)?.unwrap_or(1));
    if let Some(pairs) = args.if_given("flip_pairs", OpArgs::ids)? {
        let pairs: Vec<usize> =
            pairs.into_iter().map(|index| usize::try_from(index).unwrap_or(usize::MAX)).collect();
        // Half a pair is refused like a pair of a keypoint that does not exist.
        let pairs = pairs.chunks(2).map(|pair| [pair[0], *pair.get(1).unwrap_or(&usize::MAX)]);
        points = points.flip_pairs(&pairs.collect::<Vec<_>>());
    }
    if args.if_given("visibility", OpArgs::bool)? == Some(false) {
        points = points.without_visibility();
    }
    if args.if_given("continuous", OpArgs::bool)? == Some(true) {
        points = points.continuous();
    }
    if args.if_given("keep_visibility", OpArgs::bool)? == Some(true) {
        points = points.keep_visibility();
    }
    Ok(targets.keypoints(field, points))
}

fn column(targets: Targets, field: &str, args: &OpArgs<'_>) -> Result<Targets, SpecError> {
    Ok(targets.column(field, args.if_given("dtype", OpArgs::dtype)?.unwrap_or(DType::I64)))
}

fn mask(targets: Targets, field: &str, args: &OpArgs<'_>) -> Result<Targets, SpecError> {
    let fill = args.if_given("fill", OpArgs::u32)?.unwrap_or(0);
    let fill = u8::try_from(fill).map_err(|_| ParamError::new("mask", "fill", fill, "0..=255"))?;
    Ok(targets.mask(field, fill))
}
