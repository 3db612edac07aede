//! Lists of ops for masks, whose values are numbers of classes.
//!
//! A mask may be moved: cropped, flipped, turned, resized or warped to the nearest pixel. It may be stored as
//! another type, its channels may be selected, and its values may be looked up in a [`Lut`](fuseloop_ops::Lut).
//! Colour ops, blurs and interpolation would compute values that stand for other classes, or for none.

use super::{FlatOp, ImagePlan, refused};
use crate::error::Error;
use fuseloop_ops::author::OpClass;

const NEAREST: &str = "would blend the class numbers of a mask: use Interpolation::Nearest or \
    WarpInterpolation::Nearest (interpolation = \"nearest\"), or leave it out";
const NO_COLOR: &str = "would change the class numbers of a mask: leave it out";
const NO_MIXING: &str = "mixes samples, whose class numbers can't be mixed: leave it out here, and out of the list of \
    the image";

impl ImagePlan {
    /// Refuses ops that compute new values, for the plan of a mask.
    pub(crate) fn check_mask(&self) -> Result<(), Error> {
        self.passes().flat_map(Self::flat_ops).try_for_each(check_mask_op)
    }
}

/// Refuses an op that computes new values.
pub(super) fn check_mask_op(FlatOp { op, kind, op_index, .. }: &FlatOp) -> Result<(), Error> {
    let reason = match op.class() {
        OpClass::Geometry(geometry) if geometry.blends() => NEAREST,
        OpClass::Table(_) if op.name() == "Lut" => return Ok(()),
        _ if kind.pixel(None).is_some_and(|kind| kind.selected.is_some()) => return Ok(()),
        OpClass::Pixel(_) | OpClass::Shuffled(_) | OpClass::Table(_) | OpClass::Mix(_) => NO_COLOR,
        OpClass::Batch(_) | OpClass::MultiImage(_) => NO_MIXING,
        _ => return Ok(()),
    };
    Err(refused(*op_index, &**op, reason))
}
