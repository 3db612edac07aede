//! Clips of videos in the page: their frames are those of batches, and samples are videos in all calls.

use super::browser::Browser;
use super::page::{IDLE, screenshots};
use super::server::Studio;
use crate::command::jpeg;
use fuseloop::{Batch, Loader, Spec};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// The folders of the videos, and their numbers of frames.
const VIDEOS: [(&str, u16); 4] =
    [("ride/v1", 12), ("ride/v2", 40), ("walk/v3", 3), ("walk/v4", 25)];

/// Writes the videos as folders of frames. Those of the third differ in size.
fn frames(dir: &Path) {
    for ((name, frames), video) in VIDEOS.into_iter().zip(0..) {
        let folder = dir.join("clips").join(name);
        fs::create_dir_all(&folder).unwrap();
        for frame in 0..frames {
            let width = if video == 2 { 40 + frame } else { 48 };
            let image = jpeg(width, 36, usize::from(frame * 7 + video));
            fs::write(folder.join(format!("img_{}.jpg", frame + 1)), image).unwrap();
        }
    }
}

fn text(clips: &str, after: &str) -> String {
    format!(
        "seed = 5\n\n[clips]\nsource_fps = 10\n{clips}\n\n[fields]\nvideo = [\n    {{ op = \"RandomResizedCrop\", size = 24 }},\n    \
         \"RandomHorizontalFlip\",\n    {{ op = \"ColorJitter\", brightness = 0.4, contrast = 0.4 }},\n{after}]\n"
    )
}

/// Starts a studio of videos whose pipeline file has clips.
fn studio_with_clips(dir: &Path) -> Studio {
    frames(dir);
    let list = text("sampler = \"random\"\nframes = 6\nstride = 2", "");
    fs::write(dir.join("list.toml"), list).unwrap();
    Studio::start(dir, &["clips", "--pipeline", "list.toml"])
}

/// Loads a sample as a batch, with the seed of the calls.
fn batch(dir: &Path, text: &str, sample: u64, epoch: u32) -> Batch {
    let spec: Spec = text.parse().unwrap();
    let loader = spec.apply(Loader::open(dir).unwrap()).seed(7).build().unwrap();
    loader.get(&[sample], epoch).unwrap()
}

/// Returns the pixels of image `index` of a batch of one clip, as the page has them.
fn rgba(clip: &[u8], index: usize, frames: usize, layout: &str) -> Vec<u8> {
    let pixels = 24 * 24;
    let level = |pixel: usize, channel: usize| match layout {
        "NTHWC" => clip[(index * pixels + pixel) * 3 + channel],
        "NTCHW" => clip[(index * 3 + channel) * pixels + pixel],
        _ => clip[(channel * frames + index) * pixels + pixel],
    };
    (0..pixels).flat_map(|at| [level(at, 0), level(at, 1), level(at, 2), 255]).collect()
}

fn numbers(json: &Value) -> Vec<usize> {
    json.as_array().unwrap().iter().map(|number| number.as_u64().unwrap() as usize).collect()
}

