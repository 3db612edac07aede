//! The commands that show a pipeline: `explain`, `preview`, `replay` and `ops`.

use crate::command::{dataset, jpeg, npy, refused, stdout_of};
use fuseloop::loader::Clips;
use fuseloop::ops::internals::registry::registry;
use fuseloop::ops::internals::rows::affine_matrix;
use fuseloop::{Loader, Order, Spec};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[test]
fn explain_shows_the_plan_its_costs_and_its_code() {
    let dir = dataset();
    let explain = ["explain", "photos.beton", "-w", "W3"];
    let text = stdout_of(dir.path(), &[&explain[..], &["-n", "2"]].concat());
    for word in [
        "block 0: u8 [40..=90, 47..=97, 3] -> f32 [3, 224, 224]: rows resized",
        "ColorJitter",
        "predicted",
        "ends here: it stores the batch",
        "only the part that RandomResizedCrop needs: ",
        "mean of 2 samples: read ",
        "of decode, estimated: entropy decoding ",
        "the same windows of 2 images, stored as\n    JPEG ",
        "µs to decode  1.00x\n    re-cut ",
        "--write-mode planes\n",
        "bottleneck: ",
    ] {
        assert!(text.contains(word), "{word}:\n{text}");
    }
    let unmeasured = stdout_of(dir.path(), &[&explain[..], &["-n", "0"]].concat());
    for word in ["predicted", "bottleneck", "the same windows"] {
        assert!(!unmeasured.contains(word), "{unmeasured}");
    }
    let with_code = |flag| stdout_of(dir.path(), &[&explain[..], &["-n", "0", flag]].concat());
    if text.contains("bytes of code") {
        assert!(text.contains("measured"), "{text}");
        for flag in ["--clif", "--ir"] {
            assert!(with_code(flag).contains("; fuseloop::image::block0::variant0\nfunction "));
        }
        assert!(with_code("--asm").contains("xmm"));
    }
}

#[test]
fn explain_as_json_has_every_op_and_its_nanoseconds() {
    let dir = dataset();
    fs::write(dir.path().join("p.toml"), "[fields]\nimage = ['RandomHorizontalFlip', { op = 'Resize', size = 32 }, { op = 'RandomBrightness', magnitude = 0.4 }, { op = 'RandomResizedCrop', size = 24 }]\nlabel = [{ op = 'OneHot', classes = 2 }]").unwrap();
    let text =
        stdout_of(dir.path(), &["explain", "photos.beton", "-p", "p.toml", "--json", "-n", "1"]);
    let json: Value = serde_json::from_str(&text).unwrap();
    let image = &json["images"][0];
    let blocks = image["blocks"].as_array().unwrap();
    assert_eq!(blocks.len(), 2, "{text}");
    let ends = blocks[0]["ends"].as_str().unwrap();
    assert!(ends.starts_with("RandomResizedCrop makes rows of a whole picture"), "{ends}");
    assert_eq!(blocks[0]["ops"][1]["name"], "Resize");
    assert_eq!(blocks[1]["output"]["height"], serde_json::json!([24, 24]));
    assert!(blocks[0]["ops"][1]["predicted_ns"].as_f64().unwrap() > 0.0);
    if json["not_compiled"].is_null() {
        assert!(blocks[0]["ops"][1]["measured_ns"].is_f64() && blocks[1]["measured_ns"].is_f64());
    }
    assert!(image["measured"]["decode_ns"].as_f64().unwrap() > 0.0);
    assert!(image["bottleneck"].as_str().unwrap().contains(" % of a sample's "));
    assert_eq!(json["others"][0]["ops"][0], "OneHot");
}

/// The size of a PNG.
fn png_size(path: &Path) -> [u32; 2] {
    let file = std::io::BufReader::new(fs::File::open(path).unwrap());
    let reader = png::Decoder::new(file).read_info().unwrap();
    [reader.info().height, reader.info().width]
}

