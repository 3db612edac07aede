//! Patterns for the paths of files on servers, matched component by component.
//!
//! ```text
//! a/*.tar       *, ? and [..] match inside a component
//! a/**/x.tar    ** matches any number of components: a/x.tar, a/b/x.tar, a/b/c/x.tar
//! a/**          ** at the end matches at least one component
//! ```
//!
//! `glob` matches a whole path in exponential time: a `*` that reaches a `/` lets each `*` before it try all its other
//! lengths. A component has no `/`, so there only the last `*` tries others. The time for a path is at most its length
//! times that of the pattern, and a server may choose both.

use crate::source::hub_api::MOST_PATH;
use glob::{MatchOptions, Pattern, PatternError};
use std::iter;

/// A pattern for paths whose components are separated by `/`.
pub(in crate::source) struct PathPattern {
    parts: Vec<Part>,
    /// True if a name that begins with a dot is matched only by a component that begins with one.
    needs_dots: bool,
}

/// A component of a pattern.
enum Part {
    /// Any number of components: `**`.
    AnyDepth,
    One(Pattern),
}

impl PathPattern {
    /// Parses a pattern. Its `*` and `**` match names that begin with a dot, too.
    ///
    /// # Errors
    ///
    /// A message that names what is wrong.
    pub(in crate::source) fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MOST_PATH {
            let len = text.len();
            return Err(format!("a pattern of {len} bytes, expected at most {MOST_PATH}"));
        }
        let bad = |part: &str, error: &PatternError| format!("{part:?} in the pattern: {error}");
        let part = |part| match part {
            "**" => Ok(Part::AnyDepth),
            part => Pattern::new(part).map(Part::One).map_err(|error| bad(part, &error)),
        };
        let parts = text.split('/').filter(|part| !part.is_empty()).map(part);
        Ok(Self { parts: parts.collect::<Result<_, _>>()?, needs_dots: false })
    }

    /// Returns the pattern as patterns of local files are meant: names that begin with a dot need one in the pattern.
    #[cfg(feature = "remote")]
    pub(super) fn needs_dots(self) -> Self {
        Self { needs_dots: true, ..self }
    }

    /// Returns whether a path matches.
    #[cfg(feature = "remote")]
    pub(super) fn matches(&self, path: &str) -> bool {
        self.beginnings(path).last() == Some(true)
    }

    /// Returns whether a path matches, or a folder that it lies in.
    #[cfg(feature = "parquet")]
    pub(in crate::source) fn matches_or_holds(&self, path: &str) -> bool {
        self.beginnings(path).any(|matches| matches)
    }

    /// Returns for each beginning of a path whether it matches: of no component, of one, and so on.
    fn beginnings(&self, path: &str) -> impl Iterator<Item = bool> {
        // Entry `k` is true if the first `k` components of the pattern match what was read of the path.
        let mut reached = vec![false; self.parts.len() + 1];
        reached[0] = true;
        self.skip_depths(&mut reached);
        let ends = |reached: &[bool]| reached.last() == Some(&true);
        let first = ends(&reached);
        let step = move |name: &str| {
            reached = self.after(&reached, name);
            ends(&reached)
        };
        iter::once(first).chain(path.split('/').map(step))
    }

    /// Returns what is reached after one more component of the path.
    fn after(&self, reached: &[bool], name: &str) -> Vec<bool> {
        let mut next = vec![false; reached.len()];
        let is_hidden = self.needs_dots && name.starts_with('.');
        for (at, part) in self.parts.iter().enumerate().filter(|(at, _)| reached[*at]) {
            match part {
                Part::AnyDepth if !is_hidden => next[at..at + 2].fill(true),
                Part::AnyDepth => {}
                Part::One(pattern) => {
                    let may = !is_hidden || pattern.as_str().starts_with('.');
                    next[at + 1] |= may && pattern.matches_with(name, MatchOptions::new());
                }
            }
        }
        self.skip_depths(&mut next);
        next
    }

    /// Lets each `**` that is reached match no component, except at the end of the pattern.
    fn skip_depths(&self, reached: &mut [bool]) {
        for at in 1..self.parts.len() {
            reached[at] |= reached[at - 1] && matches!(self.parts[at - 1], Part::AnyDepth);
        }
    }
}

#[cfg(all(test, feature = "remote", feature = "parquet"))]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_as_globs_of_local_files_do() {
        let options = MatchOptions { require_literal_separator: true, ..MatchOptions::new() };
        let patterns = "x a a/* */x a/**/x ** **/x a/** a/**/b/** **/**/x a?/[!b]* [ab]/*b*/*";
        let paths = "x a a/x a/b/x a/b/c/x b/x ab/x aa/b .x a/.x a/.b/x a/b/x/y b/abc/d";
        for text in patterns.split(' ') {
            let (pattern, whole) = (PathPattern::parse(text).unwrap(), Pattern::new(text).unwrap());
            let dotted = PathPattern::parse(text).unwrap().needs_dots();
            for path in paths.split(' ') {
                let matches = |path: &str| whole.matches_with(path, options);
                assert_eq!(pattern.matches(path), matches(path), "{text} {path}");
                let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
                let holds = ends.clone().any(|end| matches(&path[..end]));
                assert_eq!(pattern.matches_or_holds(path), holds, "{text} {path}");
                let options = MatchOptions { require_literal_leading_dot: true, ..options };
                assert_eq!(
                    dotted.matches(path),
                    whole.matches_with(path, options),
                    "{text} {path}"
                );
            }
        }
        assert!(PathPattern::parse("").unwrap().matches_or_holds("a/x"));
        assert!(PathPattern::parse("a/.*").unwrap().needs_dots().matches("a/.x"));
    }

    #[test]
    fn many_stars_end_soon() {
        let text = format!("{}b", "*a".repeat(20));
        let path = format!("{}/x.parquet", "a".repeat(200));
        assert!(!PathPattern::parse(&text).unwrap().matches_or_holds(&path));
        assert!(!PathPattern::parse(&(text + "/*")).unwrap().needs_dots().matches(&path));
        let deep = PathPattern::parse(&format!("{}b", "**/a/".repeat(20))).unwrap();
        assert!(!deep.matches(&"a/".repeat(200)));
    }

    #[test]
    fn an_invalid_pattern_names_its_component() {
        let refused = |text: &str| PathPattern::parse(text).err().unwrap();
        assert!(refused("a/b[").starts_with("\"b[\" in the pattern: "), "{}", refused("a/b["));
        assert!(refused("a/***").contains("wildcards"), "{}", refused("a/***"));
        let long = refused(&"a".repeat(5000));
        assert_eq!(long, "a pattern of 5000 bytes, expected at most 4096");
    }
}
