//! `.beton` files of bytes with any page size, and readers that count, delay and fail.

use fuseloop::internals::source::beton::{Allocation, Cell, Header, RowLayout};
use fuseloop::sample::{Epoch, SampleId};
use fuseloop::source::{FieldKind, FieldSpec, ReadAt, RunPlan, Upcoming};
use fuseloop_ops::internals::SampleKey;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Random numbers, the same ones for the same seed.
pub struct Rng(fuseloop_ops::author::Rng);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(SampleKey::new(seed, 0, 0).op(0))
    }

    /// Returns a number below `count`, which is not 0.
    pub fn below(&mut self, count: usize) -> usize {
        self.0.below(count as u32) as usize
    }

    pub fn of<T: Copy>(&mut self, choice: &[T]) -> T {
        choice[self.below(choice.len())]
    }

    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for i in (1..list.len()).rev() {
            list.swap(i, self.below(i + 1));
        }
    }
}

/// A file under construction: two values and a number per sample.
pub struct Pages {
    page_size: u32,
    rows: Vec<[(u64, u64); 2]>,
    data: Vec<u8>,
}

impl Pages {
    pub fn new(page_size: u32) -> Self {
        Self { page_size, rows: vec![], data: vec![] }
    }

    pub fn fields() -> Vec<FieldSpec> {
        let kinds = [FieldKind::Bytes, FieldKind::Int, FieldKind::Json];
        ["first", "number", "second"].into_iter().zip(kinds).map(FieldSpec::from).collect()
    }

    /// Adds a sample whose two values are in one page, as writers place them.
    pub fn add(&mut self, sizes: [usize; 2]) {
        let (page, room) = (self.page_size as usize, sizes[0] + sizes[1]);
        assert!(room <= page);
        if self.data.len() % page + room > page {
            self.data.resize(self.data.len().next_multiple_of(page), 0);
        }
        self.add_here(sizes);
    }

    /// Adds a sample directly behind the last, in one page or two.
    pub fn add_here(&mut self, sizes: [usize; 2]) {
        let row = sizes.map(|size| {
            let at = self.data.len() as u64;
            self.data.extend((0..size as u64).map(|i| (at + i).wrapping_mul(167).to_le_bytes()[1]));
            (at, size as u64)
        });
        self.rows.push(row);
    }

    /// Adds a sample that shares the values of an earlier one.
    pub fn add_again(&mut self, earlier: usize) {
        self.rows.push(self.rows[earlier]);
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    fn header(&self) -> (Header, RowLayout, u64) {
        let layout = RowLayout::new(Self::fields().iter().map(|field| &field.kind)).unwrap();
        let data = self.data.len().next_multiple_of(self.page_size as usize) as u64;
        let mut header = Header {
            num_fields: 3,
            page_size: self.page_size,
            num_samples: self.rows.len() as u64,
            alloc_table_ptr: 0,
        };
        let start = header.data_start(layout.size()).unwrap();
        header.alloc_table_ptr = start + data;
        (header, layout, start)
    }

    /// The offset of the first page.
    pub fn start(&self) -> u64 {
        self.header().2
    }

    /// The whole file.
    pub fn bytes(&self) -> Vec<u8> {
        let (header, layout, start) = self.header();
        let mut bytes = header.to_bytes().to_vec();
        for field in Self::fields() {
            bytes.extend(field.to_bytes().unwrap());
        }
        let bytes_cell = |(at, size): (u64, u64)| Cell::Bytes { ptr: start + at, size };
        for (number, values) in self.rows.iter().enumerate() {
            let cells = [bytes_cell(values[0]), Cell::Int(number as i64), bytes_cell(values[1])];
            let mut row = vec![0; layout.size()];
            for (field, cell) in cells.iter().enumerate() {
                cell.put(layout.cell_mut(&mut row, field).unwrap());
            }
            bytes.extend(row);
        }
        bytes.resize(start as usize, 0);
        bytes.extend(&self.data);
        bytes.resize(header.alloc_table_ptr as usize, 0);
        for (number, values) in self.rows.iter().enumerate() {
            let sample = number as u64;
            for &(at, size) in values {
                bytes.extend(Allocation { sample, ptr: start + at, size }.to_bytes());
            }
        }
        bytes
    }
}

/// The faults of a [`Disk`].
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Reads that touch these bytes fail.
    pub broken: Option<Range<u64>>,
    /// The file ends here, although its length says otherwise.
    pub cut: Option<u64>,
    /// A read returns at most this many bytes.
    pub at_once: Option<usize>,
    /// Every read takes this long.
    pub delay: Option<Duration>,
    /// Reads that touch this byte panic.
    pub panics: Option<u64>,
}

