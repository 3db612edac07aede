//! The settings of a loader, which `build.rs` checks and builds.

use super::Loader;
use super::array_images::ArrayRequest;
use super::cache::Cache;
use super::choose::KeepFn;
use super::clips::{ClipSource, Clips};
use super::collate::Collate;
use super::compile_context::CompileContext;
use super::damaged::OnDamaged;
use super::device::DeviceRequest;
use super::error::in_file;
use super::image_lists::ImageList;
use super::outputs::{ExtraOutput, OutputRequest};
use super::pipeline::Pipeline;
use super::targets::Targets;
use crate::decode::{AudioOptions, DecodeOptions, ImageReadMode, UnreadParts};
use crate::error::Error;
use crate::jit::KernelCache;
use crate::order::{Order, Ranks};
use crate::run::{Delivery, LastBatch};
use crate::sample::{Epoch, Limits};
use crate::source::stream::StreamSource;
use crate::source::{Beton, BoxError, ClassNames, Dataset, ProcessCache, Source, Stream, Value};
use fuseloop_ops::internals::DefaultFloats;
use fuseloop_ops::{DType, NumberRule, Ops};
use std::fmt;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

/// Configures a [`Loader`]. See each method for its default. A clone builds a second loader of the same
/// dataset, which is opened once.
///
/// ```no_run
/// use fuseloop::{Loader, Order, ops::*};
///
/// let loader = Loader::open("train.beton")?
///     .batch_size(256)
///     .order(Order::Random)
///     .seed(42)
///     .pipeline_by_epoch("image", |epoch| {
///         Ok::<_, ParamError>(ops![
///             RandomResizedCrop::new(192 + 2 * epoch.index())?,
///             RandomHorizontalFlip::new(0.5)?,
///             Normalize::imagenet(),
///             Convert::to(DType::F16),
///             ToChannelsFirst,
///         ])
///     })
///     .build()?;
/// for batch in loader.epoch(0)? {
///     let batch = batch?;
///     let images = batch.tensor::<half::f16>("image")?; // [256, 3, 192, 192]
///     let labels = batch.tensor::<i64>("label")?; // [256]
///     assert_eq!(images.shape()[0], labels.shape()[0]);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct LoaderBuilder {
    pub(super) source: Arc<dyn Source>,
    /// The source, if it is a `.beton` file.
    pub(super) beton: Option<Arc<Beton>>,
    /// The stream, if the source is one.
    pub(super) stream: Option<Stream>,
    pub(super) in_memory: Option<bool>,
    pub(super) process_cache: Option<ProcessCache>,
    pub(super) wanted: OutputRequest,
    /// The clips of videos that are the samples.
    pub(super) clips: Option<Clips>,
    /// The fields of lists of images.
    pub(super) image_lists: Vec<(String, ImageList)>,
    pub(super) indices: Option<Vec<u64>>,
    pub(super) filters: Vec<(String, KeepFn)>,
    pub(super) order: Order,
    pub(super) ranks: Option<Ranks>,
    pub(super) last: LastBatch,
    pub(super) delivery: Delivery,
    pub(super) recompile: Option<bool>,
    pub(super) workers: Option<usize>,
    pub(super) batches_ahead: usize,
    pub(super) memory_limit: Option<u64>,
    pub(super) timeout: Option<Duration>,
    pub(super) cache: Option<Cache>,
    pub(super) device_request: DeviceRequest,
    pub(super) pin_memory: Option<u32>,
    pub(super) setup: CompileContext,
    /// The names that the classes of the dataset must have.
    pub(super) expected_classes: Option<ClassNames>,
    /// The positions of the ops that are from a file, by field.
    pub(super) positions: Vec<(String, Vec<String>)>,
    /// Code that another loader has compiled.
    pub(super) kernels: KernelCache,
    /// The clips of another loader.
    pub(super) known_clips: Option<Arc<ClipSource>>,
}

/// Shows the dataset and the main settings.
impl fmt::Debug for LoaderBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoaderBuilder")
            .field("dataset", &self.source.name())
            .field("batch_size", &self.setup.batch_size)
            .field("order", &self.order)
            .field("seed", &self.setup.seed)
            .finish_non_exhaustive()
    }
}

impl LoaderBuilder {
    pub(super) fn of_dataset(dataset: Dataset) -> Self {
        let decode = DecodeOptions::default();
        match dataset {
            Dataset::Beton(beton) => Self::of_beton(beton, decode),
            Dataset::Folder(folder) => Self::of(folder, decode),
            Dataset::Source(source) => Self::of(source, decode),
            Dataset::Stream(stream) => Self::of_stream(stream),
        }
    }

    fn of_beton(beton: Arc<Beton>, decode: DecodeOptions) -> Self {
        let source: Arc<dyn Source> = Arc::clone(&beton) as _;
        Self { beton: Some(beton), ..Self::of(source, decode) }
    }

