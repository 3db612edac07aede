//! AVI files: RIFF, with the index `idx1`, with the indexes of OpenDML, or without any.
//!
//! | chunk            | what it gives                                                                |
//! |------------------|------------------------------------------------------------------------------|
//! | `strh`           | the kind of the stream, its rate, the time of its first frame                 |
//! | `strf`           | a `BITMAPINFOHEADER`: size and codec; the extradata after it                  |
//! | `indx`, `ix00`   | OpenDML: an index of indexes, and these, with offsets of 64 bits               |
//! | `idx1`           | the index at the end of the first RIFF, with offsets from `movi` or from the file's start |
//! | `movi`           | the packets: chunks `00dc`, `00db`, maybe in lists `rec `                        |
//!
//! An index is taken if its first and its last entry point at chunks of the stream. Otherwise all chunks' headers are read:
//! then it is unknown where decoding can start, but for codecs whose packets say so. Chunks without bytes are frames that
//! a capture program dropped: they repeat the frame before. Times count frames.

use crate::codec::four_cc_name;
use crate::error::format_error;
use crate::fields::Fields;
use crate::index::MAX_REORDERING;
use crate::mpeg4::{self, Slot};
use crate::read_at::Headers;
use crate::{Codec, Color, Rotation, VideoError, VideoIndex, VideoLimits};

/// Returns true if the first bytes of a file are those of an AVI file.
pub(crate) fn is_avi(head: &[u8]) -> bool {
    head.starts_with(b"RIFF") && head.get(8..11) == Some(b"AVI")
}

/// Reads the index of a file.
pub(crate) fn read(
    headers: &mut Headers<'_>,
    limits: &VideoLimits,
) -> Result<VideoIndex, VideoError> {
    let layout = Layout::read(headers)?;
    let (offset, size) =
        layout.header.ok_or_else(|| format_error!("the AVI file has no list `hdrl`").at(12))?;
    let header = headers.table(offset, size, limits.max_table_bytes, "list `hdrl`")?;
    let stream = Stream::read(&header).map_err(|error| error.at(offset))?;
    let slots = stream.slots(&layout, headers, limits)?;
    let (packets, frames) = match stream.codec {
        Codec::Mpeg4 => mpeg4::in_presentation_order(headers, &stream.extradata, &slots, limits)?,
        _ => mpeg4::in_order(&slots, headers.len(), limits)?,
    };
    Ok(VideoIndex {
        max_reordering: if stream.codec.reorders() { MAX_REORDERING } else { 0 },
        codec: stream.codec,
        four_cc: stream.four_cc,
        width: stream.width,
        height: stream.height,
        rotation: Rotation::None,
        extradata: stream.extradata,
        color: Color::default(),
        time_base: (stream.scale, stream.rate),
        packets,
        frames,
        keys: vec![],
    })
}

/// The header of a chunk.
#[derive(Clone, Copy)]
struct Chunk {
    id: [u8; 4],
    /// The offset of its contents.
    offset: u64,
    size: u64,
}

impl Chunk {
    fn read(headers: &mut Headers<'_>, at: u64) -> Result<Option<Self>, VideoError> {
        let Some([a, b, c, d, size @ ..]) = headers.array::<8>(at)? else { return Ok(None) };
        Ok(Some(Self { id: [a, b, c, d], offset: at + 8, size: u32::from_le_bytes(size).into() }))
    }

    /// Returns the offset after its contents, which are padded to an even size.
    fn end(self) -> u64 {
        self.offset.saturating_add(self.size).saturating_add(self.size & 1)
    }
}

/// The places of the lists and indexes of a file.
#[derive(Default)]
struct Layout {
    /// The offset and the size of what the list `hdrl` contains.
    header: Option<(u64, u64)>,
    /// The offsets of the lists `movi` after their names, and of their ends.
    movies: Vec<(u64, u64)>,
    idx1: Option<Chunk>,
}

impl Layout {
    fn read(headers: &mut Headers<'_>) -> Result<Self, VideoError> {
        let mut layout = Self::default();
        let (mut at, len) = (0, headers.len());
        while let Some(riff) = Chunk::read(headers, at)?.filter(|riff| &riff.id == b"RIFF") {
            // A writer that did not finish leaves 0. Some write nonsense into files over 2 GiB.
            let end = if riff.size < 4 { len } else { riff.end() };
            at = riff.offset + 4;
            while at < end {
                let Some(chunk) = Chunk::read(headers, at)? else { break };
                if &chunk.id == b"RIFF" {
                    break;
                }
                at = layout.add(chunk, headers)?;
            }
        }
        Ok(layout)
    }

