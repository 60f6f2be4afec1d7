//! The pages in Markdown: their links, paths and tests exist, they list every code of a rejection, and
//! they stay short.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use redlock_core::{membership::other_sets, protocol::formulas};

/// Folders with pages, below the root of the repository.
const FOLDERS: [&str; 14] = [
    "",
    "docs",
    "docs/decisions",
    "benches",
    "cli",
    "crates/redlock-core",
    "dashboard",
    "examples",
    "verify",
    "verify/failovers",
    "verify/faults",
    "verify/fuzz",
    "verify/schedules",
    "verify/sim",
];

/// Folders that a path in a page may begin in.
const BASES: [&str; 3] = ["", "src", "crates/redlock-core/src"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The text of a page without its code blocks.
fn prose(page: &Path) -> String {
    let text = fs::read_to_string(page).unwrap();
    text.split("```").step_by(2).collect()
}

/// Targets of `[text](target)`.
fn links(prose: &str) -> impl Iterator<Item = &str> {
    prose.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

/// The anchors of a page's headings, as repository hosts and rustdoc make them.
fn anchors(page: &Path) -> Vec<String> {
    let prose = prose(page);
    let titles = prose.lines().filter(|line| line.starts_with('#'));
    titles
        .map(|title| {
            let kept = title.trim_start_matches('#').trim().to_lowercase();
            kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect::<String>()
        })
        .map(|title| title.replace(' ', "-"))
        .collect()
}

/// The pages in a folder.
fn pages(folder: &str) -> impl Iterator<Item = PathBuf> {
    let files = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "md"))
}

