//! The `jit` stage.
