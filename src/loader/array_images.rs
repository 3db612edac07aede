//! Arrays as images: which axes of an array are rows, columns and channels.
//!
//! | axes of a sample | ops see |
//! |---|---|
//! | `[T]` | a signal: an image of one row and one channel |
//! | `[H, W]` | an image of one channel |
//! | `[H, W, C]` | an image of C channels, channels last |
//! | `[..., H, W]` | an image whose channels are the pictures of all axes before H and W, channels first |
//!
//! The axes of an array of three or more are only guessed where there is little doubt: [`guessed`].

use crate::decode::AudioOptions;
use crate::error::{Error, fail};
use crate::plan::SampleAxes;
use crate::source::FieldKind;
use fuseloop_ops::DType;
use fuseloop_ops::author::{Dim, ImageType, Layout};
use fuseloop_ops::internals::{MAX_CHANNELS, is_loaded};

/// The user's declarations about a field of arrays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct ArrayRequest {
    /// The names of the axes, such as `"HWC"`.
    pub(super) axes: Option<String>,
    /// The type and the shape that bytes are read as. The axis of length -1 differs from sample to sample.
    pub(super) elements: Option<(DType, Vec<i64>)>,
    /// The signals of the audio files that bytes hold. `elements` is then their type and their shape.
    pub(super) audio: Option<AudioOptions>,
}

/// The images that arrays are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ArrayImages {
    pub(super) input: ImageType,
    pub(super) axes: SampleAxes,
}

impl ArrayRequest {
    /// The declaration of audio files.
    pub(super) fn of_audio(audio: AudioOptions) -> Self {
        let shape = match audio.num_channels {
            1 => vec![-1],
            channels => vec![channels.into(), -1],
        };
        Self { axes: None, elements: Some((DType::F32, shape)), audio: Some(audio) }
    }

    /// Checks that the field has arrays, or bytes that are declared to be arrays.
    pub(super) fn check(&self, kind: &FieldKind) -> Result<(), Error> {
        let is_array = matches!(kind, FieldKind::NdArray { .. } | FieldKind::TorchTensor { .. });
        #[cfg(not(feature = "audio"))]
        if self.audio.is_some() {
            return Err(crate::decode::no_audio());
        }
        if let Some(audio) = self.audio
            && (audio.sample_rate == 0 || !(1..=MOST_AUDIO_CHANNELS).contains(&audio.num_channels))
        {
            let AudioOptions { sample_rate, num_channels, .. } = audio;
            return Err(fail!(
                Parameter,
                "audio of {num_channels} channels and {sample_rate} samples a second: expected 1 to \
                 {MOST_AUDIO_CHANNELS} channels, and a sample rate over 0"
            ));
        }
        if self.elements.is_some() && *kind != FieldKind::Bytes {
            let what = if self.audio.is_some() { "audio" } else { "arrays" };
            return Err(fail!(
                Pipeline,
                "only bytes can be declared to be {what}; this is {kind}, whose type is known",
                kind = kind.word()
            ));
        }
        if self.axes.is_some() && self.elements.is_none() && !is_array {
            return Err(fail!(
                Pipeline,
                "only arrays have axes; this is {kind}",
                kind = kind.word()
            ));
        }
        Ok(())
    }

    /// Returns the images that the arrays of a field are, whose elements and shape are `dtype` and `shape`.
    pub(super) fn of_shape(&self, dtype: DType, shape: &[usize]) -> Result<ArrayImages, Error> {
        let lengths: Vec<i64> =
            shape.iter().map(|&n| i64::try_from(n).unwrap_or(i64::MAX)).collect();
        images(dtype, &lengths, self.axes.as_deref(), 1)
    }

    /// Returns the images that the bytes of a field are, of which a sample has `longest` at most. Returns `None`
    /// if the bytes were not declared to be arrays.
    pub(super) fn of_bytes(&self, longest: Option<u64>) -> Option<Result<ArrayImages, Error>> {
        let (dtype, shape) = self.elements.clone()?;
        let known = shape.iter().filter(|n| **n > 0).map(|&n| n as u64);
        let unit = known.fold(dtype.bytes() as u64, u64::saturating_mul);
        let longest = longest.filter(|_| self.audio.is_none());
        let longest = longest.map_or(MOST_LENGTH, |bytes| bytes / unit).clamp(1, MOST_LENGTH);
        Some(images(dtype, &shape, self.axes.as_deref(), longest as u32))
    }
}

/// The limit on a length. Columns and sums of their levels fit in `i32`.
const MOST_LENGTH: u64 = 1 << 26;

/// The limit on the channels of audio: those of an Ogg Vorbis file.
const MOST_AUDIO_CHANNELS: u16 = 255;

