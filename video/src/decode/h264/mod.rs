//! H.264 in Rust: the crate `rust_h264`, behind checks.
//!
//! `rust_h264` decodes a stream that follows the standard to the bit. It allocates what a stream states, keeps every
//! picture that a stream tells it to keep, and decodes some damaged pictures without an error. So, before it is given a NAL
//! unit, `syntax` reads the parameter sets and slice headers, which are checked against limits and against each other,
//! and `references` counts the pictures that it keeps. If a slice is missing or
//! cut, no slice has written the macroblock before the next slice, or the last one of the picture: these are looked at
//! after each picture. They may be cropped, so the decoder is told to crop nothing. Damage within a
//! slice is noticed only if it makes the decoder read past the slice's end.
//! It is safe Rust apart from its vectors and the memory of a picture, whose bounds it checks; a panic is caught, and
//! becomes the error of the packet. (A program that aborts on panics ends.)
//!
//! | refused by name | |
//! |---|---|
//! | field pictures | no file to compare with could be made; macroblock-adaptive (MBAFF) frames are decoded |
//! | slice groups, redundant slices, data partitions, SP and SI slices | not decoded by `rust_h264` |
//! | 4:4:4, lossless, bit depths other than 8 and 10 | not decoded by `rust_h264` |
//! | a size that changes in mid-stream | frames of a clip have one size |
//!
//! An error names libavcodec where the first parameter sets of the stream state what it alone reads. Parts that contradict
//! these, or the size in the container, are damage.

mod gaps;
mod references;
mod syntax;

use super::frame::{Shape, check_pixels, eight_bits};
use super::{Frame, Stop, Subsampling, h264_needs_libavcodec, size_changes};
use crate::error::{over_limit, unsupported};
use crate::{Color, MatrixCoefficients, VideoError, VideoErrorKind, VideoIndex, VideoLimits};
pub(super) use gaps::Gaps;
use references::References;
use rust_h264::decoder::{ChromaFormat, Decoder};
use rust_h264::nal::{NalUnit, NalUnitType};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
pub(super) use syntax::{Framing, Nal};
use syntax::{Marking, Pps, SliceHeader, SliceKind, Sps, kind};

/// Maximum number of pixels of a picture times that of its slices, each of which costs a copy of the picture: 1,024 slices of
/// 1920x1088 pixels.
const MAX_COPIED: u64 = 1 << 31;

/// Number of bytes of ones that follow the data of an arithmetically coded slice: more than a macroblock has. `rust_h264` does
/// not notice that it reads past the end. Damage may lead it there; among ones it finds the end of a slice at the next
/// macroblock, so that the others of the slice are missing, and not made of zeros that follow.
const PAST_END: usize = 4096;

/// The coded and the cropped size, the chroma format and the bits of a sample.
type Kind = (([u64; 2], [u32; 2]), u32, [u32; 2]);

/// The most pixels by which the sizes of a stream and its container differ, as by a size before cropping. A bit that makes a
/// stream interlaced doubles the height.
const MAX_SIZE_DIFFERENCE: u32 = 32;

/// Profiles that may have redundant slices: Baseline and Extended (annex A.2).
const WITH_REDUNDANT_SLICES: [u8; 2] = [66, 88];

/// A decoder of H.264.
pub(super) struct H264 {
    framing: Framing,
    /// The parameter sets of the container, with their headers.
    configuration: Vec<(u8, u8, Vec<u8>)>,
    color: Color,
    /// Width and height in the container, 0 if it has none.
    container: [u32; 2],
    limits: VideoLimits,
    /// The kind of all pictures, once known.
    kind: Option<Kind>,
    stream: Stream,
}

/// The state of a run of packets.
struct Stream {
    decoder: Decoder,
    sps: BTreeMap<u32, Sps>,
    pps: BTreeMap<u32, Pps>,
    references: References,
    /// The frame number at which pictures are exact, until it is reached.
    recovers_at: Option<u32>,
    /// Nothing before the first picture.
    began_with_idr: Option<bool>,
    /// Number of pictures that began a new count of the order of pictures.
    sequence: u32,
}

impl Stream {
    fn new() -> Self {
        Self {
            decoder: Decoder::new(),
            sps: BTreeMap::new(),
            pps: BTreeMap::new(),
            references: References::default(),
            recovers_at: None,
            began_with_idr: None,
            sequence: 0,
        }
    }
}

/// A wanted picture.
pub(super) struct Decoded {
    /// The number of its sequence and its picture order count: the order of presentation.
    pub(super) place: (u32, i32),
    pub(super) frame: Frame,
}

