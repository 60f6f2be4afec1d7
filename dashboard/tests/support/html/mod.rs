//! A strict check of a page's markup: what an HTML parser would repair, and what it would not notice.
//!
//! [`faults`] lists what is wrong, each with its line. A page must nest its elements and close every one
//! explicitly, use known elements and attributes, be usable with a screen reader, contain no inline style
//! or script, and refer to other pages by relative addresses only.

mod access;
mod outline;
mod parse;
mod safety;
mod tree;
mod words;

use self::tree::Tree;

/// What is wrong with a page, in no particular order. Empty for a page as it should be.
pub(crate) fn faults(page: &str) -> Vec<String> {
    let tree = Tree::parse(page);
    let mut faults = parse::errors(page);
    faults.extend(tree.faults.iter().cloned());
    let mut note = |line: u64, what: String| faults.push(format!("line {line}: {what}"));
    words::check(&tree, &mut note);
    outline::check(&tree, &mut note);
    access::check(&tree, &mut note);
    safety::check(&tree, &mut note);
    faults
}

/// Panics if anything is wrong with the page.
#[track_caller]
pub(crate) fn assert_strict(url: &str, page: &str) {
    let faults = faults(page);
    assert!(faults.is_empty(), "{url}: {faults:#?}\n{page}");
}

/// Where the rules put what they find: the line, and what is wrong.
type Note<'a> = &'a mut dyn FnMut(u64, String);
