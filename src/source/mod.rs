//! The `source` stage.
