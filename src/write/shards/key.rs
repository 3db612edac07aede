//! Makes safe sample names from a source's own keys, so that no reader can be led astray.
//!
//! | in a key                                     | becomes                                       |
//! |----------------------------------------------|-----------------------------------------------|
//! | an image's extension at the end (`.jpg`)     | removed: the member has its own extension     |
//! | a dot in the last component                  | `_`: WebDataset takes what follows as the extension |
//! | components that are empty, `.` or `..`       | removed: `/etc/x` is `etc/x`, `../x` is `x`   |
//! | control characters, backslashes, colons      | `_`                                           |
//! | `__` at the very beginning                   | `_`: WebDataset skips `__such__` members      |
//! | more than 200 bytes                          | truncated                                     |
//!
//! A key that was changed in any other way than by the first row gets `-` and the sample's number
//! appended, so that it stays unique. A sample without a key is named by its number: `00000123`.

use crate::sample::SampleId;
use crate::source::is_image_extension;

/// The maximum length of a key in bytes, without its number. A file name has at most 255 bytes on most
/// systems.
const MOST: usize = 200;

/// Returns the name of a sample in an archive: safe components between slashes.
pub(in crate::write) fn safe_key(key: Option<&str>, sample: SampleId) -> String {
    let numbered = || format!("{:08}", sample.0);
    let Some(given) = key else { return numbered() };
    let given = without_extension(given);
    let parts: Vec<&str> = given.split('/').filter(|part| !is_empty_part(part)).collect();
    let Some((last, folders)) = parts.split_last() else { return numbered() };
    let folders = folders.iter().map(|part| clean(part, false));
    let key = folders.chain([clean(last, true)]).collect::<Vec<_>>().join("/");
    let key = key.strip_prefix('_').filter(|rest| rest.starts_with('_')).unwrap_or(&key);
    let cut = &key[..key.floor_char_boundary(MOST)];
    // Truncation may leave a slash at the end, which would name a folder.
    let cut = cut.trim_end_matches('/');
    if cut == given { cut.to_owned() } else { format!("{cut}-{}", sample.0) }
}

/// Returns a key without its folders.
pub(in crate::write) fn last_part(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or(key)
}

fn without_extension(key: &str) -> &str {
    match key.rsplit_once('.') {
        Some((name, extension)) if is_image_extension(extension) => name,
        _ => key,
    }
}

fn is_empty_part(part: &str) -> bool {
    part.is_empty() || part == "." || part == ".."
}

fn clean(part: &str, is_last: bool) -> String {
    let is_bad = |c: char| c.is_control() || c == '\\' || c == ':' || (is_last && c == '.');
    part.chars().map(|c| if is_bad(c) { '_' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> String {
        safe_key(Some(text), SampleId(7))
    }

    #[test]
    fn a_good_key_stays() {
        for good in ["a", "n01440764/n01440764_10026", "v1.0/a", "Grüße/字", "a b", "_a"] {
            assert_eq!(key(good), good);
        }
        assert_eq!(key("cat/1.JPEG"), "cat/1");
        assert_eq!(safe_key(None, SampleId(123)), "00000123");
    }

    #[test]
    fn a_key_that_leads_astray_is_changed() {
        assert_eq!(key("../x"), "x-7");
        assert_eq!(key("/etc/passwd"), "etc/passwd-7");
        assert_eq!(key("a/../../b"), "a/b-7");
        assert_eq!(key("a.b.c"), "a_b_c-7");
        assert_eq!(key("x\0y\n"), "x_y_-7");
        assert_eq!(key("C:\\x"), "C__x-7");
        assert_eq!(key("__x"), "_x-7");
        for nothing in ["", "..", "/", "././.", ".jpg"] {
            assert_eq!(key(nothing), "00000007", "{nothing}");
        }
    }

    #[test]
    fn a_long_key_is_cut_between_characters() {
        let long = key(&"é".repeat(300));
        assert!(long.len() <= 203 && long.ends_with("é-7"), "{long}");
        assert_eq!(key(&format!("{}/b", "a".repeat(199))), format!("{}-7", "a".repeat(199)));
        assert_eq!(last_part("a/b"), "b");
    }
}
