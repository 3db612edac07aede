//! The stages that a loader is made of, for this project's own tests, benches and command.
//!
//! Programs should not use it: what is here changes without notice, and so do methods that are hidden from the
//! documentation. `fuseloop_ops::internals` is the same for the ops; `tests/golden/surface` lists everything that is public,
//! as `scripts/surface.py` finds it.

#![allow(missing_docs, reason = "the modules are documented where they are defined")]

pub use crate::testing::assert_says;
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

pub mod jit {
    pub use crate::jit::*;
}

#[cfg(feature = "video")]
pub mod video {
    pub use fuseloop_video::Libavcodec;
}

pub mod loader {
    pub use crate::loader::error::{InFile, no_image_output, of_number};
    pub use crate::loader::fingerprint_log::diff::{
        LogComparison, LogDifference, RepeatedLines, diff,
    };
    pub use crate::loader::inspect::{DrawnRow, Inspected, Inspector, Phases, StripImage};
    pub use crate::loader::inspected_targets::{InspectedTargets, TargetStep};
}

pub mod order {
    pub use crate::order::bucketed::Steps;
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
    use crate::source::Source;

    pub use crate::escape::Escaped;
    pub use crate::source::StoredValues;
    pub use crate::source::atomic_file::create as temporary_file;
    pub use crate::source::class_counts::ClassCounts;
    pub use crate::source::destination::check_destination;
    pub use crate::source::file_format::MDS_INDEX;
    pub use crate::source::folder::{Ignored, LinkCounts};
    #[cfg(any(feature = "tar", feature = "tfrecord"))]
    pub use crate::source::index_shards::{index_until, join_until};
    pub use crate::source::object_fields::{KeypointLayout, ObjectField, ObjectFields};
    pub use crate::source::open::{
        has_labels_apart, is_annotated, is_fixed_length, is_parquet, open_dataset, open_shards,
        saved_listing,
    };
    pub use crate::source::open_videos::fields_of_videos;
    #[cfg(feature = "parquet")]
    pub use crate::source::parquet::{ArrowArray, ArrowTable, Memory};
    #[cfg(feature = "video")]
    pub use crate::source::saved_videos::{SavedVideosReport, save_video_indexes};
    pub use crate::source::unfinished::{delete_unfinished, note_unfinished};

    /// Returns true if the values of a field are known to be video files.
    pub fn is_video(source: &dyn Source, field: usize) -> bool {
        source.facts().is_video(field)
    }

    /// Reading ahead of remote objects.
    pub mod remote {
        #[cfg(feature = "remote")]
        pub use crate::source::remote::ahead::ahead;
        pub use crate::source::remote::extents::{Extents, Views};
    }

    /// The parts of a `.beton` file.
    pub mod beton {
        pub use crate::source::beton::*;
    }
}

pub mod transform {
    use crate::CancelFlag;
    use crate::batch::Batch;
    use crate::error::Error;
    use crate::transform::{Image, Key, Transform};
    use fuseloop_ops::author::Layout;
    use fuseloop_ops::{DType, Size};
    use std::num::NonZeroUsize;

    pub use crate::loader::transform::OutputShape;
    #[cfg(feature = "object")]
    pub use crate::loader::transform::linked::AheadOfTime;

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
        /// Returns the type and the shape of the array of an image, without decoding it.
        fn shape_of(&self, image: &Image<'_>, key: Key) -> Result<(DType, Vec<usize>), Error>;
        /// Writes the arrays of several images to the memory that `memory` returns for their type and shape. `threads`
        /// overrides the number of workers.
        fn batch_to<'o>(
            &self,
            images: &[Image<'_>],
            keys: &[Key],
            threads: Option<NonZeroUsize>,
            cancel: &CancelFlag,
            memory: impl FnOnce(DType, &[usize]) -> Result<&'o mut [u8], Error>,
        ) -> Result<(), Error>;
        /// Runs the list on several images, and the end of it on a device. `threads` overrides the number of workers.
        fn batch_on_device_by(
            &self,
            images: &[Image<'_>],
            keys: &[Key],
            threads: Option<NonZeroUsize>,
            cancel: &CancelFlag,
        ) -> Result<Batch, Error>;
    }

    impl TransformExt for Transform {
        fn shape_of(&self, image: &Image<'_>, key: Key) -> Result<(DType, Vec<usize>), Error> {
            self.shape_of(image, key)
        }

        fn batch_to<'o>(
            &self,
            images: &[Image<'_>],
            keys: &[Key],
            threads: Option<NonZeroUsize>,
            cancel: &CancelFlag,
            memory: impl FnOnce(DType, &[usize]) -> Result<&'o mut [u8], Error>,
        ) -> Result<(), Error> {
            self.run_batch((images, keys), threads, cancel, memory)
        }

        fn batch_on_device_by(
            &self,
            images: &[Image<'_>],
            keys: &[Key],
            threads: Option<NonZeroUsize>,
            cancel: &CancelFlag,
        ) -> Result<Batch, Error> {
            self.run_on_device((images, keys), threads, cancel)
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

    pub use crate::write::convert::{convert_any, real_path, stores_frames};
    pub use crate::write::image::ImageError;
    pub use crate::write::value::WriteSampleError;

    /// Writes class names beside a `.beton` file.
    pub fn name_classes(out: &Path, names: &ClassNames) -> Result<(), Error> {
        crate::write::name_classes(out, names)
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
    use crate::transform::{CompiledObject, Transform};

    pub const MAX_BYTES: usize = crate::spec::MAX_BYTES;
    pub use crate::spec::error::{ParseCause, ParseError, TextPosition};
    pub use crate::spec::schedule::Schedule;

    /// Returns the transform of an object file, whose header has the number `header`.
    pub fn linked_by_header(
        list: &'static CompiledObject,
        header: u64,
    ) -> Result<Transform, Error> {
        crate::spec::transform::linked(list, Some(header))
    }

    /// Compiles the list of a pipeline file for an object file that defines `symbol`, with vectors of `isa` bits.
    #[cfg(feature = "object")]
    pub fn ahead_of_time(
        path: &std::path::Path,
        symbol: &str,
        isa: Option<u64>,
    ) -> Result<super::transform::AheadOfTime, Error> {
        crate::spec::transform::ahead_of_time(path, symbol, isa)
    }

    /// Returns the transform of a pipeline file that was read before.
    pub fn transform_of_spec(spec: &Spec) -> Result<Transform, Error> {
        crate::spec::transform::of_spec(spec)
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
