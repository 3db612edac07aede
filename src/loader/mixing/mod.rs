//! Mixes a finished batch in place.
//!
//! ```text
//! previous:  row n-1 with n-2, ..., row 1 with 0, row 0 with the copy of n-1
//! permuted:  each cycle of the permutation in the same order
//! ```
//!
//! Along a cycle, each row's partner is still unmixed, because the partner is mixed next; only the
//! partner of the last row has been mixed already, so it was copied before. A batch needs memory for one
//! additional row.
//!
//! A batch is mixed when all of its rows are filled, because the partner of a row is complete only then: by the worker
//! that finishes it, while others fill the next. The draws are a function of the seed, the epoch and the number of the
//! batch, which counts the batches of all ranks, and not of the output: so the lists of an image and of its label draw
//! the same. `targets` mixes the image, its masks and the rows of its objects by one draw, before ragged rows are
//! packed. `passes` runs the ops on samples that follow: they may change the size of an image and its type, so a row has
//! room for the largest that it becomes, and its bytes begin at the same place all the time.

mod passes;
mod targets;

pub(super) use passes::{BatchScratch, LaterPass, ObjectMaskPass, PassRows};
pub(super) use targets::{MixedImage, ObjectRows, TargetMixer};

use crate::device::DeviceOutput;
use crate::plan::batch_ops::{Mixer, draw_each};
use fuseloop_kernels::mix::{blend_bf16, blend_f16, blend_f32, blend_f64, blend_u8};
use fuseloop_ops::author::{ImageType, Layout, RowMix, Window};
use fuseloop_ops::internals::memory::NoMemory;
use fuseloop_ops::internals::{BatchKey, ElementValue, memory, mixed_label, mixed_label_f64};
use fuseloop_ops::{DType, Ops, Size};
use half::{bf16, f16};

/// The kind of rows of an output, for the ops that mix them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum MixRows {
    Image(ImageType, Size),
    /// The floats of an array that is a picture.
    ArrayImage(ImageType, Size),
    /// The floats of a label or an array.
    Floats(DType),
    /// `[class, class of the partner, share]`, in f32.
    Classes,
}

/// Mixes the batches of one output.
#[derive(Debug)]
pub(super) struct OutputMixer {
    /// For each op that mixes, the kind of the rows, and the size of the images that the draws are for.
    pub(super) each: Vec<(MixRows, Size)>,
}

impl OutputMixer {
    /// Draws for the `count` rows of a finished batch, and writes how a device mixes them to its staged rows.
    /// Returns false if the host mixes the output.
    pub(super) fn record(
        &self,
        ops: &Ops,
        on_device: &DeviceOutput,
        key: BatchKey,
        (count, bytes): (usize, &mut [u8]),
    ) -> bool {
        let size = |mixer: usize| self.each[mixer].1;
        match on_device {
            DeviceOutput::Image(image) => {
                draw_each(ops, key, count, size, |mixer, mixed| {
                    image.mix(mixer, mixed, bytes);
                });
            }
            DeviceOutput::OneHot(label) => {
                draw_each(ops, key, count, size, |mixer, mixed| {
                    label.mix(mixer, mixed, bytes);
                });
            }
            DeviceOutput::Copied { .. } => return false,
        }
        true
    }

