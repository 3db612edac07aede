//! The sources of a row's values: `f32` unchanged, or bytes that are normalized on the way.
//!
//! ```text
//! value[i] = src[i]                                              floats
//! value[i] = fma(d, s1, fma(d, s0, bias)),  d = src[i] - m1      bytes
//! ```
//!
//! The second formula is the op `Normalize`, operation for operation, so the bits are the same. Each
//! channel has its own four numbers. With channels last, the channel of element `i` is `i % 3`.

#![allow(unsafe_code, reason = "vectors as the CPU has them")]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// The numbers that normalize a channel: `m1, s1, s0, bias`.
pub type Numbers = [f32; 4];

/// A source of the values of a row.
pub(crate) trait RowSource {
    /// The type of a stored element.
    type From: Copy;

    /// The number of channels whose elements alternate in a row; 0 if the source reads no numbers.
    const CHANNELS: usize;

    /// Returns the value of the element with index `at` of a row. This is the reference implementation.
    fn one(element: Self::From, numbers: &[Numbers], at: usize) -> f32;

    /// The numbers in the form that the vector code needs.
    #[cfg(target_arch = "x86_64")]
    type Lanes;

    /// Prepares the numbers for the elements from index `at` on, once per row. With `ALTERNATES` the
    /// vectors hold every second element.
    #[cfg(target_arch = "x86_64")]
    fn lanes<const ALTERNATES: bool>(numbers: &[Numbers], at: usize) -> Self::Lanes;

    /// Returns the values of sixteen elements, whose index, counted from the start of the lanes, is
    /// `phase` modulo three. The vectors hold the first and the last eight elements, or with
    /// `ALTERNATES` the elements of even and of odd index.
    ///
    /// # Safety
    ///
    /// The CPU must have AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    unsafe fn sixteen<const ALTERNATES: bool>(
        elements: &[Self::From; 16],
        lanes: &Self::Lanes,
        phase: usize,
    ) -> [__m256; 2];
}

/// A source of `f32`, which stay unchanged.
pub(crate) struct Floats;
/// A source of bytes of one channel, which are normalized.
pub(crate) struct Plane;
/// A source of bytes of three interleaved channels, which are normalized.
pub(crate) struct Interleaved;

impl RowSource for Floats {
    type From = f32;
    const CHANNELS: usize = 0;

    fn one(element: f32, _: &[Numbers], _: usize) -> f32 {
        element
    }

    #[cfg(target_arch = "x86_64")]
    type Lanes = ();

    #[cfg(target_arch = "x86_64")]
    fn lanes<const ALTERNATES: bool>(_: &[Numbers], _: usize) -> Self::Lanes {}

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn sixteen<const ALTERNATES: bool>(
        elements: &[f32; 16],
        (): &(),
        _: usize,
    ) -> [__m256; 2] {
        if ALTERNATES {
            // Shuffles combine quarters of two vectors. To keep even and odd indices in order, the
            // vectors consist of quarters 0 and 2, and of 1 and 3.
            let (a, b) = (two_quarters(elements, 0), two_quarters(elements, 4));
            const EVEN: i32 = 0b10_00_10_00;
            const ODD: i32 = 0b11_01_11_01;
            return [_mm256_shuffle_ps::<EVEN>(a, b), _mm256_shuffle_ps::<ODD>(a, b)];
        }
        // SAFETY: both reads have eight elements; they need not be aligned.
        unsafe { [_mm256_loadu_ps(elements.as_ptr()), _mm256_loadu_ps(elements[8..].as_ptr())] }
    }
}

impl RowSource for Plane {
    type From = u8;
    const CHANNELS: usize = 1;

    fn one(element: u8, numbers: &[Numbers], _: usize) -> f32 {
        normalized(element, numbers[0])
    }

    #[cfg(target_arch = "x86_64")]
    type Lanes = Numbers;

    #[cfg(target_arch = "x86_64")]
    fn lanes<const ALTERNATES: bool>(numbers: &[Numbers], _: usize) -> Numbers {
        numbers[0]
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn sixteen<const ALTERNATES: bool>(
        elements: &[u8; 16],
        &[m1, s1, s0, bias]: &Numbers,
        _: usize,
    ) -> [__m256; 2] {
        let (m1, s1) = (_mm256_set1_ps(m1), _mm256_set1_ps(s1));
        let (s0, bias) = (_mm256_set1_ps(s0), _mm256_set1_ps(bias));
        let [first, second] = widened::<ALTERNATES>(elements);
        let first = eight_normalized(first, m1, s1, s0, bias);
        [first, eight_normalized(second, m1, s1, s0, bias)]
    }
}

impl RowSource for Interleaved {
    type From = u8;
    const CHANNELS: usize = 3;

