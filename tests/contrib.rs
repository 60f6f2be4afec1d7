//! The dashboard and the alerts in `contrib` name metrics that exist, and pages that exist.
//! `scripts/check-contrib` runs their queries.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use serde_json::Value;

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The metrics in the table that the crate's documentation includes, with their kinds.
fn documented() -> BTreeMap<String, String> {
    let text = read("src/metrics.md");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `redlock_"));
    rows.map(|row| {
        let cells: Vec<_> = row.split(" | ").collect();
        (format!("redlock_{}", cells[0].trim_end_matches('`')), cells[1].to_owned())
    })
    .collect()
}

/// Words of a text that begin like the name of a metric.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("redlock_")).collect()
}

/// The names in a text that a scrape does not have.
fn unknown<'a>(text: &'a str, metrics: &BTreeMap<String, String>) -> Vec<&'a str> {
    let is_series_of_histogram = |name: &str| {
        ["_bucket", "_count", "_sum"].iter().any(|end| {
            let kind = name.strip_suffix(end).and_then(|base| metrics.get(base));
            kind.is_some_and(|kind| kind == "histogram")
        })
    };
    let is_known = |name: &str| match metrics.get(name) {
        Some(kind) => kind != "histogram",
        None => is_series_of_histogram(name),
    };
    names(text).into_iter().filter(|name| !is_known(name)).collect()
}

#[test]
fn table_has_every_metric_with_its_kind() {
    let source = read("src/metrics.rs");
    let kinds = ["counter", "gauge", "histogram"];
    let recorded: BTreeMap<_, _> = source
        .split("note!(")
        .filter_map(|call| {
            let (kind, rest) = call.split_once(" \"")?;
            let name = rest.split_once('"')?.0;
            kinds.contains(&kind).then(|| (name.to_owned(), kind.to_owned()))
        })
        .collect();

    assert!(recorded.len() > 20, "{recorded:?}");
    assert_eq!(documented(), recorded);
}

#[test]
fn names_follow_the_conventions_of_prometheus() {
    for (name, kind) in documented() {
        assert_eq!(name.ends_with("_total"), kind == "counter", "{name}");
        assert!(kind != "histogram" || name.ends_with("_seconds"), "{name}: base units");
        for unit in ["_ms", "_millis", "_micros", "_minutes", "_kb", "_percent"] {
            assert!(!name.contains(unit), "{name}: base units");
        }
    }
}

#[test]
fn dashboard_and_alerts_name_metrics_that_exist() {
    let metrics = documented();
    for path in
        ["contrib/grafana/redlock.json", "contrib/prometheus/alerts.yml", "docs/observability.md"]
    {
        let text = read(path);
        assert!(names(&text).len() > 2, "{path} names metrics");
        let is_in_a_file = path.starts_with("contrib");
        let unknown = unknown(&text, &metrics);
        assert!(!is_in_a_file || unknown.is_empty(), "{path}: {unknown:?}");
        // Prose names histograms as a whole.
        let unknown: Vec<_> = unknown.into_iter().filter(|n| !metrics.contains_key(*n)).collect();
        assert!(unknown.is_empty(), "{path}: {unknown:?}");
    }
    assert_eq!(unknown("redlock_nothing_total redlock_waiters_sum", &metrics).len(), 2);
}

#[test]
fn dashboard_shows_every_metric() {
    let text = read("contrib/grafana/redlock.json");
    let shown = names(&text);
    let missing: Vec<_> = documented()
        .into_keys()
        .filter(|metric| !shown.iter().any(|name| name.starts_with(metric.as_str())))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn panels_have_descriptions_queries_and_variables() {
    let board: Value = serde_json::from_str(&read("contrib/grafana/redlock.json")).unwrap();
    let panels = board["panels"].as_array().unwrap();
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len());
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        assert!(panel["description"].as_str().is_some_and(|text| !text.is_empty()), "{panel}");
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{panel}");
        for target in targets {
            let query = target["expr"].as_str().unwrap();
            assert!(query.contains(r#"job=~"$job", instance=~"$instance""#), "{query}");
        }
    }
}

/// Headings of a page, as anchors.
fn anchors(page: &str) -> BTreeSet<String> {
    let titles = page.lines().filter(|line| line.starts_with('#'));
    let kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
    titles
        .map(|title| title.trim_start_matches('#').trim().to_lowercase())
        .map(|title| title.chars().filter(kept).collect::<String>().replace(' ', "-"))
        .collect()
}

#[test]
fn every_alert_has_a_runbook_and_a_test() {
    let (rules, tests) =
        (read("contrib/prometheus/alerts.yml"), read("contrib/prometheus/alerts.test.yml"));
    let alerts: Vec<_> = rules.split("- alert: ").skip(1).collect();
    assert!(alerts.len() > 12, "{} alerts", alerts.len());
    for alert in alerts {
        let (name, _) = alert.split_once('\n').unwrap();
        assert!(tests.contains(&format!("alertname: {name}\n")), "{name} has a test");
        let (_, runbook) = alert.split_once("runbook: ").expect(name);
        let pages: Vec<_> = runbook
            .lines()
            .next()
            .unwrap()
            .split([' ', '"'])
            .filter(|word| word.starts_with("docs/"))
            .map(|word| word.trim_end_matches(['.', ',']).split_once('#').expect(name))
            .collect();
        assert!(!pages.is_empty(), "{name} names a page");
        for (page, anchor) in pages {
            assert!(anchors(&read(page)).contains(anchor), "{name}: {page}#{anchor}");
        }
    }
}
