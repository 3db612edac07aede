//! `meta/info.json` of a LeRobot dataset: its version, its rate, its features, and the names of its files.
//!
//! ```text
//! {"codebase_version": "v3.0", "fps": 30, "total_episodes": 2, ..,
//!  "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
//!  "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
//!  "features": {
//!    "action": {"dtype": "float32", "shape": [6], "names": [..]},
//!    "observation.images.top": {"dtype": "video", "shape": [480, 640, 3], "names": ["height", "width", "channels"],
//!                               "info": {"video.is_depth_map": false, ..}}, ..}}
//! ```
//!
//! A name of a file is a path below the folder of the dataset.

use crate::error::{Error, fail};
use crate::escape::shown;
use crate::source::Escaped;
use fuseloop_ops::Size;
use serde_json::Value;
use std::path::{Component, Path, PathBuf};

/// The most bytes of the file: that of a robot with a thousand features has less than one megabyte.
pub(super) const INFO_BYTES: u64 = 4 << 20;

/// The names of files that a dataset has unless it says others.
const DATA_PATH: &str = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet";
const VIDEO_PATH: &str = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4";

/// The most digits that a number in the name of a file is padded to.
const MOST_DIGITS: usize = 18;

/// The contents of the file.
#[derive(Debug)]
pub(super) struct Info {
    /// The number of frames per second.
    pub(super) fps: f64,
    /// The features that are video files, in the order of the file.
    pub(super) cameras: Vec<Camera>,
    /// The features that are videos of depths.
    pub(super) depths: Vec<String>,
    data_path: String,
    video_path: String,
}

/// A feature whose frames are in video files.
#[derive(Debug, PartialEq)]
pub(super) struct Camera {
    pub(super) key: String,
    /// The size of its frames, if the shape tells it.
    pub(super) size: Option<Size>,
}

/// The number of a file: that of its chunk, and its own in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct FileNumber {
    pub(super) chunk: u64,
    pub(super) file: u64,
}

impl Info {
    /// Parses the text of the file.
    ///
    /// # Errors
    ///
    /// Fails if it is not the JSON of a dataset of version 3.
    pub(super) fn parse(text: &[u8]) -> Result<Self, Error> {
        let all: Value = serde_json::from_slice(text)
            .map_err(|error| fail!(Format, "it is not JSON: {error}"))?;
        check_version(&all)?;
        let fps = all.get("fps").and_then(Value::as_f64).filter(|fps| (1e-6..=1e6).contains(fps));
        let fps = fps.ok_or_else(|| {
            fail!(Format, "no `fps`, the number of frames per second, from 0.000001 to 1000000")
        })?;
        let features = all.get("features").and_then(Value::as_object);
        let features = features.ok_or_else(|| fail!(Format, "no object `features`"))?;
        let (mut cameras, mut depths) = (vec![], vec![]);
        for (key, feature) in features {
            if feature.get("dtype").and_then(Value::as_str) != Some("video") {
                continue;
            }
            if is_depth(feature) {
                depths.push(key.clone());
            } else {
                cameras.push(Camera { key: key.clone(), size: size(feature) });
            }
        }
        let path = |name: &str, default: &str| match all.get(name) {
            None | Some(Value::Null) => Ok(default.to_owned()),
            Some(Value::String(path)) => Ok(path.clone()),
            Some(_) => Err(fail!(Format, "`{name}` is no text")),
        };
        let (data_path, video_path) =
            (path("data_path", DATA_PATH)?, path("video_path", VIDEO_PATH)?);
        Ok(Self { fps, cameras, depths, data_path, video_path })
    }

    /// Returns the path of a file of data, below the folder of the dataset.
    ///
    /// # Errors
    ///
    /// Fails if the name is none of a file below that folder.
    pub(super) fn data_file(&self, number: FileNumber) -> Result<PathBuf, Error> {
        file_name("data_path", &self.data_path, "", number)
    }

    /// Returns the path of a video file of a camera, below the folder of the dataset.
    ///
    /// # Errors
    ///
    /// Fails if the name is none of a file below that folder.
    pub(super) fn video_file(&self, camera: &str, number: FileNumber) -> Result<PathBuf, Error> {
        file_name("video_path", &self.video_path, camera, number)
    }
}

/// Refuses the versions that are not read.
fn check_version(all: &Value) -> Result<(), Error> {
    let Some(version) = all.get("codebase_version").and_then(Value::as_str) else {
        return Err(fail!(
            Format,
            "no `codebase_version`, which every LeRobot dataset has: it is none, or its info.json is damaged"
        ));
    };
    let number = version.strip_prefix('v').unwrap_or(version);
    let major = number.split('.').next().and_then(|major| major.parse::<u32>().ok());
    let version = shown(version);
    let version = Escaped(&version);
    match major {
        Some(3) => Ok(()),
        Some(0..3) => Err(fail!(
            Unsupported,
            "a LeRobot dataset of version {version}, expected v3.0: convert it by LeRobot's convert_dataset_v21_to_v30.py \
             (python -m lerobot.scripts.convert_dataset_v21_to_v30 --repo-id NAME --root FOLDER), and one before v2.1 to \
             v2.1 first"
        )),
        _ => Err(fail!(
            Unsupported,
            "a LeRobot dataset of version {version}, expected v3.0: update Fuseloop, or write the dataset as v3.0"
        )),
    }
}

/// Returns whether the frames of a feature are depths.
fn is_depth(feature: &Value) -> bool {
    let of = |info: &str, name: &str| feature.get(info)?.get(name)?.as_bool();
    let names = [
        ("info", "is_depth_map"),
        ("info", "video.is_depth_map"),
        ("video_info", "video.is_depth_map"),
    ];
    names.into_iter().any(|(info, name)| of(info, name) == Some(true))
}

