//! JPEG: decodes no more of an image than a window needs.
//!
//! | file                                      | decoded by        | what is decoded                |
//! |-------------------------------------------|-------------------|--------------------------------|
//! | usual: baseline, one scan, YCbCr or gray  | [`WindowDecoder`] | the window                     |
//! | any other sequential file: in several scans, of other colours or samplings | `WindowDecoder` | all columns, the rows down to the window's last |
//! | progressive, YCbCr or gray of usual sampling | `WindowDecoder` | the window; all scans are read down to its last row |
//! | any other progressive file                | `WindowDecoder`   | all columns, the rows down to the window's last |
//! | bit-plane image ([`BitPlaneLayout`])      | `WindowDecoder`   | the window's tiles             |
//!
//! Our decoder is the crate `fuseloop_jpeg`. Which colours the components are is decided as in libjpeg, in one place
//! ([`Colours`]). Its pixels equal zune-jpeg's, except for the chroma of the last column and row: zune-jpeg interpolates
//! that chroma with the samples that only fill up the last block; ours, like libjpeg, does not. Of usual sequential files it
//! reports no errors: it leaves any that it finds damaged to zune-jpeg. A bit-plane image is made only of a usual file. At a
//! smaller [`Scale`] it transforms fewer coefficients; another file is decoded whole, and its pixels are averaged. zune-jpeg
//! knows no windows, so it is given a copy of the file cut down to one ([`WindowCut`]). Of a bit-plane image, and of a JPEG
//! with an index, it needs no more bytes than those of the window's rows ([`parts`]).

#[cfg(feature = "write")]
mod bit_plane_writer;
#[cfg(feature = "write")]
mod jpeg_segments;
mod parts;

use super::buffer::{check_bytes, image_bytes, room};
use super::error::{no_memory, too_many_pixels};
use super::orientation::{Orientation, StoredSize};
use super::{DecodeOptions, Decoded, DecodedForm, ScaledImage};
use crate::error::{Damage, Error, fail};
use crate::exif;
use crate::panicked::call_decoder;
use crate::source::{BoxError, EncodedImage, PartialImage};
#[cfg(feature = "write")]
pub(crate) use bit_plane_writer::{BitPlaneError, BitPlaneWriter};
#[cfg(all(feature = "spec", feature = "tables", feature = "tar", feature = "write"))]
pub(crate) use fuseloop_jpeg::resealed;
pub use fuseloop_jpeg::tile_interval;
use fuseloop_jpeg::{
    APP14, BitPlaneLayout, Colours, Component, Headers, IndexedJpeg, JpegError, MOST_ADDED,
    Markers, SOS, Scale, Scans, Segments, SingleScan, Wanted, WindowCut, WindowDecoder,
    coefficient_bytes, index, is_sampled_simply, max_factors,
};
#[cfg(feature = "write")]
pub(crate) use fuseloop_jpeg::{MAX_SCANS, STANDARD_TABLES};
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;
use fuseloop_ops::internals::{ImageView, RGB};
#[cfg(feature = "write")]
pub(crate) use jpeg_segments::{ByteRange, FrameHeader, JpegSegments, ScanSegments};
pub(super) use parts::JpegParts;
use zune_core::{bytestream::ZCursor, colorspace::ColorSpace, options::DecoderOptions};

/// Appends the index of its segments to a JPEG of one sequential scan with restart markers; see [`index::append`].
///
/// # Errors
///
/// If the bytes are not a JPEG, or a damaged one.
pub fn append_segment_index(jpeg: &mut Vec<u8>) -> Result<(), Error> {
    Ok(index::append(jpeg)?)
}

/// The backend that decodes JPEGs. Tests and benches select one to compare the two.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JpegBackend {
    /// Our own decoder, and zune-jpeg for usual files that ours finds damaged.
    #[default]
    Both,
    /// Our own decoder alone; a file that it does not decode is an error.
    Core,
    /// zune-jpeg alone.
    Zune,
}

