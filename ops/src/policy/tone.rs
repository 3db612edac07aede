//! The actions that change values: pixel ops of a user's list, with another source of their arguments.

use super::Argument;
use crate::author::{Emit, Eval, Op, OpClass, PixelOp, Pixels, Rng, Statistic, Type};
use crate::factor::Factor;
use crate::op::on_levels;
use crate::{
    RandomBrightness, RandomContrast, RandomPosterize, RandomSaturation, RandomSolarize, Size,
    SolarizeAdd, TypeError,
};
use std::sync::Arc;

/// The pixel op, which decides the meaning of the argument: see [`Effect`](super::Effect).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToneKind {
    Brightness,
    Saturation,
    Contrast,
    Posterize,
    Solarize,
    SolarizeAdd,
}

/// A pixel op whose parameters are set from an argument.
#[derive(Debug)]
pub(super) struct Tone {
    name: &'static str,
    kind: ToneKind,
    /// The pixel op, which defines `eval` and `emit`.
    op: Box<dyn PixelOp>,
    argument: Arc<dyn Argument>,
}

impl Tone {
    pub(super) fn new(name: &'static str, kind: ToneKind, argument: Arc<dyn Argument>) -> Self {
        let op: Box<dyn PixelOp> = match kind {
            ToneKind::Brightness => Box::new(RandomBrightness::of(Factor::ONE, 1.0)),
            ToneKind::Saturation => Box::new(RandomSaturation::of(Factor::ONE, 1.0)),
            ToneKind::Contrast => Box::new(RandomContrast::of(Factor::ONE, 1.0)),
            ToneKind::Posterize => Box::new(RandomPosterize::always(8)),
            ToneKind::Solarize => Box::new(RandomSolarize::always(256.0)),
            ToneKind::SolarizeAdd => Box::new(SolarizeAdd::below_128(0.0)),
        };
        Self { name, kind, op, argument }
    }
}

impl Op for Tone {
    fn name(&self) -> &'static str {
        self.name
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_levels(self.name, input)
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Pixel(self)
    }
}

/// All methods but `draw` are those of the pixel op, so an action of a policy and an op of a list
/// share code.
impl PixelOp for Tone {
    fn param_count(&self) -> usize {
        self.op.param_count()
    }

    fn draw(&self, rng: &mut Rng, size: Size, params: &mut [f32]) -> bool {
        let argument = self.argument.draw(rng, size);
        match self.kind {
            ToneKind::Brightness => params[0] = argument as f32,
            ToneKind::Saturation | ToneKind::Contrast => {
                // As in torchvision, `1 - argument` is computed before the argument is rounded to
                // f32.
                params[..2].copy_from_slice(&[argument as f32, (1.0 - argument) as f32]);
            }
            ToneKind::Posterize => {
                RandomPosterize::always(argument.clamp(0.0, 8.0) as u32).draw(rng, size, params);
            }
            ToneKind::Solarize => {
                RandomSolarize::always(argument as f32).draw(rng, size, params);
            }
            ToneKind::SolarizeAdd => {
                SolarizeAdd::below_128(argument as f32).draw(rng, size, params);
            }
        }
        true
    }

    fn statistic(&self) -> Option<Statistic> {
        self.op.statistic()
    }

    fn param_names(&self) -> &'static [&'static str] {
        self.op.param_names()
    }

    fn is_identity(&self, params: &[f32]) -> bool {
        self.op.is_identity(params)
    }

    fn is_per_channel(&self) -> bool {
        self.op.is_per_channel()
    }

    fn matrix(&self, params: &[f32]) -> Option<[[f32; 4]; 3]> {
        self.op.matrix(params)
    }

    fn eval(&self, cx: &Eval<'_>, pixel: &mut [f32]) {
        self.op.eval(cx, pixel);
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        self.op.emit(e, pixels)
    }
}
