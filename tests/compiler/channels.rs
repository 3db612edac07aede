//! Ops whose output has another number of channels than their input.

use crate::common::lists::{first_difference, noise, view};
use fuseloop::check_ops;
use fuseloop::internals::jit::{DecodedPixels, Kernel, Scratch, evaluate};
use fuseloop::internals::plan::{Draws, ImagePlan};
use fuseloop_ops::author::*;
use fuseloop_ops::internals::SampleKey;
use fuseloop_ops::*;

const SIZE: Size = Size::new(30, 44);

fn image(channels: u16, dtype: DType) -> ImageType {
    ImageType::array(SIZE, channels, dtype)
}

fn bytes(channels: u16) -> ImageType {
    image(channels, DType::U8)
}

fn select(channels: &[u16]) -> SelectChannels {
    SelectChannels::new(channels).unwrap()
}

fn gray() -> Grayscale {
    Grayscale::new()
}

fn three() -> Grayscale {
    gray().num_output_channels(3).unwrap()
}

/// An op in plain Rust.
fn inverted() -> Lambda {
    Lambda::new("Inverted", |_, pixels: &mut [u8]| pixels.iter_mut().for_each(|v| *v = !*v))
}

fn plan(ops: Ops, input: ImageType) -> Result<ImagePlan, fuseloop::Error> {
    ImagePlan::new(ops, input, NumberRule::Fused)
}

fn refused(ops: Ops, input: ImageType) -> String {
    plan(ops, input).unwrap_err().to_string()
}

/// The outputs of a list for some samples, compiled, which must be the evaluated ones.
fn outputs(ops: Ops, input: ImageType, samples: u64) -> Vec<Vec<u8>> {
    let kernel = Kernel::compile(plan(ops, input).unwrap()).unwrap();
    let (mut scratch, mut draws) = (Scratch::default(), Draws::default());
    let of_sample = |sample| {
        let pixels = noise(&mut SampleKey::new(7, 0, sample).op(0), SIZE, &input);
        let view = view(kernel.plan(), &pixels, SIZE);
        kernel.plan().draw(SampleKey::new(1, 2, sample), SIZE, &mut draws);
        let mut out = vec![0xAA; kernel.plan().sample_bytes()];
        kernel.run(&mut scratch, DecodedPixels::whole(view), &draws, &mut out);
        let want = evaluate(kernel.plan(), &view, &draws);
        let difference = first_difference(kernel.plan(), &out, &want);
        assert_eq!(difference, None, "{:?}", kernel.plan().ops());
        out
    };
    (0..samples).map(of_sample).collect()
}

#[test]
fn ops_of_every_class_follow_a_change_of_channels() {
    let crop = || RandomResizedCrop::new(24).unwrap();
    let equalize = || RandomEqualize::new(1.0).unwrap();
    let contrast = || RandomContrast::new(0.5).unwrap().p(1.0).unwrap();
    let colour = || ops![ColorJitter::new(0.4, 0.4, 0.4).unwrap(), three()];
    for list in [
        ops![gray()],
        ops![gray(), ToChannelsFirst],
        ops![gray(), Normalize::new([0.1307], [0.3081]).unwrap(), Convert::to(DType::F16)],
        ops![gray(), crop(), RandomHorizontalFlip::new(0.5).unwrap(), ToChannelsFirst],
        ops![crop(), gray(), GaussianBlur::new(5).unwrap(), contrast()],
        ops![contrast(), gray(), contrast(), three(), contrast()],
        ops![equalize(), gray(), equalize(), select(&[0, 0]), equalize()],
        ops![gray(), Gamma::new(2.2).unwrap(), RandomPosterize::new(4).unwrap(), equalize()],
        ops![gray(), Cutout::new(8).unwrap(), RandomErasing::new().p(1.0).unwrap()],
        ops![gray(), AugMix::new(), three()],
        ops![Pad::new(3).unwrap(), gray(), RandomTranslate::new(4).unwrap()],
        [colour(), ops![select(&[2, 2, 1, 0]), RandomRotation::new(20.0).unwrap()]].concat(),
        ops![select(&[1, 0]), crop(), select(&[0, 1, 1]), PermuteChannels::new([2, 1, 0]).unwrap()],
        ops![select(&[0]), Squeeze, three(), ToChannelsFirst],
        ops![gray(), inverted(), RandomChoice::new(vec![ops![inverted()]]).unwrap(), gray()],
    ] {
        check_ops(&list, SIZE, 6).unwrap_or_else(|error| panic!("{list:?}: {error}"));
    }
}

