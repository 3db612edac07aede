//! Planes: copies between images whose channels are adjacent and images whose channels are planes.
//!
//! ```text
//! [H, W, C] ──split──▶ [C, H, W]          [C, H, W] ──join──▶ [H, W, C]
//! ```
//!
//! Both copy tile by tile. A tile has 64 bytes of each of `L` planes, where `L` elements are 16 bytes. Four
//! transposes in registers make it of the pixels, or make the pixels of it:
//!
//! ```text
//! 16 bytes of L pixels    p0c0 p0c1 ..        p0c0 p1c0 ..    16 bytes of L planes
//!                         p1c0 p1c1 ..  ◀──▶  p0c1 p1c1 ..
//! ```
//!
//! The 16 bytes may reach past the channels of a pixel, into the next pixels. A split ignores what it reads
//! there. A join writes the last channels of a tile first and the pixels in order, so that what it writes there is
//! overwritten.
//!
//! Some of the channels are [`selected`] while they are joined, and also while they are split: one element at a time.

use crate::cpu::interleaved;
use fuseloop_ops::Size;
use fuseloop_ops::internals::memory::{self, NoMemory};
use fuseloop_ops::internals::{ImageView, PixelFormat};

/// The vectors of each plane in a tile.
const VECTORS: usize = 4;

/// 64 bytes of each of `L` planes.
type Tile<const L: usize> = [[[u8; 16]; VECTORS]; L];

/// Copies `channels` of an image whose channels are adjacent to planes.
///
/// # Errors
///
/// If there is not enough memory.
///
/// # Panics
///
/// If the channels of `view` are planes, or it lacks one of `channels`.
pub fn split<'a>(
    view: &ImageView<'_>,
    channels: &[usize],
    to: &'a mut Vec<u8>,
) -> Result<ImageView<'a>, NoMemory> {
    assert!(view.plane_bytes().is_none(), "the channels are planes already");
    let (size, format) = (view.size(), view.format());
    let stored = PixelFormat { channels: channels.len(), ..format };
    let bytes = stored.pixel_bytes().saturating_mul(size.pixels() as usize);
    memory::resize(to, bytes, "the planes of an image")?;
    if !channels.iter().copied().eq(0..format.channels) {
        match format.dtype.bytes() {
            1 => split_selected::<1>(view, channels, to),
            2 => split_selected::<2>(view, channels, to),
            4 => split_selected::<4>(view, channels, to),
            _ => split_selected::<8>(view, channels, to),
        }
        return Ok(ImageView::planes(to, size, stored).expect("every plane was copied"));
    }
    for y in 0..size.height {
        let from = &view.data()[y as usize * view.stride()..];
        match format.dtype.bytes() {
            1 => split_row::<16>(from, (y, size), format, to),
            2 => split_row::<8>(from, (y, size), format, to),
            4 => split_row::<4>(from, (y, size), format, to),
            _ => split_row::<2>(from, (y, size), format, to),
        }
    }
    Ok(ImageView::planes(to, size, format).expect("every plane was copied"))
}

/// Copies `channels` of an image of elements of `B` bytes to planes.
fn split_selected<const B: usize>(view: &ImageView<'_>, channels: &[usize], to: &mut [u8]) {
    let (size, all) = (view.size(), view.channels());
    let (width, plane) = (size.width as usize, size.pixels() as usize);
    for y in 0..size.height {
        let pixels = view.row(y).as_chunks::<B>().0.chunks_exact(all);
        for (planes, &c) in to.as_chunks_mut::<B>().0.chunks_exact_mut(plane.max(1)).zip(channels) {
            let to = planes[y as usize * width..].iter_mut().take(width);
            to.zip(pixels.clone()).for_each(|(to, pixel)| *to = pixel[c]);
        }
    }
}