#[test]
fn clips_are_shown_by_their_pipeline_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    fs::create_dir_all(path.join("clips/ride/v1")).unwrap();
    for frame in 0..6 {
        fs::write(path.join(format!("clips/ride/v1/{frame}.jpg")), jpeg(48, 40, frame)).unwrap();
    }
    let text = "[clips]\nsampler = \"random\"\nframes = 3\n\n[fields]\nvideo = [{ op = \"RandomCrop\", size = 32 }]\n";
    fs::write(path.join("clips.toml"), text).unwrap();
    let of_clips = |args: &[&str]| stdout_of(path, &[args, &["--pipeline", "clips.toml"]].concat());
    for field in [&[][..], &["--field", "video"]] {
        of_clips(&[&["preview", "clips", "-o", "a.png", "-m", "2"], field].concat());
        let [height, width] = png_size(&path.join("a.png"));
        assert!(height > 2 * 224 && width > 4 * 224 && width < 5 * 240, "{height}x{width}");
    }
    of_clips(&["preview", "clips", "--each-op", "-o", "each.png"]);
    let args = ["replay", "clips", "--sample", "0", "--pipeline", "clips.toml"];
    let (_, error) = refused(path, &args);
    assert!(error.contains("`--sample` shows an image, and a sample is a clip"), "{error}");
    // One key of the table is set, and the others are those of the file.
    of_clips(&["explain", "clips", "--set", "clips.frames=2"]);
    let text = of_clips(&["explain", "clips"]);
    assert!(text.contains("RandomCrop") && text.contains("decode frames to"), "{text}");
    for words in ["kB a frame", "moved a frame", "time a frame", "the frames of 1 sample"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(text.contains(" of a frame's ") && !text.contains("a sample"), "{text}");
    assert!(!text.contains("in memory yet") && !text.contains("fuseloop recut"), "{text}");
    stdout_of(
        path,
        &["convert", "clips", "p.beton", "--videos", "frames", "--write-mode", "planes"],
    );
    let text = of_clips(&["explain", "p.beton"]);
    assert!(!text.contains("JPEGs decode faster") && !text.contains("a sample:"), "{text}");
    // Stores that are joined stay apart, though each has a video 0, and frames without times.
    stdout_of(path, &["convert", "clips", "a.beton", "--videos", "frames"]);
    fs::copy(path.join("a.beton"), path.join("b.beton")).unwrap();
    stdout_of(path, &["convert", "a.beton", "b.beton", "ab.beton"]);
    let joined = Loader::open(path.join("ab.beton")).unwrap().clips(Clips::random(3));
    assert_eq!(joined.build().unwrap().source().len(), 2);
}

/// A command says what video files need, and a workload takes their frames.
#[cfg(feature = "video")]
#[test]
fn video_files_are_shown_once_clips_are_chosen() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../video/tests/golden/frames");
    fs::create_dir_all(path.join("clips/ride")).unwrap();
    fs::copy(golden.join("high.mp4"), path.join("clips/ride/v1.mp4")).unwrap();
    stdout_of(path, &["convert", "clips", "files.beton", "--videos", "files"]);
    fs::write(path.join("p.toml"), "[fields]\nvideo = ['RandomHorizontalFlip']\n").unwrap();
    for dataset in ["clips", "files.beton"] {
        for command in ["preview", "explain", "bench"] {
            let (_, error) = refused(path, &[command, dataset]);
            let wanted = "field video has video files, and no clips of them are chosen\nhelp: add `--set clips.sampler=random";
            assert!(error.contains(wanted), "{command} {dataset}: {error}");
            let (_, error) = refused(path, &[command, dataset, "-p", "p.toml"]);
            let names_clips = error.contains("(`clips`)") || error.contains("(`[clips]`");
            assert!(names_clips, "{command} {dataset}: {error}");
        }
        let set = ["--set", "clips.sampler=random", "--set", "clips.frames=3"];
        let text = stdout_of(path, &[&["explain", dataset][..], &set].concat());
        assert!(text.contains("RandomResizedCrop") && text.contains(" of a frame's "), "{text}");
        stdout_of(path, &[&["preview", dataset, "-o", "a.png"][..], &set].concat());
    }
}

#[test]
fn preview_shows_samples_by_epochs_or_by_ops() {
    let dir = dataset();
    let path = dir.path();
    let preview = |args: &[&str]| {
        stdout_of(path, &[&["preview", "photos.beton", "-w", "W3", "--seed", "3"], args].concat())
    };
    let text = preview(&["-n", "2", "-m", "3", "-o", "a.png"]);
    assert!(text.contains("2 samples of W3") && text.contains("epochs 0 to 2"), "{text}");
    let [height, width] = png_size(&path.join("a.png"));
    assert!(width > 4 * 224 && width < 5 * 240 && height > 2 * 224, "{height}x{width}");
    preview(&["-n", "2", "-m", "3", "-o", "again.png"]);
    assert_eq!(fs::read(path.join("a.png")).unwrap(), fs::read(path.join("again.png")).unwrap());

    preview(&["-n", "1", "--each-op", "--epoch", "4"]);
    let [_, width] = png_size(&path.join("preview.png"));
    assert!(width > 6 * 224, "the stored picture and five ops: {width}");
    preview(&["-n", "1", "-m", "1", "-o", "sheet.JPG"]);
    assert!(fs::read(path.join("sheet.JPG")).unwrap().starts_with(&[0xff, 0xd8, 0xff]));
    for command in [&["preview", "photos.beton"][..], &["demo"]] {
        let (code, errors) = refused(path, &[command, &["-o", "a.b.Gif"]].concat());
        assert_eq!(code, 1);
        let wanted = "a.b.Gif: images cannot be saved as .gif; available: .png, .jpg, .jpeg";
        assert!(errors.contains(wanted), "{errors}");
    }
    let (code, errors) = refused(path, &["preview", "photos.beton", "--field", "picture"]);
    assert_eq!(code, 1);
    assert!(errors.contains("no field named picture; available: image\nhelp: "), "{errors}");
}

