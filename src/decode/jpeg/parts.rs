//! Images of which only the bytes that a window needs are read: bit-plane images, and re-cut JPEGs.
//!
//! ```text
//! bit planes   | headers, index |   main: ..rows..   |   side: ..rows..   | tail |
//! re-cut JPEG  | headers |  segments: ..from the window's first to its last..  | index |
//! ```
//!
//! Headers and index are read first, which is enough to draw. Then the window is known, and one range of each stream, or
//! one of the segments, is read. What is decoded, and which damage is found there, does not differ from an image that was
//! read whole: the checksums of headers and rows, or the restart markers of the segments. Bytes that were not read are not
//! checked. Whatever is found wrong, the caller reads the whole image, so errors and files that zune-jpeg must decode are
//! those of a whole image.

use super::JpegHeaders;
use crate::error::fail;
use crate::source::{BoxError, ImageMode, PartialImage};
use fuseloop_jpeg::index::{self, FOOTER};
use fuseloop_jpeg::{
    BitPlaneLayout, Headers, Markers, SingleScan, Wanted, header_bytes, is_sampled_simply,
    needed_mcus,
};

/// The share of an image, and the limits in bytes, of what is read first at its beginning and at its end: usually all
/// headers and the index, which are 1 to 3 % of the images that it is about.
const FIRST_SHARE: usize = 32;
const FIRST_LEAST: usize = 4 << 10;
const FIRST_MOST: usize = 64 << 10;

/// The headers of an image of which parts are read.
#[derive(Debug)]
pub(in crate::decode) struct JpegParts {
    pub(super) headers: Headers,
    /// The layout of a bit-plane image; `None` for a JPEG with an index.
    pub(super) planes: Option<BitPlaneLayout>,
}

impl JpegParts {
    /// Reads the headers and the index of an image; `None` if the image must be read whole.
    ///
    /// # Errors
    ///
    /// If the bytes can't be read, or the headers are damaged.
    pub(in crate::decode) fn read(image: &mut PartialImage<'_>) -> Result<Option<Self>, BoxError> {
        let len = image.bytes().len();
        let first = (len / FIRST_SHARE).clamp(FIRST_LEAST, FIRST_MOST).min(len);
        image.read(0..first)?;
        let found = ImageMode::of_file(&image.bytes()[..first]);
        if image.extent().mode.is_some_and(|mode| mode != found) {
            return Ok(None);
        }
        if found == ImageMode::BitPlanes {
            let head = header_bytes(&image.bytes()[..first], len)?;
            if head > first {
                image.read(first..head)?;
            }
            let (layout, headers) = BitPlaneLayout::parse(image.bytes())?;
            return Ok(Some(Self { headers, planes: Some(layout) }));
        }
        let last = first.max(FOOTER);
        if found != ImageMode::Jpeg || last >= len {
            return Ok(None);
        }
        image.read(len - last..len)?;
        let Some(tail) = index::tail_bytes(image.bytes()) else { return Ok(None) };
        if tail > last {
            image.read(len - tail..len - last)?;
        }
        let headers = read_headers(image, first)?;
        let is_for_core = headers.as_ref().is_some_and(|headers| {
            !headers.progressive && is_sampled_simply(headers) && headers.restart_interval > 0
        });
        Ok(headers.filter(|_| is_for_core).map(|headers| Self { headers, planes: None }))
    }
}

/// Parses the headers of a JPEG, of which the first `read` bytes were read, and reads more as long as they go on; `None`
/// if they take more than half of the image.
fn read_headers(
    image: &mut PartialImage<'_>,
    mut read: usize,
) -> Result<Option<Headers>, BoxError> {
    loop {
        if let Some(headers) = Headers::parse_start(&image.bytes()[..read])? {
            return Ok(Some(headers));
        }
        let more = 2 * read;
        if more > image.bytes().len() / 2 {
            return Ok(None);
        }
        image.read(read..more)?;
        read = more;
    }
}

/// Reads the bytes that decoding a window of the stored image needs. Of a JPEG, also notes where the segments are: the
/// restart markers in `restarts`, the end in the headers.
///
/// # Errors
///
/// If the bytes can't be read, or if those that say where the others are do not match the image.
pub(super) fn read_window(
    image: &mut PartialImage<'_>,
    headers: &mut JpegHeaders,
    wanted: Wanted,
    restarts: &mut Vec<usize>,
) -> Result<(), BoxError> {
    let damaged = || fail!(Damaged, "damaged JPEG: the index is not that of the image");
    let (grid, [rows, columns]) = needed_mcus(wanted, &headers.stored);
    if let Some(layout) = &headers.planes {
        let parts = layout.bytes_of_rows(image.bytes(), grid, rows);
        for part in parts.ok_or_else(damaged)? {
            image.read(part)?;
        }
        return Ok(());
    }
    let stored = &headers.stored;
    headers.scan_end = None;
    let end = index::read_tail(image.bytes(), stored, restarts).ok_or_else(damaged)?;
    let scan = SingleScan::new(stored, restarts, end, Markers::FromIndex)?;
    let interval = u64::from(stored.restart_interval).max(1);
    let first_mcu = rows.start * grid.columns + columns.start;
    let last_mcu = rows.end.saturating_sub(1) * grid.columns + columns.end.max(1) - 1;
    let (first, last) = ((first_mcu / interval) as usize, (last_mcu / interval) as usize);
    // The marker before the segments and the one after them.
    let part = scan.segment(first).start.saturating_sub(2)..scan.segment(last).end + 2;
    if part.start > part.end || part.end > image.bytes().len() {
        return Err(damaged().into());
    }
    image.read(part)?;
    let bytes = image.bytes();
    let mut markers = (first.saturating_sub(1)..=last).filter_map(|n| Some((*restarts.get(n)?, n)));
    if !markers.all(|(at, n)| index::is_restart(bytes, at, n as u64)) {
        return Err(damaged().into());
    }
    headers.scan_end = Some(end);
    Ok(())
}