/// A file in memory that counts the bytes read, and fails as configured.
#[derive(Clone)]
pub struct Disk(Arc<Inner>);

struct Inner {
    bytes: Vec<u8>,
    faults: Mutex<Faults>,
    reads: Mutex<Vec<Range<u64>>>,
    count: AtomicU64,
}

impl Disk {
    pub fn new(bytes: Vec<u8>) -> Self {
        let (faults, reads) = (Mutex::default(), Mutex::default());
        Self(Arc::new(Inner { bytes, faults, reads, count: AtomicU64::new(0) }))
    }

    /// Sets the faults from now on.
    pub fn set(&self, faults: Faults) {
        *self.0.faults.lock().unwrap() = faults;
    }

    /// The ranges read since the last call.
    pub fn take_reads(&self) -> Vec<Range<u64>> {
        std::mem::take(&mut self.0.reads.lock().unwrap())
    }

    /// The number of owners of the file: each thread that reads it is one.
    pub fn readers(&self) -> usize {
        Arc::strong_count(&self.0)
    }
}

impl ReadAt for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.bytes.len() as u64)
    }

    fn read_at(&self, bytes: &mut [u8], start: u64) -> io::Result<usize> {
        let inner = &*self.0;
        let Faults { broken, cut, at_once, delay, panics } = inner.faults.lock().unwrap().clone();
        if let Some(delay) = delay {
            std::thread::sleep(delay);
        }
        let end = cut.unwrap_or(inner.bytes.len() as u64).max(start);
        let mut len = (bytes.len() as u64).min(end - start);
        if let Some(most) = at_once {
            // Every third read is also interrupted.
            if inner.count.fetch_add(1, Ordering::Relaxed) % 3 == 2 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            len = len.min(most as u64);
        }
        if let Some(broken) = broken {
            if broken.contains(&start) {
                return Err(io::Error::other("a bad sector"));
            }
            if start < broken.start {
                len = len.min(broken.start - start);
            }
        }
        assert!(panics.is_none_or(|at| !(start..start + len).contains(&at)), "out of order");
        inner.reads.lock().unwrap().push(start..start + len);
        let from = (start as usize).min(inner.bytes.len());
        bytes[..len as usize].copy_from_slice(&inner.bytes[from..from + len as usize]);
        Ok(len as usize)
    }
}

/// The samples of a run, in order.
pub struct Samples(pub Vec<SampleId>);

impl Upcoming for Samples {
    fn samples(&self) -> u64 {
        self.0.len() as u64
    }

    fn at(&self, positions: Range<u64>, samples: &mut Vec<SampleId>) {
        samples.extend(&self.0[positions.start as usize..positions.end as usize]);
    }
}

/// A run over the two values of these samples.
pub fn run_over(samples: &[usize], batch_size: usize) -> RunPlan {
    let samples = samples.iter().map(|&sample| SampleId(sample as u64)).collect();
    RunPlan {
        seed: 0,
        epoch: Epoch(0),
        upcoming: Arc::new(Samples(samples)),
        batch_size,
        batches_ahead: 2,
        fields: vec![0, 1, 2],
    }
}
