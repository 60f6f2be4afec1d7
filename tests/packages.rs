//! The packages that are published: what their manifests say, and what they contain from others.

use std::{
    fs,
    path::{Path, PathBuf},
};

use toml::{Table, Value};

/// Folders of the published packages, below the root of the repository.
const PUBLISHED: [&str; 4] = ["", "crates/redlock-core", "dashboard", "cli"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn manifest(folder: &str) -> Table {
    read(Path::new(folder).join("Cargo.toml")).parse().unwrap()
}

/// The strings of a list in the table `[package]`.
fn list<'a>(package: &'a Value, field: &str) -> Vec<&'a str> {
    let list = package.get(field).and_then(Value::as_array).unwrap_or_else(|| panic!("no {field}"));
    list.iter().map(|item| item.as_str().unwrap()).collect()
}

/// Most of the file of a program that is installed would be debug information.
#[test]
fn released_programs_have_no_debug_information() {
    let release = &manifest("")["profile"]["release"];
    assert!(release.get("debug").is_none(), "{release:?}");
    assert_eq!(release["strip"].as_str(), Some("debuginfo"));
}

#[test]
fn published_manifests_are_complete() {
    let this = manifest("");
    for folder in PUBLISHED {
        let manifest = manifest(folder);
        let package = &manifest["package"];
        for field in ["description", "readme"] {
            assert!(
                package[field].as_str().is_some_and(|text| !text.is_empty()),
                "{folder}: {field}"
            );
        }
        for shared in ["version", "edition", "rust-version", "license", "repository"] {
            assert_eq!(package[shared], this["package"][shared], "{folder}: {shared}");
        }
        // The registry's limits.
        let keywords = list(package, "keywords");
        assert!((1..=5).contains(&keywords.len()), "{folder}: {keywords:?}");
        assert!(keywords.iter().all(|keyword| keyword.len() <= 20), "{folder}: {keywords:?}");
        assert!((1..=5).contains(&list(package, "categories").len()), "{folder}: categories");
        let included = list(package, "include");
        for file in ["/LICENSE", "/README.md"] {
            assert!(included.contains(&file), "{folder} does not include {file}");
        }
        assert_eq!(read(Path::new(folder).join("LICENSE")), read("LICENSE"), "{folder}");
    }
}

#[test]
fn other_members_are_not_published() {
    let workspace = manifest("");
    let members = workspace["workspace"]["members"].as_array().unwrap();
    let excluded = workspace["workspace"]["exclude"].as_array().unwrap();
    let folders = members.iter().chain(excluded).map(|folder| folder.as_str().unwrap());
    for folder in folders.filter(|folder| !PUBLISHED.contains(folder)) {
        let publish = manifest(folder)["package"].get("publish").cloned();
        assert_eq!(publish, Some(Value::Boolean(false)), "{folder}");
    }
}

#[test]
fn publish_script_names_the_packages() {
    let script = read("scripts/publish");
    let crates = script.lines().find_map(|line| line.strip_prefix("crates=")).unwrap();
    let mut listed: Vec<_> = crates.trim_matches('"').split(' ').collect();
    let names =
        PUBLISHED.map(|folder| manifest(folder)["package"]["name"].as_str().unwrap().to_owned());
    let mut names: Vec<_> = names.iter().map(String::as_str).collect();
    listed.sort_unstable();
    names.sort_unstable();
    assert_eq!(listed, names);
}

/// Every file in a folder that is not Rust code.
fn embedded(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            embedded(&path, found);
        } else if path.extension().is_none_or(|extension| extension != "rs") {
            found.push(path);
        }
    }
}

#[test]
fn embedded_files_have_a_known_origin() {
    let page = read("THIRD-PARTY.md");
    let mut files = Vec::new();
    for folder in PUBLISHED {
        embedded(&root().join(folder).join("src"), &mut files);
    }
    assert!(files.len() > 20, "{files:?}");
    for file in files {
        let file = file.strip_prefix(root()).unwrap();
        let folder = file.parent().unwrap().display();
        let extension = file.extension().unwrap_or_default().display();
        let names = [format!("`{}`", file.display()), format!("`{folder}/*.{extension}`")];
        assert!(names.iter().any(|name| page.contains(name)), "{} is not listed", file.display());
    }
}

#[test]
fn embedded_data_of_dependencies_is_listed() {
    // Of the browser's driver, in tests alone.
    const TESTS_ONLY: [&str; 1] = ["icu_segmenter_data"];
    let page = read("THIRD-PARTY.md");
    let lock: Table = read("Cargo.lock").parse().unwrap();
    let names =
        lock["package"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap());
    let has_data = |name: &&str| {
        ["tzdb", "_data", "webpki-roots", "unicode-width"].iter().any(|part| name.contains(part))
    };
    let with_data: Vec<_> =
        names.filter(has_data).filter(|name| !TESTS_ONLY.contains(name)).collect();
    assert!(with_data.len() >= 4, "{with_data:?}");
    for name in with_data {
        assert!(page.contains(&format!("`{name}`")), "{name} is not listed");
    }
}
