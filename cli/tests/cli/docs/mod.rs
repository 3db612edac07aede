//! Every block of code in README.md and docs/ is correct: Rust compiles, TOML is a pipeline, commands run.
//!
//! | block  | requirement                                                                           |
//! |--------|---------------------------------------------------------------------------------------|
//! | `rust` | its lines are in `snippets.rs` or in an example, consecutively, which are compiled; most are run |
//! | `toml` | it is a pipeline file; lines that only set parameters are those of a RandomResizedCrop |
//! | `sh`   | each command of `fuseloop` succeeds, in a folder with data as the documents name it    |
//! | `text`, none | no requirement: these are outputs of the programs                                |
//!
//! Commands that can't run here are listed in [`NOT_RUN`], with the reason.

mod gallery;
mod ops;
mod scene;
mod settings;
mod snippets;

use crate::dataset;
use fuseloop::Spec;
use fuseloop::ops::Size;
use fuseloop::source::{FieldKind, FieldSpec};
use fuseloop::write::{FieldValue, ImageInput, ImageOptions, WriteMode, WriteOptions, write_iter};
use jpeg_encoder::{ColorType, Encoder};
use std::fs;
use std::path::Path;
use std::process::Command;

/// The beginnings of commands that are not run, and the reasons.
const NOT_RUN: [(&str, &str); 11] = [
    ("fuseloop studio ", "it serves until it is ended; `studio` runs it"),
    ("cargo ", "it compiles everything again; CI runs the same"),
    ("cc ", "`compile` compiles a program in C"),
    ("scripts/gpu_check.sh", "it builds in release mode for machines with a GPU"),
    ("target/gpu_check/", "it needs a GPU"),
    ("fuseloop info hf://", "it needs a network"),
    ("fuseloop convert 'hf://", "it needs a network"),
    ("git clone ", "it needs a network"),
    ("pip install ", "python/check.sh builds the wheel and installs it"),
    ("python -m fuseloop", "python/check.sh builds the wheel and tests it"),
    ("python python/", "python/check.sh tests the Python package"),
];

/// The environment variable by which [`rust_runs`] runs its child.
const RUNS_RUST: &str = "FUSELOOP_TEST_RUNS_RUST";

/// The number of images in `photos/`: a document replays sample 1234.
const PHOTOS: usize = 1240;

/// The lines around the part of a page that tests write.
const BEGIN: &str = "<!-- FUSELOOP_WRITE_DOCS=1 cargo test -p fuseloop-cli --test cli docs:: -->\n";
const END: &str = "<!-- end -->\n";

/// Returns true if pages and pictures are written instead of compared.
fn is_writing() -> bool {
    std::env::var_os("FUSELOOP_WRITE_DOCS").is_some()
}

/// Compares the part of a page between [`BEGIN`] and [`END`] with a text, or writes the text there.
fn assert_written(page: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(page);
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    if is_writing() {
        return fs::write(&path, [before, BEGIN, expected, END, after].concat()).unwrap();
    }
    assert!(found == expected, "{page} is not up to date. Write it with {BEGIN}");
}

struct Block {
    file: String,
    line: usize,
    language: String,
    text: String,
}

/// All blocks of the documents.
fn blocks() -> Vec<Block> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files: Vec<_> =
        fs::read_dir(root.join("docs")).unwrap().map(|f| f.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|ext| ext == "md"));
    files.push(root.join("README.md"));
    files.sort();
    let all: Vec<Block> = files
        .iter()
        .flat_map(|file| {
            let name = file.strip_prefix(root).unwrap().display().to_string();
            blocks_of(&name, &fs::read_to_string(file).unwrap())
        })
        .collect();
    assert!(all.len() > 10, "no blocks are found any more");
    all
}

fn blocks_of(file: &str, text: &str) -> Vec<Block> {
    let (mut blocks, mut open): (Vec<Block>, bool) = (vec![], false);
    for (at, line) in text.lines().enumerate() {
        match line.strip_prefix("```") {
            Some(_) if open => open = false,
            Some(language) => {
                let (file, language) = (file.to_owned(), language.to_owned());
                blocks.push(Block { file, line: at + 1, language, text: String::new() });
                open = true;
            }
            None if open => {
                let block = blocks.last_mut().unwrap();
                block.text += line;
                block.text.push('\n');
            }
            None => {}
        }
    }
    assert!(!open, "{file}: a block is not closed");
    blocks
}

