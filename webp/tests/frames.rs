//! Frames against libwebp's pixels (`scripts/webp_frame_goldens.py`), the crate image-webp, and damage.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

use fuseloop_ops::Size;
use fuseloop_ops::author::Window;
use fuseloop_webp::fuzzing::lossy_frame;
use fuseloop_webp::{LossyDecoder, LossyError, frame_size};
use image_webp::WebPDecoder;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::io::Cursor;
use std::path::PathBuf;

/// The bytes before the frame of a file with one chunk.
const HEADERS: usize = 20;

fn golden(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    std::fs::read(folder.join(name)).unwrap()
}

/// Returns the lines of a golden's list: a name, a size, and the SHA-256 of the pixels.
fn goldens() -> Vec<(String, Size, String)> {
    let list = String::from_utf8(golden("pixels.txt")).unwrap();
    let line = |line: &str| {
        let [name, width, height, digest]: [&str; 4] =
            line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let size = Size::new(height.parse().unwrap(), width.parse().unwrap());
        (name.to_owned(), size, digest.to_owned())
    };
    list.lines().map(line).collect()
}

fn below(rng: &mut Xoshiro256PlusPlus, most: u32) -> u32 {
    (rng.next_u64() % u64::from(most)) as u32
}

fn random_window(rng: &mut Xoshiro256PlusPlus, size: Size) -> Window {
    let (top, left) = (below(rng, size.height), below(rng, size.width));
    let (height, width) = (1 + below(rng, size.height - top), 1 + below(rng, size.width - left));
    Window { top, left, height, width }
}

fn decode(decoder: &mut LossyDecoder, frame: &[u8], window: Window) -> Result<Vec<u8>, LossyError> {
    let mut rgb = vec![7; 3 * window.size().pixels() as usize];
    decoder.decode(frame, window, &mut rgb)?;
    Ok(rgb)
}

fn cut(whole: &[u8], size: Size, window: Window) -> Vec<u8> {
    let rows = whole.chunks(3 * size.width as usize).skip(window.top as usize);
    let columns = 3 * window.left as usize..3 * (window.left + window.width) as usize;
    rows.take(window.height as usize).flat_map(|row| &row[columns.clone()]).copied().collect()
}

#[test]
fn pixels_are_those_of_libwebp_in_every_window() {
    let mut decoder = LossyDecoder::default();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    for (name, size, digest) in goldens() {
        let file = golden(&name);
        let frame = &file[HEADERS..];
        assert_eq!(frame_size(frame), Ok(size), "{name}");
        let whole = decode(&mut decoder, frame, size.full()).unwrap();
        let found = Sha256::digest(&whole).iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        assert_eq!(found, digest, "{name}");
        for _ in 0..60 {
            let window = random_window(&mut rng, size);
            let found = decode(&mut decoder, frame, window).unwrap();
            assert!(found == cut(&whole, size, window), "{window:?} of {name}");
        }
    }
}

/// Writes what the boolean entropy decoder reads (RFC 6386, section 7.3).
struct BoolEncoder {
    out: Vec<u8>,
    range: u32,
    bottom: u32,
    bits: i32,
}

impl BoolEncoder {
    fn new() -> Self {
        Self { out: vec![], range: 255, bottom: 0, bits: 24 }
    }

    fn bit(&mut self, probability: u8, bit: bool) {
        let split = 1 + (((self.range - 1) * u32::from(probability)) >> 8);
        if bit {
            self.range -= split;
            let (bottom, carries) = self.bottom.overflowing_add(split);
            self.bottom = bottom;
            if carries {
                self.carry();
            }
        } else {
            self.range = split;
        }
        while self.range < 128 {
            self.range <<= 1;
            if self.bottom & 1 << 31 != 0 {
                self.carry();
            }
            self.bottom <<= 1;
            self.bits -= 1;
            if self.bits == 0 {
                self.out.push((self.bottom >> 24) as u8);
                self.bottom &= (1 << 24) - 1;
                self.bits = 8;
            }
        }
    }

    fn carry(&mut self) {
        let last = self.out.iter().rposition(|&byte| byte != 255).unwrap();
        self.out[last] += 1;
        self.out[last + 1..].fill(0);
    }

    fn literal(&mut self, bits: u32, number: u32) {
        for i in (0..bits).rev() {
            self.bit(128, number >> i & 1 == 1);
        }
    }

