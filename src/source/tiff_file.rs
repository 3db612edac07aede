//! TIFF files: the directory of the first image, checked, and the samples of its strips and tiles.
//!
//! ```text
//! header:     "II" or "MM" (the byte order), 42, offset of the first directory
//!             the same with 43, 8, 0 and offsets of 8 bytes: BigTIFF
//! directory:  count, entry*        entry: tag, type, count, value or its offset
//! ```
//!
//! (TIFF 6.0, section 2.) Strips and tiles are both called segments here. `tiff_lzw` unpacks those of LZW, as far as rows are
//! needed: one that is full needs no end code, as in libtiff. The crate `tiff` unpacks the others. All that it takes
//! memory by is checked before: every number that it reads is in the file, each sample has one size, and the size of
//! a segment is within the limits. It is told that the samples are gray levels, so that it passes on what is stored:
//! its caller knows the colours.
//!
//! | read                          | values                                                        |
//! |-------------------------------|---------------------------------------------------------------|
//! | compression                   | none, LZW, Deflate (both numbers), PackBits                   |
//! | predictor                     | none, horizontal, floating point                              |
//! | planar configuration          | pixels, or a plane for each sample                            |
//! | bits of a sample              | 1, 2, 4 (one sample a pixel), 8, 16, 32, 64                   |
//! | order of bits                 | 1                                                             |
//! | orientation                   | any: it is noted, and the samples are as stored               |
//!
//! Everything else is an error that names it.

#[cfg(feature = "tar")]
use super::NdType;
#[cfg(feature = "tar")]
use super::dtype::{ByteOrder, NdKind};
use super::tiff_lzw::Strings;
use crate::exif;
use crate::panicked::call_decoder;
#[cfg(feature = "tar")]
use crate::warnings::warn;
use fuseloop_ops::Size;
use std::io::{self, Read, Seek, SeekFrom};
#[cfg(feature = "tar")]
use std::sync::atomic::{AtomicBool, Ordering};
use tiff::decoder::Decoder;

/// The compression LZW.
const LZW: u64 = 5;

/// The most samples of a pixel.
const MAX_SAMPLES: u64 = 1024;

/// The meaning of samples as a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Photometric {
    WhiteIsZero,
    BlackIsZero,
    Rgb,
    /// Indices, and the colour of each.
    Palette(Vec<[u8; 3]>),
    Cmyk,
    /// A meaning that pictures are not decoded from, by its name.
    Other(&'static str),
}

/// The kind of a sample's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SampleKind {
    Unsigned,
    Signed,
    Float,
}

/// The directory of the first image of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TiffFile {
    /// The size as stored.
    pub(crate) size: Size,
    /// The EXIF orientation, from 1 to 8. 1 is upright.
    pub(crate) orientation: u8,
    /// The samples of a pixel.
    pub(crate) samples: u16,
    /// The bits of a sample.
    pub(crate) bits: u8,
    pub(crate) kind: SampleKind,
    pub(crate) photometric: Photometric,
    /// The meanings of the samples that the photometric interpretation does not explain: 0 nothing, 1 alpha that colours
    /// were multiplied by, 2 alpha.
    pub(crate) extra: Vec<u64>,
    /// True if each sample has a plane of its own.
    pub(crate) is_planar: bool,
    /// True if another image follows.
    pub(crate) has_more_pages: bool,
    /// The size of a segment; those at the right and at the bottom may be cut.
    segment: Size,
    is_tiled: bool,
    predictor: Predictor,
    /// The places of the segments if they have LZW.
    lzw: Option<LzwSegments>,
    /// The bytes that the crate reads instead of the file's.
    patch: Patch,
}

/// The form in which samples were stored (section 14, and technical note 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Predictor {
    None,
    /// Differences from the pixel at the left.
    Horizontal,
    /// Differences of bytes, after all first bytes of a row come all second ones, and so on.
    FloatingPoint,
}

