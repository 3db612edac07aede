//! The orientation of an image, from EXIF tag 274 (CIPA DC-008, 4.6.4).
//!
//! | value | `upright[y, x]` is     | that is               |
//! |------:|------------------------|-----------------------|
//! |     1 | `stored[y, x]`         | unchanged             |
//! |     2 | `stored[y, W-1-x]`     | mirrored              |
//! |     3 | `stored[H-1-y, W-1-x]` | turned by 180 degrees |
//! |     4 | `stored[H-1-y, x]`     | upside down, mirrored |
//! |     5 | `stored[x, y]`         | transposed            |
//! |     6 | `stored[H-1-x, y]`     | turned right by 90    |
//! |     7 | `stored[H-1-x, W-1-y]` | transposed, turned    |
//! |     8 | `stored[x, W-1-y]`     | turned left by 90     |
//!
//! `H` and `W` are the stored size. `exif.rs` finds the value in a file.

use fuseloop_ops::Size;
use fuseloop_ops::author::Window;
use fuseloop_ops::internals::ImageView;

/// The transformation from the stored image to the upright one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Orientation {
    /// Rows become columns.
    transposed: bool,
    /// The stored rows are taken from the last to the first.
    from_bottom: bool,
    /// The stored columns are taken from the last to the first.
    from_right: bool,
}

impl Orientation {
    pub(super) const UPRIGHT: Self =
        Self { transposed: false, from_bottom: false, from_right: false };

    pub(super) fn of_value(value: u8) -> Self {
        let (transposed, from_bottom, from_right) = match value {
            2 => (false, false, true),
            3 => (false, true, true),
            4 => (false, true, false),
            5 => (true, false, false),
            6 => (true, true, false),
            7 => (true, true, true),
            8 => (true, false, true),
            _ => return Self::UPRIGHT,
        };
        Self { transposed, from_bottom, from_right }
    }

    /// Returns the upright size of an image stored as `size`.
    pub(super) fn turned(self, size: Size) -> Size {
        if self.transposed { Size::new(size.width, size.height) } else { size }
    }

    /// Returns the rows and columns of the upright image that come before the image, of those `rests` that come after
    /// it as it is stored.
    pub(super) fn origin(self, rests: [f64; 2]) -> [f64; 2] {
        let [row, column] = [(self.from_bottom, rests[0]), (self.from_right, rests[1])]
            .map(|(is_reversed, rest)| if is_reversed { rest } else { 0.0 });
        if self.transposed { [column, row] } else { [row, column] }
    }

    /// Returns where the upright image's `window` is in an image stored as `size`. The window must fit.
    pub(super) fn stored(self, window: Window, size: Size) -> Window {
        let Window { top, left, height, width } = window;
        let mut stored = match self.transposed {
            true => Window { top: left, left: top, height: width, width: height },
            false => window,
        };
        if self.from_bottom {
            stored.top = size.height - stored.top - stored.height;
        }
        if self.from_right {
            stored.left = size.width - stored.left - stored.width;
        }
        stored
    }

    /// Writes the upright image, packed, into `upright`.
    pub(super) fn turn(self, stored: ImageView<'_>, upright: &mut Vec<u8>) {
        let size = stored.size();
        let Size { height, width } = self.turned(size);
        let pixel = stored.format().pixel_bytes();
        upright.clear();
        for y in 0..height {
            for x in 0..width {
                let (row, column) = if self.transposed { (x, y) } else { (y, x) };
                let row = if self.from_bottom { size.height - 1 - row } else { row };
                let column = if self.from_right { size.width - 1 - column } else { column };
                let at = column as usize * pixel;
                upright.extend_from_slice(&stored.row(row)[at..at + pixel]);
            }
        }
    }
}

/// The size of an image file as it is stored, and how it is turned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoredSize {
    pub(super) size: Size,
    /// The EXIF orientation, from 1 to 8, whether the image is turned by it or not.
    pub(super) exif_orientation: u8,
    /// True if the image is turned by it.
    pub(super) is_turned: bool,
}

impl StoredSize {
    /// Returns how the image is turned.
    pub(super) fn orientation(self) -> Orientation {
        if self.is_turned {
            Orientation::of_value(self.exif_orientation)
        } else {
            Orientation::UPRIGHT
        }
    }

    /// Returns the size of the image as it is decoded, turned or not.
    pub(super) fn decoded_size(self) -> Size {
        self.orientation().turned(self.size)
    }

    /// Returns the EXIF orientation and the size as stored, if the image is not stored upright.
    pub(super) fn turned(self) -> Option<(u32, Size)> {
        (self.exif_orientation != 1).then_some((self.exif_orientation.into(), self.size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2 rows of 3 pixels, identified by their red: 0 1 2 / 3 4 5.
    const STORED: [u8; 18] = [0, 0, 0, 1, 0, 0, 2, 0, 0, 3, 0, 0, 4, 0, 0, 5, 0, 0];
    const SIZE: Size = Size::new(2, 3);

    #[test]
    fn each_value_turns_a_picture_as_the_standard_says() {
        let expected = [
            [0, 1, 2, 3, 4, 5],
            [2, 1, 0, 5, 4, 3],
            [5, 4, 3, 2, 1, 0],
            [3, 4, 5, 0, 1, 2],
            [0, 3, 1, 4, 2, 5],
            [3, 0, 4, 1, 5, 2],
            [5, 2, 4, 1, 3, 0],
            [2, 5, 1, 4, 0, 3],
        ];
        let view = ImageView::packed(&STORED, SIZE).unwrap();
        for (value, expected) in (1..).zip(expected) {
            let mut upright = Vec::new();
            Orientation::of_value(value).turn(view, &mut upright);
            let reds: Vec<u8> = upright.iter().copied().step_by(3).collect();
            assert_eq!(reds, expected, "orientation {value}");
        }
    }

    #[test]
    fn a_window_of_the_upright_picture_is_found_in_the_stored_one() {
        let view = ImageView::packed(&STORED, SIZE).unwrap();
        for value in 1..=8 {
            let orientation = Orientation::of_value(value);
            let size = orientation.turned(SIZE);
            let (mut whole, mut part) = (Vec::new(), Vec::new());
            orientation.turn(view, &mut whole);
            let whole = ImageView::packed(&whole, size).unwrap();
            for (top, left) in (0..size.height).flat_map(|y| (0..size.width).map(move |x| (y, x))) {
                let window = Window { top, left, height: size.height - top, width: 1 };
                let stored = orientation.stored(window, SIZE);
                orientation.turn(view.crop(stored).unwrap(), &mut part);
                let expected: Vec<u8> = (top..size.height)
                    .flat_map(|y| whole.row(y)[left as usize * 3..][..3].to_vec())
                    .collect();
                assert_eq!(part, expected, "orientation {value}, {window:?}");
            }
        }
    }
}
