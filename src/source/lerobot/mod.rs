//! Datasets of LeRobot, version 3: rows of robots in Parquet files, and the frames of their cameras in video files, which
//! have many episodes each.
//!
//! ```text
//! meta/info.json            info.rs      the rate, the cameras, the names of the files
//! meta/episodes/*/*.parquet episodes.rs  the rows of each episode, and its video files with the times where it begins
//! meta/tasks.parquet        episodes.rs  the texts of the tasks
//! data/*/*.parquet          a row for each frame: timestamp, frame_index, episode_index, index, task_index, action, ...
//! videos/KEY/*/*.mp4        the frames of a camera
//! ```
//!
//! | field                         | value of a sample, which is a row                                                  |
//! |-------------------------------|------------------------------------------------------------------------------------|
//! | a camera                      | the frame shown at the row's `timestamp` after the time where the episode begins     |
//! | a column                      | its value in the row                                                               |
//! | one of them, with deltas      | the frames, or the values, of the rows at these distances in seconds                 |
//! | `KEY_is_pad`, of `KEY` with deltas | u8 `[T]`: 1 where that row would be outside of the episode, and its first or last row is taken |
//! | `task`                        | the text of the row's `task_index`                                                 |
//!
//! The rules are those of `LeRobotDataset`: a delta of `d` seconds is `round(d * fps)` rows, and must be so within the
//! tolerance. The frame of a time is the one whose own time is nearest, which must be within the tolerance too. The samples
//! of chosen episodes are in the order of the dataset.

mod episodes;
mod info;

use super::file::read_file;
use super::file_format::LEROBOT_INFO as INFO;
use super::image_header::ImageHeader;
use super::parquet::Parquet;
use super::starts::Starts;
use super::video_files::VideoPaths;
use super::{
    BoxError, Buffer, EncodedImage, Escaped, Facts, FieldKind, FieldSpec, Fingerprint, FrameCount,
    FrameError, FrameFields, FrameImage, FramePixels, FrameSource, FrameTimes, ImageMode,
    ImageStats, NdType, Record, SampleLocation, Source, StoredValues, TakeFrame, Value, frame_size,
    read_values,
};
use crate::amounts::Decimal;
use crate::error::{AtPath as _, Error, fail};
use crate::exif::upright_size;
use crate::sample::{Limits, SampleId};
use crate::warnings::warn;
use episodes::Episode;
use fuseloop_ops::Size;
use info::{FileNumber, INFO_BYTES, Info};
use std::collections::{BTreeMap, HashMap, HashSet, btree_map, hash_map};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The seconds by which the time of a frame may differ from that of its row: `tolerance_s` of `LeRobotDataset`.
const TOLERANCE: f64 = 1e-4;

/// The most deltas of a field.
const MOST_DELTAS: usize = 1 << 12;

/// The most rows that a delta may be.
const MOST_ROWS: f64 = 2_147_483_648.0;

/// The name of the texts of the tasks.
const TASK: &str = "task";

/// The rows and the episodes that are read of [`LeRobot`].
///
/// ```no_run
/// use fuseloop::source::{LeRobot, LeRobotOptions};
///
/// let options = LeRobotOptions::default()
///     .delta_timestamps("observation.images.top", [-0.1, 0.0])
///     .delta_timestamps("action", [0.0, 0.1, 0.2])
///     .episodes([0, 1, 4]);
/// let dataset = LeRobot::open("pusht", &options)?;
/// # Ok::<(), fuseloop::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct LeRobotOptions {
    deltas: Vec<(String, Vec<f64>)>,
    episodes: Option<Vec<u64>>,
    tolerance: f64,
    limits: Limits,
}

impl Default for LeRobotOptions {
    fn default() -> Self {
        Self { deltas: vec![], episodes: None, tolerance: TOLERANCE, limits: Limits::DEFAULT }
    }
}

impl LeRobotOptions {
    /// Makes a field have several frames or values: those of other rows, whose distances from the sample's own are given in
    /// seconds, less than 0 for rows before it. They are multiples of the time of a frame, and their order is that of the batch. Default: a field has
    /// the value of the sample's own row, without an axis of time.
    #[must_use]
    pub fn delta_timestamps(
        mut self,
        key: impl Into<String>,
        seconds: impl IntoIterator<Item = f64>,
    ) -> Self {
        self.deltas.push((key.into(), seconds.into_iter().collect()));
        self
    }

    /// Restricts the dataset to these episodes, in the order of the dataset. Files of other episodes alone may be missing.
    /// Default: all episodes.
    #[must_use]
    pub fn episodes(self, episodes: impl IntoIterator<Item = u64>) -> Self {
        Self { episodes: Some(episodes.into_iter().collect()), ..self }
    }

