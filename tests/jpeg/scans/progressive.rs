//! Progressive JPEGs of random scripts of scans: their pixels are those of the same coefficients in a baseline JPEG, and
//! near zune-jpeg's and libjpeg's.

use super::{Bits, Coefficients, POSITIONS, ac_symbols, factors, random, scan_ranges};
use crate::common::jpegs::{Edges, below, pixels, random_window, unmeasured};
use fuseloop::internals::decode::{DecodeOptions, Decoder, JpegBackend};
use fuseloop::sample::Limits;
use fuseloop::{ErrorKind, ImageReadMode};
use fuseloop_counts::numbers;
use fuseloop_ops::Size;
use fuseloop_ops::author::Window;
use rand_xoshiro::rand_core::Rng;
use std::mem::take;

/// A scan: its components, its first and last coefficient, the low bits left out before (0 if none was sent), and now.
#[derive(Clone, Debug)]
struct ScanOf {
    components: Vec<usize>,
    band: [usize; 2],
    before: u32,
    low: u32,
}

/// Draws scans that send all bits of all coefficients: DC coefficients of several components or of one, and AC
/// coefficients in bands that are refined together, in parts, or with others.
fn script(components: usize, rng: &mut impl Rng) -> Vec<ScanOf> {
    let mut scans = vec![];
    let all: Vec<usize> = (0..components).collect();
    let (mut before, mut low) = (0, below(rng, 4) as u32);
    loop {
        let each: Vec<Vec<usize>> = match below(rng, 3) {
            0 => all.iter().map(|&component| vec![component]).collect(),
            1 if components > 1 => vec![vec![0], all[1..].to_vec()],
            _ => vec![all.clone()],
        };
        let band = [0, 0];
        scans.extend(each.into_iter().map(|components| ScanOf { components, band, before, low }));
        if low == 0 {
            break;
        }
        (before, low) = (low, low - 1);
    }
    // The low bits of each coefficient that are not yet sent.
    let mut left = vec![[None::<u32>; 64]; components];
    let is_open = |left: &[Option<u32>; 64]| left[1..].iter().any(|left| *left != Some(0));
    loop {
        let open: Vec<usize> = (0..components).filter(|&n| is_open(&left[n])).collect();
        if open.is_empty() {
            return scans;
        }
        let component = open[below(rng, open.len())];
        let left = &mut left[component];
        let starts: Vec<usize> = (1..64).filter(|&at| left[at] != Some(0)).collect();
        let mut first = starts[if scans.len() < 20 { below(rng, starts.len()) } else { 0 }];
        if below(rng, 2) == 0 {
            while first > 1 && left[first - 1] == left[first] {
                first -= 1;
            }
        }
        let state = left[first];
        let mut last = first;
        while last < 63 && left[last + 1] == state && (scans.len() > 20 || below(rng, 20) > 0) {
            last += 1;
        }
        let low = match state {
            Some(before) => before - 1,
            None if scans.len() > 40 => 0,
            None => below(rng, 4) as u32,
        };
        left[first..=last].fill(Some(low));
        let before = state.unwrap_or(0);
        scans.push(ScanOf { components: vec![component], band: [first, last], before, low });
    }
}

/// The blocks of a scan of some components, MCU by MCU: the component, and the block's index among its blocks.
fn mcus(image: &Coefficients, components: &[usize]) -> Vec<Vec<(usize, usize)>> {
    let [columns, rows] = match components {
        [alone] => image.components[*alone].own,
        _ => image.mcus(),
    };
    let blocks = |mcu: usize| {
        let mut blocks = vec![];
        for &n in components {
            let component = &image.components[n];
            let [h, v] = if components.len() == 1 { [1; 2] } else { [component.h, component.v] };
            for (y, x) in (0..v).flat_map(|y| (0..h).map(move |x| (y, x))) {
                let (row, column) = (mcu / columns * v + y, mcu % columns * h + x);
                blocks.push((n, row * component.all[0] + column));
            }
        }
        blocks
    };
    (0..columns * rows).map(blocks).collect()
}

/// The codes of AC symbols: their length, of which there is one.
#[derive(Clone, Copy)]
struct AcCodes(u32);

