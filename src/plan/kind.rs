//! What ops said about themselves when their list was planned.
//!
//! An op may be a user's, and its methods may answer differently each time they are called. Memory
//! is laid out, code is compiled and samples run by one answer: each method is called once, when
//! the list is planned, and what it returned is kept here. The code of a pixel op is among the
//! answers, as a checked [`Program`]: its `emit` is not called again.

use fuseloop_ops::program::{Grant, Program, ProgramError};
use fuseloop_ops::{Class, DType, ImageType, NumberRule, PixelOp, RowMaker};

/// Most numbers of one op for a sample. With the most leaves of a list, offsets of slots stay
/// below 2^26.
const MAX_SLOTS: usize = 4096;

/// How an op is drawn and compiled, with what it asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Moves pixels.
    Geometry {
        /// Who makes its rows, if it makes some.
        rows: Option<RowMaker>,
        /// The colour of what may come in from outside.
        fills: Option<[u8; 3]>,
    },
    /// Changes the values of a pixel.
    Pixel(PixelKind),
    /// Pixel ops applied in an order drawn for each sample.
    Shuffled(Vec<PixelKind>),
    /// Looks every value up in a table of its channel.
    Table {
        /// How many numbers a sample needs.
        slots: usize,
        /// Whether a draw may leave it out.
        may_skip: bool,
        /// Whether levels are counted for its table.
        counted: bool,
    },
    /// Overwrites a rectangle.
    Region {
        /// Whether a draw may leave it out.
        may_skip: bool,
        /// The colour.
        fill: [f32; 3],
    },
    /// Changes a stored picture in plain Rust.
    Host,
    /// Mixes a picture with others.
    Mix,
    /// Changes the type of the elements.
    Cast(DType),
    /// Reads the stored elements as another type.
    View(DType),
    /// Changes where the channels lie.
    Layout,
    /// What follows may run on a device.
    Device,
    /// Mixes the samples of a finished batch.
    Batch,
    /// Does nothing to a picture.
    Other,
}

/// A pixel op, or one part of a shuffled op.
#[derive(Clone, Debug, PartialEq)]
pub struct PixelKind {
    /// How many numbers a sample needs.
    pub slots: usize,
    /// Whether the last of them is the mean of the grey.
    pub needs_mean: bool,
    /// Whether it asks where a pixel is.
    pub uses_place: bool,
    /// Whether a draw may leave it out.
    pub may_skip: bool,
    /// Whether it may become part of a table.
    pub is_per_channel: bool,
    /// What a row function normalizes by in its place.
    pub normalizes: Option<[[f32; 4]; 3]>,
    /// Its code.
    pub program: Program,
}

/// What the code of a pixel op depends on. What it was called and what its `Debug` shows are no
/// part of that.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PixelCode<'a> {
    slots: usize,
    needs_mean: bool,
    uses_place: bool,
    /// By their bits.
    normalizes: Option<[[u32; 4]; 3]>,
    program: &'a Program,
}

/// Why an op can't be compiled, whatever stands around it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpError {
    /// More numbers than a record has room for.
    #[error("it asks for {found} slots, at most {MAX_SLOTS} are given")]
    TooManySlots {
        /// How many it asks for.
        found: usize,
    },
    /// A mean has nowhere to go.
    #[error("it needs the mean, which goes to its last slot, but it has no slot")]
    NoSlotForMean,
    /// A part of a shuffled op asks where a pixel is.
    #[error("a part of it uses its place, which only an op by itself can: list it as an op")]
    PlacedPart,
    /// Its code is refused.
    #[error("{0}")]
    Program(#[from] ProgramError),
}

