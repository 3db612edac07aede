//! The lines of a pixel program, which come from files and pickles: any lines are read or refused.

use super::Parts;
use super::code::{Code, FORMS, Form, Kind, Operand, Operation, Step};
use super::draw::{Draw, param_names};
use super::range::limits;
use crate::ParamError;
use crate::author::{ImageType, Rng, op_name};
use crate::default_floats::nearest_f32;
use crate::registry::recipe;
use crate::shape::MAX_CHANNELS;
use std::fmt::Write as _;

/// The program that docs and tests build the op from: a vignette.
pub(super) const EXAMPLE: &[&str] = &[
    "fuseloop pixel program 1",
    "PixelProgram",
    "draw strength uniform 1 3",
    "channels 3",
    "div y height",
    "sub %0 0.5",
    "mul %1 %1",
    "div x width",
    "sub %3 0.5",
    "mul %4 %4",
    "add %2 %5",
    "mul %6 d0",
    "neg %7",
    "exp %8",
    "mul c0 %9",
    "mul c1 %9",
    "mul c2 %9",
    "return %10 %11 %12",
];

const FIRST_LINE: &str = "fuseloop pixel program 1";

const MAX_BYTES: usize = 1 << 20;
const MAX_NAME: usize = 100;
const MAX_DRAWS: usize = 64;
const MAX_STEPS: usize = 4096;

/// The maximum number of instructions of a program, which has at most four times as many to load what they take.
const MAX_INSTRUCTIONS: usize = 16_384;

/// Reads and checks a program.
pub(super) fn parse(lines: Vec<String>) -> Result<Parts, ParamError> {
    let refused =
        |found: String, expected| ParamError::new("PixelProgram", "program", found, expected);
    let bytes: usize = lines.iter().map(String::len).sum();
    if bytes > MAX_BYTES {
        return Err(refused(format!("{bytes} bytes long"), "at most 1 MiB"));
    }
    let mut reader = Reader::default();
    for (index, line) in lines.iter().enumerate() {
        reader.line(index, line).map_err(|expected| {
            let shown: String = line.chars().take(60).collect();
            refused(format!("{shown:?} in line {}", index + 1), expected)
        })?;
    }
    let Reader { name, p, names, draws, code, codes, .. } = reader;
    if code.is_some() || codes.iter().all(Option::is_none) {
        return Err(refused(format!("{} line(s) long", lines.len()), RETURN));
    }
    let takes = takes(&codes);
    let param_names = param_names(names.into_iter().chain(["-"; 2]).collect());
    Ok(Parts { lines, name, p: p.unwrap_or(1.0), draws, param_names, codes, takes })
}

const RETURN: &str = "a line `channels`, operations and a line `return`";
const OPERANDS: &str = "operands of the operation: c0, y, x, height, width, d0, a number or an earlier result such as %0, \
    each defined and of the right kind";

/// The state of reading a program line by line.
#[derive(Default)]
struct Reader {
    name: &'static str,
    p: Option<f64>,
    names: Vec<&'static str>,
    draws: Vec<Draw>,
    code: Option<Open>,
    codes: [Option<Code>; MAX_CHANNELS],
}

/// The code that is being read.
struct Open {
    code: Code,
    /// The kind of each result.
    kinds: Vec<Kind>,
    instructions: usize,
}

