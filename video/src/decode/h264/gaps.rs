//! Finds missing reference pictures in streams that another decoder decodes, which may replace them in silence.

use super::references;
use super::syntax::{Framing, Marking, Nal, Pps, SliceHeader, Sps, avc_configuration, kind};
use crate::{VideoError, VideoErrorKind};
use std::collections::BTreeMap;

/// Number of bytes of a slice in which its header ends. The longest lists have less.
const HEADER_BYTES: usize = 4096;

/// The frame numbers of a run of packets.
pub(in crate::decode) struct Gaps {
    framing: Framing,
    extradata: Vec<u8>,
    sps: BTreeMap<u32, Sps>,
    pps: BTreeMap<u32, Pps>,
    /// The frame number of the last reference picture.
    previous: Option<u32>,
}

/// A frame that is being read: its number, and the one that the next frame follows.
struct Current {
    frame_num: u32,
    after: Option<u32>,
}

fn damaged(message: impl Into<String>) -> VideoError {
    VideoError::new(VideoErrorKind::Damaged, message)
}

impl Gaps {
    pub(in crate::decode) fn new(extradata: &[u8]) -> Self {
        let (sps, pps) = (BTreeMap::new(), BTreeMap::new());
        let framing = Framing::of(extradata);
        Self { framing, extradata: extradata.to_vec(), sps, pps, previous: None }
    }

    /// Begins a run of packets.
    pub(in crate::decode) fn reset(&mut self) {
        let extradata = std::mem::take(&mut self.extradata);
        let units = match avc_configuration(&extradata) {
            Some((_, units)) if extradata.first() == Some(&1) => units,
            _ => Framing::StartCodes.split(&extradata).unwrap_or_default(),
        };
        self.previous = None;
        self.sps.clear();
        self.pps.clear();
        units.iter().for_each(|unit| self.parameter_set(unit));
        self.extradata = extradata;
    }

    fn parameter_set(&mut self, unit: &Nal<'_>) {
        // A damaged one is missing to the slices that name it.
        match unit.kind {
            kind::SPS => {
                self.sps.extend(Sps::read(&unit.rbsp()).map(|sps| (sps.id, sps)));
            }
            kind::PPS => {
                self.pps.extend(Pps::read(&unit.rbsp()).map(|pps| (pps.id, pps)));
            }
            _ => {}
        }
    }

    /// Reads the headers of a packet. `left_out` is the number of packets that the plan leaves out before it.
    ///
    /// # Errors
    ///
    /// Fails if a reference picture is missing between the packets, or a header is damaged.
    pub(in crate::decode) fn check(
        &mut self,
        packet: &[u8],
        left_out: u32,
    ) -> Result<(), VideoError> {
        let units = self.framing.split(packet);
        let units = units.map_err(|fault| damaged(format!("the packet has {fault}")))?;
        let mut current: Option<Current> = None;
        for unit in units {
            if unit.is_slice() {
                self.slice(unit, left_out, &mut current)?;
            } else {
                self.parameter_set(&unit);
            }
        }
        self.previous = current.and_then(|frame| frame.after).or(self.previous);
        Ok(())
    }

    fn slice(
        &mut self,
        unit: Nal<'_>,
        left_out: u32,
        current: &mut Option<Current>,
    ) -> Result<(), VideoError> {
        let start = Nal { payload: &unit.payload[..unit.payload.len().min(HEADER_BYTES)], ..unit };
        let rbsp = start.rbsp();
        let cut = || damaged("the header of a slice is damaged");
        let pps = SliceHeader::pps(&rbsp).ok_or_else(cut)?;
        let pps = self
            .pps
            .get(&pps)
            .ok_or_else(|| damaged(format!("there is no picture parameter set {pps}")))?;
        let no_sps = || damaged(format!("there is no sequence parameter set {}", pps.sps));
        let sps = self.sps.get(&pps.sps).ok_or_else(no_sps)?;
        let header = SliceHeader::read(&rbsp, &unit, sps, pps).ok_or_else(cut)?;
        let is_new = current.as_ref().is_none_or(|frame| frame.frame_num != header.frame_num);
        if is_new {
            self.previous = current.take().and_then(|frame| frame.after).or(self.previous);
            if unit.kind == kind::IDR_SLICE {
                self.previous = None;
            }
            if let Some(previous) = self.previous {
                references::check_frame_num(previous, header.frame_num, left_out, sps)
                    .map_err(damaged)?;
            }
        }
        let forgets = header.markings.is_some_and(|list| list.contains(&Marking::ForgetAll));
        let after = (unit.ref_idc > 0).then_some(if forgets { 0 } else { header.frame_num });
        let frame_num = header.frame_num;
        let frame = current.get_or_insert(Current { frame_num, after: None });
        frame.after = after.or(frame.after);
        Ok(())
    }
}
