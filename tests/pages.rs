//! What the pages, the manifests and the files in `contrib` say about the code: links, paths and
//! tests exist, metrics and codes are documented, pages stay short, and what comes from others is
//! listed. `scripts/publish` and `scripts/check-contrib` run cargo-deny, cargo package and promtool.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use redlock_core::{membership::other_sets, protocol::formulas};
use serde_json::Value as Json;
use toml::{Table, Value};

/// Folders of the published packages, below the root of the repository.
const PUBLISHED: [&str; 5] = ["", "crates/redlock-core", "dashboard", "cli", "integrations/sqlx"];

/// Folders that a path in a page may begin in.
const BASES: [&str; 3] = ["", "src", "crates/redlock-core/src"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The files below a folder, without what is built, installed or hidden.
fn files(folder: impl AsRef<Path>) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(root().join(folder)).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy();
        if ["target", "node_modules"].contains(&&*name) || name.starts_with('.') {
        } else if path.is_dir() {
            files.extend(self::files(path));
        } else {
            files.push(path);
        }
    }
    files
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|own| own == extension)
}

fn markdown(folder: &str) -> Vec<PathBuf> {
    files(folder).into_iter().filter(|path| has_extension(path, "md")).collect()
}

fn relative(path: &Path) -> std::path::Display<'_> {
    path.strip_prefix(root()).unwrap().display()
}

/// A page in Markdown.
#[derive(Default)]
struct Page {
    links: Vec<String>,
    /// Those of the headings, as repository hosts and rustdoc make them.
    anchors: BTreeSet<String>,
    /// The texts between backticks.
    code: Vec<String>,
}

fn page(path: impl AsRef<Path>) -> Page {
    let (text, mut page, mut heading) = (read(path), Page::default(), None::<String>);
    for event in Parser::new_ext(&text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                let title = heading.take().unwrap().to_lowercase();
                let is_kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
                page.anchors
                    .insert(title.chars().filter(is_kept).collect::<String>().replace(' ', "-"));
            }
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                page.links.push(dest_url.into_string());
            }
            Event::Text(text) => {
                if let Some(title) = &mut heading {
                    title.push_str(&text);
                }
            }
            Event::Code(code) => {
                if let Some(title) = &mut heading {
                    title.push_str(&code);
                }
                page.code.push(code.into_string());
            }
            _ => {}
        }
    }
    page
}

/// Returns what is wrong with a link of the page at `path`.
fn link_fault(path: &Path, link: &str) -> Option<String> {
    let is_local = !link.contains("://") && !link.starts_with("mailto:");
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = if file.is_empty() { path.into() } else { path.parent().unwrap().join(file) };
    if is_local && !target.exists() {
        return Some(format!("{}: {link}: no such file", path.display()));
    }
    let is_missing = is_local && !anchor.is_empty() && !page(target).anchors.contains(anchor);
    is_missing.then(|| format!("{}: {link}: no such heading", path.display()))
}

#[test]
fn local_links_resolve() {
    let (mut checked, mut faults) = (0, Vec::new());
    // The links of a page that rustdoc includes may name items.
    for path in markdown("").into_iter().filter(|path| !path.starts_with(root().join("src"))) {
        for link in page(&path).links {
            checked += 1;
            faults.extend(link_fault(&path, &link));
        }
    }
    assert!(checked > 100, "{checked} links were found");
    assert!(faults.is_empty(), "{faults:#?}");

    let readme = root().join("README.md");
    assert!(link_fault(&readme, "docs/nothing.md").is_some(), "a missing file is found");
    assert!(link_fault(&readme, "docs/production.md#no").is_some(), "a missing heading is found");
}

/// A path of modules to a test between backticks, like `servers::cases::late::late_votes`.
fn is_test_path(code: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_:".contains(c);
    code.contains("::") && code.chars().all(is_allowed)
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
    let files =
        bases.iter().flat_map(|base| ["", "/main", "/mod"].map(|end| format!("{base}{end}.rs")));
    let texts = files.filter_map(|file| fs::read_to_string(root().join(file)).ok());
    let test = format!("fn {name}(");
    texts.into_iter().find_map(|text| Some(text.split_once(&test)?.0.to_owned()))
}

