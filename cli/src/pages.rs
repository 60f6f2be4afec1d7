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

#[cfg(test)]
mod tests {
    use std::{env, fmt::Write, fs};

    use clap::{Command, CommandFactory};

    use crate::args::Args;

    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/command-line.md");
    const HEAD: &str = "\
# The command `redlock`

Made from `redlock --help`. [README.md](README.md) is the guide: how `redlock run` keeps and loses its lock,
hosts with one crontab, systemd, Kubernetes, the output. Each command also has `--json`, `-v` and the settings.
";

    /// Appends the help of a command and of its subcommands, which leave out the options that all
    /// commands have.
    fn add_section(page: &mut String, command: &Command, path: &[&str]) {
        let mut shown = command.clone().term_width(100);
        let title = match path {
            [] => String::new(),
            [name] => format!("## {name}\n\n"),
            names => format!("### {}\n\n", names.join(" ")),
        };
        if !path.is_empty() {
            shown = shown.mut_args(|arg| {
                let is_common = arg.is_global_set() || arg.get_id() == "help";
                arg.hide(is_common)
            });
        }
        let help = shown.render_long_help().to_string();
        let lines: Vec<_> = help.trim_end().lines().map(str::trim_end).collect();
        let _ = write!(page, "\n{title}```text\n{}\n```\n", lines.join("\n"));
        for inner in command.get_subcommands() {
            add_section(page, inner, &[path, &[inner.get_name()]].concat());
        }
    }

    #[test]
    fn committed_page_matches_the_help() {
        let mut command = Args::command();
        command.build();
        let mut fresh = HEAD.to_owned();
        add_section(&mut fresh, &command, &[]);
        if env::var_os("UPDATE_GENERATED").is_some() {
            fs::write(PAGE, &fresh).expect("the page can be written");
        }
        let page = fs::read_to_string(PAGE).expect("the page can be read");
        let changed: Vec<_> =
            fresh.lines().filter(|line| !page.lines().any(|known| known == *line)).collect();
        assert!(
            page == fresh,
            "cli/command-line.md differs from the help: {changed:#?}; write it anew: \
             scripts/generate"
        );
    }
}
