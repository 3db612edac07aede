//! Sequential JPEGs in several scans, of any sampling: their pixels are those of the same coefficients in one scan.
//!
//! `FUSELOOP_JPEG_SCANS` is the number of images generated, each with every order of its scans; 100 by default.

mod progressive;

use crate::common::jpegs::{below, pixels, random, random_window, unmeasured};
use fuseloop::ErrorKind;
use fuseloop::internals::decode::Decoder;
use fuseloop_counts::numbers;
use fuseloop_kernels::POSITIONS;
use fuseloop_ops::Size;
use rand_xoshiro::rand_core::Rng;
use std::ops::Range;

/// The scans of three components: all orders of all ways to divide them.
const SCANS: [&[&[usize]]; 13] = [
    &[&[0], &[1], &[2]],
    &[&[0], &[2], &[1]],
    &[&[1], &[0], &[2]],
    &[&[1], &[2], &[0]],
    &[&[2], &[0], &[1]],
    &[&[2], &[1], &[0]],
    &[&[0], &[1, 2]],
    &[&[1, 2], &[0]],
    &[&[1], &[0, 2]],
    &[&[2, 0], &[1]],
    &[&[2], &[0, 1]],
    &[&[1, 0], &[2]],
    &[&[2, 0, 1]],
];

/// A component: its factors, and its blocks with those that fill up MCUs of all components.
#[derive(Clone)]
struct Component {
    h: usize,
    v: usize,
    /// Columns and rows of blocks that hold pixels, and of all blocks.
    own: [usize; 2],
    all: [usize; 2],
    blocks: Vec<[i16; 64]>,
}

/// An image's coefficients.
#[derive(Clone)]
struct Coefficients {
    size: Size,
    components: Vec<Component>,
}

impl Coefficients {
    fn mcus(&self) -> [usize; 2] {
        let [h, v] = self.finest();
        let Size { height, width } = self.size;
        [(width as usize).div_ceil(8 * h), (height as usize).div_ceil(8 * v)]
    }

    fn finest(&self) -> [usize; 2] {
        let most = |of: fn(&Component) -> usize| self.components.iter().map(of).max().unwrap();
        [most(|c| c.h), most(|c| c.v)]
    }

    /// Random coefficients: each block of a few, smaller for higher frequencies.
    fn random(size: Size, factors: &[[usize; 2]], rng: &mut impl Rng) -> Self {
        let components = factors
            .iter()
            .map(|&[h, v]| Component { h, v, own: [0; 2], all: [0; 2], blocks: vec![] })
            .collect();
        let mut image = Self { size, components };
        let ([h_max, v_max], [columns, rows]) = (image.finest(), image.mcus());
        let Size { height, width } = size;
        for component in &mut image.components {
            let Component { h, v, .. } = *component;
            component.own = [
                (width as usize * h).div_ceil(8 * h_max),
                (height as usize * v).div_ceil(8 * v_max),
            ];
            component.all = [columns * h, rows * v];
            let mut drawn = || {
                let mut block = [0; 64];
                block[0] = below(rng, 161) as i16 - 80;
                for _ in 0..[0, 3, 8, 63][below(rng, 4)] {
                    let at = 1 + below(rng, 63);
                    let most = (64 / (at as i16 + 2)).max(1);
                    block[usize::from(POSITIONS[at])] =
                        below(rng, 2 * most as usize + 1) as i16 - most;
                }
                block
            };
            component.blocks = (0..columns * h * rows * v).map(|_| drawn()).collect();
        }
        image
    }

    /// Writes the beginning of a file: the quantization table, and the frame's header.
    fn head(&self, frame_marker: u8) -> Vec<u8> {
        let mut file = vec![0xff, 0xd8];
        let mut segment = |marker: u8, body: &[u8]| {
            file.extend([0xff, marker]);
            file.extend((body.len() as u16 + 2).to_be_bytes());
            file.extend(body);
        };
        segment(0xdb, &[&[0][..], &[3; 64]].concat());
        let side = |side: u32| (side as u16).to_be_bytes();
        let mut frame = [&[8][..], &side(self.size.height), &side(self.size.width)].concat();
        frame.push(self.components.len() as u8);
        for (id, component) in (1..).zip(&self.components) {
            frame.extend([id, (component.h << 4 | component.v) as u8, 0]);
        }
        segment(frame_marker, &frame);
        file
    }