#[test]
fn cells_have_the_frames_of_batches() {
    let dir = tempfile::tempdir().unwrap();
    frames(dir.path());
    let studio = Studio::start(dir.path(), &["clips"]);
    let first = "    \"ToChannelsFirst\",\n";
    for (clips, after, layout, count) in [
        ("sampler = \"random\"\nframes = 6\nstride = 2", "", "NTHWC", 6),
        (
            "sampler = \"random\"\nframes = 5\non_short = \"wrap\"\nper_frame = true",
            first,
            "NTCHW",
            5,
        ),
        ("sampler = \"segments\"\nframes = 9\nlayout = \"NCTHW\"", first, "NCTHW", 9),
        ("sampler = \"regular\"\nframes = 4\nclips = 3", first, "NTCHW", 12),
        ("sampler = \"random\"\nframes = 40", first, "NTCHW", 40),
    ] {
        let text = text(clips, after);
        let body =
            json!({ "text": text, "seed": 7, "epoch": 1, "rows": 4, "draws": 2, "side": 512 });
        let (header, cells) = studio.pictures("grid", &body, "cells");
        assert_eq!(header["fault"], json!(null), "{clips}: {header}");
        assert_eq!((&header["all"], &header["images_of_sample"]), (&json!(4), &json!(count)));
        assert_eq!(header["images"], json!(["video"]));
        assert_eq!(header["image_fields"], json!(["video"]));
        let labels = |row: usize| &header["samples"][row]["labels"];
        assert_eq!(
            [0, 1, 2, 3].map(labels),
            ["ride", "ride", "walk", "walk"].map(|l| json!([l])).each_ref()
        );
        assert_eq!(cells.len(), 8);
        for (cell, pixels) in &cells {
            let (sample, epoch) =
                (cell["sample"].as_u64().unwrap(), cell["epoch"].as_u64().unwrap());
            let batch = batch(&dir.path().join("clips"), &text, sample, epoch as u32);
            let (clip, times) =
                (batch.bytes("video").unwrap(), batch.tensor::<f64>("pts").unwrap());
            let shown: Vec<usize> = match count {
                40 => (0..16).map(|k| k * 40 / 16).collect(),
                count => (0..count).collect(),
            };
            assert_eq!(numbers(&cell["indexes"]), shown, "{clips}");
            assert_eq!(cell["frames"], json!(shown.len()));
            let seconds: Vec<f64> = shown.iter().map(|index| times.as_slice()[*index]).collect();
            assert_eq!((&cell["times"], &cell["numbers"]), (&json!(seconds), &json!(null)));
            assert_eq!((&cell["width"], &cell["height"]), (&json!(24), &json!(24 * shown.len())));
            let want: Vec<u8> =
                shown.iter().flat_map(|index| rgba(clip, *index, count, layout)).collect();
            assert!(*pixels == want && cell["exact"] == json!(true), "{clips}: {cell}");
        }
    }
}

#[test]
fn one_video_has_a_strip_and_the_steps_of_its_first_frame() {
    let dir = tempfile::tempdir().unwrap();
    frames(dir.path());
    let studio = Studio::start(dir.path(), &["clips"]);
    let text = text("sampler = \"random\"\nframes = 6\nstride = 2", "");
    let body = json!({ "text": text, "seed": 7, "epoch": 2, "sample": 3 });
    let (header, pictures) = studio.pictures("sample", &body, "steps");
    assert_eq!(header["fault"], json!(null), "{header}");
    assert_eq!((&header["agrees"], &header["labels"]), (&json!(true), &json!(["walk"])));
    let (strip, pixels) = &pictures[0];
    assert_eq!((&strip["frames"], &strip["height"]), (&json!(6), &json!(144)));
    let batch = batch(&dir.path().join("clips"), &text, 3, 2);
    let want = (0..6).flat_map(|index| rgba(batch.bytes("video").unwrap(), index, 6, "NTHWC"));
    assert!(*pixels == want.collect::<Vec<u8>>());
    // The stored frame, and three ops.
    assert_eq!(pictures.len(), 1 + 4);
    assert_eq!(header["source"], json!([36, 48]));
}

