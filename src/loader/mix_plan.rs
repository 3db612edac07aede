//! Plans which outputs of a finished batch are mixed, and that those of a sample are mixed alike.
//!
//! ```text
//! image                                      blended, or pasted into
//! array, with an op that pastes rectangles   of several axes or declared ones: a picture, pasted into
//!                                            of one axis: a label
//! label, and every other array               blended by the share that the pictures have
//! ```
//!
//! Without an image, features (numbers and arrays) are mixed by ops that need no size.

use super::array_images::unclear_axes;
use super::error::of_output;
use super::mixing::{MixRows, OutputMixer};
use super::outputs::OutputSpec;
use super::work::{FieldPlan, OutputPlan};
use crate::error::{Error, fail};
use crate::plan::batch_ops::{self, BatchStep, mixers};
use crate::plan::{ElementPlan, ImagePlan};
use crate::source::{FieldKind, Source};
use fuseloop_ops::author::ImageType;
use fuseloop_ops::{DType, Ops, Size};

/// The pictures of an output: their type and their size, for each op that mixes batches.
type Pictures = Option<Vec<(ImageType, Size)>>;

/// Returns for each output how it is mixed; `None` if it is not.
///
/// # Errors
///
/// If a label is mixed by ops that no image has, or that images of different sizes have; if an image is mixed, but none
/// of the labels beside it, or the mask beside it; and if the axes of an array are not known that a rectangle is pasted
/// into.
pub(super) fn plan_mixes(
    source: &dyn Source,
    outputs: &[OutputSpec],
    plans: &[OutputPlan],
) -> Result<Vec<Option<OutputMixer>>, Error> {
    let pictures =
        plans.iter().map(|work| pictures(source, work)).collect::<Result<Vec<_>, _>>()?;
    let mixing = Mixing { source, plans, pictures };
    let mixes = (0..plans.len()).map(|index| mixing.mixer(index)).collect::<Result<_, _>>()?;
    mixing.check_labels()?;
    check_masks(outputs, plans)?;
    Ok(mixes)
}

/// Returns the pictures of an output: the images, and the arrays that an op pastes rectangles into.
fn pictures(source: &dyn Source, work: &OutputPlan) -> Result<Pictures, Error> {
    match &work.work {
        FieldPlan::Image(kernel) => Ok(Some(mixed_pictures(kernel.plan()))),
        FieldPlan::Array(plan) if needs_size(plan.ops()) => {
            let kind = &source.fields()[work.field].kind;
            array_pictures(kind, work, plan).map_err(|error| {
                let ops = mixer_names(plan.ops());
                let error = fail!(
                    Pipeline,
                    "{ops} pastes a rectangle into arrays of several axes: {error}; an array that is a label has one axis"
                );
                of_output(error, &work.name)
            })
        }
        _ => Ok(None),
    }
}

/// Returns the pictures that each op of a list mixes: those after the ops on samples before it.
fn mixed_pictures(plan: &ImagePlan) -> Vec<(ImageType, Size)> {
    let (mut pass, mut pictures) = (plan, vec![]);
    for step in batch_ops::steps(plan.ops()) {
        match step {
            BatchStep::Samples { pass: number, .. } => pass = &plan.later()[number - 1],
            BatchStep::Mix(_) => pictures.push((pass.output(), pass.output_size())),
            _ => {}
        }
    }
    pictures
}

/// Returns the pictures that arrays are; `None` if they have one axis, as labels have, which is not declared.
fn array_pictures(
    kind: &FieldKind,
    work: &OutputPlan,
    plan: &ElementPlan,
) -> Result<Pictures, Error> {
    let (FieldKind::NdArray { shape, .. } | FieldKind::TorchTensor { shape, .. }) = kind else {
        return Ok(None);
    };
    if work.array.axes.is_none() {
        match shape.iter().filter(|&&side| side > 1).count() {
            0 | 1 => return Ok(None),
            // These may be pictures of one channel, or the vectors of several labels.
            2 if shape.len() == 2 => {
                let shape = plan.shape().iter().map(|&n| u32::try_from(n).unwrap_or(u32::MAX));
                return Err(unclear_axes(&shape.collect::<Vec<_>>(), "HW"));
            }
            _ => {}
        }
    }
    let shape: Vec<usize> = shape.iter().map(|&n| n as usize).collect();
    // A rectangle is copied, whatever the type of the elements is.
    let image = work.array.of_shape(DType::F32, &shape)?.input;
    let size = Size::new(image.height.max, image.width.max);
    let picture = (ImageType { dtype: plan.dtype(), ..image }, size);
    Ok(Some(vec![picture; mixers(plan.ops()).count()]))
}

