//! Where the time of a loader went, as shares and in words, and what to do about it.
//!
//! ```text
//! workers      decode 71 %, kernel 22 %, read 3 %, wait for room 2 %, idle 2 % (2 workers, 0.943 ms of work a sample)
//! consumer     waited 96 % of the time for batches
//! bottleneck   decode is 73 % of the workers' work: JPEGs decode faster re-cut (...), ...
//! ```
//!
//! The bottleneck is the first row of this table that applies:
//!
//! | workers waited for        | and                                    | bottleneck           |
//! |---------------------------|----------------------------------------|----------------------|
//! | room or a slot, more than the consumer for them | more for a slot  | batches that are held |
//! | the same                  | more for room                          | the consumer: its model |
//! | anything, over half of the time |                                  | too little work ahead |
//! |                           | they worked                            | the phase that took longest |
//!
//! Shares are of wall-clock time: with more threads than cores, a thread that waits for a core counts as
//! busy.

use super::Loader;
use super::decoded_forms::DecodedForms;
use crate::decode::DecodedForm;
use crate::run::{Phase, Trace, Utilization};
use crate::source::{ImageStats, Source};
use std::fmt;
use std::time::Duration;

/// Where the time of a loader went between two points in time.
///
/// Its `Display` is meant for people: what each side did, the bottleneck, and what would help.
///
/// ```no_run
/// use fuseloop::loader::Phase;
///
/// # let loader = fuseloop::Loader::open("train.beton")?.build()?;
/// let before = loader.stats();
/// loader.epoch(0)?.try_for_each(|batch| batch.map(drop))?;
/// let epoch = loader.stats().since(&before);
/// println!("{}; {:.0} % decoding", epoch.verdict(), 100.0 * epoch.share(Phase::Decode));
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    /// The number of worker threads.
    pub workers: usize,
    /// The number of cores that this process may use.
    pub cores: usize,
    /// The time between the two points.
    pub wall: Duration,
    /// The total time of all workers in each phase, indexed as [`Phase::ALL`].
    phases: [Duration; Phase::ALL.len()],
    /// The time that the consumer waited for batches.
    pub consumer_waited: Duration,
    /// The number of samples delivered.
    pub samples: u64,
    /// The number of batches delivered.
    pub batches: u64,
    /// The number of batches that came so late that a warning names the cause: see
    /// [`set_warning_handler`](crate::set_warning_handler).
    pub stalls: u64,
    /// The number of loops of the last epoch's pipelines that could not be compiled: their samples are
    /// evaluated op by op, slowly. There should be none.
    pub failed_loops: usize,
    /// Why the cache on disk has stopped taking samples, such as a full disk, or is not used any more; `None` as long as it
    /// works, and without one. [`CacheStats`](super::CacheStats) has the numbers.
    pub cache_stopped: Option<String>,
    /// The stored form of the samples, by which advice differs.
    stored: Stored,
}

/// The stored form of what a loader decodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stored {
    /// Images, one or a few of each sample: mostly JPEGs, or unknown.
    Images,
    /// Images that are mostly re-cut JPEGs.
    RecutImages,
    /// Images that are mostly bit planes.
    PlaneImages,
    /// Images that are mostly files of other formats than JPEG.
    OtherImages,
    /// Images that are mostly pixels.
    Pixels,
    /// Audio files.
    Audio,
    /// Folders of images that are the frames of clips.
    Frames,
    /// A clip store.
    Store,
    /// A clip store whose frames are bit planes.
    Planes,
    /// Video files, whose clips are the samples.
    Clips,
    /// Video files of cameras, of which a sample has a few frames.
    Cameras,
}

/// The side that slows the others down.
///
/// ```no_run
/// use fuseloop::loader::{Bottleneck, Phase};
///
/// # let loader = fuseloop::Loader::open("train.beton")?.build()?;
/// match loader.stats().bottleneck() {
///     Bottleneck::Work(Phase::Decode) => println!("JPEGs decode faster once they are re-cut"),
///     Bottleneck::Consumer => println!("training is slower than the loader"),
///     other => println!("{other:?}"),
/// }
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bottleneck {
    /// Nothing was delivered yet.
    Unknown,
    /// The consumer of the batches: usually the model.
    Consumer,
    /// Batches that the user holds: no memory is free for others.
    Held,
    /// Neither side: the workers slept although the consumer waited.
    Ahead,
    /// The workers, mostly in this phase.
    Work(Phase),
}

