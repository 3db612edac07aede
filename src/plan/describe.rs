//! A description of a plan for people: as data, and as text.
//!
//! ```text
//! decoded ─▶ block 0 ─▶ u8 ─▶ block 1 ─▶ .. ─▶ batch
//!               ops, what became of each, why the block ends
//! ```

use super::batch_ops;
use super::block::{Block, BlockEnd, BlockTarget, FusedOp, reduction};
use super::flatten::{FlatOp, Guard};
use super::kind::{OpKind, has_planes};
use super::{Draws, ImagePlan};
use fuseloop_ops::author::{BoundingBox, ImageType, Layout, OpClass, RowProducer, Statistic, Type};
use fuseloop_ops::internals::SampleKey;
use fuseloop_ops::{BoxFormat, ClampingMode, DType, Size};
use std::collections::BTreeSet;
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
    /// Ops that narrow the window that is decoded, at least for some samples.
    pub pushed_into_decode: Vec<&'static str>,
    /// The blocks, in order.
    pub blocks: Vec<BlockDescription>,
    /// Ops that were left out, since they do nothing.
    pub left_out: Vec<&'static str>,
    /// The later passes over the finished batch, each with the reason for it.
    pub later: Vec<(String, Self)>,
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
    /// The index, in the user's list, of the op or of the container that it is in. The list is that of the image if
    /// the op `is_followed`.
    pub op_index: usize,
    /// True if the op is one of the image that this plan of a mask follows.
    pub is_followed: bool,
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
        let (blocks, narrowing) = (self.blocks().iter().enumerate(), self.narrows_decode());
        let name = |leaf: &usize| self.flat_ops()[*leaf].op.name();
        let last = self.later().last().map_or(self, |pass| &**pass);
        Description {
            input: self.input(),
            output: last.output(),
            output_bytes: last.sample_bytes(),
            pushed_into_decode: narrowing.iter().map(name).collect(),
            blocks: blocks
                .map(|(index, block)| self.describe_block(index, block, &narrowing))
                .collect(),
            left_out: self.removed.iter().map(|(_, name)| *name).collect(),
            later: (1..)
                .zip(self.later())
                .map(|(pass, plan)| (batch_ops::why_later(self.ops(), pass), plan.describe()))
                .collect(),
        }
    }

    fn describe_block(
        &self,
        index: usize,
        block: &Block,
        narrowing: &BTreeSet<usize>,
    ) -> BlockDescription {
        let leaves = self.flat_ops();
        let before = leaves.get(block.ops.start).map_or(self.output(), |leaf| leaf.input);
        let after = block.ops.clone().last().map_or(before, |leaf| leaves[leaf].output);
        // The channels that a later op selects are the only ones that it gets.
        let of_block = |image: ImageType| match self.planes() {
            Some(planes) if index < planes.blocks || has_planes(&image) => {
                image.with_channels(planes.count as u16)
            }
            _ => image,
        };
        let (before, after) = (of_block(before), of_block(after));
        let describe_op = |flat_op: usize| OpDescription {
            flat_op,
            op_index: leaves[flat_op].op_index,
            is_followed: flat_op < self.followed_ops().len(),
            name: leaves[flat_op].op.name(),
            role: self.role(block, flat_op, narrowing),
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
        let next =
            || self.blocks().get(index + 1).map_or("the next op", |next| name(next.ops.start));
        match self.ends[index] {
            BlockEnd::Output => "it stores the batch".to_owned(),
            BlockEnd::Host => {
                let host = block.host.map_or("an op", name);
                match block.host.map(|host| &self.flat_ops()[host].kind) {
                    Some(OpKind::Mix) => {
                        format!("{host} runs loops of its own on the stored picture")
                    }
                    _ => format!("{host} is not compiled and gets the picture stored"),
                }
            }
            BlockEnd::Device => "what follows is a device's".to_owned(),
            BlockEnd::Converted => {
                "values are rounded to the type that they were converted to".to_owned()
            }
            BlockEnd::JoinsPlanes => {
                format!("{} selects the planes that are processed together", next())
            }
            BlockEnd::MadeRows(first) => format!(
                "{} makes rows of a whole picture, and here {} made some already",
                next(),
                name(first)
            ),
            BlockEnd::OtherRows(other) => format!(
                "{} makes rows of a whole picture, in another way than {} does here",
                next(),
                name(other)
            ),
            BlockEnd::Changed(first) => format!(
                "{} makes rows of a whole picture, and {} changes it first",
                next(),
                name(first)
            ),
            BlockEnd::LoopBodies => {
                format!("with {} it might need more loop bodies than are compiled", next())
            }
        }
    }

    /// Returns the flat ops that narrow the window that is decoded, for some draws.
    fn narrows_decode(&self) -> BTreeSet<usize> {
        /// The number of samples that are drawn for each op.
        const SAMPLES: u64 = 8;
        let input = self.input();
        let full = Size::new(input.height.max.max(1), input.width.max.max(1));
        let [height, width] = [full.height, full.width].map(|side| side as f32);
        let corners = [width / 4.0, height / 4.0, width * 0.75, height * 0.75];
        let middle = BoundingBox::read(BoxFormat::Xyxy, &corners);
        // Some crops are drawn around the boxes.
        let is_around = |leaf: &FlatOp| match leaf.op.class() {
            OpClass::Geometry(op) => op.needs_boxes(),
            _ => false,
        };
        let needs_boxes = self.flat_ops().iter().any(is_around);
        let (mut draws, mut found) = (Draws::default(), BTreeSet::new());
        for leaf in self.blocks()[0].ops.clone().map(|leaf| &self.flat_ops()[leaf]) {
            if !matches!(leaf.kind, OpKind::Geometry { .. }) {
                continue;
            }
            for sample in 0..SAMPLES {
                draws.restart(SampleKey::new(0, 0, sample), full, self.param_count());
                if needs_boxes {
                    draws.objects.reset(1);
                    draws.objects.set_boxes([middle], BoxFormat::Xyxy, ClampingMode::default());
                }
                // The containers that the op is in draw the first outcome with which it runs.
                for (index, choice) in self.choices().iter().enumerate() {
                    let guard = leaf.guards.iter().find(|guard| guard.choice == index);
                    draws.outcomes.push(match guard {
                        Some(guard) => guard.when.trailing_zeros() as usize,
                        None => sample as usize % choice.outcomes,
                    });
                }
                self.draw_ops(0, &mut { full }, &mut draws, |_, _| ());
                self.narrow_window(&draws, |leaf| {
                    found.insert(leaf);
                });
            }
        }
        found
    }

    /// Describes how a flat op of a block is executed.
    fn role(&self, block: &Block, leaf: usize, narrowing: &BTreeSet<usize>) -> &'static str {
        let is_pushed = narrowing.contains(&leaf);
        match (&self.flat_ops()[leaf].kind, block.rows) {
            (OpKind::Geometry { rows: Some(_), .. }, Some(rows)) => match (is_pushed, rows) {
                (true, RowProducer::Compiled) => {
                    "window pushed into decode, rows resized as the loop needs them"
                }
                (true, RowProducer::Called) => {
                    "window pushed into decode, rows made by a row function as the loop needs them"
                }
                (false, RowProducer::Compiled) => "rows resized as the loop needs them",
                (false, RowProducer::Called) => {
                    "rows made by a row function as the loop needs them"
                }
            },
            _ => block.role(self.flat_ops(), leaf),
        }
    }

    /// Describes the plan in words: one line an op, under the block that contains it.
    #[must_use]
    pub fn explain(&self) -> String {
        let (mut text, narrowing) = (String::new(), self.narrows_decode());
        for (k, block) in self.blocks.iter().enumerate() {
            let _ = writeln!(text, "block {k}: {}", self.summary(k));
            for leaf in block.ops.clone() {
                let name = self.flat_ops[leaf].op.name();
                let _ = writeln!(text, "  {name:<24} {}", self.role(block, leaf, &narrowing));
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

    /// Describes how one of the block's flat ops is executed that produces no rows.
    fn role(&self, leaves: &[FlatOp], leaf: usize) -> &'static str {
        let folded =
            self.groups.iter().find(|s| s.flat_ops.len() > 1 && s.flat_ops.contains(&leaf));
        match folded.map(|step| step.fused_ops[0]) {
            Some(FusedOp::Table { .. }) => return "folded into one table of 256 values a channel",
            Some(FusedOp::Matrix { .. }) => return "folded into one colour matrix",
            _ => {}
        }
        match &leaves[leaf].kind {
            OpKind::Geometry { .. }
                if self.padded_copy.is_some_and(|(framed, _)| framed == leaf) =>
            {
                "source addresses; masks or a framed copy where it leaves the picture"
            }
            OpKind::Geometry { .. } if self.regions.iter().any(|r| r.leaf == leaf) => {
                "source addresses, and a mask for what comes in from outside"
            }
            OpKind::Geometry { .. } => "folded into source addresses",
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
            OpKind::Shuffled(parts) => {
                let reads = parts.iter().any(|part| part.statistic.is_some());
                match (self.device == BlockTarget::Device, reads) {
                    (true, true) => "in registers, in each sample's order, after a reading",
                    (true, false) => "in registers, in each sample's order",
                    (false, true) => "in registers, one loop body for each order, after a reading",
                    (false, false) => "in registers, one loop body for each order",
                }
            }
            OpKind::Table { counted: true, .. } => "a look-up, after levels are counted",
            OpKind::Table { .. } => "a look-up",
            OpKind::Region { .. } => "a mask in registers",
            OpKind::Host { size: None } => {
                "not compiled: called with the stored picture, for the samples it changes"
            }
            OpKind::Host { size: Some(_) } => {
                "not compiled: called with the stored picture, makes a new one"
            }
            OpKind::Cast(DType::U8) if leaves[leaf].input.dtype != DType::U8 => {
                "rounded to whole levels in registers"
            }
            OpKind::Cast(to) if *to != self.dtype => "nothing to do: another type is stored",
            OpKind::Cast(_) if self.ops.end < leaves.len() => "folded into the store of the block",
            OpKind::Cast(_) | OpKind::Layout => "folded into the final store",
            OpKind::Mix => "chains of loops of their own on the stored picture, and their sum",
            OpKind::Batch => "on the finished batch, in place",
            OpKind::View(_) => "the stored bits under another name",
            OpKind::Device if self.device == BlockTarget::Staged => {
                "bytes for a device, copied with the batch"
            }
            OpKind::Device => "values rounded to bytes, as a device would get them",
            OpKind::Other => "on boxes and keypoints",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fuseloop_ops::author::{Dim, Op};
    use fuseloop_ops::*;
    use std::sync::Arc;

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

    const SIZE: Size = Size { height: 40, width: 40 };

    fn described(ops: Ops, channels: u16) -> Description {
        let input = ImageType::from(SIZE).with_channels(channels);
        ImagePlan::new(ops, input, NumberRule::Fused).unwrap().describe()
    }

    fn rotation() -> RandomRotation {
        RandomRotation::new(30.0).unwrap()
    }

    fn brightness() -> RandomBrightness {
        RandomBrightness::new(0.4).unwrap()
    }

    #[test]
    fn a_block_says_which_op_ended_it() {
        let first_end = |ops: Ops, channels| described(ops, channels).blocks.remove(0).ends;
        let rows =
            |maker: &str, rest: &str| format!("{maker} makes rows of a whole picture, {rest}");
        let resize = || Resize::new((24, 24)).unwrap();
        assert_eq!(
            first_end(ops![Convert::to(DType::F32), resize()], 3),
            rows("Resize", "and Convert changes it first")
        );
        // Ops that run for other samples are not the reason.
        let choice = |one: Ops, other: Ops| RandomChoice::new(vec![one, other]).unwrap();
        let solarize = RandomSolarize::new(128.0).unwrap();
        assert_eq!(
            first_end(ops![choice(ops![solarize], ops![brightness(), rotation()])], 3),
            rows("RandomRotation", "and RandomBrightness changes it first")
        );
        let affine = || RandomAffine::new(30.0).unwrap();
        assert_eq!(
            first_end(ops![choice(ops![rotation()], ops![brightness(), affine()])], 3),
            rows("RandomAffine", "and RandomBrightness changes it first")
        );
        assert_eq!(
            first_end(ops![rotation(), affine()], 3),
            rows("RandomAffine", "and here RandomRotation made some already")
        );
        let crop = RandomResizedCrop::new(40).unwrap();
        assert_eq!(
            first_end(ops![choice(ops![crop], ops![rotation()])], 3),
            rows("RandomRotation", "in another way than RandomResizedCrop does here")
        );
        let coins: Ops = (0..8)
            .map(|_| Arc::new(RandomHue::new(0.1).unwrap().p(0.5).unwrap()) as Arc<dyn Op>)
            .collect();
        assert_eq!(
            first_end(coins, 3),
            "with RandomHue it might need more loop bodies than are compiled"
        );
        let scale = || ScaleIntensityRange::new(0.0..=255.0, -1.0..=1.0).unwrap();
        assert_eq!(
            first_end(ops![scale(), Convert::to(DType::F16), scale()], 3),
            "values are rounded to the type that they were converted to"
        );
        let rgb = SelectChannels::new([0, 1, 2]).unwrap();
        assert_eq!(
            first_end(ops![brightness(), Convert::to(DType::F16), rgb], 6),
            "SelectChannels selects the planes that are processed together"
        );
    }

    #[test]
    fn roles_say_what_is_done_in_this_block() {
        let roles = |ops: Ops, rule| -> Vec<&'static str> {
            let plan = ImagePlan::new(ops, ImageType::from(SIZE), rule).unwrap().describe();
            plan.blocks.iter().flat_map(|block| &block.ops).map(|op| op.role).collect()
        };
        let crop = || RandomResizedCrop::new(24).unwrap();
        let fused = |ops| roles(ops, NumberRule::Fused);
        let resized = "rows resized as the loop needs them";
        assert_eq!(fused(ops![brightness(), crop()])[1], resized);
        assert_eq!(fused(ops![Resize::new((24, 24)).unwrap()]), [resized]);
        assert_eq!(fused(ops![crop()]), [format!("window pushed into decode, {resized}")]);
        assert_eq!(
            roles(ops![crop()], NumberRule::Exact),
            ["window pushed into decode, rows made by a row function as the loop needs them"]
        );
        let jitter = |contrast| ColorJitter::new(0.4, contrast, 0.4).unwrap();
        let each_order = "in registers, one loop body for each order";
        assert_eq!(fused(ops![jitter(0.0)]), [each_order]);
        assert_eq!(fused(ops![jitter(0.4)]), [format!("{each_order}, after a reading")]);
        let scale = || ScaleIntensityRange::new(0.0..=255.0, -1.0..=1.0).unwrap();
        let to = Convert::to;
        assert_eq!(fused(ops![scale(), to(DType::U8)])[1], "rounded to whole levels in registers");
        let floats = fused(ops![to(DType::F32), scale(), to(DType::F16)]);
        assert_eq!(floats[0], "nothing to do: another type is stored");
        assert_eq!(floats[2], "folded into the final store");
        let halves = fused(ops![scale(), to(DType::F16), scale()]);
        assert_eq!(halves[1], "folded into the store of the block");
    }

    #[test]
    fn all_ops_that_may_narrow_the_decoded_window_are_listed() {
        let pushed = |ops: Ops| described(ops, 3).pushed_into_decode;
        let rare = RandomApply::new(ops![RandomTranslate::new(4).unwrap()]).p(1e-9).unwrap();
        assert_eq!(pushed(ops![rare]), ["RandomTranslate"]);
        let crop = |side: u32| CenterCrop::new(side).unwrap();
        assert_eq!(pushed(ops![crop(8), Pad::new(2).unwrap(), crop(4)]), ["CenterCrop"; 2]);
        assert_eq!(
            pushed(ops![RandomIoUCrop::new(), Resize::new((24, 24)).unwrap(), crop(8)]),
            ["RandomIoUCrop"]
        );
        let contrast = RandomContrast::new(0.4).unwrap();
        assert!(pushed(ops![contrast, crop(8)]).is_empty(), "the mean is that of all pixels");
    }

    #[test]
    fn blocks_of_planes_store_the_planes_that_are_selected_later() {
        let bands = SelectChannels::new([0, 2, 4, 5, 6]).unwrap();
        let plan = described(ops![brightness(), rotation(), bands], 13);
        let stored: Vec<u16> = plan.blocks.iter().map(|block| block.output.channels).collect();
        assert_eq!(stored, [5, 5]);
        assert_eq!((plan.input.channels, plan.blocks[1].input.channels), (13, 5));
    }

    #[test]
    fn ops_of_a_mask_have_the_indices_of_both_lists() {
        let flip = RandomHorizontalFlip::new(0.5).unwrap();
        let ops = ops![brightness(), rotation(), Normalize::imagenet(), flip];
        let plan = ImagePlan::new(ops, ImageType::from(SIZE), NumberRule::Fused).unwrap();
        let mask = plan.for_mask(DType::U8, 0, &ops![Convert::to(DType::I64), Squeeze]).unwrap();
        let mask = mask.describe();
        let ops = mask.blocks.iter().flat_map(|block| &block.ops);
        let ops: Vec<_> = ops.map(|op| (op.op_index, op.is_followed, op.name)).collect();
        assert_eq!(
            ops,
            [
                (1, true, "RandomRotation"),
                (3, true, "RandomHorizontalFlip"),
                (0, false, "Convert"),
                (1, false, "Squeeze"),
            ]
        );
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