/// AC symbols by code: those of sequential images, and ends of up to 14 bits.
fn symbols() -> Vec<u8> {
    ac_symbols().into_iter().chain((1..15).map(|bits| bits << 4)).collect()
}

impl AcCodes {
    fn put(self, bits: &mut Bits, symbol: u8) {
        let code = symbols().iter().position(|&other| other == symbol).unwrap();
        bits.put(code as u16, self.0);
    }
}

/// The coding of AC coefficients: blocks that have ended, and the bits that refine their coefficients.
struct AcWriter {
    codes: AcCodes,
    bits: Bits,
    ended: u32,
    waiting: Vec<bool>,
    /// The largest number of blocks that one code ends.
    most: u32,
}

impl AcWriter {
    fn flush(&mut self) {
        if self.ended > 0 {
            let count = self.ended.ilog2();
            self.codes.put(&mut self.bits, (count << 4) as u8);
            self.bits.put((self.ended - (1 << count)) as u16, count);
            self.ended = 0;
        }
        self.bits.0.append(&mut self.waiting);
    }

    fn end_block(&mut self, refining: Vec<bool>) {
        self.ended += 1;
        self.waiting.extend(refining);
        if self.ended == self.most {
            self.flush();
        }
    }

    fn write_first(&mut self, values: &[i16]) {
        let mut zeros = 0;
        for &value in values {
            if value == 0 {
                zeros += 1;
                continue;
            }
            self.flush();
            while zeros > 15 {
                self.codes.put(&mut self.bits, 0xf0);
                zeros -= 16;
            }
            let size = 16 - value.unsigned_abs().leading_zeros();
            self.codes.put(&mut self.bits, (zeros << 4 | size) as u8);
            self.bits.put_value(value, size);
            zeros = 0;
        }
        if zeros > 0 {
            self.end_block(vec![]);
        }
    }

    fn write_refined(&mut self, values: &[i16]) {
        let last_new = values.iter().rposition(|value| value.abs() == 1);
        let (mut zeros, mut refining) = (0, vec![]);
        for (at, &value) in values.iter().enumerate() {
            if value == 0 {
                zeros += 1;
                continue;
            }
            while zeros > 15 && last_new.is_some_and(|last| at <= last) {
                self.flush();
                self.codes.put(&mut self.bits, 0xf0);
                self.bits.0.append(&mut refining);
                zeros -= 16;
            }
            if value.abs() > 1 {
                refining.push(value & 1 == 1);
                continue;
            }
            self.flush();
            self.codes.put(&mut self.bits, (zeros << 4 | 1) as u8);
            self.bits.put(u16::from(value > 0), 1);
            self.bits.0.append(&mut refining);
            zeros = 0;
        }
        if zeros > 0 || !refining.is_empty() {
            self.end_block(refining);
        }
    }
}

/// How a progressive file is coded.
struct Coding {
    /// MCUs between restart markers; 0 if there are none.
    interval: usize,
    /// The length of AC codes.
    length: u32,
    /// The largest number of blocks that one code ends.
    ended: u32,
}

/// Writes an image in some scans.
fn write(image: &Coefficients, scans: &[ScanOf], coding: &Coding) -> Vec<u8> {
    let mut file = image.head(0xc2);
    let segment = |file: &mut Vec<u8>, marker: u8, body: &[u8]| {
        file.extend([0xff, marker]);
        file.extend((body.len() as u16 + 2).to_be_bytes());
        file.extend(body);
    };
    let mut counts = [0; 16];
    counts[3] = 12;
    segment(&mut file, 0xc4, &[&[0][..], &counts, &(0..12).collect::<Vec<u8>>()].concat());
    let symbols = symbols();
    let mut counts = [0; 16];
    counts[coding.length as usize - 1] = symbols.len() as u8;
    segment(&mut file, 0xc4, &[&[0x10][..], &counts, &symbols].concat());
    if coding.interval > 0 {
        segment(&mut file, 0xdd, &(coding.interval as u16).to_be_bytes());
    }
    for scan in scans {
        let count = scan.components.len() as u8;
        file.extend([0xff, 0xda, 0, 6 + 2 * count, count]);
        scan.components.iter().for_each(|&component| file.extend([component as u8 + 1, 0]));
        let [first, last] = scan.band;
        file.extend([first as u8, last as u8, (scan.before << 4 | scan.low) as u8]);
        write_scan(image, scan, coding, &mut file);
    }
    file.extend([0xff, 0xd9]);
    file
}

