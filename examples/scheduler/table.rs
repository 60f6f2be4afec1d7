//! The table that grows: which replica ran which tick, with which token, and how late.

use std::collections::BTreeMap;

use crate::{
    fleet::NAMES,
    said::{Moment, Said, now},
};

pub(crate) struct Table {
    pub(crate) runs: Vec<Run>,
    pub(crate) mishaps: Vec<Mishap>,
    by_token: BTreeMap<u64, usize>,
}

pub(crate) struct Run {
    pub(crate) replica: usize,
    /// In ms since 1970.
    pub(crate) tick: u64,
    pub(crate) token: u64,
    pub(crate) began: Moment,
    /// Unless it was broken off.
    pub(crate) ended: Option<Moment>,
}

pub(crate) struct Mishap {
    pub(crate) replica: usize,
    pub(crate) killed: Moment,
    pub(crate) restarted: Option<Moment>,
    pub(crate) left_alone: Option<Moment>,
}

impl Table {
    pub(crate) fn new() -> Self {
        println!("{:<14}{:<12}{:<18}late", "tick (UTC)", "ran by", "token");
        Self { runs: Vec::new(), mishaps: Vec::new(), by_token: BTreeMap::new() }
    }

    pub(crate) fn add(&mut self, replica: usize, said: Said) {
        match said {
            Said::Began { tick, token, lateness, at } => {
                let (tick, name, late) = (tick.as_millis(), NAMES[replica], lateness.as_millis());
                println!("{:<14}{name:<12}{token:<18}{late} ms", time_of_day(tick));
                self.by_token.insert(token, self.runs.len());
                self.runs.push(Run { replica, tick, token, began: at, ended: None });
            }
            Said::Ended { token, at } => {
                if let Some(run) = self.by_token.get(&token) {
                    self.runs[*run].ended = Some(at);
                }
            }
        }
    }

    pub(crate) fn kill(&mut self, replica: usize) {
        println!("-- {} is killed in the middle of this run", NAMES[replica]);
        let killed = now();
        self.mishaps.push(Mishap { replica, killed, restarted: None, left_alone: None });
    }

    pub(crate) fn restart(&mut self, replica: usize) {
        println!("-- {} is started again", NAMES[replica]);
        if let Some(mishap) = self.mishaps.last_mut() {
            mishap.restarted = Some(now());
        }
    }

    pub(crate) fn leave_alone(&mut self, replica: usize) {
        println!("-- all but {} are stopped", NAMES[replica]);
        if let Some(mishap) = self.mishaps.last_mut() {
            mishap.left_alone = Some(now());
        }
    }
}

fn time_of_day(millis: u64) -> String {
    let (seconds, millis) = (millis / 1_000, millis % 1_000);
    let (hours, minutes) = (seconds / 3_600 % 24, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02}.{millis:03}", seconds % 60)
}