impl Kind {
    /// Asks an op of `class` that gets images of type `input`.
    ///
    /// # Errors
    ///
    /// See [`OpError`].
    pub(super) fn of(
        class: Class<'_>,
        input: &ImageType,
        rule: NumberRule,
    ) -> Result<Self, OpError> {
        Ok(match class {
            Class::Geometry(op) => Self::Geometry { rows: op.makes_rows(), fills: op.fills(input) },
            Class::Pixel(op) => Self::Pixel(PixelKind::of(op, rule)?),
            Class::Shuffled(parts) => {
                let parts = parts.iter().map(|part| PixelKind::of(part.as_ref(), rule));
                let parts: Vec<PixelKind> = parts.collect::<Result<_, _>>()?;
                if parts.iter().any(|part| part.uses_place) {
                    return Err(OpError::PlacedPart);
                }
                Self::Shuffled(parts)
            }
            Class::Table(op) => Self::Table {
                slots: granted(op.slots())?,
                may_skip: op.may_skip(),
                counted: op.needs_histogram(),
            },
            Class::Region(op) => Self::Region { may_skip: op.may_skip(), fill: op.fill() },
            Class::Host(_) => Self::Host,
            Class::Mix(_) => Self::Mix,
            Class::Cast(to) => Self::Cast(to),
            Class::View(to) => Self::View(to),
            Class::Layout(_) => Self::Layout,
            Class::Device(_) => Self::Device,
            Class::Batch(_) => Self::Batch,
            Class::Label(_) | Class::Choice(_) => Self::Other,
        })
    }

    /// The pixel op itself, or one part of a shuffled op.
    #[must_use]
    pub fn pixel(&self, part: Option<usize>) -> Option<&PixelKind> {
        match (self, part) {
            (Self::Pixel(kind), None) => Some(kind),
            (Self::Shuffled(parts), Some(part)) => parts.get(part),
            _ => None,
        }
    }

    /// How many numbers a sample needs.
    #[must_use]
    pub fn slots(&self) -> usize {
        match self {
            Self::Pixel(kind) => kind.slots,
            Self::Shuffled(parts) => parts.iter().map(|part| part.slots).sum(),
            Self::Table { slots, .. } => *slots,
            _ => 0,
        }
    }

    /// Whether a draw may leave it out.
    #[must_use]
    pub fn may_skip(&self) -> bool {
        match self {
            Self::Pixel(kind) => kind.may_skip,
            Self::Table { may_skip, .. } | Self::Region { may_skip, .. } => *may_skip,
            _ => false,
        }
    }

    /// Who makes its rows, if it makes some.
    #[must_use]
    pub fn rows(&self) -> Option<RowMaker> {
        match self {
            Self::Geometry { rows, .. } => *rows,
            _ => None,
        }
    }

    /// Everything that compiled code depends on, and nothing that only draws depend on, as text.
    pub(super) fn code_key(&self) -> String {
        match self {
            Self::Pixel(kind) => format!("{:?}", kind.code()),
            Self::Shuffled(parts) => {
                format!("{:?}", parts.iter().map(PixelKind::code).collect::<Vec<_>>())
            }
            _ => String::new(),
        }
    }
}

impl PixelKind {
    fn of(op: &dyn PixelOp, rule: NumberRule) -> Result<Self, OpError> {
        let (slots, needs_mean) = (granted(op.slots())?, op.needs_mean());
        if needs_mean && slots == 0 {
            return Err(OpError::NoSlotForMean);
        }
        let uses_place = op.uses_place();
        let grant = Grant { rule, slots, place: uses_place };
        Ok(Self {
            slots,
            needs_mean,
            uses_place,
            may_skip: op.may_skip(),
            is_per_channel: op.is_per_channel(),
            normalizes: op.normalizes(),
            program: Program::record(grant, |e, pixels| op.emit(e, pixels))?,
        })
    }

    /// Everything that its code depends on: where this is equal, the code is.
    pub(super) fn code(&self) -> PixelCode<'_> {
        let normalizes = self.normalizes.map(|channels| channels.map(|row| row.map(f32::to_bits)));
        let Self { slots, needs_mean, uses_place, .. } = *self;
        PixelCode { slots, needs_mean, uses_place, normalizes, program: &self.program }
    }
}

fn granted(slots: usize) -> Result<usize, OpError> {
    if slots > MAX_SLOTS { Err(OpError::TooManySlots { found: slots }) } else { Ok(slots) }
}
