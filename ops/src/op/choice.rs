//! Ops that choose what is done: to which pixels, by which ops, and in which shares.

use crate::author::Rng;
use crate::shape::Window;
use crate::{Ops, Size};
use std::fmt;

/// An op made of other ops, some of which run for a sample.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// /// Inverts half of the images.
/// #[derive(Debug)]
/// struct HalfInverted([ChoiceBranch; 1]);
///
/// impl ChoiceOp for HalfInverted {
///     fn outcomes(&self) -> usize {
///         2
///     }
///
///     fn branches(&self) -> &[ChoiceBranch] {
///         &self.0
///     }
///
///     fn draw(&self, rng: &mut Rng) -> usize {
///         rng.below(2) as usize
///     }
/// }
///
/// let invert = ChoiceBranch { ops: ops![RandomInvert::new(1.0)?], when: 1 << 0 };
/// let op = HalfInverted([invert]);
/// # let _ = op;
/// # Ok::<(), fuseloop_ops::ParamError>(())
/// ```
pub trait ChoiceOp: fmt::Debug + Send + Sync {
    /// Returns the number of outcomes of a draw: `1..=128`.
    fn outcomes(&self) -> usize;

    /// Returns all branches, in the order in which they run.
    fn branches(&self) -> &[ChoiceBranch];

    /// Draws an outcome.
    fn draw(&self, rng: &mut Rng) -> usize;
}

/// Ops of a choice that run together.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// // Runs for the outcomes 0 and 2 of a draw.
/// let branch = ChoiceBranch { ops: ops![RandomGrayscale::new(1.0)?], when: 1 << 0 | 1 << 2 };
/// # let _ = branch;
/// # Ok::<(), fuseloop_ops::ParamError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ChoiceBranch {
    /// The ops, in order.
    pub ops: Ops,
    /// A mask: bit `k` is set if the ops run for outcome `k`.
    pub when: u128,
}

/// An op that overwrites a rectangle with one colour.
///
/// ```
/// # use fuseloop_ops::*;
/// # use fuseloop_ops::author::*;
/// /// Blackens the top row.
/// #[derive(Clone, Copy, Debug)]
/// struct TopRow;
///
/// impl RegionOp for TopRow {
///     fn draw(&self, _rng: &mut Rng, size: Size) -> Window {
///         Window { top: 0, left: 0, height: 1, width: size.width }
///     }
///
///     fn fill(&self) -> [f32; 3] {
///         [0.0; 3]
///     }
/// }
/// ```
pub trait RegionOp: fmt::Debug + Send + Sync {
    /// Draws the rectangle, which must be inside `size` or empty.
    fn draw(&self, rng: &mut Rng, size: Size) -> Window;

    /// Returns true if samples with an empty rectangle run a loop body without the op. This is for
    /// ops that leave many samples unchanged.
    fn may_skip(&self) -> bool {
        false
    }

    /// Returns the colour, in the units of the values that it overwrites. For an image that is not RGB, its
    /// three numbers must be equal.
    fn fill(&self) -> [f32; 3];
}

/// An op that mixes an image with the results of chains of other ops on it. It ends a block, like a
/// [`HostOp`](super::HostOp):
///
/// ```text
/// out = keep * in + sum of weight_k * chain_k(in)         each term rounded to f32, then the sum
/// ```
///
/// The result is truncated to a level under [`NumberRule::Exact`](super::NumberRule::Exact), as in
/// torchvision's `AugMix`, and rounded half to even otherwise.
pub trait MixOp: fmt::Debug + Send + Sync {
    /// Returns the ops of one chain step: a list that does not change the image's type.
    fn step(&self) -> &Ops;

    /// Draws the weights and the number of steps of each chain.
    fn draw(&self, rng: &mut Rng) -> Mixture;
}

/// How an image is mixed.
#[derive(Clone, Debug, PartialEq)]
pub struct Mixture {
    /// The weight of the image itself.
    pub keep: f32,
    /// The weight and the number of steps of each chain.
    pub chains: Vec<(f32, u32)>,
}
