//! Emits the load of four pixels whose elements have more than a byte: u16, i16, f16, bf16 and f32.
//!
//! The bytes of four pixels are read by loads of 16 bytes, the last of which may overlap the one before. If the
//! loads have the elements of a channel in different places, as with three channels, they are blended, and a
//! shuffle of the blend moves the channel to the lanes of the four pixels. Otherwise a shuffle of each load moves
//! its share there, and the shares are combined. A type determines where in a lane an element goes:
//!
//! | type | bytes of the lane | then |
//! |---|---|---|
//! | u16 | the low two | conversion from `i32` |
//! | i16 | the high two | arithmetic shift by 16, conversion from `i32` |
//! | bf16 | the high two | these are the bits of the `f32` |
//! | f16 | the low two | exponent and mantissa are moved in place, and the exponent's bias is changed by a multiplication |
//! | f32 | all four | |
//!
//! An image mirrored left to right runs the same code with other shuffles, as in [`pass`](super::pass).

use super::super::param_block::shuffles;
use super::ir::BlockCode;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{F32X4, I8X16, I32X4, I64, I64X2};
use cranelift_codegen::ir::{InstBuilder, Value};
use fuseloop_ops::DType;
use fuseloop_ops::internals::PixelFormat;

/// Loads the values of four pixels from `from`, one vector for each channel. `masks` is the address of the
/// shuffles.
pub(super) fn load(
    e: &mut BlockCode<'_, '_>,
    format: PixelFormat,
    masks: Value,
    from: Value,
) -> Vec<Value> {
    let bytes: Vec<Value> = if format.pixel_bytes() == 2 {
        let eight = e.load(I64, from, 0);
        let vector = e.builder.ins().scalar_to_vector(I64X2, eight);
        vec![e.cast(I8X16, vector)]
    } else {
        shuffles::loads(format).map(|offset| e.load(I8X16, from, offset)).collect()
    };
    let channel = |c: usize| {
        let blend = shuffles::blend(format.channels, format.dtype.bytes(), c);
        let loads = blend.map_or(bytes.clone(), |from| vec![blended(e, &bytes, from)]);
        let mut lanes = None;
        for (load, bytes) in loads.into_iter().enumerate() {
            let mask = e.load_mask(masks, shuffles::wide(load, c));
            let share = e.pshufb(bytes, mask);
            lanes = Some(lanes.map_or(share, |lanes| e.builder.ins().bor(lanes, share)));
        }
        let lanes = lanes.expect("there is a load");
        let lanes = e.cast(I32X4, lanes);
        value(e, format.dtype, lanes)
    };
    (0..format.channels).map(channel).collect()
}

/// Returns a vector with byte `i` of load `from[i]`.
fn blended(e: &mut BlockCode<'_, '_>, loads: &[Value], from: [usize; 16]) -> Value {
    let mut all = loads[0];
    for (load, bytes) in loads.iter().enumerate().skip(1) {
        let byte = |i| if from[i] == load { 16 + i } else { i };
        all = e.shuffle(all, *bytes, std::array::from_fn(|i| byte(i) as u8));
    }
    all
}

/// Converts the elements in four lanes to `f32`.
fn value(e: &mut BlockCode<'_, '_>, dtype: DType, lanes: Value) -> Value {
    match dtype {
        DType::F32 | DType::Bf16 => e.cast(F32X4, lanes),
        DType::F16 => half(e, lanes),
        DType::I16 => {
            let number = e.builder.ins().sshr_imm_u(lanes, 16);
            e.builder.ins().fcvt_from_sint(F32X4, number)
        }
        _ => e.builder.ins().fcvt_from_sint(F32X4, lanes),
    }
}

/// Converts half-precision floats, in the low halves of four lanes. Infinity and NaN stay what they are.
fn half(e: &mut BlockCode<'_, '_>, lanes: Value) -> Value {
    /// 2^112: the difference of the exponents' biases.
    const SCALE: u32 = 0x7780_0000;
    let (rest_bits, sign_bit) = (e.splat_i32(0x7FFF), e.splat_i32(0x8000));
    let rest = e.builder.ins().band(lanes, rest_bits);
    let sign = e.builder.ins().band(lanes, sign_bit);
    let sign = e.builder.ins().ishl_imm_u(sign, 16);
    let number = e.builder.ins().ishl_imm_u(rest, 13);
    let number = e.cast(F32X4, number);
    let scale = e.splat_bits(SCALE);
    let number = e.builder.ins().fmul(number, scale);
    let largest = e.splat_i32(0x7BFF);
    let is_special = e.builder.ins().icmp(IntCC::SignedGreaterThan, rest, largest);
    let exponent = e.splat_i32(0x7F80_0000);
    let exponent = e.builder.ins().band(is_special, exponent);
    let bits = e.cast(I32X4, number);
    let bits = e.builder.ins().bor(bits, exponent);
    let bits = e.builder.ins().bor(bits, sign);
    e.cast(F32X4, bits)
}
