//! The page in a browser, as a user works with it. Screenshots are kept in `target/tmp/studio`.

use super::browser::Browser;
use super::hostile::demo;
use super::server::Studio;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

const TEXT: &str = "# a comment that stays
batch_size = 32
seed = 3

[fields]
image = [
    { op = \"RandomResizedCrop\", size = 128, scale = [0.35, 1.0] },
    \"RandomHorizontalFlip\", # half of them
    { op = \"ColorJitter\", brightness = 0.3, contrast = 0.3, saturation = 0.3 },
]
";

pub(super) fn screenshots() -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("studio");
    fs::create_dir_all(&dir).unwrap();
    dir
}

/// A number that depends on all pixels of the grid.
const PIXELS: &str = "(() => { let sum = 7; for (const canvas of document.querySelectorAll('.cell canvas')) { \
const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height); \
for (let at = 0; at < data.length; at += 3) sum = (sum * 31 + data[at]) % 1000003; } return sum; })()";

/// Waits until the last change has its answer.
pub(super) const IDLE: &str = "studio.done === studio.state.version";

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

#[test]
fn a_pipeline_is_changed_in_a_browser() {
    let Some(mut browser) = Browser::start() else { return };
    let (dir, shots) = (tempfile::tempdir().unwrap(), screenshots());
    demo(dir.path());
    let file = dir.path().join("list.toml");
    fs::write(&file, TEXT).unwrap();
    let studio = Studio::start(dir.path(), &["demo/demo.beton", "--pipeline", "list.toml"]);
    browser.theme("light");
    browser.open(&studio.url());
    browser.wait("document.querySelector('#plan .block')");
    browser.screenshot(&shots.join("light.png"));
    let first = number(&browser.eval(PIXELS));

    // An op is added by keys alone.
    browser.press("a", 65, 0);
    browser.wait("document.querySelector('#add-dialog').open");
    browser.write("invert");
    browser.press("Enter", 13, 0);
    browser.wait(&format!("document.querySelectorAll('.card').length === 4 && {IDLE}"));
    let added = number(&browser.eval(PIXELS));
    assert_ne!(first, added, "the op changes pixels");
    let text = browser.eval("document.querySelector('#text').value");
    assert!(text.as_str().unwrap().contains("# half of them\n"), "{text}");
    assert!(text.as_str().unwrap().contains("\"RandomInvert\",\n]"), "{text}");

    // A slider is moved by an arrow key.
    browser.eval("document.querySelector('[data-path=\"2\"] [data-param=\"brightness\"] input[type=range]').focus()");
    for _ in 0..20 {
        browser.press("ArrowRight", 39, 0);
    }
    browser.wait(IDLE);
    assert_ne!(added, number(&browser.eval(PIXELS)), "the slider changes pixels");
    let text = browser.eval("document.querySelector('#text').value");
    assert!(!text.as_str().unwrap().contains("brightness = 0.3,"), "{text}");

    // A parameter that is out of range is shown at its place, with what it takes.
    browser.eval("(() => { const field = document.querySelector('[data-path=\"1\"] [data-param=\"p\"] input[type=number]'); field.value = 3; field.dispatchEvent(new Event('input')); })()");
    browser.wait("document.querySelector('[data-path=\"1\"].bad .problem .cure')");
    let problem = browser.eval("document.querySelector('.problem').textContent");
    assert!(problem.as_str().unwrap().contains("p takes a number"), "{problem}");
    browser.wait("document.querySelector('#lines .bad')");
    browser.screenshot(&shots.join("error.png"));
    browser.eval("(() => { const field = document.querySelector('[data-path=\"1\"] [data-param=\"p\"] input[type=number]'); field.value = 1; field.dispatchEvent(new Event('input')); })()");
    browser.wait(&format!("!document.querySelector('.problem') && {IDLE}"));
    let fixed = number(&browser.eval(PIXELS));

    // Saved, and read again.
    browser.press("s", 83, 2);
    browser.wait("document.querySelector('#toast').textContent.startsWith('Saved')");
    let text = browser.eval("document.querySelector('#text').value");
    assert_eq!(fs::read_to_string(&file).unwrap(), text.as_str().unwrap());
    browser.open(&studio.url());
    assert_eq!(
        browser.eval("document.querySelector('#text').value"),
        text,
        "the text after a reload"
    );
    assert_eq!(number(&browser.eval(PIXELS)), fixed, "the pixels after a reload");

    // The text is edited: the cards follow.
    browser.eval("(() => { const area = document.querySelector('#text'); area.value = area.value.replace('size = 128', 'size = 96'); area.dispatchEvent(new Event('input')); })()");
    browser.wait(&format!("{IDLE} && document.querySelector('.cell canvas').width === 96"));
    assert_eq!(
        browser.eval("document.querySelector('[data-param=size] input[type=number]').value"),
        json!("96")
    );

    // A card is moved by keys, and the change is undone.
    browser.eval("document.querySelector('[data-path=\"3\"]').focus()");
    browser.press("ArrowUp", 38, 1);
    browser.wait(&format!(
        "{IDLE} && document.querySelector('[data-path=\"2\"] .name').textContent === 'RandomInvert'"
    ));
    browser.press("z", 90, 2);
    browser.wait(&format!(
        "{IDLE} && document.querySelector('[data-path=\"3\"] .name').textContent === 'RandomInvert'"
    ));

    // One sample, op by op.
    browser.click(".cell");
    browser.wait("document.querySelectorAll('.step').length === 5 && document.querySelector('.histograms svg')");
    assert!(
        browser
            .eval("document.querySelector('#sample').textContent")
            .as_str()
            .unwrap()
            .contains("the same bits")
    );
    browser.screenshot(&shots.join("sample.png"));
    browser.theme("dark");
    browser.screenshot(&shots.join("sample-dark.png"));
    browser.press("Escape", 27, 0);
    browser.wait("document.querySelector('#sample').hidden");
    browser.screenshot(&shots.join("dark.png"));

    // A narrow window has the samples, and the list below them.
    let size = |width: u32| json!({ "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": false });
    browser.send("Emulation.setDeviceMetricsOverride", &size(420));
    browser.wait("innerWidth === 420");
    let shown = "(() => { const box = document.querySelector('.cell canvas').getBoundingClientRect(); \
        return box.width > 60 && box.left >= 0 && box.right <= innerWidth && box.bottom < innerHeight; })()";
    browser.wait(shown);
    assert_eq!(browser.eval("document.documentElement.scrollWidth <= innerWidth"), json!(true));
    browser.screenshot(&shots.join("narrow.png"));
    browser.send("Emulation.setDeviceMetricsOverride", &size(1280));
    browser.wait("innerWidth === 1280");

    // An op that works on levels is added before the one that it can't follow.
    browser.eval("(() => { const area = document.querySelector('#text'); area.value = area.value.replace(/\\]\\s*$/, '    { op = \"Normalize\", mean = [0.5, 0.5, 0.5], std = [0.5, 0.5, 0.5] },\\n]\\n'); area.dispatchEvent(new Event('input')); })()");
    browser.wait(&format!("document.querySelectorAll('.card').length === 5 && {IDLE}"));
    browser.press("a", 65, 0);
    browser.wait("document.querySelector('#add-dialog').open");
    browser.write("RandomEqualize");
    browser.press("Enter", 13, 0);
    browser.wait(&format!(
        "document.querySelector('[data-path=\"4\"] .name')?.textContent === 'RandomEqualize' && {IDLE}"
    ));
    assert_eq!(browser.eval("!!document.querySelector('.problem')"), json!(false));

    // An epoch runs.
    browser.press("r", 82, 0);
    browser.wait("document.querySelector('#plan').textContent.includes('96 of 96') && document.querySelector('#plan').textContent.includes('Run an epoch')");
    assert_eq!(browser.errors, Vec::<String>::new());
}

#[cfg(target_os = "linux")]
#[test]
fn ten_thousand_samples_scroll_without_growth() {
    const SAMPLES: u32 = 10_000;
    let Some(mut browser) = Browser::start() else { return };
    let (dir, shots) = (tempfile::tempdir().unwrap(), screenshots());
    let mnist = dir.path().join("mnist");
    fs::create_dir(&mnist).unwrap();
    let pixels = (0..SAMPLES * 784).map(|at| (at % 251 * (at / 784) % 256) as u8);
    let mut images = [0x803, SAMPLES, 28, 28].map(u32::to_be_bytes).concat();
    images.extend(pixels);
    fs::write(mnist.join("train-images-idx3-ubyte"), images).unwrap();
    let mut labels = [0x801, SAMPLES].map(u32::to_be_bytes).concat();
    labels.extend((0..SAMPLES).map(|sample| (sample % 10) as u8));
    fs::write(mnist.join("train-labels-idx1-ubyte"), labels).unwrap();
    let studio = Studio::start(dir.path(), &["mnist"]);
    browser.theme("dark");
    browser.open(&studio.url());
    browser.press("2", 50, 0);
    browser.wait("document.querySelector('.thumb canvas')");
    browser.screenshot(&shots.join("dataset-dark.png"));
    let scroll = |browser: &mut Browser| {
        for part in 0..=50 {
            browser.eval(&format!(
                "(() => {{ const all = document.querySelector('.all'); all.scrollTop = all.scrollHeight * {part} / 50; }})()"
            ));
            browser.wait("[...document.querySelectorAll('.thumb')].some((thumb) => thumb.loaded)");
            assert!(number(&browser.eval("document.querySelectorAll('.thumb').length")) < 150);
        }
        browser.wait("[...document.querySelectorAll('.thumb')].some((thumb) => thumb.textContent.includes('#9999'))");
        browser.send("HeapProfiler.collectGarbage", &json!({}));
        let heap = browser.send("Runtime.getHeapUsage", &json!({}));
        (heap["usedSize"].as_f64().unwrap(), studio.memory())
    };
    let (heap, memory) = scroll(&mut browser);
    let (heap_after, memory_after) = scroll(&mut browser);
    assert!(heap_after < heap + 4e6, "the page grew from {heap} to {heap_after} bytes");
    assert!(memory_after < memory + (32 << 20), "the server grew from {memory} to {memory_after}");
    assert_eq!(browser.errors, Vec::<String>::new());
}
