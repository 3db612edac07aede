//! Writing datasets: samples from Python, conversions.
//!
//! ```text
//! caller's thread: push(rows) ─▶ RowQueue ─▶ writer's thread: try_write_iter ─▶ encoding threads
//! ```
//!
//! Python's code runs on the caller's thread alone, so an exception in it never passes through the library: the
//! caller then calls `abort`. The writer's thread never calls Python.

use crate::errors;
use crate::rows;
use crate::settings::{self, get, word};
use crate::task::{STEP, Task};
use fuseloop::internals::source::{index_until, join_until, save_video_indexes, saved_listing};
use fuseloop::internals::write::{convert_any, name_classes};
use fuseloop::recut::Tile;
use fuseloop::source::{
    self, BoxError, ClassNames, FieldSpec, Folder, FolderOptions, Selected, Source,
};
use fuseloop::write::{
    self, CancelFlag, FieldValue, Ignored, ImageOptions, LinkCounts, Links, OnUnreadable,
    ProgressFn, Reencoded, SkippedSample, VideoOptions, WriteMode, WriteOptions, WriteReport,
};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use std::collections::VecDeque;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The chunks of rows that wait for the writer's thread.
const CHUNKS_AHEAD: usize = 2;

type Row = Result<Vec<FieldValue>, BoxError>;

/// A queue of chunks of rows, from the caller's thread to the writer's.
#[derive(Default)]
struct RowQueue {
    state: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    chunks: VecDeque<Vec<Row>>,
    /// True if there will be no more chunks.
    is_closed: bool,
    /// True if the writer has ended.
    is_over: bool,
}

enum Pushed {
    Taken,
    Full,
    Over,
}

impl RowQueue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a chunk out of `chunk` if there is space for it before `patience` is over.
    fn push(&self, chunk: &mut Vec<Row>, patience: Duration) -> Pushed {
        let has_no_space =
            |state: &mut QueueState| !state.is_over && state.chunks.len() >= CHUNKS_AHEAD;
        let waited = self.changed.wait_timeout_while(self.lock(), patience, has_no_space);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if state.is_over {
            return Pushed::Over;
        }
        if state.chunks.len() >= CHUNKS_AHEAD {
            return Pushed::Full;
        }
        state.chunks.push_back(std::mem::take(chunk));
        self.changed.notify_all();
        Pushed::Taken
    }

    /// Waits for the next chunk; `None` is the end.
    fn pop(&self) -> Option<Vec<Row>> {
        let is_empty = |state: &mut QueueState| state.chunks.is_empty() && !state.is_closed;
        let waited = self.changed.wait_while(self.lock(), is_empty);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        let chunk = state.chunks.pop_front();
        self.changed.notify_all();
        chunk
    }

    fn close(&self, drop_chunks: bool) {
        let mut state = self.lock();
        state.is_closed = true;
        if drop_chunks {
            state.chunks.clear();
        }
        self.changed.notify_all();
    }

    fn end(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
    }
}

/// The rows of a queue, for the library.
struct Rows {
    queue: Arc<RowQueue>,
    chunk: std::vec::IntoIter<Row>,
    /// The number of rows that are announced and have not come.
    left: Option<usize>,
}

impl Iterator for Rows {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        let row = loop {
            match self.chunk.next() {
                Some(row) => break row,
                None => self.chunk = self.queue.pop()?.into_iter(),
            }
        };
        self.left = self.left.map(|left| left.saturating_sub(1));
        Some(row)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.left.map_or((0, None), |left| (left, Some(left)))
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        self.queue.end();
    }
}

/// Counts what is done, on the threads of a write, for the caller's thread to report.
#[derive(Default)]
struct Done {
    done: AtomicU64,
    total: AtomicU64,
}

impl Done {
    fn counter(self: &Arc<Self>) -> ProgressFn {
        let this = Arc::clone(self);
        ProgressFn::new(move |progress| {
            this.done.fetch_max(progress.done + progress.resumed, Ordering::Relaxed);
            this.total.store(progress.total.unwrap_or(0), Ordering::Relaxed);
        })
    }

