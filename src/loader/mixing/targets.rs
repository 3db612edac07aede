//! Mixes the images of a finished batch together with their targets.
//!
//! ```text
//! counts of objects ─▶ draws ─▶ for each row: the objects that it gets, each with a placement
//!                                    │
//!            images, masks, boxes, keypoints, instance masks and columns are written from these
//! ```
//!
//! Each output is copied before it is written, so that all rows read the batch as it was. Numbers that do not change
//! keep their bytes; a box or a keypoint that moves is read, moved in f64 and rounded once more.

use super::{copy_window, plane_and_pixel};
use crate::batch::RowsMut;
use crate::error::{Error, fail};
use crate::loader::collate::Collated;
use crate::loader::targets::{BoundingBoxes, KeyPoints, Target};
use crate::plan::batch_ops::MultiImageMixer;
use fuseloop_ops::author::{
    BoundingBox, ImageMix, ImageType, Keypoint, MultiImageOp, ObjectOp, Objects, RowMix, Window,
};
use fuseloop_ops::internals::{BatchKey, memory};
use fuseloop_ops::{ClampingMode, Size};

/// Mixes the targets of an image, and, for ops that make an image of several, the image.
#[derive(Debug)]
pub(in crate::loader) struct TargetMixer {
    /// The size of the images.
    pub(in crate::loader) size: Size,
    /// The image and its masks.
    pub(in crate::loader) images: Vec<MixedImage>,
    /// The tensors with a row for each object, which all have room for as many objects.
    pub(in crate::loader) objects: Vec<ObjectRows>,
}

/// An image, or the mask of one.
#[derive(Debug)]
pub(in crate::loader) struct MixedImage {
    /// The index of the output.
    pub(in crate::loader) output: usize,
    pub(in crate::loader) image: ImageType,
}

/// A tensor with a row for each object.
#[derive(Debug)]
pub(in crate::loader) struct ObjectRows {
    /// The index of the output.
    pub(in crate::loader) output: usize,
    /// The index of the tensor with the numbers of objects.
    pub(in crate::loader) lengths: usize,
    pub(in crate::loader) target: Target,
    pub(in crate::loader) collated: Collated,
}

/// A row of a mixed batch.
struct NewRow {
    pixels: NewPixels,
    objects: Vec<PlacedObject>,
}

enum NewPixels {
    /// They are blended elsewhere.
    Blended,
    /// The pixels of a partner replace those where `alpha` is not 0.
    Pasted { partner: usize, alpha: Vec<u8> },
    /// The parts of several rows.
    Parts([Part; 4]),
    /// They stay, and these are the objects after an op that changes them.
    Same(Objects),
}

/// A window of an image that another row's pixels fill.
#[derive(Clone, Copy)]
struct Part {
    row: usize,
    window: Window,
    /// The row and column of the source at which the window begins.
    from: [u32; 2],
}

/// An object of a mixed row: one of the unmixed batch, and what becomes of it.
struct PlacedObject {
    row: usize,
    object: usize,
    placement: Placement,
}

#[derive(Clone, Copy)]
enum Placement {
    /// It stays as it is.
    Unchanged,
    /// Pasted objects cover some of its pixels; those that are left have these edges.
    Covered([f64; 4]),
    /// It moves with the pixels of a part, and is cut at its window.
    Moved(Part),
    /// An op has changed it: the object of this index among those that the op leaves.
    Changed(usize),
}

impl TargetMixer {
    /// Makes the images of a finished batch of several, with their objects.
    ///
    /// # Errors
    ///
    /// If a row would get more objects than it has room for, or there is not enough memory for a copy of an output.
    pub(in crate::loader) fn mix(
        &self,
        mixer: MultiImageMixer<'_>,
        key: BatchKey,
        rows: &mut RowsMut<'_>,
        spare: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let count = rows.len();
        let mut outputs: Vec<&mut [u8]> = rows.outputs().collect();
        let outputs = &mut *outputs;
        let counts = self.counts(count, outputs);
        let mixes = mixer.draw(key, &counts, self.size);
        self.apply((mixer.op, mixes), &counts, outputs, spare)
    }

