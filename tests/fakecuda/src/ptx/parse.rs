//! Parses text into entries.
//!
//! ```text
//! .visible .entry name( .param .align 8 .b8 name_param_0[24] ) .maxntid 256, 1, 1 { statements; }
//! ```
//!
//! A statement is a directive (`.reg`, `.local`, `.pragma`), a label, or an instruction with its
//! guard; [`decode`](super::decode) reads instructions.

use super::decode::{Names, instruction};
use super::types::Type;
use super::{Entry, LOCALS, PARAMS, Param};

/// Returns all entries of a module.
pub(super) fn entries(text: &str) -> Result<Vec<Entry>, String> {
    let text = without_comments(text);
    if let Some(at) = text.find(".func") {
        return Err(format!("line {}: .func is not covered", line(&text, at)));
    }
    let begins = text.match_indices(".entry");
    begins.map(|(at, word)| entry(&text, at + word.len())).collect()
}

/// Replaces comments, `.loc` and `.file` by spaces, so that offsets stay the same.
fn without_comments(text: &str) -> String {
    let mut code_only = String::with_capacity(text.len());
    for line in text.lines() {
        let code = line.split("//").next().unwrap_or_default();
        let first = code.split_whitespace().next();
        let is_dropped = first.is_some_and(|word| [".loc", ".file"].contains(&word));
        code_only.push_str(if is_dropped { "" } else { code });
        code_only.push('\n');
    }
    code_only
}

fn line(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

fn entry(text: &str, begin: usize) -> Result<Entry, String> {
    let wrong = |what: &str| format!("line {}: {what}", line(text, begin));
    let rest = &text[begin..];
    let open = rest.find('{').ok_or_else(|| wrong("an entry without a body"))?;
    let body = begin + open + 1;
    let end = body + closing(&text[body..]).ok_or_else(|| wrong("a body without an end"))?;
    let (name, heading) = rest[..open].split_once('(').unwrap_or((&rest[..open], ")"));
    let (params, directives) = heading.split_once(')').ok_or_else(|| wrong("no `)`"))?;
    let mut entry = Entry {
        name: name.trim().to_owned(),
        params: parameters(params).map_err(|error| wrong(&error))?,
        param_bytes: 0,
        local_bytes: 0,
        registers: 0,
        most_threads: most_threads(directives),
        instructions: vec![],
    };
    entry.param_bytes = entry.params.last().map_or(0, |param| param.offset + param.size);
    statements(text, body..end, &mut entry)?;
    Ok(entry)
}

/// Returns the offset of the brace that closes the one opened before the text.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 1;
    text.find(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        depth == 0
    })
}

/// Reads `.maxntid 256, 1, 1`.
fn most_threads(directives: &str) -> Option<u32> {
    let words = directives.split_once(".maxntid")?.1;
    let words = words.split('.').next()?;
    words.split(',').map(|word| word.trim().parse::<u32>().ok()).try_fold(1, |n, m| Some(n * m?))
}

fn parameters(text: &str) -> Result<Vec<Param>, String> {
    let mut params: Vec<Param> = vec![];
    for declaration in text.split(',').map(str::trim).filter(|text| !text.is_empty()) {
        let (name, size, align) = variable(declaration)?;
        let end = params.last().map_or(0, |param| param.offset + param.size);
        params.push(Param { name, offset: end.next_multiple_of(align), size });
    }
    Ok(params)
}

/// Returns name, bytes and alignment of `.param .align 8 .b8 name[24]`, or `.param .u32 name`.
fn variable(declaration: &str) -> Result<(String, usize, usize), String> {
    let wrong = || format!("`{declaration}` is not covered");
    let words: Vec<&str> = declaration.split_whitespace().collect();
    let types = words.iter().filter_map(|word| Type::parse(word.strip_prefix('.')?));
    let element = types.map(Type::bytes).next().ok_or_else(wrong)?;
    let (name, count) = match words.last().ok_or_else(wrong)?.split_once('[') {
        Some((name, count)) => (name, count.trim_end_matches(']').parse().map_err(|_| wrong())?),
        None => (*words.last().ok_or_else(wrong)?, 1),
    };
    let align = words.iter().skip_while(|word| **word != ".align").nth(1);
    let align = align.map_or(Ok(element), |word| word.parse()).map_err(|_| wrong())?;
    Ok((name.to_owned(), element * count, align))
}

/// One statement and the line it is on.
struct Statement<'a> {
    text: &'a str,
    line: usize,
}

/// Reads a body: names first, since a jump may go forwards.
fn statements(text: &str, body: std::ops::Range<usize>, entry: &mut Entry) -> Result<(), String> {
    let mut names = Names::default();
    for param in &entry.params {
        names.constant(&param.name, PARAMS.start + param.offset as u64);
    }
    let mut instructions = vec![];
    let mut at = body.start;
    while at < body.end {
        let rest = &text[at..body.end];
        let skipped = rest.len() - rest.trim_start().len();
        let rest = rest.trim_start();
        at += skipped;
        if rest.is_empty() {
            break;
        }
        at += match rest.find([';', ':']) {
            // A brace by itself opens or closes a scope of names; NVRTC's names are all different.
            _ if rest.starts_with(['{', '}']) => 1,
            Some(end) if rest[end..].starts_with(':') && is_label(&rest[..end]) => {
                names.label(&rest[..end], instructions.len());
                end + 1
            }
            _ => {
                let end = rest.find(';').unwrap_or(rest.len());
                let found = Statement { text: rest[..end].trim(), line: line(text, at) };
                if found.text.starts_with('.') {
                    directive(&found, &mut names, entry)?;
                } else {
                    instructions.push(found);
                }
                end + 1
            }
        };
    }
    let decode = |found: &Statement<'_>| instruction(found.text, found.line, &names);
    entry.instructions = instructions.iter().map(decode).collect::<Result<_, _>>()?;
    entry.registers = names.registers();
    Ok(())
}

fn is_label(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '$' || c == '_')
}

fn directive(found: &Statement<'_>, names: &mut Names, entry: &mut Entry) -> Result<(), String> {
    let wrong = || format!("line {}: `{}` is not covered", found.line, found.text);
    let (word, rest) = found.text.split_once(char::is_whitespace).ok_or_else(wrong)?;
    match word {
        ".pragma" => Ok(()),
        ".reg" => {
            let (_, list) = rest.trim().split_once(char::is_whitespace).ok_or_else(wrong)?;
            list.split(',').try_for_each(|name| names.declare(name.trim()).ok_or_else(wrong))
        }
        ".local" => {
            let (name, size, align) = variable(rest)?;
            let offset = entry.local_bytes.next_multiple_of(align);
            names.constant(&name, LOCALS.start + offset as u64);
            entry.local_bytes = offset + size;
            Ok(())
        }
        _ => Err(wrong()),
    }
}