/// Returns the images that arrays of `lengths` are; `longest` is the most that a length of -1 stands for.
fn images(
    dtype: DType,
    lengths: &[i64],
    axes: Option<&str>,
    longest: u32,
) -> Result<ArrayImages, Error> {
    if !is_loaded(dtype) {
        return Err(fail!(
            Pipeline,
            "compiled ops read u8, u16, i16, f16, bf16 and f32, but the array has {dtype}: read it with `Collate::of`"
        ));
    }
    let length = |&length: &i64| match length {
        -1 => Some(Dim { min: 1, max: longest }),
        1.. => u32::try_from(length).ok().filter(|n| u64::from(*n) <= MOST_LENGTH).map(Dim::fixed),
        _ => None,
    };
    let shape: Option<Vec<Dim>> = lengths.iter().map(length).collect();
    let varying = lengths.iter().filter(|n| **n == -1).count();
    let Some(shape) = shape.filter(|_| varying <= 1) else {
        return Err(bad_lengths(lengths));
    };
    let is_channels_last = match axes {
        Some(axes) => declared(axes, shape.len())?,
        None => guessed(&shape)?,
    };
    let (before, height, width, layout, sample_axes) = match shape[..] {
        [width] => (&shape[..0], Dim::fixed(1), width, Layout::Plane, SampleAxes::Signal),
        [height, width] => (&shape[..0], height, width, Layout::Plane, SampleAxes::Image),
        [height, width, _] if is_channels_last => {
            (&shape[2..], height, width, Layout::ChannelsLast, SampleAxes::Image)
        }
        [ref before @ .., height, width] => {
            let leading = before.iter().map(|side| side.max as usize).collect();
            let axes =
                if before.len() == 1 { SampleAxes::Image } else { SampleAxes::Stacked(leading) };
            (before, height, width, Layout::ChannelsFirst, axes)
        }
        [] => return Err(bad_lengths(lengths)),
    };
    if before.iter().any(|side| side.min != side.max) {
        return Err(fail!(
            Pipeline,
            "an array of shape {lengths:?}: only the number of rows or columns may differ from sample to sample"
        ));
    }
    let found = before.iter().fold(1, |product: u64, side| product.saturating_mul(side.max.into()));
    let channels = u16::try_from(found)
        .map_err(|_| fail!(Pipeline, "{found} pictures in a sample; the limit is {}", u16::MAX))?;
    let image = ImageType::decoded(height, width).with_channels(channels);
    let input = ImageType { dtype, layout, is_levels: dtype == DType::U8, ..image };
    Ok(ArrayImages { input, axes: sample_axes })
}

fn bad_lengths(lengths: &[i64]) -> Error {
    fail!(
        Pipeline,
        "an array of shape {lengths:?}: expected lengths of 1 to 2^26, and at most one -1, for the axis whose length differs from sample to sample"
    )
}

/// Returns the error of axes that can't be guessed. `example` is axes of as many letters.
pub(super) fn unclear_axes(lengths: &[u32], example: &str) -> Error {
    fail!(
        Pipeline,
        "it is not clear which axes of {lengths:?} are rows, columns and channels: declare them with `axes`, for example \"{example}\""
    )
}

/// Returns whether the letters of `count` axes say that the channels are last. Letters before `HW` may be any.
fn declared(axes: &str, count: usize) -> Result<bool, Error> {
    let is_plain = axes.bytes().all(|letter| letter.is_ascii_uppercase());
    let before = axes.strip_suffix("HW").or((axes == "HWC").then_some(""));
    let is_signal = axes == "T" || axes == "W";
    if !is_plain || (!is_signal && before.is_none_or(|letters| letters.contains(['H', 'W']))) {
        return Err(fail!(
            Pipeline,
            "axes {axes:?}: expected one letter for each axis, ending with \"HW\" (rows, columns), or \"HWC\" (and channels)"
        ));
    }
    if axes.len() != count {
        return Err(fail!(
            Pipeline,
            "axes {axes:?} are {} axes, but a sample has {count}",
            axes.len()
        ));
    }
    Ok(axes == "HWC")
}

