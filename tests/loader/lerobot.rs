//! Datasets of LeRobot: a batch has the rows and the frames that `LeRobotDataset` selects, nothing depends on workers or
//! where a run began, and what can't be read is refused by name.
//!
//! The dataset and the selected rows are those of `scripts/lerobot_goldens.py`: the frame of row n is gray of the level
//! 30 + 10 n for one camera, and 220 - 10 n for the other; images have the level 5 n.

use fuseloop::internals::info::DatasetSummary;
use fuseloop::loader::Cache;
use fuseloop::source::{Concat, Dataset, LeRobot, LeRobotOptions, Source};
use fuseloop::verify::{VerifyOptions, verify};
use fuseloop::{Batch, Cursor, ErrorKind, Loader, LoaderBuilder, OnDamaged, Order, ops::*};
use serde_json::Value as Json;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const TOP: &str = "observation.images.top";
const WRIST: &str = "observation.images.wrist";
const STILL: &str = "observation.still";

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/lerobot")
}

/// Copies the dataset.
fn copy() -> tempfile::TempDir {
    fn copy_all(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let to = to.join(entry.file_name());
            match entry.file_type().unwrap().is_dir() {
                true => copy_all(&entry.path(), &to),
                false => drop(fs::copy(entry.path(), to).unwrap()),
            }
        }
    }
    let dir = tempfile::tempdir().unwrap();
    copy_all(&golden(), dir.path());
    dir
}

fn expected() -> Json {
    serde_json::from_slice(&fs::read(golden().join("expected.json")).unwrap()).unwrap()
}

