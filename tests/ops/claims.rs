//! What ops say of themselves is true. The planner believes it: an op that claims to do nothing is removed, one
//! that claims to be a matrix is multiplied with others, and one that claims not to blend may move masks. The
//! comparison of compiled code with its definition can't see a false claim, because both follow the same plan.

use crate::common::lists::{noise, view};
use fuseloop::internals::jit::evaluate;
use fuseloop::internals::plan::{Draws, ImagePlan};
use fuseloop_ops::author::*;
use fuseloop_ops::internals::SampleKey;
use fuseloop_ops::internals::registry::{
    ParamKind, SpecTable, SpecValue, build_ops, recipes, registry,
};
use fuseloop_ops::*;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The number of random instances of each recipe.
const INSTANCES: u64 = 40;

const SIZE: Size = Size::new(13, 19);

/// A random op, by the name of its recipe, and an image that it takes.
struct Instance {
    name: &'static str,
    op: Arc<dyn Op>,
    image: ImageType,
    key: SampleKey,
}

/// Random instances of all ops, for images of bytes and of floats, of one and of three channels.
fn instances() -> Vec<Instance> {
    let mut all = vec![];
    for (number, recipe) in (0..).zip(recipes()) {
        for seed in 0..INSTANCES {
            let key = SampleKey::new(seed, 0, number);
            let mut rng = key.op(0);
            let dtype = [DType::U8, DType::U8, DType::F32][rng.below(3) as usize];
            let channels = [1, 3, 3][rng.below(3) as usize];
            let image = ImageType::array(SIZE, channels, dtype);
            let Ok(op) = (recipe.draw)(&mut rng, &image) else { continue };
            let input = Type::Image(image);
            if op.output(&input).is_ok() {
                let op = op.for_input(&input).unwrap_or(op);
                all.push(Instance { name: recipe.name, op, image, key });
            }
        }
    }
    all
}

/// An op of which the planner can't know that it does nothing.
#[derive(Debug)]
struct Kept(Arc<dyn Op>);

