//! What the commands share to print and to ask.
//!
//! | to find | look in |
//! |---|---|
//! | the standard output, as text or JSON, and the standard error | `stdout`, `stderr` |
//! | names and owners that may contain any characters | `escape` |
//! | tables of rows that arrive one by one | `table` |
//! | times, ages | `time` |
//! | colours, the size and the mode of a terminal | `terminal` |
//! | the progress of slow work | `progress` |
//! | actions that cannot be undone | `confirm` |

mod confirm;
mod escape;
mod progress;
mod stderr;
mod stdout;
mod table;
pub(crate) mod terminal;
mod time;

pub(crate) use self::{
    confirm::confirm,
    escape::{indented, shown, shown_or},
    progress::Progress,
    stderr::say,
    stdout::{Output, error_text, print, print_json_line},
    table::{Table, fit},
    terminal::paint,
    time::{age, millis, short, time, unix_millis},
};

#[cfg(test)]
pub(crate) use self::table::width;