#[test]
fn samples_are_videos_in_all_calls() {
    let dir = tempfile::tempdir().unwrap();
    let studio = studio_with_clips(dir.path());
    let opened = studio.json("open", &json!({}));
    let (text, images) = (&opened["text"], VIDEOS.iter().map(|(_, frames)| u64::from(*frames)));
    assert_eq!(opened["samples"], json!(images.sum::<u64>()), "without clips, images are samples");
    let walking = studio.json("dataset", &json!({ "text": text }))["classes"][1]["number"].take();
    let body = json!({ "text": text, "classes": [walking], "rows": 4, "draws": 1 });
    let (header, _) = studio.pictures("grid", &body, "cells");
    let samples: Vec<u64> = header["samples"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["sample"].as_u64().unwrap())
        .collect();
    assert_eq!((samples, &header["all"]), (vec![2, 3], &json!(2)));

    let (header, thumbs) = studio.pictures("thumbs", &json!({ "text": text }), "cells");
    assert_eq!((&header["all"], thumbs.len()), (&json!(4), 4), "{header}");
    assert_eq!(thumbs[2].0["labels"], json!(["walk"]));
    let (header, _) = studio.pictures("thumbs", &json!({}), "cells");
    assert_eq!(header["all"], opened["samples"]);
    let described = studio.json("dataset", &json!({ "text": text }));
    assert_eq!(
        (&described["samples"], &described["classes"][1]["samples"]),
        (&json!(4), &json!(2))
    );
    assert_eq!(described["sizes"].as_array().unwrap().len(), 4);

    let plan = studio.json("plan", &json!({ "text": text }));
    assert!(plan["measured"]["total_ns"].as_f64().unwrap() > 0.0, "{plan}");
    assert_eq!(studio.json("save", &json!({ "text": text }))["fault"], json!(null));
    studio.json("epoch/start", &json!({ "text": text }));
    let ended = loop {
        let state = studio.json("epoch", &json!({}));
        if state["running"] == json!(false) {
            break state;
        }
    };
    assert_eq!(
        (&ended["error"], &ended["images"], &ended["unit"]),
        (&json!(null), &json!(4), &json!("samples"))
    );

    let code = |language: &str| {
        let body = json!({ "text": text, "language": language });
        studio.json("export", &body)["code"].as_str().unwrap().to_owned()
    };
    let python = code("python");
    assert!(
        python
            .contains("    clips=fl.Clips.random(source_fps=10, frames=6, stride=2),\n    video=["),
        "{python}"
    );
    assert!(code("rust").contains("features = [\"spec\", \"video\"] }"));
}

#[test]
fn a_damaged_frame_is_shown_as_one() {
    let dir = tempfile::tempdir().unwrap();
    frames(dir.path());
    let file = dir.path().join("clips/walk/v3/img_2.jpg");
    fs::write(&file, &fs::read(&file).unwrap()[..300]).unwrap();
    let studio = Studio::start(dir.path(), &["clips"]);
    let body = json!({ "text": text("sampler = \"all\"\nframes = 20", ""), "rows": 8, "draws": 1 });
    let (header, cells) = studio.pictures("grid", &body, "cells");
    // Two clips of the video of 40 frames, and of that of 25.
    assert_eq!((&header["fault"], &header["all"]), (&json!(null), &json!(6)), "{header}");
    for (cell, pixels) in &cells {
        let damaged = cell["damaged"].as_str().unwrap_or_default();
        let is_damaged = cell["sample"] == json!(3);
        assert_eq!(damaged.contains("frame 1, img_2.jpg"), is_damaged, "{cell}");
        assert_eq!(pixels.is_empty(), is_damaged);
    }
}

#[test]
fn clips_have_the_limits_of_images() {
    let dir = tempfile::tempdir().unwrap();
    frames(dir.path());
    let studio = Studio::start(dir.path(), &["clips"]);
    let resized = |size: u32, frames: u32| {
        let clips = format!("[clips]\nsampler = \"random\"\nframes = {frames}\n");
        json!({
            "text": format!("{clips}[fields]\nvideo = [{{ op = \"Resize\", size = [{size}, {size}] }}]\n"),
            "rows": 4, "draws": 16, "side": 512,
        })
    };
    for (size, frames, words) in [
        (5000, 8, "Resize makes an image of "),
        (3000, 8, "more than 134217728 pixels"),
        (3000, 1000, "take fewer or smaller images"),
    ] {
        let (header, cells) = studio.pictures("grid", &resized(size, frames), "cells");
        let message = header["fault"]["message"].as_str().unwrap_or_default();
        assert!(message.contains(words) && !message.contains("LoaderBuilder"), "{header}");
        assert!(cells.is_empty());
    }
    // 64 cells of 16 frames: each frame is smaller, so that an answer has at most 128 MiB.
    let (header, cells) = studio.pictures("grid", &resized(200, 1000), "cells");
    assert_eq!((&header["fault"], cells.len()), (&json!(null), 64));
    let pixels: usize = cells.iter().map(|(_, pixels)| pixels.len()).sum();
    assert!((16 << 20..128 << 20).contains(&pixels), "{pixels}");
    assert_eq!(cells[0].0["width"], json!(100));
    #[cfg(target_os = "linux")]
    assert!(studio.memory() < 800 << 20, "{} bytes", studio.memory());
}