impl Op for Kept {
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

/// Returns the bytes that a list makes of an image; `None` if it does not fit.
fn made(list: Ops, Instance { image, key, .. }: &Instance, pixels: &[u8]) -> Option<Vec<u8>> {
    let plan = ImagePlan::new(list, *image, NumberRule::Exact).ok()?;
    let mut draws = Draws::default();
    plan.draw(*key, SIZE, &mut draws);
    Some(evaluate(&plan, &view(&plan, pixels, SIZE), &draws))
}

#[test]
fn what_claims_to_do_nothing_does_nothing() {
    let mut names = BTreeSet::new();
    for instance in instances() {
        let Instance { name, op, image, key } = &instance;
        if !op.does_nothing(&Type::Image(*image)) {
            continue;
        }
        let pixels = noise(&mut key.op(1), SIZE, image);
        let kept: Arc<dyn Op> = Arc::new(Kept(Arc::clone(op)));
        let [one, other] = [Arc::clone(op), kept]
            .map(|op| made(vec![op, Arc::new(CenterCrop::new(SIZE).unwrap())], &instance, &pixels));
        // The op may be refused where it did something: a colour around an image of one channel.
        assert!(other.is_none() || one == other, "{name}: {op:?}");
        names.insert(*name);
    }
    assert!(names.len() > 20, "{names:?}");
}

/// The values of a pixel, whole numbers, and room for more channels.
fn pixel(rng: &mut Rng, channels: usize) -> Vec<f32> {
    let mut values: Vec<f32> = (0..channels).map(|_| rng.below(256) as f32).collect();
    values.resize(channels.max(4), 0.0);
    values
}

#[test]
fn claims_about_pixels_are_true() {
    let mut found: BTreeSet<(&str, &str)> = BTreeSet::new();
    for Instance { name, op: whole, image, key } in &instances() {
        let OpClass::Pixel(op) = whole.class() else { continue };
        let Ok(Type::Image(output)) = whole.output(&Type::Image(*image)) else { continue };
        let [before, after] = [image.channels, output.channels].map(usize::from);
        let mut params = vec![0.0; op.param_count()];
        let mut rng = key.op(1);
        let runs = op.draw(&mut rng, SIZE, &mut params);
        assert!(runs || op.may_skip(), "{name}: {op:?} is skipped");
        if op.statistic().is_some() {
            *params.last_mut().unwrap() = 117.0;
        }
        let eval = |rule, at, mut pixel: Vec<f32>| {
            let rest = pixel.split_off(before.max(after));
            op.eval(&Eval { at, ..Eval::new(rule, &params) }, &mut pixel);
            pixel.truncate(after);
            drop(rest);
            pixel
        };
        let (rule, at) = (NumberRule::Fused, [3, 5]);
        let old = pixel(&mut rng, before);
        let new = eval(rule, at, old.clone());
        let context = format!("{name}: {op:?}, {params:?}, {old:?} to {new:?}");
        let near = |a: f32, b: f32| (a - b).abs() <= 1e-4 * a.abs().max(b.abs()).max(1.0);
        if !op.uses_position() {
            assert_eq!(eval(rule, [4, 11], old.clone()), new, "{context}");
        }
        if op.is_identity(&params) {
            assert_eq!(new, old[..after], "{context}");
            found.insert(("identity", name));
        }
        if op.is_per_channel() {
            for channel in 0..after {
                let mut others = pixel(&mut rng, before);
                others[channel] = old[channel];
                assert_eq!(eval(rule, at, others)[channel], new[channel], "{context}");
            }
            found.insert(("per channel", name));
        }
        if let Some(selected) = op.selected_channels() {
            let copies: Vec<f32> = selected.iter().map(|&from| old[usize::from(from)]).collect();
            assert_eq!(new, copies, "{context}");
            found.insert(("selected", name));
        }
        if let Some(constants) = op.normalizes() {
            for (channel, (&old, &new)) in old.iter().zip(&new).enumerate() {
                let [m1, s1, s0, bias] = constants[channel % constants.len()];
                let d = old - m1;
                assert_eq!(d.mul_add(s1, d.mul_add(s0, bias)), new, "{context}");
            }
            found.insert(("normalizes", name));
        }
        if let (Some(rows), DType::U8, [3, 3]) = (op.matrix(&params), image.dtype, [before, after])
        {
            for (row, &new) in rows.iter().zip(&new) {
                let sum: f32 =
                    row.iter().zip([old[0], old[1], old[2], 1.0]).map(|(a, b)| a * b).sum();
                assert!(near(sum.clamp(0.0, 255.0), new), "{context}: {rows:?}");
            }
            found.insert(("matrix", name));
        }
    }
    for (claim, least) in
        [("identity", 1), ("per channel", 8), ("selected", 1), ("normalizes", 1), ("matrix", 7)]
    {
        let names: Vec<_> = found.iter().filter(|(of, _)| *of == claim).collect();
        assert!(names.len() >= least, "{claim}: {names:?}");
    }
}

#[test]
fn claims_about_tables_are_true() {
    let mut ops = 0;
    for Instance { name, op, image, key } in &instances() {
        let OpClass::Table(op) = op.class() else { continue };
        let mut params = vec![0.0; op.param_count()];
        let mut rng = key.op(1);
        let runs = op.draw(&mut rng, &mut params);
        assert!(runs || op.may_skip(), "{name}: {op:?} is skipped");
        let tables = |count: u32| {
            let mut histogram = [0; 256];
            (0..count).for_each(|level| histogram[(level * 7 % 256) as usize] += 1 + level);
            let channels = usize::from(image.channels);
            let mut out = vec![[f32::NAN; 256]; channels];
            op.table(NumberRule::Exact, &params, &vec![histogram; channels], &mut out);
            out
        };
        let one = tables(90);
        let is_level = |value: &f32| (0.0..=255.0).contains(value) && value.fract() == 0.0;
        assert!(one.as_flattened().iter().all(is_level), "{name}: {op:?}");
        assert!(op.needs_histogram() || one == tables(0), "{name}: {op:?} needs a histogram");
        ops += 1;
    }
    assert!(ops > INSTANCES, "{ops}");
}

/// A geometry op that does not blend copies pixels, or fills with one colour.
#[test]
fn what_claims_not_to_blend_gives_no_new_values() {
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
        let list = vec![Arc::clone(op), Arc::new(CenterCrop::new(24).unwrap())];
        let Some(bytes) = made(list, &instance, &pixels) else { continue };
        for channel in 0..channels {
            let values = bytes.iter().skip(channel).step_by(channels);
            // The two values, the fill of the op and that of the crop.
            let values: BTreeSet<&u8> =
                values.filter(|value| ![0, 7, 201].contains(*value)).collect();
            assert!(values.len() <= 1, "{name}: {op:?} made {values:?}");
        }
        names.insert(*name);
    }
    assert!(names.len() > 22, "{names:?}");
}