    /// Notes a chunk of a RIFF, and returns the offset after it.
    fn add(&mut self, chunk: Chunk, headers: &mut Headers<'_>) -> Result<u64, VideoError> {
        let len = headers.len();
        match &chunk.id {
            b"LIST" => match headers.array(chunk.offset)? {
                Some(name) if &name == b"hdrl" && self.header.is_none() => {
                    self.header = Some((chunk.offset + 4, chunk.size.saturating_sub(4)));
                }
                Some(name) if &name == b"movi" => {
                    // A writer that did not finish leaves 0.
                    let end = if chunk.size < 4 { len } else { chunk.end() };
                    self.movies.push((chunk.offset + 4, end));
                    return Ok(end);
                }
                _ => {}
            },
            b"idx1" if self.idx1.is_none() => self.idx1 = Some(chunk),
            _ => {}
        }
        Ok(chunk.end())
    }
}

/// The first video stream.
struct Stream {
    /// The two digits with which the names of its chunks begin.
    digits: [u8; 2],
    codec: Codec,
    four_cc: [u8; 4],
    width: u32,
    height: u32,
    extradata: Vec<u8>,
    scale: u32,
    rate: u32,
    start: i64,
    /// The contents of `indx`; nothing without OpenDML's indexes.
    super_index: Option<Vec<u8>>,
}

/// Returns the chunks in bytes, up to the first that does not fit.
fn chunks(bytes: &[u8]) -> impl Iterator<Item = ([u8; 4], &[u8])> {
    let mut fields = Fields(bytes);
    std::iter::from_fn(move || {
        let (id, size) = (fields.array()?, usize::try_from(fields.le_u32()?).ok()?);
        let contents = fields.bytes(size)?;
        // The last chunk may lack its padding.
        let _ = fields.skip(size & 1);
        Some((id, contents))
    })
}

impl Stream {
    /// Reads the first video stream of a list `hdrl`.
    fn read(header: &[u8]) -> Result<Self, VideoError> {
        let avih = chunks(header).find(|(id, _)| id == b"avih").map_or(&[][..], |(_, avih)| avih);
        let lists = chunks(header)
            .filter_map(|(id, list)| list.strip_prefix(b"strl").filter(|_| &id == b"LIST"));
        for (list, number) in lists.zip(0..100_u8) {
            let chunk = |name: &[u8; 4]| {
                chunks(list).find(|(id, _)| id == name).map(|(_, contents)| contents)
            };
            let Some(strh) = chunk(b"strh").filter(|strh| strh.starts_with(b"vids")) else {
                continue;
            };
            let strf = chunk(b"strf").unwrap_or_default();
            let indx = chunk(b"indx").map(<[u8]>::to_vec);
            let digits = [b'0' + number / 10, b'0' + number % 10];
            let short =
                || format_error!("the chunk `strh` or `strf` of the video stream is too short");
            return Self::of_chunks(digits, strh, strf, avih, indx).ok_or_else(short);
        }
        Err(format_error!("the AVI file has no video stream"))
    }

    fn of_chunks(
        digits: [u8; 2],
        strh: &[u8],
        strf: &[u8],
        avih: &[u8],
        super_index: Option<Vec<u8>>,
    ) -> Option<Self> {
        let mut fields = Fields(strh);
        // Kind, handler, flags, priority, language, initial frames.
        fields.skip(20)?;
        let (mut scale, mut rate) = (fields.le_u32()?, fields.le_u32()?);
        let start = fields.le_u32()?.into();
        if scale == 0 || rate == 0 {
            // Microseconds per frame.
            (scale, rate) =
                (Fields(avih).le_u32().filter(|&time| time > 0).unwrap_or(40_000), 1_000_000);
        }
        let mut fields = Fields(strf);
        let header_size = fields.le_u32()?;
        let width = fields.le_u32()?;
        // Negative for rows from top to bottom.
        let height = (fields.le_u32()? as i32).unsigned_abs();
        fields.skip(2)?;
        let (bits, compression) = (fields.le_u16()?, fields.array()?);
        // Resolutions, numbers of colours. Some programs state the size with the extradata, some without it.
        fields.skip(20)?;
        let is_whole = header_size <= 40 || strf.len() < header_size as usize;
        let extradata = if is_whole { fields.0 } else { &strf[40..header_size as usize] };
        Some(Self {
            digits,
            codec: codec(compression, bits),
            four_cc: compression,
            width,
            height,
            extradata: extradata.to_vec(),
            scale,
            rate,
            start,
            super_index,
        })
    }

