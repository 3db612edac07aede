//! Baseline and progressive JPEG: decodes windows of the usual files.
//!
//! ```text
//! headers -> tables     segments -> bits -> coefficients -> samples -> pixels of the window
//! ```
//!
//! Bits outside the window are read past, and nothing is decoded from them. The pixels equal
//! zune-jpeg's, bit for bit: the same arithmetic, in the same order. One rule is libjpeg's instead: the
//! last column or row of an image that has an even number of them, not a multiple of 16, and half as
//! many of chroma ([`mcu_row`](crate::mcu_row)). Of unusual files ([`frame`](crate::frame)) all columns are
//! decoded, by the same arithmetic ([`sequential`](crate::sequential)). Of progressive files all scans are read down
//! to the window's last row, and samples are computed for the window ([`progressive`](crate::progressive)). Damaged
//! usual files are left to zune-jpeg, which also reports what is wrong, unless they are progressive.
//!
//! | file       | from bytes to pixels                                       |
//! |------------|------------------------------------------------------------|
//! | `frame`    | tables from the headers, and which files are decoded here  |
//! | `bits`     | a segment's bits                                           |
//! | `huffman`  | codes                                                      |
//! | `entropy`  | a block's coefficients                                     |
//! | `mcu_reader` | from MCU to MCU, over restart markers                    |
//! | `tile_reader` | from tile to tile of a bit-plane image                  |
//! | `scan_coder` | all coefficients of a scan, and their coded data again     |
//! | `mcu_row`  | samples of a row of MCUs, and the window's pixels in it    |
//! | `upsample` | chroma for every pixel                                     |
//! | `sequential` | any scans of a sequential image, to planes of samples    |
//! | `progressive` | all scans of a progressive image, and from coefficients to samples |
//! | `progressive_scan` | a scan of a progressive image                       |
//! | `coefficients` | coefficients of a component, which scans refine         |
//! | `sample_plane` | samples of a component, for every pixel                |

use crate::bit_planes::BitPlaneImage;
use crate::error::JpegError;
use crate::frame::{FrameComponents, Tables};
use crate::headers::Headers;
use crate::mcu_reader::McuReader;
use crate::mcu_row::{DecodeRegion, McuRow, upsampled};
use crate::progressive::{CoefficientRegion, ProgressiveDecoder};
use crate::sample_plane::{ImagePlanes, PlaneLayout};
use crate::scale::Scale;
use crate::scans::{Grid, ProgressiveScan, SingleScan, mcus};
use crate::sequential::SequentialDecoder;
use crate::tile_reader::{TileBuffers, TileReader};
use fuseloop_kernels::{CpuWork, for_cpu};
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;
use std::ops::Range;

/// Decodes windows. Each worker has its own, which reuses its buffers.
#[derive(Debug, Default)]
pub struct WindowDecoder {
    tables: Tables,
    /// A segment's bytes without stuffing.
    segment: Vec<u8>,
    tile: TileBuffers,
    stripe: McuRow,
    sequential: SequentialDecoder,
    pub(crate) progressive: ProgressiveDecoder,
    image: ImagePlanes,
}

/// A JPEG that can be decoded here, with the byte ranges of its segments.
#[derive(Clone, Copy, Debug)]
pub struct IndexedJpeg<'a> {
    pub bytes: &'a [u8],
    pub headers: &'a Headers,
    pub scan: &'a SingleScan<'a>,
}

impl WindowDecoder {
    /// Writes the pixels of a window inside the image to `pixels`, packed.
    ///
    /// Returns `None` if the image is not one of those decoded here, or is damaged. The contents of
    /// `pixels` are unspecified in that case.
    pub fn decode(
        &mut self,
        source: IndexedJpeg<'_>,
        wanted: Wanted,
        pixels: &mut [u8],
    ) -> Option<()> {
        let frame = self.tables.read(source.bytes, source.headers)?;
        let part = DecodeRegion::holding(wanted, source.headers);
        let decoded = self.begin(&frame, &part, wanted.gray);
        let Self { tables, segment, stripe, .. } = self;
        let reader = McuReader::new(source, (&frame, decoded), tables, &part, segment)?;
        for_cpu(WindowDecode { reader, part: &part, stripe, pixels })
    }

    /// Does the same as [`decode`](Self::decode) for a progressive image.
    ///
    /// # Errors
    ///
    /// If the image is damaged, or there is no memory.
    pub fn decode_progressive(
        &mut self,
        bytes: &[u8],
        headers: &Headers,
        scans: &[ProgressiveScan],
        wanted: Wanted,
        pixels: &mut [u8],
    ) -> Result<(), JpegError> {
        let Self { stripe, progressive, .. } = self;
        let part = DecodeRegion::holding(wanted, headers);
        let mut factors = [[1; 2]; 3];
        for (factors, component) in factors.iter_mut().zip(headers.components.iter()) {
            let PlaneLayout { h, v, .. } = PlaneLayout::of(headers, component);
            *factors = [h, v];
        }
        let decoded = if wanted.gray { 1 } else { headers.components.len() };
        stripe.begin(&part, &factors[..decoded], wanted.gray);
        let region = CoefficientRegion::of(&part, decoded, stripe);
        let outcome = progressive.read(bytes, headers, scans, &region).map(|()| {
            let reader = progressive.source(decoded);
            let done = for_cpu(WindowDecode { reader, part: &part, stripe, pixels });
            done.expect("the coefficients of the region were read");
        });
        progressive.release_large();
        outcome
    }

