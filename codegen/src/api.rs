//! The public interface of the library, as text: `docs/api.txt`. Read from its source with `syn`, so
//! that it needs no nightly toolchain. Features are taken as enabled; derives and macros of other
//! crates are not expanded.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use quote::ToTokens;
use syn::{
    Attribute, Fields, FnArg, GenericParam, ImplItem, ImplItemFn, Item, ItemImpl, Macro, Signature,
    Token, TraitItem, Type, UseTree, Visibility, braced, parenthesized, parse::ParseStream,
};

/// A module or an item of the library, by its path below the root.
type Id = Vec<String>;

#[derive(Default)]
struct Module {
    is_public: bool,
    items: Vec<Item>,
    /// The name in this module, what it stands for, and whether it is exported.
    uses: Vec<(String, Id, bool)>,
}

struct Api {
    modules: BTreeMap<Id, Module>,
    /// The public path of each item that has one.
    public: BTreeMap<Id, String>,
    lines: BTreeSet<String>,
}

/// The crate that this one shows items of, as if it were a module.
const CORE: &str = "redlock_core";

/// Returns the listing for a crate whose root is `lib.rs` in `src`; `core` is the same for [`CORE`].
pub(crate) fn list(src: &Path, core: &Path, name: &str) -> String {
    let mut api = Api { modules: BTreeMap::new(), public: BTreeMap::new(), lines: BTreeSet::new() };
    api.read(&src.join("lib.rs"), src, Id::new(), true);
    api.read(&core.join("lib.rs"), core, vec![CORE.to_owned()], false);
    api.export(&Id::new(), name);
    api.items();
    api.impls();
    let mut text = String::new();
    for line in &api.lines {
        text.push_str(line);
        text.push('\n');
    }
    text
}

impl Api {
    fn read(&mut self, file: &Path, folder: &Path, id: Id, is_public: bool) {
        let text =
            fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let parsed =
            syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        self.add(parsed.items, folder, id, is_public);
    }

    fn add(&mut self, items: Vec<Item>, folder: &Path, id: Id, is_public: bool) {
        let mut module = Module { is_public, ..Module::default() };
        for item in items {
            match item {
                Item::Mod(item) if !is_test(&item.attrs) => {
                    let name = item.ident.to_string();
                    let child = [&id[..], std::slice::from_ref(&name)].concat();
                    let is_public = is_pub(&item.vis) && !has(&item.attrs, "doc", "hidden");
                    if let Some((_, items)) = item.content {
                        self.add(items, &folder.join(&name), child, is_public);
                    } else {
                        let (file, below) = find(folder, &name);
                        self.read(&file, &below, child, is_public);
                    }
                }
                Item::Use(item) => flatten(&item.tree, &mut Id::new(), &mut |name, path| {
                    module.uses.push((name, path, is_pub(&item.vis)));
                }),
                item => module.items.push(item),
            }
        }
        self.modules.insert(id, module);
    }

    /// What a path in a module stands for, if it is of this crate.
    fn resolve(&self, module: &[String], path: &[String], depth: usize) -> Option<Id> {
        let (mut at, mut rest) = (module.to_vec(), path);
        while let [first, more @ ..] = rest {
            match first.as_str() {
                "crate" => at.truncate(usize::from(at.first().is_some_and(|name| name == CORE))),
                CORE => at = vec![CORE.to_owned()],
                "self" => {}
                "super" => drop(at.pop()),
                _ => break,
            }
            rest = more;
        }
        let [first, more @ ..] = rest else { return Some(at) };
        // What others follow is a module, also where a function has the same name.
        let found = self.lookup(&at, first, if more.is_empty() { depth } else { depth.max(1) })?;
        if more.is_empty() { Some(found) } else { self.resolve(&found, more, depth) }
    }

    fn lookup(&self, at: &[String], name: &str, depth: usize) -> Option<Id> {
        let module = self.modules.get(at)?;
        let here = [at, &[name.to_owned()]].concat();
        let is_defined = module.items.iter().any(|item| item_name(item).as_deref() == Some(name));
        if is_defined || self.modules.contains_key(&here) && depth > 0 {
            return Some(here);
        }
        // A bound, as names may lead to themselves.
        let used = module.uses.iter().find(|(used, ..)| used == name);
        let found =
            used.filter(|_| depth < 8).and_then(|(_, path, _)| self.resolve(at, path, depth + 1));
        found.or_else(|| self.modules.contains_key(&here).then_some(here))
    }

