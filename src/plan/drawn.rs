//! A sample's draws in plain words: what each op does to it.
//!
//! ```text
//! RandomResizedCrop: rows 12..230, columns 4..320, to 224x224
//! RandomHorizontalFlip: not run                           (its own draw left it out)
//! RandomRotation: turned 12.5 degrees counter-clockwise, to 224x224, matrix [0.9763 0.2164 0; -0.2164 0.9763 0]
//! ColorJitter: Contrast 0.84, then Brightness 1.13
//! Posterize: not chosen                                   (by the policy it is in)
//! ```

use super::block::nth_order;
use super::draws::{DrawnMix, allowed};
use super::flatten::FlatOp;
use super::kind::{PixelKind, has_planes};
use super::{Draws, ImagePlan};
use fuseloop_ops::author::{Eval, GeometryStep, OpClass, PixelOp, Window};
use fuseloop_ops::internals::geometry_step;
use fuseloop_ops::internals::rows::{
    ConvolutionKernel, DisplacementField, Map, MotionLine, RowFilter,
};
use fuseloop_ops::{NumberRule, Size};
use std::fmt;

/// Most parameters of an op that are shown: those of a colour matrix.
const MOST_NUMBERS: usize = 12;

/// The effect of an op on one sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrawnOp {
    /// The op's index in the flat ops.
    pub flat_op: usize,
    /// The op's name.
    pub name: &'static str,
    /// The reason why the op runs or does not run for this sample.
    pub outcome: OpOutcome,
    /// A description of what was drawn; empty if nothing was.
    pub words: String,
}

/// The reason why an op runs or does not run for a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpOutcome {
    /// It runs.
    Runs,
    /// Its own draw skipped it: the sample stays unchanged.
    Skipped,
    /// The container drew other ops.
    NotChosen,
}

impl fmt::Display for DrawnOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.words.as_str() {
            "" => f.write_str(self.name),
            words => write!(f, "{}: {words}", self.name),
        }
    }
}

impl Draws {
    /// Describes what each op of `plan`, which drew these draws, does to the sample, in order.
    #[must_use]
    pub fn describe(&self, plan: &ImagePlan) -> Vec<DrawnOp> {
        let mut size = self.source;
        let drawn = |(index, leaf): (usize, &FlatOp)| {
            let before = size;
            let motions = self.geometry.iter().filter(|(of, _)| *of == index);
            let motions: Vec<&GeometryStep> = motions.map(|(_, motion)| motion).collect();
            size = motions.iter().fold(size, |size, motion| geometry_step::output(motion, size));
            size = plan.after_host_ops(index..index + 1, self, size);
            let outcome = match self.active[index] {
                true if self.changes_nothing(plan, index, &motions) => OpOutcome::Skipped,
                true => OpOutcome::Runs,
                false if allowed(&leaf.guards, &self.outcomes) => OpOutcome::Skipped,
                false => OpOutcome::NotChosen,
            };
            let words = match outcome {
                OpOutcome::Runs => self.words(plan.rule(), (index, leaf), before, &motions),
                OpOutcome::Skipped => "not run".to_owned(),
                OpOutcome::NotChosen => "not chosen".to_owned(),
            };
            DrawnOp { flat_op: index, name: leaf.op.name(), outcome, words }
        };
        plan.flat_ops().iter().enumerate().map(drawn).collect()
    }

    /// Returns whether the op's own draw skipped it although its loop runs: one loop serves all samples
    /// of a batch, so a skipped op gets parameters that change nothing.
    fn changes_nothing(&self, plan: &ImagePlan, index: usize, motions: &[&GeometryStep]) -> bool {
        let leaf = &plan.flat_ops()[index];
        match leaf.op.class() {
            OpClass::Geometry(_) => motions.is_empty(),
            // An op that is skipped is not active.
            OpClass::Pixel(_) if leaf.changes_channels() || leaf.kind.may_skip() => false,
            OpClass::Pixel(op) if leaf.kind.param_count() > 0 => {
                if op.uses_position() || op.statistic().is_some() {
                    // A few pixels don't show what the op does to the others.
                    let first = leaf.first_param;
                    let params = &self.params[first..first + leaf.kind.param_count()];
                    return op.is_identity(params);
                }
                self.changed_channels(plan.rule(), leaf, op).is_empty()
            }
            _ => false,
        }
    }

