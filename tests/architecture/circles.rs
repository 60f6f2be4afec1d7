//! No two files depend on each other, directly or through others.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use super::{code, expand, sources};

/// A module by the names on its path; empty for the root of a crate.
type ModulePath = Vec<String>;

/// The modules of a crate, a file each, with their code and what they export under other names.
struct Modules {
    code: BTreeMap<ModulePath, String>,
    exports: BTreeMap<ModulePath, BTreeMap<String, ModulePath>>,
}

impl Modules {
    fn read(root: &Path) -> Self {
        let mut files = Vec::new();
        sources(root, &mut files);
        let mut modules = Self { code: BTreeMap::new(), exports: BTreeMap::new() };
        for file in files {
            let path = file.strip_prefix(root).expect("below the root").with_extension("");
            let mut module: ModulePath =
                path.iter().map(|name| name.to_string_lossy().into_owned()).collect();
            module.pop_if(|name| matches!(name.as_str(), "lib" | "main" | "mod"));
            let text = code(&fs::read_to_string(&file).expect("a text"));
            let (rest, exports) = split_exports(&module, &text);
            modules.code.insert(module.clone(), rest);
            modules.exports.insert(module, exports);
        }
        modules
    }

    /// Returns the module that defines what a path names, if it is of this crate.
    fn resolve(&self, path: &[String], depth: usize) -> Option<ModulePath> {
        if depth > 8 {
            return None;
        }
        let lengths = (0..=path.len()).rev();
        let module =
            lengths.map(|length| &path[..length]).find(|part| self.code.contains_key(*part))?;
        let rest = &path[module.len()..];
        let exported = rest.first().and_then(|name| self.exports[module].get(name));
        let followed = exported
            .and_then(|target| self.resolve(&[target.as_slice(), &rest[1..]].concat(), depth + 1));
        followed.or_else(|| (!module.is_empty()).then(|| module.to_vec()))
    }

    fn uses(&self, module: &ModulePath) -> BTreeSet<ModulePath> {
        let paths = relative_paths(module, &self.code[module]);
        let mut used: BTreeSet<_> = paths.iter().filter_map(|path| self.resolve(path, 0)).collect();
        used.remove(module);
        used
    }

    /// Returns the sets of modules that all depend on each other. A module that exports what another one
    /// defines does not depend on it.
    fn circles(&self) -> BTreeSet<Vec<String>> {
        let uses: BTreeMap<_, _> =
            self.code.keys().map(|module| (module, self.uses(module))).collect();
        let reach = |start: &ModulePath| {
            let (mut reached, mut next) = (BTreeSet::new(), vec![start.clone()]);
            while let Some(module) = next.pop() {
                for used in &uses[&module] {
                    if reached.insert(used.clone()) {
                        next.push(used.clone());
                    }
                }
            }
            reached
        };
        let reached: BTreeMap<_, _> =
            self.code.keys().map(|module| (module, reach(module))).collect();
        let circle = |(module, all): (&&ModulePath, &BTreeSet<ModulePath>)| {
            let back = all.iter().filter(|other| reached[other].contains(*module));
            back.map(|other| other.join("::")).collect::<Vec<_>>()
        };
        reached.iter().map(circle).filter(|circle| circle.len() > 1).collect()
    }
}

/// Returns the code without its `pub use`, and what these export.
fn split_exports(module: &[String], code: &str) -> (String, BTreeMap<String, ModulePath>) {
    let (mut rest, mut exports) = (String::new(), BTreeMap::new());
    let mut left = code;
    while let Some(at) = left.find("pub") {
        let (before, export) = left.split_at(at);
        rest.push_str(before);
        let end = export.find(';').map_or(export.len(), |end| end + 1);
        let visible = &export[3..end];
        let visible = match visible.strip_prefix('(') {
            Some(scope) => scope.split_once(')').map_or("", |(_, rest)| rest),
            None => visible,
        };
        let Some(tree) = visible.strip_prefix(" use ") else {
            rest.push_str("pub");
            left = &export[3..];
            continue;
        };
        let mut paths = BTreeSet::new();
        expand(tree, "", &mut paths);
        for path in paths {
            let names: Vec<&str> = path.split("::").collect();
            let name = (*names.last().expect("a name")).to_owned();
            let target = absolute(module, &names).unwrap_or_else(|| {
                let own = names.iter().map(|name| (*name).to_owned());
                module.iter().cloned().chain(own).collect()
            });
            exports.insert(name, target);
        }
        left = &export[end..];
    }
    rest.push_str(left);
    (rest, exports)
}