/// Copies row `y` of an image to the planes of all rows. `from` starts with the row's first pixel.
fn split_row<const L: usize>(
    from: &[u8],
    (y, size): (u32, Size),
    format: PixelFormat,
    to: &mut [u8],
) {
    let (element, pixel) = (16 / L, pixel_bytes(format));
    let [y, height, width] = [y, size.height, size.width].map(|n| n as usize);
    let pixels = width.min(VECTORS * L);
    let mut tile = [[[0; 16]; VECTORS]; L];
    for x in tiles(width, pixels) {
        for c in (0..format.channels).step_by(L) {
            read(&from[x * pixel as usize + c * element..], pixel, &mut tile, pixels);
            for (c, from) in (c..format.channels).zip(&tile) {
                let first = ((c * height + y) * width + x) * element;
                store(from, &mut to[first..][..pixels * element]);
            }
        }
    }
}

/// Copies planes, one after the other without gaps, to pixels whose channels are adjacent.
///
/// # Panics
///
/// If `planes` and `to` differ in length.
pub fn join(planes: &[u8], to: &mut [u8], format: PixelFormat) {
    assert_eq!(planes.len(), to.len(), "the bytes of planes and of pixels");
    let plane = planes.len() / format.channels;
    join_row((planes, plane), to, plane / format.dtype.bytes(), format);
}

/// Copies an image whose channels are planes to one whose channels are adjacent.
///
/// # Errors
///
/// If there is not enough memory.
///
/// # Panics
///
/// If the channels of `source` are adjacent.
pub fn joined<'a>(source: &ImageView<'_>, to: &'a mut Vec<u8>) -> Result<ImageView<'a>, NoMemory> {
    let (size, format) = (source.size(), source.format());
    let plane = source.plane_bytes().expect("the channels are planes");
    let row = format.pixel_bytes().saturating_mul(size.width as usize);
    memory::resize(to, row.saturating_mul(size.height as usize), "an image")?;
    for y in 0..size.height as usize {
        let (from, to) = (&source.data()[y * source.stride()..], &mut to[y * row..]);
        join_row((from, plane), to, size.width as usize, format);
    }
    Ok(ImageView::packed_format(to, size, format).expect("every plane was copied"))
}

/// Copies a row of planes that are `plane` bytes apart. What follows the row in `to` may be overwritten.
fn join_row((from, plane): (&[u8], usize), to: &mut [u8], pixels: usize, format: PixelFormat) {
    match format.dtype.bytes() {
        1 => join_elements::<16>((from, plane), to, pixels, format),
        2 => join_elements::<8>((from, plane), to, pixels, format),
        4 => join_elements::<4>((from, plane), to, pixels, format),
        _ => join_elements::<2>((from, plane), to, pixels, format),
    }
}

/// Copies a plane of elements of `bytes` bytes to its places in an image whose channels are adjacent.
pub fn join_plane(plane: &[u8], to: &mut [u8], place: (usize, usize), bytes: usize) {
    match bytes {
        1 => set_channel::<1>(plane, to, place),
        2 => set_channel::<2>(plane, to, place),
        4 => set_channel::<4>(plane, to, place),
        _ => set_channel::<8>(plane, to, place),
    }
}

fn set_channel<const B: usize>(plane: &[u8], to: &mut [u8], (channel, channels): (usize, usize)) {
    let pixels = to.as_chunks_mut::<B>().0.chunks_exact_mut(channels);
    pixels.zip(plane.as_chunks::<B>().0).for_each(|(pixel, from)| pixel[channel] = *from);
}

/// Copies up to four `channels` of an image, adjacent or planes, to an image whose channels are adjacent.
///
/// # Errors
///
/// If there is not enough memory.
///
/// # Panics
///
/// If the image lacks one of the channels, or if there are none or more than four.
pub fn selected<'a>(
    source: &ImageView<'_>,
    channels: &[usize],
    to: &'a mut Vec<u8>,
) -> Result<ImageView<'a>, NoMemory> {
    let (size, all) = (source.size(), source.format());
    assert!(channels.iter().all(|c| *c < all.channels), "the image lacks one of {channels:?}");
    let format = PixelFormat { channels: channels.len(), ..all };
    let bytes = format.pixel_bytes().saturating_mul(size.pixels() as usize);
    memory::resize(to, bytes, "an image")?;
    match all.dtype.bytes() {
        1 => select_elements::<1>(source, channels, to),
        2 => select_elements::<2>(source, channels, to),
        4 => select_elements::<4>(source, channels, to),
        _ => select_elements::<8>(source, channels, to),
    }
    Ok(ImageView::packed_format(to, size, format).expect("every channel was copied"))
}