    /// Returns the channels that a pixel op changes. The result is empty if a few pixels don't show it.
    fn changed_channels(&self, rule: NumberRule, leaf: &FlatOp, op: &dyn PixelOp) -> Vec<usize> {
        let count = usize::from(leaf.input.channels);
        let hides = op.uses_position() || op.statistic().is_some();
        if hides || leaf.changes_channels() || op.selected_channels().is_some() {
            return vec![];
        }
        let params = &self.params[leaf.first_param..leaf.first_param + leaf.kind.param_count()];
        let mut is_changed = vec![false; count];
        for level in 0..=255_u8 {
            let values = [level, 255 - level, level.wrapping_mul(7), level ^ 85];
            let values: Vec<f32> = values.into_iter().cycle().map(f32::from).take(count).collect();
            let mut pixel = values.clone();
            op.eval(&Eval::new(rule, params), &mut pixel);
            for (is_changed, (new, old)) in is_changed.iter_mut().zip(pixel.iter().zip(&values)) {
                *is_changed |= new != old;
            }
        }
        (0..count).filter(|channel| is_changed[*channel]).collect()
    }

    /// Describes what an op does that runs.
    fn words(
        &self,
        rule: NumberRule,
        (index, leaf): (usize, &FlatOp),
        size: Size,
        motions: &[&GeometryStep],
    ) -> String {
        match leaf.op.class() {
            OpClass::Geometry(_) => moves(size, motions),
            OpClass::Region(_) => {
                let windows = self.windows.iter().filter(|(of, _)| *of == index);
                let windows: Vec<String> = windows.map(|(_, window)| painted(*window)).collect();
                windows.join(", ")
            }
            OpClass::Pixel(op) => {
                if has_planes(&leaf.input) {
                    let changed = self.changed_channels(rule, leaf, op);
                    if (1..leaf.input.channels.into()).contains(&changed.len()) {
                        return channels(&changed);
                    }
                }
                or_applied(self.numbers_of(op, leaf.kind.pixel(None), leaf.first_param))
            }
            OpClass::Table(op) => {
                let params =
                    &self.params[leaf.first_param..leaf.first_param + leaf.kind.param_count()];
                or_applied(numbers(params, op.param_names()))
            }
            OpClass::Shuffled(parts) => self.parts(index, leaf, parts),
            OpClass::Host(_) => "applied".to_owned(),
            OpClass::Mix(_) => self.mixture(index),
            OpClass::Cast(_)
            | OpClass::View(_)
            | OpClass::Layout(_)
            | OpClass::Device(_)
            | OpClass::Label(_)
            | OpClass::Choice(_)
            | OpClass::Batch(_)
            | OpClass::MultiImage(_)
            | OpClass::HostBatch(_)
            | OpClass::Objects(_) => String::new(),
        }
    }

    /// Describes the weights of an op that mixes images, and the lengths of its chains.
    fn mixture(&self, index: usize) -> String {
        let mixed = self.mixes.iter().find(|(of, _)| *of == index);
        let Some((_, DrawnMix { mixture, .. })) = mixed else { return String::new() };
        let chain =
            |(weight, steps): &(f32, u32)| format!("{} of {steps} step(s)", number(*weight));
        let chains: Vec<String> = mixture.chains.iter().map(chain).collect();
        format!("{} of itself, {}", number(mixture.keep), chains.join(", "))
    }

    /// Describes the parts of a shuffled op, in their order.
    fn parts(&self, index: usize, leaf: &FlatOp, parts: &[Box<dyn PixelOp>]) -> String {
        let order = self.orders.iter().find(|(of, _)| *of == index).map_or(0, |(_, order)| *order);
        let (mut first, mut words) = (leaf.first_param, vec![]);
        for (part, op) in parts.iter().enumerate() {
            let kind = leaf.kind.pixel(Some(part));
            let numbers = self.numbers_of(op.as_ref(), kind, first);
            words.push(format!("{} {numbers}", part_name(op.as_ref())).trim_end().to_owned());
            first += kind.map_or(0, |kind| kind.param_count);
        }
        let order = nth_order(words.len(), order);
        order.map(|part| words[part].as_str()).collect::<Vec<_>>().join(", then ")
    }

    /// Describes the parameters of a pixel op from index `first` on, except for a statistic, which is
    /// not drawn.
    fn numbers_of(&self, op: &dyn PixelOp, kind: Option<&PixelKind>, first: usize) -> String {
        let drawn = kind.map_or(0, |kind| kind.param_count - usize::from(kind.statistic.is_some()));
        numbers(&self.params[first..first + drawn], op.param_names())
    }
}

/// Returns the description of an op that runs, or a default for an op that draws no number.
fn or_applied(words: String) -> String {
    if words.is_empty() { "applied".to_owned() } else { words }
}

/// Returns the name of a part of a shuffled op: the beginning of its `Debug` text.
fn part_name(op: &dyn PixelOp) -> String {
    let shown = format!("{op:?}");
    let name: String = shown.chars().take_while(|c| c.is_alphanumeric()).collect();
    name.strip_prefix("Random").unwrap_or(&name).to_owned()
}