/// Decodes JPEGs. Each worker has its own decoder, which reuses its buffers.
#[derive(Debug, Default)]
pub(super) struct JpegDecoder {
    options: DecodeOptions,
    backend: JpegBackend,
    core: WindowDecoder,
    /// The copy of the file that zune-jpeg is given.
    file: Vec<u8>,
    /// Offsets of the file's restart markers.
    restarts: Vec<usize>,
    pixels: Vec<u8>,
    /// The window at a smaller scale, of a file that was decoded whole.
    shrunk: Vec<u8>,
    /// The window after orientation.
    turned: Vec<u8>,
}

/// The headers of a JPEG, read and checked.
#[derive(Debug)]
pub(super) struct JpegHeaders {
    stored: Headers,
    /// The layout of a bit-plane image.
    planes: Option<BitPlaneLayout>,
    /// True if only parts of the image are read.
    is_partial: bool,
    /// The end of the coded data of such a JPEG, once the segments of a window were read.
    scan_end: Option<usize>,
    /// The EXIF orientation, from 1 to 8, whether the image is turned by it or not.
    exif_orientation: u8,
    /// True if the image is turned by it.
    is_turned: bool,
    scale: Scale,
}

impl JpegHeaders {
    /// Returns the size after orientation.
    pub(super) fn size(&self) -> Size {
        self.orientation().turned(self.stored_size())
    }

    /// Returns how the image is turned.
    fn orientation(&self) -> Orientation {
        self.whole().orientation()
    }

    /// Returns the EXIF orientation and the size as stored, if the image is stored in another orientation than upright.
    pub(super) fn turned(&self) -> Option<(u32, Size)> {
        self.whole().turned()
    }

    /// Returns the whole image, at its own scale.
    fn whole(&self) -> StoredSize {
        let Self { ref stored, exif_orientation, is_turned, .. } = *self;
        StoredSize { size: stored.size, exif_orientation, is_turned }
    }

    /// Returns the size before orientation.
    fn stored_size(&self) -> Size {
        self.scale.of(self.stored.size)
    }

    /// Returns whether the image is a JPEG, one with several restart markers in each row, or bit planes.
    pub(super) fn form(&self) -> DecodedForm {
        if self.planes.is_some() {
            return DecodedForm::BitPlanes;
        }
        let (across, _) = max_factors(&self.stored);
        let interval = u32::from(self.stored.restart_interval) * 8 * u32::from(across);
        match (1..self.stored.size.width).contains(&interval) && !self.stored.progressive {
            true => DecodedForm::RecutJpeg,
            false => DecodedForm::Jpeg,
        }
    }

    /// Returns whether the core decodes windows of files with such headers, unless they are damaged, and reads no more
    /// coded data than a baseline JPEG has before them.
    pub(super) fn is_for_core(&self) -> bool {
        !self.stored.progressive && is_sampled_simply(&self.stored)
    }

    /// Returns the image that decoding at 1 / `factor` of the size gives; `None` for files of which the core decodes no
    /// windows.
    pub(super) fn scaled(&self, factor: u32) -> Option<ScaledImage> {
        if !is_sampled_simply(&self.stored) {
            return None;
        }
        let scale = Scale::of_factor(factor)?;
        let (whole, stored) = (self.stored.size, scale.of(self.stored.size));
        let rest =
            |larger: u32, smaller: u32| f64::from(smaller) - f64::from(larger) / f64::from(factor);
        let rests = [rest(whole.height, stored.height), rest(whole.width, stored.width)];
        let origin = self.orientation().origin(rests);
        Some(ScaledImage { factor, size: self.orientation().turned(stored), origin })
    }

    /// Decodes at 1 / `factor` of the size from now on.
    pub(super) fn set_scale(&mut self, factor: u32) {
        self.scale = Scale::of_factor(factor).unwrap_or(Scale::FULL);
    }
}

impl JpegDecoder {
    pub(super) fn new(options: DecodeOptions, backend: JpegBackend) -> Self {
        Self { options, backend, ..Self::default() }
    }

    /// Reads the headers and checks them against the limits, the sample table and what is supported.
    pub(super) fn headers(&self, image: &EncodedImage<'_>) -> Result<JpegHeaders, Error> {
        check_bytes(image, &self.options.limits)?;
        #[cfg(test)]
        tests::PARSED.set(tests::PARSED.get() + 1);
        self.checked(image, Headers::parse(image.bytes)?, None)
    }

