//! The objects of one sample, which follow its image from op to op.

use super::{BoundingBox, BoxFormat, ClampingMode, PointMap};
use crate::Size;
use crate::author::GeometryStep;

/// The objects of a sample: their bounding boxes and keypoints, where the ops so far have moved them.
///
/// An object is one row of the tensors that belong to an image: its box, its keypoints, its class and other
/// columns. An op that removes an object removes all of them.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// let mut objects = Objects::default();
/// let boxes = [BoundingBox::Edges([0.0, 0.0, 4.0, 4.0]), BoundingBox::Edges([1.0, 1.0, 2.0, 2.0])];
/// objects.reset(2);
/// objects.set_boxes(boxes, BoxFormat::Xyxy, ClampingMode::Hard);
/// objects.retain(|objects, k| objects.boxes()[k].area() > 2.0);
/// assert_eq!((objects.len(), objects.rows()), (1, &[0][..]));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Objects {
    /// The index of each object among those that are stored.
    rows: Vec<usize>,
    has_boxes: bool,
    /// The box of each object, if they have boxes.
    boxes: Vec<BoundingBox>,
    format: BoxFormat,
    clamping: ClampingMode,
    /// The keypoints of all objects, one after the other.
    keypoints: Vec<Keypoint>,
    /// For each keypoint, true if a step moved it out of the image.
    moved_out: Vec<bool>,
    /// The number of keypoints of an object.
    keypoints_each: usize,
    /// The keypoints that change places when the image is mirrored.
    flip_pairs: Vec<[usize; 2]>,
}

/// A keypoint of an object.
///
/// ```
/// # use fuseloop_ops::author::*;
/// let nose = Keypoint { at: [120.5, 80.0], visibility: 2.0 };
/// # let _ = nose;
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Keypoint {
    /// Its position, `[x, y]`, in continuous coordinates.
    pub at: [f64; 2],
    /// COCO's visibility: 0 is not labelled, 1 is hidden, 2 is visible. A point of visibility 0 has no position.
    pub visibility: f32,
}

impl Objects {
    /// Removes everything.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.has_boxes = false;
        self.boxes.clear();
        self.keypoints.clear();
        self.moved_out.clear();
        self.keypoints_each = 0;
    }

    /// Replaces everything by `count` objects, which have neither boxes nor keypoints.
    pub fn reset(&mut self, count: usize) {
        self.clear();
        self.rows.extend(0..count);
    }

    /// Sets the boxes.
    ///
    /// # Panics
    ///
    /// If there are not as many as objects.
    pub fn set_boxes(
        &mut self,
        boxes: impl IntoIterator<Item = BoundingBox>,
        format: BoxFormat,
        clamping: ClampingMode,
    ) {
        self.boxes.clear();
        self.boxes.extend(boxes);
        assert_eq!(self.boxes.len(), self.rows.len(), "one box for each object");
        (self.has_boxes, self.format, self.clamping) = (true, format, clamping);
    }

    /// Sets the keypoints, `each` of them for each object; the two of a pair change places when the image is
    /// mirrored.
    ///
    /// # Panics
    ///
    /// If there are not `each` times as many as objects.
    pub fn set_keypoints(
        &mut self,
        keypoints: impl IntoIterator<Item = Keypoint>,
        each: usize,
        flip_pairs: &[[usize; 2]],
    ) {
        self.keypoints.clear();
        self.keypoints.extend(keypoints);
        assert_eq!(self.keypoints.len(), self.rows.len() * each, "keypoints of each object");
        self.moved_out.clear();
        self.moved_out.resize(self.keypoints.len(), false);
        self.keypoints_each = each;
        self.flip_pairs.clear();
        self.flip_pairs.extend_from_slice(flip_pairs);
    }

    /// Returns the number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns true if there is no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the index of each object among those that are stored with the sample.
    #[must_use]
    pub fn rows(&self) -> &[usize] {
        &self.rows
    }

    /// Returns whether the objects have boxes.
    #[must_use]
    pub fn has_boxes(&self) -> bool {
        self.has_boxes
    }

    /// Returns the box of each object; nothing if they have none.
    #[must_use]
    pub fn boxes(&self) -> &[BoundingBox] {
        &self.boxes
    }

    /// Changes the boxes.
    pub fn boxes_mut(&mut self) -> &mut [BoundingBox] {
        &mut self.boxes
    }

    /// Returns the keypoints of all objects, one object after the other.
    #[must_use]
    pub fn keypoints(&self) -> &[Keypoint] {
        &self.keypoints
    }

    /// Changes the keypoints.
    pub fn keypoints_mut(&mut self) -> &mut [Keypoint] {
        &mut self.keypoints
    }

    /// Returns whether a step moved a keypoint out of the image, by its index among the keypoints of all objects. A later
    /// step may move its place back into the image, but not the pixel that it was at.
    #[must_use]
    pub fn is_moved_out(&self, keypoint: usize) -> bool {
        self.moved_out.get(keypoint).copied().unwrap_or_default()
    }

    /// Returns the number of keypoints of an object.
    #[must_use]
    pub fn keypoints_each(&self) -> usize {
        self.keypoints_each
    }

    /// Returns the format that the boxes will have in the batch.
    #[must_use]
    pub fn format(&self) -> BoxFormat {
        self.format
    }

    /// Sets the format that the boxes will have in the batch.
    pub fn set_format(&mut self, format: BoxFormat) {
        self.format = format;
    }

    /// Returns how boxes are clamped to the image.
    #[must_use]
    pub fn clamping(&self) -> ClampingMode {
        self.clamping
    }

    /// Keeps the objects for whose index, in the present order, `keeps` returns true.
    pub fn retain(&mut self, keeps: impl Fn(&Self, usize) -> bool) {
        let kept: Vec<bool> = (0..self.len()).map(|index| keeps(self, index)).collect();
        if kept.iter().all(|kept| *kept) {
            return;
        }
        let each = self.keypoints_each;
        retain(&mut self.rows, |index| kept[index]);
        retain(&mut self.boxes, |index| kept[index]);
        retain(&mut self.keypoints, |index| kept[index / each]);
        retain(&mut self.moved_out, |index| kept[index / each]);
    }

    /// Moves the objects as a step moves the pixels of an image of size `input`, and clamps boxes where torchvision
    /// does. Does nothing for a step that objects can't follow: lists with such steps are refused.
    pub fn follow(&mut self, step: &GeometryStep, input: Size) {
        if self.is_empty() {
            return;
        }
        let Some(map) = PointMap::of(step, input) else { return };
        let output = crate::geometry_step::output(step, input);
        let clamping = if map.clamps_boxes(self.format.is_rotated()) {
            self.clamping
        } else {
            ClampingMode::None
        };
        for bounds in self.boxes_mut() {
            *bounds = bounds.mapped(&map).clamped(output, clamping);
        }
        let sides = [output.width, output.height].map(f64::from);
        for (point, moved_out) in self.keypoints.iter_mut().zip(&mut self.moved_out) {
            if point.visibility != 0.0 {
                point.at = map.point(point.at);
                let mut places = point.at.iter().zip(sides);
                *moved_out |= !places.all(|(place, side)| (0.0..side).contains(place));
            }
        }
        if map.mirrors() {
            let Self { keypoints, moved_out, keypoints_each, flip_pairs, .. } = self;
            let each = (*keypoints_each).max(1);
            for object in keypoints.chunks_exact_mut(each) {
                flip_pairs.iter().for_each(|&[one, other]| object.swap(one, other));
            }
            for object in moved_out.chunks_exact_mut(each) {
                flip_pairs.iter().for_each(|&[one, other]| object.swap(one, other));
            }
        }
    }
}

