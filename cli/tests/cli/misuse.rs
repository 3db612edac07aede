//! Each kind of misuse gives an error that names the next step; every sub-command has help.

use crate::command::{dataset, folder, fuseloop, npy, refused, stdout_of};
use fuseloop::internals::workload::Workload;
use fuseloop::source::{Beton, OpenOptions};
use serde_json::Value;
use std::fs;
use std::process::{Command, Stdio};

/// Ops that would make images of gigabytes are refused before any sample is read if every sample would
/// be too large, and at the sample if the size depends on the sample.
#[test]
fn pictures_without_bound_are_refused_by_the_op_that_would_make_them() {
    let dir = dataset();
    let cases = [
        (r#"{ op = "CenterCrop", size = 30000 }"#, "CenterCrop produces an image of 30000x30000"),
        (r#"{ op = "Pad", padding = 65535 }, "#, "Pad produces an image of 1311"),
        (
            r#"{ op = "RandomZoomOut", side_range = [1.0, 1e9], p = 0.999 }"#,
            "RandomZoomOut produces an image of ",
        ),
        (
            r#"{ op = "RandomResizedCrop", size = 65535 }"#,
            "RandomResizedCrop produces an image of 65535",
        ),
    ];
    for (op, expected) in cases {
        let op = op.trim_end_matches(", ");
        let pipeline = format!("[fields]\nimage = [{op}, {{ op = \"Resize\", size = [8, 8] }}]\n");
        fs::write(dir.path().join("p.toml"), pipeline).unwrap();
        for command in ["bench", "preview", "replay"] {
            let mut args = vec![command, "photos.beton", "--pipeline", "p.toml"];
            if command == "replay" {
                args.extend(["--sample", "1"]);
            }
            let (code, errors) = refused(dir.path(), &args);
            assert_eq!(code, 1, "{command}, {op}: {errors}");
            let cure = "use smaller sizes";
            assert!(errors.contains(expected) && errors.contains(cure), "{command}: {errors}");
            assert!(errors.contains("the limit is 178956970"), "{command}: {errors}");
            if op.contains("RandomZoomOut") && command == "bench" {
                assert!(errors.contains("sample ") && errors.contains("(image)"), "{errors}");
            }
        }
    }
}

#[test]
fn batches_of_more_than_their_limit_are_refused() {
    let dir = dataset();
    let args = ["bench", "photos.beton", "--workload", "W1", "--batch-size", "1000000"];
    let (code, errors) = refused(dir.path(), &args);
    assert_eq!(code, 1);
    let expected = "4 batches of 1000000 samples take ";
    assert!(errors.contains(expected) && errors.contains("the limit is 68719476736"), "{errors}");
    assert!(errors.contains("use smaller batches"), "{errors}");
}

#[test]
fn a_pipeline_file_runs_in_place_of_a_workload() {
    let dir = dataset();
    let path = dir.path();
    let file = "batch_size = 4\nseed = 5\n[fields]\nimage = [
        { op = 'RandomResizedCrop', size = { from = 32, to = 64, epochs = 3, step = 16 } },
        'ToChannelsFirst']\nlabel = [{ op = 'OneHot', classes = 2 }]";
    fs::write(path.join("p.toml"), file).unwrap();

    let text = stdout_of(path, &["explain", "photos.beton", "--pipeline", "p.toml", "--ir"]);
    assert!(text.contains("p.toml: ops for image, label, changing with the epoch"), "{text}");
    assert!(text.contains("RandomResizedCrop"), "{text}");

    let args = ["bench", "photos.beton", "-p", "p.toml", "--json", "-e", "2"];
    let json: Value = serde_json::from_str(&stdout_of(path, &args)).unwrap();
    assert_eq!((&json["workload"], &json["pipeline"]), (&Value::Null, &"p.toml".into()));
    assert_eq!((&json["batch_size"], &json["seed"]), (&4.into(), &5.into()));
    assert_eq!(json["epochs"][1]["images"], 6, "a short last batch counts");
    let json: Value =
        serde_json::from_str(&stdout_of(path, &[&args[..], &["-b", "2"]].concat())).unwrap();
    assert_eq!(json["batch_size"], 2, "what is given holds against the file");

    let dump = ["dump", "photos.beton", "-p", "p.toml", "--epoch", "2", "--out", "out"];
    stdout_of(path, &dump);
    assert_eq!(npy(&path.join("out/image_0000.npy")).1, "4, 3, 64, 64, ");
    assert_eq!(npy(&path.join("out/label_0000.npy")).1, "4, 2, ");
    let both = ["bench", "photos.beton", "-p", "p.toml", "-w", "W1"];
    assert_eq!(refused(path, &both).0, 2);
}

/// The error of a setting lists its values; `fuseloop ops` shows those of ops.
#[test]
fn a_wrong_setting_of_a_pipeline_file_is_not_said_to_be_of_an_op() {
    let dir = dataset();
    let settings = [
        ("order = 'shuffle'", &["sequential", "random", "permuted", "quasi_random"][..]),
        ("on_damaged = 'drop'", &["fail", "skip", "substitute"]),
        ("split = 'train'", &["remove it, and set `--split`"]),
    ];
    for (setting, values) in settings {
        fs::write(dir.path().join("p.toml"), setting).unwrap();
        let (code, errors) = refused(dir.path(), &["bench", "photos.beton", "-p", "p.toml"]);
        assert_eq!(code, 1, "{errors}");
        assert!(values.iter().all(|value| errors.contains(value)), "{errors}");
        assert!(!errors.contains("fuseloop ops"), "{errors}");
    }
}

/// Each wrong call, its exit code, its message, and the next step that the message names.
#[test]
fn an_error_names_the_cause_and_the_next_step() {
    let dir = dataset();
    let path = dir.path();
    fs::write(path.join("text.beton"), "this is no dataset, but it is long enough").unwrap();
    fs::write(path.join("text.tar"), "this is no archive").unwrap();
    fs::write(path.join("short.beton"), [2, 0]).unwrap();
    let whole = fs::read(path.join("photos.beton")).unwrap();
    let mut unfinished = whole.clone();
    unfinished[16..24].fill(0);
    fs::write(path.join("unfinished.beton"), unfinished).unwrap();
    fs::write(path.join("cut.beton"), &whole[..whole.len() - 100]).unwrap();
    fs::create_dir(path.join("empty")).unwrap();
    for (name, fields) in [
        ("op.toml", "image = ['Resise']"),
        ("param.toml", "image = [{ op = 'Resize', sise = 1 }]"),
        ("field.toml", "picture = ['ToChannelsFirst']"),
        ("type.toml", "image = ['ToChannelsFirst',\n  { op = 'OneHot', classes = 2 }]"),
        (
            "classes.toml",
            "image = [{ op = 'RandomResizedCrop', size = 8 }]\nlabel = [{ op = 'OneHot', classes = 1 }]",
        ),
    ] {
        fs::write(path.join(name), format!("[fields]\n{fields}")).unwrap();
    }
    fs::write(path.join("wide.csv"), "path,label\nb.jpg,2,3\nphotos/cat/0.jpg,1\n").unwrap();
    fs::write(path.join("head.csv"), "path,label\n").unwrap();
    fs::write(path.join("hello.txt"), "hello").unwrap();
    for (args, message, help) in [
        (&["info", "none.beton"][..], "none.beton: No such file", "lists the kinds of datasets"),
        (
            &["info", "empty"],
            "no .jpg, .jpeg, .jpe, .jfif, .png, .webp, .tif, .tiff, .bmp, .dib, .gif, .ppm, .pgm, .pbm, .pnm, .pam, .jxl, .heic, .heif, .hif, .wav, .wave, .flac, .ogg, .oga, .mp3, .avi, .m4v, .mkv, .mov, .mp4 or .webm file",
            "lists the kinds of datasets",
        ),
        (&["bench", "none-*.tar"], "none-*.tar: no file matches", "lists the kinds of datasets"),
        (&["convert", "text.tar", "x.beton"], "text.tar", "lists the kinds of datasets"),
        (
            &["bench", "text.beton"],
            "text.beton: not a .beton file: version",
            "is it a .beton file?",
        ),
        (&["explain", "short.beton"], "ends inside its header", "is it a .beton file?"),
        (&["bench", "unfinished.beton"], "not finished by its writer", "write it again"),
        (&["info", "cut.beton"], "cut.beton: ", "copy it again"),
        (&["bench", "photos.beton", "-w", "W4"], "images of 47..=97 x 40..=90", "--workload W1"),
        (&["bench", "photos.beton", "-b", "0"], "a batch size of 0", "--batch-size 64"),
        (&["bench", "photos.beton", "-j", "0"], "0 workers", "--workers"),
        (
            &["write", "empty", "x.beton"],
            "no .jpg, .jpeg, .jpe, .jfif, .png, .webp, .tif, .tiff, .bmp, .dib, .gif, .ppm, .pgm, .pbm, .pnm, .pam, .jxl, .heic, .heif, .hif, .wav, .wave, .flac, .ogg, .oga, .mp3, .avi, .m4v, .mkv, .mov, .mp4 or .webm file",
            "lists the kinds of datasets",
        ),
        (&["write", "nothing", "x.beton"], "nothing: No such file", "lists the kinds of datasets"),
        (
            &["write", "wide.csv", "x.beton"],
            "line 2: 3 columns, expected 2 (path, label): quote",
            "`--on-damaged skip`",
        ),
        (&["info", "head.csv"], "the table lists no image", ""),
        (&["write", "head.csv", "x.beton"], "the table lists no image", ""),
        (&["index", "text.beton"], "a .beton file and a table need none", ""),
        (&["info", "hello.txt"], "hello.txt: not a .beton file: it ends", "is it a .beton file?"),
        (&["info", "hello.txt"], "its extension is not one of .tar, .tfrecord, .csv", ""),
        (&["convert", "photos.beton", "x.arrow"], "x.arrow\": unknown extension", ""),
        (&["convert", "photos.beton", "x.mds"], "use a name such as out/index.json", ""),
        (
            &["convert", "photos.beton", "x.beton", "--max-samples", "3"],
            "`--max-samples` is only for shards, and x.beton names none",
            "x-{000}.beton; `--indices`",
        ),
        (
            &["convert", "photos.beton", "x/", "--shards", "3"],
            "`--shards` is only for shards",
            "x-{0",
        ),
        (
            &["convert", "photos.beton", "x-{00}-of-{N}.tfrecord"],
            "{N} needs a known number of shards",
            "give `--shards`, or `--max-samples`",
        ),
        (
            &["info", "photos.beton", "--custom", "typo=24:8"],
            "photos.beton: no field named typo; available: image, label",
            "user-defined field",
        ),
        (
            &["bench", "photos.beton", "-p", "type.toml"],
            "type.toml:3:3: output image: op 1 of the list: OneHot takes a label or an array",
            "",
        ),
        (
            &["bench", "photos.beton", "-p", "classes.toml"],
            "label 1 is none of the 1 classes of OneHot, which are 0 to 0",
            "the largest label plus 1",
        ),
        (&["write", "photos", "photos"], "choose a different output", "inputs are never modified"),
        (
            &["convert", "photos.beton", "x.beton", "--indices", "6,9"],
            "photos.beton: sample 6 does not exist: the dataset has 6 samples",
            "",
        ),
        (
            &["convert", "photos.beton", "x.beton", "--indices", "0..999999999999"],
            "sample 6 does not exist",
            "",
        ),
        (
            &["write", "photos", "x.beton", "--smart-threshold", "9"],
            "`--smart-threshold` is only for `--write-mode smart`",
            "choose this mode",
        ),
        (
            &["write", "photos", "x.beton", "--write-mode", "jpg", "--compress-probability", "1"],
            "`--compress-probability` is only for `--write-mode proportion`",
            "choose this mode",
        ),
        (&["write", "photos", "x.beton", "--page-size", "5"], "page size 5", "8388608"),
        (
            &["write", "photos", "x.beton", "--write-mode", "raw", "--tile", "32"],
            "`--tile`",
            "tiled",
        ),
        (&["recut", "none", "x"], "none: No such file", "check the path"),
        (&["recut", "photos", "photos"], "is inside the input", "inputs are never modified"),
        (
            &["recut", "photos", "photos/cat/new"],
            "choose a folder outside",
            "inputs are never modified",
        ),
        (&["recut", "photos", "text.beton"], "text.beton\" is a file", "choose a folder"),
        (&["recut", "photos", "."], "is not empty", "`--overwrite` replaces files in it"),
        (&["write", "photos", "text.beton"], "already exists", "`--overwrite` replaces it"),
        (&["convert", "photos", "text.beton"], "already exists", "`--overwrite` replaces it"),
        (
            &["convert", "photos.beton", "text.beton", "--every", "2"],
            "already exists",
            "`--overwrite` replaces it",
        ),
        (
            &["convert", "photos.beton", "photos.beton"],
            "is an input of this command",
            "inputs are never modified",
        ),
        (&["recut", "photos.beton", "x"], "a file, expected a folder", "--write-mode tiled"),
        (
            &["convert", "text.beton", "x.beton"],
            "text.beton: not a .beton file: version",
            "is it a .beton file?",
        ),
        (
            &["bench", "photos.beton", "-p", "none.toml"],
            "none.toml: No such file",
            "check the path",
        ),
        (
            &["bench", "photos.beton", "-p", "op.toml"],
            "op.toml:2:10: no op named",
            "`fuseloop ops`",
        ),
        (&["dump", "photos.beton", "-o", "d", "-p", "param.toml"], "`sise`, did you", "ops NAME`"),
        (
            &["explain", "photos.beton", "-p", "field.toml"],
            "no field named picture",
            "fuseloop info",
        ),
        (&["explain", "photos.beton", "-p", "photos.beton"], "more than", "is TOML"),
        (&["explain", "photos.beton", "-p", "short.beton"], "not TOML", "is TOML"),
        (&["replay", "photos.beton", "--sample", "6"], "no such sample: the file has 6", "from 0"),
        (&["ops", "Resise"], "no op named `Resise`, did you mean `Resize`?", "`fuseloop ops`"),
        (&["demo", "-o", "no/such/x.png"], "no/such/x.png: No such file", "check the path"),
    ] {
        let output = fuseloop(path, args);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {errors}");
        let (error, next) = errors.split_once("\nhelp: ").unwrap_or((&errors, ""));
        // A warning may stand before the error.
        let error = match error.strip_prefix("warning: ") {
            Some(warned) => warned.split_once('\n').map_or("", |(_, error)| error),
            None => error,
        };
        assert!(error.starts_with("error: ") && error.contains(message), "{args:?}: {errors}");
        assert!(next.contains(help), "{args:?}: {errors}");
    }
}

/// An output replaces neither the dataset nor an image of it nor the pipeline file.
#[test]
fn an_output_that_the_command_reads_is_refused() {
    let dir = dataset();
    let path = dir.path();
    let pipeline = "[fields]\nimage = [{ op = 'RandomResizedCrop', size = 8 }]\n";
    fs::write(path.join("p.toml"), pipeline).unwrap();
    fs::write(path.join("list.csv"), "path,label\nphotos/cat/0.jpg,1\n").unwrap();
    fs::write(path.join("few.txt"), "0\n").unwrap();
    fs::hard_link(path.join("photos.beton"), path.join("hard.json")).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("photos.beton", path.join("link.json")).unwrap();
    #[cfg(not(unix))]
    fs::copy(path.join("photos.beton"), path.join("link.json")).unwrap();
    let names = ["photos.beton", "p.toml", "photos/cat/0.jpg", "list.csv", "few.txt"];
    let read = || names.map(|name| fs::read(path.join(name)).unwrap());
    let before = read();
    let bench = ["bench", "photos.beton", "-e", "1", "-p", "p.toml", "--trace"];
    let beside = "photos/../photos.beton";
    let mut cases: Vec<Vec<&str>> = [
        &["verify", "photos.beton", "--write-indices", "photos.beton"][..],
        &["verify", "photos.beton", "--write-indices", beside],
        &["verify", "photos", "--write-indices", "photos/cat/notes.txt"],
        &["preview", "photos", "-o", "photos/cat/0.jpg"],
        &["preview", "photos", "-o", "photos/sheet.png"],
        &["preview", "list.csv", "-o", "photos/cat/0.jpg"],
        &["dump", "photos", "-o", "photos/cat"],
        &["dump", "photos", "-o", "photos/new/batches"],
        &["replay", "photos", "--sample", "0", "-o", "photos"],
        &["convert", "photos.beton", "few.txt", "--indices", "few.txt", "--overwrite"],
    ]
    .map(<[&str]>::to_vec)
    .into();
    let traces = ["photos.beton", "p.toml"].into_iter();
    let traces =
        traces.chain(cfg!(unix).then_some(["hard.json", "link.json"]).into_iter().flatten());
    cases.extend(traces.map(|out| [&bench[..], &[out]].concat()));
    for args in cases {
        let (code, errors) = refused(path, &args);
        assert_eq!(code, 1, "{args:?}: {errors}");
        assert!(errors.contains("choose a different output path"), "{args:?}: {errors}");
        assert!(read() == before, "{args:?}");
    }
    for args in [["write", "list.csv", "list.csv"], ["write", "photos", "photos/cat/0.jpg"]] {
        let (code, errors) = refused(path, &args);
        assert!(code == 1 && errors.contains("unknown extension"), "{args:?}: {errors}");
        assert!(read() == before, "{args:?}");
    }
    assert!(!path.join("photos/new").exists() && !path.join("photos/sheet.png").exists());
    // Anything else that is there is replaced as before.
    fs::write(path.join("good.txt"), "old").unwrap();
    stdout_of(path, &["verify", "photos.beton", "--write-indices", "good.txt"]);
    stdout_of(path, &["write", "photos", "photos/train.beton"]);
    stdout_of(path, &["write", "photos", "photos/train.beton", "--overwrite"]);
}

/// An error about an output has the path that was given, not that of the temporary file, and nothing is
/// left of a dump that fails.
#[test]
fn an_output_that_fails_is_named_and_leaves_nothing() {
    let dir = dataset();
    let path = dir.path();
    for args in [
        &["preview", "photos.beton", "-o", "no/such/x"][..],
        &["bench", "photos.beton", "-e", "1", "--trace", "no/such/x"],
        &["verify", "photos.beton", "--write-indices", "no/such/x"],
    ] {
        let (code, errors) = refused(path, args);
        assert!(code == 1 && errors.contains("no/such/x: No such file"), "{args:?}: {errors}");
        assert!(!errors.contains(".fuseloop-"), "{args:?}: {errors}");
    }
    for name in ["photos/cat/0.jpg", "photos/dog/4.jpg"] {
        fs::write(path.join(name), "no JPEG").unwrap();
    }
    let (code, errors) = refused(path, &["dump", "photos", "-o", "new", "--sequential"]);
    assert_eq!(code, 1, "{errors}");
    assert!(!path.join("new").exists(), "{errors}");
}

#[test]
fn what_is_not_understood_is_2_and_lists_what_there_is() {
    let dir = dataset();
    let (code, errors) = refused(dir.path(), &["bench", "photos.beton", "--workload", "W9"]);
    assert_eq!(code, 2);
    for workload in Workload::ALL {
        assert!(errors.contains(&workload.to_string()), "{errors}");
    }
    assert_eq!(refused(dir.path(), &["train"]).0, 2);
    assert_eq!(refused(dir.path(), &["write", "photos"]).0, 2);
    assert_eq!(refused(dir.path(), &["bench", "photos.beton", "--epochs", "0"]).0, 2);
    for args in [
        &["verify", "photos.beton", "--limit", "0"][..],
        &["bench", "photos.beton", "-n", "0"],
        &["dump", "photos.beton", "-o", "x", "-n", "0"],
        &["convert", "photos.beton", "x-{00}.tar", "--shards", "0"],
    ] {
        let (code, errors) = refused(dir.path(), args);
        assert_eq!(code, 2, "{args:?}: {errors}");
        assert!(errors.contains("expected a whole number of at least 1"), "{args:?}: {errors}");
    }
    for (args, expected) in [
        (&["bench", "photos.beton", "-j", "-1"][..], "expected a whole number from 0 to "),
        (&["bench", "photos.beton", "--batch-size", "-1"], "expected a whole number from 0 to "),
        (&["bench", "photos.beton", "--rank", "-1", "--world-size", "2"], "-1 is not in 0..="),
        (&["write", "photos", "x.beton", "--jpeg-quality", "0"], "0 is not in 1..=100"),
        (&["bench", "photos.beton", "--epochs", "-1"], "expected a whole number of at least 1"),
        (&["verify", "photos.beton", "-j", "-1"], "expected a whole number of at least 1"),
        (&["write", "photos", "x.beton", "-j", "-1"], "expected a whole number of at least 1"),
        (&["write", "photos", "x.beton", "--force"], "a similar argument exists: '--overwrite'"),
        (&["verify", "photos", "--jobs", "2"], "a similar argument exists: '--threads'"),
        (&["bench", "photos", "--num-workers=2"], "a similar argument exists: '--workers'"),
        (&["recut", "photos", "x", "--damaged", "skip"], "exists: '--on-damaged'"),
        (
            &["concat", "a.beton", "b.beton", "x.beton"],
            "`fuseloop convert A.beton B.beton OUT.beton`",
        ),
        (&["subset", "a.beton", "x.beton", "--every", "2"], "OUT.beton --indices 0..1000`"),
        (
            &["split", "a.beton", "--at", "0.9"],
            "`fuseloop convert SRC 'OUT-{000}.beton' --shards 4`",
        ),
        (&["unpack", "a.beton", "x.beton"], "`fuseloop convert PLANES.beton OUT.beton`"),
        (&["replay", "photos.beton", "--sample", "-1"], "expected a whole number from 0 to "),
    ] {
        let (code, errors) = refused(dir.path(), args);
        assert_eq!(code, 2, "{args:?}: {errors}");
        assert!(errors.contains(expected) && !errors.contains("-- -1"), "{args:?}: {errors}");
    }
    let (code, errors) = refused(dir.path(), &["recut", "photos", "x", "--tile", "0"]);
    assert!(code == 2 && errors.contains("expected `row`, or pixels from 8 to 1024"), "{errors}");
    let (code, help) = refused(dir.path(), &[]);
    assert_eq!(code, 2);
    assert!(help.contains("Usage:") && help.contains("fuseloop demo"), "{help}");
}

#[test]
fn every_command_has_help_with_examples() {
    let dir = tempfile::tempdir().unwrap();
    for command in [
        "demo", "write", "recut", "info", "bench", "capacity", "dump", "explain", "preview",
        "replay", "ops",
    ] {
        let help = stdout_of(dir.path(), &[command, "--help"]);
        assert!(help.contains("Examples:\n  fuseloop "), "{command}:\n{help}");
    }
}

#[test]
#[cfg(unix)]
fn a_hostile_name_does_not_reach_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let (code, errors) = refused(dir.path(), &["info", "\u{1b}[31mred\r.beton"]);
    assert_eq!(code, 1);
    assert!(!errors.contains(['\u{1b}', '\r']), "{errors:?}");
    assert!(errors.contains("\\u{1b}[31mred\\r.beton"), "{errors:?}");

    let photos = folder(dir.path());
    fs::write(photos.join("cat/\u{1b}[2J.txt"), "").unwrap();
    let text = stdout_of(dir.path(), &["write", "photos", "x.beton"]);
    assert!(!text.contains('\u{1b}') && text.contains("\\u{1b}[2J.txt"), "{text:?}");
}