/// Names the channels that an op changes.
fn channels(changed: &[usize]) -> String {
    let shown = changed.iter().take(MOST_NUMBERS).map(usize::to_string);
    let left = changed.len().saturating_sub(MOST_NUMBERS);
    let more = if left > 0 { format!(" and {left} more") } else { String::new() };
    format!("changes channels {}{more}", shown.collect::<Vec<_>>().join(", "))
}

/// Formats `1.13`, or `hue 0.1, factor 1.13` where parameters have names. The name `-` hides a number.
fn numbers(params: &[f32], names: &[&str]) -> String {
    let names = if names.is_empty() { vec![""; params.len()] } else { names.to_vec() };
    let shown: Vec<_> = params.iter().zip(names).filter(|(_, name)| *name != "-").collect();
    let words = shown.iter().take(MOST_NUMBERS);
    let words =
        words.map(|(param, name)| format!("{name} {}", number(**param)).trim_start().to_owned());
    let mut words: Vec<String> = words.collect();
    let left = shown.len() - words.len();
    if left > 0 {
        words.push(format!("and {left} more numbers"));
    }
    words.join(", ")
}

/// Formats a number with at most four decimals and without trailing zeros.
fn number(value: f32) -> String {
    let text = format!("{value:.4}");
    let text = if text.contains('.') { text.trim_end_matches('0') } else { &text };
    match text.trim_end_matches('.') {
        "-0" => "0".to_owned(),
        text => text.to_owned(),
    }
}

/// Describes what geometry steps do to an image of `size`.
fn moves(mut size: Size, motions: &[&GeometryStep]) -> String {
    let mut words = vec![];
    for motion in motions {
        words.push(geometry_words(size, motion));
        size = geometry_step::output(motion, size);
    }
    words.join(", ")
}

fn geometry_words(from: Size, motion: &GeometryStep) -> String {
    match motion {
        GeometryStep::CropPad { top, left, size, .. } => framed(from, *top, *left, *size),
        GeometryStep::FlipHorizontal => "flipped horizontally".to_owned(),
        GeometryStep::FlipVertical => "flipped vertically".to_owned(),
        GeometryStep::Resize { size, .. } | GeometryStep::ResizePart { size, .. } => {
            format!("to {size}")
        }
        GeometryStep::Rows(filter) => filtered(filter, from),
    }
}

fn framed(from: Size, top: i32, left: i32, to: Size) -> String {
    let (bottom, right) =
        (i64::from(top) + i64::from(to.height), i64::from(left) + i64::from(to.width));
    let is_inside =
        top >= 0 && left >= 0 && bottom <= i64::from(from.height) && right <= i64::from(from.width);
    match (is_inside, to == from) {
        (true, true) => "all of it".to_owned(),
        (false, true) => {
            format!("shifted {}, {}", toward(top, "up", "down"), toward(left, "left", "right"))
        }
        _ => format!("rows {top}..{bottom}, columns {left}..{right}"),
    }
}

/// Describes a shift: a frame that begins at `start` shows the image shifted in the opposite direction.
fn toward(start: i32, positive: &str, negative: &str) -> String {
    let direction = if start > 0 { positive } else { negative };
    format!("{} {direction}", start.unsigned_abs())
}

fn filtered(filter: &RowFilter, from: Size) -> String {
    match filter {
        RowFilter::Resample { size, .. } => format!("to {size}"),
        RowFilter::Warp(warp) => {
            if let Some(displacement) = warp.map.displacement() {
                return displaced(displacement.field());
            }
            format!("{}, to {}, {}", warped(&warp.map), warp.size, matrix(&warp.map))
        }
        RowFilter::Transpose => "rows and columns change places".to_owned(),
        RowFilter::Permute(permutation) => format!("{} rows in random order", permutation.rows),
        RowFilter::RowMean => format!("the mean of {} rows", from.height),
        RowFilter::Pad(_) => format!("padded to {}", filter.output(from)),
        RowFilter::Sharpen { factor } => format!("sharpness {}", number(*factor as f32)),
        RowFilter::GaussianBlur { kernel: [columns, rows], sigma: [x, y] } => {
            let (x, y) = (number(*x), number(*y));
            format!("kernel {columns}x{rows}, sigma {x}, {y}")
        }
        RowFilter::BoxBlur { kernel: [columns, rows] } => format!("kernel {columns}x{rows}"),
        RowFilter::Convolve(ConvolutionKernel::Line(MotionLine { side, angle, .. })) => {
            format!("kernel {side}x{side}, angle {}", number(*angle))
        }
        RowFilter::Convolve(ConvolutionKernel::Square(rows)) => {
            let row = |row: &[f32; 3]| row.map(significant).join(" ");
            format!("kernel [{}]", rows.iter().map(row).collect::<Vec<_>>().join("; "))
        }
        RowFilter::Median { side } => format!("kernel {side}x{side}"),
        RowFilter::Pixelate { scale } => format!("scaled {} and back", number(*scale)),
        RowFilter::Tiles(tiles) => {
            format!("{} x {} tiles", tiles.rows.len() - 1, tiles.columns.len() - 1)
        }
        RowFilter::Jpeg { quality } => format!("quality {quality}"),
        _ => "rows recomputed".to_owned(),
    }
}

