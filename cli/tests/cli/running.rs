//! The commands that run a dataset: `bench`, `verify` and `dump`, with pipelines, ranks and traces.

use crate::command::{dataset, fuseloop, npy, refused, stdout_of};
use fuseloop::internals::workload::Workload;
use fuseloop::source::OpenOptions;
use fuseloop::{Loader, Order, Spec};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn info_shows_what_it_can_of_a_file_with_a_user_defined_field() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/beton");
    let file = "custom_field_p4k.beton";
    let text = stdout_of(&golden, &["info", file]);
    for word in [
        "3 samples",
        "2 fields, 3 stored values",
        "a_name_longer_th custom",
        "i                int",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(text.contains("`--custom a_name_longer_th=BYTES:ALIGN`"), "{text}");
    let json: Value = serde_json::from_str(&stdout_of(&golden, &["info", file, "--json"])).unwrap();
    assert_eq!((&json["samples"], &json["fields"][0]["type"]), (&3.into(), &"custom".into()));
    assert_eq!(json["fields"][1]["name"], "i");

    let text = stdout_of(&golden, &["info", file, "--custom", "a_name_longer_th=8:8"]);
    assert!(text.contains("custom of 8 bytes") && text.contains(" to "), "{text}");
    let (code, errors) = refused(&golden, &["info", file, "--custom", "a_name_longer_th=8"]);
    assert!(code == 2 && errors.contains("expected NAME=BYTES:ALIGN"), "{errors}");
    let (code, errors) = refused(&golden, &["bench", file]);
    assert!(code == 1 && errors.contains("--custom NAME=BYTES:ALIGN"), "{errors}");
    assert!(!errors.contains("is it a .beton file?"), "{errors}");
}

#[test]
fn padded_images_are_as_large_as_the_largest_of_their_batch() {
    let dir = dataset();
    fs::write(dir.path().join("pad.toml"), "[collate]\nimage = \"pad\"\n").unwrap();
    let args = ["dump", "photos.beton", "--pipeline", "pad.toml", "--out", "padded"];
    stdout_of(dir.path(), &[&args[..], &["-b", "3", "-n", "2", "--sequential"]].concat());
    let shape = |name: &str| {
        let npy = fs::read(dir.path().join("padded").join(name)).unwrap();
        let header = String::from_utf8_lossy(&npy[..128]).into_owned();
        header.split("'shape': ").nth(1).unwrap().split('}').next().unwrap().replace(' ', "")
    };
    // The images are 40 to 90 high, each 7 wider than high, in this order.
    assert!(shape("image_0000.npy").starts_with("(3,60,67,3"), "{}", shape("image_0000.npy"));
    assert!(shape("image_0001.npy").starts_with("(3,90,97,3"), "{}", shape("image_0001.npy"));
    assert!(shape("image.size_0001.npy").starts_with("(3,2"), "the sizes are called so");
}

#[test]
fn each_rank_dumps_its_own_share() {
    let dir = dataset();
    let dump = |out: &str, more: &[&str]| {
        let args = ["dump", "photos.beton", "--out", out, "-b", "3", "-n", "9", "--sequential"];
        stdout_of(dir.path(), &[&args[..], more].concat());
        let labels = |batch: u64| fs::read(dir.path().join(format!("{out}/label_{batch:04}.npy")));
        let numbers =
            (0..9).map_while(|batch| labels(batch).ok()).flat_map(|npy| npy[128..].to_vec());
        numbers.step_by(8).collect::<Vec<u8>>()
    };
    assert_eq!(dump("all", &[]), [0, 0, 0, 1, 1, 1]);
    assert_eq!(dump("even", &["--rank", "0", "--world-size", "2"]), [0, 0, 1]);
    assert_eq!(dump("odd", &["--rank", "1", "--world-size", "2"]), [0, 1, 1]);

    let json = stdout_of(
        dir.path(),
        &["bench", "photos.beton", "-e", "1", "--rank", "1", "--world-size", "3", "--json"],
    );
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["rank"], &json["world_size"]), (&1.into(), &3.into()));
    assert_eq!(json["epochs"][0]["images"], 2);
    let (code, errors) =
        refused(dir.path(), &["bench", "photos.beton", "--rank", "3", "--world-size", "3"]);
    assert!(code == 1 && errors.contains("rank 3"), "{errors}");
    let (code, errors) = refused(dir.path(), &["bench", "photos.beton", "--rank", "1"]);
    assert!(code == 2 && errors.contains("--world-size"), "{errors}");
}