fn floats(list: &Json) -> Vec<f64> {
    list.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

fn ints(list: &Json) -> Vec<i64> {
    list.as_array().unwrap().iter().map(|number| number.as_i64().unwrap()).collect()
}

/// Returns the options with the deltas of the goldens.
fn deltas() -> LeRobotOptions {
    let all = expected();
    let deltas = all["deltas"].as_object().unwrap();
    deltas.iter().fold(LeRobotOptions::default(), |options, (key, seconds)| {
        options.delta_timestamps(key, floats(seconds))
    })
}

/// Returns a loader of which images of unknown size are cut.
fn builder(dir: &Path, options: &LeRobotOptions) -> LoaderBuilder {
    let loader = Loader::from_source(LeRobot::open(dir, options).unwrap());
    loader.pipeline(STILL, ops![CenterCrop::new((8, 12)).unwrap()])
}

fn refused(dir: &Path, options: &LeRobotOptions) -> String {
    LeRobot::open(dir, options).unwrap_err().to_string()
}

fn batches(loader: &Loader, epoch: u32) -> Vec<Batch> {
    loader.epoch(epoch).unwrap().map(Result::unwrap).collect()
}

/// Returns the row whose frame has the level of these pixels, all of which have it.
fn row_of(camera: &str, pixels: &[u8]) -> i64 {
    let mean = pixels.iter().map(|level| f64::from(*level)).sum::<f64>() / pixels.len() as f64;
    assert!(pixels.iter().all(|level| (f64::from(*level) - mean).abs() < 4.0), "{camera}: no gray");
    let row = match camera {
        TOP => (mean - 30.0) / 10.0,
        WRIST => (220.0 - mean) / 10.0,
        _ => mean / 5.0,
    };
    assert!((row - row.round()).abs() < 0.4, "{camera}: level {mean}");
    row.round() as i64
}

#[test]
fn a_batch_has_what_lerobot_selects() {
    let all = expected();
    let loader = builder(&golden(), &deltas()).batch_size(18).build().unwrap();
    let batch = batches(&loader, 0).remove(0);
    let samples = all["samples"].as_array().unwrap();
    assert_eq!(batch.len(), samples.len());
    let deltas = all["deltas"].as_object().unwrap();
    for (camera, shape) in [(TOP, [32, 48, 3]), (WRIST, [32, 48, 3]), (STILL, [8, 12, 3])] {
        let count = deltas[camera].as_array().unwrap().len();
        let frames = batch.tensor::<u8>(camera).unwrap();
        assert_eq!(frames.shape(), [&[18, count], &shape[..]].concat());
        let bytes = shape.iter().product::<usize>();
        let found: Vec<_> =
            frames.as_slice().chunks(bytes).map(|image| row_of(camera, image)).collect();
        for (sample, found) in samples.iter().zip(found.chunks(count)) {
            let frames = sample["frames"].get(camera).unwrap_or(&sample["rows"][camera]);
            assert_eq!(found, ints(frames), "{camera}");
        }
    }
    for (key, seconds) in deltas {
        let name = format!("{key}_is_pad");
        let pads = batch.tensor::<u8>(&name).unwrap();
        let count = seconds.as_array().unwrap().len();
        assert_eq!(pads.shape(), [18, count]);
        for (sample, found) in samples.iter().zip(pads.as_slice().chunks(count)) {
            let pads = sample["is_pad"][&name].as_array().unwrap();
            let pads: Vec<u8> = pads.iter().map(|pad| pad.as_bool().unwrap().into()).collect();
            assert_eq!(found, pads, "{name}");
        }
    }
    let actions = batch.tensor::<f32>("action").unwrap();
    assert_eq!(actions.shape(), [18, 4, 2]);
    let rewards = batch.tensor::<f32>("reward").unwrap();
    let tasks = batch.tensor::<i64>("task_index").unwrap();
    assert_eq!((rewards.shape(), tasks.shape()), (&[18, 2][..], &[18, 1][..]));
    let states = batch.tensor::<f32>("observation.state").unwrap();
    let texts = batch.tensor::<u8>("task").unwrap();
    let length = texts.shape()[1];
    for (index, sample) in samples.iter().enumerate() {
        let action: Vec<f64> =
            sample["action"].as_array().unwrap().iter().flat_map(floats).collect();
        let own = |values: &[f32], count: usize| -> Vec<f64> {
            values[index * count..][..count].iter().map(|value| f64::from(*value)).collect()
        };
        assert_eq!(own(actions.as_slice(), 8), action);
        assert_eq!(own(rewards.as_slice(), 2), floats(&sample["reward"]));
        assert_eq!(own(states.as_slice(), 3), floats(&sample["state"]));
        assert_eq!([tasks.as_slice()[index]][..], ints(&sample["task_index"]));
        let text = &texts.as_slice()[index * length..][..length];
        let text = std::str::from_utf8(text).unwrap().trim_end_matches('\0');
        assert_eq!(text, sample["task"].as_str().unwrap());
        let time = batch.tensor::<f64>("timestamp").unwrap().as_slice()[index];
        assert_eq!(time, sample["timestamp"].as_f64().unwrap());
    }
    let index = batch.tensor::<i64>("index").unwrap();
    assert!(index.as_slice().iter().copied().eq(0..18));
}

#[test]
fn without_deltas_a_sample_is_a_row_with_one_image_of_each_camera() {
    let loader = Loader::open(golden()).unwrap().without(STILL).batch_size(5).seed(3);
    let cut = ops![CenterCrop::new(8).unwrap(), ToChannelsFirst];
    let loader = loader.order(Order::Random).pipeline(TOP, cut);
    let all = expected();
    let mut seen = 0;
    for batch in batches(&loader.build().unwrap(), 0) {
        let index = batch.tensor::<i64>("index").unwrap().as_slice().to_vec();
        seen += index.len();
        let (top, wrist) = (batch.tensor::<u8>(TOP).unwrap(), batch.tensor::<u8>(WRIST).unwrap());
        assert_eq!(top.shape(), [index.len(), 3, 8, 8]);
        assert_eq!(wrist.shape(), [index.len(), 32, 48, 3]);
        for (place, row) in index.iter().enumerate() {
            let alone = &all["samples"][*row as usize]["alone"];
            let own = &top.as_slice()[place * 192..][..192];
            assert_eq!(row_of(TOP, own), ints(&alone[TOP])[0]);
            let own = &wrist.as_slice()[place * 4608..][..4608];
            assert_eq!(row_of(WRIST, own), ints(&alone[WRIST])[0]);
        }
    }
    assert_eq!(seen, 18);
}

#[test]
fn chosen_episodes_need_their_own_files_alone() {
    let dir = copy();
    for file in
        ["data/chunk-000/file-000.parquet", "videos/observation.images.top/chunk-000/file-000.mp4"]
    {
        fs::remove_file(dir.path().join(file)).unwrap();
    }
    let rows = |dir: &Path, episodes: &[u64]| {
        let options = deltas().episodes(episodes.iter().copied());
        let loader = builder(dir, &options).batch_size(30).build().unwrap();
        let batch = batches(&loader, 0).remove(0);
        let rows = batch.tensor::<i64>("index").unwrap().as_slice().to_vec();
        let frames = batch.tensor::<u8>(TOP).unwrap();
        let frames: Vec<i64> =
            frames.as_slice().chunks(4608).map(|image| row_of(TOP, image)).collect();
        (rows, frames)
    };
    let all = expected();
    for (dir, episodes, expected) in [
        (dir.path(), &[2][..], (12..18).collect::<Vec<i64>>()),
        (&golden(), &[2, 0], (0..7).chain(12..18).collect()),
        (&golden(), &[1], (7..12).collect()),
    ] {
        let (found, frames) = rows(dir, episodes);
        assert_eq!(found, expected);
        let selected =
            found.iter().flat_map(|row| ints(&all["samples"][*row as usize]["frames"][TOP]));
        assert_eq!(frames, selected.collect::<Vec<_>>());
    }
    let text = refused(dir.path(), &deltas());
    assert!(text.contains("file-000.parquet"), "{text}");
    for (episodes, words) in
        [(&[3][..], "no episode 3: the dataset has 3"), (&[1, 1], "given twice"), (&[], "is empty")]
    {
        let text = refused(&golden(), &LeRobotOptions::default().episodes(episodes.to_vec()));
        assert!(text.contains(words), "{text}");
    }
}

fn augmented() -> Ops {
    ops![RandomCrop::new(16).unwrap(), ColorJitter::new(0.5, 0.5, 0.0).unwrap(), ToChannelsFirst]
}

/// Returns the tensors of each sample.
fn rows(batches: impl IntoIterator<Item = Batch>) -> Vec<(i64, Vec<u8>, Vec<u8>)> {
    let mut all = vec![];
    for batch in batches {
        let index = batch.tensor::<i64>("index").unwrap().as_slice().to_vec();
        let [top, wrist] = [TOP, WRIST].map(|name| {
            let tensor = batch.tensor::<u8>(name).unwrap();
            let row = tensor.as_slice().len() / index.len();
            tensor.as_slice().chunks(row).map(<[u8]>::to_vec).collect::<Vec<_>>()
        });
        all.extend(
            index.into_iter().zip(top).zip(wrist).map(|((index, top), wrist)| (index, top, wrist)),
        );
    }
    all
}

#[test]
fn nothing_depends_on_workers_or_where_a_run_began() {
    let of = |workers, size| {
        let loader = builder(&golden(), &deltas()).order(Order::Random).seed(7);
        let loader = loader.pipeline(TOP, augmented()).pipeline(WRIST, augmented());
        loader.workers(workers).batch_size(size)
    };
    let undisturbed = rows(batches(&of(1, 4).build().unwrap(), 1));
    assert_eq!(undisturbed.len(), 18);
    for (workers, size) in [(2, 4), (5, 1), (3, 18)] {
        assert!(rows(batches(&of(workers, size).build().unwrap(), 1)) == undisturbed);
    }
    let loader = of(2, 4).build().unwrap();
    for taken in [0, 1, 3] {
        let mut run = loader.epoch(1).unwrap();
        (0..taken).for_each(|_| drop(run.next().unwrap().unwrap()));
        let cursor: Cursor = run.cursor().unwrap().to_string().parse().unwrap();
        let rest = of(3, 4).build().unwrap();
        let rest = rows(rest.resume(&cursor).unwrap().map(Result::unwrap));
        assert!(rest == undisturbed[4 * taken..], "after {taken}");
    }
    // Other rows are another dataset.
    let cursor = loader.epoch(0).unwrap().cursor().unwrap();
    let other = builder(&golden(), &deltas().episodes([0, 1])).order(Order::Random).seed(7);
    assert!(other.batch_size(4).build().unwrap().resume(&cursor).is_err());
}

#[test]
fn the_frames_of_a_sample_have_the_draws_of_one_image() {
    let pixels = |options: &LeRobotOptions| {
        let loader = builder(&golden(), options).seed(5).batch_size(18).pipeline(TOP, augmented());
        let batch = batches(&loader.build().unwrap(), 2).remove(0);
        batch.tensor::<u8>(TOP).unwrap().as_slice().to_vec()
    };
    let alone = pixels(&LeRobotOptions::default());
    let several = pixels(&LeRobotOptions::default().delta_timestamps(TOP, [0.0, 0.0, 0.0]));
    let expected = alone.chunks(768).flat_map(|image| image.repeat(3)).collect::<Vec<_>>();
    assert!(several == expected);
}

#[test]
fn damaged_videos_are_damaged_samples_whose_errors_name_the_file() {
    let dir = copy();
    let video = dir.path().join("videos/observation.images.top/chunk-000/file-001.mp4");
    let bytes = fs::read(&video).unwrap();
    let errors = |bytes: &[u8]| {
        fs::write(&video, bytes).unwrap();
        let of = |policy| {
            builder(dir.path(), &deltas()).batch_size(3).on_damaged(policy).build().unwrap()
        };
        let error = of(OnDamaged::Fail).get(&[17], 0).err().unwrap();
        assert_eq!(error.path(), Some(&*video), "{error}");
        let good: usize = batches(&of(OnDamaged::Skip), 0).iter().map(|batch| batch.len()).sum();
        (error.to_string(), good)
    };
    let (text, good) = errors(&bytes[..bytes.len() / 2]);
    assert!(text.contains("file-001.mp4") && good == 12, "{good}: {text}");
    let (_, good) = errors(b"");
    assert_eq!(good, 12);
    // The video of another camera, of other times: that of all episodes is longer, and its frames are of other rows.
    let other =
        fs::read(dir.path().join("videos/observation.images.top/chunk-000/file-000.mp4")).unwrap();
    fs::write(&video, &other).unwrap();
    assert!(builder(dir.path(), &deltas()).build().unwrap().get(&[17], 0).is_ok());
    fs::remove_file(&video).unwrap();
    let error = builder(dir.path(), &deltas()).build().unwrap().get(&[12], 0).err().unwrap();
    assert!(error.to_string().contains("file-001.mp4"), "{error}");
    let video = dir.path().join("videos/observation.images.top/chunk-000/file-000.mp4");
    fs::write(&video, &bytes).unwrap();
    let error = builder(dir.path(), &deltas()).build().unwrap().get(&[11], 0).err().unwrap();
    let text = error.to_string();
    assert!(text.contains("row 2 of episode 1 is at 0.9") && text.contains("tolerance"), "{text}");
    assert_eq!(error.kind(), ErrorKind::Damaged);
}

/// Replaces a text in `meta/info.json`.
fn with_info(change: impl Fn(String) -> String) -> tempfile::TempDir {
    let dir = copy();
    let path = dir.path().join("meta/info.json");
    fs::write(&path, change(fs::read_to_string(&path).unwrap())).unwrap();
    dir
}

#[test]
fn other_versions_and_damaged_tables_are_refused_by_name() {
    let of = |from: &str, to: &str| {
        let dir = with_info(|text| text.replace(from, to));
        Dataset::open(dir.path()).map(drop).unwrap_err().to_string()
    };
    let text = of("v3.0", "v2.1");
    assert!(text.contains("info.json") && text.contains("convert_dataset_v21_to_v30"), "{text}");
    let text = of("data/chunk-{chunk_index:03d}", "../{chunk_index:03d}");
    assert!(text.contains("no path below"), "{text}");
    let text = of("\"observation.images.top\": {", "\"camera\": {");
    assert!(text.contains("videos/camera/chunk_index") && text.contains("episodes"), "{text}");
    let text = of("\"fps\": 10,", "\"fps\": -1,");
    assert!(text.contains("`fps`"), "{text}");
    let info = fs::read(golden().join("meta/info.json")).unwrap();
    let dir = copy();
    for length in (0..info.len() - 2).step_by(37) {
        fs::write(dir.path().join("meta/info.json"), &info[..length]).unwrap();
        assert!(Dataset::open(dir.path()).is_err(), "{length}");
    }
    fs::write(dir.path().join("meta/info.json"), &info).unwrap();
    // The rows of another file.
    let data = |file: u32| dir.path().join(format!("data/chunk-000/file-{file:03}.parquet"));
    fs::copy(data(1), data(0)).unwrap();
    let text = refused(dir.path(), &LeRobotOptions::default());
    assert!(text.contains("file-000.parquet: 6 rows, and its episodes have 12"), "{text}");
    fs::remove_dir_all(dir.path().join("meta/episodes")).unwrap();
    let text = refused(dir.path(), &LeRobotOptions::default());
    assert!(text.contains("episodes"), "{text}");
}

#[test]
fn flipped_bits_of_the_tables_are_errors_or_other_values() {
    let dir = copy();
    for file in ["meta/episodes/chunk-000/file-000.parquet", "meta/tasks.parquet"] {
        let path = dir.path().join(file);
        let bytes = fs::read(&path).unwrap();
        for place in (0..bytes.len()).step_by(29) {
            let mut changed = bytes.clone();
            changed[place] ^= 1 << (place % 8);
            fs::write(&path, &changed).unwrap();
            let Ok(source) = LeRobot::open(dir.path(), &deltas()) else { continue };
            for sample in [0, 8, 17] {
                drop(source.read(fuseloop::SampleId(sample)));
            }
        }
        fs::write(&path, &bytes).unwrap();
    }
}

#[test]
fn a_frame_of_another_size_than_its_camera_is_damage() {
    let dir = with_info(|text| text.replace("    32,\n    48,\n", "    30,\n    48,\n"));
    let loader = builder(dir.path(), &deltas()).build().unwrap();
    let text = loader.get(&[0], 0).err().unwrap().to_string();
    assert!(text.contains("a frame of 48 x 32 pixels, and meta/info.json says 48 x 30"), "{text}");
    let source = LeRobot::open(dir.path(), &LeRobotOptions::default()).unwrap();
    assert!(source.read(fuseloop::SampleId(0)).is_err());
}

#[test]
fn settings_that_do_not_fit_are_refused() {
    let options = LeRobotOptions::default;
    for (options, words) in [
        (options().delta_timestamps("action", [0.0, 0.15]), "no multiple of 1/10"),
        (options().delta_timestamps("action", [f64::NAN]), "no multiple"),
        (options().delta_timestamps("action", [1e300]), "no multiple"),
        (options().delta_timestamps("action", []), "0 times"),
        (options().delta_timestamps("act", [0.0]), "no feature; available: observation.images.top"),
        (
            options().delta_timestamps("action", [0.0]).delta_timestamps("action", [0.1]),
            "given twice",
        ),
        (options().tolerance(-1.0), "a tolerance of -1"),
        (options().tolerance(f64::NAN), "a tolerance of NaN"),
    ] {
        let text = refused(&golden(), &options);
        assert!(text.contains(words), "{text}");
    }
    assert!(
        LeRobot::open(golden(), &options().tolerance(0.06).delta_timestamps("action", [0.15]))
            .is_ok()
    );
    let build = |loader: LoaderBuilder| loader.build().err().unwrap().to_string();
    let text = build(builder(&golden(), &deltas()).cache(Cache::memory(1 << 20)));
    assert!(text.contains("frames of cameras can't be used with a cache"), "{text}");
    // Samples of several frames are read by a loader of the dataset itself.
    let open = || Arc::new(LeRobot::open(golden(), &deltas()).unwrap()) as Arc<dyn Source>;
    let both = Loader::from_source(Concat::new([open(), open()]).unwrap()).without(STILL);
    let both = both.build().unwrap();
    let text = both.get(&[0], 0).err().unwrap().to_string();
    assert!(text.contains("leave out its delta_timestamps"), "{text}");
    let open = || Arc::new(LeRobot::open(golden(), &options()).unwrap()) as Arc<dyn Source>;
    let both = Loader::from_source(Concat::new([open(), open()]).unwrap()).without(STILL);
    assert_eq!(batches(&both.batch_size(36).build().unwrap(), 0)[0].len(), 36);
}

#[test]
fn the_dataset_is_shown_and_verified() {
    let dataset = Dataset::open(golden()).unwrap();
    let text = DatasetSummary::of(&dataset).unwrap().to_string();
    for words in
        ["18 samples", "observation.images.top", "array <f4 [2]", "episode_000002/frame_000005"]
    {
        assert!(text.contains(words), "{words}: {text}");
    }
    let source = dataset.source().unwrap();
    let report = verify(&*source, &VerifyOptions::default(), &|_| ()).unwrap();
    assert!(report.is_whole() && report.samples == 18, "{:?}", report.first);
}
