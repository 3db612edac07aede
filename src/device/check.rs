//! For tests: runs a batch of images and labels through a program's kernels, on any machine that can run
//! them, and compares the results with the oracle.
//!
//! Addresses are in this process's memory, so a kernel's host build and an interpreter can read and
//! write them. Guard bytes around every tensor are checked afterwards.

use super::{Addresses, DeviceImage, DeviceOneHot, DeviceOutput, DeviceProgram};
use crate::error::{Error, fail};
use crate::jit::evaluate;
use crate::plan::batch_ops::draw_each;
use crate::plan::label::Scalar;
use crate::plan::{Draws, ElementPlan, ImagePlan};
use fuseloop_ops::author::{ImageType, Layout, RowMix};
use fuseloop_ops::internals::{BatchKey, ImageView, PixelFormat, SampleKey, mix_up, mixed_label};
use fuseloop_ops::{DType, Size};
use half::{bf16, f16};
use std::sync::Arc;

/// A batch as it is staged, and the expected bytes of its tensors.
#[derive(Debug)]
pub struct CheckBatch {
    program: DeviceProgram,
    rows: usize,
    staged: Vec<Aligned>,
    want: Vec<Vec<u8>>,
}

/// One launch of a kernel.
#[derive(Debug)]
pub struct Launch<'a> {
    /// The name of the kernel function.
    pub entry: &'a str,
    /// The rows of the grid.
    pub rows: u32,
    /// The blocks for each row.
    pub parts: u32,
    /// The threads of a block.
    pub threads: u32,
    /// The bytes of the kernel's argument struct.
    pub arguments: &'a [u8],
    /// The memory that the kernel may read.
    pub reads: Vec<&'a [u8]>,
    /// The memory that the kernel may read and write.
    pub writes: Vec<&'a mut [u8]>,
}

/// Returns the error of guard bytes around a tensor that were overwritten.
pub(super) fn written_outside(tensor: usize) -> Error {
    fail!(Device, "bytes around tensor {tensor} were written")
}

/// Bytes that start at a multiple of 256, with guard bytes of another value around them.
#[derive(Debug, Clone)]
struct Aligned {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

const AROUND: u8 = 0xC7;
const SPACE: usize = 256;

impl Aligned {
    fn new(len: usize, value: u8) -> Self {
        let mut bytes = vec![AROUND; len + 3 * SPACE];
        let start = SPACE + (SPACE - (bytes.as_ptr() as usize) % SPACE) % SPACE;
        bytes[start..start + len].fill(value);
        Self { bytes, start, len }
    }

    fn of(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }

    fn of_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }

    /// Returns the bytes with the few bytes after them that kernels may read, as a device's buffer has
    /// them.
    fn of_with_slack(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len + 8]
    }

    fn is_alone(&self) -> bool {
        let after = self.start + self.len;
        let around = self.bytes[..self.start].iter().chain(&self.bytes[after..]);
        around.into_iter().all(|byte| *byte == AROUND)
    }
}

impl CheckBatch {
    /// Creates a batch of `pictures` and, if there is a plan for labels, of the labels 0, 1, .. that
    /// wrap at 5.
    ///
    /// # Errors
    ///
    /// If a device can't run the plan.
    ///
    /// # Panics
    ///
    /// If the plan leaves no op to a device, or an image does not have its declared size.
    pub fn new(
        plan: ImagePlan,
        label: Option<&ElementPlan>,
        pictures: &[(Size, Vec<u8>)],
        seed: u64,
    ) -> Result<Self, Error> {
        let plan = Arc::new(plan);
        let image = DeviceImage::new(&plan)?;
        let rows = pictures.len();
        let batch = BatchKey::new(seed, 0, 7);
        let mut staged = Aligned::new(rows * image.staged_bytes(), 0xEE);
        let mut want = vec![];
        let mut draws = Draws::default();
        for (row, (size, pixels)) in pictures.iter().enumerate() {
            plan.draw(SampleKey::new(seed, 0, row as u64), *size, &mut draws);
            let ImageType { channels, dtype, layout, .. } = plan.input();
            let format = PixelFormat { channels: channels.into(), dtype };
            let view = match layout {
                Layout::ChannelsFirst => ImageView::planes(pixels, *size, format),
                _ => ImageView::packed_format(pixels, *size, format),
            };
            let view = view.expect("an image of its size");
            let bytes = image.staged_bytes();
            let row = &mut staged.of_mut()[row * bytes..][..bytes];
            let host = crate::jit::try_evaluate_host(&plan, &view, &draws);
            let host = host.expect("memory for small images");
            row[..host.len()].copy_from_slice(&host);
            image.record(&draws, row);
            want.push(evaluate(&plan, &view, &draws));
        }
        let (size, ops) = (plan.output_size(), plan.ops().clone());
        draw_each(
            &ops,
            batch,
            rows,
            |_| size,
            |mixer, mixed| {
                image.mix(mixer, mixed, staged.of_mut());
                let blend =
                    |own: &[u8], partner: &[u8], m: &RowMix| mixed_picture(&plan, own, partner, m);
                want = mixed_rows(&want, mixed, blend);
            },
        );
        let (mut parts, mut all, mut wants) =
            (vec![DeviceOutput::Image(image)], vec![staged], vec![want.concat()]);
        if let Some((part, staged, want)) = label.and_then(|label| labels(label, batch, rows, size))
        {
            parts.push(DeviceOutput::OneHot(part));
            all.push(staged);
            wants.push(want);
        }
        let program = DeviceProgram::new(&parts.iter().collect::<Vec<_>>())?;
        Ok(Self { program, rows, staged: all, want: wants })
    }

