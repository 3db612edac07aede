//! A number that says which order it is: the same in every process and release.
//!
//! FNV-1a of 64 bits (Fowler, Noll, Vo) over the order's name, its parameters and its subset; a
//! cursor that was saved under another one is refused.

use super::{Order, Subset};

/// The hash as far as it has come.
struct Fnv(u64);

impl Fnv {
    fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn word(&mut self, word: u64) {
        self.bytes(&word.to_le_bytes());
    }

    /// A text and its length, so that two of them are not one.
    fn text(&mut self, text: &str) {
        self.word(text.len() as u64);
        self.bytes(text.as_bytes());
    }
}

/// Of an order over a subset.
pub(super) fn fingerprint(order: &Order, subset: &Subset) -> u64 {
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    hash.text(if matches!(order, Order::Custom(_)) { "custom" } else { order.name() });
    match order {
        Order::Sequential | Order::Random => {}
        Order::QuasiRandom { open_pages } => hash.word(u64::from(*open_pages)),
        Order::Weighted { weights, samples, replacement } => {
            hash.word(weights.len() as u64);
            weights.iter().for_each(|weight| hash.word(weight.to_bits()));
            hash.word(*samples);
            hash.word(u64::from(*replacement));
        }
        Order::ClassBalanced { field, replacement } => {
            hash.text(field);
            hash.word(u64::from(*replacement));
        }
        Order::RepeatedAugment { repeats } => hash.word(u64::from(*repeats)),
        Order::Custom(sampler) => hash.text(sampler.name()),
    }
    match subset {
        Subset::All(samples) => {
            hash.text("all");
            hash.word(*samples);
        }
        Subset::Listed(ids) => {
            hash.text("listed");
            hash.word(ids.len() as u64);
            ids.iter().for_each(|&id| hash.word(id));
        }
    }
    hash.0
}
