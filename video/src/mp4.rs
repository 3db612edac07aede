//! MP4 and MOV files (ISO/IEC 14496-12, QuickTime file format): only their tables are read, never `mdat`.
//!
//! | box                            | what it gives                                                        |
//! |--------------------------------|----------------------------------------------------------------------|
//! | `mvhd`, `tkhd`                 | the movie's unit of time, the track's number, both matrices: the rotation |
//! | `elst`                         | which times of the track are shown, and when                         |
//! | `mdhd`, `hdlr`                 | the track's unit of time, its kind                                   |
//! | `stsd`                         | the codec, the size, the extradata (`avcC`, `esds`, ..), `colr`      |
//! | `stts`, `ctts`                 | times of decoding, distances from them to presentation               |
//! | `stsz`, `stz2`, `stsc`, `stco`, `co64` | sizes of samples, samples of chunks, offsets of chunks        |
//! | `stss`                         | key samples; without it, all are                                     |
//! | `trex`, `moof`: `tfhd`, `tfdt`, `trun` | the same of fragments                                        |
//!
//! A sample is a packet. Samples without bytes have no frame, and samples after the last chunk do not exist. As in FFmpeg, a
//! frame is shown by an edit if it begins within it, the first frame has the time at which the first edit begins, and rates of
//! edits are not applied.

use crate::codec::four_cc_name;
use crate::error::{format_error, over_limit, unsupported};
use crate::fields::Fields;
use crate::index::{PacketList, frames_by_time};
use crate::read_at::Headers;
use crate::{
    Codec, Color, FrameEntry, MatrixCoefficients, Packet, Rotation, VideoError, VideoIndex,
    VideoLimits,
};

/// Boxes with which files begin.
const FIRST: [&[u8; 4]; 10] =
    [b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot", b"styp", b"moof", b"uuid"];

/// Returns true if the first bytes of a file are those of an MP4 or MOV file.
pub(crate) fn is_mp4(head: &[u8]) -> bool {
    head.get(4..8).is_some_and(|kind| FIRST.iter().any(|first| *first == kind))
}

/// Reads the index of a file.
pub(crate) fn read(
    headers: &mut Headers<'_>,
    limits: &VideoLimits,
) -> Result<VideoIndex, VideoError> {
    let top = Top::read(headers)?;
    let (offset, size) = top.moov.ok_or_else(|| {
        format_error!("the file has no box `moov`, which lists its packets: it was not finished by its writer, or was cut")
    })?;
    let moov = headers.table(offset, size, limits.max_table_bytes, "box `moov`")?;
    let moov = Bytes { bytes: &moov, offset };
    let movie = Movie::read(moov)?;
    let track = movie.track;
    let mut list = PacketList::new(headers.len(), 1, limits);
    let mut samples = Samples { list: &mut list, dts: 0 };
    track.samples(&mut samples)?;
    for &(start, offset, size) in &top.moofs {
        let bytes = headers.table(offset, size, limits.max_table_bytes, "box `moof`")?;
        fragment(Bytes { bytes: &bytes, offset }, start, &track, &mut samples)?;
    }
    let packets = list.packets;
    let frames = shown(&packets, &track.edits, movie.timescale, track.timescale, limits)?;
    let entry = track.entry;
    Ok(VideoIndex {
        codec: entry.codec,
        four_cc: entry.four_cc,
        width: entry.width,
        height: entry.height,
        rotation: rotation(movie.matrix, track.matrix)?,
        extradata: entry.extradata,
        color: entry.color,
        time_base: (1, track.timescale),
        max_reordering: 0,
        packets,
        frames,
        keys: vec![],
    })
}

/// The places of the boxes of the file that have tables.
#[derive(Default)]
struct Top {
    /// The offset and the size of what `moov` contains.
    moov: Option<(u64, u64)>,
    /// The same of each `moof`, after the offset of its header.
    moofs: Vec<(u64, u64, u64)>,
}

impl Top {
    fn read(headers: &mut Headers<'_>) -> Result<Self, VideoError> {
        let (mut top, mut at) = (Self::default(), 0);
        while let Some(head) = headers.array::<8>(at)? {
            let (size, kind) = size_and_kind(head);
            let (head_bytes, size) = match size {
                0 => (8, headers.len() - at),
                1 => match headers.array(at + 8)? {
                    Some(size) => (16, u64::from_be_bytes(size)),
                    None => break,
                },
                size => (8, size.into()),
            };
            let body = size.checked_sub(head_bytes);
            let Some(body) = body.filter(|_| kind.iter().all(|byte| *byte >= b' ')) else {
                // Bytes after the last box do not matter.
                if top.moov.is_some() {
                    break;
                }
                return Err(
                    format_error!("the box `{}` has {size} bytes", four_cc_name(kind)).at(at)
                );
            };
            match &kind {
                b"moov" if top.moov.is_none() => top.moov = Some((at + head_bytes, body)),
                b"moof" => top.moofs.push((at, at + head_bytes, body)),
                _ => {}
            }
            let Some(next) = at.checked_add(size) else { break };
            at = next;
        }
        Ok(top)
    }
}

fn size_and_kind(head: [u8; 8]) -> (u32, [u8; 4]) {
    let [a, b, c, d, kind @ ..] = head;
    (u32::from_be_bytes([a, b, c, d]), kind)
}

/// Bytes of the file, and their offset.
#[derive(Clone, Copy)]
struct Bytes<'a> {
    bytes: &'a [u8],
    offset: u64,
}

