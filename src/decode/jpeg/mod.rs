//! JPEG: no more of a picture than a window needs.
//!
//! | file                                      | decoded by  | what                                 |
//! |-------------------------------------------|-------------|--------------------------------------|
//! | usual: baseline, one scan, YCbCr or gray  | `core`      | the window                           |
//! | another of one sequential scan            | zune-jpeg   | all columns, the rows down to the window's last |
//! | and restart markers                       |             | the window's tiles, and up to two more beside |
//! | progressive, or a scan for each component | zune-jpeg   | everything                           |
//!
//! Where the core takes a file, it gives zune-jpeg's pixels (but for the chroma of the last column
//! and row, which zune-jpeg interpolates with what fills up the last block, and the core, as
//! libjpeg, does not), and whatever it finds wrong with one it leaves to zune-jpeg to say. That knows nothing of windows: it is given a file cut down to one
//! ([`cut`]). What it gets wrong without saying so is refused beforehand.

mod core;
mod cut;
mod headers;
mod index;
mod parts;
mod scans;

use self::core::{Core, Source};
use super::orientation::Orientation;
use super::{DecodeError, DecodeOptions, Decoded, ImageDecoder};
use crate::source::EncodedImage;
use cut::Cut;
pub use cut::tile_interval;
use fuseloop_ops::{ImageView, RGB, Size, Window};
use headers::Headers;
pub use index::append_segment_index;
pub(crate) use parts::{Frame, Part, Parts, ScanParts};
pub(crate) use scans::MAX_SCANS;
use scans::{Markers, Scans, finest};
use zune_core::{bytestream::ZCursor, colorspace::ColorSpace, options::DecoderOptions};

/// By what JPEGs are decoded: for tests and benches, which compare the two.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// By our own decoder, and what that leaves by zune-jpeg.
    #[default]
    Both,
    /// By our own, and what that leaves is an error.
    Core,
    /// By zune-jpeg.
    Zune,
}

/// Decodes JPEGs. One for each worker: it keeps its buffers.
#[derive(Debug, Default)]
pub(super) struct JpegDecoder {
    options: DecodeOptions,
    by: By,
    core: Core,
    /// The file as zune-jpeg sees it.
    file: Vec<u8>,
    /// Offsets of the file's restart markers.
    restarts: Vec<usize>,
    pixels: Vec<u8>,
    /// The window of a picture that was turned.
    turned: Vec<u8>,
}

impl JpegDecoder {
    pub(super) fn new(options: DecodeOptions, by: By) -> Self {
        Self { options, by, ..Self::default() }
    }

    /// Reads the headers and checks them against limits, sample table and what is decoded right.
    fn headers(&self, image: &EncodedImage<'_>) -> Result<Headers, DecodeError> {
        let limits = &self.options.limits;
        let len = image.bytes.len() as u64;
        if len > limits.max_sample_bytes {
            return Err(DecodeError::Bytes { len, max: limits.max_sample_bytes });
        }
        let headers = Headers::parse(image.bytes)?;
        let (header, table) = (headers.size, Size::new(image.height, image.width));
        if header != table && table != Size::new(0, 0) {
            return Err(DecodeError::SizeMismatch { header, table });
        }
        if header.pixels() > limits.max_pixels {
            return Err(DecodeError::Pixels { size: header, max: limits.max_pixels });
        }
        check_sampling(&headers)?;
        Ok(headers)
    }

    fn orientation(&self, image: &EncodedImage<'_>, headers: &Headers) -> Orientation {
        match &headers.exif {
            Some(exif) if self.options.exif_orientation => {
                Orientation::of_exif(&image.bytes[exif.clone()])
            }
            _ => Orientation::UPRIGHT,
        }
    }

    /// Decodes `wanted`, a part of the picture as stored, at least.
    fn part(
        &mut self,
        bytes: &[u8],
        headers: &Headers,
        wanted: Window,
    ) -> Result<Decoded<'_>, DecodeError> {
        let Self { by, core, restarts, file, pixels, .. } = self;
        let scans = Scans::survey(bytes, headers, Markers::Told, restarts)?;
        let mut shown = None;
        if let (By::Both | By::Core, Scans::Single(scan)) = (*by, &scans) {
            let room = buffer(pixels, wanted.size(), false)?;
            let done = core.decode(Source { bytes, headers, scan }, wanted, room);
            shown = done.map(|()| Shown { size: wanted.size(), part: wanted, lead: 0 });
        }
        let Shown { size, part, lead } = match shown {
            Some(shown) => shown,
            None if *by == By::Core => {
                return Err(DecodeError::Damaged { reason: "left to zune-jpeg".into() });
            }
            None => {
                let scans = if scans.are_told() {
                    Scans::survey(bytes, headers, Markers::Found, restarts)?
                } else {
                    scans
                };
                by_zune(bytes, headers, &scans, wanted, file, pixels)?
            }
        };
        let view = ImageView::packed(pixels, size)
            .and_then(|view| view.crop(Window { top: 0, left: lead, ..part }))
            .expect("the buffer was made for this part");
        Ok(Decoded { view, top: part.top, left: part.left })
    }
}