impl Reader {
    /// Reads a line, or returns what was expected.
    fn line(&mut self, index: usize, line: &str) -> Result<(), &'static str> {
        if index == 0 {
            return if line == FIRST_LINE { Ok(()) } else { Err("`fuseloop pixel program 1`") };
        }
        if index == 1 {
            self.name = name(line).ok_or("a name, and the rest of a call in brackets")?;
            return Ok(());
        }
        let words: Vec<&str> = line.split(' ').collect();
        if self.code.is_some() {
            return self.step(&words);
        }
        match words[..] {
            ["channels", count] => {
                let expected = "`channels` and 1, 2, 3 or 4, each once";
                let channels: usize = count.parse().map_err(|_| expected)?;
                match channels.checked_sub(1).and_then(|index| self.codes.get(index)) {
                    Some(None) => {}
                    _ => return Err(expected),
                }
                let code = Code { channels, steps: vec![], results: vec![], limits: vec![] };
                self.code = Some(Open { code, kinds: vec![], instructions: 0 });
                Ok(())
            }
            ["p", share] if self.p.is_none() => {
                let p = share.parse().ok().filter(|p| (0.0..=1.0).contains(p));
                self.p = Some(p.ok_or("`p` and a number in 0.0..=1.0")?);
                Ok(())
            }
            ["draw", given, kind, ref numbers @ ..] if self.draws.len() < MAX_DRAWS => {
                let expected = "`draw`, a name, and `uniform low high`, `normal mean deviation`, `integers low high` or \
                    `choice` and numbers";
                let numbers: Option<Vec<f32>> = numbers.iter().map(|word| number(word)).collect();
                let draw = numbers.and_then(|numbers| Draw::read(kind, &numbers));
                self.draws.push(draw.ok_or(expected)?);
                self.names.push(name(given).ok_or(expected)?);
                Ok(())
            }
            _ => Err("`p`, at most 64 lines `draw`, and lines `channels`"),
        }
    }

    fn step(&mut self, words: &[&str]) -> Result<(), &'static str> {
        let Some(open) = &mut self.code else { return Ok(()) };
        let draws = self.draws.len();
        let [word, given @ ..] = words else { return Err(RETURN) };
        if *word == "return" {
            let all = given.iter().map(|word| open.operand(word, Kind::Number, draws));
            open.code.results = all.collect::<Option<_>>().ok_or(OPERANDS)?;
            if !(1..=MAX_CHANNELS).contains(&given.len()) {
                return Err("`return` and 1 to 4 numbers");
            }
            if let Some(Open { mut code, .. }) = self.code.take() {
                code.limits = limits(&code.steps, &code.results, &self.draws);
                let index = code.channels - 1;
                self.codes[index] = Some(code);
            }
            return Ok(());
        }
        let form =
            FORMS.iter().find(|form| form.name == *word).ok_or("an operation or `return`")?;
        if given.len() != form.takes.len() {
            return Err(OPERANDS);
        }
        let mut operands = [Operand::Number(0); 3];
        for ((operand, word), kind) in operands.iter_mut().zip(given).zip(form.takes) {
            *operand = open.operand(word, *kind, draws).ok_or(OPERANDS)?;
        }
        open.push(form, operands)
    }
}

impl Open {
    fn push(&mut self, form: &Form, operands: [Operand; 3]) -> Result<(), &'static str> {
        self.instructions += form.instructions;
        if self.code.steps.len() == MAX_STEPS || self.instructions > MAX_INSTRUCTIONS {
            return Err("a shorter program: up to 4096 operations and 16384 instructions");
        }
        let (operation, count) = (form.operation, form.takes.len() as u8);
        self.code.steps.push(Step { operation, operands, count });
        self.kinds.push(form.gives);
        Ok(())
    }

    /// Returns the operand that a word names, if it is defined and of a kind.
    fn operand(&self, word: &str, kind: Kind, draws: usize) -> Option<Operand> {
        let index = |letter: char, count: usize| {
            let index: usize = word.strip_prefix(letter)?.parse().ok()?;
            (index < count).then_some(index)
        };
        if let Some(index) = index('%', self.kinds.len()) {
            return (self.kinds[index] == kind).then_some(Operand::Result(index as u16));
        }
        let operand = match word {
            "y" => Operand::Row,
            "x" => Operand::Column,
            "height" => Operand::Height,
            "width" => Operand::Width,
            _ => {
                let channel = || Some(Operand::Channel(index('c', self.code.channels)? as u8));
                let drawn = || Some(Operand::Drawn(index('d', draws)? as u16));
                let number = || Some(Operand::Number(number(word)?.to_bits()));
                channel().or_else(drawn).or_else(number)?
            }
        };
        (kind == Kind::Number).then_some(operand)
    }
}

