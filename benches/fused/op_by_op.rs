//! The same ops in plain Rust, each a separate pass over memory: the way a library of ops works.
//!
//! rustc compiles every function twice: for any x86-64 ([`baseline`]) and for a CPU with AVX2
//! ([`native`], as `-C target-cpu=native` would). Working memory is reused from call to call.
//! Products are added without fma, which the baseline lacks, so results differ in the last digits.

#![allow(unsafe_code, reason = "calls of functions compiled for AVX2")]

use super::recipe::{Recipe, SIDE};
use crate::plain::{MEAN, STD, flip, normalize_bytes, to_planes};

/// The images between two ops.
#[derive(Default)]
pub(crate) struct Between {
    bytes: [Vec<u8>; 2],
    floats: Vec<f32>,
}

/// A shift, a square and a coin: the draws for a 32x32 image.
#[derive(Clone, Copy)]
pub(crate) struct Small {
    pub(crate) side: usize,
    pub(crate) flipped: bool,
    pub(crate) shift: [i32; 2],
    pub(crate) hole: [usize; 4],
}

macro_rules! twice {
    ($($name:ident($($arg:ident: $ty:ty),*) = $steps:ident;)*) => {
        pub(crate) mod baseline {
            use super::*;
            $(pub(crate) fn $name($($arg: $ty),*) { super::$steps($($arg),*); })*
        }
        pub(crate) mod native {
            use super::*;
            $(pub(crate) fn $name($($arg: $ty),*) {
                #[target_feature(enable = "avx2,fma,bmi1,bmi2,f16c,lzcnt,movbe,popcnt")]
                fn inner($($arg: $ty),*) { super::$steps($($arg),*); }
                assert!(is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma"));
                // SAFETY: the CPU has AVX2 and FMA, and every CPU with them has the others.
                unsafe { inner($($arg),*) }
            })*
        }
    };
}

twice! {
    large(recipe: &Recipe, source: &[u8], between: &mut Between, out: &mut [f32]) = large_steps;
    small(small: Small, source: &[u8], between: &mut Between, out: &mut [f32]) = small_steps;
}

#[inline(always)]
fn large_steps(recipe: &Recipe, source: &[u8], between: &mut Between, out: &mut [f32]) {
    let Between { bytes: [a, b], floats } = between;
    crop(recipe, source, a);
    let picture = if recipe.flipped {
        flip(SIDE, a, b);
        b
    } else {
        a
    };
    match recipe.order {
        None => normalize_bytes(picture, floats),
        Some(order) => {
            floats.resize(picture.len(), 0.0);
            floats.iter_mut().zip(picture.iter()).for_each(|(f, v)| *f = f32::from(*v));
            for part in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]][order] {
                jitter(recipe, part, floats);
            }
            normalize_floats(floats);
        }
    }
    to_planes(floats, out);
}

#[inline(always)]
fn small_steps(small: Small, source: &[u8], between: &mut Between, out: &mut [f32]) {
    let Between { bytes: [a, b], floats } = between;
    if small.flipped {
        flip(small.side, source, a);
    } else {
        a.clear();
        a.extend_from_slice(source);
    }
    translate(&small, a, b);
    cut(&small, b);
    normalize_bytes(b, floats);
    to_planes(floats, out);
}

#[inline(always)]
fn crop(recipe: &Recipe, source: &[u8], to: &mut Vec<u8>) {
    to.clear();
    for y in recipe.top..recipe.top + SIDE {
        to.extend_from_slice(&source[y * recipe.stride + 3 * recipe.left..][..3 * SIDE]);
    }
}

/// Moves an image by `shift`; pixels from outside are black.
#[inline(always)]
fn translate(small: &Small, from: &[u8], to: &mut Vec<u8>) {
    let (side, [top, left]) = (small.side as i32, small.shift);
    to.clear();
    to.resize(from.len(), 0);
    let (first, end) = ((-left).clamp(0, side), (side - left).clamp(0, side));
    for y in (-top).max(0)..(side - top).min(side) {
        let (at, source) = (3 * (y * side + first), 3 * ((y + top) * side + first + left));
        let count = 3 * (end - first) as usize;
        to[at as usize..][..count].copy_from_slice(&from[source as usize..][..count]);
    }
}

#[inline(always)]
fn cut(small: &Small, picture: &mut [u8]) {
    let [top, left, height, width] = small.hole;
    for row in picture.chunks_exact_mut(3 * small.side).skip(top).take(height) {
        row[3 * left..3 * (left + width)].fill(0);
    }
}

#[inline(always)]
fn jitter(recipe: &Recipe, part: usize, picture: &mut [f32]) {
    let [factor, rest] = recipe.factors[part];
    let pixels = picture.as_chunks_mut::<3>().0;
    match part {
        0 => picture.iter_mut().for_each(|v| *v = (*v * factor).min(255.0)),
        1 => {
            let sum: i64 = pixels.iter().map(|p| grey(*p) as i64).sum();
            let mean = sum as f32 / pixels.len() as f32 * rest;
            picture.iter_mut().for_each(|v| *v = (*v * factor + mean).clamp(0.0, 255.0));
        }
        _ => {
            for pixel in pixels {
                let grey = grey(*pixel) * rest;
                *pixel = pixel.map(|v| (v * factor + grey).clamp(0.0, 255.0));
            }
        }
    }
}

#[inline(always)]
fn grey([r, g, b]: [f32; 3]) -> f32 {
    r * 0.2989 + g * 0.587 + b * 0.114
}

#[inline(always)]
fn normalize_floats(picture: &mut [f32]) {
    let (mean, scale) = (MEAN.map(|m| m as f32), STD.map(|s| (1.0 / s) as f32));
    for pixel in picture.as_chunks_mut::<3>().0 {
        for c in 0..3 {
            pixel[c] = (pixel[c] - mean[c]) * scale[c];
        }
    }
}
