//! Writes lossless images of random settings: transforms in any order, codes of any lengths, copies of any distances.

use fuseloop_ops::Size;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::Rng as _;

type Rng = Xoshiro256PlusPlus;

fn below(rng: &mut Rng, most: usize) -> usize {
    (rng.next_u64() % most as u64) as usize
}

/// Writes bits, the lowest one of a byte first.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    count: usize,
}

impl Bits {
    fn put(&mut self, number: usize, count: u32) {
        for i in 0..count {
            if self.count.is_multiple_of(8) {
                self.bytes.push(0);
            }
            *self.bytes.last_mut().unwrap() |= ((number >> i & 1) as u8) << (self.count % 8);
            self.count += 1;
        }
    }
}

/// A prefix code: the length and the codeword of each symbol.
struct Code {
    lengths: Vec<u32>,
    words: Vec<usize>,
    /// The symbols that have codewords.
    used: Vec<usize>,
}

impl Code {
    /// Returns a complete code of these symbols out of `symbols`, or of one symbol without bits.
    fn of_lengths(symbols: usize, lengths_of: &[(usize, u32)]) -> Self {
        let mut lengths = vec![0; symbols];
        for &(symbol, length) in lengths_of {
            lengths[symbol] = length;
        }
        let mut words = vec![0; symbols];
        let mut next = 0;
        for length in 1..16 {
            next <<= 1;
            for symbol in 0..symbols {
                if lengths[symbol] == length {
                    // The first bit of a codeword is its highest one, and is written first.
                    words[symbol] = (0..length).fold(0, |word, i| word << 1 | next >> i & 1);
                    next += 1;
                }
            }
        }
        let used = lengths_of.iter().map(|&(symbol, _)| symbol).collect();
        Self { lengths, words, used }
    }

    /// Returns a code of random lengths for some of the symbols `may`, of which it has `must`.
    fn random(rng: &mut Rng, symbols: usize, may: &[usize], must: &[usize]) -> Self {
        let most = [1, 2, 5, 40, 300][below(rng, 5)];
        let mut used = must.to_vec();
        for _ in 0..below(rng, most) {
            used.push(may[below(rng, may.len())]);
        }
        if used.is_empty() {
            used.push(may[below(rng, may.len())]);
        }
        used.sort_unstable();
        used.dedup();
        // A leaf becomes two until there is one for each symbol; the deep ones more often in some codes.
        let mut leaves = vec![0_u32];
        let is_deep = below(rng, 2) == 0;
        while leaves.len() < used.len() {
            let last = leaves.len() - 1;
            let at = if is_deep && below(rng, 4) > 0 { last } else { below(rng, leaves.len()) };
            if leaves[at] < 15 {
                leaves[at] += 1;
                leaves.push(leaves[at]);
            }
        }
        for at in (1..leaves.len()).rev() {
            leaves.swap(at, below(rng, at + 1));
        }
        let lengths_of: Vec<(usize, u32)> = used.into_iter().zip(leaves).collect();
        Self::of_lengths(symbols, &lengths_of)
    }

    fn put(&self, bits: &mut Bits, symbol: usize) {
        assert!(self.used.contains(&symbol), "{symbol} has no codeword");
        bits.put(self.words[symbol], self.lengths[symbol]);
    }

    /// Writes the code itself.
    fn write(&self, rng: &mut Rng, bits: &mut Bits) {
        let used = &self.used;
        let is_short = used.len() <= 2 && used.iter().all(|&symbol| symbol < 256);
        if is_short && below(rng, 4) > 0 {
            bits.put(1, 1);
            bits.put(used.len() - 1, 1);
            let is_bit = used[0] < 2 && below(rng, 2) == 0;
            bits.put(usize::from(!is_bit), 1);
            bits.put(used[0], if is_bit { 1 } else { 8 });
            if let Some(&second) = used.get(1) {
                bits.put(second, 8);
            }
            return;
        }
        bits.put(0, 1);
        // 13 lengths of 4 bits and 6 of 5 bits.
        let of_lengths: Vec<(usize, u32)> =
            (0..19).map(|symbol| (symbol, if symbol < 13 { 4 } else { 5 })).collect();
        let code = Self::of_lengths(19, &of_lengths);
        bits.put(15, 4);
        for symbol in [17, 18, 0, 1, 2, 3, 4, 5, 16, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15] {
            bits.put(code.lengths[symbol] as usize, 3);
        }
        let mut lengths = self.lengths.clone();
        if used.len() == 1 {
            lengths[used[0]] = 1;
        }
        // The lengths as symbols, with the bits that follow them.
        let mut written = vec![];
        let (mut at, mut last) = (0, 8);
        while at < lengths.len() {
            let length = lengths[at];
            let equal = lengths[at..].iter().take_while(|&&other| other == length).count();
            let may_repeat = below(rng, 8) > 0;
            let count = match length {
                0 if may_repeat && equal >= 11 => {
                    let count = equal.min(138);
                    written.push((18, count - 11, 7));
                    count
                }
                0 if may_repeat && equal >= 3 => {
                    let count = equal.min(10);
                    written.push((17, count - 3, 3));
                    count
                }
                _ if length == last && may_repeat && equal >= 3 => {
                    let count = equal.min(6);
                    written.push((16, count - 3, 2));
                    count
                }
                _ => {
                    written.push((length as usize, 0, 0));
                    1
                }
            };
            last = if length == 0 { last } else { length };
            at += count;
        }
        // Zeros at the end need not be written.
        let needed = written.iter().rposition(|&(symbol, ..)| !matches!(symbol, 0 | 17 | 18));
        let needed = needed.map_or(0, |at| at + 1).max(2);
        if needed < written.len() && below(rng, 2) == 0 {
            written.truncate(needed);
            bits.put(1, 1);
            bits.put(4, 3);
            bits.put(needed - 2, 10);
        } else {
            bits.put(0, 1);
        }
        for (symbol, rest, count) in written {
            code.put(bits, symbol);
            bits.put(rest, count);
        }
    }
}

