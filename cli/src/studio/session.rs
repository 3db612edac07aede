//! The state of the server: the dataset, the pipeline file, the loader of the last text, and decoded images.

use super::super::output::{self, Existing};
use super::super::problem::Problem;
use super::connections::Caller;
use super::controls;
use super::dataset::{self, Labels};
use super::epoch::EpochRun;
use super::export;
use super::fault::{Fault, TOO_LARGE};
use super::grid;
use super::http::{Refusal, Response};
use super::limits;
use super::pictures::Pictures;
use super::pipeline;
use super::plan;
use super::sample;
use fuseloop::internals::loader::{Inspector, LoaderBuilderExt as _, LoaderExt as _};
use fuseloop::internals::plan::PlanError;
use fuseloop::source::{ClassNames, Dataset, Source};
use fuseloop::{Loader, Spec};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Everything that calls share.
pub(super) struct Session {
    pub(super) path: PathBuf,
    pub(super) dataset: Dataset,
    pub(super) source: Arc<dyn Source>,
    pub(super) names: ClassNames,
    /// The pipeline file, which may be new; the only file that is written.
    file: Option<PathBuf>,
    /// The text that the page begins with.
    text: String,
    pub(super) pictures: Mutex<Pictures>,
    pub(super) labels: Mutex<Option<Arc<Labels>>>,
    /// The loaders of the last texts, the newest last.
    loaders: Mutex<Vec<Arc<Prepared>>>,
    pub(super) thumbs: Mutex<Option<Arc<Prepared>>>,
    pub(super) epoch: EpochRun,
}

/// The number of texts whose loaders are held, so that undoing a change is quick.
const MOST_LOADERS: usize = 3;

/// The most places that are tried for an op: what it can't follow stands at the end of a list.
const MOST_PLACES: usize = 16;
/// The maximum size of the batches of an epoch in bytes.
const MOST_BATCH_BYTES: u64 = 4 << 30;

/// The limit of a loader whose samples are shown one by one, so that no batch is made.
const ANY_BATCH: Option<u64> = Some(u64::MAX);

