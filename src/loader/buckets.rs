//! The buckets of a bucketed order: samples whose images have the same size in a batch.
//!
//! ```text
//! tables or headers ──▶ stored size ──▶ ops of each output ──▶ sizes in the batch ──▶ bucket
//!                       (or upright)    whose images differ     one for each output
//! ```
//!
//! The sizes in the batch follow from the types of the ops: an op says the size of its output for a size of its input.
//! Nothing is decoded, and all cores measure samples.

use super::collate::Collate;
use super::compile_context::{CompileContext, image_input};
use super::damaged::{DamageLog, OnDamaged};
use super::error::{of_output, of_sample};
use super::outputs::OutputSpec;
use crate::decode::Decoder;
use crate::error::{Error, fail};
use crate::order::{Subset, reserved};
use crate::parallel;
use crate::sample::{Epoch, SampleId};
use crate::source::{Buffer, Source, Value, stored_size};
use fuseloop_ops::author::{Dim, ImageType, Type};
use fuseloop_ops::{Ops, Size};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::thread;

/// The most samples that one thread measures at a time.
const AT_ONCE: u64 = 1 << 10;

/// The least number of pieces that each core gets, so that all end at about the same time.
const PIECES: u64 = 8;

/// The outputs whose images differ in size.
pub(super) struct Buckets<'a> {
    outputs: Vec<SizedOutput>,
    setup: &'a CompileContext,
    /// The samples that are left out.
    damaged: &'a DamageLog,
}

/// An output whose images differ in size, by the size of the stored image.
struct SizedOutput {
    name: String,
    field: usize,
    ops: Ops,
    input: ImageType,
}

/// The sizes of some samples.
struct MeasuredRows {
    /// The sizes of the images of a sample, one for each output.
    distinct: Vec<Vec<Size>>,
    /// For each row the index of its sizes, or why it can't be measured.
    of_rows: Vec<Result<u32, Error>>,
}

/// The memory of a thread that measures samples.
struct Measure {
    buffer: Buffer,
    decoder: Decoder,
    /// For each output, the sizes in the batch by those of the stored images.
    known: Vec<HashMap<Size, Size>>,
}

impl<'a> Buckets<'a> {
    /// Finds the outputs whose images differ in size, and has them collated unless the user said how.
    ///
    /// # Errors
    ///
    /// If the sizes of an output's images do not follow from those of the stored images alone.
    pub(super) fn of_outputs(
        source: &dyn Source,
        outputs: &mut [OutputSpec],
        setup: &'a CompileContext,
        damaged: &'a DamageLog,
    ) -> Result<Self, Error> {
        let mut sized = vec![];
        for output in outputs {
            let is_image = source.fields()[output.field].kind.is_image();
            if !is_image || output.target.is_some() {
                continue;
            }
            let input = image_input(source, output, setup)?;
            let ops = output.ops(Epoch(0))?;
            // A list that does not fit is refused with its reason when it is planned.
            if !matches!(size_after(&ops, input), Ok(None)) {
                continue;
            }
            if !output.component_ops.is_empty() || output.is_by_epoch() {
                let error = fail!(
                    Parameter,
                    "order bucketed: this list leaves images of several sizes: give one list for all epochs and all \
                     components of the dataset, so that the sizes are known when the loader is built"
                );
                return Err(of_output(error, &output.name));
            }
            let sized_output =
                SizedOutput { name: output.name.clone(), field: output.field, ops, input };
            sized_output.check()?;
            output.collate.get_or_insert_with(Collate::pad);
            sized.push(sized_output);
        }
        Ok(Self { outputs: sized, setup, damaged })
    }

    /// Returns true if no output's images differ in size.
    pub(super) fn is_empty(&self) -> bool {
        self.outputs.is_empty()
    }