    /// Notes the public paths of all that a module shows.
    fn export(&mut self, id: &Id, path: &str) {
        let mut found = Vec::new();
        let module = &self.modules[id];
        for item in &module.items {
            if let Some(name) = item_name(item).filter(|_| item_is_public(item)) {
                found.push(([&id[..], std::slice::from_ref(&name)].concat(), name));
            }
        }
        for (name, used, _) in module.uses.iter().filter(|(.., is_public)| *is_public) {
            if let Some(target) = self.resolve(id, used, 0) {
                found.push((target, name.clone()));
            }
        }
        let is_child = |child: &Id| child.len() == id.len() + 1 && child.starts_with(id);
        let shown =
            self.modules.iter().filter(|(child, module)| module.is_public && is_child(child));
        let children: Vec<Id> = shown.map(|(child, _)| child.clone()).collect();
        for child in children {
            let path = format!("{path}::{}", child[id.len()]);
            self.lines.insert(format!("mod {path}"));
            self.export(&child, &path);
        }
        for (target, name) in found {
            let path = format!("{path}::{name}");
            if let Some(other) = self.public.insert(target, path.clone()) {
                panic!("{other} is {path} as well: one path for each item");
            }
        }
    }

    fn items(&mut self) {
        let mut lines = Vec::new();
        for (id, path) in &self.public {
            let Some((name, module)) = id.split_last() else { continue };
            let items = self.modules.get(module).into_iter().flat_map(|module| &module.items);
            for item in items.filter(|item| item_name(item).as_deref() == Some(name)) {
                describe(item, path, &mut lines);
            }
        }
        self.lines.extend(lines);
    }

    fn impls(&mut self) {
        let mut lines = Vec::new();
        for (id, module) in &self.modules {
            for item in &module.items {
                if let Item::Impl(item) = item {
                    self.implementation(id, item, &mut lines);
                }
            }
        }
        self.lines.extend(lines);
    }

    fn implementation(&self, module: &[String], item: &ItemImpl, lines: &mut Vec<String>) {
        let Type::Path(of) = &*item.self_ty else { return };
        let Some(of) = self.resolve(module, &segments(&of.path), 0) else { return };
        let Some(path) = self.public.get(&of).filter(|_| !is_test(&item.attrs)) else { return };
        if let Some((_, name, _)) = &item.trait_ {
            // One of this crate counts if it is public itself.
            let own = self.resolve(module, &segments(name), 0);
            if own.is_none_or(|own| self.public.contains_key(&own)) {
                let (generics, _, bounds) = item.generics.split_for_impl();
                let (name, ty) = (text(name), text(&item.self_ty));
                let head = format!("impl {} {name} for {ty} {}", text(&generics), text(&bounds));
                lines.push(format!("{path}: {}", tidy(&head)));
            }
            return;
        }
        for inner in &item.items {
            match inner {
                ImplItem::Fn(f) if is_pub(&f.vis) && !is_hidden(&f.attrs) => {
                    lines.push(format!(
                        "{path}::{}: {}",
                        f.sig.ident,
                        signature(&f.sig, &item.generics)
                    ));
                }
                ImplItem::Const(c) if is_pub(&c.vis) => {
                    lines.push(format!("{path}::{}: const {}", c.ident, text(&c.ty)));
                }
                ImplItem::Macro(m) => {
                    for sig in
                        self.methods(&m.mac).unwrap_or_else(|error| panic!("{path}: {error}"))
                    {
                        let line = signature(&sig, &item.generics);
                        lines.push(format!("{path}::{}: {line}", sig.ident));
                    }
                }
                _ => {}
            }
        }
    }

