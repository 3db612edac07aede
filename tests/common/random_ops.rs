//! Random ops of every kind: those of the registry, by their recipes, and two that are written as a user writes
//! them.

use fuseloop_ops::author::*;
use fuseloop_ops::internals::registry::recipes;
use fuseloop_ops::{HostSample, Lambda, Size, TypeError};
use std::sync::Arc;

/// The name of a closure that changes the size of images.
const SIZED: &str = "Sized";

/// The names of all recipes, of [`Maths`] and of [`sized`].
pub fn names() -> Vec<&'static str> {
    recipes().map(|recipe| recipe.name).chain([Maths::NAME, SIZED]).collect()
}

/// A closure that takes pixels from random positions.
pub fn sized(size: Size) -> Lambda {
    let change = |host: HostSample<'_>, pixels: &[u8], out: &mut [u8]| {
        let channels = host.channels;
        for to in out.chunks_exact_mut(channels) {
            let at = host.rng.below(host.size.pixels() as u32) as usize;
            to.copy_from_slice(&pixels[channels * at..][..channels]);
        }
    };
    Lambda::sized(SIZED, size, change).unwrap()
}

/// A random op for images of a type, by the name of its recipe. Parameters are such that images stay small.
pub fn op(name: &str, rng: &mut Rng, before: &ImageType) -> Arc<dyn Op> {
    if name == Maths::NAME {
        return Arc::new(Maths { function: Function::ALL[rng.below(5) as usize], of_bits: false });
    }
    if name == SIZED {
        return Arc::new(sized(Size::new(1 + rng.below(60), 1 + rng.below(60))));
    }
    let recipe = recipes().find(|recipe| recipe.name == name).unwrap();
    (recipe.draw)(rng, before).unwrap()
}

/// A function of [`Emit`] that is not one operation of a processor.
#[derive(Clone, Copy, Debug)]
pub enum Function {
    Exp,
    Log,
    Pow,
    Sin,
    Cos,
}

impl Function {
    pub const ALL: [Self; 5] = [Self::Exp, Self::Log, Self::Pow, Self::Sin, Self::Cos];
}

/// A function of each value.
#[derive(Clone, Copy, Debug)]
pub struct Maths {
    pub function: Function,
    /// True if the arguments are random bits instead of the values, and results are not clamped.
    pub of_bits: bool,
}

impl Maths {
    const NAME: &str = "Maths";

    fn eval_one(self, x: f32, y: f32) -> f32 {
        match self.function {
            Function::Exp => exp(x),
            Function::Log => log(x),
            Function::Pow => pow(x, y),
            Function::Sin => sin(x),
            Function::Cos => cos(x),
        }
    }

    fn emit_one(self, e: &mut Emit, x: F32x4, y: F32x4) -> F32x4 {
        match self.function {
            Function::Exp => e.exp(x),
            Function::Log => e.log(x),
            Function::Pow => e.pow(x, y),
            Function::Sin => e.sin(x),
            Function::Cos => e.cos(x),
        }
    }
}

impl Op for Maths {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        Ok(input.clone())
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Pixel(self)
    }
}

/// Odd numbers that spread the bits of a position.
const SPREAD: [i32; 3] = [0x7feb_352d, 0x846c_a68b_u32 as i32, 0x9e37_79b9_u32 as i32];

/// Parameters: a factor and a summand of the argument, or random bits; the exponent.
impl PixelOp for Maths {
    fn param_count(&self) -> usize {
        3
    }

    fn draw(&self, rng: &mut Rng, _: Size, params: &mut [f32]) -> bool {
        params.copy_from_slice(&[0.3, 5.0, 3.0].map(|most| rng.uniform(-most, most)));
        true
    }

    fn uses_position(&self) -> bool {
        true
    }

    fn eval(&self, cx: &Eval<'_>, pixel: &mut [f32]) {
        let [factor, summand, exponent] = [0, 1, 2].map(|k| cx.params[k]);
        for (c, v) in pixel.iter_mut().enumerate() {
            *v = match self.of_bits {
                false => {
                    let v = clamp(self.eval_one(v.mul_add(factor, summand), exponent) * 50.0);
                    apply_rule(cx.rule, v)
                }
                true => {
                    let [row, column] = cx.at;
                    let [one, other] = [c, c + 1].map(|c| SPREAD[c % 3]);
                    let bits = row.wrapping_mul(one) ^ column.wrapping_mul(other);
                    let bits = bits ^ summand.to_bits() as i32;
                    self.eval_one(f32::from_bits(bits as u32), exponent)
                }
            };
        }
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        let [row, column] = e.position();
        e.each(pixels, |e, c, v| {
            let [factor, summand, exponent] = [0, 1, 2].map(|k| e.param(k));
            if self.of_bits {
                let [one, other] = [c, c + 1].map(|c| e.splat_i32(SPREAD[c % 3]));
                let (row, column) = (e.mul_i32(row, one), e.mul_i32(column, other));
                let (bits, drawn) = (e.xor_i32(row, column), e.param_bits(1));
                let bits = e.xor_i32(bits, drawn);
                let x = e.from_bits(bits);
                return self.emit_one(e, x, exponent);
            }
            let x = e.fma(v, factor, summand);
            let (v, gain) = (self.emit_one(e, x, exponent), e.splat(50.0));
            let v = e.mul(v, gain);
            let v = e.clamp(v);
            e.apply_rule(v)
        })
    }
}