/// Returns the symbol of a length or a distance, and the bits that follow it.
fn prefix(number: usize) -> (usize, usize, u32) {
    if number <= 4 {
        return (number - 1, 0, 0);
    }
    let rest = number - 1;
    let count = rest.ilog2() - 1;
    (2 * count as usize + 2 + (rest >> count & 1), rest & ((1 << count) - 1), count)
}

/// The settings of an image that is written.
struct Image<'a> {
    width: usize,
    height: usize,
    /// True for the image itself, false for the data of a transform.
    is_main: bool,
    /// The green that pixels have.
    greens: &'a [usize],
    /// Red and blue are 0, as in the image of groups.
    is_green: bool,
}

/// Writes the codes and the pixels of an image. Returns the pixels.
fn write_image(rng: &mut Rng, bits: &mut Bits, image: &Image<'_>) -> Vec<u32> {
    let &Image { width, height, is_main, greens, is_green } = image;
    let cache_bits = if below(rng, 2) == 0 { 0 } else { 1 + below(rng, 11) as u32 };
    bits.put(usize::from(cache_bits > 0), 1);
    if cache_bits > 0 {
        bits.put(cache_bits as usize, 4);
    }
    let cache_size = if cache_bits > 0 { 1 << cache_bits } else { 0 };
    let mut groups = vec![0];
    let (mut side, mut columns) = (20, 1);
    if is_main {
        let has_groups = below(rng, 2) == 0;
        bits.put(usize::from(has_groups), 1);
        if has_groups {
            side = 2 + below(rng, 4);
            bits.put(side - 2, 3);
            columns = width.div_ceil(1 << side);
            let rows = height.div_ceil(1 << side);
            let all: Vec<usize> = (0..1 + below(rng, 9)).collect();
            let data = Image {
                width: columns,
                height: rows,
                is_main: false,
                greens: &all,
                is_green: true,
            };
            groups = write_image(rng, bits, &data);
            groups.iter_mut().for_each(|pixel| *pixel = *pixel >> 8 & 0xffff);
        }
    }
    let all: Vec<usize> = (0..256).collect();
    let others: &[usize] = if is_green { &[0] } else { &all };
    let lengths: Vec<usize> = (256..280).collect();
    let caches: Vec<usize> = (280..280 + cache_size).collect();
    let distances: Vec<usize> = (0..40).collect();
    let count = groups.iter().max().map_or(0, |&most| most as usize + 1);
    let codes: Vec<[Code; 5]> = (0..count)
        .map(|_| {
            let may = [greens, &lengths, &caches].concat();
            let must = [greens[below(rng, greens.len())]];
            let codes = [
                Code::random(rng, 280 + cache_size, &may, &must),
                Code::random(rng, 256, others, &[]),
                Code::random(rng, 256, others, &[]),
                Code::random(rng, 256, &all, &[]),
                Code::random(rng, 40, &distances, &[]),
            ];
            codes.iter().for_each(|code| code.write(rng, bits));
            codes
        })
        .collect();
    let mut pixels: Vec<u32> = vec![];
    let mut cache: Vec<Option<u32>> = vec![None; cache_size];
    while pixels.len() < width * height {
        let (y, x) = (pixels.len() / width, pixels.len() % width);
        let codes = &codes[groups[(y >> side) * columns + (x >> side)] as usize];
        let before = pixels.len();
        write_symbol(rng, bits, codes, width, width * height, &mut pixels, &cache);
        for &pixel in &pixels[before..] {
            if cache_bits > 0 {
                let hash = pixel.wrapping_mul(0x1e35_a7bd) >> (32 - cache_bits);
                cache[hash as usize] = Some(pixel);
            }
        }
    }
    pixels
}

