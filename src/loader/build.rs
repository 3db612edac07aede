//! Builds a loader of its settings.

use super::buckets::Buckets;
use super::cache::SampleCache;
use super::choose::{self, SourceInfo};
use super::classes;
use super::clips::{ClipSource, Clips, VideosOf};
use super::compile_context::CompileContext;
use super::damaged::{DamageLog, OnDamaged};
use super::device::HELD;
use super::error::no_rows;
use super::image_lists::ListSource;
use super::in_memory;
use super::metrics::LoaderMetrics;
use super::outputs::{check_recompile, name_by_field, no_such_field};
use super::stage::{LoaderStage, StageShared};
use super::target_plan::warn_of_other_draws;
use super::{CompiledOutputs, Loader, LoaderBuilder};
use crate::device::PageLocker;
use crate::error::{Error, fail};
use crate::jit;
use crate::order::bucketed::Steps;
use crate::order::{Order, PreparedOrder, Ranks, Subset};
use crate::run::{Engine, EngineOptions, LastBatch};
use crate::sample::{Epoch, Limits};
use crate::source::{
    Escaped, FrameRows, Frames, PTS, PagedBeton, Source, frame_folders, is_clip_store, video_files,
};
use crate::warnings::warn;
use std::mem;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};

/// The number of samples from which a shuffled list of them is warned of: it takes seconds, and 0.4 GiB.
const LONG_LIST: u64 = 100_000_000;

impl LoaderBuilder {
    pub(super) fn build_loader(mut self) -> Result<Loader, Error> {
        let batch_size = NonZeroUsize::new(self.setup.batch_size).ok_or_else(no_rows)?;
        let mut options = self.engine_options()?;
        let device_choice = self.device_request.choice(self.batches_ahead.saturating_add(HELD))?;
        let pages = self.pages()?;
        self.check_stream()?;
        self.check_scaled_decode()?;
        self.take_image_lists()?;
        self.take_clips()?;
        self.take_frames()?;
        let setup = self.setup_on_ranks()?;
        if let Some(expected) = &self.expected_classes {
            classes::check(&*self.source, expected)?;
        }
        let subset = choose::subset(&*self.source, self.indices.take(), &self.filters)?;
        let mut outputs = mem::take(&mut self.wanted).resolve(&*self.source)?;
        if let Some(clips) = &self.setup.clips {
            name_by_field(&mut outputs, &*self.source, clips.field());
        }
        check_recompile(&outputs, self.recompile)?;
        let damage_log = Arc::<DamageLog>::default();
        self.check_chosen(&subset)?;
        let buckets = match self.order {
            Order::Bucketed => {
                Some(Buckets::of_outputs(&*self.source, &mut outputs, &setup, &damage_log)?)
            }
            _ => None,
        };
        let cache =
            self.cache.take().map(|cache| SampleCache::open(cache, &*self.source)).transpose()?;
        let shared = StageShared::new(
            Arc::clone(&damage_log),
            cache.map(Arc::new),
            device_choice,
            self.pin_memory.map(PageLocker::new),
        );
        let mut kernels = mem::take(&mut self.kernels);
        let stage =
            LoaderStage::compile(&self.source, &outputs, Epoch(0), &setup, &mut kernels, &shared)?;
        warn_of_other_draws(&*self.source, &outputs, stage.plans());
        classes::warn_of_one_hot(&*self.source, &outputs, stage.plans());
        options.max_slots = shared.device_choice.max_slots().or(options.max_slots);
        options.check_batches(&stage, batch_size)?;
        // Pages that are read ahead, and samples in a cache, are in memory themselves.
        let is_cached = pages.is_some() || shared.cache.is_some();
        let in_memory = self.in_memory.or(is_cached.then_some(false));
        let world = self.ranks.map_or(1, Ranks::world_size).into();
        // After all checks, so that a mistake is told before gigabytes are read.
        let order = self.prepared_order(&subset, buckets.as_ref())?;
        self.check_count(&subset, order.len(self.ranks.as_ref()), &damage_log)?;
        let shared = shared.ordered(Arc::clone(&order));
        let stage = stage.sharing(shared.clone());
        let held_bytes = in_memory::hold(&*self.source, in_memory, world)?;
        jit::warn_if_refused();
        let compiled = CompiledOutputs { outputs, stage: Arc::new(stage), cache: kernels };
        let metrics = Arc::new(LoaderMetrics::new(self.source.name(), setup.rank));
        Ok(Loader {
            dataset: self.source.fingerprint(),
            source: pages.clone().map_or(self.source, |pages| pages as Arc<dyn Source>),
            pages,
            order,
            ranks: self.ranks,
            batch_size,
            last: self.last,
            delivery: self.delivery,
            recompile: self.recompile,
            stream: self.stream,
            setup,
            held_bytes,
            compiled: Mutex::new(compiled),
            shared,
            position: Mutex::new(None),
            log: Arc::default(),
            stalls: Arc::default(),
            metrics,
            engine: Arc::new(Engine::new(options)?),
        })
    }

