//! Resize to bucket: scales and crops an image to one of several sizes, the one of the nearest aspect ratio.

use crate::author::{GeometryOp, GeometryStep, Rng, RowProducer, Type};
use crate::error::{output_size, side};
use crate::op::{Dim, ImageType, Op, class, on_numbers};
use crate::registry::{BuiltOp, OpArgs, ParamKind, SpecError, built, recipe};
use crate::shape::Window;
use crate::{Interpolation, ParamError, Size, TypeError, geometry_step};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// Scales and crops an image to one of several sizes, the bucket whose aspect ratio is the nearest: the aspect ratio
/// buckets of diffusion models.
///
#[cfg_attr(doc, doc = include_str!("../pictures/ResizeToBucket.md"))]
///
/// ```text
/// bucket   the size (H, W) with the smallest |ln(W / H) - ln(width / height)|      the first of several
/// window   if W / H < width / height:  height x floor(height * W / H + 1/2)        at least 1 pixel
///          otherwise:                  floor(width * H / W + 1/2) x width
/// output   the window, in the middle or at a random position, scaled to (H, W)
/// ```
///
/// Ratios are compared as fractions, without rounding. The logarithm treats portraits as it does landscapes: it is the
/// ratio of the two aspect ratios that counts. NovelAI's bucket manager and kohya's sd-scripts compare `width / height`
/// itself, which assigns a few images between two portraits to the other one. They also scale first and crop then; here
/// the crop comes first, so that only its pixels are decoded.
///
/// The images of a list with this op differ in size. The loader's `Order::Bucketed` makes batches of one size of them.
///
/// | | |
/// |--------|-----------------------------------------------------------------------------|
/// | input  | image of u8, u16, i16, f16, bf16 or f32                                     |
/// | output | as the input, of one of the sizes                                           |
/// | random | nothing, or with `random_crop` the position of the window                   |
/// | cost   | the resize; the window is known before a pixel is decoded                   |
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![ResizeToBucket::new([(1024, 1024), (896, 1152), (1152, 896)])?];
/// let of_area = ops![ResizeToBucket::of_area(1024, 512..=2048, 64)?.random_crop(true)];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Debug, PartialEq, Eq)]
#[op(
    GEOMETRY,
    "scales and crops an image to the one of several sizes that has the nearest aspect ratio",
    constructor = new,
    build = |args| Ok(built(resize_to_bucket(args)?)),
    draw = random,
    golden = "a crop and a Resize, which has goldens, of a window that is tested"
)]
pub struct ResizeToBucket {
    /// Not empty.
    #[param("sizes of the buckets", example = [[64, 64], [48, 80], [80, 48]], kind = ParamKind::Sizes)]
    sizes: Vec<Size>,
    /// Sets whether the window has a random position, or is in the middle.
    #[param("whether the window has a random position, or is in the middle", default = false)]
    random_crop: bool,
    #[param(interpolation, antialias)]
    interpolation: Interpolation,
}

const OP: &str = "ResizeToBucket";

impl ResizeToBucket {
    /// Scales and crops to one of these sizes (each one number of pixels for a square, or height and width), from the
    /// middle of an image.
    ///
    /// # Errors
    ///
    /// If there is no size, or a side is not in `1..=65535`.
    pub fn new<S: Into<Size>>(sizes: impl IntoIterator<Item = S>) -> Result<Self, ParamError> {
        let sizes = sizes.into_iter().map(|size| output_size(OP, size.into()));
        let sizes = sizes.collect::<Result<Vec<_>, _>>()?;
        if sizes.is_empty() {
            return Err(ParamError::new(OP, "sizes", "no size", "one or more sizes"));
        }
        Ok(Self { sizes, random_crop: false, interpolation: Interpolation::default() })
    }

