//! The rows of warps, eight pixels at a time.
//!
//! ```text
//! positions ─▶ the pixel before each, and the shares ─▶ offsets ─▶ 8 bytes at each: two pixels of 1 to 4 channels
//!                                 └─▶ weights ─────────────────────▶ a vector of each channel ─▶ sums ─▶ bytes
//! ```
//!
//! [`Warp::eval`](fuseloop_ops::internals::rows::RowFilter::eval) is the reference; the bits are the same. Offsets are
//! clamped to the image, and the weights of pixels outside are 0, so groups at an edge need no branch for each pixel.

#![allow(unsafe_code, reason = "reads at offsets that vectors computed and bounded")]

use crate::source::eight_floats;
use fuseloop_ops::Size;
use fuseloop_ops::internals::rows::{BLOCK, WarpInterpolation, WarpRows};
use std::arch::x86_64::*;

/// The pixels of a group.
const GROUP: usize = 8;

/// Writes output row `y`, and returns true; false if the image is of a kind that is left to the portable rows.
#[target_feature(enable = "avx2,fma")]
pub(crate) fn warp_row(rows: &WarpRows<'_>, y: u32, out: &mut [u8]) -> bool {
    match rows.input().channels() {
        1 => row::<1>(rows, y, out),
        2 => row::<2>(rows, y, out),
        3 => row::<3>(rows, y, out),
        4 => row::<4>(rows, y, out),
        _ => false,
    }
}

#[target_feature(enable = "avx2,fma")]
fn row<const C: usize>(rows: &WarpRows<'_>, y: u32, out: &mut [u8]) -> bool {
    let Some(image) = Image::<C>::of(rows) else { return false };
    let mut positions = [[0.0; BLOCK]; 2];
    for (first, out) in rows.columns().step_by(BLOCK).zip(out.chunks_mut(BLOCK * C)) {
        rows.positions_by_fma(y, first, &mut positions);
        let [xs, ys] = &positions;
        let groups = xs.as_chunks::<GROUP>().0.iter().zip(ys.as_chunks::<GROUP>().0);
        for ((xs, ys), out) in groups.zip(out.chunks_mut(GROUP * C)) {
            put::<C>(
                match rows.warp().interpolation {
                    WarpInterpolation::Nearest => image.nearest(xs, ys),
                    WarpInterpolation::Bilinear => image.bilinear(xs, ys),
                    WarpInterpolation::Bicubic => image.bicubic(xs, ys),
                },
                out,
            );
        }
    }
    true
}