    /// Makes lists of images fields of images, if that is asked for.
    fn take_image_lists(&mut self) -> Result<(), Error> {
        if self.image_lists.is_empty() {
            return Ok(());
        }
        self.check_several_images("lists of images")?;
        if self.clips.is_some() {
            return Err(fail!(
                Unsupported,
                "lists of images can't be used with clips of videos: load them by two loaders"
            ));
        }
        let mut lists = vec![];
        for (name, list) in mem::take(&mut self.image_lists) {
            let field = self.source.field_index(&name);
            let field = field.ok_or_else(|| no_such_field(&*self.source, &name))?;
            if lists.iter().any(|(other, _)| *other == field) {
                let error = fail!(
                    Field,
                    "two entries of `image_lists` are of this field: keep one of them"
                );
                return Err(error.of_field(&name));
            }
            lists.push((field, list));
        }
        let source = ListSource::new(Arc::clone(&self.source), lists)?;
        self.setup.lists = Arc::clone(source.lists());
        self.source = Arc::new(source);
        Ok(())
    }

    /// Makes the clips of the dataset's videos its samples, if that is asked for.
    fn take_clips(&mut self) -> Result<(), Error> {
        let Some(clips) = self.clips.take() else { return Ok(()) };
        clips.check()?;
        self.check_several_images("clips")?;
        let field = self.field_of_frames(&clips)?;
        let range = self.range_fields(&clips)?;
        let (dataset, limits) = (Arc::clone(&self.source), self.setup.decode.limits);
        let videos_of = VideosOf { dataset: dataset.fingerprint(), field, limits };
        let is_same = |known: &Arc<ClipSource>| known.are_clips_of(videos_of, &clips);
        let source = match self.known_clips.take().filter(is_same) {
            Some(known) => known,
            None => Arc::new(ClipSource::new(
                videos_of,
                videos(&dataset, field, &clips, &limits)?,
                clips,
                range,
            )?),
        };
        let name = source.facts().fields[source.field()].name.clone();
        self.wanted.rename(|asked| (dataset.field_index(asked) == Some(field)).then_some(&*name));
        self.setup.clips = Some(Arc::clone(&source));
        self.source = source;
        Ok(())
    }

    /// Makes the frames that the dataset chooses for its samples rows of their fields, if it has some.
    fn take_frames(&mut self) -> Result<(), Error> {
        let frames = self.source.stored().and_then(|stored| stored.frame_fields());
        let Some(frames) = frames else { return Ok(()) };
        self.check_several_images("frames of cameras")?;
        self.source = Arc::clone(&frames.0) as Arc<dyn Source>;
        self.setup.frames = Some(frames);
        Ok(())
    }

    /// Prepares the order for the samples chosen. A bucketed one measures them.
    fn prepared_order(
        &self,
        subset: &Subset,
        buckets: Option<&Buckets<'_>>,
    ) -> Result<Arc<PreparedOrder>, Error> {
        let source = &*self.source;
        let batch_size = self.setup.batch_size as u64;
        let drops_last = self.last == LastBatch::Drop;
        let mut steps = Steps::new(batch_size, self.ranks.as_ref(), drops_last);
        if let Order::Mixture(_) = self.order {
            // Whatever the ranks leave out, their steps have the same numbers.
            steps.drops_rest = drops_last;
        }
        let listed = subset.len();
        if matches!(self.order, Order::Random) && listed >= LONG_LIST {
            warn(format_args!(
                "order random: each epoch begins with shuffling {listed} samples, in {gib:.1} GiB of memory: the order \
                 `permuted` needs neither",
                gib = (listed * size_of::<u32>() as u64) as f64 / f64::from(1 << 30)
            ));
        }
        let info = SourceInfo { source, buckets };
        Ok(Arc::new(self.order.prepare_steps(&info, subset.clone(), steps)?))
    }

