//! Ops as plain Rust on bytes, each a separate pass over memory, compiled by rustc for a CPU with
//! AVX2: the way a library of ops processes an image.
//!
//! Values are truncated to bytes after each pass, as torchvision does on u8 tensors, so a list of
//! passes returns the oracle's result under [`NumberRule::Exact`]. Working memory is reused from
//! call to call.
//!
//! Warps, blurs and sharpness use the ops' own fast rows ([`Pass::Rows`]), a whole image at a time:
//! comparing with them shows only the gain from fusing. The passes of a 3x3 kernel and of a
//! rotation are separate loops, to compare the rows themselves.

#![allow(dead_code, reason = "each benchmark takes what it needs of it")]
#![allow(unsafe_code, reason = "a call of a function compiled for AVX2")]

use fuseloop::internals::plan::{Draws, FlatOp, ImagePlan};
use fuseloop_ops::author::{GeometryStep, Op, OpClass, PixelOp, Window};
use fuseloop_ops::internals::ImageView;
use fuseloop_ops::internals::rows::{RowFilter, RowScratch};
use fuseloop_ops::*;
use std::sync::Arc;

/// ImageNet's means and standard deviations of red, green and blue, for values in 0..=255.
pub(crate) const MEAN: [f64; 3] = [0.485 * 255.0, 0.456 * 255.0, 0.406 * 255.0];
pub(crate) const STD: [f64; 3] = [0.229 * 255.0, 0.224 * 255.0, 0.225 * 255.0];

/// The weights of red, green and blue in grey.
const GREY: [f32; 3] = [0.2989, 0.587, 0.114];

/// One op on one image, with its drawn parameters.
#[derive(Clone, Debug)]
pub(crate) enum Pass {
    Frame {
        top: i32,
        left: i32,
        size: Size,
        fill: [u8; 3],
    },
    FlipHorizontal,
    FlipVertical,
    Rows(RowFilter),
    Brightness {
        factor: f32,
    },
    Contrast {
        factor: f32,
        rest: f32,
    },
    Saturation {
        factor: f32,
        rest: f32,
    },
    Grayscale,
    Invert,
    Posterize {
        mask: u8,
    },
    Solarize {
        threshold: f32,
    },
    Matrix([[f32; 4]; 3]),
    Permute([usize; 3]),
    Fill {
        window: Window,
        color: [u8; 3],
    },
    Table {
        op: Arc<dyn Op>,
        params: Vec<f32>,
    },
    /// The weights of nine pixels, which sum to 1: the weights along a column times the weights
    /// along a row.
    Kernel3 {
        weights: [f32; 3],
    },
    Sharpen3 {
        weight: f32,
    },
    /// The inverse matrix of a rotation, and a flag: bilinear (four weighted pixels) or nearest.
    Rotate {
        matrix: [f64; 6],
        is_bilinear: bool,
    },
    Mix {
        keep: f32,
        chains: Vec<(f32, Vec<Pass>)>,
    },
}

/// Buffers that are reused from image to image.
#[derive(Default)]
pub(crate) struct Memory {
    bytes: [Vec<u8>; 2],
    floats: Vec<f32>,
    sums: Vec<f32>,
    rows: RowScratch,
    /// Buffers for the chains of a mix.
    inner: Option<Box<Self>>,
}

/// Returns the passes for everything that `plan` does to a sample before it normalizes. `None` if
/// an op has no pass.
pub(crate) fn passes(plan: &ImagePlan, draws: &Draws) -> Option<Vec<Pass>> {
    let mut passes = vec![];
    for (index, leaf) in plan.flat_ops().iter().enumerate().filter(|(leaf, _)| draws.active[*leaf])
    {
        if leaf.op.name() == "Normalize" {
            break;
        }
        passes.extend(leaf_passes(index, leaf, draws)?);
    }
    Some(passes)
}

