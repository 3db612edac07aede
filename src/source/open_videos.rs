//! Opens the videos of a field of a dataset, or those of them that a file lists.

#[cfg(feature = "video")]
use super::VideoFiles;
use super::{FrameFolders, Frames, Source};
use crate::error::Error;
#[cfg(not(feature = "video"))]
use crate::error::fail;
use crate::sample::Limits;
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
