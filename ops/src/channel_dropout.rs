//! Channel dropout: overwrites random channels.

use crate::author::{Emit, Eval, PixelOp, Pixels, Rng, Type};
use crate::fill_value::FillValue;
use crate::op::on_numbers;
use crate::op::{ImageType, Op, class};
use crate::registry::ParamLimits;
use crate::shape::MAX_CHANNELS;
use crate::{Size, TypeError};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Fills random channels of a share `p` of the images.
///
#[cfg_attr(doc, doc = include_str!("../pictures/ChannelDropout.md"))]
///
/// ```text
/// out[c] = fill     for the channels drawn
/// out[c] = in[c]    otherwise
/// ```
///
/// | | |
/// |--------|---------------------------------------------------------------------------------|
/// | input  | image of u8, u16, i16, f16, bf16 or f32 with 2 to 4095 channels |
/// | output | as the input                                                                    |
/// | random | a coin `p`, the number of channels, then for each channel whether it is dropped |
/// | cost   | two operations per value                                                        |
///
/// Albumentations' `ChannelDropout`, with its defaults: one channel of half of the images becomes 0. The number
/// of channels is uniform in `channel_drop_range`, and every set of so many channels is equally likely, as there;
/// but the draws are those of this crate's generator, from the sample, and not of Python's `random`.
/// An image of one channel is refused as there, and so is a range that contains all channels of the image.
///
/// `fill` is in the units of the values. For an image of an integer type it is truncated, and must be in the range
/// of the type: 0 to 255 for u8.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![ChannelDropout::new().channel_drop_range(1..=2)?.p(0.3)?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Copy, Debug, PartialEq)]
#[op(
    OVERWRITE,
    "fills random channels of a share p of the images",
    new = "Builds the op with Albumentations' defaults: it sets one channel of half of the images to 0."
)]
pub struct ChannelDropout {
    /// Sets the range of the number of channels that are dropped.
    #[param("range of the number of channels", given = RangeInclusive<u32>, default = 1..=1, draw = random_range(rng, before),
        limits = ParamLimits::new(1.0, u32::MAX as f64, "1 <= low <= high"),
        errors = "If the range is empty, or begins below 1. A list is refused if the range contains all channels of the image: one is always kept")]
    channel_drop_range: (u32, u32),
    /// Sets the value of dropped channels, in the units of the values. Default 0.
    #[param("their value, in units of the values", check = FillValue::new, default = 0.0, errors = "If the value is not finite",
        draw = recipe::fill(rng, before))]
    #[init(FillValue::ZERO)]
    fill: FillValue,
    #[param(share)]
    p: f64,
    /// Channels of the image.
    #[init(3)]
    channels: usize,
}

const NAME: &str = "ChannelDropout";

/// The most channels of an image: each needs a parameter.
const MOST: u16 = 4095;

fn random_range(rng: &mut Rng, before: &ImageType) -> RangeInclusive<u32> {
    let most = u32::from(before.channels).clamp(2, 14) - 1;
    let low = 1 + rng.below(most);
    low..=low + rng.below(most - low + 1)
}

#[class(Pixel)]
impl Op for ChannelDropout {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        self.fill.check(NAME, input)?;
        let refused = |expected| TypeError { op: NAME, expected, found: input.to_string() };
        match input {
            Type::Image(image) if !(2..=MOST).contains(&image.channels) => {
                Err(refused("an image of 2 to 4095 channels (leave it out for others)"))
            }
            Type::Image(image) if self.channel_drop_range.1 >= u32::from(image.channels) => {
                Err(refused("an image of more channels than channel_drop_range drops"))
            }
            _ => on_numbers(NAME, input, |image| image),
        }
    }

    fn does_nothing(&self, _: &Type) -> bool {
        self.p == 0.0
    }

    fn for_input(&self, input: &Type) -> Option<Arc<dyn Op>> {
        let Type::Image(image) = input else { return None };
        let channels = usize::from(image.channels);
        Some(Arc::new(Self { channels, fill: self.fill.stored_as(image.dtype), ..*self }))
    }
}

impl ChannelDropout {
    /// Returns true if the image's planes are processed one by one.
    const fn is_of_planes(&self) -> bool {
        self.channels > MAX_CHANNELS
    }
}

/// Parameters: for each channel, 1 if it is dropped, else 0. If planes are processed one by one, that of the current
/// plane comes before them.
impl PixelOp for ChannelDropout {
    fn param_count(&self) -> usize {
        self.channels + usize::from(self.is_of_planes())
    }