    /// Tells Python's function how many samples are done, and of how many.
    fn tell(&self, progress: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let Some(progress) = progress else { return Ok(()) };
        let total = self.total.load(Ordering::Relaxed);
        let total = Some(total).filter(|&total| total > 0);
        progress.call1((self.done.load(Ordering::Relaxed), total)).map(drop)
    }
}

/// A call of the library: Ctrl-C cancels it, and it counts what is done.
struct Call {
    cancel: CancelFlag,
    done: Arc<Done>,
}

impl Call {
    fn new() -> Self {
        Self { cancel: CancelFlag::new(), done: Arc::default() }
    }

    /// Runs the call, and tells `progress` what is done.
    fn run<T: Send + 'static>(
        self,
        py: Python<'_>,
        progress: Option<&Bound<'_, PyAny>>,
        work: impl FnOnce() -> Result<T, fuseloop::Error> + Send + 'static,
    ) -> PyResult<T> {
        let result = Task::start(self.cancel, work)?.wait(py, || self.done.tell(progress))?;
        self.done.tell(progress)?;
        Ok(result)
    }
}

/// Writes a `.beton` file of the rows that are pushed.
#[pyclass(frozen, module = "fuseloop._fuseloop")]
pub(crate) struct Writer {
    fields: Vec<FieldSpec>,
    out: PathBuf,
    queue: Arc<RowQueue>,
    done: Arc<Done>,
    task: Mutex<Option<Task<WriteReport>>>,
}

impl Writer {
    fn take(&self) -> Option<Task<WriteReport>> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[pymethods]
impl Writer {
    #[new]
    fn new(
        out: PathBuf,
        fields: &Bound<'_, PyAny>,
        options: &Bound<'_, PyDict>,
        total: Option<usize>,
    ) -> PyResult<Self> {
        let fields = rows::fields(fields)?;
        let call = Call::new();
        let options = write_options(options, &call)?;
        let queue = Arc::<RowQueue>::default();
        let rows = Rows { queue: Arc::clone(&queue), chunk: vec![].into_iter(), left: total };
        let (specs, path) = (fields.clone(), out.clone());
        let task =
            Task::start(call.cancel, move || write::try_write_iter(rows, &specs, &path, &options))?;
        Ok(Self { fields, out, queue, done: call.done, task: Mutex::new(Some(task)) })
    }

    /// Adds rows: tuples of values, or the texts of errors for samples that can't be read. Returns false if the
    /// write has failed: `finish` raises its error.
    fn push(
        &self,
        py: Python<'_>,
        given: &Bound<'_, PyList>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        let mut chunk = Vec::with_capacity(given.len());
        for row in given {
            chunk.push(match row.cast::<PyString>() {
                Ok(error) => Err(error.extract::<String>()?.into()),
                Err(_) => Ok(rows::values(&self.fields, &row)?),
            });
        }
        loop {
            match py.detach(|| self.queue.push(&mut chunk, STEP)) {
                Pushed::Taken => {
                    self.done.tell(progress)?;
                    return Ok(true);
                }
                Pushed::Over => return Ok(false),
                Pushed::Full => {
                    py.check_signals()?;
                    self.done.tell(progress)?;
                }
            }
        }
    }

    /// Waits until all rows are written. `classes` are the names of the classes by their numbers.
    fn finish<'py>(
        &self,
        py: Python<'py>,
        progress: Option<&Bound<'py, PyAny>>,
        classes: Option<Vec<(i64, String)>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        self.queue.close(false);
        let task = self.take().ok_or_else(|| errors::setting(py, "the writer was closed"))?;
        let report = task.wait(py, || self.done.tell(progress)).inspect_err(|_| {
            self.queue.close(true);
        })?;
        if let Some(classes) = classes {
            let names: ClassNames = classes.into_iter().collect();
            let named = py.detach(|| name_classes(&self.out, &names));
            named.map_err(|error| errors::raised(py, &error))?;
        }
        self.done.tell(progress)?;
        written(py, &report, &Ignored::default(), &LinkCounts::default())
    }

