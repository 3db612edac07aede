//! Random IoU crop: SSD's crop around bounding boxes.

use crate::author::{
    BoundingBox, Dim, GeometryOp, GeometryStep, ImageType, Objects, Rng, Type, Window,
};
use crate::geometry_step::crop;
use crate::op::{Op, class, on_image};
use crate::registry::{BuiltOp, OpArgs, SpecError, built};
use crate::{ParamError, Size, TypeError};

/// Crops an image so that the crop and one of its bounding boxes overlap as much as drawn: SSD's augmentation.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomIoUCrop.md"))]
///
/// torchvision's `RandomIoUCrop(min_scale, max_scale, min_aspect_ratio, max_aspect_ratio, sampler_options, trials)`:
///
/// ```text
/// repeat: o = one of the options; o >= 1 leaves the image as it is; else up to `trials` times:
///     width = trunc(W (min_scale + (max_scale - min_scale) u)), height likewise; u, v, ...: U(0, 1)
///     if min_aspect_ratio <= width / height <= max_aspect_ratio:
///         left = trunc((W - width) u), top = trunc((H - height) v)
///         if a box has its middle in the crop, and such a box has an IoU with it of at least o: crop
/// ```
///
/// The objects whose middle is outside the crop are removed. torchvision sets their boxes to zeros, for
/// [`SanitizeBoundingBoxes`](crate::SanitizeBoundingBoxes) to remove. An image without boxes stays as it is, and so does
/// one that 100 options find no crop for; torchvision would not end.
///
/// | | |
/// |--------|------------------------------------------------------------------|
/// | input  | image, with bounding boxes declared as its targets               |
/// | output | a window of the image, of a size that differs from sample to sample: a resize must follow |
/// | random | the option, the window                                           |
/// | cost   | nothing a pixel; only the window is decoded                      |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomIoUCrop::new(), Resize::new(300)?, RandomHorizontalFlip::new(0.5)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Debug, PartialEq)]
#[op(GEOMETRY, "crops so that a bounding box overlaps the crop as much as drawn", build = build, draw = random, golden = "torchvision's windows for its draws are in the unit tests", new = "torchvision's defaults: 0.3 to 1 of each side, ratios of 1/2 to 2, the options 0, 0.1, 0.3, 0.5, 0.7, 0.9 and 1, and 40 trials.")]
pub struct RandomIoUCrop {
    /// Sets the share of each side that a crop has.
    #[param("share of each side", 0.0..=1.0, default = 0.3..=1.0)]
    scale: (f64, f64),
    /// Sets the ratio of width to height.
    #[param("width over height", positive, default = 0.5..=2.0)]
    aspect_ratio: (f64, f64),
    #[param("least IoUs, one of which is drawn; 1 leaves the image as it is", by_hand,
        default = [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0])]
    sampler_options: Vec<f64>,
    /// Sets how many windows are tried for an option.
    #[param("windows tried for each", 1..=1000, default = 40)]
    trials: u32,
}

const NAME: &str = "RandomIoUCrop";

/// How many options are drawn before an image is left as it is.
const ROUNDS: usize = 100;

impl RandomIoUCrop {
    /// Sets the least IoUs of a crop and a box, one of which is drawn; 1 or more leaves the image as it is.
    ///
    /// # Errors
    ///
    /// If there is none, or one is negative or not finite.
    pub fn sampler_options(mut self, options: &[f64]) -> Result<Self, ParamError> {
        let refused =
            |value| Err(ParamError::new(NAME, "sampler_options", value, "numbers of 0 or more"));
        match options.iter().find(|option| !(0.0..=f64::MAX).contains(*option)) {
            Some(option) => return refused(option.to_string()),
            None if options.is_empty() => return refused("none".to_owned()),
            None => self.sampler_options = options.to_vec(),
        }
        Ok(self)
    }

    /// Draws a window for an image of `size` with these boxes; `option` draws one of as many options, and `units` two
    /// numbers from 0 to 1.
    fn window(&self, size: Size, boxes: &[BoundingBox], mut draws: impl Draw) -> Option<Window> {
        if boxes.is_empty() {
            return None;
        }
        for _ in 0..ROUNDS {
            let least = self.sampler_options[draws.option(self.sampler_options.len())];
            if least >= 1.0 {
                return None;
            }
            for _ in 0..self.trials {
                let window = self.trial(size, &mut draws);
                if let Some(window) = window.filter(|window| overlaps(*window, boxes, least)) {
                    return Some(window);
                }
            }
        }
        None
    }

