//! Checks of settings that contradict each other or their dataset.

use super::LoaderBuilder;
use super::damaged::{DamageLog, OnDamaged};
use crate::error::{Error, fail};
use crate::order::{Order, Ranks, Subset};
use crate::run::LastBatch;
use fuseloop_ops::NumberRule;

impl LoaderBuilder {
    /// Refuses settings that a stream can't support: those that need a sample out of sequence.
    pub(super) fn check_stream(&self) -> Result<(), Error> {
        let Some(stream) = &self.stream else { return Ok(()) };
        let world = self.ranks.map_or(1, Ranks::world_size);
        if self.order != Order::Sequential {
            let order = self.order.name();
            return Err(fail!(
                Unsupported,
                "a stream has no {order} order: shuffle the stream itself (`Stream::shuffle`), or open it by an index"
            ));
        }
        if self.indices.is_some() || !self.filters.is_empty() {
            return Err(fail!(
                Unsupported,
                "a stream has no indices or filters: take `Stream::filter`, `take` or `skip`, or open it by an index"
            ));
        }
        if self.cache.is_some() {
            return Err(fail!(
                Unsupported,
                "a stream has no cache of samples by their numbers: use `Stream::cache_in_memory` before the shuffle"
            ));
        }
        if self.setup.on_damaged == OnDamaged::Substitute {
            return Err(fail!(
                Unsupported,
                "a stream has no other samples to substitute: take `OnDamaged::Skip`"
            ));
        }
        if world > 1 && stream.known_len().is_none() {
            return Err(fail!(
                Unsupported,
                "a stream has no known length for {world} ranks to share: cut it to one (`Stream::with_epoch`, `take`), or \
                 give each rank shards of its own"
            ));
        }
        Ok(())
    }

    /// Refuses to decode at a smaller scale beside a setting that needs the images' own pixels.
    pub(super) fn check_scaled_decode(&self) -> Result<(), Error> {
        let with = match (&self.cache, self.setup.rule) {
            _ if !self.setup.scaled_decode => return Ok(()),
            (Some(_), _) => "a cache stores whole images",
            (None, NumberRule::Exact) => "NumberRule::Exact promises those of torchvision",
            (None, _) => return Ok(()),
        };
        Err(fail!(
            Parameter,
            "scaled_decode changes pixel values, but {with}: use only one of the two"
        ))
    }

    /// Refuses a setup without samples.
    pub(super) fn check_chosen(&self, subset: &Subset) -> Result<(), Error> {
        let (dataset, samples) = (self.source.name().to_owned(), self.source.len());
        if samples == 0 {
            return Err(fail!(Parameter, "{dataset}: the dataset has no samples"));
        }
        if subset.is_empty() {
            return Err(fail!(
                Parameter,
                "{dataset}: `indices` and `filter` leave none of {samples} samples"
            ));
        }
        Ok(())
    }

    /// Refuses a setup whose epochs have no batch: `rows` of the samples chosen are this rank's. `damaged` are those of
    /// them that were found to be damaged.
    pub(super) fn check_count(
        &self,
        subset: &Subset,
        rows: u64,
        damaged: &DamageLog,
    ) -> Result<(), Error> {
        let (dataset, batch_size) = (self.source.name().to_owned(), self.setup.batch_size);
        if rows == 0 {
            let (order, chosen) = (self.order.name(), subset.len());
            let world = self.ranks.map_or(1, Ranks::world_size);
            let ranks =
                if world > 1 { format!(" on each of {world} ranks") } else { String::new() };
            if damaged.report().rows >= chosen {
                let first = damaged.first_error();
                return Err(fail!(
                    Damaged,
                    "{dataset}: all {chosen} samples are damaged. The first of them: {first}"
                ));
            }
            if self.order == Order::Bucketed {
                return Err(fail!(
                    Parameter,
                    "{dataset}: no bucket of the {chosen} samples fills a batch of {batch_size}{ranks}, and shorter ones \
                     are left out: take a smaller batch size or fewer buckets, or do not leave out the rest"
                ));
            }
            return Err(fail!(
                Parameter,
                "{dataset}: the {order} order makes an epoch of 0 out of {chosen} samples{ranks}"
            ));
        }
        if self.last == LastBatch::Drop && rows < batch_size as u64 {
            return Err(fail!(
                Parameter,
                "{dataset}: an epoch of {rows} samples has no batch of {batch_size}, and `drop_last` drops the short \
                 one: take a smaller batch size, or `drop_last(false)`"
            ));
        }
        Ok(())
    }
}
