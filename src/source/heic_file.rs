//! HEIC: the primary image of a file, as phones take it.
//!
//! ```text
//! ftyp  meta (items, their properties, their places)  mdat (HEVC pictures, the tiles of a photograph)
//! ```
//!
//! (ISO/IEC 23008-12.) The crate `heic-rs` reads the boxes and decodes HEVC, 8 and 10 bits to 8-bit RGB or RGBA. The
//! rotation, mirroring and crop of the file's own properties are applied, and its EXIF orientation is not, as by
//! libheif: the properties say the same, so an image would be turned twice. As in libheif, a chroma sample is repeated for its
//! pixels; `heic-rs` itself would blend it with its neighbours. Chroma of 4:2:2 is refused, and so are many files of 4:4:4,
//! which `heic-rs` does not decode; phones write 4:2:0.

use super::still::{Still, StillFormat};
use fuseloop_ops::Size;
use heic_rs::context::Context;
use heic_rs::hevc::{self, Frame};
use heic_rs::props::{ItemProps, Transform};
use heic_rs::{ChromaFormat, Image, Mirror, PixelLayout};

pub(super) const HEIC: StillFormat = StillFormat { header, pixels, has_more: |_| false };

fn header(file: &[u8]) -> Result<Still, String> {
    let info = heic_rs::probe(file).map_err(|error| error.to_string())?;
    let channels = if info.has_alpha { 4 } else { 3 };
    Ok(Still { is_lossy: true, ..Still::of(Size::new(info.height, info.width), channels) })
}

fn pixels(file: &[u8], still: &Still, out: &mut [u8]) -> Result<(), String> {
    let image = decode(file, still).map_err(|error| error.to_string())?;
    if Size::new(image.height, image.width) != still.size || image.data.len() != out.len() {
        return Err(format!(
            "its header says {}, its pixels {}x{}",
            still.size, image.width, image.height
        ));
    }
    out.copy_from_slice(&image.data);
    Ok(())
}

/// Decodes the primary image as `heic_rs::decode` does, but for chroma, which is repeated as by libheif.
fn decode(file: &[u8], still: &Still) -> heic_rs::Result<Image> {
    let context = Context::open(file)?;
    let id = context.meta.primary;
    let mut properties = context.props(id)?;
    for transform in &mut properties.transforms {
        // libheif, which most files are written by, mirrors along the other axis than `heic-rs`.
        if let Transform::Mirror(mirror) = transform {
            *mirror = match mirror {
                Mirror::LeftRight => Mirror::TopBottom,
                Mirror::TopBottom => Mirror::LeftRight,
            };
        }
    }
    // A crop may have cut most of the coded picture off, which consists of blocks of up to 64 x 64 pixels.
    let [height, width] = [still.size.height, still.size.width];
    let blocks = |side: u32| u64::from(side).next_multiple_of(64);
    let most = blocks(height).saturating_mul(blocks(width)).saturating_mul(16);
    let (width, height) = context.coded_size(id, &properties)?;
    heic_rs::image::check_pixels(width, height, most)?;
    let frame = frame(&context, id, &properties, most)?;
    let has_alpha = still.channels == 4;
    let alpha = match context.alpha_item(id)?.filter(|_| has_alpha) {
        Some(alpha) => Some(self::frame(&context, alpha, &context.props(alpha)?, most)?),
        None => None,
    };
    let layout = if has_alpha { PixelLayout::Rgba8 } else { PixelLayout::Rgb8 };
    let nclx = properties.nclx.unwrap_or_default();
    let frame = with_full_chroma(frame)?;
    let image = heic_rs::color::convert(&frame, alpha.as_ref(), nclx, layout, most, Some(1))?;
    heic_rs::transform::apply_all(image, &properties.transforms)
}

/// Decodes the picture of an item, which may consist of tiles.
fn frame(
    context: &Context<'_>,
    id: u32,
    properties: &ItemProps<'_>,
    most: u64,
) -> heic_rs::Result<Frame> {
    if let Some((grid, tiles)) = context.grid(id)? {
        let mut left = most;
        let mut tile = |tile: &u32| {
            let frame = coded(context, *tile, &context.props(*tile)?, left)?;
            left -= (u64::from(frame.width) * u64::from(frame.height)).min(left);
            Ok(frame)
        };
        let tiles = tiles.iter().map(&mut tile).collect::<heic_rs::Result<Vec<Frame>>>()?;
        return heic_rs::grid::compose(&grid, &tiles, most);
    }
    coded(context, id, properties, most)
}

/// Decodes a picture of at most `most` pixels.
fn coded(
    context: &Context<'_>,
    id: u32,
    properties: &ItemProps<'_>,
    most: u64,
) -> heic_rs::Result<Frame> {
    let configuration = properties.hvcc.as_ref().ok_or(heic_rs::Error::MissingBox("hvcC"))?;
    let sets = configuration.parameter_sets();
    let info = hevc::probe(&sets)?;
    heic_rs::image::check_pixels(info.width, info.height, most)?;
    let data = context.item_data(id)?;
    let frame = hevc::decode_still(&sets, &configuration.split_nals(&data)?)?;
    frame.validate()?;
    if frame.chroma == ChromaFormat::Yuv422 {
        // `heic-rs` decodes it to other colours.
        return Err(heic_rs::Error::Unsupported("chroma of 4:2:2"));
    }
    Ok(frame)
}

/// Repeats each chroma sample for the pixels that it stands for.
fn with_full_chroma(frame: Frame) -> heic_rs::Result<Frame> {
    let (x_shift, y_shift) = match frame.chroma {
        ChromaFormat::Yuv420 => (1, 1),
        _ => return Ok(frame),
    };
    let (width, stride) = (frame.width as usize, frame.c_stride as usize);
    let rows = |plane: &[u16]| {
        let mut full = Vec::new();
        let pixels = width.saturating_mul(frame.height as usize);
        full.try_reserve_exact(pixels)
            .map_err(|_| heic_rs::Error::Malformed("no memory for chroma"))?;
        for y in 0..frame.height as usize {
            let row = plane.get((y >> y_shift) * stride..).unwrap_or_default();
            full.extend((0..width).map(|x| row.get(x >> x_shift).copied().unwrap_or_default()));
        }
        Ok::<_, heic_rs::Error>(full)
    };
    let (cb, cr) = (rows(&frame.cb)?, rows(&frame.cr)?);
    Ok(Frame { cb, cr, c_stride: frame.width, chroma: ChromaFormat::Yuv444, ..frame })
}