/// They begin with clips, and a pipeline without them says what to write.
#[test]
fn video_files_are_shown_as_clips() {
    let dir = tempfile::tempdir().unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../video/tests/golden/frames");
    for (name, class) in [("high.mp4", "a"), ("motion_jpeg.avi", "b"), ("tiny.mp4", "b")] {
        fs::create_dir_all(dir.path().join("videos").join(class)).unwrap();
        fs::copy(golden.join(name), dir.path().join("videos").join(class).join(name)).unwrap();
    }
    let studio = Studio::start(dir.path(), &["videos"]);
    let opened = studio.json("open", &json!({}));
    let text = opened["text"].as_str().unwrap();
    assert!(text.contains("[clips]\nsampler = \"random\"\nframes = 16\n"), "{text}");
    assert!(text.contains("\nvideo = ["), "{text}");
    let text = text.replace("size = 112", "size = 24");
    let body = json!({ "text": text, "seed": 7, "draws": 1, "targets": true });
    let (header, cells) = studio.pictures("grid", &body, "cells");
    assert_eq!(header["fault"], json!(null), "{header}");
    assert_eq!(header["samples"][1]["labels"], json!(["b"]));
    assert_eq!(cells.len(), 3);
    for (cell, pixels) in &cells {
        let sample = cell["sample"].as_u64().unwrap();
        let batch = batch(&dir.path().join("videos"), &text, sample, 0);
        let clip = batch.bytes("video").unwrap();
        let want: Vec<u8> = (0..16).flat_map(|index| rgba(clip, index, 16, "NTHWC")).collect();
        assert!(*pixels == want, "{cell}");
    }
    let (_, steps) = studio.pictures("sample", &json!({ "text": text, "sample": 0 }), "steps");
    assert_eq!(steps.len(), 1 + 4);
    for text in ["", &text] {
        let (header, thumbs) = studio.pictures("thumbs", &json!({ "text": text }), "cells");
        assert_eq!((&header["fault"], thumbs.len()), (&json!(null), 3), "{header}");
        assert!(thumbs.iter().all(|(_, pixels)| pixels.len() == 112 * 112 * 4));
    }
    let (header, _) = studio.pictures("grid", &json!({ "text": "batch_size = 2\n" }), "cells");
    let message = header["fault"]["message"].as_str().unwrap();
    assert!(message.contains("video files, of which clips are loaded"), "{header}");
    assert!(message.contains("`[clips]` in the pipeline file"), "{header}");
}

