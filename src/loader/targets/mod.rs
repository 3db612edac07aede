//! Targets: the masks, bounding boxes, keypoints and columns that follow an image.
//!
//! ```text
//! image  ──▶ draws ──▶ decode ──▶ compiled loops ──────────▶ image
//! boxes  ──▶   │  where each op moves them, which stay ────▶ boxes, labels: the rows that stay
//! masks  ──▶   └─ the same steps, by the nearest pixel ────▶ masks
//! ```
//!
//! The objects of a sample are read before its image draws, and each step that is drawn moves them at once, so that an
//! op can draw around boxes. They are a few numbers, which are moved in plain Rust in f64. A mask has a compiled loop
//! of its own, which runs the image's steps.
//!
//! `plan` checks the declaration against the dataset; `read` turns stored bytes into objects, and objects into the
//! rows of a batch; `batch_rows` changes these rows. `of_dataset` declares those of a dataset that knows them.
//! `orientation` refuses images of which it is not known whether their targets are of the upright picture.

mod batch_rows;
mod of_dataset;
mod orientation;
mod plan;
mod read;

pub(super) use orientation::check_orientation;
pub(super) use plan::{PlannedTarget, Target, TargetRequest};
pub(super) use read::{of_mask, other_size, write_column};

use fuseloop_ops::{BoxFormat, ClampingMode, DType};

/// The fields that follow an image: see [`LoaderBuilder::targets`](super::LoaderBuilder::targets).
///
/// An *object* is one row of a sample's boxes. Its keypoints, its instance mask and its row of each column belong to
/// it: an op that removes an object removes all of them.
///
/// | declared by | stored as | in a batch |
/// |---|---|---|
/// | [`boxes`](Self::boxes) | bytes: f32 `[objects, 4]`, or 5 or 8 numbers each if rotated | ragged f32 `[objects, 4]` |
/// | [`keypoints`](Self::keypoints) | bytes: f32 `[objects, K, 3]` | ragged f32 `[objects, K, 3]` |
/// | [`column`](Self::column) | bytes: `[objects]` of any type | ragged `[objects]` of that type |
/// | [`instance_masks`](Self::instance_masks) | JSON: a list of COCO's `segmentation` values | ragged u8 `[objects, H, W]` |
/// | [`mask`](Self::mask) | an image of one size with its picture | u8 `[H, W, 1]` |
///
/// Bytes are in little-endian order; they may also be a `.npy` file of that type and shape. Ragged tensors can be padded
/// or become lists by [`collate`](super::LoaderBuilder::collate), which takes no element type for them.
///
/// ```
/// use fuseloop::loader::{KeyPoints, Targets};
/// use fuseloop::ops::{BoxFormat, DType};
///
/// let targets = Targets::new()
///     .boxes("bbox", BoxFormat::Xywh)
///     .column("category_id", DType::I64)
///     .keypoints("keypoints", KeyPoints::coco_person());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Targets {
    fields: Vec<(String, Target)>,
}

impl Targets {
    /// No targets.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares the bounding boxes of the objects, in continuous coordinates: the box of a whole image is
    /// `[0, 0, width, height]`. One format is a declaration with default options.
    #[must_use]
    pub fn boxes(self, field: &str, boxes: impl Into<BoundingBoxes>) -> Self {
        self.with(field, Target::Boxes(boxes.into()))
    }

    /// Declares the keypoints of the objects.
    #[must_use]
    pub fn keypoints(self, field: &str, keypoints: KeyPoints) -> Self {
        self.with(field, Target::KeyPoints(keypoints))
    }

    /// Declares a column with one number of type `dtype` for each object, such as its class.
    #[must_use]
    pub fn column(self, field: &str, dtype: DType) -> Self {
        self.with(field, Target::Column(dtype))
    }

    /// Declares the masks of the objects: a list with a polygon list or a run-length encoding for each, as in COCO's
    /// files. A mask is 1 where its object is.
    #[must_use]
    pub fn instance_masks(self, field: &str) -> Self {
        self.with(field, Target::InstanceMasks)
    }

    /// Declares a mask of the whole image, whose values are numbers of classes. Pixels that come in from outside the
    /// image become `fill`: 0 in torchvision, and often 255, which losses ignore. So does the padding of a batch of
    /// images that differ in size. A [`Lut`](fuseloop_ops::Lut) in the list of the mask looks `fill` up as every class.
    #[must_use]
    pub fn mask(self, field: &str, fill: u8) -> Self {
        self.with(field, Target::Mask { fill })
    }

    fn with(mut self, field: &str, target: Target) -> Self {
        self.fields.push((field.to_owned(), target));
        self
    }
}

/// How bounding boxes are stored, and how they come in a batch.
///
/// ```
/// use fuseloop::loader::BoundingBoxes;
/// use fuseloop::ops::BoxFormat;
///
/// // COCO's boxes as DETR takes them: the middle and the size, divided by the size of the image.
/// let boxes = BoundingBoxes::new(BoxFormat::Xywh).to(BoxFormat::Cxcywh).normalized();
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BoundingBoxes {
    stored: BoxFormat,
    output: BoxFormat,
    clamping: ClampingMode,
    is_normalized: bool,
}

