//! Samples that can't be read: the run fails, or their rows are left out or replaced.

use std::sync::Arc;

use fuseloop::internals::run::{HostBatch, MAX_ATTEMPTS, OnFailure, RunRequest};
use fuseloop::sample::{SampleId, SampleRef};

use crate::support::{At, Numbers, WORKERS, assert_holds, engine, ids, only, pass, quiet_panics};

const SAMPLES: u64 = 50;
const SIZE: usize = 7;

/// The substitute for sample `s` at attempt `a`, which is no sample of the run.
fn stand_in(visit: SampleRef, attempt: u32) -> SampleRef {
    SampleRef::once(SampleId(1000 + visit.sample.0 * 10 + u64::from(attempt)))
}

/// A predicate for the rows whose samples are refused in a run.
type Bad = fn(u64) -> bool;

const BADS: [(&str, Bad); 8] = [
    ("none", |_| false),
    ("all", |_| true),
    ("the first row", |position| position == 0),
    ("the last row", |position| position == SAMPLES - 1),
    ("the ends of batches", |position| matches!(position % SIZE as u64, 0 | 6)),
    ("the first batch", |position| position < SIZE as u64),
    ("two batches and the last", |position| (14..28).contains(&position) || position >= 49),
    ("every third", |position| position % 3 == 1),
];

/// An expected batch: number, rows, skipped, replaced.
type Expected = (u64, Vec<SampleRef>, Vec<SampleRef>, Vec<SampleRef>);

/// The batches that the run should yield, row by row.
fn expected(bad: Bad, policy: Policy) -> Vec<Expected> {
    let ids = ids(SAMPLES);
    let mut batches = vec![];
    for (index, ids) in ids.chunks(SIZE).enumerate() {
        let mut batch = (index as u64, vec![], vec![], vec![]);
        for (row, &id) in ids.iter().enumerate() {
            let visit = SampleRef::once(id);
            match (bad((index * SIZE + row) as u64), policy) {
                (false, _) => batch.1.push(visit),
                (true, Policy::Skip) => batch.2.push(visit),
                (true, Policy::Substitute) => {
                    batch.1.push(stand_in(visit, 0));
                    batch.3.push(visit);
                }
                // Two substitutes fail, then the third one is used.
                (true, Policy::TryThrice) if id.0 % 2 == 0 => {
                    batch.1.push(stand_in(visit, 2));
                    batch.3.push(visit);
                }
                (true, Policy::TryThrice) => batch.2.push(visit),
            }
        }
        if !batch.1.is_empty() {
            batches.push(batch);
        }
    }
    batches
}

#[derive(Clone, Copy, Debug)]
enum Policy {
    Skip,
    Substitute,
    /// Two substitutes are refused too. For an even sample the third substitute is used; an odd sample
    /// is then left out.
    TryThrice,
}

fn position_of(sample: SampleId) -> u64 {
    ids(SAMPLES).iter().position(|&id| id == sample).unwrap() as u64
}

fn stage(chunk: usize, bad: Bad, policy: Policy) -> Numbers {
    let at = move |visit: SampleRef| {
        let is_bad = match (visit.sample.0.checked_sub(1000), policy) {
            (None, _) => bad(position_of(visit.sample)),
            (Some(stand_in), Policy::TryThrice) => stand_in % 10 != 2 || stand_in / 10 % 2 == 1,
            (Some(_), _) => false,
        };
        if is_bad { At::Error } else { At::Fine }
    };
    Numbers::new(chunk).at(at).damaged(move |visit, attempt| match policy {
        Policy::Skip => OnFailure::Skip,
        Policy::TryThrice if attempt > 2 => OnFailure::Skip,
        _ => OnFailure::Substitute(stand_in(visit, attempt)),
    })
}

fn assert_is(batch: &HostBatch, (index, rows, skipped, replaced): &Expected) {
    assert_eq!(batch.index(), *index);
    assert_holds(batch, rows);
    assert_eq!((batch.skipped(), batch.replaced()), (&skipped[..], &replaced[..]));
}

#[test]
fn rows_are_left_out_or_replaced_the_same_for_any_threads_and_chunks() {
    for workers in WORKERS {
        let engine = engine(workers);
        for (what, bad) in BADS {
            for policy in [Policy::Skip, Policy::Substitute, Policy::TryThrice] {
                let expected = expected(bad, policy);
                for chunk in [1, 3, 100] {
                    let stage = Arc::new(stage(chunk, bad, policy));
                    let mut run = engine.start(pass(&stage, SAMPLES, SIZE)).unwrap();
                    let batches = run.by_ref().map(Result::unwrap).collect::<Vec<_>>();
                    assert_eq!(batches.len(), expected.len(), "{what}, {policy:?}, {workers}");
                    batches.iter().zip(&expected).for_each(|(batch, expected)| {
                        assert_is(batch, expected);
                    });
                    let kept: usize = batches.iter().map(HostBatch::len).sum();
                    assert_eq!(run.skipped(), SAMPLES - kept as u64);
                    let replaced: usize = batches.iter().map(|batch| batch.replaced().len()).sum();
                    assert_eq!(run.replaced(), replaced as u64);
                    assert_eq!(run.remaining(), 0);
                }
            }
        }
    }
}