/// Copies channels of an image of elements of `B` bytes, by code for their number.
fn select_elements<const B: usize>(source: &ImageView<'_>, channels: &[usize], to: &mut [u8]) {
    let to = to.as_chunks_mut::<B>().0;
    match *channels {
        [a] => select_pixels(source, [a], to),
        [a, b] => select_pixels(source, [a, b], to),
        [a, b, c] => select_pixels(source, [a, b, c], to),
        [a, b, c, d] => select_pixels(source, [a, b, c, d], to),
        _ => panic!("1 to 4 channels are selected together, not {}", channels.len()),
    }
}

fn select_pixels<const B: usize, const N: usize>(
    source: &ImageView<'_>,
    channels: [usize; N],
    to: &mut [[u8; B]],
) {
    let to = to.as_chunks_mut::<N>().0;
    let planes = channels.map(|c| source.plane(c));
    for (y, to) in (0..).zip(to.chunks_exact_mut(source.size().width as usize)) {
        for (place, (channel, plane)) in channels.iter().zip(&planes).enumerate() {
            // Each channel by itself: an array of elements would be assembled in memory.
            match plane {
                Some(plane) => {
                    let row = plane.row(y).as_chunks::<B>().0;
                    to.iter_mut().zip(row).for_each(|(to, from)| to[place] = *from);
                }
                None => {
                    let pixels = source.row(y).as_chunks::<B>().0[*channel..].iter();
                    let row = pixels.step_by(source.channels());
                    to.iter_mut().zip(row).for_each(|(to, from)| to[place] = *from);
                }
            }
        }
    }
}

fn join_elements<const L: usize>(
    (from, plane): (&[u8], usize),
    to: &mut [u8],
    width: usize,
    format: PixelFormat,
) {
    let (element, pixel) = (16 / L, pixel_bytes(format));
    if 4 * format.channels <= L {
        // Most of each transpose would be in vain.
        for c in 0..format.channels {
            let from = &from[c * plane..][..width * element];
            join_plane(from, to, (c, format.channels), element);
        }
        return;
    }
    let pixels = width.min(VECTORS * L);
    let mut tile = [[[0; 16]; VECTORS]; L];
    for x in tiles(width, pixels) {
        for c in (0..format.channels).step_by(L).rev() {
            for (c, tile) in (c..format.channels).zip(&mut tile) {
                load(&from[c * plane + x * element..][..pixels * element], tile);
            }
            write(&tile, pixels, &mut to[x * pixel as usize + c * element..], pixel);
        }
    }
}

/// Returns the columns where the tiles of a row begin. The last tile is moved back to end with the row.
fn tiles(width: usize, pixels: usize) -> impl Iterator<Item = usize> {
    (0..width).step_by(pixels.max(1)).map(move |x| x.min(width - pixels))
}

/// Returns the bytes of a pixel.
fn pixel_bytes(format: PixelFormat) -> u32 {
    format.pixel_bytes().try_into().expect("a pixel has at most 65,535 elements")
}

/// Copies the bytes of a plane to a tile.
#[inline(always)]
fn load(from: &[u8], to: &mut [[u8; 16]; VECTORS]) {
    let (vectors, rest) = from.as_chunks();
    match vectors.first_chunk() {
        Some(vectors) => *to = *vectors,
        None => {
            to[..vectors.len()].copy_from_slice(vectors);
            to[vectors.len()][..rest.len()].copy_from_slice(rest);
        }
    }
}

/// Copies the bytes of a plane from a tile.
#[inline(always)]
fn store(from: &[[u8; 16]; VECTORS], to: &mut [u8]) {
    let (vectors, rest) = to.as_chunks_mut();
    match vectors.first_chunk_mut() {
        Some(vectors) => *vectors = *from,
        None => {
            vectors.copy_from_slice(&from[..vectors.len()]);
            rest.copy_from_slice(&from[vectors.len()][..rest.len()]);
        }
    }
}

