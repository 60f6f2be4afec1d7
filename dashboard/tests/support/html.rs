//! A check of a page's markup: the parse errors of html5ever, and the rules that neither a parser nor axe-core knows.
//!
//! [`faults`] lists what is wrong. Whether a page can be used with a screen reader or the keyboard is checked in the
//! browser, by axe-core.

use std::collections::{BTreeMap, BTreeSet};

use html5ever::{
    ParseOpts, parse_document, tendril::TendrilSink, tokenizer::TokenizerOpts,
    tree_builder::TreeBuilderOpts,
};
use markup5ever_rcdom::{Handle, NodeData, RcDom};

/// Elements that pages may use. Add what is needed, unless it is obsolete.
const ELEMENTS: &str = "a abbr b bdi body br button caption code dd details div dl dt em fieldset \
    figcaption figure footer form h1 h2 h3 h4 head header hr html i img input kbd label legend li link main meta nav \
    noscript ol option p pre script section select small span strong summary table tbody td textarea tfoot th thead \
    time title tr ul";
/// Elements inside an `svg`, whose attributes are not checked.
const DRAWING: &str = "circle desc g line path polygon polyline rect svg text title tspan";
/// Attributes that any element may have, besides `data-…` and `aria-…`.
const GLOBAL: &str = "class hidden id lang role tabindex title";
/// Attributes of certain elements.
const ATTRIBUTES: [(&str, &str); 16] = [
    ("a", "href rel"),
    ("button", "disabled name type value"),
    ("details", "open"),
    ("form", "action autocomplete method"),
    ("img", "alt height src width"),
    (
        "input",
        "autocomplete checked disabled inputmode max maxlength min name pattern placeholder required size step type \
         value",
    ),
    ("label", "for"),
    ("link", "href rel type"),
    ("meta", "charset content http-equiv name"),
    ("option", "disabled selected value"),
    ("script", "defer src"),
    ("select", "name"),
    ("td", "colspan rowspan"),
    ("textarea", "cols maxlength name rows"),
    ("th", "colspan rowspan scope"),
    ("time", "datetime"),
];
/// Attributes that elements must have, with their values; without values, any text.
const REQUIRED: [(&str, &str, &str); 7] = [
    ("a", "href", ""),
    ("button", "type", "submit button reset"),
    ("form", "method", "get post"),
    ("html", "lang", ""),
    ("script", "src", ""),
    ("th", "scope", "row col rowgroup colgroup"),
    ("time", "datetime", ""),
];
/// Elements of which each page has exactly one.
const SINGLE: &str = "body h1 head html main";
/// Elements that contain no block.
const PHRASES: &str =
    "b bdi button code em h1 h2 h3 h4 i kbd label legend p pre small span strong summary time";
const BLOCKS: &str =
    "div dl fieldset figure footer form h1 h2 h3 h4 header hr main nav ol p pre section table ul";
/// Elements that the content security policy forbids, or that change what addresses mean.
const FORBIDDEN: &str = "base embed iframe object style";
/// Attributes whose words are ids of other elements.
const REFERENCES: &str = "aria-controls aria-describedby aria-labelledby for form headers list";
const ADDRESSES: &str = "action data formaction href poster src xlink:href";

/// Returns what is wrong with a page, in no particular order. Empty for a page as it should be.
pub(crate) fn faults(page: &str) -> Vec<String> {
    let pages = [true, false].map(|runs_scripts| parse(page, runs_scripts));
    let errors = pages.iter().flat_map(|page| page.errors.borrow().clone());
    let errors: BTreeSet<_> = errors.map(|error| format!("parse error: {error}")).collect();
    let mut tree = Tree { elements: Vec::new(), faults: Vec::from_iter(errors) };
    // Without scripts, the content of a `noscript` is elements.
    tree.add(&pages[1].document, None);
    tree.check_document();
    tree.check_ids();
    for at in 0..tree.elements.len() {
        let mut faults = tree.check_words(at);
        faults.extend(tree.check_structure(at).map(Into::into));
        faults.extend(tree.check_safety(at));
        let tag = tree.start_tag(at);
        tree.faults.extend(faults.iter().map(|fault| format!("{tag}: {fault}")));
    }
    tree.faults
}

/// Panics if anything is wrong with the page.
#[track_caller]
pub(crate) fn assert_strict(url: &str, page: &str) {
    let faults = faults(page);
    assert!(faults.is_empty(), "{url}: {faults:#?}\n{page}");
}

/// Parses a page as a browser does that runs scripts, or as one that does not.
fn parse(page: &str, scripting_enabled: bool) -> RcDom {
    let tree_builder =
        TreeBuilderOpts { exact_errors: true, scripting_enabled, ..TreeBuilderOpts::default() };
    let tokenizer = TokenizerOpts { exact_errors: true, ..TokenizerOpts::default() };
    parse_document(RcDom::default(), ParseOpts { tokenizer, tree_builder }).one(page)
}

