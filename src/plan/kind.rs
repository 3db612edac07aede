//! The answers of ops about themselves when their list was planned.
//!
//! An op may be a user's, and its methods may answer differently each time they are called. Memory
//! layout, compiled code and the samples' runs must rely on one answer: each method is called once, when
//! the list is planned, and its result is stored here. The code of a pixel op is one of these results,
//! as a checked [`Program`]: its `emit` is not called again.

use crate::error::{Error, fail};
use fuseloop_ops::author::{Emit, ImageType, OpClass, PixelOp, Pixels, RowProducer, Statistic};
use fuseloop_ops::internals::program::{Grant, Program, ProgramError};
use fuseloop_ops::internals::{MAX_CHANNELS, RGB};
use fuseloop_ops::{DType, NumberRule, Size};
use std::fmt;

/// Most parameters of one op for a sample. With the most flat ops of a list, parameter offsets stay
/// below 2^26.
const MAX_PARAMS: usize = 4096;

/// How an op is drawn and compiled, with what it requires.
#[derive(Clone, Debug, PartialEq)]
pub enum OpKind {
    /// Moves pixels.
    Geometry {
        /// How its rows are produced, if it produces any.
        rows: Option<RowProducer>,
        /// The colour of pixels that may come in from outside.
        fills: Option<[u8; 3]>,
    },
    /// Changes the values of a pixel.
    Pixel(PixelKind),
    /// Pixel ops applied in an order drawn for each sample.
    Shuffled(Vec<PixelKind>),
    /// Looks every value up in a table of its channel.
    Table {
        /// How many parameters a sample needs.
        param_count: usize,
        /// True if a draw may skip the op.
        may_skip: bool,
        /// True if its table needs a histogram of levels.
        counted: bool,
    },
    /// Overwrites a rectangle.
    Region {
        /// True if a draw may skip the op.
        may_skip: bool,
        /// The colour.
        fill: [f32; 3],
    },
    /// Changes a stored image in plain Rust.
    Host {
        /// The size of its images, if that does not follow from the size of its input.
        size: Option<Size>,
    },
    /// Mixes an image with others.
    Mix,
    /// Changes the type of the elements.
    Cast(DType),
    /// Reads the stored elements as another type.
    View(DType),
    /// Changes the position of the channels.
    Layout,
    /// Marks that the ops after it may run on a device.
    Device,
    /// Mixes the samples of a finished batch.
    Batch,
    /// Does nothing to an image.
    Other,
}

/// A pixel op, or one part of a shuffled op.
#[derive(Clone, Debug, PartialEq)]
pub struct PixelKind {
    /// How many parameters a sample needs.
    pub param_count: usize,
    /// The statistic of the image that is the last parameter, if any.
    pub statistic: Option<Statistic>,
    /// True if the op uses a pixel's position.
    pub uses_position: bool,
    /// True if a draw may skip the op.
    pub may_skip: bool,
    /// True if the op may become part of a table.
    pub is_per_channel: bool,
    /// The factors of each channel with which a row function can normalize instead of the op.
    pub normalizes: Option<Vec<[f32; 4]>>,
    /// The channel of the input that each channel of the output is a copy of, if the op only copies channels.
    pub selected: Option<Vec<u16>>,
    /// The op's code; for a selection of the channels of an image that is processed plane by plane, nothing.
    pub program: Program,
}

/// Everything that the code of a pixel op depends on. The op's name and its `Debug` text do not belong
/// to it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PixelCode<'a> {
    param_count: usize,
    statistic: Option<Statistic>,
    uses_position: bool,
    /// The bits of the factors.
    normalizes: Option<Vec<[u32; 4]>>,
    program: &'a Program,
}

