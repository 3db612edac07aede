//! Mix: each item comes from one of several streams, drawn by their weights.
//!
//! ```text
//! P(stream i) = weight i / sum of the weights of those that go on
//! ```
//!
//! This is `sample_from_datasets` of tf.data with random numbers of our own: a function of (seed, epoch,
//! turn) and of the chain of combinators.

use super::draws::StreamRng;
use super::error::check_equal;
use super::{ENDLESS, Item, Items, Pass, Stream, Streamed, facts_of, labelled, sum};
use crate::error::{Error, fail};
use crate::source::{BoxError, Facts};

/// The behaviour of a mix when one of its streams ends.
///
/// ```no_run
/// use fuseloop::source::stream::{MixEnd, Stream};
///
/// fn mixed(photos: Stream, drawings: Stream) -> fuseloop::Result<Stream> {
///     // Nine photographs for each drawing, until one of the two streams ends.
///     Stream::mix([(photos, 0.9), (drawings, 0.1)], MixEnd::First)
/// }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MixEnd {
    /// The mix ends when the next item would be drawn from the stream that has ended, so the shares
    /// follow the weights to the last item. In tf.data: `stop_on_empty_dataset=True`.
    #[default]
    First,
    /// The mix continues with the other streams until the last one ends, so every item is yielded. The
    /// default of tf.data.
    Last,
}

impl Stream {
    /// Combines streams: each item comes from a stream drawn by its weight. Weights need not sum to 1. A
    /// stream of weight 0 yields no items.
    ///
    /// # Errors
    ///
    /// If there is no stream, their fields differ, one number means different classes in two of them, a weight is
    /// negative or not finite, or all weights are 0.
    pub fn mix(streams: impl IntoIterator<Item = (Self, f64)>, end: MixEnd) -> Result<Self, Error> {
        let (parts, weights): (Vec<Self>, Vec<f64>) = streams.into_iter().unzip();
        check_equal("mix", &parts)?;
        let is_none = |weight: f64| !(weight.is_finite() && weight >= 0.0);
        if let Some(index) = weights.iter().position(|&weight| is_none(weight)) {
            return Err(fail!(
                Parameter,
                "mix: stream {index} has weight {weight}: weights must be finite, at least 0 and not all 0",
                weight = weights[index]
            ));
        }
        if weights.iter().all(|&weight| weight == 0.0) {
            return Err(fail!(
                Parameter,
                "mix: stream 0 has weight 0: weights must be finite, at least 0 and not all 0"
            ));
        }
        let bits = weights.iter().map(|weight| weight.to_bits());
        let parameters: Vec<u64> = bits.chain([u64::from(end == MixEnd::Last)]).collect();
        let names: Vec<&str> = parts.iter().map(|part| &*part.facts().name).collect();
        let facts = facts_of("mix", &parameters, &parts).named(names.join(" and "));
        Ok(Self::new(Mix { facts, parts, weights, end }))
    }
}

struct Mix {
    facts: Facts,
    parts: Vec<Stream>,
    weights: Vec<f64>,
    end: MixEnd,
}

impl Mix {
    fn drawn_lens(&self) -> impl Iterator<Item = Option<u64>> {
        let parts = self.parts.iter().zip(&self.weights);
        parts.filter(|(_, weight)| **weight > 0.0).map(|(part, _)| part.known_len())
    }
}

impl Streamed for Mix {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn open(&self, pass: &Pass) -> Result<Box<dyn Items>, BoxError> {
        let parts = self.parts.iter().enumerate();
        let items: Result<Vec<_>, _> =
            parts.map(|(index, part)| part.open(&pass.for_component(index))).collect();
        let draws = StreamRng::new(pass, self.facts.fingerprint);
        Ok(Box::new(Mixed { items: items?, weights: self.weights.clone(), end: self.end, draws }))
    }

    fn known_len(&self) -> Option<u64> {
        match self.end {
            // The random draws of a pass determine when the first stream ends.
            MixEnd::First => self.drawn_lens().all(|len| len == Some(ENDLESS)).then_some(ENDLESS),
            MixEnd::Last => sum(self.drawn_lens()),
        }
    }
}

struct Mixed {
    items: Vec<Box<dyn Items>>,
    /// The weights of the streams; 0 for a stream that has ended.
    weights: Vec<f64>,
    end: MixEnd,
    draws: StreamRng,
}

impl Mixed {
    /// Draws a stream that has not ended; `None` if all have.
    fn draw(&mut self) -> Option<usize> {
        let sum: f64 = self.weights.iter().sum();
        let mut left = self.draws.share() * sum;
        let mut drawn = None;
        for (index, &weight) in self.weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0)
        {
            drawn = Some(index);
            if left < weight {
                break;
            }
            left -= weight;
        }
        drawn
    }

    /// Draws streams until `take` returns an item of one; `None` at the end.
    fn take<T>(
        &mut self,
        take: impl Fn(&mut dyn Items, usize) -> Result<Option<T>, BoxError>,
    ) -> Result<Option<T>, BoxError> {
        while let Some(index) = self.draw() {
            if let Some(taken) = take(&mut *self.items[index], index)? {
                return Ok(Some(taken));
            }
            match self.end {
                MixEnd::First => self.weights.fill(0.0),
                MixEnd::Last => self.weights[index] = 0.0,
            }
        }
        Ok(None)
    }
}

impl Items for Mixed {
    fn next(&mut self) -> Result<Option<Item>, BoxError> {
        let parts = self.items.len();
        self.take(|items, part| Ok(items.next()?.map(|item| labelled(item, part, parts))))
    }

    fn skip(&mut self, count: u64) -> Result<u64, BoxError> {
        for done in 0..count {
            if self.take(|items, _| Ok((items.skip(1)? == 1).then_some(())))?.is_none() {
                return Ok(done);
            }
        }
        Ok(count)
    }
}