impl<'a> Bytes<'a> {
    fn fields(self) -> Fields<'a> {
        Fields(self.bytes)
    }

    /// Leaves out the first `count` bytes.
    fn after(self, count: usize) -> Option<Self> {
        let bytes = self.bytes.get(count..)?;
        Some(Self { bytes, offset: self.offset + count as u64 })
    }

    /// Returns the boxes in these bytes, up to the first that does not fit.
    fn boxes(self) -> impl Iterator<Item = ([u8; 4], Bytes<'a>)> {
        let mut rest = self;
        std::iter::from_fn(move || {
            let mut fields = rest.fields();
            let (size, kind) = size_and_kind(fields.array()?);
            let (head, size) = match size {
                0 => (8, rest.bytes.len()),
                1 => (16, usize::try_from(fields.be_u64()?).ok()?),
                size => (8, usize::try_from(size).ok()?),
            };
            let bytes = rest.bytes.get(head..size)?;
            let found = Bytes { bytes, offset: rest.offset + head as u64 };
            rest = rest.after(size)?;
            Some((kind, found))
        })
    }

    fn find(self, kind: &[u8; 4]) -> Option<Self> {
        self.boxes().find(|(found, _)| found == kind).map(|(_, found)| found)
    }

    /// Returns the box inside of the boxes of a path.
    fn path(self, kinds: &[&[u8; 4]]) -> Option<Self> {
        kinds.iter().try_fold(self, |inside, kind| inside.find(kind))
    }

    /// Returns the version, the flags, and the bytes after them.
    fn full(self) -> Option<(u8, u32, Self)> {
        let mut fields = self.fields();
        Some((fields.u8()?, fields.be_u24()?, self.after(4)?))
    }

    /// Reads the box by a function that returns nothing if bytes are missing.
    fn read<T>(self, name: &str, read: impl FnOnce(Self) -> Option<T>) -> Result<T, VideoError> {
        read(self).ok_or_else(|| format_error!("the box `{name}` is too short").at(self.offset))
    }

    /// Returns the entries of a table of `N` numbers each.
    fn table<const N: usize>(self, name: &str) -> Result<Table<'a, N>, VideoError> {
        self.read(name, |bytes| {
            let (_, _, bytes) = bytes.full()?;
            let mut fields = bytes.fields();
            let count = usize::try_from(fields.be_u32()?).ok()?;
            Some(Table(fields.bytes(count.checked_mul(4 * N)?)?))
        })
    }
}

/// A table whose entries have `N` numbers of 32 bits.
#[derive(Clone, Copy, Default)]
struct Table<'a, const N: usize>(&'a [u8]);

impl<'a, const N: usize> Table<'a, N> {
    fn len(self) -> usize {
        self.0.len() / (4 * N)
    }

    fn iter(self) -> impl Iterator<Item = [u32; N]> + use<'a, N> {
        let number = |bytes: &[u8], at: usize| {
            bytes
                .get(4 * at..)
                .and_then(|bytes| bytes.first_chunk())
                .map_or(0, |four| u32::from_be_bytes(*four))
        };
        self.0.chunks_exact(4 * N).map(move |entry| std::array::from_fn(|at| number(entry, at)))
    }
}

/// The first two columns and rows of a matrix of a movie or track, in units of 1/65536.
type Matrix = [i64; 4];

const UNIT: i64 = 1 << 16;
const IDENTITY: Matrix = [UNIT, 0, 0, UNIT];

struct Movie<'a> {
    timescale: u32,
    matrix: Matrix,
    track: Track<'a>,
}

impl<'a> Movie<'a> {
    fn read(moov: Bytes<'a>) -> Result<Self, VideoError> {
        let Some(mvhd) = moov.find(b"mvhd") else {
            if moov.find(b"cmov").is_some() {
                return Err(unsupported!(
                    "the box `moov` is compressed: copy the streams into a new file with `ffmpeg -i IN -c copy OUT.mp4`"
                )
                .at(moov.offset));
            }
            return Err(format_error!("the box `moov` has no `mvhd`").at(moov.offset));
        };
        let (timescale, matrix) = mvhd.read("mvhd", |mvhd| {
            let (version, _, mvhd) = mvhd.full()?;
            let mut fields = mvhd.fields();
            fields.skip(if version == 1 { 16 } else { 8 })?;
            let timescale = fields.be_u32()?;
            // The duration; rate, volume and 10 reserved bytes.
            fields.skip(if version == 1 { 8 } else { 4 } + 16)?;
            Some((timescale, matrix(&mut fields)?))
        })?;
        let tracks = moov.boxes().filter(|(kind, _)| kind == b"trak").map(|(_, trak)| trak);
        let mut videos = tracks.filter(|trak| {
            let handler = trak.path(&[b"mdia", b"hdlr"]);
            handler.is_some_and(|hdlr| hdlr.bytes.get(8..12) == Some(b"vide"))
        });
        let trak = videos
            .next()
            .ok_or_else(|| format_error!("the file has no video track").at(moov.offset))?;
        Ok(Self { timescale, matrix, track: Track::read(trak, moov)? })
    }
}

/// Reads `a b u c d v x y w`.
fn matrix(fields: &mut Fields<'_>) -> Option<Matrix> {
    let mut nine = [0; 9];
    for number in &mut nine {
        *number = i64::from(fields.be_i32()?);
    }
    Some([nine[0], nine[1], nine[3], nine[4]])
}

