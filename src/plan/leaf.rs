//! A list of ops, made flat: what containers hold is put in line, guarded by what the container
//! draws.
//!
//! ```text
//! [crop, RandomChoice[blur, [grey, invert]], flip]
//!   ──▶  crop,  blur if choice 0 is 0,  grey if it is 1,  invert if it is 1,  flip
//! ```
//!
//! Leaves that can't run for the same sample are *exclusive*: they may share a loop's one maker of
//! rows, a table or a slot. On the way every op is checked against the type it gets, and ops that
//! do nothing are left out.

use super::kind::Kind;
use super::{ImagePlan, PlanError, batch_ops};
use fuseloop_ops::{
    ChoiceOp, Class, DType, ImageType, Layout, NumberRule, Op, Ops, Type, TypeError, stream,
};
use std::collections::HashMap;
use std::sync::Arc;

/// Most leaves of one pipeline.
const MAX_LEAVES: usize = 1024;

/// Most containers around an op.
const MAX_DEPTH: usize = 8;

/// Most outcomes of one choice: what a guard has bits for.
const MAX_OUTCOMES: usize = 128;

/// An op with no ops inside, and when it runs.
#[derive(Debug, Clone)]
pub struct Leaf {
    /// The op.
    pub op: Arc<dyn Op>,
    /// What it said about itself when the list was planned.
    pub kind: Kind,
    /// The place in the user's list of the op that it is, or is in.
    pub place: usize,
    /// It runs if all of these allow it.
    pub guards: Vec<Guard>,
    /// The stream of its draws.
    pub stream: u64,
    /// What it gets.
    pub input: ImageType,
    /// What it gives.
    pub output: ImageType,
    /// Its first slot, if it has any.
    pub slot: usize,
    /// The plan of one step of its chains, if it mixes.
    pub step: Option<Arc<ImagePlan>>,
}

/// A choice, and the outcomes for which something runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guard {
    /// Place in the list of choices.
    pub choice: usize,
    /// Bit `k` is set if outcome `k` allows it.
    pub when: u128,
}

/// An op that draws which others run.
#[derive(Debug, Clone)]
pub struct Choice {
    /// The op.
    pub op: Arc<dyn Op>,
    /// It is drawn if all of these allow it.
    pub guards: Vec<Guard>,
    /// The stream of its draw.
    pub stream: u64,
    /// How many outcomes it has.
    pub outcomes: usize,
}

impl Leaf {
    /// Whether the two never run for the same sample.
    #[must_use]
    pub fn is_exclusive_with(&self, other: &Self) -> bool {
        let clash = |a: &Guard, b: &Guard| a.choice == b.choice && a.when & b.when == 0;
        self.guards.iter().any(|a| other.guards.iter().any(|b| clash(a, b)))
    }
}

/// A list of ops, made flat.
#[derive(Debug, Default)]
pub(super) struct Flat {
    pub(super) leaves: Vec<Leaf>,
    pub(super) choices: Vec<Choice>,
    /// Places in the user's list and names of ops that were left out.
    pub(super) removed: Vec<(usize, &'static str)>,
    /// The type after each op of the user's list.
    pub(super) types: Vec<ImageType>,
}

impl Flat {
    /// The leaf that a device's begin after, if more than a copy is left to it.
    pub(super) fn device(&self) -> Option<usize> {
        self.leaves.iter().position(|leaf| leaf.kind == Kind::Device)
    }

