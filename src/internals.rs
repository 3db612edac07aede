//! The stages that a loader is made of, for this project's own tests, benches and command.
//!
//! Programs should not use it: what is here changes without notice.

#![allow(missing_docs, reason = "the modules are documented where they are defined")]

pub mod decode {
    pub use crate::decode::*;
}

pub mod jit {
    pub use crate::jit::*;
}

pub mod loader {
    pub use crate::loader::inspect::{Inspected, Inspector, Phases};
    pub use crate::loader::stats::remedy;
}

pub mod order {
    pub use crate::order::epoch::EpochOrder;
    pub use crate::order::prepare::{DatasetInfo, PreparedOrder, SampleCount};
}

pub mod plan {
    pub use crate::plan::*;
}

pub mod run {
    pub use fuseloop_engine::batch::HostBatch;
    pub use fuseloop_engine::run::*;
}

pub mod source {
    pub use crate::source::open::saved_listing;

    /// The parts of a `.beton` file.
    pub mod beton {
        pub use crate::source::beton::*;
    }
}