/// Keeps the items whose index satisfies `keeps`.
fn retain<T>(items: &mut Vec<T>, keeps: impl Fn(usize) -> bool) {
    let mut index = 0;
    items.retain(|_| {
        index += 1;
        keeps(index - 1)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pixel of a point that was cropped away does not come back with a border.
    #[test]
    fn a_keypoint_that_a_step_moves_out_is_marked_and_keeps_moving() {
        let mut objects = two_people();
        let step = |left, width| GeometryStep::CropPad {
            top: 0,
            left,
            size: Size::new(20, width),
            fill: [0; 3],
        };
        objects.follow(&step(3, 20), Size::new(20, 30));
        assert_eq!(objects.keypoints()[0].at, [-1.0, 3.0]);
        let marks = |objects: &Objects| -> Vec<bool> {
            (0..objects.keypoints().len()).map(|index| objects.is_moved_out(index)).collect()
        };
        let outside: Vec<bool> = objects
            .keypoints()
            .iter()
            .map(|point| point.visibility != 0.0 && !(0.0..20.0).contains(&point.at[0]))
            .collect();
        assert_eq!(marks(&objects), outside);
        assert!(outside[0]);
        objects.follow(&step(-10, 40), Size::new(20, 20));
        assert_eq!(objects.keypoints()[0].at, [9.0, 3.0]);
        assert_eq!(marks(&objects), outside);
        objects.retain(|_, index| index == 1);
        assert_eq!(marks(&objects), outside[2..]);
    }

    fn two_people() -> Objects {
        let mut objects = Objects::default();
        objects.reset(2);
        let boxes = [[1.0, 2.0, 5.0, 9.0], [20.0, 0.0, 30.0, 4.0]].map(BoundingBox::Edges);
        objects.set_boxes(boxes, BoxFormat::Xyxy, ClampingMode::Soft);
        let at = |x, y| Keypoint { at: [x, y], visibility: 2.0 };
        let points = [at(2.0, 3.0), at(4.0, 3.0), at(25.0, 1.0), Keypoint::default()];
        objects.set_keypoints(points, 2, &[[0, 1]]);
        objects
    }

    #[test]
    fn a_mirror_swaps_the_keypoints_of_a_pair() {
        let mut objects = two_people();
        objects.follow(&GeometryStep::FlipHorizontal, Size::new(20, 30));
        assert_eq!(objects.boxes()[0], BoundingBox::Edges([25.0, 2.0, 29.0, 9.0]));
        let at: Vec<_> = objects.keypoints().iter().map(|point| point.at).collect();
        // The second person's unlabelled point stays without a position.
        assert_eq!(at, [[26.0, 3.0], [28.0, 3.0], [0.0, 0.0], [5.0, 1.0]]);
        assert_eq!(objects.keypoints()[2].visibility, 0.0);
    }

    #[test]
    fn objects_lose_all_their_rows_together() {
        let mut objects = two_people();
        objects.retain(|objects, index| objects.boxes()[index].width() > 5.0);
        assert_eq!(objects.rows(), [1]);
        assert_eq!(objects.boxes().len(), 1);
        assert_eq!(objects.keypoints()[0].at, [25.0, 1.0]);
        assert_eq!((objects.len(), objects.keypoints().len()), (1, 2));
    }

    #[test]
    fn a_crop_clamps_boxes_and_not_keypoints() {
        let mut objects = two_people();
        let crop = GeometryStep::CropPad { top: 0, left: 3, size: Size::new(20, 20), fill: [0; 3] };
        objects.follow(&crop, Size::new(20, 30));
        assert_eq!(objects.boxes()[0], BoundingBox::Edges([0.0, 2.0, 2.0, 9.0]));
        assert_eq!(objects.keypoints()[0].at, [-1.0, 3.0]);
    }
}