    /// Ends the write. Nothing of it stays.
    fn abort(&self, py: Python<'_>) {
        self.queue.close(true);
        if let Some(task) = self.take() {
            task.abort(py);
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue.close(true);
    }
}

// Options

fn flag(options: &Bound<'_, PyDict>, name: &str) -> PyResult<bool> {
    Ok(get::<bool>(options, name)?.unwrap_or(false))
}

fn threads(options: &Bound<'_, PyDict>) -> PyResult<Option<NonZeroUsize>> {
    Ok(get::<usize>(options, "threads")?.and_then(NonZeroUsize::new))
}

fn on_damaged(options: &Bound<'_, PyDict>) -> PyResult<OnUnreadable> {
    let words = [("fail", OnUnreadable::Fail), ("skip", OnUnreadable::Skip)];
    match get::<String>(options, "on_damaged")? {
        Some(given) => word(options.py(), "on_damaged", &given, &words),
        None => Ok(OnUnreadable::Fail),
    }
}

pub(crate) fn links(py: Python<'_>, given: Option<&str>) -> PyResult<Links> {
    let words = [("follow", Links::Follow), ("within", Links::Within), ("refuse", Links::Refuse)];
    given.map_or(Ok(Links::Follow), |given| word(py, "links", given, &words))
}

fn image(given: &Bound<'_, PyAny>) -> PyResult<ImageOptions> {
    let (py, options) = (given.py(), given.cast::<PyDict>()?);
    let smart_threshold = get(options, "smart_threshold")?;
    let compress_probability = get(options, "compress_probability")?.unwrap_or(0.5);
    let modes = [
        ("lossless", WriteMode::Lossless),
        ("raw", WriteMode::Raw),
        ("mask", WriteMode::Mask),
        ("jpg", WriteMode::Jpg),
        ("smart", WriteMode::Smart { smart_threshold }),
        ("proportion", WriteMode::Proportion { compress_probability }),
    ];
    let mode = get::<String>(options, "write_mode")?;
    let cut = get::<String>(options, "tile")?;
    Ok(ImageOptions {
        write_mode: mode
            .map_or(Ok(WriteMode::Lossless), |mode| word(py, "write_mode", &mode, &modes))?,
        max_resolution: get(options, "max_resolution")?,
        jpeg_quality: get(options, "jpeg_quality")?,
        verify: flag(options, "verify")?,
        tile: cut
            .map(|text| text.parse::<Tile>().map_err(|error| errors::raised(py, &error)))
            .transpose()?,
        bit_planes: flag(options, "bit_planes")?,
        seed: get(options, "seed")?.unwrap_or(0),
    })
}

fn write_options(options: &Bound<'_, PyDict>, call: &Call) -> PyResult<WriteOptions> {
    let mut read = WriteOptions {
        threads: threads(options)?,
        on_damaged: on_damaged(options)?,
        progress: call.done.counter(),
        cancel: call.cancel.clone(),
        links: links(options.py(), get::<String>(options, "links")?.as_deref())?,
        overwrite: flag(options, "overwrite")?,
        ..WriteOptions::default()
    };
    if let Some(size) = get(options, "page_size")? {
        read.page_size = Some(size);
    }
    if let Some(one) = options.get_item("image")? {
        read.image = image(&one)?;
    }
    if let Some(images) = options.get_item("images")? {
        for (field, one) in images.cast::<PyDict>()? {
            read.images.insert(field.extract()?, image(&one)?);
        }
    }
    Ok(read)
}

// Reports

fn dict<'py>(py: Python<'py>) -> Bound<'py, PyDict> {
    PyDict::new(py)
}

