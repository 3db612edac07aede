//! Text for people: numbers with separators, sizes, times; and stdout without panics.

use super::problem::Problem;
use super::words::in_command;
pub(super) use fuseloop::internals::info::{bytes, count, counted};
use fuseloop::internals::source::Escaped;
use fuseloop::loader::Placement;
use fuseloop::write::ProgressFn;
use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::Value;
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Writes to stdout. A closed pipe is [`Problem::Stdout`], which ends the command quietly.
pub(super) fn say(text: &str) -> Result<(), Problem> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Problem::Stdout)
}

/// Writes a value as JSON. Control characters, and characters that change the direction of the text, are written as
/// `\u009b`, which readers of JSON take for the same character.
pub(super) fn say_json(value: &Value) -> Result<(), Problem> {
    say(&json_text(value))
}

/// Returns the text of a value: see [`say_json`].
pub(super) fn json_text(value: &Value) -> String {
    let plain = format!("{value:#}\n");
    let mut text = String::with_capacity(plain.len());
    for c in plain.chars() {
        let is_plain = c == '\n' || c == ' ' || c.is_ascii_graphic();
        let is_shown =
            is_plain || Escaped(c.encode_utf8(&mut [0; 4])).to_string().len() == c.len_utf8();
        if is_shown {
            text.push(c);
        } else {
            // Only strings have characters beyond ASCII.
            text.extend(c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    text
}

/// True if neither notes nor progress are wanted.
static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// Sets whether notes and progress are left out from now on.
pub(super) fn set_quiet(is_quiet: bool) {
    IS_QUIET.store(is_quiet, Ordering::Relaxed);
}

fn is_quiet() -> bool {
    IS_QUIET.load(Ordering::Relaxed)
}

/// Writes a one-line note to stderr, unless the command is quiet.
pub(super) fn note(text: &str) {
    if !is_quiet() {
        tell("note", text);
    }
}

/// Writes a warning of the library to stderr, in one line.
pub(super) fn warning(text: &str) {
    tell("warning", text);
}

fn tell(word: &str, text: &str) {
    // Not `eprintln!`, which panics where stderr is closed.
    let _ = writeln!(io::stderr(), "{word}: {}", Escaped(&in_command(text)));
}

/// Creates a progress bar of `length` steps on stderr; indicatif draws nothing if stderr is not a
/// terminal.
pub(super) fn bar(length: u64, template: &str) -> ProgressBar {
    styled(ProgressBar::new(length), template)
}

fn styled(bar: ProgressBar, template: &str) -> ProgressBar {
    if is_quiet() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    // A wrong template only spoils the looks of the bar, not the work.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

/// A progress bar of a write on stderr, which disappears when it is dropped.
pub(super) struct WriteBar {
    bar: ProgressBar,
    noun: &'static str,
}

impl WriteBar {
    /// Creates a bar that counts `noun`, and the bytes of a conversion.
    pub(super) fn new(noun: &'static str) -> Self {
        let template = format!("{{spinner}} {{human_pos}} {noun}, {{per_sec}}");
        Self { bar: styled(ProgressBar::no_length(), &template), noun }
    }

    /// Returns the function that advances the bar.
    pub(super) fn progress(&self) -> ProgressFn {
        let (bar, noun) = (self.bar.clone(), self.noun);
        ProgressFn::new(move |progress| {
            if let Some(total) = progress.total
                && bar.length() != Some(total)
            {
                let bytes = if progress.bytes > 0 { " {msg}," } else { "" };
                let template = format!(
                    "{{wide_bar}} {{human_pos}}/{{human_len}} {noun},{bytes} {{per_sec}}, {{eta}} left"
                );
                bar.set_length(total);
                styled(bar.clone(), &template);
                // The duration of an earlier attempt is unknown, so its samples must not count towards
                // the speed.
                bar.set_position(progress.resumed);
                bar.reset_eta();
            }
            if progress.bytes > 0 {
                bar.set_message(HumanBytes(progress.bytes).to_string());
            }
            bar.set_position(progress.done);
        })
    }
}

impl Drop for WriteBar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Formats milliseconds with as many decimals as are significant.
pub(super) fn millis(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    let decimals = match ms {
        ms if ms >= 100.0 => 0,
        ms if ms >= 10.0 => 1,
        _ => 2,
    };
    format!("{ms:.decimals$} ms")
}

/// Formats a rate, rounded: `1,234` from 10 on, `3.1` below.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rounded, positive, and `as` saturates"
)]
pub(super) fn rate(per_second: f64) -> String {
    if per_second < 10.0 { format!("{per_second:.1}") } else { count(per_second.round() as u64) }
}

/// Returns the line that says where op lists run; empty if only the CPU was requested.
pub(super) fn device_line(placement: &Placement) -> String {
    if *placement == Placement::default() {
        String::new()
    } else {
        format!("device: {placement}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_has_no_character_that_a_terminal_obeys_and_stays_the_same_value() {
        let name = "a\u{9b}31m\u{202e}b\u{1b}[0m\u{7f}\u{feff}\u{e0001}größe 写";
        let value = serde_json::json!({ name: [name, 1.5] });
        let text = json_text(&value);
        for hidden in ['\u{9b}', '\u{202e}', '\u{1b}', '\u{7f}', '\u{feff}', '\u{e0001}'] {
            assert!(!text.contains(hidden), "{text:?}");
        }
        assert!(text.contains("\\u009b") && text.contains("größe 写"), "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(
            [0.123, 12.34, 123.4].map(|ms| millis(Duration::from_secs_f64(ms / 1e3))),
            ["0.12 ms", "12.3 ms", "123 ms"]
        );
        assert_eq!([3.12, 1234.5].map(rate), ["3.1", "1,235"]);
    }
}
