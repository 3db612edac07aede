//! The planner believes what ops claim about themselves: an op that claims to do nothing is removed, one that claims to
//! be a matrix is multiplied with others, and one that claims not to blend may move masks. The claims are tested here:
//! the comparison of compiled code with its definition can't find a false one, because both follow the same plan.

use crate::common::lists::{first_difference, noise, view};
use crate::registry_signoff::example;
use fuseloop::internals::jit::evaluate;
use fuseloop::internals::plan::{Draws, ImagePlan};
use fuseloop_ops::author::*;
use fuseloop_ops::internals::SampleKey;
use fuseloop_ops::internals::registry::{SpecValue, recipes, registry};
use fuseloop_ops::*;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The number of random instances of each recipe.
const INSTANCES: u64 = 40;

const SIZE: Size = Size::new(13, 19);

/// A random op and the type of an image that it takes.
struct Instance {
    /// The name of the op's recipe.
    name: &'static str,
    op: Arc<dyn Op>,
    image: ImageType,
    key: SampleKey,
}

/// Returns random instances of all ops, for images of bytes or floats that have one or three channels.
fn instances() -> Vec<Instance> {
    let mut all = vec![];
    for (number, recipe) in (0..).zip(recipes()) {
        for seed in 0..INSTANCES {
            let key = SampleKey::new(seed, 0, number);
            let mut rng = key.op(0);
            let dtype = [DType::U8, DType::U8, DType::F32][rng.below(3) as usize];
            let channels = [1, 3, 3][rng.below(3) as usize];
            let image = ImageType::array(SIZE, channels, dtype);
            let op = (recipe.draw)(&mut rng, &image).unwrap();
            let input = Type::Image(image);
            if op.output(&input).is_ok() {
                let op = op.for_input(&input).unwrap_or(op);
                all.push(Instance { name: recipe.name, op, image, key });
            }
        }
    }
    all
}

impl Instance {
    /// Runs `op` and a crop to `size` on `pixels`. Returns the plan and the output; `None` if the plan is refused.
    fn cropped(&self, op: Arc<dyn Op>, size: Size, pixels: &[u8]) -> Option<(ImagePlan, Vec<u8>)> {
        let list: Ops = vec![op, Arc::new(CenterCrop::new(size).unwrap())];
        let plan = ImagePlan::new(list, self.image, NumberRule::Exact).ok()?;
        let mut draws = Draws::default();
        plan.draw(self.key, SIZE, &mut draws);
        let output = evaluate(&plan, &view(&plan, pixels, SIZE), &draws);
        Some((plan, output))
    }
}

/// An op that does not claim to do nothing, so that the planner does not remove it.
#[derive(Debug)]
struct WithoutClaim(Arc<dyn Op>);

impl Op for WithoutClaim {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        self.0.output(input)
    }

    fn class(&self) -> OpClass<'_> {
        self.0.class()
    }
}

#[test]
fn an_op_that_claims_to_do_nothing_changes_nothing() {
    let mut names = BTreeSet::new();
    for instance in instances() {
        let Instance { name, op, image, key } = &instance;
        if !op.does_nothing(&Type::Image(*image)) {
            continue;
        }
        let pixels = noise(&mut key.op(1), SIZE, image);
        let (_, removed) = instance.cropped(Arc::clone(op), SIZE, &pixels).unwrap();
        let op = Arc::new(WithoutClaim(Arc::clone(op)));
        // The planner refuses some ops if it can't remove them: a colour around an image of one channel.
        let Some((plan, evaluated)) = instance.cropped(op.clone(), SIZE, &pixels) else { continue };
        assert_eq!(evaluated.len(), removed.len(), "{name}: {op:?}");
        assert_eq!(first_difference(&plan, &evaluated, &removed), None, "{name}: {op:?}");
        names.insert(*name);
    }
    assert!(names.len() > 20, "{names:?}");
}

/// A pixel op with drawn parameters, and the values of a pixel.
#[derive(Debug)]
struct PixelCase<'a> {
    op: &'a dyn PixelOp,
    params: Vec<f32>,
    image: ImageType,
    /// The number of channels of the output.
    channels: usize,
    before: Vec<f32>,
}

/// The position of a [`PixelCase`]'s pixel.
const AT: [i32; 2] = [3, 5];

impl PixelCase<'_> {
    fn eval(&self, at: [i32; 2], values: &[f32]) -> Vec<f32> {
        let mut pixel = values.to_vec();
        pixel.resize(values.len().max(self.channels), 0.0);
        self.op.eval(&Eval { at, ..Eval::new(NumberRule::Fused, &self.params) }, &mut pixel);
        pixel.truncate(self.channels);
        pixel
    }

    fn after(&self) -> Vec<f32> {
        self.eval(AT, &self.before)
    }
}

