//! A training loop: pipelines that end on a device, and a consumer that reads the batches there.

use super::gpu::{self, Pinned};
use fuseloop::Error;
use fuseloop::device::{DeviceStream, StreamHandle};
use fuseloop::loader::Loader;
use fuseloop::ops::*;
use fuseloop::write::WriteMode;
use fuseloop::{Batch, LoaderBuilder, Order};
use std::path::{Path, PathBuf};

#[path = "../../../common/dataset.rs"]
#[allow(dead_code, unreachable_pub, reason = "of many tests")]
mod dataset;

/// Rows of a batch.
pub(crate) const ROWS: usize = 8;

/// The side of an image: a batch is large enough for its memory pages to be locked.
pub(crate) const SIDE: u32 = 64;

/// Writes `count` images of differing sizes.
pub(crate) fn file(count: u64) -> (tempfile::TempDir, PathBuf) {
    dataset::write(count, WriteMode::Raw, dataset::varied)
}

/// The names of the lists of [`builder`].
pub(crate) const LISTS: [&str; 4] = ["normalize", "jitter", "mixed", "copied"];

/// Returns a loader whose images and labels end on a device.
pub(crate) fn builder(path: &Path, list: &'static str) -> LoaderBuilder {
    let builder = Loader::open(path).unwrap().batch_size(ROWS).seed(3).drop_last(false);
    builder.order(Order::Random).pipeline("image", image(list)).pipeline("label", label(list))
}

fn image(list: &str) -> Ops {
    let mut ops = ops![
        RandomResizedCrop::new(SIDE).unwrap().scale(0.3..=1.0).unwrap().ratio(0.8..=1.2).unwrap(),
        ToDevice::new("cuda:0").unwrap(),
        RandomHorizontalFlip::new(0.5).unwrap(),
    ];
    match list {
        "normalize" => ops.extend(ops![Normalize::imagenet(), ToChannelsFirst]),
        "jitter" => ops.extend(ops![
            RandomTranslate::new(9).unwrap().fill([1, 2, 3]),
            ColorJitter::new(0.4, 0.4, 0.4).unwrap().hue(0.1).unwrap(),
            RandomErasing::new(),
            Normalize::imagenet(),
            Convert::to(DType::Bf16),
        ]),
        "mixed" => ops.extend(ops![
            RandomBrightness::new(0.5).unwrap().p(0.4).unwrap(),
            Normalize::imagenet(),
            Convert::to(DType::F16),
            ToChannelsFirst,
            MixUp::new(0.4).unwrap(),
            CutMix::new(1.0).unwrap(),
        ]),
        _ => {
            return ops![
                CenterCrop::new(SIDE).unwrap(),
                Normalize::imagenet(),
                ToDevice::new("cuda:0").unwrap()
            ];
        }
    }
    ops
}

fn label(list: &str) -> Ops {
    match list {
        "mixed" => ops![
            ToDevice::new("cuda:0").unwrap(),
            OneHot::new(10).unwrap(),
            LabelSmoothing::new(0.1).unwrap(),
            MixUp::new(0.4).unwrap(),
            CutMix::new(1.0).unwrap(),
        ],
        _ => ops![Squeeze, ToDevice::new("cuda:0").unwrap()],
    }
}

/// Returns all batches of an epoch as the CPU computes them: images and labels.
pub(crate) fn on_cpu(path: &Path, list: &'static str) -> Vec<[Vec<u8>; 2]> {
    let loader = builder(path, list).device("cpu").build().unwrap();
    let bytes = |batch: &Batch, name| batch.bytes(name).unwrap().to_vec();
    let batches = loader.epoch(0).unwrap().map(Result::unwrap);
    batches.map(|batch| ["image", "label"].map(|name| bytes(&batch, name))).collect()
}

/// A consumer that reads batches on a stream of its own.
pub(crate) struct Trainer {
    stream: gpu::Handle,
    read: Vec<[Pinned; 2]>,
    /// The number of times that each batch is read, to be slow.
    turns: usize,
}

impl Trainer {
    pub(crate) fn new(turns: usize) -> Self {
        Self { stream: gpu::stream().unwrap(), read: vec![], turns }
    }

    pub(crate) fn handle(&self) -> gpu::Handle {
        self.stream
    }

    #[allow(unsafe_code, reason = "a handle")]
    pub(crate) fn stream(&self) -> DeviceStream {
        // SAFETY: the stream is not destroyed before the batches are dropped.
        DeviceStream::Handle(unsafe { StreamHandle::new(self.stream) })
    }

    /// Queues reads of a batch, and drops the batch before they are done.
    pub(crate) fn take(&mut self, batch: Batch) -> Result<(), Error> {
        let mut both = vec![];
        for name in ["image", "label"] {
            let tensor = batch.device_tensor(name, self.stream())?;
            let bytes = tensor.shape().iter().product::<usize>() * tensor.dtype().bytes();
            let to = Pinned::new(bytes).unwrap();
            for _ in 0..self.turns {
                to.download(tensor.ptr(), self.stream).unwrap();
            }
            both.push(to);
        }
        drop(batch);
        self.read.push(both.try_into().unwrap_or_else(|_| panic!("two tensors")));
        Ok(())
    }

    /// Returns the number of batches with wrong contents.
    pub(crate) fn wrong(self, want: &[[Vec<u8>; 2]]) -> usize {
        gpu::finish(self.stream).unwrap();
        assert_eq!(self.read.len(), want.len(), "batches");
        let mut wrong = 0;
        for (read, want) in self.read.into_iter().zip(want) {
            wrong += usize::from(read.iter().zip(want).any(|(read, want)| read.bytes() != *want));
            read.into_iter().for_each(|read| read.free().unwrap());
        }
        gpu::destroy_stream(self.stream).unwrap();
        wrong
    }
}

/// Runs an epoch with a trainer that reads each batch `turns` times. Returns the number of wrong
/// batches.
pub(crate) fn epoch(path: &Path, list: &'static str, turns: usize) -> usize {
    let want = on_cpu(path, list);
    let loader = builder(path, list).build().unwrap();
    gpu::enter(0).unwrap();
    let mut trainer = Trainer::new(turns);
    for batch in loader.epoch(0).unwrap() {
        trainer.take(batch.unwrap()).unwrap();
    }
    let wrong = trainer.wrong(&want);
    gpu::release(0).unwrap();
    wrong
}
