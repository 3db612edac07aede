//! The `fuseloop` command.

mod cli;

use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    // Before anything else: what is measured from the start of the process is measured from here.
    cli::main(Instant::now())
}
