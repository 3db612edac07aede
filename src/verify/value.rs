//! One sample, checked: each of its values read, and pictures decoded whole.

use super::json;
use super::report::{Damaged, Tally, ValueError};
use crate::decode::{DecodeOptions, Decoder};
use crate::panicked::message;
use crate::sample::{Limits, SampleId};
use crate::source::{Buffer, EncodedImage, Source, Value};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a thread checks with.
pub(super) struct Checker<'s> {
    source: &'s dyn Source,
    limits: Limits,
    desk: Desk,
}

/// Memory that is used again from value to value.
struct Desk {
    buffer: Buffer,
    decoder: Decoder,
}

/// A value that is whole.
#[derive(Default)]
struct Whole {
    bytes: u64,
    pixels: Option<u64>,
}

impl<'s> Checker<'s> {
    pub(super) fn new(source: &'s dyn Source, limits: Limits) -> Self {
        Self { source, limits, desk: Desk::new(limits) }
    }

    /// Checks all values of a sample and counts them; false if one is damaged.
    pub(super) fn sample(&mut self, sample: SampleId, tally: &mut Tally) -> bool {
        self.desk.buffer.forget();
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
            // A source of records has said it of the whole record.
            let is_last = matches!(error, ValueError::Source(_));
            let location = self.source.locate(sample, field);
            let stored = || Some(location.as_ref()?.bytes.as_ref()?.start);
            let offset = error.offset().or_else(stored);
            let field = spec.name.clone();
            tally.damaged(Damaged { sample, field, location, offset, error });
            if is_last {
                break;
            }
        }
        tally.damaged_samples += u64::from(!is_good);
        is_good
    }

    /// Checks a value. A panic, in the decoder or in a source of the user's, is this value's error
    /// and not the end of the whole check.
    fn value(&mut self, sample: SampleId, field: usize) -> Result<Whole, ValueError> {
        let (source, desk) = (self.source, &mut self.desk);
        let checked = catch_unwind(AssertUnwindSafe(|| desk.check(source, sample, field)));
        checked.unwrap_or_else(|panic| {
            // Whatever state the panic has left it in is not used again.
            self.desk = Desk::new(self.limits);
            Err(ValueError::Panicked(message(&*panic)))
        })
    }
}

impl Desk {
    fn new(limits: Limits) -> Self {
        let options = DecodeOptions { limits, ..DecodeOptions::default() };
        Self { buffer: Buffer::default(), decoder: Decoder::new(options) }
    }

    fn check(
        &mut self,
        source: &dyn Source,
        sample: SampleId,
        field: usize,
    ) -> Result<Whole, ValueError> {
        let value = source.value(sample, field, &mut self.buffer);
        let value = value.map_err(ValueError::of_source)?;
        let whole = |bytes: &[u8]| Whole { bytes: bytes.len() as u64, pixels: None };
        match value {
            Value::Image(image) => decode(&mut self.decoder, &image),
            Value::Json(bytes) => json::check(bytes).map(|()| whole(bytes)),
            Value::Bytes(bytes) | Value::NdArray(bytes) | Value::Custom(bytes) => Ok(whole(bytes)),
            Value::Float(_) | Value::Int(_) => Ok(Whole::default()),
        }
    }
}

fn decode(decoder: &mut Decoder, image: &EncodedImage<'_>) -> Result<Whole, ValueError> {
    let size = decoder.size(image)?;
    decoder.decode(image, size.full())?;
    Ok(Whole { bytes: image.bytes.len() as u64, pixels: Some(size.pixels()) })
}