#[test]
fn a_rank_in_the_environment_is_said_not_to_be_read() {
    let dir = dataset();
    let bench = |variables: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fuseloop"));
        command.args(["bench", "photos.beton", "-e", "1", "--json"]).current_dir(dir.path());
        let output = command.envs(variables.iter().copied()).output().unwrap();
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(json["epochs"][0]["images"], 6, "all of them");
        String::from_utf8(output.stderr).unwrap()
    };
    let errors = bench(&[("RANK", "3"), ("WORLD_SIZE", "8")]);
    assert!(
        errors.contains("note: the environment sets rank 3 of 8, which is ignored"),
        "{errors}"
    );
    assert!(
        errors.contains("`--rank 3 --world-size 8`") && errors.lines().count() == 1,
        "{errors}"
    );
    assert_eq!(bench(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "1")]), "");
}

#[test]
fn bench_measures_every_epoch() {
    let dir = dataset();
    let args = ["bench", "photos.beton", "--epochs", "3", "--batch-size", "4", "--workers", "2"];
    let text = stdout_of(dir.path(), &args);
    for word in
        ["epoch 0 ", "(warm-up)", "epoch 2 ", "median", "first batch", "workers  ", "bottleneck  "]
    {
        assert!(text.contains(word), "{word}:\n{text}");
    }
    let json =
        stdout_of(dir.path(), &[&args[..], &["--json", "--recompile", "-w", "jitter"]].concat());
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["workload"], &json["samples"]), (&"W3".into(), &6.into()));
    assert_eq!(json["epochs"].as_array().unwrap().len(), 3);
    assert_eq!(json["epochs"][2]["images"], 6, "a short last batch counts");
    assert!(json["median_images_per_second"].as_f64().unwrap() > 0.0);
    assert!(json["first_batch_ms"].as_f64().unwrap() > 0.0);
    let shares = json["phases"].as_object().unwrap().values().map(|share| share.as_f64().unwrap());
    assert!((shares.sum::<f64>() - 1.0).abs() < 1e-6, "{}", json["phases"]);
    assert!(json["bottleneck"].is_string());
    #[cfg(target_os = "linux")]
    assert!(json["peak_rss_bytes"].as_u64().unwrap() > 1 << 20);
}

#[test]
fn bench_stops_after_the_batches_asked_for() {
    let dir = dataset();
    let args = ["bench", "photos.beton", "--batch-size", "2", "-n", "1", "-e", "1", "--json"];
    let json: Value = serde_json::from_str(&stdout_of(dir.path(), &args)).unwrap();
    assert_eq!((&json["epochs"][0]["images"], &json["warm_up_epochs"]), (&2.into(), &0.into()));
}

/// The spans of a trace by track, each with its start and end in µs.
fn spans(trace: &Value) -> std::collections::BTreeMap<u64, Vec<(f64, f64, &Value)>> {
    let mut tracks = std::collections::BTreeMap::<u64, Vec<_>>::new();
    for event in trace["traceEvents"].as_array().unwrap().iter().filter(|e| e["ph"] == "X") {
        let start = event["ts"].as_f64().unwrap();
        let end = start + event["dur"].as_f64().unwrap();
        tracks.entry(event["tid"].as_u64().unwrap()).or_default().push((start, end, event));
    }
    tracks
}