/// A picture of a packet, from the headers of its slices.
struct Picture {
    header: SliceHeader,
    is_idr: bool,
    ref_idc: u8,
    sps: u32,
    /// The first macroblocks of the slices after the first one.
    starts: Vec<u32>,
}

fn damaged(message: impl Into<String>) -> VideoError {
    VideoError::new(VideoErrorKind::Damaged, message)
}

impl H264 {
    pub(super) fn open(index: &VideoIndex, limits: &VideoLimits) -> Result<Self, VideoError> {
        let extradata = index.extradata.as_slice();
        let (framing, units) = if extradata.first() == Some(&1) {
            syntax::avc_configuration(extradata)
                .ok_or_else(|| damaged("the H.264 configuration (avcC) is cut"))?
        } else {
            let units = Framing::StartCodes.split(extradata).map_err(damaged)?;
            (Framing::StartCodes, units)
        };
        let owned = |unit: &Nal<'_>| (unit.kind, unit.ref_idc, unit.payload.to_vec());
        let mut opened = Self {
            framing,
            configuration: units.iter().map(owned).collect(),
            color: index.color,
            container: [index.width, index.height],
            limits: *limits,
            kind: None,
            stream: Stream::new(),
        };
        opened.reset()?;
        Ok(opened)
    }

    /// Forgets all pictures.
    pub(super) fn reset(&mut self) -> Result<(), VideoError> {
        self.stream = Stream::new();
        let configuration = std::mem::take(&mut self.configuration);
        let read = configuration.iter().try_for_each(|(kind, ref_idc, payload)| {
            self.parameter_set(&Nal { kind: *kind, ref_idc: *ref_idc, payload })
        });
        self.configuration = configuration;
        read
    }

    /// Decodes the picture of a packet. Returns nothing if it is not wanted. `left_out` is the number of packets that a plan
    /// leaves out before it.
    pub(super) fn decode(
        &mut self,
        packet: &[u8],
        left_out: u32,
        is_wanted: bool,
    ) -> Result<Option<Decoded>, Stop> {
        let units = self
            .framing
            .split(packet)
            .map_err(|fault| damaged(format!("the packet has {fault}")))?;
        let is_needed = is_wanted || units.iter().any(|unit| unit.is_slice() && unit.ref_idc > 0);
        let mut picture: Option<Picture> = None;
        let mut recovery = None;
        for unit in &units {
            match unit.kind {
                kind::SPS | kind::PPS => self.parameter_set(unit)?,
                kind::SEI => recovery = syntax::recovery_frames(&unit.rbsp()).or(recovery),
                kind::PARTITION_A..=kind::PARTITION_C => {
                    return Err(unsupported!(
                        "H.264 with data partitions, which no decoder here reads"
                    )
                    .into());
                }
                kind::SLICE | kind::IDR_SLICE if is_needed => {
                    self.slice(unit, &mut picture, recovery, left_out)?;
                }
                _ => {}
            }
        }
        let Some(picture) = picture else {
            return if is_needed {
                Err(damaged("the packet has no H.264 picture").into())
            } else {
                Ok(None)
            };
        };
        let found = guarded(|| Ok(self.stream.decoder.flush()))?;
        let found = found.ok_or_else(|| damaged("the decoder returned no picture"))?;
        let sps = &self.stream.sps[&picture.sps];
        if picture.ref_idc > 0 {
            self.stream.references.end(&picture.header, picture.is_idr, sps).map_err(damaged)?;
        }
        check_written(&found, &picture.starts, sps)?;
        if picture.is_idr
            || picture.header.markings.is_some_and(|list| list.contains(&Marking::ForgetAll))
        {
            self.stream.sequence += 1;
        }
        let place = (self.stream.sequence, found.pic_order_cnt);
        if !is_wanted {
            return Ok(None);
        }
        if self.stream.recovers_at.is_some() {
            return Err(Stop::Unrecovered);
        }
        Ok(Some(Decoded { place, frame: frame(found, sps, self.color)? }))
    }

    /// Returns true if the first packet of the stream does not need libavcodec for the reason for which the last packet did.
    pub(super) fn contradicts(&self, index: &VideoIndex, first: &[u8]) -> bool {
        let read = || {
            let mut first_packet = Self::open(index, &self.limits)?;
            let units = first_packet.framing.split(first).map_err(damaged)?;
            units.iter().try_for_each(|unit| first_packet.parameter_set(unit))?;
            Ok::<_, VideoError>(first_packet)
        };
        read().is_ok_and(|first| {
            let has_frames_only = first.stream.sps.values().all(|sps| sps.has_frames_only);
            first.kind.is_some() && (self.kind.is_none() || has_frames_only)
        })
    }

