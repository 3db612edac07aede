//! Refuses files that are not re-cut, from their headers alone, before memory is allocated for them.
//!
//! A coefficient takes two bytes, and an image has as many coefficients as samples: three for each pixel
//! of a colour image without subsampling. In a thin image a component's padded sides can be four times
//! as long, so the check counts coefficients with their padding.

use super::{Unchanged, coefficients};
use crate::decode::{JpegSegments, MAX_SCANS};
use crate::sample::Limits;

/// Most coefficients for each pixel of the limit: CMYK without subsampling.
const MAX_COMPONENTS: u64 = 4;
/// Most coefficients visited by all scans together, for each pixel of the limit: twenty scans of a
/// colour image of the largest size, more scans of smaller images. Encoders write 6 to 14.
const MAX_VISITS: u64 = 64;

/// Most blocks of an MCU of several components (T.81, B.2.3). libjpeg reads no more.
const MAX_BLOCKS: u64 = 10;

/// Refuses files that are not re-cut.
pub(super) fn check(parts: &JpegSegments, limits: &Limits) -> Result<(), Unchanged> {
    let JpegSegments { frame, scans, .. } = parts;
    if let Some(marker) = parts.misplaced {
        return Err(Unchanged::Misplaced { marker });
    }
    let is_factor = |factor| (1..=4).contains(&factor);
    if !frame
        .components
        .iter()
        .all(|[_, factors, _]| is_factor(factors >> 4) && is_factor(factors & 15))
    {
        return Err(Unchanged::damaged(&"a sampling factor that is not 1 to 4"));
    }
    let blocks = coefficients::blocks_per_mcu(frame);
    if frame.components.len() > 1 && blocks > MAX_BLOCKS {
        return Err(Unchanged::Blocks { blocks, max: MAX_BLOCKS });
    }
    let mcus = coefficients::mcus(frame);
    let needed = 64 * mcus * blocks;
    let max = limits.max_pixels.saturating_mul(MAX_COMPONENTS);
    if needed > max || u64::from(frame.width) * u64::from(frame.height) > limits.max_pixels {
        return Err(Unchanged::Pixels { needed, max });
    }
    let max = (limits.max_pixels.saturating_mul(MAX_VISITS) / needed).min(MAX_SCANS.into());
    if scans.len() as u64 > max {
        return Err(Unchanged::Scans { found: scans.len(), max });
    }
    check_length(parts, mcus)
}

/// Refuses coded data too short for the size: each component has at least one block in each MCU, and a
/// block's DC difference takes at least one bit.
fn check_length(parts: &JpegSegments, mcus: u64) -> Result<(), Unchanged> {
    let least = (mcus * parts.frame.components.len() as u64).div_ceil(8);
    let found: u64 = parts.scans.iter().map(|scan| scan.data.len() as u64).sum();
    if found < least {
        let reason = format!("{found} bytes of pixels, its size needs {least}");
        return Err(Unchanged::Damaged { reason });
    }
    Ok(())
}
