//! The texts that users read are plain English: phrases that a reader has to read twice do not come back.
//!
//! | texts                                        | where                                                  |
//! |----------------------------------------------|--------------------------------------------------------|
//! | help, which clap takes from doc comments     | `cli/src`                                              |
//! | errors, warnings and notes: texts in quotes  | the sources of the library, the command and the Python package |
//! | docstrings, and the other texts in quotes    | `python/fuseloop`                                      |
//! | pages                                        | `README.md`, `docs/*.md`                               |
//!
//! A phrase may go on in the next line of its text. Comments of code are not read.

use crate::layers::rust_files;
use std::fs;
use std::path::Path;

/// Phrases in lower case, and what to write instead.
const PHRASES: [(&str, &str); 35] = [
    ("if not given", "`[default: ..]` at the end, or `by default`"),
    ("if none is given", "`[default: ..]` at the end, or `by default`"),
    ("that is there", "existing"),
    ("that are there", "existing"),
    ("what is there", "existing files"),
    ("if it is not there", "if missing"),
    ("is there twice", "occurs twice"),
    ("made if it is not", "created if missing"),
    ("so many", "N, or `this many`"),
    ("of as many samples each", "of equal sample counts"),
    ("what is done to", "a noun: `built-in pipeline`"),
    ("what to do with", "how to handle"),
    ("what becomes of", "how to treat"),
    ("most bytes of", "maximum size of .. in bytes"),
    ("the most bytes", "maximum size in bytes"),
    ("most batches of", "maximum number of batches per"),
    ("the most batches", "maximum number of batches"),
    ("most samples of", "maximum number of samples per"),
    ("one a core", "one per core"),
    ("one a line", "one per line"),
    ("a number a line", "one number per line"),
    ("as one json object", "print JSON"),
    ("beside", "next to, together with, or in addition to"),
    ("anew", "again"),
    ("nobody", "a subject that exists: `no other thread`"),
    ("lent", "borrowed"),
    ("told", "passed, reported"),
    ("one of both", "one of the two"),
    ("inside one another", "overlaps"),
    ("in each other", "nested"),
    ("in one go", "in one step"),
    ("stay as they are", "stay unchanged"),
    ("stays as it is", "stays unchanged"),
    ("tells more of", "describes"),
    ("can't be had", "is not available"),
];

/// A text that users read: its lines, each with its number in the file.
type Text = Vec<(usize, String)>;

/// The characters of a file that are still to be read.
struct Unread<'a> {
    rest: &'a str,
    /// The number of the line of the next character, from 1.
    line: usize,
}

impl<'a> Unread<'a> {
    fn new(text: &'a str) -> Self {
        Self { rest: text, line: 1 }
    }

    /// Takes the next character; a space at the end of the file.
    fn take(&mut self) -> char {
        let Some(next) = self.rest.chars().next() else { return ' ' };
        self.rest = &self.rest[next.len_utf8()..];
        self.line += usize::from(next == '\n');
        next
    }

    /// Takes the next `count` characters.
    fn skip(&mut self, count: usize) {
        for _ in 0..count {
            self.take();
        }
    }

    /// Takes the rest of a comment's line.
    fn skip_line(&mut self) {
        while !self.rest.is_empty() && self.take() != '\n' {}
    }

    /// Takes a text up to `end`, the quotes that close it. Escaped line feeds and tabs become spaces.
    fn text(&mut self, end: &str, is_raw: bool) -> Text {
        let (mut lines, mut line, mut number) = (vec![], String::new(), self.line);
        while !self.rest.is_empty() && !self.rest.starts_with(end) {
            let mut next = self.take();
            if next == '\\' && !is_raw {
                next = match self.take() {
                    'n' | 't' => ' ',
                    escaped => escaped,
                };
            }
            if next == '\n' {
                lines.push((number, std::mem::take(&mut line)));
                number = self.line;
            } else {
                line.push(next);
            }
        }
        self.skip(end.chars().count());
        lines.push((number, line));
        lines
    }
}

/// Returns the end of a raw text of Rust that begins here: `"#` after `r#"`.
fn raw_end(rest: &str) -> Option<String> {
    let after = rest.strip_prefix('r')?;
    let signs = after.len() - after.trim_start_matches('#').len();
    after[signs..].starts_with('"').then(|| format!("\"{}", "#".repeat(signs)))
}

/// Returns the texts in quotes of Rust's code, without its module of tests.
fn rust_texts(code: &str) -> Vec<Text> {
    let mut code = Unread::new(code.split("#[cfg(test)]\nmod ").next().unwrap());
    let mut texts = vec![];
    while !code.rest.is_empty() {
        if code.rest.starts_with("//") {
            code.skip_line();
        } else if let Some(end) = raw_end(code.rest) {
            code.skip(end.len() + 1);
            texts.push(code.text(&end, true));
        } else if code.rest.starts_with('"') {
            code.skip(1);
            texts.push(code.text("\"", false));
        } else if code.rest.starts_with("'\\") {
            // An escaped character, such as `'\''`.
            code.skip(3);
            code.text("'", true);
        } else if code.rest.starts_with('\'') && code.rest.chars().nth(2) == Some('\'') {
            code.skip(3);
        } else {
            code.skip(1);
        }
    }
    texts
}

