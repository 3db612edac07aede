//! Draws the targets of an image over it: masks, boxes with the names of their classes, and keypoints.
//!
//! ```text
//! mask of the image     half transparent, in the colour of each pixel's class; not class 0 nor the fill
//! masks of the objects  half transparent, in the colour of the object
//! boxes                 their sides, 2 pixels thick, inside the box; a rotated one has its four sides
//! keypoints             discs; a hidden one is hollow, and one that is not labelled is left out
//! ```
//!
//! The colour of an object is that of its class, or of its index if it has none. All is drawn at the size of the
//! canvas, whatever the size of the image is, so that lines are crisp. What is outside the canvas is left out.

use super::Colour;
use super::canvas::{Canvas, LINE, text_width};
use crate::loader::inspected_targets::{InspectedTargets, TargetStep};
use fuseloop_ops::Size;
use fuseloop_ops::author::{BoundingBox, Keypoint, Objects};
use fuseloop_ops::internals::ImageView;
use fuseloop_ops::internals::memory::NoMemory;

/// The thickness of a line in pixels.
const THICK: i64 = 2;
/// The most letters of a label.
const LABEL_LETTERS: usize = 20;
/// The squares of the radius of a keypoint's disc, and of the hole in a hollow one.
const DISC: i64 = 10;
const HOLE: i64 = 4;

/// Returns a picture with the targets of a step drawn over it.
///
/// # Errors
///
/// If there is no memory for the picture.
pub fn over(
    picture: ImageView<'_>,
    targets: &InspectedTargets,
    step: &TargetStep,
) -> Result<Canvas, NoMemory> {
    let mut canvas = Canvas::new(picture.size(), [0; 3])?;
    canvas.paste(0, 0, picture);
    draw(&mut canvas, targets, step);
    Ok(canvas)
}

/// Draws the targets of a step on a canvas that its image fills.
fn draw(canvas: &mut Canvas, targets: &InspectedTargets, step: &TargetStep) {
    tint(canvas, targets, step);
    let TargetStep { size, objects, .. } = step;
    let scale = Scale::of(*size, canvas.size());
    let colours: Vec<Colour> = objects.rows().iter().map(|&row| colour_of(targets, row)).collect();
    let boxes: Vec<BoundingBox> =
        objects.boxes().iter().map(|bounds| scale.bounds(*bounds)).collect();
    for (bounds, colour) in boxes.iter().zip(&colours) {
        outline(canvas, *bounds, *colour);
    }
    for (point, colour) in keypoints(objects, &colours) {
        disc(canvas, scale.point(point.at), point.visibility == 1.0, colour);
    }
    // Labels come last: they can be read although boxes overlap.
    for ((bounds, colour), &row) in boxes.iter().zip(&colours).zip(objects.rows()) {
        if let Some(text) = targets.label(row) {
            label(canvas, *bounds, &text, *colour);
        }
    }
}

/// Returns the labelled keypoints, each with the colour of its object.
fn keypoints<'a>(
    objects: &'a Objects,
    colours: &'a [Colour],
) -> impl Iterator<Item = (&'a Keypoint, Colour)> {
    let each = objects.keypoints_each().max(1);
    let points = objects.keypoints().iter().enumerate();
    let points =
        points.filter(|(index, point)| point.visibility != 0.0 && !objects.is_moved_out(*index));
    points.filter_map(move |(index, point)| Some((point, *colours.get(index / each)?)))
}

fn colour_of(targets: &InspectedTargets, row: usize) -> Colour {
    colour(targets.class(row).unwrap_or(row as i64))
}

/// Returns the colour of a number: a hue, far from those of the numbers beside it.
fn colour(number: i64) -> Colour {
    // A circle of hues has six sides of 255 steps; neighbours are about the golden ratio of it apart.
    let hue = number.rem_euclid(6 * 255) * 947 % (6 * 255);
    let (side, rise) = (hue / 255, (hue % 255) as u8);
    match side {
        0 => [255, rise, 0],
        1 => [255 - rise, 255, 0],
        2 => [0, 255, rise],
        3 => [0, 255 - rise, 255],
        4 => [rise, 0, 255],
        _ => [255, 0, 255 - rise],
    }
}

