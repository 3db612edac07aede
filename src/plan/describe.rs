//! A description of a plan for people: as data, and as text.
//!
//! ```text
//! decoded ─▶ block 0 ─▶ u8 ─▶ block 1 ─▶ .. ─▶ batch
//!               ops, what became of each, why the block ends
//! ```

use super::block::{Block, BlockTarget, FusedOp, reduction};
use super::flatten::{FlatOp, Guard};
use super::kind::{OpKind, has_planes};
use super::{Draws, ImagePlan};
use fuseloop_ops::Size;
use fuseloop_ops::author::{GeometryStep, ImageType, Layout, RowProducer, Statistic, Type};
use fuseloop_ops::internals::SampleKey;
use std::fmt::Write as _;

/// A plan as data.
#[derive(Clone, Debug, PartialEq)]
pub struct Description {
    /// The decoded images.
    pub input: ImageType,
    /// The batch's images.
    pub output: ImageType,
    /// Bytes of one sample of the batch.
    pub output_bytes: usize,
    /// Ops that narrow the window that is decoded.
    pub pushed_into_decode: Vec<&'static str>,
    /// The blocks, in order.
    pub blocks: Vec<BlockDescription>,
    /// Ops that were left out, since they do nothing.
    pub left_out: Vec<&'static str>,
}

/// A block as data.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockDescription {
    /// The kind of the block, in a few words.
    pub summary: String,
    /// The type of the image that the block reads.
    pub input: ImageType,
    /// The type of the image that the block stores.
    pub output: ImageType,
    /// Its ops, in order.
    pub ops: Vec<OpDescription>,
    /// How many loop bodies samples may need.
    pub loop_bodies: usize,
    /// Why the block ends before the next op.
    pub ends: String,
}

/// An op as data.
#[derive(Clone, Debug, PartialEq)]
pub struct OpDescription {
    /// The op's index in the flat ops.
    pub flat_op: usize,
    /// The index, in the user's list, of the op or of the container that it is in.
    pub op_index: usize,
    /// The op's name.
    pub name: &'static str,
    /// How the op is executed.
    pub role: &'static str,
    /// The type of the image after it.
    pub output: ImageType,
    /// The containers that draw whether it runs.
    pub chosen_by: Vec<&'static str>,
}

impl ImagePlan {
    /// Describes the plan as data.
    #[must_use]
    pub fn describe(&self) -> Description {
        let blocks = self.blocks().iter().enumerate();
        Description {
            input: self.input(),
            output: self.output(),
            output_bytes: self.sample_bytes(),
            pushed_into_decode: self.pushed_into_decode(),
            blocks: blocks.map(|(index, block)| self.describe_block(index, block)).collect(),
            left_out: self.removed.iter().map(|(_, name)| *name).collect(),
        }
    }

    fn describe_block(&self, index: usize, block: &Block) -> BlockDescription {
        let leaves = self.flat_ops();
        let before = leaves.get(block.ops.start).map_or(self.output(), |leaf| leaf.input);
        let after = block.ops.clone().last().map_or(before, |leaf| leaves[leaf].output);
        // The channels that a later op selects are the only ones that it gets.
        let of_block = |image: ImageType| match self.planes() {
            Some(planes) if index >= planes.blocks && has_planes(&image) => {
                image.with_channels(planes.count as u16)
            }
            _ => image,
        };
        let (before, after) = (of_block(before), of_block(after));
        let describe_op = |flat_op: usize| OpDescription {
            flat_op,
            op_index: leaves[flat_op].op_index,
            name: leaves[flat_op].op.name(),
            role: block.role(leaves, flat_op),
            output: leaves[flat_op].output,
            chosen_by: self.chosen_by(&leaves[flat_op]),
        };
        BlockDescription {
            summary: self.summary(index),
            // Between two blocks, images are channels last.
            input: match index {
                0 => self.input(),
                _ => ImageType { dtype: block.source, layout: Layout::ChannelsLast, ..before },
            },
            output: ImageType { dtype: block.dtype, layout: block.layout, ..after },
            ops: block.ops.clone().map(describe_op).collect(),
            loop_bodies: block.variants(leaves),
            ends: self.why_it_ends(index),
        }
    }