#[test]
fn every_number_of_channels_becomes_every_other_one() {
    for dtype in [DType::U8, DType::U16, DType::F32] {
        for from in [1, 2, 3, 4, 13] {
            for to in 1..=4 {
                let channels: Vec<u16> = (0..to).map(|c| (c * 7 + 2) % from).collect();
                let clip = || Clip::new(-20.0, 90.0).unwrap();
                let resize = || Resize::new((11, 26)).unwrap();
                let flip = || RandomHorizontalFlip::new(0.5).unwrap();
                for list in [
                    ops![select(&channels)],
                    ops![select(&channels), ToChannelsFirst],
                    ops![flip(), select(&channels), clip(), Convert::to(DType::F16)],
                    ops![resize(), select(&channels), clip(), ToChannelsFirst],
                    ops![clip(), select(&channels), resize()],
                    ops![resize(), clip(), resize(), select(&channels), resize(), clip()],
                ] {
                    outputs(list, image(from, dtype), 3);
                }
            }
        }
    }
}

/// Ops before a selection run for the channels that are selected, with the constants of these.
#[test]
fn a_selection_may_stand_before_or_after_the_ops_of_all_channels() {
    let mean: Vec<f64> = (0..13).map(|c| f64::from(c) * 10.0).collect();
    let std: Vec<f64> = (0..13).map(|c| f64::from(c) + 5.0).collect();
    let of = |numbers: &[f64], channels: &[u16]| -> Vec<f64> {
        channels.iter().map(|c| numbers[usize::from(*c)]).collect()
    };
    let moves = || ops![RandomCrop::new((20, 24)).unwrap(), RandomVerticalFlip::new(0.5).unwrap()];
    for channels in [&[3, 2, 1][..], &[12], &[5, 5], &[0, 4, 8, 12], &[7, 6, 5, 4, 3, 12, 12]] {
        for layout in [Layout::ChannelsLast, Layout::ChannelsFirst] {
            for dtype in [DType::U8, DType::I16, DType::F32] {
                let input = ImageType { layout, is_levels: false, ..image(13, dtype) };
                let run = |list: Ops| outputs(list, input, 4);
                let all = || Normalize::values(&mean, &std).unwrap();
                let own = Normalize::values(of(&mean, channels), of(&std, channels)).unwrap();
                let pick = || ops![select(channels)];
                let after = run([moves(), ops![all()], pick(), ops![ToChannelsFirst]].concat());
                let before = run([pick(), moves(), ops![own, ToChannelsFirst]].concat());
                assert!(after == before, "{channels:?} of {input:?}");
                let between = run([moves(), pick()].concat());
                assert!(between == run([pick(), moves()].concat()), "{channels:?} of {input:?}");
                // A selection of a selection.
                let twice = ops![select(&[9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 10, 11, 12]), all()];
                let again: Vec<u16> =
                    channels.iter().map(|c| if *c < 10 { 9 - c } else { *c }).collect();
                let twice = [twice, ops![select(&again)]].concat();
                let once = ops![
                    select(channels),
                    Normalize::values(of(&mean, &again), of(&std, &again)).unwrap()
                ];
                assert!(run(twice) == run(once), "{channels:?} of {input:?}");
            }
        }
    }
}

#[test]
fn dropped_channels_are_those_of_the_image_before_the_selection() {
    let dropout = || ChannelDropout::new().channel_drop_range(5..=8).unwrap().p(1.0).unwrap();
    let input = bytes(13);
    for channels in [&[3, 2, 1][..], &[12], &[0, 1, 2, 3, 4, 5, 6, 7]] {
        let all = outputs(ops![dropout()], input, 8);
        let some = outputs(ops![dropout(), select(channels)], input, 8);
        for (all, some) in all.iter().zip(&some) {
            let pixels = all.chunks_exact(13).zip(some.chunks_exact(channels.len()));
            for (pixel, selected) in pixels {
                assert!(channels.iter().map(|c| &pixel[usize::from(*c)]).eq(selected));
            }
        }
    }
}

#[test]
fn colour_ops_take_bands_that_were_selected() {
    let colour = || ColorJitter::new(0.4, 0.4, 0.4).unwrap().hue(0.1).unwrap();
    let list = || ops![Levels::of(0.0, 200.0).unwrap(), colour(), Normalize::imagenet()];
    let rgb = || ops![select(&[3, 2, 1])];
    let gain = || ops![Gain::new(-6.0, 6.0).unwrap()];
    let resize = || ops![Resize::new((16, 20)).unwrap()];
    for (list, blocks) in [
        ([rgb(), list()].concat(), ["the 3 selected channels together", "in registers"]),
        ([resize(), rgb(), list()].concat(), ["the 3 selected channels together", "rows made"]),
        ([gain(), rgb(), list()].concat(), ["once for each of the 3 planes", "the 3 selected"]),
        ([gain(), resize(), rgb(), list()].concat(), ["rows made", "the 3 selected"]),
    ] {
        let list = [list, ops![ToChannelsFirst]].concat();
        for dtype in [DType::I16, DType::F32] {
            outputs(list.clone(), image(13, dtype), 4);
        }
        let text = plan(list, image(13, DType::F32)).unwrap().explain();
        assert!(blocks.iter().all(|words| text.contains(words)), "{text}");
    }
    let error = refused(ops![GaussianNoise::new()], bytes(13));
    assert!(
        error.ends_with("this image has 13: put SelectChannels before it to take up to 4 of them")
    );
}