    /// The methods that a macro of the library puts into an `impl`: those that it is given without bodies, or
    /// those of its only rule.
    fn methods(&self, called: &Macro) -> syn::Result<Vec<Signature>> {
        let mut methods = Vec::new();
        if !called.tokens.is_empty() {
            let read = |input: ParseStream<'_>| {
                while !input.is_empty() {
                    input.call(Attribute::parse_outer)?;
                    input.parse::<Visibility>()?;
                    methods.push(input.parse()?);
                    input.parse::<Token![;]>()?;
                }
                Ok(())
            };
            called.parse_body_with(read)?;
            return Ok(methods);
        }
        let mut items = self.modules.values().flat_map(|module| &module.items);
        let rules = items.find_map(|item| match item {
            Item::Macro(rules) => {
                let name = rules.ident.as_ref()?;
                called.path.is_ident(name).then_some(&rules.mac)
            }
            _ => None,
        });
        let read = |input: ParseStream<'_>| {
            let (pattern, body);
            parenthesized!(pattern in input);
            input.parse::<Token![=>]>()?;
            braced!(body in input);
            input.parse::<Option<Token![;]>>()?;
            while !body.is_empty() {
                methods.push(body.parse::<ImplItemFn>()?.sig);
            }
            if pattern.is_empty() { Ok(()) } else { Err(pattern.error("the macro has arguments")) }
        };
        rules.map(|rules| rules.parse_body_with(read)).transpose()?;
        Ok(methods)
    }
}

fn describe(item: &Item, path: &str, lines: &mut Vec<String>) {
    let mut push = |line: String| lines.push(tidy(&line));
    let open = |attrs: &[Attribute]| {
        if attrs.iter().any(|attr| attr.path().is_ident("non_exhaustive")) {
            "#[non_exhaustive] "
        } else {
            ""
        }
    };
    match item {
        Item::Struct(item) => {
            let generics = text(&item.generics);
            push(format!("{path}: {}struct {}{generics}", open(&item.attrs), item.ident));
            derives(&item.attrs, path, &mut push);
            fields(&item.fields, path, true, &mut push);
        }
        Item::Enum(item) => {
            push(format!(
                "{path}: {}enum {}{}",
                open(&item.attrs),
                item.ident,
                text(&item.generics)
            ));
            derives(&item.attrs, path, &mut push);
            for variant in &item.variants {
                push(format!("{path}::{}: {}variant", variant.ident, open(&variant.attrs)));
                fields(&variant.fields, &format!("{path}::{}", variant.ident), false, &mut push);
            }
        }
        Item::Trait(item) => {
            let (generics, bounds) = (text(&item.generics), text(&item.supertraits));
            push(format!("{path}: trait {}{generics}: {bounds}", item.ident));
            for inner in &item.items {
                match inner {
                    TraitItem::Fn(f) if !is_hidden(&f.attrs) => {
                        let kind = if f.default.is_some() { "provided " } else { "" };
                        push(format!("{path}::{}: {kind}{}", f.sig.ident, text(&f.sig)));
                    }
                    TraitItem::Type(ty) => push(format!("{path}::{}: {}", ty.ident, text(ty))),
                    TraitItem::Const(c) => push(format!("{path}::{}: {}", c.ident, text(c))),
                    _ => {}
                }
            }
        }
        Item::Fn(item) => push(format!("{path}: {}", text(&item.sig))),
        Item::Const(item) => push(format!("{path}: const {}", text(&item.ty))),
        Item::Type(item) => push(format!("{path}: type = {}", text(&item.ty))),
        _ => {}
    }
}

/// Derives of `serde` depend on a feature, and are in `cfg_attr`.
fn derives(attrs: &[Attribute], path: &str, push: &mut impl FnMut(String)) {
    for attr in attrs {
        let all = text(&attr.meta);
        let Some(start) = all.find("derive (").or_else(|| all.find("derive(")) else { continue };
        let list = all[start..].split(['(', ')']).nth(1).unwrap_or_default();
        for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            push(format!("{path}: impl {name} (derived)"));
        }
    }
}

fn fields(fields: &Fields, path: &str, needs_pub: bool, push: &mut impl FnMut(String)) {
    for (i, field) in fields.iter().enumerate() {
        if is_pub(&field.vis) || !needs_pub {
            let name = field.ident.as_ref().map_or_else(|| i.to_string(), ToString::to_string);
            push(format!("{path}.{name}: {}", text(&field.ty)));
        }
    }
}

