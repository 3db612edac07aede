//! Lambda: a closure of the user's own, on the whole picture, in plain Rust.
//!
//! torchvision's `Lambda`, for what no op here does: it is called once a sample, with the pixels
//! and a generator of its own, so that the same sample of the same epoch gets the same pixels
//! whoever works on it. What is before and after it is still compiled, into loops of their own.
//!
//! | | |
//! |--------|---------------------------------------------------------------------------|
//! | input  | u8 image                                                                  |
//! | output | as the input                                                              |
//! | random | what the closure draws from its generator                                 |
//! | cost   | its own; and the picture is stored before it and read again after it      |

use crate::op::on_u8_image;
use crate::{Class, HostOp, HostSample, Op, Type, TypeError};
use std::fmt;

type Change = dyn Fn(HostSample<'_>, &mut [u8]) + Send + Sync;

/// Calls a closure on each picture.
pub struct Lambda {
    name: &'static str,
    change: Box<Change>,
}

impl Lambda {
    /// Calls `change` with each picture, `[height, width, 3]`, to be changed in place. `name` is
    /// what `explain` and errors call it.
    ///
    /// ```
    /// use fuseloop_ops::{Lambda, ops};
    ///
    /// let sepia = Lambda::new("Sepia", |_, pixels| {
    ///     for pixel in pixels.chunks_exact_mut(3) {
    ///         pixel[2] /= 2;
    ///     }
    /// });
    /// assert_eq!(ops![sepia].len(), 1);
    /// ```
    pub fn new(
        name: &'static str,
        change: impl Fn(HostSample<'_>, &mut [u8]) + Send + Sync + 'static,
    ) -> Self {
        Self { name, change: Box::new(change) }
    }
}

impl fmt::Debug for Lambda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lambda({})", self.name)
    }
}

impl Op for Lambda {
    fn name(&self) -> &'static str {
        self.name
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        on_u8_image(self.name, input, |image| image)
    }

    fn class(&self) -> Class<'_> {
        Class::Host(self)
    }
}

impl HostOp for Lambda {
    fn apply(&self, host: HostSample<'_>, pixels: &mut [u8]) {
        (self.change)(host, pixels);
    }
}
