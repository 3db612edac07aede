//! Random lists of ops, and the comparison of their outputs.

use super::random_ops;
use fuseloop::internals::plan::ImagePlan;
use fuseloop_ops::author::{ImageType, Layout, Rng, Type};
use fuseloop_ops::internals::{DTYPES, ElementValue, ImageView, PixelFormat};
use fuseloop_ops::*;
use std::sync::Arc;

/// The maximum number of pixels of an image between two ops, because the oracle computes all of them.
const MOST_PIXELS: u64 = 500_000;

/// A list that a plan accepts.
#[derive(Clone, Debug)]
pub struct List {
    pub ops: Ops,
    pub input: ImageType,
    pub rule: NumberRule,
    pub streams: bool,
}

impl List {
    /// A random list of at most `most` named ops for images of `size`, and the ops' names.
    pub fn random(rng: &mut Rng, size: Size, most: u32) -> (Self, Vec<&'static str>) {
        let channels = [1, 2, 3, 3, 3, 3, 4, 1, 5, 13][rng.below(10) as usize];
        use DType::{Bf16, F16, F32, I16, U8, U16};
        let dtypes = [U8, U8, U8, U8, U8, U8, U8, U8, U16, I16, F16, Bf16, F32, F32];
        let dtype = dtypes[rng.below(dtypes.len() as u32) as usize];
        let layout = match channels {
            1 if rng.coin(0.5) => Layout::Plane,
            5.. if rng.coin(0.5) => Layout::ChannelsFirst,
            _ => Layout::ChannelsLast,
        };
        let input = ImageType { layout, ..ImageType::array(size, channels, dtype) };
        let rules = [NumberRule::Exact, NumberRule::Fused, NumberRule::Relaxed];
        let rule = rules[rng.below(3) as usize];
        loop {
            let (ops, names) = random_ops_of(rng, input, most);
            let list = Self { ops, input, rule, streams: rng.coin(0.3) };
            if list.plan().is_some() {
                return (list, names);
            }
        }
    }

    /// Returns the plan; `None` if the ops are not accepted.
    pub fn plan(&self) -> Option<ImagePlan> {
        let plan = ImagePlan::new(self.ops.clone(), self.input, self.rule).ok()?;
        Some(if self.streams { plan.streaming() } else { plan })
    }

    /// Returns the shortest list that still fails, found by removing ops one by one for as long as possible.
    pub fn shortest(mut self, fails: impl Fn(&Self) -> bool) -> Self {
        let mut index = 0;
        while index < self.ops.len() {
            let mut shorter = self.clone();
            shorter.ops.remove(index);
            if shorter.plan().is_some() && fails(&shorter) {
                (self, index) = (shorter, 0);
            } else {
                index += 1;
            }
        }
        self
    }
}

fn random_ops_of(rng: &mut Rng, input: ImageType, most: u32) -> (Ops, Vec<&'static str>) {
    let all = random_ops::names();
    let (mut names, mut ops) = (vec![], Ops::new());
    let mut before = input;
    for _ in 0..rng.below(most + 1) {
        let name = all[rng.below(all.len() as u32) as usize];
        let op = random_ops::op(name, rng, &before);
        if let Ok(Type::Image(after)) = op.output(&Type::Image(before))
            && u64::from(after.height.max) * u64::from(after.width.max) <= MOST_PIXELS
        {
            before = after;
            ops.push(op);
            names.push(name);
        }
    }
    if before.size().is_none() {
        // The images of a batch share a size, which a list with rotations or zooms seldom has without a crop.
        let (height, width) = (1 + rng.below(60), 1 + rng.below(90));
        ops.push(Arc::new(CenterCrop::new((height, width)).unwrap()));
    }
    if rng.coin(0.2) {
        let as_large = |to: &&DType| to.bytes() == before.dtype.bytes();
        let types: Vec<&DType> = DTYPES.iter().filter(as_large).collect();
        ops.push(Arc::new(View::new(*types[rng.below(types.len() as u32) as usize])));
    }
    match rng.below(4) {
        0 => ops.push(Arc::new(ToChannelsLast)),
        1 => {}
        _ => ops.push(Arc::new(ToChannelsFirst)),
    }
    (ops, names)
}

/// The pixels of an image: noise, or sometimes one value.
pub fn noise(rng: &mut Rng, size: Size, input: &ImageType) -> Vec<u8> {
    let flat = rng.coin(0.1);
    let mut element = element(rng, input.dtype);
    let mut pixels = vec![];
    for _ in 0..size.pixels() * u64::from(input.channels) {
        pixels.extend_from_slice(&element);
        if !flat {
            element = self::element(rng, input.dtype);
        }
    }
    pixels
}

/// The bytes of a random element. Of the floats, some are no numbers, infinite, or very small.
fn element(rng: &mut Rng, dtype: DType) -> Vec<u8> {
    if matches!(dtype, DType::U8 | DType::U16 | DType::I16) {
        return rng.word().to_le_bytes()[..dtype.bytes()].to_vec();
    }
    let value = match rng.below(64) {
        0 => f32::from_bits(rng.word()),
        1 => [f32::NAN, f32::INFINITY, -f32::INFINITY, -0.0][rng.below(4) as usize],
        2 => rng.uniform(-1e-6, 1e-6),
        3..32 => rng.uniform(-0.1, 1.1),
        _ => rng.uniform(-300.0, 300.0),
    };
    ElementValue::from(value).converted(dtype).bytes().collect()
}

/// The view of the pixels that [`noise`] makes for a plan.
pub fn view<'a>(plan: &ImagePlan, pixels: &'a [u8], size: Size) -> ImageView<'a> {
    let ImageType { channels, dtype, layout, .. } = plan.input();
    let format = PixelFormat { channels: channels.into(), dtype };
    match layout {
        Layout::ChannelsFirst => ImageView::planes(pixels, size, format).unwrap(),
        _ => ImageView::packed_format(pixels, size, format).unwrap(),
    }
}

/// Returns true if an element is a float that is no number. Its other bits are not promised.
fn is_nan(dtype: DType, bytes: &[u8]) -> bool {
    let is_float = matches!(dtype, DType::F16 | DType::Bf16 | DType::F32 | DType::F64);
    is_float && ElementValue::from_bytes(dtype, bytes).to_f32().is_nan()
}

/// A description of the first difference between two outputs.
pub fn first_difference(plan: &ImagePlan, got: &[u8], want: &[u8]) -> Option<String> {
    let width = plan.dtype().bytes();
    let (dtype, mut both) = (plan.stored_dtype(), got.chunks(width).zip(want.chunks(width)));
    let differ = |(a, b): &(&[u8], &[u8])| a != b && !(is_nan(dtype, a) && is_nan(dtype, b));
    let count = both.clone().filter(differ).count();
    let index = both.position(|pair| differ(&pair))?;
    let at = index * width..(index + 1) * width;
    Some(format!(
        "element {index} of {:?} is {:?}, should be {:?} ({count} differ)",
        plan.shape(),
        &got[at.clone()],
        &want[at]
    ))
}
