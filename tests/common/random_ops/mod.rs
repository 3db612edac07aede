//! Random ops of every kind, with random parameters: one file a family.

mod basic;
mod color;
mod geometry;
mod overwrite;
mod policy;

use fuseloop_ops::author::{Op, Rng};
use fuseloop_ops::*;
use std::sync::Arc;

/// Makes an op of a name.
type Make = fn(&str, &mut Rng, &ImageType) -> Arc<dyn Op>;

/// The families: their names, and who makes one.
const FAMILIES: [(&[&str], Make); 5] = [
    (basic::NAMES, basic::op),
    (color::NAMES, color::op),
    (geometry::NAMES, geometry::op),
    (overwrite::NAMES, overwrite::op),
    (policy::NAMES, policy::op),
];

/// All names.
pub fn names() -> Vec<&'static str> {
    FAMILIES.iter().flat_map(|(names, _)| names.iter().copied()).collect()
}

/// A random op, by name, for images of a type. Parameters are such that pictures stay small.
pub fn op(name: &str, rng: &mut Rng, before: &ImageType) -> Arc<dyn Op> {
    let (_, make) = FAMILIES.iter().find(|(names, _)| names.contains(&name)).unwrap();
    make(name, rng, before)
}
