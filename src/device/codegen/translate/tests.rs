use super::*;
use fuseloop_ops::author::{Emit, Op, PixelOp, Pixels};
use fuseloop_ops::{Normalize, NumberRule};

const FRAME: Translation<'_> =
    Translation { name: "op", param_count: 1, mean: false, constants: None };

/// The text of what `emit` says.
fn translated(
    frame: Translation<'_>,
    emit: impl FnOnce(&mut Emit, Pixels) -> Pixels,
) -> Result<(String, Vec<u32>), String> {
    function(frame, &frame.record(NumberRule::Fused, emit))
}

#[test]
fn arithmetic_is_written_lane_for_lane() {
    let (text, words) = translated(FRAME, |e, pixels| {
        e.each(pixels, |e, _, v| {
            let factor = e.param(0);
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
        let op = Normalize::levels(mean, [1.0; 3]).unwrap();
        let fuseloop_ops::author::OpClass::Pixel(op) = op.class() else { panic!("a pixel op") };
        let frame = Translation { param_count: 0, constants: Some(5), ..FRAME };
        translated(frame, |e, pixels| PixelOp::emit(op, e, pixels)).unwrap()
    };
    let (one, one_words) = text([1.0, 2.0, 3.0]);
    let (other, other_words) = text([0.0, 0.0, 255.0]);
    assert_eq!(one, other);
    assert_eq!((one_words.len(), other_words.len()), (12, 12));
    assert!(one.contains("a.k[5]") && one.contains("a.k[16]"), "{one}");
}

#[test]
fn what_runs_in_few_places_is_jumped_over() {
    let (text, _) = translated(FRAME, |e, pixels| {
        let zero = e.splat(0.0);
        let mask = e.less(pixels.channels()[0], zero);
        e.where_any(mask, pixels, |e, pixels| e.each(pixels, |e, _, v| e.sqrt(v)))
    })
    .unwrap();
    assert!(text.contains("goto block1;") && text.contains("block2:"), "{text}");
}
