//! The random parameters of one sample, drawn before a pixel is touched.

use super::ImagePlan;
use super::block::orders;
use fuseloop_ops::{Class, Motion, SampleKey, Size, Window};

/// What was drawn for one sample. Its memory is reused from sample to sample.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Draws {
    /// The sample.
    pub sample: u64,
    /// Size of the decoded image.
    pub source: Size,
    /// What geometry ops do, with the op's place, in order.
    pub motions: Vec<(usize, Motion)>,
    /// What region ops paint, with the op's place, in order.
    pub windows: Vec<(usize, Window)>,
    /// The numbers of pixel ops.
    pub slots: Vec<f32>,
    /// Which order each shuffled op takes, with the op's place.
    pub orders: Vec<(usize, usize)>,
    scratch: Vec<Motion>,
}

impl ImagePlan {
    /// Draws for the sample of `key`, whose decoded image is of `source`.
    pub fn draw(&self, key: SampleKey, source: Size, draws: &mut Draws) {
        draws.sample = key.sample();
        draws.source = source;
        draws.motions.clear();
        draws.windows.clear();
        draws.orders.clear();
        draws.slots.clear();
        draws.slots.resize(self.slots(), 0.0);
        let (mut size, mut slot) = (source, 0);
        for (place, op) in self.ops().iter().enumerate() {
            match op.class() {
                Class::Geometry(op) => {
                    draws.scratch.clear();
                    op.draw(&mut key.op(place), size, &mut draws.scratch);
                    for motion in &draws.scratch {
                        size = motion.output(size);
                        draws.motions.push((place, *motion));
                    }
                }
                Class::Region(op) => {
                    draws.windows.push((place, op.draw(&mut key.op(place), size)));
                }
                Class::Pixel(op) => {
                    let slots = &mut draws.slots[slot..slot + op.slots()];
                    op.draw(&mut key.op(place), slots);
                    slot += op.slots();
                }
                Class::Shuffled(parts) => {
                    let mut rng = key.op(place);
                    let order = rng.below(orders(parts.len()) as u32) as usize;
                    draws.orders.push((place, order));
                    for part in parts {
                        part.draw(&mut rng, &mut draws.slots[slot..slot + part.slots()]);
                        slot += part.slots();
                    }
                }
                Class::Host(_)
                | Class::Cast(_)
                | Class::View(_)
                | Class::Layout(_)
                | Class::Label(_) => {}
            }
        }
    }

    /// The part of the decoded image that any op reads for these draws: at least a pixel.
    #[must_use]
    pub fn wanted(&self, draws: &Draws) -> Window {
        let first = &self.blocks()[0];
        let (mut rows, mut columns) =
            (Shown::of(draws.source.height), Shown::of(draws.source.width));
        for &(place, motion) in &draws.motions {
            let Motion::Frame { top, left, size, .. } = motion else { break };
            if place >= first.ops.end || first.means.iter().any(|mean| mean.place < place) {
                break; // what comes before this crop needs more of the picture than it keeps
            }
            rows.frame(top, size.height);
            columns.frame(left, size.width);
        }
        let (top, height) = rows.range(draws.source.height);
        let (left, width) = columns.range(draws.source.width);
        Window { top, left, height, width }
    }
}

/// What frames have left to see of one axis of an image.
#[derive(Clone, Copy)]
struct Shown {
    /// Where the innermost frame begins, in pixels of the image.
    origin: i64,
    first: i64,
    end: i64,
}

impl Shown {
    fn of(len: u32) -> Self {
        Self { origin: 0, first: 0, end: i64::from(len) }
    }

    fn frame(&mut self, start: i32, len: u32) {
        self.origin += i64::from(start);
        self.first = self.first.max(self.origin);
        self.end = self.end.min(self.origin + i64::from(len));
    }

    /// The first pixel shown and how many; one if none is.
    fn range(self, len: u32) -> (u32, u32) {
        let first = self.first.clamp(0, i64::from(len) - 1);
        (first as u32, (self.end - first).max(1) as u32)
    }
}
