//! Random erasing: fills a random rectangle with a colour or with noise.

use crate::author::OpClass;
use crate::author::{Emit, Eval, Mask, PixelOp, Pixels, RegionOp, Rng, Type};
use crate::noise::{self, SEEDS};
use crate::op::{Op, on_image};
use crate::registry::{OpArgs, ParamKind, Recipe, SpecError, built, recipe, single};
use crate::shape::Window;
use crate::{Convert, DType, Normalize, ParamError, RandomChoice, Size, TypeError, ops};
use std::sync::Arc;

/// Erases a random rectangle of a share `p` of the images: fills it with a colour or with noise.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomErasing.md"))]
///
/// Zhong et al., arXiv:1708.04896.
///
/// ```text
/// with probability p, up to 10 times:
///     area   = height * width * U(scale)
///     aspect = exp(U(ln ratio))
///     h = round_half_even(sqrt(area * aspect));  w = round_half_even(sqrt(area / aspect))
///     if h < height and w < width:  top = U{0..=height-h}; left = U{0..=width-w}; stop
/// otherwise: nothing is erased
/// ```
///
/// | | |
/// |--------|-------------------------------------------------------------------------------|
/// | input  | image of any element type; noise only on floats                               |
/// | output | as the input                                                                  |
/// | random | the coin, an area and an aspect for each try, the corner; then two words for noise |
/// | cost   | a mask, and nothing for samples without a rectangle; noise costs only where it is written |
///
/// torchvision's `RandomErasing`, with the same order of draws. The aspect is height over width:
/// the inverse of RandomResizedCrop's. On u8 the value is truncated to a whole number, as in
/// torchvision. If torchvision's values or noise would wrap around on u8, the op is refused: put it
/// after Normalize.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![Normalize::imagenet(), RandomErasing::new().p(0.25)?.random()]; // noise, as timm's "pixel"
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(OVERWRITE, "erases a random rectangle of a share p of the images", build = |args| Ok(built(erasing(args)?)), recipes = RECIPES, new = "Builds the op with torchvision's defaults: in half of the images, a rectangle with a share of 0.02 to 0.33 of the area and a height of 0.3 to 3.3 times its width is filled with 0.")]
pub struct RandomErasing {
    #[param(share)]
    p: f64,
    /// Sets the range of the rectangle's share of the area.
    #[param("share of the area", 0.0..=1.0, default = 0.02..=0.33)]
    scale: (f64, f64),
    /// Sets the range of the rectangle's height over its width.
    #[param("height over width", positive, default = 0.3..=3.3)]
    ratio: (f64, f64),
    #[param("what is painted, in units of the values; random is noise", by_hand, name = "value", kind = ParamKind::Paint,
        default = 0)]
    #[init(Paint::Value([0.0; 3]))]
    paint: Paint,
}

/// The new contents of the rectangle.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Paint {
    /// One value for each channel.
    Value([f32; 3]),
    /// Normally distributed noise.
    Noise,
}

/// The maximum number of attempts to draw a rectangle.
const TRIES: usize = 10;

const NAME: &str = "RandomErasing";

impl RandomErasing {
    /// Fills the rectangle with one value, in the units of the op's input image.
    ///
    /// # Errors
    ///
    /// If the value is not finite.
    pub fn value(self, value: f32) -> Result<Self, ParamError> {
        self.values([value; 3])
    }

    /// Fills the rectangle with one value for each of red, green and blue.
    ///
    /// # Errors
    ///
    /// If a value is not finite.
    pub fn values(self, values: [f32; 3]) -> Result<Self, ParamError> {
        match values.iter().find(|value| !value.is_finite()) {
            Some(bad) => Err(ParamError::new(NAME, "value", bad, "finite numbers")),
            None => Ok(Self { paint: Paint::Value(values), ..self }),
        }
    }

    /// Fills the rectangle with noise: a normally distributed number for each channel of each
    /// pixel. torchvision's `value='random'`.
    #[must_use]
    pub fn random(self) -> Self {
        Self { paint: Paint::Noise, ..self }
    }

