//! Sizes of values by their pointers: the allocation table, sorted once.
//!
//! |        |                                                               |
//! |--------|---------------------------------------------------------------|
//! | memory | 16 bytes for each record of the table                         |
//! | build  | one pass over a table that is already in order, else one sort |
//! | lookup | a binary search                                               |
//!
//! At a million samples a search misses the processor's cache 20 times, so for each field of images, the first use
//! finds the record of every sample: [`ImageSizes`]. Raw images whose records agree with their rows need no record.
//!
//! In files that FFCV wrote, a value of no bytes shares its pointer with the next value: of several
//! records with one pointer, the largest size is used.

use super::Allocation;
use crate::error::{Error, fail};
use crate::source::ImageMode;

/// Sizes by pointer.
pub(super) struct SizeIndex {
    /// Pointers and sizes, sorted by pointer, each pointer once.
    sizes: Vec<(u64, u64)>,
}

impl SizeIndex {
    /// An index without records, for datasets without images and user-defined fields.
    pub(super) const EMPTY: Self = Self { sizes: Vec::new() };

    /// Sorts the records of an allocation table.
    ///
    /// # Errors
    ///
    /// Fails if there is no memory for the index. Its size depends on the bytes that the table really
    /// has, not on a number in the file; but a sparse file can have any number of bytes.
    pub(super) fn new(table: &[u8]) -> Result<Self, Error> {
        let records = Allocation::parse_table(table);
        let mut sizes = Vec::new();
        let count = records.len();
        sizes
            .try_reserve_exact(count)
            .map_err(|_| fail!(Memory, "no memory for an index of {count} allocation records"))?;
        sizes.extend(records.map(|record| (record.ptr, record.size)));
        if !sizes.is_sorted_by_key(|&(ptr, _)| ptr) {
            // The stable sort is used because the table is a few ascending runs, one for each worker,
            // which this sort merges.
            sizes.sort_by_key(|&(ptr, _)| ptr);
        }
        sizes.dedup_by(|next, before| {
            let same = next.0 == before.0;
            if same {
                before.1 = before.1.max(next.1);
            }
            same
        });
        Ok(Self { sizes })
    }

    /// Returns the number of bytes stored at `ptr`; `None` if no record begins there.
    pub(super) fn size_at(&self, ptr: u64) -> Option<u64> {
        self.size(self.place_of(ptr)?)
    }

    fn place_of(&self, ptr: u64) -> Option<usize> {
        self.sizes.binary_search_by_key(&ptr, |&(ptr, _)| ptr).ok()
    }

    fn size(&self, place: usize) -> Option<u64> {
        self.sizes.get(place).map(|&(_, size)| size)
    }
}

/// An image as its row describes it.
#[derive(Clone, Copy)]
pub(super) struct ImageRow {
    pub(super) mode: ImageMode,
    pub(super) ptr: u64,
    /// The number of bytes that its pixels would have.
    pub(super) pixel_bytes: u64,
}

/// Where the sizes of a field's images are.
pub(super) enum ImageSizes {
    /// All images are raw, and their records have as many bytes as their pixels need.
    OfPixels,
    /// The place of each sample's record in the index; [`NO_PLACE`] for a sample without one.
    Places(Vec<u32>),
    /// There are too many records for that: they are searched.
    Searched,
}

const NO_PLACE: u32 = u32::MAX;

impl ImageSizes {
    /// Finds the records of all images of a field, in the order of the samples; `None` for a row that can't be read.
    pub(super) fn new(index: &SizeIndex, rows: impl Iterator<Item = Option<ImageRow>>) -> Self {
        if u32::try_from(index.sizes.len()).is_err() {
            return Self::Searched;
        }
        let (mut places, mut are_of_pixels) = (vec![], true);
        // A writer stores several samples one after the other, with the same number of records each.
        let (mut last, mut step) = (0, 0);
        for row in rows {
            let place = row.and_then(|ImageRow { ptr, .. }| {
                let next = usize::wrapping_add(last, step);
                let is_next = index.sizes.get(next).is_some_and(|&(found, _)| found == ptr);
                if is_next { Some(next) } else { index.place_of(ptr) }
            });
            if let Some(place) = place {
                (step, last) = (place.wrapping_sub(last), place);
            }
            let size = place.and_then(|place| index.size(place));
            are_of_pixels &=
                row.is_some_and(|row| row.mode == ImageMode::Raw && size == Some(row.pixel_bytes));
            places.push(place.map_or(NO_PLACE, |place| place as u32));
        }
        if are_of_pixels { Self::OfPixels } else { Self::Places(places) }
    }

