//! The effects of all receivers: a file with a line for each event that was handled.

use std::{
    fmt,
    fs::{File, OpenOptions},
    io::{self, Write},
    path::Path,
    str::FromStr,
    sync::Arc,
};

use crate::stories::Failure;

#[derive(Clone)]
pub(crate) struct Effects(Arc<File>);

pub(crate) struct Effect {
    pub(crate) event: String,
    pub(crate) receiver: Arc<str>,
    pub(crate) token: u64,
    pub(crate) amount: u64,
}

impl Effects {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(Arc::new(OpenOptions::new().create(true).append(true).open(path)?)))
    }

    /// Makes one write to a file that is open for appending, so lines of two processes don't mix.
    pub(crate) fn append(&self, effect: &Effect) -> io::Result<()> {
        (&*self.0).write_all(format!("{effect}\n").as_bytes())
    }

    /// Returns all effects in their order.
    pub(crate) fn read(path: &Path) -> Result<Vec<Effect>, Failure> {
        std::fs::read_to_string(path)?.lines().map(str::parse).collect()
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { event, receiver, token, amount } = self;
        write!(f, "{event} {receiver} {token} {amount}")
    }
}

impl FromStr for Effect {
    type Err = Failure;

    fn from_str(line: &str) -> Result<Self, Failure> {
        match line.split(' ').collect::<Vec<_>>()[..] {
            [event, receiver, token, amount] => Ok(Self {
                event: event.to_owned(),
                receiver: receiver.into(),
                token: token.parse()?,
                amount: amount.parse()?,
            }),
            _ => Err(format!("unknown line: {line}").into()),
        }
    }
}
