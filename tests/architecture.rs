//! The modules of the library depend on each other in one direction; files and tests follow the
//! conventions of the repository.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

#[path = "architecture/circles.rs"]
mod circles;
#[cfg(all(feature = "fencing", feature = "once"))]
#[path = "architecture/static_checks.rs"]
mod static_checks;

/// The modules of `redlock-core` from the bottom to the top. A module uses those of earlier rows only.
const CORE_LAYERS: [&[&str]; 8] = [
    &["hash", "server_text", "switches", "timestamp", "token"],
    &["stripe"],
    &["resource"],
    &["unfit"],
    &["schedule", "vote"],
    &["tick_policy", "protocol"],
    &["membership", "quorum"],
    &["lib"],
];

/// The same of the library. The first row has what comes from `redlock-core`.
const LAYERS: [&[&str]; 15] = [
    &["hash", "membership", "protocol", "quorum", "resource", "stripe", "sync", "token"],
    &["callback", "defaults", "log", "log_budget", "random", "schedule", "time"],
    &["request_log", "switches"],
    &["error"],
    &["events", "metrics"],
    &["node"],
    &["lock"],
    &["body", "config", "diagnosis", "guard"],
    &["blocking", "reject"],
    &["layer"],
    &["fencing", "key", "leader"],
    &["once", "scheduler"],
    &["testing"],
    &["fuzzing"],
    &["lib"],
];

fn layer(layers: &[&[&str]], module: &str) -> usize {
    let layer = layers.iter().position(|modules| modules.contains(&module));
    layer.unwrap_or_else(|| panic!("`{module}` has no place among the layers: add it to them"))
}

/// Every file below `src` but those of tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            sources(&path, found);
        } else if path.extension().is_some_and(|is| is == "rs") && name != "tests.rs" {
            found.push(path);
        }
    }
}

/// A text without comments and unit tests.
fn code(text: &str) -> String {
    let code = text.split("\nmod tests {").next().expect("a first part");
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// The paths that code names behind `root`, in a `use` with braces as well.
fn paths(code: &str, root: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (at, start) in code.match_indices(root) {
        expand(&code[at + start.len()..], "", &mut found);
    }
    found
}

/// Adds the paths of a tree; returns the text behind it.
fn expand<'a>(tree: &'a str, prefix: &str, found: &mut BTreeSet<String>) -> &'a str {
    if let Some(mut list) = tree.strip_prefix('{') {
        loop {
            list = list.trim_start_matches([',', ' ', '\n']);
            if list.is_empty() || list.starts_with('}') {
                return list.get(1..).unwrap_or_default();
            }
            list = expand(list, prefix, found);
        }
    }
    let name = identifier(tree);
    let rest = &tree[name.len()..];
    match rest.strip_prefix("::").filter(|rest| !rest.starts_with('<')) {
        _ if name.is_empty() => tree.get(1..).unwrap_or_default(),
        Some(rest) => expand(rest, &format!("{prefix}{name}::"), found),
        None => {
            found.insert(format!("{prefix}{name}"));
            let renamed = rest.strip_prefix(" as ");
            renamed.map_or(rest, |renamed| &renamed[identifier(renamed).len()..])
        }
    }
}

/// The modules that a text names behind `crate::`.
fn used(text: &str) -> BTreeSet<String> {
    let paths = paths(&code(text), "crate::");
    // Macros and types are in the crate's root.
    let modules = paths.iter().filter(|path| path.starts_with(|c: char| c.is_ascii_lowercase()));
    modules.map(|path| identifier(path)).collect()
}

fn identifier(text: &str) -> String {
    text.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect()
}

/// What depends upward below the folder `src`.
fn upward(src: &str, layers: &[&[&str]], least: usize) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(src);
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > least, "{} files", files.len());
    let mut upward = Vec::new();
    for file in files {
        let path = file.strip_prefix(&root).expect("below the root");
        let first = path.components().next().expect("a name").as_os_str().to_string_lossy();
        let module = first.trim_end_matches(".rs").to_owned();
        let text = fs::read_to_string(&file).expect("a text");
        for other in used(&text).into_iter().filter(|other| *other != module) {
            if layer(layers, &other) >= layer(layers, &module) {
                upward.push(format!("{}: crate::{other}", path.display()));
            }
        }
    }
    upward
}

#[test]
fn nothing_depends_upward() {
    assert_eq!(upward("src", &LAYERS, 250), Vec::<String>::new());
    assert_eq!(upward("crates/redlock-core/src", &CORE_LAYERS, 40), Vec::<String>::new());
}

