//! The file of a cache: the records of a whole pass, which can be read in any order.
//!
//! All numbers are little-endian.
//!
//! | size | | |
//! |-----:|--------------|--------------------------------------------------------------|
//! |   16 | magic        | `fuseloop items 1`                                           |
//! |    8 | fingerprint  | of the stream: a cache of another stream is refused          |
//! |    8 | items        | the number of frames that follow, to the end of the file     |
//!
//! Each item is a frame:
//!
//! | size | | |
//! |-----:|--------------|--------------------------------------------------------------|
//! |    8 | length       | of the payload                                               |
//! |    4 | component    | the item's component of its stream; 2^32 - 1 for none        |
//! |    4 | check        | CRC-32C of the payload                                       |
//! |      | payload      | key; then each value: a byte for its kind, numbers, bytes    |
//!
//! The file appears whole or not at all. Opening it reads the 16 bytes before each payload.

use super::Item;
use crate::sample::{Limits, SampleId};
use crate::source::file::FileBytes;
use crate::source::{
    BoxError, Escaped, Facts, FieldSpec, ImageMode, OwnedImage, OwnedValue, Record, SampleLocation,
    Source, atomic_file,
};
use std::io::{self, BufWriter, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::NamedTempFile;

const MAGIC: &[u8; 16] = b"fuseloop items 1";
const HEAD: u64 = 32;
const FRAME: u64 = 16;
const NO_PART: u32 = u32::MAX;

/// A file that is being written.
pub(super) struct Writer {
    file: BufWriter<NamedTempFile>,
    frames: Frames,
    bytes: u64,
}

/// The offset of each frame, and the component of each item.
#[derive(Default)]
struct Frames {
    starts: Vec<u64>,
    parts: Vec<u32>,
}

impl Writer {
    /// Begins a file that is to appear at `path`.
    pub(super) fn begin(path: &Path, fingerprint: u64) -> io::Result<Self> {
        let mut file = BufWriter::with_capacity(1 << 20, atomic_file::create(path)?);
        file.write_all(MAGIC)?;
        file.write_all(&fingerprint.to_le_bytes())?;
        file.write_all(&0_u64.to_le_bytes())?;
        Ok(Self { file, frames: Frames::default(), bytes: HEAD })
    }

    /// Appends an item that holds its record.
    pub(super) fn add(&mut self, item: &Item) -> io::Result<()> {
        let Some(record) = item.record() else {
            return Err(io::Error::other("the item is not held"));
        };
        let part = match item {
            Item::Of { part, .. } => u32::try_from(*part).unwrap_or(NO_PART),
            _ => NO_PART,
        };
        let payload = encoded(&item.name(), record);
        self.file.write_all(&(payload.len() as u64).to_le_bytes())?;
        self.file.write_all(&part.to_le_bytes())?;
        self.file.write_all(&crc32c::crc32c(&payload).to_le_bytes())?;
        self.file.write_all(&payload)?;
        self.frames.starts.push(self.bytes);
        self.frames.parts.push(part);
        self.bytes += FRAME + payload.len() as u64;
        Ok(())
    }

    /// The number of bytes written so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Finishes the file, moves it to `path`, and returns its items.
    pub(super) fn finish(mut self, path: &Path, fields: &[FieldSpec]) -> io::Result<Arc<[Item]>> {
        self.file.seek(SeekFrom::Start(HEAD - 8))?;
        self.file.write_all(&(self.frames.starts.len() as u64).to_le_bytes())?;
        let partial = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        let file = atomic_file::persist(partial, path)?;
        let bytes = FileBytes::from_reader(Arc::new(file))?;
        Ok(ItemFile::of(path, bytes, fields, self.frames))
    }
}

/// A finished file; its samples are numbered in file order.
pub(super) struct ItemFile {
    facts: Facts,
    path: PathBuf,
    bytes: FileBytes,
    /// The offset of each frame.
    starts: Vec<u64>,
}

impl ItemFile {
    /// Returns the items of the file at `path`; `None` if there is no such file.
    ///
    /// # Errors
    ///
    /// If the file can't be read, is damaged, or belongs to another stream.
    pub(super) fn items(
        path: &Path,
        fields: &[FieldSpec],
        fingerprint: u64,
    ) -> Result<Option<Arc<[Item]>>, BoxError> {
        let at = |message: String| -> BoxError {
            format!("{}: {message}", Escaped(&path.to_string_lossy())).into()
        };
        let bytes = match FileBytes::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|error| at(error.to_string()))?,
        };
        let head = bytes.copy(0, HEAD).map_err(|error| at(error.to_string()))?;
        if !head.starts_with(MAGIC) {
            return Err(at("not a cache of a stream".to_owned()));
        }
        if word(&head[16..]) != fingerprint {
            return Err(
                at("a cache of another stream: delete it, or name another file".to_owned()),
            );
        }
        let frames = frames(&bytes, word(&head[24..])).map_err(at)?;
        Ok(Some(Self::of(path, bytes, fields, frames)))
    }

    /// The items of an open file whose frames are known.
    fn of(path: &Path, bytes: FileBytes, fields: &[FieldSpec], frames: Frames) -> Arc<[Item]> {
        let Frames { starts, parts } = frames;
        let facts = Facts {
            name: Escaped(&path.to_string_lossy()).to_string(),
            rereads_cheaply: true,
            ..Facts::of(fields.into(), starts.len() as u64)
        };
        let file = Self { facts, path: path.to_owned(), bytes, starts };
        let source: Arc<dyn Source> = Arc::new(file);
        let items = parts.iter().zip(0..).map(|(&part, sample)| {
            let item = Item::At { source: Arc::clone(&source), sample: SampleId(sample) };
            if part == NO_PART { item } else { item.of_component(part as usize) }
        });
        items.collect()
    }

    fn record(&self, sample: SampleId) -> Result<Record, String> {
        let (start, payload) = self.payload(sample)?;
        decoded(&payload).ok_or_else(|| format!("item {sample} at byte {start} is not a record"))
    }

    /// Returns the offset of an item's frame and its payload, after a check of the payload's CRC.
    fn payload(&self, sample: SampleId) -> Result<(u64, Vec<u8>), String> {
        let start = usize::try_from(sample.0).ok().and_then(|index| self.starts.get(index));
        let start = *start.ok_or_else(|| format!("item {sample} does not exist"))?;
        let frame = self.bytes.copy(start, FRAME).map_err(|error| error.to_string())?;
        let payload = self.bytes.copy(start + FRAME, word(&frame));
        let payload = payload.map_err(|error| error.to_string())?;
        if crc32c::crc32c(&payload).to_le_bytes() != frame[12..] {
            return Err(format!("item {sample} at byte {start} is damaged"));
        }
        Ok((start, payload))
    }
}