/// A checked and compiled pipeline.
pub(super) struct Prepared {
    key: (String, u64, bool),
    pub(super) spec: Spec,
    pub(super) loader: Loader,
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
        Self {
            path: path.to_owned(),
            dataset,
            // Names that can't be read are left out: `fuseloop info` says why.
            names: source.class_names().ok().flatten().unwrap_or_default(),
            source,
            file,
            text,
            pictures: Mutex::default(),
            labels: Mutex::default(),
            loaders: Mutex::default(),
            thumbs: Mutex::default(),
            epoch: EpochRun::default(),
        }
    }

    /// Answers a call. An error of the pipeline or of a sample is an answer with a `fault`.
    pub(super) fn call(
        &self,
        name: &str,
        body: &Value,
        caller: &Caller<'_>,
    ) -> Result<Response, Refusal> {
        if !body.is_object() {
            return Err(Refusal::new(400, "a call is a JSON object"));
        }
        let answer = match name {
            "open" => self.open(),
            "grid" => return Ok(grid::respond(self, body, caller)),
            "sample" => return Ok(sample::respond(self, body)),
            "thumbs" => return Ok(dataset::respond_thumbs(self, body, caller)),
            "plan" => plan::measure(self, body, caller),
            "dataset" => dataset::describe(self, caller),
            "place" => self.place(body, caller),
            "save" => self.save(body),
            "load" => self.load(),
            "export" => self.export(body),
            "epoch/start" => self.start_epoch(body),
            "epoch/stop" => Ok(self.epoch.stop()),
            "epoch" => Ok(self.epoch.status()),
            _ => return Err(Refusal::new(404, "no such call")),
        };
        Ok(Response::json(&answer.unwrap_or_else(|fault| json!({ "fault": fault.to_json() }))))
    }

    fn open(&self) -> Result<Value, Fault> {
        let text = self.load()?["text"].take();
        Ok(json!({
            "dataset": self.path.to_string_lossy(),
            "samples": self.source.len(),
            "file": self.file.as_ref().map(|file| file.to_string_lossy()),
            "text": text,
            "images": dataset::image_fields(&*self.source),
            // Only classes that can be chosen.
            "classes": match self.label_field() {
                Some(_) => dataset::classes(&self.names),
                None => json!([]),
            },
            "has_targets": self.source.object_fields().is_ok_and(|fields| fields.is_some()),
            "registry": controls::all(),
            "version": env!("CARGO_PKG_VERSION"),
        }))
    }

    /// Returns where an op that the page adds fits into a list: the last place at which a loader takes it, or the end.
    fn place(&self, body: &Value, caller: &Caller<'_>) -> Result<Value, Fault> {
        let Some(ops) = body["ops"].as_array() else { return Ok(json!({ "index": Value::Null })) };
        let field = body["field"].as_str().unwrap_or("image");
        let fits = |index: &usize| {
            let mut ops = ops.clone();
            ops.insert(*index, body["op"].clone());
            let text = pipeline::with_ops(text_of(body), field, &ops.into());
            text.is_ok_and(|text| self.prepared(&text, body).is_ok())
        };
        let places = (0..=ops.len()).rev().take(MOST_PLACES).take_while(|_| !caller.is_gone());
        Ok(json!({ "index": places.into_iter().find(fits).unwrap_or(ops.len()) }))
    }

    fn save(&self, body: &Value) -> Result<Value, Fault> {
        let text = text_of(body);
        let Some(file) = &self.file else {
            let cure =
                "start with `fuseloop studio DATASET --pipeline FILE.toml`, or copy the text";
            return Err(Fault::plain("no pipeline file was named at the start", cure));
        };
        // A file that is saved can be loaded, and a loader takes it.
        let spec = Spec::parse(text, file).map_err(|error| Fault::of(error, text))?;
        self.loader(&spec, 0, true, None).map_err(|error| Fault::of(error, text))?;
        output::write_bytes(file, Existing::Replace, &[text.as_bytes()])?;
        Ok(json!({ "saved": file.to_string_lossy() }))
    }

    fn load(&self) -> Result<Value, Fault> {
        let Some(file) = self.file.as_ref().filter(|file| file.exists()) else {
            return Ok(json!({ "text": self.text }));
        };
        Ok(json!({ "text": read(file)? }))
    }

    fn export(&self, body: &Value) -> Result<Value, Fault> {
        let text = text_of(body);
        let spec = self.checked(text)?;
        let dataset = self.path.to_string_lossy();
        Ok(match body["language"].as_str() {
            Some("python") => json!({ "code": export::python(text, &dataset, &spec) }),
            _ => json!({ "code": export::rust(text, &dataset) }),
        })
    }

    fn start_epoch(&self, body: &Value) -> Result<Value, Fault> {
        let text = text_of(body);
        let spec = self.checked(text)?;
        let builder = spec.apply(Loader::from_dataset(self.dataset.clone())).device("cpu");
        let most =
            spec.settings().memory_limit.map_or(MOST_BATCH_BYTES, |own| own.min(MOST_BATCH_BYTES));
        let builder = builder.memory_limit(most);
        let loader = builder.build().map_err(|error| Fault::of(error, text))?;
        Ok(self.epoch.start(loader, number(body, "epoch", 0, u32::MAX)))
    }

    fn checked(&self, text: &str) -> Result<Spec, Fault> {
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
        let images = images_of(&loader);
        let prepared = Arc::new(Prepared { key, spec, loader, images });
        let mut loaders = lock(&self.loaders);
        loaders.push(Arc::clone(&prepared));
        if loaders.len() > MOST_LOADERS {
            loaders.remove(0);
        }
        Ok(prepared)
    }

    /// Builds a loader, with a limit on the bytes of its batches in place of the text's own. Fields that the dataset
    /// knows of follow their image where the text declares none and their ops allow it.
    fn loader(
        &self,
        spec: &Spec,
        seed: u64,
        with_targets: bool,
        batch_bytes: Option<u64>,
    ) -> Result<Loader, fuseloop::Error> {
        // Moving a slider changes numbers, which are not part of the code.
        let compiled = lock(&self.loaders).last().map(|last| last.loader.kernels());
        let compiled = compiled.unwrap_or_default();
        let builder = || {
            let builder = spec.apply(Loader::from_dataset(self.dataset.clone()));
            let mut builder = builder.kernels(compiled.clone());
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
        if with_targets && spec.settings().targets.is_empty() {
            let with = builder().dataset_targets();
            if let Ok(loader) = with.and_then(|builder| builder.build()) {
                return Ok(loader);
            }
        }
        builder().build()
    }

    /// Returns the loader of small pictures of the stored images.
    pub(super) fn thumb_loader(&self) -> Result<Arc<Prepared>, Fault> {
        let mut held = lock(&self.thumbs);
        if let Some(held) = &*held {
            return Ok(Arc::clone(held));
        }
        let mut failed =
            Fault::plain("the dataset has no image field", "`fuseloop info` shows its fields");
        for field in dataset::image_fields(&*self.source) {
            match self.thumbs_of(&field) {
                Ok(prepared) => {
                    *held = Some(Arc::clone(&prepared));
                    return Ok(prepared);
                }
                Err(fault) => failed = fault,
            }
        }
        Err(failed)
    }

    fn thumbs_of(&self, field: &str) -> Result<Arc<Prepared>, Fault> {
        let (field, side) = (Value::from(field), dataset::THUMB);
        let text =
            format!("[fields]\n{field} = [{{ op = \"Letterbox\", size = {side}, fill = 0 }}]\n");
        let spec = self.checked(&text)?;
        // Without targets, objects are not read; but a mask can't stay behind.
        let loader = self.loader(&spec, 0, false, ANY_BATCH);
        let loader = loader.or_else(|_| self.loader(&spec, 0, true, ANY_BATCH));
        let loader = loader.map_err(|error| Fault::of(error, &text))?;
        let images = images_of(&loader);
        Ok(Arc::new(Prepared { key: (text, 0, false), spec, loader, images }))
    }

    /// Returns the text of a call: as the user typed it, or with the ops that the cards have.
    pub(super) fn text(&self, body: &Value) -> Result<String, Fault> {
        let text = text_of(body);
        match body["ops"].is_array() {
            true => {
                let field = body["field"].as_str().unwrap_or("image");
                pipeline::with_ops(text, field, &body["ops"])
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
            Err(PlanError::Pixels { op_index, error }) => {
                Err(Fault::too_large(&error, (output, Some(op_index)), &self.key.0))
            }
            Err(error) => Err(Fault::plain(&error.to_string(), TOO_LARGE)),
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

fn images_of(loader: &Loader) -> Vec<String> {
    let tensors = loader.tensors();
    let names = tensors.into_iter().map(|tensor| tensor.name);
    names.filter(|name| loader.image_output(Some(name)).is_ok()).collect()
}

pub(super) fn text_of(body: &Value) -> &str {
    body["text"].as_str().unwrap_or_default()
}

/// Returns a number of a call, or its default, at most `most`.
pub(super) fn number(body: &Value, name: &str, default: u32, most: u32) -> u32 {
    let given = body[name].as_u64().map(|number| u32::try_from(number).unwrap_or(u32::MAX));
    given.unwrap_or(default).min(most)
}

/// Locks, also after a panic of another call: what is held is replaced as a whole.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