/// The segments of a file with LZW.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LzwSegments {
    is_big_endian: bool,
    /// Where the offsets of the segments and their lengths are, and the bytes of such a number.
    offsets: (usize, usize),
    lens: (usize, usize),
}

/// Bytes at an offset of a file.
type Patch = (u64, Vec<u8>);

/// Entries of a directory, each with its values if they are unsigned numbers in the file.
struct Entries<'a> {
    file: &'a [u8],
    is_big_endian: bool,
    is_big: bool,
    /// The offsets of the entries.
    at: Vec<usize>,
    /// The offset of the next directory's offset.
    next: usize,
}

fn cut() -> String {
    "it ends inside its directory".into()
}

/// Reads a number of 1, 2, 4 or 8 bytes.
fn number(file: &[u8], is_big_endian: bool, at: usize, size: usize) -> Result<u64, String> {
    let bytes = at.checked_add(size).and_then(|end| file.get(at..end)).ok_or_else(cut)?;
    let add = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
    Ok(if is_big_endian { bytes.iter().fold(0, add) } else { bytes.iter().rev().fold(0, add) })
}

impl<'a> Entries<'a> {
    fn parse(file: &'a [u8]) -> Result<Self, String> {
        let is_big_endian = match file.get(..2) {
            Some(b"II") => false,
            Some(b"MM") => true,
            _ => return Err("it does not begin as a TIFF".into()),
        };
        let mut entries = Self { file, is_big_endian, is_big: false, at: vec![], next: 0 };
        entries.is_big = match entries.number(2, 2)? {
            42 => false,
            43 if entries.number(4, 2)? == 8 && entries.number(6, 2)? == 0 => true,
            version => return Err(format!("its version is {version}, expected 42 or 43")),
        };
        let (first, size, entry) = if entries.is_big {
            (entries.number(8, 8)?, 8, 20)
        } else {
            (entries.number(4, 4)?, 2, 12)
        };
        let first = usize::try_from(first).map_err(|_| cut())?;
        let count = entries.number(first, size)?;
        let start = first.checked_add(size).ok_or_else(cut)?;
        let most = (file.len().saturating_sub(start) / entry) as u64;
        if count > most {
            return Err(format!(
                "its directory has {count} entries, the file has bytes for {most}"
            ));
        }
        entries.at = (0..count as usize).map(|index| start + index * entry).collect();
        entries.next = start + count as usize * entry;
        Ok(entries)
    }

    /// Reads a number of 1, 2, 4 or 8 bytes.
    fn number(&self, at: usize, size: usize) -> Result<u64, String> {
        number(self.file, self.is_big_endian, at, size)
    }

    /// Returns true if a directory follows. A file that ends here has none.
    fn has_more(&self) -> bool {
        self.number(self.next, if self.is_big { 8 } else { 4 }).is_ok_and(|next| next != 0)
    }

    /// Returns the offset of the values of a tag, their number and the size of each. The last entry of a tag counts.
    fn find(&self, tag: u64) -> Result<Option<(usize, usize, usize)>, String> {
        let is = |at: &&usize| self.number(**at, 2).is_ok_and(|found| found == tag);
        let Some(&at) = self.at.iter().rev().find(is) else { return Ok(None) };
        let size = match self.number(at + 2, 2)? {
            1 | 7 => 1,
            3 => 2,
            4 | 13 => 4,
            16 | 18 => 8,
            kind => {
                return Err(format!("its tag {tag} has type {kind}, expected unsigned numbers"));
            }
        };
        let (wide, value) = if self.is_big { (8, at + 12) } else { (4, at + 8) };
        let count = self.number(at + 4, wide)?;
        let bytes = count.checked_mul(size as u64).filter(|&bytes| bytes <= self.file.len() as u64);
        let bytes =
            bytes.ok_or_else(|| format!("its tag {tag} has {count} values, more than the file"))?;
        let value = if bytes <= wide as u64 { value as u64 } else { self.number(value, wide)? };
        let end = value.checked_add(bytes).filter(|&end| end <= self.file.len() as u64);
        end.ok_or_else(|| format!("its tag {tag} has values beyond the end of the file"))?;
        Ok(Some((value as usize, count as usize, size)))
    }

