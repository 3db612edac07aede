//! Fuseloop: a data loader for training on images that compiles the augmentation.
//!
//! ```
//! use fuseloop::prelude::*;
//!
//! # fn main() -> Result<()> {
//! # let dir = tempfile::tempdir().unwrap();
//! # let photos = dir.path();
//! # for class in ["cat", "dog"] {
//! #     std::fs::create_dir(photos.join(class)).unwrap();
//! #     let jpeg = jpeg_encoder::Encoder::new_file(photos.join(class).join("0.jpg"), 90).unwrap();
//! #     jpeg.encode(&[200; 40 * 30 * 3], 40, 30, jpeg_encoder::ColorType::Rgb).unwrap();
//! # }
//! let loader = Loader::open(photos)?              // a folder per class, a .beton file, tar shards, ...
//!     .batch_size(2)
//!     .order(Order::Random)
//!     .pipeline("image", ops![
//!         RandomResizedCrop::new(224)?,
//!         RandomHorizontalFlip::new(0.5)?,
//!         Normalize::imagenet(),
//!         ToChannelsFirst,
//!     ])
//!     .build()?;                                  // types, sizes and parameters are checked here
//! for batch in loader.epoch(0)? {
//!     let batch = batch?;
//!     let images = batch.tensor::<f32>("image")?;
//!     assert_eq!(images.shape(), [2, 3, 224, 224]);
//!     assert_eq!(batch.tensor::<i64>("label")?.as_slice().len(), 2);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The ops are checked, fused and compiled to native code in milliseconds: one loop nest for each block of
//! ops. The loader reads, decodes and augments samples on all cores and delivers batches in order, the same
//! bits for any number of threads.
//!
//! | I want to | item |
//! |---|---|
//! | open a dataset | [`Loader::open`]; [`source`] for options, streams, generators and datasets of one's own |
//! | list augmentations | [`ops`]: each op's page has its formula, an example and a picture |
//! | list others in each epoch | [`LoaderBuilder::pipeline_by_epoch`] |
//! | choose an order, weights, a subset | [`LoaderBuilder::order`], [`Order`], [`LoaderBuilder::indices`], [`LoaderBuilder::filter`] |
//! | train on several ranks | [`LoaderBuilder::ranks`], [`order::Ranks`] |
//! | read a tensor | [`Batch`]: `tensor` borrows it, `share` owns it |
//! | resume a run | [`Batches::cursor`], [`Loader::resume`] |
//! | compare two runs, skip batches | [`loader::FingerprintLog`], [`Batches::skip_batches`] |
//! | get two views of an image | [`LoaderBuilder::view`], [`LoaderBuilder::branch`] |
//! | batch samples of differing sizes | [`LoaderBuilder::collate`] |
//! | skip or replace damaged samples | [`LoaderBuilder::on_damaged`], [`Loader::quarantine`], [`mod@verify`] |
//! | cache, read ahead, bound the memory | [`LoaderBuilder::cache`], [`LoaderBuilder::process_cache`], [`LoaderBuilder::memory_limit`] |
//! | find out why it is slow | [`Loader::stats`], [`Loader::explain`] |
//! | see what the ops make of samples | [`Loader::preview`] |
//! | run ops on a GPU | [`ops::ToDevice`], [`device`] |
//! | write an op | [`ops::author`], [`check_ops`]; [`ops::Lambda`] for a closure |
//! | keep a pipeline in a file | [`spec`], with the feature `spec` |
//! | write or convert a dataset, re-cut JPEGs | [`mod@write`] and [`recut`], with the feature `write` |
//!
//! The book in `docs/` explains the same by task. The stages behind the loader (decoder, planner, compiler and
//! worker threads) are private; ARCHITECTURE.md describes them.
//!
//! # Features
//!
//! A build without any feature reads `.beton` files and folders of images, streams, generators and sources
//! of one's own, and trains with every op on the CPU. The rest can be chosen:
//!
//! | feature | default | what it adds | other crates that it brings |
//! |---|---|---|---|
//! | `cuda` | yes | [batches on a GPU](device); needs no CUDA to build | `cudarc`, `hmac-sha256`, `libloading` |
//! | `tar` | yes | WebDataset's tar shards, plain or packed with gzip or zstd | `ruzstd` |
//! | `audio` | | audio files: WAV, FLAC, MP3 and Ogg Vorbis | `symphonia`, .. |
//! | `heic` | | HEIC images, as phones take them | `heic-rs` |
//! | `jit` | yes | the compiler of lists of ops; a build without it runs lists from [object files](Transform::linked), or slowly | `cranelift-codegen`, `cranelift-jit`, .. |
//! | `jxl` | | JPEG XL images | `jxl` |
//! | `mds` | | MDS shards of mosaicml-streaming, plain or packed with gzip or zstd; includes `tar` | `hmac-sha256`, `sha1_smol` |
//! | `metrics` | | counters, gauges and a histogram for recorders of the `metrics` crate, such as exporters for Prometheus | `metrics` |
//! | `ndarray` | | tensors of batches as arrays of the `ndarray` crate, without copies | `ndarray` |
//! | `object` | | what writes object files, for the command `fuseloop compile` | `cranelift-object` |
//! | `parquet` | | Parquet files, also in the layouts of the Hugging Face Hub; includes `tar` | `parquet`, `snap`, `lz4_flex`, .. |
//! | `remote` | | [datasets at addresses](source::remote): `s3://`, `gs://`, `http(s)://` | `object_store`, `reqwest`, `rustls`, `tokio`, .. |
//! | `spec` | | [pipelines in TOML files](spec) | `toml` |
//! | `tables` | | tables of images (`.csv`, `.tsv`, `.jsonl`), and the arrays in `.npz` files of tar shards | `csv`, `zip` |
//! | `tfrecord` | | TFRecord files, plain or packed with gzip | `prost` |
//! | `tiff` | | TIFF images, by strips and tiles, and arrays in TIFFs of tar shards | `tiff` |
//! | `tracing` | | spans of epochs, batches and the phases of samples | `tracing` |
//! | `webp` | | WebP images, lossy and lossless, by windows | |
//! | `write` | | whatever writes datasets: [`mod@write`] in all of its formats (Parquet with `parquet`), and [`recut`]; includes `tfrecord` | `jpeg-encoder`, `libjpeg-turbo-rs` |
//!
//! Caches, indexes of shards and saved listings of folders need no feature beyond that of their format: they
//! help to read. Nor does [`mod@verify`], which only reads. A dataset in a format that a build leaves out is
//! an error that names the feature.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod amounts;
pub mod batch;
mod cancel;
mod check_ops;
mod decode;
pub mod device;
mod error;
mod escape;
mod exif;
#[cfg(all(feature = "spec", feature = "tables", feature = "tar", feature = "write"))]
#[doc(hidden)]
pub mod fuzzing;
mod info;
#[doc(hidden)]
pub mod internals;
mod jit;
pub mod loader;
pub mod order;
mod parallel;
mod plan;
pub mod preview;
#[cfg(feature = "write")]
pub mod recut;
pub mod source;
#[cfg(feature = "spec")]
pub mod spec;
mod testing;
pub mod verify;
/// A list of ops as a function on images that the program holds.
pub mod transform {
    pub use crate::loader::transform::{
        CompiledObject, Image, Key, TargetValue, Tensor, Transform, Transformed,
    };
}
mod warnings;
mod workload;
#[cfg(feature = "write")]
pub mod write;