    /// Returns true if the first picture since the last reset was an IDR picture.
    pub(super) fn began_with_idr(&self) -> bool {
        self.stream.began_with_idr == Some(true)
    }

    /// Checks a parameter set and hands it to the decoder.
    fn parameter_set(&mut self, unit: &Nal<'_>) -> Result<(), VideoError> {
        let rbsp = unit.rbsp();
        if unit.kind == kind::SPS {
            let sps = Sps::read(&rbsp)
                .ok_or_else(|| damaged("a sequence parameter set of H.264 is damaged"))?;
            self.check(&sps)?;
            let whole = sps.without_cropping(&rbsp);
            self.stream.sps.insert(sps.id, sps);
            return self.feed(unit, &whole);
        } else if unit.kind == kind::PPS {
            let pps = Pps::read(&rbsp)
                .ok_or_else(|| damaged("a picture parameter set of H.264 is damaged"))?;
            if pps.slice_groups > 1 {
                return Err(unsupported!("H.264 with slice groups, which no decoder here reads"));
            }
            if pps.may_have_redundant_slices {
                let sps = self.stream.sps.get(&pps.sps);
                return Err(match sps.map(|sps| sps.profile) {
                    Some(profile) if !WITH_REDUNDANT_SLICES.contains(&profile) => damaged(format!(
                        "a picture parameter set of H.264 states redundant slices, which profile {profile} does not have"
                    )),
                    _ => h264_needs_libavcodec(&"redundant slices"),
                });
            }
            self.stream.pps.insert(pps.id, pps);
        } else {
            return Ok(());
        }
        self.feed(unit, &rbsp)
    }

    /// Checks what a sequence parameter set asks for.
    fn check(&mut self, sps: &Sps) -> Result<(), VideoError> {
        let [width, height] = sps.coded_size();
        check_pixels(width, height, self.limits.max_pixels)?;
        let kept = u64::from(sps.reference_frames.max(1));
        check_pixels(width * kept, height, self.limits.max_pixels).map_err(|_| {
            over_limit!(
                "{kept} reference frames of {width}x{height} pixels: the limit is {} pixels",
                self.limits.max_pixels
            )
        })?;
        let Some(size) = sps.size() else {
            return Err(damaged(format!(
                "pictures of {width}x{height} pixels are cropped to nothing"
            )));
        };
        let [luma, chroma] = sps.bit_depths;
        let reason = if sps.chroma_format == 3 {
            "4:4:4 chroma".into()
        } else if !matches!(luma, 8 | 10) {
            format!("{luma} bits a sample")
        } else if sps.chroma_format != 0 && luma != chroma {
            format!("{luma} bits of luma and {chroma} of chroma")
        } else if sps.is_lossless {
            "lossless coding".into()
        } else {
            let sizes = ([width, height], size);
            let known = *self.kind.get_or_insert((sizes, sps.chroma_format, sps.bit_depths));
            return if known.0 != sizes {
                Err(size_changes(known.0.1, size))
            } else if known != (sizes, sps.chroma_format, sps.bit_depths) {
                Err(unsupported!(
                    "the chroma format or the bits of a sample change within the stream: cut the file there, as by ffmpeg -ss"
                ))
            } else {
                Ok(())
            };
        };
        if self.kind.is_some() {
            return Err(damaged(format!(
                "a sequence parameter set of H.264 contradicts those before: {reason} (profile {})",
                sps.profile
            )));
        }
        check_container(self.container, size)?;
        Err(h264_needs_libavcodec(&format_args!("{reason} (profile {})", sps.profile)))
    }

