use std::{collections::HashMap, fmt, thread};

use crate::{
    contestants::Kind,
    options::Options,
    scenarios::{Condition, Load, Outcome},
    servers::Servers,
    spread::{Spread, significant, time},
};

/// All outcomes, one of each scenario for each round, shown as Markdown.
#[derive(Debug)]
pub(crate) struct Report {
    heading: String,
    outcomes: HashMap<(Kind, Load, Condition), Vec<Outcome>>,
}

enum Aim {
    AtMost(f64),
    AtLeast(f64),
}

impl Report {
    pub(crate) fn new(options: &Options, servers: &Servers) -> Self {
        let heading = format!(
            "{} cores{}, five local servers ({}), median of {} rounds of {:?}; our locks are {}.",
            thread::available_parallelism().map_or(0, usize::from),
            foreign_load().unwrap_or_default(),
            servers.version(),
            options.rounds,
            options.time,
            if options.await_release { "released, and that is awaited" } else { "dropped" },
        );
        Self { heading, outcomes: HashMap::new() }
    }

    pub(crate) fn add(&mut self, kind: Kind, load: Load, condition: Condition, outcome: Outcome) {
        self.outcomes.entry((kind, load, condition)).or_default().push(outcome);
    }

    fn rates(&self, kind: Kind, load: Load, condition: Condition) -> Vec<f64> {
        let outcomes = self.outcomes.get(&(kind, load, condition));
        outcomes.into_iter().flatten().map(Outcome::rate).collect()
    }

    /// Our time (one task) or rate (many) to another's, round by round: what slows a whole round
    /// down slows both.
    fn to(&self, other: Kind, load: Load, condition: Condition) -> Spread {
        let ours = self.rates(Kind::Ours, load, condition);
        let theirs = self.rates(other, load, condition);
        match load {
            Load::Sequence => Spread::of_ratios(&theirs, &ours),
            Load::Tasks => Spread::of_ratios(&ours, &theirs),
        }
    }

    /// The rate with a frozen server to the rate of the same contestant without.
    fn kept(&self, kind: Kind, load: Load) -> Spread {
        let [healthy, frozen] = Condition::ALL.map(|condition| self.rates(kind, load, condition));
        Spread::of_ratios(&frozen, &healthy)
    }

    fn speeds(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [ours, rslock, floor] = Kind::ALL.map(Kind::name);
        writeln!(f, "| | {ours} | {rslock} | {floor} | to {rslock} | to the {floor} |")?;
        writeln!(f, "|---|--:|--:|--:|--:|--:|")?;
        for load in Load::ALL {
            for condition in Condition::ALL {
                write!(f, "| {}, {}: ", load.name(), condition.name())?;
                f.write_str(match load {
                    Load::Sequence => "time of a cycle",
                    Load::Tasks => "cycles per second",
                })?;
                for kind in Kind::ALL {
                    let rate = Spread::of(self.rates(kind, load, condition)).median;
                    let cell = match load {
                        Load::Sequence => time(rate.recip()),
                        Load::Tasks => significant(rate),
                    };
                    write!(f, " | {cell}")?;
                }
                for other in [Kind::Rslock, Kind::Floor] {
                    write!(f, " | × {}", significant(self.to(other, load, condition).median))?;
                }
                writeln!(f, " |")?;
            }
        }
        Ok(())
    }

    fn shares(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [ours, rslock, floor] = Kind::ALL.map(Kind::name);
        writeln!(
            f,
            "| one server frozen: rate to one's own healthy rate | {ours} | {rslock} | {floor} |"
        )?;
        writeln!(f, "|---|--:|--:|--:|")?;
        for load in Load::ALL {
            let shares = Kind::ALL.map(|kind| significant(self.kept(kind, load).median));
            writeln!(f, "| {} | {} |", load.name(), shares.map(|s| format!("× {s}")).join(" | "))?;
        }
        Ok(())
    }

    fn aims(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let aims = [
            (
                "one task: time of a cycle to rslock's",
                self.to(Kind::Rslock, Load::Sequence, Condition::Healthy),
                Aim::AtMost(0.6),
            ),
            (
                "64 tasks: rate to rslock's",
                self.to(Kind::Rslock, Load::Tasks, Condition::Healthy),
                Aim::AtLeast(1.3),
            ),
            (
                "one task: rate with a frozen server to our healthy rate",
                self.kept(Kind::Ours, Load::Sequence),
                Aim::AtLeast(0.9),
            ),
            (
                "64 tasks: rate with a frozen server to our healthy rate",
                self.kept(Kind::Ours, Load::Tasks),
                Aim::AtLeast(0.9),
            ),
        ];
        writeln!(f, "| aim | at | median | all rounds | met |")?;
        writeln!(f, "|---|--:|--:|--:|:--|")?;
        for (name, spread, aim) in aims {
            let (limit, is_met) = match aim {
                Aim::AtMost(limit) => (format!("≤ {limit}"), spread.median <= limit),
                Aim::AtLeast(limit) => (format!("≥ {limit}"), spread.median >= limit),
            };
            let [median, least, most] = [spread.median, spread.least, spread.most].map(significant);
            let met = if is_met { "yes" } else { "**no**" };
            writeln!(f, "| {name} | {limit} | {median} | {least} to {most} | {met} |")?;
        }
        Ok(())
    }

    fn failures(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cycles that failed:")?;
        for kind in Kind::ALL {
            let outcomes = self.outcomes.iter().filter(|((of, ..), _)| *of == kind);
            let failed: u32 = outcomes.flat_map(|(_, all)| all).map(|one| one.failures).sum();
            write!(f, " {} {failed}", kind.name())?;
            f.write_str(if kind == Kind::Floor { "." } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.heading)?;
        self.speeds(f)?;
        writeln!(f)?;
        self.shares(f)?;
        writeln!(f)?;
        self.aims(f)?;
        writeln!(f)?;
        self.failures(f)
    }
}

/// What else the machine is doing before we begin, where the system tells.
fn foreign_load() -> Option<String> {
    let averages = std::fs::read_to_string("/proc/loadavg").ok()?;
    Some(format!(" (load {} before the start)", averages.split(' ').next()?))
}