impl Stats {
    /// Returns the statistics of the time after `before`, earlier statistics of the same loader.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let phases = Phase::ALL.map(|phase| self.time(phase).saturating_sub(before.time(phase)));
        let mut stats = Self { phases, ..self.clone() };
        stats.wall = stats.total() / u32::try_from(stats.workers.max(1)).unwrap_or(u32::MAX);
        stats.consumer_waited = self.consumer_waited.saturating_sub(before.consumer_waited);
        stats.samples = self.samples.saturating_sub(before.samples);
        stats.batches = self.batches.saturating_sub(before.batches);
        stats.stalls = self.stalls.saturating_sub(before.stalls);
        stats
    }

    /// Computes the statistics since the loader was built.
    fn up_to(headroom: &Utilization) -> Self {
        let phases = Phase::ALL.map(|phase| headroom.time(phase));
        let workers = headroom.workers.len();
        let total: Duration = phases.iter().sum();
        Self {
            workers,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            wall: total / u32::try_from(workers.max(1)).unwrap_or(u32::MAX),
            phases,
            consumer_waited: headroom.consumer_waited,
            samples: headroom.samples,
            batches: headroom.batches,
            stalls: 0,
            failed_loops: 0,
            cache_stopped: None,
            stored: Stored::Images,
        }
    }

    /// Returns the noun for a sample: `image`, or `clip`.
    #[doc(hidden)]
    #[must_use]
    pub fn noun(&self) -> &'static str {
        match self.stored {
            Stored::Images
            | Stored::RecutImages
            | Stored::PlaneImages
            | Stored::OtherImages
            | Stored::Pixels
            | Stored::Audio
            | Stored::Cameras => "image",
            Stored::Frames | Stored::Store | Stored::Planes | Stored::Clips => "clip",
        }
    }

    /// Returns what would help if most of the work is in `phase`.
    #[doc(hidden)]
    #[must_use]
    pub fn remedy(&self, phase: Phase) -> &'static str {
        self.stored.remedy(phase)
    }

    /// Returns the total time of all workers in `phase`.
    #[must_use]
    pub fn time(&self, phase: Phase) -> Duration {
        self.phases[phase as usize]
    }

    /// Returns the share of the workers' time in `phase`, 0 to 1.
    #[must_use]
    pub fn share(&self, phase: Phase) -> f64 {
        ratio(self.time(phase), self.total())
    }

    /// Returns the share of the workers' time that they were awake, 0 to 1.
    #[doc(hidden)]
    pub fn busy_share(&self) -> f64 {
        ratio(self.busy(), self.total())
    }

    /// Returns the share of the time that the consumer waited for batches, 0 to 1; more with several
    /// consumers.
    #[doc(hidden)]
    pub fn consumer_share(&self) -> f64 {
        ratio(self.consumer_waited, self.wall)
    }

    /// Returns the average time that the workers were awake per delivered sample.
    #[doc(hidden)]
    pub fn busy_per_sample(&self) -> Duration {
        let nanos = self.busy().as_nanos() / u128::from(self.samples.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Returns the side that slows the others down; see the table at the top of this module.
    #[must_use]
    pub fn bottleneck(&self) -> Bottleneck {
        let (room, slot) = (self.share(Phase::Room), self.share(Phase::Slot));
        if self.samples == 0 || self.total().is_zero() {
            Bottleneck::Unknown
        } else if room + slot > self.consumer_share() {
            if slot > room { Bottleneck::Held } else { Bottleneck::Consumer }
        } else if self.busy_share() < 0.5 {
            Bottleneck::Ahead
        } else {
            let work = Phase::ALL.into_iter().filter(|phase| !phase.is_wait());
            work.max_by_key(|phase| self.time(*phase)).map_or(Bottleneck::Unknown, Bottleneck::Work)
        }
    }

    /// Describes the bottleneck and what would help, in one sentence.
    #[must_use]
    pub fn verdict(&self) -> String {
        let waited = percent(self.share(Phase::Room));
        match self.bottleneck() {
            Bottleneck::Unknown => "nothing was delivered yet".to_owned(),
            Bottleneck::Consumer => format!(
                "the consumer is the slower side, workers waited {waited} of their time for it: \
                 nothing to do here, fewer workers would do"
            ),
            Bottleneck::Held => format!(
                "workers waited {} of their time for batches to be given back: drop them sooner, \
                 or allow more memory for them",
                percent(self.share(Phase::Slot))
            ),
            Bottleneck::Ahead => format!(
                "workers slept {} of their time and the consumer waited too: longer epochs, or \
                 more batches ahead, would keep them busy",
                percent(1.0 - self.busy_share())
            ),
            Bottleneck::Work(phase) => {
                let share = percent(ratio(self.time(phase), self.busy()));
                let more = if self.workers < self.cores {
                    format!("more workers first ({} cores are there); ", self.cores)
                } else {
                    String::new()
                };
                let remedy = self.stored.remedy(phase);
                format!("{phase} is {share} of the workers' work: {more}{remedy}")
            }
        }
    }

    /// Lists the workers' phases and their shares, the largest first; shares that round to 0 are left
    /// out.
    fn shares(&self) -> String {
        let mut shares = Phase::ALL.map(|phase| (phase, self.share(phase))).to_vec();
        shares.retain(|(_, share)| *share >= 0.005);
        shares.sort_by(|a, b| b.1.total_cmp(&a.1));
        let words = shares.iter().map(|(phase, share)| format!("{phase} {}", percent(*share)));
        words.collect::<Vec<_>>().join(", ")
    }

    fn busy(&self) -> Duration {
        let awake = Phase::ALL.into_iter().filter(|phase| !phase.is_wait());
        awake.map(|phase| self.time(phase)).sum()
    }

    fn total(&self) -> Duration {
        self.phases.iter().sum()
    }
}

impl Stored {
    /// Returns the stored form of the images of a field that are frames.
    fn of_frames(source: &dyn Source, field: usize) -> Self {
        match source.image_stats(field) {
            None => Self::Frames,
            Some(ImageStats { jpeg: 0, raw: 0, bit_planes: 1.., .. }) => Self::Planes,
            Some(_) => Self::Store,
        }
    }

    /// Returns the stored form of most of the images that were decoded.
    fn of_images(forms: &DecodedForms) -> Self {
        match forms.most() {
            None | Some(DecodedForm::Jpeg) => Self::Images,
            Some(DecodedForm::RecutJpeg) => Self::RecutImages,
            Some(DecodedForm::BitPlanes) => Self::PlaneImages,
            Some(DecodedForm::OtherFile) => Self::OtherImages,
            Some(DecodedForm::Pixels) => Self::Pixels,
            Some(DecodedForm::Audio) => Self::Audio,
        }
    }

    /// Returns what would help if most of the work is in `phase`.
    fn remedy(self, phase: Phase) -> &'static str {
        match (phase, self) {
            (Phase::Decode, Self::RecutImages) => {
                "the JPEGs are re-cut: bit planes decode faster (`fuseloop convert` with `--write-mode planes`), and so do \
                 images stored smaller (`--max-resolution`)"
            }
            (Phase::Decode, Self::PlaneImages) => {
                "the images are bit planes, which decode fastest: smaller ones decode faster still (`fuseloop convert` of \
                 the images with `--max-resolution`)"
            }
            (Phase::Decode, Self::OtherImages) => {
                "the images are no JPEGs: re-cut JPEGs decode faster (`fuseloop convert DATA OUT.beton --write-mode tiled \
                 --jpeg-quality 90`, lossy), and pixels need no decoding (`--write-mode raw`)"
            }
            (Phase::Decode, Self::Pixels) => {
                "the images are pixels, which need no decoding: smaller ones are copied faster (`--max-resolution`)"
            }
            (Phase::Decode, Self::Audio) => "audio files decode faster as WAV, and at lower rates",
            (
                Phase::Read,
                Self::Images
                | Self::RecutImages
                | Self::PlaneImages
                | Self::OtherImages
                | Self::Pixels
                | Self::Audio,
            ) => remedy(phase),
            (Phase::Read, _) => "a faster disk would help, or smaller files",
            (Phase::Decode, Self::Frames) => {
                "frames decode faster as bit planes or re-cut JPEGs (`fuseloop convert --videos frames` with `--write-mode \
                 planes` or `tiled`), and stored smaller (`--max-resolution`)"
            }
            (Phase::Decode, Self::Store) => {
                "frames decode faster as bit planes or re-cut JPEGs (`fuseloop convert` with `--write-mode planes` or `tiled`), \
                 and stored smaller (`--max-resolution`)"
            }
            (Phase::Decode, Self::Planes) => {
                "the frames are bit planes, which decode fastest: smaller ones decode faster still (`fuseloop convert` of the \
                 videos with `--max-resolution`), and so do clips of fewer frames"
            }
            (Phase::Decode, Self::Clips) => {
                "clips of stored frames decode faster (`fuseloop convert CLIPS OUT.beton`), and so do videos with more key \
                 frames and fewer pixels (`ffmpeg -i IN -g 12 -vf scale=-2:256 OUT.mp4`)"
            }
            (Phase::Decode, Self::Cameras) => {
                "videos with more key frames and fewer pixels decode faster (`-g` and `-vf scale` of ffmpeg)"
            }
            _ => remedy(phase),
        }
    }
}

