//! The `run` stage.
