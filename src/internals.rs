//! The stages that a loader is made of, for this project's own tests, benches and command.
//!
//! Programs should not use it: what is here changes without notice. A trait that ends in `Ext` adds methods
//! to a public type. This is the one hidden door of the crate, and `fuseloop_ops::internals` that of the ops;
//! `tests/golden/surface` lists everything that is public, as `scripts/surface.py` finds it.

#![allow(missing_docs, reason = "the modules are documented where they are defined")]

use crate::error::Error;
use std::error::Error as StdError;

pub use crate::warnings::recorded as recorded_warnings;

/// Threads of the default floating-point mode, for all that start threads of their own.
pub mod threads {
    use crate::error::Error;
    pub use crate::threads::{Builder, builder};

    /// Runs `work`, which uses rayon's iterators over `pieces` pieces, in a pool of its own.
    pub fn on_all_cores<R: Send>(
        pieces: usize,
        work: impl FnOnce() -> R + Send,
    ) -> Result<R, Error> {
        Ok(crate::parallel::on_all_cores(pieces, work)?)
    }
}

pub mod batch {
    use crate::batch::SharedBytes;
    use crate::device::DlpackCapsule;
    use fuseloop_ops::DType;

    /// Returns a tensor of `shape` that begins `start` bytes after the first of `bytes`.
    pub fn capsule(
        bytes: SharedBytes,
        start: usize,
        dtype: DType,
        shape: &[usize],
    ) -> DlpackCapsule {
        DlpackCapsule::within(bytes, start, dtype, shape)
    }
}

pub mod decode {
    pub use crate::decode::*;
    use crate::error::BoxError;
    use crate::sample::SampleId;
    use crate::source::{Buffer, PartialImage, Source};
    use fuseloop_ops::author::Window;

    /// Decodes a window of an image of which only parts are read, at 1 / `factor` of its size, and returns its pixels.
    /// `None` for an image that must be read whole.
    pub fn window_of_parts(
        decoder: &mut Decoder,
        (source, sample, field): (&dyn Source, SampleId, usize),
        (mode, factor): (ImageReadMode, u32),
        wanted: Window,
    ) -> Result<Option<Vec<u8>>, BoxError> {
        let mut buffer = Buffer::default();
        let stored = source.stored().ok_or("it has no extent")?;
        let extent = stored.image_extent(sample, field).ok_or("it has no extent")?;
        let image = PartialImage::new(stored, (sample, field), extent, &mut buffer)?;
        let Some(image) = PartlyRead::begin(image)? else { return Ok(None) };
        let mut opened = decoder.open_partly(image, mode)?;
        if let Some(scaled) = opened.scaled(factor) {
            opened.set_scale(&scaled);
        }
        opened.read(wanted)?;
        let view = opened.decode(wanted)?.window(wanted).ok_or("it is not the window")?;
        Ok(Some((0..wanted.height).flat_map(|y| view.row(y).to_vec()).collect()))
    }
}

pub trait ErrorExt {
    fn cause<C: StdError + 'static>(&self) -> Option<&C>;
    fn next_step(&self) -> Option<&'static str>;
    fn op(&self) -> Option<usize>;
}

impl ErrorExt for Error {
    fn cause<C: StdError + 'static>(&self) -> Option<&C> {
        self.cause()
    }

    fn next_step(&self) -> Option<&'static str> {
        self.next_step()
    }

    fn op(&self) -> Option<usize> {
        self.op()
    }
}

pub mod jit {
    pub use crate::jit::*;
}

pub mod loader {
    use crate::batch::Batch;
    use crate::error::Error;
    use crate::jit::KernelCache;
    use crate::loader::stats::Stats;
    use crate::loader::{Batches, Loader, LoaderBuilder};
    use crate::run::{Trace, Utilization};
    use crate::source::beton::PageStats;
    use std::time::Duration;