/// Returns the rotation of the matrices of movie and track: `x' = a x + c y`, `y' = b x + d y`, `y` downward.
fn rotation(movie: Matrix, track: Matrix) -> Result<Rotation, VideoError> {
    let or_identity = |matrix: Matrix| if matrix == [0; 4] { IDENTITY } else { matrix };
    let ([a, b, c, d], [e, f, g, h]) = (or_identity(track), or_identity(movie));
    let product = [(a, b, e, g), (a, b, f, h), (c, d, e, g), (c, d, f, h)];
    let [a, b, c, d] = product.map(|(p, q, r, s)| {
        let sum = i128::from(p) * i128::from(r) + i128::from(q) * i128::from(s);
        // A hundredth is lost by programs that compute sines and cosines.
        if sum.abs() < i128::from(UNIT) * i128::from(UNIT) / 100 { 0 } else { sum.signum() }
    });
    match [a, b, c, d] {
        [1, 0, 0, 1] => Ok(Rotation::None),
        [0, 1, -1, 0] => Ok(Rotation::Clockwise90),
        [-1, 0, 0, -1] => Ok(Rotation::Clockwise180),
        [0, -1, 1, 0] => Ok(Rotation::Clockwise270),
        _ => Err(unsupported!(
            "the track is mirrored or turned by an angle other than 90, 180 or 270 degrees: encode it again with \
             `ffmpeg -i IN OUT.mp4`, which turns the pictures"
        )),
    }
}

/// A part of the track's time that is shown, in the movie's unit of time, and its beginning in the track's unit: nothing if
/// nothing is shown.
struct Edit {
    duration: u64,
    media_time: Option<i64>,
}

/// The defaults of samples in fragments.
#[derive(Clone, Copy, Default)]
struct Defaults {
    description: u32,
    duration: u32,
    size: u32,
    flags: u32,
}

struct Track<'a> {
    id: u32,
    matrix: Matrix,
    timescale: u32,
    edits: Vec<Edit>,
    entry: SampleEntry,
    stbl: Bytes<'a>,
    /// The number of the sample description that is read, from 1.
    description: u32,
    defaults: Defaults,
}

impl<'a> Track<'a> {
    fn read(trak: Bytes<'a>, moov: Bytes<'a>) -> Result<Self, VideoError> {
        let missing =
            |name: &str| format_error!("the video track has no box `{name}`").at(trak.offset);
        let tkhd = trak.find(b"tkhd").ok_or_else(|| missing("tkhd"))?;
        let (id, matrix) = tkhd.read("tkhd", |tkhd| {
            let (version, _, tkhd) = tkhd.full()?;
            let mut fields = tkhd.fields();
            fields.skip(if version == 1 { 16 } else { 8 })?;
            let id = fields.be_u32()?;
            // 4 reserved bytes, the duration; 8 reserved bytes, layer, group, volume, 2 reserved bytes.
            fields.skip(4 + if version == 1 { 8 } else { 4 } + 16)?;
            Some((id, matrix(&mut fields)?))
        })?;
        let mdhd = trak.path(&[b"mdia", b"mdhd"]).ok_or_else(|| missing("mdhd"))?;
        let timescale = mdhd.read("mdhd", |mdhd| {
            let (version, _, mdhd) = mdhd.full()?;
            let mut fields = mdhd.fields();
            fields.skip(if version == 1 { 16 } else { 8 })?;
            fields.be_u32()
        })?;
        let edits = match trak.path(&[b"edts", b"elst"]) {
            Some(elst) => elst.read("elst", edits)?,
            None => vec![],
        };
        let stbl = trak.path(&[b"mdia", b"minf", b"stbl"]).ok_or_else(|| missing("stbl"))?;
        let trex = moov.find(b"mvex").map(|mvex| trex(mvex, id)).unwrap_or_default();
        let description =
            description(stbl)?.or(Some(trex.description).filter(|number| *number > 0)).unwrap_or(1);
        let stsd = stbl.find(b"stsd").ok_or_else(|| missing("stsd"))?;
        let entry = stsd
            .after(8)
            .and_then(|entries| entries.boxes().nth(description.saturating_sub(1) as usize));
        let (kind, entry) = entry.ok_or_else(|| {
            format_error!("the box `stsd` has no sample description {description}").at(stsd.offset)
        })?;
        let entry = entry.read("stsd", |entry| SampleEntry::read(kind, entry))?;
        if kind == *b"encv" {
            return Err(unsupported!("the video is encrypted").at(stsd.offset));
        }
        Ok(Self { id, matrix, timescale, edits, entry, stbl, description, defaults: trex })
    }

