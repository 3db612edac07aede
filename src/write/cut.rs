//! An image as it lies in the file, and what re-cutting it has come to.
//!
//! ```text
//! Unasked -- recut --> Done { shorter }  -- settle --> Done
//!                 \                     \- shorten --> Kept    the sample would not fit its page
//!                  `-> Kept                                    damaged, or of another kind
//! ```

use super::pixels::Pixels;
use super::report::{KeptCause, Reencoded};
use crate::recut::Tile;
use crate::source::ImageMode;
use std::path::PathBuf;

/// An image as it lies in the file.
#[derive(Debug)]
pub(super) struct StoredImage {
    pub(super) mode: ImageMode,
    pub(super) width: u16,
    pub(super) height: u16,
    pub(super) bytes: Vec<u8>,
    /// Whether the bytes are those of a JPEG given, but for re-cutting.
    pub(super) is_given: bool,
    /// Its file, if it is from one.
    pub(super) path: Option<PathBuf>,
    pub(super) cut: Cut,
    /// What it was given as, if it is not stored so; re-cutting not counted.
    pub(super) reencoded: Option<Reencoded>,
}

/// What re-cutting has come to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// It was not asked for, or this is no JPEG.
    Unasked,
    /// It is re-cut.
    Done {
        /// Bytes it had.
        before: usize,
        /// Those bytes if they are the fewer: the sample may need the room. `None` once it fits.
        shorter: Option<Vec<u8>>,
    },
    /// It is as it was.
    Kept(KeptCause),
}

impl StoredImage {
    /// Whether these are the bytes of the JPEG given.
    pub(super) fn is_passed_through(&self) -> bool {
        self.is_given && !matches!(self.cut, Cut::Done { .. })
    }

    /// Re-cuts a JPEG, if that is asked for.
    pub(super) fn recut(mut self, tile: Option<Tile>, pixels: &mut Pixels) -> Self {
        let Some(tile) = tile else { return self };
        match pixels.recut(&self.bytes, tile) {
            Ok(cut) => self.replace(cut),
            Err(kept) => self.cut = Cut::Kept(kept.into()),
        }
        self
    }

    fn replace(&mut self, cut: Vec<u8>) {
        let uncut = std::mem::replace(&mut self.bytes, cut);
        let before = uncut.len();
        let shorter = (before < self.bytes.len()).then_some(uncut);
        self.cut = Cut::Done { before, shorter };
    }

    /// Takes re-cutting back if that makes it shorter.
    pub(super) fn shorten(&mut self, cause: &KeptCause) {
        if let Cut::Done { shorter: Some(bytes), .. } = &mut self.cut {
            self.bytes = std::mem::take(bytes);
            self.cut = Cut::Kept(cause.clone());
        }
    }

    /// Lets go of what [`shorten`](Self::shorten) needs.
    pub(super) fn settle(&mut self) {
        if let Cut::Done { shorter, .. } = &mut self.cut {
            *shorter = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(len: usize) -> StoredImage {
        StoredImage {
            mode: ImageMode::Jpeg,
            width: 1,
            height: 1,
            bytes: vec![1; len],
            is_given: true,
            path: None,
            cut: Cut::Unasked,
            reencoded: None,
        }
    }

    const CAUSE: KeptCause = KeptCause::Page { size: 9, page_size: 8 };

    #[test]
    fn what_grew_can_be_taken_back_until_it_is_settled() {
        let mut grown = image(3);
        grown.replace(vec![2; 5]);
        assert!(!grown.is_passed_through());
        grown.shorten(&CAUSE);
        assert_eq!((&grown.bytes, &grown.cut), (&vec![1; 3], &Cut::Kept(CAUSE)));
        assert!(grown.is_passed_through());

        let mut settled = image(3);
        settled.replace(vec![2; 5]);
        settled.settle();
        settled.shorten(&CAUSE);
        assert_eq!((settled.bytes.len(), settled.cut), (5, Cut::Done { before: 3, shorter: None }));
    }

    #[test]
    fn what_shrank_stays_re_cut() {
        let mut shrunk = image(5);
        shrunk.replace(vec![2; 3]);
        shrunk.shorten(&CAUSE);
        assert_eq!(shrunk.cut, Cut::Done { before: 5, shorter: None });
    }
}
