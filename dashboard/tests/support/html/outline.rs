//! The document as a whole: its language and title, landmarks, headings, and ids.

use std::collections::BTreeSet;

use super::{Note, tree::Tree};

pub(super) fn check(tree: &Tree, note: Note<'_>) {
    let mut has = |names: &[&str], what: &str, is: &dyn Fn(&super::tree::Element) -> bool| {
        if !tree.all(names).any(|(_, element)| is(element)) {
            note(1, format!("the page has no {what}"));
        }
    };
    has(&["html"], "lang", &|html| html.said("lang").is_some());
    let title = tree.all(&["title"]).find(|(at, _)| tree.is_inside(*at, &["head"]));
    has(&["head"], "title", &|_| title.is_some_and(|(_, title)| !title.text.trim().is_empty()));
    has(&["meta"], "charset", &|meta| meta.get("charset").is_some_and(is_utf8));
    has(&["meta"], "viewport", &|meta| {
        meta.get("name") == Some("viewport")
            && meta.get("content").is_some_and(|content| content.contains("width=device-width"))
    });
    has(&["header"], "header", &|_| true);
    for name in ["main", "h1"] {
        let count = tree.all(&[name]).count();
        if count != 1 {
            note(1, format!("{count} <{name}> in a page"));
        }
    }
    for (at, element) in tree.all(&["main", "nav"]) {
        if element.name == "main"
            && tree.is_inside(at, &["article", "aside", "header", "footer", "nav"])
        {
            note(element.line, "<main> is not at the top".into());
        }
    }
    let nameless = tree.all(&["nav"]).filter(|(_, nav)| !is_named(nav));
    if tree.all(&["nav"]).count() > 1
        && let Some((_, nav)) = { nameless }.next()
    {
        note(nav.line, "one of several <nav> has no name".into());
    }
    headings(tree, note);
    ids(tree, note);
}

fn is_utf8(charset: &str) -> bool {
    charset.eq_ignore_ascii_case("utf-8")
}

fn is_named(element: &super::tree::Element) -> bool {
    element.said("aria-label").or_else(|| element.said("aria-labelledby")).is_some()
}

fn headings(tree: &Tree, note: Note<'_>) {
    let mut last = 0;
    for (at, heading) in tree.all(&["h1", "h2", "h3", "h4", "h5", "h6"]) {
        let level = u32::from(heading.name.as_bytes()[1] - b'0');
        if level > last + 1 {
            note(heading.line, format!("<{}> follows a heading of level {last}", heading.name));
        }
        if tree.text(at).is_empty() {
            note(heading.line, format!("<{}> is empty", heading.name));
        }
        last = level;
    }
}

/// Attributes whose words are ids of other elements.
const REFERENCES: [&str; 7] =
    ["for", "aria-labelledby", "aria-describedby", "aria-controls", "headers", "form", "list"];

fn ids(tree: &Tree, note: Note<'_>) {
    let mut known = BTreeSet::new();
    for element in &tree.elements {
        if let Some(id) = element.get("id")
            && !known.insert(id)
        {
            note(element.line, format!("the id {id:?} is there twice"));
        }
    }
    for element in &tree.elements {
        for (name, value) in &element.attributes {
            let ids = if REFERENCES.contains(&name.as_str()) {
                value.split_whitespace().collect()
            } else if name == "href" && value.len() > 1 {
                Vec::from_iter(value.strip_prefix('#'))
            } else {
                Vec::new()
            };
            for id in ids.into_iter().filter(|id| !known.contains(id)) {
                note(element.line, format!("{name} names an id that is not there: {id:?}"));
            }
        }
    }
}
