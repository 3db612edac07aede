//! Upsamples chroma that has half the rows or columns, with a triangle filter.
//!
//! ```text
//! out[2i]   = (3 in[i] + in[i-1] + 2) >> 2
//! out[2i+1] = (3 in[i] + in[i+1] + 2) >> 2        at an edge the neighbour is in[i] itself
//! ```
//!
//! The two outputs for a chroma sample lie a quarter of its width to either side of its centre (JFIF
//! 1.02: chroma is centred between the pixels). If both directions are upsampled, the vertical one comes
//! first, and its result is rounded.

/// Returns the value a quarter of the way from `near` to `far`.
#[inline(always)]
fn between(near: u8, far: u8) -> u8 {
    ((3 * u16::from(near) + u16::from(far) + 2) >> 2) as u8
}

/// Writes the row between `near` and the row `far` above or below it.
#[inline(always)]
pub(crate) fn rows(near: &[u8], far: &[u8], out: &mut [u8]) {
    for ((out, &near), &far) in out.iter_mut().zip(near).zip(far) {
        *out = between(near, far);
    }
}

/// Writes a row of twice as many columns. The first and the last sample have no neighbour beyond them.
#[inline(always)]
pub(crate) fn columns(row: &[u8], out: &mut [u8]) {
    let (Some(&first), Some(&last)) = (row.first(), row.last()) else { return };
    let (pairs, _) = out.as_chunks_mut::<2>();
    let inner = row.windows(3).zip(pairs.get_mut(1..).unwrap_or_default());
    for (around, pair) in inner {
        *pair = [between(around[1], around[0]), between(around[1], around[2])];
    }
    let second = row.get(1).copied().unwrap_or(first);
    let before = row.len().checked_sub(2).map_or(last, |at| row[at]);
    if let Some(pair) = pairs.get_mut(row.len() - 1) {
        *pair = [between(last, before), last];
    }
    if let Some(pair) = pairs.first_mut() {
        pair[0] = first;
        pair[1] = between(first, second);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_the_formulas() {
        for len in 1..40usize {
            let row: Vec<u8> = (0..len).map(|i| (i * 83 % 256) as u8).collect();
            let mut out = vec![0; 2 * len];
            columns(&row, &mut out);
            for (x, &out) in out.iter().enumerate() {
                let i = x / 2;
                let far = if x % 2 == 0 { i.saturating_sub(1) } else { (i + 1).min(len - 1) };
                let sum = 3 * u32::from(row[i]) + u32::from(row[far]) + 2;
                assert_eq!(u32::from(out), sum / 4, "{len} {x}");
            }
        }
    }

    #[test]
    fn a_row_lies_nearer_to_its_own() {
        let mut out = [0; 3];
        rows(&[0, 100, 255], &[255, 102, 255], &mut out);
        assert_eq!(out, [64, 101, 255]);
    }
}
