//! Limits on the size of an image at every step of a list of ops.
//!
//! | when                | refused                                                             |
//! |---------------------|---------------------------------------------------------------------|
//! | a plan is created   | an op whose smallest image is over the limit, a row of too many bytes |
//! | a sample is drawn   | the image that an op produces from this sample                      |
//!
//! An image counts whether or not its pixels are ever stored: a crop after an op may discard most of
//! them, but nothing here depends on which ops share a loop. The limits are those of [`Limits`]; in
//! addition a side has at most [`MOST_SIDE`] pixels, so that the working memory of a row is small.

use super::{Draws, FlatOp, ImagePlan};
use crate::error::{Cause, Details, Error, ErrorKind, fail};
use crate::sample::Limits;
use fuseloop_ops::Size;
use fuseloop_ops::author::{GeometryStep, Type};
use fuseloop_ops::internals::geometry_step;

/// Most pixels of a side.
pub(crate) const MOST_SIDE: u32 = 1 << 20;

/// An image over the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{op} produces an image of {size}, which is {} pixels; the limit is {max}, and {MOST_SIDE} for a side: use smaller sizes, or raise `max_pixels` (LoaderBuilder::limits)",
    size.pixels()
)]
pub struct TooManyPixels {
    /// The op.
    pub op: &'static str,
    /// Height and width of the image.
    pub size: Size,
    /// [`Limits::max_pixels`].
    pub max: u64,
}

impl Cause for TooManyPixels {
    fn details(&self) -> Details<'_> {
        Details::of(ErrorKind::Memory)
    }
}

impl ImagePlan {
    /// Refuses a plan that is too large for every sample.
    ///
    /// # Errors
    ///
    /// The error names the first op whose smallest image is over the limits, or the bytes of a row.
    pub(crate) fn check_size(&self, limits: &Limits) -> Result<(), Error> {
        for pass in self.passes() {
            pass.check_pixels(limits)?;
            let Some(_) = pass.output().size() else { return Ok(()) };
            let (bytes, max) = (pass.sample_bytes() as u64, limits.max_row_bytes);
            if bytes > max {
                return Err(fail!(
                    Pipeline,
                    "a sample takes {bytes} bytes as {}, the limit is {max}: produce smaller images, or raise \
                     `max_row_bytes` (LoaderBuilder::limits)",
                    Type::Image(pass.output())
                ));
            }
        }
        Ok(())
    }

    /// Refuses a plan whose ops produce an image over the limits for every sample.
    ///
    /// # Errors
    ///
    /// The error names the first such op.
    pub(crate) fn check_pixels(&self, limits: &Limits) -> Result<(), Error> {
        let checked = self.check_smallest(limits);
        checked.map_err(|(op_index, error)| {
            let error = Error::from(error).context(format_args!("op {op_index} of the list"));
            error.of_kind(ErrorKind::Pipeline).of_op(op_index)
        })
    }

    /// Returns the pixels of the largest image that an op produces in the sample of `draws`.
    #[must_use]
    pub fn largest_pixels(&self, draws: &Draws) -> u64 {
        let mut size = draws.source;
        let mut seen = 0;
        let each = draws.geometry.iter().map(|(leaf, motion)| {
            size = self.after_host_ops(seen..*leaf, draws, size);
            seen = *leaf;
            size = geometry_step::output(motion, size);
            size.pixels()
        });
        each.max().unwrap_or(0).max(draws.output.pixels())
    }

    /// Refuses ops whose smallest image is too large. The error has the index of the op of the user's list.
    fn check_smallest(&self, limits: &Limits) -> Result<(), (usize, TooManyPixels)> {
        for leaf in self.flat_ops() {
            let smallest = Size::new(leaf.output.height.min, leaf.output.width.min);
            let of_list = |error| (leaf.op_index, error);
            check(leaf.op.name(), smallest, limits).map_err(of_list)?;
            if let Some(step) = &leaf.step {
                step.check_smallest(limits).map_err(|(_, error)| of_list(error))?;
            }
        }
        Ok(())
    }

    /// Refuses images that are too large in the sample of `draws`.
    ///
    /// # Errors
    ///
    /// The error names the first op whose image is over the limits.
    pub(crate) fn check_draws(&self, draws: &Draws, limits: &Limits) -> Result<(), TooManyPixels> {
        let (mut size, planned) = (draws.source, self.input());
        let is_planned = size.height <= planned.height.max && size.width <= planned.width.max;
        if is_planned && self.largest.fits(limits) {
            return Ok(());
        }
        let mut seen = 0;
        for (leaf, motion) in &draws.geometry {
            size = self.after_host_ops(seen..*leaf, draws, size);
            seen = *leaf;
            if matches!(motion, GeometryStep::FlipHorizontal | GeometryStep::FlipVertical) {
                continue;
            }
            size = geometry_step::output(motion, size);
            check(self.flat_ops()[*leaf].op.name(), size, limits)?;
        }
        for (leaf, mixed) in &draws.mixes {
            if let Some(plan) = &self.flat_ops()[*leaf].step {
                mixed.steps.iter().try_for_each(|draws| plan.check_draws(draws, limits))?;
            }
        }
        Ok(())
    }
}

/// The largest image that an op of a list can produce, in pixels and in its longer side.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Largest {
    pixels: u64,
    side: u32,
}

