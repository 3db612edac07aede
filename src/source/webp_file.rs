//! The chunks of a WebP file: what has to be known before its pixels are decoded.
//!
//! ```text
//! RIFF size WEBP  VP8  frame                      lossy
//!                 VP8L frame                      lossless
//!                 VP8X flags canvas  chunk*       with alpha, metadata or several frames
//! ANMF rectangle flags  [ALPH] (VP8 | VP8L)       a frame of an animation
//! ```
//!
//! A chunk is a name of four bytes, a little-endian length and as many bytes, padded to an even number (RFC 9649,
//! section 2). A frame repeats its size; the decoder takes memory by it, so all sizes are compared here.

use fuseloop_ops::Size;

/// The most pixels of a side: a frame's size has 14 bits.
const MAX_SIDE: u32 = 1 << 14;

/// The facts in the headers of a WebP file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WebpHeader {
    pub(crate) size: Size,
    /// True if the first image is lossy: it has no exact numbers.
    pub(crate) is_lossy: bool,
    pub(crate) has_alpha: bool,
}

/// The first image of a WebP file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WebpImage<'a> {
    pub(crate) frame: WebpFrame<'a>,
    /// The left and the top of the image on the canvas: not 0 in an animation only.
    pub(crate) corner: (u32, u32),
    /// False if the file says that all pixels are opaque. A lossless image says so itself, in its own header.
    pub(crate) has_alpha: bool,
}

/// The chunks of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WebpFrame<'a> {
    Lossy {
        frame: &'a [u8],
        /// The alpha, unless the file says that it has none.
        alpha: Option<&'a [u8]>,
    },
    Lossless(&'a [u8]),
}

impl<'a> WebpImage<'a> {
    /// Finds the first image of a file whose [headers](WebpHeader::parse) are right.
    pub(crate) fn find(file: &'a [u8]) -> Option<Self> {
        let (name, data, rest) = chunk(file.get(12..)?).ok()?;
        if name != b"VP8X" {
            let frame = WebpFrame::find(file.get(12..)?, false)?;
            let has_alpha = matches!(frame, WebpFrame::Lossless(_));
            return Some(Self { frame, corner: (0, 0), has_alpha });
        }
        let flags = data.first()?;
        let (is_animated, has_alpha) = (flags & 2 != 0, flags & 16 != 0);
        if !is_animated {
            let frame = WebpFrame::find(rest, has_alpha)?;
            let has_alpha = has_alpha || matches!(frame, WebpFrame::Lossless(_));
            return Some(Self { frame, corner: (0, 0), has_alpha });
        }
        let mut rest = rest;
        loop {
            let (name, data, after) = chunk(rest).ok()?;
            if name == b"ANMF" {
                let (place, chunks) = data.split_first_chunk::<16>()?;
                let corner = (2 * three(&place[0..]), 2 * three(&place[3..]));
                return Some(Self {
                    frame: WebpFrame::find(chunks, has_alpha)?,
                    corner,
                    has_alpha,
                });
            }
            rest = after;
        }
    }
}

impl<'a> WebpFrame<'a> {
    /// Finds the first frame in a sequence of chunks, and its alpha.
    fn find(mut chunks: &'a [u8], has_alpha: bool) -> Option<Self> {
        let mut alpha = None;
        loop {
            let (name, data, after) = chunk(chunks).ok()?;
            match name {
                b"VP8 " => return Some(Self::Lossy { frame: data, alpha }),
                b"VP8L" => return Some(Self::Lossless(data)),
                b"ALPH" if has_alpha => alpha = alpha.or(Some(data)),
                _ => {}
            }
            chunks = after;
        }
    }
}

/// A chunk: its name, its bytes, and what follows it.
type Chunk<'a> = (&'a [u8; 4], &'a [u8], &'a [u8]);

