//! The state of the server: the dataset, the pipeline file, the loaders of the last texts, and decoded images.

use super::super::problem::Problem;
use super::epoch::EpochRun;
use super::fault::{Fault, TOO_LARGE};
use super::limits;
use super::pictures::Pictures;
use super::pipeline;
use super::request::{lock, text_of};
use super::samples::Samples;
use fuseloop::internals::loader::Inspector;
use fuseloop::internals::source::has_labels_apart;
use fuseloop::source::{Dataset, Source};
use fuseloop::{Loader, Spec};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Everything that calls share.
pub(super) struct Session {
    pub(super) path: PathBuf,
    pub(super) dataset: Dataset,
    /// The samples of the dataset.
    pub(super) samples: Arc<Samples>,
    /// The pipeline file, which may be new; the only file that is written.
    pub(super) file: Option<PathBuf>,
    /// The text that the page begins with.
    pub(super) text: String,
    pub(super) pictures: Mutex<Pictures>,
    /// The loaders of the last texts, the newest last.
    loaders: Mutex<Vec<Arc<Prepared>>>,
    /// The loader of small pictures, and the `[clips]` that it has.
    pub(super) thumbs: Mutex<Option<(String, Arc<Prepared>)>>,
    pub(super) epoch: EpochRun,
}

/// The number of texts whose loaders are held, so that undoing a change is quick.
const MOST_LOADERS: usize = 3;

/// The limit of a loader whose samples are shown one by one, so that no batch is made.
pub(super) const ANY_BATCH: Option<u64> = Some(u64::MAX);

/// The text of a pipeline, its seed, and whether the targets that the dataset knows of follow their images.
type Key = (String, u64, bool);

/// A checked and compiled pipeline.
pub(super) struct Prepared {
    pub(super) key: Key,
    pub(super) spec: Spec,
    pub(super) loader: Loader,
    /// The samples of the loader.
    pub(super) samples: Arc<Samples>,
    /// The image outputs.
    pub(super) images: Vec<String>,
}

impl Session {
    pub(super) fn new(
        path: &Path,
        dataset: Dataset,
        source: Arc<dyn Source>,
        (file, text): (Option<PathBuf>, String),
    ) -> Self {
        let are_labels_apart =
            matches!(dataset, Dataset::Beton(_) | Dataset::Folder(_)) || has_labels_apart(path);
        Self {
            path: path.to_owned(),
            dataset,
            samples: Arc::new(Samples::new(source, are_labels_apart)),
            file,
            text,
            pictures: Mutex::default(),
            loaders: Mutex::default(),
            thumbs: Mutex::default(),
            epoch: EpochRun::default(),
        }
    }

    /// Parses the text of a pipeline.
    pub(super) fn checked(&self, text: &str) -> Result<Spec, Fault> {
        let name = self.file.as_deref().unwrap_or_else(|| Path::new("pipeline.toml"));
        Spec::parse(text, name).map_err(|error| Fault::of(error, text))
    }

    /// Returns the loader of a call's text and seed, compiled when the text changes.
    pub(super) fn prepared(&self, text: &str, body: &Value) -> Result<Arc<Prepared>, Fault> {
        let seed = body["seed"].as_u64();
        let with_targets = body["targets"].as_bool().unwrap_or(false);
        let spec = self.checked(text)?;
        let seed = seed.or(spec.settings().seed).unwrap_or(0);
        let key = (text.to_owned(), seed, with_targets);
        if let Some(found) = lock(&self.loaders).iter().find(|found| found.key == key) {
            return Ok(Arc::clone(found));
        }
        let loader = self.loader(&spec, seed, with_targets, ANY_BATCH);
        let loader = loader.map_err(|error| Fault::of(error, text))?;
        let prepared = Arc::new(self.with_samples(key, spec, loader));
        let mut loaders = lock(&self.loaders);
        loaders.push(Arc::clone(&prepared));
        if loaders.len() > MOST_LOADERS {
            loaders.remove(0);
        }
        Ok(prepared)
    }

    /// Finds the samples of a loader: those of the dataset, or of the last loader, if they are the same.
    pub(super) fn with_samples(&self, key: Key, spec: Spec, loader: Loader) -> Prepared {
        let source = loader.shared_source();
        let is_of_dataset = source.fingerprint() == self.samples.source.fingerprint();
        let last = lock(&self.loaders).last().filter(|_| !is_of_dataset).cloned();
        let known = last.as_ref().map_or(&self.samples, |last| &last.samples);
        let (samples, images) = (known.of(source), images_of(&loader));
        Prepared { key, spec, loader, samples, images }
    }

