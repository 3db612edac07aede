//! Which picture the targets of an image are of: the pixels as they are stored, or the upright picture that the EXIF
//! orientation of the image makes of them.
//!
//! | the annotations are of a picture of | `exif_orientation` is not set | false   | true    |
//! |-------------------------------------|-------------------------------|---------|---------|
//! | the stored size                     | taken                         | taken   | refused |
//! | the upright size                    | refused                       | refused | taken   |
//! | a size that says neither, or none   | refused                       | taken   | taken   |
//!
//! Annotations that have a size say which picture they are of if the orientation exchanges rows and columns (5 to 8) and
//! the image is no square.

use crate::error::{Error, fail};
use crate::exif;
use fuseloop_ops::Size;

/// Refuses the image of targets which are of another picture than the loader delivers, or about which nothing says of
/// which picture they are.
///
/// `turned` is the EXIF orientation and the stored size of an image that is not stored upright, `annotated` the size of
/// the picture that the annotations are of, and `turns` the setting of the user, if there is one.
///
/// # Errors
///
/// See the table above.
pub(in crate::loader) fn check_orientation(
    (orientation, stored): (u32, Size),
    annotated: Option<Size>,
    turns: Option<bool>,
) -> Result<(), Error> {
    let upright = exif::upright_size(orientation, stored);
    match (annotated.filter(|_| upright != stored), turns) {
        (Some(annotated), Some(true)) if annotated == stored => Err(fail!(
            Damaged,
            "the EXIF orientation of the image is {orientation}, and its annotations refer to the stored pixels, \
             {annotated}: set `exif_orientation` to false, or remove the orientation from the file"
        )),
        (Some(annotated), _) if annotated == stored => Ok(()),
        (Some(annotated), None | Some(false)) if annotated == upright => {
            let error = fail!(
                Parameter,
                "the EXIF orientation of the image is {orientation}, and its annotations refer to the upright image, \
                 {annotated}: set `exif_orientation` to true"
            );
            Err(error.not_damage())
        }
        (_, None) => {
            let error = fail!(
                Parameter,
                "the EXIF orientation of the image is {orientation}, and it has targets: set `exif_orientation` to \
                 true if they refer to the upright image, as most tools show it, or to false if they refer to the \
                 stored pixels"
            );
            Err(error.not_damage())
        }
        (_, Some(_)) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORED: Size = Size::new(20, 40);
    const UPRIGHT: Size = Size::new(40, 20);

    /// Returns whether an image is taken without the setting, with false and with true.
    fn taken(orientation: u32, stored: Size, annotated: Option<Size>) -> [bool; 3] {
        let turned = (orientation, stored);
        [None, Some(false), Some(true)]
            .map(|turns| check_orientation(turned, annotated, turns).is_ok())
    }

    #[test]
    fn annotations_with_a_size_say_which_picture_they_are_of() {
        for orientation in 5..=8 {
            assert_eq!(taken(orientation, STORED, Some(STORED)), [true, true, false]);
            assert_eq!(taken(orientation, STORED, Some(UPRIGHT)), [false, false, true]);
        }
    }

    #[test]
    fn without_such_a_size_the_user_must_say_it() {
        let square = Size::new(20, 20);
        for orientation in 2..=8 {
            assert_eq!(taken(orientation, STORED, None), [false, true, true]);
            assert_eq!(taken(orientation, STORED, Some(square)), [false, true, true]);
            assert_eq!(taken(orientation, square, Some(square)), [false, true, true]);
        }
        for orientation in 2..=4 {
            assert_eq!(taken(orientation, STORED, Some(STORED)), [false, true, true]);
        }
    }

    #[test]
    fn the_error_says_what_to_set() {
        let error = |annotated, turns| {
            check_orientation((6, STORED), annotated, turns).unwrap_err().to_string()
        };
        assert_eq!(
            error(None, None),
            "the EXIF orientation of the image is 6, and it has targets: set `exif_orientation` to true if they refer to the upright image, as most tools show it, or to false if they refer to the stored pixels"
        );
        assert_eq!(
            error(Some(UPRIGHT), Some(false)),
            "the EXIF orientation of the image is 6, and its annotations refer to the upright image, 20x40: set \
             `exif_orientation` to true"
        );
        assert_eq!(
            error(Some(STORED), Some(true)),
            "the EXIF orientation of the image is 6, and its annotations refer to the stored pixels, 40x20: set \
             `exif_orientation` to false, or remove the orientation from the file"
        );
    }
}
