//! Why a loader could not be made, and why a sample could not be loaded.

use crate::decode::DecodeError;
use crate::jit::CompileError;
use crate::plan::PlanError;
use crate::plan::label::LabelError;
use crate::run::RunError;
use crate::source::{Escaped, ReadErrorKind, SourceError};
use fuseloop_ops::ParamError;
use std::path::PathBuf;

/// Why a loader, or one of its epochs, could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The dataset.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A pipeline or a setting for a field that the dataset has not.
    #[error("there is no field {}, the file has {known}", Escaped(name))]
    NoSuchField {
        /// The name given.
        name: String,
        /// The fields there are.
        known: String,
    },
    /// A parameter of an op.
    #[error("field {}: {error}", Escaped(field))]
    Param {
        /// The field whose pipeline it is in.
        field: String,
        /// What is wrong.
        error: ParamError,
    },
    /// A pipeline that does not fit.
    #[error("field {}: {error}", Escaped(field))]
    Plan {
        /// The field.
        field: String,
        /// What does not fit.
        error: PlanError,
    },
    /// A pipeline for a field that has none.
    #[error("field {} is {kind}: ops are taken for images, ints and floats", Escaped(field))]
    NoPipeline {
        /// The field.
        field: String,
        /// What it is.
        kind: &'static str,
    },
    /// A picture field without any readable picture.
    #[error("field {} has no readable picture: its size can't be known", Escaped(field))]
    NoPictures {
        /// The field.
        field: String,
    },
    /// A field whose largest value is too large for a batch.
    #[error("field {}: a value of {bytes} bytes is over the limit of {max}", Escaped(field))]
    TooLarge {
        /// The field.
        field: String,
        /// Its largest value.
        bytes: u64,
        /// The limit.
        max: u64,
    },
    /// The compiler.
    #[error("field {}: {error}", Escaped(field))]
    Compile {
        /// The field.
        field: String,
        /// What went wrong.
        error: CompileError,
    },
    /// A batch size of 0.
    #[error("a batch size of 0: give 1 or more")]
    BatchSize,
    /// No worker.
    #[error("0 workers or 0 batches ahead: give 1 or more")]
    Workers,
    /// An index that the dataset has not.
    #[error("index {index}: the dataset has {samples} samples")]
    Index {
        /// The index.
        index: u64,
        /// Samples there are.
        samples: u64,
    },
    /// Every field was left out.
    #[error("no field is left to load")]
    NoOutputs,
    /// The engine.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Why a sample could not be loaded. The engine adds the batch and the sample's id.
#[derive(Debug, thiserror::Error)]
#[error("{} ({}): {cause}", .path.display(), Escaped(field))]
pub struct SampleError {
    /// The dataset.
    pub path: PathBuf,
    /// The field.
    pub field: String,
    /// What went wrong.
    pub cause: SampleCause,
}

/// What went wrong with a sample.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SampleCause {
    /// Its bytes can't be had.
    #[error(transparent)]
    Read(#[from] ReadErrorKind),
    /// It can't be decoded.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// Its label is not one of the classes.
    #[error(transparent)]
    Label(#[from] LabelError),
}
