//! Checks the declared targets against the dataset.

use super::{BoundingBoxes, KeyPoints, Targets};
use crate::error::{Error, fail};
use crate::jit::Kernel;
use crate::plan::{ImagePlan, TargetKinds};
use crate::source::{Escaped, FieldKind, ObjectField, ObjectFields, Source};
use fuseloop_ops::author::{Objects, OpClass};
use fuseloop_ops::{DType, Size};
use std::sync::Arc;

/// The declaration of one field that follows an image.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::loader) enum Target {
    Boxes(BoundingBoxes),
    KeyPoints(KeyPoints),
    Column(DType),
    InstanceMasks,
    Mask { fill: u8 },
}

/// The targets of an image output: their fields, and what each is.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::loader) struct TargetRequest {
    pub(in crate::loader) fields: Vec<(usize, Target)>,
}

impl Target {
    /// Returns the word for the target in errors.
    fn word(&self) -> &'static str {
        match self {
            Self::Boxes(_) => "bounding boxes",
            Self::KeyPoints(_) => "keypoints",
            Self::Column(_) => "columns",
            Self::InstanceMasks => "instance masks",
            Self::Mask { .. } => "masks",
        }
    }

    /// Describes the target of an image of this name.
    pub(in crate::loader) fn describe(&self, image: &str) -> String {
        let image = Escaped(image);
        match self {
            Self::Boxes(BoundingBoxes { stored, output, is_normalized, .. }) => {
                let divided =
                    if *is_normalized { ", divided by the size of the image" } else { "" };
                format!("boxes of {image}, {} -> {}{divided}", stored.name(), output.name())
            }
            Self::KeyPoints(points) => format!("{} keypoint(s) per object of {image}", points.each),
            Self::Column(_) => format!("a number per object of {image}"),
            Self::InstanceMasks => {
                format!("a mask per object of {image}, moved by the nearest pixel")
            }
            Self::Mask { fill } => {
                format!("a mask of {image}, moved by the nearest pixel, {fill} outside")
            }
        }
    }

    /// Returns the bytes that are stored for an object; `None` if they are not a fixed number.
    pub(in crate::loader) fn stored_row(&self) -> Option<usize> {
        match self {
            Self::Boxes(boxes) => Some(4 * boxes.stored.columns()),
            Self::KeyPoints(points) => Some(4 * points.each * points.columns()),
            Self::Column(dtype) => Some(dtype.bytes()),
            Self::InstanceMasks | Self::Mask { .. } => None,
        }
    }

    /// Returns the type and the shape of an object in a batch; `size` is that of the image after its ops.
    pub(in crate::loader) fn row(&self, size: Size) -> (DType, Vec<usize>) {
        match self {
            Self::Boxes(boxes) => (DType::F32, vec![boxes.output.columns()]),
            Self::KeyPoints(points) => (DType::F32, vec![points.each, points.columns()]),
            Self::Column(dtype) => (*dtype, vec![]),
            Self::InstanceMasks | Self::Mask { .. } => {
                (DType::U8, vec![size.height as usize, size.width as usize])
            }
        }
    }

    /// Checks the declaration alone, and that the field has the kind that the target is stored as.
    fn check(&self, kind: &FieldKind) -> Result<(), Error> {
        let (wanted, fits) = match self {
            Self::InstanceMasks => ("JSON", matches!(kind, FieldKind::Json | FieldKind::Bytes)),
            Self::Mask { .. } => ("images", kind.is_image()),
            _ => ("bytes", *kind == FieldKind::Bytes),
        };
        if !fits {
            return Err(fail!(
                Pipeline,
                "{target} are stored as {wanted}; this is {kind}",
                target = self.word(),
                kind = kind.word()
            ));
        }
        match self {
            Self::Boxes(boxes) => boxes.check(),
            Self::KeyPoints(points) => points.check(),
            _ => Ok(()),
        }
    }
}

impl BoundingBoxes {
    fn check(&self) -> Result<(), Error> {
        let (stored, output) = (self.stored.name(), self.output.name());
        if self.stored.is_rotated() != self.output.is_rotated() {
            return Err(fail!(
                Pipeline,
                "boxes of format {stored} can't become {output}: one is rotated and the other is not"
            ));
        }
        if self.is_normalized && self.output.is_rotated() {
            return Err(fail!(
                Pipeline,
                "boxes of format {output} can't be normalized: their angles and lengths would change"
            ));
        }
        Ok(())
    }

    /// Returns the declaration with the format that the ops of an image leave boxes in.
    pub(in crate::loader) fn after(&self, plan: &ImagePlan) -> Result<Self, Error> {
        let mut none = Objects::default();
        none.set_boxes([], self.output, self.clamping);
        for leaf in plan.passes().flat_map(ImagePlan::flat_ops) {
            if let OpClass::Objects(op) = leaf.op.class() {
                op.apply(Size::default(), &mut none);
            }
        }
        let boxes = Self { output: none.format(), ..*self };
        boxes.check().map(|()| boxes)
    }
}