fn write_scan(image: &Coefficients, scan: &ScanOf, coding: &Coding, file: &mut Vec<u8>) {
    let [first, last] = scan.band;
    let mut dc = [0; 4];
    let mut ac = AcWriter {
        codes: AcCodes(coding.length),
        bits: Bits::default(),
        ended: 0,
        waiting: vec![],
        most: coding.ended,
    };
    for (n, mcu) in mcus(image, &scan.components).into_iter().enumerate() {
        if coding.interval > 0 && n > 0 && n % coding.interval == 0 {
            ac.flush();
            take(&mut ac.bits).end(file);
            file.extend([0xff, 0xd0 + ((n / coding.interval - 1) % 8) as u8]);
            dc = [0; 4];
        }
        for (component, block) in mcu {
            let block = &image.components[component].blocks[block];
            if first > 0 {
                let value = |&at: &u8| {
                    let value = block[usize::from(at)];
                    value.signum() * (value.abs() >> scan.low)
                };
                let values: Vec<i16> = POSITIONS[first..=last].iter().map(value).collect();
                match scan.before {
                    0 => ac.write_first(&values),
                    _ => ac.write_refined(&values),
                }
                continue;
            }
            let value = block[0] >> scan.low;
            if scan.before > 0 {
                ac.bits.put((value & 1) as u16, 1);
                continue;
            }
            let difference = value - std::mem::replace(&mut dc[component], value);
            let size = 16 - difference.unsigned_abs().leading_zeros();
            ac.bits.put(size as u16, 4);
            ac.bits.put_value(difference, size);
        }
    }
    ac.flush();
    ac.bits.end(file);
}

fn coding(rng: &mut impl Rng) -> Coding {
    Coding {
        interval: [0, 0, 1 + below(rng, 30)][below(rng, 3)],
        length: [8, 11, 16][below(rng, 3)],
        ended: [1, 2, 5, 0x7fff][below(rng, 4)],
    }
}

fn core() -> Decoder {
    Decoder::with_backend(JpegBackend::Core, DecodeOptions::default())
}

/// A window of an image, at 1 / `factor` of its size; `None` if the image is not decoded at a smaller scale.
fn read(
    decoder: &mut Decoder,
    jpeg: &[u8],
    mode: ImageReadMode,
    factor: u32,
    window: impl FnOnce(Size) -> Window,
) -> Option<Vec<u8>> {
    let image = unmeasured(jpeg);
    let mut opened = decoder.open_as(&image, mode).unwrap();
    if factor > 1 {
        let scaled = opened.scaled(factor)?;
        opened.set_scale(&scaled);
    }
    let window = window(opened.size());
    let view = opened.decode(window).unwrap().window(window).unwrap();
    Some((0..window.height).flat_map(|y| view.row(y).to_vec()).collect())
}

/// The same coefficients without their low bits that are not sent in `scans`.
fn sent(image: &Coefficients, scans: &[ScanOf]) -> Coefficients {
    let mut sent = image.clone();
    for (component, plane) in sent.components.iter_mut().enumerate() {
        for (at, &position) in POSITIONS.iter().enumerate() {
            let has = |scan: &&ScanOf| {
                let [first, last] = scan.band;
                scan.components.contains(&component) && (first..=last).contains(&at)
            };
            let low = scans.iter().rev().find(has).map(|scan| scan.low);
            for block in &mut plane.blocks {
                let value = &mut block[usize::from(position)];
                *value = match low {
                    None => 0,
                    Some(low) if at == 0 => *value >> low << low,
                    Some(low) => value.signum() * (value.abs() >> low << low),
                };
            }
        }
    }
    sent
}

