//! Who keeps a sample: collects its values while a worker makes its rows, and stores them at the
//! end, if all were had and there is room for all.

use super::SampleCache;
use super::disk::Disk;
use super::part::{Part, stored_bytes};
use super::table::{SAMPLE, VALUE, allocated};
use crate::decode::{DecodeError, Decoded, Decoder};
use crate::sample::SampleId;
use crate::source::{EncodedImage, OwnedImage, OwnedValue, Value};
use fuseloop_ops::{ImageView, RGB, Size, Window};
use std::sync::Arc;

/// See the module's top. Dropped before it has stored, as when a field can't be read, it leaves
/// the cache as it was.
pub(in crate::loader) struct Keeper<'a> {
    cache: &'a SampleCache,
    sample: SampleId,
    parts: Vec<Part>,
    /// Bytes reserved, once the sample is claimed.
    claimed: Option<u64>,
    /// It won't be stored.
    is_given_up: bool,
}

impl<'a> Keeper<'a> {
    pub(super) fn new(cache: &'a SampleCache, sample: SampleId) -> Self {
        Self { cache, sample, parts: vec![], claimed: None, is_given_up: false }
    }

    /// Decodes a field's picture of this size: whole, if it is to be kept, else `wanted` of it.
    ///
    /// A picture damaged where nobody looks must be the same with and without a cache: if it can't
    /// be had whole, it is given up, and `wanted` tried.
    ///
    /// # Errors
    ///
    /// As [`Decoder::decode`].
    pub(in crate::loader) fn decode<'b>(
        &'b mut self,
        field: usize,
        decoder: &'b mut Decoder,
        image: &EncodedImage<'b>,
        (size, wanted): (Size, Window),
    ) -> Result<Decoded<'b>, DecodeError> {
        if !self.keep_picture(field, decoder, image, size) {
            return decoder.decode(image, wanted);
        }
        let kept = self.parts.last().map(|part| &part.value);
        match kept.map(OwnedValue::borrowed) {
            Some(Value::Image(EncodedImage { bytes, .. })) => {
                let view = ImageView::packed(bytes, size).expect("it was copied from such a view");
                Ok(Decoded { view, top: 0, left: 0 })
            }
            _ => unreachable!("a picture was kept last"),
        }
    }

    /// Decodes a picture whole and keeps a copy, if it is to be kept and can be.
    fn keep_picture(
        &mut self,
        field: usize,
        decoder: &mut Decoder,
        image: &EncodedImage<'_>,
        size: Size,
    ) -> bool {
        let is_worth_it = self.cache.keeps_all || image.mode.is_coded();
        if !is_worth_it || !self.reserve(size.pixels().saturating_mul(RGB as u64)) {
            return false;
        }
        let decoded = decoder.decode(image, size.full()).ok();
        match decoded.and_then(|decoded| copied(decoded.view)) {
            Some(bytes) => {
                let image = OwnedImage::rgb(size.height, size.width, bytes);
                self.parts.push(Part::held(field, OwnedValue::Image(image)));
                true
            }
            None => {
                self.give_up();
                false
            }
        }
    }

    /// Keeps a field's value that is not a picture, if such are kept.
    pub(in crate::loader) fn keep(&mut self, field: usize, value: Value<'_>) {
        if self.cache.keeps_all && self.reserve(stored_bytes(&value)) {
            self.parts.push(Part::held(field, value.into()));
        }
    }

    /// Reserves room for a value of so many bytes; gives the sample up if there is none.
    fn reserve(&mut self, bytes: u64) -> bool {
        if self.is_given_up {
            return false;
        }
        let bytes = if self.cache.disk.is_some() { bytes } else { allocated(bytes) };
        let value = bytes.saturating_add(VALUE);
        let (table, before) = (&self.cache.table, self.claimed);
        let (has_room, all) = match before {
            Some(claimed) => (table.reserve(value), claimed.saturating_add(value)),
            None => {
                let first = value.saturating_add(SAMPLE);
                (table.claim(self.sample, first), first)
            }
        };
        if has_room {
            self.claimed = Some(all);
        } else {
            self.give_up();
        }
        has_room
    }

    fn give_up(&mut self) {
        self.is_given_up = true;
        self.parts.clear();
        if let Some(bytes) = self.claimed.take() {
            self.cache.table.abandon(self.sample, bytes);
        }
    }

    /// Stores what was collected.
    pub(super) fn store(mut self) {
        let mut parts = std::mem::take(&mut self.parts);
        if parts.is_empty() || self.is_given_up {
            return;
        }
        if let Some(disk) = &self.cache.disk
            && !parts.iter_mut().all(|part| move_to(disk, part))
        {
            return;
        }
        self.claimed = None;
        self.cache.table.store(self.sample, Arc::from(parts));
    }
}

