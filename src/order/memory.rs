//! Memory for orders, reserved fallibly: a dataset that is too large is an error, not an abort.

use crate::error::{Error, fail};

/// Returns an empty list with room for one element per sample.
pub(crate) fn reserved<T>(samples: u64) -> Result<Vec<T>, Error> {
    let refused = || fail!(Memory, "no memory for an order of {samples} samples");
    let Ok(count) = usize::try_from(samples) else { return Err(refused()) };
    let mut list = Vec::new();
    match list.try_reserve_exact(count) {
        Ok(()) => Ok(list),
        Err(_) => Err(refused()),
    }
}

/// Returns the list `0..count`.
pub(super) fn counted(count: u32) -> Result<Vec<u32>, Error> {
    let mut rows = reserved(u64::from(count))?;
    rows.extend(0..count);
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_there_is_not_is_an_error() {
        let said = reserved::<u64>(u64::MAX).unwrap_err().to_string();
        assert_eq!(said, "no memory for an order of 18446744073709551615 samples");
        assert!(reserved::<u32>(1 << 62).is_err());
    }
}