    /// Returns the number of bytes of the image of sample `sample`; `None` if it has no record.
    pub(super) fn size_of(&self, index: &SizeIndex, sample: u64, row: ImageRow) -> Option<u64> {
        match self {
            Self::OfPixels => Some(row.pixel_bytes),
            Self::Places(places) => {
                let place = places.get(usize::try_from(sample).ok()?)?;
                index.size(*place as usize)
            }
            Self::Searched => index.size_at(row.ptr),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(records: &[(u64, u64)]) -> SizeIndex {
        let records = records.iter().map(|&(ptr, size)| Allocation { sample: 0, ptr, size });
        SizeIndex::new(&records.flat_map(|record| record.to_bytes()).collect::<Vec<_>>()).unwrap()
    }

    fn raw(ptr: u64, pixel_bytes: u64) -> ImageRow {
        ImageRow { mode: ImageMode::Raw, ptr, pixel_bytes }
    }

    fn sizes(index: &SizeIndex, rows: &[ImageRow]) -> Vec<Option<u64>> {
        let sizes = ImageSizes::new(index, rows.iter().map(|row| Some(*row)));
        (0..).zip(rows).map(|(sample, row)| sizes.size_of(index, sample, *row)).collect()
    }

    #[test]
    fn an_unsorted_table_is_searched_all_the_same() {
        let index = index(&[(80, 8), (90, 9), (10, 1), (20, 2)]);
        assert_eq!([10, 20, 80, 90].map(|ptr| index.size_at(ptr)), [1, 2, 8, 9].map(Some));
        assert_eq!(index.size_at(11), None);
    }

    #[test]
    fn every_image_has_the_size_of_its_record_whatever_the_order_of_the_file() {
        let records: Vec<_> = (0..300).map(|at| (1000 + 10 * at, at)).collect();
        let index = index(&records);
        // In order, backwards, in runs of two writers, each second record, and without any order.
        let orders: [fn(u64) -> u64; 5] =
            [|k| k, |k| 299 - k, |k| k % 2 * 150 + k / 2, |k| k / 2 * 2, |k| k * 77 % 300];
        for order in orders {
            let rows: Vec<_> = (0..300).map(|k| raw(1000 + 10 * order(k), 7)).collect();
            let expected: Vec<_> = (0..300).map(|k| Some(order(k))).collect();
            assert_eq!(sizes(&index, &rows), expected);
        }
        let rows = [raw(1000, 7), raw(1001, 7), raw(1020, 7), raw(9999, 7)];
        assert_eq!(sizes(&index, &rows), [Some(0), None, Some(2), None]);
        assert_eq!(sizes(&SizeIndex::EMPTY, &rows), [None; 4]);
    }

    #[test]
    fn raw_images_that_agree_with_their_records_need_none() {
        let index = index(&[(10, 12), (22, 12), (34, 24)]);
        let rows = [raw(10, 12), raw(22, 12), raw(34, 24)];
        let of = |rows: &[Option<ImageRow>]| ImageSizes::new(&index, rows.iter().copied());
        assert!(matches!(of(&rows.map(Some)), ImageSizes::OfPixels));
        let wrong = [
            [Some(rows[0]), Some(raw(22, 13)), Some(rows[2])],
            [Some(rows[0]), Some(ImageRow { mode: ImageMode::Jpeg, ..rows[1] }), Some(rows[2])],
            [Some(rows[0]), None, Some(rows[2])],
            [Some(rows[0]), Some(raw(23, 12)), Some(rows[2])],
        ];
        for rows in wrong {
            assert!(matches!(of(&rows), ImageSizes::Places(_)));
        }
    }

    #[test]
    fn the_largest_of_several_records_with_one_pointer_counts() {
        assert_eq!(index(&[(10, 0), (10, 5), (10, 0), (15, 0)]).size_at(10), Some(5));
        assert_eq!(index(&[(15, 1), (10, 5), (10, 0)]).size_at(10), Some(5));
    }
}