    /// Mixes rows with `counts` objects as they were drawn.
    fn apply(
        &self,
        (op, mixes): (&dyn MultiImageOp, Vec<ImageMix>),
        counts: &[usize],
        outputs: &mut [&mut [u8]],
        spare: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let drawn = mixes.into_iter().enumerate();
        let new = drawn.map(|(row, mix)| self.new_row(op, (row, mix), counts, outputs));
        let new = new.collect::<Result<Vec<_>, _>>()?;
        for image in &self.images {
            self.write_image(image, &new, outputs, spare)?;
        }
        self.write_objects(new, counts, outputs, spare)
    }

    /// Changes or removes the objects of a finished batch as an op does those of a sample.
    ///
    /// # Errors
    ///
    /// If there is not enough memory for a copy of a target.
    pub(in crate::loader) fn change_objects(
        &self,
        op: &dyn ObjectOp,
        rows: &mut RowsMut<'_>,
        spare: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let count = rows.len();
        let mut outputs: Vec<&mut [u8]> = rows.outputs().collect();
        let outputs = &mut *outputs;
        let counts = self.counts(count, outputs);
        let new = counts.iter().enumerate().map(|(row, objects)| {
            let before = self.objects_of((row, *objects), outputs);
            let mut after = before.clone();
            op.apply(self.size, &mut after);
            (before != after).then(|| changed(row, &before, after))
        });
        let new = new.collect();
        self.write_objects(new, &counts, outputs, spare)
    }

    /// Returns the objects of a row, of which there are `count`.
    pub(super) fn objects_of(
        &self,
        (row, count): (usize, usize),
        outputs: &[&mut [u8]],
    ) -> Objects {
        let rows = self.row_count(outputs);
        let mut objects = Objects::default();
        objects.reset(count);
        for own in &self.objects {
            let of_each = (0..count).map(|object| own.row(outputs, rows, row, object));
            match &own.target {
                Target::Boxes(boxes) => {
                    let bounds = of_each.map(|bytes| boxes.read_row(bytes, self.size));
                    objects.set_boxes(bounds, boxes.formats()[1], boxes.clamping_mode());
                }
                Target::KeyPoints(points) => {
                    let each = of_each.flat_map(|bytes| points.read_row(bytes));
                    objects.set_keypoints(each, points.each(), points.pairs());
                }
                Target::Column(_) | Target::InstanceMasks | Target::Mask { .. } => {}
            }
        }
        objects
    }

    /// Appends the objects of its partner to each row that is mixed with another one.
    ///
    /// # Errors
    ///
    /// See [`mix`](Self::mix).
    pub(in crate::loader) fn join(
        &self,
        mixed: &[RowMix],
        rows: &mut RowsMut<'_>,
        spare: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let count = rows.len();
        let mut outputs: Vec<&mut [u8]> = rows.outputs().collect();
        let outputs = &mut *outputs;
        let counts = self.counts(count, outputs);
        let each = mixed.iter().enumerate().map(|(row, RowMix { partner, share, .. })| {
            let of = |row: usize| (0..counts[row]).map(move |object| unchanged(row, object));
            let is_mixed = *share != 1.0 && *partner != row;
            let objects = || of(row).chain(of(*partner)).collect();
            is_mixed.then(|| NewRow { pixels: NewPixels::Blended, objects: objects() })
        });
        self.write_objects(each.collect(), &counts, outputs, spare)
    }

    /// Returns the number of objects of each of `count` rows.
    pub(super) fn counts(&self, count: usize, outputs: &[&mut [u8]]) -> Vec<usize> {
        let Some(rows) = self.objects.first() else { return vec![0; count] };
        let lengths = outputs[rows.lengths].as_chunks().0;
        let lengths = lengths.iter().map(|length| i64::from_ne_bytes(*length));
        lengths.map(|length| usize::try_from(length).unwrap_or(0).min(rows.room())).collect()
    }

    /// Returns the tensor with the boxes, and their declaration.
    fn boxes(&self) -> Option<(&ObjectRows, &BoundingBoxes)> {
        self.objects.iter().find_map(|rows| match &rows.target {
            Target::Boxes(boxes) => Some((rows, boxes)),
            _ => None,
        })
    }

    /// Returns the tensor with the masks of the objects.
    fn instance_masks(&self) -> Option<&ObjectRows> {
        self.objects.iter().find(|rows| matches!(rows.target, Target::InstanceMasks))
    }

