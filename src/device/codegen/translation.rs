//! A function that a program is translated into.

use fuseloop_ops::NumberRule;
use fuseloop_ops::author::{Emit, Pixels};
use fuseloop_ops::internals::RGB;
use fuseloop_ops::internals::program::{Grant, Program};

/// A function to translate a program into.
#[derive(Clone, Copy)]
#[cfg_attr(not(feature = "jit"), allow(dead_code, reason = "nothing is translated"))]
pub(super) struct Translation<'a> {
    /// The function's name.
    pub(super) name: &'a str,
    /// The number of its op parameters, if the function is not an op's own program.
    pub(super) param_count: usize,
    /// True if its last op parameter is a mean, which records don't contain.
    pub(super) mean: bool,
    /// The index of its first constant in the arguments, if constants are passed there: then the text is
    /// the same whatever they are.
    pub(super) constants: Option<usize>,
}

impl<'a> Translation<'a> {
    /// A function that reads only the pixel.
    pub(super) const fn of(name: &'a str) -> Self {
        Self { name, param_count: 0, mean: false, constants: None }
    }

    /// Records a program of the device's code generator itself, written with the ops' [`Emit`].
    pub(super) fn record(
        &self,
        rule: NumberRule,
        emit: impl FnOnce(&mut Emit, Pixels) -> Pixels,
    ) -> Program {
        let param_count = self.param_count;
        let grant = Grant { rule, param_count, uses_position: false, channels: RGB, outputs: RGB };
        Program::record(grant, emit).expect("the device's compiler reads only its own parameters")
    }
}
