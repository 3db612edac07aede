//! HEIC: the primary image of a file, as phones take it.
//!
//! ```text
//! ftyp  meta (items, their properties, their places)  mdat (HEVC pictures, the tiles of a photograph)
//! ```
//!
//! (ISO/IEC 23008-12.) The crate `heic-rs` reads the boxes and decodes HEVC, 8 and 10 bits to 8-bit RGB or RGBA. The
//! rotation, mirroring and crop of the file's own properties are applied, and its EXIF orientation is not, as by
//! libheif: the properties say the same, so an image would be turned twice.

use super::still::{Still, StillFormat};
use fuseloop_ops::Size;
use heic_rs::{DecodeOptions, PixelLayout};

pub(super) const HEIC: StillFormat = StillFormat { header, pixels, has_more: |_| false };

fn header(file: &[u8]) -> Result<Still, String> {
    let info = heic_rs::probe(file).map_err(|error| error.to_string())?;
    let channels = if info.has_alpha { 4 } else { 3 };
    Ok(Still { is_lossy: true, ..Still::of(Size::new(info.height, info.width), channels) })
}

fn pixels(file: &[u8], still: &Still, out: &mut [u8]) -> Result<(), String> {
    let layout = if still.channels == 4 { PixelLayout::Rgba8 } else { PixelLayout::Rgb8 };
    // A crop may have cut most of the coded picture off.
    let info = heic_rs::probe(file).map_err(|error| error.to_string())?;
    let coded = u64::from(info.coded_width) * u64::from(info.coded_height);
    let most = coded.min(still.size.pixels().saturating_mul(16));
    let options = DecodeOptions {
        layout,
        max_pixels: Some(most),
        threads: Some(1),
        ..DecodeOptions::default()
    };
    let image = heic_rs::decode(file, &options).map_err(|error| error.to_string())?;
    if Size::new(image.height, image.width) != still.size || image.data.len() != out.len() {
        return Err(format!(
            "its header says {}, its pixels {}x{}",
            still.size, image.height, image.width
        ));
    }
    out.copy_from_slice(&image.data);
    Ok(())
}