fn leaf_passes(index: usize, leaf: &FlatOp, draws: &Draws) -> Option<Vec<Pass>> {
    Some(match leaf.op.class() {
        OpClass::Geometry(_) => {
            let motions = draws.geometry.iter().filter(|(of, _)| *of == index);
            return motions.map(|(_, motion)| motion_pass(motion)).collect();
        }
        OpClass::Pixel(op) => {
            vec![pixel_pass(leaf.op.name(), &draws.params[leaf.first_param..], op)?]
        }
        OpClass::Table(op) => {
            let params =
                draws.params[leaf.first_param..leaf.first_param + op.param_count()].to_vec();
            vec![Pass::Table { op: Arc::clone(&leaf.op), params }]
        }
        OpClass::Region(op) => {
            let windows = draws.windows.iter().filter(|(of, _)| *of == index);
            let color = op.fill().map(|v| v as u8);
            windows.map(|(_, window)| Pass::Fill { window: *window, color }).collect()
        }
        OpClass::Mix(_) => {
            let (_, mixed) = draws.mixes.iter().find(|(of, _)| *of == index)?;
            let plan = leaf.step.as_ref()?;
            let mut steps = mixed.steps.iter();
            let mut chain = |&(weight, length): &(f32, u32)| {
                let steps = steps.by_ref().take(length as usize);
                let passes: Option<Vec<_>> = steps.map(|draws| passes(plan, draws)).collect();
                Some((weight, passes?.concat()))
            };
            let chains: Option<Vec<_>> = mixed.mixture.chains.iter().map(&mut chain).collect();
            vec![Pass::Mix { keep: mixed.mixture.keep, chains: chains? }]
        }
        _ => return None,
    })
}

fn motion_pass(motion: &GeometryStep) -> Option<Pass> {
    Some(match motion {
        GeometryStep::CropPad { top, left, size, fill } => {
            Pass::Frame { top: *top, left: *left, size: *size, fill: *fill }
        }
        GeometryStep::FlipHorizontal => Pass::FlipHorizontal,
        GeometryStep::FlipVertical => Pass::FlipVertical,
        GeometryStep::Rows(filter) => Pass::Rows(filter.clone()),
        GeometryStep::Resize { .. } | GeometryStep::ResizePart { .. } => return None,
    })
}

/// Returns the pass of a pixel op, by the op's name in a user's list or in a policy.
fn pixel_pass(name: &str, params: &[f32], op: &dyn PixelOp) -> Option<Pass> {
    Some(match name {
        "RandomBrightness" | "Brightness" => Pass::Brightness { factor: params[0] },
        "RandomContrast" | "Contrast" => Pass::Contrast { factor: params[0], rest: params[1] },
        "RandomSaturation" | "Color" => Pass::Saturation { factor: params[0], rest: params[1] },
        "Grayscale" => Pass::Grayscale,
        "RandomInvert" if params[0] < 0.0 => Pass::Invert,
        "RandomPosterize" | "Posterize" => Pass::Posterize { mask: posterized_bits(params[1]) },
        "RandomSolarize" | "Solarize" => Pass::Solarize { threshold: params[0] },
        "ColorMatrix" => Pass::Matrix(op.matrix(params)?),
        _ => return None,
    })
}

/// Returns the mask of the bits that remain if levels are `step` apart: a power of two, or less
/// than 1.
fn posterized_bits(step: f32) -> u8 {
    !(step as u32).saturating_sub(1).to_le_bytes()[0]
}