#[test]
fn every_block_is_of_a_kind_that_is_checked() {
    for Block { file, line, language, .. } in blocks() {
        let is_known = ["rust", "toml", "sh", "text", ""].contains(&&*language)
            || language == "python" && python_tests_name(&file);
        assert!(is_known, "{file}:{line}: nothing checks a block of {language:?}");
    }
}

/// Returns true if a test of the Python package names a page: it runs the page's Python.
fn python_tests_name(page: &str) -> bool {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../python/tests");
    let name = format!("{}\"", Path::new(page).file_name().unwrap().to_str().unwrap());
    let mut files = fs::read_dir(tests).unwrap().map(|file| file.unwrap().path());
    files.any(|file| {
        file.extension().is_some_and(|ext| ext == "py")
            && fs::read_to_string(file).unwrap().contains(&name)
    })
}

/// Returns true if lines occur consecutively in a text. Indentation and empty lines do not count.
fn stand_in(lines: &str, all: &str) -> bool {
    let kept = |text: &str| -> Vec<String> {
        let lines = text.lines().map(|line| line.trim().to_owned());
        lines.filter(|line| !line.is_empty()).collect()
    };
    let (lines, all) = (kept(lines), kept(all));
    all.windows(lines.len()).any(|window| window == lines)
}

#[test]
fn rust_is_compiled() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let examples = fs::read_dir(root.join("examples")).unwrap().map(|file| file.unwrap().path());
    let examples = examples.filter(|path| path.extension().is_some_and(|ext| ext == "rs"));
    // The examples in the documentation of the bridges.
    let bridges =
        ["burn", "candle"].map(|name| root.join(format!("integrations/{name}/src/lib.rs")));
    let examples = examples.chain(bridges);
    let examples = examples.map(|path| fs::read_to_string(path).unwrap().replace("//! ", ""));
    let snippets = include_str!("snippets.rs");
    let compiled: Vec<String> = examples.chain([snippets.to_owned()]).collect();
    for Block { file, line, text, .. } in blocks().iter().filter(|block| block.language == "rust") {
        // The text that a document puts between two pieces.
        for piece in text.split("// ...\n") {
            assert!(
                compiled.iter().any(|source| stand_in(piece, source)),
                "{file}:{line}: this is neither in cli/tests/cli/docs/snippets.rs nor in an example word for \
                 word: put it there, so that it is compiled\n{piece}"
            );
        }
    }
    assert!(!stand_in("let x = 1;", snippets) && stand_in("  Ok(())\n\n}", snippets));
    // A reader gets the `use` lines with the piece, because there are none but those of the pieces.
    let pieces: Vec<String> = blocks().into_iter().map(|block| block.text).collect();
    for line in snippets.lines().filter(|line| line.trim_start().starts_with("use ")) {
        assert!(pieces.iter().any(|piece| stand_in(line, piece)), "in no document: {line}");
    }
}

/// Runs the pieces of `snippets.rs`, if this process is the child of [`rust_runs`].
#[test]
fn child_that_runs_rust() {
    if std::env::var_os(RUNS_RUST).is_some() {
        snippets::run().unwrap();
    }
}

