//! `capacity`: what it computes is what a hand computes, and docs/more_machines.md shows what it prints.

use crate::command::{dataset, refused, stdout_of};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// 64 GPUs in 8 nodes that consume 3,000 images/s each; an image takes 0.5 ms and has 100 kB as a file and 600 kB in a batch.
const GIVEN: [&str; 15] = [
    "capacity",
    "--gpus",
    "64",
    "--images-per-gpu",
    "3000",
    "--cores",
    "26",
    "--nodes",
    "8",
    "--cpu-ms",
    "0.5",
    "--stored",
    "100kB",
    "--delivered",
    "600kB",
];

/// Returns the given arguments with others, which replace those of the same name.
fn given_with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let mut args: Vec<&str> = GIVEN.to_vec();
    for pair in more.chunks(2) {
        match args.iter().position(|arg| *arg == pair[0]) {
            Some(at) => args[at + 1] = pair[1],
            None => args.extend(pair),
        }
    }
    args
}

fn json_of(more: &[&str]) -> Value {
    let args = [&given_with(more)[..], &["--json"]].concat();
    serde_json::from_str(&stdout_of(Path::new("."), &args)).unwrap()
}

fn assert_near(found: &Value, expected: f64) {
    let found = found.as_f64().unwrap();
    assert!((found - expected).abs() < 1e-6 * expected, "{found}, not {expected}");
}

#[test]
fn the_report_has_what_is_computed_by_hand() {
    let json = json_of(&[]);
    assert_near(&json["demand"], 192_000.0);
    assert_eq!(
        (&json["bound"], &json["loader_nodes"]["use"]),
        (&"gpus".into(), &"not_needed".into())
    );
    // 24,000 images/s of a node, each 0.5 ms.
    assert_near(&json["cores_needed_per_node"], 12.0);
    // 8 nodes * 26 cores / 0.5 ms are 416,000 images/s.
    let cpu = &json["resources"][1];
    assert_eq!(cpu["resource"], "cpu");
    assert_near(&cpu["images_per_second"], 416_000.0);
    assert_near(&cpu["headroom"], 416.0 / 192.0);
    assert_eq!(json["resources"].as_array().unwrap().len(), 2, "what is not known is not listed");

    // 1.5 GB/s a node are 15,000 files a second, 120,000 for 8 nodes.
    let json = json_of(&["--storage", "1.5GB"]);
    assert_eq!(json["bound"], "storage");
    assert_near(&json["images_per_second"], 120_000.0);
    // The dataset fits into the page cache.
    let cached = ["--storage", "1.5GB", "--memory", "200GB", "--dataset-size", "150GB"];
    let json = json_of(&cached);
    assert_eq!((&json["bound"], &json["cached"]), (&"gpus".into(), &1.0.into()));
    assert_eq!(json["resources"][2]["images_per_second"], Value::Null, "no storage is needed");
    let text = stdout_of(Path::new("."), &given_with(&cached));
    assert!(text.contains("any") && text.contains("100 % of the reads"), "{text}");

    // 10 GB/s for all are 100,000 files a second, and 8 Gbit/s a node are 10,000: 80,000 for 8 nodes.
    let shared = ["--shared-storage", "10GB", "--network", "8Gbit"];
    let json = json_of(&shared);
    assert_eq!(
        (&json["bound"], &json["loader_nodes"]["use"]),
        (&"network".into(), &"no_network".into())
    );
    assert_near(&json["images_per_second"], 80_000.0);
    // 1.2 GB/s a GPU are 2,000 images/s, 128,000 for 64.
    let json = json_of(&["--copy", "1.2GB/s"]);
    assert_eq!(json["bound"], "copy");
    assert_near(&json["images_per_second"], 128_000.0);
}

#[test]
fn loader_nodes_are_as_many_as_a_hand_computes() {
    // 4 cores prepare 8,000 of 24,000 images/s. The other 128,000 of all nodes are the work of 64 cores: 4 nodes of 16.
    // A node receives 16,000 * 600 kB.
    let json = json_of(&["--cores", "4", "--loader-cores", "16"]);
    let nodes = &json["loader_nodes"];
    assert_eq!(
        (&json["bound"], &nodes["use"], &nodes["count"]),
        (&"cpu".into(), &"raise".into(), &4.into())
    );
    assert_near(&nodes["images_per_second"], 192_000.0);
    assert_near(&nodes["received_bytes_per_second"], 9.6e9);
    // 3 GB/s carry 5,000 images/s in batches: 13,000 a node, and as each loader node sends 5,000, there are 8.
    let json = json_of(&["--cores", "4", "--loader-cores", "16", "--network", "24Gbit"]);
    let nodes = &json["loader_nodes"];
    assert_eq!((&nodes["use"], &nodes["count"]), (&"raise_to_the_network".into(), &8.into()));
    assert_near(&nodes["images_per_second"], 104_000.0);
}

