//! Flattens a list of ops: the ops in containers move into the list, each guarded by the outcomes that
//! the container may draw.
//!
//! ```text
//! [crop, RandomChoice[blur, [grey, invert]], flip]
//!   ──▶  crop,  blur if choice 0 is 0,  grey if it is 1,  invert if it is 1,  flip
//! ```
//!
//! Ops that can't run for the same sample are *exclusive*: they may share a loop's only row producer, a
//! table or a parameter. Flattening also checks every op against the type it gets, and leaves out ops
//! that do nothing.

use super::kind::{OpKind, has_planes, together};
use super::{ImagePlan, batch_ops, of_op, of_type};
use crate::error::{Error, fail};
use fuseloop_ops::author::{ChoiceOp, ImageType, Layout, Op, OpClass, Type};
use fuseloop_ops::internals::{RGB, is_loaded, stream};
use fuseloop_ops::{DType, NumberRule, Ops, TypeError};
use std::collections::HashMap;
use std::sync::Arc;

/// Most flat ops of one pipeline.
const MAX_FLAT_OPS: usize = 1024;

/// Most containers around an op.
const MAX_DEPTH: usize = 8;

/// Most outcomes of one choice: a guard has one bit for each.
const MAX_OUTCOMES: usize = 128;

/// An op that contains no other ops, with the conditions under which it runs.
#[derive(Debug, Clone)]
pub struct FlatOp {
    /// The op.
    pub op: Arc<dyn Op>,
    /// The op's own description, as queried when the list was planned.
    pub kind: OpKind,
    /// The index, in the user's list, of the op or of the container that it is in.
    pub op_index: usize,
    /// The op runs if all of these guards allow it.
    pub guards: Vec<Guard>,
    /// The random stream of the op's draws.
    pub stream: u64,
    /// The type of the op's input.
    pub input: ImageType,
    /// The type of the op's output.
    pub output: ImageType,
    /// The index of its first parameter, if it has any.
    pub first_param: usize,
    /// The plan of one step of the op's chains, if the op mixes images.
    pub step: Option<Arc<ImagePlan>>,
}

/// A choice, and the outcomes of it that allow an op.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guard {
    /// The index in the list of choices.
    pub choice: usize,
    /// Bit `k` is set if outcome `k` allows the op.
    pub when: u128,
}

/// An op that draws which other ops run.
#[derive(Debug, Clone)]
pub struct Choice {
    /// The op.
    pub op: Arc<dyn Op>,
    /// The index of the op of the user's list that it is, or is inside of.
    pub op_index: usize,
    /// The choice is drawn if all of these guards allow it.
    pub guards: Vec<Guard>,
    /// The random stream of the draw.
    pub stream: u64,
    /// The number of outcomes.
    pub outcomes: usize,
}

impl FlatOp {
    /// Returns whether the two ops never run for the same sample.
    #[must_use]
    pub fn is_exclusive_with(&self, other: &Self) -> bool {
        is_exclusive(&self.guards, &other.guards)
    }

    /// Returns how many channels of the op's input are processed together.
    #[must_use]
    pub fn channels(&self) -> usize {
        together(self.input.channels)
    }

    /// Returns whether the op's output has another number of channels than its input.
    #[must_use]
    pub fn changes_channels(&self) -> bool {
        self.input.channels != self.output.channels
    }

    /// Returns whether the op selects, of channels that are processed plane by plane, as many as are processed
    /// together.
    pub(super) fn joins_planes(&self) -> bool {
        has_planes(&self.input) && !has_planes(&self.output)
    }
}

/// Returns whether ops with these guards never run for the same sample.
fn is_exclusive(one: &[Guard], other: &[Guard]) -> bool {
    let clash = |a: &Guard, b: &Guard| a.choice == b.choice && a.when & b.when == 0;
    one.iter().any(|a| other.iter().any(|b| clash(a, b)))
}