    /// Sets the seconds by which deltas may differ from multiples of the time of a frame, and frames from the times of their
    /// rows. Default 0.0001.
    #[must_use]
    pub fn tolerance(self, seconds: f64) -> Self {
        Self { tolerance: seconds, ..self }
    }

    /// Sets the limits on what the dataset may ask for.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }
}

/// A dataset of LeRobot, version 3, read in any order: a folder with `meta/info.json`. A sample is a row, which is a frame
/// of an episode.
///
/// The cameras are fields of images, and the columns of the Parquet files fields of arrays and numbers. With
/// [`delta_timestamps`](LeRobotOptions::delta_timestamps) a batch has the frames of a camera as `[N, T, C, H, W]`, arrays as
/// `[N, T, D]`, and `KEY_is_pad` `[N, T]`, which is 1 where a time is outside of the episode, and its first or last row is
/// taken.
///
/// ```no_run
/// use fuseloop::source::{LeRobot, LeRobotOptions};
/// use fuseloop::{Loader, Order, ops::*};
///
/// let top = "observation.images.top";
/// let options = LeRobotOptions::default()
///     .delta_timestamps(top, [-0.1, 0.0])
///     .delta_timestamps("action", [0.0, 0.1, 0.2]);
/// let loader = Loader::from_source(LeRobot::open("pusht", &options)?)
///     .batch_size(8)
///     .order(Order::Random)
///     .pipeline(top, ops![RandomCrop::new(84)?, ToChannelsFirst])
///     .build()?;
/// for batch in loader.epoch(0)? {
///     let batch = batch?;
///     let frames = batch.tensor::<u8>(top)?; // [8, 2, 3, 84, 84]
///     let actions = batch.tensor::<f32>("action")?; // [8, 3, 2]
///     let is_pad = batch.tensor::<u8>("action_is_pad")?; // [8, 3]
/// #   let _ = (frames, actions, is_pad);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct LeRobot {
    table: Arc<Table>,
    /// True if a loader reads the frames of fields that have several. Others get an error instead of the first frame.
    is_of_loader: bool,
}

/// The facts about the samples.
struct Table {
    facts: Facts,
    fields: Vec<Origin>,
    /// The rows, in the order of the dataset; of files without a chosen episode none.
    data: Parquet,
    episodes: Vec<ChosenEpisode>,
    /// The first sample of each episode.
    starts: Starts,
    cameras: Vec<Camera>,
    videos: VideoPaths,
    /// The rows of fields with deltas, relative to the sample's own, in the order of the options.
    deltas: Vec<Vec<i64>>,
    timestamp: Option<usize>,
    episode_index: usize,
    task_index: Option<usize>,
    tasks: BTreeMap<i64, Vec<u8>>,
    tolerance: f64,
}

/// A camera: the size of its frames, if that is known.
struct Camera {
    key: String,
    size: Option<Size>,
}

/// An episode whose rows are samples.
struct ChosenEpisode {
    number: u64,
    rows: u64,
    /// Its first row in `data`.
    first: u64,
    /// The video file of each camera, and the seconds at which the episode begins there.
    videos: Vec<(usize, f64)>,
}

/// Where the values of a field are from.
#[derive(Clone, Copy)]
enum Origin {
    /// The frames of a camera.
    Camera {
        camera: usize,
        deltas: Option<usize>,
    },
    /// A column, in the sample's own row.
    Column(usize),
    /// A column of images, in several rows.
    Images {
        column: usize,
        deltas: usize,
    },
    /// A column of numbers or arrays, in several rows. Numbers are floats of 32 bits if `is_f32`.
    Columns {
        column: usize,
        deltas: usize,
        is_f32: bool,
    },
    IsPad {
        deltas: usize,
    },
    Task,
}

/// A sample: its episode, and its row there.
#[derive(Clone, Copy)]
struct Row<'a> {
    episode: &'a ChosenEpisode,
    offset: u64,
}

impl Row<'_> {
    /// Returns the row that is `delta` rows after this one, or the nearest one of the episode; and true for the latter.
    fn step(self, delta: i64) -> (u64, bool) {
        let last = i128::from(self.episode.rows) - 1;
        let wanted = i128::from(self.offset) + i128::from(delta);
        let inside = wanted.clamp(0, last);
        // The row is one of the episode's, whose number has 64 bits.
        (inside as u64, inside != wanted)
    }

    /// Returns the sample of the rows that is a row of the episode.
    fn stored(self, offset: u64) -> SampleId {
        SampleId(self.episode.first + offset)
    }
}

