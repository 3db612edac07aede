//! The compiler's promise: for any list of ops, the compiled loop produces the bits of the ops' plain
//! definitions, and accesses no byte outside its buffers.
//!
//! Random lists of up to twelve ops run both ways, on images of all sizes. The compiled code reads and
//! writes memory that starts or ends at a page without access, or at some odd distance from one. A
//! failing list is reduced as far as possible before it is reported. `FUSELOOP_LISTS=5000` tries more
//! lists, and `FUSELOOP_SLICE=1/5` runs the second fifth of them.

use crate::common::guarded::{Guard, Guarded};
use crate::common::lists::{List, first_difference, noise, view};
use crate::common::random_ops;
use fuseloop::internals::jit::check::{CodegenSettings, VectorBits, widest_vectors, with_settings};
use fuseloop::internals::jit::{self, DecodedPixels, Kernel, KernelCache, Scratch};
use fuseloop::internals::plan::{Draws, ImagePlan};
use fuseloop_counts::numbers;
use fuseloop_ops::author::{Dim, ImageType, Layout, Rng};
use fuseloop_ops::internals::{ImageView, PixelFormat, SampleKey};
use fuseloop_ops::*;
use std::collections::BTreeMap;

/// The maximum number of ops of a list.
const MOST_OPS: u32 = 12;

/// The layout of a source and an output in memory.
#[derive(Clone, Copy, Debug)]
struct Lies {
    guard: Guard,
    /// Bytes between the source's rows.
    gap: usize,
    /// Bytes between the source, or the output, and the guard.
    distance: [usize; 2],
    /// The byte that fills the output beforehand.
    poison: u8,
}

impl Lies {
    /// Three layouts: before a guard page, after one, and at a random distance from one. Outputs of wide
    /// elements stay at multiples of their size.
    fn ways(rng: &mut Rng, element: usize) -> [Self; 3] {
        let mut somewhere = |most: u32| rng.below(most) as usize;
        let away = element * (somewhere(64) / element);
        let end = if somewhere(2) == 0 { Guard::After } else { Guard::Before };
        [
            Self { guard: Guard::After, gap: 0, distance: [0, 0], poison: 0xAA },
            Self { guard: Guard::Before, gap: somewhere(40), distance: [0, 0], poison: 0x55 },
            Self { guard: end, gap: somewhere(9), distance: [somewhere(64), away], poison: 0xC3 },
        ]
    }
}

/// Bytes at a distance from a guard.
struct Placed {
    bytes: Guarded,
    start: usize,
    len: usize,
    around: u8,
}

impl Placed {
    fn filled(len: usize, value: u8, guard: Guard, distance: usize) -> Self {
        let mut bytes = Guarded::filled(len + distance, !value, guard);
        let start = match guard {
            Guard::After => 0,
            Guard::Before => distance,
        };
        bytes[start..start + len].fill(value);
        Self { bytes, start, len, around: !value }
    }

    fn inner(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }

    /// Returns true if nothing was written around the bytes.
    fn is_alone(&self) -> bool {
        let (before, after) = (&self.bytes[..self.start], &self.bytes[self.start + self.len..]);
        before.iter().chain(after).all(|byte| *byte == self.around)
    }
}

/// A list, a kernel of it, and one image.
struct Trial<'a> {
    kernel: &'a Kernel,
    size: Size,
    pixels: &'a [u8],
    key: SampleKey,
}

