//! The reference pictures that a decoder keeps (ITU-T H.264, 8.2.4 and 8.2.5), by number and without their samples.
//!
//! The decoder proper keeps every picture that the marking commands of a stream let it keep, which a damaged stream can
//! make any number. This model marks in the same way, for pictures that are whole frames, and counts.

use super::syntax::{Marking, SliceHeader, SliceKind, Sps};

/// Maximum number of pictures that a stream may keep: twice what the standard allows.
const MAX_KEPT: usize = 32;

/// The pictures that are kept.
#[derive(Debug, Default)]
pub(super) struct References {
    /// The frame numbers of short-term references, the oldest first.
    short: Vec<u32>,
    /// The indices of long-term references.
    long: Vec<u32>,
    /// The frame number of the last reference picture; nothing before the first one.
    previous: Option<u32>,
    /// True while the pictures that lead the first one may be missing.
    may_skip: bool,
}

impl References {
    /// Returns the state at the start of a run of packets.
    pub(super) fn new() -> Self {
        Self { may_skip: true, ..Self::default() }
    }

    /// Checks that the references of a picture are there, and marks those that are numbered but not coded.
    pub(super) fn begin(
        &mut self,
        header: &SliceHeader,
        is_idr: bool,
        sps: &Sps,
    ) -> Result<(), String> {
        if is_idr {
            self.may_skip = false;
            return Ok(());
        }
        if let Some(previous) = self.previous {
            let max = 1 << sps.log2_max_frame_num;
            let found = header.frame_num;
            if found != previous && found != (previous + 1) % max {
                if !sps.may_skip_frame_nums && !self.may_skip {
                    return Err(format!(
                        "frame number {found} follows {previous}: pictures are missing"
                    ));
                }
                let missing = (found + max - previous - 1) % max;
                let first = found + max - missing.min(sps.reference_frames.max(1));
                for unused in first..found + max {
                    if self.is_empty() {
                        break;
                    }
                    self.slide(sps);
                    self.short.push(unused % max);
                }
                self.previous = Some((found + max - 1) % max);
            }
            self.may_skip = false;
        }
        if matches!(header.kind, SliceKind::P | SliceKind::B) && self.is_empty() {
            return Err("a picture is predicted from pictures that are missing".into());
        }
        Ok(())
    }

    /// Marks after a reference picture was decoded.
    pub(super) fn end(
        &mut self,
        header: &SliceHeader,
        is_idr: bool,
        sps: &Sps,
    ) -> Result<(), String> {
        let max = 1 << sps.log2_max_frame_num;
        let mut frame_num = header.frame_num;
        let mut stays_long = header.is_long_term.then_some(0);
        if is_idr {
            self.short.clear();
            self.long.clear();
        } else if let Some(markings) = &header.markings {
            for &marking in markings {
                let back = |by: u32| (frame_num + max - (by % max) - 1) % max;
                match marking {
                    Marking::ForgetShort(by) => {
                        let number = back(by);
                        self.short.retain(|&kept| kept != number);
                    }
                    Marking::ForgetLong(index) => self.long.retain(|&kept| kept != index),
                    Marking::MakeLong(by, index) => {
                        let number = back(by);
                        let count = self.short.iter().filter(|&&kept| kept == number).count();
                        if count > 0 {
                            self.short.retain(|&kept| kept != number);
                            self.long.retain(|&kept| kept != index);
                            self.long.extend(vec![index; count]);
                        }
                    }
                    Marking::LimitLong(count) => self.long.retain(|&kept| kept < count),
                    Marking::ForgetAll => {
                        self.short.clear();
                        self.long.clear();
                    }
                    Marking::StayLong(index) => {
                        self.long.retain(|&kept| kept != index);
                        stays_long = Some(index);
                    }
                }
            }
            if markings.contains(&Marking::ForgetAll) {
                frame_num = 0;
            }
        } else {
            self.slide(sps);
        }
        match stays_long {
            Some(index) => self.long.push(index),
            None => self.short.push(frame_num),
        }
        self.previous = Some(frame_num);
        let kept = self.short.len() + self.long.len();
        if kept > MAX_KEPT {
            return Err(format!("{kept} reference pictures are kept, the standard allows 16"));
        }
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.short.is_empty() && self.long.is_empty()
    }

    /// Forgets the oldest short-term references until there is room for another one (8.2.5.3).
    fn slide(&mut self, sps: &Sps) {
        let distinct = |numbers: &[u32]| {
            let mut numbers = numbers.to_vec();
            numbers.sort_unstable();
            numbers.dedup();
            numbers.len()
        };
        while sps.reference_frames > 0
            && distinct(&self.short) + distinct(&self.long) >= sps.reference_frames as usize
        {
            let Some(&oldest) = self.short.first() else { break };
            self.short.retain(|&kept| kept != oldest);
        }
    }
}