    /// Appends the samples of the tables.
    fn samples(&self, samples: &mut Samples<'_>) -> Result<(), VideoError> {
        let table = |name: &[u8; 4]| self.stbl.find(name);
        let Some(sizes) = Sizes::read(self.stbl)? else { return Ok(()) };
        let times = table(b"stts").map_or(Ok(Table::default()), |stts| stts.table::<2>("stts"))?;
        let distances =
            table(b"ctts").map_or(Ok(Table::default()), |ctts| ctts.table::<2>("ctts"))?;
        let keys = table(b"stss").map(|stss| stss.table::<1>("stss")).transpose()?;
        let chunks = Chunks::read(self.stbl)?;

        let mut times = Runs::new(times);
        let mut distances = Runs::new(distances);
        let mut keys = keys.map(|keys| keys.iter().map(|[number]| number).peekable());
        let mut sizes = sizes.iter().zip(1_u32..);
        for (offset, count) in chunks {
            let mut offset = offset?;
            for _ in 0..count {
                let Some((size, number)) = sizes.next() else { return Ok(()) };
                let is_key = keys.as_mut().is_none_or(|keys| {
                    while keys.next_if(|key| *key < number).is_some() {}
                    keys.next_if(|key| *key == number).is_some()
                });
                let duration = times.next().unwrap_or_default();
                let distance = distances.next().unwrap_or_default() as i32;
                samples.push(offset, size, duration, distance, is_key)?;
                offset = offset.saturating_add(size.into());
            }
        }
        Ok(())
    }
}

/// Reads the entries of `elst`.
fn edits(elst: Bytes<'_>) -> Option<Vec<Edit>> {
    let (version, _, elst) = elst.full()?;
    let mut fields = elst.fields();
    let count = fields.be_u32()?;
    let mut edits = vec![];
    for _ in 0..count {
        let (duration, media_time) = match version {
            1 => (fields.be_u64()?, fields.be_u64()? as i64),
            _ => (fields.be_u32()?.into(), fields.be_i32()?.into()),
        };
        fields.skip(4)?;
        edits.push(Edit { duration, media_time: (media_time >= 0).then_some(media_time) });
    }
    Some(edits)
}

/// Returns the defaults of a track in `mvex`.
fn trex(mvex: Bytes<'_>, track: u32) -> Defaults {
    let read = |trex: Bytes<'_>| {
        let mut fields = trex.full()?.2.fields();
        let id = fields.be_u32()?;
        let mut number = || fields.be_u32();
        let defaults = Defaults {
            description: number()?,
            duration: number()?,
            size: number()?,
            flags: number()?,
        };
        Some((id, defaults))
    };
    let all = mvex.boxes().filter(|(kind, _)| kind == b"trex").filter_map(|(_, trex)| read(trex));
    all.filter(|(id, _)| *id == track).map(|(_, defaults)| defaults).next().unwrap_or_default()
}

/// Returns the number of the sample description of all chunks, if there are any.
fn description(stbl: Bytes<'_>) -> Result<Option<u32>, VideoError> {
    let Some(stsc) = stbl.find(b"stsc") else { return Ok(None) };
    let mut numbers = stsc.table::<3>("stsc")?.iter().map(|[_, _, description]| description);
    let first = numbers.next();
    if let Some(other) = numbers.find(|number| Some(*number) != first) {
        let first = first.unwrap_or_default();
        return Err(another_description(first, other).at(stsc.offset));
    }
    Ok(first)
}

fn another_description(first: u32, other: u32) -> VideoError {
    unsupported!(
        "the video track changes from sample description {first} to {other}, which may have another codec or size: encode it \
         again with `ffmpeg -i IN OUT.mp4`"
    )
}

/// The entry of `stsd` of a video track.
struct SampleEntry {
    codec: Codec,
    four_cc: [u8; 4],
    width: u32,
    height: u32,
    extradata: Vec<u8>,
    color: Color,
}

impl SampleEntry {
    fn read(kind: [u8; 4], entry: Bytes<'_>) -> Option<Self> {
        let mut fields = entry.fields();
        // Reserved, the reference to the data, version, revision, vendor, qualities.
        fields.skip(24)?;
        let (width, height) = (fields.be_u16()?.into(), fields.be_u16()?.into());
        // Resolutions, size of the data, frames in a sample, the compressor's name, depth and colour table.
        let inside = entry.after(78)?;
        let mut entry = Self {
            codec: Codec::of_four_cc(kind),
            four_cc: kind,
            width,
            height,
            extradata: vec![],
            color: Color::default(),
        };
        for (kind, inside) in inside.boxes() {
            match &kind {
                b"avcC" | b"hvcC" | b"av1C" | b"vpcC" => entry.extradata = inside.bytes.to_vec(),
                b"esds" => {
                    if let Some((object_type, specific)) = decoder_config(inside.after(4)?) {
                        entry.codec = codec_of_object_type(object_type);
                        entry.extradata = specific.to_vec();
                    }
                }
                b"colr" => entry.color = color(inside).unwrap_or(entry.color),
                _ => {}
            }
        }
        Some(entry)
    }
}

/// Reads `colr`: of the kinds `nclx` (MP4) and `nclc` (QuickTime, without a range).
fn color(colr: Bytes<'_>) -> Option<Color> {
    let mut fields = colr.fields();
    let kind = fields.array()?;
    if !matches!(&kind, b"nclx" | b"nclc") {
        return None;
    }
    // The primaries and the transfer characteristics.
    fields.skip(4)?;
    let matrix = MatrixCoefficients::of_number(fields.be_u16()?.into());
    let is_full_range = if kind == *b"nclx" { Some(fields.u8()? & 0x80 != 0) } else { None };
    Some(Color { matrix, is_full_range })
}

