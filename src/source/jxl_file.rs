//! JPEG XL: the first frame of a file.
//!
//! ```text
//! ff 0a  codestream        or boxes: "JXL ", ftyp, jxlc or jxlp with the codestream
//! ```
//!
//! (ISO/IEC 18181.) The crate `jxl` decodes the codestream, in the colour space of the file, as libjxl does: to 8 bits, but
//! gray of more bits to levels of as many. Its orientation is applied, as it is a part of the format.

use super::still::{Still, StillFormat, cut};
use fuseloop_ops::Size;
use jxl::api::{
    Endianness, Event, ExtraChannel, JxlBasicInfo, JxlColorType, JxlDataFormat, JxlDecoder,
    JxlDecoderOptions, JxlOutputBuffer, JxlPixelFormat,
};

pub(super) const JXL: StillFormat = StillFormat { header, pixels, has_more };

/// The most channels beside the colours: an image has memory for each of them.
const MOST_EXTRA: usize = 16;

fn begin(mut file: &[u8], samples: Option<usize>) -> Result<(JxlDecoder, &[u8]), String> {
    let mut options = JxlDecoderOptions::default();
    options.sample_limit = samples;
    let mut decoder = JxlDecoder::new(options);
    match decoder.process(&mut file, None, None).map_err(|error| error.to_string())? {
        Event::BasicInfo => Ok((decoder, file)),
        _ => Err(cut("header")),
    }
}

fn info(decoder: &JxlDecoder) -> Result<(Still, &JxlBasicInfo), String> {
    let info = decoder.basic_info().ok_or_else(|| cut("header"))?;
    let side = |side: usize| u32::try_from(side).map_err(|_| "its size is too large".to_owned());
    let size = Size::new(side(info.size.1)?, side(info.size.0)?);
    if info.extra_channels.len() > MOST_EXTRA {
        return Err(format!(
            "it has {} extra channels, at most {MOST_EXTRA} are read",
            info.extra_channels.len()
        ));
    }
    let is_gray =
        decoder.current_pixel_format().is_some_and(|format| format.color_type.is_grayscale());
    let has_alpha = info.extra_channels.iter().any(|one| one.ec_type == ExtraChannel::Alpha);
    let channels = if is_gray { 1 } else { 3 } + u8::from(has_alpha);
    let bits = info.bit_depth.bits_per_sample();
    let white =
        if is_gray && (9..=16).contains(&bits) { ((1_u32 << bits) - 1) as u16 } else { 255 };
    Ok((Still { is_lossy: true, white, ..Still::of(size, channels) }, info))
}

fn header(file: &[u8]) -> Result<Still, String> {
    let (decoder, _) = begin(file, None)?;
    Ok(info(&decoder)?.0)
}

fn has_more(file: &[u8]) -> bool {
    begin(file, None)
        .is_ok_and(|(decoder, _)| decoder.basic_info().is_some_and(|info| info.animation.is_some()))
}

fn pixels(file: &[u8], still: &Still, out: &mut [u8]) -> Result<(), String> {
    // A frame may be larger than the image that it is a part of.
    // The decoder pads small ones.
    let samples = out.len().saturating_mul(2 + MOST_EXTRA).max(1 << 16);
    let (mut decoder, mut rest) = begin(file, Some(samples))?;
    let (found, info) = info(&decoder)?;
    let extra = info.extra_channels.len();
    if found != *still {
        return Err("two readings of its header differ".into());
    }
    let color_type = match still.channels {
        1 => JxlColorType::Grayscale,
        2 => JxlColorType::GrayscaleAlpha,
        3 => JxlColorType::Rgb,
        _ => JxlColorType::Rgba,
    };
    let format = match still.white {
        255 => JxlDataFormat::U8 { bit_depth: 8 },
        white => JxlDataFormat::U16 {
            endianness: Endianness::native(),
            bit_depth: (white.count_ones()) as u8,
        },
    };
    let format = JxlPixelFormat {
        color_type,
        color_data_format: Some(format),
        extra_channel_format: vec![None; extra],
    };
    decoder.set_pixel_format(format).map_err(|error| error.to_string())?;
    let (rows, row) = (still.size.height as usize, still.size.width as usize * still.pixel_bytes());
    // Rows of two bytes a sample must be aligned to them, which ours need not be.
    let mut aligned = vec![];
    if still.white > 255 {
        aligned
            .try_reserve_exact(out.len() + 1)
            .map_err(|_| "there is no memory for its pixels")?;
        aligned.resize(out.len() + 1, 0);
    }
    let first = aligned.as_ptr().addr() % 2;
    loop {
        let bytes = if still.white > 255 { &mut aligned[first..] } else { &mut *out };
        let mut buffers = [JxlOutputBuffer::new(bytes, rows, row)];
        let event = decoder.process(&mut rest, Some(&mut buffers), None);
        match event.map_err(|error| error.to_string())? {
            Event::FrameComplete { .. } => break,
            Event::NeedMoreInput { .. } => return Err(cut("pixels")),
            Event::Complete => return Err("it has no frame".into()),
            Event::BasicInfo | Event::FrameHeader => {}
        }
    }
    if let Some(levels) = aligned.get(first..first + out.len()) {
        out.copy_from_slice(levels);
    }
    Ok(())
}