    /// Returns the values of a tag, of which there may be `most`; none if there is no such tag.
    fn values(&self, tag: u64, most: u64) -> Result<Vec<u64>, String> {
        let Some((at, count, size)) = self.find(tag)? else { return Ok(vec![]) };
        if count as u64 > most {
            return Err(format!("its tag {tag} has {count} values, expected at most {most}"));
        }
        (0..count).map(|index| self.number(at + index * size, size)).collect()
    }

    /// Returns the value of a tag that has one.
    fn one(&self, tag: u64) -> Result<Option<u64>, String> {
        match self.find(tag)? {
            None => Ok(None),
            Some((at, 1, size)) => Ok(Some(self.number(at, size)?)),
            Some((_, count, _)) => Err(format!("its tag {tag} has {count} values, expected one")),
        }
    }

    /// Returns the size as stored.
    fn size(&self) -> Result<Size, String> {
        let side = |tag| self.one(tag)?.and_then(|side| u32::try_from(side).ok()).ok_or_else(cut);
        Ok(Size::new(side(257)?, side(256)?))
    }

    /// Returns the EXIF orientation, from 1 to 8. One that can't be read is 1, upright.
    fn orientation(&self) -> u8 {
        self.one(274).ok().flatten().map_or(1, exif::valid)
    }

    /// Returns the one value that all values of a tag have.
    fn same(&self, tag: u64, default: u64) -> Result<u64, String> {
        let values = self.values(tag, MAX_SAMPLES)?;
        let first = values.first().copied().unwrap_or(default);
        if values.iter().any(|value| *value != first) {
            return Err(format!("its samples differ in tag {tag}: {values:?}"));
        }
        Ok(first)
    }
}

impl TiffFile {
    /// Reads the directory of the first image, of a file of which any number of bytes may be missing.
    ///
    /// # Errors
    ///
    /// If the directory is damaged, cut, or of an image that can't be decoded; the error says why.
    pub(crate) fn size_of(file: &[u8]) -> Result<Size, String> {
        Entries::parse(file)?.size()
    }

    /// Returns the size as stored and the EXIF orientation, from 1 to 8, of a file of which any number of bytes may be
    /// missing.
    ///
    /// # Errors
    ///
    /// If the directory is damaged or cut; the error says why.
    pub(crate) fn size_and_orientation(file: &[u8]) -> Result<(Size, u8), String> {
        let entries = Entries::parse(file)?;
        Ok((entries.size()?, entries.orientation()))
    }

