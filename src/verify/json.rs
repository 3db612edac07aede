//! Checks that stored text is JSON, as Python's `json.loads` reads it after FFCV has cut the text at its
//! first NUL.
//!
//! Accepted is RFC 8259 with Python's extensions: `NaN`, `Infinity`, `-Infinity`, and half a surrogate
//! pair as `\uXXXX`. Nothing is built from the text, and open brackets are stored in a list, not on the
//! stack: a hostile file may nest them to any depth.

use super::report::ValueError;

/// The tokens that may come next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// A value; after `[` also the closing bracket.
    Value { or_end: bool },
    /// A key; after `{` also the closing bracket.
    Key { or_end: bool },
    /// A comma, or the end of the innermost open bracket.
    Comma,
}

/// The offset of an error in the text, and its description.
type Wrong = (usize, &'static str);

/// Refuses a stored value that is not one JSON text and a NUL.
pub(super) fn check(stored: &[u8]) -> Result<(), ValueError> {
    let len = stored.len();
    let error = |(at, what)| ValueError::not_json(what, at, len);
    let end = stored.iter().position(|&byte| byte == 0).ok_or_else(|| error((len, "no NUL")))?;
    let text = &stored[..end];
    if let Err(wrong) = std::str::from_utf8(text) {
        return Err(error((wrong.valid_up_to(), "invalid UTF-8")));
    }
    JsonReader { text, at: 0, open: vec![] }.document().map_err(error)
}

struct JsonReader<'t> {
    text: &'t [u8],
    at: usize,
    /// The open brackets: `[` and `{`.
    open: Vec<u8>,
}