/// Returns what would help a dataset of images if most of the work is in `phase`.
fn remedy(phase: Phase) -> &'static str {
    match phase {
        Phase::Read => "a faster disk would help, or reading ahead (`process_cache`)",
        Phase::Decode => {
            "JPEGs decode faster re-cut (`fuseloop recut`), without loss, and large pictures stored smaller \
             (`fuseloop write --max-resolution`)"
        }
        Phase::Kernel => "`fuseloop explain` shows which op costs what",
        Phase::Finish => {
            "one worker mixes a whole batch (MixUp, CutMix): smaller batches share the work better"
        }
        Phase::Open | Phase::Fill => {
            "samples are so small that handing them out is most of it: larger batches would help"
        }
        Phase::Idle | Phase::Room | Phase::Slot | Phase::Consumer => "nothing to do here",
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = if self.workers == 1 { "" } else { "s" };
        let work = self.busy_per_sample().as_secs_f64() * 1e3;
        writeln!(
            f,
            "workers      {} ({} worker{s}, {work:.3} ms of work a sample)",
            self.shares(),
            self.workers
        )?;
        let waited = percent(self.consumer_share());
        writeln!(f, "consumer     waited {waited} of the time for batches")?;
        write!(f, "bottleneck   {}", self.verdict())?;
        if let Some(reason) = &self.cache_stopped {
            write!(f, "\ncache        stopped: {reason}")?;
        }
        match self.failed_loops {
            0 => Ok(()),
            failed => write!(
                f,
                "\nwarning      {failed} loop(s) could not be compiled: their samples are evaluated op \
                 by op, slowly; `explain` has the error, please report it"
            ),
        }
    }
}

