//! Datasets at addresses.