/// Writes a group of pixels, or the first ones of it. The channels of each are in the bytes of 32 bits.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn put<const C: usize>(pixels: __m256i, out: &mut [u8]) {
    let order = match C {
        1 => _mm_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1),
        2 => _mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1),
        3 => _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1),
        _ => _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
    };
    let bytes = bytes(_mm256_shuffle_epi8(pixels, _mm256_broadcastsi128_si256(order)));
    let (first, second) = (&bytes[..GROUP / 2 * C], &bytes[16..][..GROUP / 2 * C]);
    if out.len() == GROUP * C {
        // Copies of known lengths are one or two moves.
        let (low, high) = out.split_at_mut(GROUP / 2 * C);
        low.copy_from_slice(first);
        high[..GROUP / 2 * C].copy_from_slice(second);
    } else {
        for (out, byte) in out.iter_mut().zip(first.iter().chain(second)) {
            *out = *byte;
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn bytes(vector: __m256i) -> [u8; 32] {
    let mut bytes = [0; 32];
    // SAFETY: both are 32 bytes, and the store takes any address.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), vector) };
    bytes
}

/// An image of `C` channels, as vectors of eight equal numbers.
struct Image<'a, const C: usize> {
    data: &'a [u8],
    width: __m256i,
    height: __m256i,
    stride: __m256i,
    row_bytes: usize,
    /// The fill of each channel, if there is one.
    fill: Option<[u8; 4]>,
}

impl<'a, const C: usize> Image<'a, C> {
    /// Returns `None` if an image is narrower than two pixels, shorter than 8 bytes, or longer than an offset of 32 bits.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn of(rows: &WarpRows<'a>) -> Option<Self> {
        let (input, fill) = (rows.input(), rows.warp().fill);
        let Size { height, width } = input.size();
        let is_taken = width >= 2 && (8..=i32::MAX as usize).contains(&input.data().len());
        let all = |number: u32| _mm256_set1_epi32(number as i32);
        is_taken.then(|| Self {
            data: input.data(),
            width: all(width),
            height: all(height),
            stride: all(input.stride() as u32),
            row_bytes: input.stride(),
            fill: fill.map(|[r, g, b]| [r, g, b, r]),
        })
    }

    /// Returns whether each number is at least 0 and below `end`.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn within(number: __m256i, end: __m256i) -> __m256i {
        let is_low = _mm256_cmpgt_epi32(end, number);
        _mm256_andnot_si256(_mm256_srai_epi32::<31>(number), is_low)
    }

    /// Returns numbers, clamped to `0..=last`.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn clamped(number: __m256i, last: __m256i) -> __m256i {
        _mm256_min_epi32(_mm256_max_epi32(number, _mm256_setzero_si256()), last)
    }

    /// Returns the offsets of pixels, which must be inside.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn offsets(&self, y: __m256i, x: __m256i) -> __m256i {
        let columns = _mm256_mullo_epi32(x, _mm256_set1_epi32(C as i32));
        _mm256_add_epi32(_mm256_mullo_epi32(y, self.stride), columns)
    }

    /// Returns the 8 bytes at each offset, which must be inside the data; those behind its end are 0. The first vector has
    /// those of the pixels 0, 1, 4 and 5, and the second the others, as vectors of 32 bits are interleaved.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn eights(&self, offsets: __m256i) -> [__m256i; 2] {
        let last = _mm256_set1_epi32((self.data.len() - 8) as i32);
        // Bytes are read at most from the last 8 on, and then shifted.
        let from = _mm256_min_epu32(offsets, last);
        let over = _mm256_slli_epi32::<3>(_mm256_sub_epi32(offsets, from));
        let mut at = [0u32; GROUP];
        // SAFETY: both are 32 bytes, and the store takes any address.
        unsafe { _mm256_storeu_si256(at.as_mut_ptr().cast(), from) };
        // Read from memory: taken out of the vector one by one, they take longer.
        let at = std::hint::black_box(at);
        // SAFETY: as unsigned numbers, all of `from` are at most `last`, 8 bytes before the end of the data, which has at
        // least 8 bytes.
        let read = |lane: usize| unsafe {
            self.data.as_ptr().add(at[lane] as usize).cast::<i64>().read_unaligned()
        };
        let low = _mm256_set_epi64x(read(5), read(4), read(1), read(0));
        let high = _mm256_set_epi64x(read(7), read(6), read(3), read(2));
        if _mm256_testz_si256(over, over) == 1 {
            return [low, high];
        }
        let zero = _mm256_setzero_si256();
        let (over_low, over_high) =
            (_mm256_unpacklo_epi32(over, zero), _mm256_unpackhi_epi32(over, zero));
        [_mm256_srlv_epi64(low, over_low), _mm256_srlv_epi64(high, over_high)]
    }

    /// Returns the first pixel and the next one of eight pairs, the channels of each in the bytes of 32 bits.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn pairs([low, high]: [__m256i; 2]) -> [__m256i; 2] {
        let shift = _mm_cvtsi32_si128(8 * C as i32);
        let next = [_mm256_srl_epi64(low, shift), _mm256_srl_epi64(high, shift)];
        [even([low, high]), even(next)]
    }

    /// Returns the pixels of a pair of columns that begins with `x` in row `y`. Of those outside the image, the values are
    /// some pixel's.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn pair_at_edge(&self, y: __m256i, x: __m256i) -> [__m256i; 2] {
        // Pairs are read from the second last column on at most, and from column 0 on at least. If that is not
        // where the pair begins, the one pixel that is inside is the other one of the pair that is read.
        let before = |end: __m256i, count: i32| _mm256_sub_epi32(end, _mm256_set1_epi32(count));
        let from = Self::clamped(x, before(self.width, 2));
        let (is_before, is_behind) = (_mm256_cmpgt_epi32(from, x), _mm256_cmpgt_epi32(x, from));
        let offsets = self.offsets(Self::clamped(y, before(self.height, 1)), from);
        let [first, second] = Self::pairs(self.eights(offsets));
        [_mm256_blendv_epi8(first, second, is_behind), _mm256_blendv_epi8(second, first, is_before)]
    }

    /// Returns values of a channel with the fill mixed in, where `cover` is the share of the weights that are inside.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn mixed(&self, value: __m256, cover: __m256, channel: usize) -> __m256 {
        let Some(fill) = self.fill else { return value };
        let fill = _mm256_set1_ps(f32::from(fill[channel]));
        _mm256_add_ps(_mm256_mul_ps(_mm256_sub_ps(value, fill), cover), fill)
    }

    /// Returns the nearest pixels.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn nearest(&self, xs: &[f32; GROUP], ys: &[f32; GROUP]) -> __m256i {
        let (x, y) =
            (_mm256_cvtps_epi32(eight_floats(xs, 0)), _mm256_cvtps_epi32(eight_floats(ys, 0)));
        let inside = _mm256_and_si256(Self::within(x, self.width), Self::within(y, self.height));
        let fill = _mm256_set1_epi32(i32::from_le_bytes(self.fill.unwrap_or_default()));
        if _mm256_testz_si256(inside, inside) == 1 {
            return fill;
        }
        let offsets = _mm256_and_si256(self.offsets(y, x), inside);
        let [pixels, _] = Self::pairs(self.eights(offsets));
        _mm256_blendv_epi8(fill, pixels, inside)
    }

    /// Returns the weighted sums of four pixels each, with the fill mixed in and rounded.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn bilinear(&self, xs: &[f32; GROUP], ys: &[f32; GROUP]) -> __m256i {
        let (x, y, one) = (eight_floats(xs, 0), eight_floats(ys, 0), _mm256_set1_ps(1.0));
        let (left, top) = (_mm256_floor_ps(x), _mm256_floor_ps(y));
        let (e, s) = (_mm256_sub_ps(x, left), _mm256_sub_ps(y, top));
        let (west, north) = (_mm256_sub_ps(one, e), _mm256_sub_ps(one, s));
        let mut weights = [
            _mm256_mul_ps(west, north),
            _mm256_mul_ps(e, north),
            _mm256_mul_ps(west, s),
            _mm256_mul_ps(e, s),
        ];
        let (x, y) = (_mm256_cvtps_epi32(left), _mm256_cvtps_epi32(top));
        let ones = _mm256_set1_epi32(1);
        let last = |end: __m256i| _mm256_sub_epi32(end, ones);
        let inside =
            _mm256_and_si256(Self::within(x, last(self.width)), Self::within(y, last(self.height)));
        let taps = if _mm256_movemask_epi8(inside) == -1 {
            let offsets = self.offsets(y, x);
            let below = _mm256_add_epi32(offsets, self.stride);
            [Self::pairs(self.eights(offsets)), Self::pairs(self.eights(below))]
        } else {
            let (right, below) = (_mm256_add_epi32(x, ones), _mm256_add_epi32(y, ones));
            let columns = [Self::within(x, self.width), Self::within(right, self.width)];
            let rows = [Self::within(y, self.height), Self::within(below, self.height)];
            for (tap, weight) in weights.iter_mut().enumerate() {
                let inside = _mm256_and_si256(rows[tap / 2], columns[tap % 2]);
                *weight = _mm256_and_ps(*weight, _mm256_castsi256_ps(inside));
            }
            [self.pair_at_edge(y, x), self.pair_at_edge(below, x)]
        };
        let [[nw, ne], [sw, se]] = taps;
        let cover = _mm256_add_ps(
            _mm256_add_ps(_mm256_add_ps(weights[0], weights[1]), weights[2]),
            weights[3],
        );
        let mut pixels = _mm256_setzero_si256();
        for channel in 0..C {
            let shift = _mm_cvtsi32_si128(8 * channel as i32);
            let mut sum = _mm256_mul_ps(weights[0], value(nw, shift));
            sum = _mm256_fmadd_ps(weights[1], value(ne, shift), sum);
            sum = _mm256_fmadd_ps(weights[2], value(sw, shift), sum);
            sum = _mm256_fmadd_ps(weights[3], value(se, shift), sum);
            sum = self.mixed(sum, cover, channel);
            // Weights are at least 0 and their sum is at most 1, but for roundings that no byte can see.
            pixels = _mm256_or_si256(pixels, _mm256_sll_epi32(_mm256_cvtps_epi32(sum), shift));
        }
        pixels
    }

    /// Returns the pixels of a pair of columns that begins with `x` in row `y`. Those outside the image are 0.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn pair_or_zeros(&self, y: __m256i, x: __m256i) -> [__m256i; 2] {
        let [first, second] = self.pair_at_edge(y, x);
        let is_row = Self::within(y, self.height);
        let is_inside = |x: __m256i| _mm256_and_si256(is_row, Self::within(x, self.width));
        let next = _mm256_add_epi32(x, _mm256_set1_epi32(1));
        [_mm256_and_si256(first, is_inside(x)), _mm256_and_si256(second, is_inside(next))]
    }

    /// Returns the offsets of eight squares of 4 x 4 pixels, which must be inside, that begin at these pixels; `None` if
    /// the 16 bytes from a pixel of their first column on may leave the data.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn squares(&self, x: __m256i, y: __m256i) -> Option<[u32; GROUP]> {
        let offsets = self.offsets(y, x);
        let below = _mm256_mullo_epi32(self.stride, _mm256_set1_epi32(3));
        // All are below 2^31, as the data is no longer than that.
        let last = _mm256_set1_epi32(i32::try_from(self.data.len().checked_sub(16)?).ok()?);
        let is_over = _mm256_cmpgt_epi32(_mm256_add_epi32(offsets, below), last);
        let mut at = [0; GROUP];
        // SAFETY: both are 32 bytes, and the store takes any address.
        unsafe { _mm256_storeu_si256(at.as_mut_ptr().cast(), offsets) };
        (_mm256_testz_si256(is_over, is_over) == 1).then_some(std::hint::black_box(at))
    }

    /// Returns four pixels of row `i` of eight squares, whose offsets [`squares`](Self::squares) returned: a vector of
    /// each column.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn four_of_row(&self, at: &[u32; GROUP], i: usize) -> [__m256i; 4] {
        let rows = &self.data[i * self.row_bytes..];
        // SAFETY: `squares` compared 16 bytes behind the offset in the last of four rows with the end of the data, and
        // `i` is below 4.
        let read =
            |lane: usize| unsafe { _mm_loadu_si128(rows.as_ptr().add(at[lane] as usize).cast()) };
        let order: [u8; 16] = std::array::from_fn(|byte| match byte % 4 < C {
            true => (byte / 4 * C + byte % 4) as u8,
            false => 0x80,
        });
        // SAFETY: 16 bytes.
        let order = unsafe { _mm_loadu_si128(order.as_ptr().cast()) };
        let order = _mm256_broadcastsi128_si256(order);
        let both =
            |lane: usize| _mm256_shuffle_epi8(_mm256_set_m128i(read(lane + 4), read(lane)), order);
        let (a, b, c, d) = (both(0), both(1), both(2), both(3));
        let (low, high) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
        let (low_next, high_next) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
        [
            _mm256_unpacklo_epi64(low, low_next),
            _mm256_unpackhi_epi64(low, low_next),
            _mm256_unpacklo_epi64(high, high_next),
            _mm256_unpackhi_epi64(high, high_next),
        ]
    }

    /// Returns the weighted sums of sixteen pixels each, with the fill mixed in and rounded.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    fn bicubic(&self, xs: &[f32; GROUP], ys: &[f32; GROUP]) -> __m256i {
        let (x, y) = (eight_floats(xs, 0), eight_floats(ys, 0));
        let (left, top) = (_mm256_floor_ps(x), _mm256_floor_ps(y));
        let across = cubic_weights(_mm256_sub_ps(x, left));
        let down = cubic_weights(_mm256_sub_ps(y, top));
        let ones = _mm256_set1_epi32(1);
        let before = |number: __m256| _mm256_sub_epi32(_mm256_cvtps_epi32(number), ones);
        let (x, y) = (before(left), before(top));
        let without = |end: __m256i| _mm256_sub_epi32(end, _mm256_set1_epi32(3));
        let is_inside = _mm256_and_si256(
            Self::within(x, without(self.width)),
            Self::within(y, without(self.height)),
        );
        let reached = match _mm256_movemask_epi8(is_inside) {
            -1 => self.squares(x, y),
            _ => None,
        };
        let after = _mm256_add_epi32(x, _mm256_set1_epi32(2));
        // The sum of a row's weights, if all are inside.
        let whole_line =
            across.iter().fold(_mm256_setzero_ps(), |line, weight| _mm256_add_ps(line, *weight));
        let (mut sums, mut cover) = ([_mm256_setzero_ps(); C], _mm256_setzero_ps());
        let mut row = y;
        for (i, weight) in down.into_iter().enumerate() {
            let taps = match &reached {
                Some(offsets) => self.four_of_row(offsets, i),
                None => {
                    let [[a, b], [c, d]] =
                        [self.pair_or_zeros(row, x), self.pair_or_zeros(row, after)];
                    [a, b, c, d]
                }
            };
            for (channel, sum) in sums.iter_mut().enumerate() {
                let shift = _mm_cvtsi32_si128(8 * channel as i32);
                let mut line = _mm256_setzero_ps();
                for (weight, tap) in across.iter().zip(taps) {
                    line = _mm256_add_ps(line, _mm256_mul_ps(*weight, value(tap, shift)));
                }
                *sum = _mm256_add_ps(*sum, _mm256_mul_ps(weight, line));
            }
            if self.fill.is_some() {
                let mut line = whole_line;
                if reached.is_none() {
                    let is_row = Self::within(row, self.height);
                    let mut column = x;
                    line = _mm256_setzero_ps();
                    for weight in across {
                        let is_inside = _mm256_and_si256(is_row, Self::within(column, self.width));
                        let weight = _mm256_and_ps(weight, _mm256_castsi256_ps(is_inside));
                        line = _mm256_add_ps(line, weight);
                        column = _mm256_add_epi32(column, ones);
                    }
                }
                cover = _mm256_add_ps(cover, _mm256_mul_ps(weight, line));
            }
            row = _mm256_add_epi32(row, ones);
        }
        let mut pixels = _mm256_setzero_si256();
        for (channel, sum) in sums.into_iter().enumerate() {
            let shift = _mm_cvtsi32_si128(8 * channel as i32);
            let sum = self.mixed(sum, cover, channel);
            // The cubic overshoots.
            let byte = Self::clamped(_mm256_cvtps_epi32(sum), _mm256_set1_epi32(255));
            pixels = _mm256_or_si256(pixels, _mm256_sll_epi32(byte, shift));
        }
        pixels
    }
}