#[test]
fn named_tests_exist() {
    let (mut checked, mut slow) = (0, 0);
    for path in
        ["ARCHITECTURE.md", "docs/security.md", "verify/README.md", "verify/hostile-input.md"]
    {
        let text = read(path);
        for test in page(path).code.iter().filter(|code| is_test_path(code)) {
            let before = before_test(test).unwrap_or_else(|| panic!("{path} names {test}"));
            let mut attributes =
                before.trim_end().lines().rev().take_while(|line| !line.trim().is_empty());
            // A command of its own runs it.
            let is_slow = attributes.any(|line| line.trim().starts_with("#[ignore"));
            assert_eq!(is_slow, text.contains(&format!("`{test}` (slow)")), "{path} names {test}");
            checked += 1;
            slow += usize::from(is_slow);
        }
    }
    assert!(checked > 40 && slow > 3, "{checked} tests were found, {slow} of them slow");
    assert!(before_test("servers::cases::late::nothing").is_none(), "a missing test is found");
}

/// A path between backticks, like `lock/lease/` or `src/lib.rs`.
fn is_path(code: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "/_-.".contains(c);
    let is_file_or_folder = code.ends_with('/') || Path::new(code).extension().is_some();
    code.contains('/') && code.chars().all(is_allowed) && is_file_or_folder
}

fn exists(path: &str) -> bool {
    BASES.iter().any(|base| root().join(base).join(path).exists())
}

#[test]
fn named_paths_exist() {
    let (mut checked, mut missing) = (0, Vec::new());
    let own = ["ARCHITECTURE.md", "CONTRIBUTING.md"].map(|page| root().join(page));
    for file in own.into_iter().chain(markdown("docs")) {
        for path in page(&file).code.iter().filter(|code| is_path(code)) {
            checked += 1;
            if !exists(path) {
                missing.push(format!("{}: {path}", relative(&file)));
            }
        }
    }
    assert!(checked > 150, "{checked} paths were found");
    assert!(missing.is_empty(), "no such file or folder: {missing:#?}");
    assert!(!exists("src/nothing.rs"), "a missing path is found");
}

#[test]
fn book_has_every_page() {
    let summary = root().join("docs/SUMMARY.md");
    let listed: Vec<_> =
        page(&summary).links.iter().map(|link| root().join("docs").join(link)).collect();
    for file in markdown("docs").iter().filter(|file| **file != summary) {
        assert!(listed.contains(file), "docs/SUMMARY.md lacks {}", relative(file));
    }
}

#[test]
fn pages_stay_short() {
    let words = |page: &Path| read(page).split_whitespace().count();
    let is_chapter = |path: &PathBuf| {
        path.parent().is_some_and(|folder| folder.ends_with("docs"))
            && !path.ends_with("SUMMARY.md")
    };
    let chapters = markdown("docs").into_iter().filter(is_chapter);
    let sizes: Vec<_> = chapters.map(|path| (words(&path), path)).collect();
    let total: usize = sizes.iter().map(|(words, _)| words).sum();
    assert!(sizes.len() <= 15 && total <= 18_000, "{total} words: {sizes:#?}");
    assert!(sizes.iter().all(|(words, _)| *words <= 2_000), "{sizes:#?}");
    let map = words(Path::new("ARCHITECTURE.md"));
    assert!(map <= 1_200, "ARCHITECTURE.md has {map} words");
    let (lines, words) = (read("README.md").lines().count(), words(Path::new("README.md")));
    assert!(lines <= 110 && words <= 700, "README.md has {lines} lines, {words} words");
}

