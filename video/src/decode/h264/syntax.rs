//! The syntax of H.264 (ITU-T H.264, section 7.3) as far as checks need it: NAL units, parameter sets and slice headers.
//!
//! The decoder proper allocates what these numbers say and does not check all of them; so they are read and checked here,
//! before it is given the bytes. Section numbers are those of the standard.

use crate::decode::starts::Start;
use std::borrow::Cow;
use std::ops::Range;

/// A NAL unit (7.3.1).
#[derive(Clone, Copy, Debug)]
pub(in crate::decode) struct Nal<'a> {
    /// `nal_ref_idc`: 0 if no other picture is predicted from this one.
    pub(in crate::decode) ref_idc: u8,
    /// `nal_unit_type`, table 7-1.
    pub(in crate::decode) kind: u8,
    /// The bytes after the header, with emulation prevention bytes.
    pub(super) payload: &'a [u8],
}

/// Types of NAL units.
pub(super) mod kind {
    pub(crate) const SLICE: u8 = 1;
    pub(crate) const PARTITION_A: u8 = 2;
    pub(crate) const PARTITION_C: u8 = 4;
    pub(crate) const IDR_SLICE: u8 = 5;
    pub(crate) const SEI: u8 = 6;
    pub(crate) const SPS: u8 = 7;
    pub(crate) const PPS: u8 = 8;
}

impl<'a> Nal<'a> {
    /// Reads the header of a NAL unit; nothing if it has no byte or its forbidden bit is set.
    fn new(bytes: &'a [u8]) -> Option<Self> {
        let (&header, payload) = bytes.split_first()?;
        (header & 0x80 == 0).then_some(Self { ref_idc: header >> 5, kind: header & 31, payload })
    }

    pub(super) fn is_slice(&self) -> bool {
        matches!(self.kind, kind::SLICE | kind::IDR_SLICE)
    }

    /// Returns the payload without its emulation prevention bytes (7.4.1).
    pub(super) fn rbsp(&self) -> Cow<'a, [u8]> {
        let bytes = self.payload;
        let is_at = |at: usize| bytes[at] == 3 && bytes[at - 1] == 0 && bytes[at - 2] == 0;
        let Some(first) = (2..bytes.len()).find(|&at| is_at(at)) else {
            return Cow::Borrowed(bytes);
        };
        let mut rbsp = Vec::with_capacity(bytes.len());
        rbsp.extend_from_slice(&bytes[..first]);
        let mut zeros = 0;
        for &byte in &bytes[first + 1..] {
            if zeros >= 2 && byte == 3 {
                zeros = 0;
                continue;
            }
            zeros = if byte == 0 { zeros + 1 } else { 0 };
            rbsp.push(byte);
        }
        Cow::Owned(rbsp)
    }
}

/// How NAL units are separated within a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::decode) enum Framing {
    /// A length precedes each of them, in this number of bytes (ISO/IEC 14496-15).
    Lengths(usize),
    /// A start code precedes each of them (annex B).
    StartCodes,
}

impl Framing {
    /// Returns the framing of packets by the bytes that the container has for a decoder.
    pub(in crate::decode) fn of(extradata: &[u8]) -> Self {
        match extradata {
            [1, _, _, _, size, ..] => Self::Lengths(usize::from(size & 3) + 1),
            _ => Self::StartCodes,
        }
    }

    /// Returns true if other pictures may be predicted from that of a packet, or if the packet can't be split.
    pub(in crate::decode) fn has_reference(self, packet: &[u8]) -> bool {
        let mut slices = self.split(packet).into_iter().flatten().filter(Nal::is_slice).peekable();
        slices.peek().is_none() || slices.any(|slice| slice.ref_idc > 0)
    }

    /// Returns how a stream can begin at a packet.
    pub(in crate::decode) fn start(self, packet: &[u8]) -> Start {
        let units = self.split(packet).unwrap_or_default();
        if units.iter().any(|unit| unit.kind == kind::IDR_SLICE) {
            return Start::Closed;
        }
        let is_intra =
            |slice: &Nal<'_>| matches!(SliceHeader::slice_type(&slice.rbsp()), Some(2 | 7));
        let exact_after = units
            .iter()
            .find_map(|unit| recovery_frames(&unit.rbsp()).filter(|_| unit.kind == kind::SEI));
        let mut slices = units.iter().filter(|unit| unit.is_slice()).peekable();
        let are_intra = slices.peek().is_some() && slices.all(is_intra);
        match exact_after {
            Some(0) if are_intra => Start::Open,
            None if are_intra => Start::Unstated,
            Some(1..) => Start::Gradual,
            _ => Start::Never,
        }
    }

