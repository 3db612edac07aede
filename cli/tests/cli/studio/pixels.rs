//! The page shows the pixels of `replay`, for the same seed, epoch and sample.

use super::hostile::demo;
use super::server::Studio;
use crate::command::stdout_of;
use crate::targets::with_masks;
use serde_json::json;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;

/// Reads a PNG as the page has it: red, green, blue, alpha.
fn png(path: &Path) -> Vec<u8> {
    let mut reader =
        png::Decoder::new(BufReader::new(File::open(path).unwrap())).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    let channels = info.color_type.samples();
    let pixel = |pixel: &[u8]| match *pixel {
        [grey] => [grey, grey, grey, 255],
        [red, green, blue] => [red, green, blue, 255],
        ref other => other.try_into().unwrap(),
    };
    pixels.chunks(channels).flat_map(pixel).collect()
}

const LISTS: [&str; 4] = [
    "{ op = \"RandomResizedCrop\", size = 96 }, \"RandomHorizontalFlip\", { op = \"ColorJitter\", brightness = 0.4, contrast = 0.4, saturation = 0.4, hue = 0.1 }",
    "{ op = \"Resize\", size = 80 }, { op = \"RandomCrop\", size = 64, padding = 4 }, { op = \"Normalize\", mean = [120.0, 110.0, 100.0], std = [60.0, 61.0, 62.0], scale = \"levels\" }, \"ToChannelsFirst\"",
    "{ op = \"Resize\", size = { from = 48, to = 64, epochs = 3, step = 8 } }, { op = \"CenterCrop\", size = 40 }, \"TrivialAugmentWide\"",
    "{ op = \"CenterCrop\", size = 64 }, { op = \"RandomApply\", ops = [{ op = \"GaussianBlur\", kernel_size = 5 }, \"RandomVerticalFlip\"], p = 0.7 }, \"RandomErasing\"",
];

#[test]
fn the_page_shows_the_pixels_of_replay() {
    let dir = tempfile::tempdir().unwrap();
    demo(dir.path());
    let studio = Studio::start(dir.path(), &["demo/demo.beton"]);
    for (list, number) in LISTS.iter().zip(0..) {
        let text = format!("seed = 9\n[fields]\nimage = [{list}]\n");
        fs::write(dir.path().join("list.toml"), &text).unwrap();
        let body =
            json!({ "text": text, "seed": 7, "epoch": 1, "rows": 3, "draws": 2, "side": 512 });
        // The second time, the images are decoded already.
        let (_, first) = studio.pictures("grid", &body, "cells");
        let (header, again) = studio.pictures("grid", &body, "cells");
        assert_eq!(header["fault"], json!(null), "{list}: {header}");
        assert_eq!(again.len(), 6);
        for ((cell, pixels), (_, before)) in again.iter().zip(&first) {
            assert!(cell["exact"] == json!(true) && pixels == before, "{list}: {cell}");
            let (sample, epoch) = (cell["sample"].to_string(), cell["epoch"].to_string());
            let out = format!("replayed-{number}-{sample}-{epoch}");
            let pipeline = ["replay", "demo/demo.beton", "--pipeline", "list.toml", "--seed", "7"];
            let which = ["--sample", &sample, "--epoch", &epoch, "--out", &out];
            stdout_of(dir.path(), &[&pipeline[..], &which].concat());
            let mut files: Vec<_> = fs::read_dir(dir.path().join(&out)).unwrap().collect();
            files.sort_by_key(|file| file.as_ref().unwrap().file_name());
            let files = files.into_iter().map(|file| file.unwrap().path());
            let files: Vec<_> =
                files.filter(|path| path.extension().is_some_and(|end| end == "png")).collect();
            let body = json!({ "text": text, "seed": 7, "epoch": cell["epoch"], "sample": cell["sample"] });
            let (header, steps) = studio.pictures("sample", &body, "steps");
            assert_eq!(header["agrees"], json!(true), "{list}");
            assert_eq!(steps.len(), files.len(), "{list}");
            for ((step, pixels), file) in steps.iter().zip(&files) {
                assert!(*pixels == png(file), "{list}: {step}, {}", file.display());
            }
            assert!(*pixels == steps.last().unwrap().1, "{list}: {cell}");
        }
    }
}

#[test]
fn a_damaged_sample_is_shown_as_one() {
    let dir = tempfile::tempdir().unwrap();
    demo(dir.path());
    let folder = dir.path().join("photos/a");
    fs::create_dir_all(&folder).unwrap();
    let good = first_jpeg(&dir.path().join("demo")).unwrap();
    fs::copy(&good, folder.join("0.jpg")).unwrap();
    fs::write(folder.join("1.jpg"), &fs::read(&good).unwrap()[..200]).unwrap();
    let studio = Studio::start(dir.path(), &["photos"]);
    let body = json!({ "text": "[fields]\nimage = [{ op = \"Resize\", size = 32 }, { op = \"CenterCrop\", size = 32 }]" });
    let (header, cells) = studio.pictures("grid", &body, "cells");
    assert_eq!(header["fault"], json!(null), "{header}");
    let damaged: Vec<bool> = cells.iter().map(|(cell, _)| cell["damaged"].is_string()).collect();
    assert_eq!(damaged, [false, true].repeat(4));
}

/// The first pipeline moves the mask with its image, and small pictures are of both.
#[test]
fn masks_follow_their_images() {
    let dir = tempfile::tempdir().unwrap();
    with_masks(dir.path());
    stdout_of(dir.path(), &["convert", "set", "x.beton"]);
    for dataset in ["set", "x.beton"] {
        let studio = Studio::start(dir.path(), &[dataset]);
        let text = studio.json("open", &json!({}))["text"].as_str().unwrap().to_owned();
        let targets = "[targets.image]\nmask = { as = \"mask\", fill = 255 }\n";
        assert!(text.contains("ColorJitter") && text.ends_with(targets), "{text}");
        let body = json!({ "text": text, "rows": 1, "draws": 2, "side": 64 });
        for (call, body) in [("grid", &body), ("thumbs", &json!({}))] {
            let (header, cells) = studio.pictures(call, body, "cells");
            assert!(header["fault"].is_null() && !cells.is_empty(), "{call}: {header}");
            assert!(cells.iter().all(|(cell, _)| cell["damaged"].is_null()), "{call}: {header}");
        }
    }
}

fn first_jpeg(dir: &Path) -> Option<std::path::PathBuf> {
    fs::read_dir(dir).unwrap().find_map(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return first_jpeg(&path);
        }
        path.extension().is_some_and(|end| end == "jpg" || end == "jpeg").then_some(path)
    })
}
