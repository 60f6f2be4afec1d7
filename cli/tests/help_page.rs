//! The page `cli/command-line.md` is what the command says.

#[path = "../../codegen/src/help.rs"]
mod help;

use std::path::Path;

#[test]
fn page_is_as_the_command_says() {
    let page = include_str!("../command-line.md");
    let fresh = help::page(Path::new(env!("CARGO_BIN_EXE_redlock")));
    let changed: Vec<_> = fresh.lines().filter(|line| !page.lines().any(|l| l == *line)).collect();
    assert!(
        page == fresh,
        "the help of the command has changed: {changed:#?}; write the page anew: \
         cargo run --package tower-redlock-codegen"
    );
}
