//! `fuseloop completions` and `fuseloop man`: what a shell and `man` are told of the command's arguments.
//!
//! Both are made from the definition of the arguments, so they can't differ from it.

use super::print::say;
use super::problem::Problem;
use clap_complete::Shell;
use clap_mangen::Man;

/// Print the completion script of a shell
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fuseloop completions bash > ~/.local/share/bash-completion/completions/fuseloop
  fuseloop completions fish > ~/.config/fish/completions/fuseloop.fish
  fuseloop completions zsh > ~/.zfunc/_fuseloop      # with ~/.zfunc in $fpath")]
pub(super) struct CompletionsArgs {
    /// Shell to complete for
    shell: Shell,
}

/// Print the manual page of fuseloop or of one command
#[derive(clap::Args)]
#[command(after_help = "Examples:
  fuseloop man | man -l -
  fuseloop man info > fuseloop-info.1")]
pub(super) struct ManArgs {
    /// Command to describe [default: fuseloop itself]
    command: Option<String>,
}

pub(super) fn completions(args: &CompletionsArgs, mut all: clap::Command) -> Result<(), Problem> {
    let mut script = vec![];
    clap_complete::generate(args.shell, &mut all, "fuseloop", &mut script);
    say(&String::from_utf8_lossy(&script))
}

pub(super) fn man(args: &ManArgs, mut all: clap::Command) -> Result<(), Problem> {
    // This gives the commands their full names and the options that all share.
    all.build();
    let page = match &args.command {
        None => Man::new(all),
        Some(name) => {
            let found = all.find_subcommand(name).cloned().ok_or_else(|| Problem::Refused {
                message: format!("no command named `{name}`"),
                help: "`fuseloop --help` lists the commands",
            })?;
            Man::new(found)
                .title(format!("fuseloop-{name}"))
                .source(concat!("fuseloop ", env!("CARGO_PKG_VERSION")))
        }
    };
    let mut text = vec![];
    page.render(&mut text).map_err(Problem::Stdout)?;
    say(&String::from_utf8_lossy(&text))
}
