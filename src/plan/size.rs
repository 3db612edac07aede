//! How large a picture may be on its way through a list of ops.
//!
//! | when                | refused                                                             |
//! |---------------------|---------------------------------------------------------------------|
//! | a plan is made      | an op whose smallest picture is over the limit, a row of too many bytes |
//! | a sample is drawn   | the picture that an op makes of this sample                         |
//!
//! A picture counts whether or not its pixels are ever stored: a crop after an op may leave most of
//! them out, but nothing here depends on which ops share a loop. The limits are [`Limits`]'; a side
//! has at most [`MOST_SIDE`] pixels besides, so that the working memory of a row is small.

use super::{Draws, ImagePlan, PlanError};
use crate::sample::Limits;
use fuseloop_ops::{Motion, Size};

/// Most pixels of a side.
pub(crate) const MOST_SIDE: u32 = 1 << 20;

/// A picture over the limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{op} makes a picture of {size}, which is {} pixels; the limit is {max}, and {MOST_SIDE} for a side: ask the op for smaller pictures, or raise `max_pixels` (LoaderBuilder::limits)",
    size.pixels()
)]
pub struct TooManyPixels {
    /// The op.
    pub op: &'static str,
    /// Height and width of the picture.
    pub size: Size,
    /// [`Limits::max_pixels`].
    pub max: u64,
}

impl ImagePlan {
    /// Refuses what is too large for any sample.
    ///
    /// # Errors
    ///
    /// The first op whose smallest picture is over the limits, or the bytes of a row.
    pub(crate) fn check_size(&self, limits: &Limits) -> Result<(), PlanError> {
        for leaf in self.leaves() {
            let after = leaf.output;
            let smallest = Size::new(after.height.min, after.width.min);
            check(leaf.op.name(), smallest, limits)
                .map_err(|error| PlanError::Pixels { place: leaf.place, error })?;
            leaf.step.as_ref().map_or(Ok(()), |step| step.check_size(limits))?;
        }
        let Some(_) = self.output().size() else { return Ok(()) };
        let (bytes, max) = (self.sample_bytes() as u64, limits.max_row_bytes);
        if bytes > max {
            return Err(PlanError::RowBytes { output: self.output(), bytes, max });
        }
        Ok(())
    }

    /// Refuses pictures that are too large of the sample of `draws`.
    ///
    /// # Errors
    ///
    /// The first op whose picture is over the limits.
    pub(crate) fn check_draws(&self, draws: &Draws, limits: &Limits) -> Result<(), TooManyPixels> {
        let mut size = draws.source;
        for (leaf, motion) in &draws.motions {
            if matches!(motion, Motion::FlipHorizontal | Motion::FlipVertical) {
                continue;
            }
            size = motion.output(size);
            check(self.leaves()[*leaf].op.name(), size, limits)?;
        }
        for (leaf, mixed) in &draws.mixes {
            if let Some(plan) = &self.leaves()[*leaf].step {
                mixed.steps.iter().try_for_each(|draws| plan.check_draws(draws, limits))?;
            }
        }
        Ok(())
    }
}

fn check(op: &'static str, size: Size, limits: &Limits) -> Result<(), TooManyPixels> {
    let max = limits.max_pixels;
    if size.pixels() > max || size.height.max(size.width) > MOST_SIDE {
        return Err(TooManyPixels { op, size, max });
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends where it fails")]
mod tests {
    use super::*;
    use fuseloop_ops::*;

    fn plan(ops: Ops) -> ImagePlan {
        let side = Dim { min: 100, max: 65_535 };
        ImagePlan::new(ops, ImageType::decoded(side, side), NumberRule::Fused).unwrap()
    }

    fn small() -> Limits {
        Limits { max_pixels: 200 * 200, max_row_bytes: 10_000, ..Limits::SMALL }
    }

    /// What is refused of a sample of 100 x 100 pixels, or of all.
    fn refused(ops: Ops) -> Result<(), String> {
        let plan = plan(ops);
        plan.check_size(&small()).map_err(|error| error.to_string())?;
        let mut draws = Draws::default();
        plan.draw(SampleKey::new(0, 0, 0), Size::new(100, 100), &mut draws);
        plan.check_draws(&draws, &small()).map_err(|error| error.to_string())
    }

    #[test]
    fn an_op_too_large_for_every_sample_is_refused_before_any() {
        let crop = || CenterCrop::new(30, 30).unwrap();
        let cure = "ask the op for smaller pictures, or raise `max_pixels` (LoaderBuilder::limits)";
        for (ops, op, size, pixels) in [
            (ops![CenterCrop::new(201, 200).unwrap(), crop()], "CenterCrop", "201x200", 40_200),
            (ops![crop(), Pad::new(90).unwrap(), crop()], "Pad", "210x210", 44_100),
        ] {
            let place = ops.iter().position(|found| found.name() == op).unwrap();
            let expected = format!(
                "op {place} of the list: {op} makes a picture of {size}, which is {pixels} pixels; the limit is 40000, and 1048576 for a side: {cure}"
            );
            assert_eq!(refused(ops), Err(expected));
        }
        assert_eq!(refused(ops![CenterCrop::new(200, 200).unwrap(), crop()]), Ok(()));
    }

    #[test]
    fn what_depends_on_the_sample_is_refused_when_it_is_drawn() {
        let crop = || CenterCrop::new(30, 30).unwrap();
        let zoom = |scale| RandomZoomOut::new([0; 3], scale..=scale, 1.0).unwrap();
        assert!(refused(ops![zoom(2.0), crop()]).is_ok());
        let far = ops![zoom(1e9), crop()];
        assert!(
            plan(far.clone())
                .check_size(&Limits::DEFAULT)
                .unwrap_err()
                .to_string()
                .contains("RandomZoomOut makes a picture of 65535x65535")
        );
        // The smallest picture is 100 x 100: twice as wide is fine, and of this one is not.
        let sometimes = RandomZoomOut::new([0; 3], 3.0..=3.0, 0.999_999).unwrap();
        let error = refused(ops![sometimes, crop()]).unwrap_err();
        assert!(error.starts_with("RandomZoomOut makes a picture of 300x300"), "{error}");
    }

    #[test]
    fn a_row_of_too_many_bytes_is_refused() {
        let floats = ops![CenterCrop::new(50, 50).unwrap(), Convert::to(DType::F32)];
        assert_eq!(
            refused(floats),
            Err("a sample takes 30000 bytes as a f32 image [50, 50, 3], the limit is 10000: make smaller pictures, or raise `max_row_bytes` (LoaderBuilder::limits)".to_owned())
        );
        assert_eq!(refused(ops![CenterCrop::new(50, 50).unwrap()]), Ok(()));
    }
}
