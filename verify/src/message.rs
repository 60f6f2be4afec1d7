//! The lines that the driver and its workers exchange.

use std::str::FromStr;

use crate::history::{Hold, Lease};
use crate::ledger::{Attempt, Event};
use crate::observations::Observation;
use crate::resource::Write;

/// From the driver to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Acquire the contended name and keep it.
    Acquire,
    /// Release the contended name.
    Release,
    /// Acquire and release the contended name repeatedly.
    Contend,
    /// Attempt its own name repeatedly.
    Probe,
    /// Hold other names in several tasks.
    Load(Load),
    /// Report each change of a node.
    Watch,
    /// Send the remaining reports and end.
    Stop,
    /// The resource has accepted or refused the write of this number.
    Written(u64, bool),
}

/// The tasks of a worker beside the one that follows orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Determines the names, waits and holding times.
    pub seed: u64,
    /// Number of tasks.
    pub tasks: usize,
    /// Number of slots of which every fourth task holds one, while another fourth of the tasks
    /// shares names; with zero slots, no task does either.
    pub slots: u32,
}

/// From a worker to the driver.
#[derive(Clone, Debug, PartialEq)]
pub enum Report {
    /// The number of the worker that has connected.
    Hello(usize),
    /// An event.
    Event(Event),
    /// A stretch of a hold.
    Hold(Hold),
    /// An attempt on the worker's own name.
    Attempt(Attempt),
    /// A write, with its number for the answer.
    Write(u64, Write),
    /// A change of a node.
    Observation(Observation),
    /// A request that took longer than allowed.
    Slow(String),
}

impl Order {
    /// Formats the order as a line without a line break.
    pub fn to_line(self) -> String {
        match self {
            Self::Acquire => "acquire".into(),
            Self::Release => "release".into(),
            Self::Contend => "contend".into(),
            Self::Probe => "probe".into(),
            Self::Load(Load { seed, tasks, slots }) => format!("load {seed} {tasks} {slots}"),
            Self::Watch => "watch".into(),
            Self::Stop => "stop".into(),
            Self::Written(number, accepted) => format!("written {number} {}", u8::from(accepted)),
        }
    }

    /// Parses an order; `None` if the line is not an order.
    pub fn from_line(line: &str) -> Option<Self> {
        Some(match line {
            "acquire" => Self::Acquire,
            "release" => Self::Release,
            "contend" => Self::Contend,
            "probe" => Self::Probe,
            "watch" => Self::Watch,
            "stop" => Self::Stop,
            _ => {
                let mut fields = line.split(' ');
                match fields.next()? {
                    "written" => Self::Written(field(&mut fields)?, field::<u8>(&mut fields)? == 1),
                    "load" => Self::Load(Load {
                        seed: field(&mut fields)?,
                        tasks: field(&mut fields)?,
                        slots: field(&mut fields)?,
                    }),
                    _ => return None,
                }
            }
        })
    }
}

impl Report {
    /// Formats the report as a line without a line break.
    pub fn to_line(&self) -> String {
        match self {
            Self::Hello(worker) => format!("hello {worker}"),
            Self::Event(Event::Ready) => "ready".into(),
            Self::Event(Event::Granted) => "granted".into(),
            Self::Event(Event::Released) => "released".into(),
            Self::Event(Event::Ended) => "ended".into(),
            Self::Hold(hold) => hold.to_line(),
            Self::Attempt(Attempt { worker, from, until, granted, voting }) => {
                let voting = optional(voting.as_ref());
                format!("attempt {worker} {from} {until} {} {voting}", u8::from(*granted))
            }
            Self::Write(number, Write { lease, asked, acquired, token }) => {
                let token = optional(token.as_ref());
                let Lease { worker, number: lease } = lease;
                format!("write {number} {worker} {lease} {asked} {acquired} {token}")
            }
            Self::Observation(observation) => format!("node {}", observation.to_words()),
            Self::Slow(what) => format!("slow {what}"),
        }
    }

    /// Parses a report; `None` if the line is not a report.
    pub fn from_line(line: &str) -> Option<Self> {
        let event = match line {
            "ready" => Some(Event::Ready),
            "granted" => Some(Event::Granted),
            "released" => Some(Event::Released),
            "ended" => Some(Event::Ended),
            _ => None,
        };
        if let Some(event) = event {
            return Some(Self::Event(event));
        }
        let (kind, rest) = line.split_once(' ')?;
        let mut fields = rest.split(' ');
        Some(match kind {
            "hello" => Self::Hello(field(&mut fields)?),
            "hold" | "share" => Self::Hold(Hold::from_line(line)?),
            "attempt" => Self::Attempt(Attempt {
                worker: field(&mut fields)?,
                from: field(&mut fields)?,
                until: field(&mut fields)?,
                granted: field::<u8>(&mut fields)? == 1,
                voting: optional_field(&mut fields)?,
            }),
            "write" => {
                let number = field(&mut fields)?;
                let lease = Lease { worker: field(&mut fields)?, number: field(&mut fields)? };
                let (asked, acquired) = (field(&mut fields)?, field(&mut fields)?);
                let token = optional_field(&mut fields)?;
                Self::Write(number, Write { lease, asked, acquired, token })
            }
            "node" => Self::Observation(Observation::from_words(rest)?),
            "slow" => Self::Slow(rest.to_owned()),
            _ => return None,
        })
    }
}

fn optional(value: Option<&impl ToString>) -> String {
    value.map_or_else(|| "-".into(), ToString::to_string)
}

#[expect(clippy::option_option, reason = "no field, or a field without a value")]
fn optional_field<'a, T: FromStr>(fields: &mut impl Iterator<Item = &'a str>) -> Option<Option<T>> {
    match fields.next()? {
        "-" => Some(None),
        value => Some(Some(value.parse().ok()?)),
    }
}

fn field<'a, T: FromStr>(fields: &mut impl Iterator<Item = &'a str>) -> Option<T> {
    fields.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_round_trip() {
        for order in [
            Order::Acquire,
            Order::Release,
            Order::Contend,
            Order::Probe,
            Order::Load(Load { seed: 7, tasks: 12, slots: 3 }),
            Order::Watch,
            Order::Stop,
            Order::Written(7, true),
            Order::Written(8, false),
        ] {
            assert_eq!(Order::from_line(&order.to_line()), Some(order));
        }
        assert_eq!(Order::from_line("written 1"), None);
    }

    #[test]
    fn reports_round_trip() {
        let lease = Lease { worker: 2, number: 7 };
        let write = |token| Report::Write(3, Write { lease, asked: 4, acquired: 5, token });
        let attempt = |voting| {
            Report::Attempt(Attempt { worker: 1, from: 2, until: 3, granted: true, voting })
        };

        let reports = [
            Report::Hello(1),
            Report::Event(Event::Ready),
            Report::Event(Event::Granted),
            Report::Event(Event::Released),
            Report::Event(Event::Ended),
            write(Some(6)),
            write(None),
            attempt(Some(5)),
            attempt(None),
            Report::Observation(Observation::from_words("2 voting abc 17").expect("words")),
            Report::Slow("9 s for a".into()),
        ];

        for report in reports {
            assert_eq!(Report::from_line(&report.to_line()), Some(report));
        }
        assert_eq!(Report::from_line("write 1 2 3"), None);
    }
}