/// A sample replayed alone equals the row that the loader yields, in any batch and order.
#[test]
fn a_replayed_sample_is_the_loader_s_row() {
    let dir = dataset();
    let path = dir.path();
    let file = "[fields]\nimage = [{ op = 'RandomResizedCrop', size = { from = 16, to = 48, \
        epochs = 3, step = 16 } }, { op = 'ColorJitter', brightness = 0.4, contrast = 0.4, \
        saturation = 0.4 }, { op = 'Convert', to = 'f16' }, 'ToChannelsFirst']";
    fs::write(path.join("p.toml"), file).unwrap();
    let spec = Spec::open(&path.join("p.toml")).unwrap();
    let loader = spec.apply(Loader::open(path.join("photos.beton")).unwrap());
    let loader = loader.batch_size(6).seed(9).order(Order::Random).workers(1).build().unwrap();
    let batch = loader.epoch(2).unwrap().next().unwrap().unwrap();
    let row = batch.bytes("image").unwrap().len() / 6;
    for sample in 0..6u32 {
        let args = ["replay", "photos.beton", "-p", "p.toml", "--seed", "9", "--epoch", "2"];
        let sample_text = sample.to_string();
        let out = format!("replayed/{sample}");
        let more = ["--sample", &sample_text, "--out", &out];
        let text = stdout_of(path, &[&args[..], &more].concat());
        assert!(text.contains("are the same bits") || text.contains("not compiled"), "{text}");
        assert!(text.contains(" to 48x48\n") && text.contains("stored label "), "{text}");
        let (_, shape, bytes) = npy(&path.join(&out).join("image.npy"));
        assert_eq!(shape, "3, 48, 48, ");
        let rows = batch.bytes("image").unwrap().chunks(row);
        assert_eq!(rows.filter(|row| **row == bytes[..]).count(), 1, "sample {sample}");
        assert_eq!(png_size(&path.join(&out).join("image_02_ColorJitter.png")), [48, 48]);
        assert_eq!(refused(path, &[&args[..], &more].concat()).0, 1, "nothing is overwritten");
    }
}

/// Writes `p.toml`, a pipeline file with these settings and this list for images.
fn pipeline(path: &Path, settings: &str, list: &[&str]) {
    let list = format!("{settings}\n[fields]\nimage = [{}]\n", list.join(", "));
    fs::write(path.join("p.toml"), list).unwrap();
}

/// Returns what `replay` says of each op of a list, for a sample of 67x60 pixels.
fn replayed(path: &Path, list: &[&str]) -> Vec<(String, String)> {
    pipeline(path, "", list);
    let text = stdout_of(path, &["replay", "photos.beton", "-p", "p.toml", "--sample", "2"]);
    let mut lines = text.lines().skip_while(|line| !line.starts_with("  stored ")).skip(1);
    let mut ops = vec![];
    for line in lines.by_ref().take_while(|line| !line.starts_with("  output: ")) {
        let (name, words) = line.trim_start().split_once(' ').unwrap_or((line.trim_start(), ""));
        ops.push((name.to_owned(), words.trim_start().to_owned()));
    }
    ops
}

