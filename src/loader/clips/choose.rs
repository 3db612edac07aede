//! The frames of a clip: functions of the times of a video, the settings and a generator.
//!
//! ```text
//! n frames of the video inside the range, T frames of a clip, stride s, K clips
//!
//! span    = (T - 1) s + 1              the frames from a clip's first to its last
//! free    = max(0, n - span)           the last start at which a clip is inside
//!
//! random    start = uniform whole number in 0..=free
//! regular   start = k free / (K - 1) for clip k; free / 2 for a single one
//! all       start = min(k T s, free) for clip k of ceil(n / (T s))
//! segments  frame j = uniform in floor(j n / T) .. floor((j + 1) n / T), or floor((2 j + 1) n / 2 T), the middle
//! ```
//!
//! By `fps` the same holds for seconds, where a frame is the one shown at its time. A start that is drawn may then lie
//! anywhere as long as the last frame is inside; those that are spread keep the last frame for its whole duration.

use super::{Clips, OnShort, Sampler, Step};
use crate::error::{Error, fail};
use crate::source::{FrameTimes, ROUNDING, SecondsRange};
use fuseloop_ops::author::Rng;

/// The frames of a sample, of all of its clips.
#[derive(Debug, Default)]
pub(in crate::loader) struct ClipFrames {
    /// The number of each frame in its video.
    pub(in crate::loader) frames: Vec<u32>,
    /// The bytes of the presentation times.
    pub(in crate::loader) pts: Vec<u8>,
    /// False if the times are the numbers of frames, because the video has no times and no rate is set.
    pub(in crate::loader) has_seconds: bool,
}

/// The part of a video that clips are chosen from.
struct Part {
    /// The first frame, and the one behind the last.
    low: u32,
    high: u32,
    /// The time at which the first frame begins, and the one at which the part ends.
    begin: f64,
    end: f64,
}

impl Part {
    fn frames(&self) -> u64 {
        (self.high - self.low).into()
    }

    fn seconds(&self) -> f64 {
        self.end - self.begin
    }
}

impl Clips {
    /// Chooses the frames of a sample, of those from `own` if the video has a range of its own: of clip `number` of its
    /// video if all clips are samples. `rng` has the generator of each clip of the sample.
    ///
    /// # Errors
    ///
    /// If no frame is inside the range, or the video is too short and that is an error.
    pub(super) fn choose(
        &self,
        (times, own): (&FrameTimes, Option<SecondsRange>),
        number: u64,
        rng: impl Fn(usize) -> Rng,
        frames: &mut Vec<u32>,
    ) -> Result<(), Error> {
        let part = self.part(times, own)?;
        let on_short = self.on_short.unwrap_or_default();
        frames.clear();
        for clip in 0..self.clips {
            let first = frames.len();
            match (self.sampler, self.step()) {
                (Sampler::Segments, _) => {
                    if on_short == OnShort::Error && part.frames() < self.frames as u64 {
                        return Err(self.too_short(&part, part.frames() as usize));
                    }
                    self.choose_segments(&part, (!self.middle).then(|| rng(clip)), frames);
                }
                (sampler, Step::Stride(stride)) => {
                    let start = self.start(sampler, stride.into(), &part, (clip, number), &rng);
                    let inside = (0..self.frames as u64)
                        .map(|frame| start + frame * u64::from(stride))
                        .take_while(|&frame| frame < part.frames());
                    frames.extend(inside.map(|frame| part.low + frame as u32));
                }
                (sampler, Step::Fps(fps)) => {
                    let start = self.start_time(sampler, fps, &part, (clip, number), &rng);
                    let is_whole = part.seconds() > self.last_time(fps) + ROUNDING;
                    let inside = (0..self.frames)
                        .map(|frame| start + frame as f64 / fps)
                        .take_while(|&seconds| is_whole || seconds < part.end - ROUNDING);
                    let shown = |seconds| times.frame_at(seconds).clamp(part.low, part.high - 1);
                    frames.extend(inside.map(shown));
                    if frames.len() == first {
                        frames.push(part.low);
                    }
                }
            }
            let (found, wanted) = (frames.len() - first, self.frames);
            match on_short {
                OnShort::Error if found < wanted => return Err(self.too_short(&part, found)),
                OnShort::Wrap => {
                    let inside = first..frames.len();
                    frames.extend_from_within(inside.clone());
                    while frames.len() < first + wanted {
                        frames.extend_from_within(inside.clone());
                    }
                    frames.truncate(first + wanted);
                }
                OnShort::RepeatLast | OnShort::Error => {
                    let last = frames.last().copied().unwrap_or(part.low);
                    frames.resize(first + wanted, last);
                }
            }
        }
        Ok(())
    }