    fn one(element: u8, numbers: &[Numbers], at: usize) -> f32 {
        normalized(element, numbers[at % 3])
    }

    /// Each number for the three channels in turn: eight consecutive entries from index `phase` on
    /// belong to eight elements.
    #[cfg(target_arch = "x86_64")]
    type Lanes = [[f32; 12]; 4];

    #[cfg(target_arch = "x86_64")]
    fn lanes<const ALTERNATES: bool>(numbers: &[Numbers], at: usize) -> Self::Lanes {
        let step = if ALTERNATES { 2 } else { 1 };
        let (r, g, b) = (numbers[at % 3], numbers[(at + step) % 3], numbers[(at + 2 * step) % 3]);
        std::array::from_fn(|k| {
            let (r, g, b) = (r[k], g[k], b[k]);
            [r, g, b, r, g, b, r, g, b, r, g, b]
        })
    }

    #[cfg(target_arch = "x86_64")]
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn sixteen<const ALTERNATES: bool>(
        elements: &[u8; 16],
        lanes: &Self::Lanes,
        phase: usize,
    ) -> [__m256; 2] {
        // The offset in the lanes of the channel of each vector's first element. When alternating,
        // entry `i` has channel `2 i`, and 2 times 2 is 1 modulo three.
        let (from, to) = if ALTERNATES { (2 * phase, 2 * (phase + 1)) } else { (phase, phase + 8) };
        let (from, to) = (from % 3, to % 3);
        let [first, second] = widened::<ALTERNATES>(elements);
        let first = eight_normalized(
            first,
            eight_floats(&lanes[0], from),
            eight_floats(&lanes[1], from),
            eight_floats(&lanes[2], from),
            eight_floats(&lanes[3], from),
        );
        let second = eight_normalized(
            second,
            eight_floats(&lanes[0], to),
            eight_floats(&lanes[1], to),
            eight_floats(&lanes[2], to),
            eight_floats(&lanes[3], to),
        );
        [first, second]
    }
}

fn normalized(element: u8, [m1, s1, s0, bias]: Numbers) -> f32 {
    let d = f32::from(element) - m1;
    d.mul_add(s1, d.mul_add(s0, bias))
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,fma")]
fn eight_normalized(d: __m256i, m1: __m256, s1: __m256, s0: __m256, bias: __m256) -> __m256 {
    let d = _mm256_sub_ps(_mm256_cvtepi32_ps(d), m1);
    _mm256_fmadd_ps(d, s1, _mm256_fmadd_ps(d, s0, bias))
}

/// Widens sixteen bytes to integers: the first and the last eight, or those of even and of odd index.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn widened<const ALTERNATES: bool>(elements: &[u8; 16]) -> [__m256i; 2] {
    if ALTERNATES {
        // SAFETY: sixteen bytes are readable; they need not be aligned.
        let pairs = _mm256_cvtepu16_epi32(unsafe { _mm_loadu_si128(elements.as_ptr().cast()) });
        return [_mm256_and_si256(pairs, _mm256_set1_epi32(0xff)), _mm256_srli_epi32::<8>(pairs)];
    }
    [eight_bytes(elements, 0), eight_bytes(elements, 8)]
}

/// Widens eight of the bytes to integers.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn eight_bytes(elements: &[u8; 16], from: usize) -> __m256i {
    let eight = &elements[from..from + 8];
    // SAFETY: eight bytes are readable; they need not be aligned.
    _mm256_cvtepu8_epi32(unsafe { _mm_loadl_epi64(eight.as_ptr().cast()) })
}

/// Returns four elements from index `from` on, and the four elements that are eight indices further.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn two_quarters(elements: &[f32; 16], from: usize) -> __m256 {
    let (low, high) = (&elements[from..from + 4], &elements[from + 8..from + 12]);
    // SAFETY: both slices have four floats; they need not be aligned.
    unsafe { _mm256_loadu2_m128(high.as_ptr(), low.as_ptr()) }
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn eight_floats(sequence: &[f32], from: usize) -> __m256 {
    let eight = &sequence[from..from + 8];
    // SAFETY: eight floats are readable; they need not be aligned.
    unsafe { _mm256_loadu_ps(eight.as_ptr()) }
}
