//! Fuseloop: a training-data runtime that compiles the augmentation.
//!
//! A user lists ops. They are checked, fused and compiled to native code in milliseconds: one loop nest
//! for each block of ops. A loader then reads, decodes and augments samples on all cores and delivers
//! batches in order. See [`LoaderBuilder`] for a whole example.
//!
//! | module | what it is |
//! |---|---|
//! | [`prelude`] | what most programs import |
//! | [`loader`] | the loader: which pipelines, batches and workers it has, and what it reports |
//! | [`source`] | datasets: how many samples, and where their bytes are stored: `.beton` files, folders, tar and TFRecord shards, streams |
//! | [`ops`] | the ops of a pipeline |
//! | [`order`] | which sample comes next: pure functions of seed and epoch |
//! | [`batch`] | batches and their tensors |
//! | [`device`] | batches on a GPU, and ops compiled to kernels that run there |
//! | [`sample`] | types that all stages share: sample ids, epochs, limits |
//! | [`spec`] | pipelines as data: TOML files |
//! | [`mod@write`] | converts a folder, a list or an iterator to a `.beton` file, and any source to any format |
//! | [`recut`] | JPEGs re-cut without loss, so that windows of them are cheap to decode |
//! | [`mod@verify`] | a whole dataset, checked for damage |
//!
//! The stages behind the loader (decoder, planner, compiler and worker threads) are private. ARCHITECTURE.md
//! describes them.
//!
//! # Features
//!
//! A build without any feature reads `.beton` files and folders of images, streams, generators and sources
//! of one's own, and trains with every op on the CPU. The rest can be chosen:
//!
//! | feature | default | what it adds | other crates that it brings |
//! |---|---|---|---|
//! | `cuda` | yes | [batches on a GPU](device); needs no CUDA to build | `hmac-sha256`, `libloading` |
//! | `tar` | yes | WebDataset's tar shards, plain or packed with gzip or zstd | `ruzstd` |
//! | `ndarray` | | tensors of batches as arrays of the `ndarray` crate, without copies | `ndarray` |
//! | `remote` | | [datasets at addresses](source::remote): `s3://`, `gs://`, `http(s)://` | `object_store`, `reqwest`, `rustls`, `tokio`, .. |
//! | `spec` | | [pipelines in TOML files](spec) | `toml` |
//! | `tables` | | tables of images (`.csv`, `.tsv`, `.jsonl`), and the arrays in `.npz` files of tar shards | `csv`, `zip` |
//! | `tfrecord` | | TFRecord files, plain or packed with gzip | `prost` |
//! | `tracing` | | spans of epochs, batches and the phases of samples | `tracing` |
//! | `write` | | whatever writes datasets: [`mod@write`] in all of its formats, and [`recut`]; includes `tfrecord` | `jpeg-encoder`, `libjpeg-turbo-rs` |
//!
//! Caches, indexes of shards and saved listings of folders need no feature beyond that of their format: they
//! help to read. Nor does [`mod@verify`], which only reads. A dataset in a format that a build leaves out is
//! an error that names the feature.

pub mod batch;
mod check_ops;
mod decode;
pub mod device;
mod error;
#[cfg(all(feature = "spec", feature = "tables", feature = "tar", feature = "write"))]
#[doc(hidden)]
pub mod fuzzing;
#[doc(hidden)]
pub mod internals;
mod jit;
pub mod loader;
pub mod order;
mod parallel;
mod plan;
#[cfg(feature = "write")]
pub mod recut;
pub mod source;
#[cfg(feature = "spec")]
pub mod spec;
pub mod verify;
mod workload;
#[cfg(feature = "write")]
pub mod write;

#[doc(inline)]
pub use fuseloop_engine::sample;
use fuseloop_engine::{panicked, run, threads};

pub use batch::Batch;
pub use check_ops::check_ops;
pub use error::{Error, ErrorKind, Result};
pub use loader::{Batches, Cursor, Loader, LoaderBuilder, OnDamaged};
pub use order::Order;
#[doc(no_inline)]
pub use sample::{Epoch, Limits, SampleId, SampleRef};
#[cfg(feature = "spec")]
pub use spec::Spec;

/// The ops, and the types that a list of ops is built with.
pub use fuseloop_ops as ops;

/// What most programs import: the loader, its batches, and the ops.
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