impl LeRobot {
    /// Opens a dataset by its folder, which has `meta`, `data` and `videos`.
    ///
    /// # Errors
    ///
    /// Fails if the folder is no dataset of LeRobot of version 3, if an option does not fit it, or if a table can't be read.
    /// Video files are opened when their frames are read.
    pub fn open(path: impl AsRef<Path>, options: &LeRobotOptions) -> Result<Self, Error> {
        let table = Arc::new(Table::open(path.as_ref(), options)?);
        Ok(Self { table, is_of_loader: false })
    }
}

impl fmt::Debug for LeRobot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Table { facts, episodes, .. } = &*self.table;
        let mut shown = f.debug_struct("LeRobot");
        shown.field("facts", facts).field("episodes", &episodes.len()).finish_non_exhaustive()
    }
}

/// The chosen episodes with the files of their rows.
struct ChosenData {
    data: Parquet,
    files: Vec<PathBuf>,
    episodes: Vec<ChosenEpisode>,
    /// The video files that have frames of the chosen episodes.
    videos: Vec<PathBuf>,
}

/// The fields of the samples, as they are gathered.
#[derive(Default)]
struct Fields {
    specs: Vec<FieldSpec>,
    origins: Vec<Origin>,
    names: HashSet<String>,
}

impl Fields {
    fn add(&mut self, name: &str, kind: FieldKind, origin: Origin) -> Result<(), Error> {
        if !self.names.insert(name.to_owned()) {
            let error = fail!(
                Format,
                "two fields would be called {}: rename the feature of that name",
                Escaped(name)
            );
            return Err(error.of_field(name));
        }
        self.specs.push(FieldSpec::from((name, kind)));
        self.origins.push(origin);
        Ok(())
    }
}

impl Table {
    fn open(dir: &Path, options: &LeRobotOptions) -> Result<Self, Error> {
        let LeRobotOptions { tolerance, limits, .. } = options;
        if !(tolerance.is_finite() && *tolerance >= 0.0) {
            return Err(fail!(
                Parameter,
                "a tolerance of {} seconds, expected a number from 0 on",
                Decimal(*tolerance)
            ));
        }
        let (path, mut text) = (dir.join(INFO), vec![]);
        read_file(&path, INFO_BYTES, &mut text).at(&path)?;
        let info = Info::parse(&text).at(&path)?;
        if !info.depths.is_empty() {
            let names = info.depths.join(", ");
            warn(format_args!(
                "{}: videos of depths are not read, and left out: {}",
                Escaped(&dir.to_string_lossy()),
                Escaped(&names)
            ));
        }
        let all = episodes::read(dir, &info, limits)?;
        let chosen = chosen_episodes(&all, options.episodes.as_deref()).map_err(|e| e.at(dir))?;
        let ChosenData { data, files, episodes, videos } =
            ChosenData::open((dir, &info), &all, &chosen, limits).at(&path)?;
        let tasks = episodes::read_tasks(dir, limits)?;
        let columns = &data.facts().fields;
        let column = |name: &str| columns.iter().position(|field| field.name == name);
        let missing = |name: &str| {
            fail!(Format, "the Parquet files have no column {name}: the dataset is damaged").at(dir)
        };
        let is_int = |column: &usize| columns[*column].kind == FieldKind::Int;
        let timestamp = column("timestamp").filter(|&at| columns[at].kind == FieldKind::Float);
        if timestamp.is_none() && !info.cameras.is_empty() {
            return Err(missing("timestamp"));
        }
        let episode_index = column("episode_index").filter(is_int);
        let episode_index = episode_index.ok_or_else(|| missing("episode_index"))?;
        let task_index = column("task_index")
            .filter(is_int)
            .filter(|_| column(TASK).is_none() && !tasks.is_empty());
        let mut table = Self {
            facts: Facts::new::<FieldSpec>([], 0),
            fields: vec![],
            starts: episodes.iter().map(|episode| episode.rows).collect(),
            cameras: info
                .cameras
                .into_iter()
                .map(|info::Camera { key, size }| Camera { key, size })
                .collect(),
            videos: VideoPaths::new(videos, limits),
            deltas: vec![],
            data,
            episodes,
            timestamp,
            episode_index,
            task_index,
            tasks,
            tolerance: *tolerance,
        };
        table.add_fields(info.fps, &options.deltas).map_err(|error| error.at(dir))?;
        table.add_facts((dir, path), files, options);
        Ok(table)
    }