/// Masks may follow every op that moves pixels, if it takes the nearest pixel.
#[test]
fn ops_blend_unless_they_take_the_nearest_pixel() {
    let mut of_both = 0;
    for info in registry() {
        let with = |word: &str| {
            let mut values = vec![("op", SpecValue::from(info.name))];
            let example = |need| match need {
                internals::registry::ParamDefault::Required(example) => Some(example),
                _ => None,
            };
            let required =
                info.params.iter().filter_map(|param| Some((param.name, example(param.need)?)));
            values.extend(required.map(|(name, example)| (name, example.value())));
            values.push(("interpolation", SpecValue::from(word)));
            build_ops(&SpecValue::from(vec![SpecValue::from(SpecTable::from_iter(values))]))
                .unwrap()
        };
        let has = |word: &str| {
            info.params.iter().any(|param| param.name == word && param.kind != ParamKind::Ops)
        };
        if !has("interpolation") {
            continue;
        }
        for (word, blends) in [("nearest", false), ("bilinear", true)] {
            let list = with(word);
            let OpClass::Geometry(op) = list[0].class() else { continue };
            // An op that resizes only if it is asked to crops by default.
            let blends = blends && info.name != "CenterCrop";
            assert_eq!(op.blends(), blends, "{}, {word}", info.name);
            of_both += 1;
        }
    }
    assert!(of_both >= 18, "{of_both}");
}

/// Consecutive matrices become their product, which is the same where nothing leaves the range of levels.
#[test]
fn a_product_of_matrices_is_what_they_do_one_after_another() {
    let weak = [[0.5, 0.1, 0.2, 3.0], [0.1, 0.4, 0.2, 11.0], [0.3, 0.05, 0.5, 1.0]];
    let other = [[0.2, 0.4, 0.1, 20.0], [0.1, 0.6, 0.2, 0.0], [0.7, 0.1, 0.05, 9.0]];
    let list = ops![
        ColorMatrix::new(weak).unwrap(),
        PermuteChannels::new([2, 0, 1]).unwrap(),
        ColorMatrix::new(other).unwrap(),
        Convert::to(DType::F32),
    ];
    let image = ImageType::array(SIZE, 3, DType::U8);
    let key = SampleKey::new(1, 0, 0);
    let pixels = noise(&mut key.op(1), SIZE, &image);
    let [one, other] = [NumberRule::Fused, NumberRule::Relaxed].map(|rule| {
        let plan = ImagePlan::new(list.clone(), image, rule).unwrap();
        let mut draws = Draws::default();
        plan.draw(key, SIZE, &mut draws);
        let bytes = evaluate(&plan, &view(&plan, &pixels, SIZE), &draws);
        let floats = bytes.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
        floats.collect::<Vec<f32>>()
    });
    assert!(one.iter().zip(&other).all(|(a, b)| (a - b).abs() < 1e-3));
    assert_ne!(one, other, "the matrices were not multiplied");
}

/// An op of a user whose two methods contradict each other.
#[derive(Debug)]
struct Contradicting;

impl Op for Contradicting {
    fn name(&self) -> &'static str {
        "Contradicting"
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        Ok(input.clone())
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Host(self)
    }
}

impl HostOp for Contradicting {
    fn apply(&self, _: HostSample<'_>, _: &mut [u8]) -> Result<(), BoxError> {
        Ok(())
    }

    fn output_size(&self) -> Option<Size> {
        Some(Size::new(SIZE.height, SIZE.width + 1))
    }
}

#[test]
fn a_size_that_is_not_the_output_types_is_refused() {
    let image = ImageType::array(SIZE, 3, DType::U8);
    let error = ImagePlan::new(ops![Contradicting], image, NumberRule::Fused).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("its images have the size 13x20, but its output is a u8 image [13, 19, 3]"),
        "{error}"
    );
}
