//! The tables of `docs/observability.md`, and the events in the source.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// A row of the table of spans, or of that of events.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Row {
    pub(crate) level: String,
    pub(crate) name: String,
    pub(crate) fields: BTreeSet<String>,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The rows below a heading: level, name, fields, and what it means.
pub(crate) fn rows(heading: &str) -> Vec<Row> {
    let page = fs::read_to_string(root().join("docs/observability.md")).unwrap();
    let (_, section) = page.split_once(&format!("\n{heading}\n")).expect(heading);
    let lines = section.lines().take_while(|line| !line.starts_with('#'));
    let tables = lines.filter(|line| line.starts_with("| ")).skip(1);
    let quoted = |cell: &str| -> Vec<String> {
        cell.split('`').skip(1).step_by(2).map(ToOwned::to_owned).collect()
    };
    tables
        .map(|line| {
            let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
            let name = quoted(cells[1]).remove(0);
            Row { level: cells[0].to_owned(), name, fields: quoted(cells[2]).into_iter().collect() }
        })
        .collect()
}

/// The events that the source sends, apart from those of local macros.
pub(crate) fn sent_by_source() -> BTreeSet<Row> {
    let mut files = Vec::new();
    sources(&root().join("src"), &mut files);
    let texts = files.iter().map(|file| fs::read_to_string(file).unwrap());
    texts.flat_map(|text| events(&text)).collect()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn events(text: &str) -> Vec<Row> {
    let calls = text.match_indices("log::").filter_map(|(at, _)| {
        let (level, arguments) = text[at + 5..].split_once("!(")?;
        let is_level = ["trace", "debug", "info", "warn", "error"].contains(&level);
        is_level.then(|| (level.to_uppercase(), split(arguments)))
    });
    calls
        .map(|(level, arguments)| {
            let (messages, fields): (Vec<_>, Vec<_>) =
                arguments.into_iter().partition(|argument| argument.starts_with('"'));
            let message = messages.first().map(|text| text.trim_matches('"').to_owned());
            let name = |field: String| {
                let name = field.split('=').next().unwrap_or_default();
                name.trim().trim_start_matches(['%', '?']).to_owned()
            };
            let fields = fields.into_iter().map(name).collect();
            Row { level, name: message.unwrap_or_default(), fields }
        })
        .collect()
}

/// Splits the arguments of a call, up to its end. Joins the lines of a text.
fn split(text: &str) -> Vec<String> {
    let (mut arguments, mut current) = (Vec::new(), String::new());
    let (mut depth, mut is_text) = (0, false);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\\' if is_text && rest.peek() == Some(&'\n') => {
                while rest.next_if(|c| c.is_whitespace()).is_some() {}
                continue;
            }
            '"' => is_text = !is_text,
            _ if is_text => {}
            '(' | '[' | '{' => depth += 1,
            ')' if depth == 0 => break,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                arguments.push(std::mem::take(&mut current));
                continue;
            }
            _ => {}
        }
        current.push(c);
    }
    arguments.push(current);
    let trimmed = arguments.iter().map(|argument| argument.trim().to_owned());
    trimmed.filter(|argument| !argument.is_empty()).collect()
}

#[test]
fn events_of_a_text_are_found() {
    let text = "crate::traces::log::warn!(\n    %node, by = f(a, \"(\"), ?x,\n    \"one, \\\n     two (2)\"\n);";
    let fields = ["node", "by", "x"].map(ToOwned::to_owned).into();
    let expected = Row { level: "WARN".into(), name: "one, two (2)".into(), fields };
    assert_eq!(events(text), [expected]);
}
