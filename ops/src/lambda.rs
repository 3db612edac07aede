//! Lambda: a user-defined closure that changes the whole image, in plain Rust.

use crate::author::{HostOp, Op, OpClass, Type};
use crate::op::on_u8_image;
use crate::{HostSample, TypeError};
use std::fmt;

type Change = dyn Fn(HostSample<'_>, &mut [u8]) + Send + Sync;

/// Calls a closure of your own on each image, in plain Rust.
///
/// This is torchvision's `Lambda`, for changes that no op here implements. The closure is called once
/// per sample, with the pixels and a generator for this sample, so that the same sample of the same
/// epoch gets the same pixels on any worker. The ops before and after it are still compiled, into
/// separate loops.
///
/// | | |
/// |--------|----------------------------------------------------------------------------|
/// | input  | u8 image                                                                   |
/// | output | as the input                                                               |
/// | random | the numbers that the closure draws from its generator                      |
/// | cost   | that of the closure; the image is stored before it and read again after it |
pub struct Lambda {
    name: &'static str,
    change: Box<Change>,
}

impl Lambda {
    /// Builds the op from `change`, which gets each image as `[height, width, 3]` and changes it in
    /// place. `explain` and errors use `name` for the op.
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

    fn class(&self) -> OpClass<'_> {
        OpClass::Host(self)
    }
}

impl HostOp for Lambda {
    fn apply(&self, host: HostSample<'_>, pixels: &mut [u8]) {
        (self.change)(host, pixels);
    }
}
