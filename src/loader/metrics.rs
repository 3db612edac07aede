//! Metrics of a loader for recorders of the `metrics` crate, behind the cargo feature of that name. Without the feature
//! they compile to nothing.
//!
//! [`METRICS`] declares all of them: `fuseloop/metrics.py` has the same table, and `docs/grafana.json` shows them. Each
//! has the labels `loader`, the name of the dataset, and `rank`; the phases have `phase` as well.
//!
//! Counts of batches are recorded with each batch, on the consumer's thread. All else is the difference to what was
//! recorded before, at most ten times a second. A recorder must be installed before the loader is built: without one, each
//! handle is empty.
//!
//! The facade counts in whole numbers, so that the seconds that a counter grows by are added to a gauge. Prometheus has the
//! same value for both, and `rate` takes either.

#[cfg(not(feature = "metrics"))]
pub(super) use off::LoaderMetrics;
#[cfg(feature = "metrics")]
pub(super) use on::LoaderMetrics;

#[cfg(feature = "metrics")]
mod on {
    use crate::run::{Phase, Utilization};
    use metrics::{
        Counter, Gauge, Histogram, Key, KeyName, Label, Level, Metadata, Recorder, Unit,
    };
    use std::sync::{Mutex, PoisonError};
    use std::time::{Duration, Instant};

    /// The time between two records of what is not counted by batch.
    const INTERVAL: Duration = Duration::from_millis(100);

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Kind {
        Counter,
        Gauge,
        Histogram,
    }

    /// The declaration of a metric.
    #[derive(Clone, Copy, Debug)]
    pub(super) struct Metric {
        pub(super) name: &'static str,
        pub(super) kind: Kind,
        pub(super) unit: Unit,
        pub(super) help: &'static str,
    }

    const fn metric(name: &'static str, kind: Kind, unit: Unit, help: &'static str) -> Metric {
        Metric { name, kind, unit, help }
    }

    const SAMPLES: Metric =
        metric("fuseloop_samples_total", Kind::Counter, Unit::Count, "Samples delivered.");
    const BATCHES: Metric =
        metric("fuseloop_batches_total", Kind::Counter, Unit::Count, "Batches delivered.");
    const DAMAGED: Metric = metric(
        "fuseloop_damaged_samples_total",
        Kind::Counter,
        Unit::Count,
        "Rows left out or replaced because their samples are damaged.",
    );
    const STALLS: Metric = metric(
        "fuseloop_stalls_total",
        Kind::Counter,
        Unit::Count,
        "Batches that came so late that a warning names the cause.",
    );
    const WAITED: Metric = metric(
        "fuseloop_consumer_wait_seconds_total",
        Kind::Counter,
        Unit::Seconds,
        "Time that the program waited for batches.",
    );
    const PHASES: Metric = metric(
        "fuseloop_phase_seconds_total",
        Kind::Counter,
        Unit::Seconds,
        "Time of all workers in each phase, waiting included.",
    );
    const WAIT: Metric = metric(
        "fuseloop_batch_wait_seconds",
        Kind::Histogram,
        Unit::Seconds,
        "Time that the program waited for a batch.",
    );
    const READY: Metric = metric(
        "fuseloop_batches_ready",
        Kind::Gauge,
        Unit::Count,
        "Batches that are finished and not yet delivered.",
    );
    const WORKERS: Metric =
        metric("fuseloop_workers", Kind::Gauge, Unit::Count, "Threads that prepare batches.");
    const MEMORY: Metric = metric(
        "fuseloop_batch_memory_bytes",
        Kind::Gauge,
        Unit::Bytes,
        "Memory of all batches: in preparation, ready, held by the program, and free for reuse.",
    );

    /// All metrics.
    pub(super) const METRICS: [Metric; 10] =
        [SAMPLES, BATCHES, DAMAGED, STALLS, WAITED, PHASES, WAIT, READY, WORKERS, MEMORY];

    const METADATA: Metadata<'static> =
        Metadata::new("fuseloop", Level::INFO, Some("fuseloop::loader"));