#[test]
fn rejection_codes_are_documented() {
    let source = read("src/reject/rejection.rs");
    let (_, body) = source.split_once("fn status_and_code").unwrap();
    let (body, _) = body.split_once("\n    }\n").unwrap();
    let codes: Vec<_> = body.split('"').skip(1).step_by(2).collect();
    let page = read("docs/requests.md");
    let (_, table) = page.split_once("### Codes").unwrap();
    let missing: Vec<_> =
        codes.iter().filter(|code| !table.contains(&format!("`{code}`"))).collect();
    assert!(codes.len() > 20, "{codes:?}");
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
    let page = read("docs/guarantees.md");
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

/// A server of a set that no client uses is watched, and then in probation.
#[test]
fn examples_wait_for_set_that_is_taken_over() {
    let (max_ttl, drift_factor) = (Duration::from_secs(10), 0.01);
    let watched = other_sets::watch_time(max_ttl, drift_factor);
    let until_votes = watched + max_ttl + formulas::drift(max_ttl, drift_factor);
    assert_eq!(until_votes.as_millis(), 32_704);
    // Connections that are not opened at once, and health checks between the steps.
    assert!(until_votes + Duration::from_secs(20) < Duration::from_secs(60));

    let mut found = 0;
    for path in ["examples", "integrations/examples", "src/blocking"].into_iter().flat_map(files) {
        for limited in read(&path).split("ready_within(Duration::").skip(1) {
            assert!(limited.starts_with("from_secs(60)"), "{}", relative(&path));
            found += 1;
        }
    }
    assert!(found >= 11, "{found} examples have a limit");
}

#[test]
fn one_server_page_quotes_the_warning() {
    let source = read("src/lock/build.rs");
    let warning = source.split('"').find(|text| text.starts_with("a single server:")).unwrap();
    let page = read("docs/one-server.md");
    let quoted: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("> ")).collect();
    assert_eq!(quoted.join(" "), warning);
}

fn manifest(folder: &str) -> Table {
    read(Path::new(folder).join("Cargo.toml")).parse().unwrap()
}

fn strings(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|item| item.as_str().unwrap()).collect()
}

/// What neither `cargo package` nor the other checks of `scripts/publish` refuse.
#[test]
fn published_manifests_suit_the_registry() {
    for folder in PUBLISHED {
        let package = &manifest(folder)["package"];
        let keywords = strings(&package["keywords"]);
        assert!((1..=5).contains(&keywords.len()), "{folder}: {keywords:?}");
        assert!(keywords.iter().all(|keyword| keyword.len() <= 20), "{folder}: {keywords:?}");
        assert!((1..=5).contains(&strings(&package["categories"]).len()), "{folder}: categories");
        assert!(package["description"].is_str() && package["readme"].is_str(), "{folder}");
        assert_eq!(read(Path::new(folder).join("LICENSE")), read("LICENSE"), "{folder}");
        // docs.rs shows what needs a feature, of every library.
        let has_library = root().join(folder).join("src/lib.rs").exists();
        let docs = package.get("metadata").map(|metadata| &metadata["docs"]["rs"]);
        assert_eq!(has_library, docs.is_some(), "{folder}");
        assert!(docs.is_none_or(|docs| docs["all-features"].as_bool() == Some(true)), "{folder}");
        for shared in ["edition", "license", "repository"] {
            assert_eq!(package[shared], manifest("")["package"][shared], "{folder}: {shared}");
        }
    }
    // Most of the file of a program that is installed would be debug information.
    assert_eq!(manifest("")["profile"]["release"]["strip"].as_str(), Some("debuginfo"));
}

#[test]
fn publish_script_names_the_published_packages() {
    let workspace = &manifest("")["workspace"];
    let members =
        [strings(&workspace["members"]), strings(&workspace["exclude"]), vec![""]].concat();
    let published =
        members.into_iter().map(manifest).filter(|m| m["package"].get("publish").is_none());
    let names = published.map(|m| m["package"]["name"].as_str().unwrap().to_owned());
    let script = read("scripts/publish");
    let crates = script.lines().find_map(|line| line.strip_prefix("crates=")).unwrap();
    let listed = crates.trim_matches('"').split(' ').map(str::to_owned);
    assert_eq!(names.collect::<BTreeSet<_>>(), listed.collect());
}

