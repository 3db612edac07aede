//! The clip store: a dataset of images whose consecutive rows are the frames of videos, as
//! [`convert_videos`](crate::write::convert_videos) writes it.
//!
//! ```text
//! image  label  video_index  pts         videos
//! ...    3      0            0.00   ─┐
//! ...    3      0            0.04   ─┴▶  rows 0..2, label 3
//! ...    1      2            0.00   ───▶ row  2..3, label 1
//! ```
//!
//! | field         | value                                                                                           |
//! |---------------|-------------------------------------------------------------------------------------------------|
//! | `video_index` | int, the same in all rows of a video, and greater than in the rows of the video before           |
//! | `pts`         | float, the time of the frame in seconds, which no later row of the video is before; may be absent |
//! | others        | those of the frame, such as its mask and its boxes; a video has the values of its first frame     |
//!
//! The rows of one video follow each other. Videos that were left out leave gaps in their numbers. Datasets that are joined
//! count for themselves, and a video does not go on in the next one. Opening reads the two fields of all rows, which a `.beton`
//! file has in its sample table, and keeps the first row of each video.

use super::frames::{FrameTimes, Frames};
use super::lru_cache::LruCache;
use super::{
    BoxError, Buffer, Escaped, Facts, FieldKind, Fingerprint, Record, SampleLocation, Source,
    Value, read_values,
};
use crate::amounts::Decimal;
use crate::error::{Error, fail};
use crate::parallel;
use crate::sample::SampleId;
use fuseloop_ops::Size;
use std::sync::Arc;

/// The field of the number of a row's video.
pub(crate) const VIDEO_INDEX: &str = "video_index";

/// The field of the time of a frame.
pub(crate) const PTS: &str = "pts";

/// The number of rows that a thread reads at once when a store is opened.
const BLOCK: u64 = 1 << 16;

/// The bytes of the times that stay in memory.
const TIMES_BYTES: u64 = 64 << 20;

/// Rows of frames that are grouped to videos. In every other field, a video has the value of its first frame.
pub(crate) struct FrameRows {
    facts: Facts,
    rows: Arc<dyn Source>,
    /// The field that has the frames, among those of the videos.
    field: usize,
    /// The field of the rows that each field is.
    fields: Vec<usize>,
    /// The first row of each video, and the number of rows.
    starts: Vec<u64>,
    /// The field of the times among those of the rows; `None` if frames have none.
    pts: Option<usize>,
    /// The rate of frames without times.
    fps: f64,
    times: LruCache<u64, FrameTimes>,
}

/// The values of a row that decide which video it belongs to.
#[derive(Clone, Copy)]
struct RowOfVideo {
    row: u64,
    component: usize,
    video: i64,
    pts: f64,
}

/// Returns whether a dataset is a clip store: its images have the numbers of their videos next to them.
pub(crate) fn is_clip_store(dataset: &dyn Source) -> bool {
    dataset.field_index(VIDEO_INDEX).is_some_and(|it| dataset.fields()[it].kind == FieldKind::Int)
}

impl FrameRows {
    /// Groups the rows of a clip store, whose field `field` has the frames. Frames without times have `fps` frames per
    /// second.
    ///
    /// # Errors
    ///
    /// If a row can't be read, the rows of a video do not follow each other, or their times do not ascend.
    pub(crate) fn new(rows: Arc<dyn Source>, field: usize, fps: f64) -> Result<Self, Error> {
        let own = |name| rows.field_index(name);
        let index = own(VIDEO_INDEX);
        let index = index.ok_or_else(|| {
            fail!(Field, "the dataset has no field {VIDEO_INDEX}, and is no clip store")
        })?;
        let pts = own(PTS).filter(|pts| rows.fields()[*pts].kind == FieldKind::Float);
        let starts = starts(&*rows, index, pts)?;
        let is_shown = |field: &usize| *field != index && Some(*field) != pts;
        let fields: Vec<usize> = (0..rows.fields().len()).filter(is_shown).collect();
        let shown = fields.iter().position(|one| *one == field);
        let field =
            shown.ok_or_else(|| fail!(Field, "the field of the frames is none of the videos"))?;
        let mut print = Fingerprint::default();
        print.text("frame rows");
        print.number(rows.fingerprint());
        let facts = Facts {
            samples: starts.len() as u64 - 1,
            fingerprint: print.value(),
            stored_bytes: None,
            page_size: None,
            ..rows.facts().of_fields(&fields)
        };
        let size = |times: &FrameTimes| u64::from(times.count()) * size_of::<f64>() as u64;
        let times = LruCache::new(TIMES_BYTES, size);
        Ok(Self { facts, rows, field, fields, starts, pts, fps, times })
    }