impl OpKind {
    /// Queries an op of `class` that makes images of type `output` of images of type `input`.
    ///
    /// # Errors
    ///
    /// If the op can't be compiled, whatever ops are around it. The error lacks the op.
    pub(super) fn of(
        class: OpClass<'_>,
        [input, output]: [&ImageType; 2],
        rule: NumberRule,
    ) -> Result<Self, Error> {
        check_output_channels(class, [input.channels, output.channels])?;
        if has_planes(input)
            && matches!(class, OpClass::Shuffled(_) | OpClass::Host(_) | OpClass::Mix(_))
        {
            return Err(unlike_channels(input.channels));
        }
        Ok(match class {
            OpClass::Geometry(op) => {
                let fills = op.fill_color(input);
                fills.map_or(Ok(()), |fill| check_color(&fill, input))?;
                Self::Geometry { rows: op.row_producer(), fills }
            }
            OpClass::Pixel(op) => {
                Self::Pixel(PixelKind::of(op, rule, [input.channels, output.channels])?)
            }
            OpClass::Shuffled(parts) => {
                let channels = [input.channels; 2];
                let parts = parts.iter().map(|part| PixelKind::of(&**part, rule, channels));
                let parts: Vec<PixelKind> = parts.collect::<Result<_, _>>()?;
                if parts.iter().any(|part| part.uses_position) {
                    return Err(fail!(
                        Pipeline,
                        "an op inside it uses the pixel position, which only a separate op can: put that op into the \
                         list itself"
                    ));
                }
                Self::Shuffled(parts)
            }
            OpClass::Table(op) => Self::Table {
                param_count: granted(op.param_count())?,
                may_skip: op.may_skip(),
                counted: op.needs_histogram(),
            },
            OpClass::Region(op) => {
                let fill = op.fill();
                check_color(&fill, input)?;
                Self::Region { may_skip: op.may_skip(), fill }
            }
            OpClass::Host(op) => Self::Host { size: op.output_size() },
            OpClass::Mix(_) => Self::Mix,
            OpClass::Cast(to) => Self::Cast(to),
            OpClass::View(to) => Self::View(to),
            OpClass::Layout(_) => Self::Layout,
            OpClass::Device(_) => Self::Device,
            OpClass::Batch(_) | OpClass::MultiImage(_) | OpClass::HostBatch(_) => Self::Batch,
            OpClass::Label(_) | OpClass::Choice(_) | OpClass::Objects(_) => Self::Other,
        })
    }

    /// Returns the size of the images of an op in plain Rust that changes sizes.
    #[must_use]
    pub fn host_size(&self) -> Option<Size> {
        if let Self::Host { size } = self { *size } else { None }
    }

    /// Returns the pixel op itself, or one part of a shuffled op.
    #[must_use]
    pub fn pixel(&self, part: Option<usize>) -> Option<&PixelKind> {
        match (self, part) {
            (Self::Pixel(kind), None) => Some(kind),
            (Self::Shuffled(parts), Some(part)) => parts.get(part),
            _ => None,
        }
    }

    /// Returns how many parameters a sample needs.
    #[must_use]
    pub fn param_count(&self) -> usize {
        match self {
            Self::Pixel(kind) => kind.param_count,
            Self::Shuffled(parts) => parts.iter().map(|part| part.param_count).sum(),
            Self::Table { param_count, .. } => *param_count,
            _ => 0,
        }
    }

    /// Returns whether a draw may skip the op.
    #[must_use]
    pub fn may_skip(&self) -> bool {
        match self {
            Self::Pixel(kind) => kind.may_skip,
            Self::Table { may_skip, .. } | Self::Region { may_skip, .. } => *may_skip,
            _ => false,
        }
    }

    /// Returns how the op's rows are produced, if it produces any.
    #[must_use]
    pub fn rows(&self) -> Option<RowProducer> {
        match self {
            Self::Geometry { rows, .. } => *rows,
            _ => None,
        }
    }

    /// Returns, as text, everything that compiled code depends on, and nothing that only draws depend
    /// on.
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
    fn of(
        op: &dyn PixelOp,
        rule: NumberRule,
        [channels, outputs]: [u16; 2],
    ) -> Result<Self, Error> {
        let (param_count, statistic) = (granted(op.param_count())?, op.statistic());
        if statistic.is_some() && param_count == 0 {
            return Err(fail!(
                Pipeline,
                "it needs a statistic of the image, which is stored in its last parameter, but it declares no parameter"
            ));
        }
        let uses_position = op.uses_position();
        let selected = op.selected_channels().map(<[u16]>::to_vec);
        if let Some(selected) = &selected {
            let (found, highest) = (selected.len(), selected.iter().copied().max().unwrap_or(0));
            if found != usize::from(outputs) || highest >= channels {
                return Err(fail!(
                    Pipeline,
                    "its `selected_channels` returns {found} indices up to {highest}, but it makes {outputs} \
                     channel(s) of {channels}"
                ));
            }
        }
        let all = channels;
        let (channels, mut outputs) = (together(channels), usize::from(outputs));
        let is_of_planes = usize::from(all) > channels;
        let emit = |e: &mut Emit, pixels: Pixels| match selected {
            Some(_) if is_of_planes => pixels,
            _ => op.emit(e, pixels),
        };
        if is_of_planes {
            outputs = channels;
            let grant = Grant { rule, param_count, uses_position, channels: 2, outputs: 2 };
            if statistic.is_some()
                || !Program::record(grant, emit).map_err(of_program)?.treats_channels_alike()
            {
                return Err(unlike_channels(all));
            }
        }
        let grant = Grant { rule, param_count, uses_position, channels, outputs };
        let program = Program::record(grant, emit).map_err(of_program)?;
        Ok(Self {
            param_count,
            statistic,
            uses_position,
            may_skip: op.may_skip(),
            is_per_channel: op.is_per_channel(),
            normalizes: op.normalizes().and_then(|numbers| for_channels(numbers, channels)),
            selected,
            program,
        })
    }

