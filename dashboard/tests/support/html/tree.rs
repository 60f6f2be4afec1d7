//! The elements of a page as they are written, without what a parser would repair.

use std::cell::RefCell;

use html5ever::{
    buffer_queue::BufferQueue,
    tendril::StrTendril,
    tokenizer::{
        Tag, TagKind, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts, states::RawKind,
    },
};

/// Elements without content, which have no end tag.
const VOID: [&str; 14] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source",
    "track", "wbr",
];

/// An element; its place in [`Tree::elements`] is in the order of the document.
#[derive(Debug)]
pub(super) struct Element {
    pub(super) name: String,
    pub(super) attributes: Vec<(String, String)>,
    pub(super) parent: Option<usize>,
    pub(super) children: Vec<usize>,
    /// Its own text, without the text of its children.
    pub(super) text: String,
    pub(super) line: u64,
}

#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) elements: Vec<Element>,
    pub(super) faults: Vec<String>,
    open: Vec<usize>,
    doctypes: usize,
}

impl Tree {
    pub(super) fn parse(page: &str) -> Self {
        let sink = Tokens(RefCell::default());
        let options = TokenizerOpts { exact_errors: true, ..TokenizerOpts::default() };
        let tokenizer = Tokenizer::new(sink, options);
        let input = BufferQueue::default();
        input.push_back(StrTendril::from(page));
        let _ = tokenizer.feed(&input);
        tokenizer.end();
        let mut tree = tokenizer.sink.0.into_inner();
        for at in std::mem::take(&mut tree.open) {
            let fault = format!("<{}> is never closed", tree.elements[at].name);
            tree.fault(tree.elements[at].line, &fault);
        }
        if tree.doctypes != 1 {
            tree.fault(1, &format!("{} doctypes", tree.doctypes));
        }
        tree
    }

    fn fault(&mut self, line: u64, what: &str) {
        self.faults.push(format!("line {line}: {what}"));
    }

    fn start(&mut self, tag: &Tag, line: u64) -> TokenSinkResult<()> {
        let name = tag.name.to_string();
        let attributes = tag.attrs.iter();
        let attributes = attributes
            .map(|attribute| (attribute.name.local.to_string(), attribute.value.to_string()))
            .collect();
        let at = self.elements.len();
        let parent = self.open.last().copied();
        let is_drawing = name == "svg" || parent.is_some_and(|parent| self.is_in_drawing(parent));
        if let Some(parent) = parent {
            self.elements[parent].children.push(at);
        } else if name != "html" {
            self.fault(line, &format!("<{name}> is outside of <html>"));
        }
        let is_void = VOID.contains(&name.as_str());
        if tag.self_closing && !is_void && !is_drawing {
            self.fault(line, &format!("<{name}/> is not closed by its slash"));
        }
        if !is_void && (!tag.self_closing || !is_drawing) {
            self.open.push(at);
        }
        let raw = match name.as_str() {
            "title" if !is_drawing => Some(RawKind::Rcdata),
            "textarea" => Some(RawKind::Rcdata),
            "style" => Some(RawKind::Rawtext),
            "script" => Some(RawKind::ScriptData),
            _ => None,
        };
        let element =
            Element { name, attributes, parent, children: Vec::new(), text: String::new(), line };
        self.elements.push(element);
        raw.map_or(TokenSinkResult::Continue, TokenSinkResult::RawData)
    }

    fn end(&mut self, name: &str, line: u64) {
        match self.open.last().map(|at| self.elements[*at].name.clone()) {
            Some(open) if open == name => drop(self.open.pop()),
            Some(open) => {
                self.fault(line, &format!("</{name}> where <{open}> is open"));
                // Closes the named element, if it is open. The fault is then reported once.
                if let Some(at) = self.open.iter().rposition(|at| self.elements[*at].name == name) {
                    self.open.truncate(at);
                }
            }
            None => self.fault(line, &format!("</{name}> where nothing is open")),
        }
    }

    fn write(&mut self, text: &str, line: u64) {
        match self.open.last() {
            Some(at) => self.elements[*at].text.push_str(text),
            None if text.trim().is_empty() => {}
            None => self.fault(line, &format!("text outside of <html>: {text:?}")),
        }
    }

    fn is_in_drawing(&self, at: usize) -> bool {
        self.elements[at].name == "svg" || self.is_inside(at, &["svg"])
    }

    /// The elements with one of these names.
    pub(super) fn all<'a>(
        &'a self,
        names: &'a [&str],
    ) -> impl Iterator<Item = (usize, &'a Element)> {
        let found = self.elements.iter().enumerate();
        found.filter(move |(_, element)| names.contains(&element.name.as_str()))
    }

    /// Whether an ancestor of the element has one of these names.
    pub(super) fn is_inside(&self, at: usize, names: &[&str]) -> bool {
        self.ancestor(at, names).is_some()
    }

    /// The closest ancestor of the element with one of these names.
    pub(super) fn ancestor(&self, at: usize, names: &[&str]) -> Option<usize> {
        let mut parent = self.elements[at].parent;
        while let Some(at) = parent {
            if names.contains(&self.elements[at].name.as_str()) {
                return Some(at);
            }
            parent = self.elements[at].parent;
        }
        None
    }

    /// The text of an element and of those in it.
    pub(super) fn text(&self, at: usize) -> String {
        let element = &self.elements[at];
        let inner = element.children.iter().map(|child| self.text(*child));
        let all: Vec<String> = std::iter::once(element.text.clone()).chain(inner).collect();
        all.join(" ").trim().to_owned()
    }

    /// The element with this id.
    pub(super) fn by_id(&self, id: &str) -> Option<&Element> {
        self.elements.iter().find(|element| element.get("id") == Some(id))
    }
}

impl Element {
    /// An attribute's value.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let mut found = self.attributes.iter().filter(|(known, _)| known == name);
        found.next().map(|(_, value)| value.as_str())
    }

    /// An attribute's value, unless it is blank.
    pub(super) fn said(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.trim().is_empty())
    }
}

struct Tokens(RefCell<Tree>);

impl TokenSink for Tokens {
    type Handle = ();

    fn process_token(&self, token: Token, line: u64) -> TokenSinkResult<()> {
        let mut tree = self.0.borrow_mut();
        match token {
            Token::DoctypeToken(doctype) => {
                tree.doctypes += 1;
                if doctype.name.as_deref() != Some("html") || !tree.elements.is_empty() {
                    tree.fault(
                        line,
                        "a doctype other than <!DOCTYPE html>, or not at the beginning",
                    );
                }
            }
            Token::TagToken(tag) if tag.kind == TagKind::StartTag => return tree.start(&tag, line),
            Token::TagToken(tag) => tree.end(&tag.name, line),
            Token::CharacterTokens(text) => tree.write(&text, line),
            Token::NullCharacterToken => tree.fault(line, "a NUL"),
            // `parse` reports errors.
            Token::CommentToken(_) | Token::EOFToken | Token::ParseError(_) => {}
        }
        TokenSinkResult::Continue
    }

    fn adjusted_current_node_present_but_not_in_html_namespace(&self) -> bool {
        let tree = self.0.borrow();
        tree.open.last().is_some_and(|at| tree.is_in_drawing(*at))
    }
}