    /// Returns true for the name of a chunk with a packet of this stream.
    fn owns(&self, id: [u8; 4]) -> bool {
        id[..2] == self.digits && matches!(&id[2..], b"dc" | b"db" | b"DC" | b"DB" | b"iv" | b"vc")
    }

    /// Returns the packets by the best index that the file has.
    fn slots(
        &self,
        layout: &Layout,
        headers: &mut Headers<'_>,
        limits: &VideoLimits,
    ) -> Result<Vec<Slot>, VideoError> {
        if let Some(slots) = self.open_dml_index(headers, limits)? {
            return Ok(slots);
        }
        // `idx1` is an index of the first RIFF.
        if let ([(start, _)], Some(idx1)) = (&layout.movies[..], layout.idx1)
            && let Some(slots) = self.old_index(idx1, *start, headers, limits)?
        {
            return Ok(slots);
        }
        let mut slots = SlotList::new(headers.len(), self.start, limits);
        for &(start, end) in &layout.movies {
            self.scan(start, end, headers, &mut slots)?;
        }
        Ok(slots.slots)
    }

    /// Reads the headers of all chunks of a list `movi`.
    fn scan(
        &self,
        mut at: u64,
        end: u64,
        headers: &mut Headers<'_>,
        slots: &mut SlotList,
    ) -> Result<(), VideoError> {
        let len = headers.len();
        if end > len {
            return Err(format_error!(
                "the list `movi` ends at offset {end}, the file at {len}, and it has no index: the file was cut"
            )
            .at(at));
        }
        while at < end {
            let Some(chunk) = Chunk::read(headers, at)? else { break };
            if &chunk.id == b"LIST" {
                // A list `rec `, whose chunks follow.
                at = chunk.offset + 4;
                continue;
            }
            // The rest of a file that was not finished may have been reserved.
            if chunk.id == [0; 4] {
                break;
            }
            if !chunk.id.iter().all(|byte| (b' '..=b'~').contains(byte)) {
                return Err(format_error!(
                    "the list `movi` has no chunk here, and the file has no index"
                )
                .at(at));
            }
            if chunk.offset.saturating_add(chunk.size) > len {
                // The last packet of a file that was not finished.
                break;
            }
            if self.owns(chunk.id) {
                slots.push(chunk.offset, chunk.size, slots.slots.is_empty())?;
            }
            at = chunk.end();
        }
        Ok(())
    }

    /// Reads `idx1`, or returns nothing if it does not fit the file.
    fn old_index(
        &self,
        idx1: Chunk,
        movi: u64,
        headers: &mut Headers<'_>,
        limits: &VideoLimits,
    ) -> Result<Option<Vec<Slot>>, VideoError> {
        let count = idx1.size.min(headers.len() - idx1.offset) / 16;
        let table =
            headers.table(idx1.offset, count * 16, limits.max_table_bytes, "index `idx1`")?;
        let entries = || {
            let read = |entry: &[u8]| {
                let mut fields = Fields(entry);
                Some((fields.array()?, fields.le_u32()?, fields.le_u32()?, fields.le_u32()?))
            };
            table.chunks_exact(16).filter_map(read).filter(|(id, ..)| self.owns(*id))
        };
        let (Some(first), Some(last)) = (entries().next(), entries().next_back()) else {
            return Ok(None);
        };
        // Offsets count from the name of the list, or from the start of the file.
        for base in [movi - 4, 0] {
            let mut fits = true;
            for (id, _, offset, size) in [first, last] {
                let chunk = Chunk::read(headers, base + u64::from(offset))?;
                fits &= chunk.is_some_and(|chunk| chunk.id == id && chunk.size == u64::from(size));
            }
            if fits {
                let mut slots = SlotList::new(headers.len(), self.start, limits);
                for (_, flags, offset, size) in entries() {
                    // Bit 4: a key frame.
                    slots.push(base + u64::from(offset) + 8, size.into(), flags & 0x10 != 0)?;
                }
                return Ok(Some(slots.slots));
            }
        }
        Ok(None)
    }