    /// Describes what block number `index` does, on one line.
    fn summary(&self, index: usize) -> String {
        let summary = self.blocks()[index].summary(self.flat_ops());
        match self.planes() {
            Some(planes) if index < planes.blocks => {
                format!("{summary}; once for each of the {} planes", planes.count)
            }
            Some(planes) if index == planes.blocks => {
                format!("the {} selected channels together; {summary}", planes.count)
            }
            _ => summary,
        }
    }

    /// Returns the containers that may leave an op out.
    fn chosen_by(&self, leaf: &FlatOp) -> Vec<&'static str> {
        let decides = |guard: &&Guard| {
            let mut outcomes = 0..self.choices()[guard.choice].outcomes;
            outcomes.any(|outcome| guard.when >> outcome & 1 == 0)
        };
        let guards = leaf.guards.iter().filter(decides);
        guards.map(|guard| self.choices()[guard.choice].op.name()).collect()
    }

    /// Returns why block number `index` ends.
    fn why_it_ends(&self, index: usize) -> String {
        let block = &self.blocks()[index];
        let name = |leaf: usize| self.flat_ops()[leaf].op.name();
        if let Some(host) = block.host {
            return match self.flat_ops()[host].kind {
                OpKind::Mix => {
                    format!("{} runs loops of its own on the stored picture", name(host))
                }
                _ => format!("{} is not compiled and gets the picture stored", name(host)),
            };
        }
        if block.device == BlockTarget::Staged {
            return "what follows is a device's".to_owned();
        }
        let Some(next) = self.blocks().get(index + 1) else {
            return "it stores the batch".to_owned();
        };
        if block.converts(self.flat_ops()) {
            return "values are rounded to the type that they were converted to".to_owned();
        }
        if self.planes().is_some_and(|planes| planes.blocks == index + 1) {
            let selection = name(next.ops.start);
            return format!("{selection} selects the planes that are processed together");
        }
        let maker = name(next.ops.start);
        let makes_rows = |leaf: &usize| self.flat_ops()[*leaf].kind.rows().is_some();
        if !makes_rows(&next.ops.start) {
            return format!("with {maker} it might need more loop bodies than are compiled");
        }
        if let Some(first) = block.ops.clone().find(makes_rows) {
            let first = name(first);
            return format!(
                "{maker} makes rows of a whole picture, and here {first} made some already"
            );
        }
        let changes = block.groups.first().map_or("an op", |step| name(step.flat_ops[0]));
        format!("{maker} makes rows of a whole picture, and {changes} changes it first")
    }

    /// Returns the ops that narrow the window that is decoded.
    fn pushed_into_decode(&self) -> Vec<&'static str> {
        let (mut draws, input) = (Draws::default(), self.input());
        let size = Size::new(input.height.max.max(1), input.width.max.max(1));
        self.draw(SampleKey::new(0, 0, 0), size, &mut draws);
        if self.needed_window(&draws) == size.full() {
            return vec![];
        }
        let mut names = vec![];
        for (leaf, motion) in draws.geometry.iter().filter(|(l, _)| *l < self.blocks()[0].ops.end) {
            match motion {
                GeometryStep::CropPad { .. } => names.push(self.flat_ops()[*leaf].op.name()),
                GeometryStep::Resize { .. }
                | GeometryStep::ResizePart { .. }
                | GeometryStep::Rows(_) => break,
                GeometryStep::FlipHorizontal | GeometryStep::FlipVertical => {}
            }
        }
        names
    }

    /// Describes the plan in words: one line an op, under the block that contains it.
    #[must_use]
    pub fn explain(&self) -> String {
        let mut text = String::new();
        for (k, block) in self.blocks.iter().enumerate() {
            let _ = writeln!(text, "block {k}: {}", self.summary(k));
            for leaf in block.ops.clone() {
                let name = self.flat_ops[leaf].op.name();
                let _ = writeln!(text, "  {name:<24} {}", block.role(&self.flat_ops, leaf));
            }
        }
        for (_, name) in &self.removed {
            let _ = writeln!(text, "left out, since it does nothing: {name}");
        }
        let output = Type::Image(self.output());
        let _ = writeln!(text, "output: {output}, {} bytes a sample", self.sample_bytes());
        text
    }
}