    /// The handles of a loader's metrics, of the recorder that was installed when the loader was built.
    pub(crate) struct LoaderMetrics {
        samples: Counter,
        batches: Counter,
        damaged: Counter,
        stalls: Counter,
        waited: Gauge,
        phases: Vec<(Phase, Gauge)>,
        wait: Histogram,
        ready: Gauge,
        workers: Gauge,
        memory: Gauge,
        recorded: Mutex<Recorded>,
    }

    /// The totals at the last record.
    #[derive(Default)]
    struct Recorded {
        at: Option<Instant>,
        damaged: u64,
        stalls: u64,
        waited: Duration,
        phases: [Duration; Phase::ALL.len()],
    }

    impl LoaderMetrics {
        /// Registers the metrics of a loader of a dataset.
        pub(crate) fn new(dataset: &str, rank: u64) -> Self {
            let labels = vec![
                Label::new("loader", dataset.to_owned()),
                Label::new("rank", rank.to_string()),
            ];
            metrics::with_recorder(|recorder| {
                METRICS.iter().for_each(|metric| describe(recorder, metric));
                let key = |metric: Metric| Key::from_parts(metric.name, labels.clone());
                let counter = |metric| recorder.register_counter(&key(metric), &METADATA);
                let gauge = |metric| recorder.register_gauge(&key(metric), &METADATA);
                let phases = Phase::ALL.into_iter().filter(|phase| *phase != Phase::Consumer);
                let phases = phases.map(|phase| {
                    let label = Label::new("phase", phase.name());
                    let key = key(PHASES).with_extra_labels(vec![label]);
                    (phase, recorder.register_gauge(&key, &METADATA))
                });
                Self {
                    samples: counter(SAMPLES),
                    batches: counter(BATCHES),
                    damaged: counter(DAMAGED),
                    stalls: counter(STALLS),
                    waited: gauge(WAITED),
                    phases: phases.collect(),
                    wait: recorder.register_histogram(&key(WAIT), &METADATA),
                    ready: gauge(READY),
                    workers: gauge(WORKERS),
                    memory: gauge(MEMORY),
                    recorded: Mutex::default(),
                }
            })
        }

        /// Records a batch that was delivered.
        pub(crate) fn delivered(&self, rows: usize, waited: Duration) {
            self.samples.increment(rows as u64);
            self.batches.increment(1);
            self.wait.record(waited);
        }

        /// Records all else, if the last record is old enough or the epoch is over. `now` returns also the number of rows
        /// lost to damaged samples, and of batches that came late.
        pub(crate) fn record(&self, is_end: bool, now: impl FnOnce() -> (Utilization, u64, u64)) {
            let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
            if !is_end && recorded.at.is_some_and(|at| at.elapsed() < INTERVAL) {
                return;
            }
            let (now, damaged, stalls) = now();
            self.damaged.increment(damaged.saturating_sub(recorded.damaged));
            self.stalls.increment(stalls.saturating_sub(recorded.stalls));
            let grow = |gauge: &Gauge, from: Duration, to: Duration| {
                gauge.increment(to.saturating_sub(from).as_secs_f64());
            };
            grow(&self.waited, recorded.waited, now.consumer_waited);
            let phases = Phase::ALL.map(|phase| now.time(phase));
            for (phase, gauge) in &self.phases {
                let index = *phase as usize;
                grow(gauge, recorded.phases[index], phases[index]);
            }
            // Readings of times that still run may come out of order by nanoseconds.
            let phases = Phase::ALL.map(|phase| {
                let index = phase as usize;
                phases[index].max(recorded.phases[index])
            });
            self.ready.set(now.ready as f64);
            self.workers.set(now.workers.len() as f64);
            self.memory.set(now.slot_bytes as f64);
            *recorded = Recorded {
                at: Some(Instant::now()),
                damaged,
                stalls,
                waited: now.consumer_waited,
                phases,
            };
        }
    }

    fn describe(recorder: &dyn Recorder, metric: &Metric) {
        let name = KeyName::from_const_str(metric.name);
        let (unit, help) = (Some(metric.unit), metric.help.into());
        match metric.kind {
            Kind::Counter if metric.unit == Unit::Seconds => {
                recorder.describe_gauge(name, unit, help);
            }
            Kind::Counter => recorder.describe_counter(name, unit, help),
            Kind::Gauge => recorder.describe_gauge(name, unit, help),
            Kind::Histogram => recorder.describe_histogram(name, unit, help),
        }
    }
}

