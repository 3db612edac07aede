//! `--indices` and `--every`: the samples of a dataset that are converted.

use super::number;
use super::problem::Problem;
use std::num::NonZeroUsize;
use std::path::Path;
use std::{fs, io};

/// The options that select samples.
#[derive(clap::Args)]
pub(super) struct IndexArgs {
    /// Samples to write, in this order: A..B (B excluded), such as 0..1000 or 90%.., a list (0,5,7), or a file of
    /// numbers
    #[arg(long, value_name = "A..B|N,..|FILE")]
    pub(super) indices: Option<String>,
    /// Take every K-th sample
    #[arg(long, value_name = "K", value_parser = number::at_least_one::<NonZeroUsize>)]
    every: Option<NonZeroUsize>,
}

impl IndexArgs {
    /// Returns the selected ones of `count` samples; `None` if all are.
    pub(super) fn selected(
        &self,
        count: u64,
    ) -> Result<Option<Box<dyn Iterator<Item = u64>>>, Problem> {
        let Self { indices, every } = self;
        if indices.is_none() && every.is_none() {
            return Ok(None);
        }
        let all: Box<dyn Iterator<Item = u64>> = match indices {
            Some(text) => numbers(text, count)?,
            None => Box::new(0..count),
        };
        Ok(Some(Box::new(all.step_by(every.map_or(1, NonZeroUsize::get)))))
    }
}

/// Returns the samples of a range, of a list, or of a file.
fn numbers(text: &str, count: u64) -> Result<Box<dyn Iterator<Item = u64>>, Problem> {
    if let Some((from, to)) = text.split_once("..")
        && let (Some(from), Some(to)) = (end(from, 0, count), end(to, count, count))
    {
        return Ok(Box::new(from..to));
    }
    if let Ok(numbers) = text.split(',').map(str::parse::<u64>).collect::<Result<Vec<_>, _>>() {
        return Ok(Box::new(numbers.into_iter()));
    }
    let path = Path::new(text);
    let lines = fs::read_to_string(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Problem::Refused {
            message: format!("--indices {text}: neither a range nor a list of numbers nor a file"),
            help: "give a range such as 0..1000 or 90%.., numbers such as 0,5,7, or a file with one number per line",
        },
        _ => Problem::io(path)(error),
    })?;
    let lines = lines.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let number = |(at, line): (usize, &str)| {
        let wrong = |_| Problem::NotANumber { path: path.to_owned(), line: at + 1 };
        line.trim().parse().map_err(wrong)
    };
    let numbers: Vec<u64> = lines.map(number).collect::<Result<_, _>>()?;
    Ok(Box::new(numbers.into_iter()))
}

/// Returns an end of a range of `count` samples: a number, a percentage, or `missing` if nothing is given.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share is rounded to whole samples"
)]
fn end(text: &str, missing: u64, count: u64) -> Option<u64> {
    match text.strip_suffix('%') {
        _ if text.is_empty() => Some(missing),
        None => text.parse().ok(),
        Some(percent) => {
            let percent: f64 = percent.parse().ok().filter(|part| (0.0..=100.0).contains(part))?;
            Some((count as f64 * percent / 100.0).round() as u64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indices(text: &str) -> Result<Vec<u64>, Problem> {
        numbers(text, 50).map(Iterator::collect)
    }

    #[test]
    fn samples_are_named_by_a_range_or_a_file() {
        assert_eq!(indices("3..6").unwrap(), [3, 4, 5]);
        assert!(indices("6..3").unwrap().is_empty());
        assert_eq!(indices("0").unwrap(), [0]);
        assert_eq!(indices("4,0,17").unwrap(), [4, 0, 17]);
        let error = indices("no/such.txt").unwrap_err();
        assert!(error.to_string().contains("neither a range nor a list"), "{error}");
        assert!(error.help().unwrap().contains("0..1000"));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.txt");
        fs::write(&path, "5\n\n 2 \n").unwrap();
        assert_eq!(indices(path.to_str().unwrap()).unwrap(), [5, 2]);
        fs::write(&path, "5\nx\n").unwrap();
        let error = indices(path.to_str().unwrap()).unwrap_err().to_string();
        assert!(error.ends_with("line 2 is not a sample number"), "{error}");
    }

    #[test]
    fn shares_have_all_samples_together() {
        let sizes =
            |shares: &[&str]| shares.iter().map(|one| indices(one).unwrap().len()).collect();
        let sizes: [Vec<usize>; 3] =
            [&["..90%", "90%.."][..], &["0%..50%", "50%..100%"], &["..30%", "30%..31%", "31%.."]]
                .map(sizes);
        assert_eq!(sizes, [vec![45, 5], vec![25, 25], vec![15, 1, 34]]);
        assert_eq!(indices("48..").unwrap(), [48, 49]);
        for wrong in ["..101%", "-1%..", "..NaN%", "50%", "..x"] {
            assert!(indices(wrong).is_err(), "{wrong}");
        }
        let args = |indices: &str, every| IndexArgs {
            indices: Some(indices.to_owned()),
            every: NonZeroUsize::new(every),
        };
        let all: Vec<u64> = args("..50%", 10).selected(50).unwrap().unwrap().collect();
        assert_eq!(all, [0, 10, 20]);
    }
}
