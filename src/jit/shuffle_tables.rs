//! The shuffles of a group of pixels, which the compiled code loads by the names of [`shuffles`].

use super::param_block::shuffles;
use fuseloop_ops::DType;
use fuseloop_ops::internals::{MAX_CHANNELS, PixelFormat};

/// The vectors that [`shuffles`] names, aligned for loads.
#[repr(align(16))]
struct Shuffles([[u8; 16]; shuffles::BYTES / 16]);

/// The shuffles for a group in order, and for a mirrored group, of 1 to 4 channels.
static SHUFFLES: [[Shuffles; 2]; MAX_CHANNELS] = [
    [shuffles_of(1, false), shuffles_of(1, true)],
    [shuffles_of(2, false), shuffles_of(2, true)],
    [shuffles_of_rgb(false), shuffles_of_rgb(true)],
    [shuffles_of(4, false), shuffles_of(4, true)],
];

/// The shuffles for elements of more than a byte, by the place of an element in its lane, the number of
/// channels, and whether the group is mirrored.
static WIDE_SHUFFLES: [[[WideShuffles; 2]; MAX_CHANNELS]; 3] =
    [wide_shuffles(Lane::LowHalf), wide_shuffles(Lane::HighHalf), wide_shuffles(Lane::Whole)];

/// Like [`Shuffles`], for elements of more than a byte.
#[repr(align(16))]
struct WideShuffles([[u8; 16]; shuffles::WIDE_BYTES / 16]);

/// The bytes of a lane that an element is moved to.
#[derive(Clone, Copy)]
enum Lane {
    LowHalf,
    HighHalf,
    Whole,
}

/// Returns the shuffles for a group.
pub(super) fn shuffles_for(format: PixelFormat, mirrored: bool) -> &'static [[u8; 16]] {
    let (channels, mirrored) = (format.channels - 1, usize::from(mirrored));
    let lane = match format.dtype {
        DType::U8 => return &SHUFFLES[channels][mirrored].0,
        DType::I16 | DType::Bf16 => Lane::HighHalf,
        dtype if dtype.bytes() == 2 => Lane::LowHalf,
        _ => Lane::Whole,
    };
    &WIDE_SHUFFLES[lane as usize][channels][mirrored].0
}

const fn wide_shuffles(lane: Lane) -> [[WideShuffles; 2]; MAX_CHANNELS] {
    [
        [wide_shuffles_of(1, lane, false), wide_shuffles_of(1, lane, true)],
        [wide_shuffles_of(2, lane, false), wide_shuffles_of(2, lane, true)],
        [wide_shuffles_of(3, lane, false), wide_shuffles_of(3, lane, true)],
        [wide_shuffles_of(4, lane, false), wide_shuffles_of(4, lane, true)],
    ]
}

/// Takes each element of four pixels from its [`place`](shuffles::place), or from the same place of a blend.
const fn wide_shuffles_of(channels: usize, lane: Lane, mirrored: bool) -> WideShuffles {
    let mut all = [[NOTHING; 16]; shuffles::WIDE_BYTES / 16];
    let bytes = match lane {
        Lane::LowHalf | Lane::HighHalf => 2,
        Lane::Whole => 4,
    };
    let first = match lane {
        Lane::LowHalf | Lane::Whole => 0,
        Lane::HighHalf => 2,
    };
    let mut element = 0;
    while element < 4 * channels {
        let (pixel, c) = (element / channels, element % channels);
        let to = if mirrored { 3 - pixel } else { pixel };
        let (load, at) = shuffles::place(channels, bytes, element);
        let load = if shuffles::blend(channels, bytes, c).is_some() { 0 } else { load };
        let shuffle = shuffles::wide(load, c) as usize / 16;
        let mut byte = 0;
        while byte < bytes {
            all[shuffle][4 * to + first + byte] = (at + byte) as u8;
            byte += 1;
        }
        element += 1;
    }
    let ones = shuffles::WIDE_ALL as usize / 16;
    (all[ones - 2], all[ones - 1]) = ([0; 16], [0; 16]);
    (all[ones], all[ones + 1]) = ([0xFF; 16], [0xFF; 16]);
    WideShuffles(all)
}

/// Each half of a group is loaded by itself; in a mirrored group the halves swap and the pixels run
/// backwards.
const fn shuffles_of(channels: usize, mirrored: bool) -> Shuffles {
    let mut all = [[NOTHING; 16]; shuffles::BYTES / 16];
    let (interleaved, planar) = (shuffles::INTERLEAVED as usize, shuffles::PLANAR as usize);
    let mut lane = 0;
    while lane < 4 {
        let pixel = if mirrored { 3 - lane } else { lane };
        let mut c = 0;
        while c < channels {
            let from = (channels * pixel + c) as u8;
            all[shuffles::unpack(channels, 0, c) as usize / 16][4 * lane] = from;
            all[interleaved / 16][channels * lane + c] = from;
            all[planar / 16][4 * c + lane] = from;
            c += 1;
        }
        lane += 1;
    }
    with_masks(all)
}

/// A group's first half is loaded from its byte 0 and the second half from byte 8; in a mirrored group
/// the halves swap and the pixels run backwards.
const fn shuffles_of_rgb(mirrored: bool) -> Shuffles {
    let mut all = [[NOTHING; 16]; shuffles::BYTES / 16];
    let mut index = 0;
    while index < 6 {
        let (half, channel) = (index / 3, index % 3);
        let mut lane = 0;
        while lane < 4 {
            let pixel = 4 * half + lane;
            all[index][4 * lane] = from_load(mirrored, half, pixel, channel);
            lane += 1;
        }
        index += 1;
    }
    let (interleaved, planar) = (shuffles::INTERLEAVED as usize, shuffles::PLANAR as usize);
    let mut index = 0;
    while index < 4 {
        let (vector, load) = (index / 2, index % 2);
        let mut byte = 0;
        while byte < 16 {
            let at = 8 * vector + byte;
            all[interleaved / 16 + index][byte] = from_load(mirrored, load, at / 3, at % 3);
            let at = 16 * vector + byte;
            if at < 24 {
                all[planar / 16 + index][byte] = from_load(mirrored, load, at % 8, at / 8);
            }
            byte += 1;
        }
        index += 1;
    }
    with_masks(all)
}

/// Adds the masks of a group's pixels.
const fn with_masks(mut all: [[u8; 16]; shuffles::BYTES / 16]) -> Shuffles {
    let ones = shuffles::ALL as usize / 16;
    (all[ones - 2], all[ones - 1]) = ([0; 16], [0; 16]);
    (all[ones], all[ones + 1]) = ([0xFF; 16], [0xFF; 16]);
    Shuffles(all)
}

/// The shuffle index that yields a zero byte.
const NOTHING: u8 = 0x80;

/// The byte of load `load` that holds a pixel's channel, or [`NOTHING`] if the pixel is in the other
/// half.
const fn from_load(mirrored: bool, load: usize, pixel: usize, channel: usize) -> u8 {
    let byte = 3 * (if mirrored { 7 - pixel } else { pixel }) + channel;
    if load != pixel / 4 {
        return NOTHING;
    }
    let begins = if (load == 1) != mirrored { 8 } else { 0 };
    (byte - begins) as u8
}