    /// Builds a loader, with a limit on the bytes of its batches in place of the text's own. Fields that the dataset
    /// knows of follow their image where the text declares none and their ops allow it.
    pub(super) fn loader(
        &self,
        spec: &Spec,
        seed: u64,
        with_targets: bool,
        batch_bytes: Option<u64>,
    ) -> Result<Loader, fuseloop::Error> {
        // Moving a slider changes numbers, which are not part of the code, and not the videos.
        let last = lock(&self.loaders).last().cloned();
        let builder = || {
            let mut builder = spec.apply(Loader::from_dataset(self.dataset.clone()));
            if let Some(last) = &last {
                builder = builder.sharing(&last.loader);
            }
            if let Some(bytes) = batch_bytes {
                builder = builder.memory_limit(bytes);
            }
            builder
                .device("cpu")
                .in_memory(false)
                .pin_memory(None)
                .workers(1)
                .ranks(None)
                .seed(seed)
        };
        if with_targets && spec.settings().targets.is_none() {
            let with = builder().dataset_targets();
            if let Ok(loader) = with.and_then(|builder| builder.build()) {
                return Ok(loader);
            }
        }
        builder().build()
    }

    /// Returns the text of a call: as the user typed it, or with the ops that the cards have.
    pub(super) fn text(&self, body: &Value) -> Result<String, Fault> {
        let text = text_of(body);
        match body["ops"].is_array() {
            true => {
                let field = body["field"].as_str().unwrap_or("image");
                Ok(pipeline::with_ops(text, field, &body["ops"])?)
            }
            false => Ok(text.to_owned()),
        }
    }
}

impl Prepared {
    /// Returns the image output that a call asks for, or the first one.
    pub(super) fn output(&self, body: &Value) -> Result<&str, Fault> {
        let asked = body["field"].as_str();
        let found = self.images.iter().find(|name| Some(name.as_str()) == asked);
        let found = found.or_else(|| self.images.first());
        found.map(String::as_str).ok_or_else(|| {
            Fault::plain(
                "no field of this dataset is read as images",
                "`[fields]` lists the ops of each field; ops turn an array of bytes into an image",
            )
        })
    }

    /// Returns the text of the pipeline.
    pub(super) fn text(&self) -> &str {
        &self.key.0
    }

    pub(super) fn inspector(&self, output: &str, epoch: u32) -> Result<Inspector, Fault> {
        let inspector = self.loader.inspect(output, epoch);
        let inspector = inspector.map_err(|error| Fault::of(error, &self.key.0))?;
        let mut inspector = inspector
            .ok_or_else(|| Fault::plain("no such image output", "choose another field"))?;
        match inspector.limit_pixels(limits::MOST_PIXELS) {
            Err(error) => Err(match error.cause() {
                Some(large) => Fault::too_large(large, (output, error.op()), &self.key.0),
                None => Fault::plain(&error.to_string(), TOO_LARGE),
            }),
            Ok(()) => Ok(inspector),
        }
    }

    /// Returns the settings of the text that decide, with the ops, how images are decoded.
    pub(super) fn decoding(&self, output: &str) -> String {
        let settings = self.spec.settings();
        format!(
            "{output} {:?} {:?} {:?} {:?} {:?}",
            settings.read_mode,
            settings.exif_orientation,
            settings.masks,
            settings.axes,
            settings.arrays
        )
    }
}

/// Returns the names of the outputs that are images.
fn images_of(loader: &Loader) -> Vec<String> {
    let tensors = loader.tensors();
    let names = tensors.into_iter().map(|tensor| tensor.name);
    names.filter(|name| loader.image_output(Some(name)).is_ok()).collect()
}

/// Reads the pipeline file, within the limit of pipeline files.
pub(super) fn read(file: &Path) -> Result<String, Problem> {
    use std::io::Read as _;
    let found = std::fs::metadata(file).map_err(Problem::io(file))?;
    if !found.is_file() {
        return Err(Problem::io(file)(std::io::Error::other("not a regular file")));
    }
    let mut text = String::new();
    let opened = std::fs::File::open(file).map_err(Problem::io(file))?;
    let most = fuseloop::internals::spec::MAX_BYTES as u64;
    opened.take(most + 1).read_to_string(&mut text).map_err(Problem::io(file))?;
    if text.len() as u64 > most {
        let error = std::io::Error::other(format!("more than {most} bytes"));
        return Err(Problem::io(file)(error));
    }
    Ok(text)
}
