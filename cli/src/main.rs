//! The program `fuseloop`.

mod reserve;

use std::process::ExitCode;

fn main() -> ExitCode {
    reserve::prepare();
    ExitCode::from(fuseloop_cli::run(std::env::args_os()))
}