/// Other modules use the manager's methods, not its fields: `src/lock/internal.rs`.
#[test]
fn only_the_lock_names_its_core() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut found = Vec::new();
    for file in files.iter().filter(|file| !file.starts_with(root.join("lock"))) {
        let text = fs::read_to_string(file).expect("a text");
        for (line, code) in (1..).zip(text.lines()) {
            let mut words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
            if words.any(|word| word == "Core") || code.contains("core()") {
                found.push(format!("{}:{line}", file.display()));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// What a text names of those primitives of which `src/sync` has its own.
fn foreign_primitives(text: &str) -> BTreeSet<String> {
    let code = code(text);
    let mut found = paths(&code, "std::");
    found.retain(|path| match path.split_once("::") {
        // `LazyLock` initializes statics; `mpsc` collects answers that are already there.
        Some(("sync", name)) => {
            !matches!(identifier(name).as_str(), "Arc" | "Weak" | "LazyLock" | "mpsc")
        }
        _ => path.starts_with("thread"),
    });
    found.extend(paths(&code, "tokio::").into_iter().filter(|path| path == "sync::Notify"));
    let is_own = |at: &usize| code[..*at].ends_with("sync::");
    let mut locals = code.match_indices("thread_local!").filter(|(at, _)| !is_own(at));
    found.extend(locals.next().map(|(_, name)| name.to_owned()));
    found
}

/// `verify/schedules` runs the threads of its tests in the orders that it chooses, at the operations of
/// the types of `src/sync`.
#[test]
fn only_sync_names_foreign_primitives() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut found = Vec::new();
    for file in files.iter().filter(|file| !file.starts_with(root.join("sync"))) {
        // Of the thread of the operating system, which all threads of a schedule share.
        if file.ends_with("src/switches.rs") {
            continue;
        }
        let text = fs::read_to_string(file).expect("a text");
        found.extend(
            foreign_primitives(&text).iter().map(|name| format!("{}: {name}", file.display())),
        );
    }
    assert!(found.is_empty(), "take these from `crate::sync`: {found:#?}");
}

#[test]
fn foreign_primitives_are_found() {
    let text = "//! std::sync::Mutex\nuse std::{\n    fmt,\n    sync::{Arc, Once, atomic::AtomicU64},\n\
                    thread,\n};\nuse std::sync::Arc;\nuse tokio::sync::{Notify, watch};\n\
                fn f() { std::sync::Condvar::new(); crate::sync::RwLock; }\n\
                crate::sync::thread_local! {}\nthread_local! {}\nmod tests {\nuse std::sync::Barrier;\n}";
    let names = [
        "sync::Condvar::new",
        "sync::Notify",
        "sync::Once",
        "sync::atomic::AtomicU64",
        "thread",
        "thread_local!",
    ];
    assert_eq!(foreign_primitives(text).into_iter().collect::<Vec<_>>(), names);
}

#[test]
fn names_behind_crate_are_found() {
    let text = "//! crate::no\nuse crate::{\n    a::{b, c},\n    d,\n};\nuse crate::e;\n\
                fn f() { crate::g::h(crate::Type) }\n#[cfg(test)]\nmod tests { use crate::no; }";
    assert_eq!(used(text).into_iter().collect::<Vec<_>>(), ["a", "d", "e", "g"]);
}

/// The Rust files below `folder`.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| {
            let is_rust = path.extension().is_some_and(|extension| extension == "rs");
            if path.is_dir() { rust_files(&path) } else { Vec::from_iter(is_rust.then_some(path)) }
        })
        .collect()
}

#[test]
fn every_file_says_its_purpose() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files: Vec<_> = ["src", "tests", "examples", "cli", "crates", "dashboard"]
        .iter()
        .flat_map(|folder| rust_files(&root.join(folder)))
        // Generated from a .proto.
        .filter(|file| !file.ends_with("proto/orders.v1.rs"))
        .collect();
    assert!(files.len() > 300, "{} files were found", files.len());
    let silent: Vec<_> =
        files.iter().filter(|file| !fs::read_to_string(file).unwrap().starts_with("//!")).collect();
    assert!(silent.is_empty(), "these do not begin with a `//!` line: {silent:#?}");
}

#[test]
fn folders_are_three_deep_at_most() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let deep: Vec<_> = rust_files(&src)
        .into_iter()
        .filter(|file| file.strip_prefix(&src).unwrap().components().count() > 4)
        .collect();
    assert!(deep.is_empty(), "{deep:#?}");
}

/// Maximum number of words in a test's name. The module gives the context.
const MAX_WORDS: usize = 10;

/// The name of the function that a line defines.
fn function(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("fn ")?;
    let is_definition = before.split_whitespace().all(|word| {
        matches!(word, "pub" | "pub(crate)" | "pub(super)" | "async" | "const" | "unsafe")
    });
    let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    (is_definition && !name.is_empty()).then_some(name)
}

