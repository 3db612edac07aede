//! The text report of `explain`: the plan as a tree, its cost, and the bottleneck.

use super::explain::{FieldReport, Measured, OtherField, PhaseMeans};
use super::print::{bytes, counted};
use fuseloop::internals::decode::bit_plane_form;
use fuseloop::internals::jit::{BlockCosts, unsupported};
use fuseloop::internals::plan::Description;
use fuseloop::internals::plan::describe::{BlockDescription, OpDescription};
use fuseloop::internals::source::Escaped;
use fuseloop::ops::author::{ImageType, Type};
use std::fmt::Write as _;

/// The shares of the time that a window of a baseline JPEG takes, by `perf` over 1,000 photographs of ImageNet.
const JPEG_PHASES: [(&str, f64); 4] =
    [("entropy decoding", 0.66), ("IDCT", 0.15), ("colour", 0.07), ("the rest", 0.12)];

/// The widths of the columns for names and for types.
const NAMES: usize = 24;
const TYPES: usize = 22;

pub(super) fn in_words(reports: &[FieldReport], others: &[OtherField]) -> String {
    let mut text = String::new();
    reports.iter().for_each(|report| add_field(&mut text, report));
    for other in others {
        let work = match &other.target {
            Some(target) => target.clone(),
            None if other.ops.is_empty() => "copied".to_owned(),
            None => other.ops.join(", "),
        };
        let _ = writeln!(text, "field {}: {work} -> {}", Escaped(&other.name), other.output);
    }
    text
}

fn add_field(text: &mut String, report: &FieldReport) {
    let FieldReport { name, target, plan, measured, .. } = report;
    let _ = writeln!(text, "field {}:", Escaped(name));
    if let Some(target) = target {
        let _ = writeln!(text, "  {target}");
    }
    add_decode(text, report);
    for (index, block) in plan.blocks.iter().enumerate() {
        let predicted = measured.as_ref().and_then(|m| m.predicted.get(index));
        let costs = measured.as_ref().and_then(|m| m.costs.as_ref()?.blocks.get(index));
        add_block(text, index, block, predicted, costs);
    }
    if !plan.left_out.is_empty() {
        let _ = writeln!(text, "  left out because they do nothing: {}", plan.left_out.join(", "));
    }
    for (why, plan) in &plan.later {
        let _ = writeln!(text, "  {why}");
        for (index, block) in plan.blocks.iter().enumerate() {
            add_block(text, index, block, None, None);
        }
    }
    add_code(text, report);
    if let Some(measured) = measured {
        add_moved(text, report, measured);
        add_time(text, report, measured);
        if let Some(storage) = &report.storage {
            storage.add_to(text);
        }
        let _ = writeln!(text, "  bottleneck: {}", bottleneck(report, measured));
    }
}

fn add_decode(text: &mut String, report: &FieldReport) {
    let FieldReport { plan, stored, measured, .. } = report;
    let stored = match stored {
        [0, 0, 0] if report.has_frames => "frames".to_owned(),
        [0, _, 0] => "raw images".to_owned(),
        [_, 0, 0] => "JPEGs".to_owned(),
        [jpeg, raw, 0] => {
            format!("{} and {}", counted(*jpeg, "JPEG"), counted(*raw, "raw image"))
        }
        [0, 0, _] => format!("bit planes (with {})", bit_plane_form()),
        [jpeg, raw, planes] => format!(
            "{}, {} and bit planes of {} (with {})",
            counted(*jpeg, "JPEG"),
            counted(*raw, "raw image"),
            counted(*planes, "image"),
            bit_plane_form()
        ),
    };
    let pushed = match plan.pushed_into_decode.as_slice() {
        [] => "all of it".to_owned(),
        names => format!("only the part that {} needs", names.join(", ")),
    };
    let share = measured.as_ref().map_or_else(String::new, |measured| {
        let PhaseMeans { decoded_pixels, picture_pixels, scaled, .. } = measured.phases;
        let smaller = match scaled {
            0.0 => String::new(),
            share => format!(", {:.0} % of the images at a smaller scale", share * 100.0),
        };
        let share = decoded_pixels / picture_pixels.max(1.0) * 100.0;
        format!(": {share:.0} % of the pixels{smaller}")
    });
    let _ = writeln!(text, "  decode {stored} to {}, {pushed}{share}", short(plan.input));
}

