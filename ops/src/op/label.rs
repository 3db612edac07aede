//! Ops on numbers beside the images.

use crate::author::{BoxError, Rng};
use std::fmt;

/// An op on a label, which is an i64, a float or a vector of f32: in each case another method is called.
/// An error that a method returns ends the epoch, whatever becomes of damaged samples.
///
/// ```
/// # use fuseloop_ops::LabelSample;
/// # use fuseloop_ops::author::*;
/// /// Numbers classes from 0 that a dataset numbers from 1.
/// #[derive(Clone, Copy, Debug)]
/// struct FromZero;
///
/// impl LabelOp for FromZero {
///     fn eval(&self, _cx: LabelSample<'_>, label: i64) -> Result<i64, BoxError> {
///         label.checked_sub(1).ok_or_else(|| "a label is too small".into())
///     }
/// }
/// ```
pub trait LabelOp: fmt::Debug + Send + Sync {
    /// The definition of the op on an i64: returns the new label.
    ///
    /// # Errors
    ///
    /// If the op has no label for this sample.
    fn eval(&self, cx: LabelSample<'_>, label: i64) -> Result<i64, BoxError> {
        let _ = cx;
        Ok(label)
    }

    /// The definition of the op on an f32 or f64: returns the new value, which is rounded to the type of
    /// the old one.
    ///
    /// # Errors
    ///
    /// If the op has no value for this sample.
    fn eval_float(&self, cx: LabelSample<'_>, value: f64) -> Result<f64, BoxError> {
        let _ = cx;
        Ok(value)
    }

    /// Returns the number of classes, if the op turns the label into a one-hot vector.
    fn classes(&self) -> Option<u32> {
        None
    }

    /// Returns true if the op neither moves nor changes any element, so that it also works on
    /// arrays.
    fn keeps_elements(&self) -> bool {
        false
    }

    /// The definition of the op on one element of a one-hot vector of `classes` elements: returns
    /// its new value.
    fn element(&self, value: f32, classes: usize) -> f32 {
        let _ = classes;
        value
    }

    /// Returns true if the op changes vectors as a whole, by [`eval_vector`](Self::eval_vector). It then
    /// works on arrays of f32, too, and vectors are computed on the host.
    fn takes_vector(&self) -> bool {
        false
    }

    /// The definition of the op on a vector: changes it in place.
    ///
    /// # Errors
    ///
    /// If the op has no vector for this sample.
    fn eval_vector(&self, cx: LabelSample<'_>, vector: &mut [f32]) -> Result<(), BoxError> {
        let _ = (cx, vector);
        Ok(())
    }
}

/// The arguments of a [`LabelOp`] besides the label.
///
/// ```
/// # use fuseloop_ops::*;
/// // One label in a hundred is wrong.
/// let wrong = Lambda::label("wrong", |cx: LabelSample<'_>, label: i64| {
///     if cx.rng.coin(0.01) { i64::from(cx.rng.below(10)) } else { label }
/// });
/// # let _ = wrong;
/// ```
#[derive(Debug)]
pub struct LabelSample<'a> {
    /// The sample's index in its dataset.
    pub sample: u64,
    /// The epoch, from 0.
    pub epoch: u32,
    /// The op's own generator for this sample: the only source of randomness it should have.
    pub rng: &'a mut Rng,
}