    /// Reads and checks the directory of the first image.
    ///
    /// # Errors
    ///
    /// If the directory is damaged, or of an image that can't be decoded; the error says why.
    pub(crate) fn parse(file: &[u8], max_pixels: u64) -> Result<Self, String> {
        let entries = Entries::parse(file)?;
        let size = entries.size()?;
        if size.pixels() == 0 || size.pixels() > max_pixels {
            return Err(format!("{size} is {} pixels, the limit is {max_pixels}", size.pixels()));
        }
        let refuse = |what: &str, found: u64, known: &str| {
            Err(format!("its {what} is {found}, which is not decoded: expected {known}"))
        };
        let compression = entries.one(259)?.unwrap_or(1);
        // The most bytes that a byte unpacks to: 64 codes of PackBits, 4096 bytes for a code of LZW of 12 bits.
        let expansion: u64 = match compression {
            1 => 1,
            LZW => 2731,
            8 | 32_946 => 1032,
            32_773 => 64,
            other => {
                let name = compression_name(other);
                return Err(format!(
                    "its compression is {other}{name}, which is not decoded: expected none, LZW, Deflate or PackBits"
                ));
            }
        };
        let samples = entries.one(277)?.unwrap_or(1);
        if samples == 0 || samples > MAX_SAMPLES {
            return refuse("number of samples", samples, "1 to 1024");
        }
        let bits = entries.same(258, 1)?;
        let per_pixel = if samples == 1 { &[1, 2, 4, 8, 16, 32, 64][..] } else { &[8, 16, 32, 64] };
        if !per_pixel.contains(&bits) {
            return refuse(
                "number of bits a sample",
                bits,
                "8, 16, 32 or 64, or fewer for one sample",
            );
        }
        let given = entries.values(258, MAX_SAMPLES)?.len() as u64;
        if given > 1 && given != samples {
            return Err(format!("it has {samples} samples and the bits of {given}"));
        }
        let kind = match entries.same(339, 1)? {
            1 => SampleKind::Unsigned,
            2 if bits >= 8 => SampleKind::Signed,
            3 if bits >= 16 => SampleKind::Float,
            other => return refuse("sample format", other, "1, 2 or 3"),
        };
        let predictor = entries.one(317)?.unwrap_or(1);
        let predictor = match predictor {
            1 => Predictor::None,
            2 if bits >= 8 => Predictor::Horizontal,
            3 if kind == SampleKind::Float => Predictor::FloatingPoint,
            _ => {
                return refuse("predictor", predictor, "1, 2 for 8 bits and more, or 3 for floats");
            }
        };
        let order = entries.one(266)?.unwrap_or(1);
        if order != 1 {
            return refuse("order of bits", order, "1");
        }
        let is_planar = match entries.one(284)?.unwrap_or(1) {
            1 => false,
            2 => samples > 1,
            other => return refuse("planar configuration", other, "1 or 2"),
        };
        // The crate reads this tag of YCbCr, too.
        entries.values(530, 2)?;
        let extra = entries.values(338, MAX_SAMPLES)?;
        if extra.len() as u64 >= samples && !extra.is_empty() {
            return Err(format!("it has {samples} samples, of which {} are extra", extra.len()));
        }
        let (at, count, width) =
            entries.find(262)?.ok_or("it has no photometric interpretation")?;
        if (count, width) != (1, 2) {
            return Err("its photometric interpretation is no number of 16 bits".into());
        }
        let gray = if entries.is_big_endian { vec![0, 1] } else { vec![1, 0] };
        let photometric = photometric(&entries, entries.number(at, 2)?, bits)?;
        let segment = segment(&entries, size, max_pixels)?;
        let mut whole = Self {
            size,
            orientation: entries.orientation(),
            samples: samples as u16,
            bits: bits as u8,
            kind,
            photometric,
            extra,
            is_planar,
            has_more_pages: entries.has_more(),
            segment,
            is_tiled: entries.find(322)?.is_some(),
            predictor,
            lzw: None,
            patch: (at as u64, gray),
        };
        let (across, down) = whole.segments();
        let planes = if is_planar { samples } else { 1 };
        let expected = (u64::from(across) * u64::from(down)).saturating_mul(planes);
        let table = |tag: u64| {
            let (at, found, size) = entries.find(tag)?.unwrap_or((0, 0, 0));
            match found as u64 == expected {
                true => Ok((at, size)),
                false => Err(format!(
                    "its tag {tag} has {found} values, {expected} strips or tiles need as many"
                )),
            }
        };
        let [offsets, lens] = if whole.is_tiled { [324, 325] } else { [273, 279] };
        let (offsets, lens) = (table(offsets)?, table(lens)?);
        if compression == LZW {
            let is_big_endian = entries.is_big_endian;
            whole.lzw = Some(LzwSegments { is_big_endian, offsets, lens });
        }
        let mut bytes = whole.bytes().ok_or("it has more bytes than there are addresses")?;
        if whole.lzw.is_some() && whole.is_tiled {
            let row = whole.row_bytes(segment.width) as u64;
            bytes = bytes.max(row.saturating_mul(segment.height.into()));
        }
        let least = bytes / expansion;
        if (file.len() as u64) < least {
            return Err(format!(
                "{} bytes can't be an image of {size}, which needs {least}",
                file.len()
            ));
        }
        Ok(whole)
    }