    /// Does the same as [`headers`](Self::headers) for a bit-plane image.
    pub(super) fn headers_of_planes(&self, image: &EncodedImage<'_>) -> Result<JpegHeaders, Error> {
        check_bytes(image, &self.options.limits)?;
        let (layout, headers) = BitPlaneLayout::parse(image.bytes)?;
        self.checked(image, headers, Some(layout))
    }

    /// Does the same as [`headers`](Self::headers) for an image of which parts are read, whose headers were.
    pub(super) fn headers_of_parts(
        &self,
        image: &EncodedImage<'_>,
        parts: JpegParts,
    ) -> Result<JpegHeaders, Error> {
        check_bytes(image, &self.options.limits)?;
        let headers = self.checked(image, parts.headers, parts.planes)?;
        Ok(JpegHeaders { is_partial: true, ..headers })
    }

    /// Reads what decoding `wanted` needs, a window of the upright image of which parts are read.
    ///
    /// # Errors
    ///
    /// If the bytes can't be read, or the index is not that of the image.
    pub(super) fn read_window(
        &mut self,
        image: &mut PartialImage<'_>,
        headers: &mut JpegHeaders,
        gray: bool,
        wanted: Window,
    ) -> Result<(), BoxError> {
        let window = headers.orientation().stored(wanted, headers.stored_size());
        let wanted = Wanted { window, scale: headers.scale, gray };
        parts::read_window(image, headers, wanted, &mut self.restarts)
    }

    /// Checks headers, which are those of a JPEG or of a bit-plane image.
    fn checked(
        &self,
        image: &EncodedImage<'_>,
        headers: Headers,
        planes: Option<BitPlaneLayout>,
    ) -> Result<JpegHeaders, Error> {
        let (header, table) = (headers.size, Size::new(image.height, image.width));
        if header != table && table != Size::new(0, 0) {
            return Err(fail!(
                Damaged,
                "the JPEG's header says {header}, the sample table {table}"
            ));
        }
        let max = self.options.limits.max_pixels;
        if header.pixels() > max {
            return Err(too_many_pixels(header, max));
        }
        check_sampling(&headers)?;
        let jpeg = planes.as_ref().map_or(image.bytes, |layout| layout.head(image.bytes));
        let exif = headers.exif.as_ref();
        let exif_orientation = exif.map_or(1, |exif| exif::value_in(&jpeg[exif.clone()]));
        Ok(JpegHeaders {
            stored: headers,
            planes,
            is_partial: false,
            scan_end: None,
            exif_orientation,
            is_turned: self.options.exif_orientation,
            scale: Scale::FULL,
        })
    }