/// The result of flattening a list of ops.
#[derive(Debug, Default)]
pub(super) struct FlatList {
    pub(super) flat_ops: Vec<FlatOp>,
    pub(super) choices: Vec<Choice>,
    /// Indices in the user's list and names of the ops that were left out.
    pub(super) removed: Vec<(usize, &'static str)>,
    /// The type after each op of the user's list.
    pub(super) types: Vec<ImageType>,
}

impl FlatList {
    /// Moves the ops from index `op_index` of the user's list on into a list of their own.
    pub(super) fn split_off(&mut self, op_index: usize) -> Self {
        let first = self.flat_ops.partition_point(|leaf| leaf.op_index < op_index);
        let choice = self.choices.partition_point(|choice| choice.op_index < op_index);
        let removed = self.removed.partition_point(|(index, _)| *index < op_index);
        let mut last = Self {
            flat_ops: self.flat_ops.split_off(first),
            choices: self.choices.split_off(choice),
            removed: self.removed.split_off(removed),
            types: self.types.split_off(op_index),
        };
        let of_choices = last.choices.iter_mut().map(|choice| &mut choice.guards);
        let guards = of_choices.chain(last.flat_ops.iter_mut().map(|leaf| &mut leaf.guards));
        guards.flatten().for_each(|guard| guard.choice -= choice);
        last
    }

    /// Returns the index of `ToDevice`, if the list has one. The ops after it run on the device.
    pub(super) fn to_device(&self) -> Option<usize> {
        self.flat_ops.iter().position(|leaf| leaf.kind == OpKind::Device)
    }

    /// Checks that no op changes the number of channels on a device, whose kernels process three.
    fn check_channels_on_device(&self, to_device: usize) -> Result<(), Error> {
        let mut after = self.flat_ops[to_device + 1..].iter();
        let Some(flat) = after.find(|flat| flat.changes_channels()) else { return Ok(()) };
        let error = TypeError {
            op: flat.op.name(),
            expected: "an image before ToDevice, since it changes the number of channels",
            found: Type::Image(flat.input).to_string(),
        };
        Err(of_type(flat.op_index, error))
    }

