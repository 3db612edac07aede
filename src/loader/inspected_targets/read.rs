//! Reads the targets of a sample, and moves its masks.

use super::{InspectedTargets, MAP_OBJECTS, StoredObject, TargetStep};
use crate::decode::object_rows::{floats, other_count, rows_of};
use crate::decode::{Decoder, ImageReadMode};
use crate::error::Error;
use crate::jit::evaluate_steps;
use crate::loader::error::{of_field, of_output};
use crate::loader::target_rows::{
    TargetGroup, TargetMember, TargetScratch, TargetValues, bytes_of, masks_of,
};
use crate::loader::targets::{BoundingBoxes, Target, of_mask, other_size};
use crate::loader::work::open_image;
use crate::plan::{Draws, ImagePlan};
use crate::source::{Buffer, ClassNames, Source, Value};
use fuseloop_ops::internals::{ElementValue, ImageView, PixelFormat, memory};
use fuseloop_ops::{DType, Ops};
use std::cmp::Reverse;
use std::sync::Arc;

/// The endings of the names of columns of classes.
const CLASS_COLUMNS: [&str; 4] = ["category_id", "label", "class", "cls"];

/// How the targets of an image output are read and moved.
pub(in crate::loader) struct TargetPlans {
    group: TargetGroup,
    /// For each member that has masks, the plan that moves them.
    masks: Vec<Option<ImagePlan>>,
    /// The boxes as they come in a batch.
    boxes: Option<BoundingBoxes>,
    /// The index of the member with the classes of the objects.
    classes: Option<usize>,
    class_names: ClassNames,
}

/// The sample or the frame whose targets are read, and the memory for reading them.
pub(in crate::loader) struct TargetReader<'a> {
    pub(in crate::loader) values: TargetValues<'a>,
    pub(in crate::loader) buffer: &'a mut Buffer,
    pub(in crate::loader) decoder: &'a mut Decoder,
}

impl TargetPlans {
    /// Plans the targets of the image output `output`, whose plan is `plan`.
    pub(in crate::loader) fn new(
        source: &dyn Source,
        output: &str,
        group: &TargetGroup,
        plan: &ImagePlan,
        class_names: ClassNames,
    ) -> Result<Self, Error> {
        let refused = |error| of_output(error, output);
        let (mut masks, mut boxes) = (vec![], None);
        for member in &group.members {
            let fill = match &member.target {
                Target::Mask { fill } => Some(*fill),
                Target::InstanceMasks => Some(0),
                Target::Boxes(declared) => {
                    let after = declared.after(plan);
                    let field = source.field_name(member.field);
                    boxes = Some(after.map_err(|error| of_field(error, field))?);
                    None
                }
                Target::KeyPoints(_) | Target::Column(_) => None,
            };
            let mask = fill.map(|fill| plan.for_mask(DType::U8, fill, &Ops::new()));
            masks.push(mask.transpose().map_err(refused)?);
        }
        let classes = class_column(source, &group.members);
        Ok(Self { group: group.clone(), masks, boxes, classes, class_names })
    }