/// Returns the object type and the decoder-specific bytes of descriptors (ISO/IEC 14496-1, section 7.2.6).
fn decoder_config(esds: Bytes<'_>) -> Option<(u8, &[u8])> {
    let mut fields = descriptor(esds.bytes, 3)?;
    // ES_ID; flags and what they announce.
    fields.skip(2)?;
    let flags = fields.u8()?;
    if flags & 0x80 != 0 {
        fields.skip(2)?;
    }
    if flags & 0x40 != 0 {
        let length = fields.u8()?;
        fields.skip(length.into())?;
    }
    if flags & 0x20 != 0 {
        fields.skip(2)?;
    }
    let mut config = descriptor(fields.0, 4)?;
    let object_type = config.u8()?;
    // The type of the stream, the size of buffers, the highest and the average bit rate.
    config.skip(12)?;
    let specific = descriptor(config.0, 5).map_or(&[][..], |specific| specific.0);
    Some((object_type, specific))
}

/// Returns what a descriptor with a given tag contains, up to the end of the bytes if it claims to be longer.
fn descriptor(bytes: &[u8], tag: u8) -> Option<Fields<'_>> {
    let mut fields = Fields(bytes);
    if fields.u8()? != tag {
        return None;
    }
    let mut length = 0_usize;
    for _ in 0..4 {
        let byte = fields.u8()?;
        length = length << 7 | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            break;
        }
    }
    Some(Fields(&fields.0[..length.min(fields.0.len())]))
}

/// Returns the codec of an object type of MPEG-4 systems.
fn codec_of_object_type(number: u8) -> Codec {
    match number {
        0x20 => Codec::Mpeg4,
        0x21 => Codec::H264,
        0x23 => Codec::Hevc,
        0x60..=0x65 | 0x6a => Codec::Mpeg2,
        0x6c => Codec::MotionJpeg,
        0x6d => Codec::Other("PNG".into()),
        0xb1 => Codec::Vp9,
        other => Codec::Other(format!("MPEG-4 object type 0x{other:02x}")),
    }
}

/// The sizes of all samples.
#[derive(Clone, Copy)]
enum Sizes<'a> {
    Same {
        size: u32,
        count: u32,
    },
    Each(Table<'a, 1>),
    /// Sizes of 4, 8 or 16 bits.
    Small {
        bits: usize,
        count: usize,
        bytes: &'a [u8],
    },
}

impl<'a> Sizes<'a> {
    fn read(stbl: Bytes<'a>) -> Result<Option<Self>, VideoError> {
        if let Some(stsz) = stbl.find(b"stsz") {
            let sizes = stsz.read("stsz", |stsz| {
                let mut fields = stsz.full()?.2.fields();
                let (size, count) = (fields.be_u32()?, fields.be_u32()?);
                if size > 0 {
                    return Some(Self::Same { size, count });
                }
                let bytes = usize::try_from(count).ok()?.checked_mul(4)?;
                Some(Self::Each(Table(fields.bytes(bytes)?)))
            })?;
            return Ok(Some(sizes));
        }
        let Some(stz2) = stbl.find(b"stz2") else { return Ok(None) };
        let sizes = stz2.read("stz2", |stz2| {
            let mut fields = stz2.full()?.2.fields();
            fields.skip(3)?;
            let bits = usize::from(fields.u8()?);
            let count = usize::try_from(fields.be_u32()?).ok()?;
            let bytes = fields.bytes(count.checked_mul(bits)?.div_ceil(8))?;
            matches!(bits, 4 | 8 | 16).then_some(Self::Small { bits, count, bytes })
        })?;
        Ok(Some(sizes))
    }

    fn iter(self) -> impl Iterator<Item = u32> {
        let count = match self {
            Self::Same { count, .. } => count as usize,
            Self::Each(table) => table.len(),
            Self::Small { count, .. } => count,
        };
        let mut each = if let Self::Each(table) = self { Some(table.iter()) } else { None };
        (0..count).map(move |number| match self {
            Self::Same { size, .. } => size,
            Self::Each(_) => each.as_mut().and_then(Iterator::next).map_or(0, |[size]| size),
            Self::Small { bits: 16, bytes, .. } => {
                u32::from(bytes[2 * number]) << 8 | u32::from(bytes[2 * number + 1])
            }
            Self::Small { bits: 8, bytes, .. } => bytes[number].into(),
            Self::Small { bytes, .. } => (bytes[number / 2] >> (4 - number % 2 * 4) & 15).into(),
        })
    }
}

/// The offsets of chunks, and the number of samples of each.
struct Chunks<'a> {
    offsets: &'a [u8],
    offset_bytes: usize,
    entries: Vec<[u32; 3]>,
    entry: usize,
    number: u32,
    place: u64,
}

impl<'a> Chunks<'a> {
    fn read(stbl: Bytes<'a>) -> Result<Self, VideoError> {
        let (offsets, offset_bytes, place) = if let Some(stco) = stbl.find(b"stco") {
            (stco.table::<1>("stco")?.0, 4, stco.offset)
        } else if let Some(co64) = stbl.find(b"co64") {
            (co64.table::<2>("co64")?.0, 8, co64.offset)
        } else {
            (&[][..], 4, stbl.offset)
        };
        let entries: Vec<[u32; 3]> = match stbl.find(b"stsc") {
            Some(stsc) => stsc.table::<3>("stsc")?.iter().collect(),
            None => vec![],
        };
        if entries.is_empty() && !offsets.is_empty() {
            return Err(format_error!("the box `stsc` is missing or empty").at(stbl.offset));
        }
        Ok(Self { offsets, offset_bytes, entries, entry: 0, number: 0, place })
    }
}

