//! What is not re-cut: told from the headers, before memory is taken on their word.
//!
//! A coefficient takes two bytes, and a picture has as many as samples: three for each pixel of a
//! colour picture without subsampling. A component's factors can be four times as many on either
//! side of a thin picture, so it is they, padding included, that are counted.

use super::{Kept, blocks};
use crate::decode::{MAX_SCANS, Parts};
use crate::sample::Limits;

/// Coefficients of a picture, for each pixel of the limit: CMYK without subsampling.
const MAX_COMPONENTS: u64 = 4;
/// Coefficients visited by all scans together, for each pixel of the limit: twenty scans of a
/// colour picture of the largest size, more of smaller ones. Encoders write 6 to 14.
const MAX_VISITS: u64 = 64;

/// Refuses what is not re-cut.
pub(super) fn check(parts: &Parts, limits: &Limits) -> Result<(), Kept> {
    let Parts { frame, scans, .. } = parts;
    if let Some(marker) = parts.misplaced {
        return Err(Kept::Misplaced { marker });
    }
    let is_factor = |factor| (1..=4).contains(&factor);
    if !frame
        .components
        .iter()
        .all(|[_, factors, _]| is_factor(factors >> 4) && is_factor(factors & 15))
    {
        return Err(Kept::damaged(&"a sampling factor that is not 1 to 4"));
    }
    let mcus = blocks::mcus(frame);
    let needed = 64 * mcus * blocks::of_mcu(frame);
    let max = limits.max_pixels.saturating_mul(MAX_COMPONENTS);
    if needed > max || u64::from(frame.width) * u64::from(frame.height) > limits.max_pixels {
        return Err(Kept::Pixels { needed, max });
    }
    let max = (limits.max_pixels.saturating_mul(MAX_VISITS) / needed).min(MAX_SCANS.into());
    if scans.len() as u64 > max {
        return Err(Kept::Scans { found: scans.len(), max });
    }
    check_length(parts, mcus)
}

/// Refuses coded data too short for the size: each component has a block or more in each MCU's
/// place, and a block's DC difference takes a bit or more.
fn check_length(parts: &Parts, mcus: u64) -> Result<(), Kept> {
    let least = (mcus * parts.frame.components.len() as u64).div_ceil(8);
    let found: u64 = parts.scans.iter().map(|scan| scan.data.len() as u64).sum();
    if found < least {
        let reason = format!("{found} bytes of pixels, its size needs {least}");
        return Err(Kept::Damaged { reason });
    }
    Ok(())
}
