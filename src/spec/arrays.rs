//! The declarations of a pipeline file about arrays: see [`LoaderBuilder::axes`](crate::LoaderBuilder::axes) and
//! [`LoaderBuilder::arrays`](crate::LoaderBuilder::arrays), also of audio files.
//!
//! ```toml
//! [axes]
//! scan = "DHW"                                # slices, rows, columns
//!
//! [arrays]
//! points = { dtype = "f32", shape = [-1, 3] }    # bytes that are rows of three
//! speech = { sample_rate = 16000, num_channels = 1 }    # audio files
//! music = { sample_rate = 16000, resample = true }
//! ```

use super::settings::each;
use crate::decode::AudioOptions;
use crate::loader::LoaderBuilder;
use fuseloop_ops::DType;
use fuseloop_ops::internals::registry::{
    OpArgs, ParamInfo, ParamKind, ParamValue, SpecEntry, SpecError, SpecTable, optional, required,
    with_default,
};

const AXES: &[ParamInfo] = &[required(
    "axes",
    ParamKind::Text,
    ParamValue::Word("HWC"),
    "one letter for each axis of a sample",
)];

const ARRAY: &[ParamInfo] = &[
    required("dtype", ParamKind::DType, ParamValue::Word("f32"), "the type of an element"),
    required(
        "shape",
        ParamKind::Shape,
        ParamValue::Ints(&[16, 3]),
        "the lengths of the axes; -1 is one that differs from sample to sample",
    ),
];

const AUDIO: &[ParamInfo] = &[
    required(
        "sample_rate",
        ParamKind::Whole,
        ParamValue::Int(16_000),
        "the number of samples a second",
    ),
    with_default(
        "num_channels",
        ParamKind::Whole,
        ParamValue::Int(1),
        "the number of channels; 1 is the mean of those of a file",
    ),
    optional("resample", ParamKind::Bool, "resample files of other rates"),
];

/// Returns the letters that each field of an `[axes]` table has.
pub(super) fn axes_of(table: SpecTable) -> Result<Vec<(String, String)>, SpecError> {
    each("axes", AXES, table, |args| args.text("axes"))
}

/// The arrays that the bytes of a field are.
#[derive(Clone, Debug, PartialEq)]
pub enum DeclaredArray {
    /// Their type and their shape.
    Elements(DType, Vec<i64>),
    /// The signals of audio files.
    Audio(AudioOptions),
}

impl DeclaredArray {
    /// Declares the arrays of a field.
    pub(super) fn of_field(self, builder: LoaderBuilder, field: &str) -> LoaderBuilder {
        match self {
            Self::Elements(dtype, shape) => builder.arrays(field, dtype, &shape),
            Self::Audio(audio) => builder.audio(field, audio),
        }
    }
}

/// Returns the arrays of each field of an `[arrays]` table.
pub(super) fn of_table(
    SpecTable(entries): SpecTable,
) -> Result<Vec<(String, DeclaredArray)>, SpecError> {
    let array = |SpecEntry { name, at, value }: SpecEntry| {
        let table = value.into_table("dtype", at);
        let elements = |args: &OpArgs<'_>| {
            Ok(DeclaredArray::Elements(args.dtype("dtype")?, args.shape("shape")?))
        };
        let audio = |args: &OpArgs<'_>| {
            // Numbers over the limit stay over it.
            let channels = u16::try_from(args.u32("num_channels")?).unwrap_or(u16::MAX);
            let audio = AudioOptions::new(args.u32("sample_rate")?).num_channels(channels);
            let resample = args.if_given("resample", OpArgs::bool)?;
            Ok(DeclaredArray::Audio(audio.resample(resample == Some(true))))
        };
        let declared = match table.get("sample_rate") {
            Some(_) => OpArgs::with("arrays", AUDIO, &table, at, audio)?,
            None => OpArgs::with("arrays", ARRAY, &table, at, elements)?,
        };
        Ok((name, declared))
    };
    entries.into_iter().map(array).collect()
}
