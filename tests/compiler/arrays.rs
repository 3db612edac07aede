//! Ops on arrays that are no photographs: any numbers, and the masks of spectrograms.

use crate::common::random_ops::{Function, Maths};
use fuseloop::internals::jit::{DecodedPixels, Kernel, Scratch, evaluate};
use fuseloop::internals::plan::{Draws, ImagePlan};
use fuseloop_ops::author::{ImageType, Layout};
use fuseloop_ops::internals::{ElementValue, ImageView, PixelFormat, SampleKey};
use fuseloop_ops::*;

/// The values are infinities, NaN and numbers of any size.
#[test]
fn values_that_are_no_numbers_have_the_same_bits_compiled_and_evaluated() {
    let signal = || ScaleIntensityRange::new(0.0..=255.0, -1.0..=1.0).unwrap();
    let window = || ScaleIntensityRange::new(-57.3..=164.9, 0.0..=1.0).unwrap().clip(true);
    for function in Function::ALL {
        let odd = || Maths { function, of_bits: true };
        for list in [
            ops![signal(), odd(), Clip::new(-1.5, 2.5).unwrap()],
            ops![signal(), odd(), Clip::new(f64::NEG_INFINITY, 0.0).unwrap()],
            ops![signal(), odd(), signal()],
            ops![signal(), odd(), window()],
            ops![signal(), odd(), ChannelDropout::new().fill(-1.0).unwrap()],
            ops![signal(), odd(), Gain::new(-12.0, 12.0).unwrap(), PolarityInversion::new()],
        ] {
            fuseloop::check_ops(&list, Size::new(30, 40), 10).unwrap();
        }
    }
}

/// The largest number of channels, in both layouts.
#[test]
fn an_image_may_have_65535_channels() {
    let (size, channels) = (Size::new(3, 9), u16::MAX);
    let list = || {
        ops![
            RandomHorizontalFlip::new(0.5).unwrap(),
            RandomCrop::new((2, 8)).unwrap(),
            Normalize::values([100.0], [50.0]).unwrap(),
        ]
    };
    for layout in [Layout::ChannelsLast, Layout::ChannelsFirst] {
        let input = ImageType { layout, ..ImageType::array(size, channels, DType::U8) };
        let plan = ImagePlan::new(list(), input, NumberRule::Fused).unwrap();
        let kernel = Kernel::compile(plan).unwrap();
        let pixels: Vec<u8> = (0..27 * 65_535u32).map(|i| (i * 7 % 251) as u8).collect();
        let format = PixelFormat { channels: channels.into(), dtype: DType::U8 };
        let view = match layout {
            Layout::ChannelsFirst => ImageView::planes(&pixels, size, format),
            _ => ImageView::packed_format(&pixels, size, format),
        };
        let view = view.unwrap();
        let mut draws = Draws::default();
        kernel.plan().draw(SampleKey::new(1, 2, 3), size, &mut draws);
        let mut out = vec![0; kernel.plan().sample_bytes()];
        let source = DecodedPixels::whole(view);
        kernel.run(&mut Scratch::default(), source, &draws, &mut out);
        assert!(out == evaluate(kernel.plan(), &view, &draws), "{layout:?}");
    }
}

#[test]
fn several_masks_of_a_spectrogram_draw_for_themselves() {
    let frequencies = || FrequencyMasking::new(27).unwrap().fill(-80.0).unwrap();
    let times = || TimeMasking::new(40).unwrap().p(0.3).unwrap().fill(-80.0).unwrap();
    let list = ops![
        ScaleIntensityRange::new(0.0..=255.0, -60.0..=20.0).unwrap(),
        frequencies(),
        frequencies(),
        times(),
        times(),
    ];
    let size = Size::new(80, 200);
    fuseloop::check_ops(&list, size, 50).unwrap();
    let plan = ImagePlan::new(list, ImageType::from(size), NumberRule::Fused).unwrap();
    let mut draws = Draws::default();
    plan.draw(SampleKey::new(1, 2, 3), size, &mut draws);
    let windows: Vec<_> = draws.windows.iter().map(|(_, window)| *window).collect();
    assert_eq!(windows.len(), 4);
    assert!(windows[0] != windows[1] && windows[2] != windows[3], "{windows:?}");
}

/// Rows of every number of columns, in order and mirrored: of one channel, pairs of groups and what is left.
#[test]
fn rows_of_any_width_have_the_same_bits_compiled_and_evaluated() {
    let values = || Normalize::values([100.0], [50.0]).unwrap();
    let flip = || RandomHorizontalFlip::new(0.5).unwrap();
    let contrast = || RandomContrast::new(0.4).unwrap().p(1.0).unwrap();
    let (u8_list, any_list) = (|| ops![flip(), contrast()], || ops![flip(), values()]);
    let lists: [(DType, &dyn Fn() -> Ops); 5] = [
        (DType::U8, &u8_list),
        (DType::U8, &any_list),
        (DType::U16, &any_list),
        (DType::I16, &any_list),
        (DType::F32, &any_list),
    ];
    for (dtype, list) in lists {
        for channels in [1, 3] {
            for width in 8..=41 {
                let size = Size::new(2, width);
                let input = ImageType::array(size, channels, dtype);
                let plan = ImagePlan::new(list(), input, NumberRule::Fused).unwrap();
                let kernel = Kernel::compile(plan).unwrap();
                let format = PixelFormat { channels: channels.into(), dtype };
                let elements = size.pixels() as usize * usize::from(channels);
                let element = |i| ElementValue::from((i * 7 % 251) as f32).converted(dtype);
                let pixels: Vec<u8> = (0..elements).flat_map(|i| element(i).bytes()).collect();
                let view = ImageView::packed_format(&pixels, size, format).unwrap();
                let mut out = vec![0; kernel.plan().sample_bytes()];
                for sample in 0..6 {
                    let mut draws = Draws::default();
                    kernel.plan().draw(SampleKey::new(1, 2, sample), size, &mut draws);
                    let source = DecodedPixels::whole(view);
                    kernel.run(&mut Scratch::default(), source, &draws, &mut out);
                    let expected = evaluate(kernel.plan(), &view, &draws);
                    assert!(out == expected, "{dtype}, {channels} channels, {width} columns");
                }
            }
        }
    }
}
