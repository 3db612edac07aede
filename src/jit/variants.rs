//! The loop bodies of one block: one for each list of links that samples need, compiled when the
//! first sample needs it.
//!
//! Draws choose among them, once a sample: nothing is looked up for a pixel. How many there can be
//! is bounded when the plan is made.

use super::compile::{CompileError, Compiled};
use crate::plan::Link;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// The loop bodies of one block.
#[derive(Debug)]
pub(crate) struct Variants {
    /// The one that was compiled first: for most blocks the only one.
    first: (Vec<Link>, Arc<Compiled>),
    others: RwLock<Others>,
}

#[derive(Debug, Default)]
struct Others {
    /// `None` for one that could not be compiled.
    bodies: HashMap<Vec<Link>, Option<Arc<Compiled>>>,
    time: Duration,
}

impl Variants {
    /// Compiles the first loop body.
    pub(crate) fn new(
        links: Vec<Link>,
        compile: impl FnOnce(&[Link]) -> Result<Compiled, CompileError>,
    ) -> Result<Self, CompileError> {
        let start = Instant::now();
        let compiled = Arc::new(compile(&links)?);
        let others = Others { time: start.elapsed(), ..Others::default() };
        Ok(Self { first: (links, compiled), others: RwLock::new(others) })
    }

    /// The loop body for `links`, compiled if need be; `None` if it can't be. `compile` is given
    /// the number of the body: the first has 0.
    pub(crate) fn get(
        &self,
        links: &[Link],
        compile: impl FnOnce(&[Link], usize) -> Result<Compiled, CompileError>,
    ) -> Option<Arc<Compiled>> {
        if self.first.0 == links {
            return Some(Arc::clone(&self.first.1));
        }
        let others = self.others.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(body) = others.bodies.get(links) {
            return body.clone();
        }
        let number = 1 + others.bodies.len();
        drop(others);
        let start = Instant::now();
        // Not under the lock: others run meanwhile. Two may compile the same; one is kept.
        let body = compile(links, number).ok().map(Arc::new);
        let mut others = self.others.write().unwrap_or_else(PoisonError::into_inner);
        others.time += start.elapsed();
        others.bodies.entry(links.to_vec()).or_insert(body).clone()
    }

    /// Loop bodies compiled so far.
    pub(crate) fn len(&self) -> usize {
        1 + self.read(|others| others.bodies.len())
    }

    /// How long that took.
    pub(crate) fn compile_time(&self) -> Duration {
        self.read(|others| others.time)
    }

    /// Bytes of code so far.
    pub(crate) fn code_bytes(&self) -> usize {
        let others = self.read(|others| {
            others.bodies.values().flatten().map(|body| body.code.bytes()).sum::<usize>()
        });
        self.first.1.code.bytes() + others
    }

    fn read<T>(&self, read: impl FnOnce(&Others) -> T) -> T {
        read(&self.others.read().unwrap_or_else(PoisonError::into_inner))
    }
}