/// Writes a symbol of green that is possible, and what follows it.
fn write_symbol(
    rng: &mut Rng,
    bits: &mut Bits,
    codes: &[Code; 5],
    width: usize,
    most: usize,
    pixels: &mut Vec<u32>,
    cache: &[Option<u32>],
) {
    let [green, red, blue, alpha, distance] = codes;
    loop {
        let symbol = green.used[below(rng, green.used.len())];
        match symbol {
            0..256 => {
                let [r, b, a] =
                    [red, blue, alpha].map(|code| code.used[below(rng, code.used.len())]);
                green.put(bits, symbol);
                [(red, r), (blue, b), (alpha, a)].iter().for_each(|(code, s)| code.put(bits, *s));
                pixels.push((a << 24 | r << 16 | symbol << 8 | b) as u32);
                return;
            }
            256..280 => {
                // A length of this symbol, and a distance of one of the symbols that are used, that fit.
                let lengths: Vec<usize> = (1..=(most - pixels.len()).min(4096))
                    .filter(|&length| prefix(length).0 == symbol - 256)
                    .collect();
                let farthest = [130, 4096][below(rng, 2)];
                let code = 1 + below(rng, farthest);
                let (distance_symbol, rest, count) = prefix(code);
                let Some(from) = pixels.len().checked_sub(distance_of(code, width)) else {
                    continue;
                };
                if lengths.is_empty() || !distance.used.contains(&distance_symbol) {
                    continue;
                }
                let length = lengths[below(rng, lengths.len())];
                green.put(bits, symbol);
                let (_, length_rest, length_count) = prefix(length);
                bits.put(length_rest, length_count);
                distance.put(bits, distance_symbol);
                bits.put(rest, count);
                (from..from + length).for_each(|at| pixels.push(pixels[at]));
                return;
            }
            _ => {
                if let Some(pixel) = cache[symbol - 280] {
                    green.put(bits, symbol);
                    pixels.push(pixel);
                    return;
                }
            }
        }
    }
}

/// Returns the distance of a code: those up to 120 are near pixels, sorted by their distance.
fn distance_of(code: usize, width: usize) -> usize {
    if code > 120 {
        return code - 120;
    }
    let mut near: Vec<(i32, i32)> = (0..8).flat_map(|y| (-7..=8).map(move |x| (x, y))).collect();
    near.retain(|&(x, y)| y > 0 || x > 0);
    near.sort_by_key(|&(x, y)| (x * x + y * y, x.abs(), x < 0));
    let (x, y) = near[code - 1];
    (y * width as i32 + x).max(1) as usize
}

/// Returns the size of an image, whether it has alpha, and the bytes of its chunk.
pub(crate) fn random_image(rng: &mut Rng) -> (Size, bool, Vec<u8>) {
    let (height, width) = (1 + below(rng, 40), 1 + below(rng, 40));
    let has_alpha = below(rng, 2) == 0;
    let mut bits = Bits::default();
    bits.put(0x2f, 8);
    bits.put(width - 1, 14);
    bits.put(height - 1, 14);
    bits.put(usize::from(has_alpha), 1);
    bits.put(0, 3);
    let mut kinds = [0, 1, 2, 3];
    for at in (1..4).rev() {
        kinds.swap(at, below(rng, at + 1));
    }
    let mut coded_width = width;
    let all: Vec<usize> = (0..256).collect();
    // Other decoders disagree about the modes that are not defined.
    let modes: Vec<usize> = (0..14).collect();
    for &kind in &kinds[..below(rng, 5)] {
        bits.put(1, 1);
        bits.put(kind, 2);
        let greens = if kind == 0 { &modes } else { &all };
        let mut image =
            Image { width: coded_width, height, is_main: false, greens, is_green: false };
        match kind {
            0 | 1 => {
                let side = 2 + below(rng, 4);
                bits.put(side - 2, 3);
                image.width = coded_width.div_ceil(1 << side);
                image.height = height.div_ceil(1 << side);
                write_image(rng, &mut bits, &image);
            }
            2 => {}
            _ => {
                let most = [2, 4, 16, 256][below(rng, 4)];
                let count = 1 + below(rng, most);
                bits.put(count - 1, 8);
                (image.width, image.height) = (count, 1);
                write_image(rng, &mut bits, &image);
                let packed = [(2, 3), (4, 2), (16, 1)].iter().find(|&&(most, _)| count <= most);
                coded_width = coded_width.div_ceil(1 << packed.map_or(0, |&(_, packed)| packed));
            }
        }
    }
    bits.put(0, 1);
    let image = Image { width: coded_width, height, is_main: true, greens: &all, is_green: false };
    write_image(rng, &mut bits, &image);
    (Size::new(height as u32, width as u32), has_alpha, bits.bytes)
}
