//! `redlock completions` and `redlock man`: what shells and `man` read.

use std::{path::PathBuf, process::ExitCode};

use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;

use crate::{
    args::Args,
    exit::{Failure, SYSTEM},
    output::print,
};

const NAME: &str = "redlock";

/// Prints a script that completes commands and options in a shell
///
/// For bash: redlock completions bash > ~/.local/share/bash-completion/completions/redlock
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
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

pub(crate) fn completions(args: &CompletionsArgs) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), NAME, &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn man(args: &ManArgs) -> Result<ExitCode, Failure> {
    let Some(dir) = &args.dir else {
        let mut page = Vec::new();
        // Writing to memory does not fail.
        let _ = Man::new(Args::command()).render(&mut page);
        print(&String::from_utf8_lossy(&page))?;
        return Ok(ExitCode::SUCCESS);
    };
    let written = clap_mangen::generate_to(Args::command(), dir);
    written.map_err(|error| Failure::new(SYSTEM, format!("{}: {error}", dir.display())))?;
    Ok(ExitCode::SUCCESS)
}