impl Source for ItemFile {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        self.record(sample).map_err(|message| format!("{}: {message}", self.facts.name).into())
    }

    /// The key is the location that the item was first read from.
    fn locate(&self, sample: SampleId, _: usize) -> Option<SampleLocation> {
        let (_, payload) = self.payload(sample).ok()?;
        let key = String::from_utf8_lossy(take(&mut &payload[..])?).into_owned();
        Some(SampleLocation::in_file(self.path.to_string_lossy(), Some(key.into())))
    }
}

/// Reads the frames of an existing file.
fn frames(bytes: &FileBytes, items: u64) -> Result<Frames, String> {
    if items > bytes.len() / FRAME {
        return Err(format!("{items} items in {} bytes", bytes.len()));
    }
    let mut frames = Frames::default();
    let (mut start, mut buffer) = (HEAD, vec![]);
    for _ in 0..items {
        let frame = bytes.get(start, FRAME, &mut buffer).map_err(|error| error.to_string())?;
        let len = word(frame);
        if len > Limits::DEFAULT.max_sample_bytes {
            return Err(format!("an item of {len} bytes at byte {start}"));
        }
        frames.starts.push(start);
        frames.parts.push(u32::from_le_bytes([frame[8], frame[9], frame[10], frame[11]]));
        start += FRAME + len;
    }
    if start != bytes.len() {
        return Err(format!("its items end at byte {start} of {}", bytes.len()));
    }
    Ok(frames)
}