fn written<'py>(
    py: Python<'py>,
    report: &WriteReport,
    ignored: &Ignored,
    links: &LinkCounts,
) -> PyResult<Bound<'py, PyDict>> {
    let found = dict(py);
    found.set_item("samples", report.samples)?;
    found.set_item("resumed", report.resumed)?;
    found.set_item("skipped", skipped(&report.skipped.first))?;
    found.set_item("skipped_count", report.skipped.count)?;
    found.set_item("passed_through", report.passed_through)?;
    found.set_item("reencoded", reencoded(&report.reencoded))?;
    let change = report.reencoded_bytes;
    found.set_item("reencoded_bytes", (change.before, change.after))?;
    found.set_item("recut", report.recut)?;
    found.set_item("recut_bytes", (report.recut_bytes.before, report.recut_bytes.after))?;
    let unchanged = report.unchanged.first.iter();
    let unchanged = unchanged.map(|one| (one.sample.0, one.cause.to_string()));
    found.set_item("not_recut", unchanged.collect::<Vec<_>>())?;
    found.set_item("not_recut_count", report.unchanged.count)?;
    found.set_item("renamed", &report.renamed)?;
    found.set_item("files", report.files)?;
    found.set_item("pages", report.pages)?;
    found.set_item("bytes", report.bytes)?;
    found.set_item("notes", &report.notes)?;
    add_folder(&found, ignored, links)?;
    Ok(found)
}

type Skipped = (u64, Option<String>, String);

fn skipped(list: &[SkippedSample]) -> Vec<Skipped> {
    let text = |path: &PathBuf| path.to_string_lossy().into_owned();
    let one = |one: &SkippedSample| (one.sample.0, one.path.as_ref().map(text), one.cause.clone());
    list.iter().map(one).collect()
}

fn reencoded(list: &[Reencoded]) -> Vec<(&'static str, &'static str, bool, u64, u64)> {
    let row = |one: &Reencoded| {
        (one.from.name(), one.to.name(), one.is_lossy, one.images, one.lost_orientations)
    };
    list.iter().map(row).collect()
}

fn add_folder(found: &Bound<'_, PyDict>, ignored: &Ignored, links: &LinkCounts) -> PyResult<()> {
    let text =
        |(path, reason): &(PathBuf, &'static str)| (path.to_string_lossy().into_owned(), *reason);
    found.set_item("ignored", ignored.first.iter().map(text).collect::<Vec<_>>())?;
    found.set_item("ignored_count", ignored.count)?;
    let counts = dict(found.py());
    counts.set_item("followed", links.followed)?;
    counts.set_item("loops", links.loops)?;
    counts.set_item("lost", links.lost)?;
    counts.set_item("outside", links.outside)?;
    counts.set_item("refused", links.refused)?;
    found.set_item("links", counts)
}

// Functions

/// Refuses a destination that is an address.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "an argument of Python")]
pub(crate) fn check_destination(py: Python<'_>, path: PathBuf) -> PyResult<()> {
    let checked = fuseloop::internals::source::check_destination(&path);
    checked.map_err(|error| errors::raised(py, &fuseloop::Error::from(error)))
}

/// Converts a dataset to the format that the name of `dst` tells.
#[pyfunction]
pub(crate) fn convert<'py>(
    py: Python<'py>,
    dataset: &crate::dataset::Dataset,
    dst: PathBuf,
    options: &Bound<'py, PyDict>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let call = Call::new();
    let read = WriteOptions {
        max_samples: get(options, "max_samples")?,
        max_bytes: get(options, "max_bytes")?,
        shards: get(options, "shards")?,
        rename: get(options, "rename")?.unwrap_or_default(),
        ranks: match options.get_item("ranks")?.filter(|ranks| !ranks.is_none()) {
            Some(ranks) => settings::ranks(&ranks)?,
            None => None,
        },
        ..write_options(options, &call)?
    };
    let indices = get::<Vec<u64>>(options, "indices")?;
    let videos = VideoOptions {
        source_fps: get(options, "source_fps")?,
        frame_stride: get::<u32>(options, "frame_stride")?.and_then(NonZeroU32::new),
        list: get(options, "video_list")?,
        ..VideoOptions::default()
    };
    let frames = get::<String>(options, "videos")?.map(|videos| videos == "frames");
    let (dataset, cancel) = (dataset.dataset.clone(), call.cancel.clone());
    let work = move || {
        let mut beside = (Ignored::default(), LinkCounts::default());
        let source: Arc<dyn Source> = match dataset {
            source::Dataset::Stream(stream) => {
                // Compressed shards are read once more, to count their samples.
                Arc::new(stream.counted_until(&cancel, |_| ())?)
            }
            source::Dataset::Beton(beton) => beton,
            source::Dataset::Folder(folder) => {
                beside = (folder.ignored().clone(), folder.links());
                folder
            }
            source::Dataset::Source(source) => source,
        };
        let source = match indices {
            Some(indices) => Arc::new(Selected::new(source, indices)?),
            None => source,
        };
        Ok((convert_any(source, &dst, (frames, &videos), &read)?, beside))
    };
    let (report, (ignored, links)) = call.run(py, progress, work)?;
    written(py, &report, &ignored, &links)
}