    pub(super) fn of(source: Arc<dyn Source>, decode: DecodeOptions) -> Self {
        let unread = UnreadParts::of(source.name());
        Self {
            source,
            beton: None,
            stream: None,
            in_memory: None,
            process_cache: None,
            wanted: OutputRequest::default(),
            clips: None,
            image_lists: vec![],
            indices: None,
            filters: vec![],
            order: Order::Sequential,
            ranks: None,
            last: LastBatch::Keep,
            delivery: Delivery::InOrder,
            recompile: None,
            workers: None,
            batches_ahead: 3,
            memory_limit: None,
            timeout: None,
            cache: None,
            device_request: DeviceRequest::default(),
            pin_memory: None,
            setup: CompileContext::new(64, decode, unread),
            expected_classes: None,
            positions: vec![],
            kernels: KernelCache::default(),
            known_clips: None,
        }
    }

    pub(super) fn of_stream(stream: Stream) -> Self {
        let played = Arc::new(StreamSource::new(stream.clone()));
        Self { stream: Some(stream), ..Self::of(played, DecodeOptions::default()) }
    }

    /// Sets the number of samples of a batch. Default 64.
    #[must_use]
    pub fn batch_size(mut self, samples: usize) -> Self {
        self.setup.batch_size = samples;
        self
    }

    /// Sets the order of the samples. Default [`Order::Sequential`].
    #[must_use]
    pub fn order(mut self, order: Order) -> Self {
        self.order = order;
        self
    }

