//! Fuseloop: a training-data runtime that compiles the augmentation.

pub mod batch;
pub mod decode;
#[doc(hidden)]
pub mod fuzzing;
pub mod jit;
pub mod order;
pub mod plan;
pub mod run;
pub mod sample;
pub mod source;
pub mod write;
