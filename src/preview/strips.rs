//! The strips of a sheet: the frames of clips, or the images of lists, as batches have them.
//!
//! ```text
//! stored   epoch 0  0.47 s   0.93 s   1.40 s
//! [     ]  [     ]  [     ]  [     ]  [     ]
//! sample   what was drawn
//!          epoch 1  2.10 s   ..
//! ```

use super::{Cell, DamagedSamples, PreviewOptions, cell};
use crate::amounts::Decimal;
use crate::cancel::CancelFlag;
use crate::error::{Error, ErrorKind, fail};
use crate::jit::shown_row;
use crate::loader::Loader;
use crate::loader::error::of_number;
use crate::loader::inspect::{Inspector, StripImage, WholeFrame};
use crate::loader::inspected_targets::InspectedTargets;
use crate::plan::{DrawnOp, OpOutcome};
use std::iter;

/// The most images of a strip that are shown.
pub(super) const MOST_IMAGES: usize = 8;

impl Loader {
    /// Returns the rows of a sheet of an output with several images a sample: one for each sample and epoch; and the
    /// damaged samples.
    pub(super) fn strips(
        &self,
        output: &str,
        samples: &[u64],
        options: &PreviewOptions,
    ) -> Result<(Vec<Vec<Cell>>, DamagedSamples), Error> {
        let PreviewOptions { epoch: first, epochs, bands, cancel, .. } = options;
        let (mut rows, mut damaged) = (vec![], DamagedSamples::default());
        for &sample in samples {
            for epoch in (*first..=u32::MAX).take(*epochs as usize) {
                check_cancelled(cancel)?;
                let Some(mut inspector) = self.inspect(output, epoch)? else { continue };
                let named = |error| of_number(sample, error);
                let (first_frame, images) = match strip(&mut inspector, (sample, epoch), bands) {
                    Ok(strip) => strip,
                    Err(error) if error.kind() == ErrorKind::Damaged => {
                        rows.push(vec![Cell::damaged((sample, epoch), &error)]);
                        damaged.add(sample, error);
                        continue;
                    }
                    Err(error) => return Err(named(error)),
                };
                // Each row begins with its stored first frame. The images of a list are the same in all epochs.
                let stored = match first_frame {
                    Some((whole, targets)) => {
                        let shown = (whole.shown(bands)?, whole.size());
                        let cell = self.stored(sample, shown, &whole.size().to_string())?;
                        cell.with(targets.as_ref(), 0)?
                    }
                    None if epoch == *first => {
                        let opened = inspector.sample(sample).map_err(named)?;
                        let targets = inspector.targets(&opened).map_err(named)?;
                        let shown = (opened.shown(bands)?, opened.run_draws().source);
                        let cell = self.stored(sample, shown, &opened.size_words())?;
                        cell.with(targets.as_ref(), 0)?
                    }
                    None => Cell::empty(),
                };
                rows.push(iter::once(stored).chain(images).collect());
            }
        }
        Ok((rows, damaged))
    }
}

/// The first frame of a sample in an epoch, and its targets.
type FirstFrame = (WholeFrame, Option<InspectedTargets>);

/// Returns the first frame of a sample in an epoch, if it has frames, and its images.
fn strip(
    inspector: &mut Inspector,
    (sample, epoch): (u64, u32),
    bands: &[usize],
) -> Result<(Option<FirstFrame>, Vec<Cell>), Error> {
    let (mut cells, mut first) = (vec![], None);
    inspector.strip_with_whole(sample, MOST_IMAGES, &mut |image| {
        let StripImage { index, time, frame, kernel, draws, row, targets, whole } = image;
        let plan = kernel.plan();
        let mut captions = vec![image_words(time, frame, index)];
        if index == 0 {
            captions.insert(0, format!("epoch {epoch}"));
            let says_something =
                |drawn: &DrawnOp| drawn.outcome == OpOutcome::Runs && !drawn.words.is_empty();
            let drawn = draws.describe(plan).into_iter().filter(says_something);
            captions.extend(drawn.map(|drawn| drawn.to_string()));
        }
        let cell = cell(shown_row(plan, &draws, &row, bands)?, draws.output, captions)?;
        let last = targets.as_ref().map_or(0, |targets| targets.steps().len() - 1);
        cells.push((index, cell.with(targets.as_ref(), last)?));
        first = whole.map(|whole| (whole, targets)).or(first.take());
        Ok(())
    })?;
    cells.sort_unstable_by_key(|(index, _)| *index);
    Ok((first, cells.into_iter().map(|(_, cell)| cell).collect()))
}

/// Says which image of its sample an image is: the seconds of a frame, its number in a video without times, or its number
/// in a list.
fn image_words(time: Option<f64>, frame: Option<u32>, index: usize) -> String {
    match (time, frame) {
        (Some(time), _) if time.abs() < 1e9 => format!("{time:.2} s"),
        (Some(time), _) => format!("{} s", Decimal(time)),
        (None, Some(frame)) => format!("frame {frame}"),
        (None, None) => format!("image {index}"),
    }
}

pub(super) fn check_cancelled(cancel: &CancelFlag) -> Result<(), Error> {
    if cancel.is_cancelled() {
        return Err(fail!(Cancelled, "the preview was cancelled"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loader::Clips;
    use fuseloop_ops::{CenterCrop, Size, ops};

    #[test]
    fn frames_have_their_seconds_or_their_numbers() {
        let dir = tempfile::tempdir().unwrap();
        let video = dir.path().join("a/video");
        std::fs::create_dir_all(&video).unwrap();
        for frame in 0..9 {
            let mut png = vec![];
            super::super::encode::png(&mut png, &[7; 8 * 8 * 3], Size::from(8)).unwrap();
            std::fs::write(video.join(format!("{frame}.png")), png).unwrap();
        }
        let words = |clips: Clips| {
            let loader = Loader::open(dir.path()).unwrap().clips(clips);
            let loader = loader.pipeline("video", ops![CenterCrop::new(8).unwrap()]);
            let loader = loader.build().unwrap();
            let mut inspector = loader.inspect("video", 0).unwrap().unwrap();
            let (_, cells) = strip(&mut inspector, (0, 0), &[]).unwrap();
            let is_own = |words: &&String| words.starts_with("frame ") || words.ends_with(" s");
            let own = |cell: &Cell| cell.captions.iter().find(is_own).cloned().unwrap();
            cells.iter().map(own).collect::<Vec<_>>()
        };
        let clips = || Clips::all(3).stride(3);
        assert_eq!(words(clips()), ["frame 0", "frame 3", "frame 6"]);
        assert_eq!(words(clips().source_fps(4.0)), ["0.00 s", "0.75 s", "1.50 s"]);
        assert_eq!(image_words(None, None, 2), "image 2");
    }
}
