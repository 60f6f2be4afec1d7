//! The page `cli/command-line.md` is what the command says; `scripts/generate` writes it.

mod help;

use std::{env, fs, path::Path};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/command-line.md");

#[test]
fn page_is_as_the_command_says() {
    let fresh = help::page(Path::new(env!("CARGO_BIN_EXE_redlock")));
    if env::var_os("UPDATE_GENERATED").is_some() {
        fs::write(PAGE, &fresh).unwrap();
    }
    let page = fs::read_to_string(PAGE).unwrap();
    let changed: Vec<_> = fresh.lines().filter(|line| !page.lines().any(|l| l == *line)).collect();
    assert!(
        page == fresh,
        "the help of the command has changed: {changed:#?}; write the page anew: scripts/generate"
    );
}
