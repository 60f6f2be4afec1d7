//! Colours, the size of the terminal, and the mode in which a command takes over the screen.

use std::io::{stdin, stdout};

use anstream::{AutoStream, ColorChoice, adapter::strip_str};
use anstyle::{AnsiColor, Style};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use terminal_size::{Height, Width};

use super::stdout::write;
use crate::exit::Failure;

pub(crate) const RED: Style = AnsiColor::Red.on_default();
pub(crate) const GREEN: Style = AnsiColor::Green.on_default();
pub(crate) const YELLOW: Style = AnsiColor::Yellow.on_default();
pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();

/// The alternate screen, without a cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// Colours a text.
pub(crate) fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

/// Returns the size of the terminal; 80 × 24 for one that reports none.
pub(crate) fn size() -> Size {
    let (Width(columns), Height(rows)) =
        terminal_size::terminal_size().unwrap_or((Width(80), Height(24)));
    Size { columns: columns.into(), rows: rows.into() }
}

/// The alternate screen of the terminal. Dropping it restores the screen, and the mode of the terminal.
#[derive(Debug)]
pub(crate) struct Screen {
    before: Option<Termios>,
}

impl Screen {
    /// Takes over the screen. Typed characters come one by one, and are not shown.
    pub(crate) fn enter() -> Result<Self, Failure> {
        let screen = Self { before: unbuffered() };
        write(stdout().lock(), ENTER)?;
        Ok(screen)
    }

    /// Replaces what is on the screen.
    #[expect(clippy::unused_self, reason = "only while the screen is taken over")]
    pub(crate) fn draw(&self, lines: &[String]) -> Result<(), Failure> {
        let is_plain = AutoStream::choice(&stdout()) == ColorChoice::Never;
        let colored =
            |line: &String| if is_plain { strip_str(line).to_string() } else { line.clone() };
        let lines: Vec<_> = lines.iter().map(|line| colored(line) + "\x1b[K").collect();
        write(stdout().lock(), &format!("\x1b[H{}\x1b[J", lines.join("\r\n")))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = write(stdout().lock(), LEAVE);
        if let Some(before) = &self.before {
            let _ = tcsetattr(stdin(), OptionalActions::Now, before);
        }
    }
}

/// Switches the echo and the buffering of lines off. Returns the mode before.
fn unbuffered() -> Option<Termios> {
    let before = tcgetattr(stdin()).ok()?;
    let mut mode = before.clone();
    mode.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
    tcsetattr(stdin(), OptionalActions::Now, &mode).ok()?;
    Some(before)
}