impl KeyPoints {
    fn check(&self) -> Result<(), Error> {
        let each = self.each;
        let is_pair = |&[one, other]: &[usize; 2]| one < each && other < each && one != other;
        let wrong = self.flip_pairs.iter().find(|pair| !is_pair(pair)).copied();
        let wrong = wrong.or((!(1..=1024).contains(&each)).then_some([0, each]));
        wrong.map_or(Ok(()), |pair| Err(fail!(
            Pipeline,
            "keypoints {pair:?} of {each}: expected 1 to 1024 keypoints, and pairs of two of them"
        )))
    }
}

impl TargetRequest {
    /// Checks the targets of the image `image` against the dataset; `fields` are the indices of their fields.
    pub(in crate::loader) fn new(
        (source, known): (&dyn Source, &ObjectFields),
        image: usize,
        targets: &Targets,
        fields: Vec<usize>,
    ) -> Result<Self, (usize, Error)> {
        let kind = &source.fields()[image].kind;
        if !kind.is_image() {
            return Err((
                image,
                fail!(Pipeline, "targets follow images; this is {kind}", kind = kind.word()),
            ));
        }
        let mut own = Self::default();
        for (field, (_, target)) in fields.into_iter().zip(&targets.fields) {
            let kind = &source.fields()[field].kind;
            own.declare(field, target, kind, field == image).map_err(|error| (field, error))?;
            if let Target::Boxes(boxes) = target
                && let Some(known @ ObjectField::Boxes(format)) =
                    known.get(&source.fields()[field].name)
                && format != boxes.stored
            {
                let declared = boxes.stored.name();
                return Err((
                    field,
                    fail!(
                        Pipeline,
                        "boxes of format {declared} are declared, and the dataset says: {known}"
                    ),
                ));
            }
        }
        Ok(own)
    }

    /// Checks targets whose values are given with each image; the fields are their numbers.
    pub(in crate::loader) fn of_values(targets: &Targets) -> Result<Self, Error> {
        let mut own = Self::default();
        for (number, (name, target)) in targets.fields.iter().enumerate() {
            let kind = match target {
                Target::InstanceMasks => FieldKind::Json,
                Target::Mask { .. } => FieldKind::RgbImage,
                Target::Boxes(_) | Target::KeyPoints(_) | Target::Column(_) => FieldKind::Bytes,
            };
            let is_named_twice = targets.names().take(number).any(|other| other == name);
            let declared = own.declare(number, target, &kind, is_named_twice);
            declared.map_err(|error| {
                error.context(format_args!("target {}", Escaped(name))).of_field(name)
            })?;
        }
        Ok(own)
    }

    /// Adds a target, which is stored as a field of a kind. `is_taken` is true if something else has its field.
    fn declare(
        &mut self,
        field: usize,
        target: &Target,
        kind: &FieldKind,
        is_taken: bool,
    ) -> Result<(), Error> {
        let is_only = !matches!(target, Target::Column(_) | Target::Mask { .. });
        let is_twice = self.fields.iter().any(|(other, before)| {
            *other == field
                || is_only && std::mem::discriminant(before) == std::mem::discriminant(target)
        });
        if is_twice || is_taken {
            return Err(fail!(
                Pipeline,
                "{target} are declared twice: an image has one field of them",
                target = target.word()
            ));
        }
        target.check(kind)?;
        self.fields.push((field, target.clone()));
        Ok(())
    }

    /// Returns the kinds of targets that there are.
    pub(in crate::loader) fn kinds(&self) -> TargetKinds {
        let has = |is: fn(&Target) -> bool| self.fields.iter().any(|(_, target)| is(target));
        TargetKinds {
            any: !self.fields.is_empty(),
            boxes: has(|target| matches!(target, Target::Boxes(_))),
            keypoints: has(|target| matches!(target, Target::KeyPoints(_))),
            instance_masks: has(|target| matches!(target, Target::InstanceMasks)),
            masks: has(|target| matches!(target, Target::Mask { .. })),
            may_lack_objects: false,
        }
    }

    /// Returns the most objects of a sample, as far as the source reports the lengths of their bytes.
    pub(in crate::loader) fn most_objects(&self, source: &dyn Source) -> Option<usize> {
        let of_field = |(field, target): &(usize, Target)| {
            let bytes = source.longest(*field)? / target.stored_row()? as u64;
            Some(usize::try_from(bytes).unwrap_or(usize::MAX))
        };
        self.fields.iter().filter_map(of_field).min()
    }
}

impl Targets {
    /// Returns the names of the fields.
    pub(in crate::loader) fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(name, _)| &**name)
    }

    /// Returns the names of the targets that are no masks of the whole image.
    pub(in crate::loader) fn objects(&self) -> impl Iterator<Item = &str> {
        let is_object = |(_, target): &&(String, Target)| !matches!(target, Target::Mask { .. });
        self.fields.iter().filter(is_object).map(|(name, _)| &**name)
    }
}

/// A target of a batch: what its rows are computed with.
#[derive(Clone, Debug)]
pub(in crate::loader) struct PlannedTarget {
    /// The declaration; its boxes have the format that the ops of the image leave them in.
    pub(in crate::loader) target: Target,
    /// The kernel that runs once for each object, if the target is instance masks.
    pub(in crate::loader) object_masks: Option<Arc<Kernel>>,
    /// Those of the later passes over the finished batch.
    pub(in crate::loader) later_object_masks: Vec<Arc<Kernel>>,
}