/// Returns the texts in quotes of Python's code, docstrings among them.
fn python_texts(code: &str) -> Vec<Text> {
    let (mut code, mut texts) = (Unread::new(code), vec![]);
    while !code.rest.is_empty() {
        let quotes = ["\"\"\"", "'''", "\"", "'"];
        if code.rest.starts_with('#') {
            code.skip_line();
        } else if let Some(end) = quotes.into_iter().find(|quote| code.rest.starts_with(*quote)) {
            code.skip(end.len());
            texts.push(code.text(end, false));
        } else {
            code.skip(1);
        }
    }
    texts
}

/// Returns the doc comments of Rust's code.
fn doc_comments(code: &str) -> Vec<Text> {
    let (mut texts, mut text): (Vec<Text>, Text) = (vec![], vec![]);
    for (line, number) in code.lines().zip(1..) {
        match line.trim_start().strip_prefix("///") {
            Some(doc) => text.push((number, doc.to_owned())),
            None if text.is_empty() => {}
            None => texts.push(std::mem::take(&mut text)),
        }
    }
    texts.push(text);
    texts
}

/// Returns the paragraphs of a page, which are its lines.
fn page_texts(page: &str) -> Vec<Text> {
    page.lines().zip(1..).map(|(line, number)| vec![(number, line.to_owned())]).collect()
}

/// Returns the numbers of the lines in which a phrase begins.
fn lines_with(text: &[(usize, String)], phrase: &str) -> Vec<usize> {
    let (mut all, mut starts) = (String::new(), vec![]);
    for (number, line) in text {
        starts.push((all.len(), *number));
        all.push_str(&line.trim().to_ascii_lowercase());
        all.push(' ');
    }
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    let mut found = vec![];
    for (at, _) in all.match_indices(phrase) {
        let before = all[..at].chars().next_back();
        let after = all[at + phrase.len()..].chars().next();
        let line = starts.iter().rev().find(|(start, _)| *start <= at);
        if let Some((_, number)) = line.filter(|_| !is_letter(before) && !is_letter(after)) {
            found.push(*number);
        }
    }
    found
}

/// Returns the files below a folder whose names end with one of `endings`, by their paths from the root.
fn files(folder: &str, endings: &[&str]) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = vec![];
    for entry in fs::read_dir(root.join(folder)).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{folder}/{}", entry.file_name().to_str().unwrap());
        if entry.path().is_dir() {
            found.extend(files(&path, endings));
        } else if endings.iter().any(|ending| path.ends_with(ending)) {
            found.push((path, fs::read_to_string(entry.path()).unwrap()));
        }
    }
    found.sort();
    found
}

/// True for a file of tests inside of `src`.
fn is_of_tests(path: &str) -> bool {
    path.split('/').any(|part| part.trim_end_matches(".rs").ends_with("tests"))
}

/// Returns all texts that users read, each with its file.
fn all_texts() -> Vec<(String, Text)> {
    let mut texts = vec![];
    let mut add = |file: &str, found: Vec<Text>| {
        texts.extend(found.into_iter().map(|text| (file.to_owned(), text)));
    };
    for folder in [
        "src",
        "ops/src",
        "engine/src",
        "jpeg/src",
        "video/src",
        "webp/src",
        "cli/src",
        "python/src",
    ] {
        for (file, code) in rust_files(folder).iter().filter(|(file, _)| !is_of_tests(file)) {
            add(file, rust_texts(code));
            if folder == "cli/src" {
                add(file, doc_comments(code));
            }
        }
    }
    for (file, code) in files("python/fuseloop", &[".py", ".pyi"]) {
        add(&file, python_texts(&code));
    }
    for (file, page) in files("docs", &[".md"]) {
        add(&file, page_texts(&page));
    }
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    add("README.md", page_texts(&fs::read_to_string(readme).unwrap()));
    texts
}

#[test]
fn no_text_has_a_phrase_that_has_to_be_read_twice() {
    let (mut found, texts) = (vec![], all_texts());
    assert!(texts.len() > 5000, "{} texts are found", texts.len());
    for (file, text) in &texts {
        for (phrase, instead) in PHRASES {
            let lines = lines_with(text, phrase).into_iter();
            found.extend(lines.map(|line| format!("{file}:{line}: `{phrase}`: write {instead}")));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn a_phrase_is_found_in_every_kind_of_text() {
    fn all(texts: &[Text]) -> Vec<usize> {
        texts.iter().flat_map(|text| lines_with(text, "so many")).collect()
    }
    let rust = "// So many\nlet a = ('\"', '\\'', \"so \\\n  many\\nso many\");\nr#\"\nso many\"#";
    assert_eq!(all(&rust_texts(rust)), [2, 3, 5]);
    let other = "\"also many\" \"so manyfold\" fn a<'a>(so: &'a str) {}";
    assert!(all(&rust_texts(other)).is_empty());
    let python = "# so many\n'so many'\n\"\"\"It's\nso\n    many.\"\"\"\n";
    assert_eq!(all(&python_texts(python)), [2, 4]);
    assert_eq!(all(&doc_comments("/// So\n/// many.\nstruct A;\n/// so\n\n/// many")), [1]);
    assert_eq!(all(&page_texts("one\nSo many, so many.")), [2, 2]);
}