    /// Returns the NAL units of a packet, or what is wrong with it.
    pub(in crate::decode) fn split(self, packet: &[u8]) -> Result<Vec<Nal<'_>>, String> {
        match self {
            Self::Lengths(size) => lengths(packet, size),
            Self::StartCodes => Ok(start_codes(packet).into_iter().filter_map(Nal::new).collect()),
        }
    }
}

fn lengths(mut packet: &[u8], size: usize) -> Result<Vec<Nal<'_>>, String> {
    let mut units = Vec::new();
    while let Some((length, rest)) = packet.split_at_checked(size) {
        let length = length.iter().fold(0, |sum, &byte| sum << 8 | usize::from(byte));
        let Some((unit, rest)) = rest.split_at_checked(length) else {
            return Err(format!(
                "a NAL unit of {length} bytes where {} bytes are left",
                rest.len()
            ));
        };
        units.extend(Nal::new(unit));
        packet = rest;
    }
    Ok(units)
}

fn start_codes(packet: &[u8]) -> Vec<&[u8]> {
    let mut starts: Vec<usize> = Vec::new();
    let mut at = 0;
    while let Some(found) = packet[at..].windows(3).position(|bytes| bytes == [0, 0, 1]) {
        at += found + 3;
        starts.push(at);
    }
    let ends = starts.iter().skip(1).map(|next| next - 3).chain([packet.len()]);
    let without_zeros =
        |bytes: &'_ [u8]| bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    starts
        .iter()
        .zip(ends)
        .map(|(&start, end)| &packet[start..start + without_zeros(&packet[start..end])])
        .collect()
}

/// The parameter sets of an `avcC` (ISO/IEC 14496-15, 5.3.3.1) and the size of lengths in packets.
pub(super) fn avc_configuration(bytes: &[u8]) -> Option<(Framing, Vec<Nal<'_>>)> {
    let size = usize::from(bytes.get(4)? & 3) + 1;
    let mut rest = bytes.get(5..)?;
    let mut units = Vec::new();
    for mask in [31, 255] {
        let (&count, mut after) = rest.split_first()?;
        for _ in 0..count & mask {
            let (length, bytes) = after.split_first_chunk::<2>()?;
            let (unit, next) = bytes.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
            units.extend(Nal::new(unit));
            after = next;
        }
        rest = after;
    }
    Some((Framing::Lengths(size), units))
}

/// A reader of bits, the highest of a byte first.
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Bits<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn flag(&mut self) -> Option<bool> {
        let byte = self.bytes.get(self.at / 8)?;
        let bit = byte >> (7 - self.at % 8) & 1;
        self.at += 1;
        Some(bit == 1)
    }

    /// Reads at most 32 bits.
    fn bits(&mut self, count: u32) -> Option<u32> {
        (0..count).try_fold(0, |bits, _| Some(bits << 1 | u32::from(self.flag()?)))
    }

    /// Reads an Exp-Golomb code without a sign, `ue(v)` (9.1).
    pub(super) fn unsigned(&mut self) -> Option<u32> {
        let mut zeros = 0;
        while !self.flag()? {
            zeros += 1;
            if zeros > 31 {
                return None;
            }
        }
        Some((1_u32 << zeros) - 1 + self.bits(zeros)?)
    }

    /// Reads an Exp-Golomb code with a sign, `se(v)` (9.1.1).
    fn signed(&mut self) -> Option<i64> {
        let code = i64::from(self.unsigned()?);
        Some(if code % 2 == 0 { -(code / 2) } else { code / 2 + 1 })
    }
}