#[test]
fn a_trace_of_an_epoch_is_json_whose_spans_do_not_overlap() {
    let dir = dataset();
    let args = ["bench", "photos.beton", "-b", "2", "-j", "2", "-e", "1", "--trace", "t.json"];
    let text = stdout_of(dir.path(), &args);
    assert!(text.contains("trace        t.json: ") && text.contains("ui.perfetto.dev"), "{text}");

    let trace = fs::read_to_string(dir.path().join("t.json")).unwrap();
    let trace: Value = serde_json::from_str(&trace).unwrap();
    assert_eq!(trace["otherData"]["lost spans"], 0);
    let tracks = spans(&trace);
    let [epoch] = tracks[&0].as_slice() else { panic!("one epoch: {:?}", tracks[&0]) };
    assert_eq!((epoch.0, &epoch.2["args"]["epoch"]), (0.0, &1.into()), "after the one measured");
    for (track, spans) in &tracks {
        // Spans follow each other to the nanosecond, up to the rounding of a sum of two decimal fractions.
        let follows = |pair: &[(f64, f64, &Value)]| pair[0].1 <= pair[1].0 + 1e-4;
        assert!(spans.windows(2).all(follows), "track {track}: {spans:?}");
        assert!(spans.iter().all(|span| span.0 >= 0.0 && span.1 <= epoch.1 + 1e-4), "{spans:?}");
    }
    let named = |name: &str| {
        let all = tracks.values().flatten().filter(|span| span.2["name"] == name);
        all.map(|span| span.2["args"]["batch"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(named("have a batch"), [0, 1, 2]);
    let mut opened = named("open");
    opened.sort_unstable();
    assert_eq!(opened, [0, 1, 2]);

    let events = trace["traceEvents"].as_array().unwrap();
    let ids = |phase: &str| {
        let of_phase = events.iter().filter(|event| event["ph"] == phase);
        of_phase
            .map(|event| event["id"].as_u64().unwrap())
            .collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!((ids("s"), ids("f")), ([0, 1, 2].into(), [0, 1, 2].into()), "arrows have both ends");
    let tracks: Vec<&Value> = events.iter().filter(|e| e["name"] == "thread_name").collect();
    let tracks: Vec<&str> = tracks.iter().map(|e| e["args"]["name"].as_str().unwrap()).collect();
    assert_eq!(tracks, ["epoch", "consumer", "worker 0", "worker 1"]);
}

#[test]
fn verify_finds_nothing_in_a_whole_file() {
    let dir = dataset();
    let text = stdout_of(dir.path(), &["verify", "photos.beton", "--write-indices", "good.txt"]);
    for word in [
        "photos.beton: 6 samples checked in ",
        " samples/s, ",
        " MB/s\n12 values, ",
        " read, 6 images decoded\nno damage found\n",
    ] {
        assert!(text.contains(word), "{word}:\n{text}");
    }
    assert!(!text.contains("note"), "{text}");
    assert_eq!(fs::read_to_string(dir.path().join("good.txt")).unwrap(), "0\n1\n2\n3\n4\n5\n");
    let part = stdout_of(dir.path(), &["verify", "photos.beton", "--limit", "2"]);
    assert!(part.contains("2 samples checked of 6 in "), "{part}");
}

/// Two of six samples are damaged.
#[test]
fn bench_and_dump_say_how_many_samples_they_left_out() {
    let dir = dataset();
    let path = dir.path();
    for name in ["photos/cat/1.jpg", "photos/dog/4.jpg"] {
        fs::write(path.join(name), "no JPEG").unwrap();
    }
    let bench = ["bench", "photos", "-e", "2", "-p", "p.toml"];
    for (what, fate) in [("skip", "left out"), ("substitute", "replaced by others")] {
        let pipeline = format!(
            "on_damaged = '{what}'\n[fields]\nimage = [{{ op = 'RandomResizedCrop', size = 8 }}]\n"
        );
        fs::write(path.join("p.toml"), pipeline).unwrap();
        let dump = ["dump", "photos", "-b", "6", "-p", "p.toml", "-o", what];
        for args in [&bench[..], &dump] {
            let text = stdout_of(path, args);
            let line = format!("2 damaged samples found and {fate}, of them sample 1: ");
            assert!(text.contains(&line) && text.contains("cat/1.jpg (image)"), "{text}");
            assert!(text.contains("`fuseloop verify photos` lists them all\n"), "{text}");
        }
        let json = stdout_of(path, &[&bench[..], &["--json"]].concat());
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["damaged_samples"], 2);
    }
    assert_eq!(npy(&path.join("skip/image_0000.npy")).1, "4, 8, 8, 3, ");
    let text = stdout_of(path, &["bench", "photos.beton", "-e", "1", "-p", "p.toml"]);
    assert!(!text.contains("damaged"), "{text}");
}

#[test]
fn verify_lists_what_is_damaged_and_fails() {
    let dir = dataset();
    let path = dir.path().join("photos.beton");
    let file = fuseloop::source::Beton::open(&path, &OpenOptions::default()).unwrap();
    let picture =
        fuseloop::source::Source::locate(&file, fuseloop::SampleId(2), 0).unwrap().bytes.unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[picture.start as usize] = 0;
    bytes[file.header().sample_table_start() as usize + 4 * file.row_bytes()] = 9;
    fs::write(&path, bytes).unwrap();

    let verify = |more: &[&str]| {
        let output = fuseloop(dir.path(), &[&["verify", "photos.beton"], more].concat());
        assert_eq!(output.status.code(), Some(1));
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(errors.contains("error: photos.beton: 2 samples are damaged\n"), "{errors}");
        (String::from_utf8(output.stdout).unwrap(), errors)
    };
    let (text, errors) = verify(&[]);
    assert!(errors.contains("help: `--write-indices good.txt` lists"), "{errors}");
    let listed = format!(
        "  sample 2: photos.beton (image) at byte {}: not an image of a known format: it begins with",
        picture.start
    );
    for word in [
        "2 damaged samples, 2 damaged values:\n",
        "  invalid entries of the sample table: 1\n",
        "  images that can't be decoded: 1\n",
        &listed,
        "  sample 4: photos.beton (image) at byte ",
        "note: records that no sample refers to: 1, ",
    ] {
        assert!(text.contains(word), "{word}:\n{text}");
    }
    assert!(!text.contains("no damage found"), "{text}");

    let (text, errors) = verify(&["--json", "--threads", "1", "--write-indices", "good.txt"]);
    assert!(!errors.contains("help: "), "the list is there: {errors}");
    assert_eq!(fs::read_to_string(dir.path().join("good.txt")).unwrap(), "0\n1\n3\n5\n");
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&json["is_whole"], &json["damaged_samples"]), (&false.into(), &2.into()));
    assert_eq!(json["kinds"], serde_json::json!({ "cell": 1, "picture_damaged": 1 }));
    assert_eq!(json["damaged"][0]["offset"], picture.start);
    assert_eq!(json["damaged"][1]["kind"], "cell");
    assert_eq!(json["tables"]["unreferenced"]["count"], 1);

    let (code, errors) =
        refused(dir.path(), &["verify", "photos.beton", "--write-indices", "no/such/folder/g.txt"]);
    assert!(code == 1 && errors.contains("help: check the path"), "{errors}");
}

#[cfg(feature = "audio")]
#[test]
fn folders_of_audio_are_described_checked_and_converted() {
    let dir = tempfile::tempdir().unwrap();
    let golden = |name: &str| {
        fs::read(format!("{}/../tests/golden/audio/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
    };
    for (path, name) in
        [("yes/1.wav", "i16.wav"), ("no/1.flac", "i24.flac"), ("no/2.ogg", "mono.ogg")]
    {
        let path = dir.path().join("words").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, golden(name)).unwrap();
    }
    fs::write(dir.path().join("words/no/3.m4a"), "no sample").unwrap();
    let info = stdout_of(dir.path(), &["info", "words"]);
    for word in
        ["words: 3 samples", "1 .m4a", "audio            bytes      audio files", "2 classes"]
    {
        assert!(info.contains(word), "{word}:\n{info}");
    }
    let verify = stdout_of(dir.path(), &["verify", "words"]);
    assert!(verify.contains("3 audio files decoded\nno damage found\n"), "{verify}");
    let index = stdout_of(dir.path(), &["index", "words"]);
    assert!(index.contains("3 audio files of 2 classes, listed in words.fidx"), "{index}");
    stdout_of(dir.path(), &["convert", "words", "words.beton"]);
    let verify = stdout_of(dir.path(), &["verify", "words.beton", "--audio", "audio"]);
    assert!(verify.contains("3 audio files decoded"), "{verify}");
    fs::write(dir.path().join("words/yes/2.mp3"), "no MP3").unwrap();
    let output = fuseloop(dir.path(), &["verify", "words"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    for word in [
        "  audio files that can't be decoded: 1\n",
        "words/yes/2.mp3 (audio): audio that can't be decoded",
    ] {
        assert!(text.contains(word), "{word}:\n{text}");
    }
}

#[test]
fn dumped_batches_are_those_of_the_loader() {
    let dir = dataset();
    let args =
        ["dump", "photos.beton", "-w", "W3", "-n", "9", "-b", "4", "--seed", "5", "--epoch", "2"];
    let text = stdout_of(dir.path(), &[&args[..], &["--out", "new/dump"]].concat());
    assert!(text.contains("2 batches") && text.contains("no more batches"), "{text}");

    let loader = Loader::open(dir.path().join("photos.beton")).unwrap();
    let loader = loader.batch_size(4).seed(5).order(Order::Random).drop_last(false).workers(1);
    let loader = loader.pipeline("image", Workload::Jitter.ops().unwrap()).build().unwrap();
    for (number, batch) in loader.epoch(2).unwrap().enumerate() {
        let batch = batch.unwrap();
        let read = |name: &str| npy(&dir.path().join(format!("new/dump/{name}_{number:04}.npy")));
        let (dtype, shape, bytes) = read("image");
        assert_eq!(dtype, if cfg!(target_endian = "little") { "<f4" } else { ">f4" });
        assert_eq!(shape, format!("{}, 3, 224, 224, ", batch.len()));
        assert!(bytes == batch.bytes("image").unwrap(), "batch {number}");
        let (_, shape, bytes) = read("label");
        assert_eq!(shape, format!("{}, ", batch.len()));
        assert_eq!(bytes, batch.bytes("label").unwrap());
    }
}

/// A pipeline file means the same to the command as to the library: order, last batch, seed, draws.
#[test]
fn a_pipeline_file_dumps_what_the_library_loads_by_it() {
    let dir = dataset();
    let fields =
        "[fields]\nimage = [{ op = 'RandomResizedCrop', size = 16 }, 'RandomHorizontalFlip']";
    let settings = "batch_size = 4\norder = 'random'\nseed = 7\ndrop_last = true";
    for (name, settings) in [("none", ""), ("size", "batch_size = 4"), ("all", settings)] {
        let file = dir.path().join(format!("{name}.toml"));
        fs::write(&file, format!("{settings}\n{fields}")).unwrap();
        let args = ["dump", "photos.beton", "-n", "9", "--epoch", "1", "--out", name, "-p"];
        stdout_of(dir.path(), &[&args[..], &[file.to_str().unwrap()]].concat());
        let loader = Loader::open(dir.path().join("photos.beton")).unwrap();
        let loader = Spec::open(&file).unwrap().apply(loader).build().unwrap();
        let mut count = 0;
        for (number, batch) in loader.epoch(1).unwrap().enumerate() {
            let batch = batch.unwrap();
            for field in ["image", "label"] {
                let path = dir.path().join(format!("{name}/{field}_{number:04}.npy"));
                assert!(npy(&path).2 == batch.bytes(field).unwrap(), "{name}: {field} {number}");
            }
            count = number + 1;
        }
        assert!(!dir.path().join(format!("{name}/image_{count:04}.npy")).exists(), "{name}");
        assert_eq!(count as u64, loader.len());
    }
}

#[test]
fn settings_of_the_command_line_are_those_of_a_pipeline_file() {
    let dir = dataset();
    let same = "seed = 5\norder = 'random'\nwithout = ['label']\n";
    fs::write(dir.path().join("same.toml"), same).unwrap();
    fs::write(dir.path().join("other.toml"), "seed = 6\norder = 'sequential'\n").unwrap();
    let crop = "[[fields.image]]\nop = 'RandomResizedCrop'\nsize = 8\n";
    for file in ["same.toml", "other.toml"] {
        let text = fs::read_to_string(dir.path().join(file)).unwrap() + crop;
        fs::write(dir.path().join(file), text).unwrap();
    }
    let dump = |file: &str, out: &str, more: &[&str]| {
        let args = ["dump", "photos.beton", "-n", "9", "--out", out, "-p", file];
        stdout_of(dir.path(), &[&args[..], more].concat());
        let names = fs::read_dir(dir.path().join(out)).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name.ends_with(".npy")).collect();
        names.sort();
        let bytes = |name: &String| fs::read(dir.path().join(out).join(name)).unwrap();
        names.iter().map(|name| (name.clone(), bytes(name))).collect::<Vec<_>>()
    };
    let set = ["--set", "seed=5", "--set", "order=random", "--set", "without=['label']"];
    let wanted = dump("same.toml", "same", &[]);
    assert_eq!(dump("other.toml", "set", &set), wanted);
    // An option of its own comes first.
    assert_ne!(dump("other.toml", "seed", &[&set[..], &["--seed", "7"]].concat()), wanted);
    for (setting, why) in [
        ("number_rules=exact", "did you mean `number_rule`?"),
        ("number_rule=exactly", "number_rule is \"exactly\", expected"),
        ("views=1", "no parameter `views`"),
        ("exact", "expected NAME=VALUE"),
        ("device=cuda:0", "`--device`"),
    ] {
        let args = ["dump", "photos.beton", "-p", "other.toml", "-o", "x", "--set", setting];
        let (_, errors) = refused(dir.path(), &args);
        assert!(errors.contains(why), "{setting}: {errors}");
    }
}

#[test]
fn a_dump_overwrites_only_by_force() {
    let dir = dataset();
    let dump = ["dump", "photos.beton", "--out", "dump"];
    stdout_of(dir.path(), &dump);
    let label = dir.path().join("dump/label_0000.npy");
    fs::remove_file(dir.path().join("dump/image_0000.npy")).unwrap();
    fs::write(&label, "mine").unwrap();
    let (code, errors) = refused(dir.path(), &dump);
    assert_eq!(code, 1);
    assert!(errors.contains("label_0000.npy already exists\nhelp: `--overwrite`"), "{errors}");
    assert_eq!(fs::read(&label).unwrap(), b"mine");
    assert!(!dir.path().join("dump/image_0000.npy").exists(), "nothing was written before");
    stdout_of(dir.path(), &[&dump[..], &["--overwrite"]].concat());
    assert_eq!(npy(&label).1, "6, ");
}