    /// Draws the rectangle of one sample, if it has one.
    fn window(&self, rng: &mut Rng, size: Size) -> Option<Window> {
        if !rng.coin(self.p) {
            return None;
        }
        let window = (0..TRIES).find_map(|_| self.attempt(rng, size));
        window.filter(|window| window.size().pixels() > 0)
    }

    fn attempt(&self, rng: &mut Rng, size: Size) -> Option<Window> {
        let (low, high) = self.scale;
        let area = size.pixels() as f64 * f64::from(rng.uniform(low as f32, high as f32));
        let (low, high) = (libm::log(self.ratio.0) as f32, libm::log(self.ratio.1) as f32);
        let aspect = f64::from(libm::exp(f64::from(rng.uniform(low, high))) as f32);
        let height = (area * aspect).sqrt().round_ties_even() as u32;
        let width = (area / aspect).sqrt().round_ties_even() as u32;
        if height >= size.height || width >= size.width {
            return None;
        }
        let top = rng.below(size.height - height + 1);
        let left = rng.below(size.width - width + 1);
        Some(Window { top, left, height, width })
    }
}

impl Op for RandomErasing {
    fn name(&self) -> &'static str {
        NAME
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        let fits_u8 = match self.paint {
            Paint::Value(values) => values.iter().all(|v| (0.0..256.0).contains(v)),
            Paint::Noise => false,
        };
        match input {
            Type::Image(image) if image.dtype == DType::U8 && !fits_u8 => Err(TypeError {
                op: NAME,
                expected: "a float image, unless its values are in 0..=255 (put it after Normalize)",
                found: input.to_string(),
            }),
            _ => on_image(NAME, input, |image| image),
        }
    }

    fn class(&self) -> OpClass<'_> {
        match self.paint {
            Paint::Value(_) => OpClass::Region(self),
            Paint::Noise => OpClass::Pixel(self),
        }
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.p == 0.0 || self.scale.1 == 0.0
    }

    fn for_input(&self, input: &Type) -> Option<Arc<dyn Op>> {
        match (input, self.paint) {
            (Type::Image(image), Paint::Value(values)) if image.dtype == DType::U8 => {
                let paint = Paint::Value(values.map(f32::trunc));
                Some(Arc::new(Self { paint, ..*self }))
            }
            _ => None,
        }
    }
}

/// The op with a constant value.
impl RegionOp for RandomErasing {
    fn draw(&self, rng: &mut Rng, size: Size) -> Window {
        let nowhere = Window { top: 0, left: 0, height: 0, width: 0 };
        self.window(rng, size).unwrap_or(nowhere)
    }

    fn may_skip(&self) -> bool {
        true
    }

    fn fill(&self) -> [f32; 3] {
        match self.paint {
            Paint::Value(values) => values,
            Paint::Noise => [0.0; 3],
        }
    }
}

/// Parameters after the seeds: half a pixel before the first row and half a pixel before the row after
/// the last, then the same for the columns.
const TOP: usize = SEEDS;
const BOTTOM: usize = SEEDS + 1;
const LEFT: usize = SEEDS + 2;
const RIGHT: usize = SEEDS + 3;

/// The op with noise. A sample that is not erased has a rectangle of no pixels, which costs less
/// than choosing between two loop bodies.
impl PixelOp for RandomErasing {
    fn param_count(&self) -> usize {
        SEEDS + 4
    }