    /// Writes the pixels of a window inside an image of any kind to `pixels`, packed: gray levels, or RGB. `scans` are
    /// those of a progressive image.
    ///
    /// # Errors
    ///
    /// If the image is damaged, or there is no memory.
    pub fn decode_any(
        &mut self,
        bytes: &[u8],
        headers: &Headers,
        scans: &[ProgressiveScan],
        (window, gray): (Window, bool),
        pixels: &mut [u8],
    ) -> Result<(), JpegError> {
        let Self { sequential, progressive, image, .. } = self;
        let grid = Grid::of(headers);
        let rows = mcus(window.top, window.height, headers.size.height, grid.mcu_height, 1);
        if headers.progressive {
            let (decoded, mut needed) = (ImagePlanes::needed(headers, gray), [0; 4]);
            needed[..decoded].fill(!0);
            let region = CoefficientRegion { mcus: [rows, 0..grid.columns], needed };
            let outcome = progressive.read(bytes, headers, scans, &region).and_then(|()| {
                let mut planes = image.planes[..decoded].iter_mut().enumerate();
                planes.try_for_each(|(component, plane)| progressive.transform(component, plane))
            });
            progressive.release_large();
            outcome?;
        } else {
            sequential.read(bytes, headers, &rows, image)?;
        }
        image.write(headers, (window, gray), pixels);
        Ok(())
    }

    /// Does the same as [`decode`](Self::decode) for a bit-plane image whose JPEG has the headers `headers`. There,
    /// `None` means that the image is damaged.
    pub fn decode_planes(
        &mut self,
        image: &BitPlaneImage<'_>,
        headers: &Headers,
        wanted: Wanted,
        pixels: &mut [u8],
    ) -> Option<()> {
        let frame = self.tables.read_steps(image.head, headers)?;
        let part = DecodeRegion::holding(wanted, headers);
        let decoded = self.begin(&frame, &part, wanted.gray);
        let Self { tile, stripe, .. } = self;
        let reader = TileReader::new(image, (&frame, decoded), &part, tile)?;
        for_cpu(WindowDecode { reader, part: &part, stripe, pixels })
    }

    /// Sizes the buffers for a region, and returns how many components are decoded.
    fn begin(&mut self, frame: &FrameComponents, part: &DecodeRegion, gray: bool) -> usize {
        let decoded = if gray { 1 } else { frame.channels().len() };
        self.stripe.begin(part, &frame.factors()[..decoded], gray);
        decoded
    }
}

/// The pixels that are asked for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// A window of the image at this scale.
    pub window: Window,
    pub scale: Scale,
    /// Luma alone, else RGB.
    pub gray: bool,
}

#[cfg(feature = "write")]
impl Wanted {
    /// Returns what asks for all of an image.
    pub(crate) fn whole(size: Size) -> Self {
        Self { window: size.full(), scale: Scale::FULL, gray: false }
    }
}

/// Returns the grid of an image's MCUs, and the rows and columns of those that `wanted` needs.
pub fn needed_mcus(wanted: Wanted, headers: &Headers) -> (Grid, [Range<u64>; 2]) {
    let DecodeRegion { grid, rows, columns, .. } = DecodeRegion::holding(wanted, headers);
    (grid, [rows, columns])
}

/// Reads the MCUs of a region in order, and writes their samples.
pub(crate) trait McuSource {
    /// Reads a row of the region's MCUs into `stripe`. Returns `None` if they are damaged.
    fn row(&mut self, row: u64, stripe: &mut McuRow) -> Option<()>;

    /// Checks what was read past the last row.
    fn finish(&mut self) -> Option<()>;
}

impl DecodeRegion {
    /// Returns the MCUs that `wanted` needs.
    pub(crate) fn holding(Wanted { window: wanted, scale, .. }: Wanted, headers: &Headers) -> Self {
        let (grid, size, factor) = (Grid::of(headers), scale.of(headers.size), scale.factor());
        let mcu = Size::new(grid.mcu_height / factor, grid.mcu_width / factor);
        let [down, across] = upsampled(&grid, scale);
        let rows = mcus(wanted.top, wanted.height, size.height, mcu.height, down.into());
        let columns = mcus(wanted.left, wanted.width, size.width, mcu.width, across.into());
        let whole = headers.size;
        Self { grid, mcu, scale, upsampled: [down, across], rows, columns, wanted, size, whole }
    }
}

/// The whole decoding of one window.
struct WindowDecode<'a, R> {
    reader: R,
    part: &'a DecodeRegion,
    stripe: &'a mut McuRow,
    pixels: &'a mut [u8],
}

impl<R: McuSource> CpuWork for WindowDecode<'_, R> {
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