/// What is wrong with a link of `page`.
fn fault(page: &Path, link: &str) -> Option<String> {
    if link.contains("://") {
        return None;
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = if file.is_empty() { page.into() } else { page.parent().unwrap().join(file) };
    if !target.exists() {
        return Some(format!("{}: {link}: no such file", page.display()));
    }
    let known = anchor.is_empty() || anchors(&target).iter().any(|known| known == anchor);
    (!known).then(|| format!("{}: {link}: no such heading", page.display()))
}

#[test]
fn local_links_resolve() {
    let mut checked = 0;
    let mut faults = Vec::new();
    for folder in FOLDERS {
        for page in pages(folder) {
            for link in links(&prose(&page)) {
                checked += 1;
                faults.extend(fault(&page, link));
            }
        }
    }
    assert!(checked > 30, "{checked} links were found");
    assert!(faults.is_empty(), "{faults:#?}");
}

/// The identifiers that `Rejection::code` returns, from its source.
fn rejection_codes() -> Vec<String> {
    let source = fs::read_to_string(root().join("src/reject/rejection.rs")).unwrap();
    let body = source.split("fn status_and_code").nth(1).unwrap();
    let body = body.split("\n    }\n").next().unwrap();
    body.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn rejection_codes_are_documented() {
    let page = fs::read_to_string(root().join("docs/requests.md")).unwrap();
    let table = page.split("### Codes").nth(1).unwrap();
    let codes = rejection_codes();
    assert!(codes.len() > 20, "{codes:?}");
    let missing: Vec<_> =
        codes.iter().filter(|code| !table.contains(&format!("`{code}`"))).collect();
    assert!(missing.is_empty(), "docs/requests.md lacks {missing:?}");
}

/// The numbers of a row of a table, in ms.
fn row(page: &str, title: &str) -> Vec<Duration> {
    let row = page.lines().find_map(|line| line.strip_prefix(&format!("| {title} |")));
    let cells = row.unwrap_or_else(|| panic!("no row {title}")).split('|').map(str::trim);
    let numbers = cells.filter(|cell| !cell.is_empty()).map(|cell| cell.parse().unwrap());
    numbers.map(Duration::from_millis).collect()
}

#[test]
fn steps_of_clocks_are_those_of_the_formulas() {
    let page = fs::read_to_string(root().join("docs/guarantees.md")).unwrap();
    let (ttls, factor) = (row(&page, "TTL"), 0.01);
    assert!(ttls.len() > 3);

    let validity = |ttl: &Duration| formulas::validity(*ttl, formulas::slack(*ttl, factor));
    let step = |ttl: &Duration| formulas::tolerated_step(*ttl, factor);

    assert_eq!(row(&page, "validity"), ttls.iter().map(validity).collect::<Vec<_>>());
    assert_eq!(row(&page, "tolerated step"), ttls.iter().map(step).collect::<Vec<_>>());
    // What is left for rates that differ, and for trips.
    let (shortest, none) = (Duration::from_millis(400), Duration::ZERO);
    let unseen = formulas::unseen_step(formulas::READING_AGE, none, factor);
    let rest = formulas::slack(shortest, factor).saturating_sub(unseen);
    let text = format!("by default {} ms up to 3 s", rest.as_millis());
    assert!(page.contains(&text), "{text}");
}

/// Tests between backticks, like `servers::cases::late::late_votes_leave_no_key`.
fn named_tests(prose: &str) -> impl Iterator<Item = &str> {
    let is_path = |span: &&str| {
        span.contains("::")
            && span
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_:".contains(c))
    };
    prose.split('`').skip(1).step_by(2).filter(is_path)
}

/// Returns what is before a test in its file, if a path of modules and a function leads to one.
fn before_test(path: &str) -> Option<String> {
    let (modules, name) = path.rsplit_once("::").unwrap();
    let modules = modules.replace("::", "/");
    let bases = match modules.strip_prefix("sim/") {
        Some(modules) => vec![format!("verify/sim/tests/{modules}")],
        None => ["src", "crates/redlock-core/src", "tests"]
            .map(|base| format!("{base}/{modules}"))
            .into(),
    };
    let files = bases
        .iter()
        .flat_map(|base| ["", "/main", "/mod"].map(|end| root().join(format!("{base}{end}.rs"))));
    let test = format!("fn {name}(");
    let texts = files.filter_map(|file| fs::read_to_string(file).ok());
    texts.into_iter().find_map(|text| Some(text.split_once(&test)?.0.to_owned()))
}

/// Whether a command of its own runs a test, with what is before it in its file.
fn is_slow(before: &str) -> bool {
    let attributes = before.trim_end().lines().rev().take_while(|line| !line.trim().is_empty());
    attributes.map(str::trim).any(|line| line.starts_with("#[ignore"))
}

#[test]
fn named_tests_exist() {
    let (mut checked, mut slow) = (0, 0);
    let pages =
        ["ARCHITECTURE.md", "docs/security.md", "verify/README.md", "verify/hostile-input.md"];
    for page in pages {
        let prose = prose(&root().join(page));
        for test in named_tests(&prose) {
            checked += 1;
            let before = before_test(test).unwrap_or_else(|| panic!("{page} names {test}"));
            let is_marked = prose.contains(&format!("`{test}` (slow)"));
            assert_eq!(is_slow(&before), is_marked, "{page} names {test}");
            slow += usize::from(is_marked);
        }
    }
    assert!(checked > 40 && slow > 3, "{checked} tests were found, {slow} of them slow");
    assert!(before_test("servers::cases::late::nothing").is_none());
}

/// A server of a set that no client uses is watched, and then in probation.
#[test]
fn examples_wait_for_set_that_is_taken_over() {
    let (max_ttl, drift_factor) = (Duration::from_secs(10), 0.01);
    let watched = other_sets::watch_time(max_ttl, drift_factor);
    let probation = max_ttl + formulas::drift(max_ttl, drift_factor);
    let limit = Duration::from_secs(60);

    assert_eq!((watched + probation).as_millis(), 32_704);
    // Connections that are not opened at once, and health checks between the steps.
    assert!(watched + probation + Duration::from_secs(20) < limit);
    let rust = |folder: &str| {
        let files = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
        files.filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
    };
    let folders = ["examples", "examples/demo/src", "integrations/examples", "src/blocking"];
    let mut found = 0;
    for path in folders.into_iter().flat_map(rust) {
        let text = fs::read_to_string(&path).unwrap();
        for limited in text.split("ready_within(Duration::").skip(1) {
            assert!(limited.starts_with("from_secs(60)"), "{}", path.display());
            found += 1;
        }
    }
    assert!(found >= 11, "{found} examples have a limit");
}

/// Paths between backticks, like `lock/lease/` or `src/lib.rs`.
fn paths(prose: &str) -> impl Iterator<Item = &str> {
    let spans = prose.split('`').skip(1).step_by(2);
    spans.filter(|span| {
        let is_path = span.chars().all(|c| c.is_ascii_alphanumeric() || "/_-.".contains(c));
        is_path
            && span.contains('/')
            && (span.ends_with('/') || Path::new(span).extension().is_some())
    })
}

fn exists(path: &str) -> bool {
    BASES.iter().any(|base| root().join(base).join(path).exists())
}

#[test]
fn named_paths_exist() {
    let own = ["ARCHITECTURE.md", "CONTRIBUTING.md"].map(|page| root().join(page));
    let mut checked = 0;
    let mut missing = Vec::new();
    for page in own.into_iter().chain(pages("docs")).chain(pages("docs/decisions")) {
        for path in paths(&prose(&page)) {
            checked += 1;
            if !exists(path) {
                missing.push(format!("{}: {path}", page.display()));
            }
        }
    }
    assert!(checked > 150, "{checked} paths were found");
    assert!(missing.is_empty(), "no such file or folder: {missing:#?}");
    assert!(!exists("src/nothing.rs"));
}

#[test]
fn book_has_every_page() {
    let summary = root().join("docs/SUMMARY.md");
    let text = fs::read_to_string(&summary).unwrap();
    let listed: Vec<_> = links(&text).map(|link| root().join("docs").join(link)).collect();
    for folder in ["docs", "docs/decisions"] {
        for page in pages(folder).filter(|page| *page != summary) {
            assert!(listed.contains(&page), "docs/SUMMARY.md lacks {}", page.display());
        }
    }
}

/// The greatest number of words of a page in `docs`, and of all together.
const MAX_WORDS: (usize, usize) = (2_400, 22_500);

#[test]
fn pages_stay_short() {
    let words = |page: &Path| fs::read_to_string(page).unwrap().split_whitespace().count();
    let chapters = pages("docs").filter(|page| !page.ends_with("SUMMARY.md"));
    let sizes: Vec<_> = chapters.map(|page| (words(&page), page)).collect();
    let total: usize = sizes.iter().map(|(words, _)| words).sum();
    let longest = sizes.iter().max();
    assert!(sizes.len() <= 14 && total <= MAX_WORDS.1, "{total} words: {sizes:#?}");
    assert!(longest.is_some_and(|(words, _)| *words <= MAX_WORDS.0), "{longest:?}");
    let map = words(&root().join("ARCHITECTURE.md"));
    assert!(map <= 1_200, "ARCHITECTURE.md has {map} words");
}

#[test]
fn faulty_links_are_found() {
    let readme = root().join("README.md");
    assert!(fault(&readme, "docs/nothing.md").is_some());
    assert!(fault(&readme, "docs/production.md#nothing").is_some());
    assert_eq!(fault(&readme, "docs/production.md#clocks"), None);
}

#[test]
fn one_server_page_quotes_the_warning() {
    let source = fs::read_to_string(root().join("src/lock/build.rs")).unwrap();
    let warning = source.split('"').find(|text| text.starts_with("a single server:")).unwrap();
    let page = fs::read_to_string(root().join("docs/one-server.md")).unwrap();
    let quoted: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("> ")).collect();
    assert_eq!(quoted.join(" "), warning);
}

#[test]
fn readme_is_at_most_140_lines() {
    let lines = fs::read_to_string(root().join("README.md")).unwrap().lines().count();
    assert!(lines <= 140, "README.md has {lines} lines");
}