/// Runs the passes on an image; returns the result and its size.
pub(crate) fn run<'a>(
    passes: &[Pass],
    source: &[u8],
    size: Size,
    memory: &'a mut Memory,
) -> (&'a [u8], Size) {
    assert!(is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"));
    // SAFETY: the CPU has AVX2 and FMA, and every CPU with them has the others.
    let size = unsafe { run_all(passes, source, size, memory) };
    (&memory.bytes[0], size)
}

/// The same as [`run`], then normalizes and moves the channels first.
pub(crate) fn run_normalized(
    passes: &[Pass],
    source: &[u8],
    size: Size,
    memory: &mut Memory,
    out: &mut [f32],
) {
    assert!(is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"));
    // SAFETY: the same as in `run`.
    unsafe {
        run_all(passes, source, size, memory);
        normalize(&memory.bytes[0], &mut memory.floats, out);
    }
}

#[target_feature(enable = "avx2,fma,bmi1,bmi2,f16c,lzcnt,movbe,popcnt")]
fn normalize(picture: &[u8], floats: &mut Vec<f32>, out: &mut [f32]) {
    normalize_bytes(picture, floats);
    to_planes(floats, out);
}

/// Leaves the image in the first of the memory's buffers.
#[target_feature(enable = "avx2,fma,bmi1,bmi2,f16c,lzcnt,movbe,popcnt")]
fn run_all(passes: &[Pass], source: &[u8], mut size: Size, memory: &mut Memory) -> Size {
    let [mut from, mut to] = std::mem::take(&mut memory.bytes);
    for (index, pass) in passes.iter().enumerate() {
        let picture = if index == 0 { source } else { &from };
        size = run_one(pass, picture, size, &mut to, memory);
        std::mem::swap(&mut from, &mut to);
    }
    if passes.is_empty() {
        from.clear();
        from.extend_from_slice(source);
    }
    memory.bytes = [from, to];
    size
}

#[target_feature(enable = "avx2,fma,bmi1,bmi2,f16c,lzcnt,movbe,popcnt")]
fn run_one(pass: &Pass, from: &[u8], size: Size, to: &mut Vec<u8>, memory: &mut Memory) -> Size {
    let width = size.width as usize;
    match pass {
        Pass::Frame { top, left, size: framed, fill } => {
            frame(from, size, [*top, *left], *framed, *fill, to);
            return *framed;
        }
        Pass::FlipHorizontal => flip(width, from, to),
        Pass::FlipVertical => {
            to.clear();
            from.chunks_exact(3 * width).rev().for_each(|row| to.extend_from_slice(row));
        }
        Pass::Rows(filter) => return rows(filter, from, size, to, &mut memory.rows),
        Pass::Brightness { factor } => each(from, to, |v| truncated(f32::from(v) * factor)),
        Pass::Contrast { factor, rest } => contrast(*factor, *rest, from, to),
        Pass::Saturation { factor, rest } => each_pixel(from, to, |pixel| {
            let grey = grey(pixel).trunc();
            pixel.map(|v| truncated(grey.mul_add(*rest, f32::from(v) * factor)))
        }),
        Pass::Grayscale => each_pixel(from, to, |pixel| [truncated(grey(pixel)); 3]),
        Pass::Invert => each(from, to, |v| !v),
        Pass::Posterize { mask } => each(from, to, |v| v & mask),
        Pass::Solarize { threshold } => {
            // The smallest level that is inverted; 256 if none is.
            let first = threshold.ceil().clamp(0.0, 256.0) as u16;
            each(from, to, |v| if u16::from(v) < first { v } else { !v });
        }
        Pass::Matrix(rows) => each_pixel(from, to, |pixel| {
            let [r, g, b] = pixel.map(f32::from);
            rows.map(|[x, y, z, add]| truncated(x.mul_add(r, y.mul_add(g, z.mul_add(b, add)))))
        }),
        Pass::Permute(order) => each_pixel(from, to, |pixel| order.map(|channel| pixel[channel])),
        Pass::Fill { window, color } => fill(from, width, *window, *color, to),
        Pass::Table { op, params } => table(&**op, params, from, to),
        Pass::Kernel3 { weights } => kernel3(*weights, from, size, to, &mut memory.sums),
        Pass::Sharpen3 { weight } => sharpen3(*weight, from, width, to),
        Pass::Rotate { matrix, is_bilinear } => rotate(*matrix, *is_bilinear, from, size, to),
        Pass::Mix { keep, chains } => mix(*keep, chains, from, size, to, memory),
    }
    size
}

#[inline(always)]
fn frame(from: &[u8], of: Size, corner: [i32; 2], size: Size, fill: [u8; 3], to: &mut Vec<u8>) {
    let [top, left] = corner.map(i64::from);
    let (width, height) = (i64::from(of.width), i64::from(of.height));
    let columns = i64::from(size.width);
    let (first, end) = ((-left).clamp(0, columns), (width - left).clamp(0, columns));
    to.clear();
    for y in top..top + i64::from(size.height) {
        if y < 0 || y >= height || first >= end {
            (0..columns).for_each(|_| to.extend_from_slice(&fill));
            continue;
        }
        let start = 3 * (y * width + left + first) as usize;
        (0..first).for_each(|_| to.extend_from_slice(&fill));
        to.extend_from_slice(&from[start..][..3 * (end - first) as usize]);
        (end..columns).for_each(|_| to.extend_from_slice(&fill));
    }
}

#[inline(always)]
pub(crate) fn flip(width: usize, from: &[u8], to: &mut Vec<u8>) {
    to.resize(from.len(), 0);
    for (to, from) in to.chunks_exact_mut(3 * width).zip(from.chunks_exact(3 * width)) {
        let pixels = from.as_chunks::<3>().0.iter().rev();
        to.as_chunks_mut::<3>().0.iter_mut().zip(pixels).for_each(|(to, from)| *to = *from);
    }
}

#[inline(always)]
fn rows(
    filter: &RowFilter,
    from: &[u8],
    size: Size,
    to: &mut Vec<u8>,
    scratch: &mut RowScratch,
) -> Size {
    let made = filter.output(size);
    to.resize(made.pixels() as usize * 3, 0);
    let view = ImageView::packed(from, size).expect("a picture is of its size");
    let mut rows = filter.rows(view, 0..made.width, scratch).expect("memory for a few rows");
    for (y, row) in to.chunks_exact_mut(3 * made.width as usize).enumerate() {
        rows.row(y as u32, row);
    }
    made
}

#[inline(always)]
fn each(from: &[u8], to: &mut Vec<u8>, change: impl Fn(u8) -> u8) {
    to.resize(from.len(), 0);
    to.iter_mut().zip(from).for_each(|(to, from)| *to = change(*from));
}

#[inline(always)]
fn each_pixel(from: &[u8], to: &mut Vec<u8>, change: impl Fn([u8; 3]) -> [u8; 3]) {
    to.resize(from.len(), 0);
    let (to, from) = (to.as_chunks_mut::<3>().0, from.as_chunks::<3>().0);
    to.iter_mut().zip(from).for_each(|(to, from)| *to = change(*from));
}

/// Clamps to 0..=255, then truncates to an integer.
#[inline(always)]
fn truncated(v: f32) -> u8 {
    let v = if v < 255.0 { v } else { 255.0 };
    let v = if v > 0.0 { v } else { 0.0 };
    // SAFETY: `v` is in 0..=255: NaN has become 255 above. A cast with `as` would check the range
    // again; the unchecked conversion is a single instruction.
    unsafe { v.to_int_unchecked::<i32>() as u8 }
}

#[inline(always)]
fn grey(pixel: [u8; 3]) -> f32 {
    let [r, g, b] = pixel.map(f32::from);
    b.mul_add(GREY[2], g.mul_add(GREY[1], r * GREY[0]))
}

#[inline(always)]
fn contrast(factor: f32, rest: f32, from: &[u8], to: &mut Vec<u8>) {
    let pixels = from.as_chunks::<3>().0;
    let sum: u32 = pixels.iter().map(|pixel| u32::from(truncated(grey(*pixel)))).sum();
    let mean = sum as f32 / pixels.len() as f32;
    each(from, to, |v| truncated(mean.mul_add(rest, f32::from(v) * factor)));
}

#[inline(always)]
fn fill(from: &[u8], width: usize, window: Window, color: [u8; 3], to: &mut Vec<u8>) {
    to.clear();
    to.extend_from_slice(from);
    let [top, left, rows, columns] =
        [window.top, window.left, window.height, window.width].map(|n| n as usize);
    for row in to.chunks_exact_mut(3 * width).skip(top).take(rows) {
        row[3 * left..3 * (left + columns)].as_chunks_mut::<3>().0.fill(color);
    }
}

#[inline(always)]
fn table(op: &dyn Op, params: &[f32], from: &[u8], to: &mut Vec<u8>) {
    let OpClass::Table(op) = op.class() else { return };
    let mut levels = [[0; 256]; 3];
    if op.needs_histogram() {
        for pixel in from.as_chunks::<3>().0 {
            (0..3).for_each(|c| levels[c][usize::from(pixel[c])] += 1);
        }
    }
    let mut values = [[0.0; 256]; 3];
    op.table(NumberRule::Exact, params, &levels, &mut values);
    let values = values.map(|channel| channel.map(|v| v as u8));
    each_pixel(from, to, |pixel| std::array::from_fn(|c| values[c][usize::from(pixel[c])]));
}

/// Convolves along the columns into a row of sums, then along the row; the image is reflected at
/// its edges.
#[inline(always)]
fn kernel3(weights: [f32; 3], from: &[u8], size: Size, to: &mut Vec<u8>, sums: &mut Vec<f32>) {
    let (bytes, height) = (3 * size.width as usize, size.height as usize);
    let [first, middle, last] = weights;
    to.resize(from.len(), 0);
    sums.resize(bytes + 6, 0.0);
    for (y, out) in to.chunks_exact_mut(bytes).enumerate() {
        let below = if y + 1 < height { y + 1 } else { height.saturating_sub(2) };
        let above = if y > 0 { y - 1 } else { 1.min(height - 1) };
        let [above, here, below] = [above, y, below].map(|y| &from[y * bytes..][..bytes]);
        let taps = above.iter().zip(here).zip(below);
        for (sum, ((a, h), b)) in sums[3..].iter_mut().zip(taps) {
            let [a, h, b] = [*a, *h, *b].map(f32::from);
            *sum = b.mul_add(last, h.mul_add(middle, a * first));
        }
        for c in 0..3 {
            sums[c] = sums[6 + c];
            sums[bytes + 3 + c] = sums[bytes - 3 + c];
        }
        let taps = sums[..bytes].iter().zip(&sums[3..][..bytes]).zip(&sums[6..][..bytes]);
        for (out, ((l, h), r)) in out.iter_mut().zip(taps) {
            *out = truncated(r.mul_add(last, h.mul_add(middle, l * first)) + 0.5);
        }
    }
}

#[inline(always)]
fn sharpen3(weight: f32, from: &[u8], width: usize, to: &mut Vec<u8>) {
    let bytes = 3 * width;
    to.clear();
    to.extend_from_slice(from);
    let rows = to.chunks_exact_mut(bytes).skip(1).zip(from.windows(3 * bytes).step_by(bytes));
    for (out, three) in rows {
        let inner = bytes - 6;
        let tap = |y: usize, x: usize| &three[y * bytes + 3 * x..][..inner];
        let out = &mut out[3..][..inner];
        let taps: [&[u8]; 9] = std::array::from_fn(|i| tap(i / 3, i % 3));
        for (i, out) in out.iter_mut().enumerate() {
            let here = taps[4][i];
            let sum = taps.iter().map(|tap| u16::from(tap[i])).sum::<u16>() + 4 * u16::from(here);
            let blurred = f32::from((2 * sum + 13) / 26);
            let here = f32::from(here);
            *out = truncated((blurred - here).mul_add(weight, here));
        }
    }
}

/// Applies the formulas of `rows/map.rs` and `rows/warp.rs` pixel by pixel; outside is black.
#[inline(always)]
fn rotate(matrix: [f64; 6], is_bilinear: bool, from: &[u8], size: Size, to: &mut Vec<u8>) {
    let half = [size.width, size.height].map(|side| side as f32 / 2.0);
    let [xx, xy, xc, yx, yy, yc] = matrix.map(|m| m as f32);
    let across = [xx, xy, xc].map(|m| m / half[0]);
    let down = [yx, yy, yc].map(|m| m / half[1]);
    let coordinate = |[p, q, r]: [f32; 3], x: f32, y: f32, half: f32| {
        (y.mul_add(q, x * p) + r + 1.0) * half - 0.5
    };
    let pixels = from.as_chunks::<3>().0;
    let pixel = |y: i32, x: i32| {
        let is_inside = (x as u32) < size.width && (y as u32) < size.height;
        if is_inside { pixels[y as usize * size.width as usize + x as usize] } else { [0; 3] }
    };
    to.resize(from.len(), 0);
    for (i, out) in to.as_chunks_mut::<3>().0.iter_mut().enumerate() {
        let x = (i as u32 % size.width) as f32 + 0.5 - half[0];
        let y = (i as u32 / size.width) as f32 + 0.5 - half[1];
        let [x, y] = [coordinate(across, x, y, half[0]), coordinate(down, x, y, half[1])];
        *out = if is_bilinear {
            four(x, y, pixel)
        } else {
            pixel(y.round_ties_even() as i32, x.round_ties_even() as i32)
        };
    }
}

/// Returns the weighted sum of the four pixels around a position.
#[inline(always)]
fn four(x: f32, y: f32, pixel: impl Fn(i32, i32) -> [u8; 3]) -> [u8; 3] {
    let (left, top) = (x.floor(), y.floor());
    let (e, s) = (x - left, y - top);
    let (left, top) = (left as i32, top as i32);
    let [nw, ne] = [pixel(top, left), pixel(top, left + 1)];
    let [sw, se] = [pixel(top + 1, left), pixel(top + 1, left + 1)];
    let weights = [(1.0 - e) * (1.0 - s), e * (1.0 - s), (1.0 - e) * s, e * s];
    std::array::from_fn(|c| {
        let [nw, ne, sw, se] = [nw[c], ne[c], sw[c], se[c]].map(f32::from);
        let sum = ne.mul_add(weights[1], nw * weights[0]);
        let sum = se.mul_add(weights[3], sw.mul_add(weights[2], sum));
        truncated(sum.round_ties_even())
    })
}

/// Returns the weighted sum of an image and of the results of several chains of passes on it.
#[inline(always)]
fn mix(
    keep: f32,
    chains: &[(f32, Vec<Pass>)],
    from: &[u8],
    size: Size,
    to: &mut Vec<u8>,
    memory: &mut Memory,
) {
    let Memory { sums, inner, .. } = memory;
    let inner = inner.get_or_insert_default();
    sums.resize(from.len(), 0.0);
    sums.iter_mut().zip(from).for_each(|(sum, v)| *sum = f32::from(*v) * keep);
    for (weight, passes) in chains {
        let (made, _) = run(passes, from, size, inner);
        sums.iter_mut().zip(made).for_each(|(sum, v)| *sum += f32::from(*v) * weight);
    }
    to.resize(from.len(), 0);
    to.iter_mut().zip(sums).for_each(|(to, sum)| *to = truncated(*sum));
}

#[inline(always)]
pub(crate) fn normalize_bytes(picture: &[u8], to: &mut Vec<f32>) {
    to.resize(picture.len(), 0.0);
    let (mean, scale) = (MEAN.map(|m| m as f32), STD.map(|s| (1.0 / s) as f32));
    for (to, from) in to.as_chunks_mut::<3>().0.iter_mut().zip(picture.as_chunks::<3>().0) {
        for c in 0..3 {
            to[c] = (f32::from(from[c]) - mean[c]) * scale[c];
        }
    }
}

#[inline(always)]
pub(crate) fn to_planes(picture: &[f32], out: &mut [f32]) {
    let pixels = picture.as_chunks::<3>().0;
    for (c, plane) in out.chunks_exact_mut(pixels.len()).enumerate() {
        plane.iter_mut().zip(pixels).for_each(|(to, pixel)| *to = pixel[c]);
    }
}