/// Returns the path from the root of the crate, for one that begins with `crate`, `self` or `super`.
fn absolute(module: &[String], names: &[&str]) -> Option<ModulePath> {
    let (mut at, mut rest) = match names {
        ["crate", rest @ ..] => (Vec::new(), rest),
        ["self" | "super", ..] => (module.to_vec(), names),
        _ => return None,
    };
    while let ["self" | "super", more @ ..] = rest {
        if rest[0] == "super" {
            at.pop();
        }
        rest = more;
    }
    at.extend(rest.iter().map(|name| (*name).to_owned()));
    Some(at)
}

/// The paths that code names from the root of the crate, or relative to its module.
fn relative_paths(module: &[String], code: &str) -> BTreeSet<ModulePath> {
    let mut found = BTreeSet::new();
    for root in ["crate::", "self::", "super::"] {
        for (at, _) in code.match_indices(root) {
            let is_inside = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
            if code[..at].ends_with(is_inside) {
                continue;
            }
            let mut paths = BTreeSet::new();
            expand(&code[at..], "", &mut paths);
            for path in paths {
                let names: Vec<&str> = path.split("::").collect();
                found.extend(absolute(module, &names));
            }
        }
    }
    found
}

/// The only circle: a line knows the lease at its head, whose state has the turn on the line, and the
/// turn gives a grant of the lease to the next waiter in the line.
const LINE_AND_LEASE: [&str; 3] =
    ["lock::lease::active", "lock::lease::local", "lock::queue::line"];

#[test]
fn no_files_depend_on_each_other_in_a_circle() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut circles = BTreeSet::new();
    for src in ["src", "crates/redlock-core/src", "cli/src", "dashboard/src", "benches/src"] {
        let modules = Modules::read(&root.join(src));
        assert!(modules.code.len() > 5, "{src}: {} files", modules.code.len());
        circles.extend(modules.circles().into_iter().map(|circle| (src, circle)));
    }
    let allowed = ("src", LINE_AND_LEASE.map(str::to_owned).to_vec());
    assert_eq!(circles, BTreeSet::from([allowed]), "turn one of the edges around");
}

#[test]
fn circles_are_found() {
    let module = |path: &str| -> ModulePath {
        path.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect()
    };
    let files = [
        ("", "pub use a::Root;"),
        ("a", "pub(crate) use b::{C, D as E};"),
        ("a::b", "use super::super::d::F;\nuse super::I;"),
        ("d", "use crate::{\n    e::G,\n};"),
        ("e", "fn f() { crate::g::h() }"),
        ("g", "use crate::a::C;\nuse crate::Root;"),
        ("h", "use crate::g::h;\nuse crate::h::J;"),
        ("k", "use super::l::M;"),
        ("l", "fn n() { crate::k::o() }"),
    ];
    let mut modules = Modules { code: BTreeMap::new(), exports: BTreeMap::new() };
    for (name, text) in files {
        let (rest, exports) = split_exports(&module(name), text);
        modules.code.insert(module(name), rest);
        modules.exports.insert(module(name), exports);
    }
    let long = ["a::b", "d", "e", "g"].map(str::to_owned).to_vec();
    let short = ["k", "l"].map(str::to_owned).to_vec();
    assert_eq!(modules.circles(), BTreeSet::from([long, short.clone()]));
    modules.code.insert(module("e"), String::new());
    assert_eq!(modules.circles(), BTreeSet::from([short]));
    modules.code.insert(module("l"), String::new());
    assert_eq!(modules.circles(), BTreeSet::new());
}
