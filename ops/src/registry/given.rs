//! The types that constructors and methods take, and how a value of each is read from data.

use super::args::{BOX_FORMAT_WORDS, INTERPOLATION_WORDS, WARP_INTERPOLATION_WORDS};
use super::{OpArgs, ParamKind, SpecError};
use crate::{
    BoxFormat, DType, Interpolation, KernelSize, NumberOrRange, Ops, ParamError, Sides, Size,
    WarpInterpolation,
};
use std::ops::RangeInclusive;

/// A type that a constructor or a method takes.
pub(crate) trait Given: Sized {
    /// The kind of values that it is read from.
    const KIND: ParamKind;

    /// Reads an argument.
    fn read(args: &OpArgs<'_>, name: &str) -> Result<Self, SpecError>;
}

macro_rules! given {
    ($($given:ty: $kind:expr, $read:expr;)*) => {$(
        impl Given for $given {
            const KIND: ParamKind = $kind;

            fn read(args: &OpArgs<'_>, name: &str) -> Result<Self, SpecError> {
                let read: fn(&OpArgs<'_>, &str) -> Result<Self, SpecError> = $read;
                read(args, name)
            }
        }
    )*};
}

given! {
    bool: ParamKind::Bool, |args, name| args.bool(name);
    f64: ParamKind::Number, |args, name| args.float(name);
    f32: ParamKind::Number, |args, name| args.f32(name);
    u16: ParamKind::Whole, |args, name| Ok(u16::try_from(args.u32(name)?).unwrap_or(u16::MAX));
    u32: ParamKind::Whole, |args, name| args.u32(name);
    i32: ParamKind::Integer, |args, name| args.i32(name);
    i64: ParamKind::Integer, |args, name| args.i64(name);
    (u32, u32): ParamKind::Kernel, |args, name| args.kernel(name).map(|[width, height]| (width, height));
    (f64, f64): ParamKind::Pair, |args, name| args.pair(name);
    RangeInclusive<f64>: ParamKind::Range, |args, name| args.range(name);
    RangeInclusive<u32>: ParamKind::Range, |args, name| {
        let [low, high] = args.pair_u32(name)?;
        Ok(low..=high)
    };
    NumberOrRange: ParamKind::NumberOrRange, |args, name| args.number_or_range(name);
    [u8; 3]: ParamKind::Color, |args, name| args.color(name);
    [usize; 3]: ParamKind::Permutation, |args, name| args.permutation(name);
    [[f64; 4]; 3]: ParamKind::Matrix, |args, name| {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = args.array(name)?;
        Ok([[a, b, c, d], [e, f, g, h], [i, j, k, l]])
    };
    Size: ParamKind::Size, |args, name| args.size(name);
    KernelSize: ParamKind::Kernel, |args, name| args.kernel(name).map(KernelSize::from);
    Sides: ParamKind::Sides, |args, name| args.sides(name);
    DType: ParamKind::DType, |args, name| args.dtype(name);
    BoxFormat: BOX_FORMAT_WORDS, |args, name| args.box_format(name);
    Interpolation: INTERPOLATION_WORDS, |args, name| args.interpolation(name);
    WarpInterpolation: WARP_INTERPOLATION_WORDS, |args, name| args.warp_interpolation(name);
    Vec<u64>: ParamKind::Ids, |args, name| args.ids(name);
    Vec<f64>: ParamKind::Numbers, |args, name| args.floats(name);
    Ops: ParamKind::Ops, |args, name| args.ops(name);
}

/// The result of a constructor or a method: an op, or an error in place of one.
pub(crate) trait Step<Op> {
    /// Returns the op.
    fn op(self) -> Result<Op, ParamError>;
}

impl<Op> Step<Op> for Op {
    fn op(self) -> Result<Op, ParamError> {
        Ok(self)
    }
}

impl<Op> Step<Op> for Result<Op, ParamError> {
    fn op(self) -> Self {
        self
    }
}

/// Returns the op that a constructor or a method returns.
pub(crate) fn step<Op>(step: impl Step<Op>) -> Result<Op, ParamError> {
    step.op()
}
