//! burn's `DataLoader`, filled by a loader of Fuseloop.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use burn::data::dataloader::{DataLoader, DataLoaderIterator, Progress};
use burn::data::dataset::DatasetError;
use burn::tensor::Device;
use fuseloop::source::BoxError;
use fuseloop::{Batch, Batches, Error, Loader};

/// Returns burn's batch for a batch of Fuseloop.
type Convert<O> = Arc<dyn Fn(&Batch, &Device) -> Result<O, BoxError> + Send + Sync>;

/// burn's `DataLoader` over a loader of Fuseloop.
///
/// Each call of `iter` is the next epoch, from 0 or [`first_epoch`](Self::first_epoch) on: another order and
/// other draws. Batches are converted on the thread that iterates; reading, decoding and augmentation run on the
/// loader's threads.
///
/// ```no_run
/// use std::sync::Arc;
/// use burn::data::dataloader::DataLoader;
/// use burn::tensor::{Device, Int, Tensor};
/// use fuseloop_burn::{BurnLoader, float_tensor, int_tensor};
///
/// struct Images {
///     images: Tensor<4>,
///     labels: Tensor<1, Int>,
/// }
///
/// # fn main() -> fuseloop::Result<()> {
/// let loader = fuseloop::Loader::open("train.beton")?.batch_size(64).build()?;
/// let loader = BurnLoader::new(loader, Device::default(), |batch, device| {
///     let images = float_tensor(batch, "image", device)?;
///     Ok(Images { images, labels: int_tensor(batch, "label", device)? })
/// });
/// let loader: Arc<dyn DataLoader<Images>> = Arc::new(loader);
/// # Ok(())
/// # }
/// ```
///
/// # Slices
///
/// A slice, which burn gives to each of several devices, is a range of the *epoch*, not of the dataset: the
/// slices of one epoch share no sample, and the next epoch divides the samples in another way. Both ends of a
/// slice are moved down to the beginning of a batch, except at the end of the epoch.
pub struct BurnLoader<O> {
    loader: Arc<Loader>,
    convert: Convert<O>,
    device: Device,
    /// The next epoch.
    epoch: AtomicU32,
    /// The rows of each epoch, which are delivered.
    rows: Range<u64>,
}

impl<O> BurnLoader<O> {
    /// Creates a data loader whose batches `convert` makes.
    pub fn new(
        loader: Loader,
        device: Device,
        convert: impl Fn(&Batch, &Device) -> Result<O, BoxError> + Send + Sync + 'static,
    ) -> Self {
        let rows = 0..loader.samples();
        let epoch = AtomicU32::new(0);
        Self { loader: Arc::new(loader), convert: Arc::new(convert), device, epoch, rows }
    }

    /// Sets the epoch of the next call of `iter`: after a restart, the one to continue with.
    #[must_use]
    pub fn first_epoch(self, epoch: u32) -> Self {
        self.epoch.store(epoch, Ordering::Relaxed);
        self
    }

    fn with(&self, device: &Device, rows: Range<u64>) -> Self {
        Self {
            loader: Arc::clone(&self.loader),
            convert: Arc::clone(&self.convert),
            device: device.clone(),
            epoch: AtomicU32::new(self.epoch.load(Ordering::Relaxed)),
            rows,
        }
    }

    fn begin(&self) -> Result<Batches, DatasetError> {
        let epoch = self.epoch.fetch_add(1, Ordering::Relaxed);
        let first = self.rows.start / self.loader.batch_size() as u64;
        self.loader.epoch_from(epoch, first).map_err(DatasetError::new)
    }

    fn num_rows(&self) -> usize {
        (self.rows.end - self.rows.start) as usize
    }
}

