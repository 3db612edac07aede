//! Compares the compiled code of a list of ops with its definition, for authors of ops.

use crate::error::{Error, fail};
use crate::jit::{DecodedPixels, Kernel, Scratch, evaluate};
use crate::plan::{Draws, ImagePlan};
use crate::sample::SampleId;
use fuseloop_ops::author::ImageType;
use fuseloop_ops::internals::DefaultFloats;
use fuseloop_ops::internals::memory::NoMemory;
use fuseloop_ops::internals::{ImageView, SampleKey, memory};
use fuseloop_ops::{NumberRule, Ops, Size};

/// The stream of random numbers for pixels; ops have others.
const PIXELS: u64 = u64::MAX;

/// Compiles a list of ops, and checks on random images that the compiled loop returns the bits that the
/// ops' definitions (`eval`) return.
///
/// The test of an op of your own: put it between other ops, because they share one loop. The images are u8
/// RGB of the size given, and the list is checked under [`NumberRule::Fused`] and [`NumberRule::Exact`].
/// Images and draws are the same in every call.
///
/// ```
/// use fuseloop::ops::*;
///
/// let list = ops![RandomHorizontalFlip::new(0.5)?, RandomInvert::new(0.5)?, ToChannelsFirst];
/// fuseloop::check_ops(&list, Size::new(48, 64), 100)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// If the list is not valid for such images, if it does not compile, if an op returns an error, if the system has
/// no memory for the images, or if the compiled loop returns other bits for one of the samples.
pub fn check_ops(ops: &Ops, input: impl Into<ImageType>, samples: u64) -> Result<(), Error> {
    let input = input.into();
    DefaultFloats::during(|| check(ops, input, samples))
}

fn check(ops: &Ops, image: ImageType, samples: u64) -> Result<(), Error> {
    let (size, channels) = (Size::new(image.height.max, image.width.max), image.channels.into());
    let count = usize::try_from(size.pixels()).ok().and_then(|pixels| pixels.checked_mul(channels));
    for rule in [NumberRule::Fused, NumberRule::Exact] {
        let kernel = Kernel::compile(ImagePlan::new(ops.clone(), image, rule)?)?;
        let plan = kernel.plan();
        let (mut scratch, mut draws) = (Scratch::default(), Draws::default());
        let mut compiled = bytes(plan.sample_bytes())?;
        let mut pixels = bytes(count.unwrap_or(usize::MAX))?;
        for sample in 0..samples {
            let key = SampleKey::new(0, 0, sample);
            let mut rng = key.op(PIXELS);
            pixels.fill_with(|| rng.below(256) as u8);
            let view = ImageView::packed_channels(&pixels, size, channels);
            let view = view.expect("a byte for each channel of each pixel");
            plan.draw(key, size, &mut draws);
            kernel.try_run(&mut scratch, DecodedPixels::whole(view), &draws, &mut compiled)?;
            let defined = evaluate(plan, &view, &draws);
            if let Some(byte) = compiled.iter().zip(&defined).position(|(a, b)| a != b) {
                let value = byte / plan.dtype().bytes();
                let error = fail!(
                    Pipeline,
                    "sample {sample}: value {value} of the output is different where `emit` is compiled and where \
                     `eval` computes it, under the number rule {rule:?}. Both must do the same steps in the same order"
                );
                return Err(error.of_sample(SampleId(sample)));
            }
        }
    }
    Ok(())
}

/// Returns zeros.
fn bytes(len: usize) -> Result<Vec<u8>, NoMemory> {
    let mut bytes = memory::with_capacity(len, "images")?;
    bytes.resize(len, 0);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use fuseloop_ops::author::{Emit, Eval, Op, OpClass, PixelOp, Pixels, Type};
    use fuseloop_ops::{OneHot, RandomHorizontalFlip, TypeError, ops};

    /// Adds a number, and in compiled code another one where values are above 250.
    #[derive(Debug)]
    struct Differs;

    impl Op for Differs {
        fn name(&self) -> &'static str {
            "Differs"
        }

        fn output(&self, input: &Type) -> Result<Type, TypeError> {
            Ok(input.clone())
        }

        fn class(&self) -> OpClass<'_> {
            OpClass::Pixel(self)
        }
    }

    impl PixelOp for Differs {
        fn eval(&self, _: &Eval<'_>, _: &mut [f32]) {}

        fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
            let most = e.splat(250.0);
            e.each(pixels, |e, _, v| e.min(v, most))
        }
    }

    #[test]
    fn an_op_whose_code_is_not_its_definition_is_found() {
        let list = ops![RandomHorizontalFlip::new(0.5).unwrap(), Differs];
        let error = check_ops(&list, Size::new(8, 16), 50).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Pipeline);
        let text =
            " of the output is different where `emit` is compiled and where `eval` computes it";
        assert!(error.sample().is_some() && error.to_string().contains(text), "{error}");
    }

    #[test]
    fn a_list_that_is_not_valid_is_refused() {
        let error = check_ops(&ops![OneHot::new(3).unwrap()], Size::new(8, 16), 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Pipeline);
        assert!(error.to_string().starts_with("op 0 of the list: OneHot "), "{error}");
    }
}
