//! The facts of a dataset: what is known of it without reading a sample.

use super::Fingerprint;
use crate::source::{
    BoxError, ClassNames, FieldKind, FieldSpec, ImageStats, ObjectFields, classes,
};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// A fact that is found when it is asked for.
type OnRequest<A, T> = Option<Arc<dyn Fn(A) -> T + Send + Sync>>;

/// Paths, one after another.
type Paths = Box<dyn Iterator<Item = PathBuf>>;

/// The facts of a dataset that are known without reading a sample. A source that wraps another one changes a clone of its facts.
///
/// ```
/// use fuseloop::source::{Facts, FieldKind, ImageStats};
/// use fuseloop::ops::Size;
///
/// let mut facts = Facts::new([("image", FieldKind::RgbImage), ("label", FieldKind::Int)], 60_000);
/// facts.name = "digits".to_owned();
/// let size = Some(Size::new(28, 28));
/// let stats = ImageStats { raw: 60_000, min: size, max: size, max_pixels: 28 * 28, ..ImageStats::default() };
/// let facts = facts.with_image_stats(move |field| (field == 0).then(|| stats.clone()));
/// assert_eq!(facts.image_stats(0).and_then(|stats| stats.uniform()), size);
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Facts {
    /// The fields of a sample, in order.
    pub fields: Arc<[FieldSpec]>,
    /// The number of samples, or [`UNKNOWN`](crate::sample::UNKNOWN) for a stream whose length is only known once it has
    /// been read to its end.
    pub samples: u64,
    /// The name of the dataset for errors: a path or an address.
    pub name: String,
    /// The path of the dataset, if it is a single file.
    pub path: Option<PathBuf>,
    /// The number of component datasets that the dataset is built from; 1 if it is a single dataset. Each component can
    /// have ops of its own: [`LoaderBuilder::component_ops`](crate::LoaderBuilder::component_ops).
    pub components: usize,
    /// True if reading a sample again costs little more than a copy, as from a file in the system's own cache. A
    /// loader's cache stores only decoded values of such a dataset; of other datasets it stores everything that is read,
    /// as far as there is room.
    pub rereads_cheaply: bool,
    /// A number that identifies the dataset, the same in every process: a cursor of one dataset is refused by another.
    /// [`new`](Self::new) computes it from the fields and the number of samples.
    pub fingerprint: u64,
    /// The number of bytes that are read to hold the dataset in memory; `None` if it can't be held.
    pub(crate) stored_bytes: Option<u64>,
    /// The size of a page of the `.beton` files, the largest if there are several.
    pub(crate) page_size: Option<u32>,
    /// True if two passes over a stream with the same parameters yield the same items.
    #[doc(hidden)]
    pub is_exact: bool,
    /// True if samples were selected one by one, so that some of a folder may be missing.
    pub(in crate::source) is_selection: bool,
    /// The fields of bytes that are audio files, and the extension that all files of such a field have.
    pub(in crate::source) audio: Arc<[(usize, Option<&'static str>)]>,
    /// The fields of bytes that are video files.
    pub(in crate::source) videos: Arc<[usize]>,
    pub(in crate::source) image_stats: OnRequest<usize, Option<ImageStats>>,
    pub(in crate::source) longest: OnRequest<usize, Option<u64>>,
    pub(in crate::source) paths: OnRequest<(), Paths>,
    pub(in crate::source) class_names: OnRequest<(), Result<Option<ClassNames>, BoxError>>,
    pub(in crate::source) object_fields: OnRequest<(), Result<Option<ObjectFields>, BoxError>>,
}

impl Facts {
    /// Returns the facts of a dataset of which nothing else is known. Its name is "the source".
    #[must_use]
    pub fn new<F: Into<FieldSpec>>(fields: impl IntoIterator<Item = F>, samples: u64) -> Self {
        Self::of(fields.into_iter().map(Into::into).collect(), samples)
    }

    /// Returns the facts of a dataset with fields that are shared.
    pub(in crate::source) fn of(fields: Arc<[FieldSpec]>, samples: u64) -> Self {
        let mut print = Fingerprint::default();
        print.number(samples);
        print.fields(&fields);
        Self {
            fields,
            samples,
            name: "the source".to_owned(),
            path: None,
            components: 1,
            rereads_cheaply: false,
            fingerprint: print.value(),
            stored_bytes: None,
            page_size: None,
            is_exact: true,
            is_selection: false,
            audio: Arc::default(),
            videos: Arc::default(),
            image_stats: None,
            longest: None,
            paths: None,
            class_names: None,
            object_fields: None,
        }
    }

    /// Sets the name.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self }
    }

    /// Sets a function that returns the sizes of a field's images, if they are known without reading all of them. If they
    /// are not, images of any size are expected, and a pipeline must begin with an op that brings all images to one size.
    #[must_use]
    pub fn with_image_stats(
        self,
        stats: impl Fn(usize) -> Option<ImageStats> + Send + Sync + 'static,
    ) -> Self {
        Self { image_stats: Some(Arc::new(stats)), ..self }
    }

    /// Sets a function that returns the size in bytes of the longest value of a Bytes or JSON field, if it is known.
    #[must_use]
    pub fn with_longest(
        self,
        longest: impl Fn(usize) -> Option<u64> + Send + Sync + 'static,
    ) -> Self {
        Self { longest: Some(Arc::new(longest)), ..self }
    }

    /// Sets a function that returns the local files and folders that the dataset is read from, in an order that stays the
    /// same. A conversion compares the sizes and times of these files to find out whether the dataset has changed since
    /// the conversion was stopped, and it never writes over them. Without it, this is [`path`](Self::path).
    #[must_use]
    pub fn with_paths(
        self,
        paths: impl Fn() -> Box<dyn Iterator<Item = PathBuf>> + Send + Sync + 'static,
    ) -> Self {
        Self { paths: Some(Arc::new(move |()| paths())), ..self }
    }

    /// Sets a function that reads the names of the classes, by the numbers in the field that is a sample's class; `None`
    /// if they are not known. Names are read on request only: opening a dataset does not need them.
    #[must_use]
    pub fn with_class_names(
        self,
        names: impl Fn() -> Result<Option<ClassNames>, BoxError> + Send + Sync + 'static,
    ) -> Self {
        Self { class_names: Some(Arc::new(move |()| names())), ..self }
    }

    /// Sets the fields of bytes that are audio files, and the extension that all files of such a field have.
    pub(in crate::source) fn with_audio(
        self,
        fields: impl IntoIterator<Item = (usize, Option<&'static str>)>,
    ) -> Self {
        Self { audio: fields.into_iter().collect(), ..self }
    }

    /// Sets the fields of bytes that are video files.
    pub(in crate::source) fn with_videos(self, fields: impl IntoIterator<Item = usize>) -> Self {
        Self { videos: fields.into_iter().collect(), ..self }
    }

    /// Sets a function that reads what the fields of annotated objects are.
    pub(in crate::source) fn with_object_fields(
        self,
        objects: impl Fn() -> Result<Option<ObjectFields>, BoxError> + Send + Sync + 'static,
    ) -> Self {
        Self { object_fields: Some(Arc::new(move |()| objects())), ..self }
    }

    /// Returns the facts with some of the fields, in the order of their numbers in `own`.
    pub(in crate::source) fn of_fields(&self, own: &[usize]) -> Self {
        let own: Arc<[usize]> = own.into();
        let place = |field: usize| own.iter().position(|one| *one == field);
        let audio = self.audio.iter().filter_map(|&(field, end)| Some((place(field)?, end)));
        let videos = self.videos.iter().filter_map(|&field| place(field));
        let [of_images, of_bytes] = [(); 2].map(|()| (self.clone(), Arc::clone(&own)));
        Self {
            fields: own.iter().map(|&field| self.fields[field].clone()).collect(),
            ..self.clone()
        }
        .with_audio(audio)
        .with_videos(videos)
        .with_image_stats(move |field| of_images.0.image_stats(*of_images.1.get(field)?))
        .with_longest(move |field| of_bytes.0.longest(*of_bytes.1.get(field)?))
    }

    /// Returns the facts that hold for all samples of one or more datasets with the same fields. The number of samples is
    /// the sum, and the name and the fingerprint are those of the first dataset.
    pub(in crate::source) fn joined<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Self {
        let parts: Arc<[Self]> = parts.into_iter().cloned().collect();
        if let [one] = &*parts {
            return one.clone();
        }
        let first = &parts[0];
        let joined = Self {
            samples: parts.iter().fold(0, |sum, part| part.samples.saturating_add(sum)),
            path: None,
            components: parts.len(),
            rereads_cheaply: parts.iter().all(|part| part.rereads_cheaply),
            stored_bytes: all_of(&parts, |part| part.stored_bytes, u64::saturating_add),
            page_size: parts.iter().filter_map(|part| part.page_size).max(),
            is_exact: parts.iter().all(|part| part.is_exact),
            audio: joined_audio(&parts),
            videos: joined_videos(&parts),
            object_fields: None,
            ..first.clone()
        };
        let [of_images, of_bytes, of_paths, of_names] = [(); 4].map(|()| Arc::clone(&parts));
        joined
            .with_image_stats(move |field| {
                all_of(&of_images, |part| part.image_stats(field), |a, b| a.merged(&b))
            })
            .with_longest(move |field| all_of(&of_bytes, |part| part.longest(field), u64::max))
            .with_paths(move || Self::paths_of(&of_paths))
            .with_class_names(move || {
                let named =
                    of_names.iter().map(|part| Ok((part.name.clone(), part.class_names()?)));
                Ok(classes::joined(named.collect::<Result<Vec<_>, BoxError>>()?)?)
            })
    }

    /// Returns the paths of several datasets.
    pub(in crate::source) fn paths_of(parts: &Arc<[Self]>) -> Paths {
        let parts = Arc::clone(parts);
        Box::new((0..parts.len()).flat_map(move |part| parts[part].paths()))
    }

    /// Returns the sizes of a field's images, if they are known without reading all of them.
    #[must_use]
    pub fn image_stats(&self, field: usize) -> Option<ImageStats> {
        self.image_stats.as_ref()?(field)
    }

    /// Returns the size in bytes of the longest value of a Bytes or JSON field, if it is known.
    #[must_use]
    pub fn longest(&self, field: usize) -> Option<u64> {
        self.longest.as_ref()?(field)
    }

    /// Returns whether a field of bytes is known to be audio files. A name alone tells nothing: bytes called `wave` may be
    /// samples without a header.
    pub(crate) fn is_audio(&self, field: usize) -> bool {
        let is_bytes = self.fields.get(field).is_some_and(|field| field.kind == FieldKind::Bytes);
        is_bytes && self.audio.iter().any(|(known, _)| *known == field)
    }

    /// Returns whether a field of bytes is known to be video files.
    #[doc(hidden)]
    #[must_use]
    pub fn is_video(&self, field: usize) -> bool {
        let is_bytes = self.fields.get(field).is_some_and(|field| field.kind == FieldKind::Bytes);
        is_bytes && self.videos.contains(&field)
    }

    /// Returns the extension that all audio files of a field have; `None` if they differ, or it is not known.
    #[cfg(feature = "write")]
    pub(crate) fn audio_extension(&self, field: usize) -> Option<&'static str> {
        self.audio.iter().find(|(known, _)| *known == field)?.1
    }

    /// Returns the local files and folders that the dataset is read from.
    pub fn paths(&self) -> Box<dyn Iterator<Item = PathBuf>> {
        match &self.paths {
            Some(paths) => paths(()),
            None => Box::new(self.path.clone().into_iter()),
        }
    }

    /// Reads the names of the classes; `None` if they are not known.
    ///
    /// # Errors
    ///
    /// Fails if the file that holds the names is damaged.
    pub fn class_names(&self) -> Result<Option<ClassNames>, BoxError> {
        self.class_names.as_ref().map_or(Ok(None), |names| names(()))
    }

    /// Reads what the fields of annotated objects are; `None` if it is not known. For conversions, and read on request
    /// only.
    #[doc(hidden)]
    pub fn object_fields(&self) -> Result<Option<ObjectFields>, BoxError> {
        self.object_fields.as_ref().map_or(Ok(None), |objects| objects(()))
    }
}

/// Returns the fields that are audio in all parts, with the extension that they have in all.
fn joined_audio(parts: &[Facts]) -> Arc<[(usize, Option<&'static str>)]> {
    let joined = |&(field, extension): &(usize, Option<&'static str>)| {
        let of = |part: &Facts| part.audio.iter().find(|(known, _)| *known == field).copied();
        let all: Vec<_> = parts.iter().map(of).collect::<Option<_>>()?;
        Some((field, extension.filter(|_| all.iter().all(|(_, one)| *one == extension))))
    };
    parts[0].audio.iter().filter_map(joined).collect()
}

/// Returns the fields that are video files in all parts.
fn joined_videos(parts: &[Facts]) -> Arc<[usize]> {
    let in_all = |field: &usize| parts.iter().all(|part| part.videos.contains(field));
    parts[0].videos.iter().copied().filter(in_all).collect()
}

/// Combines the answers of all parts with `both`; `None` if a part has no answer.
fn all_of<T>(
    parts: &[Facts],
    of: impl Fn(&Facts) -> Option<T>,
    both: impl Fn(T, T) -> T,
) -> Option<T> {
    let said = parts.iter().map(of);
    said.reduce(|a, b| a.zip(b).map(|(a, b)| both(a, b))).flatten()
}

/// Shows what is known without a request.
impl fmt::Debug for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fields, samples, name, components, .. } = self;
        let mut shown = f.debug_struct("Facts");
        shown.field("name", name).field("samples", samples).field("fields", fields);
        shown.field("components", components).finish_non_exhaustive()
    }
}
