//! Writes JSON as Python's `json.dumps` does, so that FFCV's users find the bytes that FFCV would have
//! stored.
//!
//! | rule      | text                                                                         |
//! |-----------|------------------------------------------------------------------------------|
//! | separators| `", "` between elements, `": "` after a key                                   |
//! | strings   | ASCII only: `\" \\ \n \r \t \f \b`, else `\uXXXX` in lower case, pairs above U+FFFF |
//! | integers  | decimal                                                                      |
//! | floats    | `float.__repr__`: shortest digits that read back; an exponent of at least two digits where it is below -4 or above 15 |
//! | end       | one NUL byte, at which `JSONField.unpack` cuts                               |
//! | depth     | at most 900 nested arrays and objects                                        |
//!
//! Keys stay in insertion order.

use serde_json::Value;
use std::fmt::Write as _;

/// The maximum nesting depth: Python's parser, and with it FFCV's reader, stops at its recursion limit
/// of 1000 calls, some of which its callers need. The limit also bounds this writer's own stack.
pub(super) const MAX_DEPTH: usize = 900;

/// Returns the bytes stored for `value`: its text and the NUL. `None` if it is nested deeper than
/// [`MAX_DEPTH`].
pub(super) fn stored_bytes(value: &Value) -> Option<Vec<u8>> {
    if !fits(value, MAX_DEPTH) {
        return None;
    }
    let mut text = String::new();
    put(&mut text, value);
    text.push('\0');
    Some(text.into_bytes())
}

/// Returns true if at most `depth` arrays and objects are nested in each other.
fn fits(value: &Value, depth: usize) -> bool {
    match value {
        Value::Array(_) | Value::Object(_) if depth == 0 => false,
        Value::Array(items) => items.iter().all(|item| fits(item, depth - 1)),
        Value::Object(entries) => entries.values().all(|item| fits(item, depth - 1)),
        _ => true,
    }
}

fn put(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => put_number(out, number),
        Value::String(text) => put_string(out, text),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                separate(out, index);
                put(out, item);
            }
            out.push(']');
        }
        Value::Object(entries) => {
            out.push('{');
            for (index, (key, item)) in entries.iter().enumerate() {
                separate(out, index);
                put_string(out, key);
                out.push_str(": ");
                put(out, item);
            }
            out.push('}');
        }
    }
}

fn separate(out: &mut String, index: usize) {
    if index > 0 {
        out.push_str(", ");
    }
}

fn put_number(out: &mut String, number: &serde_json::Number) {
    match number.as_f64() {
        Some(float) if number.is_f64() => put_float(out, float),
        _ => out.push_str(&number.to_string()),
    }
}

/// Writes `repr(float)`. A `serde_json` number is finite, so NaN and infinity do not occur.
fn put_float(out: &mut String, float: f64) {
    // Both Rust and Python print the shortest digits that read back: only the notation differs.
    let scientific = format!("{float:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return out.push_str(&scientific);
    };
    match exponent.parse::<i32>() {
        // A whole number ends in `.0`, as in Python.
        Ok(-4..16) => append(out, format_args!("{}", Plain(float))),
        Ok(power) => {
            let sign = if power < 0 { '-' } else { '+' };
            append(out, format_args!("{digits}e{sign}{:02}", power.unsigned_abs()));
        }
        Err(_) => out.push_str(&scientific),
    }
}

/// A float without an exponent, with `.0` if it is whole.
struct Plain(f64);

impl std::fmt::Display for Plain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let point = if self.0.fract() == 0.0 { ".0" } else { "" };
        write!(f, "{}{point}", self.0)
    }
}

fn put_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{c}' => out.push_str("\\f"),
            '\u{8}' => out.push_str("\\b"),
            ' '..='~' => out.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    append(out, format_args!("\\u{unit:04x}"));
                }
            }
        }
    }
    out.push('"');
}

/// Appends formatted text; a `String` takes all of it.
fn append(out: &mut String, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn text(value: &Value) -> String {
        let mut bytes = stored_bytes(value).unwrap();
        assert_eq!(bytes.pop(), Some(0));
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn separators_and_literals_are_pythons() {
        let value = json!({"a": [1, true, null, "x"], "b": {}, "c": []});
        assert_eq!(text(&value), r#"{"a": [1, true, null, "x"], "b": {}, "c": []}"#);
    }

    #[test]
    fn strings_are_ascii() {
        assert_eq!(
            text(&json!("é\"\\\n\r\t\u{8}\u{c}\u{1}\u{7f}")),
            r#""\u00e9\"\\\n\r\t\b\f\u0001\u007f""#
        );
        assert_eq!(text(&json!("😀")), r#""\ud83d\ude00""#);
    }

    /// The right column is the output of CPython 3.11.
    #[test]
    fn floats_are_pythons_repr() {
        for (float, python) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (123_456_789_012_345.0, "123456789012345.0"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
        ] {
            assert_eq!(text(&json!(float)), python);
        }
    }

    #[test]
    fn integers_keep_all_their_digits() {
        assert_eq!(
            text(&json!([u64::MAX, i64::MIN])),
            "[18446744073709551615, -9223372036854775808]"
        );
    }
}