/// Tints the pixels of the mask of the image, and of the masks of the objects.
fn tint(canvas: &mut Canvas, targets: &InspectedTargets, step: &TargetStep) {
    let (to, from) = (canvas.size(), step.size);
    let mut is_here = vec![];
    for &row in step.objects.rows() {
        is_here.resize(is_here.len().max(row + 1), false);
        is_here[row] = true;
    }
    // The pixel of the image in the middle of pixel `at` of the canvas.
    let nearest = |at: u32, to: u32, from: u32| {
        ((2 * u64::from(at) + 1) * u64::from(from) / (2 * u64::from(to))) as usize
    };
    for y in 0..to.height {
        let row = nearest(y, to.height, from.height) * from.width as usize;
        for x in 0..to.width {
            let pixel = row + nearest(x, to.width, from.width);
            if let Some((mask, fill)) = &step.mask
                && let Some(class) = mask.get(pixel).filter(|class| ![0, *fill].contains(class))
            {
                canvas.tint(y, x, colour((*class).into()));
            }
            let has = |row: usize| is_here.get(row).is_some_and(|is_here| *is_here);
            if let Some(object) = targets.object_at(step, pixel, has) {
                canvas.tint(y, x, colour_of(targets, object));
            }
        }
    }
}

/// The pixels of a canvas per pixel of its image, along x and y.
#[derive(Clone, Copy)]
struct Scale([f64; 2]);

impl Scale {
    fn of(image: Size, canvas: Size) -> Self {
        let ratio = |to: u32, from: u32| f64::from(to) / f64::from(from.max(1));
        Self([ratio(canvas.width, image.width), ratio(canvas.height, image.height)])
    }

    fn point(self, [x, y]: [f64; 2]) -> [f64; 2] {
        [x * self.0[0], y * self.0[1]]
    }

    fn bounds(self, bounds: BoundingBox) -> BoundingBox {
        match bounds {
            BoundingBox::Edges([x1, y1, x2, y2]) => {
                let ([x1, y1], [x2, y2]) = (self.point([x1, y1]), self.point([x2, y2]));
                BoundingBox::Edges([x1, y1, x2, y2])
            }
            BoundingBox::Corners(corners) => {
                BoundingBox::Corners(corners.map(|corner| self.point(corner)))
            }
        }
    }
}

/// Draws the sides of a box. A box with a coordinate that is not finite has none.
fn outline(canvas: &mut Canvas, bounds: BoundingBox, colour: Colour) {
    if !bounds.is_finite() {
        return;
    }
    match bounds {
        BoundingBox::Edges(_) => {
            let [left, top, right, bottom] = whole(bounds, canvas.size());
            canvas.rectangle([left, top, right, top + THICK], colour);
            canvas.rectangle([left, bottom - THICK, right, bottom], colour);
            canvas.rectangle([left, top, left + THICK, bottom], colour);
            canvas.rectangle([right - THICK, top, right, bottom], colour);
        }
        BoundingBox::Corners(corners) => {
            for side in 0..4 {
                line(canvas, corners[side], corners[(side + 1) % 4], colour);
            }
        }
    }
}

/// Returns the edges of the upright box around a box in whole pixels, at least a line apart. Edges outside the canvas
/// stay outside.
fn whole(bounds: BoundingBox, size: Size) -> [i64; 4] {
    let BoundingBox::Edges([x1, y1, x2, y2]) = bounds.upright() else { return [0; 4] };
    let beside = |at: f64, side: u32| {
        let far = f64::from(side) + 2.0 * THICK as f64;
        at.round().clamp(-2.0 * THICK as f64, far) as i64
    };
    let [left, right] = [x1, x2].map(|x| beside(x, size.width));
    let [top, bottom] = [y1, y2].map(|y| beside(y, size.height));
    [left, top, right.max(left + THICK), bottom.max(top + THICK)]
}