/// Reads a tile from 16 bytes of each pixel. Bytes after the end of `from` are zeros.
///
/// Multiples of a `u32` can't overflow: the compiler then sees that `from` has the bytes of all pixels if it has
/// those of the last.
#[inline(never)]
fn read<const L: usize>(from: &[u8], pixel: u32, tile: &mut Tile<L>, pixels: usize) {
    let pixel = pixel as usize;
    for vector in 0..pixels.div_ceil(L) {
        let from = &from[vector * L * pixel..];
        match from.get(..(L - 1) * pixel + 16) {
            Some(from) => {
                let rows = |p: usize| from[p * pixel..p * pixel + 16].try_into();
                let rows = std::array::from_fn(|p| rows(p).expect("sixteen bytes"));
                set_vector(tile, vector, rows);
            }
            None => read_last(from, pixel, tile, vector),
        }
    }
}

/// Sets a vector of each plane of a tile from 16 bytes of each pixel.
#[inline(always)]
fn set_vector<const L: usize>(tile: &mut Tile<L>, vector: usize, rows: [[u8; 16]; L]) {
    let columns = transposed(rows);
    for c in 0..L {
        tile[c][vector] = columns[c];
    }
}

/// Reads a vector of each plane at the end of the pixels.
#[cold]
#[inline(never)]
fn read_last<const L: usize>(from: &[u8], pixel: usize, tile: &mut Tile<L>, vector: usize) {
    let mut rows = [[0; 16]; L];
    for (row, from) in rows.iter_mut().zip((0..).map_while(|p| from.get(p * pixel..))) {
        let bytes = from.len().min(16);
        row[..bytes].copy_from_slice(&from[..bytes]);
    }
    set_vector(tile, vector, rows);
}

/// Writes a tile to 16 bytes of each pixel. Bytes after the end of `to` are not written.
#[inline(never)]
fn write<const L: usize>(tile: &Tile<L>, pixels: usize, to: &mut [u8], pixel: u32) {
    let pixel = pixel as usize;
    for vector in 0..pixels.div_ceil(L) {
        let rows = transposed::<L>(std::array::from_fn(|c| tile[c][vector]));
        let to = &mut to[vector * L * pixel..];
        match to.get_mut(..(L - 1) * pixel + 16) {
            Some(to) => {
                for p in 0..L {
                    to[p * pixel..p * pixel + 16].copy_from_slice(&rows[p]);
                }
            }
            None => write_last(rows, to, pixel),
        }
    }
}

/// Writes 16 bytes of each pixel at the end of the pixels.
#[cold]
#[inline(never)]
fn write_last<const L: usize>(rows: [[u8; 16]; L], to: &mut [u8], pixel: usize) {
    for (p, row) in rows.iter().enumerate() {
        let to = to.get_mut(p * pixel..).unwrap_or_default();
        let bytes = to.len().min(16);
        to[..bytes].copy_from_slice(&row[..bytes]);
    }
}