/// The first eight bytes as a number; 0 if there are fewer.
fn word(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
}

fn encoded(key: &str, record: &Record) -> Vec<u8> {
    let mut out = vec![];
    put(&mut out, key.as_bytes());
    for value in record {
        let (kind, bytes) = match value {
            OwnedValue::Float(value) => (0, &value.to_le_bytes()[..]),
            OwnedValue::Int(value) => (1, &value.to_le_bytes()[..]),
            OwnedValue::Image(image) => {
                let mode = match image.mode {
                    ImageMode::Jpeg => 2,
                    ImageMode::Raw => 3,
                    ImageMode::Png => 4,
                    ImageMode::BitPlanes => 9,
                    ImageMode::Webp => 10,
                    ImageMode::Tiff => 11,
                    ImageMode::Bmp => 12,
                    ImageMode::Gif => 13,
                    ImageMode::Pnm => 14,
                    ImageMode::JpegXl => 15,
                    ImageMode::Heic => 16,
                };
                out.push(mode);
                out.extend_from_slice(&image.width.to_le_bytes());
                out.extend_from_slice(&image.height.to_le_bytes());
                put(&mut out, &image.bytes);
                continue;
            }
            OwnedValue::Bytes(bytes) => (5, &bytes[..]),
            OwnedValue::NdArray(bytes) => (6, &bytes[..]),
            OwnedValue::Json(bytes) => (7, &bytes[..]),
            OwnedValue::Custom(bytes) => (8, &bytes[..]),
        };
        out.push(kind);
        put(&mut out, bytes);
    }
    out
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn decoded(payload: &[u8]) -> Option<Record> {
    let mut rest = payload;
    take(&mut rest)?;
    let mut record = vec![];
    while let Some((&kind, tail)) = rest.split_first() {
        rest = tail;
        record.push(match kind {
            0 => OwnedValue::Float(f64::from_le_bytes(take(&mut rest)?.try_into().ok()?)),
            1 => OwnedValue::Int(i64::from_le_bytes(take(&mut rest)?.try_into().ok()?)),
            2..=4 | 9..=16 => {
                let (sizes, tail) = rest.split_first_chunk::<8>()?;
                rest = tail;
                let [a, b, c, d, e, f, g, h] = *sizes;
                let (width, height) =
                    (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
                let mode = match kind {
                    2 => ImageMode::Jpeg,
                    3 => ImageMode::Raw,
                    4 => ImageMode::Png,
                    10 => ImageMode::Webp,
                    11 => ImageMode::Tiff,
                    12 => ImageMode::Bmp,
                    13 => ImageMode::Gif,
                    14 => ImageMode::Pnm,
                    15 => ImageMode::JpegXl,
                    16 => ImageMode::Heic,
                    _ => ImageMode::BitPlanes,
                };
                let bytes = take(&mut rest)?.to_vec();
                OwnedValue::Image(OwnedImage { mode, width, height, bytes })
            }
            5 => OwnedValue::Bytes(take(&mut rest)?.to_vec()),
            6 => OwnedValue::NdArray(take(&mut rest)?.to_vec()),
            7 => OwnedValue::Json(take(&mut rest)?.to_vec()),
            8 => OwnedValue::Custom(take(&mut rest)?.to_vec()),
            _ => return None,
        });
    }
    Some(record)
}

/// Takes a length and that number of bytes off `rest`.
fn take<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, tail) = rest.split_first_chunk::<8>()?;
    let (bytes, tail) = tail.split_at_checked(usize::try_from(u64::from_le_bytes(*len)).ok()?)?;
    *rest = tail;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::{Pass, Stream};
    use super::*;
    use crate::sample::Epoch;
    use crate::source::{FieldKind, Generator};
    use std::fs;

    const PASS: Pass = Pass { seed: 5, epoch: Epoch(2), turn: 0 };

    fn kinds() -> Vec<FieldSpec> {
        let dtype = "<i2".parse().unwrap();
        let field = |name: &str, kind| FieldSpec { name: name.to_owned(), kind };
        vec![
            field("f", FieldKind::Float),
            field("i", FieldKind::Int),
            field("image", FieldKind::RgbImage),
            field("b", FieldKind::Bytes),
            field("a", FieldKind::NdArray { dtype, shape: vec![2] }),
            field("j", FieldKind::Json),
        ]
    }

    fn record(sample: u64) -> Record {
        vec![
            OwnedValue::Float(sample as f64 / 3.0),
            OwnedValue::Int(-(sample as i64)),
            OwnedValue::Image(if sample == 1 {
                OwnedImage::png(vec![1, 2])
            } else {
                OwnedImage::rgb(1, vec![7; 3])
            }),
            OwnedValue::Bytes(vec![8; sample as usize]),
            OwnedValue::NdArray(vec![1, 2, 3, 4]),
            OwnedValue::Json(b"{}\0".to_vec()),
        ]
    }

    fn stream(samples: u64) -> Stream {
        let generated = |_, sample| Ok::<_, BoxError>(record(sample));
        Stream::of(Arc::new(Generator::new(1, 4).source(kinds(), samples, generated).unwrap()))
    }

    fn all(stream: &Stream) -> Result<Vec<Record>, BoxError> {
        let mut items = stream.open(&PASS)?;
        let mut found = vec![];
        while let Some(item) = items.next()? {
            found.push(item.read()?);
        }
        Ok(found)
    }

    #[test]
    fn a_whole_pass_is_found_again_by_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cache");
        let want: Vec<Record> = (0..5).map(record).collect();
        let cached = stream(5).cache_file(&path, 1 << 20);
        let mut items = cached.open(&PASS).unwrap();
        items.next().unwrap();
        drop(items);
        assert!(!path.exists(), "a pass that was left leaves nothing");
        assert_eq!(all(&cached).unwrap(), want);
        assert!(path.exists());
        assert_eq!(all(&cached).unwrap(), want);
        // A second process, then another stream.
        assert_eq!(all(&stream(5).cache_file(&path, 1 << 20)).unwrap(), want);
        let other = all(&stream(4).cache_file(&path, 1 << 20)).unwrap_err().to_string();
        assert!(other.contains("of another stream"), "{other}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_too_large_is_not_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cache");
        let cached = stream(5).cache_file(&path, 300);
        assert_eq!(all(&cached).unwrap().len(), 5);
        assert_eq!(all(&cached).unwrap().len(), 5);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn parts_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let both = Stream::concat([stream(2), stream(1)]).unwrap();
        let cached = both.cache_file(dir.path().join("cache"), 1 << 20);
        for _ in 0..2 {
            let mut items = cached.open(&PASS).unwrap();
            let parts = std::iter::from_fn(|| items.next().unwrap());
            assert_eq!(parts.map(|item| item.component().unwrap()).collect::<Vec<_>>(), [0, 0, 1]);
        }
    }

    #[test]
    fn a_file_cut_or_changed_at_any_byte_is_an_error_or_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cache");
        let want = all(&stream(3).cache_file(&path, 1 << 20)).unwrap();
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            fs::write(&path, &whole[..at]).unwrap();
            assert!(all(&stream(3).cache_file(&path, 1 << 20)).is_err(), "cut at {at}");
            let mut turned = whole.clone();
            turned[at] ^= 1 << (at % 8);
            fs::write(&path, &turned).unwrap();
            let found = all(&stream(3).cache_file(&path, 1 << 20));
            assert!(found.is_err() || found.unwrap() == want, "turned at {at}");
        }
    }

    #[test]
    fn any_payload_is_a_record_or_none() {
        arbtest::arbtest(|bytes| {
            let _ = decoded(bytes.arbitrary::<&[u8]>()?);
            Ok(())
        });
        assert_eq!(decoded(&encoded("k", &record(1))), Some(record(1)));
    }
}
