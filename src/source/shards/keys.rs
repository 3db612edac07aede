//! The keys of a block of samples in few bytes.
//!
//! | form     | bytes                                                                                       |
//! |----------|---------------------------------------------------------------------------------------------|
//! | template | 0; the number of runs of digits in a key; the texts before, between and behind them, each with its length; then of each run its digits (0: as many as the number needs), its form, and its numbers |
//! | texts    | 1; of each key the number of bytes that it has in common with the key before it, and the others with their length |
//!
//! The keys of a template differ in their numbers only: `train/n01440764_10026` has two, `train/n`, `_` and an empty text.
//! The form of a run of digits is 0 for the numbers as a column, and 1 for the first number and the column of the
//! differences: keys that count up take no bits. The shorter form is taken. Counts and lengths are varints.

use super::bits::{
    Column, put_bytes, put_column, put_varint, take_byte, take_bytes, take_count, take_varint,
    width,
};

/// The most runs of digits in a key that are taken for numbers.
const MOST_RUNS: usize = 8;

/// The most digits of a number.
const MOST_DIGITS: usize = 18;

/// Appends the keys of a block.
pub(super) fn put_keys(keys: &[&[u8]], out: &mut Vec<u8>) {
    let template = template(keys);
    // A text takes two bytes at least.
    if let Some(template) = template.as_ref().filter(|bytes| bytes.len() <= 2 * keys.len()) {
        out.extend(template);
        return;
    }
    let texts = texts(keys);
    match template {
        Some(template) if template.len() <= texts.len() => out.extend(template),
        _ => out.extend(texts),
    }
}

/// Returns the key of a sample of a block of `count`; `None` if the bytes are damaged.
pub(super) fn key(mut rest: &[u8], sample: usize, count: usize) -> Option<Vec<u8>> {
    let rest = &mut rest;
    let mut key = vec![];
    match take_byte(rest)? {
        0 => {
            let runs = take_count(rest).filter(|runs| *runs <= MOST_RUNS)?;
            let texts: Vec<&[u8]> =
                (0..=runs).map(|_| take_bytes(rest)).collect::<Option<Vec<_>>>()?;
            key.extend_from_slice(texts.first()?);
            for text in &texts[1..] {
                let digits = usize::from(take_byte(rest)?);
                if digits > MOST_DIGITS {
                    return None;
                }
                let number = number(rest, sample, count)?;
                key.extend_from_slice(format!("{number:0digits$}").as_bytes());
                key.extend_from_slice(text);
            }
        }
        1 => {
            for _ in 0..=sample {
                let shared = take_count(rest).filter(|shared| *shared <= key.len())?;
                key.truncate(shared);
                key.extend_from_slice(take_bytes(rest)?);
            }
        }
        _ => return None,
    }
    Some(key)
}

/// Takes the numbers of a run of digits, and returns that of a sample.
fn number(rest: &mut &[u8], sample: usize, count: usize) -> Option<u64> {
    match take_byte(rest)? {
        0 => Some(Column::take(rest, count)?.get(sample)),
        1 => {
            let first = take_varint(rest)?;
            let steps = Column::take(rest, count.saturating_sub(1))?;
            Some((0..sample).fold(first, |sum, step| sum.wrapping_add(steps.get(step))))
        }
        _ => None,
    }
}

fn texts(keys: &[&[u8]]) -> Vec<u8> {
    let (mut out, mut last) = (vec![1], &[][..]);
    for key in keys {
        let shared = key.iter().zip(last).take_while(|(a, b)| a == b).count();
        put_varint(shared as u64, &mut out);
        put_bytes(&key[shared..], &mut out);
        last = key;
    }
    out
}

