//! Turns the pixels of a picture as a player of videos does.

use crate::error::{Error, fail};
use fuseloop_ops::Size;
use fuseloop_ops::internals::RGB;

/// Writes the upright pixels of an RGB picture to `to`, and returns their size. `orientation` is that of EXIF, without
/// mirroring: 1, 3, 6 or 8.
///
/// # Errors
///
/// If the pixels are too few, or there is no memory.
pub(crate) fn upright(
    rgb: &[u8],
    size: Size,
    orientation: u8,
    to: &mut Vec<u8>,
) -> Result<Size, Error> {
    let [height, width] = [size.height as usize, size.width as usize];
    let bytes = height * width * RGB;
    let rgb = rgb
        .get(..bytes)
        .ok_or_else(|| fail!(Damaged, "the picture has fewer pixels than its size says"))?;
    to.clear();
    if to.try_reserve(bytes).is_err() {
        return Err(fail!(Memory, "no memory for the {bytes} bytes of a frame").out_of_memory());
    }
    let is_on_side = matches!(orientation, 6 | 8);
    let (rows, columns) = if is_on_side { (width, height) } else { (height, width) };
    for (y, x) in (0..rows).flat_map(|y| (0..columns).map(move |x| (y, x))) {
        let (row, column) = match orientation {
            6 => (height - 1 - x, y),
            3 => (height - 1 - y, width - 1 - x),
            8 => (x, width - 1 - y),
            _ => (y, x),
        };
        to.extend_from_slice(&rgb[(row * width + column) * RGB..][..RGB]);
    }
    Ok(Size::new(rows as u32, columns as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_turned_by_quarters() {
        let rgb: Vec<u8> = [1, 2, 3, 4, 5, 6].into_iter().flat_map(|level| [level; RGB]).collect();
        let cases = [
            (1, (2, 3), [1, 2, 3, 4, 5, 6]),
            (6, (3, 2), [4, 1, 5, 2, 6, 3]),
            (3, (2, 3), [6, 5, 4, 3, 2, 1]),
            (8, (3, 2), [3, 6, 2, 5, 1, 4]),
        ];
        for (orientation, (height, width), expected) in cases {
            let mut turned = vec![];
            let size = upright(&rgb, Size::new(2, 3), orientation, &mut turned).unwrap();
            assert_eq!(size, Size::new(height, width));
            let levels: Vec<u8> = turned.into_iter().step_by(RGB).collect();
            assert_eq!(levels, expected, "{orientation}");
        }
        assert!(upright(&rgb, Size::new(3, 3), 1, &mut vec![]).is_err());
    }
}