/// Their datasets are named relative to the folder of the process, so they run in another process.
#[cfg(unix)]
#[test]
fn rust_runs() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    lay_out_mnist(dir);
    lay_out_objects(&dir.join("coco.beton"));
    lay_out_photos(&dir.join("photos"), 300);
    let write = "fuseloop write photos train.beton && fuseloop write photos val.beton";
    run(dir, &format!("{write} && fuseloop convert photos photos.tar")).unwrap();
    let pipeline = blocks().into_iter().find(|block| block.language == "toml").unwrap().text;
    fs::write(dir.join("imagenet.toml"), pipeline).unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "docs::child_that_runs_rust"])
        .current_dir(dir)
        .env(RUNS_RUST, "1")
        .output()
        .unwrap();
    let text = String::from_utf8(child.stdout).unwrap();
    assert!(child.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
fn toml_is_a_pipeline() {
    for Block { file, line, text, .. } in blocks().iter().filter(|block| block.language == "toml") {
        let is_whole = text.lines().any(|line| line.starts_with('['));
        let specs: Vec<String> =
            if is_whole { vec![text.clone()] } else { text.lines().map(of_parameter).collect() };
        for spec in specs {
            let parsed = Spec::parse(&spec, Path::new(file));
            assert!(parsed.is_ok(), "{file}:{line}: {}\n{spec}", parsed.err().unwrap());
        }
    }
}

/// A pipeline with one parameter set.
fn of_parameter(line: &str) -> String {
    let size = if line.starts_with("size") { "" } else { "size = 224\n" };
    format!("[[fields.image]]\nop = \"RandomResizedCrop\"\n{size}{line}\n")
}

fn jpeg(seed: usize) -> Vec<u8> {
    let shade = |i: usize| ((i * (3 + seed) / 64) % 256) as u8;
    let pixels: Vec<u8> = (0..24 * 16 * 3).map(shade).collect();
    let mut out = vec![];
    Encoder::new(&mut out, 90).encode(&pixels, 24, 16, ColorType::Rgb).unwrap();
    out
}

/// Creates a folder of images of two classes.
fn lay_out_photos(dir: &Path, count: usize) {
    for (class, numbers) in [("cat", 0..count / 2), ("dog", count / 2..count)] {
        let folder = dir.join(class);
        fs::create_dir_all(&folder).unwrap();
        for number in numbers {
            fs::write(folder.join(format!("{number}.jpg")), jpeg(number)).unwrap();
        }
    }
}

/// Creates the folder `mnist`, with two images in each split.
fn lay_out_mnist(dir: &Path) {
    fs::create_dir(dir.join("mnist")).unwrap();
    for split in ["train", "t10k"] {
        let images = [&[0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 28, 0, 0, 0, 28][..], &[7; 2 * 28 * 28]];
        fs::write(dir.join(format!("mnist/{split}-images-idx3-ubyte")), images.concat()).unwrap();
        let labels = [0, 0, 8, 1, 0, 0, 0, 2, 3, 4];
        fs::write(dir.join(format!("mnist/{split}-labels-idx1-ubyte")), labels).unwrap();
    }
}

/// Writes 32 images, each with one object and a mask of classes.
fn lay_out_objects(path: &Path) {
    let field = |name: &str, kind| FieldSpec { name: name.to_owned(), kind };
    let fields = [
        field("image", FieldKind::RgbImage),
        field("bbox", FieldKind::Bytes),
        field("category_id", FieldKind::Bytes),
        field("keypoints", FieldKind::Bytes),
        field("segmentation", FieldKind::Json),
        field("semantic", FieldKind::RgbImage),
    ];
    let image = |level| {
        let (width, height) = (60, 50);
        let pixels = vec![level; 3 * 60 * 50];
        FieldValue::Image(ImageInput::Rgb { pixels, width, height })
    };
    let floats = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let rows = (0..32).map(|sample| {
        vec![
            image(sample),
            FieldValue::Bytes(floats(&[10.0, 5.0, 30.0, 40.0])),
            FieldValue::Bytes(1i64.to_le_bytes().into()),
            FieldValue::Bytes(floats(&[20.0, 20.0, 2.0].repeat(17))),
            FieldValue::Json(serde_json::json!([[[10, 5, 40, 5, 40, 45, 10, 45]]])),
            image(1),
        ]
    });
    let image = ImageOptions { write_mode: WriteMode::Raw, ..ImageOptions::default() };
    write_iter(rows, &fields, path, &WriteOptions { image, ..WriteOptions::default() }).unwrap();
    // `convert` stores this beside annotated datasets.
    let objects = r#"{"fuseloop":"objects","version":1,"fields":[
{"name":"bbox","as":"boxes","format":"xywh"}, {"name":"category_id","as":"classes"},
{"name":"segmentation","as":"segmentation"}
]}"#;
    fs::write(path.with_extension("beton.objects.json"), objects).unwrap();
}