impl Trial<'_> {
    /// The first failure, if any.
    fn fails(&self, scratch: &mut Scratch, rng: &mut Rng) -> Option<String> {
        let mut draws = Draws::default();
        let plan = self.kernel.plan();
        plan.draw(self.key, self.size, &mut draws);
        let view = view(plan, self.pixels, self.size);
        let want = jit::evaluate(plan, &view, &draws);
        let element = plan.dtype().bytes().max(plan.stored_dtype().bytes());
        let ways = Lies::ways(rng, element);
        let mut wrong = ways.iter().filter_map(|lies| {
            let found = self.differs(scratch, &draws, &want, *lies)?;
            Some(format!("{found}, {lies:?}, {draws:?}"))
        });
        wrong.next()
    }

    fn differs(
        &self,
        scratch: &mut Scratch,
        draws: &Draws,
        want: &[u8],
        lies: Lies,
    ) -> Option<String> {
        let ImageType { channels, dtype, layout, .. } = self.kernel.plan().input();
        let is_planar = layout == Layout::ChannelsFirst;
        let format = PixelFormat { channels: channels.into(), dtype };
        let (row, rows) =
            (self.size.width as usize * format.pixel_bytes(), self.size.height as usize);
        let stride = if is_planar { row } else { row + lies.gap };
        let mut source =
            Placed::filled(stride * (rows - 1) + row, 0x77, lies.guard, lies.distance[0]);
        for (to, from) in source.inner().chunks_mut(stride).zip(self.pixels.chunks(row)) {
            to[..row].copy_from_slice(from);
        }
        let mut out = Placed::filled(want.len(), lies.poison, lies.guard, lies.distance[1]);
        let view = match is_planar {
            true => ImageView::planes(source.inner(), self.size, format),
            false => ImageView::of_format(source.inner(), self.size, format, stride),
        };
        let view = view.unwrap();
        self.kernel.run(scratch, DecodedPixels::whole(view), draws, out.inner());
        if !out.is_alone() {
            return Some("bytes around the output were written".to_owned());
        }
        first_difference(self.kernel.plan(), out.inner(), want)
    }
}

/// A size that is mostly small, sometimes as large as a photo's thumbnail, or one row or column of the
/// maximum length.
fn random_size(rng: &mut Rng, list: u64) -> Size {
    match list % 50 {
        20 => Size::new(1, 65_535),
        45 => Size::new(65_535, 1),
        _ if rng.coin(0.1) => Size::new(1 + rng.below(300), 1 + rng.below(300)),
        _ => Size::new(1 + rng.below(90), 1 + rng.below(140)),
    }
}

/// The failure of a list for images of a size, if any. Three samples run, with vectors of 128, 256 and 512 bits, or the
/// widest that the CPU has. Ops on bytes become tables of bytes in every other list.
fn wrong(list: &List, number: u64, size: Size, scratch: &mut Scratch) -> Option<String> {
    let widths = [VectorBits::V128, VectorBits::V256, VectorBits::V512];
    let mut compiled: Option<(VectorBits, Kernel)> = None;
    (0..).zip(widths).find_map(|(sample, bits)| {
        let bits = if bits.count() > widest_vectors().count() { widest_vectors() } else { bits };
        let byte_maps_from = Some(if number.is_multiple_of(2) { 0 } else { u64::MAX });
        let settings =
            CodegenSettings { bits: Some(bits), byte_maps_from, ..CodegenSettings::default() };
        let run = || {
            // Compiling takes a quarter of the time: the samples of one width share a kernel.
            let kernel = match compiled.take_if(|(width, _)| *width == bits) {
                Some((_, kernel)) => kernel,
                None => match Kernel::compile(list.plan()?) {
                    Ok(kernel) => kernel,
                    Err(error) => return Some(error.to_string()),
                },
            };
            let wrong = wrong_sample(list, &kernel, (number, sample), size, scratch);
            compiled = Some((bits, kernel));
            wrong
        };
        with_settings(settings, run).map(|wrong| format!("sample {sample}, {bits:?}: {wrong}"))
    })
}

fn wrong_sample(
    list: &List,
    kernel: &Kernel,
    (number, sample): (u64, u64),
    size: Size,
    scratch: &mut Scratch,
) -> Option<String> {
    let mut rng = SampleKey::new(2027, number as u32, sample).op(0);
    let pixels = noise(&mut rng, size, &list.input);
    let key = SampleKey::new(1, number as u32, sample);
    let trial = Trial { kernel, size, pixels: &pixels, key };
    trial.fails(scratch, &mut rng)
}