    /// Decodes at least `wanted`, a window of the upright image: to luma alone if `gray` is set, else to RGB.
    pub(super) fn decode(
        &mut self,
        bytes: &[u8],
        headers: &JpegHeaders,
        gray: bool,
        wanted: Window,
    ) -> Result<Decoded<'_>, Error> {
        let orientation = headers.orientation();
        let stored = orientation.stored(wanted, headers.stored_size());
        let channels = if gray { 1 } else { RGB };
        if orientation == Orientation::UPRIGHT {
            return self.decode_window(bytes, headers, channels, stored);
        }
        let mut turned = std::mem::take(&mut self.turned);
        let outcome = self.decode_window(bytes, headers, channels, stored).and_then(|decoded| {
            turned.clear();
            reserve(&mut turned, image_bytes(stored.size(), channels)?)?;
            let window = decoded.window(stored).expect("the part holds the window");
            orientation.turn(window, &mut turned);
            Ok(())
        });
        self.turned = turned; // also after an error: the next image reuses the buffer
        outcome?;
        let view = ImageView::packed_channels(&self.turned, wanted.size(), channels);
        let view = view.expect("turning keeps the number of pixels");
        Ok(Decoded { view, top: wanted.top, left: wanted.left })
    }

    /// Decodes at least `wanted`, a window of the image as stored.
    fn decode_window(
        &mut self,
        bytes: &[u8],
        headers: &JpegHeaders,
        channels: usize,
        wanted: Window,
    ) -> Result<Decoded<'_>, Error> {
        let JpegHeaders { stored: headers, planes, is_partial, scan_end, scale, .. } = headers;
        let as_wanted = Wanted { window: wanted, scale: *scale, gray: channels == 1 };
        if let Some(layout) = planes {
            let out = buffer(&mut self.pixels, wanted.size(), channels, false)?;
            let image = layout.image(bytes);
            let done = self.core.decode_planes(&image, headers, as_wanted, out);
            let what = "its streams are no coefficients, or a checksum differs";
            done.ok_or_else(|| fail!(Damaged, "damaged bit-plane image: {what}"))?;
            let view = ImageView::packed_channels(&self.pixels, wanted.size(), channels);
            let view = view.expect("the buffer was made for this window");
            return Ok(Decoded { view, top: wanted.top, left: wanted.left });
        }
        let Self { backend, core, restarts, file, pixels, shrunk, .. } = self;
        let scans = match *scan_end {
            Some(end) => {
                Scans::Single(SingleScan::new(headers, restarts, end, Markers::FromIndex)?)
            }
            None if *is_partial => return Err(partly_read()),
            None => Scans::survey(bytes, headers, Markers::FromIndex, restarts)?,
        };
        let mut shown = None;
        let as_shown = || DecodedWindow { size: wanted.size(), part: wanted, lead: 0 };
        let (is_usual, by_core) = (is_sampled_simply(headers), *backend != JpegBackend::Zune);
        if by_core && is_usual {
            let out = buffer(pixels, wanted.size(), channels, false)?;
            let done = match &scans {
                Scans::Single(scan) => {
                    core.decode(IndexedJpeg { bytes, headers, scan }, as_wanted, out)
                }
                Scans::Progressive(scans) => {
                    Some(core.decode_progressive(bytes, headers, scans, as_wanted, out)?)
                }
                Scans::Several => None,
            };
            shown = done.map(|()| as_shown());
        }
        let decoded = match shown {
            Some(shown) => shown,
            None if *is_partial => return Err(partly_read()),
            None if *backend == JpegBackend::Core && is_usual => {
                return Err(fail!(Damaged, "damaged JPEG: left to zune-jpeg"));
            }
            None => {
                let whole = scale.in_full(wanted, headers.size);
                let decoded = if by_core && !is_usual {
                    let out = buffer(pixels, whole.size(), channels, false)?;
                    let scans = match &scans {
                        Scans::Progressive(scans) => &scans[..],
                        _ => &[],
                    };
                    core.decode_any(bytes, headers, scans, (whole, channels == 1), out)?;
                    DecodedWindow { size: whole.size(), part: whole, lead: 0 }
                } else {
                    let scans = if scans.come_from_index() {
                        Scans::survey(bytes, headers, Markers::FromScan, restarts)?
                    } else {
                        scans
                    };
                    let scans = (&scans, channels);
                    decode_with_zune(bytes, headers, scans, whole, file, pixels)?
                };
                if *scale == Scale::FULL {
                    decoded
                } else {
                    let out = buffer(shrunk, wanted.size(), channels, false)?;
                    let view = decoded.view(pixels, channels).and_then(|view| {
                        let Window { top, left, .. } = decoded.part;
                        view.crop(Window { top: whole.top - top, left: whole.left - left, ..whole })
                    });
                    scale.shrink(view.expect("the window was decoded"), wanted.size(), out);
                    let view = ImageView::packed_channels(shrunk, wanted.size(), channels);
                    let view = view.expect("the buffer was made for this window");
                    return Ok(Decoded { view, top: wanted.top, left: wanted.left });
                }
            }
        };
        let view = decoded.view(pixels, channels).expect("the buffer was made for this part");
        Ok(Decoded { view, top: decoded.part.top, left: decoded.part.left })
    }
}

/// Returns the error for an image that can't be decoded from the parts of it that were read.
fn partly_read() -> Error {
    fail!(Damaged, "damaged JPEG: only parts of it were read")
}

/// The pixels that a backend decoded.
struct DecodedWindow {
    /// The size of the decoded image.
    size: Size,
    /// The window of the whole image that can be taken from the pixels.
    part: Window,
    /// Columns of the decoded image before that window.
    lead: u32,
}