    /// Returns the first row of a video, and the number of its frames.
    fn video(&self, video: SampleId) -> Result<(u64, u32), Error> {
        let first = usize::try_from(video.0).ok().filter(|first| first + 1 < self.starts.len());
        let first = first
            .ok_or_else(|| fail!(Parameter, "no such video: there are {}", self.facts.samples))?;
        let count = self.starts[first + 1] - self.starts[first];
        let count = u32::try_from(count);
        let count = count.map_err(|_| fail!(Memory, "a video of more than 2^32 - 1 frames"))?;
        Ok((self.starts[first], count))
    }

    /// Returns the row of a frame.
    fn row(&self, video: SampleId, frame: u32) -> Result<SampleId, Error> {
        let (first, count) = self.video(video)?;
        if frame >= count {
            return Err(fail!(Parameter, "no such frame: the video has {count}"));
        }
        Ok(SampleId(first + u64::from(frame)))
    }

    /// Returns the field of the rows that a field is.
    fn own(&self, field: usize) -> Result<usize, BoxError> {
        Ok(*self.fields.get(field).ok_or("no such field")?)
    }
}

/// Returns the first row of each video, and the number of rows.
fn starts(rows: &dyn Source, index: usize, pts: Option<usize>) -> Result<Vec<u64>, Error> {
    let blocks: Vec<u64> = (0..rows.len()).step_by(BLOCK as usize).collect();
    let found = parallel::map(&blocks, |&first| {
        let mut buffer = Buffer::default();
        let (mut starts, mut last): (_, Option<RowOfVideo>) = (vec![], None);
        let begin = first.checked_sub(1);
        for row in begin.unwrap_or(0)..first.saturating_add(BLOCK).min(rows.len()) {
            let next = read_row(rows, row, (index, pts), &mut buffer)?;
            let is_start = begins_video(rows, last.as_ref(), &next)?;
            if is_start && row >= first {
                starts.push(row);
            }
            last = Some(next);
        }
        Ok::<_, Error>(starts)
    })?;
    let mut starts = vec![];
    for block in found {
        starts.extend(block?);
    }
    starts.push(rows.len());
    Ok(starts)
}

fn read_row(
    rows: &dyn Source,
    row: u64,
    (index, pts): (usize, Option<usize>),
    buffer: &mut Buffer,
) -> Result<RowOfVideo, Error> {
    let sample = SampleId(row);
    let component = if rows.components() > 1 { rows.component(sample, buffer)? } else { 0 };
    let wrong = |name, found| {
        fail!(Damaged, "{}: {name} is {found}", Escaped(rows.name())).of_value(sample, name)
    };
    let video = match rows.value(sample, index, buffer)? {
        Value::Int(video) => video,
        _ => return Err(wrong(VIDEO_INDEX, "no int")),
    };
    let pts = match pts.map(|pts| rows.value(sample, pts, buffer)).transpose()? {
        None => 0.0,
        Some(Value::Float(pts)) if pts.is_finite() => pts,
        Some(_) => return Err(wrong(PTS, "no finite number")),
    };
    Ok(RowOfVideo { row, component, video, pts })
}

