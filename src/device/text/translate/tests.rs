use super::*;
use fuseloop_ops::{Normalize, Op, PixelOp};

const FRAME: Frame<'_> = Frame {
    name: "op",
    rule: NumberRule::Fused,
    slots: 1,
    placed: false,
    mean: false,
    constants: None,
};

#[test]
fn arithmetic_is_written_lane_for_lane() {
    let (text, words) = function(FRAME, |e, pixels| {
        e.each(pixels, |e, _, v| {
            let factor = e.slot(0);
            let v = e.mul(v, factor);
            e.clamp(v)
        })
    })
    .unwrap();
    assert!(words.is_empty());
    assert!(text.contains("load_word(slots + 0)"), "{text}");
    assert!(text.contains("mul_rn("), "{text}");
    assert!(text.contains("0x437f0000u"), "255, by its bits: {text}");
    assert!(text.contains("? ~0u : 0u"), "{text}");
}

#[test]
fn the_text_of_normalize_is_the_same_for_all_numbers() {
    let text = |mean: [f64; 3]| {
        let op = Normalize::new(mean, [1.0; 3]).unwrap();
        let fuseloop_ops::Class::Pixel(op) = op.class() else { panic!("a pixel op") };
        let frame = Frame { slots: 0, constants: Some(5), ..FRAME };
        function(frame, |e, pixels| PixelOp::emit(op, e, pixels)).unwrap()
    };
    let (one, one_words) = text([1.0, 2.0, 3.0]);
    let (other, other_words) = text([0.0, 0.0, 255.0]);
    assert_eq!(one, other);
    assert_eq!((one_words.len(), other_words.len()), (12, 12));
    assert!(one.contains("a.k[5]") && one.contains("a.k[16]"), "{one}");
}

#[test]
fn what_runs_in_few_places_is_jumped_over() {
    let (text, _) = function(FRAME, |e, pixels| {
        let zero = e.splat(0.0);
        let mask = e.less(pixels.channels[0], zero);
        e.where_any(mask, pixels, |e, pixels| e.each(pixels, |e, _, v| e.sqrt(v)))
    })
    .unwrap();
    assert!(text.contains("goto block1;") && text.contains("block2:"), "{text}");
}

#[test]
fn other_instructions_are_refused_by_name() {
    let refused = function(FRAME, |e, pixels| {
        let fabs = e.builder.ins().fabs(pixels.channels[0].0);
        Pixels { channels: [F32x4(fabs); 3] }
    });
    assert_eq!(refused.unwrap_err(), "fabs");
    let load = function(FRAME, |e, pixels| {
        let table = e.table;
        let word =
            e.builder.ins().load(F32X4, cranelift_codegen::ir::MemFlagsData::new(), table, 1 << 20);
        Pixels { channels: [F32x4(word), pixels.channels[1], pixels.channels[2]] }
    });
    assert_eq!(load.unwrap_err(), "a load of memory that is not its own");
}
