//! The loop bodies of one block: one for each list of fused ops that samples need, compiled when a
//! sample first needs it.
//!
//! A sample's draws select its loop body, once per sample: nothing is looked up per pixel. The number of
//! bodies is bounded when the plan is built.
//!
//! A body that does not compile is a bug of ours. Its samples are evaluated op by op: the bits are the
//! same, but the samples are slow. So it is counted, and reported by a warning once per process.

use super::body::CompiledBody;
use super::vector_bits::{Fallback, VectorBits};
use crate::error::Error;
use crate::plan::FusedOp;
use crate::warnings::warn;
use std::collections::HashMap;
use std::sync::{Arc, Once, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// The loop bodies of one block.
#[derive(Debug)]
pub(crate) struct Variants {
    /// The body that was compiled first: for most blocks the only one.
    first: (Vec<FusedOp>, Arc<CompiledBody>),
    others: RwLock<Others>,
}

#[derive(Debug, Default)]
struct Others {
    /// `None` for a body that could not be compiled.
    bodies: HashMap<Vec<FusedOp>, Option<Arc<CompiledBody>>>,
    /// The error of the first body that could not be compiled.
    error: Option<String>,
    time: Duration,
}

impl Variants {
    /// Compiles the first loop body.
    pub(crate) fn new(
        links: Vec<FusedOp>,
        compile: impl FnOnce(&[FusedOp]) -> Result<CompiledBody, Error>,
    ) -> Result<Self, Error> {
        let start = Instant::now();
        let compiled = Arc::new(compile(&links)?);
        let others = Others { time: start.elapsed(), ..Others::default() };
        Ok(Self { first: (links, compiled), others: RwLock::new(others) })
    }

    /// Returns the loop body for `links`, compiling it if needed; `None` if it can't be compiled.
    /// `compile` receives the number of the body: the first body has number 0.
    pub(crate) fn get(
        &self,
        links: &[FusedOp],
        compile: impl FnOnce(&[FusedOp], usize) -> Result<CompiledBody, Error>,
    ) -> Option<Arc<CompiledBody>> {
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
        // Not under the lock, so that other threads run. Two may compile the same body; one is stored.
        let body = compile(links, number);
        if let Err(error) = &body {
            report(error);
        }
        let mut others = self.others.write().unwrap_or_else(PoisonError::into_inner);
        others.time += start.elapsed();
        let body = body.map_err(|error| others.error.get_or_insert_with(|| error.to_string()));
        let body = body.ok().map(Arc::new);
        others.bodies.entry(links.to_vec()).or_insert(body).clone()
    }

    /// The number of loop bodies compiled so far.
    pub(crate) fn len(&self) -> usize {
        1 + self.read(|others| others.bodies.values().flatten().count())
    }

    /// The number of loop bodies that could not be compiled, and the error of the first.
    pub(crate) fn failed(&self) -> (usize, Option<String>) {
        self.read(|others| {
            let failed = others.bodies.values().filter(|body| body.is_none()).count();
            (failed, others.error.clone())
        })
    }

    /// The total compile time so far.
    pub(crate) fn compile_time(&self) -> Duration {
        self.read(|others| others.time)
    }

    /// The bytes of code so far.
    pub(crate) fn code_bytes(&self) -> usize {
        let others = self.read(|others| {
            others.bodies.values().flatten().map(|body| body.code.bytes()).sum::<usize>()
        });
        self.first.1.code.bytes() + others
    }

    /// Returns the vectors of each pass of each body so far.
    pub(super) fn passes(&self) -> Vec<Result<VectorBits, Fallback>> {
        self.read(|others| {
            let bodies = [&self.first.1].into_iter().chain(others.bodies.values().flatten());
            bodies.flat_map(|body| body.passes.iter().copied()).collect()
        })
    }

    /// Returns the fewest pixels for which each body whose work is a map of bytes is not run.
    pub(super) fn byte_maps_from(&self) -> Vec<u64> {
        self.read(|others| {
            let bodies = [&self.first.1].into_iter().chain(others.bodies.values().flatten());
            bodies.filter_map(|body| Some(body.byte_links?.fewest())).collect()
        })
    }

    fn read<T>(&self, read: impl FnOnce(&Others) -> T) -> T {
        read(&self.others.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Reports a loop body that could not be compiled, once per process.
fn report(error: &Error) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        warn(format_args!(
            "a loop could not be compiled ({error}). Samples that need it are evaluated op by op: the same bits, \
             but slowly. This is a bug in fuseloop: please report this line with the list of ops. \
             `Loader::explain` counts such loops."
        ));
    });
}