    /// Returns the bytes of all samples, without padding between rows.
    pub(crate) fn bytes(&self) -> Option<u64> {
        let bits = self.size.pixels().checked_mul(u64::from(self.samples))?;
        Some(bits.checked_mul(u64::from(self.bits))?.div_ceil(8))
    }

    /// Returns the number of segments in a row and in a column.
    pub(crate) fn segments(&self) -> (u32, u32) {
        (
            self.size.width.div_ceil(self.segment.width),
            self.size.height.div_ceil(self.segment.height),
        )
    }

    /// Returns the size of a segment that is not cut.
    pub(crate) fn segment(&self) -> Size {
        self.segment
    }

    /// Returns the size of a segment, without padding.
    pub(crate) fn segment_size(&self, row: u32, column: u32) -> Size {
        let Size { height, width } = self.segment;
        Size::new(
            height.min(self.size.height - row * height),
            width.min(self.size.width - column * width),
        )
    }

    /// Returns the size of the memory that reading the first `rows` rows of a segment fills: at least those of
    /// [`segment_size`](Self::segment_size). The crate reads all rows, and takes the tiles at the bottom of all planes but the
    /// first for whole ones.
    pub(crate) fn size_read(&self, row: u32, column: u32, rows: u32) -> Size {
        let Size { height, width } = self.segment_size(row, column);
        match &self.lzw {
            Some(_) => {
                Size::new(rows.min(height), if self.is_tiled { self.segment.width } else { width })
            }
            None if self.is_planar => Size::new(self.segment.height, width),
            None => Size::new(height, width),
        }
    }

    /// Returns the samples that are stored side by side: all of a pixel, or one.
    pub(crate) fn samples_in_row(&self) -> usize {
        if self.is_planar { 1 } else { usize::from(self.samples) }
    }

    /// Returns the bytes of a row of `width` pixels in a segment.
    pub(crate) fn row_bytes(&self, width: u32) -> usize {
        (width as usize * self.samples_in_row() * usize::from(self.bits)).div_ceil(8)
    }

    /// Opens the file for reading segments.
    ///
    /// # Errors
    ///
    /// If the crate that unpacks segments refuses the directory.
    pub(crate) fn reader<'a>(&'a self, file: &'a [u8]) -> Result<SegmentReader<'a>, String> {
        if let Some(segments) = &self.lzw {
            let strings = Strings::new();
            return Ok(SegmentReader(Unpacker::Lzw { tiff: self, segments, file, strings }));
        }
        let patched = PatchedFile { file, patch: &self.patch, position: 0 };
        let opened = call_decoder("tiff", || Decoder::new(patched))?;
        Ok(SegmentReader(Unpacker::Crate(Box::new(opened))))
    }

