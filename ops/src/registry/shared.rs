//! Parameters that several ops share.

use super::args::INTERPOLATION_WORDS;
use super::{ParamInfo, ParamKind, ParamValue, optional, required, with_default};

/// The parameter for the size of the output.
pub(crate) const SIZE: ParamInfo = required(
    "size",
    ParamKind::Size,
    ParamValue::Int(224),
    "of the output; one number for a square",
);

/// The parameter for the interpolation of a resize.
pub(crate) const INTERPOLATION: ParamInfo = with_default(
    "interpolation",
    INTERPOLATION_WORDS,
    ParamValue::Word("bilinear"),
    "how pixels are weighed",
);

/// The parameter for a resize without antialiasing, torchvision's.
pub(crate) const ANTIALIAS: ParamInfo = optional(
    "antialias",
    ParamKind::Bool,
    "torchvision's: false is the interpolation with \"-aliased\"; default: true",
);

/// The parameter for the share of the images that an op changes.
pub(crate) const P: ParamInfo =
    with_default("p", ParamKind::Number, ParamValue::Float(0.5), "share of the images");

/// The parameter for the colour outside the image.
pub(crate) const FILL: ParamInfo =
    with_default("fill", ParamKind::Color, ParamValue::Int(0), "fill colour outside the image");