fn displaced(field: &DisplacementField) -> String {
    match field {
        DisplacementField::Elastic { alpha, sigma, .. } => {
            let [alpha, sigma] = [alpha, sigma].map(|of| of.map(number).join(", "));
            format!("displaced, alpha {alpha}, sigma {sigma}")
        }
        DisplacementField::Grid(lengths) => {
            let of = |lengths: &Vec<f32>| {
                lengths.iter().map(|length| number(*length)).collect::<Vec<_>>().join(" ")
            };
            format!("a grid of steps {} along x, {} along y", of(&lengths[0]), of(&lengths[1]))
        }
        DisplacementField::Lens(_, k) => format!("bent by {}", number(*k)),
    }
}

/// Describes what a warp does to the image. An affine map is a scale, a shear along x and one along y, then a turn,
/// then a shift of the middle; exactly one such decomposition exists for the shear along y that was drawn.
fn warped(map: &Map) -> String {
    if map.is_perspective() {
        return "seen in perspective".to_owned();
    }
    let [[a, b, c], [d, e, f], _] = map.matrix().map(|row| row.map(f64::from));
    let scale = (a * e - b * d).sqrt().recip();
    if !scale.is_finite() {
        return "warped".to_owned();
    }
    let slope = libm::tan(map.shear_y().to_radians());
    let turn = match (libm::atan2(d, e) - libm::atan(slope)).to_degrees() {
        turn if turn > 180.0 => turn - 360.0,
        turn if turn < -180.0 => turn + 360.0,
        turn => turn,
    };
    // The shear along x is the rest of the matrix after the turn and the other shear are undone.
    let shear = libm::atan(((a * d + b * e) * scale * scale - slope) / (1.0 + slope * slope));
    let shift = [-(e * c - b * f), -(a * f - d * c)].map(|moved| moved * scale * scale);
    let mut words = vec![];
    match number(turn as f32) {
        zero if zero == "0" => {}
        turn if turn.starts_with('-') => {
            words.push(format!("turned {} degrees clockwise", &turn[1..]));
        }
        turn => words.push(format!("turned {turn} degrees counter-clockwise")),
    }
    if (scale - 1.0).abs() > 5e-5 {
        words.push(format!("scaled {}", number(scale as f32)));
    }
    if shear.abs() > 1e-4 {
        words.push(format!("sheared {} degrees along x", number(shear.to_degrees() as f32)));
    }
    if map.shear_y() != 0.0 {
        words.push(format!("sheared {} degrees along y", number(map.shear_y() as f32)));
    }
    if shift.iter().any(|moved| moved.abs() > 5e-4) {
        let [x, y] = shift.map(|moved| number(moved as f32));
        words.push(format!("moved by {x}, {y}"));
    }
    if words.is_empty() { "copied".to_owned() } else { words.join(", ") }
}

/// Formats `matrix [a b c; d e f]`, which maps a position in the output to the position in the input.
fn matrix(map: &Map) -> String {
    let rows = map.matrix();
    let rows = if map.is_perspective() { &rows[..] } else { &rows[..2] };
    let row = |row: &[f32; 3]| row.map(significant).join(" ");
    format!("matrix [{}]", rows.iter().map(row).collect::<Vec<_>>().join("; "))
}

/// Formats with four decimals, or in exponent notation where four decimals would lose a small number.
fn significant(value: f32) -> String {
    if (1e-7..0.01).contains(&value.abs()) {
        return format!("{value:.3e}");
    }
    number(value)
}

