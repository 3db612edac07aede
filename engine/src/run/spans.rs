//! Spans for subscribers of the `tracing` crate, behind the cargo feature of that name. Without the
//! feature they compile to nothing.
//!
//! | span                               | level | fields                 | lasts                            |
//! |------------------------------------|-------|------------------------|----------------------------------|
//! | `epoch`                            | info  | `epoch`, `samples`     | while a run is in the ring       |
//! | `batch`                            | debug | `batch`, `fingerprint` | from its opening to its end      |
//! | `read` `decode` `kernel` `finish`  | trace | `batch`, `sample`      | one phase of a worker            |
//!
//! The fingerprint is recorded at the end of a batch, as 16 hexadecimal digits.
//!
//! The parent of a batch is its epoch, whatever thread opens the batch; the parent of a phase is the
//! batch that its thread works on. Other phases have no span: a worker enters a waiting phase while the
//! ring is locked, and a subscriber is user code.

#[cfg(not(feature = "tracing"))]
pub(super) use off::{BatchSpan, EpochSpan, are_on, phase};
#[cfg(feature = "tracing")]
pub(super) use on::{BatchSpan, EpochSpan, are_on, phase};

#[cfg(feature = "tracing")]
mod on {
    use super::super::Phase;
    use crate::sample::{Epoch, SampleId};
    use std::cell::RefCell;
    use tracing::field::{Empty, display};
    use tracing::level_filters::LevelFilter;
    use tracing::span::{Entered, EnteredSpan, Span};
    use tracing::{debug_span, info_span, trace_span};

    /// The target of all spans, by which subscribers filter them.
    const TARGET: &str = "fuseloop";

    thread_local! {
        /// The span of this thread's phase.
        static PHASE: RefCell<Option<EnteredSpan>> = const { RefCell::new(None) };
    }

    /// The span of a run.
    pub(in crate::run) struct EpochSpan(Span);

    /// The span of a batch.
    pub(in crate::run) struct BatchSpan(Span);

    impl EpochSpan {
        /// Starts a span inside the caller's span.
        pub(in crate::run) fn new(epoch: Epoch, samples: u64) -> Self {
            Self(info_span!(target: TARGET, "epoch", epoch = epoch.0, samples))
        }

        pub(in crate::run) fn batch(&self, batch: u64) -> BatchSpan {
            BatchSpan(debug_span!(
                target: TARGET,
                parent: &self.0,
                "batch",
                batch,
                fingerprint = Empty
            ))
        }
    }

    impl BatchSpan {
        /// Enters the span: this thread works on the batch as long as the returned value lives.
        pub(in crate::run) fn enter(&self) -> Entered<'_> {
            self.0.enter()
        }

        /// Adds the fingerprint of the finished batch, if a subscriber wants the span.
        pub(in crate::run) fn record_fingerprint(&self, fingerprint: impl FnOnce() -> u64) {
            if !self.0.is_disabled() {
                self.0.record("fingerprint", display(format_args!("{:016x}", fingerprint())));
            }
        }
    }

    /// Returns true if a subscriber may want phases.
    pub(in crate::run) fn are_on() -> bool {
        LevelFilter::current() >= LevelFilter::TRACE
    }

    /// Starts the span of `phase` on this thread.
    pub(in crate::run) fn phase(phase: Phase, batch: u64, sample: Option<SampleId>) {
        if !are_on() {
            return;
        }
        PHASE.with_borrow_mut(|entered| {
            // The previous span ends before the next one starts.
            *entered = None;
            *entered = span(phase, batch, sample.map(|sample| sample.0)).map(Span::entered);
        });
    }

    fn span(phase: Phase, batch: u64, sample: Option<u64>) -> Option<Span> {
        // The names of spans must be constants.
        Some(match phase {
            Phase::Read => trace_span!(target: TARGET, "read", batch, sample),
            Phase::Decode => trace_span!(target: TARGET, "decode", batch, sample),
            Phase::Kernel => trace_span!(target: TARGET, "kernel", batch, sample),
            Phase::Finish => trace_span!(target: TARGET, "finish", batch),
            _ => return None,
        })
    }
}

#[cfg(not(feature = "tracing"))]
mod off {
    use super::super::Phase;
    use crate::sample::{Epoch, SampleId};

    pub(in crate::run) struct EpochSpan;
    pub(in crate::run) struct BatchSpan;
    pub(in crate::run) struct Entered;

    impl EpochSpan {
        pub(in crate::run) const fn new(_: Epoch, _: u64) -> Self {
            Self
        }

        pub(in crate::run) const fn batch(&self, _: u64) -> BatchSpan {
            BatchSpan
        }
    }

    impl BatchSpan {
        pub(in crate::run) const fn enter(&self) -> Entered {
            Entered
        }

        pub(in crate::run) fn record_fingerprint(&self, _: impl FnOnce() -> u64) {}
    }

    pub(in crate::run) const fn are_on() -> bool {
        false
    }

    pub(in crate::run) const fn phase(_: Phase, _: u64, _: Option<SampleId>) {}
}