#[test]
fn replay_says_which_ops_ran_and_what_they_drew() {
    let dir = dataset();
    let list = [
        "{ op = 'Resize', size = [32, 48] }",
        "{ op = 'RandomHorizontalFlip', p = 1.0 }",
        "{ op = 'RandomVerticalFlip', p = 1.0 }",
        "{ op = 'RandomVerticalFlip', p = 1e-9 }",
        "{ op = 'RandomInvert', p = 0.0 }",
        "{ op = 'RandomInvert', p = 1e-9 }",
        "{ op = 'RandomBrightness', magnitude = [1.5, 1.5] }",
        "{ op = 'GaussianNoise', sigma = 0.2 }",
        "{ op = 'RandomRotation', degrees = [30, 30] }",
    ];
    let turned =
        "turned 30 degrees counter-clockwise, to 48x32, matrix [0.866 -0.5 0; 0.5 0.866 0]";
    let expected = [
        ("Resize", "to 48x32"),
        ("RandomHorizontalFlip", "flipped horizontally"),
        ("RandomVerticalFlip", "flipped vertically"),
        ("RandomVerticalFlip", "not run"),
        // An op with p = 0 is left out of the plan.
        ("RandomInvert", "not run"),
        ("RandomBrightness", "1.5"),
        ("GaussianNoise", "mean 0, sigma 51"),
        ("RandomRotation", turned),
    ];
    let expected = expected.map(|(name, words)| (name.to_owned(), words.to_owned()));
    assert_eq!(replayed(dir.path(), &list), expected);
}

/// The numbers between the brackets of `matrix [a b c; d e f]`.
fn matrix(words: &str) -> Vec<f64> {
    let numbers = words.split_once("matrix [").unwrap().1.strip_suffix(']').unwrap();
    numbers.split([' ', ';']).filter(|n| !n.is_empty()).map(|n| n.parse().unwrap()).collect()
}

#[test]
fn replay_says_the_matrix_of_a_warp() {
    let dir = dataset();
    let list = [
        "{ op = 'CenterCrop', size = [40, 50] }",
        "{ op = 'RandomAffine', degrees = [12, 12], scale = [0.8, 0.8], shear = [-15, -15, 10, 10] }",
        "{ op = 'RandomPerspective', p = 1.0 }",
        "{ op = 'RandomPerspective', p = 1e-9 }",
    ];
    let said = replayed(dir.path(), &list);
    let affine = &said[1].1;
    let drawn = "turned 12 degrees clockwise, scaled 0.8, sheared -15 degrees along x, sheared 10 degrees along y";
    assert!(affine.starts_with(&format!("{drawn}, to 50x40, matrix [")), "{affine}");
    let expected = affine_matrix(12.0, [0.0; 2], 0.8, [-15.0, 10.0], [0.0; 2]);
    let found = matrix(affine);
    assert_eq!(found.len(), 6, "{affine}");
    assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-4), "{affine}");
    let perspective = &said[2].1;
    assert!(perspective.starts_with("seen in perspective, to 50x40, matrix ["), "{perspective}");
    let [a, b, c, d, e, f, g, h, i] = matrix(perspective)[..] else { panic!("{perspective}") };
    assert_eq!(i, 1.0);
    // The op moves the corners of the image inwards, so the corners of the output show what is outside.
    for [x, y] in [[0.0, 0.0], [50.0, 0.0], [0.0, 40.0], [50.0, 40.0]] {
        let depth = g * x + h * y + 1.0;
        let [from_x, from_y] = [(a * x + b * y + c) / depth, (d * x + e * y + f) / depth];
        let is_outside =
            |at: f64, corner: f64| if corner == 0.0 { at < 0.1 } else { at > corner - 0.1 };
        assert!(is_outside(from_x, x) || is_outside(from_y, y), "{perspective}: {from_x} {from_y}");
    }
    assert_eq!(said[3].1, "not run");
}

#[test]
fn a_smaller_scale_is_said_beside_the_stored_size() {
    let dir = dataset();
    let path = dir.path();
    pipeline(path, "scaled_decode = true", &["{ op = 'Resize', size = [20, 20] }"]);
    let replay =
        |sample| stdout_of(path, &["replay", "photos.beton", "-p", "p.toml", "--sample", sample]);
    // 90 rows have two for each of 20 at half of the scale, and 40 rows don't.
    let text = replay("5");
    assert!(
        text.contains("  stored 97x90, decoded at 49x45, rows 0..45, columns 0..49\n"),
        "{text}"
    );
    let text = replay("0");
    assert!(text.contains("  stored 47x40, decoded rows 0..40, columns 0..47\n"), "{text}");
    let explain = ["explain", "photos.beton", "-p", "p.toml", "-n", "6"];
    let text = stdout_of(path, &explain);
    assert!(text.contains(" % of the pixels, 33 % of the images at a smaller scale\n"), "{text}");
    let json = stdout_of(path, &[&explain[..], &["--json"]].concat());
    let json: Value = serde_json::from_str(&json).unwrap();
    let smaller = json["images"][0]["measured"]["decoded_smaller"].as_f64().unwrap();
    assert!((smaller - 1.0 / 3.0).abs() < 1e-6, "{smaller}");
    assert_eq!(json["images"][0]["blocks"][0]["ops"][0]["of_image"], false);
}

