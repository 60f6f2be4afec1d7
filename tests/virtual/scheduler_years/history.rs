//! What happened in a year.

use std::fmt::Write as _;

use tower_redlock::scheduler::MissReason;

use crate::scheduler_years::{
    log::Run,
    plan::{Event, MACHINES, Ms, Rules, SECOND, YEAR, name},
};

/// The state of the fleet from a moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FleetState {
    pub(crate) at: Ms,
    /// The version on each machine whose process runs and reaches a quorum.
    pub(crate) fit: [Option<usize>; MACHINES],
    pub(crate) is_lossy: bool,
    /// Between a release and its deployment on all machines.
    pub(crate) is_deploying: bool,
    /// The jobs that are paused, or may be.
    pub(crate) paused: u8,
}

impl FleetState {
    pub(crate) const fn is_paused(&self, job: usize) -> bool {
        self.paused & (1 << job) != 0
    }
}

/// Ticks that a process reported as missed or given up.
#[derive(Clone, Debug)]
pub(crate) struct ReportedMissed {
    /// When it was reported, at the latest.
    pub(crate) at: Ms,
    pub(crate) machine: usize,
    pub(crate) job: usize,
    pub(crate) version: usize,
    pub(crate) first: Ms,
    pub(crate) last: Ms,
    /// The reason; `None` if they were given up.
    pub(crate) why: Option<MissReason>,
}

/// The input of the model.
pub(crate) struct History {
    pub(crate) versions: Vec<Vec<Rules>>,
    pub(crate) runs: Vec<Run>,
    pub(crate) standings: Vec<FleetState>,
    pub(crate) missed: Vec<ReportedMissed>,
    pub(crate) events: Vec<(Ms, Event)>,
    /// When each version was first booted.
    pub(crate) first_boots: Vec<Option<Ms>>,
    /// Times at which a process may have lost its work.
    pub(crate) breaks: Vec<Ms>,
}

impl History {
    /// What happened around a moment, in the order of time.
    pub(crate) fn around(&self, from: Ms, until: Ms) -> String {
        let mut lines: Vec<(Ms, String)> = Vec::new();
        lines.extend(self.events.iter().map(|(at, event)| (*at, format!("{event:?}"))));
        for run in &self.runs {
            let text = format!(
                "{} of version {} runs {} {} (attempt {}) on {}, token {}, until {}{}",
                name(run.job),
                run.version,
                if run.is_on_demand { "on demand" } else { "tick" },
                clock(run.tick),
                run.attempt,
                run.machine,
                run.token,
                run.ended.map_or("the end".into(), clock),
                if run.finished { "" } else { ", interrupted" },
            );
            lines.push((run.began, text));
        }
        lines.extend(self.missed.iter().map(|report| (report.at, format!("{report:?}"))));
        lines.retain(|(at, _)| (from..=until).contains(at));
        lines.sort_by_key(|(at, _)| *at);
        let mut text = String::new();
        for (at, line) in lines {
            let _ = writeln!(text, "  {}  {line}", clock(at));
        }
        text
    }

    /// A hash of the history.
    pub(crate) fn fingerprint(&self) -> u64 {
        let text = self.around(0, YEAR);
        text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
    }
}

/// As day, hours, minutes, seconds and milliseconds of the year.
pub(crate) fn clock(at: Ms) -> String {
    let (seconds, ms) = (at / SECOND, at % SECOND);
    let (hours, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{:03}d{:02}:{minute:02}:{second:02}.{ms:03}", hours / 24, hours % 24)
}