    /// Mixes the `count` rows of a finished batch, of `len` bytes each, by op number `number`. `spare` holds one row.
    ///
    /// # Errors
    ///
    /// If there is not enough memory for one additional row.
    pub(super) fn mix(
        &self,
        (number, mixer): (usize, Mixer<'_>),
        key: BatchKey,
        (count, len, bytes): (usize, usize, &mut [u8]),
        spare: &mut Vec<u8>,
    ) -> Result<(), NoMemory> {
        memory::resize(spare, len, "a row of a mixed batch")?;
        let (rows, size) = self.each[number];
        let mixed = mixer.draw(key, count, size);
        along_cycles(bytes, &mixed, spare, |row, own, partner| {
            let RowMix { share, window, .. } = mixed[row];
            let is_kept = share == 1.0 || mixed[row].partner == row;
            mix_row(rows, own, partner, share, window, is_kept);
        });
        Ok(())
    }
}

/// Mixes one row with its unmixed partner. If the row is kept, only its share is written.
fn mix_row(
    rows: MixRows,
    own: &mut [u8],
    partner: &[u8],
    share: f64,
    window: Option<Window>,
    is_kept: bool,
) {
    match (rows, window) {
        (MixRows::Classes, _) => mix_classes(own, partner, share),
        _ if is_kept => {}
        (MixRows::Floats(dtype), _) => mix_floats(own, partner, share, dtype),
        (MixRows::ArrayImage(image, _), None) => mix_floats(own, partner, share, image.dtype),
        (MixRows::Image(image, size) | MixRows::ArrayImage(image, size), Some(window)) => {
            paste(own, partner, image, size, window);
        }
        (MixRows::Image(image, _), None) => match image.dtype {
            DType::U8 => blend_u8(own, partner, share),
            DType::F16 => blend_f16(own, partner, share),
            DType::Bf16 => blend_bf16(own, partner, share),
            DType::F64 => blend_f64(own, partner, share),
            DType::F32 => blend_f32(own, partner, share),
            integers => blend_integers(own, partner, share, integers),
        },
    }
}

/// Calls `mix` for every row, with its partner before any mixing; a row that is its own partner gets a
/// copy of itself. `spare` is as long as what is mixed of a row: its first bytes.
///
/// # Panics
///
/// If partners are no permutation of the rows.
fn along_cycles(
    bytes: &mut [u8],
    mixed: &[RowMix],
    spare: &mut [u8],
    mix: impl Fn(usize, &mut [u8], &[u8]),
) {
    let (room, len) = (bytes.len() / mixed.len().max(1), spare.len());
    let mut done = vec![false; mixed.len()];
    for first in (0..mixed.len()).rev() {
        if done[first] {
            continue;
        }
        spare.copy_from_slice(&bytes[first * room..][..len]);
        let mut row = first;
        while mixed[row].partner != first {
            done[row] = true;
            let partner = mixed[row].partner;
            assert!(!done[partner], "two rows with the partner {partner}");
            let (own, other) = two_rows(bytes, room, row, partner);
            mix(row, &mut own[..len], &other[..len]);
            row = partner;
        }
        done[row] = true;
        mix(row, &mut bytes[row * room..][..len], spare);
    }
}

/// Returns row `own`, mutably, and row `other`, which must be another one.
fn two_rows(bytes: &mut [u8], len: usize, own: usize, other: usize) -> (&mut [u8], &[u8]) {
    if own < other {
        let (head, tail) = bytes.split_at_mut(other * len);
        (&mut head[own * len..][..len], &tail[..len])
    } else {
        let (head, tail) = bytes.split_at_mut(own * len);
        (&mut tail[..len], &head[other * len..][..len])
    }
}

/// Copies a window of the partner, for any type and number of channels.
fn paste(own: &mut [u8], partner: &[u8], image: ImageType, size: Size, window: Window) {
    copy_window(own, partner, (image, size), window, [window.top, window.left]);
}

/// Copies to a window of `own` the pixels of `partner` from the row and column `from` on.
fn copy_window(
    own: &mut [u8],
    partner: &[u8],
    (image, size): (ImageType, Size),
    window: Window,
    [top, left]: [u32; 2],
) {
    let (plane, pixel) = plane_and_pixel(image, size, own.len());
    let (line, count) = (size.width as usize * pixel, window.width as usize * pixel);
    let planes = own.chunks_exact_mut(plane).zip(partner.chunks_exact(plane));
    for (own, partner) in planes {
        for y in 0..window.height {
            let start = |top: u32, left: u32| (top + y) as usize * line + left as usize * pixel;
            let (to, from) = (start(window.top, window.left), start(top, left));
            own[to..to + count].copy_from_slice(&partner[from..from + count]);
        }
    }
}

/// Returns the bytes of a plane, and those of a pixel in it, of a row of `len` bytes.
fn plane_and_pixel(image: ImageType, size: Size, len: usize) -> (usize, usize) {
    let (element, pixels) = (image.dtype.bytes(), size.pixels() as usize);
    match image.layout {
        Layout::ChannelsLast | Layout::Plane => (len, len / pixels),
        Layout::ChannelsFirst => (pixels * element, element),
    }
}

/// Mixes the floats of a label, one at a time: there are few.
fn mix_floats(own: &mut [u8], partner: &[u8], share: f64, dtype: DType) {
    match dtype {
        DType::F16 => each(own, partner, |own, partner| {
            let [own, partner] = [own, partner].map(|v| f16::from_ne_bytes(v).to_f32());
            f16::from_f32(mixed_label(own, partner, share)).to_ne_bytes()
        }),
        DType::Bf16 => each(own, partner, |own, partner| {
            let [own, partner] = [own, partner].map(|v| bf16::from_ne_bytes(v).to_f32());
            bf16::from_f32(mixed_label(own, partner, share)).to_ne_bytes()
        }),
        DType::F64 => each(own, partner, |own, partner| {
            let [own, partner] = [own, partner].map(f64::from_ne_bytes);
            mixed_label_f64(own, partner, share).to_ne_bytes()
        }),
        _ => each(own, partner, |own, partner| {
            let [own, partner] = [own, partner].map(f32::from_ne_bytes);
            mixed_label(own, partner, share).to_ne_bytes()
        }),
    }
}

/// Mixes the integers of an image, as [`blend_u8`] does bytes. Only ops of users do so.
fn blend_integers(own: &mut [u8], partner: &[u8], share: f64, dtype: DType) {
    let float = |bytes: &[u8]| {
        let value = ElementValue::from_bytes(dtype, bytes).converted(DType::F64);
        value.as_float().unwrap_or_default()
    };
    let width = dtype.bytes();
    for (own, partner) in own.chunks_exact_mut(width).zip(partner.chunks_exact(width)) {
        let mixed = share * float(own) + (1.0 - share) * float(partner);
        let mixed = ElementValue::from(mixed.trunc()).converted(dtype);
        own.iter_mut().zip(mixed.bytes()).for_each(|(to, byte)| *to = byte);
    }
}

fn each<const N: usize>(own: &mut [u8], partner: &[u8], mix: impl Fn([u8; N], [u8; N]) -> [u8; N]) {
    let values = own.as_chunks_mut().0.iter_mut().zip(partner.as_chunks().0);
    values.for_each(|(own, partner)| *own = mix(*own, *partner));
}

/// Writes the partner's class and the share to `[class, class of the partner, share]`. The class itself
/// stays, so that other rows can read it in any order.
fn mix_classes(own: &mut [u8], partner: &[u8], share: f64) {
    let (own, partner) = (own.as_chunks_mut::<4>().0, partner.as_chunks::<4>().0);
    if let ([_, of_partner, own_share], [class, ..]) = (own, partner) {
        *of_partner = *class;
        *own_share = (share as f32).to_ne_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fuseloop_ops::author::Dim;

    fn partners(partners: &[usize]) -> Vec<RowMix> {
        partners.iter().map(|&partner| RowMix { partner, share: 0.5, window: None }).collect()
    }

    /// Mixes rows of one byte: each becomes its own value plus ten times its partner's.
    fn mixed(rows: &mut [u8], mixed: &[RowMix]) {
        along_cycles(rows, mixed, &mut [0], |_, own, partner| own[0] += 10 * partner[0]);
    }

    #[test]
    fn every_row_gets_its_partner_as_it_was() {
        let mut rows = [1, 2, 3, 4];
        mixed(&mut rows, &partners(&[3, 0, 1, 2]));
        assert_eq!(rows, [41, 12, 23, 34]);
        let mut rows = [1, 2, 3, 4, 5];
        mixed(&mut rows, &partners(&[2, 1, 0, 4, 3]));
        assert_eq!(rows, [31, 22, 13, 54, 45]);
        let mut row = [7];
        mixed(&mut row, &partners(&[0]));
        assert_eq!(row, [77]);
        mixed(&mut [], &partners(&[]));
    }

    #[test]
    #[should_panic(expected = "two rows with the partner 1")]
    fn partners_that_are_no_permutation_are_a_mistake() {
        mixed(&mut [1, 2, 3], &partners(&[1, 1, 1]));
    }

    #[test]
    fn a_window_is_pasted_in_either_layout() {
        let (size, window) = (Size::new(2, 3), Window { top: 1, left: 1, height: 1, width: 2 });
        let last = ImageType::decoded(Dim::fixed(2), Dim::fixed(3));
        let mut own = [0; 18];
        paste(&mut own, &[1; 18], last, size, window);
        assert_eq!(own, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]);
        let mut own = [0; 18];
        let first = ImageType { layout: Layout::ChannelsFirst, ..last };
        paste(&mut own, &[1; 18], first, size, window);
        assert_eq!(own, [0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1]);
    }
}