/// Returns whether the channels of an array are probably in the last axis, and not before rows and columns. In an
/// array of three axes, at most 4 elements in the last one are channels, and so is the first or last axis that is at
/// most half as long as both others. Longer arrays end with rows and columns.
fn guessed(shape: &[Dim]) -> Result<bool, Error> {
    let lengths: Vec<u32> = shape.iter().map(|side| side.max).collect();
    let is_short = |channels: u32, others: [u32; 2]| others.iter().all(|&n| channels <= n / 2);
    match lengths[..] {
        [] | [_] | [_, _] => Ok(false),
        [_, _, last] if last as usize <= MAX_CHANNELS => Ok(true),
        [first, height, width] if is_short(first, [height, width]) => Ok(false),
        [height, width, last] if is_short(last, [height, width]) => Ok(true),
        [_, _, _] => Err(unclear_axes(&lengths, "HWC")),
        [.., last] if last as usize > MAX_CHANNELS => Ok(false),
        _ => Err(unclear_axes(&lengths, "DCHW")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(shape: &[i64], axes: Option<&str>) -> Result<ArrayImages, String> {
        images(DType::F32, shape, axes, 500).map_err(|error| error.to_string())
    }

    /// Returns height, width, channels and layout.
    fn sides(shape: &[i64], axes: Option<&str>) -> Result<(u32, u32, u16, Layout), String> {
        of(shape, axes).map(|ArrayImages { input, .. }| {
            (input.height.max, input.width.max, input.channels, input.layout)
        })
    }

    #[test]
    fn axes_are_guessed_where_they_are_clear() {
        use Layout::{ChannelsFirst, ChannelsLast, Plane};
        for (shape, want) in [
            (&[16_000][..], (1, 16_000, 1, Plane)),
            (&[80, 3], (80, 3, 1, Plane)),
            (&[3, 3, 3], (3, 3, 3, ChannelsLast)),
            (&[13, 64, 64], (64, 64, 13, ChannelsFirst)),
            (&[64, 64, 13], (64, 64, 13, ChannelsLast)),
            (&[3, 224, 224], (224, 224, 3, ChannelsFirst)),
            (&[8, 3, 224, 224], (224, 224, 24, ChannelsFirst)),
            (&[2, 3, 4, 50, 60], (50, 60, 24, ChannelsFirst)),
        ] {
            assert_eq!(sides(shape, None), Ok(want), "{shape:?}");
        }
        // Indian Pines, a hyperspectral image; a volume of thick slices; frames with channels last.
        for (shape, example) in
            [(&[145, 145, 200][..], "HWC"), (&[300, 128, 128], "HWC"), (&[8, 64, 64, 3], "DCHW")]
        {
            let error = sides(shape, None).unwrap_err();
            let want = format!(
                "it is not clear which axes of {shape:?} are rows, columns and channels: declare them with \
                 `axes`, for example \"{example}\""
            );
            assert_eq!(error, want);
        }
    }

    #[test]
    fn axes_are_declared_by_letters() {
        use Layout::{ChannelsFirst, ChannelsLast, Plane};
        for (shape, axes, want) in [
            (&[145, 145, 200][..], "HWC", (145, 145, 200, ChannelsLast)),
            (&[300, 128, 128], "DHW", (128, 128, 300, ChannelsFirst)),
            (&[2, 30, 40, 3], "TCHW", (40, 3, 60, ChannelsFirst)),
            (&[9], "T", (1, 9, 1, Plane)),
            (&[9, 4], "HW", (9, 4, 1, Plane)),
        ] {
            assert_eq!(sides(shape, Some(axes)), Ok(want), "{shape:?} {axes}");
        }
        for axes in ["", "HCW", "hwc", "HWD", "CHWC", "HHW", "WHW", "CWH", "D", "é"] {
            let error = sides(&[9, 9, 9], Some(axes)).unwrap_err();
            assert!(error.contains("expected one letter for each axis"), "{axes}: {error}");
        }
        let error = sides(&[9, 9, 9], Some("HW")).unwrap_err();
        assert_eq!(error, "axes \"HW\" are 2 axes, but a sample has 3");
    }

    #[test]
    fn one_axis_may_differ_from_sample_to_sample() {
        let varying = Dim { min: 1, max: 500 };
        let points = of(&[-1, 3], None).unwrap();
        assert_eq!((points.input.height, points.input.width), (varying, Dim::fixed(3)));
        let wave = of(&[-1], None).unwrap();
        assert_eq!((wave.input.width, wave.axes), (varying, SampleAxes::Signal));
        let frames = of(&[5, 2, 80, -1], None).unwrap();
        assert_eq!(frames.axes, SampleAxes::Stacked(vec![5, 2]));
        for shape in [&[-1, -1][..], &[0, 3], &[-2], &[], &[(1 << 26) + 1]] {
            let error = of(shape, None).unwrap_err();
            assert!(error.contains("expected lengths of 1 to 2^26"), "{shape:?}: {error}");
        }
        let error = of(&[-1, 64, 64], Some("DHW")).unwrap_err();
        assert!(error.contains("only the number of rows or columns may differ"), "{error}");
        let error = of(&[70_000, 64, 64], Some("DHW")).unwrap_err();
        assert_eq!(error, "70000 pictures in a sample; the limit is 65535");
        let error = of(&[1 << 20, 1 << 20, 64, 64], None).unwrap_err();
        assert_eq!(error, "1099511627776 pictures in a sample; the limit is 65535");
    }

    #[test]
    fn elements_that_loops_do_not_read_are_refused() {
        let error = images(DType::I64, &[9], None, 1).unwrap_err().to_string();
        assert!(error.ends_with("but the array has i64: read it with `Collate::of`"), "{error}");
    }

    #[test]
    fn the_longest_sample_of_bytes_bounds_the_axis() {
        let request = |shape: &[i64]| ArrayRequest {
            axes: None,
            elements: Some((DType::F32, shape.to_vec())),
            audio: None,
        };
        let rows = |longest| {
            let images = request(&[-1, 3]).of_bytes(longest).unwrap().unwrap();
            images.input.height.max
        };
        assert_eq!([rows(Some(120)), rows(Some(131)), rows(Some(3))], [10, 10, 1]);
        assert_eq!([rows(None), rows(Some(u64::MAX))], [1 << 26; 2]);
        assert_eq!(ArrayRequest::default().of_bytes(Some(9)), None);
    }
}