    /// Returns the number of clips of a video of which each is a sample. A video that has no clip has a single one, which
    /// can't be read.
    pub(super) fn count_all(&self, times: &FrameTimes, own: Option<SecondsRange>) -> u64 {
        let Ok(part) = self.part(times, own) else { return 1 };
        let clips = match self.step() {
            Step::Stride(stride) => {
                part.frames().div_ceil((self.frames as u64).saturating_mul(stride.into()))
            }
            // Saturates.
            Step::Fps(fps) => (part.seconds() * fps / self.frames as f64 - ROUNDING).ceil() as u64,
        };
        clips.max(1)
    }

    fn part(&self, times: &FrameTimes, own: Option<SecondsRange>) -> Result<Part, Error> {
        let range = own.or(self.range);
        let (low, high) = times.frames_in(range)?;
        let end = range.map_or(f64::INFINITY, |(_, end)| end);
        let begin = times.time(low);
        Ok(Part { low, high, begin, end: times.end().min(end).max(begin) })
    }

    /// Returns the start of a clip, as a number of frames after the first of the part.
    fn start(
        &self,
        sampler: Sampler,
        stride: u64,
        part: &Part,
        (clip, number): (usize, u64),
        rng: impl Fn(usize) -> Rng,
    ) -> u64 {
        let span = (self.frames as u64 - 1).saturating_mul(stride).saturating_add(1);
        let free = part.frames().saturating_sub(span);
        match sampler {
            // A part has fewer than 2^32 frames, and a span at least one.
            Sampler::Random => rng(clip).below(free as u32 + 1).into(),
            Sampler::All => {
                number.saturating_mul((self.frames as u64).saturating_mul(stride)).min(free)
            }
            _ => match self.clips as u64 {
                1 => free / 2,
                clips => clip as u64 * free / (clips - 1),
            },
        }
    }

    /// Returns the start of a clip as a time.
    fn start_time(
        &self,
        sampler: Sampler,
        fps: f64,
        part: &Part,
        (clip, number): (usize, u64),
        rng: impl Fn(usize) -> Rng,
    ) -> f64 {
        let duration = self.frames as f64 / fps;
        let free = (part.seconds() - duration).max(0.0);
        let after = match sampler {
            Sampler::Random => {
                let free = (part.seconds() - self.last_time(fps)).max(0.0);
                unit(&mut rng(clip)) * free
            }
            Sampler::All => (number as f64 * duration).min(free),
            _ => match self.clips {
                1 => free / 2.0,
                clips => free * clip as f64 / (clips - 1) as f64,
            },
        };
        part.begin + after
    }

    /// Returns the time of the last frame of a clip, after its first.
    fn last_time(&self, fps: f64) -> f64 {
        (self.frames - 1) as f64 / fps
    }

    /// Chooses one frame of each segment: drawn, or the middle one without a generator.
    fn choose_segments(&self, part: &Part, mut rng: Option<Rng>, frames: &mut Vec<u32>) {
        let (count, segments) = (part.frames(), self.frames as u64);
        for segment in 0..segments {
            let frame = match &mut rng {
                None => (2 * segment + 1) * count / (2 * segments),
                Some(rng) => {
                    let start = segment * count / segments;
                    let width = (segment + 1) * count / segments - start;
                    // A part has fewer than 2^32 frames.
                    start + if width == 0 { 0 } else { rng.below(width as u32).into() }
                }
            };
            frames.push(part.low + frame as u32);
        }
    }