    pub use crate::loader::error::{InFile, no_image_output, of_number};
    pub use crate::loader::inspect::{DrawnRow, Inspected, Inspector, Phases};
    pub use crate::loader::inspected_targets::{InspectedTargets, TargetStep};
    pub use crate::loader::stats::remedy;

    pub trait LoaderExt {
        fn inspect(&self, field: &str, epoch: u32) -> Result<Option<Inspector>, Error>;
        fn image_output(&self, asked: Option<&str>) -> Result<String, Error>;
        fn labels(&self, sample: u64) -> Vec<String>;
        fn target_words(&self, name: &str) -> Option<String>;
        fn compile_time(&self) -> Duration;
        fn kernels(&self) -> KernelCache;
        fn decoded(&self) -> u64;
        fn page_stats(&self) -> Option<PageStats>;
        fn utilization(&self) -> Utilization;
        fn trace(&self, limit: usize);
        fn take_trace(&self) -> Trace;
        fn clock(&self) -> Duration;
    }

    impl LoaderExt for Loader {
        fn inspect(&self, field: &str, epoch: u32) -> Result<Option<Inspector>, Error> {
            self.inspect(field, epoch)
        }

        fn image_output(&self, asked: Option<&str>) -> Result<String, Error> {
            self.image_output(asked)
        }

        fn labels(&self, sample: u64) -> Vec<String> {
            self.labels(sample)
        }

        fn target_words(&self, name: &str) -> Option<String> {
            self.target_words(name)
        }

        fn compile_time(&self) -> Duration {
            self.compile_time()
        }

        fn kernels(&self) -> KernelCache {
            self.kernels()
        }

        fn decoded(&self) -> u64 {
            self.decoded()
        }

        fn page_stats(&self) -> Option<PageStats> {
            self.page_stats()
        }

        fn utilization(&self) -> Utilization {
            self.utilization()
        }

        fn trace(&self, limit: usize) {
            self.trace(limit);
        }

        fn take_trace(&self) -> Trace {
            self.take_trace()
        }

        fn clock(&self) -> Duration {
            self.clock()
        }
    }

    pub trait BatchesExt {
        fn take_back(&self, batch: &Batch);
    }

    impl BatchesExt for Batches {
        fn take_back(&self, batch: &Batch) {
            self.take_back(batch);
        }
    }

    pub trait LoaderBuilderExt {
        fn is_stream(&self) -> bool;
        fn kernels(self, kernels: KernelCache) -> Self;
        fn dataset_targets(self) -> Result<Self, Error>
        where
            Self: Sized;
    }

    impl LoaderBuilderExt for LoaderBuilder {
        fn is_stream(&self) -> bool {
            self.is_stream()
        }

        fn kernels(self, kernels: KernelCache) -> Self {
            self.kernels(kernels)
        }

        fn dataset_targets(self) -> Result<Self, Error> {
            self.dataset_targets()
        }
    }

    pub trait StatsExt {
        fn busy_share(&self) -> f64;
        fn consumer_share(&self) -> f64;
        fn busy_per_sample(&self) -> Duration;
    }

    impl StatsExt for Stats {
        fn busy_share(&self) -> f64 {
            self.busy_share()
        }

        fn consumer_share(&self) -> f64 {
            self.consumer_share()
        }

        fn busy_per_sample(&self) -> Duration {
            self.busy_per_sample()
        }
    }
}

pub mod order {
    pub use crate::order::epoch::EpochOrder;
    pub use crate::order::prepare::{DatasetInfo, PreparedOrder, SampleCount};
}

pub mod plan {
    pub use crate::plan::*;
}

pub mod preview {
    pub use crate::preview::canvas::Canvas;
    pub use crate::preview::plot::{color_map, is_signal, waveforms};
    pub use crate::preview::targets::over as draw_targets;

    /// Encoders of packed RGB pixels.
    pub mod encode {
        pub use crate::preview::encode::*;
    }
}

pub mod run {
    pub use fuseloop_engine::batch::{HostBatch, RowsMut};
    pub use fuseloop_engine::run::*;
}

