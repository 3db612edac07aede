//! Samples with several images, as strips: frames of a clip, or images of a list, one below the other in one picture.
//!
//! | key       | value                                                  |
//! |-----------|--------------------------------------------------------|
//! | `frames`  | the number of images in the picture, all of one height |
//! | `indexes` | the number of each image in its sample                 |
//! | `times`   | the seconds at which each frame is shown, of clips     |
//! | `numbers` | the number of each frame in its video, of clips without times |

use super::grid::over;
use super::pictures::{Rgba, rgba};
use fuseloop::Error;
use fuseloop::internals::jit::shown_row;
use fuseloop::internals::loader::{Inspector, StripImage};
use fuseloop::internals::plan::OpOutcome;
use fuseloop::ops::Size;
use fuseloop::source::BoxError;
use serde_json::{Value, json};

/// The most images of a sample that are shown.
pub(super) const MOST_FRAMES: usize = 16;

/// Some images of a sample.
pub(super) struct Strip {
    /// The images, one below the other.
    pub(super) picture: Rgba,
    /// The words for the draws of the first image.
    pub(super) words: Vec<String>,
    indexes: Vec<usize>,
    times: Vec<f64>,
    numbers: Vec<u32>,
}

/// An image of a strip.
struct Frame {
    index: usize,
    time: Option<f64>,
    number: Option<u32>,
    picture: Rgba,
}

impl Strip {
    /// Computes images of a sample, each of at most `side` pixels a side, with their targets if these are asked for; `None`
    /// if its list is empty. `check` is called with each image, and its error ends the call.
    ///
    /// # Errors
    ///
    /// If one of the images is damaged, and with the errors of `check`.
    pub(super) fn new(
        inspector: &mut Inspector,
        sample: u64,
        (side, bands, with_targets): (u32, &[usize], bool),
        mut check: impl FnMut(&StripImage) -> Result<(), BoxError>,
    ) -> Result<Option<Self>, Error> {
        let (mut frames, mut words) = (vec![], vec![]);
        inspector.strip(sample, MOST_FRAMES, &mut |image| {
            check(&image)?;
            let StripImage { index, time, frame: number, kernel, draws, row, targets, .. } = image;
            let mut shown = shown_row(kernel.plan(), &draws, &row, bands)?;
            if let Some(targets) = targets.filter(|_| with_targets)
                && let Some(step) = targets.steps().last()
                && let Some(drawn) = over(&shown, draws.output, &targets, step)?
            {
                shown = drawn;
            }
            if index == 0 {
                let drawn = draws.describe(kernel.plan()).into_iter();
                let drawn =
                    drawn.filter(|op| op.outcome == OpOutcome::Runs && !op.words.is_empty());
                words = drawn.map(|op| op.to_string()).collect();
            }
            let picture = rgba(&shown, draws.output, side)?;
            frames.push(Frame { index, time, number, picture });
            Ok(())
        })?;
        frames.sort_unstable_by_key(|frame| frame.index);
        let Some(first) = frames.first() else { return Ok(None) };
        let Size { height, width } = first.picture.size;
        // Rows of a batch have one size.
        frames.retain(|frame| frame.picture.size == Size { height, width });
        let pixels: Vec<&[u8]> = frames.iter().map(|frame| &*frame.picture.pixels).collect();
        let pixels = pixels.concat();
        let is_exact = frames.iter().all(|frame| frame.picture.is_exact);
        let size = Size::new(height * frames.len() as u32, width);
        let picture = Rgba { pixels, size, is_exact };
        let indexes = frames.iter().map(|frame| frame.index).collect();
        let times = frames.iter().filter_map(|frame| frame.time).collect();
        let numbers = frames.iter().filter(|frame| frame.time.is_none());
        let numbers = numbers.filter_map(|frame| frame.number).collect();
        Ok(Some(Self { picture, words, indexes, times, numbers }))
    }

    /// Adds the description of the picture.
    pub(super) fn describe(&self, json: &mut Value) {
        let Self { picture, indexes, times, numbers, .. } = self;
        json["width"] = json!(picture.size.width);
        json["height"] = json!(picture.size.height);
        json["exact"] = json!(picture.is_exact);
        json["frames"] = json!(indexes.len());
        json["indexes"] = json!(indexes);
        if !times.is_empty() {
            json["times"] = json!(times);
        }
        if !numbers.is_empty() {
            json["numbers"] = json!(numbers);
        }
    }
}