fn painted(window: Window) -> String {
    let Window { top, left, height, width } = window;
    if window.size().pixels() == 0 {
        return "nothing painted".to_owned();
    }
    format!("rows {top}..{}, columns {left}..{}", top + height, left + width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::FusedOp;
    use fuseloop_ops::author::{Dim, ImageType, Op, Rng, Type};
    use fuseloop_ops::internals::rows::{PadMode, Padding, Resampling, RowPermutation};
    use fuseloop_ops::internals::{MixOp, Mixture, SampleKey};
    use fuseloop_ops::*;
    use std::collections::BTreeSet;

    fn words(ops: Ops, sample: u64) -> Vec<String> {
        let input = ImageType::decoded(Dim::fixed(32), Dim::fixed(40));
        let plan = ImagePlan::new(ops, input, NumberRule::Fused).unwrap();
        let mut draws = Draws::default();
        plan.draw(SampleKey::new(7, 0, sample), Size::new(32, 40), &mut draws);
        draws.describe(&plan).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn geometry_says_what_it_keeps() {
        let crop = words(ops![CenterCrop::new((20, 30)).unwrap()], 0);
        assert_eq!(crop, ["CenterCrop: rows 6..26, columns 5..35"]);
        let flip = words(ops![RandomHorizontalFlip::new(1.0).unwrap(), ToChannelsFirst], 0);
        assert_eq!(flip, ["RandomHorizontalFlip: flipped horizontally", "ToChannelsFirst"]);
        let flip = words(ops![RandomVerticalFlip::new(1.0).unwrap()], 0);
        assert_eq!(flip, ["RandomVerticalFlip: flipped vertically"]);
        let resize = words(ops![Resize::new((8, 16)).unwrap()], 0);
        assert_eq!(resize, ["Resize: to 16x8"]);
    }

    #[test]
    fn what_is_not_run_says_so_and_not_its_neutral_numbers() {
        let one = |ops: Ops| words(ops, 3).remove(0);
        assert_eq!(
            one(ops![RandomHorizontalFlip::new(0.001).unwrap()]),
            "RandomHorizontalFlip: not run"
        );
        assert_eq!(one(ops![RandomInvert::new(0.001).unwrap()]), "RandomInvert: not run");
        assert_eq!(
            one(ops![RandomSolarize::new(128.0).unwrap().p(0.001).unwrap()]),
            "RandomSolarize: not run"
        );
        assert_eq!(
            one(ops![RandomPosterize::new(3).unwrap().p(0.001).unwrap()]),
            "RandomPosterize: not run"
        );
        assert_eq!(one(ops![RandomGrayscale::new(0.001).unwrap()]), "RandomGrayscale: not run");
        assert_eq!(
            one(ops![RandomBrightness::new(0.4).unwrap().p(0.001).unwrap()]),
            "RandomBrightness: not run"
        );
        assert_eq!(
            one(ops![RandomPerspective::new().p(0.001).unwrap()]),
            "RandomPerspective: not run"
        );
        assert!(one(ops![RandomInvert::new(1.0).unwrap()]) != "RandomInvert: not run");
        assert_eq!(one(ops![RandomEqualize::new(1.0).unwrap()]), "RandomEqualize: applied");
    }

    #[test]
    fn a_warp_says_its_angle_and_its_matrix() {
        let turned = words(ops![RandomRotation::new(30.0..=30.0).unwrap()], 0).remove(0);
        assert_eq!(
            turned,
            "RandomRotation: turned 30 degrees counter-clockwise, to 40x32, \
             matrix [0.866 -0.5 0; 0.5 0.866 0]"
        );
        let affine = RandomAffine::new(12.0..=12.0).unwrap().scale(0.8..=0.8).unwrap();
        let affine = affine.shear(5.0..=5.0).unwrap();
        let affine = words(ops![affine], 0).remove(0);
        assert!(
            affine.starts_with(
                "RandomAffine: turned 12 degrees clockwise, scaled 0.8, sheared 5 degrees along x, to 40x32, matrix ["
            ),
            "{affine}"
        );
        let both = RandomAffine::new(20.0..=20.0).unwrap().scale(0.8..=0.8).unwrap();
        let both = both.shear_both(-15.0..=-15.0, 10.0..=10.0).unwrap();
        let both = words(ops![both], 0).remove(0);
        let says = "turned 20 degrees clockwise, scaled 0.8, sheared -15 degrees along x, sheared 10 degrees along y";
        assert!(both.starts_with(&format!("RandomAffine: {says}, to 40x32, matrix [")), "{both}");
        let far = RandomAffine::new(-175.0..=-175.0).unwrap();
        let far = words(ops![far.shear_both(0.0..=0.0, -30.0..=-30.0).unwrap()], 0).remove(0);
        let says = "turned 175 degrees counter-clockwise, sheared -30 degrees along y";
        assert!(far.starts_with(&format!("RandomAffine: {says}, to ")), "{far}");
        let shift = RandomAffine::new(0.0..=0.0).unwrap().translate(0.5, 0.5).unwrap();
        let shift = words(ops![shift], 0).remove(0);
        assert!(shift.starts_with("RandomAffine: moved by "), "{shift}");
        let seen = words(ops![RandomPerspective::new().p(1.0).unwrap()], 0).remove(0);
        assert!(
            seen.starts_with("RandomPerspective: seen in perspective, to 40x32, matrix ["),
            "{seen}"
        );
        assert_eq!(seen.matches(';').count(), 2, "{seen}");
    }

    #[test]
    fn a_shear_of_a_policy_is_no_turn() {
        let mut seen = [0; 2];
        for sample in 0..300 {
            let all = words(ops![TrivialAugmentWide::new()], sample);
            for (name, axis) in [("ShearX", 0), ("ShearY", 1)] {
                let says = |words: &&String| {
                    words.starts_with(&format!("{name}: "))
                        && !words.ends_with("not chosen")
                        && !words.ends_with("not run")
                };
                let Some(words) = all.iter().find(says) else { continue };
                let rest = words.strip_prefix(&format!("{name}: sheared ")).unwrap();
                let (angle, rest) = rest.split_once(" degrees along ").unwrap();
                assert!(rest.starts_with(["x, moved by ", "y, moved by "][axis]), "{words}");
                // TrivialAugment draws one of 31 slopes, of which 0.99 is the largest.
                let bin = angle.parse::<f64>().unwrap().to_radians().tan() / 0.99 * 30.0;
                assert!((bin - bin.round()).abs() < 1e-3 && bin.abs() > 0.5, "{words}");
                seen[axis] += 1;
            }
        }
        assert!(seen.iter().all(|count| *count > 5), "{seen:?}");
    }

    #[test]
    fn seeds_and_numbers_that_follow_from_others_are_not_said() {
        let one = |ops: Ops| words(ops, 3).remove(0);
        let noise = GaussianNoise::new().mean(0.0).unwrap().sigma(0.2).unwrap();
        assert_eq!(one(ops![noise]), "GaussianNoise: mean 0, sigma 51");
        let jitter = words(ops![Convert::to(DType::F32), RandomJitter::new(0.25).unwrap()], 3);
        assert_eq!(jitter[1], "RandomJitter: translate 0.25");
        let signal = ScaleIntensityRange::new(0.0..=255.0, -1.0..=1.0).unwrap();
        let noise = words(ops![signal, AddGaussianSNR::new().p(1.0).unwrap()], 3).remove(1);
        assert!(noise.starts_with("AddGaussianSNR: noise to signal 0."), "{noise}");
        assert_eq!(noise.matches('.').count(), 1, "{noise}");
        let erasing = RandomErasing::new().p(1.0).unwrap().random();
        let erased = words(ops![Normalize::imagenet(), erasing], 3).remove(1);
        assert!(erased.starts_with("RandomErasing: top "), "{erased}");
        assert_eq!(erased.matches(", ").count(), 3, "{erased}");
        assert_eq!(one(ops![RandomInvert::new(1.0).unwrap()]), "RandomInvert: applied");
        assert_eq!(one(ops![RandomGrayscale::new(1.0).unwrap()]), "RandomGrayscale: applied");
        let posterize = RandomPosterize::new(3).unwrap().p(1.0).unwrap();
        assert_eq!(one(ops![posterize]), "RandomPosterize: step 32");
    }

    #[test]
    fn ops_on_many_bands_name_the_bands_that_they_change() {
        let input = ImageType::from(SIZE).with_channels(6);
        let said = |ops: Ops, sample| {
            let plan = ImagePlan::new(ops, input, NumberRule::Fused).unwrap();
            drawn(&plan, sample).describe(&plan).remove(0).to_string()
        };
        let dropout = |p| ChannelDropout::new().channel_drop_range(2..=2).unwrap().p(p).unwrap();
        let mut seen = BTreeSet::new();
        for sample in 0..100 {
            let words = said(ops![dropout(1.0)], sample);
            let bands = words.strip_prefix("ChannelDropout: changes channels ").unwrap();
            let bands: Vec<usize> = bands.split(", ").map(|band| band.parse().unwrap()).collect();
            assert!(bands.len() == 2 && bands[0] < bands[1], "{words}");
            seen.extend(bands);
        }
        assert!(seen.into_iter().eq(0..6));
        assert_eq!(said(ops![dropout(1e-9)], 3), "ChannelDropout: not run");
        let normalize = Normalize::levels([1.0; 6], [2.0; 6]).unwrap();
        assert_eq!(said(ops![normalize], 3), "Normalize: applied");
        assert_eq!(said(ops![RandomBrightness::new(2.0..=2.0).unwrap()], 3), "RandomBrightness: 2");
        assert_eq!(channels(&[3, 4]), "changes channels 3, 4");
        let most: Vec<usize> = (0..15).collect();
        assert!(channels(&most).ends_with("10, 11 and 3 more"));
    }

    #[test]
    fn a_jitter_says_its_order_and_factors() {
        let order = words(ops![ColorJitter::new(0.4, 0.4, 0.0).unwrap()], 1).remove(0);
        assert!(order.starts_with("ColorJitter: ") && order.contains(", then "), "{order}");
        assert!(order.contains("Brightness ") && order.contains("Contrast "));
        assert_eq!(order.matches('.').count(), 2, "no mean: {order}");
    }

    #[test]
    fn numbers_are_short() {
        let texts = [1.0, 1.13, -0.00001, 1234.5, 0.123_456].map(number);
        assert_eq!(texts, ["1", "1.13", "0", "1234.5", "0.1235"]);
    }

    #[test]
    fn a_shift_says_which_way() {
        let size = Size::new(32, 32);
        assert_eq!(framed(size, -3, 2, size), "shifted 3 down, 2 left");
        assert_eq!(framed(size, 0, 0, size), "all of it");
    }

    #[test]
    fn what_runs_at_other_pixels_than_the_first_ones_is_said_to_run() {
        let grid = |p| GridMask::new().period(8..=8).unwrap().ratio(0.5).unwrap().p(p).unwrap();
        let noise = |p| {
            let signal = ScaleIntensityRange::new(0.0..=255.0, -1.0..=1.0).unwrap();
            ops![signal, AddGaussianSNR::new().p(p).unwrap()]
        };
        let erasing = || RandomErasing::new().p(0.5).unwrap();
        for sample in 0..50 {
            assert_ne!(words(ops![grid(1.0)], sample), ["GridMask: not run"]);
            assert_ne!(words(noise(1.0), sample)[1], "AddGaussianSNR: not run");
            // A colour and noise are painted into the same rectangle.
            let colour = words(ops![erasing()], sample).remove(0);
            let random = words(ops![Normalize::imagenet(), erasing().random()], sample).remove(1);
            assert_eq!(colour.ends_with("not run"), random.ends_with("not run"), "{colour}");
        }
        assert_eq!(words(ops![grid(1e-9)], 3), ["GridMask: not run"]);
        assert_eq!(words(noise(1e-9), 3)[1], "AddGaussianSNR: not run");
    }

    const SIZE: Size = Size { height: 32, width: 40 };

    fn planned(ops: Ops) -> ImagePlan {
        ImagePlan::new(ops, ImageType::from(SIZE), NumberRule::Fused).unwrap()
    }

    fn drawn(plan: &ImagePlan, sample: u64) -> Draws {
        let mut draws = Draws::default();
        plan.draw(SampleKey::new(7, 0, sample), SIZE, &mut draws);
        draws
    }

    #[test]
    fn a_jitter_names_its_parts_in_the_order_in_which_they_run() {
        let jitter = ColorJitter::new(0.5..=0.5, 2.0..=2.0, 1.5..=1.5).unwrap();
        let jitter = jitter.hue(0.25..=0.25).unwrap();
        let plan = planned(ops![RandomInvert::new(1.0).unwrap(), jitter]);
        let names = ["Brightness 0.5", "Contrast 2", "Saturation 1.5", "Hue 0.25"];
        let (mut links, mut leaves, mut seen) = (vec![], vec![], BTreeSet::new());
        for sample in 0..500 {
            let draws = drawn(&plan, sample);
            plan.fused_ops(&plan.blocks()[0], &draws, &mut links, &mut leaves);
            let part = |link: &FusedOp| match link {
                FusedOp::Value { part: Some(part), .. } => Some(names[*part]),
                _ => None,
            };
            let run: Vec<&str> = links.iter().filter_map(part).collect();
            let said = draws.describe(&plan)[1].to_string();
            assert_eq!(said, format!("ColorJitter: {}", run.join(", then ")));
            seen.insert(said);
        }
        assert_eq!(seen.len(), 24);
    }

    /// An op that mixes an image with inverted ones, in fixed shares.
    #[derive(Debug)]
    struct Inverted(Ops, f32);

    impl Op for Inverted {
        fn name(&self) -> &'static str {
            "Inverted"
        }

        fn output(&self, input: &Type) -> Result<Type, TypeError> {
            Ok(input.clone())
        }

        fn class(&self) -> OpClass<'_> {
            OpClass::Mix(self)
        }
    }

    impl MixOp for Inverted {
        fn step(&self) -> &Ops {
            &self.0
        }

        fn draw(&self, _: &mut Rng) -> Mixture {
            Mixture { keep: self.1, chains: vec![(0.25, 1), (0.125, 3), (0.0625, 2)] }
        }
    }

    #[test]
    fn a_mixture_says_its_weights_and_the_lengths_of_its_chains() {
        let op = |keep| Inverted(ops![RandomInvert::new(1.0).unwrap()], keep);
        let chains = "0.25 of 1 step(s), 0.125 of 3 step(s), 0.0625 of 2 step(s)";
        let plan = planned(ops![RandomApply::new(ops![op(0.5)]).p(1.0).unwrap(), op(0.75)]);
        let said = drawn(&plan, 0).describe(&plan);
        let said: Vec<String> = said.iter().map(ToString::to_string).collect();
        let of = |keep: &str| format!("Inverted: {keep} of itself, {chains}");
        assert_eq!(said, [of("0.5"), of("0.75")]);
    }

    #[test]
    fn row_filters_say_what_they_do() {
        let said = |filter: RowFilter| filtered(&filter, Size::new(12, 20));
        let (size, interpolation) = (Size::new(8, 16), Resampling::Bicubic);
        assert_eq!(said(RowFilter::Resample { size, interpolation }), "to 16x8");
        assert_eq!(said(RowFilter::Transpose), "rows and columns change places");
        let permutation = RowPermutation { rows: 5, keys: [1, 2] };
        assert_eq!(said(RowFilter::Permute(permutation)), "5 rows in random order");
        assert_eq!(said(RowFilter::RowMean), "the mean of 12 rows");
        let padding = Padding { top: 1, left: 2, bottom: 3, right: 5, mode: PadMode::Edge };
        assert_eq!(said(RowFilter::Pad(padding)), "padded to 27x16");
        assert_eq!(said(RowFilter::Sharpen { factor: 0.25 }), "sharpness 0.25");
        let blur = RowFilter::GaussianBlur { kernel: [9, 3], sigma: [1.5, 0.5] };
        assert_eq!(said(blur), "kernel 9x3, sigma 1.5, 0.5");
        assert_eq!(said(RowFilter::BoxBlur { kernel: [9, 3] }), "kernel 9x3");
        assert_eq!(said(RowFilter::Median { side: 5 }), "kernel 5x5");
        assert_eq!(said(RowFilter::Pixelate { scale: 0.25 }), "scaled 0.25 and back");
        assert_eq!(said(RowFilter::Jpeg { quality: 75 }), "quality 75");
        let line = MotionLine { side: 7, angle: 33.0, ends: [-3.0, 3.0], shift: [0.0; 2] };
        assert_eq!(
            said(RowFilter::Convolve(ConvolutionKernel::Line(line))),
            "kernel 7x7, angle 33"
        );
        let square = ConvolutionKernel::Square([[0.0; 3], [0.0, 1.5, 0.0], [0.0; 3]]);
        assert_eq!(said(RowFilter::Convolve(square)), "kernel [0 0 0; 0 1.5 0; 0 0 0]");
        // Sizes follow from op to op: the crop is all of the turned image.
        let crop = CenterCrop::new((40, 32)).unwrap();
        let turned = words(ops![Transpose::new(1.0).unwrap(), crop], 0);
        assert_eq!(turned[1], "CenterCrop: all of it");
    }

    #[test]
    fn a_region_says_its_rows_and_columns() {
        let window = Window { top: 3, left: 5, height: 4, width: 6 };
        assert_eq!(painted(window), "rows 3..7, columns 5..11");
        assert_eq!(painted(Window { height: 0, ..window }), "nothing painted");
    }

    #[test]
    fn an_op_in_a_container_is_not_chosen_not_run_or_runs() {
        let flip = |p| RandomHorizontalFlip::new(p).unwrap();
        let apply = |list, p| RandomApply::new(list).p(p).unwrap();
        let outcomes = |ops: Ops| {
            let plan = planned(ops);
            let said = drawn(&plan, 3).describe(&plan);
            said.into_iter().map(|op| (op.flat_op, op.outcome, op.words)).collect::<Vec<_>>()
        };
        let not_chosen = |index| (index, OpOutcome::NotChosen, "not chosen".to_owned());
        assert_eq!(outcomes(ops![apply(ops![flip(1.0)], 1e-9)]), [not_chosen(0)]);
        let list = ops![flip(1e-9), RandomEqualize::new(1e-9).unwrap(), flip(1.0)];
        assert_eq!(
            outcomes(ops![apply(list, 0.999_999)]),
            [
                (0, OpOutcome::Skipped, "not run".to_owned()),
                (1, OpOutcome::Skipped, "not run".to_owned()),
                (2, OpOutcome::Runs, "flipped horizontally".to_owned()),
            ]
        );
    }
}