impl JsonReader<'_> {
    fn document(&mut self) -> Result<(), Wrong> {
        let mut next = Next::Value { or_end: false };
        loop {
            self.skip_blanks();
            if next == Next::Comma && self.open.is_empty() {
                let is_over = self.at == self.text.len();
                return if is_over { Ok(()) } else { Err(self.wrong("more after the value")) };
            }
            next = match next {
                Next::Value { or_end } => self.value(or_end)?,
                Next::Key { or_end } => self.key(or_end)?,
                Next::Comma => self.comma()?,
            };
        }
    }

    fn value(&mut self, or_end: bool) -> Result<Next, Wrong> {
        match self.peek() {
            Some(b']') if or_end => self.close(),
            Some(bracket @ (b'[' | b'{')) => {
                self.at += 1;
                self.open.push(bracket);
                let or_end = true;
                Ok(if bracket == b'[' { Next::Value { or_end } } else { Next::Key { or_end } })
            }
            Some(b'"') => self.string().map(|()| Next::Comma),
            _ if self.word() || self.number() => Ok(Next::Comma),
            _ => Err(self.wrong("a value was expected")),
        }
    }

    fn key(&mut self, or_end: bool) -> Result<Next, Wrong> {
        match self.peek() {
            Some(b'}') if or_end => return self.close(),
            Some(b'"') => self.string()?,
            _ => return Err(self.wrong("a key was expected")),
        }
        self.skip_blanks();
        if !self.take(b":") {
            return Err(self.wrong("a colon was expected"));
        }
        Ok(Next::Value { or_end: false })
    }

    fn comma(&mut self) -> Result<Next, Wrong> {
        let is_list = self.open.last() == Some(&b'[');
        if self.take(b",") {
            let or_end = false;
            return Ok(if is_list { Next::Value { or_end } } else { Next::Key { or_end } });
        }
        if self.peek() == Some(if is_list { b']' } else { b'}' }) {
            return self.close();
        }
        Err(self.wrong("a comma or an end was expected"))
    }

    fn close(&mut self) -> Result<Next, Wrong> {
        self.at += 1;
        self.open.pop();
        Ok(Next::Comma)
    }

    fn string(&mut self) -> Result<(), Wrong> {
        self.at += 1;
        loop {
            match self.peek() {
                None => return Err(self.wrong("a string has no end")),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                Some(..b' ') => return Err(self.wrong("a control character in a string")),
                Some(_) => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<(), Wrong> {
        let hex = |bytes: &[u8]| bytes.iter().all(u8::is_ascii_hexdigit);
        let length = match self.text.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
            Some(b'u') if self.text.get(self.at + 2..self.at + 6).is_some_and(hex) => 6,
            _ => return Err(self.wrong("unknown escape")),
        };
        self.at += length;
        Ok(())
    }

    fn word(&mut self) -> bool {
        let words: [&[u8]; 6] = [b"null", b"true", b"false", b"NaN", b"Infinity", b"-Infinity"];
        words.iter().any(|word| self.take(word))
    }

    /// Reads `-? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?`. If a number ends too early, the
    /// parser refuses what follows it.
    fn number(&mut self) -> bool {
        let begin = self.at;
        self.take(b"-");
        if !self.take(b"0") && self.digits() == 0 {
            self.at = begin;
            return false;
        }
        let whole = self.at;
        if self.take(b".") && self.digits() == 0 {
            self.at = whole;
            return true;
        }
        let mantissa = self.at;
        if self.take(b"e") || self.take(b"E") {
            let _ = self.take(b"+") || self.take(b"-");
            if self.digits() == 0 {
                self.at = mantissa;
            }
        }
        true
    }

    fn digits(&mut self) -> usize {
        let count = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        count
    }

    fn take(&mut self, word: &[u8]) -> bool {
        let is_there = self.text[self.at..].starts_with(word);
        self.at += if is_there { word.len() } else { 0 };
        is_there
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn wrong(&self, what: &'static str) -> Wrong {
        (self.at, what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_json(text: &str) -> bool {
        check(format!("{text}\0").as_bytes()).is_ok()
    }

    #[test]
    fn what_python_writes_is_json() {
        for text in [
            "null",
            " [] ",
            "{}",
            "[1, -0.5, 1e+16, 1E-7, 0, NaN, -Infinity]",
            "{\"a\": {\"b\": [true, false, {}]}, \"\\u00e9\\n\": \"\\ud800\"}",
            "\"größe\"",
        ] {
            assert!(is_json(text), "{text}");
        }
        assert!(is_json(&("[".repeat(100_000) + &"]".repeat(100_000))), "depth costs no stack");
    }

    #[test]
    fn what_is_no_json_says_where() {
        for (text, what, at) in [
            ("", "a value was expected", 0),
            ("[1,]", "a value was expected", 3),
            ("[1 2]", "a comma or an end was expected", 3),
            ("{\"a\" 1}", "a colon was expected", 5),
            ("{\"a\": 1,}", "a key was expected", 8),
            ("[1}", "a comma or an end was expected", 2),
            ("01", "more after the value", 1),
            ("1.", "more after the value", 1),
            ("1e", "more after the value", 1),
            ("-", "a value was expected", 0),
            ("\"a", "a string has no end", 2),
            ("\"\\x\"", "unknown escape", 1),
            ("\"\\u12\"", "unknown escape", 1),
            ("\"\t\"", "a control character in a string", 1),
            ("nul", "a value was expected", 0),
        ] {
            let len = text.len() + 1;
            let error = Err(ValueError::not_json(what, at, len));
            assert_eq!(check(format!("{text}\0").as_bytes()), error, "{text}");
        }
        assert_eq!(check(b"1"), Err(ValueError::not_json("no NUL", 1, 1)));
        assert_eq!(check(b"\"\xff\"\0"), Err(ValueError::not_json("invalid UTF-8", 1, 4)));
        assert!(is_json("1\0 whatever"), "FFCV cuts at the first NUL");
    }

    /// serde_json accepts the same texts, except for Python's own words, halves of surrogate pairs,
    /// great depth and numbers beyond f64.
    #[test]
    fn another_reader_agrees() {
        let pieces =
            ["{", "}", "[", "]", ",", ":", "\"a\"", "1", "-0.5e-3", "null", " ", "\"\\n\"", "0"];
        arbtest::arbtest(|u| {
            let count = u.int_in_range(1..=9)?;
            let text: String =
                (0..count).map(|_| u.choose(&pieces).copied()).collect::<Result<_, _>>()?;
            let theirs = serde_json::from_str::<serde_json::Value>(&text).is_ok();
            assert_eq!(is_json(&text), theirs, "{text}");
            Ok(())
        })
        .budget_ms(300);
    }
}