    /// Makes samples in the machine's byte order of the rows of a segment.
    fn restore(&self, is_big_endian: bool, rows: &mut [u8], row_bytes: usize) {
        let (samples, bytes) = (self.samples_in_row(), usize::from(self.bits / 8));
        let rows = rows.chunks_exact_mut(row_bytes.max(1));
        if self.predictor == Predictor::FloatingPoint {
            let mut planes = vec![];
            return rows.for_each(|row| {
                sums::<1>(row, samples, true, false);
                planes.clear();
                planes.extend_from_slice(row);
                let count = row.len() / bytes;
                for (at, sample) in row.chunks_exact_mut(bytes).enumerate() {
                    let upper_first = (0..bytes).map(|byte| planes[byte * count + at]);
                    let upper_first = sample.iter_mut().zip(upper_first);
                    upper_first.for_each(|(sample, byte)| *sample = byte);
                    if cfg!(target_endian = "little") {
                        sample.reverse();
                    }
                }
            });
        }
        let differs = self.predictor == Predictor::Horizontal;
        let swaps = is_big_endian != cfg!(target_endian = "big");
        rows.for_each(|row| match (bytes, samples) {
            (1, _) if !differs => {}
            (1, 1) => byte_sums::<1>(row),
            (1, 3) => byte_sums::<3>(row),
            (1, 4) => byte_sums::<4>(row),
            (1, _) => sums::<1>(row, samples, differs, swaps),
            (2, _) => sums::<2>(row, samples, differs, swaps),
            (4, _) => sums::<4>(row, samples, differs, swaps),
            (8, _) => sums::<8>(row, samples, differs, swaps),
            // Samples of fewer bits have no predictor.
            _ => {}
        });
    }

    /// Warns of pages after the first, unless that has been done.
    #[cfg(feature = "tar")]
    pub(super) fn warn_of_pages(&self, has_warned: &AtomicBool) {
        if self.has_more_pages && !has_warned.swap(true, Ordering::Relaxed) {
            warn(format_args!(
                "there are TIFFs of several pages that are read as arrays, and only the first page of each is read: save \
                 the others as files of their own if they are needed"
            ));
        }
    }

    /// Returns all samples of an image as an array `[height, width]`, `[height, width, samples]` or, if it has planes,
    /// `[samples, height, width]`: its type, its shape, and its elements.
    ///
    /// # Errors
    ///
    /// If the samples have fewer than 8 bits, if there are more than `most` bytes, or if a segment is damaged.
    #[cfg(feature = "tar")]
    pub(crate) fn array(file: &[u8], most: u64) -> Result<(NdType, Vec<u64>, Vec<u8>), String> {
        let tiff = Self::parse(file, most)?;
        // Nothing here knows the dataset, so it is once for the process.
        static HAS_WARNED: AtomicBool = AtomicBool::new(false);
        tiff.warn_of_pages(&HAS_WARNED);
        let kind = match tiff.kind {
            SampleKind::Unsigned => NdKind::UInt,
            SampleKind::Signed => NdKind::Int,
            SampleKind::Float => NdKind::Float,
        };
        let order = if cfg!(target_endian = "little") { ByteOrder::Little } else { ByteOrder::Big };
        let dtype = NdType::new(kind, tiff.bits / 8, order)
            .ok_or_else(|| format!("samples of {} bits are no array", tiff.bits))?;
        let bytes = tiff.bytes().filter(|&bytes| bytes <= most);
        let bytes = bytes.ok_or_else(|| {
            format!("a TIFF that unpacks to more than the limit of {most} bytes (`Limits::max_unpacked_bytes`)")
        })? as usize;
        let (height, width) = (u64::from(tiff.size.height), u64::from(tiff.size.width));
        let samples = u64::from(tiff.samples);
        let shape = match (tiff.samples, tiff.is_planar) {
            (1, _) => vec![height, width],
            (_, false) => vec![height, width, samples],
            (_, true) => vec![samples, height, width],
        };
        let mut elements = vec![];
        let memory = |_| format!("no memory for {bytes} bytes");
        elements.try_reserve_exact(bytes).map_err(memory)?;
        elements.resize(bytes, 0);
        let mut reader = tiff.reader(file)?;
        let (across, down) = tiff.segments();
        let planes = if tiff.is_planar { u32::from(tiff.samples) } else { 1 };
        let (whole_row, mut segment) = (tiff.row_bytes(tiff.size.width), vec![]);
        for (plane, row) in (0..planes).flat_map(|plane| (0..down).map(move |row| (plane, row))) {
            for column in 0..across {
                let size = tiff.segment_size(row, column);
                let read = tiff.size_read(row, column, size.height);
                let (row_bytes, row_read) =
                    (tiff.row_bytes(size.width), tiff.row_bytes(read.width));
                let segment_bytes = row_read.saturating_mul(read.height as usize);
                segment.try_reserve_exact(segment_bytes).map_err(memory)?;
                segment.resize(segment_bytes, 0);
                reader.read((plane * down + row) * across + column, &mut segment, row_read)?;
                let top = plane as usize * tiff.size.height as usize
                    + (row * tiff.segment.height) as usize;
                let left = tiff.row_bytes(column * tiff.segment.width);
                let rows = elements.chunks_exact_mut(whole_row).skip(top);
                let read = segment.chunks_exact(row_read).take(size.height as usize);
                for (from, to) in read.zip(rows) {
                    to[left..left + row_bytes].copy_from_slice(&from[..row_bytes]);
                }
            }
        }
        Ok((dtype, shape, elements))
    }
}

