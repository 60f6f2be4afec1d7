//! Colours: on a terminal only, and never where the environment has `NO_COLOR`.

use std::{
    env,
    io::{IsTerminal, stdout},
};

/// Whether text is coloured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    pub(crate) colored: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Color {
    Red,
    Green,
    Yellow,
    Bold,
    Dim,
}

impl Style {
    /// The style of the standard output.
    pub(crate) fn stdout() -> Self {
        Self { colored: stdout().is_terminal() && allowed() }
    }

    pub(crate) fn paint(self, color: Color, text: &str) -> String {
        let code = match color {
            Color::Red => 31,
            Color::Green => 32,
            Color::Yellow => 33,
            Color::Bold => 1,
            Color::Dim => 2,
        };
        if self.colored { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Whether the environment allows colours.
fn allowed() -> bool {
    let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    !is_set("NO_COLOR") && env::var_os("TERM").is_none_or(|term| term != "dumb")
}