    /// Writes the image with a scan for each of these lists of components, and a restart marker after every `interval` MCUs.
    fn write(&self, scans: &[&[usize]], interval: usize) -> Vec<u8> {
        let mut file = self.head(0xc0);
        let mut segment = |marker: u8, body: &[u8]| {
            file.extend([0xff, marker]);
            file.extend((body.len() as u16 + 2).to_be_bytes());
            file.extend(body);
        };
        // All codes of a table have the same length: 4 bits for DC, 8 bits for AC.
        let mut counts = [0; 16];
        counts[3] = 12;
        segment(0xc4, &[&[0][..], &counts, &(0..12).collect::<Vec<u8>>()].concat());
        let mut counts = [0; 16];
        counts[7] = 162;
        segment(0xc4, &[&[0x10][..], &counts, &ac_symbols()].concat());
        if interval > 0 {
            segment(0xdd, &(interval as u16).to_be_bytes());
        }
        for scan in scans {
            file.extend([0xff, 0xda, 0, 6 + 2 * scan.len() as u8, scan.len() as u8]);
            scan.iter().for_each(|&component| file.extend([component as u8 + 1, 0]));
            file.extend([0, 63, 0]);
            self.write_scan(scan, interval, &mut file);
        }
        file.extend([0xff, 0xd9]);
        file
    }

    fn write_scan(&self, scan: &[usize], interval: usize, file: &mut Vec<u8>) {
        let [columns, rows] = match scan {
            [alone] => self.components[*alone].own,
            _ => self.mcus(),
        };
        let (mut bits, mut dc) = (Bits::default(), [0; 4]);
        for mcu in 0..columns * rows {
            if interval > 0 && mcu > 0 && mcu % interval == 0 {
                std::mem::take(&mut bits).end(file);
                file.extend([0xff, 0xd0 + ((mcu / interval - 1) % 8) as u8]);
                dc = [0; 4];
            }
            for &n in scan.iter() {
                let component = &self.components[n];
                let [h, v] = if scan.len() == 1 { [1, 1] } else { [component.h, component.v] };
                for (y, x) in (0..v).flat_map(|y| (0..h).map(move |x| (y, x))) {
                    let (row, column) = (mcu / columns * v + y, mcu % columns * h + x);
                    let block = &component.blocks[row * component.all[0] + column];
                    bits.write_block(block, block[0] - std::mem::replace(&mut dc[n], block[0]));
                }
            }
        }
        bits.end(file);
    }
}

/// The symbols of AC codes, by code.
fn ac_symbols() -> Vec<u8> {
    let pairs = (0..16).flat_map(|run| (1..=10).map(move |size| run << 4 | size));
    [0, 0xf0].into_iter().chain(pairs).collect()
}

/// Coded data.
#[derive(Default)]
struct Bits(Vec<bool>);

impl Bits {
    fn put(&mut self, value: u16, bits: u32) {
        self.0.extend((0..bits).rev().map(|bit| value >> bit & 1 == 1));
    }

    fn put_value(&mut self, value: i16, size: u32) {
        let low = if value < 0 { value - 1 } else { value } as u16;
        self.put(low & ((1 << size) - 1), size);
    }

    fn write_block(&mut self, block: &[i16; 64], difference: i16) {
        let size_of = |value: i16| 16 - value.unsigned_abs().leading_zeros();
        self.put(size_of(difference) as u16, 4);
        self.put_value(difference, size_of(difference));
        let mut zeros = 0;
        for value in POSITIONS[1..64].iter().map(|&at| block[usize::from(at)]) {
            if value == 0 {
                zeros += 1;
                continue;
            }
            while zeros > 15 {
                self.put(1, 8);
                zeros -= 16;
            }
            let size = size_of(value);
            self.put((2 + 10 * zeros + size - 1) as u16, 8);
            self.put_value(value, size);
            zeros = 0;
        }
        if zeros > 0 {
            self.put(0, 8);
        }
    }

    fn end(self, file: &mut Vec<u8>) {
        for byte in self.0.chunks(8) {
            let filled = (0..8).map(|n| u8::from(*byte.get(n).unwrap_or(&true)) << (7 - n));
            let byte = filled.sum::<u8>();
            file.push(byte);
            if byte == 0xff {
                file.push(0);
            }
        }
    }
}