fn add_block(
    text: &mut String,
    index: usize,
    block: &BlockDescription,
    predicted: Option<&BlockCosts>,
    costs: Option<&BlockCosts>,
) {
    let (from, to) = (short(block.input), short(block.output));
    let _ = writeln!(text, "  block {index}: {from} -> {to}: {}", block.summary);
    let times = |predicted: Option<f64>, measured: Option<f64>| match (predicted, measured) {
        (None, None) => String::new(),
        (predicted, measured) => {
            format!(
                "{:>10} {:>10}  ",
                predicted.map_or("".into(), nanos),
                measured.map_or("".into(), nanos)
            )
        }
    };
    let has_times = predicted.is_some();
    let blank = if has_times { format!("{:>10} {:>10}  ", "", "") } else { String::new() };
    let mut line = |name: &str, kind: &str, times: String, role: &str| {
        let times = if times.is_empty() { &blank } else { &times };
        let line = format!("    {name:<NAMES$} {kind:<TYPES$} {times}{role}");
        let _ = writeln!(text, "{}", line.trim_end());
    };
    if has_times {
        let heads =
            format!("{:>10} {:>10}  ", "predicted", if costs.is_some() { "measured" } else { "" });
        line("", "", heads, "");
    }
    let store = |costs: &BlockCosts| costs.load_and_store;
    line("load and store", "", times(predicted.map(store), costs.map(store)), "");
    for op in &block.ops {
        let of = |costs: Option<&BlockCosts>| costs.and_then(|costs| costs.of(op.flat_op));
        line(op.name, &short(op.output), times(of(predicted), of(costs)), &role(op));
    }
    let total = |costs: &BlockCosts| costs.total;
    if has_times {
        line("all of it", "", times(predicted.map(total), costs.map(total)), "");
    }
    let _ = writeln!(text, "    ends here: {}", block.ends);
}

fn role(op: &OpDescription) -> String {
    match op.chosen_by.as_slice() {
        [] => op.role.to_owned(),
        by => format!("{}, if {} chooses it", op.role, by.join(" and ")),
    }
}

fn add_code(text: &mut String, report: &FieldReport) {
    let (bodies, time, code) = report.code;
    let output = Type::Image(report.plan.output);
    let (size, noun) = (bytes(report.plan.output_bytes as u64), report.noun());
    let _ = writeln!(text, "  output: {output}, {size} a {noun}");
    let _ = match unsupported() {
        Some(reason) => writeln!(text, "  not compiled ({reason}): evaluated op by op"),
        None => writeln!(
            text,
            "  compiled {} in {:.2} ms to {code} bytes of code",
            counted(bodies as u64, "loop"),
            time.as_secs_f64() * 1e3
        ),
    };
}

fn add_moved(text: &mut String, report: &FieldReport, measured: &Measured) {
    let (plan, noun) = (&report.plan, report.noun());
    let PhaseMeans { stored_bytes, decoded_pixels, .. } = measured.phases;
    // Frames that are decoded from packets have no bytes of their own.
    let stored = (stored_bytes > 0.0).then(|| format!("{} stored", size(stored_bytes)));
    let mut parts: Vec<String> = stored.into_iter().collect();
    parts.push(format!("{} decoded", size(f64::from(plan.input.channels) * decoded_pixels)));
    for (index, block) in measured.costs.iter().flat_map(|costs| &costs.blocks).enumerate() {
        let name = if plan.blocks.len() > 1 { format!("block {index} ") } else { String::new() };
        let (loaded, stored) = (size(block.bytes_in), size(block.bytes_out));
        parts.push(format!("{name}loads {loaded} and stores {stored}"));
    }
    let _ = writeln!(text, "  moved a {noun}: {}", parts.join(", "));
}