    /// Returns the text of the kernels.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.program.source
    }

    /// Returns the names of the kernel functions, in order.
    pub fn entries(&self) -> impl Iterator<Item = &str> {
        self.program.kernels.iter().map(|kernel| kernel.entry.as_str())
    }

    /// Runs all kernels in order by `launch` and checks the tensors.
    ///
    /// # Errors
    ///
    /// If a kernel could not be run, wrote other bytes than the oracle, or wrote around a tensor.
    pub fn run(
        &self,
        mut launch: impl FnMut(Launch<'_>) -> Result<(), String>,
    ) -> Result<(), Error> {
        let rows = self.rows;
        let outs = self.program.tensors.iter().map(|t| Aligned::new(rows * t.row_bytes(), 0xAA));
        let mut outs: Vec<Aligned> = outs.collect();
        let mut scratch = Aligned::new(rows * self.program.scratch, 0);
        for kernel in &self.program.kernels {
            let reads: Vec<&[u8]> = self.staged.iter().map(Aligned::of_with_slack).collect();
            let mut writes: Vec<&mut [u8]> = outs.iter_mut().map(Aligned::of_mut).collect();
            let staged: Vec<u64> = reads.iter().map(|bytes| bytes.as_ptr() as u64).collect();
            let tensors: Vec<u64> = writes.iter_mut().map(|b| b.as_mut_ptr() as u64).collect();
            writes.push(scratch.of_mut());
            let scratch = writes[tensors.len()].as_mut_ptr() as u64;
            let (rows, threads) = (rows as u32, DeviceProgram::THREADS);
            let at = Addresses { rows, staged: &staged, tensors: &tensors, scratch };
            let arguments = &self.program.arguments(&at);
            let (entry, parts) = (&*kernel.entry, kernel.parts);
            launch(Launch { entry, rows, parts, threads, arguments, reads, writes })
                .map_err(|reason| fail!(Device, "{reason}"))?;
        }
        for (tensor, (out, want)) in outs.iter().zip(&self.want).enumerate() {
            if !out.is_alone() {
                return Err(written_outside(tensor));
            }
            compare(tensor, out.of(), want, rows)?;
        }
        Ok(())
    }
}

#[cfg(feature = "cuda")]
impl CheckBatch {
    /// Returns the program.
    pub(crate) fn program(&self) -> &DeviceProgram {
        &self.program
    }

    /// Returns the number of samples of the batch.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns each tensor as it is staged, all rows.
    pub(crate) fn staged(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.staged.iter().map(Aligned::of)
    }

    /// Compares tensor number `tensor`, computed elsewhere, with the oracle.
    pub(crate) fn compare(&self, tensor: usize, found: &[u8]) -> Result<(), Error> {
        compare(tensor, found, &self.want[tensor], self.rows)
    }
}

fn compare(tensor: usize, found: &[u8], want: &[u8], rows: usize) -> Result<(), Error> {
    let bytes = (want.len() / rows.max(1)).max(1);
    let different = || found.iter().zip(want).enumerate().filter(|(_, (a, b))| a != b);
    let Some((at, (found, want))) = different().next() else { return Ok(()) };
    let (row, byte, differ) = (at / bytes, at % bytes, different().count());
    Err(fail!(
        Device,
        "tensor {tensor}, row {row}, byte {byte}: {found:#04x} in place of {want:#04x}; {differ} bytes differ"
    ))
}