    fn param_names(&self) -> &'static [&'static str] {
        if self.is_of_planes() { &["-"] } else { &["drop 0:", "drop 1:", "drop 2:", "drop 3:"] }
    }

    fn channel_params(&self, channel: usize, params: &mut [f32]) {
        if self.is_of_planes() {
            params[0] = params[1 + channel];
        }
    }

    fn draw(&self, rng: &mut Rng, _: Size, params: &mut [f32]) -> bool {
        let runs = rng.coin(self.p);
        let mut to_drop = self.channel_drop_range.0
            + rng.below(self.channel_drop_range.1 - self.channel_drop_range.0 + 1);
        let params = &mut params[usize::from(self.is_of_planes())..];
        // Selection sampling: of the channels that are left, `to_drop` are dropped.
        for (left, drop) in (1..=params.len() as u32).rev().zip(params) {
            let is_dropped = rng.below(left) < to_drop;
            to_drop -= u32::from(is_dropped);
            *drop = if is_dropped && runs { 1.0 } else { 0.0 };
        }
        true
    }

    fn is_per_channel(&self) -> bool {
        !self.is_of_planes()
    }

    fn eval(&self, cx: &Eval<'_>, pixel: &mut [f32]) {
        let drops = &cx.params[usize::from(self.is_of_planes())..];
        for (v, drop) in pixel.iter_mut().zip(drops) {
            if 0.0 < *drop {
                *v = self.fill.number();
            }
        }
    }

    fn emit(&self, e: &mut Emit, pixels: Pixels) -> Pixels {
        let (zero, fill) = (e.splat(0.0), e.splat(self.fill.number()));
        e.each(pixels, |e, c, v| {
            let drop = e.param(if self.is_of_planes() { 0 } else { c });
            let is_dropped = e.less(zero, drop);
            e.select(is_dropped, fill, v)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;
    use crate::NumberRule;
    use crate::op::{Dim, ImageType, evaluated};
    use crate::rng::SampleKey;
    use std::collections::BTreeMap;

    fn image(channels: u16, dtype: DType) -> Type {
        let image = ImageType::decoded(Dim::fixed(2), Dim::fixed(3));
        Type::Image(ImageType { dtype, ..image.with_channels(channels) })
    }

    fn drawn(op: &ChannelDropout, sample: u64) -> Vec<f32> {
        let mut params = vec![9.0; op.param_count()];
        op.draw(&mut SampleKey::new(0, 0, sample).op(0), Size::new(1, 1), &mut params);
        params
    }

    #[test]
    fn dropped_channels_get_the_fill_and_others_keep_their_bits() {
        let op = ChannelDropout::new().fill(-7.5).unwrap();
        let nan = f32::from_bits(0x7fc0_0123);
        let cx = Eval::new(NumberRule::Exact, &[0.0, 1.0, 0.0]);
        let found = evaluated(&op, &cx, [nan, f32::NAN, -0.0]).map(f32::to_bits);
        assert_eq!(found, [nan, -7.5, -0.0].map(f32::to_bits));
    }

    #[test]
    fn every_set_of_channels_is_equally_likely() {
        for (channels, range, sets) in [(3, 1..=1, 3), (4, 2..=2, 6), (4, 1..=3, 14), (2, 1..=1, 2)]
        {
            let op = ChannelDropout::new().channel_drop_range(range).unwrap().p(1.0).unwrap();
            let op = ChannelDropout { channels, ..op };
            let mut seen: BTreeMap<String, u32> = BTreeMap::new();
            let mut by_number = [0; 4];
            for sample in 0..6000 {
                let params = drawn(&op, sample);
                by_number[params.iter().sum::<f32>() as usize] += 1;
                *seen.entry(format!("{params:?}")).or_default() += 1;
            }
            assert_eq!(seen.len(), sets);
            // Four channels have 4 sets of one, 6 sets of two and 4 sets of three.
            let even = match sets {
                14 => vec![500, 333],
                sets => vec![6000 / sets as u32],
            };
            for (set, n) in &seen {
                assert!(even.iter().any(|want| n.abs_diff(*want) < want / 5), "{set}: {n}");
            }
            let numbers: Vec<u32> = by_number.into_iter().filter(|n| *n > 0).collect();
            assert!(numbers.iter().all(|n| n.abs_diff(6000 / numbers.len() as u32) < 150));
        }
    }

    #[test]
    fn a_share_p_of_the_samples_loses_channels() {
        let op = ChannelDropout::new().p(0.3).unwrap();
        let changed = (0..2000).filter(|&sample| drawn(&op, sample) != [0.0; 3]).count();
        assert!((500..700).contains(&changed), "{changed}");
    }

    #[test]
    fn of_many_channels_each_plane_reads_its_own_draw() {
        let op = ChannelDropout::new().channel_drop_range(2..=2).unwrap().p(1.0).unwrap();
        let op = ChannelDropout { channels: 13, ..op };
        let mut params = drawn(&op, 5);
        assert_eq!((params.len(), params[1..].iter().sum::<f32>()), (14, 2.0));
        let whole = evaluated(&op, &Eval::new(NumberRule::Fused, &params), [3.0; 13]);
        for (channel, value) in whole.into_iter().enumerate() {
            op.channel_params(channel, &mut params);
            assert_eq!(params[0] == 1.0, value == 0.0, "channel {channel}");
        }
    }

    #[test]
    fn images_of_one_channel_and_of_too_few_are_refused() {
        let two = ChannelDropout::new().channel_drop_range(1..=2).unwrap();
        for (channels, one_is_taken, two_are_taken) in [
            (1, false, false),
            (2, true, false),
            (3, true, true),
            (4, true, true),
            (5, true, true),
            (4096, false, false),
        ] {
            let image = image(channels, DType::F32);
            assert_eq!(ChannelDropout::new().output(&image).is_ok(), one_is_taken, "{channels}");
            assert_eq!(two.output(&image).is_ok(), two_are_taken, "{channels}");
        }
        let filled = ChannelDropout::new().fill(300.0).unwrap();
        assert!(filled.output(&image(3, DType::U8)).is_err());
        assert!(filled.output(&image(3, DType::I16)).is_ok());
    }

    #[test]
    fn the_type_it_gets_decides_the_number_of_draws_and_the_fill() {
        let op = ChannelDropout::new().fill(1.75).unwrap();
        let on = op.for_input(&image(4, DType::U8)).unwrap();
        let want = ChannelDropout { channels: 4, fill: op.fill.stored_as(DType::U8), ..op };
        assert_eq!(format!("{on:?}"), format!("{want:?}"));
        assert_eq!(want.fill.number(), 1.0);
    }

    #[test]
    fn a_fill_that_is_not_finite_is_refused() {
        assert!(ChannelDropout::new().fill(f32::NAN).is_err());
    }
}
