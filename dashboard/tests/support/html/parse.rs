//! The errors that an HTML parser finds and repairs.

use std::{
    borrow::Cow,
    cell::{Cell, RefCell},
};

use html5ever::{
    Attribute, ParseOpts, QualName, parse_document,
    tendril::{StrTendril, TendrilSink},
    tokenizer::TokenizerOpts,
    tree_builder::{ElementFlags, NodeOrText, QuirksMode, TreeBuilderOpts, TreeSink},
};

/// Parses the page as a browser does that runs scripts, and as one that does not.
pub(super) fn errors(page: &str) -> Vec<String> {
    let mut errors = errors_where(page, true);
    errors.extend(errors_where(page, false));
    errors.sort();
    errors.dedup();
    errors
}

fn errors_where(page: &str, scripting_enabled: bool) -> Vec<String> {
    let tree_builder =
        TreeBuilderOpts { exact_errors: true, scripting_enabled, ..TreeBuilderOpts::default() };
    let tokenizer = TokenizerOpts { exact_errors: true, ..TokenizerOpts::default() };
    let options = ParseOpts { tokenizer, tree_builder };
    parse_document(ErrorSink::default(), options).one(page).errors.into_inner()
}

/// Keeps the names of elements, as the parser asks for them, and nothing else of the document.
#[derive(Default)]
struct ErrorSink {
    names: RefCell<Vec<QualName>>,
    line: Cell<u64>,
    errors: RefCell<Vec<String>>,
}

/// The handle of the document. All other nodes except elements have the next one.
const DOCUMENT: usize = 0;
const OTHER: usize = 1;
const FIRST_ELEMENT: usize = 2;

impl TreeSink for ErrorSink {
    type Handle = usize;
    type Output = Self;
    type ElemName<'a> = OwnedName;

    fn finish(self) -> Self {
        self
    }

    fn parse_error(&self, message: Cow<'static, str>) {
        self.errors.borrow_mut().push(format!("line {}: {message}", self.line.get()));
    }

    fn set_quirks_mode(&self, mode: QuirksMode) {
        if mode != QuirksMode::NoQuirks {
            self.parse_error(format!("the page is read in {mode:?} mode").into());
        }
    }

    fn set_current_line(&self, line: u64) {
        self.line.set(line);
    }

    fn get_document(&self) -> usize {
        DOCUMENT
    }

    fn elem_name(&self, target: &usize) -> OwnedName {
        OwnedName(self.names.borrow()[*target - FIRST_ELEMENT].clone())
    }

    fn create_element(&self, name: QualName, _: Vec<Attribute>, _: ElementFlags) -> usize {
        let mut names = self.names.borrow_mut();
        names.push(name);
        names.len() - 1 + FIRST_ELEMENT
    }

    fn create_comment(&self, _: StrTendril) -> usize {
        OTHER
    }

    fn create_pi(&self, _: StrTendril, _: StrTendril) -> usize {
        OTHER
    }

    fn get_template_contents(&self, _: &usize) -> usize {
        OTHER
    }

    fn same_node(&self, one: &usize, other: &usize) -> bool {
        one == other
    }

    fn append(&self, _: &usize, _: NodeOrText<usize>) {}
    fn append_based_on_parent_node(&self, _: &usize, _: &usize, _: NodeOrText<usize>) {}
    fn append_doctype_to_document(&self, _: StrTendril, _: StrTendril, _: StrTendril) {}
    fn append_before_sibling(&self, _: &usize, _: NodeOrText<usize>) {}
    fn add_attrs_if_missing(&self, _: &usize, _: Vec<Attribute>) {}
    fn remove_from_parent(&self, _: &usize) {}
    fn reparent_children(&self, _: &usize, _: &usize) {}
}

#[derive(Debug)]
struct OwnedName(QualName);

impl html5ever::interface::ElemName for OwnedName {
    fn ns(&self) -> &html5ever::Namespace {
        &self.0.ns
    }

    fn local_name(&self) -> &html5ever::LocalName {
        &self.0.local
    }
}