/// A method, with the bounds of its `impl` where they are more than names.
fn signature(sig: &Signature, generics: &syn::Generics) -> String {
    let mut sig = sig.clone();
    for arg in &mut sig.inputs {
        // A parameter's mutability is not part of the interface.
        match arg {
            FnArg::Receiver(receiver) if receiver.reference.is_none() => receiver.mutability = None,
            FnArg::Typed(typed) => {
                if let syn::Pat::Ident(pat) = &mut *typed.pat {
                    pat.mutability = None;
                }
            }
            FnArg::Receiver(_) => {}
        }
    }
    let is_bound =
        |param: &GenericParam| matches!(param, GenericParam::Type(ty) if !ty.bounds.is_empty());
    let bounds = if generics.params.iter().any(is_bound) { text(&generics) } else { String::new() };
    tidy(&format!("{} {} {}", text(&sig), bounds, text(&generics.where_clause)))
}

fn text(tokens: &impl ToTokens) -> String {
    tidy(&tokens.to_token_stream().to_string())
}

/// Tokens as people write them.
fn tidy(text: &str) -> String {
    let mut text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for (from, to) in [
        (" :: ", "::"),
        (":: ", "::"),
        (" ::", "::"),
        (" <", "<"),
        ("< ", "<"),
        (" >", ">"),
        (" ,", ","),
        (" (", "("),
        ("( ", "("),
        (" )", ")"),
        ("& ", "&"),
        (" :", ":"),
        (" ;", ";"),
        ("[ ", "["),
        (" ]", "]"),
        ("' ", "'"),
        (",)", ")"),
        (", >", ">"),
        ("->", " -> "),
        ("- >", " -> "),
        ("=>", " => "),
        ("  ", " "),
        (" -> ", " -> "),
    ] {
        text = text.replace(from, to);
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ").trim_end_matches(':').trim().to_owned()
}

fn item_name(item: &Item) -> Option<String> {
    Some(match item {
        Item::Struct(item) => item.ident.to_string(),
        Item::Enum(item) => item.ident.to_string(),
        Item::Trait(item) => item.ident.to_string(),
        Item::Fn(item) => item.sig.ident.to_string(),
        Item::Const(item) => item.ident.to_string(),
        Item::Type(item) => item.ident.to_string(),
        _ => return None,
    })
}

fn item_is_public(item: &Item) -> bool {
    let (vis, attrs) = match item {
        Item::Struct(item) => (&item.vis, &item.attrs),
        Item::Enum(item) => (&item.vis, &item.attrs),
        Item::Trait(item) => (&item.vis, &item.attrs),
        Item::Fn(item) => (&item.vis, &item.attrs),
        Item::Const(item) => (&item.vis, &item.attrs),
        Item::Type(item) => (&item.vis, &item.attrs),
        _ => return false,
    };
    is_pub(vis) && !is_hidden(attrs)
}

fn is_pub(vis: &Visibility) -> bool {
    matches!(vis, Visibility::Public(_))
}

fn is_hidden(attrs: &[Attribute]) -> bool {
    has(attrs, "doc", "hidden")
}

fn is_test(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|attr| {
        let all = text(&attr.meta);
        attr.path().is_ident("cfg")
            && (all == "cfg(test)"
                || all.starts_with("cfg(all(test")
                || all.contains("(doctest")
                || all == "cfg(doctest)")
    })
}

fn has(attrs: &[Attribute], name: &str, within: &str) -> bool {
    attrs
        .iter()
        .any(|attr| attr.path().is_ident(name) && text(&attr.meta) == format!("{name}({within})"))
}

/// The file of a module, and the folder of its children.
fn find(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
    let (file, below) = (folder.join(format!("{name}.rs")), folder.join(name));
    if file.exists() { (file, below) } else { (below.join("mod.rs"), below) }
}

fn segments(path: &syn::Path) -> Id {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect()
}

fn flatten(tree: &UseTree, path: &mut Id, found: &mut impl FnMut(String, Id)) {
    match tree {
        UseTree::Path(tree) => {
            path.push(tree.ident.to_string());
            flatten(&tree.tree, path, found);
            path.pop();
        }
        UseTree::Name(tree) if tree.ident == "self" => {
            if let Some(name) = path.last() {
                found(name.clone(), path.clone());
            }
        }
        UseTree::Name(tree) => {
            found(tree.ident.to_string(), [&path[..], &[tree.ident.to_string()]].concat());
        }
        UseTree::Rename(tree) => {
            found(tree.rename.to_string(), [&path[..], &[tree.ident.to_string()]].concat());
        }
        UseTree::Group(tree) => tree.items.iter().for_each(|tree| flatten(tree, path, found)),
        UseTree::Glob(_) => {}
    }
}
