//! The reference pictures that a decoder keeps (ITU-T H.264, 8.2.4 and 8.2.5), by number and without their samples.
//!
//! The decoder proper keeps every picture that the marking commands of a stream let it keep, which a damaged stream can
//! make any number. This model marks in the same way, for pictures that are whole frames, and counts.

use super::syntax::{Marking, SliceHeader, SliceKind, Sps};

/// Checks that a frame number follows the one of the last reference picture (7.4.3). `left_out` is the number of packets
/// between them that were left out on purpose. Returns the number of frames that are numbered but not coded.
pub(super) fn check_frame_num(
    previous: u32,
    found: u32,
    left_out: u32,
    sps: &Sps,
) -> Result<u32, String> {
    let max = 1 << sps.log2_max_frame_num;
    if found == previous || found == (previous + 1) % max {
        return Ok(0);
    }
    let missing = (found + max - previous - 1) % max;
    if sps.may_skip_frame_nums || missing <= left_out {
        Ok(missing)
    } else {
        Err(format!("frame number {found} follows {previous}: pictures are missing"))
    }
}

/// The pictures that are kept.
#[derive(Debug, Default)]
pub(super) struct References {
    /// The frame numbers of short-term references, the oldest first.
    short: Vec<u32>,
    /// The indices of long-term references.
    long: Vec<u32>,
    /// The frame number of the last reference picture; nothing before the first one.
    previous: Option<u32>,
}

impl References {
    /// Checks that the references of a picture are there, and marks those that are numbered but not coded. `left_out` is the
    /// number of packets that a plan leaves out before the picture.
    pub(super) fn begin(
        &mut self,
        header: &SliceHeader,
        is_idr: bool,
        left_out: u32,
        sps: &Sps,
    ) -> Result<(), String> {
        if is_idr {
            return Ok(());
        }
        if let Some(previous) = self.previous {
            let max = 1 << sps.log2_max_frame_num;
            let found = header.frame_num;
            let missing = check_frame_num(previous, found, left_out, sps)?;
            if missing > 0 {
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
        let (kept, most) = (self.short.len() + self.long.len(), sps.reference_frames.max(1));
        if kept > most as usize {
            return Err(format!("{kept} reference pictures are kept, the stream states {most}"));
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

#[cfg(test)]
mod tests {
    use super::super::syntax::tests::sps;
    use super::*;

    fn header(kind: SliceKind, frame_num: u32, markings: Option<Vec<Marking>>) -> SliceHeader {
        SliceHeader {
            first_macroblock: 0,
            kind,
            frame_num,
            is_field: false,
            markings,
            is_long_term: false,
        }
    }

    /// Decodes a reference picture.
    fn decode(references: &mut References, sps: &Sps, header: &SliceHeader) -> Result<(), String> {
        let is_idr = header.kind == SliceKind::I;
        references.begin(header, is_idr, 0, sps)?;
        references.end(header, is_idr, sps)
    }

    #[test]
    fn the_window_keeps_the_last_pictures() {
        let (mut references, sps) = (References::default(), sps(3));
        decode(&mut references, &sps, &header(SliceKind::I, 0, None)).unwrap();
        for frame_num in 1..40 {
            decode(&mut references, &sps, &header(SliceKind::P, frame_num % 16, None)).unwrap();
        }
        assert_eq!(references.short, [5, 6, 7]);
    }

    #[test]
    fn commands_are_followed() {
        let (mut references, sps) = (References::default(), sps(4));
        decode(&mut references, &sps, &header(SliceKind::I, 0, None)).unwrap();
        decode(&mut references, &sps, &header(SliceKind::P, 1, None)).unwrap();
        let keep = vec![Marking::MakeLong(1, 0), Marking::StayLong(1)];
        decode(&mut references, &sps, &header(SliceKind::P, 2, Some(keep))).unwrap();
        assert_eq!(
            (references.short.as_slice(), references.long.as_slice()),
            (&[1][..], &[0, 1][..])
        );
        let forget = vec![Marking::ForgetShort(1), Marking::LimitLong(1)];
        decode(&mut references, &sps, &header(SliceKind::P, 3, Some(forget))).unwrap();
        assert_eq!((references.short.as_slice(), references.long.as_slice()), (&[3][..], &[0][..]));
        decode(&mut references, &sps, &header(SliceKind::P, 4, Some(vec![Marking::ForgetAll])))
            .unwrap();
        assert_eq!((references.short.as_slice(), references.long.len()), (&[0][..], 0));
    }

    #[test]
    fn a_stream_that_forgets_no_picture_is_refused() {
        let (mut references, sps) = (References::default(), sps(1));
        decode(&mut references, &sps, &header(SliceKind::I, 0, None)).unwrap();
        let next = |frame_num: u32| header(SliceKind::P, frame_num % 16, Some(vec![]));
        let refused =
            (1..100).find(|&frame_num| decode(&mut references, &sps, &next(frame_num)).is_err());
        assert_eq!(refused, Some(1));
    }

    #[test]
    fn pictures_without_their_references_are_refused() {
        let (mut references, sps) = (References::default(), sps(3));
        assert!(decode(&mut references, &sps, &header(SliceKind::B, 0, None)).is_err());
        decode(&mut references, &sps, &header(SliceKind::I, 15, None)).unwrap();
        let after_gap = header(SliceKind::P, 1, None);
        assert!(decode(&mut references, &sps, &after_gap).is_err());
        // Packets that a plan leaves out may have had the numbers between.
        assert!(
            References::default().begin(&header(SliceKind::B, 0, None), false, 9, &sps).is_err()
        );
        assert_eq!(check_frame_num(15, 1, 1, &sps), Ok(1));
        assert!(check_frame_num(15, 2, 1, &sps).is_err());
        decode(&mut references, &sps, &header(SliceKind::P, 0, None)).unwrap();
    }

    #[test]
    fn numbers_that_a_stream_may_skip_are_kept_without_pictures() {
        let (mut references, mut sps) = (References::default(), sps(3));
        sps.may_skip_frame_nums = true;
        decode(&mut references, &sps, &header(SliceKind::I, 14, None)).unwrap();
        decode(&mut references, &sps, &header(SliceKind::P, 2, None)).unwrap();
        assert_eq!(references.short, [0, 1, 2]);
    }
}
