//! Memory whose size follows from what a user or a file asks for: the system gives it, or there is
//! an error that says how many bytes were wanted and for what.
//!
//! A `Vec` that grows by itself aborts the process where the system has no memory. What is as large
//! as a picture is therefore taken here. What is as large as a row is not: rows are bounded.

/// The system did not give memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the system has no memory for {bytes} bytes of {what}: work on smaller pictures, or on fewer at once"
)]
pub struct NoMemory {
    /// Bytes that were wanted.
    pub bytes: usize,
    /// What they were for.
    pub what: &'static str,
}

/// Sets the length of `buffer`; new elements are the default.
///
/// # Errors
///
/// If there is no memory. The buffer stays as it was.
pub fn resize<T: Clone + Default>(
    buffer: &mut Vec<T>,
    len: usize,
    what: &'static str,
) -> Result<(), NoMemory> {
    reserve(buffer, len.saturating_sub(buffer.len()), what)?;
    buffer.resize(len, T::default());
    Ok(())
}

/// Makes room for `more` elements.
///
/// # Errors
///
/// If there is no memory. The buffer stays as it was.
pub fn reserve<T>(buffer: &mut Vec<T>, more: usize, what: &'static str) -> Result<(), NoMemory> {
    let bytes = buffer.len().saturating_add(more).saturating_mul(size_of::<T>());
    buffer.try_reserve_exact(more).map_err(|_| NoMemory { bytes, what })
}

/// An empty vector with room for `len` elements.
///
/// # Errors
///
/// If there is no memory.
pub fn with_capacity<T>(len: usize, what: &'static str) -> Result<Vec<T>, NoMemory> {
    let mut buffer = vec![];
    reserve(&mut buffer, len, what)?;
    Ok(buffer)
}

/// Asks the system for `bytes` and gives them back: before a call into a library that takes about
/// as many and would abort.
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
        let mut kept = vec![1, 2];
        let error = resize(&mut kept, usize::MAX / 8, "rows").unwrap_err();
        let bytes = usize::MAX / 8 * 4;
        assert_eq!(error, NoMemory { bytes, what: "rows" });
        assert_eq!(kept, [1, 2]);
        assert_eq!(
            error.to_string(),
            format!(
                "the system has no memory for {bytes} bytes of rows: work on smaller pictures, or on fewer at once"
            )
        );
        assert!(reserve(&mut kept, usize::MAX, "rows").is_err());
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