    /// Draws one window; `None` if its ratio is not allowed, or it has no pixel.
    fn trial(&self, size: Size, draws: &mut impl Draw) -> Option<Window> {
        let (low, high) = self.scale;
        // torchvision multiplies in f32.
        let side = |side: u32, unit: f32| {
            let share = low as f32 + (high - low) as f32 * unit;
            (side as f32 * share) as u32
        };
        let [u, v] = draws.units();
        let (width, height) = (side(size.width, u), side(size.height, v));
        let ratio = f64::from(width) / f64::from(height);
        if height == 0 || !(self.aspect_ratio.0..=self.aspect_ratio.1).contains(&ratio) {
            return None;
        }
        let [u, v] = draws.units();
        let left = ((size.width - width) as f32 * u) as u32;
        let top = ((size.height - height) as f32 * v) as u32;
        (width > 0).then_some(Window { top, left, height, width })
    }
}

/// The source of random numbers: a generator, or in tests the numbers that torchvision drew.
trait Draw {
    fn option(&mut self, count: usize) -> usize;
    fn units(&mut self) -> [f32; 2];
}

impl Draw for &mut Rng {
    fn option(&mut self, count: usize) -> usize {
        self.below(count as u32) as usize
    }

    fn units(&mut self) -> [f32; 2] {
        [self.unit(), self.unit()]
    }
}

fn edges(window: Window) -> [f64; 4] {
    let Window { top, left, height, width } = window;
    [left, top, left + width, top + height].map(f64::from)
}

/// Returns whether the middle of a box is in a window, not on its edge.
fn is_in(window: Window, bounds: BoundingBox) -> bool {
    let ([x1, y1, x2, y2], [x, y]) = (edges(window), bounds.center());
    x1 < x && x < x2 && y1 < y && y < y2
}

/// Returns whether boxes have their middle in a window, and one of these an IoU with it of at least `least`.
fn overlaps(window: Window, boxes: &[BoundingBox], least: f64) -> bool {
    let own = BoundingBox::Edges(edges(window));
    let inside = || boxes.iter().filter(|bounds| is_in(window, **bounds));
    let most = inside().filter_map(|bounds| bounds.upright().iou(own)).reduce(f64::max);
    inside().next().is_some() && most.is_none_or(|most| most >= least)
}

fn random(_: &mut Rng, _: &ImageType) -> Result<BuiltOp, ParamError> {
    Ok(built(RandomIoUCrop::new()))
}

#[class(Geometry)]
impl Op for RandomIoUCrop {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        let side = |side: Dim| Dim { min: 1, max: side.max };
        on_image(NAME, input, |image| ImageType {
            height: side(image.height),
            width: side(image.width),
            ..image
        })
    }
}

impl GeometryOp for RandomIoUCrop {
    fn draw(&self, _: &mut Rng, _: Size, _: &mut Vec<GeometryStep>) {}

    fn draw_around(
        &self,
        rng: &mut Rng,
        size: Size,
        objects: &mut Objects,
        out: &mut Vec<GeometryStep>,
    ) {
        if let Some(window) = self.window(size, objects.boxes(), rng) {
            objects.retain(|objects, index| is_in(window, objects.boxes()[index]));
            out.push(crop(window));
        }
    }

    fn needs_boxes(&self) -> bool {
        true
    }
}