/// The outputs, and the pictures of each.
struct Mixing<'a> {
    source: &'a dyn Source,
    plans: &'a [OutputPlan],
    pictures: Vec<Pictures>,
}

impl Mixing<'_> {
    /// Returns how an output is mixed; `None` if it is not.
    fn mixer(&self, index: usize) -> Result<Option<OutputMixer>, Error> {
        let work = &self.plans[index];
        if !is_mixed(work) {
            return Ok(None);
        }
        if let Some(pictures) = &self.pictures[index] {
            let rows: fn(ImageType, Size) -> MixRows = match work.work {
                FieldPlan::Image(_) => MixRows::Image,
                _ => MixRows::ArrayImage,
            };
            let each = pictures.iter().map(|(image, size)| (rows(*image, *size), *size));
            return Ok(Some(OutputMixer { each: each.collect() }));
        }
        let rows = match &work.work {
            FieldPlan::Label(plan) if plan.mixes_classes() => MixRows::Classes,
            FieldPlan::Label(_) | FieldPlan::Array(_) => MixRows::Floats(work.work.dtype()),
            _ => return Ok(None),
        };
        let sizes = self.sizes_for_label(index)?.into_iter();
        Ok(Some(OutputMixer { each: sizes.map(|size| (rows, size)).collect() }))
    }

    /// Returns for each op that mixes a label the size of the pictures that are mixed by the same ops, or any size for
    /// features that are mixed without an image.
    fn sizes_for_label(&self, index: usize) -> Result<Vec<Size>, Error> {
        let (label, ops) = (&self.plans[index], self.plans[index].work.ops());
        let own = mixer_chain(ops);
        let each = self.plans.iter().zip(&self.pictures);
        let alike = each.filter(|(work, _)| mixer_chain(work.work.ops()) == own);
        let mut sizes = alike.filter_map(|(_, pictures)| {
            Some(pictures.as_ref()?.iter().map(|(_, size)| *size).collect::<Vec<_>>())
        });
        let Some(first) = sizes.next() else {
            return Ok(vec![self.size_without_image(index)?; own.len()]);
        };
        let differ = |others: Vec<Size>| first.iter().copied().zip(others).find(|(a, b)| a != b);
        match sizes.find_map(differ) {
            Some((one, other)) if needs_size(ops) => {
                let error = fail!(
                    Pipeline,
                    "the mixing share of {} depends on the image size, but the mixed images have two sizes, {one} and \
                     {other}",
                    mixer_names(ops)
                );
                Err(of_output(error, &label.name))
            }
            _ => Ok(first),
        }
    }

    /// Returns any size for features that are mixed without an image, and not without their labels.
    fn size_without_image(&self, index: usize) -> Result<Size, Error> {
        let own = self.plans[index].work.ops();
        let (output, ops) = (&self.plans[index].name, mixer_names(own));
        let unmixed_image = || {
            let error = fail!(
                Pipeline,
                "no image has the same mixing ops as this label: put {ops}, with the same parameters, last in an image's \
                 list"
            );
            of_output(error, output)
        };
        let is_image = |(work, pictures): (&OutputPlan, &Pictures)| {
            pictures.is_some() || self.source.fields()[work.field].kind.is_image()
        };
        if self.plans.iter().zip(&self.pictures).any(is_image) {
            return Err(unmixed_image());
        }
        if needs_size(own) {
            let error = fail!(
                Pipeline,
                "{ops} pastes a rectangle of an image, but no output has images: use MixUp, or name the axes of an array \
                 of images with `axes`, for example \"HWC\""
            );
            return Err(of_output(error, output));
        }
        // Views of the features are no labels of them.
        let field = self.plans[index].field;
        let others = || self.plans.iter().enumerate().filter(|(_, other)| other.field != field);
        let chain = mixer_chain(own);
        let are_mixed = others().any(|(_, other)| mixer_chain(other.work.ops()) == chain);
        let labels = others().filter(|(k, _)| self.is_label(*k)).map(|(_, other)| other);
        let labels: Vec<&str> = labels.map(|label| label.name.as_str()).collect();
        let is_class =
            matches!(&self.plans[index].work, FieldPlan::Label(plan) if plan.mixes_classes());
        match are_mixed || (labels.is_empty() && !is_class) {
            true => Ok(Size::new(1, 1)),
            false if labels.is_empty() => Err(unmixed_image()),
            false => {
                let error = fail!(
                    Pipeline,
                    "{ops} mixes this output, but no other output has the same ops: put {ops}, with the same parameters, \
                     last in the list of one of {}, or leave these out (`without`)",
                    labels.join(", ")
                );
                Err(of_output(error, output))
            }
        }
    }

    /// Returns whether an output may be the label of an image.
    fn is_label(&self, index: usize) -> bool {
        let kind = &self.source.fields()[self.plans[index].field].kind;
        // Arrays of bytes with the ops of images are images.
        self.pictures[index].is_none()
            && matches!(kind, FieldKind::Int | FieldKind::Float | FieldKind::NdArray { .. })
    }

    /// Refuses pictures that are mixed without any of the labels beside them. Without labels, they may be, and so may
    /// an image with targets, which are its labels.
    fn check_labels(&self) -> Result<(), Error> {
        let labels = (0..self.plans.len()).filter(|&k| self.is_label(k)).map(|k| &self.plans[k]);
        let labels: Vec<&OutputPlan> = labels.collect();
        let each = self.plans.iter().zip(&self.pictures);
        for (image, _) in
            each.filter(|(work, pictures)| pictures.is_some() && work.targets.is_none())
        {
            let own = mixer_chain(image.work.ops());
            let are_mixed = labels.iter().any(|label| mixer_chain(label.work.ops()) == own);
            if !own.is_empty() && !labels.is_empty() && !are_mixed {
                let labels: Vec<&str> = labels.iter().map(|label| label.name.as_str()).collect();
                let labels = labels.join(", ");
                let ops = mixer_names(image.work.ops());
                let error = fail!(
                    Pipeline,
                    "{ops} mixes the images, but no label has the same ops: put {ops}, with the same parameters, last in \
                     the list of one of {labels}, or leave these out (`without`)"
                );
                return Err(of_output(error, &image.name));
            }
        }
        Ok(())
    }
}

