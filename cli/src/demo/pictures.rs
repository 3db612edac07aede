//! Draws synthetic images from noise: similar enough to photographs for a JPEG decoder, and different
//! enough for a person to see what an augmentation did to them.
//!
//! The same class and number produce the same pixels on every machine with IEEE floats.

/// The classes of images; a class's number is its index here.
pub(crate) const CLASSES: [&str; 4] = ["coast", "flower", "mountain", "planet"];

/// A drawn image.
pub(crate) struct Picture {
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// `[height, width, 3]`, packed.
    pub(crate) pixels: Vec<u8>,
}

/// A colour, each component 0 to 1.
type Rgb = [f32; 3];

/// Draws image `number` of a class, 320 to 500 pixels a side.
///
/// # Panics
///
/// If there is no such class.
pub(crate) fn draw(class: usize, number: u32) -> Picture {
    let mut dice = Dice::new((class as u64) << 32 | u64::from(number));
    let (width, height) = (dice.whole(320, 500), dice.whole(320, 500));
    draw_sized(class, number, dice, width, height)
}

/// Like [`draw`], for a given size.
#[allow(dead_code, reason = "benchmarks draw pictures of one size")]
pub(crate) fn draw_at(class: usize, number: u32, width: u32, height: u32) -> Picture {
    let dice = Dice::new((class as u64) << 32 | u64::from(number));
    draw_sized(class, number, dice, width, height)
}

fn draw_sized(class: usize, number: u32, mut dice: Dice, width: u32, height: u32) -> Picture {
    let aspect = width as f32 / height as f32;
    let scene: Box<dyn Fn(f32, f32) -> Rgb> = match class {
        0 => coast(number, &mut dice, aspect),
        1 => flower(number, &mut dice, aspect),
        2 => mountain(number, &mut dice),
        3 => planet(number, &mut dice, aspect),
        _ => panic!("class {class}: there are {}", CLASSES.len()),
    };
    let grain = dice.seed();
    let mut pixels = Vec::with_capacity((width * height * 3) as usize);
    for y in 0..height {
        for x in 0..width {
            // Coordinates are in image heights from the top left corner, so that circles are round.
            let (u, v) = (x as f32 / height as f32, y as f32 / height as f32);
            let noise = (hash(x as i32, y as i32, grain) - 0.5) * 0.03;
            for part in scene(u, v) {
                pixels.push(((part + noise).clamp(0.0, 1.0) * 255.0).round() as u8);
            }
        }
    }
    Picture { width, height, pixels }
}

/// A sun over the sea.
fn coast(number: u32, dice: &mut Dice, aspect: f32) -> Box<dyn Fn(f32, f32) -> Rgb> {
    const SKIES: [(Rgb, Rgb); 4] = [
        ([0.16, 0.24, 0.48], [0.98, 0.62, 0.36]),
        ([0.20, 0.45, 0.78], [0.86, 0.92, 0.96]),
        ([0.24, 0.14, 0.36], [0.98, 0.44, 0.42]),
        ([0.10, 0.30, 0.42], [0.98, 0.80, 0.52]),
    ];
    let (top, low) = SKIES[number as usize % SKIES.len()];
    let horizon = dice.range(0.45, 0.65);
    let (sun_x, sun_y) = (aspect * dice.range(0.2, 0.8), horizon - dice.range(0.06, 0.28));
    let (clouds, waves) = (dice.seed(), dice.seed());
    let sky = move |u: f32, v: f32| {
        let base = mix(top, low, (v / horizon).clamp(0.0, 1.0).powf(1.4));
        let cloud = fbm(u * 3.0, v * 9.0, clouds, 5);
        let base = mix(base, [1.0, 0.95, 0.9], smooth(0.50, 0.78, cloud) * 0.7);
        let far = (u - sun_x).hypot(v - sun_y);
        let glow = (-far * 5.0).exp() * 0.7 + smooth(0.062, 0.055, far);
        mix(base, [1.0, 0.93, 0.72], glow.min(1.0))
    };
    Box::new(move |u, v| {
        if v < horizon {
            return sky(u, v);
        }
        let depth = (v - horizon) / (1.0 - horizon);
        let near = 1.0 / (depth + 0.06);
        let wave = fbm(u * 4.0 * near.min(12.0), near * 6.0, waves, 4);
        let mirror = sky(u, (horizon - (v - horizon) * 0.8 + (wave - 0.5) * 0.1).max(0.0));
        let water = mix(mirror, [0.03, 0.16, 0.24], 0.25 + 0.5 * depth);
        let path = (-((u - sun_x) / (0.05 + 0.16 * depth)).powi(2)).exp();
        mix(water, [1.0, 0.9, 0.7], smooth(0.5, 0.68, wave) * (0.22 + 0.7 * path))
    })
}