impl Block {
    /// Describes the block in a few words.
    #[must_use]
    pub fn summary(&self, leaves: &[FlatOp]) -> String {
        let mut parts = vec![];
        if self.padded_copy.is_some() {
            parts.push("masks or a framed copy where a shift leaves the picture".to_owned());
        }
        match self.rows {
            Some(RowProducer::Compiled) => parts.push("rows resized".to_owned()),
            Some(RowProducer::Called) => parts.push("rows made by a row function".to_owned()),
            None => {}
        }
        let links = || self.groups.iter().flat_map(|step| &step.fused_ops);
        let readings = links().filter(|link| reduction(leaves, **link).is_some()).count();
        if readings > 0 {
            parts.push(format!("{readings} reading(s) of the picture"));
        }
        let by = if self.device == BlockTarget::Device {
            "one kernel a batch"
        } else {
            "one loop over the pixels"
        };
        parts.push(format!("{by}, {} step(s) in registers", links().count()));
        if self.device != BlockTarget::Device && self.variants(leaves) > 1 {
            parts.push(format!("up to {} loop bodies", self.variants(leaves)));
        }
        if self.streams {
            parts.push("stored around the caches".to_owned());
        }
        parts.join("; ")
    }

    /// Describes how one of the block's flat ops is executed.
    #[must_use]
    pub fn role(&self, leaves: &[FlatOp], leaf: usize) -> &'static str {
        let folded =
            self.groups.iter().find(|s| s.flat_ops.len() > 1 && s.flat_ops.contains(&leaf));
        match folded.map(|step| step.fused_ops[0]) {
            Some(FusedOp::Table { .. }) => return "folded into one table of 256 values a channel",
            Some(FusedOp::Matrix { .. }) => return "folded into one colour matrix",
            _ => {}
        }
        match &leaves[leaf].kind {
            OpKind::Geometry { rows, .. } => match rows {
                Some(RowProducer::Compiled) => {
                    "window pushed into decode, rows resized as the loop needs them"
                }
                Some(RowProducer::Called) => "rows made by a row function as the loop needs them",
                None if self.padded_copy.is_some_and(|(framed, _)| framed == leaf) => {
                    "source addresses; masks or a framed copy where it leaves the picture"
                }
                None if self.regions.iter().any(|r| r.leaf == leaf) => {
                    "source addresses, and a mask for what comes in from outside"
                }
                None => "folded into source addresses",
            },
            OpKind::Pixel(op) if op.selected.is_some() && has_planes(&leaves[leaf].input) => {
                "only the planes that it selects are processed"
            }
            OpKind::Pixel(op) if op.statistic == Some(Statistic::GreyMean) => {
                "in registers, after a reading for the mean"
            }
            OpKind::Pixel(op) if op.statistic == Some(Statistic::RootMeanSquare) => {
                "in registers, after a reading for the root mean square"
            }
            OpKind::Pixel(_) => "in registers",
            OpKind::Shuffled(_) if self.device == BlockTarget::Device => {
                "in registers, in each sample's order"
            }
            OpKind::Shuffled(_) => "in registers, one loop body for each order",
            OpKind::Table { counted: true, .. } => "a look-up, after levels are counted",
            OpKind::Table { .. } => "a look-up",
            OpKind::Region { .. } => "a mask in registers",
            OpKind::Host { size: None } => {
                "not compiled: called with the stored picture, for the samples it changes"
            }
            OpKind::Host { size: Some(_) } => {
                "not compiled: called with the stored picture, makes a new one"
            }
            OpKind::Cast(_) | OpKind::Layout => "folded into the final store",
            OpKind::Mix => "chains of loops of their own on the stored picture, and their sum",
            OpKind::Batch => "on the finished batch, in place",
            OpKind::View(_) => "the stored bits under another name",
            OpKind::Device if self.device == BlockTarget::Staged => {
                "bytes for a device, copied with the batch"
            }
            OpKind::Device => "values rounded to bytes, as a device would get them",
            OpKind::Other => "",
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test ends where it fails")]
mod tests {
    use super::*;
    use fuseloop_ops::author::Dim;
    use fuseloop_ops::*;

    #[test]
    fn blocks_say_what_they_read_and_why_they_end() {
        let brightness = RandomBrightness::new(0.4).unwrap();
        let crop =
            RandomResizedCrop::new(24).unwrap().scale(0.1..=0.2).unwrap().ratio(1.0..=1.0).unwrap();
        let poison = Poison::new(Size::new(24, 24), &[0.0; 1728], &[0.0; 576], [1]).unwrap();
        let ops = ops![brightness, crop, poison, Normalize::imagenet(), ToChannelsFirst];
        let input = ImageType::decoded(Dim::fixed(40), Dim::fixed(40));
        let plan = ImagePlan::new(ops, input, NumberRule::Fused).unwrap().describe();
        let ends: Vec<&str> = plan.blocks.iter().map(|block| block.ends.as_str()).collect();
        assert_eq!(
            ends,
            [
                "RandomResizedCrop makes rows of a whole picture, and RandomBrightness changes it first",
                "Poison is not compiled and gets the picture stored",
                "it stores the batch",
            ]
        );
        let stored = plan.blocks.iter().map(|block| Type::Image(block.output).to_string());
        assert_eq!(
            stored.collect::<Vec<_>>(),
            ["a u8 image [40, 40, 3]", "a u8 image [24, 24, 3]", "a f32 image [3, 24, 24]"]
        );
        assert!(plan.pushed_into_decode.len() <= 1 && plan.left_out.is_empty());
    }

    #[test]
    fn what_a_device_does_is_told_apart() {
        let device = ToDevice::new("cuda:0").unwrap();
        let jitter = ColorJitter::new(0.4, 0.4, 0.4).unwrap();
        let ops = ops![CenterCrop::new(8).unwrap(), device, jitter, Normalize::imagenet()];
        let input = ImageType::decoded(Dim::fixed(40), Dim::fixed(40));
        let plan = ImagePlan::on_device(ops, input, NumberRule::Fused).unwrap();
        assert_eq!((plan.host_blocks(), plan.host_bytes(), plan.sample_bytes()), (1, 192, 768));
        let plan = plan.describe();
        assert_eq!(plan.pushed_into_decode, ["CenterCrop"]);
        assert_eq!(plan.blocks[0].ends, "what follows is a device's");
        let summary = "1 reading(s) of the picture; one kernel a batch, 4 step(s) in registers";
        assert_eq!(plan.blocks[1].summary, summary);
    }

    #[test]
    fn a_crop_is_pushed_into_decode_and_colour_is_not() {
        let ops = ops![RandomHorizontalFlip::new(0.5).unwrap(), CenterCrop::new(8).unwrap()];
        let input = ImageType::decoded(Dim::fixed(40), Dim::fixed(40));
        let plan = ImagePlan::new(ops, input, NumberRule::Fused).unwrap().describe();
        assert_eq!(plan.pushed_into_decode, ["CenterCrop"]);
    }

    #[test]
    fn a_container_that_always_runs_an_op_does_not_choose_it() {
        let input = ImageType::decoded(Dim::fixed(40), Dim::fixed(40));
        let flip = || ops![RandomHorizontalFlip::new(0.5).unwrap()];
        let sure = RandomApply::new(flip()).p(1.0).unwrap();
        let list = ops![
            Letterbox::new(24).unwrap(),
            sure,
            RandomApply::new(flip()),
            RandomPhotometricDistort::new()
        ];
        let plan = ImagePlan::new(list, input, NumberRule::Fused).unwrap().describe();
        let all = plan.blocks.iter().flat_map(|block| &block.ops);
        let chosen = all.filter(|op| !op.chosen_by.is_empty());
        let chosen: Vec<_> =
            chosen.map(|op| (op.op_index, op.name, op.chosen_by.clone())).collect();
        let contrast = || (3, "RandomContrast", vec!["RandomPhotometricDistort"]);
        let expected = [(2, "RandomHorizontalFlip", vec!["RandomApply"]), contrast(), contrast()];
        assert_eq!(chosen, expected);
    }
}
