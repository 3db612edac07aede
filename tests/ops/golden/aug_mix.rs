//! AugMix: torchvision's mixes for given weights, chains and magnitudes.

use super::support::{Image, cases, run, sha256};
use fuseloop_ops::author::{ChoiceBranch, ChoiceOp, Op, OpClass, Rng, Type};
use fuseloop_ops::internals::policy::{Action, Space, Strength, WarpOptions};
use fuseloop_ops::internals::{MixOp, Mixture};
use fuseloop_ops::*;
use serde_json::Value as Json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An AugMix with the draws of a case.
#[derive(Debug)]
struct Replay {
    step: Ops,
    mixture: Mixture,
}

impl Op for Replay {
    fn name(&self) -> &'static str {
        "AugMix"
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        Ok(input.clone())
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Mix(self)
    }
}

impl MixOp for Replay {
    fn step(&self) -> &Ops {
        &self.step
    }

    fn draw(&self, _: &mut Rng) -> Mixture {
        self.mixture.clone()
    }
}

/// Runs its branches in turn: the first one for the first draw, and so on in a cycle.
#[derive(Debug)]
struct InTurn {
    members: Vec<ChoiceBranch>,
    drawn: AtomicUsize,
}

impl Op for InTurn {
    fn name(&self) -> &'static str {
        "InTurn"
    }

    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        Ok(input.clone())
    }

    fn class(&self) -> OpClass<'_> {
        OpClass::Choice(self)
    }
}

impl ChoiceOp for InTurn {
    fn outcomes(&self) -> usize {
        self.members.len()
    }

    fn branches(&self) -> &[ChoiceBranch] {
        &self.members
    }

    fn draw(&self, _: &mut Rng) -> usize {
        // The plan draws once when it is compiled, before its first sample.
        (self.drawn.fetch_add(1, Ordering::Relaxed) + self.members.len() - 1) % self.members.len()
    }
}

/// A step of a chain: `[action, index of its magnitude, negated]`.
fn step(case: &Json, size: Size) -> Ops {
    let all = Space::AugMix.actions();
    let action: Action = *all.iter().find(|action| action.name() == case[0]).unwrap();
    let index = case[1].as_u64().unwrap_or(0) as u32;
    let magnitude = Space::AugMix.magnitude(action, 10, index, size).unwrap_or(0.0);
    let sign = if case[2].as_bool().unwrap() { -1.0 } else { 1.0 };
    action.ops(Strength::Exactly(sign * magnitude), WarpOptions::default())
}

fn floats(values: &Json) -> Vec<f64> {
    values.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

#[test]
fn mixes_are_torchvisions_for_the_same_draws() {
    let all = cases("policies.json");
    let is_exact = |case: &&Json| case["op"] == "aug_mix" && case["interpolation"] == "nearest";
    let mut seen = 0;
    for case in all.iter().filter(is_exact) {
        let image = Image::of(case);
        let chains = case["chains"].as_array().unwrap();
        let steps = chains.iter().flat_map(|chain| chain.as_array().unwrap());
        let steps: Vec<Ops> = steps.map(|case| step(case, image.size)).collect();
        let members = steps.into_iter().enumerate();
        let members = members.map(|(k, ops)| ChoiceBranch { ops, when: 1 << k }).collect();
        let step: Ops = vec![Arc::new(InTurn { members, drawn: AtomicUsize::new(0) })];
        let m = floats(&case["m"]);
        let lengths = chains.iter().map(|chain| chain.as_array().unwrap().len() as u32);
        let weights = floats(&case["weights"]).into_iter().map(|w| (w * m[1]) as f32);
        let mixture = Mixture { keep: m[0] as f32, chains: weights.zip(lengths).collect() };
        let out = run(vec![Arc::new(Replay { step, mixture })], &image, |_| ());
        assert_eq!(sha256(&out), case["sha256"], "{case}");
        seen += 1;
    }
    assert!(seen > 1, "{seen}");
}