/// A sequence parameter set (7.3.2.1.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sps {
    pub(super) id: u32,
    pub(super) profile: u8,
    /// 0 for luma alone, 1 for 4:2:0, 2 for 4:2:2, 3 for 4:4:4.
    pub(super) chroma_format: u32,
    pub(super) bit_depths: [u32; 2],
    pub(super) is_lossless: bool,
    pub(super) log2_max_frame_num: u32,
    pub(super) poc_type: u32,
    pub(super) log2_max_poc_lsb: u32,
    pub(super) is_delta_poc_zero: bool,
    pub(super) reference_frames: u32,
    pub(super) may_skip_frame_nums: bool,
    /// Width and height in macroblocks.
    pub(super) macroblocks: [u32; 2],
    /// False if pictures may be single fields.
    pub(super) has_frames_only: bool,
    /// True if pairs of macroblocks of a frame may be coded as fields (MBAFF).
    pub(super) has_adaptive_pairs: bool,
    /// Samples of luma that are cut off at the left, right, top and bottom.
    pub(super) cropped: [u32; 4],
    /// The bits that state them.
    cropping: Range<usize>,
    /// From the VUI, if it has them.
    pub(super) is_full_range: Option<bool>,
    pub(super) matrix: Option<u8>,
}

impl Sps {
    /// The width and height of the decoded samples.
    pub(super) fn coded_size(&self) -> [u64; 2] {
        self.macroblocks.map(|count| 16 * u64::from(count))
    }

    /// The width and height of a picture; nothing if all of it is cropped.
    pub(super) fn size(&self) -> Option<[u32; 2]> {
        let [left, right, top, bottom] = self.cropped.map(u64::from);
        let [width, height] = self.coded_size();
        let size = [width.checked_sub(left + right)?, height.checked_sub(top + bottom)?];
        let [width, height] = size.map(|pixels| u32::try_from(pixels).ok());
        Some([width?, height?]).filter(|size| !size.contains(&0))
    }

    /// Returns the bytes that this was read from, but of pictures of the coded size.
    pub(super) fn without_cropping(&self, rbsp: &[u8]) -> Vec<u8> {
        let bit = |at: usize| rbsp[at / 8] >> (7 - at % 8) & 1;
        let bits = (0..self.cropping.start).map(bit).chain([0]);
        let bits: Vec<u8> = bits.chain((self.cropping.end..8 * rbsp.len()).map(bit)).collect();
        let byte =
            |bits: &[u8]| bits.iter().zip(0..).fold(0, |byte, (bit, at)| byte | bit << (7 - at));
        bits.chunks(8).map(byte).collect()
    }

    /// Reads a sequence parameter set; nothing if it ends too early or has values that the standard does not allow.
    pub(super) fn read(rbsp: &[u8]) -> Option<Self> {
        let mut r = Bits::new(rbsp);
        let profile = r.bits(8)? as u8;
        r.bits(16)?;
        let id = r.unsigned().filter(|&id| id < 32)?;
        let (mut chroma_format, mut bit_depths, mut is_lossless) = (1, [8; 2], false);
        if matches!(
            profile,
            100 | 110 | 122 | 244 | 44 | 83 | 86 | 118 | 128 | 138 | 139 | 134 | 135
        ) {
            chroma_format = r.unsigned().filter(|&format| format < 4)?;
            if chroma_format == 3 {
                r.flag()?;
            }
            for depth in &mut bit_depths {
                *depth = 8 + r.unsigned().filter(|&bits| bits <= 6)?;
            }
            is_lossless = r.flag()?;
            if r.flag()? {
                scaling_lists(&mut r, if chroma_format == 3 { 12 } else { 8 })?;
            }
        }
        let log2_max_frame_num = 4 + r.unsigned().filter(|&bits| bits <= 12)?;
        let poc_type = r.unsigned().filter(|&kind| kind <= 2)?;
        let (mut log2_max_poc_lsb, mut is_delta_poc_zero) = (4, false);
        if poc_type == 0 {
            log2_max_poc_lsb = 4 + r.unsigned().filter(|&bits| bits <= 12)?;
        } else if poc_type == 1 {
            is_delta_poc_zero = r.flag()?;
            r.signed()?;
            r.signed()?;
            for _ in 0..r.unsigned().filter(|&count| count <= 255)? {
                r.signed()?;
            }
        }
        let reference_frames = r.unsigned().filter(|&count| count <= 16)?;
        let may_skip_frame_nums = r.flag()?;
        let width = r.unsigned()?.checked_add(1)?;
        let map_units = r.unsigned()?.checked_add(1)?;
        let has_frames_only = r.flag()?;
        let height = map_units.checked_mul(if has_frames_only { 1 } else { 2 })?;
        let has_adaptive_pairs = !has_frames_only && r.flag()?;
        r.flag()?;
        let mut cropped = [0; 4];
        let cropping = r.at;
        if r.flag()? {
            for cut in &mut cropped {
                *cut = r.unsigned()?;
            }
            let across = if matches!(chroma_format, 1 | 2) { 2 } else { 1 };
            let down = if chroma_format == 1 { 2 } else { 1 } * if has_frames_only { 1 } else { 2 };
            for (cut, unit) in cropped.iter_mut().zip([across, across, down, down]) {
                *cut = cut.checked_mul(unit)?;
            }
        }
        let cropping = cropping..r.at;
        // Decoders use parameter sets whose VUI is cut; so it is read as far as it goes.
        let (is_full_range, matrix) = colours(&mut r).unwrap_or_default();
        Some(Self {
            id,
            profile,
            chroma_format,
            bit_depths,
            is_lossless,
            log2_max_frame_num,
            poc_type,
            log2_max_poc_lsb,
            is_delta_poc_zero,
            reference_frames,
            may_skip_frame_nums,
            macroblocks: [width, height],
            has_frames_only,
            has_adaptive_pairs,
            cropped,
            cropping,
            is_full_range,
            matrix,
        })
    }
}

