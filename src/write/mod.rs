//! The `write` stage.
