//! Checks that must hold for any bytes. Fuzz targets run them, and so do tests.
//!
//! A check returns whether the bytes were read.

use crate::{Backend, VideoDecoder, VideoIndex, VideoLimits, avi, matroska, mp4};

/// An AVI file of any bytes is read or refused.
pub fn avi(bytes: &[u8]) -> bool {
    avi::is_avi(bytes) && container(bytes)
}

/// An MP4 or MOV file of any bytes is read or refused.
pub fn mp4(bytes: &[u8]) -> bool {
    mp4::is_mp4(bytes) && container(bytes)
}

/// A Matroska or WebM file of any bytes is read or refused.
pub fn matroska(bytes: &[u8]) -> bool {
    matroska::is_matroska(bytes) && container(bytes)
}

/// A file of any bytes is read or refused. The packets of an index lie in the file, plans for its frames have these frames'
/// packets, and the index that is saved and read back is the same.
pub fn container(bytes: &[u8]) -> bool {
    let Ok(index) = VideoIndex::read(&bytes, &VideoLimits::SMALL) else { return false };
    holds(&index, bytes.len() as u64);
    true
}

/// The first, the middle and the last frame of a file of any bytes are decoded in Rust, or refused. Twice the same frames come
/// of them.
pub fn frames(bytes: &[u8]) -> bool {
    let Ok(index) = VideoIndex::read(&bytes, &VideoLimits::SMALL) else { return false };
    let Ok(mut decoder) = VideoDecoder::open(&index, Backend::Rust, &VideoLimits::SMALL) else {
        return false;
    };
    let count = index.frame_count() as u32;
    let plan = index.plan(&[0, count / 2, count - 1]).unwrap_or_default();
    let mut decode = || {
        let mut frames = vec![];
        let decoded = decoder.decode(&index, &plan, &bytes, &mut |number, frame| {
            assert_eq!(frame.plane(0).len(), frame.width as usize * frame.height as usize);
            frames.push((number, frame.clone()));
            Ok(())
        });
        (frames, decoded.is_ok())
    };
    let first = decode();
    assert!(decode() == first);
    first.1
}

/// The bytes of a saved index, with a checksum that is put right, are read or refused. The first 8 bytes are the length of
/// the video file.
pub fn saved_video_index(bytes: &[u8]) -> bool {
    let Some((file_len, body)) = bytes.split_first_chunk() else { return false };
    let file_len = u64::from_le_bytes(*file_len);
    let saved = [body, &crc32c::crc32c(body).to_le_bytes()].concat();
    let Ok(index) = VideoIndex::from_bytes(&saved, file_len, &VideoLimits::SMALL) else {
        return false;
    };
    holds(&index, file_len);
    true
}

fn holds(index: &VideoIndex, file_len: u64) {
    let ends = index.packets().iter().map(|packet| packet.offset + u64::from(packet.size));
    assert!({ ends }.all(|end| end <= file_len));
    let count = index.frame_count() as u32;
    for frames in [&[0][..], &[count / 2, count / 3], &[count - 1, 0, count / 4]] {
        let plan = index.plan(frames).unwrap_or_default();
        let mut planned: Vec<u32> = plan.runs.iter().flat_map(|run| run.frames.clone()).collect();
        planned.sort_unstable();
        let mut sorted = frames.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(planned, sorted);
        for run in &plan.runs {
            let order = index.presentation_order(&run.packets);
            let of = |frame: &u32| index.frames()[*frame as usize].packet;
            assert!(run.frames.iter().all(|frame| order.contains(&of(frame))));
        }
    }
    let saved = index.to_bytes(file_len);
    let limits = VideoLimits { max_packets: u64::MAX, ..VideoLimits::DEFAULT };
    assert_eq!(VideoIndex::from_bytes(&saved, file_len, &limits).ok().as_ref(), Some(index));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_of_fuzz_targets_are_read() {
        let seed = b"\x40\0\0\0\0\0\0\0FLVI\x01\x40\0MJPG\x10\x10\0\0\0\x02\x01\x19\0\0\x01\x17\x08\0\x01\0\0";
        assert!(saved_video_index(seed));
        // A frame of a packet that gives no picture.
        let mut hidden = seed.to_vec();
        let size = hidden.iter().position(|&byte| byte == 0x17).unwrap();
        hidden[size] = 0x16;
        assert!(!saved_video_index(&hidden));
        let golden = |name: &str| {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/containers/");
            std::fs::read(format!("{folder}{name}")).unwrap()
        };
        assert!(frames(&golden("../frames/high.mp4")) && !frames(&golden("../frames/vp9.webm")));
        assert!(
            avi(&golden("open_dml.avi"))
                && mp4(&golden("fragments.mp4"))
                && matroska(&golden("live.webm"))
        );
        assert!(
            !avi(&golden("live.webm"))
                && !mp4(&golden("open_dml.avi"))
                && !matroska(&golden("fragments.mp4"))
        );
    }
}
