//! Images of which more is decoded than their window: how many a dataset has, what they cost, and what to do.

use super::pick::spread;
use super::print::counted;
use fuseloop::internals::decode::{DecodeOptions, Decoder};
use fuseloop::ops::Size;
use fuseloop::ops::author::Window;
use fuseloop::sample::SampleId;
use fuseloop::source::{Buffer, FieldKind, ImageMode, Source, Value};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// The number of samples that are looked at.
const LOOKED_AT: u64 = 128;

/// The number of images of a kind that are decoded to measure them.
const MEASURED: usize = 8;

/// Images of one kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    name: &'static str,
    /// The part of them that is decoded, in words.
    decoded: &'static str,
    /// The way to make them cheaper.
    cure: &'static str,
    /// The rows and columns of the window that is measured, in percent of the image's.
    sides: u32,
}

const PROGRESSIVE: Kind = Kind {
    name: "progressive or rare JPEGs",
    decoded: "whose scans are read down to the last row of every window",
    cure: "`fuseloop recut` or `--write-mode tiled` converts them to baseline JPEGs, without loss",
    // 41 % of the area, as much as the windows of `RandomResizedCrop` have on average.
    sides: 64,
};
const PNG: Kind = Kind { name: "PNGs", decoded: WHOLE, cure: SMALLER, sides: 100 };
const WEBP: Kind = Kind { name: "WebPs", ..PNG };
const WHOLE: &str = "which are decoded completely for every window";
const SMALLER: &str = "`fuseloop write` stores them as pixels (`--write-mode raw`) or as lossy JPEGs (`--write-mode jpg`)";

/// Adds a line for each kind of such images that a dataset has. Nothing is added for those that can't be read: other
/// commands say why.
pub(super) fn add_costly(text: &mut String, source: &dyn Source) {
    let mut decoder = Decoder::new(DecodeOptions::default());
    let samples = spread(LOOKED_AT, source.len());
    let fields = source.fields().iter().enumerate();
    for (field, _) in fields.filter(|(_, field)| field.kind == FieldKind::RgbImage) {
        let mut kinds: BTreeMap<Kind, (u64, Vec<Duration>)> = BTreeMap::new();
        for &sample in &samples {
            let mut buffer = Buffer::default();
            let value = source.value(SampleId(sample), field, &mut buffer);
            let Ok(Value::Image(image)) = value else { continue };
            let Ok(mut opened) = decoder.open(&image) else { continue };
            let kind = match image.mode {
                ImageMode::Jpeg if !opened.decodes_windows() => PROGRESSIVE,
                ImageMode::Png => PNG,
                ImageMode::Webp => WEBP,
                _ => continue,
            };
            let (count, times) = kinds.entry(kind).or_default();
            *count += 1;
            let begun = Instant::now();
            let window = centred(opened.size(), kind.sides);
            if times.len() < MEASURED && opened.decode(window).is_ok() {
                times.push(begun.elapsed());
            }
        }
        for (Kind { name, decoded, cure, sides }, (count, mut times)) in kinds {
            times.sort_unstable();
            let Some(time) = times.get(times.len() / 2) else { continue };
            let looked_at = samples.len() as u64;
            let epoch = epoch_time(*time, count, looked_at, source.len());
            let _ = writeln!(
                text,
                "{count} of {} are {name}, {decoded}: {:.1} ms {}, {epoch} of one core per epoch; {cure}",
                counted(looked_at, "checked image"),
                time.as_secs_f64() * 1e3,
                measured(sides),
            );
        }
    }
}

/// Returns the window in the middle of an image with `sides` percent of its rows and columns.
fn centred(Size { height, width }: Size, sides: u32) -> Window {
    let [height, width] = [height, width].map(|side| (side, (side * sides / 100).max(1)));
    Window {
        top: (height.0 - height.1) / 2,
        left: (width.0 - width.1) / 2,
        height: height.1,
        width: width.1,
    }
}

/// Returns what was measured in words.
fn measured(sides: u32) -> String {
    match sides {
        100 => "each".into(),
        sides => format!("for a window of {} % of the image", (sides * sides).div_ceil(100)),
    }
}

/// Returns the time of all images of a kind in words, if `count` of the `looked_at` ones are of it.
#[expect(clippy::cast_precision_loss, reason = "shown rounded")]
fn epoch_time(each: Duration, count: u64, looked_at: u64, all: u64) -> String {
    let share = count as f64 / looked_at.max(1) as f64;
    match each.as_secs_f64() * share * all as f64 {
        seconds if seconds < 90.0 => format!("{seconds:.0} s"),
        seconds if seconds < 5400.0 => format!("{:.0} minutes", seconds / 60.0),
        seconds => format!("{:.1} hours", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_measured_window_is_in_the_middle() {
        let window = |height, width| centred(Size::new(height, width), PROGRESSIVE.sides);
        assert_eq!(window(100, 50), Window { top: 18, left: 9, height: 64, width: 32 });
        assert_eq!(window(1, 1), Size::new(1, 1).full());
        assert_eq!(measured(PROGRESSIVE.sides), "for a window of 41 % of the image");
        assert_eq!(
            (centred(Size::new(7, 9), PNG.sides), measured(100)),
            (Size::new(7, 9).full(), "each".into())
        );
    }

    #[test]
    fn an_epoch_has_the_unit_that_fits() {
        let time = |millis, count| epoch_time(Duration::from_millis(millis), count, 128, 1_281_167);
        assert_eq!(time(3, 1), "30 s");
        assert_eq!(time(3, 64), "32 minutes");
        assert_eq!(time(5, 128), "1.8 hours");
    }
}