/// Adds to each sample of `N` bytes in a row that of the pixel at its left, if `differs`. The bytes of the samples are swapped
/// before, if `swaps`.
fn sums<const N: usize>(row: &mut [u8], samples: usize, differs: bool, swaps: bool) {
    let read = |bytes: &[u8]| {
        let mut wide = [0; 8];
        wide[..N].copy_from_slice(bytes);
        if swaps {
            wide[..N].reverse();
        }
        // The bytes are the lower ones or the upper ones: sums of them are right in both cases.
        u64::from_ne_bytes(wide)
    };
    if !differs && !swaps {
        return;
    }
    for at in (0..row.len() / N * N).step_by(N) {
        let (before, rest) = row.split_at_mut(at);
        let left = before.len().checked_sub(samples * N).filter(|_| differs);
        let left = left.map_or(0, |left| {
            let mut wide = [0; 8];
            wide[..N].copy_from_slice(&before[left..][..N]);
            u64::from_ne_bytes(wide)
        });
        let sum = read(&rest[..N]).wrapping_add(left);
        rest[..N].copy_from_slice(&sum.to_ne_bytes()[..N]);
    }
}

/// Adds to each byte that of the pixel at its left, of `N` bytes.
fn byte_sums<const N: usize>(row: &mut [u8]) {
    let mut sums = [0_u8; N];
    for pixel in row.as_chunks_mut::<N>().0 {
        for (sum, byte) in sums.iter_mut().zip(pixel) {
            *sum = sum.wrapping_add(*byte);
            *byte = *sum;
        }
    }
}

/// Unpacks segments.
pub(crate) struct SegmentReader<'a>(Unpacker<'a>);

enum Unpacker<'a> {
    Lzw { tiff: &'a TiffFile, segments: &'a LzwSegments, file: &'a [u8], strings: Strings },
    Crate(Box<Decoder<PatchedFile<'a>>>),
}

impl SegmentReader<'_> {
    /// Unpacks rows of a segment into a buffer of the [size](TiffFile::size_read) that is read, whose rows have `row_bytes`
    /// bytes. Its samples are in the machine's byte order.
    ///
    /// # Errors
    ///
    /// If the segment is damaged.
    pub(crate) fn read(
        &mut self,
        index: u32,
        out: &mut [u8],
        row_bytes: usize,
    ) -> Result<(), String> {
        let (tiff, segments, file, strings) = match &mut self.0 {
            Unpacker::Lzw { tiff, segments, file, strings } => (tiff, segments, file, strings),
            Unpacker::Crate(decoder) => {
                return call_decoder("tiff", || decoder.read_chunk_bytes(index, out));
            }
        };
        let number = |(at, size): (usize, usize)| {
            number(file, segments.is_big_endian, at + index as usize * size, size)
        };
        let (offset, len) = (number(segments.offsets)?, number(segments.lens)?);
        let end = offset.checked_add(len).and_then(|end| usize::try_from(end).ok());
        let packed = end.and_then(|end| file.get(offset as usize..end));
        let packed = packed.ok_or_else(|| {
            format!("strip or tile {index} has {len} bytes at {offset}, beyond the end of the file")
        })?;
        let unpacked = strings.unpack(packed, out);
        unpacked.map_err(|fault| format!("strip or tile {index}: {fault}"))?;
        tiff.restore(segments.is_big_endian, out, row_bytes);
        Ok(())
    }
}

