//! Values in memory that others own: an array of NumPy, a list of image files.

/// Values of one size at even distances in memory.
pub(super) struct EvenValues {
    memory: Box<dyn AsRef<[u8]> + Send + Sync>,
    /// The byte of the first value.
    start: usize,
    /// The bytes from a value to the next; `None` for values one after another.
    distance: Option<isize>,
}

impl EvenValues {
    /// Returns values that lie one after another.
    pub(super) fn new(memory: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        Self { memory: Box::new(memory), start: 0, distance: None }
    }

    /// Sets where the first value is, and the distance to the next.
    pub(super) fn place(&mut self, start: usize, distance: isize) {
        (self.start, self.distance) = (start, Some(distance));
    }

    /// Returns the number of bytes of the memory.
    pub(super) fn bytes(&self) -> usize {
        (*self.memory).as_ref().len()
    }

    /// Returns whether there are `count` values of `each` bytes.
    pub(super) fn holds(&self, count: usize, each: u64) -> bool {
        // All values between the first and the last lie between them.
        count
            .checked_sub(1)
            .is_none_or(|last| [0, last].iter().all(|&n| self.get(n, each).is_some()))
    }

    /// Returns the value at an index, of `each` bytes.
    pub(super) fn get(&self, index: usize, each: u64) -> Option<&[u8]> {
        let each = usize::try_from(each).ok()?;
        let distance = match self.distance {
            Some(distance) => distance,
            None => isize::try_from(each).ok()?,
        };
        let from_first = isize::try_from(index).ok()?.checked_mul(distance)?;
        let start = self.start.checked_add_signed(from_first)?;
        (*self.memory).as_ref().get(start..start.checked_add(each)?)
    }
}

/// Values of any length.
pub(super) trait SharedValues: Send + Sync {
    fn count(&self) -> usize;

    fn value(&self, index: usize) -> Option<&[u8]>;

    /// Returns the size of the longest value.
    fn longest(&self) -> Option<u64> {
        (0..self.count()).filter_map(|index| Some(self.value(index)?.len() as u64)).max()
    }
}

impl<B: AsRef<[u8]> + Send + Sync> SharedValues for Vec<B> {
    fn count(&self) -> usize {
        self.len()
    }

    fn value(&self, index: usize) -> Option<&[u8]> {
        self.get(index).map(AsRef::as_ref)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_lie_at_their_distances() {
        let mut values = EvenValues::new((0..20).collect::<Vec<u8>>());
        assert_eq!((values.get(3, 5), values.get(4, 5)), (Some(&[15, 16, 17, 18, 19][..]), None));
        values.place(16, -8);
        assert_eq!(
            [0, 1, 2].map(|n| values.get(n, 2).map(|value| value[0])),
            [Some(16), Some(8), Some(0)]
        );
        assert!(values.holds(3, 2) && values.holds(3, 4) && !values.holds(4, 2));
        assert!(!values.holds(1, 5) && values.holds(0, 5));
        values.place(0, isize::MAX);
        assert!(values.get(2, 1).is_none() && values.get(usize::MAX, 1).is_none());
    }
}
