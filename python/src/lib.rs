//! The compiled part of the Python package `fuseloop`: datasets, loaders, epochs, batches and tensors.
//!
//! ```text
//! Dataset ─▶ Loader ─▶ Epoch ─▶ Batch ─▶ Tensor ─▶ NumPy, torch, JAX (DLPack, buffer protocol)
//! ```
//!
//! The classes that users see are in `fuseloop/*.py`; they prepare arguments and call these. Whatever reads,
//! compiles, waits or frees runs detached from the interpreter, in `call::detached`, so that other threads of
//! Python go on, and the threads of a loader can call Python. A call that waits does so in steps of 50 ms, and looks at
//! signals between them. The library's threads log nothing: `fuseloop/loader.py` logs damaged samples on the thread
//! that takes a batch.

mod batch;
mod call;
mod check;
mod command;
mod crop;
mod dataset;
mod epoch;
mod errors;
mod lambda;
mod loader;
mod memory;
mod preview;
mod registry;
mod remote;
mod rows;
mod settings;
mod sources;
mod task;
mod tensor;
mod transform;
mod values;
mod warnings;
mod write;

/// The compiled module.
#[pyo3::pymodule]
mod _fuseloop {
    #[pymodule_export]
    use super::batch::{Batch, RaggedTensor};
    #[pymodule_export]
    use super::call::end_functions;
    #[pymodule_export]
    use super::check::{dataset_info, verify};
    #[pymodule_export]
    use super::command::run_command;
    #[pymodule_export]
    use super::crop::Crop;
    #[pymodule_export]
    use super::dataset::Dataset;
    #[pymodule_export]
    use super::epoch::Epoch;
    #[pymodule_export]
    use super::lambda::Function;
    #[pymodule_export]
    use super::loader::Loader;
    #[pymodule_export]
    use super::preview::{Sheet, inspect, preview};
    #[pymodule_export]
    use super::registry::{_panic, bucket_sizes, check_op, check_ops, registry};
    #[pymodule_export]
    use super::remote::{remote_stats, set_remote};
    #[pymodule_export]
    use super::sources::{
        arrays_dataset, arrow_dataset, generated_dataset, join, open_annotated, open_beton,
        open_columns, open_folder, open_lerobot, open_mds, open_split, open_tar, open_tfrecord,
        python_dataset, shards, stream,
    };
    #[pymodule_export]
    use super::tensor::Tensor;
    #[pymodule_export]
    use super::transform::Transform;
    #[pymodule_export]
    use super::write::{Writer, check_destination, convert, index, recut};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::warnings::install();
        module.add("LAUNCHER_VARIABLES", Ranks::variables().collect::<Vec<_>>())?;
        module.add("MAX_PIXELS", Limits::DEFAULT.max_pixels)?;
        module.add("MAX_SAMPLE_BYTES", Limits::DEFAULT.max_sample_bytes)?;
        super::call::refuse_subinterpreters(module.py())
    }

    use fuseloop::order::Ranks;
    use fuseloop::sample::Limits;
    use pyo3::prelude::*;
}
