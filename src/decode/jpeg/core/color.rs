//! Colour: YCbCr to RGB (JFIF 1.02, ITU-R BT.601), and gray to RGB.
//!
//! ```text
//! R = Y                       + 1.402    (Cr - 128)
//! G = Y - 0.344136 (Cb - 128) - 0.714136 (Cr - 128)
//! B = Y + 1.772    (Cb - 128)                           rounded, and clamped to 0..=255
//! ```
//!
//! With constants times 2^14, rounded; a half is rounded down, by a rounding term one smaller.

const CR_R: i32 = 22970;
const CB_G: i32 = -5638;
const CR_G: i32 = -11700;
const CB_B: i32 = 29032;
const HALF: i32 = (1 << 13) - 1;

/// A row of pixels, packed.
#[inline(always)]
pub(super) fn ycbcr(y: &[u8], cb: &[u8], cr: &[u8], out: &mut [u8]) {
    let (pixels, _) = out.as_chunks_mut::<3>();
    for (((out, &y), &cb), &cr) in pixels.iter_mut().zip(y).zip(cb).zip(cr) {
        let (cb, cr) = (i32::from(cb) - 128, i32::from(cr) - 128);
        let y = (i32::from(y) << 14) + HALF;
        *out = [y + CR_R * cr, y + CB_G * cb + CR_G * cr, y + CB_B * cb]
            .map(|value| (value >> 14).clamp(0, 255) as u8);
    }
}

/// A row of gray pixels, packed.
#[inline(always)]
pub(super) fn gray(y: &[u8], out: &mut [u8]) {
    let (pixels, _) = out.as_chunks_mut::<3>();
    for (out, &y) in pixels.iter_mut().zip(y) {
        *out = [y; 3];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_colour_is_the_formulas_rounded() {
        let all: Vec<u8> = (0..=255).collect();
        let mut out = [0; 3 * 256];
        for (cb, cr) in (0..=255u8).flat_map(|cb| (0..=255).step_by(5).map(move |cr| (cb, cr))) {
            ycbcr(&all, &[cb; 256], &[cr; 256], &mut out);
            let (b, r) = (f64::from(cb) - 128.0, f64::from(cr) - 128.0);
            for (y, rgb) in out.as_chunks::<3>().0.iter().enumerate() {
                let exact = [1.402 * r, -0.344_136 * b - 0.714_136 * r, 1.772 * b];
                for (found, exact) in rgb.iter().zip(exact) {
                    let exact = (y as f64 + exact).clamp(0.0, 255.0);
                    assert!((f64::from(*found) - exact).abs() < 0.51, "{y} {cb} {cr}");
                }
            }
        }
    }

    #[test]
    fn gray_is_gray() {
        let mut out = [0; 6];
        gray(&[7, 200], &mut out);
        assert_eq!(out, [7, 7, 7, 200, 200, 200]);
    }
}