/// Draws a line between two points.
fn line(canvas: &mut Canvas, from: [f64; 2], to: [f64; 2], colour: Colour) {
    let Some([from, to]) = clipped(from, to, canvas.size()) else { return };
    let along = [0, 1].map(|axis| to[axis] - from[axis]);
    let steps = along[0].abs().max(along[1].abs()).ceil().max(1.0);
    for step in 0..=steps as u32 {
        let share = f64::from(step) / steps;
        let [x, y] =
            [0, 1].map(|axis| (from[axis] + along[axis] * share).round() as i64 - THICK / 2);
        canvas.rectangle([x, y, x + THICK, y + THICK], colour);
    }
}

/// Returns the part of a line that may be seen on a canvas (Liang and Barsky, 1984).
fn clipped(from: [f64; 2], to: [f64; 2], size: Size) -> Option<[[f64; 2]; 2]> {
    let far = [size.width, size.height].map(|side| f64::from(side) + THICK as f64);
    let along = [0, 1].map(|axis| to[axis] - from[axis]);
    if !along.iter().all(|length| length.is_finite()) {
        return None;
    }
    let (mut first, mut last) = (0.0_f64, 1.0_f64);
    for axis in 0..2 {
        let [low, high] = [-(THICK as f64) - from[axis], far[axis] - from[axis]];
        if along[axis] == 0.0 {
            if low > 0.0 || high < 0.0 {
                return None;
            }
            continue;
        }
        let [low, high] = [low / along[axis], high / along[axis]];
        (first, last) = (first.max(low.min(high)), last.min(low.max(high)));
    }
    let at = |share: f64| [0, 1].map(|axis| from[axis] + along[axis] * share);
    (first <= last).then(|| [at(first), at(last)])
}

/// Draws a keypoint.
fn disc(canvas: &mut Canvas, at: [f64; 2], is_hollow: bool, colour: Colour) {
    let size = canvas.size();
    let is_near = |at: f64, side: u32| (-8.0..f64::from(side) + 8.0).contains(&at);
    if !is_near(at[0], size.width) || !is_near(at[1], size.height) {
        return;
    }
    let [x, y] = at.map(|place| place.floor() as i64);
    for (dx, dy) in (-3..=3).flat_map(|dy: i64| (-3..=3).map(move |dx: i64| (dx, dy))) {
        let distance = dx * dx + dy * dy;
        if distance <= DISC && (!is_hollow || distance > HOLE) {
            canvas.rectangle([x + dx, y + dy, x + dx + 1, y + dy + 1], colour);
        }
    }
}

/// Writes the name of a class above a box that is seen, or inside it where there is no room.
fn label(canvas: &mut Canvas, bounds: BoundingBox, text: &str, colour: Colour) {
    let Size { height, width } = canvas.size();
    let [left, top, right, bottom] = whole(bounds, canvas.size());
    let is_seen = left < width.into() && top < height.into() && right > 0 && bottom > 0;
    if !bounds.is_finite() || !is_seen {
        return;
    }
    let text: String = text.chars().take(LABEL_LETTERS).collect();
    let [label_width, label_height] = [text_width(text.chars().count()) + 1, LINE];
    let left = left.clamp(0, width.saturating_sub(label_width).into());
    let above = top - i64::from(label_height);
    let top = if above >= 0 { above } else { top.max(0) };
    let [right, bottom] = [left + i64::from(label_width), top + i64::from(label_height)];
    canvas.rectangle([left, top, right, bottom], colour);
    canvas.text(top as u32 + 1, left as u32 + 1, &text, readable_on(colour));
}