/// Refuses images that are all mixed beside a mask, whose class numbers can't be. Masks that are targets are refused
/// where they are planned.
fn check_masks(outputs: &[OutputSpec], plans: &[OutputPlan]) -> Result<(), Error> {
    let images = outputs.iter().zip(plans).filter(|(output, work)| {
        let has_targets = output.target.is_some() || work.targets.is_some();
        matches!(work.work, FieldPlan::Image(_)) && !has_targets
    });
    let (masks, images): (Vec<_>, Vec<_>) = images.partition(|(output, _)| output.is_mask);
    let (Some((_, mask)), Some((_, image))) = (masks.first(), images.first()) else {
        return Ok(());
    };
    if !images.iter().all(|(_, image)| is_mixed(image)) {
        return Ok(());
    }
    let (mask, ops) = (&mask.name, mixer_names(image.work.ops()));
    let error = fail!(
        Pipeline,
        "{ops} mixes the images, but not the class numbers of the mask {mask}: leave out {ops}, or the mask (`without`)"
    );
    Err(of_output(error, &image.name))
}

/// Returns true if an op mixes the batches of an output.
fn is_mixed(work: &OutputPlan) -> bool {
    mixers(work.work.ops()).next().is_some()
}

/// Returns whether an op pastes a rectangle, so that its share depends on the size of the images.
fn needs_size(ops: &Ops) -> bool {
    mixers(ops).any(|mixer| mixer.op.needs_size())
}

/// Returns the ops that mix a list's batches, with their parameters: outputs with equal ones are mixed alike.
fn mixer_chain(ops: &Ops) -> Vec<String> {
    mixers(ops).map(|mixer| format!("{:?}", mixer.op)).collect()
}

fn mixer_names(ops: &Ops) -> String {
    mixers(ops).map(|mixer| mixer.name).collect::<Vec<_>>().join(", ")
}