impl Iterator for Chunks<'_> {
    type Item = (Result<u64, VideoError>, u32);

    fn next(&mut self) -> Option<Self::Item> {
        let (bytes, rest) = self.offsets.split_at_checked(self.offset_bytes)?;
        self.offsets = rest;
        self.number += 1;
        while self.entries.get(self.entry + 1).is_some_and(|[first, ..]| *first <= self.number) {
            self.entry += 1;
        }
        let [_, count, _] = self.entries.get(self.entry)?;
        let mut fields = Fields(bytes);
        let offset =
            if self.offset_bytes == 4 { fields.be_u32().map(u64::from) } else { fields.be_u64() };
        Some((offset.ok_or_else(|| format_error!("a chunk has no offset").at(self.place)), *count))
    }
}

/// The values of a table of counts and values, each as often as it is counted.
struct Runs<I> {
    entries: I,
    left: u32,
    value: u32,
}

impl<'a> Runs<std::iter::Empty<[u32; 2]>> {
    fn new(table: Table<'a, 2>) -> Runs<impl Iterator<Item = [u32; 2]> + use<'a>> {
        Runs { entries: table.iter(), left: 0, value: 0 }
    }
}

impl<I: Iterator<Item = [u32; 2]>> Iterator for Runs<I> {
    type Item = u32;

    /// After the end of the table, the last value is repeated.
    fn next(&mut self) -> Option<u32> {
        while self.left == 0 {
            let Some([count, value]) = self.entries.next() else { return Some(self.value) };
            (self.left, self.value) = (count, value);
        }
        self.left -= 1;
        Some(self.value)
    }
}

/// The samples of the track so far.
struct Samples<'a> {
    list: &'a mut PacketList,
    /// The time of decoding of the next sample.
    dts: i64,
}

impl Samples<'_> {
    fn push(
        &mut self,
        offset: u64,
        size: u32,
        duration: u32,
        distance: i32,
        is_key: bool,
    ) -> Result<(), VideoError> {
        if size > 0 {
            let pts = self.dts.saturating_add(distance.into());
            self.list.push(offset, size.into(), pts, is_key)?;
        }
        self.dts = self.dts.saturating_add(duration.into());
        Ok(())
    }
}

/// Bits of the flags of a sample in a fragment.
const IS_NON_SYNC: u32 = 1 << 16;
const DEPENDS_ON_OTHERS: u32 = 1 << 24;

/// Appends the samples of a fragment, whose `moof` begins at `start`.
fn fragment(
    moof: Bytes<'_>,
    start: u64,
    track: &Track<'_>,
    samples: &mut Samples<'_>,
) -> Result<(), VideoError> {
    let mut previous_end = start;
    for (_, traf) in moof.boxes().filter(|(kind, _)| kind == b"traf") {
        let tfhd = traf
            .find(b"tfhd")
            .ok_or_else(|| format_error!("the box `traf` has no `tfhd`").at(traf.offset))?;
        let (id, base, defaults) = tfhd.read("tfhd", |tfhd| {
            let (_, flags, tfhd) = tfhd.full()?;
            let mut fields = tfhd.fields();
            let id = fields.be_u32()?;
            let base = match flags {
                flags if flags & 1 != 0 => fields.be_u64()?,
                flags if flags & 0x2_0000 != 0 => start,
                _ => previous_end,
            };
            // The defaults of another track do not matter: only its sizes do, which its own `trex` may have.
            let mut defaults = track.defaults;
            if flags & 2 != 0 {
                defaults.description = fields.be_u32()?;
            }
            if flags & 8 != 0 {
                defaults.duration = fields.be_u32()?;
            }
            if flags & 16 != 0 {
                defaults.size = fields.be_u32()?;
            }
            if flags & 32 != 0 {
                defaults.flags = fields.be_u32()?;
            }
            Some((id, base, defaults))
        })?;
        let is_ours = id == track.id;
        if is_ours && defaults.description.max(1) != track.description {
            return Err(
                another_description(track.description, defaults.description).at(tfhd.offset)
            );
        }
        if let Some(tfdt) = traf.find(b"tfdt").filter(|_| is_ours) {
            let time = tfdt.read("tfdt", |tfdt| {
                let (version, _, tfdt) = tfdt.full()?;
                let mut fields = tfdt.fields();
                if version == 1 { fields.be_u64() } else { fields.be_u32().map(u64::from) }
            })?;
            samples.dts = i64::try_from(time).unwrap_or(i64::MAX);
        }
        let mut next = base;
        for (_, trun) in traf.boxes().filter(|(kind, _)| kind == b"trun") {
            next = run(trun, base, next, defaults, samples, is_ours)?;
        }
        previous_end = next;
    }
    Ok(())
}