/// Blossoms before a blurred meadow.
fn flower(number: u32, dice: &mut Dice, aspect: f32) -> Box<dyn Fn(f32, f32) -> Rgb> {
    const PETALS: [Rgb; 6] = [
        [0.93, 0.30, 0.42],
        [0.98, 0.72, 0.18],
        [0.58, 0.36, 0.86],
        [0.97, 0.95, 0.92],
        [0.96, 0.46, 0.18],
        [0.36, 0.50, 0.94],
    ];
    struct Blossom {
        at: (f32, f32),
        radius: f32,
        petals: f32,
        turn: f32,
        colour: Rgb,
    }
    let colour = PETALS[number as usize % PETALS.len()];
    let mut blossoms = vec![];
    for k in 0..dice.whole(3, 7) {
        let size = if k == 0 { (0.24, 0.34) } else { (0.08, 0.2) };
        let middle = if k == 0 { 0.3 } else { 0.05 };
        blossoms.push(Blossom {
            at: (aspect * dice.range(middle, 1.0 - middle), dice.range(middle, 1.0 - middle)),
            radius: dice.range(size.0, size.1),
            petals: dice.whole(5, 9) as f32,
            turn: dice.range(0.0, std::f32::consts::TAU),
            colour: mix(colour, PETALS[dice.below(6)], 0.2),
        });
    }
    // The small ones come first, so that the large one is on top.
    blossoms.reverse();
    let (field, vein) = (dice.seed(), dice.seed());
    let (dark, light) = ([0.05, 0.20, 0.09], [0.52, 0.70, 0.26]);
    Box::new(move |u, v| {
        let blur = fbm(u * 3.0, v * 3.0, field, 2) * 0.8 + 0.2 * (1.0 - v);
        let mut out = mix(dark, light, smooth(0.2, 0.9, blur));
        for b in &blossoms {
            let (dx, dy) = (u - b.at.0, v - b.at.1);
            let (far, angle) = (dx.hypot(dy) / b.radius, dy.atan2(dx) + b.turn);
            let petal = (angle * b.petals * 0.5).cos().abs();
            let rim = 0.52 + 0.48 * petal.sqrt();
            if far > rim {
                let shadow = (1.0 - (far - rim) * 4.0).max(0.0) * 0.35;
                out = mix(out, [0.0, 0.06, 0.03], shadow);
                continue;
            }
            let fibre = fbm(angle * 9.0, far * 2.5, vein, 3);
            let shade = 0.55 + 0.35 * petal + 0.3 * (fibre - 0.5) + 0.15 * far;
            out = b.colour.map(|part| part * shade);
            if far < 0.24 {
                let seeds = fbm(u * 70.0, v * 70.0, vein, 2);
                let eye = mix([0.42, 0.22, 0.04], [1.0, 0.84, 0.26], seeds);
                out = mix(out, eye, smooth(0.24, 0.2, far));
            }
        }
        out
    })
}

