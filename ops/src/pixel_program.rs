//! Pixel program: an op whose computation is given as lines of text, such as one that Python traced.

mod code;
mod draw;
mod floored;
mod range;
mod text;

use crate::author::{Emit, Eval, ImageType, OpClass, PixelOp, Pixels, Rng, Type};
use crate::emit::{apply_rule, max, min};
use crate::op::{Op, is_loaded};
use crate::registry::{BuiltOp, ParamKind, ParamValue, built};
use crate::shape::MAX_CHANNELS;
use crate::{DType, ParamError, Size, TypeError};
use code::{Code, Sample};
use draw::Draw;
use std::fmt;
use std::sync::Arc;

/// Computes each pixel by a program, which is compiled as the code of any other op.
///
#[cfg_attr(doc, doc = include_str!("../pictures/PixelProgram.md"))]
///
/// ```text
/// fuseloop pixel program 1
/// vignette(strength=uniform(0.2, 0.8))      the name of the op, and in brackets what people read
/// p 0.5                                     the share of the images that it changes; this line may be missing
/// draw strength uniform 0.2 0.8             a number that is drawn for each image: d0, the next one d1
/// channels 1                                the code for images of 1 channel; up to 4 such sections
/// div y height                              %0
/// sub %0 0.5                                %1
/// mul %1 %1                                 %2
/// mul %2 d0                                 %3
/// neg %3                                    %4
/// exp %4                                    %5
/// mul c0 %5                                 %6
/// return %6                                 the channels of the result, 1 to 4
/// ```
///
/// | | |
/// |--------|-------------------------------------------------|
/// | input  | image of levels, or of f16, bf16 or f32, of a number of channels that the program has code for |
/// | output | as the input, with as many channels as the code returns; levels are clamped to 0..=255 |
/// | random | a coin `p`, then the drawn numbers in their order                                    |
/// | cost   | that of the operations                          |
///
/// An operand is a channel of the pixel (`c0` to `c3`), its row and column (`y`, `x`, from 0), the size of the image where the
/// op stands (`height`, `width`), a drawn number (`d0`), a number, or the result of an earlier line (`%0` is that of
/// the first line of the section). All are f32, but for the results of `less`, `less_equal`, `equal`, `and`, `or` and
/// `not`, which are true or false.
///
/// | operations | |
/// |---|---|
/// | `neg` `abs` `sqrt` `floor` `ceil` `trunc` `round` `exp` `log` `sin` `cos` | of one number; `round` takes halves to even |
/// | `add` `sub` `mul` `div` `min` `max` `pow` | of two numbers |
/// | `floor_div` `remainder` | the quotient rounded down, and what it leaves of the first number: NumPy's for float32, to the bit |
/// | `fma a b c` | `a * b + c`, rounded once |
/// | `less` `less_equal` `equal`, `and` `or` `not` | of numbers, and of what is true or false |
/// | `where a b c` | `b` where `a` is true, and `c` elsewhere |
///
/// A draw is `uniform low high`, `normal mean deviation`, `integers low high` without `high`, or `choice a b c`. An image
/// of more than 4 channels is computed channel by channel, by the code for 1 channel.
///
/// ```
/// # use fuseloop_ops::*;
/// let program = [
///     "fuseloop pixel program 1",
///     "threshold(at=integers(100, 156))",
///     "draw at integers 100 156",
///     "channels 1",
///     "less c0 d0",
///     "where %0 0 255",
///     "return %1",
/// ];
/// let list = ops![PixelProgram::new(program)?];
/// assert_eq!(list[0].name(), "threshold");
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, PartialEq)]
#[op(
    COLOR,
    "computes each pixel by a program, such as that of a function which Python traced",
    constructor = new,
    build = |args| Ok(built(Self::new(args.texts("program")?)?)),
    draw = random,
    golden = "the user's own formula"
)]
#[param(program: Vec<String>, "its lines: a name, draws and operations", kind = ParamKind::Words,
    example = ParamValue::Words(text::EXAMPLE))]
pub struct PixelProgram {
    parts: Arc<Parts>,
    input: Option<Input>,
}

/// The parts of a program.
#[derive(PartialEq)]
struct Parts {
    lines: Vec<String>,
    name: &'static str,
    p: f64,
    draws: Vec<Draw>,
    /// The names of the parameters: those of the draws, and `-` for the height and the width.
    param_names: &'static [&'static str],
    /// The code for images of 1 to 4 channels.
    codes: [Option<Code>; MAX_CHANNELS],
    /// The accepted inputs, in words.
    takes: &'static str,
}

/// What the op is bound to by the type of its input.
#[derive(Clone, Copy, PartialEq)]
struct Input {
    /// The number of channels that are computed together.
    channels: usize,
    is_levels: bool,
    /// True if all values are in 0..=255.
    is_bytes: bool,
}

/// What becomes of a result.
enum Finish {
    /// Levels: the result is raised to 0, and lowered to 255, unless it can't be below or above.
    Levels { raise: bool, lower: bool },
    /// Other numbers: NaN gets the same bits on all devices.
    Number,
}

impl PixelProgram {
    /// Builds the op from the lines of a program.
    ///
    /// # Errors
    ///
    /// If a line is not one of those above, an operand is not defined before it is used or is of the other kind, a
    /// number is not one that an f32 can hold, or the program is too long: 16384 instructions, as the compiler
    /// counts them.
    pub fn new<S: Into<String>>(program: impl IntoIterator<Item = S>) -> Result<Self, ParamError> {
        let parts = text::parse(program.into_iter().map(Into::into).collect())?;
        Ok(Self { parts: Arc::new(parts), input: None })
    }