#[test]
fn scans_of_any_script_have_the_pixels_of_a_baseline_image() {
    let samplings: Vec<_> = (0..4096).filter_map(factors).collect();
    let usual =
        [[[1, 1]; 3], [[2, 1], [1, 1], [1, 1]], [[1, 2], [1, 1], [1, 1]], [[2, 2], [1, 1], [1, 1]]];
    let (mut decoder, mut compared) = (core(), 0);
    let mut zune = Decoder::with_backend(JpegBackend::Zune, DecodeOptions::default());
    for n in numbers("FUSELOOP_JPEG_SCANS") {
        let mut rng = random(n + 1_000_000);
        let is_usual = n % 4 > 0;
        let factors = match n % 4 {
            0 => samplings[below(&mut rng, samplings.len())],
            _ => usual[(n / 4 % 4) as usize],
        };
        let factors = match n % 11 {
            7 => &factors[..1],
            8 => &[[1, 1]; 4][..],
            _ => &factors[..],
        };
        let size = Size::new(1 + rng.next_u32() % 90, 1 + rng.next_u32() % 90);
        let image = Coefficients::random(size, factors, &mut rng);
        let mut scans = script(factors.len(), &mut rng);
        if n % 5 == 0 {
            // Some of the scans, those of DC coefficients among them.
            let dc = scans.iter().filter(|scan| scan.band[1] == 0).count();
            scans.truncate(dc + below(&mut rng, scans.len() - dc + 1));
        }
        let baseline = sent(&image, &scans).write(&[&[0, 1, 2, 3][..factors.len()]], 0);
        let coding = coding(&mut rng);
        let file = write(&image, &scans, &coding);
        let name = format!("image {n}, {size}, {factors:?}, interval {}", coding.interval);
        let part = random_window(size, &mut rng);
        for mode in [ImageReadMode::Rgb, ImageReadMode::Gray] {
            for window in [size.full(), part] {
                let [found, expected] =
                    [&file, &baseline].map(|jpeg| read(&mut decoder, jpeg, mode, 1, |_| window));
                assert!(found == expected, "{name}, {mode:?}, {window:?}, {scans:?}");
            }
            for factor in [2, 4, 8] {
                let window = |size: Size| random_window(size, &mut random(n));
                let [found, expected] =
                    [&file, &baseline].map(|jpeg| read(&mut decoder, jpeg, mode, factor, window));
                assert!(found == expected, "{name}, {mode:?}, 1/{factor}, {scans:?}");
            }
        }
        // libjpeg smooths the blocks of an image that lacks scans.
        if n % 5 == 0 || !is_usual {
            continue;
        }
        let found = pixels(&mut decoder, &file, size.full()).unwrap();
        if factors.len() < 4 {
            let expected = pixels(&mut zune, &file, size.full()).unwrap();
            let edges = Edges::of(&file, size);
            let differs = |byte: &usize| {
                let pixel = *byte as u32 / 3;
                found[*byte] != expected[*byte]
                    && !edges.has((pixel / size.width, pixel % size.width))
            };
            let first = (0..found.len()).find(differs);
            assert_eq!(first, None, "{name}: other pixels than zune-jpeg's, {scans:?}");
        }
        // More than two columns of chroma: libjpeg does not interpolate fewer.
        if let (3, true, Ok(expected)) =
            (factors.len(), size.width > 4, libjpeg_turbo_rs::decompress(&file))
        {
            let most = found.iter().zip(&expected.data).map(|(a, b)| a.abs_diff(*b)).max();
            assert!(most <= Some(5), "{name}: {most:?}");
            compared += 1;
        }
    }
    assert!(compared > 20, "{compared}");
}

/// A small image, and a script of its scans.
fn small() -> (Coefficients, Vec<ScanOf>) {
    let image = Coefficients::random(Size::new(40, 50), &[[2, 2], [1, 1], [1, 1]], &mut random(7));
    let scan = |components: &[usize], band, before, low| ScanOf {
        components: components.to_vec(),
        band,
        before,
        low,
    };
    let scans = vec![
        scan(&[0, 1, 2], [0, 0], 0, 1),
        scan(&[0], [1, 5], 0, 2),
        scan(&[2], [1, 63], 0, 1),
        scan(&[1], [1, 63], 0, 1),
        scan(&[0], [6, 63], 0, 2),
        scan(&[0], [1, 63], 2, 1),
        scan(&[0, 1, 2], [0, 0], 1, 0),
        scan(&[2], [1, 63], 1, 0),
        scan(&[1], [1, 63], 1, 0),
        scan(&[0], [1, 63], 1, 0),
    ];
    (image, scans)
}

