//! Cancels a long call from another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that ends a long call early, or none: a field of the options of the call. Clones share the flag.
///
/// A call that is cancelled returns an error of the kind [`Cancelled`](crate::ErrorKind::Cancelled) as soon as
/// the samples in flight are done. A write leaves nothing behind that a write which fails would not leave.
///
/// ```
/// use fuseloop::CancelFlag;
/// use fuseloop::verify::VerifyOptions;
///
/// let cancel = CancelFlag::new();
/// let options = VerifyOptions { cancel: cancel.clone(), ..VerifyOptions::default() };
/// // Another thread, while the call runs:
/// cancel.cancel();
/// # let _ = options;
/// ```
#[derive(Clone, Debug, Default)]
pub struct CancelFlag(Option<Arc<AtomicBool>>);

impl CancelFlag {
    /// Returns a flag that is not set.
    #[must_use]
    pub fn new() -> Self {
        Self(Some(Arc::default()))
    }

    /// Sets the flag.
    pub fn cancel(&self) {
        if let Some(flag) = &self.0 {
            flag.store(true, Ordering::Relaxed);
        }
    }

    /// Returns whether the flag is set.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}

impl PartialEq for CancelFlag {
    /// True for the same flag, or two times none.
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            (own, other) => own.is_none() && other.is_none(),
        }
    }
}

impl Eq for CancelFlag {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_equal_only_to_themselves() {
        let (one, none) = (CancelFlag::new(), CancelFlag::default());
        assert!(one == one.clone() && none == CancelFlag::default());
        assert!(one != none && one != CancelFlag::new());
        none.cancel();
        assert!(!none.is_cancelled());
    }
}