/// Returns the template of keys; `None` if they have none.
fn template(keys: &[&[u8]]) -> Option<Vec<u8>> {
    let (texts, runs) = split(keys.first()?)?;
    let mut numbers = vec![vec![]; runs.len()];
    let mut digits: Vec<usize> = runs.iter().map(|run| run.len()).collect();
    let mut has_zeros = vec![false; runs.len()];
    for key in keys {
        let mut rest = *key;
        for (run, text) in texts[..runs.len()].iter().enumerate() {
            rest = rest.strip_prefix(*text)?;
            let (number, tail) = number_at(rest)?;
            let count = rest.len() - tail.len();
            has_zeros[run] |= count > 1 && rest[0] == b'0';
            if count != digits[run] {
                digits[run] = 0;
            }
            numbers[run].push(number);
            rest = tail;
        }
        (Some(&rest) == texts.last()).then_some(())?;
    }
    // Numbers of several lengths have no zeros in front of them.
    if digits.iter().zip(&has_zeros).any(|(digits, has_zeros)| *digits == 0 && *has_zeros) {
        return None;
    }
    let mut out = vec![0];
    put_varint(runs.len() as u64, &mut out);
    texts.iter().for_each(|text| put_bytes(text, &mut out));
    for (numbers, digits) in numbers.iter().zip(digits) {
        out.push(digits as u8);
        let steps: Vec<u64> =
            numbers.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect();
        if width(&steps) < width(numbers) {
            out.push(1);
            put_varint(numbers[0], &mut out);
            put_column(&steps, &mut out);
        } else {
            out.push(0);
            put_column(numbers, &mut out);
        }
    }
    Some(out)
}

/// Returns the number of the digits that a text begins with, and what follows them; `None` if there are none, or too many.
fn number_at(text: &[u8]) -> Option<(u64, &[u8])> {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if count == 0 || count > MOST_DIGITS {
        return None;
    }
    let (digits, rest) = text.split_at(count);
    Some((digits.iter().fold(0, |number, digit| 10 * number + u64::from(digit - b'0')), rest))
}

/// The texts of a key, and its runs of digits, of which one is behind each text but the last.
type Split<'a> = (Vec<&'a [u8]>, Vec<&'a [u8]>);

/// Splits a key into its runs of digits and the texts before, between and behind them.
fn split(key: &[u8]) -> Option<Split<'_>> {
    let (mut texts, mut runs, mut rest) = (vec![], vec![], key);
    loop {
        let text = rest.iter().take_while(|byte| !byte.is_ascii_digit()).count();
        let (before, tail) = rest.split_at(text);
        texts.push(before);
        let digits = tail.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return Some((texts, runs));
        }
        if digits > MOST_DIGITS || runs.len() == MOST_RUNS {
            return None;
        }
        let (run, tail) = tail.split_at(digits);
        runs.push(run);
        rest = tail;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(keys: &[String]) -> usize {
        let mut bytes = vec![];
        put_keys(&keys.iter().map(String::as_bytes).collect::<Vec<_>>(), &mut bytes);
        for (sample, expected) in keys.iter().enumerate() {
            assert_eq!(key(&bytes, sample, keys.len()).as_deref(), Some(expected.as_bytes()));
        }
        bytes.len()
    }

    fn keys(key: impl Fn(u64) -> String) -> Vec<String> {
        (0..128).map(key).collect()
    }

    #[test]
    fn keys_read_back_and_those_that_count_up_take_no_bits() {
        assert!(packed(&keys(|n| format!("{:09}", n + 95))) < 20);
        assert!(packed(&keys(|n| format!("a/b{:06}_{}.c", 3 * n, 9 + n))) < 40);
        assert!(packed(&keys(|_| String::new())) < 5);
        assert!(packed(&keys(|_| "x7".to_owned())) < 20);
        let random = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31);
        // 24 bits of a class and 14 to 16 of a number.
        let imagenet =
            keys(|n| format!("n{:08}_{}", 1_440_764 + random(n) % 13_634_377, random(n) % 50_000));
        assert!((600..700).contains(&packed(&imagenet)), "{}", packed(&imagenet));
        assert!(packed(&keys(|n| format!("{:016x}", random(n)))) <= 128 * 18 + 1);
        packed(&keys(|n| format!("{:0width$}", n, width = (n % 3) as usize)));
        packed(&keys(|n| "9".repeat(n as usize)));
        packed(&keys(|n| "1-".repeat(n as usize % 10)));
        packed(&["007".into(), "7".into()]);
        packed(&["0".into(), "10".into()]);
        packed(&["a1".into()]);
        packed(&["ü1\u{301}".into(), "ü2\u{301}".into()]);
    }

    #[test]
    fn any_bytes_are_keys_or_damaged() {
        let mut bytes = vec![];
        put_keys(&[b"a/001.x", b"a/002.x", b"a/004.x"], &mut bytes);
        for form in [bytes, texts(&[b"ab", b"ac", b""])] {
            for bit in 0..form.len() * 8 {
                let mut changed = form.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                for sample in 0..128 {
                    let _ = key(&changed, sample, 3);
                }
            }
            (0..form.len()).for_each(|cut| drop(key(&form[..cut], 2, 3)));
        }
    }
}