    /// Checks a slice and decodes it.
    fn slice(
        &mut self,
        unit: &Nal<'_>,
        picture: &mut Option<Picture>,
        recovery: Option<u32>,
        left_out: u32,
    ) -> Result<(), Stop> {
        let rbsp = unit.rbsp();
        let stream = &mut self.stream;
        let cut = || damaged("the header of a slice is damaged");
        let pps = SliceHeader::pps(&rbsp).ok_or_else(cut)?;
        let pps = stream
            .pps
            .get(&pps)
            .ok_or_else(|| damaged(format!("there is no picture parameter set {pps}")))?;
        let no_sps = || damaged(format!("there is no sequence parameter set {}", pps.sps));
        let sps = stream.sps.get(&pps.sps).ok_or_else(no_sps)?;
        let header = SliceHeader::read(&rbsp, unit, sps, pps).ok_or_else(cut)?;
        if header.kind == SliceKind::Switching {
            return Err(
                unsupported!("H.264 with SP or SI slices, which no decoder here reads").into()
            );
        }
        if header.is_field {
            if picture.is_some() {
                return Err(damaged("a field within a picture of frames").into());
            }
            sps.size().map_or(Ok(()), |size| check_container(self.container, size))?;
            return Err(h264_needs_libavcodec(&"field pictures (interlaced)").into());
        }
        let is_idr = unit.kind == kind::IDR_SLICE;
        match picture {
            None => {
                if header.first_macroblock != 0 {
                    return Err(damaged("the first slice of a picture is missing").into());
                }
                if stream.began_with_idr.is_none() && !is_idr {
                    if header.kind != SliceKind::I {
                        return Err(Stop::Unrecovered);
                    }
                    let frames = recovery.unwrap_or(0).min(1 << 16);
                    stream.recovers_at =
                        Some((header.frame_num + frames) % (1 << sps.log2_max_frame_num));
                }
                stream.began_with_idr.get_or_insert(is_idr);
                if is_idr || stream.recovers_at == Some(header.frame_num) {
                    stream.recovers_at = None;
                }
                stream.references.begin(&header, is_idr, left_out, sps).map_err(damaged)?;
                *picture = Some(Picture {
                    header,
                    is_idr,
                    ref_idc: unit.ref_idc,
                    sps: pps.sps,
                    starts: vec![],
                });
            }
            Some(picture) => {
                let first = &picture.header;
                if header.first_macroblock <= first.first_macroblock {
                    return Err(unsupported!(
                        "a packet with two pictures or with slices out of order, which libavcodec may decode"
                    )
                    .into());
                }
                if is_idr != picture.is_idr
                    || (unit.ref_idc > 0) != (picture.ref_idc > 0)
                    || pps.sps != picture.sps
                    || header.frame_num != first.frame_num
                    || header.markings != first.markings
                {
                    return Err(damaged("the slices of a picture do not belong together").into());
                }
                picture.header.first_macroblock = header.first_macroblock;
                picture.starts.push(header.first_macroblock);
                let (slices, [width, height]) = (picture.starts.len() as u64 + 1, sps.coded_size());
                if slices * width * height > MAX_COPIED {
                    return Err(over_limit!(
                        "a picture of {width}x{height} pixels with {slices} slices or more, which needs libavcodec"
                    )
                    .into());
                }
            }
        }
        if pps.is_arithmetic {
            return Ok(self.feed(unit, &[&rbsp, &[u8::MAX; PAST_END][..]].concat())?);
        }
        Ok(self.feed(unit, &rbsp)?)
    }

    /// Hands a NAL unit to the decoder.
    fn feed(&mut self, unit: &Nal<'_>, rbsp: &[u8]) -> Result<(), VideoError> {
        let nal = NalUnit {
            nal_ref_idc: unit.ref_idc,
            nal_unit_type: NalUnitType::from(unit.kind),
            rbsp: rbsp.into(),
        };
        guarded(|| self.stream.decoder.decode_nal(&nal)).map(drop)
    }
}

/// Refuses the size of a damaged parameter set, which the container contradicts.
fn check_container(container: [u32; 2], size: [u32; 2]) -> Result<(), VideoError> {
    let mut sides = container.iter().zip(size).filter(|(side, _)| **side > 0);
    if sides.all(|(side, found)| side.abs_diff(found) <= MAX_SIZE_DIFFERENCE) {
        return Ok(());
    }
    let ([width, height], [expected_width, expected_height]) = (size, container);
    Err(damaged(format!(
        "a sequence parameter set of H.264 states {width}x{height} pixels, and the container {expected_width}x{expected_height}"
    )))
}

/// Runs the decoder. Its errors and panics become errors of the packet.
fn guarded<T>(
    decode: impl FnOnce() -> Result<T, rust_h264::error::DecodeError>,
) -> Result<T, VideoError> {
    match catch_unwind(AssertUnwindSafe(decode)) {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(damaged(format!("H.264 does not decode: {error}"))),
        Err(_) => Err(damaged("H.264 does not decode: the decoder panicked")),
    }
}

