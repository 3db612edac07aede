//! A sample being added to the cache: collects the sample's values while a worker computes its rows, and
//! stores them at the end, if all were read and there is room for all.

use super::SampleCache;
use super::cached_field::CachedField;
use super::disk::CacheFile;
use super::table::{SAMPLE, VALUE, allocated};
use crate::decode::{Decoded, Opened};
use crate::error::Error;
use crate::sample::SampleId;
use crate::source::{EncodedImage, ImageMode, OwnedImage, OwnedValue, Value};
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;
use fuseloop_ops::internals::ImageView;
use std::sync::Arc;

/// See the top of the module. Dropping the entry before it is stored, as when a field can't be read,
/// leaves the cache unchanged.
pub(in crate::loader) struct PendingEntry<'a> {
    cache: &'a SampleCache,
    sample: SampleId,
    fields: Vec<CachedField>,
    /// The bytes reserved, once the sample is claimed.
    claimed: Option<u64>,
    /// The sample will not be stored.
    is_given_up: bool,
}

impl<'a> PendingEntry<'a> {
    pub(super) fn new(cache: &'a SampleCache, sample: SampleId) -> Self {
        Self { cache, sample, fields: vec![], claimed: None, is_given_up: false }
    }

    /// Decodes a field's image: the whole image, if it is to be cached, otherwise only `wanted`.
    ///
    /// An image that is only damaged outside the window must give the same result with and without a
    /// cache: if it can't be decoded whole, it is not cached, and only `wanted` is decoded.
    ///
    /// # Errors
    ///
    /// See [`Opened::decode`].
    pub(in crate::loader) fn decode<'b>(
        &'b mut self,
        field: usize,
        image: &'b mut Opened<'_>,
        is_coded: bool,
        wanted: Window,
    ) -> Result<Decoded<'b>, Error> {
        let size = image.size();
        if !self.keep_picture(field, image, is_coded) {
            return image.decode(wanted);
        }
        let format = image.format();
        let last = self.fields.last().map(|cached| &cached.value);
        match last.map(OwnedValue::borrowed) {
            Some(Value::Image(EncodedImage { bytes, .. })) => {
                let view = ImageView::packed_format(bytes, size, format);
                let view = view.expect("it was copied from such a view");
                Ok(Decoded { view, top: 0, left: 0 })
            }
            _ => unreachable!("a picture was added last"),
        }
    }

    /// Decodes a whole image and keeps a copy. Returns false if the image is not to be cached or can't
    /// be.
    fn keep_picture(&mut self, field: usize, image: &mut Opened<'_>, is_coded: bool) -> bool {
        let size = image.size();
        let is_worth_it = self.cache.keeps_all || is_coded;
        let bytes = size.pixels().saturating_mul(image.format().pixel_bytes() as u64);
        if !is_worth_it || !self.reserve(bytes) {
            return false;
        }
        let decoded = image.decode(size.full()).ok();
        match decoded.and_then(|decoded| copied(decoded.view)) {
            Some(bytes) => {
                // Raw pixels are RGB, or as here those of the field's read mode.
                let (mode, Size { height, width }) = (ImageMode::Raw, size);
                let image = OwnedImage { mode, width, height, bytes };
                self.fields.push(CachedField::held(field, OwnedValue::Image(image)));
                true
            }
            None => {
                self.give_up();
                false
            }
        }
    }

    /// Keeps a field's value that is not an image, if such values are cached.
    pub(in crate::loader) fn keep(&mut self, field: usize, value: Value<'_>) {
        if self.cache.keeps_all && self.reserve(value.bytes().len() as u64) {
            self.fields.push(CachedField::held(field, value.into()));
        }
    }

    /// Reserves room for a value of `bytes` bytes; gives the sample up if there is none.
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
        self.fields.clear();
        if let Some(bytes) = self.claimed.take() {
            self.cache.table.abandon(self.sample, bytes);
        }
    }

    /// Stores the collected values.
    pub(super) fn store(mut self) {
        let mut fields = std::mem::take(&mut self.fields);
        if fields.is_empty() || self.is_given_up {
            return;
        }
        if let Some(disk) = &self.cache.disk
            && !fields.iter_mut().all(|cached| move_to(disk, cached))
        {
            return;
        }
        self.claimed = None;
        self.cache.table.store(self.sample, Arc::from(fields));
    }
}