/// A member of a tar file.
#[cfg(unix)]
fn member(name: &str, data: &[u8]) -> Vec<u8> {
    let mut header = [0; 512];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[124..135].copy_from_slice(format!("{:011o}", data.len()).as_bytes());
    header[148..156].fill(b' ');
    header[156] = b'0';
    header[257..265].copy_from_slice(b"ustar\x0000");
    let sum: u64 = header.iter().map(|&byte| u64::from(byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    let padding = vec![0; data.len().next_multiple_of(512) - data.len()];
    [&header[..], data, &padding].concat()
}

/// Datasets with an escape sequence in the names of their fields, of a class and of their samples. If
/// `is_damaged`, the first image of each is damaged, so that errors contain the names.
#[cfg(unix)]
fn with_hostile_names(is_damaged: bool) -> tempfile::TempDir {
    let dir = dataset();
    let path = dir.path();
    let beton = path.join("photos.beton");
    let first_row = Beton::open(&beton, &OpenOptions::default()).unwrap();
    let first_row = first_row.header().sample_table_start() as usize;
    let mut bytes = fs::read(&beton).unwrap();
    for name in [24 + 1, 24 + 1041 + 1] {
        bytes.copy_within(name..name + 11, name + 5);
        bytes[name..name + 5].copy_from_slice(b"\x1b[31m");
    }
    let image = path.join("photos/cat/0.jpg");
    let mut jpeg = fs::read(&image).unwrap();
    if is_damaged {
        bytes[first_row] = 9;
        jpeg.truncate(jpeg.len() / 2);
    }
    fs::write(beton, bytes).unwrap();
    fs::write(image, &jpeg).unwrap();
    fs::rename(path.join("photos/cat"), path.join("photos/\u{1b}[31mcat")).unwrap();
    let whole = fs::read(path.join("photos/dog/3.jpg")).unwrap();
    let members = [
        member("\u{1b}[31ma.jpg", &jpeg),
        member("\u{1b}[31ma.cls", b"0"),
        member("\u{1b}[31mb.jpg", &whole),
        member("\u{1b}[31mb.cls", b"1"),
        vec![0; 1024],
    ];
    fs::write(path.join("keys.tar"), members.concat()).unwrap();
    dir
}

#[test]
#[cfg(unix)]
fn no_control_byte_of_a_dataset_reaches_the_terminal() {
    for is_damaged in [false, true] {
        let dir = with_hostile_names(is_damaged);
        for name in ["photos.beton", "photos", "keys.tar"] {
            let steps = format!("steps-{name}");
            let commands: [&[&str]; 7] = [
                &["info", name],
                &["verify", name],
                &["explain", name, "-w", "W1"],
                &["convert", name, "x.tar", "--overwrite"],
                &["bench", name, "-w", "W1", "-e", "1", "-b", "2"],
                &["replay", name, "-w", "W1", "--sample", "0", "--out", &steps],
                &["index", name],
            ];
            let mut said = String::new();
            for args in commands {
                let output = fuseloop(dir.path(), args);
                let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
                let stray = text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t'));
                assert_eq!(stray, None, "{args:?}: {text:?}");
                // Whatever the names do, a command ends by itself, and an error has a message.
                let code = output.status.code();
                assert!(code == Some(0) || text.contains("error: "), "{args:?}: {code:?}, {text}");
                if is_damaged && ["verify", "bench"].contains(&args[0]) {
                    assert!(text.contains("\\u{1b}[31m"), "{args:?} does not say the name: {text}");
                }
                said += &text;
            }
            assert!(said.contains("\\u{1b}[31m"), "{name}: no command says the name: {said}");
        }
    }
}

#[test]
fn a_reader_that_has_gone_is_no_error() {
    let dir = dataset();
    let mut child = Command::new(env!("CARGO_BIN_EXE_fuseloop"))
        .args(["explain", "photos.beton", "--ir"])
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn the_command_is_called_fuseloop_whatever_its_crate_is_called() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(
        stdout_of(dir.path(), &["--version"]),
        format!("fuseloop {}\n", env!("CARGO_PKG_VERSION"))
    );
    assert!(stdout_of(dir.path(), &["--help"]).contains("Usage: fuseloop [OPTIONS] <COMMAND>"));
}

#[test]
fn a_misspelt_workload_is_answered_with_the_nearest() {
    let dir = tempfile::tempdir().unwrap();
    let (code, errors) = refused(dir.path(), &["bench", "x.beton", "-w", "imagnet"]);
    assert!(code == 2 && errors.contains("did you mean `imagenet`? Available: W1"), "{errors}");
}

#[test]
fn a_quiet_command_leaves_out_notes_and_says_what_was_asked_for() {
    let dir = dataset();
    let run = |quiet: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_fuseloop"));
        command.args(["bench", "photos.beton", "--epochs", "1", "-b", "2"]).args(quiet);
        command.env("RANK", "3").env("WORLD_SIZE", "8").env("LOCAL_RANK", "3");
        let output = command.current_dir(dir.path()).output().unwrap();
        assert!(output.status.success() && !output.stdout.is_empty());
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(run(&[]).contains("note: the environment sets rank 3 of 8"));
    assert_eq!(run(&["--quiet"]), "");
    assert_eq!(run(&["-q"]), "");
}

#[test]
fn completions_and_manual_pages_know_every_command() {
    let dir = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = stdout_of(dir.path(), &["completions", shell]);
        assert!(script.contains("verify") && script.contains("exif-orientation"), "{shell}");
    }
    let page = stdout_of(dir.path(), &["man"]);
    assert!(page.contains(".TH fuseloop 1") && page.contains("fuseloop\\-verify(1)"), "{page}");
    let page = stdout_of(dir.path(), &["man", "verify"]);
    assert!(page.contains("fuseloop\\-verify") && page.contains("write\\-indices"), "{page}");
    let (code, errors) = refused(dir.path(), &["man", "verfy"]);
    assert!(code == 1 && errors.contains("no command named `verfy`"), "{errors}");
}

/// Names that people type or paste.
#[test]
fn odd_names_of_datasets_are_opened_or_refused_by_name() {
    let dir = dataset();
    let (here, root) = (dir.path(), dir.path().to_str().unwrap());
    let said = |name: &str| stdout_of(here, &["info", name, "--json"]);
    let plain = said("photos.beton");
    let samples =
        |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap()["samples"].clone();
    assert_eq!(samples(&plain), 6);
    fs::copy(here.join("photos.beton"), here.join("a b\n#?%20.beton")).unwrap();
    fs::copy(here.join("photos.beton"), here.join("-b.beton")).unwrap();
    for name in [
        "a b\n#?%20.beton".to_owned(),
        "./-b.beton".to_owned(),
        "photos/".to_owned(),
        "photos/../photos//".to_owned(),
        format!("file://{root}/photos.beton"),
        format!("file://localhost{root}/photos/"),
        format!("file://{root}/%70hotos.beton"),
        "file://".to_owned() + root + "/photo?.beton",
    ] {
        assert_eq!(samples(&said(&name)), 6, "{name:?}");
    }
    let (_, errors) = refused(here, &["info", "~/photos.beton"]);
    assert!(errors.contains("`~` is not replaced by the home folder here"), "{errors}");
    let (_, errors) = refused(here, &["info", "file://photos.beton"]);
    assert!(errors.contains("expected three slashes"), "{errors}");
    let (_, errors) = refused(here, &["info", "ftp://host/photos.beton"]);
    assert!(errors.contains("only s3, gs, hf, http and https are read"), "{errors}");
    let (_, errors) = refused(here, &["info", "photos.beton/"]);
    assert!(!errors.contains("is it a .beton file"), "{errors}");
    let long = "x".repeat(5000) + ".beton";
    let (_, errors) = refused(here, &["info", &long]);
    assert!(errors.contains("too long"), "{errors}");
}

#[test]
fn an_output_that_is_an_address_is_refused_before_the_dataset_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let commands: [&[&str]; 10] = [
        &["write", "none", "s3://bucket/x.beton"],
        &["convert", "none", "gs://bucket/x-{000}.tar"],
        &["convert", "none", "https://host/folder/"],
        &["recut", "none", "s3://bucket/x"],
        &["convert", "none", "none", "s3://bucket/x.beton"],
        &["preview", "none", "--out", "s3://bucket/x.png"],
        &["dump", "none", "--out", "s3://bucket/x"],
        &["replay", "none", "--sample", "0", "--out", "s3://bucket/x"],
        &["verify", "none", "--write-indices", "s3://bucket/x.txt"],
        &["demo", "--keep", "file:///tmp/kept"],
    ];
    for args in commands {
        let (code, errors) = refused(dir.path(), args);
        assert_eq!(code, 2, "{args:?}: {errors}");
        let cure = ["then upload the result", "give the path itself, /tmp/kept"];
        assert!(errors.contains("only local files and folders are written"), "{args:?}: {errors}");
        assert!(cure.iter().any(|cure| errors.contains(cure)), "{args:?}: {errors}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is made");
}