fn build(args: &OpArgs<'_>) -> Result<BuiltOp, SpecError> {
    let op = RandomIoUCrop::new().scale(args.range("scale")?)?;
    let op = op.aspect_ratio(args.range("aspect_ratio")?)?.trials(args.u32("trials")?)?;
    Ok(built(op.sampler_options(&args.floats("sampler_options")?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that torchvision drew.
    struct Drawn<'a> {
        option: usize,
        units: &'a [[f32; 2]],
    }

    impl Draw for Drawn<'_> {
        fn option(&mut self, _: usize) -> usize {
            self.option
        }

        fn units(&mut self) -> [f32; 2] {
            let (first, rest) = self.units.split_first().expect("as many draws as torchvision's");
            self.units = rest;
            *first
        }
    }

    /// The cases `RandomIoUCrop.*` of tests/golden/targets/vectors.json: an image of 200 x 300.
    fn boxes() -> [BoundingBox; 3] {
        [[40.0, 50.0, 90.0, 120.0], [0.0, 0.0, 300.0, 200.0], [215.0, 32.0, 297.0, 190.0]]
            .map(BoundingBox::Edges)
    }

    fn window(option: usize, units: &[[f32; 2]]) -> Option<Window> {
        RandomIoUCrop::new().window(Size::new(200, 300), &boxes(), Drawn { option, units })
    }

    #[test]
    fn windows_are_torchvisions() {
        let of_2 = [[0.381_012_86, 0.637_114_35], [0.474_461_08, 0.713_593_84]];
        let expected = Window { top: 36, left: 61, height: 149, width: 170 };
        assert_eq!(window(2, &of_2), Some(expected));
        let of_5 = [[0.126_110_91, 0.907_469_7], [0.819_927_04, 0.920_103_43]];
        let expected = Window { top: 11, left: 150, height: 187, width: 116 };
        assert_eq!(window(1, &of_5), Some(expected));
        let of_9 = [
            [0.302_022_7, 0.479_896_43],
            [0.777_373_6, 0.917_964_34],
            [0.931_033_6, 0.260_360_42],
            [0.953_423_86, 0.380_439_58],
            [0.410_434_78, 0.951_020_6],
            [0.568_629_5, 0.138_095_56],
            [0.206_865_79, 0.513_900_4],
            [0.484_999_72, 0.519_271_4],
            [0.346_778_2, 0.447_652_52],
            [0.631_555_6, 0.694_745_84],
            [0.821_47, 0.911_125_2],
            [0.731_503_25, 0.446_793_5],
        ];
        let expected = Window { top: 5, left: 27, height: 187, width: 262 };
        assert_eq!(window(4, &of_9), Some(expected));
    }

    #[test]
    fn objects_with_their_middle_outside_are_removed() {
        let mut objects = Objects::default();
        objects.reset(3);
        objects.set_boxes(boxes(), crate::BoxFormat::Xyxy, crate::ClampingMode::Soft);
        let op = RandomIoUCrop::new().sampler_options(&[0.0]).unwrap();
        let (mut steps, key) = (vec![], crate::rng::SampleKey::new(3, 0, 0));
        op.draw_around(&mut key.op(0), Size::new(200, 300), &mut objects, &mut steps);
        let [GeometryStep::CropPad { top, left, size, .. }] = steps[..] else {
            panic!("{steps:?}")
        };
        let (top, left) = (top as u32, left as u32);
        let window = Window { top, left, height: size.height, width: size.width };
        let inside: Vec<usize> = (0..3).filter(|index| is_in(window, boxes()[*index])).collect();
        assert_eq!(objects.rows(), inside);
        assert!(!inside.is_empty());
    }

    #[test]
    fn images_without_boxes_or_without_a_fitting_crop_stay_as_they_are() {
        let drawn = |options: &[f64], boxes: &[BoundingBox]| {
            let op = RandomIoUCrop::new().sampler_options(options).unwrap();
            op.window(Size::new(200, 300), boxes, &mut crate::rng::SampleKey::new(0, 0, 0).op(0))
        };
        assert_eq!(drawn(&[0.0], &[]), None);
        assert_eq!(drawn(&[1.0], &boxes()), None);
        let tiny = [BoundingBox::Edges([150.0, 100.0, 151.0, 101.0])];
        assert_eq!(drawn(&[0.9], &tiny), None);
    }

    #[test]
    fn options_must_be_shares() {
        let error = RandomIoUCrop::new().sampler_options(&[]).unwrap_err().to_string();
        assert!(error.contains("sampler_options"), "{error}");
        assert!(RandomIoUCrop::new().sampler_options(&[f64::NAN]).is_err());
        assert!(RandomIoUCrop::new().trials(0).is_err());
        assert!(RandomIoUCrop::new().scale(0.5..=1.5).is_err());
    }
}