    /// Scales and crops to the buckets of an area: those of kohya's `make_bucket_resolutions`, sorted by height, then by
    /// width.
    ///
    /// ```text
    /// A       = the pixels of `size`
    /// square  = floor(sqrt(A) / step) * step, on both sides
    /// others  = for each height from the first of `sides` on, by `step`:
    ///           width = min(last of `sides`, floor(floor(A / height) / step) * step)    if that is in `sides`
    ///           and the same with height and width exchanged
    /// ```
    ///
    /// `(1024, 512..=2048, 64)` is usual for SDXL.
    ///
    /// # Errors
    ///
    /// If a number is not in `1..=65535`, the range is empty, or `step` is larger than a side of the square.
    pub fn of_area(
        size: impl Into<Size>,
        sides: RangeInclusive<u32>,
        step: u32,
    ) -> Result<Self, ParamError> {
        let area = output_size(OP, size.into())?.pixels();
        let (low, high) = (side(OP, "sides", *sides.start())?, side(OP, "sides", *sides.end())?);
        if low > high {
            let found = format!("{low}..={high}");
            return Err(ParamError::new(OP, "sides", found, "a range that is not empty"));
        }
        let step = side(OP, "step", step)?;
        let down = |pixels: u64| pixels / u64::from(step) * u64::from(step);
        // At most 65535, like the sides of the area.
        let square = down(area.isqrt()) as u32;
        if square == 0 {
            return Err(ParamError::new(OP, "step", step, "at most a side of the square"));
        }
        let mut sizes = BTreeSet::from([(square, square)]);
        for height in (low..=high).step_by(step as usize) {
            // At most `high`.
            let width = down(area / u64::from(height)).min(u64::from(high)) as u32;
            if width >= low {
                sizes.extend([(height, width), (width, height)]);
            }
        }
        Self::new(sizes)
    }

    /// Returns the sizes of the buckets.
    #[must_use]
    pub fn sizes(&self) -> &[Size] {
        &self.sizes
    }

    /// Returns the bucket of an image of `size`.
    fn bucket(&self, size: Size) -> Size {
        // How many times one aspect ratio is the other, the larger over the smaller: a fraction of products of two
        // sides, which are below 2^32, so that fractions are compared in u64.
        let away = |bucket: Size| {
            let wider = u64::from(bucket.width) * u64::from(size.height);
            let taller = u64::from(bucket.height) * u64::from(size.width);
            (wider.max(taller), wider.min(taller).max(1))
        };
        let nearer = |best: Size, next: Size| {
            let ((a, b), (c, d)) = (away(best), away(next));
            if c * b < a * d { next } else { best }
        };
        self.sizes.iter().copied().reduce(nearer).unwrap_or(size)
    }

    /// Returns the size of the window of an image of `size` that has the aspect ratio of its bucket.
    fn window_size(size: Size, bucket: Size) -> Size {
        let (height, width) = (u64::from(size.height), u64::from(size.width));
        let (to_height, to_width) = (u64::from(bucket.height), u64::from(bucket.width));
        // Products of two sides are below 2^32. The shorter side of the window is at most that of the image.
        let scaled = |side: u64, by: u64, of: u64| ((2 * side * by + of) / (2 * of)).max(1) as u32;
        if to_width * height < width * to_height {
            Size::new(size.height, scaled(height, to_width, to_height).min(size.width))
        } else {
            Size::new(scaled(width, to_height, to_width).min(size.height), size.width)
        }
    }
}

#[class(Geometry)]
impl Op for ResizeToBucket {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_numbers(self.name(), input, |image| {
            if let Some(size) = image.size() {
                return image.with_size(self.bucket(size));
            }
            let range = |side: fn(&Size) -> u32| Dim {
                min: self.sizes.iter().map(side).min().unwrap_or(1),
                max: self.sizes.iter().map(side).max().unwrap_or(1),
            };
            let (height, width) = (range(|size| size.height), range(|size| size.width));
            ImageType { height, width, ..image }
        })
    }
}

impl GeometryOp for ResizeToBucket {
    fn draw(&self, rng: &mut Rng, size: Size, out: &mut Vec<GeometryStep>) {
        let bucket = self.bucket(size);
        let Size { height, width } = Self::window_size(size, bucket);
        let (below, right) = (size.height - height, size.width - width);
        let (top, left) = match self.random_crop {
            true => (rng.below(below + 1), rng.below(right + 1)),
            false => (below / 2, right / 2),
        };
        out.push(geometry_step::crop(Window { top, left, height, width }));
        out.push(GeometryStep::Resize { size: bucket, interpolation: self.interpolation });
    }

    fn row_producer(&self) -> Option<RowProducer> {
        Some(geometry_step::resize_producer(self.interpolation))
    }

    fn blends(&self) -> bool {
        self.interpolation.blends()
    }
}

fn resize_to_bucket(args: &OpArgs<'_>) -> Result<ResizeToBucket, SpecError> {
    let op = ResizeToBucket::new(args.sizes("sizes")?)?.random_crop(args.bool("random_crop")?);
    Ok(op.interpolation(args.interpolation("interpolation")?))
}