fn has(words: &str, word: &str) -> bool {
    words.split_whitespace().any(|known| known == word)
}

struct Element {
    name: String,
    attributes: BTreeMap<String, String>,
    /// The index of the element around it.
    parent: Option<usize>,
    /// Its own text, without the text of its children.
    text: String,
}

impl Element {
    /// Returns an attribute's value, unless it is blank.
    fn get(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).map(String::as_str).filter(|value| !value.trim().is_empty())
    }
}

struct Tree {
    /// The elements in the order of the document.
    elements: Vec<Element>,
    faults: Vec<String>,
}

impl Tree {
    fn add(&mut self, node: &Handle, parent: Option<usize>) {
        let mut inner = parent;
        match &node.data {
            NodeData::Element { name, attrs, .. } => {
                let attributes = attrs.borrow();
                let attributes =
                    attributes.iter().map(|of| (of.name.local.to_string(), of.value.to_string()));
                inner = Some(self.elements.len());
                self.elements.push(Element {
                    name: name.local.to_string(),
                    attributes: attributes.collect(),
                    parent,
                    text: String::new(),
                });
            }
            NodeData::Text { contents } => {
                if let Some(parent) = parent {
                    self.elements[parent].text.push_str(&contents.borrow());
                }
            }
            _ => {}
        }
        for child in node.children.borrow().iter() {
            self.add(child, inner);
        }
    }

    fn named(&self, name: &str) -> impl Iterator<Item = &Element> {
        self.elements.iter().filter(move |element| element.name == name)
    }

    /// Returns the indices of the elements around an element, the closest first.
    fn around(&self, at: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(self.elements[at].parent, |at| self.elements[*at].parent)
    }

    /// Returns whether an element is inside one with one of these names.
    fn is_in(&self, at: usize, names: &str) -> bool {
        self.around(at).any(|around| has(names, &self.elements[around].name))
    }

    /// Returns whether an element contains one with one of these names.
    fn contains(&self, at: usize, names: &str) -> bool {
        let mut inner = at + 1..self.elements.len();
        inner.any(|inner| {
            has(names, &self.elements[inner].name) && self.around(inner).any(|around| around == at)
        })
    }

    /// Returns the start tag of an element.
    fn start_tag(&self, at: usize) -> String {
        let Element { name, attributes, .. } = &self.elements[at];
        let attributes = attributes.iter().map(|(name, value)| format!(" {name}={value:?}"));
        format!("<{name}{}>", attributes.collect::<String>())
    }

    /// Checks the document as a whole.
    fn check_document(&mut self) {
        let mut faults = Vec::new();
        for name in SINGLE.split_whitespace() {
            let count = self.named(name).count();
            if count != 1 {
                faults.push(format!("{count} <{name}> in a page"));
            }
        }
        // A drawing may have a title, too.
        let titles = (0..self.elements.len()).filter(|at| self.elements[*at].name == "title");
        let titles = titles.filter(|at| self.is_in(*at, "head"));
        let titles: Vec<_> = titles.map(|at| self.elements[at].text.trim()).collect();
        if titles.len() != 1 || titles[0].is_empty() {
            faults.push(format!("the titles of the page are {titles:?}"));
        }
        let has_meta = |attribute: &str, value: &str| {
            self.named("meta").any(|meta| meta.get(attribute).is_some_and(|of| of.contains(value)))
        };
        if !has_meta("charset", "utf-8") {
            faults.push("the page has no charset".into());
        }
        if !has_meta("content", "width=device-width") {
            faults.push("the page has no viewport".into());
        }
        self.faults.extend(faults);
    }

    /// Checks that each id is there once, and that all ids that are named are there.
    fn check_ids(&mut self) {
        let mut known = BTreeSet::new();
        for id in self.elements.iter().filter_map(|element| element.attributes.get("id")) {
            if id.is_empty() || id.contains(char::is_whitespace) {
                self.faults.push(format!("{id:?} is no id"));
            }
            if !known.insert(id) {
                self.faults.push(format!("the id {id:?} is there twice"));
            }
        }
        let attributes = self.elements.iter().flat_map(|element| &element.attributes);
        for (name, value) in attributes {
            let ids: Vec<_> = match value.strip_prefix('#') {
                Some(fragment) if name == "href" => vec![fragment],
                _ if has(REFERENCES, name) => value.split_whitespace().collect(),
                _ => Vec::new(),
            };
            for id in ids.into_iter().filter(|id| !known.contains(&(*id).to_owned())) {
                self.faults.push(format!("{name} names an id that is not there: {id:?}"));
            }
        }
    }

