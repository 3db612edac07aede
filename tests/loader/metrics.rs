//! Each metric, as a recorder of the `metrics` crate gets it over an epoch.

use fuseloop::source::{Column, InMemory, OwnedImage};
use fuseloop::{Loader, LoaderBuilder, OnDamaged};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit, with_local_recorder,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The value of a metric, and the numbers that a histogram was given.
#[derive(Default)]
struct Cell {
    value: Mutex<f64>,
    recorded: Mutex<Vec<f64>>,
}

impl CounterFn for Cell {
    fn increment(&self, value: u64) {
        *self.value.lock().unwrap() += value as f64;
    }

    fn absolute(&self, _: u64) {
        panic!("loaders with the same labels are added");
    }
}

impl GaugeFn for Cell {
    fn increment(&self, value: f64) {
        assert!(value >= 0.0, "{value}");
        *self.value.lock().unwrap() += value;
    }

    fn decrement(&self, _: f64) {
        panic!("no metric is decremented");
    }

    fn set(&self, value: f64) {
        *self.value.lock().unwrap() = value;
    }
}

impl HistogramFn for Cell {
    fn record(&self, value: f64) {
        self.recorded.lock().unwrap().push(value);
    }
}

/// Keeps every metric by its name and its labels.
#[derive(Default)]
struct Kept {
    cells: Mutex<BTreeMap<String, Arc<Cell>>>,
    described: Mutex<BTreeMap<String, (Option<Unit>, String)>>,
}

impl Kept {
    fn cell(&self, key: &Key) -> Arc<Cell> {
        let labels: Vec<String> =
            key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let name = format!("{} {}", key.name(), labels.join(","));
        Arc::clone(self.cells.lock().unwrap().entry(name).or_default())
    }

    fn describe(&self, name: &KeyName, unit: Option<Unit>, help: &SharedString) {
        let of_name = (unit, help.to_string());
        self.described.lock().unwrap().insert(name.as_str().to_owned(), of_name);
    }

    fn get(&self, name: &str) -> Arc<Cell> {
        let cells = self.cells.lock().unwrap();
        let known = cells.keys().cloned().collect::<Vec<_>>();
        Arc::clone(cells.get(name).unwrap_or_else(|| panic!("no {name} in {known:#?}")))
    }

    fn value(&self, name: &str) -> f64 {
        *self.get(name).value.lock().unwrap()
    }
}

impl Recorder for Kept {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.describe(&name, unit, &help);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.describe(&name, unit, &help);
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.describe(&name, unit, &help);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.cell(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.cell(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.cell(key))
    }
}

/// 32 images; `damaged` of them are JPEGs that can't be decoded.
fn images(damaged: usize) -> LoaderBuilder {
    let mut images = vec![OwnedImage::rgb(8, vec![7; 8 * 8 * 3]); 32];
    images[5..5 + damaged].fill(OwnedImage::jpeg(b"\xff\xd8 no JPEG".to_vec()));
    let source = InMemory::new([("image", Column::images(images))]).unwrap();
    let ops = fuseloop::ops::ops![fuseloop::ops::CenterCrop::new(8).unwrap()];
    Loader::from_source(source).batch_size(4).workers(2).pipeline("image", ops)
}

#[test]
fn an_epoch_is_recorded() {
    let recorder = Kept::default();
    let builder = images(2).on_damaged(OnDamaged::Substitute);
    let loader = with_local_recorder(&recorder, || builder.build().unwrap());
    // Not within the recorder: handles belong to the loader.
    loader.epoch(0).unwrap().for_each(|batch| drop(batch.unwrap()));
    let stats = loader.stats();
    let labels = |more: &str| format!("loader={},rank=0{more}", loader.source().name());
    let value = |name: &str| recorder.value(&format!("{name} {}", labels("")));
    assert_eq!(value("fuseloop_samples_total"), 32.0);
    assert_eq!(value("fuseloop_batches_total"), 8.0);
    assert_eq!(value("fuseloop_damaged_samples_total"), 2.0);
    assert_eq!(value("fuseloop_stalls_total"), 0.0);
    assert_eq!(value("fuseloop_workers"), 2.0);
    assert_eq!(value("fuseloop_batches_ready"), 0.0);
    assert!(value("fuseloop_batch_memory_bytes") >= f64::from(4 * 8 * 8 * 3));
    let waited = value("fuseloop_consumer_wait_seconds_total");
    assert!((waited - stats.consumer_waited.as_secs_f64()).abs() < 1e-6, "{waited}");
    let waits = recorder.get(&format!("fuseloop_batch_wait_seconds {}", labels("")));
    let waits = waits.recorded.lock().unwrap().clone();
    assert_eq!(waits.len(), 8);
    assert!(waits.iter().sum::<f64>() <= waited + 1e-6, "{waits:?} {waited}");
    let mut phases = 0.0;
    for phase in fuseloop::loader::Phase::ALL {
        if phase != fuseloop::loader::Phase::Consumer {
            let label = labels(&format!(",phase={phase}"));
            let seconds = recorder.value(&format!("fuseloop_phase_seconds_total {label}"));
            assert!(seconds <= stats.time(phase).as_secs_f64() + 1e-6, "{phase}: {seconds}");
            phases += seconds;
        }
    }
    assert!(phases > 0.0 && phases <= 2.0 * stats.wall.as_secs_f64() + 1e-6);
    let described = recorder.described.lock().unwrap();
    assert_eq!(described.len(), 10);
    for name in recorder.cells.lock().unwrap().keys() {
        let (unit, help) = &described[name.split_once(' ').unwrap().0];
        assert!(unit.is_some() && !help.is_empty(), "{name}");
    }
}

#[test]
fn loaders_of_the_same_dataset_are_added_up() {
    let recorder = Kept::default();
    let build = || images(0).build().unwrap();
    let loaders = with_local_recorder(&recorder, || [build(), build()]);
    for loader in &loaders {
        loader.epoch(0).unwrap().for_each(|batch| drop(batch.unwrap()));
    }
    let name = format!("fuseloop_samples_total loader={},rank=0", loaders[0].source().name());
    assert_eq!(recorder.value(&name), 64.0);
}

#[test]
fn without_a_recorder_a_loader_works() {
    let loader = images(0).build().unwrap();
    assert_eq!(loader.epoch(0).unwrap().map(Result::unwrap).count(), 8);
}