/// Appends the samples of a `trun`, and returns the offset after them.
fn run(
    trun: Bytes<'_>,
    base: u64,
    mut offset: u64,
    defaults: Defaults,
    samples: &mut Samples<'_>,
    is_ours: bool,
) -> Result<u64, VideoError> {
    let short = || format_error!("the box `trun` is too short").at(trun.offset);
    let (_, flags, body) = trun.full().ok_or_else(short)?;
    let mut fields = body.fields();
    let mut number = |is_there: bool| match is_there {
        true => fields.be_u32().map(Some).ok_or_else(short),
        false => Ok(None),
    };
    let count = number(true)?.unwrap_or_default();
    if let Some(distance) = number(flags & 1 != 0)? {
        offset = base.saturating_add_signed(i64::from(distance as i32));
    }
    let first_flags = number(flags & 4 != 0)?;
    if flags & 0x200 == 0 {
        if !is_ours || defaults.size == 0 {
            return Ok(offset.saturating_add(u64::from(defaults.size) * u64::from(count)));
        }
        // All samples have one size, so that the table does not bound their number.
        samples.list.check_count(count.into())?;
    }
    for sample in 0..count {
        let duration = number(flags & 0x100 != 0)?.unwrap_or(defaults.duration);
        let size = number(flags & 0x200 != 0)?.unwrap_or(defaults.size);
        let own_flags = number(flags & 0x400 != 0)?;
        let distance = number(flags & 0x800 != 0)?.unwrap_or_default() as i32;
        let sample_flags =
            first_flags.filter(|_| sample == 0).or(own_flags).unwrap_or(defaults.flags);
        if is_ours {
            let is_key = sample_flags & (IS_NON_SYNC | DEPENDS_ON_OTHERS) == 0;
            samples.push(offset, size, duration, distance, is_key)?;
        }
        offset = offset.saturating_add(size.into());
    }
    Ok(offset)
}

/// Returns the frames that the edits show.
fn shown(
    packets: &[Packet],
    edits: &[Edit],
    movie_scale: u32,
    track_scale: u32,
    limits: &VideoLimits,
) -> Result<Vec<FrameEntry>, VideoError> {
    let all = frames_by_time(packets);
    if edits.iter().all(|edit| edit.media_time.is_none()) {
        let start = edits.iter().fold(0_u64, |sum, edit| sum.saturating_add(edit.duration));
        let start = to_track_scale(start, movie_scale, track_scale);
        return Ok(all
            .into_iter()
            .map(|frame| FrameEntry { pts: frame.pts.saturating_add(start), ..frame })
            .collect());
    }
    // An edit list that shows a part again and again can't be distinguished from a damaged one.
    let most = limits.max_packets.min(all.len() as u64 * 4);
    let (mut frames, mut start) = (vec![], 0_u64);
    for edit in edits {
        let length = to_track_scale(edit.duration, movie_scale, track_scale);
        if let Some(from) = edit.media_time {
            let to = if edit.duration == 0 { i64::MAX } else { from.saturating_add(length) };
            let shift = to_track_scale(start, movie_scale, track_scale).saturating_sub(from);
            let first = all.partition_point(|frame| frame.pts < from);
            let last = all.partition_point(|frame| frame.pts < to).max(first);
            if frames.len() as u64 + (last - first) as u64 > most {
                return Err(over_limit!("the edit list shows more than {most} frames"));
            }
            let shifted =
                |frame: &FrameEntry| FrameEntry { pts: frame.pts.saturating_add(shift), ..*frame };
            frames.extend(all[first..last].iter().map(shifted));
        }
        start = start.saturating_add(edit.duration);
    }
    if frames.is_empty() && !all.is_empty() {
        return Err(format_error!("the edit list hides all frames"));
    }
    // The first frame has the time at which the first edit begins, even if the edit begins within the frame before it.
    let empty = edits.iter().take_while(|edit| edit.media_time.is_none());
    let empty = empty.fold(0_u64, |sum, edit| sum.saturating_add(edit.duration));
    let first = to_track_scale(empty, movie_scale, track_scale);
    let late = frames.iter().map(|frame| frame.pts.saturating_sub(first)).min().unwrap_or(0);
    if late > 0 {
        frames.iter_mut().for_each(|frame| frame.pts -= late);
    }
    Ok(frames)
}