    /// Checks that the element and its attributes are known, and that required ones are there.
    fn check_words(&self, at: usize) -> Vec<String> {
        let element = &self.elements[at];
        let (name, mut faults) = (element.name.as_str(), Vec::new());
        if name == "svg" || self.is_in(at, "svg") {
            if !has(DRAWING, name) {
                faults.push("is no element that drawings use".into());
            }
            return faults;
        }
        if !has(ELEMENTS, name) {
            faults.push("is no element that pages use".into());
        }
        let own = ATTRIBUTES.iter().find(|(known, _)| *known == name).map_or("", |(_, own)| own);
        for attribute in element.attributes.keys() {
            let is_open = attribute.starts_with("data-") || attribute.starts_with("aria-");
            if !is_open && !has(GLOBAL, attribute) && !has(own, attribute) {
                faults.push(format!("has no attribute {attribute}"));
            }
        }
        for (required, attribute, values) in REQUIRED {
            let value = element.get(attribute);
            let is_valid = value.is_some_and(|value| values.is_empty() || has(values, value));
            if required == name && !is_valid {
                faults.push(format!("has {attribute}={value:?}, not {values:?}"));
            }
        }
        if name == "img" && !element.attributes.contains_key("alt") {
            faults.push("has no alt".into());
        }
        faults
    }

    /// Checks what is inside of what, and that tables, drawings, labels and groups are named.
    fn check_structure(&self, at: usize) -> Option<&'static str> {
        let element = &self.elements[at];
        let first = self.elements.get(at + 1).filter(|next| next.parent == Some(at));
        let begins_with = |name: &str| first.is_some_and(|first| first.name == name);
        let is_in_named_region = || {
            let mut around = self.around(at).map(|at| &self.elements[at]);
            around.any(|of| of.get("role") == Some("region") && of.get("aria-label").is_some())
        };
        match element.name.as_str() {
            "table" if !begins_with("caption") && !is_in_named_region() => {
                Some("has neither a caption nor a region with a name")
            }
            "table" if !self.contains(at, "th") => Some("has no header cell"),
            "svg"
                if element.get("aria-hidden") != Some("true")
                    && element.get("role") != Some("img") =>
            {
                Some("is neither hidden nor an image")
            }
            "label"
                if element.get("for").is_none() && !self.contains(at, "input select textarea") =>
            {
                Some("labels nothing")
            }
            "fieldset" if !begins_with("legend") => Some("does not begin with a legend"),
            "main" if self.is_in(at, "article aside header footer nav") => {
                Some("is not at the top")
            }
            name if has(BLOCKS, name)
                && element.parent.is_some_and(|at| has(PHRASES, &self.elements[at].name)) =>
            {
                Some("is a block in a phrase")
            }
            _ => None,
        }
    }

    /// Checks what the content security policy forbids, and that addresses work at any mount point.
    fn check_safety(&self, at: usize) -> Vec<String> {
        let element = &self.elements[at];
        let (name, mut faults) = (element.name.as_str(), Vec::new());
        if has(FORBIDDEN, name) {
            faults.push("is forbidden".into());
        }
        if name == "script" && !element.text.trim().is_empty() {
            faults.push("is a script in the page".into());
        }
        // Loading the same page again after some seconds is allowed.
        let is_interval = |content: &str| content.bytes().all(|byte| byte.is_ascii_digit());
        let refreshes = element.get("http-equiv") == Some("refresh")
            && element.get("content").is_some_and(is_interval);
        if element.attributes.contains_key("http-equiv") && !refreshes {
            faults.push("is a header in the page".into());
        }
        for (attribute, value) in &element.attributes {
            if attribute == "style" || attribute == "srcdoc" || attribute.starts_with("on") {
                faults.push(format!("has code in its attribute {attribute}"));
            }
            // An empty icon, in the place of one that the browser would ask the origin for.
            let is_no_icon = element.get("rel") == Some("icon") && value == "data:,";
            if has(ADDRESSES, attribute) && !is_relative(value) && !is_no_icon {
                faults.push(format!("has an address that is not relative: {value:?}"));
            }
        }
        faults
    }
}

/// Returns whether an address stays below the page's own, at any mount point: no scheme, host, root or parent.
fn is_relative(address: &str) -> bool {
    let path = address.split(['?', '#']).next().unwrap_or_default();
    let has_scheme = path.split('/').next().is_some_and(|first| first.contains(':'));
    let climbs = path.split('/').any(|part| part == "..");
    !address.is_empty()
        && !has_scheme
        && !climbs
        && !path.starts_with('/')
        && !path.contains(['\\', '\t', '\n', '\r'])
}
