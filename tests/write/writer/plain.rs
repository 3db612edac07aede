//! An independent reader, which shares no code with the writer.

use std::fs;
use std::path::Path;

/// The rows and values of a file by the specification, and checks of the properties that FFCV relies on.
pub(crate) struct Plain {
    bytes: Vec<u8>,
    page_size: u64,
    pub(crate) samples: u64,
    /// (sample, pointer, size), in the order of the file.
    table: Vec<(u64, u64, u64)>,
    fields: Vec<(u8, String)>,
    rows_at: u64,
}

impl Plain {
    pub(crate) fn open(path: &Path) -> Self {
        let bytes = fs::read(path).unwrap();
        let u16_at = |at: usize| u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap());
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        assert_eq!(u16_at(0), 2);
        let num_fields = usize::from(u16_at(2));
        let page_size = u64::from(u32::from_le_bytes(bytes[4..8].try_into().unwrap()));
        let table_at = usize::try_from(u64_at(16)).unwrap();
        assert_eq!((bytes.len() - table_at) % 24, 0);
        let table = (table_at..bytes.len())
            .step_by(24)
            .map(|at| (u64_at(at), u64_at(at + 8), u64_at(at + 16)))
            .collect();
        let fields = (0..num_fields)
            .map(|field| {
                let at = 24 + 1041 * field;
                let name = bytes[at + 1..at + 17].split(|&b| b == 0).next().unwrap();
                (bytes[at], String::from_utf8(name.to_vec()).unwrap())
            })
            .collect();
        let (samples, rows_at) = (u64_at(8), 24 + 1041 * num_fields as u64);
        Self { page_size, samples, table, fields, rows_at, bytes }
    }

    /// Each field's offset in a row, and the row's size.
    fn layout(&self) -> (Vec<u64>, u64) {
        let (mut end, mut most) = (0u64, 1);
        let mut offsets = Vec::new();
        for (id, _) in &self.fields {
            let (size, align) = match id {
                2 => (13, 1),
                3 | 5 => (16, 1),
                255 => (3, 1),
                _ => (8, 8),
            };
            offsets.push(end.next_multiple_of(align));
            end = offsets[offsets.len() - 1] + size;
            most = most.max(align);
        }
        (offsets, end.next_multiple_of(most))
    }

    /// Checks the properties that FFCV's readers rely on, and the rules of the format's documentation.
    pub(crate) fn check(&self) {
        let (_, row) = self.layout();
        let rows_end = self.rows_at + self.samples * row;
        if self.table.is_empty() {
            assert_eq!(self.bytes.len() as u64, rows_end);
            return;
        }
        let start = rows_end.next_multiple_of(self.page_size);
        let pages_end = self.bytes.len() as u64 - 24 * self.table.len() as u64;
        assert_eq!((pages_end - start) % self.page_size, 0);
        assert_eq!(self.table[0].1, start, "the first value begins the first page");
        let mut used = vec![false; self.bytes.len()];
        let mut page_of = vec![None; usize::try_from(self.samples).unwrap()];
        for pair in self.table.windows(2) {
            assert!(pair[0].1 < pair[1].1, "sorted by pointer, each its own: {pair:?}");
        }
        for &(sample, ptr, size) in &self.table {
            let page = ptr / self.page_size;
            assert!(ptr + size <= pages_end && (ptr + size.max(1) - 1) / self.page_size == page);
            let known = page_of[usize::try_from(sample).unwrap()].get_or_insert(page);
            assert_eq!(*known, page, "a sample in two pages");
            used[ptr as usize..(ptr + size) as usize].fill(true);
        }
        let idle = (rows_end..pages_end).filter(|&at| !used[at as usize]);
        assert!(idle.into_iter().all(|at| self.bytes[at as usize] == 0), "garbage between values");
    }

    fn word(&self, at: u64) -> u64 {
        u64::from_le_bytes(self.bytes[at as usize..at as usize + 8].try_into().unwrap())
    }

    /// A field's bytes: from the pages if the field has a pointer, from the row otherwise.
    pub(crate) fn value(&self, sample: u64, field: usize) -> Vec<u8> {
        let (offsets, row) = self.layout();
        let cell = self.rows_at + sample * row + offsets[field];
        let ptr = match self.fields[field].0 {
            0 | 1 => return self.bytes[cell as usize..][..8].to_vec(),
            255 => return self.bytes[cell as usize..][..3].to_vec(),
            2 => self.word(cell + 5),
            _ => self.word(cell),
        };
        let &(_, _, size) = self.table.iter().find(|&&(s, p, _)| (s, p) == (sample, ptr)).unwrap();
        if matches!(self.fields[field].0, 3 | 5) {
            assert_eq!(self.word(cell + 8), size);
        }
        self.bytes[ptr as usize..(ptr + size) as usize].to_vec()
    }
}
