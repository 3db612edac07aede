//! The `fuseloop` command as a function, which its program and the Python package call.
//!
//! Reports go to stdout, errors and progress to stderr. The exit code is 0 if all went well, 1 if
//! the data or the run failed, and 2 if the command was not understood. No other crate of the project has a parser of
//! arguments or progress bars.

mod bench;
mod capacity;
#[cfg(feature = "object")]
mod compile;
mod convert;
mod costly;
mod demo;
mod diff;
mod dump;
mod explain;
mod folder;
mod gpu;
mod index;
mod indices;
mod info;
mod measure;
mod npy;
mod number;
mod ops;
mod output;
mod pick;
mod picture;
mod preview;
mod print;
mod problem;
mod process;
mod recut;
mod replay;
mod shell;
#[cfg(unix)]
mod signals;
#[cfg(windows)]
#[path = "signals_windows.rs"]
mod signals;
mod source;
mod storage;
mod stored;
#[cfg(feature = "studio")]
mod studio;
mod trace;
mod tree;
mod verify;
mod words;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use problem::Problem;
use std::ffi::OsString;
use std::io::Write as _;
use std::time::Instant;

/// Load training data with JIT-compiled augmentation
///
/// Reads .beton files, folders of images, audio and video files, tar, TFRecord and MDS shards, Parquet files, LeRobot
/// datasets, the files of MNIST and CIFAR, and the annotations of COCO, Pascal VOC and YOLO.
#[derive(Parser)]
#[command(
    name = "fuseloop",
    version,
    arg_required_else_help = true,
    after_help = "Start with `fuseloop demo`: it needs no data and takes a few seconds."
)]
struct Cli {
    /// Hide notes and progress, but not warnings and errors
    #[arg(long, short, global = true)]
    quiet: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::Args),
    #[command(visible_alias = "write")]
    Convert(convert::Args),
    Recut(recut::Args),
    Index(index::Args),
    Info(info::Args),
    Verify(verify::Args),
    Bench(bench::Args),
    #[command(visible_alias = "plan")]
    Capacity(capacity::Args),
    Dump(dump::Args),
    Explain(explain::Args),
    Preview(preview::Args),
    Replay(replay::Args),
    Diff(diff::Args),
    #[cfg(feature = "studio")]
    Studio(studio::Args),
    #[cfg(feature = "object")]
    Compile(compile::Args),
    Ops(ops::Args),
    Completions(shell::CompletionsArgs),
    Man(shell::ManArgs),
}

impl Command {
    /// Returns true if the command may have unfinished files.
    fn writes(&self) -> bool {
        match self {
            Self::Info(_) | Self::Capacity(_) | Self::Explain(_) | Self::Ops(_) | Self::Diff(_) => {
                false
            }
            Self::Completions(_) | Self::Man(_) => false,
            // The server of the page runs until a signal ends it, and saves small files at once.
            #[cfg(feature = "studio")]
            Self::Studio(_) => false,
            _ => true,
        }
    }
}

/// Runs the command of these arguments, the first of which is the name of the program. Returns its exit code.
///
/// The function is for the whole of a process: it decides how signals end the process, and arguments that are not
/// understood end it with 2.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    // Before anything else: what is measured from the start of the process is measured from here.
    let start = Instant::now();
    #[cfg(unix)]
    signals::ignore_file_size();
    fuseloop::set_warning_handler(print::warning);
    // Exits with 2 and clap's own message if the arguments are not understood.
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let matches = command().try_get_matches_from(&arguments);
    let matches = matches.unwrap_or_else(|error| with_our_option(error, &arguments).exit());
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    if let Command::Convert(args) = &cli.command
        && let Err((kind, message)) = args.paths()
    {
        command().error(kind, message).exit();
    }
    print::set_quiet(cli.quiet);
    if cli.command.writes() {
        signals::delete_unfinished_at_end();
    }
    let outcome = match cli.command {
        Command::Demo(args) => demo::run(&args, start),
        Command::Convert(args) => convert::run(&args),
        Command::Recut(args) => recut::run(&args),
        Command::Index(args) => index::run(&args),
        Command::Info(args) => info::run(&args),
        Command::Verify(args) => verify::run(&args),
        Command::Bench(args) => bench::run(&args, start),
        Command::Capacity(args) => capacity::run(&args),
        Command::Dump(args) => dump::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Preview(args) => preview::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Diff(args) => diff::run(&args),
        #[cfg(feature = "studio")]
        Command::Studio(args) => studio::run(&args),
        #[cfg(feature = "object")]
        Command::Compile(args) => compile::run(&args),
        Command::Ops(args) => ops::run(&args),
        Command::Completions(args) => shell::completions(&args, command()),
        Command::Man(args) => shell::man(&args, command()),
    };
    signals::wait_if_ending();
    exit_code(outcome)
}