/// The factors of three components, from a number below 4096; `None` if a ratio is not whole.
fn factors(n: usize) -> Option<[[usize; 2]; 3]> {
    let factors = [n / 256 % 16, n / 16 % 16, n % 16].map(|two| [1 + two / 4, 1 + two % 4]);
    let most = |axis: usize| factors.iter().map(|two| two[axis]).max().unwrap();
    let is_whole = |two: &[usize; 2]| [0, 1].iter().all(|&axis| most(axis) % two[axis] == 0);
    factors.iter().all(is_whole).then_some(factors)
}

#[test]
fn scans_in_any_order_and_sampling_have_the_pixels_of_one_scan() {
    let samplings: Vec<_> = (0..4096).filter_map(factors).collect();
    let usual =
        [[[1, 1]; 3], [[2, 1], [1, 1], [1, 1]], [[1, 2], [1, 1], [1, 1]], [[2, 2], [1, 1], [1, 1]]];
    let mut decoder = Decoder::default();
    for n in numbers("FUSELOOP_JPEG_SCANS") {
        let mut rng = random(n);
        let factors = if n % 3 == 0 {
            usual[(n / 3 % 4) as usize]
        } else {
            samplings[below(&mut rng, samplings.len())]
        };
        let size = Size::new(1 + rng.next_u32() % 70, 1 + rng.next_u32() % 70);
        let image = Coefficients::random(size, &factors, &mut rng);
        let one = image.write(&[&[0, 1, 2]], 0);
        let expected = pixels(&mut decoder, &one, size.full()).unwrap();
        for (scans, interval) in SCANS
            .iter()
            .flat_map(|scans| [(scans, 0), (scans, 1 + below(&mut rng, 9))])
            .collect::<Vec<_>>()
        {
            let file = image.write(scans, interval);
            let name = format!("image {n}, {size}, {factors:?}, {scans:?}, interval {interval}");
            let found = pixels(&mut decoder, &file, size.full())
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(found == expected, "{name}");
            let window = random_window(size, &mut rng);
            let found = pixels(&mut decoder, &file, window).unwrap();
            let columns = |y: u32| {
                let start = 3 * (y * size.width + window.left) as usize;
                start..start + 3 * window.width as usize
            };
            let rows = window.top..window.top + window.height;
            let part: Vec<u8> = rows.flat_map(|y| expected[columns(y)].to_vec()).collect();
            assert!(found == part, "{name}, {window:?}");
        }
        // A gray image, whose factors mean nothing.
        let gray = Coefficients::random(size, &factors[..1], &mut rng);
        let mut plain = Coefficients::random(size, &[[1, 1]], &mut rng);
        let own = gray.components[0].own;
        plain.components[0].blocks = (0..own[0] * own[1])
            .map(|at| {
                gray.components[0].blocks[at / own[0] * gray.components[0].all[0] + at % own[0]]
            })
            .collect();
        let [found, expected] = [&gray, &plain]
            .map(|image| pixels(&mut decoder, &image.write(&[&[0]], 0), size.full()).unwrap());
        assert!(found == expected, "image {n}, gray, {size}, {:?}", factors[0]);
    }
}

/// libjpeg's pixels, of the samplings that the Rust port of libjpeg-turbo reads in one scan: those without finer chroma.
#[test]
fn every_whole_sampling_is_near_libjpegs() {
    let samplings: Vec<_> = (0..4096).filter_map(factors).collect();
    let (mut decoder, mut compared) = (Decoder::default(), 0);
    for (n, factors) in samplings.iter().enumerate() {
        let mut rng = random(n as u64);
        // More than two columns of chroma: libjpeg does not interpolate fewer.
        let size = Size::new(9 + rng.next_u32() % 50, 13 + rng.next_u32() % 50);
        if factors.iter().map(|[h, v]| h * v).sum::<usize>() > 10 {
            continue;
        }
        let file = Coefficients::random(size, factors, &mut rng).write(&[&[0, 1, 2]], 0);
        let found = pixels(&mut decoder, &file, size.full()).unwrap();
        let Ok(expected) = libjpeg_turbo_rs::decompress(&file) else { continue };
        let most = found.iter().zip(&expected.data).map(|(a, b)| a.abs_diff(*b)).max();
        assert!(most <= Some(5), "{size} {factors:?}: {most:?}");
        compared += 1;
    }
    assert!(compared > 30, "{compared}");
}