#[test]
fn a_window_of_selected_bands_is_all_that_is_read() {
    let list = ops![CenterCrop::new(8).unwrap(), select(&[1, 0])];
    let plan = plan(list, image(13, DType::U16)).unwrap();
    let mut draws = Draws::default();
    plan.draw(SampleKey::new(0, 0, 0), SIZE, &mut draws);
    let window = plan.needed_window(&draws);
    assert_eq!((window.height, window.width), (8, 8));
    assert_eq!((plan.blocks().len(), plan.sample_bytes()), (1, 256));
}

#[test]
fn a_draw_can_not_decide_the_number_of_channels() {
    let error = refused(ops![RandomApply::new(ops![gray()])], bytes(3));
    assert!(error.starts_with("op 0 of the list: RandomApply produces a u8 image"), "{error}");
    assert!(error.ends_with("depending on its draw; both must be equal"), "{error}");
    let choice = RandomChoice::new(vec![ops![gray()], ops![select(&[1])]]).unwrap();
    assert_eq!(
        refused(ops![choice], bytes(3)),
        "op 0 of the list: Grayscale takes an image outside of containers, since it changes the number of \
         channels, but gets a u8 image [30, 44, 3]"
    );
    // Equal numbers of channels are no problem.
    let bgr = || ops![select(&[2, 1, 0])];
    outputs(ops![RandomApply::new(bgr())], bytes(3), 8);
    let turned: Vec<u16> = (0..13).map(|c| (c + 5) % 13).collect();
    let apply = || RandomApply::new(ops![select(&turned), Gain::new(-6.0, 6.0).unwrap()]);
    outputs(ops![apply(), select(&[3, 2, 1])], image(13, DType::F32), 16);
    outputs(ops![apply(), apply()], image(13, DType::F32), 16);
}

#[test]
fn refused_numbers_of_channels_are_named() {
    assert_eq!(
        refused(ops![select(&[0, 7])], bytes(4)),
        "op 0 of the list: SelectChannels takes indices of the channels of its image, but gets index 7 for a u8 image \
         [30, 44, 4], whose 4 channel(s) are 0..=3"
    );
    assert_eq!(
        refused(ops![select(&[0, 1, 2, 2, 1])], bytes(3)),
        "op 0 of the list (SelectChannels): it makes an image of 5 channel(s) of one of 3: an image of up to 4 channels \
         can't get more than 4"
    );
    let device = || ToDevice::new("cuda:0").unwrap();
    assert_eq!(
        refused(ops![device(), gray(), Normalize::values([0.5], [7.0]).unwrap()], bytes(3)),
        "op 1 of the list: Grayscale takes an image before ToDevice, since it changes the number of channels, but \
         gets a u8 image [30, 44, 3]"
    );
    let gray_first = refused(ops![gray(), device(), RandomInvert::new(0.5).unwrap()], bytes(3));
    assert!(gray_first.contains("a device takes no other"), "{gray_first}");
}

/// The ops before `ToDevice` run on the host.
#[test]
fn a_device_gets_three_channels_that_were_selected() {
    let after = || ops![ToDevice::new("cuda:0").unwrap(), Normalize::imagenet(), ToChannelsFirst];
    for (list, input) in [
        (ops![select(&[0, 1, 2])], bytes(4)),
        (ops![CenterCrop::new(16).unwrap(), select(&[3, 2, 1])], bytes(13)),
        (ops![three()], bytes(1)),
        (ops![gray(), three()], bytes(3)),
    ] {
        let list = [list, after()].concat();
        let plan = ImagePlan::on_device(list.clone(), input, NumberRule::Fused).unwrap();
        let staged = plan.staged().unwrap();
        assert_eq!((staged.channels, plan.host_bytes()), (3, plan.sample_bytes() / 4));
        outputs(list, input, 3);
    }
}

/// Two channels: a weighted sum and the pixel's column, plus a drawn number.
#[derive(Debug)]
struct Mixed {
    channels: u16,
    may_skip: bool,
    selected: Option<Vec<u16>>,
}

impl Mixed {
    fn of(channels: u16) -> Self {
        Self { channels, may_skip: false, selected: None }
    }
}