    /// Returns the bucket of each sample, numbered as they first come; `None` for a sample that is left out.
    ///
    /// # Errors
    ///
    /// If a sample can't be measured, unless damaged samples are left out.
    pub(super) fn of_samples(
        &self,
        source: &dyn Source,
        subset: &Subset,
    ) -> Result<Vec<Option<u32>>, Error> {
        let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get) as u64;
        let chunks = chunks(subset.len(), cores);
        let measured = parallel::map(&chunks, |rows| self.measured(source, subset, rows.clone()))?;
        let (mut numbers, mut buckets) = (HashMap::new(), reserved(subset.len())?);
        for (MeasuredRows { distinct, of_rows }, rows) in measured.into_iter().zip(chunks) {
            let number = |sizes| {
                let next = numbers.len() as u32;
                *numbers.entry(sizes).or_insert(next)
            };
            let numbered: Vec<u32> = distinct.into_iter().map(number).collect();
            for (row, index) in rows.zip(of_rows) {
                buckets.push(match index {
                    Ok(index) => Some(numbered[index as usize]),
                    Err(error) => {
                        self.left_out(subset.at(row), error)?;
                        None
                    }
                });
            }
        }
        Ok(buckets)
    }

    /// Notes a sample that can't be measured, or returns its error.
    fn left_out(&self, sample: SampleId, error: Error) -> Result<(), Error> {
        let is_damage = !error.lacks_memory() && !error.is_not_damage();
        if self.setup.on_damaged == OnDamaged::Fail || !is_damage {
            let error = error.context(format_args!("order bucketed: sample {sample}"));
            return Err(error.of_sample(sample));
        }
        self.damaged.note(sample, Epoch(0), 0, &error);
        Ok(())
    }

    /// Returns the sizes of the samples of some rows.
    fn measured(&self, source: &dyn Source, subset: &Subset, rows: Range<u64>) -> MeasuredRows {
        let known = self.outputs.iter().map(|_| HashMap::new()).collect();
        let decoder = Decoder::new(self.setup.decode);
        let mut measure = Measure { buffer: Buffer::default(), decoder, known };
        let (mut distinct, mut indices) = (vec![], HashMap::new());
        let index = |row| {
            let sizes = self.sizes(source, subset.at(row), &mut measure)?;
            let index = indices.entry(sizes).or_insert_with_key(|sizes: &Vec<Size>| {
                distinct.push(sizes.clone());
                distinct.len() as u32 - 1
            });
            Ok(*index)
        };
        let of_rows = rows.map(index).collect();
        MeasuredRows { distinct, of_rows }
    }

    /// Returns the sizes of the images of a sample in a batch, one for each output.
    fn sizes(
        &self,
        source: &dyn Source,
        sample: SampleId,
        Measure { buffer, decoder, known }: &mut Measure,
    ) -> Result<Vec<Size>, Error> {
        let (mut last, mut sizes) = (None, Vec::with_capacity(self.outputs.len()));
        for (output, known) in self.outputs.iter().zip(known) {
            // Views of a field are of one stored image.
            let stored = match last {
                Some((field, size)) if field == output.field => size,
                _ => self.stored(source, (sample, output), buffer, decoder)?,
            };
            last = Some((output.field, stored));
            sizes.push(match known.entry(stored) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(unknown) => *unknown.insert(output.size(stored)?),
            });
        }
        Ok(sizes)
    }

    /// Returns the size of the stored image that an output is computed from, as its ops get it.
    fn stored(
        &self,
        source: &dyn Source,
        (sample, output): (SampleId, &SizedOutput),
        buffer: &mut Buffer,
        decoder: &mut Decoder,
    ) -> Result<Size, Error> {
        buffer.forget();
        let (field, decode) = (output.field, &self.setup.decode);
        let is_upright = decode.exif_orientation;
        let found = stored_size(source, (sample, field), is_upright, &decode.limits, buffer);
        if let Some(size) = found.filter(|size| size.pixels() > 0) {
            return Ok(size);
        }
        let size = match source.value(sample, field, buffer) {
            Ok(Value::Image(image)) => decoder.size(&image),
            Ok(other) => unreachable!("a field's kind does not change: {other:?}"),
            Err(error) => Err(error.into()),
        };
        size.map_err(|error| of_sample(source, sample, (&output.name, field), error))
    }
}

/// Divides samples among cores.
fn chunks(samples: u64, cores: u64) -> Vec<Range<u64>> {
    let at_once = (samples / (PIECES * cores)).clamp(1, AT_ONCE);
    let starts = (0..samples).step_by(at_once as usize);
    starts.map(|first| first..samples.min(first + at_once)).collect()
}

impl SizedOutput {
    /// Refuses a list whose sizes do not follow from those of the stored images.
    fn check(&self) -> Result<(), Error> {
        let ImageType { height, width, .. } = self.input;
        // Images that are turned at random have a random size unless they are square.
        let longer = |short: Dim, long: Dim| long.max.min(short.min.saturating_mul(2));
        for size in [
            Size::new(height.min, width.min),
            Size::new(height.min, longer(height, width).max(width.min)),
            Size::new(longer(width, height).max(height.min), width.min),
        ] {
            if let Ok(None) = size_after(&self.ops, self.input.with_size(size)) {
                let error = self.random(size).context(format_args!("order bucketed"));
                return Err(of_output(error, &self.name));
            }
        }
        Ok(())
    }

    /// Returns the size of the image in a batch.
    fn size(&self, stored: Size) -> Result<Size, Error> {
        let size = size_after(&self.ops, self.input.with_size(stored));
        let size =
            size.map_err(Error::from).and_then(|size| size.ok_or_else(|| self.random(stored)));
        // It is the list that does not fit, not the sample that is damaged.
        size.map_err(|error| of_output(error, &self.name).not_damage())
    }

    /// Returns the error of sizes that are drawn.
    fn random(&self, stored: Size) -> Error {
        let op = self.random_op(stored);
        fail!(
            Parameter,
            "{op} leaves an image of {stored} pixels at a random size: remove it, put ResizeToBucket in its place, \
             which chooses the size by the image, or end the list with one size, such as Resize((224, 224))"
        )
    }

    /// Returns the name of the last op whose output has a random size although its input has not.
    fn random_op(&self, stored: Size) -> &str {
        let (mut value, mut found) = (Type::Image(self.input.with_size(stored)), "the list");
        for op in &self.ops {
            let Ok(next) = op.output(&value) else { break };
            if let (Type::Image(before), Type::Image(after)) = (&value, &next)
                && before.size().is_some()
                && after.size().is_none()
            {
                found = op.name();
            }
            value = next;
        }
        found
    }
}

/// Returns the size of images after their ops, if it is the same for all of type `input`.
fn size_after(ops: &Ops, input: ImageType) -> Result<Option<Size>, fuseloop_ops::TypeError> {
    let (mut value, mut size) = (Type::Image(input), input.size());
    for op in ops {
        value = op.output(&value)?;
        if let Type::Image(image) = &value {
            size = image.size();
        }
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_cores_measure_even_few_samples() {
        for (samples, cores, pieces) in [(0, 4, 0), (1, 4, 1), (10, 4, 10), (1000, 16, 143)] {
            let chunks = chunks(samples, cores);
            assert_eq!(chunks.len(), pieces, "{samples} samples");
            assert!(chunks.iter().flat_map(Clone::clone).eq(0..samples));
        }
        assert_eq!(chunks(10_000_000, 2).len(), 9766);
    }
}