    fn param_names(&self) -> &'static [&'static str] {
        &["-", "-", "top", "bottom", "left", "right"]
    }

    fn draw(&self, rng: &mut Rng, size: Size, params: &mut [f32]) -> bool {
        let Window { top, left, height, width } = RegionOp::draw(self, rng, size);
        let before = |edge: u32| edge as f32 - 0.5;
        params[TOP] = before(top);
        params[BOTTOM] = before(top + height);
        params[LEFT] = before(left);
        params[RIGHT] = before(left + width);
        params[..SEEDS].copy_from_slice(&noise::seeds(rng));
        true
    }

    fn is_identity(&self, params: &[f32]) -> bool {
        params[TOP] == params[BOTTOM]
    }

    fn uses_position(&self) -> bool {
        true
    }

    fn eval(&self, cx: &Eval<'_>, pixel: &mut [f32]) {
        let [y, x] = cx.at.map(|coordinate| coordinate as f32);
        let in_row = cx.params[TOP] < y && y < cx.params[BOTTOM];
        let in_column = cx.params[LEFT] < x && x < cx.params[RIGHT];
        if in_row && in_column {
            let normals = noise::normals([cx.params[0], cx.params[1]], cx.at);
            pixel.copy_from_slice(&normals[..pixel.len()]);
        }
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        let inside = emit_inside(e);
        e.where_any(inside, pixels, |e, pixels| {
            let normals = noise::emit_normals(e, 0, pixels);
            e.select_pixels(inside, normals, pixels)
        })
    }
}

/// Returns a mask of the pixels inside the rectangle.
fn emit_inside(e: &mut Emit) -> Mask {
    let [y, x] = e.position().map(|coordinate| e.to_f32(coordinate));
    let [top, bottom, left, right] = [TOP, BOTTOM, LEFT, RIGHT].map(|param| e.param(param));
    let (below_top, above_bottom) = (e.less(top, y), e.less(y, bottom));
    let in_row = e.both(below_top, above_bottom);
    let (after_left, before_right) = (e.less(left, x), e.less(x, right));
    let in_column = e.both(after_left, before_right);
    e.both(in_row, in_column)
}

const RECIPES: [Recipe; 2] = [
    Recipe {
        name: "RandomErasing",
        draw: |rng, before| {
            let values = [0; 3].map(|_| recipe::fill(rng, before));
            Ok(built(random(rng)?.values(values)?))
        },
    },
    Recipe {
        name: "RandomErasing(random)",
        draw: |rng, before| {
            let op = random(rng)?.random();
            if before.dtype != DType::U8 {
                return Ok(built(op));
            }
            // The op takes floats: it follows an op that makes them, and bytes sometimes follow it.
            let mut list = ops![Normalize::imagenet(), op];
            if rng.coin(0.5) {
                list.push(built(Convert::to(DType::U8)));
            }
            Ok(built(RandomChoice::new(vec![list])?))
        },
    },
];

fn erasing(args: &OpArgs<'_>) -> Result<RandomErasing, SpecError> {
    let (scale, ratio) = (args.range("scale")?, args.range("ratio")?);
    let op = RandomErasing::new().p(args.float("p")?)?.scale(scale)?.ratio(ratio)?;
    if args.is_word("value", "random")? {
        return Ok(op.random());
    }
    let values = match args.is_list("value")? {
        true => args.channels("value")?,
        false => [args.float("value")?; 3],
    };
    Ok(op.values(single("RandomErasing", "value", values)?)?)
}