impl Loader {
    /// Returns where the time went since the loader was built, and what would help. Time between epochs,
    /// when no batch is requested, counts as idle: [`Stats::since`] excludes it.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let loader = fuseloop::Loader::open("train.beton")?.build()?;
    /// for batch in loader.epoch(0)? {
    ///     let batch = batch?;
    /// }
    /// println!("{}", loader.stats());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn stats(&self) -> Stats {
        let failed_loops = self.current().failed_loops();
        let cache_stopped = self.shared.cache.as_ref().and_then(|cache| cache.stopped());
        let stored = match &self.setup.clips {
            Some(clips) if clips.decodes() => Stored::Clips,
            Some(clips) => Stored::of_frames(&*self.source, clips.field()),
            None if self.setup.frames.is_some() => Stored::Cameras,
            None => Stored::of_images(&self.shared.forms),
        };
        let stalls = self.stalls.count();
        Stats { stalls, failed_loops, cache_stopped, stored, ..Stats::up_to(&self.utilization()) }
    }

    /// Starts a trace of what every thread does, of at most `limit` events per thread; 0 ends the trace.
    /// `fuseloop bench --trace` writes a trace to a file.
    #[doc(hidden)]
    pub fn trace(&self, limit: usize) {
        self.engine.trace(limit);
    }

    /// Takes the events traced so far; the trace continues.
    #[doc(hidden)]
    pub fn take_trace(&self) -> Trace {
        self.engine.take_trace()
    }

    /// Returns the time since the loader's threads were started: the clock of a [`Trace`].
    #[doc(hidden)]
    pub fn clock(&self) -> Duration {
        self.engine.clock()
    }
}