const PLAIN: Coding = Coding { interval: 0, length: 8, ended: 0x7fff };

#[test]
fn scans_that_repeat_change_nothing() {
    let (image, scans) = small();
    let size = image.size;
    let file = write(&image, &scans, &PLAIN);
    let expected = pixels(&mut core(), &file, size.full()).unwrap();
    for n in 0..scans.len() {
        let mut again = scans.clone();
        again.insert(n, scans[n].clone());
        // A scan that refines once more has a bit for each coefficient that the first one set.
        if scans[n].before > 0 && n != 6 {
            continue;
        }
        let found = pixels(&mut core(), &write(&image, &again, &PLAIN), size.full()).unwrap();
        assert!(found == expected, "scan {n}");
    }
}

#[test]
fn scans_that_no_progressive_image_has_are_refused_by_name() {
    let (image, scans) = small();
    let size = image.size;
    let file = write(&image, &scans, &PLAIN);
    let ranges = scan_ranges(&file);
    // The header's last three bytes: first, last, approximation.
    let bands = "0 to 0, or some of 1 to 63";
    for (scan, parameters, found, expected) in [
        (0, [0, 5, 0x01], "coefficients 0 to 5", bands),
        (1, [1, 64, 0x02], "coefficients 1 to 64", bands),
        (1, [5, 1, 0x02], "coefficients 5 to 1", bands),
        (1, [1, 5, 0x0e], "the bits from 14 on", "from 13 on or less"),
        (5, [1, 63, 0x20], "bit 0 after bit 2", "bit 1"),
        (5, [1, 63, 0x22], "bit 2 after bit 2", "bit 1"),
        (6, [1, 63, 0x10], "AC coefficients of 3 components", "of 1"),
    ] {
        let mut other = file.clone();
        let start = ranges[scan].start;
        let at = start + 5 + 2 * scans[scan].components.len();
        other[at..at + 3].copy_from_slice(&parameters);
        let error = pixels(&mut core(), &other, size.full()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged);
        let at = start + 2;
        let expected = format!(
            "damaged JPEG header: a progressive scan of {found} at byte {at}, expected {expected}"
        );
        assert_eq!(error.to_string(), expected);
    }
    let mut other = file.clone();
    other[ranges[1].start + 5] = 9;
    let error = pixels(&mut core(), &other, size.full()).unwrap_err();
    let what = "a scan of an undeclared component";
    assert_eq!(
        error.to_string(),
        format!("damaged JPEG header: {what} at byte {}", ranges[1].start + 2)
    );
    let mut other = file;
    other[ranges[1].start + 6] = 3;
    let error = pixels(&mut core(), &other, size.full()).unwrap_err();
    let what = "a scan without its Huffman table";
    assert_eq!(
        error.to_string(),
        format!("damaged JPEG header: {what} at byte {}", ranges[1].start + 2)
    );
}

/// A scan names a component by its id: of two with the same id, it is the first one that the scan has not named yet.
#[test]
fn of_components_with_the_same_id_each_has_a_scan() {
    let image = Coefficients::random(Size::new(40, 50), &[[1, 1]; 3], &mut random(8));
    let scans = |lists: &[&[usize]]| -> Vec<ScanOf> {
        let scan =
            |list: &&[usize]| ScanOf { components: list.to_vec(), band: [0, 0], before: 0, low: 0 };
        lists.iter().map(scan).collect()
    };
    // The third component has the id of the second one, in the frame and in all scans.
    let twins = |lists: &[&[usize]]| {
        let mut file = write(&image, &scans(lists), &PLAIN);
        let frame = file.windows(2).position(|pair| pair == [0xff, 0xc2]).unwrap();
        file[frame + 16] = 2;
        for (range, list) in scan_ranges(&file).into_iter().zip(lists) {
            for (n, component) in list.iter().enumerate() {
                file[range.start + 5 + 2 * n] = [1, 2, 2][*component];
            }
        }
        file
    };
    let all = write(&image, &scans(&[&[0, 1, 2]]), &PLAIN);
    let expected = pixels(&mut core(), &all, image.size.full()).unwrap();
    for lists in [&[&[0, 1, 2][..]][..], &[&[0], &[1, 2]]] {
        let found = pixels(&mut core(), &twins(lists), image.size.full()).unwrap();
        assert!(found == expected, "{lists:?}");
    }
    for backend in [JpegBackend::Both, JpegBackend::Core, JpegBackend::Zune] {
        let mut decoder = Decoder::with_backend(backend, DecodeOptions::default());
        let twins = twins(&[&[0], &[1], &[2]]);
        let error = pixels(&mut decoder, &twins, image.size.full()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged);
        assert_eq!(error.to_string(), "JPEG component 2 has no scan", "{backend:?}");
    }
}

