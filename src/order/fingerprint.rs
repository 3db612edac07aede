//! The fingerprint of an order: the same in every process and release.
//!
//! A hash of the order's name, its parameters and its subset. A cursor saved with another fingerprint is
//! refused.

use super::{Order, Subset};
use crate::source::Fingerprint;

/// Returns the fingerprint of an order over a subset.
pub(super) fn fingerprint(order: &Order, subset: &Subset) -> u64 {
    let mut hash = Fingerprint::default();
    hash.text(if matches!(order, Order::Custom(_)) { "custom" } else { order.name() });
    match order {
        // A bucketed order adds its buckets and steps, and a mixture its steps.
        Order::Sequential | Order::Random | Order::Permuted | Order::Bucketed => {}
        Order::QuasiRandom { open_pages } => hash.number(u64::from(*open_pages)),
        Order::Weighted { weights, samples, replacement } => {
            hash.number(weights.len() as u64);
            weights.iter().for_each(|weight| hash.number(weight.to_bits()));
            hash.number(*samples);
            hash.number(u64::from(*replacement));
        }
        Order::ClassBalanced { field, replacement } => {
            hash.text(field);
            hash.number(u64::from(*replacement));
        }
        Order::RepeatedAugment { repeats } => hash.number(u64::from(*repeats)),
        Order::Mixture(mixture) => mixture.hash(&mut hash),
        Order::Custom(sampler) => hash.text(sampler.name()),
    }
    match subset {
        Subset::All(samples) => {
            hash.text("all");
            hash.number(*samples);
        }
        Subset::Listed(ids) => {
            hash.text("listed");
            hash.number(ids.len() as u64);
            ids.iter().for_each(|&id| hash.number(id));
        }
    }
    hash.value()
}