/// Skips scaling lists (7.3.2.1.1.1), of which the first six have 16 values and the others 64.
fn scaling_lists(r: &mut Bits<'_>, count: usize) -> Option<()> {
    for list in 0..count {
        if !r.flag()? {
            continue;
        }
        let (mut last, mut next) = (8, 8);
        for _ in 0..if list < 6 { 16 } else { 64 } {
            if next != 0 {
                next = (last + r.signed()?).rem_euclid(256);
            }
            last = if next == 0 { last } else { next };
        }
    }
    Some(())
}

/// Reads the range and the matrix from the VUI (E.1.1).
fn colours(r: &mut Bits<'_>) -> Option<(Option<bool>, Option<u8>)> {
    if !r.flag()? {
        return None;
    }
    if r.flag()? && r.bits(8)? == 255 {
        r.bits(32)?;
    }
    if r.flag()? {
        r.flag()?;
    }
    if !r.flag()? {
        return None;
    }
    r.bits(3)?;
    let is_full_range = r.flag()?;
    let matrix = if r.flag()? { Some(r.bits(24)? as u8) } else { None };
    Some((Some(is_full_range), matrix))
}

/// A picture parameter set (7.3.2.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pps {
    pub(super) id: u32,
    pub(super) sps: u32,
    /// True if slices are coded arithmetically (CABAC).
    pub(super) is_arithmetic: bool,
    pub(super) has_bottom_poc: bool,
    pub(super) slice_groups: u32,
    pub(super) references: [u32; 2],
    pub(super) has_weights: bool,
    pub(super) bipred_weights: u32,
    pub(super) may_have_redundant_slices: bool,
}

impl Pps {
    /// Reads a picture parameter set; nothing in the same cases as for [`Sps::read`].
    pub(super) fn read(rbsp: &[u8]) -> Option<Self> {
        let mut r = Bits::new(rbsp);
        let id = r.unsigned().filter(|&id| id < 256)?;
        let sps = r.unsigned().filter(|&id| id < 32)?;
        let is_arithmetic = r.flag()?;
        let has_bottom_poc = r.flag()?;
        let slice_groups = r.unsigned()?.checked_add(1)?;
        let mut pps = Self {
            id,
            sps,
            is_arithmetic,
            has_bottom_poc,
            slice_groups,
            references: [1; 2],
            has_weights: false,
            bipred_weights: 0,
            may_have_redundant_slices: false,
        };
        if slice_groups > 1 {
            return Some(pps);
        }
        for count in &mut pps.references {
            *count = 1 + r.unsigned().filter(|&count| count < 32)?;
        }
        pps.has_weights = r.flag()?;
        pps.bipred_weights = r.bits(2).filter(|&kind| kind < 3)?;
        r.signed().filter(|qp| (-62..=25).contains(qp))?;
        r.signed()?;
        r.signed().filter(|offset| (-12..=12).contains(offset))?;
        r.bits(2)?;
        pps.may_have_redundant_slices = r.flag()?;
        Some(pps)
    }
}