fn random(rng: &mut Rng, _: &ImageType) -> Result<BuiltOp, ParamError> {
    let sizes: Vec<_> = (0..=rng.below(3)).map(|_| recipe::size(rng)).collect();
    let op = ResizeToBucket::new(sizes)?.random_crop(rng.coin(0.5));
    Ok(built(op.interpolation(recipe::interpolation(rng))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::SampleKey;
    use crate::shape::is_inside;

    fn op(sizes: &[(u32, u32)]) -> ResizeToBucket {
        ResizeToBucket::new(sizes.iter().copied()).unwrap()
    }

    /// The window and the size of the output.
    fn drawn(op: &ResizeToBucket, size: Size, sample: u64) -> (Window, Size) {
        let mut steps = vec![];
        op.draw(&mut SampleKey::new(0, 0, sample).op(0), size, &mut steps);
        match steps[..] {
            [
                GeometryStep::CropPad { top, left, size: kept, .. },
                GeometryStep::Resize { size, .. },
            ] => {
                let window = Window {
                    top: top as u32,
                    left: left as u32,
                    height: kept.height,
                    width: kept.width,
                };
                (window, size)
            }
            _ => panic!("{steps:?}"),
        }
    }

    #[test]
    fn the_bucket_has_the_nearest_ratio_by_its_logarithm() {
        let op = op(&[(64, 64), (48, 80), (80, 48), (32, 128), (128, 32)]);
        for (height, width, bucket) in [
            (500, 500, (64, 64)),
            (375, 500, (48, 80)),
            (500, 375, (80, 48)),
            (100, 259, (32, 128)),
            (259, 100, (128, 32)),
            // 1.2909 is the geometric mean of 1 and 5/3.
            (1000, 1290, (64, 64)),
            (1000, 1292, (48, 80)),
            (1292, 1000, (80, 48)),
        ] {
            assert_eq!(op.bucket(Size::new(height, width)), Size::from(bucket), "{height}x{width}");
        }
    }

    /// By `width / height` itself, 0.66 would be nearer to 0.5.
    #[test]
    fn a_portrait_is_treated_as_the_landscape_of_its_sides() {
        let op = op(&[(200, 100), (115, 100), (100, 115), (100, 200)]);
        assert_eq!(op.bucket(Size::new(100, 66)), Size::new(115, 100));
        assert_eq!(op.bucket(Size::new(66, 100)), Size::new(100, 115));
    }

    #[test]
    fn the_first_of_equal_ratios_is_taken() {
        assert_eq!(op(&[(32, 64), (16, 32)]).bucket(Size::new(7, 14)), Size::new(32, 64));
        assert_eq!(op(&[(16, 32), (32, 64)]).bucket(Size::new(7, 14)), Size::new(16, 32));
    }

    #[test]
    fn the_window_has_the_ratio_of_the_bucket_and_one_side_of_the_image() {
        let window = |size: (u32, u32), bucket: (u32, u32)| {
            ResizeToBucket::window_size(size.into(), bucket.into())
        };
        assert_eq!(window((375, 500), (48, 80)), Size::new(300, 500));
        assert_eq!(window((300, 600), (48, 80)), Size::new(300, 500));
        assert_eq!(window((100, 100), (64, 64)), Size::new(100, 100));
        assert_eq!(window((3, 7), (2, 3)), Size::new(3, 5), "4.5 is rounded up");
    }

    #[test]
    fn windows_lie_inside_in_the_middle_or_anywhere() {
        let centred = op(&[(40, 20)]);
        let size = Size::new(60, 101);
        let (window, output) = drawn(&centred, size, 0);
        assert_eq!(window, Window { top: 0, left: 35, height: 60, width: 30 });
        assert_eq!(output, Size::new(40, 20));
        let anywhere = centred.random_crop(true);
        let mut seen = [false; 72];
        for sample in 0..2000 {
            let (window, _) = drawn(&anywhere, size, sample);
            assert!(is_inside(window, size));
            seen[window.left as usize] = true;
        }
        assert!(seen.iter().all(|seen| *seen));
    }

    #[test]
    fn the_thinnest_image_keeps_a_pixel() {
        let op = op(&[(64, 64), (65_535, 1), (1, 65_535)]);
        for (height, width) in [(1, 1), (1, 65_535), (65_535, 1), (2, 65_535), (65_535, 65_535)] {
            let size = Size::new(height, width);
            let (window, output) = drawn(&op, size, 0);
            assert!(is_inside(window, size) && window.size().pixels() > 0, "{window:?}");
            assert!(op.sizes().contains(&output));
        }
        assert_eq!(op.bucket(Size::new(1, 65_535)), Size::new(1, 65_535));
        let square = super::ResizeToBucket::new([64]).unwrap();
        assert_eq!(drawn(&square, Size::new(1, 65_535), 0).0.size(), Size::new(1, 1));
    }

    /// `scripts/bucket_sizes.py` wrote these with kohya's `make_bucket_resolutions`.
    #[test]
    fn the_sizes_of_an_area_are_kohyas() {
        let sizes = |size: (u32, u32), sides, step| {
            let op = ResizeToBucket::of_area(size, sides, step).unwrap();
            op.sizes().iter().map(|size| (size.height, size.width)).collect::<Vec<_>>()
        };
        assert_eq!(sizes((1024, 1024), 512..=2048, 64), KOHYA_1024);
        assert_eq!(sizes((512, 512), 256..=1024, 64), KOHYA_512);
        assert_eq!(sizes((512, 768), 256..=1024, 64), KOHYA_512_768);
        assert_eq!(sizes((100, 100), 90..=110, 8), KOHYA_100);
    }

    #[test]
    fn the_type_says_what_sides_may_be() {
        let of = |size| op(&[(48, 80), (80, 48)]).output(&Type::Image(size)).unwrap().to_string();
        let any = Dim { min: 1, max: 900 };
        assert_eq!(of(ImageType::decoded(any, any)), "a u8 image [48..=80, 48..=80, 3]");
        assert_eq!(of(ImageType::from(Size::new(100, 300))), "a u8 image [48, 80, 3]");
    }

    #[test]
    fn bad_parameters_are_refused() {
        assert!(ResizeToBucket::new::<u32>([]).is_err() && ResizeToBucket::new([9, 0]).is_err());
        assert!(ResizeToBucket::new([(9, 65_536)]).is_err());
        let area = ResizeToBucket::of_area;
        assert!(
            area((0, 5), 1..=9, 1).is_err() && area((9, 9), RangeInclusive::new(5, 4), 1).is_err()
        );
        assert!(area((9, 9), 1..=9, 0).is_err() && area((9, 9), 1..=9, 10).is_err());
        assert!(area((9, 9), 0..=9, 1).is_err() && area((9, 9), 1..=70_000, 1).is_err());
        assert!(area((65_535, 65_535), 1..=65_535, 1).is_ok());
    }

    const KOHYA_1024: [(u32, u32); 33] = [
        (512, 1856),
        (512, 1920),
        (512, 1984),
        (512, 2048),
        (576, 1664),
        (576, 1728),
        (576, 1792),
        (640, 1536),
        (640, 1600),
        (704, 1408),
        (704, 1472),
        (768, 1280),
        (768, 1344),
        (832, 1216),
        (896, 1152),
        (960, 1088),
        (1024, 1024),
        (1088, 960),
        (1152, 896),
        (1216, 832),
        (1280, 768),
        (1344, 768),
        (1408, 704),
        (1472, 704),
        (1536, 640),
        (1600, 640),
        (1664, 576),
        (1728, 576),
        (1792, 576),
        (1856, 512),
        (1920, 512),
        (1984, 512),
        (2048, 512),
    ];

    const KOHYA_512: [(u32, u32); 17] = [
        (256, 832),
        (256, 896),
        (256, 960),
        (256, 1024),
        (320, 704),
        (320, 768),
        (384, 640),
        (448, 576),
        (512, 512),
        (576, 448),
        (640, 384),
        (704, 320),
        (768, 320),
        (832, 256),
        (896, 256),
        (960, 256),
        (1024, 256),
    ];

    const KOHYA_512_768: [(u32, u32); 19] = [
        (256, 1024),
        (320, 1024),
        (384, 896),
        (384, 960),
        (384, 1024),
        (448, 832),
        (512, 704),
        (512, 768),
        (576, 576),
        (576, 640),
        (640, 576),
        (704, 512),
        (768, 512),
        (832, 448),
        (896, 384),
        (960, 384),
        (1024, 256),
        (1024, 320),
        (1024, 384),
    ];

    const KOHYA_100: [(u32, u32); 5] = [(90, 104), (96, 96), (96, 98), (98, 96), (104, 90)];
}