/// Returns the weights of the pixels at -1, 0, 1 and 2, for positions at distance `t` behind pixel 0: the cubic with
/// `A = -0.75`.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn cubic_weights(t: __m256) -> [__m256; 4] {
    let [a, one, two] = [-0.75, 1.0, 2.0].map(|number| _mm256_set1_ps(number));
    let near = |t: __m256| {
        let line = _mm256_sub_ps(_mm256_mul_ps(_mm256_set1_ps(1.25), t), _mm256_set1_ps(2.25));
        _mm256_add_ps(_mm256_mul_ps(_mm256_mul_ps(line, t), t), one)
    };
    let far = |t: __m256| {
        let line = _mm256_sub_ps(_mm256_mul_ps(a, t), _mm256_set1_ps(-3.75));
        let square = _mm256_add_ps(_mm256_mul_ps(line, t), _mm256_set1_ps(-6.0));
        _mm256_sub_ps(_mm256_mul_ps(square, t), _mm256_set1_ps(-3.0))
    };
    [far(_mm256_add_ps(t, one)), near(t), near(_mm256_sub_ps(one, t)), far(_mm256_sub_ps(two, t))]
}

/// Returns the low halves of eight times 64 bits, in the order of [`Image::eights`].
#[inline]
#[target_feature(enable = "avx2,fma")]
fn even([low, high]: [__m256i; 2]) -> __m256i {
    let (low, high) = (_mm256_castsi256_ps(low), _mm256_castsi256_ps(high));
    _mm256_castps_si256(_mm256_shuffle_ps::<0x88>(low, high))
}