/// Transposes `L` vectors of `L` elements. Each step moves the highest bit of a vector's number to the lowest bit of
/// its elements' numbers, and their highest bit to its lowest; after as many steps as they have bits, the numbers
/// are exchanged.
#[inline(always)]
fn transposed<const L: usize>(mut rows: [[u8; 16]; L]) -> [[u8; 16]; L] {
    for _ in 0..L.ilog2() {
        let from = rows;
        rows =
            std::array::from_fn(|to| interleaved::<L>(from[to / 2], from[to / 2 + L / 2])[to % 2]);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use fuseloop_ops::DType;
    use fuseloop_ops::author::Window;

    /// Compares a split of the part of an image inside `window`, and a join of its planes, with the definition.
    #[track_caller]
    fn check(format: PixelFormat, size: Size, window: Window) {
        let (element, pixel) = (format.dtype.bytes(), format.pixel_bytes());
        let bytes = size.pixels() as usize * pixel;
        let bytes: Vec<u8> = (0..bytes).map(|i| (i * 7 % 251) as u8).collect();
        let stride = size.width as usize * pixel;
        let element_at = |y: u32, x: u32, c: usize| {
            let at = (window.top + y) as usize * stride + (window.left + x) as usize * pixel;
            &bytes[at + c * element..][..element]
        };
        let places = (0..window.height).flat_map(|y| (0..window.width).map(move |x| (y, x)));
        let of_plane = |c| places.clone().flat_map(move |(y, x)| element_at(y, x, c)).copied();
        let planes: Vec<u8> = (0..format.channels).flat_map(of_plane).collect();
        let of_pixel = |(y, x)| (0..format.channels).flat_map(move |c| element_at(y, x, c));
        let pixels: Vec<u8> = places.clone().flat_map(of_pixel).copied().collect();

        let view = ImageView::packed_format(&bytes, size, format).unwrap().crop(window).unwrap();
        let (mut found, mut again) = (vec![], vec![1; pixels.len()]);
        let all: Vec<usize> = (0..format.channels).collect();
        let split = split(&view, &all, &mut found).unwrap();
        assert!(split.data() == planes, "{format:?} {window:?} is split");
        join(&planes, &mut again, format);
        assert!(again == pixels, "{format:?} {window:?} is joined");
        let part = Window { top: 0, left: window.width / 2, width: 1, ..window };
        let (mut again, mut expected) = (vec![1; 3], vec![]);
        joined(&split.crop(part).unwrap(), &mut again).unwrap();
        for row in pixels.chunks_exact(window.width as usize * pixel) {
            expected.extend_from_slice(&row[part.left as usize * pixel..][..pixel]);
        }
        assert!(again == expected, "{format:?} {window:?}: a column is joined");
    }

    #[test]
    fn planes_of_any_number_of_channels_are_split_and_joined() {
        for dtype in [DType::U8, DType::U16, DType::F32, DType::F64] {
            for channels in (1..=20).chain([31, 32, 33, 300]) {
                let format = PixelFormat { channels, dtype };
                for width in [1, 2, 7, 8, 9, 16, 33, 64, 70] {
                    let size = Size::new(3, width + 2);
                    check(format, size, size.full());
                    check(format, size, Window { top: 1, left: 1, height: 2, width });
                }
            }
        }
    }

    #[test]
    fn as_many_channels_as_a_type_may_have_are_split_and_joined() {
        let format = PixelFormat { channels: 65_535, dtype: DType::F64 };
        let size = Size::new(2, 3);
        check(format, size, size.full());
    }

    #[test]
    fn transposes_exchange_rows_and_columns() {
        let rows: [[u8; 16]; 8] =
            std::array::from_fn(|r| std::array::from_fn(|i| (16 * r + i) as u8));
        let columns = transposed(rows);
        for (r, c) in (0..8).flat_map(|r| (0..8).map(move |c| (r, c))) {
            assert_eq!(columns[c][2 * r..][..2], rows[r][2 * c..][..2]);
        }
    }

    #[test]
    fn channels_are_selected_from_pixels_and_from_planes() {
        for dtype in [DType::U8, DType::I16, DType::F32, DType::I64] {
            let (size, format) = (Size::new(3, 37), PixelFormat { channels: 13, dtype });
            let bytes: Vec<u8> =
                (0..111 * format.pixel_bytes()).map(|i| (i * 7 % 251) as u8).collect();
            let view = ImageView::packed_format(&bytes, size, format).unwrap();
            let pixels = bytes.chunks_exact(format.pixel_bytes());
            let channel =
                |pixel: &[u8], c: usize| pixel[c * dtype.bytes()..][..dtype.bytes()].to_vec();
            for channels in [&[12, 3, 3][..], &[0], &[7, 1], &[1, 0, 2, 5]] {
                let want: Vec<u8> = pixels
                    .clone()
                    .flat_map(|pixel| channels.iter().flat_map(move |&c| channel(pixel, c)))
                    .collect();
                let (mut all, mut planes, mut found) = (vec![], vec![], vec![]);
                selected(&view, channels, &mut found).unwrap();
                assert!(found == want, "{dtype} of pixels: {channels:?}");
                let planar = split(&view, &(0..13).collect::<Vec<_>>(), &mut all).unwrap();
                selected(&planar, channels, &mut found).unwrap();
                assert!(found == want, "{dtype} of planes: {channels:?}");
                joined(&split(&view, channels, &mut planes).unwrap(), &mut found).unwrap();
                assert!(found == want, "{dtype} split: {channels:?}");
            }
        }
    }
}