    fn code(&self, channels: usize) -> Option<&Code> {
        self.parts.codes.get(channels.checked_sub(1)?)?.as_ref()
    }

    fn codes(&self) -> impl Iterator<Item = &Code> {
        self.parts.codes.iter().flatten()
    }

    fn is_levels(&self) -> bool {
        self.input.is_none_or(|input| input.is_levels)
    }

    /// Returns what becomes of each channel that a code returns.
    fn finish(&self, code: &Code) -> impl Fn(usize) -> Finish {
        let limits = self.input.is_some_and(|input| input.is_bytes).then_some(&code.limits);
        let is_levels = self.is_levels();
        move |c| match limits.and_then(|limits| limits.get(c)) {
            Some([is_above, is_below]) => Finish::Levels { raise: !is_above, lower: !is_below },
            None if is_levels => Finish::Levels { raise: true, lower: true },
            None => Finish::Number,
        }
    }

    /// Returns the number of channels after the op.
    fn outputs(&self, image: &ImageType) -> Option<u16> {
        let channels = usize::from(image.channels);
        if channels <= MAX_CHANNELS {
            return Some(self.code(channels)?.outputs() as u16);
        }
        let is_kept = |channels: usize| Some(self.code(channels)?.outputs() == channels);
        (is_kept(1)? && is_kept(2)?).then_some(image.channels)
    }
}

/// The text that fingerprints of plans contain.
impl fmt::Debug for PixelProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PixelProgram({:?})", self.parts.lines)
    }
}

fn random(rng: &mut Rng, before: &ImageType) -> Result<BuiltOp, ParamError> {
    Ok(built(PixelProgram::new(text::random(rng, before))?))
}

impl Op for PixelProgram {
    fn name(&self) -> &'static str {
        self.parts.name
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        if let Type::Image(image) = input
            && (image.is_levels || image.dtype.integer_range().is_none())
            && is_loaded(image.dtype)
            && let Some(channels) = self.outputs(image)
        {
            return Ok(Type::Image(image.with_channels(channels)));
        }
        let (op, expected) = (self.name(), self.parts.takes);
        Err(TypeError { op, expected, found: input.to_string() })
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Pixel(self)
    }

    fn does_nothing(&self, input: &Type) -> bool {
        self.parts.p == 0.0 && self.output(input).is_ok_and(|output| output == *input)
    }

    fn for_input(&self, input: &Type) -> Option<Arc<dyn Op>> {
        let Type::Image(image) = input else { return None };
        let channels = usize::from(image.channels);
        let channels = if channels > MAX_CHANNELS { 1 } else { channels };
        let (is_levels, is_bytes) = (image.is_levels, image.is_levels && image.dtype == DType::U8);
        let input = Some(Input { channels, is_levels, is_bytes });
        Some(Arc::new(Self { parts: Arc::clone(&self.parts), input }))
    }
}

/// Parameters: the draws, then the height and the width.
impl PixelOp for PixelProgram {
    fn param_count(&self) -> usize {
        self.parts.draws.len() + 2
    }

    fn param_names(&self) -> &'static [&'static str] {
        self.parts.param_names
    }

    fn draw(&self, rng: &mut Rng, size: Size, params: &mut [f32]) -> bool {
        let runs = rng.coin(self.parts.p);
        let drawn = self.parts.draws.iter().map(|draw| draw.number(rng));
        let sides = [size.height, size.width].map(|side| side as f32);
        for (param, number) in params.iter_mut().zip(drawn.chain(sides)) {
            *param = number;
        }
        runs
    }

    fn may_skip(&self) -> bool {
        self.parts.p < 1.0
    }

    fn uses_position(&self) -> bool {
        self.codes().any(Code::uses_position)
    }

    fn is_per_channel(&self) -> bool {
        self.codes().all(Code::is_per_channel)
    }

    fn eval(&self, cx: &Eval<'_>, pixel: &mut [f32]) {
        let channels = self.input.map_or(pixel.len(), |input| input.channels);
        let Some(code) = self.code(channels) else { return };
        let sample = Sample { params: cx.params, draws: self.parts.draws.len(), at: cx.at };
        let (finish, rule) = (self.finish(code), cx.rule);
        let finish = |c: usize, v: f32| match finish(c) {
            Finish::Levels { raise, lower } => {
                let v = if lower { min(v, 255.0) } else { v };
                apply_rule(rule, if raise { max(v, 0.0) } else { v })
            }
            Finish::Number if v.is_nan() => f32::NAN,
            Finish::Number => v,
        };
        // A pixel of more than 4 channels is computed channel by channel.
        let together = channels.max(code.outputs());
        for pixel in pixel.chunks_exact_mut(together) {
            let results = code.eval(&sample, &pixel[..channels]);
            for (c, (v, result)) in pixel.iter_mut().zip(results).enumerate() {
                *v = finish(c, result);
            }
        }
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        let Some(code) = self.code(pixels.channels().len()) else { return pixels };
        let results = code.emit(e, pixels, self.parts.draws.len());
        let finish = self.finish(code);
        e.each(results, |e, c, v| match finish(c) {
            Finish::Levels { raise, lower } => {
                let mut v = v;
                if lower {
                    let white = e.splat(255.0);
                    v = e.min(v, white);
                }
                if raise {
                    let black = e.splat(0.0);
                    v = e.max(v, black);
                }
                e.apply_rule(v)
            }
            Finish::Number => {
                let (is_number, nan) = (e.equal(v, v), e.splat(f32::NAN));
                e.select(is_number, v, nan)
            }
        })
    }
}

#[cfg(test)]
mod tests;
