//! Images that a shift moves partly out of view: masks of the pixels in view, or a padded copy of the image.
//!
//! Loops with vectors of 512 bits read the image in place: they load the bytes in view of each group under a mask,
//! and have the colour of the frame in the others. For all other code, and for rows that are resampled, the image is
//! first copied into a frame of its own.

use super::param_block::{ParamBlocks, ParamLayout, PassWord};
use crate::plan::compose::{AxisMap, PassMap, Rect};
use fuseloop_ops::Size;
use fuseloop_ops::internals::memory::{self, NoMemory};
use fuseloop_ops::internals::{ElementValue, ImageView, MAX_CHANNELS, PixelFormat, channel_of};

/// The pixels of a group that has a mask.
const GROUP: u32 = 16;

/// Writes the masks of each pass to `masks` and their addresses to the parameter block. Pixels of a pass are in view if
/// their source is in its rectangle.
pub(super) fn set_masks<'p>(
    (record, layout): (&mut ParamBlocks, ParamLayout),
    masks: &mut Vec<u64>,
    passes: impl Iterator<Item = (&'p PassMap, Rect)> + Clone,
    channels: usize,
) -> Result<(), NoMemory> {
    let groups = |pass: &PassMap| pass.size.width.div_ceil(GROUP) as usize;
    let count = passes.clone().map(|(pass, _)| 2 * groups(pass)).sum();
    memory::resize(masks, count, "the masks of a row")?;
    let mut left = &mut masks[..];
    for (index, (pass, shown)) in passes.enumerate() {
        let groups = groups(pass);
        let (own, rest) = std::mem::take(&mut left).split_at_mut(2 * groups);
        let (none, of_row) = own.split_at_mut(groups);
        none.fill(0);
        let rows = pass.rows.taken_from(shown.top..shown.bottom, pass.size.height);
        let columns = pass.columns.taken_from(shown.left..shown.right, pass.size.width);
        let (start, end) = (columns.start as u32, columns.end as u32);
        for (first, mask) in (0..).step_by(GROUP as usize).zip(of_row) {
            let lane = |column: u32| column.clamp(first, first + GROUP) - first;
            let lanes = match pass.columns.sign {
                1 => lane(start)..lane(end),
                _ => GROUP - lane(end)..GROUP - lane(start),
            };
            let below = |lane: u32| u64::MAX.checked_shl(lane * channels as u32).unwrap_or(0);
            *mask = below(lanes.start) & !below(lanes.end);
        }
        let at = layout.pass(index);
        let words = [
            (PassWord::NoMasks, none.as_ptr() as u64),
            (PassWord::ToMasks, size_of_val(none) as u64),
            (PassWord::FirstShown, rows.start as u64),
            (PassWord::ShownRows, (rows.end - rows.start) as u64),
        ];
        for (word, value) in words {
            record.set(at + 8 * word as i32, value);
        }
        left = rest;
    }
    Ok(())
}

/// The source of a padded copy: decoded pixels, those of them in view, and the colour of the others.
#[derive(Clone, Copy)]
pub(super) struct Framed<'a> {
    pub(super) view: ImageView<'a>,
    /// The row and the column of the whole image that the view begins with.
    pub(super) corner: [i64; 2],
    pub(super) shown: Rect,
    pub(super) fill: [u8; 3],
}

/// Copies the image of `size` that `rows` and `columns` map to the source, packed, and fills everything that is not in
/// view with the colour. Returns the bytes of a row.
pub(super) fn copy_padded(
    source: Framed<'_>,
    [rows, columns]: [AxisMap; 2],
    size: Size,
    to: &mut Vec<u8>,
) -> Result<usize, NoMemory> {
    let Framed { view, corner: [top, left], shown, fill } = source;
    let format = view.format();
    let pixel = format.pixel_bytes();
    let fill = &filled(fill, format)[..pixel];
    let stride = size.width as usize * pixel;
    memory::resize(to, super::invocation::bytes_of(size, pixel), "a padded image")?;
    let in_view = rows.taken_from(shown.top..shown.bottom, size.height);
    let columns_in_view = columns.taken_from(shown.left..shown.right, size.width);
    let (first, end) = (columns_in_view.start as usize, columns_in_view.end as usize);
    for (y, row) in (0..).zip(to.chunks_exact_mut(stride.max(1))) {
        if first == end || !in_view.contains(&y) {
            paint(row, fill);
            continue;
        }
        paint(&mut row[..pixel * first], fill);
        paint(&mut row[pixel * end..], fill);
        let source = view.row((rows.sign * y + rows.offset - top) as u32);
        let at = columns.sign * first as i64 + columns.offset - left;
        let row = &mut row[pixel * first..pixel * end];
        copy_row(row, source, (at as usize, pixel), columns.sign == 1);
    }
    Ok(stride)
}

/// Returns the bytes of a pixel of a colour, at the start of an array.
fn filled(color: [u8; 3], format: PixelFormat) -> [u8; 4 * MAX_CHANNELS] {
    let mut pixel = [0; 4 * MAX_CHANNELS];
    let elements = pixel.chunks_exact_mut(format.dtype.bytes()).take(format.channels);
    for (c, element) in elements.enumerate() {
        let value = f32::from(channel_of(color, c));
        ElementValue::store_floats(format.dtype, &[value], element);
    }
    pixel
}

/// Fills pixels with the bytes of one.
pub(super) fn paint(row: &mut [u8], fill: &[u8]) {
    match *fill {
        [value] => row.fill(value),
        [r, g, b] => row.as_chunks_mut::<3>().0.fill([r, g, b]),
        _ => row.chunks_exact_mut(fill.len()).for_each(|pixel| pixel.copy_from_slice(fill)),
    }
}

/// Copies pixels of `source` from column `at` on, forwards or backwards.
fn copy_row(to: &mut [u8], source: &[u8], (at, pixel): (usize, usize), forwards: bool) {
    if forwards {
        to.copy_from_slice(&source[pixel * at..][..to.len()]);
        return;
    }
    let source = &source[..pixel * (at + 1)];
    match pixel {
        1 => copy_backwards::<1>(to, source),
        2 => copy_backwards::<2>(to, source),
        3 => copy_backwards::<3>(to, source),
        4 => copy_backwards::<4>(to, source),
        6 => copy_backwards::<6>(to, source),
        8 => copy_backwards::<8>(to, source),
        12 => copy_backwards::<12>(to, source),
        _ => copy_backwards::<16>(to, source),
    }
}

/// Copies pixels of `B` bytes from the end of `source` on.
fn copy_backwards<const B: usize>(to: &mut [u8], source: &[u8]) {
    let pixels = source.as_chunks::<B>().0.iter().rev();
    for (to, from) in to.as_chunks_mut::<B>().0.iter_mut().zip(pixels) {
        *to = *from;
    }
}