fn ratio(part: Duration, whole: Duration) -> f64 {
    if whole.is_zero() { 0.0 } else { part.as_secs_f64() / whole.as_secs_f64() }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jit;
    use crate::source::{Column, InMemory, OwnedImage};
    use fuseloop_ops::{CenterCrop, ops};

    /// Builds the statistics of two workers for a second, with phases in milliseconds.
    fn stats(parts: &[(Phase, u64)], waited: u64) -> Stats {
        let mut phases = [Duration::ZERO; Phase::ALL.len()];
        for (phase, ms) in parts {
            phases[*phase as usize] = Duration::from_millis(*ms);
        }
        assert_eq!(phases.iter().sum::<Duration>(), Duration::from_secs(2));
        Stats {
            workers: 2,
            cores: 2,
            wall: Duration::from_secs(1),
            phases,
            consumer_waited: Duration::from_millis(waited),
            samples: 1000,
            batches: 10,
            stalls: 0,
            failed_loops: 0,
            cache_stopped: None,
            stored: Stored::Images,
        }
    }

    #[cfg(feature = "jit")]
    #[test]
    fn a_loop_that_does_not_compile_is_counted_and_explained() {
        if jit::unsupported().is_some() {
            println!("skipped: nothing is compiled here");
            return;
        }
        let images = vec![OwnedImage::rgb(16, vec![7; 768]); 8];
        let images = InMemory::new([("image", Column::images(images))]).unwrap();
        let builder =
            Loader::from_source(images).pipeline("image", ops![CenterCrop::new(8).unwrap()]);
        let loader = builder.build().unwrap();
        let (_, _, kernel) = loader.current().image("image").unwrap();
        assert_eq!((loader.stats().failed_loops, kernel.failed_loops()), (0, (0, None)));
        assert!(!loader.explain().contains("could not be compiled"));
        let bodies = kernel.loop_bodies();
        kernel.fail_a_loop();
        kernel.fail_a_loop();
        let expected =
            "1 loop(s) could not be compiled (a compiled block can trap (please report this))";
        assert!(loader.explain().contains(expected), "{}", loader.explain());
        let stats = loader.stats().to_string();
        assert!(stats.contains("warning      1 loop(s) could not be compiled"), "{stats}");
        assert_eq!(kernel.loop_bodies(), bodies, "a body that failed is not one that was compiled");
    }

    #[test]
    fn busy_workers_are_told_what_takes_longest() {
        let mut stats = stats(
            &[
                (Phase::Decode, 1400),
                (Phase::Kernel, 400),
                (Phase::Read, 80),
                (Phase::Room, 40),
                (Phase::Fill, 4),
                (Phase::Idle, 76),
            ],
            960,
        );
        assert_eq!(stats.bottleneck(), Bottleneck::Work(Phase::Decode));
        let text = "\
workers      decode 70 %, kernel 20 %, read 4 %, idle 4 %, wait for room 2 % (2 workers, 1.884 ms of work a sample)
consumer     waited 96 % of the time for batches
bottleneck   decode is 74 % of the workers' work: JPEGs decode faster re-cut (`fuseloop recut`), without loss, and large pictures stored smaller (`fuseloop write --max-resolution`)";
        assert_eq!(stats.to_string(), text);
        stats.cores = 8;
        assert!(
            stats
                .verdict()
                .contains("work: more workers first (8 cores are there); JPEGs decode faster")
        );
    }

    #[test]
    fn advice_for_videos_is_none_for_images() {
        let mut stats = stats(&[(Phase::Decode, 1900), (Phase::Idle, 100)], 960);
        for (stored, words) in [
            (Stored::Images, "`fuseloop recut`"),
            (Stored::Frames, "`fuseloop convert --videos frames`"),
            (Stored::Store, "`fuseloop convert` with `--write-mode planes` or `tiled`"),
            (Stored::Planes, "the frames are bit planes"),
            (Stored::Clips, "`fuseloop convert CLIPS OUT.beton`"),
            (Stored::Cameras, "more key frames"),
        ] {
            stats.stored = stored;
            let verdict = stats.verdict();
            assert!(verdict.contains(words), "{verdict}");
            let is_of_images = verdict.contains("`fuseloop recut`");
            assert_eq!(is_of_images, stored == Stored::Images, "{verdict}");
            let advice = stored.remedy(Phase::Read);
            assert_eq!(advice.contains("process_cache"), stored == Stored::Images, "{advice}");
        }
    }

    #[test]
    fn advice_follows_the_forms_that_were_decoded() {
        use DecodedForm::{Audio, BitPlanes, Jpeg, OtherFile, Pixels, RecutJpeg};
        let advice = |found: &[DecodedForm]| {
            let forms = DecodedForms::default();
            found.iter().for_each(|&form| forms.add(form));
            Stored::of_images(&forms).remedy(Phase::Decode)
        };
        for (forms, words) in [
            (&[][..], "`fuseloop recut`"),
            (&[Jpeg, OtherFile, Jpeg], "`fuseloop recut`"),
            (&[OtherFile, BitPlanes, BitPlanes], "which decode fastest"),
            (&[RecutJpeg], "`--write-mode planes`"),
            (&[BitPlanes], "which decode fastest"),
            (
                &[OtherFile, RecutJpeg, OtherFile],
                "`fuseloop convert DATA OUT.beton --write-mode tiled --jpeg-quality 90`",
            ),
            (&[Pixels, BitPlanes], "which decode fastest"),
            (&[Pixels], "no decoding"),
            (&[Audio], "as WAV"),
        ] {
            let advice = advice(forms);
            assert!(advice.contains(words), "{forms:?}: {advice}");
            assert_eq!(advice.contains("`fuseloop recut`"), words.contains("recut`"), "{advice}");
        }
    }

    #[test]
    fn each_side_can_be_the_slower_one() {
        use Phase::{Decode, Idle, Kernel, Read, Room, Slot};
        let of = |parts: &[(Phase, u64)], waited| stats(parts, waited).bottleneck();
        assert_eq!(of(&[(Decode, 500), (Room, 1500)], 10), Bottleneck::Consumer);
        assert_eq!(of(&[(Decode, 500), (Room, 500), (Slot, 1000)], 10), Bottleneck::Held);
        assert_eq!(of(&[(Decode, 500), (Idle, 1500)], 700), Bottleneck::Ahead);
        assert_eq!(of(&[(Read, 1200), (Kernel, 800)], 990), Bottleneck::Work(Read));
        let mut empty = stats(&[(Idle, 2000)], 0);
        empty.samples = 0;
        assert_eq!(empty.bottleneck(), Bottleneck::Unknown);
        assert!(empty.to_string().ends_with("bottleneck   nothing was delivered yet"));
    }

    #[test]
    fn every_verdict_says_what_to_do() {
        use Phase::{Decode, Idle, Room, Slot};
        for (parts, words) in [
            ([(Decode, 500), (Room, 1500)], "nothing to do here"),
            ([(Decode, 500), (Slot, 1500)], "waited 75 % of their time for batches to be given"),
            ([(Decode, 500), (Idle, 1500)], "slept 75 % of their time"),
        ] {
            let waited = if parts[1].0 == Idle { 900 } else { 0 };
            let verdict = stats(&parts, waited).verdict();
            assert!(verdict.contains(words), "{verdict}");
        }
    }

    #[test]
    fn a_cache_that_stopped_is_a_line_of_the_text() {
        let stats = stats(&[(Phase::Decode, 2000)], 10);
        assert!(!stats.to_string().contains("cache"));
        let stats = Stats { cache_stopped: Some("the disk is full".to_owned()), ..stats };
        assert!(stats.to_string().ends_with("\ncache        stopped: the disk is full"), "{stats}");
    }
}
