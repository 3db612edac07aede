//! Erasing, grids, noise.

use fuseloop_ops::*;
use std::sync::Arc;

pub const NAMES: &[&str] = &[];

/// A random op, by name. Parameters are such that pictures stay small.
pub fn op(name: &str, _rng: &mut Rng, _before: &ImageType) -> Arc<dyn Op> {
    panic!("no op {name}")
}
