//! Random order: runs all of a list of ops, in an order drawn for each sample.

use crate::author::{ChoiceBranch, ChoiceOp, Rng, Type};
use crate::container::{self, output};
use crate::op::{Op, class};
use crate::{Ops, ParamError, TypeError};

/// The maximum number of ops: 6 would have 720 orders, and a choice has at most 128 outcomes.
const MOST: usize = 5;

/// Runs all of a list of ops, in an order drawn for each sample.
///
#[cfg_attr(doc, doc = include_str!("../pictures/RandomOrder.md"))]
///
/// torchvision's `RandomOrder(transforms)`.
///
/// ```text
/// outcome: one of the n! orders, numbered lexicographically
/// position k: op 0 for the orders that have it there, op 1 for the orders that have it there, ...
/// ```
///
/// | | |
/// |--------|--------------------------------------------------------------|
/// | input  | a type that every op accepts                                 |
/// | output | the ops' output, the same for every order                    |
/// | random | the order, then the draws of each op                         |
/// | cost   | the ops' cost; a loop body for each order that is drawn      |
///
/// The op takes at most 5 ops: 120 orders, in the worst case each a loop body.
///
/// ```
/// # use fuseloop_ops::*;
/// let list = ops![RandomOrder::new(ops![Cutout::new(8)?, BoxBlur::new(3)?])?];
/// # Ok::<(), ParamError>(())
/// ```
#[derive(Op, Clone, Debug)]
#[op(POLICY, "runs up to 5 ops in random order", constructor = new, golden = "runs its ops in some order: they are tested themselves")]
#[param(ops: Ops, "the ops, in order", example = ["RandomHorizontalFlip"],
    draw = container::random_ops(rng, before, 4, 0)?)]
pub struct RandomOrder {
    orders: usize,
    /// For each position, each op with the orders that have the op at this position.
    branches: Vec<ChoiceBranch>,
}

impl RandomOrder {
    /// An op that runs all of `ops`, in a random order.
    ///
    /// # Errors
    ///
    /// If there are more than 5 ops.
    #[expect(clippy::needless_pass_by_value, reason = "as the other containers take their ops")]
    pub fn new(ops: Ops) -> Result<Self, ParamError> {
        if ops.len() > MOST {
            return Err(ParamError::new("RandomOrder", "ops", ops.len(), "at most 5 ops"));
        }
        let orders = orders_of(ops.len());
        let mut branches = vec![];
        for position in 0..ops.len() {
            for (index, op) in ops.iter().enumerate() {
                let has_it =
                    orders.iter().enumerate().filter(|(_, order)| order[position] == index);
                let when = has_it.fold(0, |when, (outcome, _)| when | 1 << outcome);
                branches.push(ChoiceBranch { ops: vec![op.clone()], when });
            }
        }
        Ok(Self { orders: orders.len(), branches })
    }
}

/// Returns all permutations of `0..count`, in lexicographic order.
fn orders_of(count: usize) -> Vec<Vec<usize>> {
    let mut orders = vec![vec![]];
    for _ in 0..count {
        let longer = orders.iter().flat_map(|order: &Vec<usize>| {
            let left = (0..count).filter(|next| !order.contains(next));
            left.map(|next| [order.as_slice(), &[next]].concat())
        });
        orders = longer.collect();
    }
    orders
}

#[class(Choice)]
impl Op for RandomOrder {
    fn output(&self, input: &Type) -> Result<Type, TypeError> {
        output(self.name(), self, input)
    }
}

impl ChoiceOp for RandomOrder {
    fn outcomes(&self) -> usize {
        self.orders
    }

    fn branches(&self) -> &[ChoiceBranch] {
        &self.branches
    }

    fn draw(&self, rng: &mut Rng) -> usize {
        rng.below(self.orders as u32) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RandomHorizontalFlip, RandomVerticalFlip, Squeeze, container, ops};

    #[test]
    fn two_ops_have_two_orders() {
        let flip = RandomHorizontalFlip::new(0.5).unwrap();
        let order = RandomOrder::new(ops![flip, RandomVerticalFlip::new(0.5).unwrap()]).unwrap();
        let branches: Vec<_> = order.branches().iter().map(|m| (m.ops[0].name(), m.when)).collect();
        assert_eq!(
            branches,
            [
                ("RandomHorizontalFlip", 0b01),
                ("RandomVerticalFlip", 0b10),
                ("RandomHorizontalFlip", 0b10),
                ("RandomVerticalFlip", 0b01),
            ]
        );
    }

    #[test]
    fn every_order_has_every_op_once_and_no_two_are_the_same() {
        for count in 0..=MOST {
            let flip = std::sync::Arc::new(RandomHorizontalFlip::new(0.5).unwrap());
            let order = RandomOrder::new((0..count).map(|_| flip.clone() as _).collect()).unwrap();
            let of = |outcome: usize| -> Vec<usize> {
                let runs = |m: &(usize, &ChoiceBranch)| m.1.when >> outcome & 1 == 1;
                let branches = order.branches().iter().enumerate().filter(runs);
                branches.map(|(index, _)| index % count.max(1)).collect()
            };
            let mut orders: Vec<_> = (0..order.outcomes()).map(of).collect();
            for order in &orders {
                let mut sorted = order.clone();
                sorted.sort_unstable();
                assert!(sorted.into_iter().eq(0..count), "{order:?}");
            }
            orders.dedup();
            assert_eq!(orders.len(), (1..=count).product::<usize>());
        }
    }

    #[test]
    fn six_ops_and_labels_ops_are_refused() {
        let flip = std::sync::Arc::new(RandomHorizontalFlip::new(0.5).unwrap());
        assert!(RandomOrder::new((0..6).map(|_| flip.clone() as _).collect()).is_err());
        let order = RandomOrder::new(ops![Squeeze]).unwrap();
        assert!(order.output(&container::tests::photo()).is_err());
    }
}
