//! Opens the videos of a field of a dataset, or those of them that a file lists.

#[cfg(feature = "video")]
use super::{Buffer, FieldKind, VideoFiles};
use super::{FrameFolders, Frames, Source};
use crate::error::Error;
#[cfg(not(feature = "video"))]
use crate::error::fail;
use crate::sample::Limits;
#[cfg(feature = "video")]
use crate::sample::SampleId;
#[cfg(feature = "video")]
use fuseloop_video::VideoIndex;
use std::path::Path;
use std::sync::Arc;

/// Opens the folders of a field's images as videos of `fps` frames per second.
///
/// # Errors
///
/// If images have no names or their folders are no videos, and with the errors of the list.
pub(crate) fn frame_folders(
    (dataset, field): (&Arc<dyn Source>, usize),
    fps: f64,
    list: Option<&Path>,
    limits: &Limits,
) -> Result<Arc<dyn Frames>, Error> {
    let videos = FrameFolders::new(Arc::clone(dataset), field, fps)?;
    Ok(match list {
        Some(list) => Arc::new(videos.listed(list, limits.max_table_bytes)?),
        None => Arc::new(videos),
    })
}

/// Opens the bytes of a field as video files, which several samples may share if they are parts of videos.
///
/// # Errors
///
/// With the errors of the list.
#[cfg(feature = "video")]
pub(crate) fn video_files(
    (dataset, field): (&Arc<dyn Source>, usize),
    are_parts: bool,
    list: Option<&Path>,
    limits: &Limits,
) -> Result<Arc<dyn Frames>, Error> {
    let videos = VideoFiles::new(Arc::clone(dataset), field, limits);
    let videos = if are_parts { videos.sharing_files() } else { videos };
    Ok(match list {
        Some(list) => Arc::new(videos.listed(list, limits.max_table_bytes)?),
        None => Arc::new(videos),
    })
}

/// Refuses video files, which this build does not read.
#[cfg(not(feature = "video"))]
pub(crate) fn video_files(
    (dataset, field): (&Arc<dyn Source>, usize),
    _: bool,
    _: Option<&Path>,
    _: &Limits,
) -> Result<Arc<dyn Frames>, Error> {
    let name = dataset.field_name(field);
    Err(fail!(
        Unsupported,
        "field {name}: this build can't read video files: build fuseloop with the feature `video`"
    )
    .of_field(name))
}

/// Returns the fields of bytes whose first value begins as a video file does; of values that can't be read, the next one
/// decides.
#[cfg(feature = "video")]
pub(crate) fn fields_of_videos(dataset: &dyn Source) -> Vec<usize> {
    /// The number of values that are tried.
    const TRIED: u64 = 4;
    let is_video = |field: &usize| {
        let samples = (0..dataset.len().min(TRIED)).map(SampleId);
        let mut begins = samples.filter_map(|sample| {
            let mut buffer = Buffer::default();
            let value = dataset.value(sample, *field, &mut buffer).ok()?;
            Some(VideoIndex::is_container(value.bytes()))
        });
        begins.next() == Some(true)
    };
    let fields = dataset.fields().iter().enumerate();
    let bytes = fields.filter(|(_, field)| field.kind == FieldKind::Bytes);
    bytes.map(|(field, _)| field).filter(is_video).collect()
}

/// Returns no field: this build reads no video files.
#[cfg(not(feature = "video"))]
pub(crate) fn fields_of_videos(_: &dyn Source) -> Vec<usize> {
    vec![]
}