/// Creates data with the names that the documents use.
fn lay_out(dir: &Path) {
    fs::create_dir(dir.join("shards")).unwrap();
    lay_out_photos(&dir.join("photos"), PHOTOS);
    lay_out_photos(&dir.join("imagenet/train"), 4);
    lay_out_mnist(dir);
    let mds = dir.join("imagenet-mds/train");
    fs::create_dir_all(&mds).unwrap();
    for file in ["index.json", "shard.00000.mds", "shard.00001.mds"] {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/mds/plain");
        fs::copy(golden.join(file), mds.join(file)).unwrap();
    }
    for (word, file) in [("yes", "i16.flac"), ("no", "i24.flac")] {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/audio").join(file);
        let folder = dir.join("speech/train").join(word);
        fs::create_dir_all(&folder).unwrap();
        fs::copy(golden, folder.join("1.flac")).unwrap();
    }
    for (action, file) in [("ride", "high.mp4"), ("walk", "baseline.mp4")] {
        let golden =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../video/tests/golden/frames").join(file);
        let folder = dir.join("clips").join(action);
        fs::create_dir_all(&folder).unwrap();
        fs::copy(golden, folder.join("1.mp4")).unwrap();
        let folder = dir.join("frames").join(action).join("v_0001");
        fs::create_dir_all(&folder).unwrap();
        (1..=3).for_each(|n| fs::write(folder.join(format!("img_{n}.jpg")), jpeg(n)).unwrap());
    }
    fs::write(dir.join("trainlist01.txt"), "walk/1.mp4 1\n").unwrap();
    let parquet = dir.join("org-folder/data");
    fs::create_dir_all(&parquet).unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/parquet/hub/data");
    for file in fs::read_dir(golden).unwrap().map(Result::unwrap) {
        fs::copy(file.path(), parquet.join(file.file_name())).unwrap();
    }
    fs::create_dir_all(dir.join("coco/annotations")).unwrap();
    for split in ["train2017", "val2017"] {
        fs::create_dir(dir.join("coco").join(split)).unwrap();
        fs::write(dir.join("coco").join(split).join("1.jpg"), jpeg(1)).unwrap();
        let json = r#"{"images": [{"id": 1, "file_name": "1.jpg"}], "categories": [{"id": 1, "name": "cat"}],
            "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 3, 4]}]}"#;
        fs::write(dir.join(format!("coco/annotations/instances_{split}.json")), json).unwrap();
    }
    for folder in ["JPEGImages", "Annotations"] {
        fs::create_dir_all(dir.join("voc").join(folder)).unwrap();
    }
    fs::write(dir.join("voc/JPEGImages/1.jpg"), jpeg(1)).unwrap();
    let xml = "<annotation><object><name>cat</name><bndbox><xmin>1</xmin><ymin>2</ymin><xmax>3</xmax><ymax>4</ymax>\
        </bndbox></object></annotation>";
    fs::write(dir.join("voc/Annotations/1.xml"), xml).unwrap();
    for folder in ["images", "labels"] {
        fs::create_dir_all(dir.join("coco128").join(folder).join("train2017")).unwrap();
    }
    fs::write(dir.join("coco128/images/train2017/1.jpg"), jpeg(1)).unwrap();
    fs::write(dir.join("coco128/labels/train2017/1.txt"), "0 0.5 0.5 0.25 0.5\n").unwrap();
    fs::write(dir.join("coco128/data.yaml"), "names: [cat]\n").unwrap();
    let (_dir, beton) = dataset::write(100, WriteMode::Jpg, |_| Size::new(24, 32));
    for name in ["train.beton", "a.beton", "b.beton", "all.beton"] {
        fs::copy(&beton, dir.join(name)).unwrap();
    }
    run(dir, "fuseloop convert imagenet/train 'one-{0}.tar' && mv one-0.tar one.tar").unwrap();
    for shard in 0..256 {
        fs::copy(dir.join("one.tar"), dir.join(format!("train-{shard:03}.tar"))).unwrap();
    }
    let pipelines = blocks().into_iter().find(|block| block.language == "toml").unwrap().text;
    fs::create_dir_all(dir.join("examples/pipelines")).unwrap();
    for name in ["imagenet.toml", "examples/pipelines/imagenet.toml"] {
        fs::write(dir.join(name), &pipelines).unwrap();
    }
    let detection = "[targets.image]\nbbox = { as = 'boxes', format = 'xywh' }\ncategory_id = 'column'\n\
        [fields]\nimage = ['RandomIoUCrop', { op = 'Resize', size = [300, 300] }, 'SanitizeBoundingBoxes']\n";
    fs::write(dir.join("detection.toml"), detection).unwrap();
    let val = "[fields]\nimage = [{ op = \"CenterCrop\", size = 224 }, \"ToChannelsFirst\"]\n";
    fs::write(dir.join("val.toml"), val).unwrap();
    lay_out_run(dir);
}