    /// Adds the fields: cameras, columns, tasks, and what is outside of an episode.
    fn add_fields(&mut self, fps: f64, wanted: &[(String, Vec<f64>)]) -> Result<(), Error> {
        let mut known: HashMap<&str, usize> = HashMap::new();
        for (key, seconds) in wanted {
            let of_key = |error: Error| error.of_field(key);
            if known.insert(key, self.deltas.len()).is_some() {
                return Err(of_key(fail!(
                    Parameter,
                    "delta_timestamps of {} are given twice: keep one of them",
                    Escaped(key)
                )));
            }
            self.deltas.push(rows_of(key, seconds, fps, self.tolerance).map_err(of_key)?);
        }
        let mut fields = Fields::default();
        for (camera, Camera { key, .. }) in self.cameras.iter().enumerate() {
            let deltas = known.remove(&**key);
            fields.add(key, FieldKind::RgbImage, Origin::Camera { camera, deltas })?;
        }
        let cameras: HashSet<&str> = self.cameras.iter().map(|camera| &*camera.key).collect();
        let columns = Arc::clone(&self.data.facts().fields);
        for (column, FieldSpec { name, kind }) in columns.iter().enumerate() {
            if cameras.contains(&**name) {
                continue;
            }
            let Some(deltas) = known.remove(&**name) else {
                fields.add(name, kind.clone(), Origin::Column(column))?;
                continue;
            };
            let (kind, origin) =
                self.several((column, kind), deltas).map_err(|error| error.of_field(name))?;
            fields.add(name, kind, origin)?;
        }
        if let Some(key) = known.keys().min() {
            let names: Vec<_> =
                fields.specs.iter().map(|field| Escaped(&field.name).to_string()).collect();
            return Err(fail!(
                Parameter,
                "delta_timestamps of {}, which is no feature; available: {}",
                Escaped(key),
                names.join(", ")
            )
            .of_field(key));
        }
        if self.task_index.is_some() {
            fields.add(TASK, FieldKind::Bytes, Origin::Task)?;
        }
        for (deltas, (key, steps)) in
            wanted.iter().zip(&self.deltas).map(|((key, _), steps)| (key, steps)).enumerate()
        {
            let kind = FieldKind::NdArray { dtype: NdType::BYTE, shape: vec![steps.len() as u64] };
            fields.add(&format!("{key}_is_pad"), kind, Origin::IsPad { deltas })?;
        }
        self.facts.fields = fields.specs.into();
        self.fields = fields.origins;
        Ok(())
    }

    /// Returns the kind and the origin of a column of which a sample has several values.
    fn several(
        &self,
        (column, kind): (usize, &FieldKind),
        deltas: usize,
    ) -> Result<(FieldKind, Origin), Error> {
        let count = self.deltas[deltas].len() as u64;
        let is_f32 = self.data.dtype(column) == Some(NdType::F32);
        let (dtype, shape) = match kind {
            FieldKind::RgbImage => return Ok((kind.clone(), Origin::Images { column, deltas })),
            FieldKind::Int => (NdType::I64, vec![count]),
            FieldKind::Float if is_f32 => (NdType::F32, vec![count]),
            FieldKind::Float => (NdType::F64, vec![count]),
            FieldKind::NdArray { dtype, shape } => (*dtype, [&[count], &shape[..]].concat()),
            kind => {
                return Err(fail!(
                    Parameter,
                    "delta_timestamps are of images, numbers and arrays of one shape, and this feature is {}: leave it out",
                    kind.word()
                ));
            }
        };
        Ok((FieldKind::NdArray { dtype, shape }, Origin::Columns { column, deltas, is_f32 }))
    }

    /// Adds what is known of the samples beside their fields.
    fn add_facts(
        &mut self,
        (dir, info): (&Path, PathBuf),
        data: Vec<PathBuf>,
        options: &LeRobotOptions,
    ) {
        let mut print = Fingerprint::default();
        print.text("lerobot");
        print.number(self.data.facts().fingerprint);
        for episode in &self.episodes {
            print.number(episode.number);
            for (file, start) in &episode.videos {
                print.number(*file as u64);
                print.number(start.to_bits());
            }
        }
        for ((key, _), steps) in options.deltas.iter().zip(&self.deltas) {
            print.text(key);
            steps.iter().for_each(|step| print.number(step.cast_unsigned()));
        }
        print.fields(&self.facts.fields);
        let samples = self.starts.samples();
        let stats: Vec<Option<ImageStats>> = self
            .fields
            .iter()
            .map(|field| {
                let Origin::Camera { camera, .. } = field else { return None };
                let size = self.cameras[*camera].size?;
                let (min, max) = (Some(size), Some(size));
                Some(ImageStats {
                    raw: samples,
                    min,
                    max,
                    max_pixels: size.pixels(),
                    ..<_>::default()
                })
            })
            .collect();
        let longest: Vec<Option<u64>> = self
            .fields
            .iter()
            .map(|field| match field {
                Origin::Task => self.tasks.values().map(|task| task.len() as u64).max(),
                Origin::Column(column) => self.data.facts().longest(*column),
                _ => None,
            })
            .collect();
        let paths: Arc<[PathBuf]> =
            [info].into_iter().chain(data).chain(self.videos.paths().iter().cloned()).collect();
        let fields = Arc::clone(&self.facts.fields);
        let facts = Facts {
            fingerprint: print.value(),
            rereads_cheaply: true,
            ..Facts::of(fields, samples).named(dir.to_string_lossy())
        };
        self.facts = facts
            .with_image_stats(move |field| stats.get(field)?.clone())
            .with_longest(move |field| *longest.get(field)?)
            .with_paths(move || {
                let paths = Arc::clone(&paths);
                Box::new((0..paths.len()).map(move |index| paths[index].clone()))
            });
    }