/// An interrupted copy that was given an end marker: the data of a scan end early.
#[test]
fn data_that_end_inside_a_scan_are_damage() {
    let (image, scans) = small();
    let size = image.size;
    let file = write(&image, &scans, &PLAIN);
    let expected = pixels(&mut core(), &file, size.full()).unwrap();
    let (mut wrong, mut refused) = (0, 0);
    for range in scan_ranges(&file) {
        for len in range.start + 14..range.end - 1 {
            let short = [&file[..len], &file[range.end..]].concat();
            match pixels(&mut core(), &short, size.full()) {
                Ok(found) => wrong += u32::from(found != expected),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
                    refused += 1;
                }
            }
        }
    }
    assert!(wrong == 0 && refused > 100, "{wrong} wrong, {refused} refused");
}

#[test]
fn a_window_needs_no_bytes_behind_its_last_row() {
    let (image, scans) = small();
    let mut file = write(&image, &scans, &PLAIN);
    let window = Window { top: 0, left: 0, height: 10, width: 50 };
    let expected = pixels(&mut core(), &file, window).unwrap();
    for range in scan_ranges(&file) {
        let at = range.end - 3;
        file[at] ^= 0x10;
        if file[at] == 0xff || file[at - 1] == 0xff {
            file[at] ^= 0x10;
        }
    }
    assert!(pixels(&mut core(), &file, window).unwrap() == expected);
}

/// Bytes are changed, removed and inserted: a window has the pixels of the whole image, or one of the two is refused.
#[test]
fn damaged_scans_are_refused_or_the_same_in_any_window() {
    let options = DecodeOptions { limits: Limits::SMALL, exif_orientation: false };
    let mut decoder = Decoder::with_backend(JpegBackend::Core, options);
    let (mut compared, mut refused) = (0, 0);
    for n in numbers("FUSELOOP_JPEG_SCANS") {
        let mut rng = random(n + 2_000_000);
        let factors = [[[1, 1]; 3], [[2, 2], [1, 1], [1, 1]], [[2, 1], [1, 1], [4, 1]]];
        let size = Size::new(1 + rng.next_u32() % 60, 1 + rng.next_u32() % 60);
        let image = Coefficients::random(size, &factors[below(&mut rng, 3)], &mut rng);
        let whole = write(&image, &script(3, &mut rng), &coding(&mut rng));
        for _ in 0..20 {
            let mut file = whole.clone();
            for _ in 0..1 + below(&mut rng, 3) {
                let at = 2 + below(&mut rng, file.len() - 4);
                match below(&mut rng, 4) {
                    0 => file[at] = rng.next_u32() as u8,
                    1 => {
                        file.remove(at);
                    }
                    2 => file.insert(at, [0, 0xff, 0x55][below(&mut rng, 3)]),
                    _ => file[at] ^= 1 << below(&mut rng, 8),
                }
            }
            let Ok(size) = decoder.size(&unmeasured(&file)) else { continue };
            let window = random_window(size, &mut rng);
            let [all, part] =
                [size.full(), window].map(|window| pixels(&mut decoder, &file, window).ok());
            let (Some(all), Some(part)) = (all, part) else {
                refused += 1;
                continue;
            };
            let columns = |y: u32| {
                let start = 3 * (y * size.width + window.left) as usize;
                start..start + 3 * window.width as usize
            };
            let rows = window.top..window.top + window.height;
            let expected: Vec<u8> = rows.flat_map(|y| all[columns(y)].to_vec()).collect();
            assert!(part == expected, "image {n}, {window:?} of {size}");
            compared += 1;
        }
    }
    println!("{compared} compared, {refused} refused");
    assert!(compared > 0 && refused > 0);
}
