//! The page of the command `redlock`, from its `--help`: `cli/command-line.md`.

use std::{fmt::Write, path::Path, process::Command};

const HEAD: &str = "\
# The command `redlock`

Made from `redlock --help`. [README.md](README.md) is the guide: how `redlock run` keeps and loses its lock,
hosts with one crontab, systemd, Kubernetes, the output. Each command also has `--json`, `-v` and the settings.
";

/// The sections and options that every command has; listed once, for `redlock` itself.
const COMMON_SECTION: &str = "Settings:";
const COMMON_OPTIONS: [&str; 3] = ["--json", "-v, --verbose...", "-h, --help"];

/// Returns the whole page, as the program at `redlock` says it.
pub(crate) fn page(redlock: &Path) -> String {
    let mut page = HEAD.to_owned();
    section(redlock, &[], &mut page);
    page
}

fn section(redlock: &Path, command: &[&str], page: &mut String) {
    let help = help(redlock, command);
    let _ = match command {
        [] => writeln!(page, "\n```text\n{}```", help.trim_end().to_owned() + "\n"),
        [command] => writeln!(page, "\n## {command}\n\n```text\n{}```", own_part(&help)),
        _ => writeln!(page, "\n### {}\n\n```text\n{}```", command.join(" "), own_part(&help)),
    };
    for name in commands(&help) {
        section(redlock, &[command, &[name]].concat(), page);
    }
}

fn help(redlock: &Path, command: &[&str]) -> String {
    let mut run = Command::new(redlock);
    run.args(command).arg("--help").env("COLUMNS", "100").env("NO_COLOR", "1");
    let output = run.output().unwrap_or_else(|error| panic!("{}: {error}", redlock.display()));
    assert!(output.status.success(), "redlock {command:?} --help: {output:?}");
    String::from_utf8(output.stdout).expect("help is text")
}

/// The names in the list of commands.
fn commands(help: &str) -> Vec<&str> {
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    list.take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .collect()
}

/// Leaves out what every command has, and empty lines between options.
fn own_part(help: &str) -> String {
    let mut own = String::new();
    for paragraph in sections(help) {
        let (title, rest) = paragraph.split_once('\n').unwrap_or((&paragraph, ""));
        let text = match title {
            COMMON_SECTION => continue,
            "Options:" | "Arguments:" | "Commands:" => entries(rest),
            _ => rest.trim_end().to_owned() + "\n",
        };
        if text.trim().is_empty() && title.ends_with(':') {
            continue;
        }
        let _ = write!(
            own,
            "{}{title}\n{}",
            if own.is_empty() { "" } else { "\n" },
            text.trim_start_matches('\n')
        );
        while own.ends_with("\n\n") {
            own.pop();
        }
    }
    own
}

/// Splits at the titles, which are lines that begin at the margin and end with a colon, and at other
/// paragraphs at the margin.
fn sections(help: &str) -> Vec<String> {
    let mut sections: Vec<String> = Vec::new();
    let mut after_blank = true;
    for line in help.lines() {
        if after_blank && !line.is_empty() && !line.starts_with(' ') {
            sections.push(String::new());
        }
        after_blank = line.is_empty();
        if let Some(section) = sections.last_mut() {
            section.push_str(line);
            section.push('\n');
        }
    }
    sections
}

/// The entries of a list of options without those that every command has.
fn entries(list: &str) -> String {
    let mut kept = String::new();
    let mut is_common = false;
    for line in list.lines().filter(|line| !line.trim().is_empty()) {
        let entry = line.trim_start();
        if line.len() - entry.len() <= 6
            && (entry.starts_with('-') || entry.starts_with(['[', '<']))
        {
            is_common = COMMON_OPTIONS.iter().any(|option| entry.starts_with(option));
        }
        if !is_common {
            kept.push_str(line.trim_end());
            kept.push('\n');
        }
    }
    kept
}