#[test]
fn commands_show_gray_images_as_their_pipeline_reads_them() {
    let dir = dataset();
    let path = dir.path();
    let pipeline = "[read_mode]\nimage = 'gray'\n[fields]\nimage = [{ op = 'Resize', size = [24, 24] }, 'RandomAutocontrast', { op = 'Normalize', mean = [0.5], std = [0.5] }, 'ToChannelsFirst']\n";
    fs::write(path.join("p.toml"), pipeline).unwrap();
    let args = ["replay", "photos.beton", "-p", "p.toml", "--sample", "2", "--out", "replayed"];
    let text = stdout_of(path, &args);
    assert!(text.contains("are the same bits") || text.contains("not compiled"), "{text}");
    let (_, shape, _) = npy(&path.join("replayed/image.npy"));
    assert_eq!(shape, "1, 24, 24, ");
    assert_eq!(png_size(&path.join("replayed/image_01_Resize.png")), [24, 24]);
    let color = fs::read(path.join("replayed/image_01_Resize.png")).unwrap()[25];
    assert_eq!(color, 0, "gray");
    stdout_of(path, &["preview", "photos.beton", "-p", "p.toml", "-n", "2", "-o", "sheet.png"]);
    let text = stdout_of(path, &["explain", "photos.beton", "-p", "p.toml", "-n", "2"]);
    assert!(text.contains(", 1] -> f32 [1, 24, 24]"), "{text}");
}

#[test]
#[cfg(target_os = "linux")]
fn compiled_loops_are_named_for_perf_if_asked() {
    let dir = dataset();
    let child = Command::new(env!("CARGO_BIN_EXE_fuseloop"))
        .args(["explain", "photos.beton", "-n", "0"])
        .current_dir(dir.path())
        .env("FUSELOOP_PERF", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let map = PathBuf::from(format!("/tmp/perf-{}.map", child.id()));
    let output = child.wait_with_output().unwrap();
    let names = fs::read_to_string(&map).unwrap_or_default();
    let _ = fs::remove_file(&map);
    if String::from_utf8_lossy(&output.stdout).contains("bytes of code") {
        assert!(names.contains(" fuseloop::image::block0::variant0\n"), "{names}");
    }
}

#[test]
fn ops_lists_every_op_and_explains_one() {
    let dir = tempfile::tempdir().unwrap();
    let text = stdout_of(dir.path(), &["ops"]);
    for line in [
        "\ngeometry\n",
        "  RandomHorizontalFlip(p = 0.5): mirrors a share p of the images left to right\n",
        "  Cutout(crop_size, fill = 0): paints a random square over\n",
        "  CenterCrop(size, [ratio], interpolation = \"bilinear\"): ",
    ] {
        assert!(format!("\n{text}").contains(line), "{line}:\n{text}");
    }
    let json: Value = serde_json::from_str(&stdout_of(dir.path(), &["ops", "--json"])).unwrap();
    let listed: Vec<&str> =
        json.as_array().unwrap().iter().map(|op| op["name"].as_str().unwrap()).collect();
    let known: Vec<&str> = registry().iter().map(|info| info.name).collect();
    assert_eq!(listed, known);

    let text = stdout_of(dir.path(), &["ops", "OneHot"]);
    assert!(
        text.contains("classes          a whole number, 0 or more (required): elements"),
        "{text}"
    );
    assert!(text.contains("label = [{ op = \"OneHot\", classes = 1000 }]"), "{text}");
    let json: Value =
        serde_json::from_str(&stdout_of(dir.path(), &["ops", "Cutout", "--json"])).unwrap();
    assert_eq!((&json["class"], &json["params"][1]["default"]), (&"overwrite".into(), &0.into()));
}

/// The example that `ops NAME` shows is a pipeline file.
#[test]
fn what_ops_shows_can_be_pasted() {
    let dir = tempfile::tempdir().unwrap();
    for info in registry() {
        let text = stdout_of(dir.path(), &["ops", info.name]);
        let example = &text[text.find("[fields]").unwrap()..];
        let spec: Spec = example.parse().unwrap_or_else(|error| panic!("{example}: {error}"));
        assert_eq!(spec.fields().count(), 1);
    }
}
