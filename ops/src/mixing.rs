//! Code shared by the ops on whole batches: how often, with which partner and with which share a sample
//! is mixed, and the output type of labels.
//!
//! ```text
//! partner(i) = i - 1, or the last row for row 0      Previous: torchvision and FFCV
//!            = permutation(i)                        Permuted
//! share      ~ Beta(alpha, alpha) for a share p of the batches (of the rows, if drawn for each),
//!              1 for the others
//! ```
//!
//! The order of the draws is: for the batch, or for each row, a coin and the numbers that the op needs;
//! then the permutation. The shares are therefore the same for every kind of partner.
//!
//! Labels are mixed with the same shares: `share * own + (1 - share) * partner`, where each product and
//! the sum are rounded to f32. If both values are equal, the value stays unchanged: a smoothed 0.925
//! with a partner of 0.925 would lose its last bit for some shares. (A 1 with a 1 would stay 1 without
//! this rule.)

use crate::author::{Rng, Type};
use crate::beta::symmetric_beta;
use crate::registry::{Given, OpArgs, ParamKind, SpecError};
use crate::shape::Window;
use crate::{DType, TypeError};

/// The choice of the row that each row of a batch is mixed with.
///
/// ```
/// # use fuseloop_ops::*;
/// let mixup = MixUp::new(0.2)?.partner(Partner::Permuted);
/// # Ok::<(), fuseloop_ops::ParamError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Partner {
    /// The row before it; for the first row, the last.
    #[default]
    Previous,
    /// The row that a permutation drawn for the batch assigns, which may be the row itself.
    Permuted,
}

/// The mixing of one row of a batch.
///
/// ```
/// # use fuseloop_ops::author::*;
/// // Half of this row comes from row 3.
/// let mix = RowMix { partner: 3, share: 0.5, window: None };
/// # let _ = mix;
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowMix {
    /// The index of the partner row, from 0; no two rows have the same partner.
    pub partner: usize,
    /// The row's own share, in `0..=1`. With a share of 1 the row stays unchanged.
    pub share: f64,
    /// The rectangle that is copied from the partner, while all else stays unchanged; `None` if all
    /// values are mixed.
    pub window: Option<Window>,
}

/// How one image of a batch, with its objects, is made of several. Rows are counted from 0.
///
/// ```
/// # use fuseloop_ops::author::*;
/// // The four images meet in the middle of an image of 224 x 224.
/// let mosaic = ImageMix::Mosaic { rows: [0, 1, 2, 3], center: [112, 112] };
/// // The first and the third object of row 5 are pasted.
/// let paste = ImageMix::Paste { partner: 5, objects: vec![0, 2] };
/// # let _ = (mosaic, paste);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageMix {
    /// The image stays as it is.
    Unchanged,
    /// Objects of another row are pasted where their masks are, which the op must
    /// [need](crate::author::MultiImageOp::needs_instance_masks).
    Paste {
        /// The other row.
        partner: usize,
        /// The indices of its objects, in ascending order.
        objects: Vec<usize>,
    },
    /// Four rows are put together.
    Mosaic {
        /// The rows on the top left, top right, bottom left and bottom right.
        rows: [usize; 4],
        /// The row and the column of the pixels at which the image on the bottom right begins: at most the height
        /// and the width.
        center: [u32; 2],
    },
}

/// How often, with which partner and with which share a sample is mixed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Mixing {
    pub(crate) alpha: f64,
    pub(crate) p: f64,
    pub(crate) per_sample: bool,
    pub(crate) partner: Partner,
}