/// Returns whether a row is the first one of its video.
fn begins_video(
    rows: &dyn Source,
    last: Option<&RowOfVideo>,
    next: &RowOfVideo,
) -> Result<bool, Error> {
    let Some(last) = last.filter(|last| last.component == next.component) else {
        return Ok(true);
    };
    let (dataset, row, sample) = (Escaped(rows.name()), next.row, SampleId(next.row));
    if next.video < last.video {
        let error = fail!(
            Damaged,
            "{dataset}: row {row} is of video {} and the row before of video {}, and the numbers of videos ascend: convert the \
             videos again, and select or shuffle videos instead of rows",
            next.video,
            last.video
        );
        return Err(error.of_value(sample, VIDEO_INDEX));
    }
    if next.video == last.video && next.pts < last.pts {
        let error = fail!(
            Damaged,
            "{dataset}: row {row} is shown at {} seconds and the row before, of the same video, at {}, and the times of a \
             video ascend: convert the videos again, and join stores as datasets instead of rows",
            Decimal(next.pts),
            Decimal(last.pts)
        );
        return Err(error.of_value(sample, PTS));
    }
    Ok(next.video > last.video)
}

impl Source for FrameRows {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn read(&self, video: SampleId) -> Result<Record, BoxError> {
        read_values(self, video)
    }

    fn value<'a>(
        &'a self,
        video: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        self.frame_value((video, 0), field, buffer)
    }

    /// Returns where the first frame is stored.
    fn locate(&self, video: SampleId, field: usize) -> Option<SampleLocation> {
        self.locate_frame((video, 0), field)
    }

    fn component(&self, video: SampleId, buffer: &mut Buffer) -> Result<usize, BoxError> {
        self.rows.component(self.row(video, 0)?, buffer)
    }
}

impl Frames for FrameRows {
    fn field(&self) -> usize {
        self.field
    }

    fn times(&self, video: SampleId) -> Result<FrameTimes, BoxError> {
        let (first, count) = self.video(video)?;
        let Some(pts) = self.pts else { return Ok(FrameTimes::Constant { count, fps: self.fps }) };
        let times = self.times.get(video.0, || {
            let mut buffer = Buffer::default();
            let time = |row| match self.rows.value(SampleId(row), pts, &mut buffer)? {
                Value::Float(seconds) => Ok(seconds),
                _ => Err(BoxError::from("the time of a frame is no float")),
            };
            let times: Arc<[f64]> =
                (first..first + u64::from(count)).map(time).collect::<Result<_, _>>()?;
            FrameTimes::listed(times).ok_or_else(|| BoxError::from("the video has no frames"))
        })?;
        Ok((*times).clone())
    }

    fn has_values_of_frames(&self) -> bool {
        true
    }