/// The images of a list are shown as the frames of a clip are.
#[test]
fn lists_of_images_are_strips() {
    let dir = tempfile::tempdir().unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/parquet");
    fs::copy(golden.join("lists.parquet"), dir.path().join("lists.parquet")).unwrap();
    let studio = Studio::start(dir.path(), &["lists.parquet"]);
    let ops = "[{ op = \"RandomResizedCrop\", size = 24 }]";
    let text = format!("[image_lists]\nimages = 3\n\n[fields]\nimages = {ops}\n");
    let body = json!({ "text": text, "seed": 7, "rows": 16, "draws": 1 });
    let (header, cells) = studio.pictures("grid", &body, "cells");
    assert_eq!((&header["fault"], &header["images_of_sample"]), (&json!(null), &json!(3)));
    let mut shown = 0;
    for (cell, pixels) in &cells {
        let sample = cell["sample"].as_u64().unwrap();
        // Sample 5 has no list.
        assert_eq!(cell["damaged"].is_string(), sample == 5, "{cell}");
        assert_eq!(cell["empty"].is_string(), sample % 4 == 0, "{cell}");
        if cell["frames"].is_u64() {
            let images = sample as usize % 4;
            let batch = batch(&dir.path().join("lists.parquet"), &text, sample, 0);
            let row = batch.bytes("images").unwrap();
            let want = (0..images).flat_map(|index| rgba(row, index, 3, "NTHWC"));
            assert!(*pixels == want.collect::<Vec<u8>>() && cell["times"].is_null(), "{cell}");
            shown += 1;
        }
    }
    assert!(shown > 3, "{header}");
    let (header, steps) = studio.pictures("sample", &json!({ "text": text, "sample": 3 }), "steps");
    assert_eq!((&header["strip"]["frames"], steps.len()), (&json!(3), 1 + 2), "{header}");
}

#[test]
fn clips_play_in_a_browser() {
    let Some(mut browser) = Browser::start() else { return };
    let (dir, shots) = (tempfile::tempdir().unwrap(), screenshots());
    let studio = studio_with_clips(dir.path());
    browser.theme("light");
    browser.open(&studio.url());
    browser.wait(&format!(
        "document.querySelector('.cell .frame')?.textContent.includes(' s') && {IDLE}"
    ));
    assert_eq!(browser.eval("document.querySelector('#field').value"), json!("video"));
    assert_eq!(browser.eval("document.querySelectorAll('.card').length"), json!(3));
    let frame = "document.querySelector('#frame-value').textContent";
    // It plays, and pauses by a key.
    let first = browser.eval(frame);
    browser.wait(&format!("{frame} !== {first}"));
    browser.press("p", 80, 0);
    browser.wait("document.querySelector('#play').getAttribute('aria-label') === 'Play'");
    let paused = browser.eval("document.querySelector('#frame').valueAsNumber").as_u64().unwrap();
    let pixels = "(() => { const canvas = document.querySelector('.cell canvas'); const { data } = canvas.getContext('2d').getImageData(0, 0, 24, 24); return data.reduce((sum, level) => (sum * 31 + level) % 1000003, 7); })()";
    let before = browser.eval(pixels);
    browser.press(".", 190, 0);
    let next = (paused + 1) % 6;
    assert_eq!(browser.eval(frame), json!(format!("{} of 6", next + 1)));
    assert_ne!(browser.eval(pixels), before, "another frame is drawn");
    let words = browser.eval("document.querySelector('.cell .frame').textContent");
    assert!(words.as_str().unwrap().starts_with(&format!("frame {next}, ")), "{words}");
    browser.press(",", 188, 0);
    assert_eq!(browser.eval(pixels), before, "the frame before is drawn");
    browser.screenshot(&shots.join("clips.png"));

    // One video, with its strip.
    browser.click(".cell");
    browser.wait("document.querySelectorAll('.strip canvas').length === 6 && document.querySelectorAll('.step').length === 4");
    browser
        .wait("document.querySelector('#sample').textContent.includes('first frame of the video')");
    browser.screenshot(&shots.join("clip.png"));
    browser.press("Escape", 27, 0);

    // The dataset page has the videos, and without clips the images.
    browser.press("2", 50, 0);
    browser.wait("document.querySelectorAll('.thumb canvas').length === 4");
    browser.press("1", 49, 0);
    browser.eval("(() => { const area = document.querySelector('#text'); area.value = area.value.replace(/\\[clips\\][^[]*/, '').replace('video', 'image'); area.dispatchEvent(new Event('input')); })()");
    browser.wait(&format!(
        "{IDLE} && document.querySelector('#player').hidden && !document.querySelector('.problem')"
    ));
    browser.press("2", 50, 0);
    browser
        .wait("document.querySelector('#dataset-page .side').textContent.includes('80 samples')");
    assert_eq!(browser.errors, Vec::<String>::new());
}