/// The kinds of slices (7.4.3, table 7-6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SliceKind {
    P,
    B,
    I,
    /// SP or SI.
    Switching,
}

/// A command on the reference pictures (7.4.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marking {
    /// Forgets the short-term reference whose number lies so far back.
    ForgetShort(u32),
    ForgetLong(u32),
    /// Makes a short-term reference a long-term one of the given index.
    MakeLong(u32, u32),
    /// Forgets long-term references from this index on.
    LimitLong(u32),
    ForgetAll,
    /// Makes the picture itself a long-term reference of this index.
    StayLong(u32),
}

/// A slice header (7.3.3), as far as the marking of reference pictures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SliceHeader {
    pub(super) first_macroblock: u32,
    pub(super) kind: SliceKind,
    pub(super) frame_num: u32,
    pub(super) is_field: bool,
    /// The commands, if the slice has them instead of the sliding window.
    pub(super) markings: Option<Vec<Marking>>,
    /// True for an IDR picture that is a long-term reference.
    pub(super) is_long_term: bool,
}

/// Maximum number of commands of a list: more than the 33 places of a list can use.
const MAX_COMMANDS: usize = 66;

impl SliceHeader {
    /// Returns the type of a slice: 2 or 7 for I.
    fn slice_type(rbsp: &[u8]) -> Option<u32> {
        let mut r = Bits::new(rbsp);
        r.unsigned()?;
        r.unsigned()
    }

    /// Returns the number of the picture parameter set of a slice.
    pub(super) fn pps(rbsp: &[u8]) -> Option<u32> {
        let mut r = Bits::new(rbsp);
        r.unsigned()?;
        r.unsigned()?;
        r.unsigned()
    }

    /// Reads a slice header; nothing in the same cases as for [`Sps::read`]. That of an SP or SI slice ends with that fact.
    pub(super) fn read(rbsp: &[u8], nal: &Nal<'_>, sps: &Sps, pps: &Pps) -> Option<Self> {
        let is_idr = nal.kind == kind::IDR_SLICE;
        let mut r = Bits::new(rbsp);
        let first_macroblock = r.unsigned()?;
        let kind = match r.unsigned()? {
            0 | 5 => SliceKind::P,
            1 | 6 => SliceKind::B,
            2 | 7 => SliceKind::I,
            3 | 4 | 8 | 9 => SliceKind::Switching,
            _ => return None,
        };
        r.unsigned()?;
        let frame_num = r.bits(sps.log2_max_frame_num)?;
        let is_field = !sps.has_frames_only && r.flag()?;
        if is_field {
            // bottom_field_flag
            r.flag()?;
        }
        let mut header = Self {
            first_macroblock,
            kind,
            frame_num,
            is_field,
            markings: None,
            is_long_term: false,
        };
        if kind == SliceKind::Switching {
            return Some(header);
        }
        if is_idr {
            r.unsigned()?;
        }
        if sps.poc_type == 0 {
            r.bits(sps.log2_max_poc_lsb)?;
            if pps.has_bottom_poc && !is_field {
                r.signed()?;
            }
        } else if sps.poc_type == 1 && !sps.is_delta_poc_zero {
            r.signed()?;
            if pps.has_bottom_poc && !is_field {
                r.signed()?;
            }
        }
        let lists = match kind {
            SliceKind::I | SliceKind::Switching => 0,
            SliceKind::P => 1,
            SliceKind::B => 2,
        };
        if kind == SliceKind::B {
            r.flag()?;
        }
        let mut references = pps.references;
        if lists > 0 && r.flag()? {
            for count in &mut references[..lists] {
                *count = 1 + r.unsigned().filter(|&count| count < 32)?;
            }
        }
        for _ in 0..lists {
            modifications(&mut r)?;
        }
        if kind == SliceKind::P && pps.has_weights
            || kind == SliceKind::B && pps.bipred_weights == 1
        {
            weights(&mut r, &references[..lists], sps.chroma_format != 0)?;
        }
        if is_idr {
            r.flag()?;
            header.is_long_term = r.flag()?;
        } else if nal.ref_idc > 0 && r.flag()? {
            header.markings = Some(markings(&mut r)?);
        }
        Some(header)
    }
}

