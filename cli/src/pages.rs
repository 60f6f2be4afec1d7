//! `redlock completions` and `redlock man`: files for shells and for man(1).

use std::{io, path::PathBuf};

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::{exit::Failure, output::print};

/// Prints a script that completes commands and options in a shell
///
/// For bash: redlock completions bash > ~/.local/share/bash-completion/completions/redlock
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Prints the manual page, or writes one page for each command
///
/// To read it: redlock man | man -l -
#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// Write redlock.1, redlock-ls.1 and so on into this directory, which has to exist
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(crate) fn completions(args: &CompletionsArgs, mut command: Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "redlock", &mut script);
    print(&String::from_utf8_lossy(&script))
}

pub(crate) fn man(args: &ManArgs, command: Command) -> Result<(), Failure> {
    let Some(dir) = &args.dir else {
        let mut page = Vec::new();
        // Writing to memory does not fail.
        let _ = Man::new(command).render(&mut page);
        return print(&String::from_utf8_lossy(&page));
    };
    let failed = |error: io::Error| Failure::system(format!("{}: {error}", dir.display()));
    clap_mangen::generate_to(command, dir).map_err(failed)
}