impl WebpHeader {
    /// Reads the headers from a file, or from its first bytes if they have the first frame's header.
    ///
    /// # Errors
    ///
    /// If the headers are cut or contradict each other; the error says why.
    pub(crate) fn parse(file: &[u8]) -> Result<Self, String> {
        let rest = match file.split_first_chunk::<12>() {
            Some((start, rest)) if start.starts_with(b"RIFF") && start.ends_with(b"WEBP") => rest,
            _ => return Err("it does not begin as a WebP".into()),
        };
        let (name, data, rest) = chunk(rest)?;
        if name != b"VP8X" {
            return frame(name, data);
        }
        let canvas = data.get(4..10).ok_or("it ends inside its canvas")?;
        let size = Size::new(three(&canvas[3..]) + 1, three(canvas) + 1);
        if size.height > MAX_SIDE || size.width > MAX_SIDE {
            return Err(format!("a canvas of {size}: a side has at most {MAX_SIDE} pixels"));
        }
        let (is_animated, has_alpha) = (data[0] & 2 != 0, data[0] & 16 != 0);
        let mut rest = rest;
        // The decoder takes the first chunk of each name, so the first frame is the one that is decoded.
        loop {
            let (name, data, after) = chunk(rest)?;
            match name {
                b"VP8 " | b"VP8L" if !is_animated => {
                    let found = frame(name, data)?;
                    if found.size != size {
                        let found = found.size;
                        return Err(format!("its frame is {found}, its canvas {size}"));
                    }
                    // libwebp asks the lossless image itself, too.
                    let has_alpha = if found.is_lossy { has_alpha } else { found.has_alpha };
                    return Ok(Self { has_alpha, ..found });
                }
                b"ANMF" if is_animated => {
                    let is_lossy = Self::of_animation(data, size)?;
                    return Ok(Self { size, is_lossy, has_alpha });
                }
                _ => rest = after,
            }
        }
    }

    /// Compares the sizes of an animation's frame. Returns whether it is lossy.
    fn of_animation(data: &[u8], canvas: Size) -> Result<bool, String> {
        let (place, rest) = data.split_first_chunk::<16>().ok_or("it ends inside a frame")?;
        let size = Size::new(three(&place[9..]) + 1, three(&place[6..]) + 1);
        let (left, top) = (2 * three(&place[0..]), 2 * three(&place[3..]));
        if left + size.width > canvas.width || top + size.height > canvas.height {
            return Err(format!("a frame of {size} is not inside the canvas of {canvas}"));
        }
        let (mut name, mut data, after) = chunk(rest)?;
        if name == b"ALPH" {
            (name, data, _) = chunk(after)?;
            if name != b"VP8 " {
                return Err("no lossy frame follows its alpha".into());
            }
        }
        let found = frame(name, data)?;
        if found.size != size {
            return Err(format!("a frame is {}, its rectangle {size}", found.size));
        }
        Ok(found.is_lossy)
    }
}

/// Splits the first chunk off. The last chunk may be cut, as in the first bytes of a file.
fn chunk(bytes: &[u8]) -> Result<Chunk<'_>, String> {
    let cut = || "it ends before its first frame".to_owned();
    let (name, rest) = bytes.split_first_chunk::<4>().ok_or_else(cut)?;
    let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(cut)?;
    let length = u32::from_le_bytes(*length) as usize;
    let data = rest.get(..length).unwrap_or(rest);
    let after = rest.get(length.saturating_add(length % 2)..).unwrap_or_default();
    Ok((name, data, after))
}

/// Reads the header of a frame.
fn frame(name: &[u8; 4], data: &[u8]) -> Result<WebpHeader, String> {
    let cut = "it ends inside the header of a frame";
    match name {
        b"VP8 " => {
            let header = data.first_chunk::<10>().ok_or(cut)?;
            if header[0] & 1 != 0 || header[3..6] != [0x9d, 0x01, 0x2a] {
                return Err("its frame is no key frame".into());
            }
            let side = |at: usize| u32::from(u16::from_le_bytes([header[at], header[at + 1]]));
            let size = Size::new(side(8) & 0x3fff, side(6) & 0x3fff);
            Ok(WebpHeader { size, is_lossy: true, has_alpha: false })
        }
        b"VP8L" => {
            let [signature, bits @ ..] = data.first_chunk::<5>().ok_or(cut)?;
            if *signature != 0x2f {
                return Err(format!("its lossless frame begins with {signature:02x}, expected 2f"));
            }
            let bits = u32::from_le_bytes(*bits);
            let size = Size::new((bits >> 14 & 0x3fff) + 1, (bits & 0x3fff) + 1);
            Ok(WebpHeader { size, is_lossy: false, has_alpha: bits >> 28 & 1 != 0 })
        }
        _ => Err(format!("its first chunk is {:?}", String::from_utf8_lossy(name))),
    }
}

/// Reads a little-endian number of three bytes.
fn three(bytes: &[u8]) -> u32 {
    bytes.iter().take(3).rev().fold(0, |number, &byte| number << 8 | u32::from(byte))
}