#[test]
fn ratios_that_libjpeg_refuses_are_refused_by_name() {
    let mut rng = random(1);
    let size = Size::new(20, 30);
    let file = Coefficients::random(size, &[[3, 1], [2, 1], [1, 1]], &mut rng);
    let error = Decoder::default().size(&unmeasured(&file.write(&[&[0, 1, 2]], 0))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged);
    let expected = "JPEG component 1 has 2x1 samples where the finest has 3x1: ";
    assert!(error.to_string().starts_with(expected), "{error}");
}

/// The byte ranges of the scans of a file, from their markers on.
fn scan_ranges(file: &[u8]) -> Vec<Range<usize>> {
    let starts: Vec<usize> =
        (0..file.len() - 1).filter(|&at| file[at..at + 2] == [0xff, 0xda]).collect();
    let ends = starts.iter().skip(1).copied().chain([file.len() - 2]);
    starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect()
}

#[test]
fn missing_repeated_and_short_scans_are_damage() {
    let mut rng = random(2);
    let size = Size::new(40, 50);
    let image = Coefficients::random(size, &[[2, 2], [1, 1], [1, 1]], &mut rng);
    let file = image.write(SCANS[0], 0);
    let scans = scan_ranges(&file);
    let mut decoder = Decoder::default();
    let mut error_of = |file: &[u8]| pixels(&mut decoder, file, size.full()).unwrap_err();

    let missing = [&file[..scans[2].start], &[0xff, 0xd9]].concat();
    let error = error_of(&missing);
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert_eq!(error.to_string(), "JPEG component 2 has no scan");
    let repeated =
        [&file[..scans[2].start], &file[scans[1].clone()], &file[scans[2].start..]].concat();
    let header = |what, at| format!("damaged JPEG header: {what} at byte {at}");
    let error = error_of(&repeated);
    assert_eq!(error.kind(), ErrorKind::Damaged);
    let what = "a second scan of a component";
    assert_eq!(error.to_string(), header(what, scans[2].start + 2));
    let mut unknown = file.clone();
    unknown[scans[1].start + 5] = 9;
    let what = "a scan of an undeclared component";
    let error = error_of(&unknown);
    assert_eq!(error.kind(), ErrorKind::Damaged);
    assert_eq!(error.to_string(), header(what, scans[1].start + 2));
    for cut in 1..20 {
        let short = [&file[..scans[1].end - 3 * cut], &file[scans[1].end..]].concat();
        let error = error_of(&short);
        let text = error.to_string();
        let named =
            ["damaged JPEG: ", "bytes of pixels cannot be an image of", "the JPEG is cut short: "];
        assert_eq!(error.kind(), ErrorKind::Damaged, "{text}");
        assert!(named.iter().any(|part| text.contains(part)), "{text}");
        let len = scans[2].start + cut;
        let error = error_of(&file[..len]);
        let text = error.to_string();
        assert_eq!(error.kind(), ErrorKind::Damaged, "{text}");
        let named = ["the JPEG is cut short: ", "damaged JPEG header: "];
        assert!(named.iter().any(|start| text.starts_with(start)), "{text}");
    }
}

/// A tiny file whose header promises the largest image, with many scans of nothing.
#[test]
fn a_header_of_many_scans_is_refused_at_once() {
    let mut file =
        Coefficients::random(Size::new(8, 8), &[[1, 1]; 3], &mut random(3)).write(SCANS[0], 0);
    let frame = file.windows(2).position(|pair| pair == [0xff, 0xc0]).unwrap();
    let scans = scan_ranges(&file);
    let (mut decoder, begun) = (Decoder::default(), std::time::Instant::now());
    for side in [65_500_u16, 13_000] {
        file[frame + 5..frame + 7].copy_from_slice(&side.to_be_bytes());
        file[frame + 7..frame + 9].copy_from_slice(&side.to_be_bytes());
        let mut many = file[..scans[0].start].to_vec();
        (0..10_000).for_each(|_| many.extend_from_slice(&file[scans[0].clone()]));
        many.extend_from_slice(&[0xff, 0xd9]);
        let image = unmeasured(&many);
        let full = Size::new(side.into(), side.into()).full();
        let error = decoder.decode(&image, full).unwrap_err();
        let (kind, text) = (error.kind(), error.to_string());
        let is_over = kind == ErrorKind::Damaged && text.contains(" pixels, the limit is ");
        let is_short = kind == ErrorKind::Damaged && text.contains("bytes of pixels cannot be");
        assert!(is_over || is_short, "{kind:?}: {text}");
    }
    assert!(begun.elapsed().as_secs() < 2);
}