impl<O: Send + 'static> DataLoader<O> for BurnLoader<O> {
    fn iter<'a>(&'a self) -> Box<dyn DataLoaderIterator<O> + 'a> {
        let batches = self.begin().map_err(Some);
        Box::new(EpochIterator { loader: self, batches, delivered: 0 })
    }

    fn num_items(&self) -> usize {
        self.num_rows()
    }

    fn to_device(&self, device: &Device) -> Arc<dyn DataLoader<O>> {
        Arc::new(self.with(device, self.rows.clone()))
    }

    fn slice(&self, start: usize, end: usize) -> Arc<dyn DataLoader<O>> {
        let size = self.loader.batch_size() as u64;
        let at = |row: usize| match self.rows.start + row as u64 {
            row if row >= self.rows.end => self.rows.end,
            row => row - row % size,
        };
        Arc::new(self.with(&self.device, at(start)..at(end)))
    }
}

/// The batches of one epoch.
struct EpochIterator<'a, O> {
    loader: &'a BurnLoader<O>,
    /// The batches that are left, or the error that is delivered next.
    batches: Result<Batches, Option<DatasetError>>,
    /// The number of rows delivered.
    delivered: usize,
}

impl<O> Iterator for EpochIterator<'_, O> {
    type Item = Result<O, DatasetError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batches = match &mut self.batches {
            Ok(batches) => batches,
            Err(error) => return error.take().map(Err),
        };
        if self.delivered >= self.loader.num_rows() {
            return None;
        }
        let batch = match batches.next()? {
            Ok(batch) => batch,
            Err(error) => return Some(Err(DatasetError::new(error))),
        };
        self.delivered += batch.len() + batch.skipped().len();
        let converted = (self.loader.convert)(&batch, &self.loader.device);
        Some(converted.map_err(|error| DatasetError::new(Error::from(error))))
    }
}

impl<O> DataLoaderIterator<O> for EpochIterator<'_, O> {
    fn progress(&self) -> Progress {
        let unit = Some("items".to_owned());
        Progress::new(self.delivered, self.loader.num_rows(), unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::data::dataloader::split::split_dataloader;
    use fuseloop::{Order, SampleId};
    use fuseloop_digits as digits;

    /// A loader of 90 digits in batches of 8, whose batches are sample ids and labels.
    fn loader() -> Arc<dyn DataLoader<(Vec<SampleId>, usize)>> {
        let dir =
            std::env::temp_dir().join(format!("fuseloop-burn-{:?}", std::thread::current().id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("digits.beton");
        digits::write(&path, 90, 1).unwrap();
        let loader =
            Loader::open(&path).unwrap().batch_size(8).order(Order::Random).build().unwrap();
        std::fs::remove_dir_all(dir).unwrap();
        Arc::new(BurnLoader::new(loader, Device::flex(), |batch, device| {
            let labels = crate::int_tensor::<1>(batch, "label", device)?;
            Ok((batch.ids().to_vec(), labels.dims()[0]))
        }))
    }

    fn ids(loader: &Arc<dyn DataLoader<(Vec<SampleId>, usize)>>) -> Vec<u64> {
        let batches: Vec<_> = loader.iter().map(Result::unwrap).collect();
        assert!(batches.iter().all(|(ids, labels)| ids.len() == *labels));
        batches.into_iter().flat_map(|(ids, _)| ids).map(|id| id.0).collect()
    }

    #[test]
    fn each_iteration_is_the_next_epoch() {
        let loader = loader();
        assert_eq!(loader.num_items(), 90);
        let (first, second) = (ids(&loader), ids(&loader));
        assert_ne!(first, second);
        for mut epoch in [first, second] {
            epoch.sort_unstable();
            assert!(epoch.into_iter().eq(0..90));
        }
    }

    #[test]
    fn the_progress_counts_samples() {
        let loader = loader();
        let mut batches = loader.iter();
        batches.next().unwrap().unwrap();
        let progress = batches.progress();
        assert_eq!((progress.items_processed, progress.items_total), (8, 90));
    }

    #[test]
    fn slices_of_an_epoch_share_no_sample() {
        let whole = loader();
        let slices = split_dataloader(loader(), &[Device::flex(), Device::flex(), Device::flex()]);
        for _ in 0..2 {
            let parts: Vec<_> = slices.iter().map(ids).collect();
            assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [24, 32, 34]);
            assert_eq!(parts.concat(), ids(&whole));
        }
        let half = whole.slice(45, 90);
        assert_eq!(half.slice(8, 20).num_items(), 8);
    }
}