/// Returns the byte of each 32 bits that is `shift` bits up, as floats.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn value(pixels: __m256i, shift: __m128i) -> __m256 {
    let byte = _mm256_and_si256(_mm256_srl_epi32(pixels, shift), _mm256_set1_epi32(255));
    _mm256_cvtepi32_ps(byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter_row;
    use arbtest::arbtest;
    use fuseloop_ops::internals::ImageView;
    use fuseloop_ops::internals::rows::{
        Map, RowFilter, RowScratch, Warp, affine_matrix, perspective_coefficients,
    };

    #[test]
    fn random_warps_have_the_references_bits() {
        arbtest(|random| {
            let channels = random.int_in_range(1..=4)?;
            let input = Size::new(random.int_in_range(1..=30)?, random.int_in_range(1..=40)?);
            let output = Size::new(random.int_in_range(1..=9)?, random.int_in_range(1..=70)?);
            let row = input.width as usize * channels;
            let stride = row + random.int_in_range(0..=5)?;
            let mut data = vec![0; stride * (input.height as usize - 1) + row];
            let seed: u32 = random.arbitrary()?;
            for (at, byte) in data.iter_mut().enumerate() {
                *byte = ((at as u32 ^ seed).wrapping_mul(2_654_435_769) >> 24) as u8;
            }
            let mut number = |spread: f64| {
                let whole: i32 = random.arbitrary()?;
                Ok::<_, arbitrary::Error>(f64::from(whole) / 2f64.powi(31) * spread)
            };
            let (angle, scale) = (number(180.0)?, 0.05 + number(4.0)?.abs());
            let translate = [number(50.0)?, number(50.0)?];
            let shear = [number(40.0)?, 0.0];
            let corners = [[0.0, 0.0], [30.0, 0.0], [30.0, 20.0], [0.0, 20.0]];
            let mut moved = corners;
            for corner in moved.as_flattened_mut() {
                *corner += number(9.0)?;
            }
            let matrix = match number(8.0)? {
                kind if kind > 7.0 => [f64::NAN; 6],
                kind if kind > 6.0 => [1e30; 6],
                kind if kind > 4.0 => [1.0, 0.0, 0.0, 0.0, 1.0, 0.0],
                _ => affine_matrix(angle, translate, scale, shear, [0.0; 2]),
            };
            let map = match perspective_coefficients(corners, moved) {
                Some(coefficients) if number(1.0)? > 0.3 => {
                    Map::perspective(coefficients, input, output)
                }
                _ => Map::affine(matrix, input, output),
            };
            let interpolation = match number(1.0)? {
                kind if kind > 0.3 => WarpInterpolation::Bicubic,
                kind if kind > -0.3 => WarpInterpolation::Bilinear,
                _ => WarpInterpolation::Nearest,
            };
            let fill = (number(1.0)? > 0.0).then_some([seed as u8, 7, 250]);
            let filter = RowFilter::Warp(Warp { size: output, map, interpolation, fill });
            let view = ImageView::of_channels(&data, input, channels, stride).expect("an image");
            let expected = filter.eval(&view);
            let first = random.int_in_range(0..=output.width - 1)?;
            let columns = first..random.int_in_range(first + 1..=output.width)?;
            let mut scratch = RowScratch::default();
            let mut rows = filter.rows(view, columns.clone(), &mut scratch).expect("memory");
            let mut out = vec![0; columns.len() * channels];
            for (y, expected) in (0..).zip(expected.chunks(output.width as usize * channels)) {
                if !filter_row(&mut rows, y, &mut out) {
                    rows.row(y, &mut out);
                }
                let expected = &expected[first as usize * channels..][..out.len()];
                assert_eq!(out, expected, "{filter:?} {input} {channels} {columns:?} row {y}");
                if std::arch::is_x86_feature_detected!("avx2")
                    && std::arch::is_x86_feature_detected!("fma")
                {
                    let rows = rows.warp().expect("a warp");
                    // SAFETY: the CPU has AVX2 and FMA, as checked just above.
                    let is_taken = unsafe { warp_row(rows, y, &mut out) };
                    assert_eq!(is_taken, input.width > 1 && data.len() >= 8);
                }
            }
            Ok(())
        });
    }
}