#[test]
fn random_lists_give_the_same_bits_compiled_and_evaluated() {
    if let Some(reason) = jit::unsupported() {
        println!("skipped: {reason}");
        return;
    }
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut scratch = Scratch::default();
    let numbers = numbers("FUSELOOP_LISTS");
    let lists = numbers.len();
    for number in numbers {
        let mut rng = SampleKey::new(2026, 0, number).op(0);
        let size = random_size(&mut rng, number);
        let (list, names) = List::random(&mut rng, size, MOST_OPS);
        for name in names {
            *seen.entry(name).or_default() += 1;
        }
        if let Some(found) = wrong(&list, number, size, &mut scratch) {
            let again = |list: &List| wrong(list, number, size, &mut Scratch::default());
            let shortest = list.shortest(|list| again(list).is_some());
            let found = again(&shortest).unwrap_or(found);
            panic!("list {number} of {size}: {found}\nshortest: {shortest:#?}");
        }
    }
    println!("{lists} lists; ops seen: {seen:?}");
    let enough = lists / 300;
    for name in random_ops::names() {
        assert!(seen.get(name).copied().unwrap_or(0) >= enough, "{name} was tried too rarely");
    }
}

/// Only the requested window is decoded; the code may not read the rest of the image.
#[test]
fn the_wanted_window_is_all_that_is_read() {
    let (mut scratch, mut draws) = (Scratch::default(), Draws::default());
    for number in 0..150 {
        let mut rng = SampleKey::new(77, 0, number).op(0);
        let size = Size::new(20 + rng.below(90), 20 + rng.below(140));
        let (list, _) = List::random(&mut rng, size, 8);
        let kernel = Kernel::compile(list.plan().unwrap()).unwrap();
        let pixels = noise(&mut rng, size, &list.input);
        kernel.plan().draw(SampleKey::new(1, 2, number), size, &mut draws);
        let whole = view(kernel.plan(), &pixels, size);
        let want = jit::evaluate(kernel.plan(), &whole, &draws);
        let wanted = kernel.plan().needed_window(&draws);
        let part = whole.crop(wanted).unwrap();
        let rows = |view: ImageView<'_>| -> Vec<u8> {
            (0..wanted.height).flat_map(|y| view.row(y).to_vec()).collect()
        };
        let cut: Vec<u8> = match whole.plane(0) {
            None => rows(part),
            Some(_) => (0..part.channels()).flat_map(|c| rows(part.plane(c).unwrap())).collect(),
        };
        let view = view(kernel.plan(), &cut, wanted.size());
        let source = DecodedPixels { view, top: wanted.top, left: wanted.left, whole: size };
        let mut out = vec![0xAA; want.len()];
        kernel.run(&mut scratch, source, &draws, &mut out);
        if let Some(difference) = first_difference(kernel.plan(), &out, &want) {
            panic!("list {number}: {difference}\n{:#?}\n{draws:?}", kernel.plan().ops());
        }
    }
}

#[test]
fn noise_without_a_deviation_leaves_zeros_the_signs_that_its_definition_does() {
    let size = Size::new(9, 33);
    let input = ImageType {
        dtype: DType::F32,
        is_levels: false,
        ..ImageType::decoded(Dim::fixed(size.height), Dim::fixed(size.width))
    };
    let values = [-0.0_f32, 0.0, 1.0, -1e-40, f32::NAN].into_iter().cycle();
    let pixels: Vec<u8> = values.take(9 * 33 * 3).flat_map(f32::to_ne_bytes).collect();
    for sigma in [0.0, 1e-60, 1e-38, 0.5] {
        let ops = ops![
            GaussianNoise::new().sigma(sigma).unwrap(),
            RandomHorizontalFlip::new(0.5).unwrap()
        ];
        let plan = ImagePlan::new(ops, input, NumberRule::Fused).unwrap();
        let kernel = KernelCache::default().compile(plan).unwrap();
        let (mut draws, view) = (Draws::default(), view(kernel.plan(), &pixels, size));
        for sample in 0..4 {
            kernel.plan().draw(SampleKey::new(0, 0, sample), size, &mut draws);
            let want = jit::evaluate(kernel.plan(), &view, &draws);
            let mut found = vec![0; want.len()];
            kernel.run(&mut Scratch::default(), DecodedPixels::whole(view), &draws, &mut found);
            assert!(found == want, "sigma {sigma}, sample {sample}");
        }
    }
}