/// Returns the size of the frames of a feature: that of its shape, whose axes have names.
fn size(feature: &Value) -> Option<Size> {
    let shape = feature.get("shape")?.as_array()?;
    let sides =
        shape.iter().map(|side| u32::try_from(side.as_u64()?).ok().filter(|side| *side > 0));
    let sides: Vec<u32> = sides.collect::<Option<_>>()?;
    let names = feature.get("names").and_then(Value::as_array);
    let axis = |name: &str| names?.iter().position(|axis| axis.as_str() == Some(name));
    match (&sides[..], axis("height"), axis("width")) {
        ([_, _, _], Some(height), Some(width)) => {
            Some(Size::new(*sides.get(height)?, *sides.get(width)?))
        }
        ([height, width, 3], None, None) => Some(Size::new(*height, *width)),
        _ => None,
    }
}

/// Returns the path that a name stands for: in `{chunk_index:03d}` a number is at least three digits long.
fn file_name(
    setting: &str,
    name: &str,
    camera: &str,
    FileNumber { chunk, file }: FileNumber,
) -> Result<PathBuf, Error> {
    let refused = |reason: &str| {
        let name = shown(name);
        let name = Escaped(&name);
        fail!(
            Format,
            "`{setting}` is {name}: {reason}, expected a path such as data/chunk-{{chunk_index:03d}}/file-{{file_index:03d}}.parquet"
        )
    };
    let (mut path, mut rest) = (String::new(), name);
    while let Some((before, after)) = rest.split_once('{') {
        let (field, after) = after.split_once('}').ok_or_else(|| refused("a brace is open"))?;
        path += before;
        let (field, format) = field.split_once(':').unwrap_or((field, ""));
        let number = match field {
            "video_key" if format.is_empty() => {
                path += camera;
                rest = after;
                continue;
            }
            "chunk_index" => chunk,
            "file_index" => file,
            _ => return Err(refused("it has a field that is not known")),
        };
        let digits = match format {
            "" | "d" => Some(0),
            format => {
                let width = format.strip_suffix('d').unwrap_or(format).strip_prefix('0');
                width.and_then(|width| width.parse().ok()).filter(|width| *width <= MOST_DIGITS)
            }
        };
        let digits = digits.ok_or_else(|| refused("the format of a number is not known"))?;
        path += &format!("{number:0digits$}");
        rest = after;
    }
    path += rest;
    let mut parts = Path::new(&path).components();
    let is_below = !path.is_empty()
        && !path.contains(['\\', '\0'])
        && parts.all(|part| matches!(part, Component::Normal(_)));
    if is_below {
        Ok(path.into())
    } else {
        Err(refused("it is no path below the dataset's folder"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parsed(info: &Value) -> Result<Info, String> {
        Info::parse(info.to_string().as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn cameras_are_the_features_that_are_videos() {
        let hwc = json!({"dtype": "video", "shape": [48, 64, 3], "names": ["height", "width", "channels"]});
        let chw = json!({"dtype": "video", "shape": [3, 48, 64], "names": ["channels", "height", "width"]});
        let depth =
            json!({"dtype": "video", "shape": [48, 64, 1], "info": {"video.is_depth_map": true}});
        let info = parsed(&json!({
            "codebase_version": "v3.0", "fps": 30,
            "features": {"b": hwc, "a": chw, "depth": depth, "unknown": {"dtype": "video", "shape": [1]},
                         "action": {"dtype": "float32", "shape": [2]}},
        }));
        let info = info.unwrap();
        let size = Some(Size::new(48, 64));
        let camera = |key: &str, size| Camera { key: key.to_owned(), size };
        assert_eq!(info.cameras, [camera("b", size), camera("a", size), camera("unknown", None)]);
        assert_eq!((info.fps, info.depths), (30.0, vec!["depth".to_owned()]));
    }

    #[test]
    fn other_versions_are_refused_with_the_cure() {
        let of = |version: Value| {
            parsed(&json!({"codebase_version": version, "fps": 30, "features": {}})).map(drop)
        };
        for version in ["v2.0", "v2.1", "v1.6", "2.1"] {
            let error = of(version.into()).unwrap_err();
            assert!(
                error.contains(version) && error.contains("convert_dataset_v21_to_v30"),
                "{error}"
            );
        }
        assert!(of("v4.0".into()).unwrap_err().contains("update Fuseloop"));
        assert!(of("\n".into()).is_err() && of(3.into()).is_err());
        assert!(of("v3.1".into()).is_ok());
        for text in ["", "[]", "{", "null", "{\"codebase_version\": \"v3.0\", \"fps\": 0}"] {
            assert!(Info::parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn names_of_files_stay_below_the_folder() {
        let number = FileNumber { chunk: 2, file: 1234 };
        let name = |name: &str, camera: &str| file_name("data_path", name, camera, number);
        assert_eq!(name(DATA_PATH, "").unwrap(), Path::new("data/chunk-002/file-1234.parquet"));
        let video = name(VIDEO_PATH, "observation.images.top").unwrap();
        assert_eq!(video, Path::new("videos/observation.images.top/chunk-002/file-1234.mp4"));
        assert_eq!(name("{chunk_index}-{file_index:d}", "").unwrap(), Path::new("2-1234"));
        for refused in [
            "",
            "/etc/passwd",
            "../x",
            "a/../b",
            "{episode_index}",
            "{file_index",
            "{file_index:099d}",
            "{file_index:x}",
            "a\\b",
            "a\0",
        ] {
            assert!(name(refused, "").is_err(), "{refused}");
        }
        assert!(name(VIDEO_PATH, "../..").is_err());
    }
}