#[doc(inline)]
pub use fuseloop_engine::sample;
use fuseloop_engine::{panicked, run, threads};

pub use batch::Batch;
pub use cancel::CancelFlag;
pub use check_ops::check_ops;
pub use decode::{AudioOptions, ImageReadMode, ObjectMask};
pub use error::{Error, ErrorKind, Result};
pub use loader::{Batches, Cursor, Loader, LoaderBuilder, OnDamaged};
pub use order::Order;
#[doc(no_inline)]
pub use sample::{Epoch, Limits, SampleId, SampleRef};
#[cfg(feature = "spec")]
pub use spec::Spec;
pub use transform::Transform;
pub use warnings::set_warning_handler;

/// The ops, and the types that a list of ops is built with.
pub use fuseloop_ops as ops;

/// The names that most programs import: the loader, its batches, and the ops.
///
/// ```no_run
/// use fuseloop::prelude::*;
///
/// let loader = Loader::open("train.beton")?.order(Order::Random).batch_size(256);
/// let loader = loader.pipeline("image", ops![CenterCrop::new(224)?]).build()?;
/// # Ok::<(), fuseloop::Error>(())
/// ```
pub mod prelude {
    #[doc(no_inline)]
    pub use crate::ops::*;
    #[doc(no_inline)]
    pub use crate::{Batch, Batches, Epoch, Error, Loader, LoaderBuilder, Order, Result};
}