    /// Reads the targets of a sample whose image has these draws of `plan`.
    ///
    /// # Errors
    ///
    /// If a target is damaged, with the index of its field.
    pub(in crate::loader) fn read(
        &self,
        mut reader: TargetReader<'_>,
        plan: &ImagePlan,
        draws: &Draws,
    ) -> Result<InspectedTargets, (usize, Error)> {
        let mut scratch = TargetScratch::default();
        for member in self.group.read_first() {
            let value = reader.value(member)?;
            member.read(value, None, &mut scratch).map_err(|cause| (member.field, cause))?;
        }
        let objects = scratch.objects;
        let count = objects.len();
        let mut found = InspectedTargets {
            ops: plan.flat_ops().iter().map(|leaf| leaf.op.name()).collect(),
            has_objects: self.group.read_first().next().is_some(),
            stored: vec![StoredObject::default(); count],
            painted: vec![],
            boxes: self.boxes,
            keypoints: None,
            steps: vec![],
        };
        let after = plan.objects_after_ops(draws.key, draws.source, objects.clone());
        let stored = std::iter::once((draws.source, Arc::new(objects)));
        let step = |(size, objects)| TargetStep { size, objects, mask: None, maps: vec![] };
        found.steps = stored.chain(after).map(step).collect();
        for (row, object) in found.stored.iter_mut().enumerate() {
            let is_gone = |step: &TargetStep| step.objects.rows().binary_search(&row).is_err();
            object.removed_by = found.steps[1..].iter().position(is_gone);
        }
        for (member, (target, mask)) in self.group.members.iter().zip(&self.masks).enumerate() {
            let is_class = self.classes == Some(member);
            if !matches!(target.target, Target::Column(_)) || is_class {
                let added = self.add(&mut found, (target, mask.as_ref()), &mut reader, draws);
                added.map_err(|cause| (target.field, cause))?;
            }
        }
        Ok(found)
    }

    /// Adds what a target stores for the objects, or its masks.
    fn add(
        &self,
        found: &mut InspectedTargets,
        (member, mask): (&TargetMember, Option<&ImagePlan>),
        reader: &mut TargetReader<'_>,
        draws: &Draws,
    ) -> Result<(), Error> {
        let value = reader.values.read(member.field, reader.buffer)?;
        match (&member.target, mask) {
            (Target::Boxes(boxes), _) => {
                let each = boxes.formats()[0].columns();
                let rows = rows(value, DType::F32, each)?;
                for (object, row) in found.stored.iter_mut().zip(rows.chunks_exact(4 * each)) {
                    object.bounds.extend(floats(row));
                }
            }
            (Target::KeyPoints(points), _) => {
                let each = points.each() * points.columns();
                let rows = rows(value, DType::F32, each)?;
                for (object, row) in found.stored.iter_mut().zip(rows.chunks_exact(4 * each)) {
                    object.keypoints.extend(floats(row));
                }
                found.keypoints = Some(points.clone());
            }
            (Target::Column(dtype), _) => {
                let rows = rows(value, *dtype, 1)?.chunks_exact(dtype.bytes());
                check_count(rows.len(), found.stored.len())?;
                for (object, row) in found.stored.iter_mut().zip(rows) {
                    object.class = class_number(*dtype, row);
                    let name = object.class.and_then(|class| self.class_names.get(class));
                    object.name = name.map(str::to_owned);
                }
            }
            (Target::InstanceMasks, Some(plan)) => {
                found.add_instance_masks(bytes_of(value), plan, draws)?;
            }
            (Target::Mask { fill }, Some(plan)) => {
                let mut opened =
                    open_image(reader.decoder, value, ImageReadMode::Index, (None, None))?;
                let size = opened.size();
                if size != draws.source {
                    return Err(other_size(size, draws.source));
                }
                let decoded = opened.decode(size.full())?;
                let masks = moved(plan, &decoded.view, draws, found.ops.len())?;
                for (step, mask) in found.steps.iter_mut().zip(masks) {
                    step.mask = Some((mask, *fill));
                }
            }
            (Target::InstanceMasks | Target::Mask { .. }, None) => {}
        }
        Ok(())
    }
}

/// Returns the rows of `width` numbers that a target stores for the objects.
fn rows(value: Value<'_>, dtype: DType, width: usize) -> Result<&[u8], Error> {
    rows_of(bytes_of(value), dtype, width)
}

impl TargetReader<'_> {
    fn value(&mut self, member: &TargetMember) -> Result<Value<'_>, (usize, Error)> {
        let value = self.values.read(member.field, self.buffer);
        value.map_err(|error| (member.field, error.into()))
    }
}