fn random(rng: &mut Rng) -> Result<RandomErasing, ParamError> {
    let low = recipe::number(rng, 0.0, 0.3);
    let ratio = recipe::number(rng, 0.2, 1.0);
    RandomErasing::new().p(recipe::share(rng))?.scale(low..=low + 0.5)?.ratio(ratio..=ratio * 3.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NumberRule;
    use crate::op::evaluated;
    use crate::op::{Dim, ImageType};
    use crate::rng::SampleKey;
    use crate::shape::is_inside;

    fn usual() -> RandomErasing {
        RandomErasing::new().p(1.0).unwrap()
    }

    fn image(dtype: DType) -> Type {
        let image = ImageType::decoded(Dim::fixed(40), Dim::fixed(60));
        Type::Image(ImageType { dtype, ..image })
    }

    fn rng(sample: u64) -> Rng {
        SampleKey::new(0, 0, sample).op(0)
    }

    #[test]
    fn rectangles_lie_inside_and_have_the_area_and_aspect_that_was_asked_for() {
        let size = Size::new(120, 90);
        for sample in 0..500 {
            let window = usual().window(&mut rng(sample), size).unwrap();
            assert!(is_inside(window, size), "{window:?}");
            let Size { height, width } = window.size();
            let share = f64::from(height * width) / size.pixels() as f64;
            assert!((0.018..0.345).contains(&share), "{window:?}");
            let aspect = f64::from(height) / f64::from(width);
            assert!((0.27..3.6).contains(&aspect), "{window:?}");
        }
    }

    #[test]
    fn a_ratio_is_of_height_to_width() {
        let tall = usual().scale(0.1..=0.1).unwrap().ratio(4.0..=4.0).unwrap();
        let window = tall.window(&mut rng(0), Size::new(100, 100)).unwrap();
        assert_eq!(window.size(), Size::new(63, 16));
    }

    #[test]
    fn a_rectangle_as_high_or_wide_as_the_picture_is_never_erased() {
        let whole = usual().scale(1.0..=1.0).unwrap().ratio(1.0..=1.0).unwrap();
        assert_eq!(whole.window(&mut rng(0), Size::new(30, 30)), None);
        assert!((0..100).all(|s| usual().window(&mut rng(s), Size::new(1, 1)).is_none()));
    }

    #[test]
    fn a_share_p_of_the_samples_is_erased() {
        let op = RandomErasing::new().p(0.25).unwrap();
        let erased = (0..4000).filter(|&s| op.window(&mut rng(s), Size::new(64, 64)).is_some());
        assert!((850..1150).contains(&erased.count()));
        assert!(!usual().does_nothing(&image(DType::U8)));
        let never = RandomErasing::new().p(0.0).unwrap();
        assert!(never.does_nothing(&image(DType::U8)));
    }

    #[test]
    fn values_are_truncated_on_u8_and_kept_on_floats() {
        let op = usual().values([0.9, 2.5, 254.75]).unwrap();
        let on_u8 = op.for_input(&image(DType::U8)).unwrap();
        let OpClass::Region(region) = on_u8.class() else { panic!("a value paints a region") };
        assert_eq!(region.fill(), [0.0, 2.0, 254.0]);
        assert!(op.for_input(&image(DType::F32)).is_none());
        assert_eq!(op.fill(), [0.9, 2.5, 254.75]);
    }

    #[test]
    fn noise_falls_inside_the_rectangle_and_nowhere_else() {
        let (op, size) = (usual().random(), Size::new(40, 60));
        let mut params = vec![0.0; op.param_count()];
        PixelOp::draw(&op, &mut rng(3), size, &mut params);
        let window = op.window(&mut rng(3), size).unwrap();
        for at in (0..40).flat_map(|y| (0..60).map(move |x| [y, x])) {
            let [y, x] = at.map(|coordinate| coordinate as u32);
            let inside = (window.top..window.top + window.height).contains(&y)
                && (window.left..window.left + window.width).contains(&x);
            let cx = Eval { rule: NumberRule::Fused, params: &params, at };
            let found = evaluated(&op, &cx, [9.0; 4]);
            let normals = noise::normals([params[0], params[1]], at);
            assert_eq!(found, if inside { normals } else { [9.0; 4] }, "{at:?} of {window:?}");
        }
    }

    #[test]
    fn what_would_wrap_around_on_u8_is_refused_there() {
        let refused = |op: RandomErasing| op.output(&image(DType::U8)).is_err();
        assert!(refused(usual().random()) && refused(usual().value(-1.0).unwrap()));
        assert!(refused(usual().values([0.0, 0.0, 256.0]).unwrap()));
        assert!(!refused(usual()) && !refused(usual().value(255.0).unwrap()));
        assert!(usual().random().output(&image(DType::F32)).is_ok());
        assert!(usual().value(-1.0).unwrap().output(&image(DType::F32)).is_ok());
    }

    #[test]
    fn a_value_that_is_not_finite_is_refused() {
        assert!(usual().value(f32::NAN).is_err());
    }
}
