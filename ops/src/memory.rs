//! Allocation of memory whose size depends on a user's request or on a file. If the system has no
//! memory, the result is an error that says how many bytes were needed and what for.
//!
//! A `Vec` that grows by itself aborts the process if the system has no memory. Buffers of the size of
//! an image are therefore allocated here. Buffers of the size of a row are not: rows are bounded.

/// The system could not allocate memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "out of memory: could not allocate {bytes} bytes for {what}; use smaller images, or fewer at once"
)]
pub struct NoMemory {
    /// The number of bytes that were needed.
    pub bytes: usize,
    /// The purpose of the memory.
    pub what: &'static str,
}

/// Sets the length of `buffer`. New elements have the default value.
///
/// # Errors
///
/// If there is no memory. The buffer then stays unchanged.
pub fn resize<T: Clone + Default>(
    buffer: &mut Vec<T>,
    len: usize,
    what: &'static str,
) -> Result<(), NoMemory> {
    reserve(buffer, len.saturating_sub(buffer.len()), what)?;
    buffer.resize(len, T::default());
    Ok(())
}

/// Reserves room for `more` additional elements.
///
/// # Errors
///
/// If there is no memory. The buffer then stays unchanged.
pub fn reserve<T>(buffer: &mut Vec<T>, more: usize, what: &'static str) -> Result<(), NoMemory> {
    let bytes = buffer.len().saturating_add(more).saturating_mul(size_of::<T>());
    buffer.try_reserve_exact(more).map_err(|_| NoMemory { bytes, what })
}

/// Returns an empty vector with room for `len` elements.
///
/// # Errors
///
/// If there is no memory.
pub fn with_capacity<T>(len: usize, what: &'static str) -> Result<Vec<T>, NoMemory> {
    let mut buffer = vec![];
    reserve(&mut buffer, len, what)?;
    Ok(buffer)
}

/// Allocates `bytes` and frees them again. To be called before a library call that needs about as many
/// bytes and would abort the process.
///
/// # Errors
///
/// If there is no memory.
pub fn probe(bytes: usize, what: &'static str) -> Result<(), NoMemory> {
    with_capacity::<u8>(bytes, what).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_system_has_is_an_error_that_says_for_what() {
        let mut buffer = vec![1, 2];
        let error = resize(&mut buffer, usize::MAX / 8, "rows").unwrap_err();
        let bytes = usize::MAX / 8 * 4;
        assert_eq!(error, NoMemory { bytes, what: "rows" });
        assert_eq!(buffer, [1, 2]);
        assert_eq!(
            error.to_string(),
            format!(
                "out of memory: could not allocate {bytes} bytes for rows; use smaller images, or fewer at once"
            )
        );
        assert!(reserve(&mut buffer, usize::MAX, "rows").is_err());
        assert!(probe(usize::MAX, "a picture").is_err() && probe(10, "a picture").is_ok());
    }

    #[test]
    fn lengths_are_set_both_ways() {
        let mut buffer = vec![7u8; 3];
        resize(&mut buffer, 5, "rows").unwrap();
        assert_eq!(buffer, [7, 7, 7, 0, 0]);
        resize(&mut buffer, 1, "rows").unwrap();
        assert_eq!(buffer, [7]);
        assert!(with_capacity::<u32>(9, "rows").unwrap().capacity() >= 9);
    }
}