/// Checks that the slices of a picture wrote all macroblocks. A slice writes one after another: so the last one before each
/// slice, and the last one of the picture, show whether some are missing. Pictures begin as zeros, which few pictures have
/// in all three planes.
fn check_written(
    found: &rust_h264::decoder::Frame,
    starts: &[u32],
    sps: &Sps,
) -> Result<(), VideoError> {
    let [width, height] = sps.macroblocks.map(|count| count as usize);
    let ends = starts.iter().map(|&start| start as usize);
    // Where macroblocks come in pairs, slices begin with the number of a pair.
    let pair = if sps.has_adaptive_pairs { 2 } else { 1 };
    for end in ends.chain([width * height / pair]) {
        let last = end.saturating_sub(1);
        let (column, row) = (last % width, pair * (last / width) + pair - 1);
        if !is_zero(found, column, row) {
            continue;
        }
        if [&found.y, &found.u, &found.v].iter().all(|plane| plane.iter().all(|&byte| byte == 0)) {
            return Err(unsupported!(
                "a picture of H.264 of zeros alone, as of a buffer that was cleared: libavcodec can tell whether its data are \
                 missing"
            ));
        }
        return Err(damaged(format!(
            "the slices of a picture do not reach the pixel at x {}, y {} before cropping",
            16 * column,
            16 * row
        )));
    }
    Ok(())
}

/// Returns true if the inner samples of a macroblock are zeros. Deblocking may have changed those near the edges.
fn is_zero(found: &rust_h264::decoder::Frame, column: usize, row: usize) -> bool {
    let bytes = found.bytes_per_sample();
    let (width, chroma_width) = (found.width as usize, found.chroma_width() as usize);
    let chroma_rows = if found.chroma_height() == found.height { 16 } else { 8 };
    let is_zero = |plane: &[u8], stride: usize, [x, y]: [usize; 2], size: usize| {
        (y..y + size).all(|y| {
            let row = plane.get(bytes * (y * stride + x)..bytes * (y * stride + x + size));
            row.is_some_and(|row| row.iter().all(|&sample| sample == 0))
        })
    };
    let chroma = [8 * column + 2, chroma_rows * row + 2];
    is_zero(&found.u, chroma_width, chroma, 4)
        && is_zero(&found.v, chroma_width, chroma, 4)
        && is_zero(&found.y, width, [16 * column + 4, 16 * row + 4], 8)
}

/// Returns a part of a plane whose samples have `bytes` bytes.
fn crop(
    plane: Vec<u8>,
    stride: usize,
    bytes: usize,
    from: [usize; 2],
    size: [usize; 2],
) -> Vec<u8> {
    let ([x, y], [width, height]) = (from, size);
    if (x, y, bytes * width * height) == (0, 0, plane.len()) {
        return plane;
    }
    let rows = plane.chunks_exact((bytes * stride).max(1)).skip(y).take(height);
    rows.flat_map(|row| row.get(bytes * x..bytes * (x + width)).unwrap_or_default())
        .copied()
        .collect()
}

/// Makes a frame of the decoder's.
fn frame(
    found: rust_h264::decoder::Frame,
    sps: &Sps,
    container: Color,
) -> Result<Frame, VideoError> {
    let [width, height] = sps.size().ok_or_else(|| damaged("the picture is cropped to nothing"))?;
    let (strides, bytes) = (
        [found.width, found.chroma_width(), found.chroma_width()].map(|stride| stride as usize),
        found.bytes_per_sample(),
    );
    let tall = if found.chroma_height() == found.height { 1 } else { 2 };
    let shape = Shape {
        width,
        height,
        subsampling: match found.chroma_format {
            ChromaFormat::Yuv420 => Subsampling::Yuv420,
            ChromaFormat::Yuv422 => Subsampling::Yuv422,
        },
        matrix: super::matrix(
            sps.matrix.map_or(MatrixCoefficients::Unknown, |number| {
                MatrixCoefficients::of_number(number.into())
            }),
            container,
        ),
        is_full_range: sps.is_full_range.or(container.is_full_range).unwrap_or(false),
    };
    let [left, _, top, _] = sps.cropped.map(|samples| samples as usize);
    let from = [[left, top], [left / 2, top / tall], [left / 2, top / tall]];
    let mut parts = strides.into_iter().zip(from).zip(shape.plane_sizes());
    let planes = [found.y, found.u, found.v].map(|plane| match parts.next() {
        Some(((stride, from), (width, height))) => {
            crop(plane, stride, bytes, from, [width, height])
        }
        None => plane,
    });
    let planes =
        if found.bit_depth == 10 { planes.map(|plane| eight_bits(&plane, 10)) } else { planes };
    Frame::new(shape, planes)
        .ok_or_else(|| damaged("the decoded picture is not of the size that its header states"))
}
