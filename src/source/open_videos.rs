//! Opens the videos of a field of a dataset, or those of them that a file lists.

#[cfg(feature = "video")]
use super::{Buffer, VideoFiles};
use super::{Escaped, FieldKind, FrameFolders, Frames, Source};
use crate::error::{Error, fail};
#[cfg(feature = "video")]
use crate::panicked::caught;
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
    Err(no_video(dataset.field_name(field)))
}

/// Returns the error of a field of video files, which this build does not read.
#[cfg(not(feature = "video"))]
pub(crate) fn no_video(name: &str) -> Error {
    fail!(
        Unsupported,
        "field {name}: this build can't read video files: build fuseloop with the feature `video`"
    )
    .of_field(name)
}

/// Returns the fields of a dataset that may have the frames of videos: those of images that are no masks, and of video files.
/// Without any, they are those of bytes most of which begin as video files do, unless the field is `named`: bytes are video files if a
/// user says so. `setting` names a field.
///
/// # Errors
///
/// If there is none and none is named, or the field that is named has neither images nor bytes.
pub(crate) fn fields_of_frames(
    dataset: &dyn Source,
    named: Option<usize>,
    is_mask: impl Fn(usize) -> bool,
    setting: &str,
) -> Result<Vec<usize>, Error> {
    let (fields, facts) = (dataset.fields(), dataset.facts());
    let has_frames = |field: &usize| {
        fields[*field].kind.is_image() && !is_mask(*field) || facts.is_video(*field)
    };
    let found: Vec<usize> = (0..fields.len()).filter(has_frames).collect();
    if let Some(named) = named {
        let kind = &fields[named].kind;
        if !kind.is_image() && *kind != FieldKind::Bytes && !found.contains(&named) {
            let name = dataset.field_name(named);
            return Err(fail!(
                Field,
                "field {name}: only a field of images, or of bytes that are video files, can have the frames of videos"
            )
            .of_field(name));
        }
        return Ok(found);
    }
    let found = if found.is_empty() { fields_of_videos(dataset) } else { found };
    match found.is_empty() {
        true => Err(no_frames(dataset, setting, cfg!(feature = "video"))),
        false => Ok(found),
    }
}

/// Returns the error of a dataset in which no field has the frames of videos, in a build that reads video files or does not.
fn no_frames(dataset: &dyn Source, setting: &str, reads_videos: bool) -> Error {
    let name = Escaped(dataset.name());
    if !reads_videos {
        return fail!(
            Field,
            "{name}: no field has images that are the frames of videos, and this build can't read video files: build fuseloop \
             with the feature `video`"
        );
    }
    let bytes = dataset.fields().iter().filter(|field| field.kind == FieldKind::Bytes);
    let bytes: Vec<&str> = bytes.map(|field| &*field.name).collect();
    if bytes.is_empty() {
        return fail!(
            Field,
            "{name}: no field has video files, or images that are the frames of videos"
        );
    }
    let bytes = bytes.join(", ");
    fail!(
        Field,
        "{name}: no field has images that are the frames of videos, and in no field of bytes ({bytes}) do at least half of \
         the first values begin as video files do: if one of these has video files, name it ({setting})"
    )
}

/// Returns the fields of bytes of which at least half of the first eight values begin as video files do. Values that can't be
/// read are not counted. The other values of such a field are damaged video files.
#[cfg(feature = "video")]
pub fn fields_of_videos(dataset: &dyn Source) -> Vec<usize> {
    /// The number of values that are tried. Few are read, because a value may be a long file.
    const TRIED: u64 = 8;
    let is_video = |field: &usize| {
        let (mut videos, mut others) = (0, 0);
        for sample in (0..dataset.len().min(TRIED)).map(SampleId) {
            let mut buffer = Buffer::default();
            // A program's own source may panic.
            let Ok(Ok(value)) = caught(|| dataset.value(sample, *field, &mut buffer)) else {
                continue;
            };
            match VideoIndex::is_container(value.bytes()) {
                true => videos += 1,
                false => others += 1,
            }
            // The values that follow can't change what most of them are.
            if 2 * videos >= TRIED || 2 * others > TRIED {
                break;
            }
        }
        videos > 0 && videos >= others
    };
    let fields = dataset.fields().iter().enumerate();
    let bytes = fields.filter(|(_, field)| field.kind == FieldKind::Bytes);
    bytes.map(|(field, _)| field).filter(is_video).collect()
}

/// Returns no field: this build reads no video files.
#[cfg(not(feature = "video"))]
pub fn fields_of_videos(_: &dyn Source) -> Vec<usize> {
    vec![]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Column, InMemory};

    #[test]
    fn the_error_of_a_dataset_without_frames_says_what_was_looked_at() {
        let words = || Column::bytes(vec![b"one".to_vec()]);
        let bytes = InMemory::new([("a", words()), ("b", words())]).unwrap();
        let numbers = InMemory::new([("x", Column::ints([1]))]).unwrap();
        let text = |dataset: &InMemory, reads| no_frames(dataset, "`field`", reads).to_string();
        assert!(text(&bytes, true).contains("in no field of bytes (a, b) do at least half"));
        assert!(text(&bytes, true).ends_with("name it (`field`)"));
        assert!(text(&numbers, true).contains("no field has video files, or images"));
        for dataset in [&bytes, &numbers] {
            let text = text(dataset, false);
            assert!(text.contains("build fuseloop with the feature `video`"), "{text}");
            assert!(!text.contains("begin as"), "{text}");
        }
    }
}
