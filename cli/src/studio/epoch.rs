//! A running epoch, on request: how many images a second, and what the workers did.

use super::request::lock;
use fuseloop::Loader;
use fuseloop::internals::run::Phase;
use fuseloop::internals::threads::builder;
use serde_json::{Map, Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The longest run: the page asks for an impression, `fuseloop bench` for all epochs.
const MOST_TIME: Duration = Duration::from_secs(60);
/// The longest run that no page asks about: the page asks several times a second.
const MOST_SILENCE: Duration = Duration::from_secs(10);

/// The last epoch that was begun.
#[derive(Default)]
pub(super) struct EpochRun(Mutex<Option<Arc<Progress>>>);

struct Progress {
    stop: AtomicBool,
    state: Mutex<State>,
}

struct State {
    /// When the page last asked for the progress.
    asked: Instant,
    is_running: bool,
    epoch: u32,
    images: u64,
    of: u64,
    /// The word for what is counted: images, or samples that have several.
    unit: &'static str,
    seconds: f64,
    phases: Map<String, Value>,
    error: Option<String>,
}

impl EpochRun {
    /// Begins an epoch and ends the one before.
    pub(super) fn start(&self, (loader, unit): (Loader, &'static str), epoch: u32) -> Value {
        self.stop();
        let of = loader.samples();
        let state = State::running(epoch, (of, unit));
        let progress = Arc::new(Progress { stop: false.into(), state: state.into() });
        *lock(&self.0) = Some(Arc::clone(&progress));
        let worker = Arc::clone(&progress);
        let work = move || worker.run(&loader, epoch);
        let thread = builder("fuseloop-epoch".to_owned()).and_then(|thread| thread.spawn(work));
        if let Err(error) = thread {
            let mut state = lock(&progress.state);
            (state.is_running, state.error) = (false, Some(error.to_string()));
        }
        self.status()
    }

    pub(super) fn stop(&self) -> Value {
        if let Some(progress) = &*lock(&self.0) {
            progress.stop.store(true, Ordering::Relaxed);
        }
        self.status()
    }

    #[expect(clippy::cast_precision_loss, reason = "a rate, shown rounded")]
    pub(super) fn status(&self) -> Value {
        let progress = lock(&self.0).clone();
        let Some(progress) = progress else { return json!({ "running": false }) };
        let mut state = lock(&progress.state);
        state.asked = Instant::now();
        json!({
            "running": state.is_running,
            "epoch": state.epoch,
            "images": state.images,
            "of": state.of,
            "unit": state.unit,
            "seconds": state.seconds,
            "images_per_second": state.images as f64 / state.seconds.max(1e-9),
            "phases": state.phases,
            "error": state.error,
        })
    }
}

impl State {
    fn running(epoch: u32, (of, unit): (u64, &'static str)) -> Self {
        let (images, seconds, phases, error) = (0, 0.0, Map::new(), None);
        Self {
            asked: Instant::now(),
            is_running: true,
            epoch,
            images,
            of,
            unit,
            seconds,
            phases,
            error,
        }
    }
}

impl Progress {
    fn run(&self, loader: &Loader, epoch: u32) {
        let start = Instant::now();
        let outcome = loader.epoch(epoch).and_then(|batches| {
            for batch in batches {
                let count = batch?.len() as u64;
                let mut state = lock(&self.state);
                state.images += count;
                state.seconds = start.elapsed().as_secs_f64();
                state.phases = phases(loader);
                let is_alone = state.asked.elapsed() > MOST_SILENCE;
                if self.stop.load(Ordering::Relaxed) || is_alone || start.elapsed() > MOST_TIME {
                    break;
                }
            }
            Ok(())
        });
        let mut state = lock(&self.state);
        state.is_running = false;
        state.seconds = start.elapsed().as_secs_f64();
        state.phases = phases(loader);
        state.error = outcome.err().map(|error| error.to_string());
    }
}

/// Returns the seconds of all workers in each phase.
fn phases(loader: &Loader) -> Map<String, Value> {
    let used = loader.utilization();
    let seconds = |phase: Phase| (phase.name().to_owned(), json!(used.time(phase).as_secs_f64()));
    Phase::ALL.into_iter().map(seconds).collect()
}