    /// Returns what a row becomes; `None` if it stays as it is.
    fn new_row(
        &self,
        op: &dyn MultiImageOp,
        (row, mix): (usize, ImageMix),
        counts: &[usize],
        outputs: &[&mut [u8]],
    ) -> Result<Option<NewRow>, Error> {
        match mix {
            ImageMix::Unchanged => Ok(None),
            ImageMix::Paste { partner, objects } => {
                let chosen = (partner, &objects[..]);
                self.pasted(op, (row, chosen), counts, outputs).map(Some)
            }
            ImageMix::Mosaic { rows, center } => {
                let parts = parts(rows, center, self.size);
                let each =
                    parts.iter().flat_map(|part| (0..counts[part.row]).map(move |i| (part, i)));
                let shown = each.filter(|(part, object)| self.is_shown(op, part, *object, outputs));
                let placed = shown.map(|(part, object)| PlacedObject {
                    row: part.row,
                    object,
                    placement: Placement::Moved(*part),
                });
                let objects = placed.collect();
                Ok(Some(NewRow { pixels: NewPixels::Parts(parts), objects }))
            }
        }
    }

    /// Returns a row with pasted objects of a partner.
    fn pasted(
        &self,
        op: &dyn MultiImageOp,
        (row, (partner, chosen)): (usize, (usize, &[usize])),
        counts: &[usize],
        outputs: &[&mut [u8]],
    ) -> Result<NewRow, Error> {
        let masks = self.instance_masks().expect("checked when the loader was built");
        let mut alpha = vec![];
        memory::resize(&mut alpha, self.size.pixels() as usize, "a mask of pasted objects")?;
        for object in chosen {
            let mask = masks.row(outputs, counts.len(), partner, *object);
            alpha.iter_mut().zip(mask).for_each(|(alpha, mask)| *alpha |= mask);
        }
        let own = (0..counts[row]).filter_map(|object| {
            let mask = masks.row(outputs, counts.len(), row, object);
            let edges = uncovered(mask, &alpha, self.size.width as usize)?;
            Some(PlacedObject { row, object, placement: Placement::Covered(edges) })
        });
        let is_shown = |object: &&usize| {
            let mask = masks.row(outputs, counts.len(), partner, **object);
            let bounds = self.boxes().map(|(rows, boxes)| {
                boxes.read_row(rows.row(outputs, counts.len(), partner, **object), self.size)
            });
            mask.iter().any(|pixel| *pixel != 0) && bounds.is_none_or(|bounds| op.keeps(bounds))
        };
        let pasted = chosen.iter().filter(is_shown).map(|object| unchanged(partner, *object));
        let objects = own.chain(pasted).collect();
        Ok(NewRow { pixels: NewPixels::Pasted { partner, alpha }, objects })
    }

    /// Returns whether a part shows enough of an object: of its box, or else of its mask. An object with a mask needs a
    /// pixel of it.
    fn is_shown(
        &self,
        op: &dyn MultiImageOp,
        part: &Part,
        object: usize,
        outputs: &[&mut [u8]],
    ) -> bool {
        let count = self.row_count(outputs);
        let boxes = self.boxes().map(|(rows, boxes)| {
            let bounds = boxes.read_row(rows.row(outputs, count, part.row, object), self.size);
            part.cut(bounds, shown_mode(boxes))
        });
        if boxes.is_some_and(|bounds| !op.keeps(bounds)) {
            return false;
        }
        let Some(masks) = self.instance_masks() else { return true };
        let mask = masks.row(outputs, count, part.row, object);
        match (part.shown_edges(mask, self.size.width as usize), boxes) {
            (Some(edges), None) => op.keeps(BoundingBox::Edges(edges)),
            (Some(_), Some(_)) => true,
            // An object may have a box and no mask at all.
            (None, _) => boxes.is_some() && mask.iter().all(|pixel| *pixel == 0),
        }
    }

    /// Returns the number of rows of the batch.
    fn row_count(&self, outputs: &[&mut [u8]]) -> usize {
        self.objects.first().map_or(0, |rows| outputs[rows.lengths].len() / size_of::<i64>())
    }