/// The names of tests in a text: of functions behind a test attribute, and of the cases that a
/// macro of the same text, or one of `macros`, makes tests of.
fn test_names<'a>(text: &'a str, macros: &BTreeSet<String>) -> Vec<&'a str> {
    let mut names = Vec::new();
    let (mut is_test, mut in_cases) = (false, false);
    for line in text.lines() {
        let code = line.trim();
        if in_cases {
            in_cases = !line.starts_with('}');
            let name = code.split(':').next().expect("a first part");
            if !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_') {
                names.push(name);
            }
        } else if code.starts_with("#[test]") || code.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some(name) = function(code) {
            names.extend(is_test.then_some(name));
            is_test = false;
        } else if let Some((name, "")) = line.split_once("! {") {
            in_cases = macros.contains(name);
        }
    }
    names
}

/// The macros of a text whose expansion has a test attribute.
fn test_macros(text: &str) -> impl Iterator<Item = String> {
    text.split("macro_rules! ").skip(1).filter_map(|rest| {
        let body = rest.split("\n}").next().expect("a first part");
        let makes_tests = body.contains("#[test]") || body.contains("#[tokio::test");
        makes_tests.then(|| identifier(rest))
    })
}

#[test]
fn test_names_have_at_most_ten_words() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["src", "tests", "examples", "benches", "cli", "crates", "dashboard", "verify"];
    let files: Vec<_> = folders.iter().flat_map(|folder| rust_files(&root.join(folder))).collect();
    let texts: Vec<_> =
        files.iter().map(|file| (file, fs::read_to_string(file).unwrap())).collect();
    let macros = texts.iter().flat_map(|(_, text)| test_macros(text)).collect();
    let mut checked = 0;
    let mut long = Vec::new();
    for (file, text) in &texts {
        for name in test_names(text, &macros) {
            checked += 1;
            if name.split('_').count() > MAX_WORDS {
                long.push(format!("{}: {name}", file.strip_prefix(root).unwrap().display()));
            }
        }
    }
    assert!(checked > 2_000, "{checked} tests were found");
    assert!(
        long.is_empty(),
        "a test's name has at most {MAX_WORDS} words; put the context into its module: {long:#?}"
    );
}

#[test]
fn names_of_tests_are_found() {
    let text = "macro_rules! twice {\n    ($($case:ident)*) => {\n        $(#[tokio::test]\n\
                async fn $case() {})*\n    };\n}\ntwice! {\n    a_case\n    another\n}\n\
                proptest! {\n    #[test]\n    fn b(x in 0..3) {}\n}\nfn no() {}\n\
                #[tokio::test(start_paused = true)]\n#[ignore]\nasync fn c() {}\n\
                // fn no() {}\nmacro_rules! none {\n    () => {};\n}\nnone! {\n    no\n}\n";
    let macros: BTreeSet<_> = test_macros(text).collect();
    assert_eq!(macros.iter().collect::<Vec<_>>(), ["twice"]);
    assert_eq!(test_names(text, &macros), ["a_case", "another", "b", "c"]);
}

/// The types that a text defines outside its unit tests, with the projections of `pin_project`.
fn defined(text: &str) -> Vec<String> {
    let code = text.split("\nmod tests {").next().expect("a first part");
    let mut names = Vec::new();
    for line in code.lines() {
        if let Some((_, projection)) = line.split_once("#[pin_project(project = ") {
            names.push(identifier(projection));
        }
        let is_nested = line.starts_with(' ');
        let item = line.trim_start();
        let item = match item.strip_prefix("pub") {
            Some(rest) if rest.starts_with('(') => {
                rest.split_once(") ").map_or("", |(_, item)| item)
            }
            Some(rest) => rest.trim_start(),
            None => item,
        };
        let name = match item.split_once(' ') {
            Some(("struct" | "enum" | "trait" | "union", name)) => identifier(name),
            // Nested ones are associated types.
            Some(("type", name)) if !is_nested => identifier(name),
            _ => continue,
        };
        names.push(name);
    }
    // Macros have a variable there.
    names.retain(|name| !name.is_empty());
    names
}

#[test]
fn type_names_are_unique() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut types: BTreeMap<String, BTreeSet<PathBuf>> = BTreeMap::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("a text");
        for name in defined(&text) {
            types.entry(name).or_default().insert(file.clone());
        }
    }
    assert!(types.len() > 400, "{} types", types.len());
    // Alternatives by features are in one file.
    types.retain(|_, files| files.len() > 1);
    assert!(types.is_empty(), "these names have several types: {types:#?}");
}

#[test]
fn defined_types_are_found() {
    let text = "pub struct A(u8);\npub(in crate::b) enum C<T> {}\n#[pin_project(project = D)]\n\
                impl E {\n    type F = u8;\n}\ntype G = u8;\nstruct $H;\nmod tests {\nstruct I;\n}";
    assert_eq!(defined(text), ["A", "C", "D", "G"]);
}