/// Writes the cursor of the beginning of a run of four ranks, and the logs of two runs of the first of them.
fn lay_out_run(dir: &Path) {
    let spec = fuseloop::Spec::open(&dir.join("imagenet.toml")).unwrap();
    let ranks = fuseloop::order::Ranks::new(0, 4, fuseloop::order::Uneven::Pad).unwrap();
    let loader = spec.apply(fuseloop::Loader::open(dir.join("train.beton")).unwrap());
    let loader = loader.batch_size(4).ranks(ranks).build().unwrap();
    for log in ["monday.jsonl", "tuesday.jsonl"] {
        let log = fuseloop::loader::FingerprintLog::open(dir.join(log)).unwrap();
        loader.log_fingerprints(log);
        assert!(loader.epoch(0).unwrap().next().unwrap().is_ok());
    }
    let cursor = loader.epoch(0).unwrap().cursor().unwrap().to_string();
    fs::write(dir.join("cursor.json"), cursor).unwrap();
}

/// Runs a line of shell in a folder; returns its output if it failed.
fn run(dir: &Path, line: &str) -> Result<(), String> {
    let command = Path::new(env!("CARGO_BIN_EXE_fuseloop"));
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", command.parent().unwrap().display());
    let mut shell = Command::new("sh");
    let output = shell.args(["-ec", line]).current_dir(dir).env("PATH", path).output().unwrap();
    if output.status.success() {
        return Ok(());
    }
    let [printed, errors] =
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    Err(printed + &errors)
}

/// Deletes the output file of a line, which another line may have written already.
fn clear(dir: &Path, line: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let writes = ["write", "convert"];
    let target = match words[..] {
        ["fuseloop", command, ..] if writes.contains(&command) => {
            words[2..].iter().take_while(|word| !word.starts_with(['-', '#'])).last()
        }
        _ => None,
    };
    if let Some(target) = target.filter(|target| target.ends_with(".beton")) {
        let _ = fs::remove_file(dir.join(target));
    }
}

#[cfg(unix)]
#[test]
fn commands_run() {
    for Block { file, line: first, text, .. } in
        blocks().iter().filter(|block| block.language == "sh")
    {
        let dir = tempfile::tempdir().unwrap();
        lay_out(dir.path());
        for (at, line) in text.lines().enumerate() {
            let location = format!("{file}:{}", first + 1 + at);
            if let Some((_, why)) = NOT_RUN.iter().find(|(begin, _)| line.starts_with(begin)) {
                println!("{location}: not run: {why}: {line}");
                continue;
            }
            clear(dir.path(), line);
            run(dir.path(), line).unwrap_or_else(|output| panic!("{location}: {line}\n{output}"));
        }
    }
}

#[cfg(unix)]
#[test]
fn the_message_that_is_shown_is_the_one_that_is_given() {
    let page = blocks().into_iter().filter(|block| block.file == "docs/pipelines.md");
    let page: Vec<Block> = page.collect();
    let of = |language: &str| &page.iter().find(|block| block.language == language).unwrap().text;
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("imagenet.toml"), of("toml").replace("scale", "scael")).unwrap();
    let output = run(dir.path(), "fuseloop bench train.beton --pipeline imagenet.toml");
    assert_eq!(output.unwrap_err(), *of("text"));
}