/// Skips the modifications of a reference list (7.3.3.1).
fn modifications(r: &mut Bits<'_>) -> Option<()> {
    if !r.flag()? {
        return Some(());
    }
    for _ in 0..MAX_COMMANDS {
        match r.unsigned()? {
            3 => return Some(()),
            0..=2 => r.unsigned()?,
            _ => return None,
        };
    }
    None
}

/// Skips the weights of prediction (7.3.3.2).
fn weights(r: &mut Bits<'_>, references: &[u32], has_chroma: bool) -> Option<()> {
    for _ in 0..1 + usize::from(has_chroma) {
        r.unsigned().filter(|&shift| shift <= 7)?;
    }
    for _ in 0..references.iter().sum() {
        for pairs in [1, 2].into_iter().take(1 + usize::from(has_chroma)) {
            if r.flag()? {
                for _ in 0..2 * pairs {
                    r.signed().filter(|value| (-128..=128).contains(value))?;
                }
            }
        }
    }
    Some(())
}

/// Reads commands on reference pictures (7.3.3.3).
fn markings(r: &mut Bits<'_>) -> Option<Vec<Marking>> {
    let mut found = Vec::new();
    while found.len() < MAX_COMMANDS {
        found.push(match r.unsigned()? {
            0 => return Some(found),
            1 => Marking::ForgetShort(r.unsigned()?),
            2 => Marking::ForgetLong(r.unsigned()?),
            3 => Marking::MakeLong(
                r.unsigned().filter(|&back| back < 1 << 16)?,
                r.unsigned().filter(|&to| to < 16)?,
            ),
            4 => Marking::LimitLong(r.unsigned().filter(|&count| count <= 16)?),
            5 => Marking::ForgetAll,
            6 => Marking::StayLong(r.unsigned().filter(|&to| to < 16)?),
            _ => return None,
        });
    }
    None
}

