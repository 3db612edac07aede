//! The strips of a sheet: the frames of clips, or the images of lists, as batches have them.
//!
//! ```text
//! stored   epoch 0  0.47 s   0.93 s   1.40 s
//! [     ]  [     ]  [     ]  [     ]  [     ]
//! sample   what was drawn
//!          epoch 1  2.10 s   ..
//! ```

use super::{Cell, PreviewOptions, cell};
use crate::cancel::CancelFlag;
use crate::error::{Error, fail};
use crate::jit::shown_row;
use crate::loader::Loader;
use crate::loader::error::of_number;
use crate::loader::inspect::{Inspector, StripImage};
use crate::plan::{DrawnOp, OpOutcome};

/// The most images of a strip that are shown.
pub(super) const MOST_IMAGES: usize = 8;

impl Loader {
    /// Returns the rows of a sheet of an output with several images a sample: one for each sample and epoch.
    pub(super) fn strips(
        &self,
        output: &str,
        samples: &[u64],
        options: &PreviewOptions,
    ) -> Result<Vec<Vec<Cell>>, Error> {
        let PreviewOptions { epoch: first, epochs, bands, cancel, .. } = options;
        let mut rows = vec![];
        for &sample in samples {
            for epoch in (*first..=u32::MAX).take(*epochs as usize) {
                check_cancelled(cancel)?;
                let Some(mut inspector) = self.inspect(output, epoch)? else { continue };
                let named = |error| of_number(sample, error);
                // A strip has a place for the stored image, which the first of a sample shows.
                let mut row = vec![if epoch == *first {
                    let opened = inspector.sample(sample).map_err(named)?;
                    self.stored(sample, &opened, bands)?
                } else {
                    Cell::empty()
                }];
                row.extend(self.strip(&mut inspector, output, (sample, epoch), bands)?);
                rows.push(row);
            }
        }
        Ok(rows)
    }

    /// Returns the images of a sample in an epoch.
    fn strip(
        &self,
        inspector: &mut Inspector,
        output: &str,
        (sample, epoch): (u64, u32),
        bands: &[usize],
    ) -> Result<Vec<Cell>, Error> {
        let batch = self.get(&[sample], epoch)?;
        // A damaged sample is left out, if the loader's policy says so.
        if batch.is_empty() {
            return Ok(vec![]);
        }
        let times = batch.tensor::<f64>("pts").ok();
        let seconds = times.as_ref().map_or(&[][..], |times| times.as_slice());
        let images = inspector.strip(sample, batch.bytes(output)?, MOST_IMAGES)?;
        let mut cells = vec![];
        let filled = batch.tensor::<i64>(&format!("{output}.length")).ok();
        let filled = filled.and_then(|lengths| usize::try_from(*lengths.as_slice().first()?).ok());
        for StripImage { index, kernel, draws, row } in images {
            // The rest of a list's row is zeros.
            if filled.is_some_and(|filled| index >= filled) {
                break;
            }
            let plan = kernel.plan();
            let mut captions = match seconds.get(index) {
                Some(time) => vec![format!("{time:.2} s")],
                None => vec![format!("image {index}")],
            };
            if cells.is_empty() {
                captions.insert(0, format!("epoch {epoch}"));
                let says_something =
                    |drawn: &DrawnOp| drawn.outcome == OpOutcome::Runs && !drawn.words.is_empty();
                let drawn = draws.describe(plan).into_iter().filter(says_something);
                captions.extend(drawn.map(|drawn| drawn.to_string()));
            }
            cells.push(cell(shown_row(plan, &draws, &row, bands)?, draws.output, captions)?);
        }
        Ok(cells)
    }
}

pub(super) fn check_cancelled(cancel: &CancelFlag) -> Result<(), Error> {
    if cancel.is_cancelled() {
        return Err(fail!(Cancelled, "the preview was cancelled"));
    }
    Ok(())
}
