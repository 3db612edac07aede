//! GIF: the first image of a file, on its screen.
//!
//! ```text
//! "GIF87a" or "GIF89a"  screen  [palette]  block*
//! "!"  label  data      an extension; F9 has the transparent index of the next image
//! ","  rectangle  [palette]  LZW data
//! ";"                   the end
//! ```
//!
//! (GIF89a, appendix A.) The crate `gif` decodes the LZW data; the sizes are checked here first. As in Pillow, the
//! screen grows to an image that does not fit, pixels of the screen outside the image have the transparent index, or 0,
//! and indices are levels of gray if there is no palette.

use super::still::{Still, StillFormat, cut, palette};
use crate::panicked::call_decoder;
use fuseloop_ops::Size;
use gif::{ColorOutput, DecodeOptions, MemoryLimit};

pub(super) const GIF: StillFormat = StillFormat { header, pixels, has_more };

/// The bytes before the first palette.
const SCREEN: usize = 13;

/// The first image.
struct FirstImage<'a> {
    screen: Size,
    top: u32,
    left: u32,
    size: Size,
    palette: Option<&'a [u8]>,
    transparent: Option<u8>,
    /// The offset of the LZW data.
    data: usize,
}

/// Returns the bytes of a palette that the flags announce, and the offset behind it.
fn colours(file: &[u8], flags: u8, at: usize) -> Result<(Option<&[u8]>, usize), String> {
    if flags & 0x80 == 0 {
        return Ok((None, at));
    }
    let end = at + (6 << (flags & 7));
    Ok((Some(file.get(at..end).ok_or_else(|| cut("palette"))?), end))
}

/// Returns the offset behind the sub-blocks at `at`: each is a length and as many bytes, and the last is empty.
fn after_blocks(file: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let length = *file.get(at)?;
        at += 1 + usize::from(length);
        if length == 0 {
            return Some(at);
        }
    }
}

impl<'a> FirstImage<'a> {
    fn parse(file: &'a [u8]) -> Result<Self, String> {
        let short = || "it ends before its first image".to_owned();
        if !file.starts_with(b"GIF87a") && !file.starts_with(b"GIF89a") {
            return Err("it does not begin as a GIF".into());
        }
        let side = |at: usize| {
            let two = file.get(at..).and_then(<[u8]>::first_chunk);
            two.map(|two| u32::from(u16::from_le_bytes(*two))).ok_or_else(short)
        };
        let (width, height, flags) = (side(6)?, side(8)?, *file.get(10).ok_or_else(short)?);
        let (of_all, mut at) = colours(file, flags, SCREEN)?;
        let mut transparent = None;
        loop {
            match file.get(at) {
                Some(b'!') => {
                    if let Some([0xf9, length, flags, _, _, index]) = file.get(at + 1..at + 7)
                        && *length >= 4
                    {
                        transparent = (flags & 1 != 0).then_some(*index);
                    }
                    at = after_blocks(file, at + 2).ok_or_else(short)?;
                }
                Some(b',') => break,
                Some(b';') => return Err("it has no image".into()),
                Some(other) => {
                    return Err(format!("its byte {at} is {other:02x}, which begins no block"));
                }
                None => return Err(short()),
            }
        }
        let (left, top) = (side(at + 1)?, side(at + 3)?);
        let size = Size::new(side(at + 7)?, side(at + 5)?);
        let flags = *file.get(at + 9).ok_or_else(short)?;
        let (own, data) = colours(file, flags, at + 10)?;
        let screen = Size::new(height.max(top + size.height), width.max(left + size.width));
        Ok(Self { screen, top, left, size, palette: own.or(of_all), transparent, data })
    }
}

fn header(file: &[u8]) -> Result<Still, String> {
    let image = FirstImage::parse(file)?;
    let mut still = Still::of(image.screen, 1);
    if image.size.pixels() == 0 {
        return Err(format!("its first image is {}", image.size));
    }
    if image.palette.is_some() || image.transparent.is_some() {
        let gray = || (0..=u8::MAX).map(|level| [level; 3]);
        let mut colours = match image.palette {
            Some(stored) => palette(stored.as_chunks::<3>().0.iter().copied()),
            None => palette(gray()),
        };
        if let Some(index) = image.transparent {
            colours[usize::from(index)][3] = 0;
        }
        still.palette = Some(colours);
    }
    Ok(still)
}

fn pixels(file: &[u8], still: &Still, out: &mut [u8]) -> Result<(), String> {
    let image = FirstImage::parse(file)?;
    let is_whole = image.size == still.size;
    let mut inside = vec![];
    let stored: &mut [u8] = if is_whole {
        &mut *out
    } else {
        let bytes = image.size.height as usize * image.size.width as usize;
        inside.try_reserve_exact(bytes).map_err(|_| "there is no memory for its pixels")?;
        inside.resize(bytes, 0);
        &mut inside
    };
    call_decoder("gif", || {
        let mut options = DecodeOptions::new();
        options.set_color_output(ColorOutput::Indexed);
        options.set_memory_limit(MemoryLimit::Unlimited);
        // Its size was compared with the limits, and its buffer is ours.
        let mut decoder = options.read_info(file)?;
        let frame = decoder.next_frame_info()?;
        let read = frame.map(|frame| Size::new(frame.height.into(), frame.width.into()));
        if read != Some(image.size) {
            return Err(gif::DecodingError::from(std::io::Error::other(
                "two readers find different images",
            )));
        }
        decoder.read_into_buffer(stored)
    })?;
    if !is_whole {
        out.fill(image.transparent.unwrap_or(0));
        let (left, width) = (image.left as usize, image.size.width as usize);
        let rows = out.chunks_exact_mut(still.size.width as usize).skip(image.top as usize);
        for (row, inside) in rows.zip(inside.chunks_exact(width)) {
            row[left..left + width].copy_from_slice(inside);
        }
    }
    Ok(())
}

/// Returns whether another image follows the first.
fn has_more(file: &[u8]) -> bool {
    let Ok(image) = FirstImage::parse(file) else { return false };
    // The data begin with the size of a code.
    let mut at = after_blocks(file, image.data + 1);
    while let Some(b'!') = at.and_then(|at| file.get(at)) {
        at = at.and_then(|at| after_blocks(file, at + 2));
    }
    at.and_then(|at| file.get(at)) == Some(&b',')
}
