//! Selected channels, against NumPy's indexing. `tests/golden/ops/channels.py` writes the goldens.

use super::support::{cases, sha256};
use fuseloop::internals::jit::{DecodedPixels, Kernel, Scratch, evaluate};
use fuseloop::internals::plan::{Draws, ImagePlan};
use fuseloop_ops::author::{ImageType, Layout};
use fuseloop_ops::internals::{ElementValue, ImageView, PixelFormat, SampleKey};
use fuseloop_ops::*;

const SIZE: Size = Size::new(9, 21);

/// Element number `k` of an image, as the script's `image` has it.
fn element(dtype: DType, k: usize) -> Vec<u8> {
    let value = match dtype {
        DType::U8 => (k * 7 % 251) as f32,
        DType::U16 => (k * 701 % 65521) as f32,
        _ => ((k * 7 % 251) as f32 - 100.0) / 4.0,
    };
    ElementValue::from(value).converted(dtype).bytes().collect()
}

/// The output of a list for the image, compiled, which must be the evaluated one.
fn run(ops: Ops, input: ImageType) -> Vec<u8> {
    let plan = ImagePlan::new(ops, input, NumberRule::Fused).unwrap();
    let kernel = Kernel::compile(plan).unwrap();
    let mut draws = Draws::default();
    kernel.plan().draw(SampleKey::new(0, 0, 0), SIZE, &mut draws);
    let channels = usize::from(input.channels);
    let pixels = SIZE.pixels() as usize;
    let is_planar = input.layout == Layout::ChannelsFirst;
    let at = |k: usize| if is_planar { k % pixels * channels + k / pixels } else { k };
    let bytes: Vec<u8> = (0..pixels * channels).flat_map(|k| element(input.dtype, at(k))).collect();
    let format = PixelFormat { channels, dtype: input.dtype };
    let view = match is_planar {
        true => ImageView::planes(&bytes, SIZE, format),
        false => ImageView::packed_format(&bytes, SIZE, format),
    };
    let view = view.unwrap();
    let mut out = vec![0xAA; kernel.plan().sample_bytes()];
    kernel.run(&mut Scratch::default(), DecodedPixels::whole(view), &draws, &mut out);
    assert!(out == evaluate(kernel.plan(), &view, &draws), "{:?}", kernel.plan().ops());
    out
}

#[test]
fn selected_channels_are_numpys() {
    let all = cases("channels.json");
    assert_eq!(all.len(), 63);
    for case in all {
        let dtype = [DType::U8, DType::U16, DType::F32];
        let dtype = dtype.into_iter().find(|dtype| dtype.to_string() == case["dtype"]).unwrap();
        let of = case["of"].as_u64().unwrap() as u16;
        let channels = case["channels"].as_array().unwrap().iter();
        let channels: Vec<u16> = channels.map(|c| c.as_u64().unwrap() as u16).collect();
        let select = || SelectChannels::new(&channels).unwrap();
        let input = ImageType::array(SIZE, of, dtype);
        let planar = ImageType { layout: Layout::ChannelsFirst, ..input };
        let of_planes = (of > 4).then_some(planar);
        for input in [Some(input), of_planes].into_iter().flatten() {
            let out = run(ops![select(), ToChannelsLast], input);
            assert_eq!(sha256(&out), case["sha256"], "{case}");
            let out = run(ops![select(), ToChannelsFirst, ToChannelsLast], input);
            assert_eq!(sha256(&out), case["sha256"], "{case}");
            // The planes run through a loop of their own before the selection.
            let factor =
                || ops![Gain::new(0.0, 0.0).unwrap().p(1.0).unwrap(), select(), ToChannelsLast];
            if dtype == DType::F32 {
                assert_eq!(sha256(&run(factor(), input)), case["sha256"], "{case}");
            }
        }
    }
}