/// A TIFF of which some bytes read as others.
struct PatchedFile<'a> {
    file: &'a [u8],
    patch: &'a Patch,
    position: u64,
}

impl Read for PatchedFile<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let start = usize::try_from(self.position).unwrap_or(usize::MAX).min(self.file.len());
        let bytes = &self.file[start..];
        let count = bytes.len().min(out.len());
        out[..count].copy_from_slice(&bytes[..count]);
        let (at, bytes) = self.patch;
        for (at, byte) in (*at..).zip(bytes) {
            if let Some(to) = at.checked_sub(start as u64).filter(|&to| to < count as u64) {
                out[to as usize] = *byte;
            }
        }
        self.position = (start + count) as u64;
        Ok(count)
    }
}

impl Seek for PatchedFile<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => (self.file.len() as u64).checked_add_signed(by),
        };
        self.position = position.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

fn photometric(entries: &Entries<'_>, value: u64, bits: u64) -> Result<Photometric, String> {
    Ok(match value {
        0 => Photometric::WhiteIsZero,
        1 => Photometric::BlackIsZero,
        2 => Photometric::Rgb,
        3 if bits <= 8 => {
            let (levels, colors) = (entries.values(320, 3 << 8)?, 1 << bits);
            if levels.len() != 3 * colors {
                let found = levels.len();
                return Err(format!("its palette has {found} numbers, expected {}", 3 * colors));
            }
            let level = |at: usize| (levels[at] >> 8) as u8;
            let color = |index: usize| [0, 1, 2].map(|channel| level(channel * colors + index));
            Photometric::Palette((0..colors).map(color).collect())
        }
        4 => Photometric::Other("a transparency mask"),
        5 => Photometric::Cmyk,
        6 => Photometric::Other("YCbCr"),
        8..=10 => Photometric::Other("Lab"),
        _ => Photometric::Other("of another kind"),
    })
}

/// Returns the size of a strip or tile.
fn segment(entries: &Entries<'_>, size: Size, max_pixels: u64) -> Result<Size, String> {
    let side = |tag: u64| -> Result<u32, String> {
        let found = entries.one(tag)?.ok_or_else(|| format!("it has no tag {tag}"))?;
        let side = u32::try_from(found).ok().filter(|&side| side > 0);
        side.ok_or_else(|| format!("its tag {tag} is {found}"))
    };
    let is_tiled = entries.find(322)?.is_some();
    if is_tiled == entries.find(273)?.is_some() {
        return Err("it has neither strips nor tiles, or both".into());
    }
    if !is_tiled {
        let rows = if entries.find(278)?.is_some() { side(278)? } else { size.height };
        return Ok(Size::new(rows.min(size.height), size.width));
    }
    let tile = Size::new(side(323)?, side(322)?);
    // A tile may be larger than its image.
    if tile.pixels() > max_pixels {
        return Err(format!("its tiles are {tile}, the limit is {max_pixels} pixels"));
    }
    Ok(tile)
}

/// Returns the name of a compression, in brackets.
fn compression_name(compression: u64) -> &'static str {
    match compression {
        2..=4 => " (fax)",
        6 | 7 => " (JPEG)",
        33_003 | 33_005 | 34_712 => " (JPEG 2000)",
        34_887 => " (LERC)",
        34_925 => " (LZMA)",
        34_927 | 50_001 => " (WebP)",
        34_926 | 50_000 => " (Zstandard)",
        50_002 => " (JPEG XL)",
        _ => "",
    }
}
