//! Files by other writers and odd layouts: `README.md` says what a case is.

#![allow(clippy::unwrap_used, reason = "a test ends where it fails")]

mod case;

use case::Case;
use fuseloop::internals::recorded_warnings;
use fuseloop::source::Dataset;
use fuseloop::verify::{VerifyOptions, verify};
use fuseloop::{Error, ImageReadMode, Loader, Order, Spec};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// The values that an epoch of a dataset delivers.
#[derive(Default)]
struct Delivered {
    fields: Vec<String>,
    labels: Vec<i64>,
    /// The pixels of the first image, three bytes each.
    pixels: Vec<u8>,
}

/// Loads all samples one by one, in their order, with the settings of a case.
fn load(case: &Case) -> Result<Delivered, Error> {
    let spec: Spec = case.toml().parse()?;
    let builder = Loader::open(&case.path)?.batch_size(1).order(Order::Sequential);
    let fields = builder.source().fields().to_vec();
    let modes = spec.settings().read_mode.clone().unwrap_or_default();
    let is_rgb = |name: &&str| {
        modes.iter().all(|(field, mode)| field != name || *mode == ImageReadMode::Rgb)
    };
    let shown = case.plain_image().filter(is_rgb);
    let loader = spec.apply(builder).build()?;
    let mut delivered = Delivered {
        fields: fields.iter().map(|field| field.name.clone()).collect(),
        ..Delivered::default()
    };
    for batch in loader.epoch(0)? {
        let batch = batch?;
        if let Ok(labels) = batch.tensor::<i64>("label") {
            delivered.labels.extend(labels.as_slice());
        }
        if let Some(name) = shown
            && delivered.pixels.is_empty()
            && let Some(first) = batch.list::<u8>(name)?.next()
        {
            delivered.pixels = first.to_vec();
        }
    }
    Ok(delivered)
}

/// The lines that `verify` lists.
fn damaged(path: &Path) -> Result<Vec<String>, Error> {
    let Some(source) = Dataset::open(path)?.source() else { return Ok(vec![]) };
    let report = verify(&*source, &VerifyOptions::default(), &|_| ())?;
    Ok(report.first.iter().map(ToString::to_string).collect())
}

/// Compares the pixels of sample 0 with the PNG of the case.
fn check_pixels(case: &Case, found: &[u8]) -> Result<(), String> {
    let Some(path) = &case.pixels else { return Ok(()) };
    let mut decoder = png::Decoder::new(BufReader::new(File::open(path).unwrap()));
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!(info.color_type, png::ColorType::Rgb, "{}", path.display());
    let expected = &pixels[..info.buffer_size()];
    if found.len() != expected.len() {
        return Err(format!("{} bytes of pixels, not {}", found.len(), expected.len()));
    }
    let furthest = found.iter().zip(expected).map(|(a, b)| a.abs_diff(*b)).max().unwrap_or(0);
    if furthest > case.within {
        return Err(format!("pixels differ by up to {furthest} levels, not {}", case.within));
    }
    Ok(())
}

/// Compares the outcome with that of the case. The error says how they differ.
fn wrong(case: &Case) -> Result<(), String> {
    let (outcome, warnings) = recorded_warnings(|| load(case));
    case.check_warnings(&warnings)?;
    match (&case.error, outcome) {
        (Some(words), Err(error)) if error.to_string().contains(words) => {}
        (Some(words), Err(error)) => return Err(format!("not {words:?}: {error}")),
        (Some(words), Ok(_)) => return Err(format!("no error: {words:?}")),
        // A damaged sample ends the epoch, too.
        (None, Err(_)) if !case.damaged.is_empty() => {}
        (None, Err(error)) => return Err(error.to_string()),
        (None, Ok(found)) => {
            let Delivered { fields, labels, pixels } = found;
            if case.fields.as_ref().is_some_and(|expected| *expected != fields) {
                return Err(format!("the fields are {fields:?}"));
            }
            if case.labels.as_ref().is_some_and(|expected| *expected != labels) {
                return Err(format!("the labels are {labels:?}"));
            }
            check_pixels(case, &pixels)?;
        }
    }
    let (lines, _) = recorded_warnings(|| damaged(&case.path));
    match lines {
        Ok(lines) => case.check_damaged(&lines),
        Err(_) if case.error.is_some() => Ok(()),
        Err(error) => Err(format!("verify: {error}")),
    }
}

#[test]
fn every_case_has_its_outcome() {
    let cases = Case::all();
    assert!(!cases.is_empty());
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|case| Some(format!("{}: {}", case.name, wrong(case).err()?)))
        .collect();
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