impl Mixing {
    /// Draws the mixing of each of `rows` rows. `cut` turns a drawn share into a row's share and
    /// rectangle.
    pub(crate) fn draw(
        &self,
        rng: &mut Rng,
        rows: usize,
        mut cut: impl FnMut(&mut Rng, f64) -> (f64, Option<Window>),
    ) -> Vec<RowMix> {
        let mut one = |rng: &mut Rng| {
            let applies = rng.coin(self.p);
            let drawn = symmetric_beta(rng, self.alpha);
            let (share, window) = cut(rng, drawn);
            if applies { (share, window) } else { (1.0, window.map(|_| EMPTY)) }
        };
        let cuts: Vec<(f64, Option<Window>)> = if self.per_sample {
            (0..rows).map(|_| one(rng)).collect()
        } else {
            vec![one(rng); rows]
        };
        let partners = self.partners(rng, rows);
        let rows = partners.into_iter().zip(cuts);
        rows.map(|(partner, (share, window))| RowMix { partner, share, window }).collect()
    }

    fn partners(&self, rng: &mut Rng, rows: usize) -> Vec<usize> {
        match self.partner {
            Partner::Previous => (0..rows).map(|row| (row + rows - 1) % rows).collect(),
            Partner::Permuted => permutation(rng, rows),
        }
    }
}

const EMPTY: Window = Window { top: 0, left: 0, height: 0, width: 0 };

/// Draws a uniform permutation of `0..count` (Fisher and Yates, from the end).
fn permutation(rng: &mut Rng, count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    for end in (2..=count).rev() {
        // A batch never has more rows than a `u32` can count.
        order.swap(end - 1, rng.below(end as u32) as usize);
    }
    order
}

/// Returns the weights of a row and of its partner, rounded as in torchvision.
pub(crate) fn weights(share: f64) -> [f32; 2] {
    [share as f32, (1.0 - share) as f32]
}

/// Returns one value of a mixed label: see the top of the file.
#[must_use]
pub fn mixed_label(own: f32, partner: f32, share: f64) -> f32 {
    let [of_own, of_partner] = weights(share);
    if own == partner { own } else { partner * of_partner + own * of_own }
}

/// Does the same as [`mixed_label`] for a label of double precision.
#[must_use]
pub fn mixed_label_f64(own: f64, partner: f64, share: f64) -> f64 {
    if own == partner { own } else { partner * (1.0 - share) + own * share }
}

/// Returns the type of a mixed label: floats keep their shape, and a class index becomes
/// `[class, class of the partner, share]`.
pub(crate) fn label_output(op: &'static str, input: &Type) -> Result<Type, TypeError> {
    match input {
        Type::Tensor { dtype: DType::I64, shape } if shape.iter().product::<usize>() == 1 => {
            Ok(Type::Tensor { dtype: DType::F32, shape: vec![3] })
        }
        Type::Tensor { dtype: DType::F16 | DType::Bf16 | DType::F32 | DType::F64, .. } => {
            Ok(input.clone())
        }
        found => Err(TypeError {
            op,
            expected: "an image, floats (put Convert before it), or one i64 per sample",
            found: found.to_string(),
        }),
    }
}

/// The partners, by the names that users write.
const PARTNERS: [(&str, Partner); 2] =
    [("previous", Partner::Previous), ("permuted", Partner::Permuted)];

impl Partner {
    /// Returns the name that users write.
    pub(crate) const fn word(self) -> &'static str {
        PARTNERS[self as usize].0
    }
}

impl Given for Partner {
    const KIND: ParamKind = ParamKind::Word(&[PARTNERS[0].0, PARTNERS[1].0]);