pub mod source {
    use crate::cancel::CancelFlag;
    use crate::error::Error;
    use crate::sample::SampleId;
    use crate::source::beton::{Allocation, FieldError, FieldStats, Header, OpenError, ReadError};
    use crate::source::error::ReadCause;
    use crate::source::stream::{Item, SequentialSource, Stream};
    use crate::source::{
        Beton, BoxError, Buffer, FieldKind, FieldSpec, Folder, FolderOptions, OpenOptions,
        OwnedValue, Value,
    };
    use fuseloop_ops::Size;
    use std::path::PathBuf;
    use std::sync::Arc;

    pub use crate::escape::Escaped;
    pub use crate::source::StoredValues;
    pub use crate::source::atomic_file::create as temporary_file;
    pub use crate::source::class_counts::ClassCounts;
    pub use crate::source::destination::check_destination;
    pub use crate::source::folder::{Ignored, LinkCounts};
    #[cfg(any(feature = "tar", feature = "tfrecord"))]
    pub use crate::source::index_shards::index_until;
    pub use crate::source::object_fields::{KeypointLayout, ObjectField, ObjectFields};
    pub use crate::source::open::{
        has_labels_apart, is_annotated, is_fixed_length, open_dataset, open_shards, saved_listing,
    };
    pub use crate::source::unfinished::{delete_unfinished, note_unfinished};

    /// Reading ahead of remote objects.
    pub mod remote {
        #[cfg(feature = "remote")]
        pub use crate::source::remote::ahead::ahead;
        pub use crate::source::remote::extents::{Extents, Views};
    }

    /// The parts of a `.beton` file.
    pub mod beton {
        pub use crate::source::beton::*;
        pub use crate::source::error::ReadCause;
    }

    pub trait FolderOptionsExt {
        fn cancel(self, cancel: CancelFlag) -> Self;
    }

    /// Opens the columns of a table that is no file: their names, and their values as JSON lists.
    pub fn folder_of_columns(
        name: &str,
        columns: Vec<(String, String)>,
        options: &FolderOptions,
    ) -> Result<Folder, Error> {
        Folder::of_columns(name, columns, options)
    }

    impl FolderOptionsExt for FolderOptions {
        fn cancel(self, cancel: CancelFlag) -> Self {
            self.cancel(cancel)
        }
    }

    pub trait StreamExt: Sized {
        fn counted_until(self, cancel: &CancelFlag) -> Result<SequentialSource, Error>;
        fn is_exact(&self) -> bool;
    }

    impl StreamExt for Stream {
        fn counted_until(self, cancel: &CancelFlag) -> Result<SequentialSource, Error> {
            self.counted_until(cancel, |_| ())
        }

        fn is_exact(&self) -> bool {
            self.facts().is_exact
        }
    }

    pub trait BetonExt: Sized {
        fn from_bytes(
            bytes: impl Into<Arc<[u8]>>,
            options: &OpenOptions,
        ) -> Result<Self, OpenError>;
        fn header(&self) -> &Header;
        fn row_bytes(&self) -> usize;
        fn file_bytes(&self) -> u64;
        fn stored_values(&self) -> u64;
        fn allocations(&self) -> Result<Vec<Allocation>, ReadCause>;
        fn samples(&self) -> impl Iterator<Item = SampleId> + use<Self>;
        fn owned(&self, sample: SampleId, field: usize) -> Result<OwnedValue, ReadError>;
        fn stored<'a>(&'a self, ptr: u64, buffer: &'a mut Buffer) -> Result<&'a [u8], ReadCause>;
        fn image_size(&self, sample: SampleId, field: usize) -> Result<Size, ReadError>;
        fn field_stats(&self, field: usize) -> Option<FieldStats>;
    }

    impl BetonExt for Beton {
        fn from_bytes(
            bytes: impl Into<Arc<[u8]>>,
            options: &OpenOptions,
        ) -> Result<Self, OpenError> {
            Self::from_bytes(bytes, options)
        }