    /// Checks that a device gets what it can process: u8 images of three channels, all of one size.
    fn check_device(&self) -> Result<(), Error> {
        let Some(at) = self.to_device().filter(|at| has_sample_ops(&self.flat_ops[at + 1..]))
        else {
            return Ok(());
        };
        let FlatOp { op, input, op_index, .. } = &self.flat_ops[at];
        let expected = if input.size().is_none() {
            "images of one size (put it after the crop or resize)"
        } else if usize::from(input.channels) != RGB {
            "an image of 3 channels (a device takes no other: leave it out)"
        } else if self.flat_ops[0].input.dtype != DType::U8 {
            "an image that is stored as bytes (a device takes no other: leave it out)"
        } else if (input.dtype, input.layout) != (DType::U8, Layout::ChannelsLast) {
            "a u8 image, channels last (put Normalize, Convert and ToChannelsFirst after it, or it last)"
        } else {
            return self.check_channels_on_device(at);
        };
        let found = Type::Image(*input).to_string();
        Err(of_type(*op_index, TypeError { op: op.name(), expected, found }))
    }
}

/// Returns whether any of these ops works on samples.
pub(super) fn has_sample_ops(leaves: &[FlatOp]) -> bool {
    leaves.iter().any(|leaf| leaf.kind != OpKind::Batch)
}

/// Flattens `ops`, for images of type `input`.
pub(super) fn flatten(ops: &Ops, input: ImageType, rule: NumberRule) -> Result<FlatList, Error> {
    let mut walk = Flattening {
        flat: FlatList::default(),
        op_index: 0,
        seen: HashMap::new(),
        rule,
        viewed: false,
        is_mixed: false,
    };
    let mut current = input;
    let passes = batch_ops::later_passes(ops);
    for (op_index, op) in ops.iter().enumerate() {
        walk.op_index = op_index;
        batch_ops::check_order(ops, op_index, true)?;
        if passes.contains(&op_index) {
            walk.check_pass(op.as_ref(), current)?;
            walk.is_mixed = false;
        }
        current = walk.add_op(op, &[], current, 0)?;
        walk.is_mixed |= batch_ops::is_mixer(&**op);
        walk.flat.types.push(current);
    }
    walk.flat.check_device()?;
    Ok(walk.flat)
}

/// The state of flattening a list.
struct Flattening {
    flat: FlatList,
    /// The index of the current op in the user's list.
    op_index: usize,
    /// How often each op name occurred.
    seen: HashMap<&'static str, usize>,
    rule: NumberRule,
    /// True once a `View` has changed the element type.
    viewed: bool,
    /// True once an op of this pass has mixed the samples of a batch: ops on objects then change the batch.
    is_mixed: bool,
}

impl Flattening {
    /// Adds one op; returns the type after it.
    fn add_op(
        &mut self,
        op: &Arc<dyn Op>,
        guards: &[Guard],
        input: ImageType,
        depth: usize,
    ) -> Result<ImageType, Error> {
        let stream = self.stream(op.name());
        let replaced = op.for_input(&Type::Image(input));
        let op = replaced.as_ref().unwrap_or(op);
        if let OpClass::Choice(choice) = op.class() {
            if depth == MAX_DEPTH {
                return Err(self.refuse(op.as_ref(), "at most 8 containers around an op", input));
            }
            return self.add_choice(op, choice, stream, guards, input, depth);
        }
        if matches!(op.class(), OpClass::Label(_)) {
            return Err(self.refuse(op.as_ref(), "a label or an array", input));
        }
        if depth > 0 && batch_ops::is_on_batches(&**op) {
            let expected = "a finished batch (put it last, outside of containers)";
            return Err(self.refuse(op.as_ref(), expected, input));
        }
        if let OpClass::Device(_) = op.class()
            && (depth > 0 || self.flat.to_device().is_some())
        {
            let expected = "to be in a list once, outside of containers";
            return Err(self.refuse(op.as_ref(), expected, input));
        }
        let is_view = matches!(op.class(), OpClass::View(_));
        if is_view && depth > 0 {
            return Err(self.refuse(
                op.as_ref(),
                "every sample (put it outside of containers)",
                input,
            ));
        }
        let may_follow = is_view
            || batch_ops::is_on_batches(&**op)
            || matches!(op.class(), OpClass::Layout(_) | OpClass::Device(_) | OpClass::Objects(_));
        if self.viewed && !may_follow {
            return Err(self.refuse(op.as_ref(), "an image before its View", input));
        }
        self.viewed |= is_view;
        self.check_normalized(op.as_ref(), guards)?;
        let before = Type::Image(input);
        let op_index = self.op_index;
        let after = op.output(&before).map_err(|error| of_type(op_index, error))?;
        let Type::Image(after) = after else {
            return Err(self.refuse(op.as_ref(), "a label or an array", input));
        };
        if op.does_nothing(&before) {
            self.flat.removed.push((op_index, op.name()));
            return Ok(after);
        }
        if self.flat.flat_ops.len() == MAX_FLAT_OPS {
            let error = fail!(
                Pipeline,
                "op {op_index} of the list ({}): with the ops in containers, the list has more than {MAX_FLAT_OPS} ops",
                op.name()
            );
            return Err(error.of_op(op_index));
        }
        let op = Arc::clone(op);
        let kind = OpKind::of(op.class(), [&input, &after], self.rule);
        let kind = kind.and_then(|kind| match kind.host_size() {
            Some(size) if after.size() != Some(size) => {
                let output = Type::Image(after);
                Err(fail!(Pipeline, "its images have the size {size}, but its output is {output}"))
            }
            _ => Ok(kind),
        });
        let kind = kind.map_err(|error| of_op(op_index, op.as_ref(), error))?;
        let is_on_batch = self.is_mixed && matches!(op.class(), OpClass::Objects(_));
        let kind = if is_on_batch { OpKind::Batch } else { kind };
        let guards = guards.to_vec();
        let step = self.plan_chain_step(op.as_ref(), input)?;
        let (output, first_param) = (after, 0);
        self.flat.flat_ops.push(FlatOp {
            op,
            kind,
            op_index,
            guards,
            stream,
            input,
            output,
            first_param,
            step,
        });
        Ok(after)
    }

    /// Refuses the first op after ops that mix if loops can't read the batch.
    fn check_pass(&self, op: &dyn Op, input: ImageType) -> Result<(), Error> {
        let is_read =
            is_loaded(input.dtype) && input.layout == Layout::ChannelsLast && !has_planes(&input);
        match is_read {
            true => Ok(()),
            false => {
                let expected = "a mixed image of at most 4 channels, channels last, of a type that loops read: u8, u16, \
                    i16, f16, bf16 or f32 (put ToChannelsFirst, Squeeze and Convert after the ops that mix samples)";
                Err(self.refuse(op, expected, input))
            }
        }
    }