impl InspectedTargets {
    /// Paints the masks of the objects into maps, and moves these.
    fn add_instance_masks(
        &mut self,
        bytes: &[u8],
        plan: &ImagePlan,
        draws: &Draws,
    ) -> Result<(), Error> {
        let (size, masks) = (draws.source, masks_of(bytes)?);
        check_count(masks.len(), self.stored.len())?;
        let mut order = vec![];
        for (row, mask) in masks.iter().enumerate() {
            let Some(mask) = mask else { continue };
            let area = mask.area(size).map_err(|error| of_mask(row, &error))?;
            // An object that goes is under those that stay, which are seen whole then.
            order.push((self.stored[row].removed_by.unwrap_or(usize::MAX), Reverse(area), row));
        }
        order.sort_unstable();
        self.painted = order.into_iter().map(|(.., row)| row).collect();
        let (mut map, mut own) = (vec![], vec![]);
        memory::resize(&mut own, size.pixels() as usize, "the mask of an object")?;
        for rows in self.painted.chunks(MAP_OBJECTS) {
            map.clear();
            memory::resize(&mut map, own.len(), "the masks of the objects")?;
            for (&row, number) in rows.iter().zip(1..) {
                let Some(mask) = &masks[row] else { continue };
                let filled = mask.fill(size, &mut own);
                filled.map_err(|error| of_mask(row, &error))?;
                for (pixel, own) in map.iter_mut().zip(&own) {
                    *pixel = if *own == 0 { *pixel } else { number };
                }
            }
            let format = PixelFormat { channels: 1, dtype: DType::U8 };
            let view = ImageView::packed_format(&map, size, format).expect("a byte for each pixel");
            for (step, map) in self.steps.iter_mut().zip(moved(plan, &view, draws, self.ops.len())?)
            {
                step.maps.push(map);
            }
        }
        Ok(())
    }
}

/// Returns the index of the member with the classes of the objects: the first column whose name ends like one of
/// [`CLASS_COLUMNS`], or else the first column, if it has integers.
fn class_column(source: &dyn Source, members: &[TargetMember]) -> Option<usize> {
    let is_column = |member: &TargetMember| matches!(member.target, Target::Column(_));
    let named = members.iter().position(|member| {
        let name = source.field_name(member.field);
        is_column(member) && CLASS_COLUMNS.iter().any(|end| name.ends_with(end))
    });
    named.or_else(|| {
        let first = members.iter().position(is_column)?;
        let is_float = |dtype| [DType::F16, DType::Bf16, DType::F32, DType::F64].contains(&dtype);
        match members[first].target {
            Target::Column(dtype) if !is_float(dtype) => Some(first),
            _ => None,
        }
    })
}

/// Returns the class that an element of a column stands for: a whole number.
fn class_number(dtype: DType, bytes: &[u8]) -> Option<i64> {
    let element = ElementValue::from_bytes(dtype, bytes);
    let class = element.converted(DType::I64);
    let is_whole =
        class.converted(DType::F64).as_float() == element.converted(DType::F64).as_float();
    class.as_i64().filter(|_| is_whole)
}

fn check_count(found: usize, expected: usize) -> Result<(), Error> {
    if found == expected { Ok(()) } else { Err(other_count(found, expected)) }
}

/// Returns a mask before the ops of an image and after each of its `ops` flat ops. `plan` is the plan of the mask, and
/// `draws` are those of the image.
fn moved(
    plan: &ImagePlan,
    mask: &ImageView<'_>,
    draws: &Draws,
    ops: usize,
) -> Result<Vec<Arc<[u8]>>, Error> {
    let mut own = Draws::default();
    plan.follow(draws, &mut own);
    let mut stored = vec![];
    memory::reserve(&mut stored, mask.size().pixels() as usize, "a mask")?;
    (0..mask.size().height).for_each(|y| stored.extend_from_slice(mask.row(y)));
    let mut masks: Vec<Arc<[u8]>> = vec![stored.into()];
    for step in evaluate_steps(plan, mask, &own)? {
        masks.push(step.picture.to_u8()?.into());
    }
    let after = |op: usize| plan.followed_ops().partition_point(|followed| *followed < op);
    Ok((0..=ops).map(|op| Arc::clone(&masks[after(op)])).collect())
}
