//! What people need who use a screen reader or the keyboard.

use super::{
    Note,
    tree::{Element, Tree},
};

pub(super) fn check(tree: &Tree, note: Note<'_>) {
    for (at, element) in tree.elements.iter().enumerate() {
        let name = element.name.as_str();
        let fault = match name {
            "input" | "select" | "textarea" => is_unlabelled(tree, at),
            "th" => {
                (!matches!(element.get("scope"), Some("row" | "col" | "rowgroup" | "colgroup")))
                    .then(|| "has no scope".into())
            }
            "table" => table(tree, at),
            "img" => element.get("alt").is_none().then(|| "has no alt".into()),
            "svg" => drawing(tree, at),
            "a" => link(tree, at),
            "button" => button(tree, at),
            "form" => (!matches!(element.get("method"), Some("get" | "post")))
                .then(|| "does not say its method".into()),
            "label" => (element.get("for").is_none()
                && !holds(tree, at, &["input", "select", "textarea"]))
            .then(|| "labels nothing".into()),
            "fieldset" => {
                let first =
                    element.children.first().map(|child| tree.elements[*child].name.as_str());
                (first != Some("legend")).then(|| "does not begin with a legend".into())
            }
            "time" => (element.said("datetime").is_none()).then(|| "has no datetime".into()),
            _ => None,
        };
        if let Some(fault) = fault {
            note(element.line, format!("<{name}> {fault}: {}", shown(element)));
        }
        if element.get("tabindex").and_then(|index| index.parse::<i32>().ok()) > Some(0) {
            note(element.line, format!("<{name}> comes out of order by its tabindex"));
        }
        if element.get("aria-hidden") == Some("true")
            && holds(tree, at, &["a", "button", "input", "select"])
        {
            note(element.line, format!("<{name}> hides what can have the focus"));
        }
    }
}

fn shown(element: &Element) -> String {
    let attributes = element.attributes.iter().map(|(name, value)| format!("{name}={value:?}"));
    attributes.collect::<Vec<_>>().join(" ")
}

/// Whether an element inside has one of these names.
fn holds(tree: &Tree, at: usize, names: &[&str]) -> bool {
    let children = &tree.elements[at].children;
    children.iter().any(|child| {
        names.contains(&tree.elements[*child].name.as_str()) || holds(tree, *child, names)
    })
}

/// The name that its ARIA attributes give an element.
fn given_name(tree: &Tree, element: &Element) -> bool {
    let is_text = |id: &str| tree.by_id(id).is_some();
    element.said("aria-label").is_some()
        || element.said("aria-labelledby").is_some_and(|ids| ids.split_whitespace().all(is_text))
}

fn is_unlabelled(tree: &Tree, at: usize) -> Option<String> {
    let element = &tree.elements[at];
    if matches!(element.get("type"), Some("hidden" | "submit" | "button" | "reset")) {
        return None;
    }
    let is_labelled = element
        .get("id")
        .is_some_and(|id| tree.all(&["label"]).any(|(_, label)| label.get("for") == Some(id)));
    let is_named = given_name(tree, element) || is_labelled || tree.is_inside(at, &["label"]);
    (!is_named).then(|| "has no label".into())
}

fn table(tree: &Tree, at: usize) -> Option<String> {
    let element = &tree.elements[at];
    let first = element.children.first().map(|child| tree.elements[*child].name.as_str());
    let region = tree.ancestor(at, &["div", "section"]).map(|at| &tree.elements[at]);
    let is_in_region = region
        .is_some_and(|region| region.get("role") == Some("region") && given_name(tree, region));
    if first != Some("caption") && !given_name(tree, element) && !is_in_region {
        return Some("has neither a caption nor a name".into());
    }
    (!holds(tree, at, &["th"])).then(|| "has no header cell".into())
}

/// A drawing is hidden from screen readers, or says what it shows.
fn drawing(tree: &Tree, at: usize) -> Option<String> {
    let element = &tree.elements[at];
    let has_title = element.children.iter().any(|child| tree.elements[*child].name == "title");
    let says = element.get("role") == Some("img") && (given_name(tree, element) || has_title);
    let is_hidden = element.get("aria-hidden") == Some("true");
    (!says && !is_hidden).then(|| "is neither hidden nor an image with a name".into())
}

fn link(tree: &Tree, at: usize) -> Option<String> {
    let element = &tree.elements[at];
    if element.said("href").is_none() {
        return Some("leads nowhere".into());
    }
    interactive(tree, at)
}

fn button(tree: &Tree, at: usize) -> Option<String> {
    let element = &tree.elements[at];
    if !matches!(element.get("type"), Some("submit" | "button" | "reset")) {
        return Some("does not say its type".into());
    }
    interactive(tree, at)
}

fn interactive(tree: &Tree, at: usize) -> Option<String> {
    let element = &tree.elements[at];
    if tree.is_inside(at, &["a", "button", "label", "summary"]) {
        return Some("is inside another that can be used".into());
    }
    let is_named = !tree.text(at).is_empty() || given_name(tree, element);
    (!is_named).then(|| "has no name".into())
}