    fn row(&self, sample: SampleId) -> Result<Row<'_>, Error> {
        let samples = self.starts.samples();
        let (episode, SampleId(offset)) = self
            .starts
            .locate(sample)
            .ok_or_else(|| fail!(Parameter, "no such sample: the dataset has {samples}"))?;
        Ok(Row { episode: &self.episodes[episode], offset })
    }

    fn origin(&self, field: usize) -> Result<Origin, Error> {
        let fields = self.fields.len();
        let origin = self.fields.get(field).copied();
        origin.ok_or_else(|| fail!(Field, "no such field: the dataset has {fields}"))
    }

    /// Returns the rows of a sample in a field, relative to its own; one without deltas.
    fn steps(&self, deltas: Option<usize>) -> &[i64] {
        deltas.map_or(&[0], |deltas| &self.deltas[deltas])
    }

    /// Returns the frame of a camera that is nearest to the time of a row of an episode.
    fn frame_of(
        &self,
        camera: usize,
        (row, offset): (Row<'_>, u64),
        times: &FrameTimes,
        buffer: &mut Buffer,
    ) -> Result<u32, BoxError> {
        let column = self.timestamp.ok_or("the dataset has no timestamps")?;
        buffer.forget();
        let Value::Float(seconds) = self.data.value(row.stored(offset), column, buffer)? else {
            return Err("the timestamp is no number".into());
        };
        let (file, start) = row.episode.videos[camera];
        let wanted = start + seconds;
        let next = times.frames_before(wanted);
        let near = [next.checked_sub(1), Some(next).filter(|next| *next < times.count())];
        let away = |frame: &u32| (times.time(*frame) - wanted).abs();
        let nearest = near.into_iter().flatten().min_by(|a, b| away(a).total_cmp(&away(b)));
        let (tolerance, number) = (self.tolerance, row.episode.number);
        match nearest {
            Some(frame) if away(&frame) <= tolerance => Ok(frame),
            Some(frame) => {
                let time = times.time(frame);
                Err(fail!(
                    Damaged,
                    "row {offset} of episode {number} is at {} seconds, and the nearest frame, {frame}, at {}, which is not \
                     within {} seconds: raise the tolerance, or leave out the episode",
                    Decimal(wanted),
                    Decimal(time),
                    Decimal(tolerance)
                )
                .at(&self.videos.paths()[file])
                .into())
            }
            None => {
                Err(fail!(Damaged, "the video has no frames").at(&self.videos.paths()[file]).into())
            }
        }
    }

    /// Refuses a row that belongs to another episode than the table of episodes says.
    fn check_episode(&self, row: Row<'_>, buffer: &mut Buffer) -> Result<(), BoxError> {
        let (number, offset) = (row.episode.number, row.offset);
        buffer.forget();
        match self.data.value(row.stored(offset), self.episode_index, buffer)? {
            Value::Int(found) if u64::try_from(found) == Ok(number) => Ok(()),
            Value::Int(found) => Err(fail!(
                Damaged,
                "the row is of episode {found}, and row {offset} of episode {number} according to meta/episodes: the tables \
                 are of different versions of the dataset"
            )
            .into()),
            _ => Err("the number of the episode is no number".into()),
        }
    }

    /// Sets `bytes` to the values of a column in several rows, one after another.
    fn read_several(
        &self,
        (row, column, deltas): (Row<'_>, usize, usize),
        is_f32: bool,
        bytes: &mut Vec<u8>,
    ) -> Result<(), BoxError> {
        bytes.clear();
        let mut own = Buffer::default();
        for step in &self.deltas[deltas] {
            own.forget();
            match self.data.value(row.stored(row.step(*step).0), column, &mut own)? {
                Value::Int(value) => bytes.extend(value.to_le_bytes()),
                Value::Float(value) if is_f32 => bytes.extend((value as f32).to_le_bytes()),
                Value::Float(value) => bytes.extend(value.to_le_bytes()),
                Value::NdArray(value) => bytes.extend(value),
                _ => return Err("the value is no number".into()),
            }
        }
        Ok(())
    }

    /// Refuses a frame of another size than that of its camera.
    fn check_size(&self, camera: usize, image: &FrameImage<'_>) -> Result<(), Error> {
        let Some(expected) = self.cameras[camera].size else { return Ok(()) };
        let size = match &image.pixels {
            FramePixels::Planes(frame) => frame_size(frame),
            FramePixels::Stored(value) => {
                let header = ImageHeader::parse(value.bytes());
                header.map_err(|reason| fail!(Damaged, "{reason}"))?.size
            }
        };
        let found = upright_size(image.orientation.into(), size);
        if found == expected {
            return Ok(());
        }
        Err(fail!(
            Damaged,
            "a frame of {} x {} pixels, and {INFO} says {} x {}: correct the shape of the feature",
            found.width,
            found.height,
            expected.width,
            expected.height
        ))
    }

    /// Returns where a value of a sample is stored.
    fn locate(&self, sample: SampleId, field: usize) -> Option<SampleLocation> {
        let row = self.row(sample).ok()?;
        let (number, offset) = (row.episode.number, row.offset);
        let key: Arc<str> = format!("episode_{number:06}/frame_{offset:06}").into();
        let location = match self.origin(field).ok()? {
            Origin::Camera { camera, .. } => {
                let path = &self.videos.paths()[row.episode.videos[camera].0];
                SampleLocation::in_file(path.to_string_lossy(), None)
            }
            Origin::Column(column)
            | Origin::Images { column, .. }
            | Origin::Columns { column, .. } => self.data.locate(row.stored(offset), column)?,
            Origin::IsPad { .. } => self.data.locate(row.stored(offset), self.episode_index)?,
            Origin::Task => self.data.locate(row.stored(offset), self.task_index?)?,
        };
        Some(SampleLocation { key: Some(key), ..location })
    }
}

/// Returns the numbers of the chosen episodes, ascending.
fn chosen_episodes(all: &[Episode], wanted: Option<&[u64]>) -> Result<Vec<usize>, Error> {
    let Some(wanted) = wanted else { return Ok((0..all.len()).collect()) };
    let known = all.len();
    let mut chosen = vec![];
    for number in wanted {
        let index = usize::try_from(*number).ok().filter(|index| *index < known);
        chosen.push(index.ok_or_else(|| {
            fail!(
                Parameter,
                "no episode {number}: the dataset has {known}, which are numbered from 0"
            )
        })?);
    }
    if chosen.is_empty() {
        return Err(fail!(Parameter, "`episodes` is empty: name one at least, or leave it out"));
    }
    chosen.sort_unstable();
    match chosen.array_windows().find(|[one, next]| one == next) {
        Some([twice, _]) => {
            Err(fail!(Parameter, "episode {twice} is given twice: keep one of them"))
        }
        None => Ok(chosen),
    }
}

/// Reads `info.json` and the episodes of a dataset in a folder: for fuzz targets. Returns the paths of all files of the
/// episodes, below that folder.
///
/// # Errors
///
/// If one of them is refused.
pub(crate) fn files_of_episodes(
    info: &[u8],
    dir: &Path,
    limits: &Limits,
) -> Result<Vec<PathBuf>, Error> {
    let info = Info::parse(info)?;
    let mut files = vec![];
    for episode in episodes::read(dir, &info, limits)? {
        files.push(info.data_file(episode.data)?);
        for (camera, video) in info.cameras.iter().zip(&episode.videos) {
            files.push(info.video_file(&camera.key, video.file)?);
        }
    }
    Ok(files)
}

/// Returns the rows that deltas in seconds are.
fn rows_of(key: &str, seconds: &[f64], fps: f64, tolerance: f64) -> Result<Vec<i64>, Error> {
    let count = seconds.len();
    if count == 0 || count > MOST_DELTAS {
        return Err(fail!(
            Parameter,
            "delta_timestamps of {} are {count} times, expected 1 to {MOST_DELTAS}",
            Escaped(key)
        ));
    }
    let rows = |delta: &f64| {
        let rows = (delta * fps).round();
        if !rows.is_finite()
            || rows.abs() > MOST_ROWS
            || (delta * fps - rows).abs() / fps > tolerance
        {
            return Err(fail!(
                Parameter,
                "delta_timestamps of {} have {} seconds, which is no multiple of 1/{fps} within {} seconds: divide numbers \
                 of frames by {fps}",
                Escaped(key),
                Decimal(*delta),
                Decimal(tolerance)
            ));
        }
        Ok(rows as i64)
    };
    seconds.iter().map(rows).collect()
}

impl ChosenData {
    /// Opens the files of the rows of chosen episodes.
    fn open(
        (dir, info): (&Path, &Info),
        all: &[Episode],
        chosen: &[usize],
        limits: &Limits,
    ) -> Result<Self, Error> {
        // The rows of each file, of whichever episodes.
        let mut rows: BTreeMap<FileNumber, (u64, u64)> = BTreeMap::new();
        for (number, episode) in all.iter().enumerate() {
            match rows.entry(episode.data) {
                btree_map::Entry::Vacant(free) => {
                    free.insert((episode.rows.start, episode.rows.end));
                }
                btree_map::Entry::Occupied(mut known) => {
                    let (_, end) = known.get_mut();
                    if *end != episode.rows.start {
                        return Err(fail!(
                            Format,
                            "episode {number} has the rows from {} on, and the one before it in its file ends with {end}: \
                             meta/episodes is damaged",
                            episode.rows.start
                        ));
                    }
                    *end = episode.rows.end;
                }
            }
        }
        let (mut files, mut numbers) = (vec![], HashMap::new());
        let (mut videos, mut video_numbers) = (vec![], HashMap::new());
        for number in chosen {
            let episode = &all[*number];
            if let hash_map::Entry::Vacant(free) = numbers.entry(episode.data) {
                free.insert(files.len());
                files.push(dir.join(info.data_file(episode.data)?));
            }
            for (camera, (info::Camera { key, .. }, part)) in
                info.cameras.iter().zip(&episode.videos).enumerate()
            {
                if let hash_map::Entry::Vacant(free) = video_numbers.entry((camera, part.file)) {
                    free.insert(videos.len());
                    videos.push(dir.join(info.video_file(key, part.file)?));
                }
            }
        }
        let data = Parquet::of_columns(&files, &|_| true, limits)?;
        for (number, file) in &numbers {
            let (first, end) = rows[number];
            let (found, expected) = (data.starts().len_of(*file), end - first);
            if found != expected {
                return Err(fail!(
                    Format,
                    "{found} rows, and its episodes have {expected} according to meta/episodes: the tables are of different \
                     versions of the dataset"
                )
                .at(&files[*file]));
            }
        }
        let episode = |number: &usize| {
            let Episode { rows: own, data: file, videos } = &all[*number];
            let first = data.starts().first(numbers[file]).0 + (own.start - rows[file].0);
            let videos = videos
                .iter()
                .enumerate()
                .map(|(camera, part)| (video_numbers[&(camera, part.file)], part.start));
            let rows = own.end - own.start;
            ChosenEpisode { number: *number as u64, rows, first, videos: videos.collect() }
        };
        let episodes = chosen.iter().map(episode).collect();
        Ok(Self { data, files, episodes, videos })
    }
}

impl Source for LeRobot {
    fn facts(&self) -> &Facts {
        &self.table.facts
    }

    fn read(&self, sample: SampleId) -> Result<Record, BoxError> {
        read_values(self, sample)
    }

    /// Returns the first frame of a field that has several, to a loader alone.
    fn value<'a>(
        &'a self,
        sample: SampleId,
        field: usize,
        buffer: &'a mut Buffer,
    ) -> Result<Value<'a>, BoxError> {
        let table = &*self.table;
        let row = table.row(sample)?;
        let origin = table.origin(field)?;
        if let Some(FrameCount::Several(frames)) = self.frame_count(field)
            && !self.is_of_loader
        {
            return Err(fail!(
                Unsupported,
                "the field has {frames} frames for each sample, which only a loader of this dataset alone reads: leave out \
                 its delta_timestamps"
            )
            .into());
        }
        match origin {
            Origin::Camera { camera, .. } => {
                let mut frames = vec![];
                self.choose_frames((sample, field), buffer, &mut frames)?;
                let (file, frame) = (row.episode.videos[camera].0, frames[0]);
                let image = table.videos.read_image(file, frame, &mut buffer.bytes);
                let (mode, size) = image.at(&table.videos.paths()[file])?;
                if mode == ImageMode::Raw
                    && table.cameras[camera].size.is_some_and(|own| own != size)
                {
                    return Err("the frame has another size than its camera".into());
                }
                let Size { height, width } = size;
                Ok(Value::Image(EncodedImage { mode, width, height, bytes: &buffer.bytes }))
            }
            Origin::Column(column) => table.data.value(row.stored(row.offset), column, buffer),
            Origin::Images { column, deltas } => {
                let step = table.deltas[deltas].first().copied().unwrap_or(0);
                table.data.value(row.stored(row.step(step).0), column, buffer)
            }
            Origin::Columns { column, deltas, is_f32 } => {
                table.read_several((row, column, deltas), is_f32, &mut buffer.bytes)?;
                Ok(Value::NdArray(&buffer.bytes))
            }
            Origin::IsPad { deltas } => {
                buffer.bytes.clear();
                let steps = table.deltas[deltas].iter();
                buffer.bytes.extend(steps.map(|step| u8::from(row.step(*step).1)));
                Ok(Value::NdArray(&buffer.bytes))
            }
            Origin::Task => {
                let column = table.task_index.ok_or("the dataset has no tasks")?;
                buffer.forget();
                let value = table.data.value(row.stored(row.offset), column, buffer)?;
                let Value::Int(number) = value else { return Err("no number of a task".into()) };
                let task = table.tasks.get(&number);
                let task = task.ok_or_else(|| format!("no task {number} in meta/tasks.parquet"))?;
                Ok(Value::Bytes(task))
            }
        }
    }

    fn locate(&self, sample: SampleId, field: usize) -> Option<SampleLocation> {
        self.table.locate(sample, field)
    }

    /// The group of a sample's row in the Parquet files.
    fn locality_group(&self, sample: SampleId) -> Option<u64> {
        let row = self.table.row(sample).ok()?;
        self.table.data.locality_group(row.stored(row.offset))
    }

    fn stored(&self) -> Option<&dyn StoredValues> {
        Some(self)
    }
}

