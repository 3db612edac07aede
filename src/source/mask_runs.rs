//! The runs of a mask, as COCO counts them.

use fuseloop_ops::Size;

/// Returns the lengths of the runs of a mask with one byte for each pixel, `[H, W]` in rows: down the columns,
/// the first of zeros. Every value but 0 is inside. The mask has at most `u32::MAX` pixels.
pub(crate) fn column_runs(pixels: &[u8], size: Size) -> Vec<u32> {
    let (mut counts, mut count, mut is_inside) = (vec![], 0, false);
    for column in 0..size.width as usize {
        // A mask without rows has no pixels in any column.
        let from_top = pixels.get(column..).unwrap_or_default();
        for &pixel in from_top.iter().step_by(size.width as usize) {
            if (pixel != 0) != is_inside {
                counts.push(count);
                (count, is_inside) = (0, !is_inside);
            }
            count += 1;
        }
    }
    counts.push(count);
    counts
}