    /// Returns everything that the op's code depends on: ops for which it is equal have equal code.
    pub(super) fn code(&self) -> PixelCode<'_> {
        let bits =
            |channels: &Vec<[f32; 4]>| channels.iter().map(|row| row.map(f32::to_bits)).collect();
        let normalizes = self.normalizes.as_ref().map(bits);
        let Self { param_count, statistic, uses_position, .. } = *self;
        PixelCode { param_count, statistic, uses_position, normalizes, program: &self.program }
    }
}

/// Refuses an op that changes the number of channels, unless it is a pixel op that can do so: of an image of up to
/// four channels it makes another one of up to four, and a selection takes some channels of an image of more.
fn check_output_channels(class: OpClass<'_>, [channels, found]: [u16; 2]) -> Result<(), Error> {
    if channels == found {
        return Ok(());
    }
    let most = MAX_CHANNELS as u16;
    let reason = match class {
        OpClass::Pixel(op) if op.may_skip() => {
            "an op that a draw may skip keeps the number of channels"
        }
        OpClass::Pixel(op) if channels > most && op.selected_channels().is_none() => {
            "of more than 4 channels, SelectChannels takes some, and other ops keep all"
        }
        OpClass::Pixel(_) if channels <= most && found > most => {
            "an image of up to 4 channels can't get more than 4"
        }
        OpClass::Pixel(_) => return Ok(()),
        _ => "only pixel ops change the number of channels",
    };
    Err(fail!(Pipeline, "it makes an image of {found} channel(s) of one of {channels}: {reason}"))
}

/// Returns whether an image has more channels than are processed together.
pub(super) fn has_planes(image: &ImageType) -> bool {
    usize::from(image.channels) > MAX_CHANNELS
}

/// Returns how many of an image's channels are processed together: all of up to four, and otherwise one, for
/// each plane is processed by itself.
pub(super) fn together(channels: u16) -> usize {
    let channels = usize::from(channels);
    if channels > MAX_CHANNELS { 1 } else { channels }
}

/// Returns the numbers of each channel, given those of each or one entry for all; `None` for another number
/// of entries.
fn for_channels(numbers: Vec<[f32; 4]>, channels: usize) -> Option<Vec<[f32; 4]>> {
    match numbers[..] {
        [one] => Some(vec![one; channels]),
        _ => Some(numbers).filter(|numbers| numbers.len() == channels),
    }
}

/// Refuses a colour whose numbers differ, for an image that is not RGB.
fn check_color<T: PartialEq + fmt::Debug>(
    color: &[T; RGB],
    input: &ImageType,
) -> Result<(), Error> {
    let channels = input.channels;
    if usize::from(channels) == RGB || color.iter().all(|number| *number == color[0]) {
        return Ok(());
    }
    Err(fail!(
        Pipeline,
        "it fills with the colour {color:?}, but the image has {channels} channel(s): use one number for all channels"
    ))
}

/// Returns the error of an op that is not the same for each channel, for an image of more channels than are processed
/// together.
fn unlike_channels(channels: u16) -> Error {
    fail!(
        Pipeline,
        "it does not treat all channels alike, so it takes images of 1 to 4 channels; this image has {channels}: put \
         SelectChannels before it to take up to 4 of them"
    )
}

/// Returns the error of an op whose code is refused.
#[expect(clippy::needless_pass_by_value, reason = "`map_err` passes errors by value")]
fn of_program(error: ProgramError) -> Error {
    fail!(Pipeline, "{error}")
}

fn granted(count: usize) -> Result<usize, Error> {
    if count > MAX_PARAMS {
        Err(fail!(Pipeline, "it needs {count} parameters; the limit is {MAX_PARAMS}"))
    } else {
        Ok(count)
    }
}