/// Returns the bits of numbers, of which a NaN is equal to itself.
fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Calls `check` with random cases. Returns the names of the recipes for which it returned true.
fn checked_pixels(check: impl Fn(&PixelCase<'_>) -> bool) -> BTreeSet<&'static str> {
    let mut names = BTreeSet::new();
    for Instance { name, op: whole, image, key } in &instances() {
        let OpClass::Pixel(op) = whole.class() else { continue };
        let Ok(Type::Image(output)) = whole.output(&Type::Image(*image)) else { continue };
        let mut params = vec![0.0; op.param_count()];
        let mut rng = key.op(1);
        let runs = op.draw(&mut rng, SIZE, &mut params);
        assert!(runs || op.may_skip(), "{name}: {op:?} is skipped");
        if op.statistic().is_some() {
            *params.last_mut().unwrap() = 117.0;
        }
        let before = (0..image.channels).map(|_| rng.below(256) as f32).collect();
        let channels = output.channels.into();
        if check(&PixelCase { op, params, image: *image, channels, before }) {
            names.insert(*name);
        }
    }
    names
}

#[test]
fn a_pixel_depends_on_its_position_only_if_the_op_says_so() {
    let names = checked_pixels(|case| {
        let depends = bits(&case.eval([4, 11], &case.before)) != bits(&case.after());
        assert!(!depends || case.op.uses_position(), "{case:?}");
        depends
    });
    assert!(!names.is_empty());
}

#[test]
fn parameters_that_are_an_identity_change_no_value() {
    let names = checked_pixels(|case| {
        let is_identity = case.op.is_identity(&case.params);
        assert!(!is_identity || case.after() == case.before, "{case:?}");
        is_identity
    });
    assert!(!names.is_empty());
}

#[test]
fn a_per_channel_op_ignores_the_other_channels() {
    let names = checked_pixels(|case| {
        if !case.op.is_per_channel() {
            return false;
        }
        let after = case.after();
        for channel in 0..case.channels {
            let mut others: Vec<f32> = case.before.iter().map(|value| 255.0 - value).collect();
            others[channel] = case.before[channel];
            let found = case.eval(AT, &others);
            assert_eq!(bits(&found)[channel], bits(&after)[channel], "{case:?}");
        }
        true
    });
    assert!(names.len() >= 8, "{names:?}");
}

#[test]
fn selected_channels_are_copies() {
    let names = checked_pixels(|case| {
        let Some(selected) = case.op.selected_channels() else { return false };
        let copies: Vec<f32> =
            selected.iter().map(|&from| case.before[usize::from(from)]).collect();
        assert_eq!(case.after(), copies, "{case:?}");
        true
    });
    assert!(!names.is_empty());
}

#[test]
fn an_op_that_normalizes_is_two_fused_multiply_adds() {
    let names = checked_pixels(|case| {
        let Some(constants) = case.op.normalizes() else { return false };
        let values = case.before.iter().zip(constants.iter().cycle());
        let normalized = values.map(|(value, [m1, s1, s0, bias])| {
            let d = value - m1;
            d.mul_add(*s1, d.mul_add(*s0, *bias))
        });
        assert_eq!(case.after(), normalized.collect::<Vec<f32>>(), "{case:?}");
        true
    });
    assert!(!names.is_empty());
}

#[test]
fn an_op_with_a_matrix_is_its_product_with_the_pixel() {
    let names = checked_pixels(|case| {
        let Some(rows) = case.op.matrix(&case.params) else { return false };
        let [r, g, b] = case.before[..] else { return false };
        if case.image.dtype != DType::U8 || case.channels != 3 {
            return false;
        }
        for ([of_r, of_g, of_b, constant], value) in rows.into_iter().zip(case.after()) {
            let sum = of_r * r + of_g * g + of_b * b + constant;
            assert!((sum.clamp(0.0, 255.0) - value).abs() < 0.02, "{case:?}: {rows:?}");
        }
        true
    });
    assert!(names.len() >= 7, "{names:?}");
}

#[test]
fn tables_have_whole_levels_and_depend_on_the_histogram_only_if_the_op_says_so() {
    let mut count = 0;
    for Instance { name, op, image, key } in &instances() {
        let OpClass::Table(op) = op.class() else { continue };
        let mut params = vec![0.0; op.param_count()];
        let runs = op.draw(&mut key.op(1), &mut params);
        assert!(runs || op.may_skip(), "{name}: {op:?} is skipped");
        let tables = |histogram: Histogram| {
            let channels = usize::from(image.channels);
            let mut out = vec![[f32::NAN; 256]; channels];
            op.table(NumberRule::Exact, &params, &vec![histogram; channels], &mut out);
            out
        };
        let uneven = std::array::from_fn(|level| if level % 3 == 0 { 1 + level as u32 } else { 0 });
        let found = tables(uneven);
        let is_level = |value: &f32| (0.0..=255.0).contains(value) && value.fract() == 0.0;
        assert!(found.as_flattened().iter().all(is_level), "{name}: {op:?}");
        let is_fixed = || found == tables([0; 256]);
        assert!(op.needs_histogram() || is_fixed(), "{name}: {op:?} depends on the histogram");
        count += 1;
    }
    assert!(count > INSTANCES, "{count}");
}

#[test]
fn a_geometry_op_that_does_not_blend_copies_pixels_or_fills_with_one_colour() {
    let mut names = BTreeSet::new();
    for instance in instances() {
        let Instance { name, op, image, key } = &instance;
        let OpClass::Geometry(geometry) = op.class() else { continue };
        if image.dtype != DType::U8 || geometry.blends() {
            continue;
        }
        let channels = usize::from(image.channels);
        let mut rng = key.op(1);
        let pixels: Vec<u8> = (0..SIZE.pixels())
            .flat_map(|_| vec![if rng.coin(0.5) { 7 } else { 201 }; channels])
            .collect();
        let cropped = instance.cropped(Arc::clone(op), Size::new(24, 24), &pixels);
        let Some((_, output)) = cropped else { continue };
        for channel in 0..channels {
            let mut values: BTreeSet<u8> =
                output.iter().skip(channel).step_by(channels).copied().collect();
            // The op's fill remains besides the image's values and the black around the crop.
            values.retain(|value| ![0, 7, 201].contains(value));
            assert!(values.len() <= 1, "{name}: {op:?} gives {values:?}");
        }
        names.insert(*name);
    }
    assert!(names.len() > 22, "{names:?}");
}

/// A mask may follow every op that moves pixels, as long as the op takes the nearest pixel.
#[test]
fn ops_blend_unless_they_take_the_nearest_pixel() {
    let mut count = 0;
    for info in registry() {
        if info.params.iter().all(|param| param.name != "interpolation") {
            continue;
        }
        for interpolation in ["nearest", "bilinear"] {
            let list = example(info, &[("interpolation", SpecValue::from(interpolation))]);
            let OpClass::Geometry(op) = list[0].class() else { continue };
            // CenterCrop interpolates only if it has a `ratio`, which is optional.
            let blends = interpolation == "bilinear" && info.name != "CenterCrop";
            assert_eq!(op.blends(), blends, "{}, {interpolation}", info.name);
            count += 1;
        }
    }
    assert!(count >= 18, "{count}");
}

/// The relaxed rule merges consecutive matrices into their product. The output is nearly the same as long as no value
/// between them leaves 0..=255.
#[test]
fn merged_matrices_give_nearly_the_same_values() {
    let first = [[0.5, 0.1, 0.2, 3.0], [0.1, 0.4, 0.2, 11.0], [0.3, 0.05, 0.5, 1.0]];
    let second = [[0.2, 0.4, 0.1, 20.0], [0.1, 0.6, 0.2, 0.0], [0.7, 0.1, 0.05, 9.0]];
    let list = ops![
        ColorMatrix::new(first).unwrap(),
        PermuteChannels::new([2, 0, 1]).unwrap(),
        ColorMatrix::new(second).unwrap(),
        Convert::to(DType::F32),
    ];
    let image = ImageType::array(SIZE, 3, DType::U8);
    let key = SampleKey::new(1, 0, 0);
    let pixels = noise(&mut key.op(1), SIZE, &image);
    let [fused, relaxed] = [NumberRule::Fused, NumberRule::Relaxed].map(|rule| {
        let plan = ImagePlan::new(list.clone(), image, rule).unwrap();
        let mut draws = Draws::default();
        plan.draw(key, SIZE, &mut draws);
        let bytes = evaluate(&plan, &view(&plan, &pixels, SIZE), &draws);
        let floats = bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        floats.collect::<Vec<f32>>()
    });
    assert!(fused.iter().zip(&relaxed).all(|(a, b)| (a - b).abs() < 1e-3));
    assert_ne!(fused, relaxed, "the matrices were not merged");
}

/// An op whose `output` and `output_size` contradict each other.
#[derive(Debug)]
struct Contradictory;

impl Op for Contradictory {
    fn name(&self) -> &'static str {
        "Contradictory"
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        Ok(input.clone())
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Host(self)
    }
}

impl HostOp for Contradictory {
    fn apply(&self, _: HostSample<'_>, _: &mut [u8]) -> Result<(), BoxError> {
        Ok(())
    }

    fn output_size(&self) -> Option<Size> {
        Some(Size::new(SIZE.height, SIZE.width + 1))
    }
}

#[test]
fn an_output_size_that_contradicts_the_output_type_is_refused() {
    let image = ImageType::array(SIZE, 3, DType::U8);
    let error = ImagePlan::new(ops![Contradictory], image, NumberRule::Fused).unwrap_err();
    let want = "op 0 of the list (Contradictory): its images have the size 20x13, but its output is a u8 image \
                [13, 19, 3]";
    assert_eq!(error.to_string(), want);
}
