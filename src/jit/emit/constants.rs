//! The constants of one function: vectors of 16 bytes, which code loads from memory.

/// The 16-byte constants of one kernel, each stored once unless [`distinct`](Self::distinct).
#[derive(Clone, Debug, Default)]
pub(crate) struct Constants {
    table: Vec<[u8; 16]>,
    distinct: bool,
}

impl Constants {
    /// Creates constants that are stored once per request, so that their number and order don't depend
    /// on which of them are equal.
    pub(crate) fn distinct() -> Self {
        Self { table: vec![], distinct: true }
    }

    /// Returns the constants, in the order of their offsets.
    pub(crate) fn table(&self) -> &[[u8; 16]] {
        &self.table
    }

    /// Returns the byte offset of the first of some consecutive constants.
    pub(crate) fn run(&mut self, run: &[[u8; 16]]) -> i32 {
        let found = self.table.windows(run.len()).position(|known| known == run);
        let index = found.unwrap_or_else(|| {
            self.table.extend_from_slice(run);
            self.table.len() - run.len()
        });
        16 * index as i32
    }

    /// Returns the byte offset of a constant.
    pub(crate) fn offset(&mut self, bytes: [u8; 16]) -> i32 {
        let same = |known: &[u8; 16]| !self.distinct && *known == bytes;
        let found = self.table.iter().position(same);
        let index = found.unwrap_or_else(|| {
            self.table.push(bytes);
            self.table.len() - 1
        });
        16 * index as i32
    }
}
