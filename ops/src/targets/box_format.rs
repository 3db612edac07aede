//! The formats in which boxes are stored, and the modes by which boxes are clamped.

/// The numbers that describe a box: torchvision's `BoundingBoxFormat`.
///
/// Coordinates are edges in pixels: the box of a whole image is `[0, 0, width, height]`. Angles are in degrees,
/// counter-clockwise on the screen.
///
/// ```
/// use fuseloop_ops::BoxFormat;
///
/// assert_eq!(BoxFormat::from_name("CXCYWH"), Some(BoxFormat::Cxcywh));
/// assert_eq!(BoxFormat::Cxcywhr.columns(), 5);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BoxFormat {
    /// `x1, y1, x2, y2`: the left, top, right and bottom edge.
    #[default]
    Xyxy,
    /// `x, y, width, height`: the top left corner and the size, as in COCO.
    Xywh,
    /// `cx, cy, width, height`: the middle and the size.
    Cxcywh,
    /// `x, y, width, height, angle`: the corner that is top left before the rotation, and the size.
    Xywhr,
    /// `cx, cy, width, height, angle`: the middle and the size.
    Cxcywhr,
    /// The corners `x1, y1, ..., x4, y4`, in the order top left, top right, bottom right, bottom left before the
    /// rotation.
    Xyxyxyxy,
}

impl BoxFormat {
    /// All formats.
    pub const ALL: [Self; 6] =
        [Self::Xyxy, Self::Xywh, Self::Cxcywh, Self::Xywhr, Self::Cxcywhr, Self::Xyxyxyxy];

    /// Returns the number of numbers of a box.
    #[must_use]
    pub const fn columns(self) -> usize {
        match self {
            Self::Xyxy | Self::Xywh | Self::Cxcywh => 4,
            Self::Xywhr | Self::Cxcywhr => 5,
            Self::Xyxyxyxy => 8,
        }
    }

    /// Returns true if boxes of this format may be rotated.
    #[must_use]
    pub const fn is_rotated(self) -> bool {
        matches!(self, Self::Xywhr | Self::Cxcywhr | Self::Xyxyxyxy)
    }

    /// Returns torchvision's name in lower case, such as `xyxy`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Xyxy => "xyxy",
            Self::Xywh => "xywh",
            Self::Cxcywh => "cxcywh",
            Self::Xywhr => "xywhr",
            Self::Cxcywhr => "cxcywhr",
            Self::Xyxyxyxy => "xyxyxyxy",
        }
    }

    /// Returns the format with this name, in upper or lower case.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name().eq_ignore_ascii_case(name))
    }
}

/// How a box is cut at the edges of the image after a crop or a warp: torchvision's clamping modes.
///
/// ```
/// # use fuseloop_ops::*;
/// assert_eq!(ClampingMode::from_name("hard"), Some(ClampingMode::Hard));
/// assert_eq!(ClampingMode::default().name(), "soft");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ClampingMode {
    /// An upright box is cut at the edges. A rotated box shrinks to its part inside the image and keeps its angle;
    /// its corners may stay outside.
    #[default]
    Soft,
    /// An upright box is cut at the edges. A rotated box shrinks until its corners are inside the image too.
    Hard,
    /// Boxes are left as they are.
    None,
}

impl ClampingMode {
    /// All modes.
    pub const ALL: [Self; 3] = [Self::Soft, Self::Hard, Self::None];

    /// Returns torchvision's name in lower case, such as `soft`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Soft => "soft",
            Self::Hard => "hard",
            Self::None => "none",
        }
    }

    /// Returns the mode with this name, in upper or lower case.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name().eq_ignore_ascii_case(name))
    }
}