/// Ridges behind ridges.
fn mountain(number: u32, dice: &mut Dice) -> Box<dyn Fn(f32, f32) -> Rgb> {
    const AIRS: [(Rgb, Rgb, Rgb); 4] = [
        ([0.30, 0.52, 0.80], [0.88, 0.92, 0.94], [0.06, 0.14, 0.16]),
        ([0.42, 0.32, 0.56], [0.98, 0.76, 0.62], [0.12, 0.07, 0.16]),
        ([0.16, 0.38, 0.50], [0.78, 0.90, 0.84], [0.03, 0.14, 0.10]),
        ([0.86, 0.50, 0.30], [0.99, 0.88, 0.62], [0.20, 0.07, 0.06]),
    ];
    let (top, haze, dark) = AIRS[number as usize % AIRS.len()];
    let start = dice.range(0.25, 0.4);
    let (seeds, clouds) = ([(); 5].map(|()| dice.seed()), dice.seed());
    Box::new(move |u, v| {
        for layer in (0..5).rev() {
            let near = layer as f32 / 4.0;
            let seed = seeds[layer];
            let height = 0.30 - 0.2 * near;
            let jag = fbm(u * (1.6 + 1.4 * near), near * 9.0, seed, 6);
            let ridge = start + 0.16 * layer as f32 - (jag - 0.42) * height * 2.2;
            if v < ridge {
                continue;
            }
            let texture = fbm(u * 14.0 + v * 5.0, v * 24.0, seed, 4) - 0.5;
            let rock = mix(mix(haze, top, 0.35), dark, 0.25 + 0.75 * near);
            let lit = rock.map(|part| part * (1.0 + 0.9 * texture));
            let snow = smooth(0.10, 0.0, v - ridge + texture * 0.16) * (1.0 - near * 1.6).max(0.0);
            let lit = mix(lit, [0.97, 0.97, 1.0], snow * 0.85);
            // There is mist in the valleys.
            return mix(lit, haze, smooth(0.04, 0.26, v - ridge) * 0.5 * (1.0 - near));
        }
        let cloud = fbm(u * 2.5, v * 7.0, clouds, 5);
        let sky = mix(top, haze, (v / (start + 0.1)).clamp(0.0, 1.0));
        mix(sky, [1.0, 0.98, 0.95], smooth(0.5, 0.8, cloud) * 0.7)
    })
}

/// A banded world among stars.
fn planet(number: u32, dice: &mut Dice, aspect: f32) -> Box<dyn Fn(f32, f32) -> Rgb> {
    const WORLDS: [(Rgb, Rgb); 4] = [
        ([0.78, 0.50, 0.30], [0.98, 0.88, 0.70]),
        ([0.10, 0.32, 0.62], [0.62, 0.86, 0.92]),
        ([0.52, 0.18, 0.16], [0.94, 0.56, 0.34]),
        ([0.22, 0.42, 0.34], [0.82, 0.88, 0.62]),
    ];
    let (low, high) = WORLDS[number as usize % WORLDS.len()];
    let (x, y) = (aspect * dice.range(0.35, 0.65), dice.range(0.38, 0.62));
    let radius = dice.range(0.24, 0.36);
    let (tilt, light) = (dice.range(-0.6, 0.6), dice.range(-0.9, 0.9));
    let rings = dice.below(2) == 0;
    let (surface, dust, stars) = (dice.seed(), dice.seed(), dice.seed());
    let space = move |u: f32, v: f32| {
        let cloud = smooth(0.42, 0.85, fbm(u * 2.2, v * 2.2, dust, 5));
        let night = mix([0.02, 0.02, 0.06], mix(low, [0.5, 0.2, 0.6], 0.6), cloud * 0.6);
        let star = hash((u * 230.0) as i32, (v * 230.0) as i32, stars);
        mix(night, [1.0, 0.97, 0.9], smooth(0.9955, 1.0, star))
    };
    Box::new(move |u, v| {
        let (dx, dy) = ((u - x) / radius, (v - y) / radius);
        // The coordinates are rotated, so that bands and rings are level.
        let (a, b) = (dx * tilt.cos() + dy * tilt.sin(), dy * tilt.cos() - dx * tilt.sin());
        let ring = a.hypot(b * 4.0);
        let in_ring = rings && (1.3..2.1).contains(&ring) && (b > 0.0 || dx.hypot(dy) > 1.0);
        if in_ring {
            let grooves = fbm(ring * 14.0, 0.5, surface, 3);
            return mix(space(u, v), mix(low, high, grooves), 0.35 + 0.55 * grooves);
        }
        let inside = 1.0 - dx * dx - dy * dy;
        if inside <= 0.0 {
            let air = (-(dx.hypot(dy) - 1.0) * 14.0).exp() * 0.45;
            return mix(space(u, v), high, air);
        }
        let depth = inside.sqrt();
        let storm = fbm(a * 2.0 + depth, b * 5.0, surface, 5);
        let band = 0.5 + 0.5 * ((b + storm * 0.35) * 13.0).sin();
        let ground = mix(low, high, 0.65 * band + 0.35 * storm);
        let sun = (dx * light.sin() - dy * 0.35 + depth * light.cos()).max(0.0);
        ground.map(|part| part * (0.06 + 0.98 * sun))
    })
}