        fn header(&self) -> &Header {
            self.header()
        }

        fn row_bytes(&self) -> usize {
            self.row_bytes()
        }

        fn file_bytes(&self) -> u64 {
            self.file_bytes()
        }

        fn stored_values(&self) -> u64 {
            self.stored_values()
        }

        fn allocations(&self) -> Result<Vec<Allocation>, ReadCause> {
            self.allocations()
        }

        fn samples(&self) -> impl Iterator<Item = SampleId> + use<> {
            self.samples()
        }

        fn owned(&self, sample: SampleId, field: usize) -> Result<OwnedValue, ReadError> {
            self.owned(sample, field)
        }

        fn stored<'a>(&'a self, ptr: u64, buffer: &'a mut Buffer) -> Result<&'a [u8], ReadCause> {
            self.stored(ptr, buffer)
        }

        fn image_size(&self, sample: SampleId, field: usize) -> Result<Size, ReadError> {
            self.image_size(sample, field)
        }

        fn field_stats(&self, field: usize) -> Option<FieldStats> {
            self.field_stats(field)
        }
    }

    pub trait FieldSpecExt {
        fn to_bytes(&self) -> Result<[u8; FieldSpec::SIZE], FieldError>;
    }

    impl FieldSpecExt for FieldSpec {
        fn to_bytes(&self) -> Result<[u8; Self::SIZE], FieldError> {
            self.to_bytes()
        }
    }

    pub trait FolderExt {
        fn file(&self, sample: SampleId) -> Option<PathBuf>;
        fn classes(&self) -> &[String];
        fn links(&self) -> LinkCounts;
    }

    impl FolderExt for Folder {
        fn file(&self, sample: SampleId) -> Option<PathBuf> {
            self.file(sample)
        }

        fn classes(&self) -> &[String] {
            self.classes()
        }

        fn links(&self) -> LinkCounts {
            self.links()
        }
    }

    pub trait BufferExt {
        fn forget(&mut self);
    }

    impl BufferExt for Buffer {
        fn forget(&mut self) {
            self.forget();
        }
    }

    pub trait FieldKindExt {
        fn array_bytes(&self) -> Option<u64>;
        fn type_id(&self) -> u8;
        fn word(&self) -> &'static str;
    }

    impl FieldKindExt for FieldKind {
        fn array_bytes(&self) -> Option<u64> {
            self.array_bytes()
        }

        fn type_id(&self) -> u8 {
            self.type_id()
        }

        fn word(&self) -> &'static str {
            self.word()
        }
    }

    pub trait OwnedValueExt {
        fn borrowed(&self) -> Value<'_>;
    }

    impl OwnedValueExt for OwnedValue {
        fn borrowed(&self) -> Value<'_> {
            self.borrowed()
        }
    }

    pub trait ItemExt: Sized {
        fn component(&self) -> Result<usize, BoxError>;
        fn held(&self) -> Result<Self, BoxError>;
        fn name(&self) -> String;
    }

    impl ItemExt for Item {
        fn component(&self) -> Result<usize, BoxError> {
            self.component()
        }

        fn held(&self) -> Result<Self, BoxError> {
            self.held()
        }

        fn name(&self) -> String {
            self.name()
        }
    }
}

pub mod transform {
    use crate::error::Error;
    use crate::transform::{Image, Key, Transform};
    use fuseloop_ops::author::Layout;
    use fuseloop_ops::{DType, Size};
    use std::num::NonZeroUsize;

    pub use crate::loader::transform::OutputShape;

