//! Parts of videos: the seconds from which to before which frames of a video are chosen, as fields of a dataset have them.

use super::{Buffer, FieldKind, Source, Value};
use crate::amounts::Decimal;
use crate::error::{Damage, Error, fail};
use crate::sample::SampleId;

/// The seconds from which to before which frames of a video are chosen.
pub(crate) type SecondsRange = (f64, f64);

/// The fields with the first second of each video's part, and with the second before which it ends; `None` if parts begin or
/// end with their videos.
pub(crate) type PartFields = [Option<usize>; 2];

/// Refuses a start or an end of videos that is no number.
///
/// # Errors
///
/// If the values of the field are no numbers.
pub(crate) fn check_part_field(kind: &FieldKind) -> Result<(), Error> {
    match kind {
        FieldKind::Int | FieldKind::Float => Ok(()),
        other => Err(fail!(
            Pipeline,
            "a start or an end of videos is a field of numbers, and this field is {}: name another one",
            other.word()
        )),
    }
}

/// Returns the part that a dataset has of a video, if fields have it.
///
/// # Errors
///
/// Fails as [`Source::value`] does, and if the part does not begin at 0 or later and end after that.
pub(crate) fn part_of_video(
    dataset: &dyn Source,
    video: SampleId,
    fields: PartFields,
    buffer: &mut Buffer,
) -> Result<Option<SecondsRange>, Error> {
    if fields == [None, None] {
        return Ok(None);
    }
    let mut seconds = [0.0, f64::INFINITY];
    for (seconds, field) in seconds.iter_mut().zip(fields) {
        let Some(field) = field else { continue };
        *seconds = match dataset.value(video, field, buffer)? {
            Value::Int(whole) => whole as f64,
            Value::Float(seconds) => seconds,
            _ => f64::NAN,
        };
    }
    let [start, end] = seconds;
    if start >= 0.0 && start < end {
        return Ok(Some((start, end)));
    }
    let error = fail!(
        Damaged,
        "the part of the video is from {} to {} seconds, expected one that begins at 0 or later and ends after that",
        Decimal(start),
        Decimal(end)
    );
    Err(error.damage(Damage::Part))
}
