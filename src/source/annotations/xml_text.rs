//! The encoding of an XML file.
//!
//! | begins with                        | is read as                                              |
//! |------------------------------------|---------------------------------------------------------|
//! | the byte order mark of UTF-16      | UTF-16                                                  |
//! | `<?xml ... encoding="ISO-8859-1"?>` | ISO-8859-1; in the same way Windows-1252               |
//! | anything else                      | UTF-8, with or without a byte order mark                |
//!
//! A file that names another encoding is read if its bytes are UTF-8, as those of ASCII are; else the error names the
//! encoding. (XML 1.0, section 4.3.3 and appendix F.)

/// The most bytes of the declaration at the beginning of a file.
const MOST_DECLARATION: usize = 256;

/// The characters of the bytes 0x80 to 0x9f in Windows-1252. Those that have none are control characters.
const WINDOWS_1252: [char; 32] = [
    '\u{20ac}', '\u{81}', '\u{201a}', '\u{192}', '\u{201e}', '\u{2026}', '\u{2020}', '\u{2021}',
    '\u{2c6}', '\u{2030}', '\u{160}', '\u{2039}', '\u{152}', '\u{8d}', '\u{17d}', '\u{8f}',
    '\u{90}', '\u{2018}', '\u{2019}', '\u{201c}', '\u{201d}', '\u{2022}', '\u{2013}', '\u{2014}',
    '\u{2dc}', '\u{2122}', '\u{161}', '\u{203a}', '\u{153}', '\u{9d}', '\u{17e}', '\u{178}',
];

/// Returns the text of an XML file. The error says what is wrong and where.
pub(super) fn decode(mut bytes: Vec<u8>) -> Result<String, String> {
    match bytes[..] {
        [0xfe, 0xff, ..] => return utf_16(&bytes[2..], u16::from_be_bytes),
        [0xff, 0xfe, ..] => return utf_16(&bytes[2..], u16::from_le_bytes),
        [0xef, 0xbb, 0xbf, ..] => {
            bytes.drain(..3);
        }
        _ => {}
    }
    let encoding = encoding(&bytes).unwrap_or_default().to_ascii_lowercase();
    match &*encoding {
        "iso-8859-1" | "iso_8859-1" | "iso8859-1" | "latin1" | "latin-1" => {
            return Ok(bytes.into_iter().map(char::from).collect());
        }
        "windows-1252" | "cp1252" => {
            let character = |byte: u8| match byte {
                0x80..=0x9f => WINDOWS_1252[usize::from(byte - 0x80)],
                _ => char::from(byte),
            };
            return Ok(bytes.into_iter().map(character).collect());
        }
        _ => {}
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        match &*encoding {
            "" | "utf-8" | "utf8" => {
                format!("byte {at}: the text is not UTF-8: save it so, or name its encoding")
            }
            other => format!(
                "byte {at}: the encoding of the text is {other:?}, expected UTF-8, UTF-16, ISO-8859-1 or Windows-1252: \
                 save it as UTF-8"
            ),
        }
    })
}

fn utf_16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<String, String> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let text = char::decode_utf16(pairs.iter().map(|&pair| unit(pair)));
    let text: Result<String, _> = text.collect();
    text.ok().filter(|_| rest.is_empty()).ok_or_else(|| "the text is not UTF-16".to_owned())
}

/// Returns the encoding that the declaration names.
fn encoding(bytes: &[u8]) -> Option<&str> {
    let declaration = &bytes[..bytes.len().min(MOST_DECLARATION)];
    let end = declaration.windows(2).position(|two| two == b"?>")?;
    let declaration = str::from_utf8(&declaration[..end]).ok()?.strip_prefix("<?xml")?;
    let (_, value) = declaration.split_once("encoding")?;
    let value = value.trim_start().strip_prefix('=')?.trim_start();
    let quote = value.chars().next().filter(|quote| ['"', '\''].contains(quote))?;
    value[1..].split_once(quote).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_by_its_encoding() {
        let declared = |name: &str, text: &[u8]| {
            [format!("<?xml version='1.0' encoding='{name}'?>").as_bytes(), text].concat()
        };
        let end = |bytes| decode(bytes).map(|text| text.split_once("?>").unwrap().1.to_owned());
        assert_eq!(end(declared("ISO-8859-1", b"caf\xe9")).unwrap(), "caf\u{e9}");
        assert_eq!(end(declared("windows-1252", b"\x80 caf\xe9")).unwrap(), "\u{20ac} caf\u{e9}");
        assert_eq!(end(declared("UTF-8", "caf\u{e9}".as_bytes())).unwrap(), "caf\u{e9}");
        assert_eq!(end(declared("GBK", b"cat")).unwrap(), "cat");
        let error = end(declared("GBK", b"\xc3\xa8\xb0")).unwrap_err();
        assert!(error.contains("the encoding of the text is \"gbk\", expected UTF-8"), "{error}");
        let error = decode(b"<a>caf\xe9</a>".to_vec()).unwrap_err();
        assert!(error.starts_with("byte 6: the text is not UTF-8"), "{error}");
        assert_eq!(decode(b"\xef\xbb\xbf<a/>".to_vec()).unwrap(), "<a/>");
    }

    #[test]
    fn utf_16_is_told_by_its_byte_order_mark() {
        let units = || "<a>\u{e9}\u{1f600}</a>".encode_utf16();
        let little: Vec<u8> =
            [0xff, 0xfe].into_iter().chain(units().flat_map(u16::to_le_bytes)).collect();
        let big: Vec<u8> =
            [0xfe, 0xff].into_iter().chain(units().flat_map(u16::to_be_bytes)).collect();
        for bytes in [little.clone(), big] {
            assert_eq!(decode(bytes).unwrap(), "<a>\u{e9}\u{1f600}</a>");
        }
        assert!(decode(little[..little.len() - 1].to_vec()).is_err());
        assert!(decode(vec![0xff, 0xfe, 0x00, 0xd8]).is_err(), "half of a pair");
    }
}