    /// Sets the seed: random orders and draws depend on the seed, the epoch and the sample. Default 0.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.setup.seed = seed;
        self
    }

    /// Restricts the dataset to these samples, in this order before a random order is applied. Default:
    /// all.
    #[must_use]
    pub fn indices(mut self, indices: impl IntoIterator<Item = u64>) -> Self {
        self.indices = Some(indices.into_iter().collect());
        self
    }

    /// Restricts the dataset, or its [`indices`](Self::indices), to samples for which `keep` returns
    /// true for the value of field `field`. Every value is read once, when the loader is built. With
    /// several filters, a sample must pass all.
    ///
    /// ```no_run
    /// # use fuseloop::{Loader, source::Value};
    /// let loader = Loader::open("train.beton")?
    ///     .filter("label", |label| matches!(label, Value::Int(0..100)))
    ///     .build()?;
    /// # Ok::<(), fuseloop::Error>(())
    /// ```
    #[must_use]
    pub fn filter(
        mut self,
        field: &str,
        keep: impl Fn(Value<'_>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.filters.push((field.to_owned(), Arc::new(keep)));
        self
    }

    /// If true, samples are read one by one through the system's page cache, as by FFCV's `os_cache`.
    /// Default true, which suits a file that fits in memory. False is
    /// [`process_cache`](Self::process_cache) with default options.
    #[must_use]
    pub fn os_cache(mut self, os_cache: bool) -> Self {
        self.process_cache = (!os_cache).then(ProcessCache::default);
        self
    }

    /// Sets whether `.beton` files are read into memory when the loader is built: whole, whatever their size, or not at
    /// all. Default: a local file is, if its samples have at most 16 KiB on average and it has at most a quarter of the
    /// free memory and 2 GiB, shared by all ranks. [`Loader::explain`] says whether it is.
    ///
    /// Small samples are then read without a system call each, and a change of the file is not seen. Larger ones gain
    /// little: the system keeps what was read lately.
    #[must_use]
    pub fn in_memory(mut self, yes: bool) -> Self {
        self.in_memory = Some(yes);
        self
    }

    /// Reads whole pages of the file ahead of use, by separate threads, and caches them up to a budget:
    /// for a file that does not fit in memory, or storage with high latency. Combine with
    /// [`Order::QuasiRandom`], which needs few pages at a time. Of several files with one name, only all joined to
    /// one have such pages.
    #[must_use]
    pub fn process_cache(mut self, options: ProcessCache) -> Self {
        self.process_cache = Some(options);
        self
    }

    /// Makes this process one of several that share each epoch: rank `r` of `w` takes the positions `r`,
    /// `r + w`, `r + 2w`, ... of the global order, as PyTorch's `DistributedSampler` does. At each step
    /// the ranks together have the same samples for any number of ranks, as long as batch size times
    /// ranks is the same. The processes do not communicate. Default: one process.
    ///
    /// [`Uneven`](crate::order::Uneven) determines what happens to samples that can't be divided evenly.
    /// [`Ranks::from_env`] reads the variables set by torchrun, Slurm and MPI.
    #[must_use]
    pub fn ranks(mut self, ranks: impl Into<Option<Ranks>>) -> Self {
        self.ranks = ranks.into();
        self
    }

    /// Sets what happens to samples that can't be read or decoded. Default [`OnDamaged::Fail`].
    #[must_use]
    pub fn on_damaged(mut self, what: OnDamaged) -> Self {
        self.setup.on_damaged = what;
        self
    }

    /// If true, batches are delivered as they are finished, in any order, so that a slow batch delays no
    /// other. Default false.
    #[must_use]
    pub fn unordered(mut self, unordered: bool) -> Self {
        self.delivery = if unordered { Delivery::Unordered } else { Delivery::InOrder };
        self
    }

    /// Sets the maximum number of bytes of all batches: those being filled, ready or held. Only host
    /// memory counts, including the data staged there for a device. Work pauses at the limit, and two batches must fit, or
    /// one with [`batches_ahead(1)`](Self::batches_ahead). Default:
    /// as much as `batches_ahead` and the held batches take, if that is within
    /// [`Limits::max_batch_bytes`].
    #[must_use]
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.memory_limit = Some(bytes);
        self
    }

    /// Sets how long a call waits for a batch before it returns an error that lists the samples the
    /// workers are busy with. Default: forever.
    #[must_use]
    pub fn timeout(mut self, longest: Duration) -> Self {
        self.timeout = Some(longest);
        self
    }

    /// If true, a last batch with fewer samples is dropped, so that all batches have the same size. Default
    /// false, as in PyTorch. [`MixUp`](fuseloop_ops::MixUp) and [`CutMix`](fuseloop_ops::CutMix) mix a short
    /// batch like any other: its samples with each other.
    #[must_use]
    pub fn drop_last(mut self, drop: bool) -> Self {
        self.last = if drop { LastBatch::Drop } else { LastBatch::Keep };
        self
    }

    /// Sets the number of threads that read, decode and augment, at most 1024. Default: the available
    /// parallelism of the process.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Sets the number of batches started before they are requested. Default 3, as in FFCV.
    #[must_use]
    pub fn batches_ahead(mut self, batches: usize) -> Self {
        self.batches_ahead = batches;
        self
    }

    /// Caches decoded samples, before any op, for later epochs, as far as they fit. The batches stay the
    /// same, bit for bit. Default: no cache.
    ///
    /// This helps if decoding, or a user-defined source, is slow and most of the pixels fit; see [`Cache`]
    /// for what is cached.
    ///
    /// ```no_run
    /// use fuseloop::Loader;
    /// use fuseloop::loader::Cache;
    ///
    /// let loader = Loader::open("train.beton")?.cache(Cache::memory(32 << 30)).build()?;
    /// loader.epoch(0)?.try_for_each(|batch| batch.map(drop))?;
    /// loader.epoch(1)?.try_for_each(|batch| batch.map(drop))?; // decodes nothing that is cached
    /// println!("{:?}", loader.cache_stats());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn cache(mut self, cache: Cache) -> Self {
        self.cache = Some(cache);
        self
    }

    /// Sets the ops of a field. Without ops, an image becomes u8 `[height, width, 3]` (all images must
    /// have the same size), an int i64 `[]`, a float f64 `[]`, bytes and JSON u8 padded with zeros to
    /// the longest, and an array keeps its type. For images of several sizes, and for the length of
    /// bytes, see [`collate`](Self::collate). An array accepts [`Convert`](fuseloop_ops::Convert),
    /// [`Squeeze`](fuseloop_ops::Squeeze) and, if it holds floats, the ops that mix samples; bytes and
    /// JSON accept no ops. Everything but collated outputs accepts [`ToDevice`](fuseloop_ops::ToDevice).
    ///
    /// [`MixUp`](fuseloop_ops::MixUp) and [`CutMix`](fuseloop_ops::CutMix) must be last, in the image's
    /// list and, with the same parameters, in its label's. Beside labels none of which is mixed, an image can't
    /// be: leave such labels out with [`without`](Self::without).
    ///
    /// ```no_run
    /// # use fuseloop::{Loader, ops::*};
    /// let loader = Loader::open("train.beton")?
    ///     .pipeline("image", ops![CenterCrop::new(224)?, ToChannelsFirst])
    ///     .pipeline("label", ops![Squeeze])
    ///     .build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn pipeline(mut self, field: &str, pipeline: impl Into<Pipeline>) -> Self {
        self.wanted.pipelines.retain(|(name, _)| name != field);
        self.positions.retain(|(name, _)| name != field);
        self.wanted.pipelines.push((field.to_owned(), pipeline.into()));
        self
    }

    /// Sets the ops of many fields, each with the positions of the ops in their file.
    #[cfg(feature = "spec")]
    pub(crate) fn pipelines(
        mut self,
        pipelines: std::collections::BTreeMap<String, (Pipeline, Vec<String>)>,
    ) -> Self {
        self.wanted.pipelines.retain(|(name, _)| !pipelines.contains_key(name));
        self.positions.retain(|(name, _)| !pipelines.contains_key(name));
        for (field, (pipeline, positions)) in pipelines {
            self.wanted.pipelines.push((field.clone(), pipeline));
            self.positions.push((field, positions));
        }
        self
    }

    /// Sets the positions of the ops of an output in their file.
    #[cfg(feature = "spec")]
    pub(crate) fn positions(mut self, output: &str, positions: Vec<String>) -> Self {
        self.positions.push((output.to_owned(), positions));
        self
    }

    /// Sets the ops of a field to a list that changes with the epoch: `ops` is called for each epoch,
    /// and its list is compiled when the epoch starts. This is [`pipeline`](Self::pipeline) with
    /// [`Pipeline::by_epoch`].
    ///
    /// ```no_run
    /// # use fuseloop::{Loader, ops::*};
    /// let loader = Loader::open("train.beton")?
    ///     .pipeline_by_epoch("image", |epoch| {
    ///         let crop = RandomResizedCrop::new(128 + 4 * epoch.index())?;
    ///         Ok::<_, ParamError>(ops![crop, ToChannelsFirst])
    ///     })
    ///     .build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn pipeline_by_epoch<E: Into<BoxError>>(
        self,
        field: &str,
        ops: impl Fn(Epoch) -> Result<Ops, E> + Send + Sync + 'static,
    ) -> Self {
        self.pipeline(field, Pipeline::by_epoch(ops))
    }

    /// Sets the ops of an output (a field or a view) for the samples of one component of the dataset,
    /// instead of the ops of its [`pipeline`](Self::pipeline). Components are numbered from 0, in the
    /// order of the list passed to [`Stream::mix`], [`concat`](Stream::concat),
    /// [`interleave`](Stream::interleave) or [`Concat`](crate::source::Concat). If these are nested, the
    /// outermost list counts.
    ///
    /// ```no_run
    /// # use fuseloop::{Loader, ops::*, source::{Stream, stream::MixEnd}};
    /// # fn both() -> (Stream, Stream) { unimplemented!() }
    /// # let (photos, drawings) = both();
    /// let mix = Stream::mix([(photos, 0.7), (drawings, 0.3)], MixEnd::First)?.shuffle(1000);
    /// let loader = Loader::from_stream(mix)
    ///     .pipeline("image", ops![RandomResizedCrop::new(224)?.scale(0.1..=1.0)?])
    ///     .component_ops(1, "image", ops![CenterCrop::new(224)?]) // drawings
    ///     .build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The rows must have the shape and type of the output's own. [`MixUp`](fuseloop_ops::MixUp) and
    /// similar ops are only allowed in the output's own list, and mix all samples; neither list may have
    /// [`ToDevice`](fuseloop_ops::ToDevice). A branch can't have ops for a component.
    #[must_use]
    pub fn component_ops(
        mut self,
        component: usize,
        output: &str,
        pipeline: impl Into<Pipeline>,
    ) -> Self {
        self.wanted
            .component_pipelines
            .retain(|(of, name, _)| (*of, &**name) != (component, output));
        self.wanted.component_pipelines.push((component, output.to_owned(), pipeline.into()));
        self
    }

    /// Sets how samples that differ in size become a batch, for outputs of bytes and JSON without ops, and of
    /// images, whose ops then need not end with one size. An additional tensor, `NAME.length` or `NAME.size`,
    /// holds the size of each sample; see [`Collate`].
    ///
    /// ```no_run
    /// # use fuseloop::{Loader, loader::Collate, ops::DType};
    /// let loader = Loader::open("detection.beton")?
    ///     .collate("image", Collate::pad())
    ///     .collate("boxes", Collate::ragged().of(DType::F32, &[4]))
    ///     .build()?;
    /// for batch in loader.epoch(0)? {
    ///     let batch = batch?;
    ///     let images = batch.tensor::<u8>("image")?; // [64, the batch's largest height and width, 3]
    ///     let sizes = batch.tensor::<i64>("image.size")?; // [64, 2]: height, width
    ///     let boxes = batch.ragged::<f32>("boxes")?;
    ///     let first = boxes.row(0); // four numbers per box
    /// #   let _ = (images, sizes, first);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn collate(mut self, output: &str, collate: Collate) -> Self {
        self.wanted.collates.retain(|(name, _)| name != output);
        self.wanted.collates.push((output.to_owned(), collate));
        self
    }

    /// Makes clips of videos the samples. A video is a video file, with the feature `video`, or the images of the dataset that
    /// lie in one folder, in the natural order of their names. See [`Clips`] for how frames are chosen and what a batch has.
    /// Default: each image is a sample.
    ///
    /// Numbers of samples are then those of videos, in the order of the dataset, for [`indices`](Self::indices),
    /// [`filter`](Self::filter) and [`Loader::get`] too; with [`Clips::all`] they are those of clips. A field that has no
    /// frames, such as the label, has the value of a video's first frame. A frame that is damaged makes its video a
    /// damaged sample.
    ///
    /// ```no_run
    /// use fuseloop::{Loader, loader::Clips, ops::*};
    ///
    /// let loader = Loader::open("clips")?
    ///     .clips(Clips::segments(8))
    ///     .pipeline("video", ops![RandomResizedCrop::new(112)?, ToChannelsFirst])
    ///     .build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [`build`](Self::build) refuses clips of a stream and of images without names, such as those of a `.beton` file, and clips
    /// together with a [`cache`](Self::cache), [`process_cache`](Self::process_cache),
    /// a [`Bucketed`](Order::Bucketed) order, [`collate`](Self::collate) or [`targets`](Self::targets) of the frames, ops
    /// on batches such as [`MixUp`](fuseloop_ops::MixUp), and [`ToDevice`](fuseloop_ops::ToDevice).
    #[must_use]
    pub fn clips(mut self, clips: Clips) -> Self {
        self.clips = Some(clips);
        self
    }

    /// Makes a field of lists of images an image output, whose samples have any number of images up to a maximum. See
    /// [`ImageList`] for what such a field is, and what a batch has. Default: the field is bytes, which are left out of the
    /// batches.
    ///
    /// ```no_run
    /// use fuseloop::{Loader, loader::ImageList, ops::*};
    ///
    /// let loader = Loader::open("train.parquet")?
    ///     .image_lists("images", ImageList::new(4).truncate())
    ///     .pipeline("images", ops![RandomResizedCrop::new(224)?, ToChannelsFirst])
    ///     .build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [`build`](Self::build) refuses what it refuses for [`clips`](Self::clips).
    #[must_use]
    pub fn image_lists(mut self, field: &str, list: ImageList) -> Self {
        self.image_lists.retain(|(name, _)| name != field);
        self.image_lists.push((field.to_owned(), list));
        self
    }

    /// Makes arrays whose element type no tensor has bytes, with one more axis, as they are stored.
    #[doc(hidden)]
    #[must_use]
    pub fn stored_elements(mut self, is_stored: bool) -> Self {
        self.setup.stored_elements = is_stored;
        self
    }

    /// Leaves a field out of the batches. Its views and branches stay.
    #[must_use]
    pub fn without(mut self, field: &str) -> Self {
        self.wanted.without.push(field.to_owned());
        self
    }

    /// Declares that the images of a field are masks: their values are numbers of classes, not colours. Ops that
    /// would compute new values are refused: colour ops, blurs, and interpolation other than the nearest pixel.
    /// So are JPEGs. A dataset that knows its masks declares them, unless [`read_mode`](Self::read_mode) says
    /// otherwise.
    ///
    /// ```no_run
    /// # use fuseloop::{Loader, ops::*};
    /// let crop = RandomResizedCrop::new(224)?.scale(0.5..=1.0)?;
    /// let loader = Loader::open("segmentation.beton")?
    ///     .masks("mask")
    ///     .pipeline("image", ops![crop, Normalize::imagenet()])
    ///     .pipeline("mask", ops![crop.interpolation(Interpolation::Nearest)])
    ///     .share_draws("mask", "image")
    ///     .build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A mask has one channel, as [`ImageReadMode::Index`] reads it: the numbers of a PNG with a palette, the
    /// levels of a gray PNG as they are stored, or raw pixels whose three channels are equal, as
    /// `WriteMode::Mask` stores them. [`Squeeze`](fuseloop_ops::Squeeze) drops the axis of the channel: `[batch, H, W]`.
    #[must_use]
    pub fn masks(mut self, field: &str) -> Self {
        self.wanted.masks.push(field.to_owned());
        self
    }

    /// Declares the fields that follow the image of field `image`: its masks, bounding boxes, keypoints and the columns
    /// beside them. They move by the same draws as the image, through all ops of its list, and need no lists of their
    /// own. Ops that remove objects, such as [`RandomIoUCrop`](fuseloop_ops::RandomIoUCrop), remove their rows in
    /// all of these fields.
    ///
    /// ```no_run
    /// # use fuseloop::{Loader, loader::Targets, ops::*};
    /// let loader = Loader::open("coco.beton")?
    ///     .targets("image", Targets::new().boxes("bbox", BoxFormat::Xywh).column("category_id", DType::I64))
    ///     .pipeline("image", ops![RandomResizedCrop::new(224)?, RandomHorizontalFlip::new(0.5)?])
    ///     .build()?;
    /// for batch in loader.epoch(0)? {
    ///     let batch = batch?;
    ///     let boxes = batch.ragged::<f32>("bbox")?; // of each sample: four numbers per object
    ///     let classes = batch.ragged::<i64>("category_id")?; // one number per object
    /// #   let _ = (boxes, classes);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Refused are ops that targets can't follow, such as borders that mirror the image (for boxes and keypoints),
    /// [`AugMix`](fuseloop_ops::AugMix) with ops that move pixels, and [`MixUp`](fuseloop_ops::MixUp).
    #[must_use]
    pub fn targets(mut self, image: &str, targets: Targets) -> Self {
        self.wanted.targets.push((image.to_owned(), targets));
        self
    }

    /// Declares the [`targets`](Self::targets) that the dataset knows of, with default options: the boxes, keypoints,
    /// masks and columns of annotations (COCO, Pascal VOC, YOLO, folders of masks, TensorFlow's detection datasets), and of
    /// datasets that were converted from them. Their image is the only one that is no mask, or the field `image`.
    /// Those that are declared as well stay as they are.
    ///
    /// ```no_run
    /// # use fuseloop::{Loader, ops::*};
    /// let loader = Loader::open("coco/annotations/instances_train2017.json")?
    ///     .auto_targets()
    ///     .without("segmentation")
    ///     .pipeline("image", ops![RandomIoUCrop::new(), Resize::new((640, 640))?])
    ///     .build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// [`build`](Self::build) fails if the dataset knows of none.
    #[must_use]
    pub fn auto_targets(mut self) -> Self {
        self.wanted.auto_targets = true;
        self
    }

    /// Declares the targets that a dataset knows of, for looking at them: those of the objects are left out of the
    /// batches.
    #[doc(hidden)]
    pub fn dataset_targets(mut self) -> Result<Self, Error> {
        let Some((image, targets)) = Targets::of_dataset(&*self.source)? else { return Ok(self) };
        let is_target = |name: &str| targets.names().any(|target| target == name);
        self.wanted.pipelines.retain(|(name, _)| !is_target(name));
        self.wanted.without.extend(targets.objects().map(str::to_owned));
        Ok(self.targets(&image, targets))
    }

    /// Sets what the images of a field are read as: RGB by default, or for example gray, with one channel.
    ///
    /// ```no_run
    /// # use fuseloop::{ImageReadMode, Loader, ops::*};
    /// let loader = Loader::open("digits/")?
    ///     .read_mode("image", ImageReadMode::Gray)
    ///     .pipeline("image", ops![Normalize::new([0.1307], [0.3081])?, ToChannelsFirst])
    ///     .build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn read_mode(mut self, field: &str, mode: ImageReadMode) -> Self {
        self.wanted.read_modes.push((field.to_owned(), mode));
        self
    }

    /// Declares the axes of a field of arrays, one letter for each: `"HWC"` for rows, columns and channels, or letters
    /// that end with `HW`, such as `"CHW"`, `"DHW"` or `"TCHW"`, for any number of pictures that are channels to ops.
    ///
    /// Without it, `[T]` is a signal, `[H, W]` an image of one channel, `[H, W, C]` or `[C, H, W]` one whose channels
    /// are the axis that is clearly the shortest, and longer shapes are `[..., H, W]`. An array that is mixed by
    /// [`CutMix`](fuseloop_ops::CutMix) and has no other ops of images is a label if it is `[T]`, and `[H, W]` must be
    /// declared.
    ///
    /// ```no_run
    /// # use fuseloop::{Loader, ops::*};
    /// let loader = Loader::open("scans.beton")? // i16 [300, 256, 256]: slices, rows, columns
    ///     .axes("scan", "DHW")
    ///     .pipeline("scan", ops![RandomCrop::new(224)?, RandomHorizontalFlip::new(0.5)?])
    ///     .build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn axes(mut self, field: &str, axes: &str) -> Self {
        let request = ArrayRequest { axes: Some(axes.to_owned()), ..ArrayRequest::default() };
        self.wanted.arrays.push((field.to_owned(), request));
        self
    }

    /// Declares that the bytes of a field are arrays of this type and shape, in little-endian byte order, for ops to
    /// work on. One axis of rows or columns may be -1: its length then follows from the number of bytes of a sample,
    /// and the ops must produce arrays of one size, for example by [`RandomCrop`](fuseloop_ops::RandomCrop). Bytes that
    /// are a `.npy` file are the array in it, which must have this type and shape.
    ///
    /// ```no_run
    /// # use fuseloop::{Loader, ops::*};
    /// let loader = Loader::open("speech.beton")?
    ///     .arrays("wave", DType::I16, &[-1])
    ///     .pipeline("wave", ops![RandomCrop::new((1, 16_000))?.pad_if_needed(), Gain::new(-12.0, 12.0)?])
    ///     .build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn arrays(mut self, field: &str, dtype: DType, shape: &[i64]) -> Self {
        let elements = Some((dtype, shape.to_vec()));
        let request = ArrayRequest { elements, ..ArrayRequest::default() };
        self.wanted.arrays.push((field.to_owned(), request));
        self
    }

    /// Declares that the bytes of a field are audio files, for ops to work on: WAV, FLAC, MP3 or Ogg Vorbis, by their
    /// first bytes. A sample is a signal `[T]` of `f32`, from -1 to 1 if the file has integers, or `[C, T]` if several
    /// channels are asked for, and the ops must produce signals of one size, for example by
    /// [`RandomCrop`](fuseloop_ops::RandomCrop). WAV and FLAC are decoded in the crop alone, other files down to its end.
    ///
    /// A file of another sample rate is a damaged sample, unless [`AudioOptions::resample`] is set, and so is one of other
    /// channels than are asked for. Needs the feature `audio`.
    ///
    /// ```no_run
    /// # use fuseloop::{AudioOptions, Loader, ops::*};
    /// let loader = Loader::open("speech-{000..099}.tar")? // .flac and .cls
    ///     .audio("flac", AudioOptions::new(16_000))
    ///     .pipeline("flac", ops![RandomCrop::new((1, 32_000))?.pad_if_needed(), Gain::new(-6.0, 6.0)?])
    ///     .build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn audio(mut self, field: &str, options: AudioOptions) -> Self {
        self.wanted.arrays.push((field.to_owned(), ArrayRequest::of_audio(options)));
        self
    }

    /// Adds an output `name` of the field `of` with its own draws: the second view of contrastive
    /// learning. A sample is read and decoded once for all its views.
    ///
    /// The output comes after the fields and the outputs added before it.
    #[must_use]
    pub fn view(self, name: &str, of: &str, pipeline: impl Into<Pipeline>) -> Self {
        self.extra(name, of, None, pipeline.into())
    }

    /// Adds an output `name` that branches from the output `of` after its first `after_ops` ops, as in
    /// FFCV: the shared ops draw the same numbers for both outputs.
    ///
    /// Later ops that occur in both lists also draw the same numbers, if the same number of ops of that
    /// name comes before them.
    #[must_use]
    pub fn branch(
        self,
        name: &str,
        of: &str,
        after_ops: usize,
        pipeline: impl Into<Pipeline>,
    ) -> Self {
        self.extra(name, of, Some(after_ops), pipeline.into())
    }

    fn extra(mut self, name: &str, of: &str, after: Option<usize>, pipeline: Pipeline) -> Self {
        let (name, of) = (name.to_owned(), of.to_owned());
        self.wanted.extras.push(ExtraOutput { name, of, after, pipeline });
        self
    }

    /// Makes the ops of `output` draw the same numbers as those of `with`, op for op: the first op of a
    /// name draws what the first op of that name in `with` draws, and so on. A mask is then cropped and
    /// flipped like its image:
    ///
    /// ```no_run
    /// # use fuseloop::{Loader, ops::*};
    /// let crop = RandomResizedCrop::new(224)?.scale(0.5..=1.0)?;
    /// let nearest = crop.interpolation(Interpolation::Nearest);
    /// let loader = Loader::open("segmentation.beton")?
    ///     .masks("mask")
    ///     .pipeline("image", ops![crop, RandomHorizontalFlip::new(0.5)?])
    ///     .pipeline("mask", ops![nearest, RandomHorizontalFlip::new(0.5)?])
    ///     .share_draws("mask", "image")
    ///     .build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The position of a crop depends on the size of its image, so both must have the same size.
    #[must_use]
    pub fn share_draws(mut self, output: &str, with: &str) -> Self {
        self.wanted.shares.push((output.to_owned(), with.to_owned()));
        self
    }

    /// If true, all pipelines are planned and compiled again for each epoch, as by FFCV's switch of this
    /// name. There is seldom a need: lists by epoch ([`pipeline_by_epoch`](Self::pipeline_by_epoch)) are
    /// compiled for each epoch without it, and false is an error with such a list.
    #[must_use]
    pub fn recompile(mut self, recompile: bool) -> Self {
        self.recompile = Some(recompile);
        self
    }

    /// Refuses to build the loader unless the classes of its dataset have these names, under the same numbers.
    /// A folder numbers its classes by their names in order, so that one class too few in a validation set
    /// would shift the labels of all that come after it:
    ///
    /// ```no_run
    /// # use fuseloop::Loader;
    /// let train = Loader::open("photos/train")?.build()?;
    /// let val = Loader::open("photos/val")?.expect_classes(train.classes()?).build()?;
    /// # Ok::<(), fuseloop::Error>(())
    /// ```
    ///
    /// [`Loader::classes`] tells where the names of a dataset come from.
    #[must_use]
    pub fn expect_classes(mut self, names: ClassNames) -> Self {
        self.expected_classes = Some(names);
        self
    }

    /// Sets how values are rounded between ops. Default [`NumberRule::Fused`].
    #[must_use]
    pub fn number_rule(mut self, rule: NumberRule) -> Self {
        self.setup.rule = rule;
        self
    }

    /// If true, images are turned according to their EXIF orientation, as Ultralytics and Detectron2 do. By default they
    /// are not, as in FFCV, torchvision and pycocotools.
    ///
    /// It matters to [targets](Self::targets): boxes, keypoints and masks are of the upright picture, which most tools
    /// show, or of the pixels as stored. Without this setting, an image with targets whose EXIF orientation is not upright
    /// ends the epoch with an error of the kind [`ErrorKind::Parameter`](crate::ErrorKind::Parameter), whatever
    /// [`on_damaged`](Self::on_damaged) is. Set it to true for targets of the upright pictures and to false for those of
    /// the stored pixels. Where the annotations have the size of their picture, as those of COCO, Pascal VOC and YOLO do,
    /// and it is the size of only one of the two, they decide: a setting that contradicts them is refused, too.
    ///
    /// ```no_run
    /// # use fuseloop::{Loader, loader::Targets, ops::*};
    /// let loader = Loader::open("coco128/images/train2017")?
    ///     .exif_orientation(true)
    ///     .targets("image", Targets::new().boxes("bbox", BoxFormat::Xyxy))
    ///     .pipeline("image", ops![RandomResizedCrop::new(224)?])
    ///     .build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn exif_orientation(mut self, turn: bool) -> Self {
        self.setup.decode.exif_orientation = turn;
        self.setup.exif_orientation = Some(turn);
        self
    }

    /// If true, a JPEG is decoded at 1/2, 1/4 or 1/8 of its size where the first op that is not a crop or a flip is a
    /// resize, by [`Interpolation::Bilinear`](fuseloop_ops::Interpolation::Bilinear), that would
    /// still read at least two rows and columns of the smaller image for each that it writes: Pillow's `draft` with a
    /// `reducing_gap` of 2. Default false.
    ///
    /// This is for large photographs: an output of 224 x 224 needs a window of 896 x 896 for 1/2. Pixels change: by
    /// less than a level on average. Draws, crops, boxes and masks stay those of the whole image. It applies to
    /// fields with one output, and to JPEGs and their bit planes. Of a progressive JPEG, scans are left out that the
    /// smaller image does not need. A cursor of a loader without it is refused. Whoever reads the photographs for many
    /// epochs saves more by writing them once with `max_resolution`.
    ///
    /// It does not go with [`cache`](Self::cache), which stores whole images, nor with
    /// [`NumberRule::Exact`]: [`build`](Self::build) refuses them together.
    ///
    /// ```no_run
    /// use fuseloop::prelude::*;
    ///
    /// let loader = Loader::open("photographs")?
    ///     .pipeline("image", ops![RandomResizedCrop::new(224)?])
    ///     .scaled_decode(true)
    ///     .build()?;
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn scaled_decode(mut self, scaled: bool) -> Self {
        self.setup.scaled_decode = scaled;
        self
    }

    /// Limits the size of images and batches: stored images, images produced by ops, and the rows of
    /// batches. Limits on opening a dataset are set where it is opened. Default [`Limits::DEFAULT`].
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.setup.decode.limits = limits;
        self
    }

    /// Returns the dataset, before the loader is built.
    #[must_use]
    pub fn source(&self) -> &dyn Source {
        &*self.source
    }

    /// Sets the device that runs the ops after [`ToDevice`](fuseloop_ops::ToDevice), in all lists that
    /// have it: `"cuda:0"`, `"auto"` (the first GPU, or the CPU if no GPU can be used), or `"cpu"`.
    /// Default: the device in each list's own `ToDevice`.
    ///
    /// The numbers are the same on every device, bit for bit; only the location of the tensors differs.
    /// The tensors of outputs with the op are on the device, the others in host memory.
    /// [`Loader::device`] returns the chosen device. If no list has `ToDevice`, no GPU is used, and
    /// naming one here is an error.
    ///
    /// ```no_run
    /// use fuseloop::{Loader, ops::*};
    ///
    /// let loader = Loader::open("train.beton")?
    ///     .batch_size(256)
    ///     .pipeline("image", ops![
    ///         RandomResizedCrop::new(224)?,
    ///         RandomHorizontalFlip::new(0.5)?,
    ///         ToDevice::new("auto")?, // bytes cross the bus, not floats
    ///         Normalize::imagenet(),
    ///         Convert::to(DType::F16),
    ///         ToChannelsFirst,
    ///     ])
    ///     .pipeline("label", ops![ToDevice::new("auto")?])
    ///     .device("cuda:0") // for the whole loader: this GPU, or an error with the reason
    ///     .build()?;
    /// println!("batches are made on {}", loader.device());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn device(mut self, device: &str) -> Self {
        self.device_request.device = Some(device.parse());
        self
    }

    /// Sets the maximum number of batches on the device: those ahead and those held. Work pauses at the
    /// limit; a user who holds all of them and asks for another gets an error. Default:
    /// [`batches_ahead`](Self::batches_ahead) plus 4.
    #[must_use]
    pub fn device_batches(mut self, batches: usize) -> Self {
        self.device_request.batches = Some(batches);
        self
    }

    /// Locks the pages of all batches on the host, so that copies to a GPU run asynchronously, also those that
    /// other libraries start: PyTorch takes such tensors as pinned. `gpu` is the number of the GPU whose context
    /// is opened for the first batch; the pages are locked for all GPUs. Default: none, which leaves locks to
    /// [`ToDevice`](fuseloop_ops::ToDevice).
    ///
    /// A batch must be held until the copies from it are done: its memory is written again when the last owner is
    /// dropped. Where there is no driver, or the system locks no more pages, batches are the same, and
    /// [`Loader::pin_failure`] returns the reason.
    #[must_use]
    pub fn pin_memory(mut self, gpu: impl Into<Option<u32>>) -> Self {
        self.pin_memory = gpu.into();
        self
    }

    /// Returns true if the dataset can only be read in sequence; see [`Loader::from_stream`].
    #[doc(hidden)]
    pub fn is_stream(&self) -> bool {
        self.stream.is_some()
    }

    /// Uses the code that another loader has compiled, which lists that differ in numbers alone share. Uses its videos too,
    /// if both loaders choose the same clips of the same dataset: their folders and times are not read again.
    #[doc(hidden)]
    #[must_use]
    pub fn sharing(mut self, other: &Loader) -> Self {
        self.known_clips.clone_from(&other.setup.clips);
        self.kernels = other.compiled().cache.clone();
        self
    }

    /// Checks all settings, compiles the pipelines and starts the workers.
    ///
    /// # Errors
    ///
    /// Fails if a setting is not valid, if a pipeline does not fit its field or can't be compiled, or if a
    /// device, a cache or the threads can't be set up.
    pub fn build(mut self) -> Result<Loader, Error> {
        let positions = mem::take(&mut self.positions);
        let built = DefaultFloats::during(|| self.build_loader());
        built.map_err(|error| in_file(error, &positions))
    }
}