#[cfg(not(feature = "metrics"))]
mod off {
    use crate::run::Utilization;
    use std::time::Duration;

    pub(crate) struct LoaderMetrics;

    impl LoaderMetrics {
        pub(crate) const fn new(_: &str, _: u64) -> Self {
            Self
        }

        pub(crate) const fn delivered(&self, _: usize, _: Duration) {}

        pub(crate) fn record(&self, _: bool, _: impl FnOnce() -> (Utilization, u64, u64)) {}
    }
}

#[cfg(test)]
#[cfg(feature = "metrics")]
mod tests {
    use super::on::{Kind, METRICS, Metric};
    use metrics::Unit;
    use std::fs;
    use std::path::Path;

    fn file(name: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    #[test]
    fn names_follow_the_rules_of_prometheus() {
        for Metric { name, kind, unit, help } in METRICS {
            assert!(name.starts_with("fuseloop_"), "{name}");
            assert_eq!(name.ends_with("_total"), kind == Kind::Counter, "{name}");
            assert_eq!(name.contains("_seconds"), unit == Unit::Seconds, "{name}");
            assert_eq!(name.ends_with("_bytes"), unit == Unit::Bytes, "{name}");
            assert!(help.ends_with('.'), "{name}");
        }
    }

    #[test]
    fn the_table_of_the_python_package_is_the_same() {
        let lines = METRICS.map(|Metric { name, kind, unit, help }| {
            let kind = format!("{kind:?}").to_lowercase();
            let unit = match unit {
                Unit::Seconds => "s",
                Unit::Bytes => "By",
                _ => "1",
            };
            format!("    Metric(\"{name}\", \"{kind}\", \"{unit}\", \"{help}\"),\n")
        });
        let python = file("python/fuseloop/metrics.py");
        let (_, table) = python.split_once("METRICS = (\n").unwrap();
        let (table, _) = table.split_once(")\n").unwrap();
        assert_eq!(table, lines.concat());
    }

    #[test]
    fn the_page_lists_them_all() {
        let page = file("docs/watching.md");
        for Metric { name, help, .. } in METRICS {
            let row = page.lines().find(|line| line.starts_with(&format!("| `{name}`")));
            let row = row.unwrap_or_else(|| panic!("{name} is not in docs/watching.md"));
            assert!(row.contains(help.trim_end_matches('.')), "{row}");
        }
    }

    #[test]
    fn the_board_asks_for_metrics_that_there_are() {
        let board: serde_json::Value = serde_json::from_str(&file("docs/grafana.json")).unwrap();
        let panels = board["panels"].as_array().unwrap();
        let mut asked = std::collections::BTreeSet::new();
        for panel in panels {
            let targets = panel["targets"].as_array().unwrap();
            assert!(!targets.is_empty(), "{}: no query", panel["title"]);
            for target in targets {
                let query = target["expr"].as_str().unwrap();
                let is_part = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
                let words = query.split(is_part);
                let names = words.filter(|word| word.starts_with("fuseloop_"));
                let before = asked.len();
                asked.extend(names.map(str::to_owned));
                assert!(query.contains("fuseloop_") || asked.len() > before, "{query}");
            }
        }
        for name in &asked {
            // Prometheus makes three names of a histogram.
            let of_histogram = ["_sum", "_count", "_bucket"];
            let base = of_histogram.iter().find_map(|end| name.strip_suffix(end));
            let known = |name: &str, kinds: &[Kind]| {
                METRICS.iter().any(|one| one.name == name && kinds.contains(&one.kind))
            };
            let is_known = known(name, &[Kind::Counter, Kind::Gauge])
                || base.is_some_and(|base| known(base, &[Kind::Histogram]));
            assert!(is_known, "{name} is not declared");
        }
        for Metric { name, .. } in METRICS {
            let is_asked = asked.iter().any(|one| one.starts_with(name));
            assert!(is_asked, "{name} is on no panel");
        }
    }
}