impl Op for Mixed {
    fn name(&self) -> &'static str {
        "Mixed"
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        let Type::Image(image) = input else { panic!("an image") };
        Ok(Type::Image(image.with_channels(self.channels)))
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Pixel(self)
    }
}

impl PixelOp for Mixed {
    fn param_count(&self) -> usize {
        1
    }

    fn draw(&self, rng: &mut Rng, _: Size, params: &mut [f32]) -> bool {
        params[0] = rng.uniform(0.0, 50.0);
        true
    }

    fn may_skip(&self) -> bool {
        self.may_skip
    }

    fn selected_channels(&self) -> Option<&[u16]> {
        self.selected.as_deref()
    }

    fn uses_position(&self) -> bool {
        true
    }

    fn eval(&self, cx: &Eval<'_>, pixel: &mut [f32]) {
        let sum = pixel[0].mul_add(0.25, pixel[1]);
        let column = cx.at[1] as f32 + cx.params[0];
        (pixel[0], pixel[1]) =
            (apply_rule(cx.rule, clamp(sum)), apply_rule(cx.rule, clamp(column)));
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        let quarter = e.splat(0.25);
        let sum = e.fma(pixels.channels()[0], quarter, pixels.channels()[1]);
        let [_, column] = e.position();
        let (column, drawn) = (e.to_f32(column), e.param(0));
        let column = e.add(column, drawn);
        let both = [sum, column].map(|v| {
            let v = e.clamp(v);
            e.apply_rule(v)
        });
        Pixels::from(both)
    }
}

#[test]
fn an_op_of_a_user_may_change_the_number_of_channels() {
    let mixed = || Mixed::of(2);
    let crop = || RandomCrop::new((20, 24)).unwrap();
    let flip = || RandomHorizontalFlip::new(0.5).unwrap();
    let lists = [
        ops![mixed()],
        ops![flip(), crop(), mixed(), flip(), ToChannelsFirst],
        ops![mixed(), Resize::new((25, 32)).unwrap(), crop(), select(&[1, 0, 1]), three()],
    ];
    for list in &lists {
        for channels in [2, 3, 4] {
            check_ops(list, bytes(channels), 6).unwrap();
        }
    }
    check_ops(&ops![mixed(), flip(), mixed(), select(&[1, 0, 1]), gray()], SIZE, 6).unwrap();
    let error = refused(ops![Mixed::of(3)], bytes(3));
    assert_eq!(
        error,
        "op 0 of the list (Mixed): its `emit` returns 2 channel(s), but its output has 3"
    );
    let error = refused(ops![Mixed { may_skip: true, ..mixed() }], bytes(3));
    assert!(error.ends_with("an op that a draw may skip keeps the number of channels"), "{error}");
    for (selected, input) in
        [(vec![0, 13], bytes(13)), (vec![0; 3], bytes(13)), (vec![3, 0], bytes(3))]
    {
        let op = Mixed { selected: Some(selected), ..mixed() };
        let error = refused(ops![op], input);
        assert!(error.contains("its `selected_channels` returns "), "{error}");
    }
    let error = refused(ops![mixed()], bytes(13));
    let want = "of more than 4 channels, SelectChannels takes some, and other ops keep all";
    assert!(error.ends_with(want), "{error}");
}

/// A crop that says that it makes one channel of three.
#[derive(Debug)]
struct Liar;

impl Op for Liar {
    fn name(&self) -> &'static str {
        "Liar"
    }

    fn output(&self, _: &Type) -> Result<Type, TypeError> {
        Ok(Type::Image(bytes(1)))
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Geometry(self)
    }
}

impl GeometryOp for Liar {
    fn draw(&self, _: &mut Rng, _: Size, out: &mut Vec<GeometryStep>) {
        out.push(GeometryStep::FlipHorizontal);
    }
}

#[test]
fn only_pixel_ops_change_the_number_of_channels() {
    assert_eq!(
        refused(ops![Liar], bytes(3)),
        "op 0 of the list (Liar): it makes an image of 1 channel(s) of one of 3: only pixel ops change the number of \
         channels"
    );
}

/// A statistic of all values counts those of the channels before its op, not those that are loaded.
#[test]
fn statistics_are_of_the_channels_that_are_left() {
    let signal = || ScaleIntensityRange::new(0.0..=255.0, -1.0..=1.0).unwrap();
    let noise = || AddGaussianSNR::new().p(1.0).unwrap();
    for list in [
        ops![Grayscale::new(), signal(), noise()],
        ops![SelectChannels::new([2, 0]).unwrap(), signal(), noise()],
        ops![Grayscale::new(), Grayscale::new().num_output_channels(3).unwrap(), signal(), noise()],
    ] {
        check_ops(&list, Size::new(30, 40), 10).unwrap();
    }
}