impl StoredValues for LeRobot {
    fn frame_fields(&self) -> Option<FrameSource> {
        let has_frames =
            (0..self.table.fields.len()).any(|field| self.frame_count(field).is_some());
        has_frames.then(|| FrameSource(Arc::new(Self { is_of_loader: true, ..self.clone() })))
    }
}

impl FrameFields for LeRobot {
    fn frame_count(&self, field: usize) -> Option<FrameCount> {
        let deltas = match self.table.fields.get(field)? {
            Origin::Camera { deltas: None, .. } => return Some(FrameCount::One),
            Origin::Camera { deltas: Some(deltas), .. } | Origin::Images { deltas, .. } => *deltas,
            _ => return None,
        };
        Some(FrameCount::Several(self.table.deltas[deltas].len()))
    }

    fn choose_frames(
        &self,
        (sample, field): (SampleId, usize),
        buffer: &mut Buffer,
        frames: &mut Vec<u32>,
    ) -> Result<(), BoxError> {
        let table = &*self.table;
        let row = table.row(sample)?;
        table.check_episode(row, buffer)?;
        frames.clear();
        match table.origin(field)? {
            Origin::Camera { camera, deltas } => {
                let times = table.videos.times(row.episode.videos[camera].0)?;
                for step in table.steps(deltas) {
                    let (offset, _) = row.step(*step);
                    frames.push(table.frame_of(camera, (row, offset), &times, buffer)?);
                }
            }
            Origin::Images { deltas, .. } => {
                for step in table.steps(Some(deltas)) {
                    frames.push(u32::try_from(row.step(*step).0)?);
                }
            }
            _ => return Err("the field has no frames".into()),
        }
        Ok(())
    }

    fn read_frames_of(
        &self,
        (sample, field): (SampleId, usize),
        frames: &[u32],
        buffer: &mut Buffer,
        take: TakeFrame<'_>,
    ) -> Result<(), FrameError> {
        let table = &*self.table;
        let whole = |error: Error| FrameError { frame: None, error };
        let row = table.row(sample).map_err(whole)?;
        match table.origin(field).map_err(whole)? {
            Origin::Camera { camera, .. } => {
                let file = row.episode.videos[camera].0;
                table.videos.read_frames(file, frames, &mut |frame, image| {
                    table.check_size(camera, &image)?;
                    take(frame, image)
                })
            }
            Origin::Images { column, .. } => frames.iter().try_for_each(|&frame| {
                buffer.forget();
                let value = table.data.value(row.stored(frame.into()), column, buffer);
                let taken = value.map_err(Error::from).and_then(|value| {
                    take(frame, FrameImage { pixels: FramePixels::Stored(value), orientation: 1 })
                });
                taken.map_err(|error| FrameError { frame: Some(frame), error })
            }),
            _ => Err(whole(fail!(Field, "the field has no frames"))),
        }
    }
}