    /// Reads the indexes of OpenDML, or returns nothing if there are none or they do not fit the file.
    fn open_dml_index(
        &self,
        headers: &mut Headers<'_>,
        limits: &VideoLimits,
    ) -> Result<Option<Vec<Slot>>, VideoError> {
        let Some(indx) = &self.super_index else { return Ok(None) };
        let mut slots = SlotList::new(headers.len(), self.start, limits);
        let mut fields = Fields(indx);
        let head = (fields.le_u16(), fields.u8(), fields.u8(), fields.le_u32());
        let (Some(longs), Some(_), Some(kind), Some(count)) = head else { return Ok(None) };
        match kind {
            // An index of chunks, which stands here at once.
            1 => {
                if chunk_index(indx, &mut slots)?.is_none() {
                    return Ok(None);
                }
            }
            // An index of indexes.
            0 if longs == 4 => {
                let Some(()) = fields.skip(16) else { return Ok(None) };
                for _ in 0..count {
                    let entry = (fields.le_u64(), fields.le_u32(), fields.le_u32());
                    let (Some(offset), Some(_), Some(_)) = entry else { return Ok(None) };
                    let Some(chunk) =
                        Chunk::read(headers, offset)?.filter(|chunk| &chunk.id[..2] == b"ix")
                    else {
                        return Ok(None);
                    };
                    if chunk.offset + chunk.size > headers.len() {
                        return Ok(None);
                    }
                    let index = headers.table(
                        chunk.offset,
                        chunk.size,
                        limits.max_table_bytes,
                        "index `ix`",
                    )?;
                    // An index without entries says nothing, so that many of them can't be read for nothing.
                    if chunk_index(&index, &mut slots)?.is_none_or(|count| count == 0) {
                        return Ok(None);
                    }
                }
            }
            _ => return Ok(None),
        }
        for slot in slots.slots.first().into_iter().chain(slots.slots.last()) {
            let chunk = Chunk::read(headers, slot.offset.saturating_sub(8))?;
            if !chunk.is_some_and(|chunk| self.owns(chunk.id) && chunk.size == slot.size) {
                return Ok(None);
            }
        }
        Ok(Some(slots.slots).filter(|slots| !slots.is_empty()))
    }
}

/// Reads an OpenDML index of chunks, and returns the number of its entries. Offsets are those of the chunks' contents.
fn chunk_index(index: &[u8], slots: &mut SlotList) -> Result<Option<u32>, VideoError> {
    let mut fields = Fields(index);
    let head = (
        fields.le_u16(),
        fields.u8(),
        fields.u8(),
        fields.le_u32(),
        fields.skip(4),
        fields.le_u64(),
    );
    let (Some(longs @ 2..=3), Some(_), Some(1), Some(count), Some(()), Some(base)) = head else {
        return Ok(None);
    };
    let Some(()) = fields.skip(4) else { return Ok(None) };
    for _ in 0..count {
        let (Some(offset), Some(size)) = (fields.le_u32(), fields.le_u32()) else {
            return Ok(None);
        };
        // The offset of the second field, if pictures are stored as fields.
        if longs == 3 && fields.skip(4).is_none() {
            return Ok(None);
        }
        // Bit 31: not a key frame.
        let is_key = size >> 31 == 0;
        slots.push(base.saturating_add(offset.into()), (size & 0x7fff_ffff).into(), is_key)?;
    }
    Ok(Some(count))
}

/// Packets, frames that repeat among them, with times that count them.
struct SlotList {
    slots: Vec<Slot>,
    start: i64,
    most: u64,
}

impl SlotList {
    fn new(file_len: u64, start: i64, limits: &VideoLimits) -> Self {
        // Each has a header of 8 bytes.
        Self { slots: vec![], start, most: limits.max_packets.min(file_len / 8) }
    }

    fn push(&mut self, offset: u64, size: u64, is_key: bool) -> Result<(), VideoError> {
        let count = self.slots.len() as u64;
        if count >= self.most {
            let most = self.most;
            return Err(crate::error::over_limit!(
                "the AVI file lists more than {most} packets, the maximum for it"
            ));
        }
        self.slots.push(Slot { offset, size, time: self.start + count as i64, is_key });
        Ok(())
    }
}

/// Returns the codec of a `BITMAPINFOHEADER`. Uncompressed pictures are named.
fn codec(compression: [u8; 4], bits: u16) -> Codec {
    let name = four_cc_name(compression);
    match (u32::from_le_bytes(compression), &*name.to_ascii_uppercase()) {
        (0, _) | (_, "RGB" | "RAW" | "DIB") => {
            Codec::Other(format!("uncompressed RGB, {bits} bits"))
        }
        (3, _) => Codec::Other(format!("uncompressed RGB with masks, {bits} bits")),
        (
            _,
            "YUY2" | "YUYV" | "UYVY" | "YV12" | "I420" | "IYUV" | "Y800" | "GREY" | "Y8" | "NV12"
            | "HDYC" | "2VUY",
        ) => Codec::Other(format!("uncompressed {name}")),
        _ => Codec::of_four_cc(compression),
    }
}