    pub trait ImageExt<'a>: Sized {
        /// Pixels without gaps, as bytes; the axes are `(height, width, channels)` for any layout.
        fn packed(
            dtype: DType,
            bytes: &'a [u8],
            axes: (usize, usize, usize),
            layout: Layout,
        ) -> Result<Self, Error>;
        /// Rows of pixels `[height, width, channels]` that begin `stride` bytes apart, as bytes.
        fn of_rows(
            dtype: DType,
            bytes: &'a [u8],
            shape: [usize; 3],
            stride: usize,
        ) -> Result<Self, Error>;
    }

    impl<'a> ImageExt<'a> for Image<'a> {
        fn packed(
            dtype: DType,
            bytes: &'a [u8],
            axes: (usize, usize, usize),
            layout: Layout,
        ) -> Result<Self, Error> {
            Self::packed(dtype, bytes, axes, layout)
        }

        fn of_rows(
            dtype: DType,
            bytes: &'a [u8],
            shape: [usize; 3],
            stride: usize,
        ) -> Result<Self, Error> {
            Self::of_rows(dtype, bytes, shape, stride)
        }
    }

    pub trait TransformExt {
        /// Writes the array to the memory that `memory` returns for it, aligned to its elements.
        fn apply_to<'o>(
            &self,
            image: &Image<'_>,
            key: Key,
            memory: impl FnOnce(OutputShape<'_>) -> Result<&'o mut [u8], Error>,
        ) -> Result<Size, Error>;
        /// Writes the arrays of several images to the memory that `memory` returns for their type and shape. `threads`
        /// overrides the number of workers.
        fn batch_to<'o>(
            &self,
            images: &[Image<'_>],
            keys: &[Key],
            threads: Option<NonZeroUsize>,
            memory: impl FnOnce(DType, &[usize]) -> Result<&'o mut [u8], Error>,
        ) -> Result<(), Error>;
    }

    impl TransformExt for Transform {
        fn batch_to<'o>(
            &self,
            images: &[Image<'_>],
            keys: &[Key],
            threads: Option<NonZeroUsize>,
            memory: impl FnOnce(DType, &[usize]) -> Result<&'o mut [u8], Error>,
        ) -> Result<(), Error> {
            self.run_batch((images, keys), threads, memory)
        }

        fn apply_to<'o>(
            &self,
            image: &Image<'_>,
            key: Key,
            memory: impl FnOnce(OutputShape<'_>) -> Result<&'o mut [u8], Error>,
        ) -> Result<Size, Error> {
            self.run(image, key, memory)
        }
    }
}

pub mod workload {
    pub use crate::workload::*;
}

#[cfg(feature = "write")]
pub mod write {
    use crate::error::Error;
    use crate::source::ClassNames;
    use std::path::Path;

    pub use crate::write::convert::real_path;
    pub use crate::write::image::ImageError;
    pub use crate::write::parts::{Split, concat_beton, split_beton, subset_beton};
    pub use crate::write::report::note_of_orientations;
    pub use crate::write::value::WriteSampleError;

    /// Writes class names beside a `.beton` file.
    pub fn name_classes(out: &Path, names: &ClassNames) -> Result<(), Error> {
        crate::write::name_classes(out, Some(names))
    }
}

pub mod device {
    pub use crate::device::cuda::Gpu;
    pub use crate::device::info::{Compiler, GpuInfo};
}

#[cfg(feature = "spec")]
pub mod spec {
    use crate::error::Error;
    use crate::spec::Spec;
    use crate::transform::Transform;

    pub const MAX_BYTES: usize = crate::spec::MAX_BYTES;
    pub use crate::spec::error::{ParseCause, ParseError, TextPosition};
    pub use crate::spec::schedule::Schedule;

    /// Returns the transform of a pipeline file that was read before.
    pub fn transform_of_spec(spec: &Spec) -> Result<Transform, Error> {
        crate::spec::transform::of_spec(spec)
    }

    pub trait SpecExt {
        fn changes(&self) -> bool;
    }

    impl SpecExt for Spec {
        fn changes(&self) -> bool {
            self.changes()
        }
    }
}

pub mod verify {
    pub use crate::verify::layout::{layout, verify_with_tables};
    pub use crate::verify::words::report_json;
}

pub mod info {
    pub use crate::amounts::{bytes, count, counted};
    pub use crate::info::{DatasetSummary, folder_text};
}