/// What was decoded.
struct Shown {
    /// Of all pixels.
    size: Size,
    /// The part of the picture that can be taken from them.
    part: Window,
    /// Columns before it.
    lead: u32,
}

/// Decodes `wanted`, a part of the picture as stored, at least.
fn by_zune(
    bytes: &[u8],
    headers: &Headers,
    scans: &Scans<'_>,
    wanted: Window,
    file: &mut Vec<u8>,
    pixels: &mut Vec<u8>,
) -> Result<Shown, DecodeError> {
    let Scans::Single(scan) = scans else {
        let size = headers.size;
        reserve(&mut Vec::<u8>::new(), scans::coefficient_bytes(headers))?; // zune-jpeg keeps all
        decode_into(bytes, size, buffer(pixels, size, true)?)?;
        return Ok(Shown { size, part: size.full(), lead: 0 });
    };
    let cut = Cut::plan(headers, wanted);
    file.clear();
    reserve(file, bytes.len().saturating_add(cut::MOST_ADDED))?;
    cut.write(bytes, headers, scan, file);
    let Cut { decoded: size, window: part, lead, .. } = cut;
    decode_into(file, size, buffer(pixels, size, true)?)?;
    Ok(Shown { size, part, lead })
}

impl ImageDecoder for JpegDecoder {
    fn size(&mut self, image: &EncodedImage<'_>) -> Result<Size, DecodeError> {
        let headers = self.headers(image)?;
        Ok(self.orientation(image, &headers).turned(headers.size))
    }

    fn decode<'a>(
        &'a mut self,
        image: &EncodedImage<'a>,
        wanted: Window,
    ) -> Result<Decoded<'a>, DecodeError> {
        let headers = self.headers(image)?;
        let orientation = self.orientation(image, &headers);
        super::check_window(wanted, orientation.turned(headers.size))?;
        let stored = orientation.stored(wanted, headers.size);
        if orientation == Orientation::UPRIGHT {
            return self.part(image.bytes, &headers, stored);
        }
        let mut turned = std::mem::take(&mut self.turned);
        let outcome = self.part(image.bytes, &headers, stored).and_then(|decoded| {
            turned.clear();
            reserve(
                &mut turned,
                usize::try_from(3 * stored.size().pixels()).unwrap_or(usize::MAX),
            )?;
            let window = decoded.window(stored).expect("the part holds the window");
            orientation.turn(window, &mut turned);
            Ok(())
        });
        self.turned = turned; // also if there is nothing to turn: the next picture wants it
        outcome?;
        let view = ImageView::packed(&self.turned, wanted.size());
        let view = view.expect("turning keeps the number of pixels");
        Ok(Decoded { view, top: wanted.top, left: wanted.left })
    }
}

/// Refuses factors other than 1, 2 and 4, and components finer than the first: the decoder gets
/// their pixels wrong, or fails.
fn check_sampling(headers: &Headers) -> Result<(), DecodeError> {
    let (h_max, v_max) = finest(headers);
    for (component, &headers::Component { h, v, .. }) in headers.components.iter().enumerate() {
        let known = [h, v].iter().all(|factor| matches!(factor, 1 | 2 | 4));
        if !known || (component == 0 && (h, v) != (h_max, v_max)) {
            return Err(DecodeError::Sampling { component, h, v, h_max, v_max });
        }
    }
    Ok(())
}

/// Makes room for so many bytes more.
fn reserve(buffer: &mut Vec<u8>, bytes: usize) -> Result<(), DecodeError> {
    buffer.try_reserve_exact(bytes).map_err(|_| DecodeError::Memory { bytes })
}

/// Room for a picture. What it holds is of another picture, unless it is to be `cleared`: zune-jpeg
/// may call a damaged picture decoded of which it did not write every row.
fn buffer(pixels: &mut Vec<u8>, size: Size, cleared: bool) -> Result<&mut [u8], DecodeError> {
    let bytes = usize::try_from(size.pixels() * RGB as u64).unwrap_or(usize::MAX);
    if pixels.len() < bytes {
        let memory = |_| DecodeError::Memory { bytes };
        pixels.try_reserve_exact(bytes - pixels.len()).map_err(memory)?;
        pixels.resize(bytes, 0);
    }
    let pixels = &mut pixels[..bytes];
    if cleared {
        pixels.fill(0);
    }
    Ok(pixels)
}

/// Decodes a picture that is known to be of `size`.
fn decode_into(file: &[u8], size: Size, pixels: &mut [u8]) -> Result<(), DecodeError> {
    let damaged = |reason: &dyn ToString| DecodeError::Damaged { reason: reason.to_string() };
    // Without strict mode a file cut short is a success with gray pixels.
    let options = DecoderOptions::new_fast()
        .set_strict_mode(true)
        .set_max_width(u16::MAX.into())
        .set_max_height(u16::MAX.into())
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = zune_jpeg::JpegDecoder::new_with_options(ZCursor::new(file), options);
    decoder.decode_headers().map_err(|error| damaged(&error))?;
    if decoder.dimensions() != Some((size.width as usize, size.height as usize)) {
        return Err(damaged(&"two readings of its header differ"));
    }
    decoder.decode_into(pixels).map_err(|error| damaged(&error))
}