impl Drop for PendingEntry<'_> {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// Moves a value's bytes to the file. Returns false if they can't be written.
fn move_to(disk: &CacheFile, cached: &mut CachedField) -> bool {
    let Some(bytes) = cached.bytes_mut() else { return true };
    let bytes = std::mem::take(bytes);
    cached.extent = disk.write(&bytes);
    cached.extent.is_some()
}

/// Returns an image's pixels, packed; `None` if there is not enough memory.
fn copied(view: ImageView<'_>) -> Option<Vec<u8>> {
    let size = view.size();
    let row = size.width as usize * view.format().pixel_bytes();
    let mut bytes = vec![];
    bytes.try_reserve_exact(row.checked_mul(size.height as usize)?).ok()?;
    (0..size.height).for_each(|y| bytes.extend_from_slice(&view.row(y)[..row]));
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::table::SampleTable;
    use super::*;
    use std::fs::File;

    const SAMPLE_3: SampleId = SampleId(3);

    fn cache(budget: u64, disk: Option<CacheFile>) -> SampleCache {
        SampleCache { table: SampleTable::new(budget), disk, keeps_all: true }
    }

    /// Keeps two values of 1000 bytes.
    fn keep_two(cache: &SampleCache) {
        let mut keeper = PendingEntry::new(cache, SAMPLE_3);
        (0..2).for_each(|field| keeper.keep(field, Value::Bytes(&[5; 1000])));
        keeper.store();
    }

    fn cached(cache: &SampleCache) -> Option<OwnedValue> {
        let lookup = cache.look(SAMPLE_3);
        lookup.found?.value(1, &mut vec![]).map(OwnedValue::from)
    }

    #[test]
    fn a_stored_sample_takes_its_bytes_and_the_bookkeeping() {
        let cache = cache(10_000, None);
        keep_two(&cache);
        assert_eq!(cached(&cache), Some(OwnedValue::Bytes(vec![5; 1000])));
        assert_eq!(cache.stats().bytes, SAMPLE + 2 * (VALUE + allocated(1000)));
    }

    #[test]
    fn a_sample_is_kept_whole_or_not_at_all() {
        let cache = cache(2000, None);
        keep_two(&cache);
        assert_eq!(cached(&cache), None);
        let stats = cache.stats();
        assert_eq!((stats.bytes, stats.stored, stats.refused), (0, 0, 1));
    }

    #[test]
    fn a_sample_that_was_not_had_whole_leaves_nothing() {
        let cache = cache(10_000, None);
        let mut keeper = PendingEntry::new(&cache, SAMPLE_3);
        keeper.keep(0, Value::Int(1));
        assert!(cache.stats().bytes > 0);
        drop(keeper);
        assert_eq!((cache.stats().bytes, cached(&cache)), (0, None));
    }

    #[test]
    fn while_one_makes_a_sample_others_do_without() {
        let cache = cache(10_000, None);
        let mut first = PendingEntry::new(&cache, SAMPLE_3);
        first.keep(0, Value::Int(1));
        assert!(cache.look(SAMPLE_3).keeper.is_none());
        let mut late = PendingEntry::new(&cache, SAMPLE_3);
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
        let cache = cache(10_000, Some(CacheFile::of(full)));
        keep_two(&cache);
        let stats = cache.stats();
        assert_eq!((stats.bytes, stats.stored, stats.failures), (0, 0, 1));
        assert_eq!(cached(&cache), None);
    }
}