/// Copies a folder and re-cuts its JPEGs.
#[pyfunction]
pub(crate) fn recut<'py>(
    py: Python<'py>,
    src: PathBuf,
    out: PathBuf,
    options: &Bound<'py, PyDict>,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let call = Call::new();
    let options = write_options(options, &call)?;
    let work = move || write::recut_folder(src, out, &options);
    let report = call.run(py, progress, work)?;
    let found = dict(py);
    found.set_item("recut", report.recut)?;
    found.set_item("recut_bytes", (report.recut_bytes.before, report.recut_bytes.after))?;
    let unchanged = report.unchanged.first.iter();
    let unchanged =
        unchanged.map(|one| (one.path.to_string_lossy().into_owned(), one.cause.to_string()));
    found.set_item("not_recut", unchanged.collect::<Vec<_>>())?;
    found.set_item("not_recut_count", report.unchanged.count)?;
    found.set_item("copied", report.copied)?;
    found.set_item("bytes", (report.bytes.before, report.bytes.after))?;
    found.set_item("skipped", skipped(&report.skipped.first))?;
    found.set_item("skipped_count", report.skipped.count)?;
    add_folder(&found, &report.ignored, &report.links)?;
    Ok(found)
}

/// Writes indexes beside shards, one for all of them (`join`), or the listing of a folder.
#[pyfunction]
pub(crate) fn index<'py>(
    py: Python<'py>,
    name: PathBuf,
    link_word: &str,
    join: bool,
    progress: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let call = Call::new();
    let (links, found) = (links(py, Some(link_word))?, dict(py));
    if name.is_dir() {
        let path = saved_listing(&name);
        let listing = path.clone();
        let options = FolderOptions::default().links(links).cancel(call.cancel.clone());
        let (counts, cancel) = (Arc::clone(&call.done), call.cancel.clone());
        let work = move || {
            let folder = Folder::open(&name, &options)?;
            folder.save_listing(&listing)?;
            let mut bytes = 0;
            if folder.facts().is_video(0) {
                let tell = |done, of| {
                    counts.done.fetch_max(done, Ordering::Relaxed);
                    counts.total.store(of, Ordering::Relaxed);
                };
                let limits = fuseloop::Limits::DEFAULT;
                bytes = save_video_indexes((&folder, 0), &name, &limits, &cancel, &tell)?.bytes;
            }
            Ok((folder.facts().samples, bytes))
        };
        let (samples, bytes) = call.run(py, progress, work)?;
        found.set_item("samples", samples)?;
        found.set_item("shards", 0)?;
        found.set_item("bytes", size_of_file(&path) + bytes)?;
        return Ok(found);
    }
    let spec = name.to_string_lossy().into_owned();
    let (counts, cancel) = (Arc::clone(&call.done), call.cancel.clone());
    let work = move || {
        let tell = |done: usize, of: usize| {
            counts.done.fetch_max(done as u64, Ordering::Relaxed);
            counts.total.store(of as u64, Ordering::Relaxed);
        };
        match join {
            true => join_until(&spec, &cancel, &tell),
            false => index_until(&spec, &cancel, &tell),
        }
    };
    let report = call.run(py, progress, work)?;
    found.set_item("samples", report.samples)?;
    found.set_item("shards", report.shards)?;
    found.set_item("bytes", report.bytes)?;
    Ok(found)
}

fn size_of_file(path: &Path) -> u64 {
    path.metadata().map_or(0, |found| found.len())
}
