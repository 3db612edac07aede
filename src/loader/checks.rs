//! Checks of settings that contradict each other or their dataset.

use super::LoaderBuilder;
use super::clips::{Clips, VIDEO};
use super::damaged::{DamageLog, OnDamaged};
use super::error::of_field;
use super::outputs::{known_fields, no_such_field};
use crate::amounts::all_are;
use crate::error::{Error, fail};
use crate::order::{Order, Ranks, Subset};
use crate::run::LastBatch;
use crate::source::{Escaped, ObjectField, PartFields, check_part_field, fields_of_frames};
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

    /// Refuses settings that are for samples of one image: `several` are clips, or lists of images.
    pub(super) fn check_several_images(&self, several: &str) -> Result<(), Error> {
        let refused = |with: &str, cure: &str| {
            Err(fail!(Unsupported, "{several} can't be used with {with}: {cure}"))
        };
        if self.stream.is_some() {
            return refused(
                "a stream",
                "open the dataset by an index, or the folder of its images",
            );
        }
        if self.cache.is_some() {
            return refused("a cache, which stores one image of a sample", "remove `cache`");
        }
        if self.process_cache.is_some() {
            return refused("pages of samples that are read ahead", "remove `process_cache`");
        }
        if self.order == Order::Bucketed {
            return refused(
                "the order bucketed",
                "take random, and an op that leaves images of one size",
            );
        }
        Ok(())
    }

    /// Returns the field of the dataset that has the frames of clips.
    pub(super) fn field_of_frames(&self, clips: &Clips) -> Result<usize, Error> {
        let source = &*self.source;
        let known = known_fields(source)?;
        let targets = || self.wanted.targets.iter().flat_map(|(_, targets)| targets.names());
        let is_mask = |field: usize| {
            known.get(&source.fields()[field].name) == Some(ObjectField::Mask)
                || targets()
                    .chain(self.wanted.masks.iter().map(String::as_str))
                    .any(|name| source.field_index(name) == Some(field))
        };
        let is_left_out = |field: usize| {
            self.wanted.without.iter().any(|name| source.field_index(name) == Some(field))
        };
        // The field of the frames is called `video`, however it is stored.
        let named =
            clips.field_name().filter(|name| *name != VIDEO || source.field_index(VIDEO).is_some());
        let index =
            |name: &str| source.field_index(name).ok_or_else(|| no_such_field(source, name));
        let named = named.map(index).transpose()?;
        let images = fields_of_frames(source, named, is_mask, "`Clips::field`")?;
        let field = match (named, images.iter().find(|field| !is_left_out(**field)), &*images) {
            (Some(field), ..) => field,
            // Views of the only one may stay.
            (None, Some(field), _) | (None, None, [field]) => *field,
            (None, None, _) => {
                return Err(fail!(
                    Pipeline,
                    "{}: all fields of images are left out, and one has the frames of clips: name it (`Clips::field`)",
                    Escaped(source.name())
                ));
            }
        };
        match images.into_iter().find(|other| *other != field && !is_left_out(*other)) {
            None => Ok(field),
            Some(other) => {
                let may_be_mask = source.fields()[other].kind.is_image();
                let or_mask =
                    if may_be_mask { ", or declare it as a mask in `targets`" } else { "" };
                let (own, other) = (source.field_name(field), source.field_name(other));
                Err(fail!(
                    Pipeline,
                    "clips: the fields {own} and {other} have images or videos, and only one can have the frames of clips: name it \
                     (`Clips::field`), and leave out the other (`without`){or_mask}"
                )
                .of_field(other))
            }
        }
    }

    /// Returns the fields of the dataset that have the first and the last second of each video of clips.
    pub(super) fn range_fields(&self, clips: &Clips) -> Result<PartFields, Error> {
        let source = &*self.source;
        let mut fields = [None, None];
        for (field, name) in fields.iter_mut().zip(clips.range_fields()) {
            let Some(name) = name else { continue };
            let index = source.field_index(name).ok_or_else(|| no_such_field(source, name))?;
            check_part_field(&source.fields()[index].kind)
                .map_err(|error| of_field(error, name))?;
            *field = Some(index);
        }
        Ok(fields)
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
                    "{dataset}: {} damaged. The first of them: {first}",
                    all_are(chosen, "sample")
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
