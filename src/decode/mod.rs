//! The `decode` stage.
