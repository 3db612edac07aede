//! Images of which more is decoded than their window: how many a dataset has, what they cost, and what to do.

use super::pick::spread;
use super::print::counted;
use fuseloop::internals::decode::{DecodeOptions, Decoder};
use fuseloop::sample::SampleId;
use fuseloop::source::{Buffer, FieldKind, ImageMode, Source, Value};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// The number of samples that are looked at.
const LOOKED_AT: u64 = 128;

/// The number of images of a kind that are decoded to measure them.
const MEASURED: usize = 8;

/// The name of the images of one kind, what is decoded of them, and the way to make them cheaper.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Kind(&'static str, &'static str, &'static str);

const PROGRESSIVE: Kind = Kind(
    "progressive or rare JPEGs",
    "whose scans are read down to the last row of every window",
    "`fuseloop recut` or `--write-mode tiled` converts them to baseline JPEGs, without loss",
);
const PNG: Kind = Kind("PNGs", WHOLE, SMALLER);
const WEBP: Kind = Kind("WebPs", WHOLE, SMALLER);
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
            let whole = opened.size().full();
            if times.len() < MEASURED && opened.decode(whole).is_ok() {
                times.push(begun.elapsed());
            }
        }
        for (Kind(name, decoded, cure), (count, mut times)) in kinds {
            times.sort_unstable();
            let Some(time) = times.get(times.len() / 2) else { continue };
            let looked_at = samples.len() as u64;
            let epoch = epoch_time(*time, count, looked_at, source.len());
            let _ = writeln!(
                text,
                "{count} of {} are {name}, {decoded}: {:.1} ms each, {epoch} of one core per epoch; {cure}",
                counted(looked_at, "checked image"),
                time.as_secs_f64() * 1e3,
            );
        }
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
    fn an_epoch_has_the_unit_that_fits() {
        let time = |millis, count| epoch_time(Duration::from_millis(millis), count, 128, 1_281_167);
        assert_eq!(time(3, 1), "30 s");
        assert_eq!(time(3, 64), "32 minutes");
        assert_eq!(time(5, 128), "1.8 hours");
    }
}