    fn read(args: &OpArgs<'_>, name: &str) -> Result<Self, SpecError> {
        args.choice(name, &PARTNERS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::BatchKey;

    fn draw(mixing: Mixing, batch: u64, rows: usize) -> Vec<RowMix> {
        let mut rng = BatchKey::new(1, 0, batch).op("MixUp", 0);
        mixing.draw(&mut rng, rows, |_, share| (share, None))
    }

    const MIXING: Mixing =
        Mixing { alpha: 0.4, p: 1.0, per_sample: false, partner: Partner::Previous };
    const OF_ROWS: Mixing = Mixing { per_sample: true, ..MIXING };

    #[test]
    fn the_partner_of_a_row_is_the_one_before_it_and_of_the_first_the_last() {
        let partners = |rows| draw(MIXING, 0, rows).iter().map(|m| m.partner).collect::<Vec<_>>();
        assert_eq!(partners(4), [3, 0, 1, 2]);
        assert_eq!(partners(1), [0]);
        assert!(partners(0).is_empty());
    }

    #[test]
    fn permuted_partners_are_a_permutation_and_change_no_share() {
        let plain = draw(OF_ROWS, 3, 50);
        let permuted = draw(Mixing { partner: Partner::Permuted, ..OF_ROWS }, 3, 50);
        let shares = |mixed: &[RowMix]| mixed.iter().map(|m| m.share).collect::<Vec<_>>();
        assert_eq!(shares(&plain), shares(&permuted));
        let mut partners: Vec<usize> = permuted.iter().map(|m| m.partner).collect();
        assert_ne!(partners, plain.iter().map(|m| m.partner).collect::<Vec<_>>());
        partners.sort_unstable();
        assert!(partners.iter().copied().eq(0..50));
    }

    #[test]
    fn every_permutation_of_three_comes_up_equally_often() {
        let mut seen = std::collections::BTreeMap::new();
        for batch in 0..6000 {
            let partners = draw(Mixing { partner: Partner::Permuted, ..MIXING }, batch, 3);
            let partners: Vec<usize> = partners.iter().map(|m| m.partner).collect();
            *seen.entry(partners).or_insert(0) += 1;
        }
        assert!(seen.len() == 6 && seen.values().all(|n| (850..1150).contains(n)), "{seen:?}");
    }

    #[test]
    fn one_share_for_the_batch_or_one_for_each_row() {
        let of_batch = draw(MIXING, 5, 8);
        assert!(of_batch.iter().all(|m| m.share == of_batch[0].share));
        let of_rows = draw(OF_ROWS, 5, 8);
        assert!(of_rows.iter().any(|m| m.share != of_rows[0].share));
    }

    #[test]
    fn a_share_p_of_the_batches_is_mixed() {
        let mixed = |p, batch| draw(Mixing { p, ..MIXING }, batch, 2)[0].share;
        assert!((0..100).all(|batch| mixed(0.0, batch) == 1.0));
        assert!((0..100).all(|batch| mixed(1.0, batch) < 1.0));
        let half = (0..1000).filter(|&batch| mixed(0.5, batch) < 1.0).count();
        assert!((440..560).contains(&half), "{half}");
    }

    #[test]
    fn equal_labels_stay_equal_for_every_share() {
        let sum = |value: f32, share| {
            let [of_own, of_partner] = weights(share);
            value * of_partner + value * of_own
        };
        let shares = (0..10_000).map(|i| f64::from(i) / 9_999.0);
        assert!(shares.clone().any(|share| sum(0.925, share) != 0.925), "rounding shows");
        assert!(shares.clone().all(|share| sum(1.0, share) == 1.0), "but not of whole classes");
        for share in shares {
            assert_eq!(mixed_label(0.925, 0.925, share), 0.925, "{share}");
            assert_eq!(mixed_label(1.0, 1.0, share), 1.0, "{share}");
            assert_eq!(mixed_label_f64(0.1, 0.1, share), 0.1, "{share}");
        }
    }

    #[test]
    fn labels_are_mixed_as_torchvision_mixes_them() {
        // Class 0 with share 0.25, mixed with a partner of class 2.
        let row = [(1.0, 0.0), (0.0, 0.0), (0.0, 1.0)].map(|(a, b)| mixed_label(a, b, 0.25));
        assert_eq!(row, [0.25, 0.0, 0.75]);
    }

    #[test]
    fn labels_of_double_precision_are_mixed_by_the_share() {
        assert_eq!(mixed_label_f64(4.0, 2.0, 0.25), 2.5);
        assert_eq!(mixed_label_f64(2.0, 4.0, 0.25), 3.5);
        // Equal labels stay exact: 0.1 * 0.7 + 0.1 * 0.3 is 0.09999999999999999.
        assert_eq!(mixed_label_f64(0.1, 0.1, 0.3), 0.1);
        assert_eq!(mixed_label(4.0, 2.0, 0.25), 2.5);
    }
}