#[test]
fn a_dataset_is_measured() {
    let dir = dataset();
    let args =
        ["capacity", "photos.beton", "--gpus", "2", "--images-per-gpu", "1e9", "--cores", "1"];
    let json = stdout_of(dir.path(), &[&args[..], &["-b", "2", "--json"]].concat());
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["bound"], &json["batch_size"], &json["nodes"]),
        (&"cpu".into(), &2.into(), &1.into())
    );
    // f32 [3, 224, 224] and an i64.
    assert_near(&json["delivered_bytes_per_image"], 602_120.0);
    let files: u64 = ["cat/0", "cat/1", "cat/2", "dog/3", "dog/4", "dog/5"]
        .map(|name| fs::metadata(dir.path().join(format!("photos/{name}.jpg"))).unwrap().len())
        .iter()
        .sum();
    // A label of 8 bytes each.
    assert_near(&json["stored_bytes_per_image"], files as f64 / 6.0 + 8.0);
    let ms = json["cpu_ms_per_image"].as_f64().unwrap();
    assert!(ms > 0.01 && ms < 1e3, "{ms}");
    assert_eq!(json["cpu_ms_from"], "measured");

    // An epoch of enough batches is measured between two of them.
    let json =
        stdout_of(dir.path(), &[&args[..], &["-b", "1", "--batches", "3", "--json"]].concat());
    let json: Value = serde_json::from_str(&json).unwrap();
    assert!(json["cpu_ms_per_image"].as_f64().unwrap() >= 0.0);
    let text =
        stdout_of(dir.path(), &[&args[..], &["--memory", "1GB", "--storage", "1GB"]].concat());
    assert!(
        text.contains("in a batch (measured)") && text.contains("100 % of the reads"),
        "{text}"
    );
    assert!(text.contains("bound         CPU: "), "{text}");
}

#[test]
fn the_command_is_also_called_plan() {
    let dir = Path::new(".");
    let plan = [&["plan"], &GIVEN[1..]].concat();
    assert_eq!(stdout_of(dir, &plan), stdout_of(dir, &GIVEN));
}

#[test]
fn numbers_that_mean_nothing_are_refused_with_the_cure() {
    let dir = dataset();
    let below = ["0", "-1", "NaN", "inf", "1e99"];
    for (option, values, cure) in [
        ("--gpus", &["0", "-1", "2.5"][..], "expected a whole number of at least 1"),
        ("--cores", &["0", "-4", "x"], "expected a whole number of at least 1"),
        ("--images-per-gpu", &below, "expected a number above 0"),
        ("--cpu-ms", &below, "expected a number above 0"),
        ("--network", &["100", "0GB", "NaNGB"], "such as 2.5GB or 100Gbit"),
        ("--stored", &["100", "0kB", "infkB"], "such as 110kB"),
    ] {
        for value in values {
            let args = given_with(&[option, value]);
            let (code, errors) = refused(dir.path(), &args);
            assert!(code == 2 && errors.contains(cure), "{option} {value}: {errors}");
        }
    }
    let base = ["capacity", "--gpus", "6", "--images-per-gpu", "100", "--cores", "4"];
    for (more, message, cure) in [
        (&["--nodes", "4"][..], "6 GPUs are not 4 nodes", "set `--nodes` to a divisor"),
        (&["--memory", "1GB"], "the size of the dataset is not known", "set `--dataset-size`"),
        (&["--workload", "W3"], "no dataset to measure it on", "name a dataset, or set `--cpu-ms`"),
        (&["no.beton"], "no.beton", "lists the kinds of datasets"),
    ] {
        let (code, errors) = refused(dir.path(), &[&base[..], more].concat());
        assert!(
            code == 1 && errors.contains(message) && errors.contains(cure),
            "{more:?}: {errors}"
        );
    }
}

/// Each command of the page stands before what it prints.
#[test]
fn the_page_shows_what_the_command_prints() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/more_machines.md");
    let text = fs::read_to_string(&page).unwrap();
    let mut compared = 0;
    for part in text.split("```sh\n").skip(1) {
        let (line, rest) = part.split_once("\n```\n").unwrap();
        let Some((_, shown)) =
            rest.split_once("```text\n").filter(|(between, _)| between.trim().is_empty())
        else {
            continue;
        };
        let shown = shown.split_once("```").unwrap().0;
        let words: Vec<&str> = line.split_whitespace().skip(1).collect();
        let printed = stdout_of(Path::new("."), &words);
        assert!(
            printed == shown,
            "docs/more_machines.md does not show what `{line}` prints:\n{printed}"
        );
        compared += 1;
    }
    assert_eq!(compared, 2);
}

/// The bytes of a clip are given, and all else is measured.
#[cfg(feature = "video")]
#[test]
fn clips_of_videos_are_measured_with_their_bytes_given() {
    let dir = tempfile::tempdir().unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../video/tests/golden/frames");
    fs::create_dir_all(dir.path().join("clips/ride")).unwrap();
    fs::copy(golden.join("high.mp4"), dir.path().join("clips/ride/v1.mp4")).unwrap();
    let mut args =
        vec!["capacity", "clips", "--gpus", "1", "--images-per-gpu", "10", "--cores", "4"];
    let (_, error) = refused(dir.path(), &args);
    assert!(error.contains("--set clips.sampler=random --set clips.frames=16"), "{error}");
    args.extend(["--set", "clips.sampler=random", "--set", "clips.frames=16", "--batch-size", "1"]);
    let (_, error) = refused(dir.path(), &args);
    assert!(error.contains("are not measured\nhelp: set `--stored`"), "{error}");
    let text = stdout_of(dir.path(), &[&args[..], &["--stored", "3kB"]].concat());
    let line = text.lines().find(|line| line.starts_with("an image, which is a clip: "));
    assert!(line.is_some_and(|line| line.contains("3.0 kB stored (given)")), "{text}");
}