    /// A number with a sign, or none.
    fn optional(&mut self, bits: u32, number: Option<u32>) {
        self.literal(1, number.is_some().into());
        if let Some(number) = number {
            self.literal(bits + 1, number);
        }
    }

    fn finish(mut self) -> Vec<u8> {
        self.literal(32, 0);
        self.out
    }
}

/// The tables of the library, whose order the header has.
#[path = "../src/tables.rs"]
#[allow(dead_code, reason = "the test needs one of them")]
mod tables;

/// Returns a frame with a header of any settings, whose predictions and coefficients are those of random bytes.
fn random_frame(rng: &mut Xoshiro256PlusPlus) -> (Size, Vec<u8>) {
    let size = Size::new(1 + below(rng, 70), 1 + below(rng, 70));
    let mut header = BoolEncoder::new();
    let coin = |rng: &mut Xoshiro256PlusPlus| below(rng, 2) == 1;
    header.literal(2, 0);
    let has_segments = coin(rng);
    header.literal(1, has_segments.into());
    if has_segments {
        let is_mapped = coin(rng);
        header.literal(1, is_mapped.into());
        header.literal(1, 1);
        header.literal(1, below(rng, 2));
        for bits in [7, 7, 7, 7, 6, 6, 6, 6] {
            // Steps stay small, so that no sum of a transform is beyond 16 bits.
            let most = if bits == 7 { 60 } else { 128 };
            let number = coin(rng).then(|| below(rng, most));
            header.optional(bits, number);
        }
        if is_mapped {
            for _ in 0..3 {
                let probability = coin(rng).then(|| below(rng, 256));
                header.literal(1, probability.is_some().into());
                if let Some(probability) = probability {
                    header.literal(8, probability);
                }
            }
        }
    }
    header.literal(1, below(rng, 2));
    header.literal(6, [0, 5, 20, 45, 63][below(rng, 5) as usize]);
    header.literal(3, below(rng, 8));
    let has_deltas = coin(rng);
    header.literal(1, has_deltas.into());
    if has_deltas {
        header.literal(1, 1);
        for _ in 0..8 {
            let delta = coin(rng).then(|| below(rng, 128));
            header.optional(6, delta);
        }
    }
    let partitions = below(rng, 4);
    header.literal(2, partitions);
    header.literal(7, below(rng, 30));
    for _ in 0..5 {
        let delta = coin(rng).then(|| below(rng, 32));
        header.optional(4, delta);
    }
    header.literal(1, below(rng, 2));
    // Large magnitudes are rare, ends and zeros as likely as the round says.
    let (end, zero) = (1 + below(rng, 255), 1 + below(rng, 255));
    for updates in tables::UPDATE_PROBABILITIES.as_flattened().as_flattened() {
        for (i, &update) in updates.iter().enumerate() {
            let probability = match i {
                0 => 256 - end,
                1 => zero,
                2..4 => 150 + below(rng, 100),
                6 => 253,
                _ => 1 + below(rng, 255),
            };
            header.bit(update, true);
            header.literal(8, probability);
        }
    }
    let can_skip = coin(rng);
    header.literal(1, can_skip.into());
    if can_skip {
        header.literal(8, 1 + below(rng, 255));
    }
    let mut bytes = |len: usize| -> Vec<u8> { (0..len).map(|_| rng.next_u64() as u8).collect() };
    let first = [header.finish(), bytes(3000)].concat();
    let mut frame = ((first.len() as u32) << 5 | 1 << 4).to_le_bytes()[..3].to_vec();
    frame.extend([0x9d, 0x01, 0x2a]);
    frame.extend((size.width as u16).to_le_bytes());
    frame.extend((size.height as u16).to_le_bytes());
    frame.extend(first);
    let len = 60_000;
    for _ in 1..1 << partitions {
        frame.extend(&(len as u32).to_le_bytes()[..3]);
    }
    frame.extend(bytes(len << partitions));
    (size, frame)
}

/// Returns a file with the frame as its only chunk.
fn file(frame: &[u8]) -> Vec<u8> {
    let len = frame.len() as u32;
    let riff = (12 + len).to_le_bytes();
    [b"RIFF", &riff[..], b"WEBPVP8 ", &len.to_le_bytes(), frame].concat()
}