    /// Whether a device gets what it can go on with: pictures of bytes, all of one size.
    fn check_device(&self) -> Result<(), PlanError> {
        let Some(at) = self.device().filter(|at| works_on(&self.leaves[at + 1..])) else {
            return Ok(());
        };
        let Leaf { op, input, place, .. } = &self.leaves[at];
        let expected = if input.size().is_none() {
            "images of one size (put it after the crop or resize)"
        } else if (input.dtype, input.layout) != (DType::U8, Layout::ChannelsLast) {
            "a u8 image, channels last (put Normalize, Convert and ToChannelsFirst after it, or it last)"
        } else {
            return Ok(());
        };
        let found = Type::Image(*input).to_string();
        Err(PlanError::Type { place: *place, error: TypeError { op: op.name(), expected, found } })
    }
}

/// Whether any of these is an op on samples.
pub(super) fn works_on(leaves: &[Leaf]) -> bool {
    leaves.iter().any(|leaf| leaf.kind != Kind::Batch)
}

/// Makes `ops` flat, for images of type `input`.
pub(super) fn flatten(ops: &Ops, input: ImageType, rule: NumberRule) -> Result<Flat, PlanError> {
    let mut walk =
        Walk { flat: Flat::default(), place: 0, seen: HashMap::new(), rule, viewed: false };
    let mut current = input;
    for (place, op) in ops.iter().enumerate() {
        walk.place = place;
        batch_ops::check_last(ops, place)?;
        current = walk.op(op, &[], current, 0)?;
        walk.flat.types.push(current);
    }
    walk.flat.check_device()?;
    Ok(walk.flat)
}

/// What is known on the way.
struct Walk {
    flat: Flat,
    /// The place in the user's list.
    place: usize,
    /// How often each name was met.
    seen: HashMap<&'static str, usize>,
    rule: NumberRule,
    /// Whether the elements have another name by now.
    viewed: bool,
}

impl Walk {
    /// Takes one op in; gives the type after it.
    fn op(
        &mut self,
        op: &Arc<dyn Op>,
        guards: &[Guard],
        input: ImageType,
        depth: usize,
    ) -> Result<ImageType, PlanError> {
        let stream = self.stream(op.name());
        if let Class::Choice(choice) = op.class() {
            if depth == MAX_DEPTH {
                return Err(self.refuse(op.as_ref(), "at most 8 containers around an op", input));
            }
            return self.choice(op, choice, stream, guards, input, depth);
        }
        if matches!(op.class(), Class::Label(_)) {
            return Err(self.refuse(op.as_ref(), "a label or an array", input));
        }
        if depth > 0 && matches!(op.class(), Class::Batch(_)) {
            let expected = "a finished batch (put it last, outside of containers)";
            return Err(self.refuse(op.as_ref(), expected, input));
        }
        if let Class::Device(_) = op.class()
            && (depth > 0 || self.flat.device().is_some())
        {
            let expected = "to stand in a list once, outside of containers";
            return Err(self.refuse(op.as_ref(), expected, input));
        }
        let is_view = matches!(op.class(), Class::View(_));
        if is_view && depth > 0 {
            return Err(self.refuse(
                op.as_ref(),
                "every sample (put it outside of containers)",
                input,
            ));
        }
        let may_follow =
            is_view || matches!(op.class(), Class::Layout(_) | Class::Batch(_) | Class::Device(_));
        if self.viewed && !may_follow {
            return Err(self.refuse(op.as_ref(), "an image before its View", input));
        }
        self.viewed |= is_view;
        let before = Type::Image(input);
        let place = self.place;
        let after = op.output(&before).map_err(|error| PlanError::Type { place, error })?;
        let Type::Image(after) = after else {
            return Err(self.refuse(op.as_ref(), "a label or an array", input));
        };
        if op.does_nothing(&before) {
            self.flat.removed.push((place, op.name()));
            return Ok(after);
        }
        if self.flat.leaves.len() == MAX_LEAVES {
            return Err(PlanError::TooManyLeaves { place, op: op.name(), most: MAX_LEAVES });
        }
        let op = op.for_input(&before).unwrap_or_else(|| Arc::clone(op));
        let kind = Kind::of(op.class(), &input, self.rule);
        let kind = kind.map_err(|error| PlanError::Op { place, op: op.name(), error })?;
        let guards = guards.to_vec();
        let step = self.step(op.as_ref(), input)?;
        let (output, slot) = (after, 0);
        self.flat.leaves.push(Leaf { op, kind, place, guards, stream, input, output, slot, step });
        Ok(after)
    }

    /// Takes the members of a choice in. Whatever the outcome, the type after it must be the same.
    fn choice(
        &mut self,
        op: &Arc<dyn Op>,
        choice: &dyn ChoiceOp,
        stream: u64,
        guards: &[Guard],
        input: ImageType,
        depth: usize,
    ) -> Result<ImageType, PlanError> {
        let outcomes = choice.outcomes();
        if !(1..=MAX_OUTCOMES).contains(&outcomes) {
            return Err(self.refuse(op.as_ref(), "at most 128 outcomes of a choice", input));
        }
        let index = self.flat.choices.len();
        let made = Choice { op: Arc::clone(op), guards: guards.to_vec(), stream, outcomes };
        self.flat.choices.push(made);
        let mut types = vec![input; outcomes];
        for member in choice.members() {
            let runs = |outcome: &usize| member.when >> outcome & 1 == 1;
            let Some(first) = (0..outcomes).find(runs) else { continue };
            let mut current = types[first];
            if let Some(other) = (0..outcomes).filter(runs).find(|&o| types[o] != current) {
                return Err(self.uneven(op.as_ref(), current, types[other]));
            }
            let mut inner = guards.to_vec();
            inner.push(Guard { choice: index, when: member.when });
            for op in &member.ops {
                current = self.op(op, &inner, current, depth + 1)?;
            }
            (0..outcomes).filter(runs).for_each(|outcome| types[outcome] = current);
        }
        match types.iter().find(|found| **found != types[0]) {
            Some(other) => Err(self.uneven(op.as_ref(), types[0], *other)),
            None => Ok(types[0]),
        }
    }

    /// The plan of one step of the chains of an op that mixes.
    fn step(&self, op: &dyn Op, input: ImageType) -> Result<Option<Arc<ImagePlan>>, PlanError> {
        let Class::Mix(mix) = op.class() else { return Ok(None) };
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

    fn refuse(&self, op: &dyn Op, expected: &'static str, input: ImageType) -> PlanError {
        let error = TypeError { op: op.name(), expected, found: Type::Image(input).to_string() };
        PlanError::Type { place: self.place, error }
    }

    fn uneven(&self, op: &dyn Op, a: ImageType, b: ImageType) -> PlanError {
        let [one, other] = [a, b].map(|t| Type::Image(t).to_string());
        PlanError::Uneven { place: self.place, op: op.name(), one, other }
    }
}
