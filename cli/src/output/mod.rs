//! What the commands share to print and to ask.
//!
//! | to find | look in |
//! |---|---|
//! | the standard output, and what happens where nobody reads it | `stdout` |
//! | names and owners that may hold anything | `escape` |
//! | tables of rows that arrive one by one | `table` |
//! | times, ages | `time` |
//! | colours | `style` |
//! | the size and the mode of a terminal | `terminal` |
//! | what takes long | `progress` |
//! | actions that cannot be undone | `confirm` |

mod confirm;
mod escape;
mod progress;
mod stdout;
mod style;
mod table;
pub(crate) mod terminal;
mod time;

pub(crate) use self::{
    confirm::confirm,
    escape::shown,
    progress::{Progress, say},
    stdout::{print, print_json, print_json_line},
    style::{Color, Style},
    table::{Column, Table, fit},
    time::{millis, short, time, unix_millis},
};

#[cfg(test)]
pub(crate) use self::table::width;