/// Returns the command whose options take negative numbers, so that the error of `-j -1` is about the number
/// and not about an unknown option `-1`.
fn command() -> clap::Command {
    Cli::command().mut_subcommands(|command| {
        command.mut_args(|arg| {
            let takes_value = !arg.is_positional() && arg.get_action().takes_values();
            arg.allow_negative_numbers(takes_value)
        })
    })
}

/// Names of options in other programs, and those that they have here.
const FOREIGN: [(&str, &str); 8] = [
    ("--force", "--overwrite"),
    ("--jobs", "--threads"),
    ("--num-workers", "--workers"),
    ("--num-threads", "--threads"),
    ("--quality", "--jpeg-quality"),
    ("--damaged", "--on-damaged"),
    ("--world", "--world-size"),
    ("--mode", "--write-mode"),
];

/// Words for what `fuseloop convert` does, and how it does that.
const CONVERSIONS: [(&str, &str); 6] = [
    ("concat", "`fuseloop convert A.beton B.beton OUT.beton` joins datasets"),
    ("merge", "`fuseloop convert A.beton B.beton OUT.beton` joins datasets"),
    ("split", "`fuseloop convert SRC 'OUT-{000}.beton' --shards 4` splits a dataset"),
    ("subset", "`fuseloop convert SRC OUT.beton --indices 0..1000` selects samples"),
    ("unpack", "`fuseloop convert PLANES.beton OUT.beton` restores the JPEGs of bit planes"),
    ("export", "`fuseloop convert SRC DST` writes another format"),
];

/// Adds the option or the command that is meant to the error about one of another program, if we have it.
fn with_our_option(mut error: clap::Error, arguments: &[OsString]) -> clap::Error {
    if let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidSubcommand) {
        if let Some((_, hint)) = CONVERSIONS.iter().find(|(name, _)| given == name) {
            error.remove(ContextKind::SuggestedSubcommand);
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![(*hint).into()]));
        }
        return error;
    }
    let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let all = command();
    let named = arguments.iter().skip(1).find_map(|word| all.find_subcommand(word));
    let has = |option: &str| {
        let mut known = named.into_iter().flat_map(clap::Command::get_arguments);
        known.any(|arg| arg.get_long() == option.strip_prefix("--"))
    };
    if let Some((_, ours)) = FOREIGN.iter().find(|(name, ours)| given == name && has(ours)) {
        error.insert(ContextKind::SuggestedArg, ContextValue::String((*ours).to_owned()));
    }
    error
}

fn exit_code(outcome: Result<(), Problem>) -> u8 {
    match outcome {
        Ok(()) => 0,
        Err(problem) if problem.is_broken_pipe() => 0,
        Err(problem) => {
            // Not `eprint!`, which panics where stderr is closed.
            let _ = std::io::stderr().write_all(problem.report().as_bytes());
            1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An example of a command's help can be pasted with its comment.
    #[test]
    fn the_examples_of_every_help_are_understood() {
        for command in Cli::command().get_subcommands() {
            let help = command.get_after_help().unwrap().to_string();
            let lines: Vec<_> =
                help.lines().filter(|line| line.starts_with("  fuseloop ")).collect();
            assert!(!lines.is_empty(), "{}", command.get_name());
            for line in lines {
                let alone = line.split(" # ").next().unwrap().split(['|', '>']).next().unwrap();
                let words = alone.split_whitespace().map(|word| word.trim_matches('\''));
                if let Err(error) = Cli::try_parse_from(words) {
                    panic!("{line}\n{error}");
                }
            }
        }
    }
}
