//! Random ops of every kind, by the recipes of the registry.

use fuseloop_ops::author::{ImageType, Op, Rng};
use fuseloop_ops::internals::registry::recipes;
use std::sync::Arc;

/// The names of all recipes.
pub fn names() -> Vec<&'static str> {
    recipes().map(|recipe| recipe.name).collect()
}

/// A random op for images of a type, by the name of its recipe. Parameters are such that images stay small.
pub fn op(name: &str, rng: &mut Rng, before: &ImageType) -> Arc<dyn Op> {
    let recipe = recipes().find(|recipe| recipe.name == name).unwrap();
    (recipe.draw)(rng, before).unwrap()
}