    /// Refuses an op that normalizes what another one has normalized: its constants are those of the image's own
    /// values. Levels that an op between them returns are values of the image again.
    fn check_normalized(&self, op: &dyn Op, guards: &[Guard]) -> Result<(), Error> {
        if !op.normalizes_values() {
            return Ok(());
        }
        let before = self.flat.flat_ops.iter().rev();
        let mut before = before.filter(|flat| !is_exclusive(&flat.guards, guards));
        let last = before.find(|flat| flat.output.is_levels || flat.op.normalizes_values());
        let Some(first) = last.filter(|flat| flat.op.normalizes_values()) else { return Ok(()) };
        let found =
            format!("values that op {} has normalized (keep one of the two)", first.op_index);
        let error = TypeError { op: op.name(), expected: "the image's own values", found };
        Err(of_type(self.op_index, error))
    }

    /// Adds the branches of a choice. The type after the choice must be the same for every outcome.
    fn add_choice(
        &mut self,
        op: &Arc<dyn Op>,
        choice: &dyn ChoiceOp,
        stream: u64,
        guards: &[Guard],
        input: ImageType,
        depth: usize,
    ) -> Result<ImageType, Error> {
        let outcomes = choice.outcomes();
        if !(1..=MAX_OUTCOMES).contains(&outcomes) {
            return Err(self.refuse(op.as_ref(), "at most 128 outcomes of a choice", input));
        }
        let (index, first_flat_op) = (self.flat.choices.len(), self.flat.flat_ops.len());
        let planned = Choice {
            op: Arc::clone(op),
            op_index: self.op_index,
            guards: guards.to_vec(),
            stream,
            outcomes,
        };
        self.flat.choices.push(planned);
        let mut types = vec![input; outcomes];
        for member in choice.branches() {
            let runs = |outcome: &usize| member.when >> outcome & 1 == 1;
            let Some(first) = (0..outcomes).find(runs) else { continue };
            let mut current = types[first];
            if let Some(other) = (0..outcomes).filter(runs).find(|&o| types[o] != current) {
                return Err(self.uneven(op.as_ref(), current, types[other]));
            }
            let mut inner = guards.to_vec();
            inner.push(Guard { choice: index, when: member.when });
            for op in &member.ops {
                current = self.add_op(op, &inner, current, depth + 1)?;
            }
            (0..outcomes).filter(runs).for_each(|outcome| types[outcome] = current);
        }
        if let Some(other) = types.iter().find(|found| **found != types[0]) {
            return Err(self.uneven(op.as_ref(), types[0], *other));
        }
        // The ops of several outcomes share blocks, each of which reads images of one number of channels.
        match self.flat.flat_ops[first_flat_op..].iter().find(|flat| flat.changes_channels()) {
            Some(flat) => {
                let expected =
                    "an image outside of containers, since it changes the number of channels";
                Err(self.refuse(flat.op.as_ref(), expected, flat.input))
            }
            None => Ok(types[0]),
        }
    }

    /// Plans one step of the chains of an op that mixes images.
    fn plan_chain_step(
        &self,
        op: &dyn Op,
        input: ImageType,
    ) -> Result<Option<Arc<ImagePlan>>, Error> {
        let OpClass::Mix(mix) = op.class() else { return Ok(None) };
        let plan = ImagePlan::of_any_size(mix.step().clone(), input, self.rule)?;
        if plan.output() != input {
            return Err(self.uneven(op, input, plan.output()));
        }
        Ok(Some(Arc::new(plan)))
    }

    fn stream(&mut self, name: &'static str) -> u64 {
        let occurrence = self.seen.entry(name).or_default();
        *occurrence += 1;
        stream(name, *occurrence - 1)
    }

    fn refuse(&self, op: &dyn Op, expected: &'static str, input: ImageType) -> Error {
        let error = TypeError { op: op.name(), expected, found: Type::Image(input).to_string() };
        of_type(self.op_index, error)
    }

    fn uneven(&self, op: &dyn Op, a: ImageType, b: ImageType) -> Error {
        let [one, other] = [a, b].map(|t| Type::Image(t).to_string());
        let (op_index, op) = (self.op_index, op.name());
        let error = fail!(
            Pipeline,
            "op {op_index} of the list: {op} produces {one} or {other}, depending on its draw; both must be equal"
        );
        error.of_op(op_index)
    }
}