/// Converts a time of the movie to the track's unit, rounded to the nearest.
fn to_track_scale(time: u64, movie_scale: u32, track_scale: u32) -> i64 {
    let scale = u128::from(movie_scale.max(1));
    let time = (u128::from(time) * u128::from(track_scale) + scale / 2) / scale;
    i64::try_from(time).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_at::Headers;

    /// Returns a box.
    fn boxed(kind: &[u8; 4], contents: &[&[u8]]) -> Vec<u8> {
        let contents = contents.concat();
        let size = u32::try_from(contents.len() + 8).unwrap();
        [&size.to_be_bytes(), &kind[..], &contents].concat()
    }

    fn numbers(numbers: &[u32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
    }

    /// Returns a table with its version, flags and count.
    fn table(kind: &[u8; 4], count: u32, entries: &[u32]) -> Vec<u8> {
        boxed(kind, &[&numbers(&[0, count]), &numbers(entries)])
    }

    const UNTURNED: [u32; 9] = [1 << 16, 0, 0, 0, 1 << 16, 0, 0, 0, 1 << 30];

    /// Returns a file whose samples have 1, 2, 3, 4 and 5 bytes in chunks of 2, 2 and 1, a second per sample, with edits:
    /// their durations in tenths of seconds, and their beginnings in milliseconds.
    fn file(matrix: [u32; 9], edits: &[[u32; 2]]) -> Vec<u8> {
        let ftyp = boxed(b"ftyp", &[b"isom", &[0; 4]]);
        let mvhd = boxed(
            b"mvhd",
            &[&numbers(&[0, 0, 0, 10, 0, 0, 0, 0, 0]), &numbers(&UNTURNED), &[0; 28]],
        );
        let tkhd = boxed(
            b"tkhd",
            &[&numbers(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0]), &numbers(&matrix), &[0; 8]],
        );
        let entries: Vec<u32> =
            edits.iter().flat_map(|[duration, start]| [*duration, *start, 1 << 16]).collect();
        let edts = boxed(b"edts", &[&table(b"elst", edits.len() as u32, &entries)]);
        let mdhd = boxed(b"mdhd", &[&numbers(&[0, 0, 0, 1000, 0, 0])]);
        let hdlr = boxed(b"hdlr", &[&[0; 8], b"vide", &[0; 13]]);
        let entry = boxed(b"mp4v", &[&[0; 24], &[0, 64, 0, 48], &[0; 50]]);
        let stsd = boxed(b"stsd", &[&numbers(&[0, 1]), &entry]);
        let stts = table(b"stts", 1, &[5, 1000]);
        let stsc = table(b"stsc", 2, &[1, 2, 1, 3, 1, 1]);
        let stco = table(b"stco", 3, &[0, 8, 16]);
        // Sizes of 4 bits.
        let stz2 = boxed(b"stz2", &[&numbers(&[0, 4, 5]), &[0x12, 0x34, 0x50]]);
        let stbl = boxed(b"stbl", &[&stsd, &stts, &stsc, &stco, &stz2]);
        let minf = boxed(b"minf", &[&stbl]);
        let mdia = boxed(b"mdia", &[&mdhd, &hdlr, &minf]);
        let trak = boxed(b"trak", &[&tkhd, &edts, &mdia]);
        [ftyp, boxed(b"moov", &[&mvhd, &trak])].concat()
    }

    fn read(file: &[u8]) -> Result<VideoIndex, VideoError> {
        super::read(&mut Headers::new(&file)?, &VideoLimits::SMALL)
    }

    #[test]
    fn chunks_and_small_sizes_give_the_places_of_samples() {
        let index = read(&file(UNTURNED, &[])).unwrap();
        let places: Vec<_> =
            index.packets.iter().map(|packet| (packet.offset, packet.size)).collect();
        assert_eq!(places, [(0, 1), (1, 2), (8, 3), (11, 4), (16, 5)]);
        assert!(index.packets.iter().all(|packet| packet.is_key));
        assert_eq!((index.codec, index.width, index.height), (Codec::Mpeg4, 64, 48));
    }

    #[test]
    fn boxes_with_sizes_of_64_bits_are_passed_over() {
        // A size of 1 announces one of 64 bits.
        let wide = [&numbers(&[1]), &b"mdat"[..], &numbers(&[0, 20, 7])].concat();
        let whole = [wide.clone(), file(UNTURNED, &[])].concat();
        assert_eq!(read(&whole).unwrap().packets.len(), 5);
        let mut endless = wide;
        endless[8..16].fill(0xff);
        let error = read(&[endless, file(UNTURNED, &[])].concat()).unwrap_err();
        assert!(error.to_string().contains("no box `moov`"), "{error}");
    }

    #[test]
    fn edits_show_parts_of_the_track_one_after_the_other() {
        let shown = |edits: &[[u32; 2]]| {
            let index = read(&file(UNTURNED, edits)).unwrap();
            index.frames.iter().map(|frame| (frame.packet, frame.pts)).collect::<Vec<_>>()
        };
        let nothing = u32::MAX;
        assert_eq!(shown(&[[20, 1000]]), [(1, 0), (2, 1000)]);
        // Half a second of nothing; then samples 3 and 4; then samples 0 and 1.
        assert_eq!(
            shown(&[[5, nothing], [20, 3000], [20, 0]]),
            [(3, 500), (4, 1500), (0, 2500), (1, 3500)]
        );
        // An edit that begins within a sample does not show it; one without a duration has no end.
        // The first frame shown has the time of the edit.
        assert_eq!(shown(&[[0, 2500]]), [(3, 0), (4, 1000)]);
        assert_eq!(shown(&[[5, nothing], [0, 2500]]), [(3, 500), (4, 1500)]);
        assert_eq!(shown(&[[10, nothing]])[0], (0, 1000));
        let error = read(&file(UNTURNED, &[[10, 90_000]])).unwrap_err();
        assert_eq!(error.to_string(), "the edit list hides all frames");
        let many = read(&file(UNTURNED, &[[50, 0]; 5])).unwrap_err();
        assert!(many.to_string().contains("20 frames"), "{many}");
    }

    #[test]
    fn matrices_are_rotations_or_refused() {
        let turned = |a: i32, b: i32, c: i32, d: i32| {
            let unit = |number: i32| (number << 16) as u32;
            let matrix = [unit(a), unit(b), 0, unit(c), unit(d), 0, 0, 0, 1 << 30];
            read(&file(matrix, &[])).map(|index| index.rotation)
        };
        assert_eq!(turned(1, 0, 0, 1).unwrap(), Rotation::None);
        assert_eq!(turned(0, 1, -1, 0).unwrap(), Rotation::Clockwise90);
        assert_eq!(turned(-1, 0, 0, -1).unwrap(), Rotation::Clockwise180);
        assert_eq!(turned(0, -1, 1, 0).unwrap(), Rotation::Clockwise270);
        assert_eq!(turned(0, 0, 0, 0).unwrap(), Rotation::None);
        assert!(turned(-1, 0, 0, 1).unwrap_err().to_string().contains("mirrored"));
        assert!(turned(1, 1, -1, 1).unwrap_err().to_string().contains("angle"));
    }
}