    /// Writes the rows of an image or a mask.
    fn write_image(
        &self,
        MixedImage { output, image }: &MixedImage,
        new: &[Option<NewRow>],
        outputs: &mut [&mut [u8]],
        spare: &mut Vec<u8>,
    ) -> Result<(), Error> {
        if new.iter().all(Option::is_none) {
            return Ok(());
        }
        let bytes = &mut *outputs[*output];
        let (room, len) = (bytes.len() / new.len(), image_bytes(*image, self.size));
        spare.clear();
        memory::reserve(spare, len * new.len(), "a copy of the images of a batch")?;
        bytes.chunks_exact(room).for_each(|row| spare.extend_from_slice(&row[..len]));
        let unmixed = |row: usize| &spare[row * len..][..len];
        for (to, new) in bytes.chunks_exact_mut(room).zip(new) {
            let to = &mut to[..len];
            match new.as_ref().map(|new| &new.pixels) {
                None | Some(NewPixels::Blended | NewPixels::Same(_)) => {}
                Some(NewPixels::Pasted { partner, alpha }) => {
                    paste_where(to, unmixed(*partner), (*image, self.size), alpha);
                }
                Some(NewPixels::Parts(parts)) => {
                    for Part { row, window, from } in parts {
                        copy_window(to, unmixed(*row), (*image, self.size), *window, *from);
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes the rows of all objects, and their numbers.
    fn write_objects(
        &self,
        mut new: Vec<Option<NewRow>>,
        counts: &[usize],
        outputs: &mut [&mut [u8]],
        spare: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let Some(first) = self.objects.first() else { return Ok(()) };
        let (max, truncate) = (first.room(), first.collated.truncate);
        for NewRow { objects, .. } in new.iter_mut().flatten() {
            if objects.len() > max && !truncate {
                return Err(fail!(
                    Damaged,
                    "a mixed image has {} objects, the rows of its targets have room for {max}: raise `to` in their \
                     `collate`, or use `truncate`",
                    objects.len()
                ));
            }
            objects.truncate(max);
        }
        for rows in &self.objects {
            rows.write(&new, counts, self.size, outputs, spare)?;
        }
        Ok(())
    }
}

fn unchanged(row: usize, object: usize) -> PlacedObject {
    PlacedObject { row, object, placement: Placement::Unchanged }
}

/// Returns the bytes of an image.
pub(super) fn image_bytes(image: ImageType, size: Size) -> usize {
    size.pixels() as usize * usize::from(image.channels) * image.dtype.bytes()
}

/// Returns the mode by which a box is cut to find out whether some of it is shown.
fn shown_mode(boxes: &BoundingBoxes) -> ClampingMode {
    match boxes.clamping_mode() {
        ClampingMode::None => ClampingMode::Soft,
        mode => mode,
    }
}

/// Returns a row whose objects an op has changed. Those that it leaves as they were keep their bytes.
fn changed(row: usize, before: &Objects, after: Objects) -> NewRow {
    let points = |objects: &Objects, object: usize| {
        let each = objects.keypoints_each();
        objects.keypoints().get(object * each..(object + 1) * each).map(<[_]>::to_vec)
    };
    let is_same = |new: usize, old: usize| {
        after.boxes().get(new) == before.boxes().get(old)
            && points(&after, new) == points(before, old)
    };
    let objects = after.rows().iter().enumerate().map(|(new, &object)| {
        let placement = match is_same(new, object) {
            true => Placement::Unchanged,
            false => Placement::Changed(new),
        };
        PlacedObject { row, object, placement }
    });
    NewRow { objects: objects.collect(), pixels: NewPixels::Same(after) }
}

/// Returns the parts of a mosaic.
fn parts(rows: [usize; 4], [yc, xc]: [u32; 2], size: Size) -> [Part; 4] {
    let Size { height, width } = size;
    // The first line that is written and their number, and the first that is read.
    let above = ((0, yc), height - yc);
    let below = ((yc, height - yc), 0);
    let left = ((0, xc), width - xc);
    let right = ((xc, width - xc), 0);
    let places = [(above, left), (above, right), (below, left), (below, right)];
    std::array::from_fn(|i| {
        let (((top, height), from_top), ((left, width), from_left)) = places[i];
        let window = Window { top, left, height, width };
        Part { row: rows[i], window, from: [from_top, from_left] }
    })
}

impl Part {
    /// Returns how far the pixels move to the right, and down.
    fn shift(&self) -> [f64; 2] {
        let Window { top, left, .. } = self.window;
        let [from_top, from_left] = self.from.map(f64::from);
        [f64::from(left) - from_left, f64::from(top) - from_top]
    }

    /// Returns a box that moves with the pixels and is cut at the window.
    fn cut(&self, bounds: BoundingBox, mode: ClampingMode) -> BoundingBox {
        // The window is the image that the box is cut at, so its corner is the origin meanwhile.
        let [from_top, from_left] = self.from.map(f64::from);
        let cut = moved(bounds, [-from_left, -from_top]).clamped(self.window.size(), mode);
        moved(cut, [self.window.left, self.window.top].map(f64::from))
    }

    /// Returns the edges of the pixels of a mask that are shown, in the mask's image; `None` if there is none.
    fn shown_edges(&self, mask: &[u8], width: usize) -> Option<[f64; 4]> {
        let [top, left] = self.from.map(|from| from as usize);
        let Window { height: lines, width: columns, .. } = self.window;
        let spans = (top..top + lines as usize).filter_map(|y| {
            let line = &mask[y * width + left..][..columns as usize];
            let first = line.iter().position(|pixel| *pixel != 0)?;
            let last = line.iter().rposition(|pixel| *pixel != 0)?;
            Some([left + first, y, left + last + 1, y + 1])
        });
        around(spans)
    }

    /// Returns a keypoint that moves with the pixels; one outside the window is not labelled.
    fn keypoint(&self, point: Keypoint) -> Keypoint {
        let shift = self.shift();
        let at = [0, 1].map(|axis| point.at[axis] + shift[axis]);
        let Window { top, left, height, width } = self.window;
        let ends = [(left, left + width), (top, top + height)];
        let is_inside = at
            .iter()
            .zip(ends)
            .all(|(place, (start, end))| (f64::from(start)..f64::from(end)).contains(place));
        Keypoint { at, visibility: if is_inside { point.visibility } else { 0.0 } }
    }
}

fn moved(bounds: BoundingBox, [dx, dy]: [f64; 2]) -> BoundingBox {
    match bounds {
        BoundingBox::Edges([x1, y1, x2, y2]) => {
            BoundingBox::Edges([x1 + dx, y1 + dy, x2 + dx, y2 + dy])
        }
        BoundingBox::Corners(corners) => {
            BoundingBox::Corners(corners.map(|[x, y]| [x + dx, y + dy]))
        }
    }
}

/// Returns the left, top, right and bottom edge of the pixels of a mask that `alpha` does not cover; `None` if there is
/// none.
fn uncovered(mask: &[u8], alpha: &[u8], width: usize) -> Option<[f64; 4]> {
    let lines = mask.chunks_exact(width).zip(alpha.chunks_exact(width)).enumerate();
    let spans = lines.filter_map(|(y, (mask, alpha))| {
        let is_left = |(mask, alpha): (&u8, &u8)| *mask != 0 && *alpha == 0;
        let first = mask.iter().zip(alpha).position(is_left)?;
        let last = mask.iter().zip(alpha).rposition(is_left)?;
        Some([first, y, last + 1, y + 1])
    });
    around(spans)
}

/// Returns the smallest box around spans of pixels in lines, from top to bottom; `None` if there is no span.
fn around(spans: impl Iterator<Item = [usize; 4]>) -> Option<[f64; 4]> {
    let edges = spans.reduce(|[x1, y1, x2, _], [first, _, last, bottom]| {
        [x1.min(first), y1, x2.max(last), bottom]
    });
    edges.map(|edges| edges.map(|edge| edge as f64))
}

/// Copies the pixels of `partner` where `alpha` is not 0.
fn paste_where(own: &mut [u8], partner: &[u8], (image, size): (ImageType, Size), alpha: &[u8]) {
    let (plane, pixel) = plane_and_pixel(image, size, own.len());
    let mut start = 0;
    for run in alpha.chunk_by(|a, b| (*a == 0) == (*b == 0)) {
        let range = start * pixel..(start + run.len()) * pixel;
        start += run.len();
        if run[0] != 0 {
            let planes = own.chunks_exact_mut(plane).zip(partner.chunks_exact(plane));
            planes.for_each(|(own, partner)| {
                own[range.clone()].copy_from_slice(&partner[range.clone()]);
            });
        }
    }
}

impl ObjectRows {
    /// Returns the number of objects that a row has room for.
    fn room(&self) -> usize {
        self.collated.shape[0]
    }

    /// Returns the bytes of an object, in a batch of `count` rows.
    fn row<'a>(
        &self,
        outputs: &'a [&mut [u8]],
        count: usize,
        row: usize,
        object: usize,
    ) -> &'a [u8] {
        let (bytes, item) = (&*outputs[self.output], self.collated.item);
        &bytes[row * (bytes.len() / count) + object * item..][..item]
    }

    /// Writes the rows that change.
    fn write(
        &self,
        new: &[Option<NewRow>],
        counts: &[usize],
        size: Size,
        outputs: &mut [&mut [u8]],
        spare: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let item = self.collated.item;
        let bytes = &mut *outputs[self.output];
        let len = bytes.len() / counts.len();
        spare.clear();
        memory::reserve(
            spare,
            counts.iter().sum::<usize>() * item,
            "a copy of the targets of a batch",
        )?;
        let mut starts = Vec::with_capacity(counts.len());
        for (row, count) in bytes.chunks_exact(len).zip(counts) {
            starts.push(spare.len());
            spare.extend_from_slice(&row[..count * item]);
        }
        for (to, new) in bytes.chunks_exact_mut(len).zip(new) {
            let Some(NewRow { pixels, objects }) = new else { continue };
            let (filled, rest) = to.split_at_mut(objects.len() * item);
            for (to, placed) in filled.chunks_exact_mut(item).zip(objects) {
                let from = &spare[starts[placed.row] + placed.object * item..][..item];
                self.write_object(from, to, (placed.placement, pixels), size);
            }
            self.collated.pad(&mut rest[..self.collated.row_bytes() - objects.len() * item]);
        }
        let lengths = outputs[self.lengths].as_chunks_mut().0.iter_mut();
        for (length, new) in lengths.zip(new) {
            if let Some(NewRow { objects, .. }) = new {
                *length = (objects.len() as i64).to_ne_bytes();
            }
        }
        Ok(())
    }

    /// Writes one object.
    fn write_object(
        &self,
        from: &[u8],
        to: &mut [u8],
        (placement, pixels): (Placement, &NewPixels),
        size: Size,
    ) {
        match (&self.target, placement, pixels) {
            (Target::Boxes(boxes), Placement::Covered(edges), _) => {
                boxes.write_row(BoundingBox::Edges(edges), size, to);
            }
            (Target::Boxes(boxes), Placement::Moved(part), _) => {
                let bounds = part.cut(boxes.read_row(from, size), boxes.clamping_mode());
                boxes.write_row(bounds, size, to);
            }
            (Target::Boxes(boxes), Placement::Changed(index), NewPixels::Same(objects)) => {
                boxes.write_row(objects.boxes()[index], size, to);
            }
            (Target::KeyPoints(points), Placement::Changed(index), NewPixels::Same(objects)) => {
                let each = objects.keypoints_each();
                points.write_row(&objects.keypoints()[index * each..][..each], to);
            }
            (Target::KeyPoints(points), Placement::Covered(_), NewPixels::Pasted { alpha, .. }) => {
                hide(points, (from, to), alpha, size);
            }
            (Target::KeyPoints(points), Placement::Moved(part), _) => {
                points.change_row(from, to, |point| match point.visibility {
                    0.0 => point,
                    _ => part.keypoint(point),
                });
            }
            (Target::InstanceMasks, Placement::Covered(_), NewPixels::Pasted { alpha, .. }) => {
                for ((to, from), alpha) in to.iter_mut().zip(from).zip(alpha) {
                    *to = if *alpha == 0 { *from } else { 0 };
                }
            }
            (Target::InstanceMasks, Placement::Moved(part), _) => {
                to.fill(0);
                let mask = ImageType::from(size).with_channels(1);
                copy_window(to, from, (mask, size), part.window, part.from);
            }
            _ => to.copy_from_slice(from),
        }
    }
}

/// Hides the visible keypoints of an object where `alpha` is not 0.
fn hide(points: &KeyPoints, (from, to): (&[u8], &mut [u8]), alpha: &[u8], size: Size) {
    points.change_row(from, to, |point| {
        let sides = [size.width, size.height].map(f64::from);
        let is_inside = point.at.iter().zip(sides).all(|(at, side)| (0.0..side).contains(at));
        let [x, y] = point.at.map(|place| place as usize);
        let is_covered = is_inside && alpha[y * size.width as usize + x] != 0;
        let visibility = if is_covered { point.visibility.min(1.0) } else { point.visibility };
        Keypoint { visibility, ..point }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::ImageReadMode;
    use crate::loader::collate::Collate;
    use crate::source::FieldKind;
    use fuseloop_ops::{BoxFormat, DType, SimpleCopyPaste};
    use serde_json::Value;

    const ROOM: usize = 12;

    fn rows(output: usize, target: Target, (dtype, inner): (DType, &[usize])) -> ObjectRows {
        let collate = Collate::ragged().of(dtype, inner).to(ROOM);
        let collated = collate.plan(&FieldKind::Bytes, ImageReadMode::Rgb, &vec![]);
        let mut collated = collated.unwrap();
        collated.shape.insert(0, ROOM);
        ObjectRows { output, lengths: 4, target, collated }
    }

    fn numbers(scene: &Value, name: &str) -> Vec<f64> {
        let all = scene[name].as_array().unwrap();
        let flat = all.iter().flat_map(|value| match value {
            Value::Array(row) => row.clone(),
            Value::String(digits) => digits.bytes().map(|digit| (digit - b'0').into()).collect(),
            number => vec![number.clone()],
        });
        flat.map(|number| number.as_f64().unwrap()).collect()
    }

    /// The bytes of a scene: its image, boxes, labels and masks, and the number of its objects.
    fn bytes(scene: &Value) -> [Vec<u8>; 5] {
        let levels = |name| numbers(scene, name).into_iter().map(|level| level as u8).collect();
        let boxes =
            numbers(scene, "boxes").into_iter().flat_map(|edge| (edge as f32).to_ne_bytes());
        let labels = numbers(scene, "labels");
        let count = (labels.len() as i64).to_ne_bytes().to_vec();
        let labels = labels.into_iter().flat_map(|label| (label as i64).to_ne_bytes());
        [levels("image"), boxes.collect(), labels.collect(), levels("masks"), count]
    }

    /// The golden has the draws of torchvision's references. Their boxes of masks end at the last pixel.
    #[test]
    fn pasted_objects_are_those_of_torchvisions_references() {
        let golden = include_str!("../../../tests/golden/targets/copy_paste.json");
        let golden: Value = serde_json::from_str(golden).unwrap();
        let side = |name: &str| golden[name].as_u64().unwrap();
        let size = Size::new(side("height") as u32, side("width") as u32);
        let (pixels, plane) = (size.pixels() as usize, ImageType::from(size).with_channels(1));
        let lines = [size.height as usize, size.width as usize];
        let mixer = TargetMixer {
            size,
            images: vec![MixedImage { output: 0, image: plane }],
            objects: vec![
                rows(1, Target::Boxes(BoxFormat::Xyxy.into()), (DType::F32, &[4])),
                rows(2, Target::Column(DType::I64), (DType::I64, &[])),
                rows(3, Target::InstanceMasks, (DType::U8, &lines)),
            ],
        };
        let row_bytes = [pixels, ROOM * 16, ROOM * 8, ROOM * pixels, 8];
        for case in golden["cases"].as_array().unwrap() {
            let mut batch = row_bytes.map(|bytes| vec![0; 2 * bytes]);
            for (row, name) in ["own", "partner"].into_iter().enumerate() {
                for (k, stored) in bytes(&case[name]).iter().enumerate() {
                    batch[k][row * row_bytes[k]..][..stored.len()].copy_from_slice(stored);
                }
            }
            let partner_before = batch.each_ref().map(|rows| rows[rows.len() / 2..].to_vec());
            let chosen = case["chosen"].as_array().unwrap().iter();
            let objects = chosen.map(|object| object.as_u64().unwrap() as usize).collect();
            let paste = ImageMix::Paste { partner: 1, objects };
            {
                let mut outputs: Vec<&mut [u8]> =
                    batch.iter_mut().map(|rows| &mut **rows).collect();
                let counts = mixer.counts(2, &outputs);
                let mixes = vec![paste, ImageMix::Unchanged];
                mixer
                    .apply((&SimpleCopyPaste::new(), mixes), &counts, &mut outputs, &mut vec![])
                    .unwrap();
            }
            let mut wanted = bytes(&case["out"]);
            let own_left = case["own_left"].as_u64().unwrap() as usize;
            for own in wanted[1].chunks_exact_mut(16).take(own_left) {
                for edge in own.as_chunks_mut().0.iter_mut().skip(2) {
                    *edge = (f32::from_ne_bytes(*edge) + 1.0).to_ne_bytes();
                }
            }
            for (k, (rows, wanted)) in batch.iter().zip(&wanted).enumerate() {
                assert!(rows.starts_with(wanted), "output {k} of {}", case["chosen"]);
                assert_eq!(rows[rows.len() / 2..], partner_before[k]);
            }
        }
    }
}