#[test]
fn a_run_begun_later_loses_the_same_rows() {
    let engine = engine(2);
    for (what, bad) in BADS {
        let whole = expected(bad, Policy::Skip);
        for first_batch in 0..9 {
            let stage = Arc::new(stage(2, bad, Policy::Skip));
            let run =
                engine.start(RunRequest { first_batch, ..pass(&stage, SAMPLES, SIZE) }).unwrap();
            let batches = run.map(Result::unwrap).collect::<Vec<_>>();
            let rest = whole.iter().filter(|batch| batch.0 >= first_batch).collect::<Vec<_>>();
            assert_eq!(batches.len(), rest.len(), "{what}");
            batches.iter().zip(rest).for_each(|(batch, expected)| assert_is(batch, expected));
        }
    }
}

/// The error of a run of `stage`, which must occur at batch `batch`.
fn error_of(stage: Numbers, workers: usize, batch: usize) -> String {
    let engine = engine(workers);
    let mut run = engine.start(pass(&Arc::new(stage), SAMPLES, SIZE)).unwrap();
    assert_eq!(run.by_ref().take(batch).map(Result::unwrap).count(), batch);
    let error = run.next().unwrap().unwrap_err().to_string();
    assert!(run.next().is_none());
    error
}

#[test]
fn the_first_row_that_fails_ends_the_run_whatever_was_left_out_before() {
    // Samples 14 and 35 are rows 2 and 5 of batch 0.
    let at = |visit: SampleRef| match visit.sample.0 {
        0 | 7 | 14 | 35 | 42 => At::Error,
        _ => At::Fine,
    };
    for workers in WORKERS {
        for chunk in [1, 4, 7] {
            let damaged = |visit: SampleRef, _| match visit.sample.0 {
                14 | 35 => OnFailure::Fail,
                _ => OnFailure::Skip,
            };
            let stage = Numbers::new(chunk).at(at).damaged(damaged);
            assert_eq!(error_of(stage, workers, 0), "batch 0: sample 14: it is bad");
        }
    }
}

#[test]
fn who_names_substitutes_for_ever_fails() {
    let stage = Numbers::new(2)
        .at(|visit| if visit.sample.0 == 49 { At::Error } else { At::Fine })
        .damaged(|visit, attempt| {
            assert!(attempt < MAX_ATTEMPTS);
            OnFailure::Substitute(visit)
        });
    assert_eq!(error_of(stage, 2, 1), "batch 1: sample 49: it is bad");
}

#[test]
fn the_error_of_a_substitute_names_the_substitute() {
    let stage = Numbers::new(2)
        .at(|visit| if matches!(visit.sample.0, 49 | 99) { At::Error } else { At::Fine })
        .damaged(|_, attempt| match attempt {
            0 => OnFailure::Substitute(SampleRef::once(SampleId(99))),
            _ => OnFailure::Fail,
        });
    assert_eq!(error_of(stage, 2, 1), "batch 1: sample 99: it is bad");
}

#[test]
fn a_panic_fails_even_where_errors_are_skipped() {
    quiet_panics();
    for workers in WORKERS {
        for chunk in [1, 3, 7] {
            let at = |visit: SampleRef| match visit.sample.0 {
                7 | 28 => At::Error,
                21 => At::Panic,
                _ => At::Fine,
            };
            let stage = Numbers::new(chunk).at(at).damaged(|_, _| OnFailure::Skip);
            assert_eq!(error_of(stage, workers, 0), "batch 0: sample 21: panic: no 21");
        }
    }
    let stage = Numbers::new(1).at(only(49, At::Error)).damaged(|_, _| panic!("no idea"));
    assert_eq!(error_of(stage, 2, 1), "batch 1: sample 49: panic: no idea");
}

/// A sample that occurs several times in a batch, with one of its two repeat numbers refused.
#[test]
fn of_two_visits_of_a_sample_the_refused_one_is_meant() {
    for refused in [0, 1] {
        for chunk in [1, 4] {
            let engine = engine(2);
            let at =
                move |visit: SampleRef| if visit.repeat == refused { At::Error } else { At::Fine };
            let stage = Numbers::new(chunk).at(at).damaged(|_, _| OnFailure::Skip);
            let pass = RunRequest { schedule: Box::new(Twice), ..pass(&Arc::new(stage), 0, 4) };
            let batch = engine.start(pass).unwrap().next().unwrap().unwrap();
            let kept = SampleRef { repeat: 1 - refused, ..SampleRef::once(SampleId(5)) };
            assert_holds(&batch, &[kept, kept]);
        }
    }
}

/// Sample 5 four times, with the repeat numbers 0, 1, 0, 1.
struct Twice;

impl fuseloop::internals::run::RunOrder for Twice {
    fn samples(&self) -> u64 {
        4
    }

    fn visits(&self, positions: std::ops::Range<u64>, visits: &mut Vec<SampleRef>) {
        let sample = SampleId(5);
        visits.extend(positions.map(|position| SampleRef {
            repeat: (position % 2) as u32,
            ..SampleRef::once(sample)
        }));
    }
}
