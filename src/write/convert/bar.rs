//! The progress bar of a conversion: samples and bytes.

use crate::write::styled;
use indicatif::{HumanBytes, ProgressBar};

/// A progress bar on stderr; indicatif draws nothing if stderr is not a terminal.
pub(super) struct Bar {
    bar: Option<ProgressBar>,
    bytes: u64,
}

impl Bar {
    /// Creates a bar for `all` samples, of which `done` are already written, in `bytes` bytes.
    pub(super) fn new(is_drawn: bool, all: u64, done: u64, bytes: u64) -> Self {
        let bar = is_drawn.then(|| {
            let text = "{wide_bar} {human_pos}/{human_len} samples, {msg}, {per_sec}, {eta} left";
            let bar = ProgressBar::new(all).with_position(done);
            // The duration of an earlier attempt is unknown, so its samples must not count towards the
            // speed.
            bar.reset_eta();
            styled(bar, text)
        });
        Self { bar, bytes }
    }

    /// Advances the bar by one sample of `bytes` bytes.
    pub(super) fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
        if let Some(bar) = &self.bar {
            bar.set_message(HumanBytes(self.bytes).to_string());
            bar.inc(1);
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
