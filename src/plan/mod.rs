//! The `plan` stage.