/// Reads a number as f32. An infinity or NaN must be written as such.
fn number(word: &str) -> Option<f32> {
    let number: f64 = word.parse().ok()?;
    let single = nearest_f32(number);
    (single.is_finite() || !number.is_finite()).then_some(single)
}

/// Returns the name at the beginning of a call, of printable characters.
fn name(call: &str) -> Option<&'static str> {
    let (name, _) = call.split_once('(').unwrap_or((call, ""));
    let is_word = name.chars().all(|c| c.is_alphanumeric() || c == '_');
    let is_short = (1..=MAX_NAME).contains(&name.len());
    let is_printable = !call.chars().any(char::is_control);
    (is_word && is_short && is_printable).then(|| op_name(name))
}

/// Returns the accepted inputs, in words.
fn takes(codes: &[Option<Code>; MAX_CHANNELS]) -> &'static str {
    let counts: Vec<String> =
        codes.iter().flatten().map(|code| code.channels.to_string()).collect();
    op_name(&format!(
        "an image of levels, f16, bf16 or f32 (put it before Normalize for levels), of {} channel(s)",
        counts.join(" or ")
    ))
}

/// Writes a random program for images of a type, which treats all channels alike or reads the first one, too.
pub(super) fn random(rng: &mut Rng, before: &ImageType) -> Vec<String> {
    let p = recipe::share(rng).max(0.01);
    let head =
        "draw a uniform -2 3\ndraw b normal 1 0.5\ndraw c integers -1 3\ndraw d choice 0.5 1 80";
    let mut text = format!("{FIRST_LINE}\nPixelProgram(random)\np {p}\n{head}\n");
    let mut steps: Vec<(&Form, Vec<String>)> = vec![];
    for _ in 0..2 + rng.below(8) {
        let form = &FORMS[rng.below(FORMS.len() as u32) as usize];
        let operands = form.takes.iter().map(|kind| operand(rng, *kind, &steps)).collect();
        if let Some(operands) = operands {
            steps.push((form, operands));
        }
    }
    let is_number = |(form, _): &(&Form, _)| form.gives == Kind::Number;
    let last = steps.iter().rposition(is_number);
    let last = last.map_or("c".to_owned(), |index| format!("%{index}"));
    steps.push((&FORMS[Operation::Fma as usize], vec![last, "0.5".to_owned(), "c".to_owned()]));
    let (count, mixes) = (steps.len(), before.channels <= 4 && rng.coin(0.3));
    for channels in 1..=MAX_CHANNELS {
        let _ = writeln!(text, "channels {channels}");
        for c in 0..channels {
            for (form, operands) in &steps {
                text.push_str(form.name);
                for operand in operands {
                    let _ = match operand.strip_prefix('%').map(str::parse::<usize>) {
                        Some(Ok(index)) => write!(text, " %{}", c * count + index),
                        _ if operand == "c" => write!(text, " c{c}"),
                        _ if operand == "80" && mixes => write!(text, " c0"),
                        _ => write!(text, " {operand}"),
                    };
                }
                text.push('\n');
            }
        }
        let results: Vec<String> = (1..=channels).map(|c| format!("%{}", c * count - 1)).collect();
        let _ = writeln!(text, "return {}", results.join(" "));
    }
    text.lines().map(str::to_owned).collect()
}

/// Draws an operand: `c` stands for the channel that is computed.
fn operand(rng: &mut Rng, kind: Kind, steps: &[(&Form, Vec<String>)]) -> Option<String> {
    let of_kind: Vec<usize> =
        (0..steps.len()).filter(|index| steps[*index].0.gives == kind).collect();
    if !of_kind.is_empty() && (kind == Kind::Truth || rng.coin(0.5)) {
        return Some(format!("%{}", of_kind[rng.below(of_kind.len() as u32) as usize]));
    }
    let inputs =
        ["c", "c", "c", "y", "x", "height", "width", "d0", "d1", "d2", "d3", "0.25", "-3", "80"];
    (kind == Kind::Number).then(|| recipe::pick(rng, inputs).to_owned())
}