/// Returns the number of frames after which a picture is exact if decoding starts at it, from its recovery point (D.1.8).
pub(super) fn recovery_frames(sei: &[u8]) -> Option<u32> {
    let mut rest = sei;
    let number = |rest: &mut &[u8]| -> Option<usize> {
        let mut sum = 0;
        loop {
            let (&byte, after) = rest.split_first()?;
            *rest = after;
            sum += usize::from(byte);
            if byte != 255 {
                return Some(sum);
            }
        }
    };
    loop {
        let kind = number(&mut rest)?;
        let size = number(&mut rest)?;
        let (payload, after) = rest.split_at_checked(size)?;
        if kind == 6 {
            return Bits::new(payload).unsigned();
        }
        rest = after;
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Bits in the order of the syntax.
    #[derive(Clone, Default)]
    struct Writer(Vec<bool>);

    impl Writer {
        fn bits(mut self, count: u32, value: u32) -> Self {
            self.0.extend((0..count).rev().map(|bit| value >> bit & 1 == 1));
            self
        }

        fn unsigned(self, value: u32) -> Self {
            let bits = 32 - (value + 1).leading_zeros();
            self.bits(2 * bits - 1, value + 1)
        }

        fn signed(self, value: i32) -> Self {
            self.unsigned(if value > 0 {
                2 * value.unsigned_abs() - 1
            } else {
                2 * value.unsigned_abs()
            })
        }

        fn bytes(&self) -> Vec<u8> {
            let mut bits = self.0.clone();
            bits.push(true);
            let byte = |bits: &[bool]| {
                bits.iter().zip(0..).fold(0, |byte, (&bit, at)| byte | u8::from(bit) << (7 - at))
            };
            bits.chunks(8).map(byte).collect()
        }
    }

    /// Returns a parameter set of the main profile, of 4x3 macroblocks, with 4 bits for frame numbers.
    fn main_profile(reference_frames: u32) -> Writer {
        let start = Writer::default().bits(8, 77).bits(16, 0).unsigned(2).unsigned(0).unsigned(2);
        start.unsigned(reference_frames).bits(1, 0).unsigned(3).unsigned(2).bits(1, 1).bits(1, 1)
    }

    pub(crate) fn sps(reference_frames: u32) -> Sps {
        Sps::read(&main_profile(reference_frames).bits(1, 0).bits(1, 0).bytes()).unwrap()
    }

    fn pps() -> Writer {
        let start = Writer::default().unsigned(5).unsigned(2).bits(1, 1).bits(1, 0).unsigned(0);
        start
            .unsigned(2)
            .unsigned(0)
            .bits(1, 0)
            .bits(2, 0)
            .signed(0)
            .signed(0)
            .signed(-2)
            .bits(3, 0b100)
    }

    #[test]
    fn a_sequence_parameter_set_is_read() {
        // Cropped by 1, 2, 0 and 3 units of two pixels, with square pixels, full range and BT.709.
        let cropped = main_profile(3).bits(1, 1).unsigned(1).unsigned(2).unsigned(0).unsigned(3);
        let vui =
            cropped.bits(1, 1).bits(1, 1).bits(8, 1).bits(1, 0).bits(1, 1).bits(3, 5).bits(1, 1);
        let bytes = vui.clone().bits(1, 1).bits(24, 0x01_01_01).bytes();
        let read = Sps::read(&bytes).unwrap();
        assert_eq!((read.id, read.profile, read.reference_frames), (2, 77, 3));
        assert_eq!(read.coded_size(), [64, 48]);
        assert_eq!(read.size(), Some([64 - 6, 48 - 6]));
        assert_eq!((read.is_full_range, read.matrix), (Some(true), Some(1)));
        let whole = Sps::read(&read.without_cropping(&bytes)).unwrap();
        assert_eq!((whole.size(), whole.matrix), (Some([64, 48]), Some(1)));
        // A VUI that is cut does not matter.
        assert_eq!(Sps::read(&vui.bytes()).unwrap().size(), read.size());
        let nothing =
            main_profile(3).bits(1, 1).unsigned(31).unsigned(1).unsigned(0).unsigned(0).bits(1, 0);
        assert_eq!(Sps::read(&nothing.bytes()).unwrap().size(), None);
    }

    #[test]
    fn values_that_the_standard_does_not_allow_are_refused() {
        assert_eq!(Sps::read(&main_profile(17).bits(2, 0).bytes()), None);
        let frame_numbers = Writer::default().bits(8, 77).bits(16, 0).unsigned(0).unsigned(13);
        assert_eq!(Sps::read(&frame_numbers.bits(64, 0).bytes()), None);
        let references =
            Writer::default().unsigned(0).unsigned(0).bits(2, 0).unsigned(0).unsigned(32);
        assert_eq!(Pps::read(&references.bits(32, !0).bytes()), None);
        assert_eq!(
            Pps::read(&pps().bytes()).map(|pps| (pps.id, pps.sps, pps.references)),
            Some((5, 2, [3, 1]))
        );
    }

    #[test]
    fn a_slice_header_is_read() {
        let (sps, pps) = (sps(3), Pps::read(&pps().bytes()).unwrap());
        let nal = Nal { ref_idc: 1, kind: kind::SLICE, payload: &[] };
        let start = Writer::default().unsigned(0).unsigned(5).unsigned(5).bits(4, 9);
        // Two references, one modification of their list.
        let lists =
            start.clone().bits(1, 1).unsigned(1).bits(1, 1).unsigned(0).unsigned(4).unsigned(3);
        let commands = lists
            .clone()
            .bits(1, 1)
            .unsigned(1)
            .unsigned(2)
            .unsigned(3)
            .unsigned(0)
            .unsigned(1)
            .unsigned(0);
        let header = SliceHeader::read(&commands.bytes(), &nal, &sps, &pps).unwrap();
        assert_eq!((header.kind, header.frame_num, header.first_macroblock), (SliceKind::P, 9, 0));
        assert_eq!(header.markings, Some(vec![Marking::ForgetShort(2), Marking::MakeLong(0, 1)]));
        assert_eq!(SliceHeader::pps(&commands.bytes()), Some(5));
        // More references than a list may have: the decoder would allocate them.
        let many = start.bits(1, 1).unsigned(1 << 30).bits(64, !0);
        assert_eq!(SliceHeader::read(&many.bytes(), &nal, &sps, &pps), None);
        // A list of commands without an end.
        let endless = (0..=MAX_COMMANDS).fold(lists.bits(1, 1), |commands, _| commands.unsigned(5));
        assert_eq!(SliceHeader::read(&endless.unsigned(0).bytes(), &nal, &sps, &pps), None);
    }

    #[test]
    fn bytes_that_end_anywhere_do_not_panic() {
        let all = [
            main_profile(3).bits(2, 1).bits(64, !0).bytes(),
            pps().bits(64, 0).bytes(),
            vec![0; 40],
            vec![255; 40],
        ];
        let (sps, pps) = (sps(3), Pps::read(&pps().bytes()).unwrap());
        let nal = Nal { ref_idc: 1, kind: kind::SLICE, payload: &[] };
        for bytes in all {
            for end in 0..bytes.len() {
                let _ = (
                    Sps::read(&bytes[..end]),
                    Pps::read(&bytes[..end]),
                    recovery_frames(&bytes[..end]),
                );
                let _ = SliceHeader::read(&bytes[..end], &nal, &sps, &pps);
                let _ = avc_configuration(&bytes[..end]);
            }
        }
    }

    #[test]
    fn emulation_prevention_bytes_are_left_out() {
        let rbsp = |payload: &'static [u8]| Nal { ref_idc: 0, kind: 1, payload }.rbsp();
        assert!(matches!(rbsp(&[0, 0, 2, 3]), Cow::Borrowed(_)));
        assert_eq!(rbsp(&[0, 0, 3, 1, 0, 0, 3, 0, 0, 3])[..], [0, 0, 1, 0, 0, 0, 0]);
        assert_eq!(rbsp(&[9, 0, 0, 3, 3])[..], [9, 0, 0, 3]);
    }

    #[test]
    fn packets_are_split() {
        let kinds = |framing: Framing, packet: &[u8]| -> Vec<(u8, usize)> {
            framing.split(packet).unwrap().iter().map(|nal| (nal.kind, nal.payload.len())).collect()
        };
        let packet = [0, 0, 0, 1, 0x67, 1, 2, 0, 0, 1, 0x65, 9, 0, 0, 0, 1, 0x41];
        assert_eq!(kinds(Framing::StartCodes, &packet), [(7, 2), (5, 1), (1, 0)]);
        assert_eq!(
            kinds(Framing::Lengths(2), &[0, 2, 0x65, 9, 0, 0, 0, 1, 0x41]),
            [(5, 1), (1, 0)]
        );
        assert!(Framing::Lengths(4).split(&[0, 0, 0, 9, 0x65]).is_err());
        assert!(Framing::Lengths(4).has_reference(&[0, 0, 0, 1, 0x65]));
        assert!(!Framing::Lengths(4).has_reference(&[0, 0, 0, 1, 0x01]));
        let configuration = [1, 77, 0, 30, 0xff, 0xe1, 0, 2, 0x67, 5, 1, 0, 1, 0x68];
        let (framing, units) = avc_configuration(&configuration).unwrap();
        assert_eq!((framing, units.len()), (Framing::of(&configuration), 2));
    }

    #[test]
    fn decoding_starts_where_the_stream_says_that_pictures_are_exact() {
        let slice = |header: u8, kind: u32| {
            let bytes = Writer::default().unsigned(0).unsigned(kind).bits(8, 0x55).bytes();
            [&[0, 0, 1, header][..], &bytes].concat()
        };
        let recovery = |frames: u32| {
            let message = Writer::default().unsigned(frames).bits(4, 8).bytes();
            [&[0, 0, 1, 6, 6, message.len() as u8][..], &message, &[0x80]].concat()
        };
        let (i, p) = (slice(0x41, 7), slice(0x41, 5));
        let start = |units: &[&[u8]]| Framing::StartCodes.start(&units.concat());
        assert_eq!(start(&[&slice(0x65, 7)]), Start::Closed);
        assert_eq!(start(&[&recovery(0), &i]), Start::Open);
        // Later pictures may look behind an I picture of a scene cut.
        assert_eq!(start(&[&i]), Start::Unstated);
        assert_eq!(start(&[&i, &p]), Start::Never);
        assert_eq!(start(&[&recovery(0), &p]), Start::Never);
        assert_eq!(start(&[&recovery(9), &p]), Start::Gradual);
        assert_eq!(start(&[&p]), Start::Never);
        assert_eq!(start(&[&recovery(0)]), Start::Never);
    }

    #[test]
    fn a_recovery_point_is_found_after_other_messages() {
        let message =
            [[5, 3, 1, 2, 3, 6, 1].as_slice(), &Writer::default().unsigned(9).bits(1, 1).bytes()]
                .concat();
        assert_eq!(recovery_frames(&message), Some(9));
        assert_eq!(recovery_frames(&[5, 1, 0, 0x80]), None);
    }
}