    /// Returns the file as a paged source, if a process cache is set.
    fn pages(&self) -> Result<Option<Arc<PagedBeton>>, Error> {
        let Some(options) = self.process_cache else { return Ok(None) };
        options.check()?;
        let beton = self.beton.as_ref().ok_or_else(|| {
            let dataset = self.source.name();
            fail!(
                Unsupported,
                "{dataset}: only a single .beton file has pages for a process cache: join several by `fuseloop convert`, or \
                 remove `process_cache`"
            )
        })?;
        Ok(Some(Arc::new(PagedBeton::new(Arc::clone(beton), options))))
    }

    fn engine_options(&self) -> Result<EngineOptions, Error> {
        let defaults = EngineOptions::default();
        let workers = self.workers.map_or(Some(defaults.workers), NonZeroUsize::new);
        let (Some(workers), Some(ahead)) = (workers, NonZeroUsize::new(self.batches_ahead)) else {
            return Err(fail!(Parameter, "0 workers or 0 batches ahead: give 1 or more")
                .help("without `--workers`, there is one worker per core"));
        };
        let (max_bytes, stall_timeout) = (self.memory_limit, self.timeout);
        let options =
            EngineOptions { workers, batches_ahead: ahead, max_bytes, stall_timeout, ..defaults };
        options.check()?;
        Ok(options)
    }

    /// Returns the context for compiling the outputs on this rank.
    fn setup_on_ranks(&self) -> Result<CompileContext, Error> {
        let counted = || (self.batches_ahead as u64).saturating_add(1); // and the one in use
        let counted_batches = self.memory_limit.is_none().then(counted);
        let is_bucketed = self.order == Order::Bucketed;
        let setup = CompileContext { counted_batches, is_bucketed, ..self.setup.clone() };
        let Some(ranks) = &self.ranks else { return Ok(setup) };
        if ranks.world_size() > 1 && self.setup.on_damaged == OnDamaged::Skip {
            return Err(fail!(
                Parameter,
                "damaged samples can't be skipped on {world} ranks, whose batches would differ in length: take \
                 OnDamaged::Substitute",
                world = ranks.world_size()
            ));
        }
        Ok(CompileContext { rank: ranks.rank().into(), world: ranks.world_size().into(), ..setup })
    }
}

/// Opens the videos of a field: rows of a clip store, folders of its images, or its bytes as video files.
fn videos(
    dataset: &Arc<dyn Source>,
    field: usize,
    clips: &Clips,
    limits: &Limits,
) -> Result<Arc<dyn Frames>, Error> {
    if !dataset.fields()[field].kind.is_image() {
        let are_parts = clips.range_fields() != [None, None];
        return video_files((dataset, field), are_parts, clips.list_file(), limits);
    }
    if is_clip_store(&**dataset) {
        if dataset.field_index(PTS).is_none() {
            clips.check_rate()?;
        }
        if let Some(list) = clips.list_file() {
            return Err(fail!(
                Unsupported,
                "{}: the videos of a clip store have no names, by which a list would find them: convert the videos of the \
                 list ({}) to a store of their own",
                Escaped(dataset.name()),
                list.display()
            ));
        }
        return Ok(Arc::new(FrameRows::new(Arc::clone(dataset), field, clips.rate())?));
    }
    clips.check_rate()?;
    frame_folders((dataset, field), clips.rate(), clips.list_file(), limits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Facts, FieldKind, InMemory, OwnedValue};

    #[test]
    fn a_list_of_very_many_samples_is_warned_of() {
        let warnings_of = |samples: u64, order: Order| {
            let facts = Facts::new([("number", FieldKind::Int)], samples);
            let source = InMemory::from_fn(facts, |_| Ok(vec![OwnedValue::Int(0)]));
            let build = || Loader::from_source(source).order(order).build();
            let (loader, warnings) = crate::warnings::recorded(build);
            loader.unwrap();
            warnings.into_iter().filter(|text| text.starts_with("order ")).collect::<Vec<_>>()
        };
        let expected = "order random: each epoch begins with shuffling 1000000000 samples, in 3.7 GiB of memory: the \
                        order `permuted` needs neither";
        assert_eq!(warnings_of(1_000_000_000, Order::Random), [expected]);
        assert_eq!(warnings_of(LONG_LIST - 1, Order::Random), [""; 0]);
        assert_eq!(warnings_of(1_000_000_000, Order::Permuted), [""; 0]);
    }
}
