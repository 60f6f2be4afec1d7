//! The size of the terminal, and the mode in which it takes over the screen.

use std::io::{IsTerminal, Write, stdin, stdout};

#[cfg(unix)]
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use super::print;
use crate::exit::Failure;

/// The alternate screen, without a cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

impl Default for Size {
    /// The size of a terminal that reports none.
    fn default() -> Self {
        Self { columns: 80, rows: 24 }
    }
}

/// Returns the size of the terminal that the program writes to.
#[cfg(unix)]
pub(crate) fn size() -> Option<Size> {
    let of = |size: rustix::termios::Winsize| Size {
        columns: size.ws_col.into(),
        rows: size.ws_row.into(),
    };
    let size = tcgetwinsize(stdout()).or_else(|_| tcgetwinsize(std::io::stderr())).map(of).ok()?;
    // A terminal without a known size reports zeros.
    (size.columns > 0 && size.rows > 0).then_some(size)
}

#[cfg(not(unix))]
pub(crate) fn size() -> Option<Size> {
    None
}

/// The alternate screen of the terminal. Dropping it restores the screen, and the mode of the terminal.
#[derive(Debug)]
pub(crate) struct Screen {
    #[cfg(unix)]
    before: Option<Termios>,
}

impl Screen {
    /// Takes over the screen. Typed characters come one by one, and are not shown.
    pub(crate) fn enter() -> Result<Self, Failure> {
        #[cfg(unix)]
        let screen = Self { before: unbuffered() };
        #[cfg(not(unix))]
        let screen = Self {};
        print(ENTER)?;
        Ok(screen)
    }

    /// Replaces what is on the screen.
    #[expect(clippy::unused_self, reason = "only while the screen is taken over")]
    pub(crate) fn draw(&self, lines: &[String]) -> Result<(), Failure> {
        let lines: Vec<_> = lines.iter().map(|line| format!("{line}\x1b[K")).collect();
        print(&format!("\x1b[H{}\x1b[J", lines.join("\r\n")))
    }

    /// Returns whether somebody may type.
    pub(crate) fn has_keys() -> bool {
        stdin().is_terminal()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let mut out = stdout().lock();
        let _ = out.write_all(LEAVE.as_bytes()).and_then(|()| out.flush());
        #[cfg(unix)]
        if let Some(before) = &self.before {
            let _ = tcsetattr(stdin(), OptionalActions::Now, before);
        }
    }
}

/// Switches the echo and the buffering of lines off. Returns the mode before.
#[cfg(unix)]
fn unbuffered() -> Option<Termios> {
    let before = tcgetattr(stdin()).ok()?;
    let mut mode = before.clone();
    mode.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
    tcsetattr(stdin(), OptionalActions::Now, &mode).ok()?;
    Some(before)
}