impl BoundingBoxes {
    /// Boxes that are stored in a format, and come in it.
    #[must_use]
    pub fn new(stored: BoxFormat) -> Self {
        let clamping = ClampingMode::default();
        Self { stored, output: stored, clamping, is_normalized: false }
    }

    /// Sets the format in a batch. Boxes that are stored upright can't become rotated ones, nor the other way round.
    #[must_use]
    pub fn to(mut self, format: BoxFormat) -> Self {
        self.output = format;
        self
    }

    /// Sets how boxes are cut at the edges of the image. Default [`ClampingMode::Soft`].
    #[must_use]
    pub fn clamping(mut self, mode: ClampingMode) -> Self {
        self.clamping = mode;
        self
    }

    /// Divides the boxes of a batch by the width and the height of the image after its ops. Only for upright boxes.
    #[must_use]
    pub fn normalized(mut self) -> Self {
        self.is_normalized = true;
        self
    }

    /// Returns the format of stored boxes, and that of boxes in a batch.
    pub(super) fn formats(&self) -> [BoxFormat; 2] {
        [self.stored, self.output]
    }

    /// Returns whether the boxes of a batch are divided by the size of the image.
    pub(super) fn is_normalized(&self) -> bool {
        self.is_normalized
    }
}

impl From<BoxFormat> for BoundingBoxes {
    fn from(stored: BoxFormat) -> Self {
        Self::new(stored)
    }
}

/// How keypoints are stored.
///
/// Three numbers each: `x`, `y` and COCO's visibility, which is 0 for a point that is not labelled, 1 for a hidden one
/// and 2 for a visible one. A point that is stored with visibility 0 does not move, and is `[0, 0, 0]` in a batch. A point
/// that an op moves out of the image, such as a crop, gets visibility 0 in the batch, as in Detectron2 and Ultralytics,
/// and keeps its coordinates; see [`keep_visibility`](Self::keep_visibility).
///
/// ```no_run
/// use fuseloop::{Loader, loader::{KeyPoints, Targets}};
///
/// // Five points of a face; a mirrored face swaps its eyes and the corners of its mouth.
/// let face = KeyPoints::new(5).flip_pairs(&[[0, 1], [3, 4]]);
/// let targets = Targets::new().keypoints("keypoints", face);
/// let loader = Loader::open("faces.beton")?.targets("image", targets);
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct KeyPoints {
    each: usize,
    flip_pairs: Vec<[usize; 2]>,
    has_visibility: bool,
    is_continuous: bool,
    keeps_visibility: bool,
}

/// The keypoints of COCO's persons that change places in a mirror: left and right eyes, ears, shoulders, ...
const PERSON_PAIRS: [[usize; 2]; 8] =
    [[1, 2], [3, 4], [5, 6], [7, 8], [9, 10], [11, 12], [13, 14], [15, 16]];

impl KeyPoints {
    /// `each` keypoints for each object.
    #[must_use]
    pub fn new(each: usize) -> Self {
        let (flip_pairs, keeps_visibility) = (vec![], false);
        Self { each, flip_pairs, has_visibility: true, is_continuous: false, keeps_visibility }
    }

    /// COCO's 17 keypoints of a person, with the pairs of left and right.
    #[must_use]
    pub fn coco_person() -> Self {
        Self::new(17).flip_pairs(&PERSON_PAIRS)
    }

    /// Sets the pairs of keypoints that change places when the image is mirrored, such as the left and the right eye.
    #[must_use]
    pub fn flip_pairs(mut self, pairs: &[[usize; 2]]) -> Self {
        self.flip_pairs = pairs.to_vec();
        self
    }

    /// Declares that points are stored as `x, y`, without a visibility. All are visible.
    #[must_use]
    pub fn without_visibility(mut self) -> Self {
        self.has_visibility = false;
        self
    }

    /// Declares that positions are continuous coordinates, in which the middle of the first pixel is (1/2, 1/2). By
    /// default they are indices of pixels, as in COCO's files: the middle of the first pixel is (0, 0).
    #[must_use]
    pub fn continuous(mut self) -> Self {
        self.is_continuous = true;
        self
    }

    /// Keeps the stored visibility of points that an op moves out of the image, whose coordinates say that they are
    /// outside. By default it becomes 0, so that a loss ignores them.
    #[must_use]
    pub fn keep_visibility(mut self) -> Self {
        self.keeps_visibility = true;
        self
    }

    /// Returns how many keypoints an object has.
    pub(super) fn each(&self) -> usize {
        self.each
    }

    /// Returns how many numbers a point has.
    pub(super) fn columns(&self) -> usize {
        if self.has_visibility { 3 } else { 2 }
    }
}