/// SplitMix64: see Steele, Lea, Flood, OOPSLA 2014.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed ^ 0x5851_f42d_4c95_7f2d)
    }

    fn seed(&mut self) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z >> 32) as u32
    }

    /// Returns a number in `low..high`.
    fn range(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * (self.seed() >> 8) as f32 / (1 << 24) as f32
    }

    /// Returns a number in `low..=high`.
    fn whole(&mut self, low: u32, high: u32) -> u32 {
        low + self.seed() % (high - low + 1)
    }

    fn below(&mut self, n: u32) -> usize {
        (self.seed() % n) as usize
    }
}

fn mix(a: Rgb, b: Rgb, share: f32) -> Rgb {
    [0, 1, 2].map(|c| a[c] + (b[c] - a[c]) * share)
}

/// Returns 0 at `from` and 1 at `to`, with slope 0 at both; `from` may be the greater.
fn smooth(from: f32, to: f32, x: f32) -> f32 {
    let t = ((x - from) / (to - from)).clamp(0.0, 1.0);
    t * t * (3.0 - 2.0 * t)
}

/// Returns a number in 0..1 that depends on the position.
fn hash(x: i32, y: i32, seed: u32) -> f32 {
    let mut h = seed ^ (x as u32).wrapping_mul(0x85eb_ca6b) ^ (y as u32).wrapping_mul(0xc2b2_ae35);
    h = (h ^ (h >> 15)).wrapping_mul(0x2c1b_3c6d);
    h = (h ^ (h >> 12)).wrapping_mul(0x297a_2d39);
    ((h ^ (h >> 15)) >> 8) as f32 / (1 << 24) as f32
}

/// Returns noise that varies over a distance of about 1.
fn noise(x: f32, y: f32, seed: u32) -> f32 {
    let (fx, fy) = (x.floor(), y.floor());
    let (ix, iy) = (fx as i32, fy as i32);
    let ease = |t: f32| t * t * (3.0 - 2.0 * t);
    let (tx, ty) = (ease(x - fx), ease(y - fy));
    let row = |iy| {
        let (a, b) = (hash(ix, iy, seed), hash(ix.wrapping_add(1), iy, seed));
        a + (b - a) * tx
    };
    let (above, below) = (row(iy), row(iy.wrapping_add(1)));
    above + (below - above) * ty
}

/// Returns noise at several scales, each half as wide and half as strong as the one before: 0 to 1.
fn fbm(x: f32, y: f32, seed: u32, octaves: u32) -> f32 {
    let (mut sum, mut weight, mut total, mut scale) = (0.0, 1.0, 0.0, 1.0);
    for octave in 0..octaves {
        sum += weight * noise(x * scale, y * scale, seed.wrapping_add(octave * 101));
        total += weight;
        (weight, scale) = (weight * 0.5, scale * 2.03);
    }
    sum / total
}
