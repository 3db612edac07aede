//! The samples of a loader with lists of images: a wrapper of a dataset with packed lists.
//!
//! | field               | value of a sample                                              |
//! |---------------------|----------------------------------------------------------------|
//! | a field of lists    | the first image; a loader reads all of them                    |
//! | the others          | those of the dataset                                           |
//! | `NAME.length`       | the number of images that a row has                            |
//! | [`stored_list`]     | the list, packed; it is no field that others can see           |

use super::ImageList;
use crate::error::{Error, fail};
use crate::sample::SampleId;
use crate::source::{
    BoxError, Buffer, EncodedImage, Escaped, Facts, FieldKind, FieldSpec, Fingerprint, ImageMode,
    Record, Run, RunPlan, SampleLocation, Source, StoredValues, Value, read_values,
};
use fuseloop_ops::Size;
use std::path::PathBuf;
use std::sync::Arc;

/// Returns the number by which a source of lists reads the list number `list` as it is stored.
pub(in crate::loader) fn stored_list(source: &dyn Source, list: usize) -> usize {
    source.fields().len() + list
}

/// Lists of images as fields of images.
#[derive(Clone)]
pub(in crate::loader) struct ListSource {
    facts: Facts,
    dataset: Arc<dyn Source>,
    /// The fields of lists.
    lists: Arc<[(usize, ImageList)]>,
}

/// Where the value of a field is from.
enum Origin {
    /// The field of the dataset.
    Field(usize),
    /// The number of the images of a list.
    Length(usize),
    /// The first image of a list.
    First(usize),
}

impl ListSource {
    /// Makes fields of a dataset images.
    ///
    /// # Errors
    ///
    /// If a setting is wrong, a field can't have lists, or the name of its lengths is taken.
    pub(in crate::loader) fn new(
        dataset: Arc<dyn Source>,
        lists: Vec<(usize, ImageList)>,
    ) -> Result<Self, Error> {
        let known = dataset.facts().clone();
        let mut fields: Vec<FieldSpec> = known.fields.to_vec();
        let mut print = Fingerprint::default();
        print.text("image lists");
        print.number(known.fingerprint);
        for (field, list) in &lists {
            let spec = &mut fields[*field];
            let name = spec.name.clone();
            list.check().map_err(|error| error.of_field(&name))?;
            if spec.kind != FieldKind::Bytes || known.is_audio(*field) || known.is_video(*field) {
                let error = fail!(
                    Pipeline,
                    "only a field of lists of images has an entry of `image_lists`, and this field is {}: leave it out",
                    spec.kind.word()
                );
                return Err(error.of_field(&name));
            }
            spec.kind = FieldKind::RgbImage;
            print.text(&name);
            let length = format!("{name}.length");
            if fields.iter().any(|other| other.name == length) {
                let dataset = Escaped(&known.name);
                let error = fail!(
                    Field,
                    "{dataset}: a field is called {length}, which is the name of the lengths of {name}: rename the field"
                );
                return Err(error.of_field(&length));
            }
            fields.push(FieldSpec::from((length, FieldKind::Int)));
        }
        let own = {
            let (count, lists) = (known.fields.len(), lists.clone());
            move |field: usize| field >= count || lists.iter().any(|(list, _)| *list == field)
        };
        let (of_images, of_bytes, is_own) = (known.clone(), known.clone(), own.clone());
        let facts =
            known.with_image_stats(
                move |field| {
                    if own(field) { None } else { of_images.image_stats(field) }
                },
            );
        let mut facts = facts
            .with_longest(move |field| if is_own(field) { None } else { of_bytes.longest(field) });
        (facts.fields, facts.fingerprint) = (fields.into(), print.value());
        Ok(Self { facts, dataset, lists: lists.into() })
    }

    /// Returns the fields of lists, in the order of their numbers.
    pub(in crate::loader) fn lists(&self) -> &Arc<[(usize, ImageList)]> {
        &self.lists
    }