fn mixed_rows(
    rows: &[Vec<u8>],
    mixed: &[RowMix],
    blend: impl Fn(&[u8], &[u8], &RowMix) -> Vec<u8>,
) -> Vec<Vec<u8>> {
    let row = |(row, own): (usize, &Vec<u8>)| {
        let m = &mixed[row];
        if m.share == 1.0 || m.partner == row {
            own.clone()
        } else {
            blend(own, &rows[m.partner], m)
        }
    };
    rows.iter().enumerate().map(row).collect()
}

/// Mixes an image with another, one element at a time.
fn mixed_picture(plan: &ImagePlan, own: &[u8], partner: &[u8], mixed: &RowMix) -> Vec<u8> {
    let (dtype, size) = (plan.dtype(), plan.output_size());
    let (height, width) = (size.height as usize, size.width as usize);
    let bytes = dtype.bytes();
    let elements = own.chunks(bytes).zip(partner.chunks(bytes)).enumerate();
    let element = |(k, (own, partner)): (usize, (&[u8], &[u8]))| {
        let pixel = match plan.output().layout {
            Layout::ChannelsFirst => k % (height * width),
            Layout::ChannelsLast | Layout::Plane => k / usize::from(plan.output().channels),
        };
        let (y, x) = ((pixel / width) as u32, (pixel % width) as u32);
        match mixed.window {
            None => {
                blended(dtype, own, partner, |a, b| mix_up::eval(a, b, mixed.share), mixed.share)
            }
            Some(w) => {
                let rows = w.top..w.top + w.height;
                let inside = rows.contains(&y) && (w.left..w.left + w.width).contains(&x);
                if inside { partner.to_vec() } else { own.to_vec() }
            }
        }
    };
    elements.flat_map(element).collect()
}

fn blended(
    dtype: DType,
    own: &[u8],
    partner: &[u8],
    blend: impl Fn(f32, f32) -> f32,
    share: f64,
) -> Vec<u8> {
    let pair = |bytes: &[u8]| u16::from_le_bytes([bytes[0], bytes[1]]);
    let four = |b: &[u8]| f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    match dtype {
        DType::U8 => vec![mix_up::eval_u8(own[0], partner[0], share)],
        DType::F16 => {
            let [a, b] = [own, partner].map(|bytes| f16::from_bits(pair(bytes)).to_f32());
            f16::from_f32(blend(a, b)).to_le_bytes().to_vec()
        }
        DType::Bf16 => {
            let [a, b] = [own, partner].map(|bytes| bf16::from_bits(pair(bytes)).to_f32());
            bf16::from_f32(blend(a, b)).to_le_bytes().to_vec()
        }
        _ => blend(four(own), four(partner)).to_le_bytes().to_vec(),
    }
}

/// Stages the labels of a batch and computes their expected vectors.
fn labels(
    plan: &ElementPlan,
    batch: BatchKey,
    rows: usize,
    size: Size,
) -> Option<(DeviceOneHot, Aligned, Vec<u8>)> {
    let part = DeviceOneHot::new(plan)?;
    let bytes = part.staged_bytes();
    let mut staged = Aligned::new(rows * bytes, 0xEE);
    let mut want = vec![];
    for row in 0..rows {
        let value = Scalar::Int(row as i64 % 5);
        let to = &mut staged.of_mut()[row * bytes..][..bytes];
        let key = SampleKey::new(0, 0, row as u64);
        part.fill(plan, key, value, to).ok()?;
        let mut label = vec![0; plan.sample_bytes()];
        plan.evaluate(key, &value.to_bytes(), &mut label).ok()?;
        want.push(label);
    }
    draw_each(
        plan.ops(),
        batch,
        rows,
        |_| size,
        |mixer, mixed| {
            part.mix(mixer, mixed, staged.of_mut());
            want = mixed_rows(&want, mixed, |own, partner, m| {
                let width = plan.dtype().bytes();
                let elements = own.chunks(width).zip(partner.chunks(width));
                let blend = |a, b| mixed_label(a, b, m.share);
                elements.flat_map(|(a, b)| blended(plan.dtype(), a, b, blend, m.share)).collect()
            });
        },
    );
    Some((part, staged, want.concat()))
}
