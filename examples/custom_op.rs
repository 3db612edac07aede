//! An op of your own, compiled into the same loop as the built-in ops: a vignette, darker towards
//! the corners.
//!
//! A pixel op states its computation twice. `eval` defines the meaning, one pixel at a time, in
//! plain Rust; `emit` states the same for four pixels at a time, through [`Emit`], and becomes
//! machine code between the ops before and after it. Both must return the same bits, so both take
//! the same steps in the same order, which `check_ops` checks. Functions such as `exp` exist for both, with
//! the same bits.
//!
//! ```text
//! cargo run --release --example custom_op
//! ```

use fuseloop::ops::author::{Emit, Eval, Op, OpClass, PixelOp, Pixels, Rng, Type, apply_rule, exp};
use fuseloop::ops::*;
use fuseloop::source::{BoxError, FieldKind, FieldSpec, Generator, OwnedImage, OwnedValue};
use fuseloop::{Loader, check_ops};
use std::error::Error;

/// Multiplies every value by `exp(-strength * r^2)`, where `r` is the pixel's distance from the
/// centre, 1 in the corners. The strength is drawn for each sample, uniform in `0..most`.
#[derive(Debug)]
struct Vignette {
    most: f32,
}

/// Tells a list of ops which type this op takes and returns, and what kind of op it is.
impl Op for Vignette {
    fn name(&self) -> &'static str {
        "Vignette"
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        match input {
            Type::Image(image) if image.dtype == DType::U8 => Ok(input.clone()),
            found => Err(TypeError {
                op: self.name(),
                expected: "a u8 image (put it before Normalize)",
                found: found.to_string(),
            }),
        }
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Pixel(self)
    }
}

/// Parameters of a sample: the row and the column of the centre, and the negative strength divided by
/// the square of the distance from the centre to a corner.
const ROW: usize = 0;
const COLUMN: usize = 1;
const FADE: usize = 2;

impl PixelOp for Vignette {
    fn param_count(&self) -> usize {
        3
    }

    fn draw(&self, rng: &mut Rng, size: Size, params: &mut [f32]) -> bool {
        params[ROW] = (size.height - 1) as f32 / 2.0;
        params[COLUMN] = (size.width - 1) as f32 / 2.0;
        let corner = params[ROW].powi(2) + params[COLUMN].powi(2);
        params[FADE] = -rng.uniform(0.0, self.most) / corner.max(1.0);
        true
    }

    fn uses_position(&self) -> bool {
        true
    }

    fn eval(&self, cx: &Eval<'_>, pixel: &mut [f32]) {
        let y = cx.at[0] as f32 - cx.params[ROW];
        let x = cx.at[1] as f32 - cx.params[COLUMN];
        let distance = x.mul_add(x, y * y); // rounded once, as `e.fma` rounds
        let light = exp(distance * cx.params[FADE]);
        for v in pixel {
            *v = apply_rule(cx.rule, *v * light);
        }
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        let [y, x] = e.position().map(|coordinate| e.to_f32(coordinate));
        let (row, column, fade) = (e.param(ROW), e.param(COLUMN), e.param(FADE));
        let (y, x) = (e.sub(y, row), e.sub(x, column));
        let square = e.mul(y, y);
        let distance = e.fma(x, x, square);
        let shade = e.mul(distance, fade);
        let light = e.exp(shade);
        e.each(pixels, |e, _, v| {
            let v = e.mul(v, light);
            e.apply_rule(v)
        })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // Between built-in ops: the image is cut, flipped and darkened, and its channels are split, in one loop.
    let size = Size::new(48, 64);
    let list = move || -> Result<Ops, ParamError> {
        Ok(ops![
            RandomCrop::new(size)?,
            RandomHorizontalFlip::new(0.5)?,
            Vignette { most: 2.5 },
            ToChannelsFirst
        ])
    };
    check_ops(&list()?, size, 200)?;
    println!("200 samples: the compiled loop gives the bits that eval gives.\n");

    // A dataset of white images shows the vignette.
    let fields = vec![FieldSpec { name: "image".to_owned(), kind: FieldKind::RgbImage }];
    let white = vec![255; 3 * size.pixels() as usize];
    let source = Generator::new(1, 4).source(fields, 4, move |_, _| {
        let image = OwnedImage::rgb(size, white.clone());
        Ok::<_, BoxError>(vec![OwnedValue::Image(image)])
    })?;
    let loader =
        Loader::from_source(source).batch_size(4).seed(2026).pipeline("image", list()?).build()?;
    println!("{}", loader.explain());
    for batch in loader.epoch(0)? {
        let batch = batch?;
        let images = batch.tensor::<u8>("image")?;
        let red = &images.row(0).ok_or("the batch is empty")?[..size.pixels() as usize];
        for row in red.chunks_exact(size.width as usize).step_by(4) {
            let shade = |v: &u8| char::from(b" .:-=+*#%@"[usize::from(*v) / 26]);
            println!("{}", row.iter().step_by(2).map(shade).collect::<String>());
        }
    }
    Ok(())
}
