//! The calls of the page: each is answered here, or by the module of its view.

use super::super::output::{self, Existing};
use super::connections::Caller;
use super::fault::Fault;
use super::http::{Refusal, Response};
use super::request::{number, text_of};
use super::session::{Session, read};
use super::{controls, dataset, export, grid, pipeline, plan, sample};
use fuseloop::{Loader, Spec};
use serde_json::{Value, json};

/// The most places that are tried for an op: what it can't follow stands at the end of a list.
const MOST_PLACES: usize = 16;
/// The maximum size of the batches of an epoch in bytes.
const MOST_BATCH_BYTES: u64 = 4 << 30;

impl Session {
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
            "sample" => return Ok(sample::respond(self, body, caller)),
            "thumbs" => return Ok(dataset::respond_thumbs(self, body, caller)),
            "plan" => plan::measure(self, body, caller),
            "dataset" => dataset::describe(self, body, caller),
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
            "samples": self.samples.len(),
            "file": self.file.as_ref().map(|file| file.to_string_lossy()),
            "text": text,
            "images": dataset::image_fields(&*self.samples.source),
            // Only classes that can be chosen.
            "classes": match self.samples.label_field() {
                Some(_) => dataset::classes(&self.samples.names),
                None => json!([]),
            },
            "has_targets": self.samples.source.object_fields().is_ok_and(|fields| fields.is_some()),
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
            _ => json!({ "code": export::rust(text, &dataset, &spec) }),
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
        let several = |name: String| loader.images_of_sample(&name).is_some();
        let unit = match loader.image_output(None).is_ok_and(several) {
            true => "samples",
            false => "images",
        };
        Ok(self.epoch.start((loader, unit), number(body, "epoch", 0, u32::MAX)))
    }
}
