//! Checks one sample: reads each of its values, and decodes whole images.

use super::json;
use super::report::{DamagedValue, Tally, ValueError};
use crate::decode::{DecodeOptions, Decoder};
use crate::panicked::message;
use crate::sample::{Limits, SampleId};
use crate::source::{Buffer, EncodedImage, Source, Value};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The state of one checking thread.
pub(super) struct Checker<'s> {
    source: &'s dyn Source,
    limits: Limits,
    scratch: CheckScratch,
}

/// Buffers that are reused from value to value.
struct CheckScratch {
    buffer: Buffer,
    decoder: Decoder,
}

/// The sizes of an intact value.
#[derive(Default)]
struct IntactValue {
    bytes: u64,
    pixels: Option<u64>,
}

impl<'s> Checker<'s> {
    pub(super) fn new(source: &'s dyn Source, limits: Limits) -> Self {
        Self { source, limits, scratch: CheckScratch::new(limits) }
    }

    /// Checks all values of a sample and counts them; returns false if one is damaged.
    pub(super) fn sample(&mut self, sample: SampleId, tally: &mut Tally) -> bool {
        self.scratch.buffer.forget();
        let mut is_good = true;
        for (field, spec) in self.source.fields().iter().enumerate() {
            tally.values += 1;
            let error = match self.value(sample, field) {
                Ok(whole) => {
                    tally.bytes += whole.bytes;
                    tally.pictures += u64::from(whole.pixels.is_some());
                    tally.pixels += whole.pixels.unwrap_or(0);
                    continue;
                }
                Err(error) => error,
            };
            is_good = false;
            // A source of records returns one error for the whole record.
            let is_last = matches!(error, ValueError::Source(_));
            let location = self.source.locate(sample, field);
            let stored = || Some(location.as_ref()?.bytes.as_ref()?.start);
            let offset = error.offset().or_else(stored);
            let field = spec.name.clone();
            tally.damaged(DamagedValue { sample, field, location, offset, error });
            if is_last {
                break;
            }
        }
        tally.damaged_samples += u64::from(!is_good);
        is_good
    }

    /// Checks a value. A panic, in the decoder or in a user's source, becomes this value's error and
    /// does not end the whole check.
    fn value(&mut self, sample: SampleId, field: usize) -> Result<IntactValue, ValueError> {
        let (source, scratch) = (self.source, &mut self.scratch);
        let checked = catch_unwind(AssertUnwindSafe(|| scratch.check(source, sample, field)));
        checked.unwrap_or_else(|panic| {
            // The buffers may be in any state after a panic, so they are not used again.
            self.scratch = CheckScratch::new(self.limits);
            Err(ValueError::Panicked(message(&*panic)))
        })
    }
}

impl CheckScratch {
    fn new(limits: Limits) -> Self {
        let options = DecodeOptions { limits, ..DecodeOptions::default() };
        Self { buffer: Buffer::default(), decoder: Decoder::new(options) }
    }

    fn check(
        &mut self,
        source: &dyn Source,
        sample: SampleId,
        field: usize,
    ) -> Result<IntactValue, ValueError> {
        let value = source.value(sample, field, &mut self.buffer);
        let value = value.map_err(ValueError::of_source)?;
        let whole = |bytes: &[u8]| IntactValue { bytes: bytes.len() as u64, pixels: None };
        match value {
            Value::Image(image) => decode(&mut self.decoder, &image),
            Value::Json(bytes) => json::check(bytes).map(|()| whole(bytes)),
            Value::Bytes(bytes) | Value::NdArray(bytes) | Value::Custom(bytes) => Ok(whole(bytes)),
            Value::Float(_) | Value::Int(_) => Ok(IntactValue::default()),
        }
    }
}

fn decode(decoder: &mut Decoder, image: &EncodedImage<'_>) -> Result<IntactValue, ValueError> {
    let mut opened = decoder.open(image)?;
    let size = opened.size();
    opened.decode(size.full())?;
    Ok(IntactValue { bytes: image.bytes.len() as u64, pixels: Some(size.pixels()) })
}