    fn origin(&self, field: usize) -> Result<Origin, BoxError> {
        let own = self.dataset.fields().len();
        let list = |list: usize| {
            let found = self.lists.get(list);
            found.ok_or_else(|| format!("field {field} does not exist"))
        };
        Ok(if let Some(stored) = field.checked_sub(self.facts.fields.len()) {
            Origin::Field(list(stored)?.0)
        } else if let Some(length) = field.checked_sub(own) {
            list(length)?;
            Origin::Length(length)
        } else if let Some(first) = self.lists.iter().position(|(list, _)| *list == field) {
            Origin::First(first)
        } else {
            Origin::Field(field)
        })
    }

    /// Returns the field of the dataset that a field is read from.
    fn read_field(&self, field: usize) -> Option<usize> {
        Some(match self.origin(field).ok()? {
            Origin::Field(field) => field,
            Origin::Length(list) | Origin::First(list) => self.lists[list].0,
        })
    }
}

impl Source for ListSource {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        read_values(self, sample)
    }

    fn value<'a>(
        &'a self,
        sample: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        let (list, is_length) = match self.origin(field)? {
            Origin::Field(field) => return self.dataset.value(sample, field, buffer),
            Origin::Length(list) => (list, true),
            Origin::First(list) => (list, false),
        };
        let (field, list) = self.lists[list];
        let images = list.of_value(&self.dataset.value(sample, field, buffer)?)?;
        if is_length {
            return Ok(Value::Int(i64::try_from(images.count().min(list.max()))?));
        }
        let first = images.files().next().ok_or("a list of no images has no first one")?;
        Ok(Value::Image(image(first)?))
    }

    fn locate(&self, sample: SampleId, field: usize) -> Option<SampleLocation> {
        self.dataset.locate(sample, self.read_field(field)?)
    }

    fn component(&self, sample: SampleId, buffer: &mut Buffer) -> Result<usize, BoxError> {
        self.dataset.component(sample, buffer)
    }

    fn locality_group(&self, sample: SampleId) -> Option<u64> {
        self.dataset.locality_group(sample)
    }

    fn begin(self: Arc<Self>, run: &RunPlan) -> Result<Option<Run>, BoxError> {
        let mut fields: Vec<usize> =
            run.fields.iter().filter_map(|field| self.read_field(*field)).collect();
        fields.sort_unstable();
        fields.dedup();
        let plan = RunPlan { fields, ..run.clone() };
        let Some(run) = Arc::clone(&self.dataset).begin(&plan)? else { return Ok(None) };
        let source = Self { dataset: Arc::clone(&run), ..(*self).clone() };
        Ok(Some(Run::new(Arc::new(source)).on_end(move || drop(run))))
    }

    fn stored(&self) -> Option<&dyn StoredValues> {
        Some(self)
    }
}

impl StoredValues for ListSource {
    fn annotated_size(&self, sample: SampleId) -> Option<Size> {
        self.dataset.stored()?.annotated_size(sample)
    }

    fn changed_files(&self) -> Vec<(SampleId, String)> {
        self.dataset.stored().map_or_else(Vec::new, StoredValues::changed_files)
    }

    fn hold_in_memory(&self) -> Result<(), BoxError> {
        self.dataset.stored().map_or(Ok(()), StoredValues::hold_in_memory)
    }

    fn value_file(&self, sample: SampleId, field: usize) -> Option<PathBuf> {
        match self.origin(field).ok()? {
            Origin::Field(field) => self.dataset.stored()?.value_file(sample, field),
            _ => None,
        }
    }
}

/// Returns the image of a file.
///
/// # Errors
///
/// If the file has no bytes.
pub(in crate::loader) fn image(file: &[u8]) -> Result<EncodedImage<'_>, Error> {
    if file.is_empty() {
        return Err(fail!(Damaged, "an image of no bytes"));
    }
    Ok(EncodedImage { mode: ImageMode::of_file(file), width: 0, height: 0, bytes: file })
}
