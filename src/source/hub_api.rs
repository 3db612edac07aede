//! Answers of the API of the Hugging Face Hub, of which nothing is trusted.
//!
//! ```text
//! GET /api/datasets/org/name/revision/main     {"sha": COMMIT, ..}
//! GET /api/datasets/org/name/tree/COMMIT       [{"type": "file", "path": "data/train-00000.parquet", ..}, ..]
//!                                              Link: <..>; rel="next"
//! ```

use serde_json::Value as Json;

/// The most bytes of a path.
pub(super) const MOST_PATH: usize = 4096;

/// Returns the commit in an answer about a revision.
pub(crate) fn commit_of(answer: &[u8]) -> Result<String, String> {
    let answer: Json = serde_json::from_slice(answer).map_err(|error| error.to_string())?;
    let commit = answer.get("sha").and_then(Json::as_str).unwrap_or_default();
    match is_commit(commit) {
        true => Ok(commit.to_owned()),
        false => Err("no commit of 40 hexadecimal digits in `sha`".to_owned()),
    }
}

/// Returns the paths of the files on a page of a tree.
pub(crate) fn files_of(answer: &[u8]) -> Result<Vec<String>, String> {
    let answer: Json = serde_json::from_slice(answer).map_err(|error| error.to_string())?;
    let entries = answer.as_array().ok_or("no list of files")?;
    let mut files = vec![];
    for entry in entries {
        let text = |name: &str| entry.get(name).and_then(Json::as_str);
        let (of_type, path) = (text("type"), text("path").ok_or("a file without a path")?);
        if !is_path(path) {
            return Err(format!("the path {path:?} is not one of a file in the dataset"));
        }
        if of_type == Some("file") {
            files.push(path.to_owned());
        }
    }
    Ok(files)
}

/// Returns the address of the next page in a header `Link`; `None` if there is none.
///
/// # Errors
///
/// Fails if the page is not on the server of the `first` one: the token would be sent there.
pub(crate) fn next_page(link: &str, first: &str) -> Result<Option<String>, String> {
    let next = link.split(',').find_map(|one| {
        let (target, parameters) = one.trim().strip_prefix('<')?.split_once('>')?;
        let is_next = |one: &str| matches!(one.trim(), "rel=\"next\"" | "rel=next");
        parameters.split(';').any(is_next).then_some(target)
    });
    let Some(next) = next else { return Ok(None) };
    let host = first.find("://").map_or(0, |at| at + 3);
    let server = &first[..first[host..].find('/').map_or(first.len(), |at| host + at)];
    let page = first.split('?').next().unwrap_or(first);
    let is_path = |text: &str| text.starts_with('/') && !text.starts_with("//");
    match next.strip_prefix(server) {
        Some(rest) if rest.starts_with('/') => Ok(Some(next.to_owned())),
        None if is_path(next) => Ok(Some(format!("{server}{next}"))),
        None if next.starts_with('?') => Ok(Some(format!("{page}{next}"))),
        _ => Err("the next page of its list is on another server".to_owned()),
    }
}

/// Returns whether this is a relative path without parts that lead elsewhere.
pub(super) fn is_path(path: &str) -> bool {
    let is_part = |part: &str| !matches!(part, "" | "." | "..");
    let is_good = |c: char| !c.is_control() && c != '\\';
    path.len() <= MOST_PATH && path.split('/').all(is_part) && path.chars().all(is_good)
}

/// Returns whether this is a commit, and no branch or tag.
pub(super) fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_on_the_same_server() {
        let first = "https://h:1/api/datasets/o/n/tree/c?recursive=true";
        let next = |link: &str| next_page(link, first);
        let page = |path: &str| Ok(Some(format!("https://h:1{path}")));
        assert_eq!(next("<https://h:1/x?cursor=a>; rel=\"next\""), page("/x?cursor=a"));
        assert_eq!(next("</a>; rel=\"prev\", </b>; title=x; rel=next"), page("/b"));
        assert_eq!(next("</a>; rel=\"last\""), Ok(None));
        assert_eq!(next("<?b>; rel=next"), page("/api/datasets/o/n/tree/c?b"));
        assert_eq!(next("nonsense"), Ok(None));
        for other in [
            "https://h/x",
            "http://h:1/x",
            "https://i:1/x",
            "//i:1/x",
            "https://u@h:1/x",
            "https://h:1@i/x",
            "data:x",
        ] {
            assert!(next(&format!("<{other}>; rel=\"next\"")).is_err(), "{other}");
        }
    }
}