#[test]
fn random_frames_are_decoded_as_by_another_decoder() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
    let mut decoder = LossyDecoder::default();
    let (mut decoded, mut differ) = (0, 0);
    for round in 0..400 {
        let (size, frame) = random_frame(&mut rng);
        assert_eq!(frame_size(&frame), Ok(size));
        let found = decode(&mut decoder, &frame, size.full());
        let file = file(&frame);
        let mut other = WebPDecoder::new(Cursor::new(&file[..])).unwrap();
        let mut want = vec![0; other.output_buffer_size().unwrap()];
        let result = other.read_image(&mut want);
        let found = found.unwrap_or_else(|error| panic!("round {round}, {size}: {error}"));
        assert!(result.is_ok(), "round {round}, {size}: {result:?}");
        if found != want {
            differ += 1;
            continue;
        }
        decoded += usize::from(found.iter().any(|&level| level != found[0]));
        for _ in 0..4 {
            let window = random_window(&mut rng, size);
            let part = decode(&mut decoder, &frame, window).unwrap();
            assert!(part == cut(&found, size, window), "round {round}: {window:?} of {size}");
        }
    }
    // Some coefficients are so large that sums of their transforms do not fit in 16 bits, as libwebp has them; image-webp
    // has 32 bits.
    assert!(differ < 8, "{differ} of 400 differ");
    assert!(decoded > 300, "{decoded} of 400 are pictures");
}

#[test]
fn frames_cut_short_or_changed_are_refused_or_decoded() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    for (name, ..) in goldens() {
        let frame = golden(&name)[HEADERS..].to_vec();
        assert!(lossy_frame(&frame), "{name}");
        let step = 1 + frame.len() / 100;
        let good = (0..frame.len()).step_by(step).filter(|&end| lossy_frame(&frame[..end])).count();
        assert!(good < 8, "{good} cuts of {name} are frames");
        for _ in 0..100 {
            let mut changed = frame.clone();
            for _ in 0..1 + below(&mut rng, 4) {
                let at = below(&mut rng, frame.len() as u32) as usize;
                changed[at] = rng.next_u64() as u8;
            }
            let _ = lossy_frame(&changed);
        }
    }
}

#[test]
fn what_is_below_the_window_is_not_read() {
    let (name, size, _) = goldens().swap_remove(0);
    let frame = golden(&name)[HEADERS..].to_vec();
    // The first of four partitions of coefficients would end a window of all rows.
    let window = Window { top: 0, left: 0, height: 8, width: size.width };
    let mut decoder = LossyDecoder::default();
    let want = decode(&mut decoder, &frame, window).unwrap();
    let end = frame.len() * 3 / 4;
    assert_eq!(decode(&mut decoder, &frame[..end], window), Ok(want));
    let refused = decode(&mut decoder, &frame[..end], size.full()).unwrap_err();
    assert_eq!(refused.to_string(), "the frame ends inside its coefficients");
}

#[test]
fn what_is_asked_for_is_checked() {
    let (name, size, _) = goldens().swap_remove(0);
    let frame = golden(&name)[HEADERS..].to_vec();
    let mut decoder = LossyDecoder::default();
    for window in [
        Window { height: 0, ..size.full() },
        Window { left: size.width, width: 1, ..size.full() },
        Window { top: u32::MAX, height: u32::MAX, ..size.full() },
    ] {
        assert_eq!(decoder.decode(&frame, window, &mut []), Err(LossyError::Window));
    }
    let expected = 3 * size.pixels() as usize;
    let refused = decoder.decode(&frame, size.full(), &mut [0; 5]).unwrap_err();
    assert_eq!(refused, LossyError::Buffer { expected, found: 5 });
    let with = |at: usize, byte: u8| {
        let mut changed = frame.clone();
        changed[at] = byte;
        frame_size(&changed).unwrap_err().to_string()
    };
    assert_eq!(with(0, frame[0] | 1), "the frame is no key frame");
    assert_eq!(with(0, frame[0] | 0xe), "the frame's version is 7, expected 0 to 3");
    assert_eq!(with(0, frame[0] & 0xef), "the frame is not to be shown");
    assert_eq!(with(3, 7), "the frame's start code is 07 01 2a, expected 9d 01 2a");
    assert_eq!(
        frame_size(&frame[..9]).unwrap_err().to_string(),
        "the frame ends inside its header"
    );
}