#[test]
fn embedded_files_have_a_known_origin() {
    let page = read("THIRD-PARTY.md");
    let embedded = PUBLISHED.into_iter().flat_map(|folder| files(Path::new(folder).join("src")));
    let embedded: Vec<_> = embedded.filter(|file| !has_extension(file, "rs")).collect();
    assert!(embedded.len() > 20, "{embedded:?}");
    for file in embedded {
        let file = file.strip_prefix(root()).unwrap();
        let extension = file.extension().unwrap_or_default().display();
        let all = format!("`{}/*.{extension}`", file.parent().unwrap().display());
        let is_listed = page.contains(&format!("`{}`", file.display())) || page.contains(&all);
        assert!(is_listed, "{} is not listed", file.display());
    }
}

#[test]
fn embedded_data_of_dependencies_is_listed() {
    // Of the browser's driver, in tests alone.
    const TESTS_ONLY: &str = "icu_segmenter_data";
    let page = read("THIRD-PARTY.md");
    let lock: Table = read("Cargo.lock").parse().unwrap();
    let names =
        lock["package"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap());
    let has_data = |name: &&str| {
        ["tzdb", "_data", "webpki-roots", "unicode-width"].iter().any(|part| name.contains(part))
    };
    let with_data: Vec<_> = names.filter(has_data).filter(|name| *name != TESTS_ONLY).collect();
    assert!(with_data.len() >= 4, "{with_data:?}");
    for name in with_data {
        assert!(page.contains(&format!("`{name}`")), "{name} is not listed");
    }
}