impl DecodedWindow {
    /// Returns the window that can be taken from the pixels.
    fn view<'a>(&self, pixels: &'a [u8], channels: usize) -> Option<ImageView<'a>> {
        let view = ImageView::packed_channels(pixels, self.size, channels)?;
        view.crop(Window { top: 0, left: self.lead, ..self.part })
    }
}

/// Decodes at least `wanted`, a window of the image as stored, with zune-jpeg.
fn decode_with_zune(
    bytes: &[u8],
    headers: &Headers,
    (scans, channels): (&Scans<'_>, usize),
    wanted: Window,
    file: &mut Vec<u8>,
    pixels: &mut Vec<u8>,
) -> Result<DecodedWindow, Error> {
    let Scans::Single(scan) = scans else {
        if !headers.progressive || is_decoded_wrong(headers) {
            return Err(fail!(Damaged, "damaged JPEG: zune-jpeg does not decode its scans"));
        }
        let size = headers.size;
        reserve(&mut Vec::<u8>::new(), coefficient_bytes(headers))?; // zune-jpeg stores all of them
        file.clear();
        reserve(file, bytes.len())?;
        write_without_adobe(bytes, file)?;
        decode_into(file, headers, size, buffer(pixels, size, channels, true)?)?;
        return Ok(DecodedWindow { size, part: size.full(), lead: 0 });
    };
    let cut = WindowCut::plan(headers, wanted);
    file.clear();
    reserve(file, bytes.len().saturating_add(MOST_ADDED))?;
    cut.write(bytes, headers, scan, file);
    let WindowCut { decoded: size, window: part, lead, .. } = cut;
    decode_into(file, headers, size, buffer(pixels, size, channels, true)?)?;
    Ok(DecodedWindow { size, part, lead })
}

/// Copies a JPEG without the Adobe segments before its first scan: the colours that they name are known, and zune-jpeg
/// refuses some of them.
fn write_without_adobe(bytes: &[u8], file: &mut Vec<u8>) -> Result<(), Error> {
    let mut segments = Segments { bytes, at: 2 };
    file.extend_from_slice(&bytes[..2]);
    loop {
        let start = segments.at;
        let segment = segments.next_segment().map_err(JpegError::from)?;
        if segment.marker == SOS {
            file.extend_from_slice(&bytes[start..]);
            return Ok(());
        }
        if segment.marker != APP14 {
            file.extend_from_slice(&bytes[start..segment.body.end]);
        }
    }
}

/// Returns whether zune-jpeg decodes a progressive image to wrong pixels: one of factors other than 1, 2 and 4, or of
/// components finer than the first.
fn is_decoded_wrong(headers: &Headers) -> bool {
    let finest = max_factors(headers);
    let components = &*headers.components;
    components.first().is_some_and(|first| (first.h, first.v) != finest)
        || components.iter().any(|component| component.h == 3 || component.v == 3)
}

/// Refuses samplings that libjpeg refuses: factors that do not divide the largest ones.
fn check_sampling(headers: &Headers) -> Result<(), Error> {
    let (h_max, v_max) = max_factors(headers);
    for (component, &Component { h, v, .. }) in headers.components.iter().enumerate() {
        if ![h, v].iter().all(|factor| (1..=4).contains(factor)) {
            let at = headers.height_at - 3;
            return Err(fail!(
                Damaged,
                "damaged JPEG header: a sampling factor other than 1 to 4 at byte {at}"
            ));
        }
        if h_max % h != 0 || v_max % v != 0 {
            let error = fail!(
                Damaged,
                "JPEG component {component} has {h}x{v} samples where the finest has {h_max}x{v_max}: only whole \
                 ratios can be decoded, by libjpeg too"
            );
            return Err(error.damage(Damage::Unsupported));
        }
    }
    Ok(())
}

/// Reserves memory for `bytes` more bytes.
fn reserve(buffer: &mut Vec<u8>, bytes: usize) -> Result<(), Error> {
    buffer.try_reserve_exact(bytes).map_err(|_| no_memory(bytes))
}

/// Returns a buffer for an image of `size`. It holds pixels of an earlier image unless `cleared` is set:
/// zune-jpeg may report success for a damaged image although it did not write every row.
fn buffer(
    pixels: &mut Vec<u8>,
    size: Size,
    channels: usize,
    cleared: bool,
) -> Result<&mut [u8], Error> {
    let pixels = room(pixels, image_bytes(size, channels)?)?;
    if cleared {
        pixels.fill(0);
    }
    Ok(pixels)
}

/// The crate that decodes JPEGs whole.
const CRATE: &str = "zune-jpeg";

/// Decodes an image whose size is known to be `size`: to RGB, or to gray if there is one byte a pixel.
fn decode_into(file: &[u8], headers: &Headers, size: Size, pixels: &mut [u8]) -> Result<(), Error> {
    let damaged = |reason: String| fail!(Damaged, "damaged JPEG: {reason}");
    // Without strict mode zune-jpeg decodes a truncated file without an error, to gray pixels.
    let options = DecoderOptions::new_fast()
        .set_strict_mode(true)
        .set_max_width(u16::MAX.into())
        .set_max_height(u16::MAX.into())
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = zune_jpeg::JpegDecoder::new_with_options(ZCursor::new(file), options);
    call_decoder(CRATE, || decoder.decode_headers()).map_err(damaged)?;
    if decoder.dimensions() != Some((size.width as usize, size.height as usize)) {
        return Err(damaged("two decoders read different sizes from its header".into()));
    }
    let (colours, count) = (headers.colours, headers.components.len());
    let is_gray = pixels.len() as u64 == size.pixels();
    // The colours of the samples according to zune-jpeg: asked for them, it leaves the samples as they are.
    let stored = match (count, decoder.input_colorspace()) {
        (3, Some(ColorSpace::CMYK)) => ColorSpace::RGB,
        (3, Some(ColorSpace::YCCK)) => ColorSpace::YCbCr,
        (_, found) => found.unwrap_or(ColorSpace::YCbCr),
    };
    let is_known = match colours {
        Colours::Gray => true,
        Colours::YCbCr => stored == ColorSpace::YCbCr,
        _ => false,
    };
    if is_known && !is_gray {
        return call_decoder(CRATE, || decoder.decode_into(pixels)).map_err(damaged);
    }
    let channels = if count == 1 { RGB } else { count };
    if count > 1 {
        decoder.set_options(options.jpeg_set_out_colorspace(stored));
    }
    let mut samples = vec![];
    let samples = room(&mut samples, image_bytes(size, channels)?)?;
    call_decoder(CRATE, || decoder.decode_into(samples)).map_err(damaged)?;
    let width = size.width as usize;
    let (mut planes, mut rgb) = ([const { vec![] }; 4], vec![]);
    let rows = samples.chunks_exact(channels * width);
    for (samples, out) in rows.zip(pixels.chunks_exact_mut(if is_gray { 1 } else { RGB } * width)) {
        for (channel, plane) in planes[..channels].iter_mut().enumerate() {
            plane.clear();
            plane.extend(samples[channel..].iter().step_by(channels));
        }
        let [a, b, c, d] = &planes;
        colours.write_row(&[a, b, c, d], is_gray, &mut rgb, out);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::decode::Decoder;
    use crate::source::{EncodedImage, ImageMode};
    use fuseloop_ops::author::Window;
    use std::cell::Cell;

    thread_local! {
        /// The number of headers that this thread has parsed.
        pub(super) static PARSED: Cell<u64> = const { Cell::new(0) };
    }

    #[test]
    fn headers_are_parsed_once_for_the_size_and_all_windows() {
        let photo = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/jpeg/422.jpg");
        let bytes = std::fs::read(photo).unwrap();
        let image = EncodedImage { mode: ImageMode::Jpeg, width: 0, height: 0, bytes: &bytes };
        let mut decoder = Decoder::default();
        let before = PARSED.get();
        let mut opened = decoder.open(&image).unwrap();
        let full = opened.size().full();
        for wanted in [full, Window { height: 1, width: 1, ..full }] {
            opened.decode(wanted).unwrap();
        }
        assert_eq!(PARSED.get() - before, 1);
    }
}