/// Returns black or white, whichever can be read on a colour, by its brightness (ITU-R BT.601).
fn readable_on([r, g, b]: Colour) -> Colour {
    let brightness = 299 * u32::from(r) + 587 * u32::from(g) + 114 * u32::from(b);
    if brightness < 128_000 { [255; 3] } else { [0; 3] }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RED: Colour = [255, 0, 0];

    fn canvas() -> Canvas {
        Canvas::new(Size::new(40, 60), [0; 3]).unwrap()
    }

    /// Returns the pixels that are not black, as `[x, y]`.
    fn drawn(canvas: &Canvas) -> Vec<[u32; 2]> {
        let pixels = canvas.rgb().chunks(3).zip(0..);
        let drawn = pixels.filter(|(pixel, _)| **pixel != [0; 3]);
        drawn.map(|(_, at)| [at % 60, at / 60]).collect()
    }

    #[test]
    fn the_sides_of_a_box_are_inside_it() {
        let mut canvas = canvas();
        outline(&mut canvas, BoundingBox::Edges([10.0, 5.0, 20.0, 15.0]), RED);
        let drawn = drawn(&canvas);
        assert_eq!(drawn.len(), 100 - 36, "a frame of 10 x 10 with a hole of 6 x 6");
        let is_inside = |[x, y]: &[u32; 2]| (10..20).contains(x) && (5..15).contains(y);
        assert!(drawn.iter().all(is_inside));
        assert!(!drawn.contains(&[12, 7]) && drawn.contains(&[11, 6]));
    }

    #[test]
    fn a_rotated_box_has_four_sides() {
        let mut canvas = canvas();
        let corners = [[30.0, 5.0], [45.0, 20.0], [30.0, 35.0], [15.0, 20.0]];
        outline(&mut canvas, BoundingBox::Corners(corners), RED);
        let drawn = drawn(&canvas);
        for [x, y] in [[30, 5], [44, 19], [30, 34], [15, 20], [37, 12], [22, 27]] {
            assert!(drawn.contains(&[x, y]), "{x}, {y}");
        }
        assert!(!drawn.contains(&[30, 20]) && !drawn.contains(&[17, 8]));
    }

    #[test]
    fn hostile_boxes_and_points_are_clipped() {
        let numbers = [-1e300, -1e9, -3.0, 0.0, 30.0, 59.9, 1e9, f64::MAX, f64::NAN, f64::INFINITY];
        for x1 in numbers {
            for (y1, x2) in numbers.iter().flat_map(|a| numbers.map(|b| (*a, b))) {
                let mut canvas = canvas();
                let corners = [[x1, y1], [x2, y1], [x2, x1], [y1, x2]];
                for bounds in [BoundingBox::Edges([x1, y1, x2, y1]), BoundingBox::Corners(corners)]
                {
                    outline(&mut canvas, bounds, RED);
                    label(&mut canvas, bounds, "a long name of a class", RED);
                }
                disc(&mut canvas, [x1, y1], false, RED);
                assert_eq!(canvas.rgb().len(), 3 * 40 * 60);
            }
        }
        let mut canvas = canvas();
        outline(&mut canvas, BoundingBox::Edges([-1e9, -1e9, -1e8, 1e9]), RED);
        outline(&mut canvas, BoundingBox::Edges([-1e9, -1e9, 1e9, 1e9]), RED);
        label(&mut canvas, BoundingBox::Edges([100.0, 0.0, 200.0, 20.0]), "outside", RED);
        disc(&mut canvas, [-9.0, 5.0], false, RED);
        assert!(drawn(&canvas).is_empty(), "nothing of them is on the canvas");
        outline(&mut canvas, BoundingBox::Edges([8.0, 9.0, 8.0, 9.0]), RED);
        assert_eq!(drawn(&canvas), [[8, 9], [9, 9], [8, 10], [9, 10]], "an empty box is a dot");
    }

    #[test]
    fn hidden_keypoints_are_hollow() {
        let [mut filled, mut hollow] = [canvas(), canvas()];
        disc(&mut filled, [20.5, 10.5], false, RED);
        disc(&mut hollow, [20.5, 10.5], true, RED);
        let [filled, hollow] = [drawn(&filled), drawn(&hollow)];
        assert_eq!(filled.iter().filter(|at| !hollow.contains(at)).count(), 13);
        assert!(filled.contains(&[20, 10]) && !hollow.contains(&[20, 10]));
        assert!(hollow.contains(&[23, 10]) && hollow.iter().all(|at| filled.contains(at)));
    }

    #[test]
    fn neighbouring_classes_have_different_colours() {
        let colours: Vec<Colour> = (-50..100).map(colour).collect();
        for (index, one) in colours.iter().enumerate() {
            for other in &colours[index + 1..(index + 4).min(colours.len())] {
                let apart: u32 =
                    one.iter().zip(other).map(|(a, b)| u32::from(a.abs_diff(*b))).sum();
                assert!(apart > 150, "{one:?} {other:?}");
            }
        }
        assert_eq!(colour(i64::MAX).len() + colour(i64::MIN).len(), 6);
    }
}