impl Drop for Keeper<'_> {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// Moves a value's bytes to the file: false if it can't be written.
fn move_to(disk: &Disk, part: &mut Part) -> bool {
    let Some(bytes) = part.bytes_mut() else { return true };
    let bytes = std::mem::take(bytes);
    part.place = disk.write(&bytes);
    part.place.is_some()
}

/// A picture's pixels, packed; `None` if there is no memory for them.
fn copied(view: ImageView<'_>) -> Option<Vec<u8>> {
    let size = view.size();
    let row = size.width as usize * RGB;
    let mut bytes = vec![];
    bytes.try_reserve_exact(row.checked_mul(size.height as usize)?).ok()?;
    (0..size.height).for_each(|y| bytes.extend_from_slice(&view.row(y)[..row]));
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::table::Table;
    use super::*;
    use std::fs::File;

    const SAMPLE_3: SampleId = SampleId(3);

    fn cache(budget: u64, disk: Option<Disk>) -> SampleCache {
        SampleCache { table: Table::new(budget), disk, keeps_all: true }
    }

    /// Keeps two values of 1000 bytes.
    fn keep_two(cache: &SampleCache) {
        let mut keeper = Keeper::new(cache, SAMPLE_3);
        (0..2).for_each(|field| keeper.keep(field, Value::Bytes(&[5; 1000])));
        keeper.store();
    }

    fn kept(cache: &SampleCache) -> Option<OwnedValue> {
        let seat = cache.look(SAMPLE_3);
        seat.kept?.value(1, &mut vec![]).map(OwnedValue::from)
    }

    #[test]
    fn a_stored_sample_takes_its_bytes_and_the_bookkeeping() {
        let cache = cache(10_000, None);
        keep_two(&cache);
        assert_eq!(kept(&cache), Some(OwnedValue::Bytes(vec![5; 1000])));
        assert_eq!(cache.stats().bytes, SAMPLE + 2 * (VALUE + allocated(1000)));
    }

    #[test]
    fn a_sample_is_kept_whole_or_not_at_all() {
        let cache = cache(2000, None);
        keep_two(&cache);
        assert_eq!(kept(&cache), None);
        let stats = cache.stats();
        assert_eq!((stats.bytes, stats.stored, stats.refused), (0, 0, 1));
    }

    #[test]
    fn a_sample_that_was_not_had_whole_leaves_nothing() {
        let cache = cache(10_000, None);
        let mut keeper = Keeper::new(&cache, SAMPLE_3);
        keeper.keep(0, Value::Int(1));
        assert!(cache.stats().bytes > 0);
        drop(keeper);
        assert_eq!((cache.stats().bytes, kept(&cache)), (0, None));
    }

    #[test]
    fn while_one_makes_a_sample_others_do_without() {
        let cache = cache(10_000, None);
        let mut first = Keeper::new(&cache, SAMPLE_3);
        first.keep(0, Value::Int(1));
        assert!(cache.look(SAMPLE_3).keeper.is_none());
        let mut late = Keeper::new(&cache, SAMPLE_3);
        late.keep(0, Value::Int(1));
        late.store();
        first.store();
        let stats = cache.stats();
        assert_eq!(
            (stats.stored, stats.refused, stats.bytes),
            (1, 0, SAMPLE + VALUE + allocated(0))
        );
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_sample_that_a_full_disk_did_not_take_takes_no_room() {
        let full = File::options().read(true).write(true).open("/dev/full").unwrap();
        let cache = cache(10_000, Some(Disk::of(full)));
        keep_two(&cache);
        let stats = cache.stats();
        assert_eq!((stats.bytes, stats.stored, stats.failures), (0, 0, 1));
        assert_eq!(kept(&cache), None);
    }
}