/// The metrics in the table that the crate's documentation includes, with their kinds.
fn documented_metrics() -> BTreeMap<String, String> {
    let text = read("src/metrics.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| row.split_once("` | "))
        .map(|(name, rest)| (name.to_owned(), rest.split(" | ").next().unwrap().to_owned()))
        .filter(|(name, _)| name.starts_with("redlock_"))
        .collect()
}

/// Words of a text that begin like the name of a metric.
fn metrics_in(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("redlock_")).collect()
}

#[test]
fn table_has_every_metric_with_its_kind() {
    let source = read("src/metrics.rs");
    let calls = source.split("note!(").filter_map(|call| {
        let (kind, rest) = call.split_once(" \"")?;
        Some((rest.split_once('"')?.0.to_owned(), kind.to_owned()))
    });
    let is_kind = |kind: &str| ["counter", "gauge", "histogram"].contains(&kind);
    let recorded: BTreeMap<_, _> = calls.filter(|(_, kind)| is_kind(kind)).collect();
    assert!(recorded.len() > 20, "{recorded:?}");
    assert_eq!(documented_metrics(), recorded);

    // The conventions of Prometheus.
    for (name, kind) in recorded {
        assert_eq!(name.ends_with("_total"), kind == "counter", "{name}");
        assert!(kind != "histogram" || name.ends_with("_seconds"), "{name}: base units");
        let units = ["_ms", "_millis", "_micros", "_minutes", "_kb", "_percent"];
        assert!(!units.iter().any(|unit| name.contains(unit)), "{name}: base units");
    }
}

#[test]
fn dashboard_and_alerts_name_metrics_that_exist() {
    let metrics = documented_metrics();
    let is_histogram = |name: &str| metrics.get(name).is_some_and(|kind| kind == "histogram");
    // A scrape has the series of a histogram instead of its name.
    let is_series = |name: &str| {
        let mut ends = ["_bucket", "_count", "_sum"].into_iter();
        let is_of_histogram = ends.any(|end| name.strip_suffix(end).is_some_and(is_histogram));
        is_of_histogram || metrics.contains_key(name) && !is_histogram(name)
    };
    for path in ["contrib/grafana/redlock.json", "contrib/prometheus/alerts.yml"] {
        let text = read(path);
        let names = metrics_in(&text);
        let unknown: Vec<_> = names.iter().filter(|name| !is_series(name)).collect();
        assert!(names.len() > 2 && unknown.is_empty(), "{path}: {unknown:?}");
    }
    let text = read("docs/observability.md");
    let is_known = |name: &&&str| is_series(name) || metrics.contains_key(**name);
    let unknown: Vec<_> = metrics_in(&text).into_iter().filter(|name| !is_known(&name)).collect();
    assert!(unknown.is_empty(), "docs/observability.md: {unknown:?}");
    assert!(!is_series("redlock_nothing_total") && !is_series("redlock_waiters_sum"));
}

#[test]
fn dashboard_shows_every_metric_in_panels_with_descriptions() {
    let text = read("contrib/grafana/redlock.json");
    let shown = metrics_in(&text);
    for metric in documented_metrics().keys() {
        assert!(shown.iter().any(|name| name.starts_with(metric)), "{metric} is not shown");
    }
    let board: Json = serde_json::from_str(&text).unwrap();
    let panels = board["panels"].as_array().unwrap();
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "identifiers of panels differ");
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        assert!(panel["description"].as_str().is_some_and(|text| !text.is_empty()), "{panel}");
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{panel}");
        for query in targets.iter().map(|target| target["expr"].as_str().unwrap()) {
            assert!(query.contains(r#"job=~"$job", instance=~"$instance""#), "{query}");
        }
    }
}

#[test]
fn every_alert_has_a_runbook_and_a_test() {
    let rules = read("contrib/prometheus/alerts.yml");
    let tests = read("contrib/prometheus/alerts.test.yml");
    let alerts: Vec<_> = rules.split("- alert: ").skip(1).collect();
    assert!(alerts.len() > 12, "{} alerts", alerts.len());
    for alert in alerts {
        let (name, _) = alert.split_once('\n').unwrap();
        assert!(tests.contains(&format!("alertname: {name}\n")), "{name} has a test");
        let (_, runbook) = alert.split_once("runbook: ").expect(name);
        let words = runbook.lines().next().unwrap().split([' ', '"']);
        let links: Vec<_> = words.filter(|word| word.starts_with("docs/")).collect();
        assert!(!links.is_empty(), "{name} names a page");
        for link in links.iter().map(|link| link.trim_end_matches(['.', ','])) {
            assert!(link.contains('#'), "{name}: {link} names a section");
            assert_eq!(link_fault(&root().join("README.md"), link), None, "{name}");
        }
    }
}

/// The README's servers are those of the file, and tests over servers start them with the same arguments.
#[test]
fn compose_file_has_the_servers_of_the_readme() {
    let (file, readme) = (read("contrib/compose.yaml"), read("README.md"));
    let count = |text: &str| file.lines().filter(|line| line.trim().starts_with(text)).count();
    for port in [7001, 7002, 7003] {
        assert_eq!(count(&format!("ports: [\"127.0.0.1:{port}:6379\"]")), 1, "{port}");
        assert!(readme.contains(&format!("redis://127.0.0.1:{port}")), "{port}");
    }
    assert!(readme.contains("for port in 7001 7002 7003; do"));
    for server in ["redis-1", "redis-2", "redis-3"] {
        assert_eq!(count(&format!("{server}:")), 1, "{server}");
        assert!(readme.contains(server), "{server}");
    }
    // All files that are mounted exist.
    let mounts =
        file.lines().flat_map(|line| line.split(['"', ' ']).filter(|it| it.starts_with("./")));
    let mounted: Vec<_> = mounts.map(|mount| mount.split(':').next().unwrap()).collect();
    assert_eq!(mounted.len(), 3);
    // The service is the example, over the servers of the file, where Prometheus looks for it.
    let service = read("examples/demo/examples/service.rs");
    for port in [7001, 7002, 7003] {
        assert!(service.contains(&format!("redis://127.0.0.1:{port}")), "{port}");
    }
    assert_eq!(
        (
            count("command: cargo run --locked -p demo --example service"),
            count("stop_signal: SIGINT")
        ),
        (1, 1)
    );
    assert_eq!(
        count("network_mode: host"),
        3,
        "what listens on loopback of the host, and asks there"
    );
    assert!(service.contains("127.0.0.1:9000"));
    assert!(read("contrib/prometheus/prometheus.yml").contains("[\"127.0.0.1:9000\"]"));
    let provisioned = read("contrib/grafana/provisioning/datasources/prometheus.yaml");
    assert!(file.contains("127.0.0.1:9090") && provisioned.contains("http://127.0.0.1:9090"));
    for path in mounted {
        assert!(root().join("contrib").join(path).exists(), "{path}");
    }
}
