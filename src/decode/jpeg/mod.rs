//! JPEG, by zune-jpeg: whole width, and no more rows than wanted.
//!
//! A window's columns can't be had for less, since entropy-coded data have no places to jump to,
//! but its rows can: the copy of the file that the decoder is given says a smaller height, and
//! the decoder stops there. Rows end at an MCU; where chroma has fewer rows than luma, the last
//! row decoded is interpolated from chroma beyond it, so one row more is asked for and the
//! pixels of the window are those of the whole picture's decode, bit for bit.
//!
//! The copy serves a second purpose. Past the end of its data the decoder reads zeros, and gives
//! wrong pixels for a picture that lacks some. So the end marker is put off by ones: a run of
//! ones is no Huffman code (T.81, C.2), and reading into it is an error.
//!
//! Progressive pictures and those of a scan for each component are decoded whole, as they lie.

mod headers;
mod scans;

use super::orientation::Orientation;
use super::{DecodeError, DecodeOptions, Decoded, ImageDecoder};
use crate::source::EncodedImage;
use fuseloop_ops::{Channels, ImageView, Size, Window};
use headers::{EOI, Headers};
use scans::{Grid, Scans, finest};
use zune_core::{bytestream::ZCursor, colorspace::ColorSpace, options::DecoderOptions};

/// Decodes JPEGs. One for each worker: it keeps its buffers.
#[derive(Debug, Default)]
pub(super) struct JpegDecoder {
    options: DecodeOptions,
    /// The file as the decoder sees it.
    file: Vec<u8>,
    pixels: Vec<u8>,
    /// The window of a picture that was turned.
    turned: Vec<u8>,
}

/// Ones between the data and the end marker: more than the decoder ever reads ahead, 64 bits.
const ONES: [u8; 24] = [
    0xff, 0, 0xff, 0, 0xff, 0, 0xff, 0, 0xff, 0, 0xff, 0, 0xff, 0, 0xff, 0, 0xff, 0, 0xff, 0, 0xff,
    0, 0xff, 0,
];

impl JpegDecoder {
    pub(super) fn new(options: DecodeOptions) -> Self {
        Self { options, ..Self::default() }
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

    /// Decodes rows `0..end` at least, and returns how many.
    fn rows(&mut self, bytes: &[u8], headers: &Headers, end: u32) -> Result<u32, DecodeError> {
        let size = headers.size;
        match Scans::survey(bytes, headers)? {
            Scans::Single { end: data_end } => {
                let height = height_to_decode(headers, end);
                copy_with_height(bytes, headers.height_at, height, data_end, &mut self.file);
                let rows = Size::new(height, size.width);
                // Rare ratios go through other code, which we do not trust to write every row.
                let pixels = buffer(&mut self.pixels, rows, !is_common(headers))?;
                decode_into(&self.file, rows, pixels)?;
                Ok(height)
            }
            Scans::Several => {
                let pixels = buffer(&mut self.pixels, size, true)?;
                decode_into(bytes, size, pixels)?;
                Ok(size.height)
            }
        }
    }
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
        let height = self.rows(image.bytes, &headers, stored.top + stored.height)?;
        let view = ImageView::packed(&self.pixels, Size::new(height, headers.size.width));
        let view = view.expect("the buffer was made for these rows");
        if orientation == Orientation::UPRIGHT {
            return Ok(Decoded { view, top: 0, left: 0 });
        }
        let window = view.crop(stored).expect("the window was checked, its rows are decoded");
        orientation.turn(window, &mut self.turned);
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

/// Whether all ratios are 1 or 2.
fn is_common(headers: &Headers) -> bool {
    let (h, v) = finest(headers);
    h <= 2 && v <= 2
}

/// How many rows to decode so that rows `0..end` are those of the whole picture.
fn height_to_decode(headers: &Headers, end: u32) -> u32 {
    let mcu = Grid::of(headers).mcu_height;
    let below = u32::from(mcu > 8); // a row of chroma beyond, where chroma has fewer rows
    (end + below).next_multiple_of(mcu).min(headers.size.height)
}

/// Copies a file up to the end of its data, with another height in its frame header.
fn copy_with_height(bytes: &[u8], at: usize, height: u32, end: usize, file: &mut Vec<u8>) {
    let height = u16::try_from(height).expect("not over the header's own height");
    file.clear();
    file.extend_from_slice(&bytes[..end]);
    file[at..at + 2].copy_from_slice(&height.to_be_bytes());
    file.extend_from_slice(&ONES);
    file.extend_from_slice(&[0xff, EOI]);
}

/// Room for a picture. What it holds is of another picture, unless it is to be `cleared`.
fn buffer(pixels: &mut Vec<u8>, size: Size, cleared: bool) -> Result<&mut [u8], DecodeError> {
    let bytes = usize::try_from(size.pixels() * Channels::RGB as u64).unwrap_or(usize::MAX);
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