    fn too_short(&self, part: &Part, found: usize) -> Error {
        let (frames, wanted) = (part.frames(), self.frames);
        let cure = match self.sampler {
            Sampler::Segments => "or leave out `on_short`",
            _ => "or set `on_short` to `repeat_last` or `wrap`",
        };
        fail!(
            Damaged,
            "the video has {frames} frames to choose from, in which a clip has {found} of its {wanted} frames: take shorter \
             clips, {cure}"
        )
    }
}

/// Returns a uniform number in `[0, 1)`, a multiple of 2^-53.
fn unit(rng: &mut Rng) -> f64 {
    let word = u64::from(rng.word()) << 32 | u64::from(rng.word());
    (word >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(count: u32, fps: f64) -> FrameTimes {
        FrameTimes::Constant { count, fps }
    }

    fn chosen(clips: &Clips, times: &FrameTimes, seed: u64) -> Vec<u32> {
        clips.check().unwrap();
        let mut frames = vec![];
        let rng = |clip| Rng::new(seed ^ (clip as u64) << 32);
        clips.choose((times, None), 0, rng, &mut frames).unwrap();
        frames
    }

    fn clip_of_all(clips: &Clips, times: &FrameTimes, number: u64) -> Vec<u32> {
        let mut frames = vec![];
        clips.choose((times, None), number, |_| Rng::new(0), &mut frames).unwrap();
        frames
    }

    #[test]
    fn random_clips_are_inside_and_their_starts_are_uniform() {
        let (clips, times) = (Clips::random(4).stride(3), times(19, 30.0));
        let mut starts = [0; 10];
        for seed in 0..20_000 {
            let frames = chosen(&clips, &times, seed);
            assert!(frames.windows(2).all(|pair| pair[1] == pair[0] + 3) && frames[3] < 19);
            starts[frames[0] as usize] += 1;
        }
        assert!(starts.iter().all(|count| (1800..2200).contains(count)), "{starts:?}");
        assert_eq!(chosen(&clips, &times, 7), chosen(&clips, &times, 7));
    }

    #[test]
    fn random_clips_by_time_have_uniform_starts_too() {
        let (clips, times) = (Clips::random(4).fps(10.0), times(19, 30.0));
        let mut starts = [0; 10];
        for seed in 0..20_000 {
            let frames = chosen(&clips, &times, seed);
            assert!(frames.windows(2).all(|pair| pair[1] == pair[0] + 3), "{frames:?}");
            starts[frames[0] as usize] += 1;
        }
        assert!(starts.iter().all(|count| (1800..2200).contains(count)), "{starts:?}");
    }

    #[test]
    fn the_frames_of_a_variable_rate_are_those_shown_at_the_times() {
        // One frame stays for a second, then there are four in a quarter.
        let listed = [0.0, 1.0, 1.0625, 1.125, 1.1875, 1.25];
        let times = FrameTimes::Listed { times: listed.into(), end: 2.0 };
        let frames = chosen(&Clips::regular(8).fps(4.0), &times, 0);
        assert_eq!(frames, [0, 0, 0, 0, 1, 5, 5, 5]);
        for seed in 0..500 {
            let frames = chosen(&Clips::random(3).fps(2.0), &times, seed);
            assert!(frames.is_sorted() && frames[0] == 0 && frames.iter().all(|frame| *frame < 6));
        }
    }

    #[test]
    fn a_short_video_repeats_its_last_frame_or_wraps_or_is_refused() {
        let clips = Clips::random(6).stride(2);
        assert_eq!(chosen(&clips, &times(5, 1.0), 1), [0, 2, 4, 4, 4, 4]);
        assert_eq!(
            chosen(&clips.clone().on_short(OnShort::Wrap), &times(5, 1.0), 1),
            [0, 2, 4, 0, 2, 4]
        );
        let by_time = Clips::random(6).fps(0.5);
        assert_eq!(chosen(&by_time, &times(5, 1.0), 1), [0, 2, 4, 4, 4, 4]);
        assert_eq!(
            chosen(&by_time.clone().on_short(OnShort::Wrap), &times(3, 1.0), 1),
            [0, 2, 0, 2, 0, 2]
        );
        assert_eq!(chosen(&clips, &times(1, 1.0), 1), [0; 6]);
        for clips in [clips, by_time, Clips::segments(6)] {
            let clips = clips.on_short(OnShort::Error);
            let refused = clips.choose((&times(5, 1.0), None), 0, |_| Rng::new(0), &mut vec![]);
            let refused = refused.unwrap_err().to_string();
            assert!(refused.contains("5 frames to choose from"), "{refused}");
            let long = clips.choose((&times(30, 1.0), None), 0, |_| Rng::new(0), &mut vec![]);
            assert!(long.is_ok());
        }
    }

    #[test]
    fn regular_clips_are_spread_from_the_first_frame_to_the_last() {
        let clips = Clips::regular(2).clips(3).stride(2);
        assert_eq!(chosen(&clips, &times(11, 1.0), 0), [0, 2, 4, 6, 8, 10]);
        assert_eq!(chosen(&Clips::regular(3), &times(9, 1.0), 0), [3, 4, 5]);
        let by_time = Clips::regular(2).clips(3).fps(0.5);
        assert_eq!(chosen(&by_time, &times(12, 1.0), 0), [0, 2, 4, 6, 8, 10]);
    }

    #[test]
    fn segments_cover_the_video_and_have_middles() {
        let drawn = Clips::segments(4);
        let (mut seen, times) = ([0; 10], times(10, 1.0));
        for seed in 0..2000 {
            let frames = chosen(&drawn, &times, seed);
            let segments = [0..2, 2..5, 5..7, 7..10];
            assert!(frames.iter().zip(segments).all(|(frame, segment)| segment.contains(frame)));
            frames.iter().for_each(|frame| seen[*frame as usize] += 1);
        }
        assert!(seen.iter().all(|count| *count > 500), "{seen:?}");
        // These are the test indices of temporal-segment-networks: int(tick / 2 + tick * x), tick = n / T.
        let middle = |frames, n| {
            chosen(&Clips::segments(frames).middle(true), &super::tests::times(n, 1.0), 0)
        };
        assert_eq!(middle(4, 10), [1, 3, 6, 8]);
        assert_eq!(middle(3, 8), [1, 4, 6]);
        assert_eq!(middle(8, 150), [9, 28, 46, 65, 84, 103, 121, 140]);
        assert_eq!(middle(4, 2), [0, 0, 1, 1]);
        assert_eq!(chosen(&drawn, &super::tests::times(2, 1.0), 0), [0, 0, 1, 1]);
    }

    #[test]
    fn all_clips_cover_the_video_and_the_last_ends_with_it() {
        let clips = Clips::all(2).stride(2);
        for (count, expected) in [(1, 1), (4, 1), (8, 2), (9, 3)] {
            assert_eq!(clips.count_all(&times(count, 1.0), None), expected, "{count}");
        }
        let each = |count| {
            let number = clips.count_all(&times(count, 1.0), None);
            let clips = (0..number).map(|number| clip_of_all(&clips, &times(count, 1.0), number));
            clips.collect::<Vec<_>>()
        };
        assert_eq!(each(9), [[0, 2], [4, 6], [6, 8]]);
        assert_eq!(each(2), [[0, 0]]);
        let by_time = Clips::all(2).fps(0.5);
        assert_eq!([4, 8, 9].map(|count| by_time.count_all(&times(count, 1.0), None)), [1, 2, 3]);
        assert_eq!(clip_of_all(&by_time, &times(9, 1.0), 2), [5, 7]);
    }

    #[test]
    fn a_range_restricts_the_frames() {
        let clips = Clips::random(3).range(1.0, 2.0);
        for seed in 0..200 {
            let frames = chosen(&clips, &times(100, 10.0), seed);
            assert!(frames.iter().all(|frame| (10..20).contains(frame)), "{frames:?}");
            let frames = chosen(&clips.clone().fps(4.0), &times(100, 10.0), seed);
            assert!(frames.iter().all(|frame| (10..20).contains(frame)), "{frames:?}");
        }
        let refused = clips.choose((&times(5, 10.0), None), 0, |_| Rng::new(0), &mut vec![]);
        assert!(refused.unwrap_err().to_string().contains("ends at 0.5 seconds"));
    }

    #[test]
    fn settings_without_a_meaning_are_refused() {
        let refused = |clips: Clips, words: &str| {
            let error = clips.check().unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        };
        refused(Clips::random(0), "0 frames");
        refused(Clips::random(1).clips(0), "0 clips");
        refused(Clips::random(1 << 16).clips(2), "at most 65536");
        refused(Clips::random(1).stride(0), "a stride of 0");
        refused(Clips::random(1).fps(f64::NAN), "`fps` is NaN");
        refused(Clips::random(1).source_fps(0.0), "`source_fps` is 0");
        refused(Clips::random(1).stride(4).fps(10.0), "given with `stride`");
        refused(Clips::segments(2).stride(1), "no stride or fps");
        refused(Clips::random(2).middle(true), "`middle` is for segments");
        refused(Clips::segments(2).on_short(OnShort::Wrap), "nearest frame");
        refused(Clips::segments(2).on_short(OnShort::RepeatLast), "nearest frame");
        refused(Clips::segments(2).stride(2), "no stride or fps");
        refused(Clips::all(2).clips(2), "makes one");
        refused(Clips::segments(2).middle(true).clips(2), "makes one");
        refused(Clips::random(2).range(3.0, 3.0), "from 3 to 3 seconds");
        refused(Clips::random(2).range(0.0, f64::NAN), "to NaN seconds");
    }

    #[test]
    fn seconds_of_videos_without_times_need_their_rate() {
        for (clips, name) in
            [(Clips::random(2).fps(8.0), "fps"), (Clips::all(2).range(1.0, 3.0), "range")]
        {
            let error = clips.check_rate().unwrap_err().to_string();
            assert!(error.contains(&format!("`{name}` counts seconds")), "{error}");
            assert!(clips.source_fps(30.0).check_rate().is_ok());
        }
        assert!(Clips::random(2).stride(3).check_rate().is_ok());
    }

    /// Whatever the video and the settings, all frames are of the video and there are as many as a row has.
    #[test]
    fn any_clip_of_any_video_has_its_number_of_frames_and_they_exist() {
        arbtest::arbtest(|u| {
            let frames = u.int_in_range(1..=40)?;
            let mut clips = match u.int_in_range(0..=3)? {
                0 => Clips::random(frames),
                1 => Clips::regular(frames),
                2 => Clips::segments(frames),
                _ => Clips::all(frames),
            };
            clips = clips.clips(u.int_in_range(1..=3)?);
            clips = match u.int_in_range(0..=2)? {
                0 => clips.stride(u.arbitrary()?),
                1 => clips.fps(u.arbitrary()?),
                _ => clips,
            };
            if u.arbitrary()? {
                clips = clips.range(u.arbitrary()?, u.arbitrary()?);
            }
            if u.arbitrary()? {
                clips = clips.on_short(*u.choose(&[OnShort::RepeatLast, OnShort::Wrap])?);
            }
            if clips.check().is_err() {
                return Ok(());
            }
            let times = if u.arbitrary()? {
                times(u.int_in_range(1..=200)?, 25.0)
            } else {
                let steps: Vec<u8> = (0..u.int_in_range(1..=60)?)
                    .map(|_| u.arbitrary())
                    .collect::<Result<_, _>>()?;
                let mut at = 0.0;
                let times = steps.iter().map(|step| {
                    at += f64::from(*step) / 64.0;
                    at
                });
                let times: Vec<f64> = times.collect();
                FrameTimes::Listed { end: at + 0.01, times: times.into() }
            };
            let number = u.int_in_range(0..=clips.count_all(&times, None).min(1000) - 1)?;
            let (seed, mut frames) = (u.arbitrary::<u64>()?, vec![]);
            if clips
                .choose((&times, None), number, |clip| Rng::new(seed ^ clip as u64), &mut frames)
                .is_ok()
            {
                assert_eq!(frames.len(), clips.images());
                assert!(frames.iter().all(|frame| *frame < times.count()), "{clips:?} {times:?}");
            } else {
                assert!(clips.range.is_some());
            }
            Ok(())
        })
        .budget_ms(500);
    }
}