    fn frame_value<'a>(
        &'a self,
        (video, frame): (SampleId, u32),
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        self.rows.value(self.row(video, frame)?, self.own(field)?, buffer)
    }

    fn annotated_frame_size(&self, (video, frame): (SampleId, u32)) -> Option<Size> {
        self.rows.annotated_size(self.row(video, frame).ok()?)
    }

    fn locate_frame(
        &self,
        (video, frame): (SampleId, u32),
        field: usize,
    ) -> Option<SampleLocation> {
        self.rows.locate(self.row(video, frame).ok()?, self.own(field).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Column, Concat, FrameImage, FramePixels, InMemory};

    /// Returns a store of gray frames, each as bright as its row.
    fn store(videos: &[i64], pts: Option<&[f64]>) -> InMemory {
        let pixels: Vec<u8> = (0..videos.len() as u8).flat_map(|row| [row; 12]).collect();
        let labels: Vec<i64> = videos.iter().map(|video| video.wrapping_mul(10)).collect();
        let mut columns = vec![(VIDEO_INDEX, Column::ints(videos.to_vec()))];
        columns.extend(pts.map(|pts| (PTS, Column::floats(pts.to_vec()))));
        columns.push(("image", Column::rgb(2, pixels)));
        columns.push(("label", Column::ints(labels)));
        InMemory::new(columns).unwrap()
    }

    fn grouped(rows: impl Source) -> Result<FrameRows, Error> {
        let rows: Arc<dyn Source> = Arc::new(rows);
        let field = rows.field_index("image").unwrap();
        FrameRows::new(rows, field, 1.0)
    }

    fn counts(videos: &FrameRows) -> Vec<u32> {
        (0..videos.facts.samples).map(|n| videos.times(SampleId(n)).unwrap().count()).collect()
    }

    #[test]
    fn consecutive_rows_of_one_number_are_a_video_with_its_values_and_times() {
        let pts = [0.5, 0.6, 0.0, 0.0, 0.0, 2.0];
        let videos = grouped(store(&[0, 0, 3, 4, 4, 4], Some(&pts))).unwrap();
        assert_eq!(counts(&videos), [2, 1, 3]);
        let names: Vec<&str> = videos.facts.fields.iter().map(|field| &*field.name).collect();
        assert_eq!((names, videos.field), (vec!["image", "label"], 0));
        let times = videos.times(SampleId(2)).unwrap();
        assert_eq!([0, 1, 2].map(|frame| times.time(frame)), [0.0, 0.0, 2.0]);
        assert_eq!(times.end(), 3.0);
        let mut buffer = Buffer::default();
        let label = videos.value(SampleId(1), 1, &mut buffer).unwrap();
        assert_eq!(label, Value::Int(30));
        let mut seen = vec![];
        let mut take = |frame, image: FrameImage<'_>| {
            let FramePixels::Stored(value) = image.pixels else { unreachable!() };
            seen.push((frame, value.bytes()[0]));
            Ok(())
        };
        let read = videos.read_frames(SampleId(2), &[0, 2], &mut Buffer::default(), &mut take);
        assert!(read.is_ok());
        assert_eq!(seen, [(0, 3), (2, 5)]);
        let beyond =
            videos.read_frames(SampleId(1), &[1], &mut Buffer::default(), &mut |_, _| Ok(()));
        let text = beyond.err().unwrap().error.to_string();
        assert!(text.contains("the video has 1"), "{text}");
        assert!(videos.times(SampleId(3)).is_err());
    }

    #[test]
    fn videos_do_not_go_on_in_the_next_dataset() {
        let part = || Arc::new(store(&[0, 0, 1], Some(&[0.0, 1.0, 0.0]))) as Arc<dyn Source>;
        let last = Arc::new(store(&[1, 1], Some(&[0.0, 1.0]))) as Arc<dyn Source>;
        let videos = grouped(Concat::new(vec![part(), part(), last]).unwrap()).unwrap();
        assert_eq!(counts(&videos), [2, 1, 2, 1, 2]);
        assert_eq!(videos.component(SampleId(4), &mut Buffer::default()).unwrap(), 2);
    }

    #[test]
    fn videos_may_begin_and_end_at_any_row_of_a_block() {
        let count = 2 * BLOCK + 3;
        for length in [1, 7, BLOCK - 1, BLOCK, BLOCK + 1, 2 * count] {
            let videos: Vec<i64> = (0..count).map(|row| (row / length) as i64).collect();
            let rows = InMemory::new([(VIDEO_INDEX, Column::ints(videos))]).unwrap();
            let expected: Vec<u64> = (0..count).step_by(length as usize).chain([count]).collect();
            assert_eq!(starts(&rows, 0, None).unwrap(), expected, "{length}");
        }
    }

    #[test]
    fn rows_out_of_order_are_refused_by_their_numbers() {
        let cases: [(&[i64], &[f64], &str); 4] = [
            (&[0, 1, 0], &[0.0; 3], "row 2 is of video 0 and the row before of video 1"),
            (&[5, i64::MIN], &[0.0; 2], "row 1 is of video -9223372036854775808"),
            (&[2, 2, 2], &[0.0, 0.2, 0.1], "row 2 is shown at 0.1 seconds"),
            (&[2, 2], &[0.0, f64::NAN], "pts is no finite number"),
        ];
        for (videos, pts, expected) in cases {
            let error = grouped(store(videos, Some(pts))).err().unwrap();
            assert!(error.to_string().contains(expected), "{error}");
            assert!(error.sample().is_some() && error.field().is_some(), "{error:?}");
        }
    }

    #[test]
    fn frames_without_times_have_the_rate_that_is_set() {
        let rows: Arc<dyn Source> = Arc::new(store(&[7, 7, 7], None));
        let field = rows.field_index("image").unwrap();
        let videos = FrameRows::new(rows, field, 10.0).unwrap();
        assert_eq!(videos.times(SampleId(0)).unwrap().end(), 0.3);
        assert_eq!(grouped(store(&[], None)).unwrap().facts.samples, 0);
    }
}