impl Largest {
    pub(super) fn of(flat_ops: &[FlatOp]) -> Self {
        flat_ops.iter().fold(Self::default(), |largest, flat_op| {
            let own = Size::new(flat_op.output.height.max, flat_op.output.width.max).into();
            let of_chains = flat_op.step.as_ref().map_or(Self::default(), |plan| plan.largest);
            largest.max(own).max(of_chains)
        })
    }

    fn max(self, other: Self) -> Self {
        Self { pixels: self.pixels.max(other.pixels), side: self.side.max(other.side) }
    }

    fn fits(self, limits: &Limits) -> bool {
        self.pixels <= limits.max_pixels && self.side <= MOST_SIDE
    }
}

impl From<Size> for Largest {
    fn from(size: Size) -> Self {
        Self { pixels: size.pixels(), side: size.height.max(size.width) }
    }
}

fn check(op: &'static str, size: Size, limits: &Limits) -> Result<(), TooManyPixels> {
    if Largest::from(size).fits(limits) {
        return Ok(());
    }
    Err(TooManyPixels { op, size, max: limits.max_pixels })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fuseloop_ops::author::Dim;
    use fuseloop_ops::author::ImageType;
    use fuseloop_ops::internals::SampleKey;
    use fuseloop_ops::*;

    fn plan(ops: Ops) -> ImagePlan {
        let side = Dim { min: 100, max: 65_535 };
        ImagePlan::new(ops, ImageType::decoded(side, side), NumberRule::Fused).unwrap()
    }

    fn small() -> Limits {
        Limits { max_pixels: 200 * 200, max_row_bytes: 10_000, ..Limits::SMALL }
    }

    /// Returns the error for a sample of 100 x 100 pixels, or for all samples.
    fn refused(ops: Ops) -> Result<(), String> {
        let plan = plan(ops);
        plan.check_size(&small()).map_err(|error| error.to_string())?;
        let mut draws = Draws::default();
        plan.draw(SampleKey::new(0, 0, 0), Size::new(100, 100), &mut draws);
        let checked = plan.check_draws(&draws, &small());
        assert!(checked.is_ok() || !plan.largest.fits(&small()), "{checked:?}");
        checked.map_err(|error| error.to_string())
    }

    #[test]
    fn the_largest_image_of_a_list_is_known() {
        let crop = |side| CenterCrop::new(side).unwrap();
        let fits = |ops| plan(ops).largest.fits(&small());
        assert!(fits(ops![crop(200), RandomHorizontalFlip::new(0.5).unwrap(), crop(30)]));
        assert!(
            !fits(ops![Pad::new(1).unwrap(), crop(30)]),
            "the input may have 65,535 pixels a side"
        );
        assert!(!fits(ops![crop(100), Pad::new(90).unwrap(), crop(30)]));
    }

    #[test]
    fn an_op_too_large_for_every_sample_is_refused_before_any() {
        let crop = || CenterCrop::new(30).unwrap();
        let cure = "use smaller sizes, or raise `max_pixels` (LoaderBuilder::limits)";
        for (ops, op, size, pixels) in [
            (ops![CenterCrop::new((201, 200)).unwrap(), crop()], "CenterCrop", "200x201", 40_200),
            (ops![crop(), Pad::new(90).unwrap(), crop()], "Pad", "210x210", 44_100),
        ] {
            let op_index = ops.iter().position(|found| found.name() == op).unwrap();
            let expected = format!(
                "op {op_index} of the list: {op} produces an image of {size}, which is {pixels} pixels; the limit is 40000, and 1048576 for a side: {cure}"
            );
            assert_eq!(refused(ops), Err(expected));
        }
        assert_eq!(refused(ops![CenterCrop::new(200).unwrap(), crop()]), Ok(()));
    }

    #[test]
    fn what_depends_on_the_sample_is_refused_when_it_is_drawn() {
        let crop = || CenterCrop::new(30).unwrap();
        let zoom = |scale| RandomZoomOut::new().side_range(scale..=scale).unwrap().p(1.0).unwrap();
        assert!(refused(ops![zoom(2.0), crop()]).is_ok());
        let far = ops![zoom(1e9), crop()];
        assert!(
            plan(far.clone())
                .check_size(&Limits::DEFAULT)
                .unwrap_err()
                .to_string()
                .contains("RandomZoomOut produces an image of 65535x65535")
        );
        // The op may be skipped, so its smallest image is 100 x 100, within the limit; the one drawn
        // here is 300 x 300.
        let sometimes = RandomZoomOut::new().side_range(3.0..=3.0).unwrap().p(0.999_999).unwrap();
        let error = refused(ops![sometimes, crop()]).unwrap_err();
        assert!(error.starts_with("RandomZoomOut produces an image of 300x300"), "{error}");
    }

    #[test]
    fn a_row_of_too_many_bytes_is_refused() {
        let floats = ops![CenterCrop::new(50).unwrap(), Convert::to(DType::F32)];
        assert_eq!(
            refused(floats),
            Err("a sample takes 30000 bytes as a f32 image [50, 50, 3], the limit is 10000: produce smaller images, or raise `max_row_bytes` (LoaderBuilder::limits)".to_owned())
        );
        assert_eq!(refused(ops![CenterCrop::new(50).unwrap()]), Ok(()));
        // An image inside of an op is no sample.
        let crop = |side| CenterCrop::new(side).unwrap();
        assert_eq!(refused(ops![crop(100), AugMix::new(), crop(10)]), Ok(()));
    }
}