fn add_time(text: &mut String, report: &FieldReport, measured: &Measured) {
    let words = |parts: &[(&str, f64)]| {
        let parts: Vec<String> =
            parts.iter().map(|(name, ns)| format!("{name} {}", nanos(*ns))).collect();
        parts.join(", ")
    };
    let (noun, total) = (report.noun(), nanos(measured.phases.total()));
    let samples = counted(measured.samples, "sample");
    let samples = if report.has_frames { format!("the frames of {samples}") } else { samples };
    let all = measured.phases.total().max(1.0);
    let phases = measured
        .phases
        .all()
        .map(|(name, ns)| format!("{name} {} ({:.0} %)", nanos(ns), ns / all * 100.0));
    let phases = phases.join(", ");
    let _ = writeln!(text, "  time a {noun}: {total} on one core, mean of {samples}: {phases}");
    let jpeg = jpeg_phases(report, measured);
    if !jpeg.is_empty() {
        let _ = writeln!(text, "  of decode, estimated: {}", words(&jpeg));
    }
}

/// Returns the phases of decoding JPEGs in nanoseconds; none if there are no JPEGs.
pub(super) fn jpeg_phases(report: &FieldReport, measured: &Measured) -> Vec<(&'static str, f64)> {
    let decode = measured.phases.decode;
    let phases = if report.stored[0] > 0 { JPEG_PHASES.as_slice() } else { &[] };
    phases.iter().map(|(name, share)| (*name, share * decode)).collect()
}

/// Returns one sentence about where most of the time goes and what would help.
pub(super) fn bottleneck(report: &FieldReport, measured: &Measured) -> String {
    let (phases, total) = (measured.phases, measured.phases.total());
    let (plan, [read, decode]) = (&report.plan, report.remedies);
    let share = |ns: f64| format!("{:.0} %", ns / total.max(1.0) * 100.0);
    let of = |ns: f64| format!("{} of a {}'s {}", share(ns), report.noun(), nanos(total));
    let largest = phases.all().into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    match largest {
        Some(("decode", ns)) => format!("decoding is {}: {decode}", of(ns)),
        Some(("ops", ns)) if unsupported().is_some() => {
            format!(
                "the ops are {}: they are evaluated, because nothing can be compiled here",
                of(ns)
            )
        }
        Some(("ops", ns)) => {
            let op = costliest(plan, measured).map_or_else(String::new, |(name, ns)| {
                format!(", and {name} is {} of it", nanos(ns))
            });
            format!("the ops are {}{op}", of(ns))
        }
        // The frames of a sample were read twice.
        Some(("read", ns)) if report.has_frames => format!("reading is {}: {read}", of(ns)),
        Some(("read", ns)) => format!(
            "reading is {}: the file was not in memory yet; the second epoch shows more",
            of(ns)
        ),
        Some((name, ns)) => {
            format!("{name} is {}: images are so small that little else is left", of(ns))
        }
        None => "nothing was measured".to_owned(),
    }
}

/// Returns the op that took longest, or loading and storing.
fn costliest(plan: &Description, measured: &Measured) -> Option<(&'static str, f64)> {
    let costs = measured.costs.as_ref()?;
    let all = plan.blocks.iter().zip(&costs.blocks).flat_map(|(block, costs)| {
        let ops = block.ops.iter().filter_map(|op| Some((op.name, costs.of(op.flat_op)?)));
        ops.chain([("loading and storing", costs.load_and_store)])
    });
    all.max_by(|a, b| a.1.total_cmp(&b.1))
}

/// Formats an image type as `u8 [224, 224, 3]`.
fn short(image: ImageType) -> String {
    Type::Image(image).to_string().trim_start_matches("a ").replace(" image", "")
}

/// Formats a time with its unit; a time within measurement noise of zero is `0`.
fn nanos(ns: f64) -> String {
    match ns {
        ns if ns < 1.0 => "0".to_owned(),
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e5 => format!("{:.1} µs", ns / 1e3),
        ns if ns < 1e6 => format!("{:.0} µs", ns / 1e3),
        ns => format!("{:.2} ms", ns / 1e6),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a mean of bytes")]
fn size(mean: f64) -> String {
    bytes(mean.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_unit_that_fits() {
        let texts = [-3.0, 12.4, 1234.0, 250_000.0, 1.7e6].map(nanos);
        assert_eq!(texts, ["0", "12 ns", "1.2 µs", "250 µs", "1.70 ms"]);
    }
}
