//! Baseline JPEG, window by window: the usual files, decoded here.
//!
//! ```text
//! headers -> tables     segments -> bits -> coefficients -> samples -> pixels of the window
//! ```
//!
//! What lies outside of the window is passed over in the bits, and nothing more is made of it.
//! The pixels are those of zune-jpeg, bit for bit: the same arithmetic, in the same order. One thing
//! is libjpeg's instead: the last column or row of a picture of an even number of them, not a
//! multiple of 16, whose chroma has half as many ([`stripe`]). What is unusual ([`frame`]) and what
//! is damaged is not decoded here at all: then zune-jpeg is asked, and says what it always said.
//!
//! | file       | from bytes to pixels                                       |
//! |------------|------------------------------------------------------------|
//! | `frame`    | what the headers say, and which files are taken            |
//! | `bits`     | a segment's bits                                           |
//! | `huffman`  | codes                                                      |
//! | `entropy`  | a block's coefficients                                     |
//! | `segments` | from MCU to MCU, over restart markers                      |
//! | `stripe`   | samples of a row of MCUs, and the window's pixels of them  |
//! | `upsample` | chroma for every pixel                                     |

mod bits;
mod entropy;
mod frame;
mod huffman;
mod segments;
mod stripe;
mod upsample;

use super::headers::Headers;
use super::scans::{Grid, SingleScan, mcus};
use frame::Tables;
use fuseloop_kernels::{Work, for_cpu};
use fuseloop_ops::Window;
use segments::Reader;
use stripe::{Part, Stripe};

/// Decodes windows. One for each worker: it keeps its buffers.
#[derive(Debug, Default)]
pub(super) struct Core {
    tables: Tables,
    /// A segment's bytes without stuffing.
    segment: Vec<u8>,
    stripe: Stripe,
}

/// A JPEG that can be decoded here, and where its segments lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) headers: &'a Headers,
    pub(super) scan: &'a SingleScan<'a>,
}

impl Core {
    /// Writes the pixels of `wanted`, a window inside the picture, to `pixels`, packed.
    ///
    /// `None` if the picture is not one of those decoded here, or is damaged. Then `pixels` hold
    /// anything.
    pub(super) fn decode(
        &mut self,
        source: Source<'_>,
        wanted: Window,
        pixels: &mut [u8],
    ) -> Option<()> {
        let frame = self.tables.read(source.bytes, source.headers)?;
        let part = Part::holding(wanted, source.headers);
        self.stripe.begin(&part, frame.channels());
        let Self { tables, segment, stripe } = self;
        let reader = Reader::new(source, &frame, tables, &part, segment)?;
        for_cpu(Job { reader, part: &part, stripe, pixels })
    }
}

impl Part {
    /// The MCUs that `wanted` needs.
    fn holding(wanted: Window, headers: &Headers) -> Self {
        let grid = Grid::of(headers);
        let rows = mcus(wanted.top, wanted.height, headers.size.height, grid.mcu_height);
        let columns = mcus(wanted.left, wanted.width, headers.size.width, grid.mcu_width);
        Self { grid, rows, columns, wanted, size: headers.size }
    }
}

/// All of a window's decoding.
struct Job<'a> {
    reader: Reader<'a>,
    part: &'a Part,
    stripe: &'a mut Stripe,
    pixels: &'a mut [u8],
}

impl Work for Job<'_> {
    type Output = Option<()>;

    #[inline(always)]
    fn run(mut self) -> Option<()> {
        for row in self.part.rows.clone() {
            self.reader.row(row, self.stripe)?;
            self.stripe.write(self.part, row, self.pixels);
        }
        self.reader.finish()
    }
}
