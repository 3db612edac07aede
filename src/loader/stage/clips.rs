//! The rows of clips: the frames of a sample are those of its clips, all of them by the draws of their clip.
//!
//! ```text
//! draw the frames ──▶ the rows of frames (frames.rs)
//! ```

use super::frames::{FrameReader, FrameTargets};
use super::{LoaderStage, SampleRows, StageError, Worker};
use crate::loader::clips::ClipSource;
use crate::run::Phase;
use crate::sample::SampleId;
use fuseloop_ops::internals::SampleKey;
use std::cell::Cell;
use std::mem;

impl LoaderStage {
    /// Writes all outputs of the frames of a sample, whose clips are chosen.
    pub(super) fn fill_clip(
        &self,
        worker: &mut Worker,
        clips: &ClipSource,
        key: SampleKey,
        place: usize,
        rows: &mut SampleRows<'_, '_>,
    ) -> Result<(), StageError> {
        let field = self.fields[place].0;
        let sample = SampleId(key.sample());
        let chosen = mem::take(&mut worker.clip);
        let failed = Cell::new(field);
        let group = self.targets.iter().find(|group| group.field == field);
        let reader = FrameReader {
            frames: &chosen.frames,
            key: &|index| clips.key(key, index),
            read: &|frames, buffer, take| clips.read_frames(sample, frames, buffer, take),
            phase: if clips.decodes() { Phase::Decode } else { Phase::Read },
            targets: group.map(|group| FrameTargets { clips, sample, group, field: &failed }),
        };
        let filled = self.fill_frames(worker, &reader, place, rows);
        worker.clip = chosen;
        filled.map_err(|fault| {
            let field = failed.get();
            let error = clips.of_frame((sample, field), fault);
            self.error(sample, &self.source.fields()[field].name, field, error)
        })
    }
}
