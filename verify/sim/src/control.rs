//! Guards that can be disabled. The simulation detects the absence of each.

use std::ops::Range;

use tower_redlock::switches::Switch;

use crate::{
    oracle::{Promise, Violation},
    redis::Patch,
    world::{Contestant, List, Other, Profile, Scenario, Settings, Work, run},
};

/// A guard, and the conditions under which its absence is detected.
#[derive(Clone, Debug)]
pub struct Control {
    /// The name of the guard.
    pub name: &'static str,
    /// The settings that disable it.
    pub settings: Settings,
    /// The lock implementation.
    pub contestant: Contestant,
    /// The profile of faults that detects it.
    pub profile: Profile,
    /// The work that detects it.
    pub work: Work,
    /// The list of servers.
    pub list: List,
    /// The list of the last client, if it has another one.
    pub stray: Option<List>,
    /// The numbers of slots that clients use.
    pub slots: &'static [u32],
    /// Whether clients share names.
    pub shares: bool,
    /// The promise that is broken without it.
    pub breaks: Promise,
    /// Maximum number of seeds until it is detected.
    pub seeds: u64,
}

impl Control {
    /// The scenario of a seed.
    pub fn scenario(&self, seed: u64) -> Scenario {
        let mut scenario = Scenario::with(seed, self.profile, self.work);
        scenario.contestant = self.contestant;
        scenario.slots = self.slots.to_vec();
        scenario.shares = self.shares;
        scenario.list = self.list;
        scenario.other = self.stray.map(Other::LastClient);
        if self.list != List::Plain {
            // The third group is that of a list with more sets.
            (scenario.servers, scenario.groups) = (9, 3);
        } else if self.stray.is_some() {
            scenario.servers = 5;
        }
        match self.profile {
            Profile::Amnesia => (scenario.apart, scenario.gap) = (15_000_000, 300),
            Profile::Cuts => (scenario.ttl, scenario.gap, scenario.pace.most) = (400, 250, 16_000),
            Profile::Failovers => (scenario.ttl, scenario.gap, scenario.servers) = (1_500, 150, 3),
            Profile::Pauses => {
                (scenario.ttl, scenario.gap, scenario.pace.most) = (400, 120, 16_000);
            }
            Profile::Steps => (scenario.ttl, scenario.gap) = (400, 120),
            _ => {}
        }
        scenario
    }

    /// The first of these seeds that detects that the guard is missing.
    pub fn first(&self, mut seeds: Range<u64>) -> Option<(u64, Violation)> {
        seeds.find_map(|seed| {
            let violations = run(&self.scenario(seed), &self.settings).violations;
            let found = violations.into_iter().find(|found| found.promise == self.breaks);
            Some((seed, found?))
        })
    }
}

/// A control under these faults and with this work, without anything disabled yet.
fn control(
    name: &'static str,
    profile: Profile,
    work: Work,
    breaks: Promise,
    seeds: u64,
) -> Control {
    Control {
        name,
        settings: Settings::default(),
        contestant: Contestant::Crate,
        profile,
        work,
        list: List::Plain,
        stray: None,
        slots: &[],
        shares: false,
        breaks,
        seeds,
    }
}

/// A control of locks alone.
fn locks(name: &'static str, profile: Profile, breaks: Promise, seeds: u64) -> Control {
    control(name, profile, Work::Locks, breaks, seeds)
}

impl Control {
    /// Replaces these texts of the scripts.
    fn patched(mut self, patches: &[(&'static str, &'static str)]) -> Self {
        self.settings.patches = patches.iter().map(|(from, to)| Patch { from, to }).collect();
        self
    }

    /// Disables a guard of the client.
    fn without(mut self, switch: Switch) -> Self {
        self.settings.switch = Some(switch);
        self
    }

    /// Gives the last client another list.
    fn with_stray(self, list: List) -> Self {
        Self { stray: Some(list), ..self }
    }

    /// Makes the clients hold two slots of a name.
    fn with_slots(self) -> Self {
        Self { slots: &[2], ..self }
    }
}

/// Returns all guards, and contestants without guards.
pub fn controls() -> Vec<Control> {
    [safety(), sharing(), sets(), ends(), contestants()].concat()
}

fn safety() -> Vec<Control> {
    use Profile::{Amnesia, Clients, Clocks, Cuts, Evictions, Failovers, Network, Pauses, Servers};
    use Promise::{Done, Exclusion, Fencing, Once, OneStart};
    let late_deadline = "deadline at the end of an acquire";
    let once_majority = "majority, for work that is done once";
    let second_command = "second command of a plain acquire";
    vec![
        locks("compare on release", Clients, Exclusion, 10)
            .patched(&[("if value and string.sub(value, 1, 32) == ARGV[1] then", "if value then")]),
        locks("majority", Network, Exclusion, 10).without(Switch::Majority),
        control(once_majority, Network, Work::Once, Once, 40).without(Switch::Majority),
        locks(late_deadline, Pauses, Exclusion, 40).without(Switch::AcquireDeadline),
        locks("raise round", Servers, Fencing, 10).without(Switch::RaiseRound),
        locks("block ends", Network, Fencing, 10).patched(&[
            (
                "redis.call('ZADD', KEYS[1], ARGV[4], ARGV[6])",
                "redis.call('ZADD', KEYS[1], ARGV[3], ARGV[6])",
            ),
            (
                "for i = 6, #ARGV do redis.call('ZADD', KEYS[1], ARGV[4], ARGV[i]) end",
                "for i = 6, #ARGV do redis.call('ZADD', KEYS[1], ARGV[3], ARGV[i]) end",
            ),
            (
                "for i = 5, #ARGV do redis.call('ZADD', KEYS[1], ARGV[4], ARGV[i]) end",
                "for i = 5, #ARGV do redis.call('ZADD', KEYS[1], ARGV[3], ARGV[i]) end",
            ),
        ]),
        locks(second_command, Servers, Fencing, 40).without(Switch::SecondCommand),
        locks("restart probation", Servers, Exclusion, 80).without(Switch::Probation),
        // A promoted replica lacks the latest keys, or its former master still serves.
        locks("probation after a failover", Failovers, Exclusion, 160).without(Switch::Probation),
        locks("floor", Amnesia, Fencing, 60).without(Switch::Floor),
        locks("layout check", Network, Exclusion, 10)
            .without(Switch::LayoutCheck)
            .with_stray(List::Majority),
        locks("jump detection", Clocks, Exclusion, 160).without(Switch::JumpDetection),
        locks("allowance for steps", Profile::Steps, Exclusion, 40).without(Switch::StepAllowance),
        // A late claim also has a deadline.
        control("claim's promise", Cuts, Work::Jobs, OneStart, 60).patched(&[
            ("if tonumber(kept[1] or 0) > token then", "if false then"),
            ("if now > tonumber(ARGV[2]) then return {5, now} end\nlocal promise", "local promise"),
        ]),
        control("record's nonce", Evictions, Work::Once, Done, 120).patched(&[(
            "if not value or string.sub(value, 1, 32) ~= ARGV[3] then return {7, now} end\n",
            "",
        )]),
    ]
}

/// Returns the guards of names that are shared.
fn sharing() -> Vec<Control> {
    use Promise::{Exclusion, Fencing, Liveness};
    let shared =
        |name, breaks| Control { shares: true, ..locks(name, Profile::Network, breaks, 10) };
    vec![
        shared("exclusive lease, for a shared one", Exclusion).patched(&[(
            "return (held(KEYS[2], '', fence, ARGV[4]))",
            "redis.call('DEL', KEYS[2])",
        )]),
        shared("shared leases, for an exclusive one", Exclusion).patched(&[(
            "return held_shared(key, fence, mark)",
            "redis.call('DEL', key)\n    return nil, false",
        )]),
        shared("other shared leases on release", Exclusion).patched(&[(
            "redis.call('ZREM', KEYS[1], ARGV[1]) == 0",
            "redis.call('DEL', KEYS[1]) == 0",
        )]),
        shared("fence of a shared lease", Fencing).patched(&[(
            "if tonumber(fence) > tonumber(ARGV[3]) then return {2, fence} end\n  \
             if tonumber(fence) < tonumber(ARGV[3]) then",
            "if true then",
        )]),
        shared("mark of an exclusive request", Liveness).patched(&[(
            "if mark ~= '' and tonumber(ARGV[2]) > now then\n    \
             redis.pcall('ZADD', key, now + 2000 - 1e13, mark)",
            "if false then",
        )]),
        Control { seeds: 60, ..shared("end of a mark with its request", Liveness) }
            .patched(&[("and redis.call('ZREM', key, ARGV[1]) == 1 then", "and false then")]),
    ]
}

/// Returns the guards of several sets.
fn sets() -> Vec<Control> {
    let sets = |name| Control {
        list: List::Sets(2),
        ..locks(name, Profile::Network, Promise::Exclusion, 10)
    };
    let mut braces = sets("part of a name in braces");
    braces.settings.last_lacks = Some(Switch::Braces);
    vec![
        sets("place of a set, for another order")
            .without(Switch::Place)
            .with_stray(List::Rotated(2)),
        sets("place of a set, for a client without sets")
            .without(Switch::Place)
            .with_stray(List::First),
        sets("one list, for a set of new servers")
            .without(Switch::OneList)
            .with_stray(List::Sets(3)),
        braces,
    ]
}

/// Returns the guards that make work, keys, requests and waits end.
fn ends() -> Vec<Control> {
    use Profile::{Clients, Hangs, Network};
    use Promise::{Ends, HardStop, Liveness, NoDeadlock};
    vec![
        locks("hard stop", Clients, HardStop, 40).without(Switch::HardStop),
        locks("turns", Network, Liveness, 40).without(Switch::Turns),
        locks("turns of slots", Network, Liveness, 40).without(Switch::SlotTurns).with_slots(),
        locks("timeouts", Hangs, Ends, 40).without(Switch::Timeouts),
        locks("TTL of a key", Clients, NoDeadlock, 40).patched(&[
            (
                "pcall('SET', KEYS[2], ARGV[1], 'NX', 'PXAT', ARGV[2])",
                "pcall('SET', KEYS[2], ARGV[1], 'NX')",
            ),
            (
                "pcall('SET', key, ARGV[1] .. awaited[key], 'PXAT', ARGV[2])",
                "pcall('SET', key, ARGV[1] .. awaited[key])",
            ),
        ]),
        locks("end of a dead client's task", Profile::All, Liveness, 40)
            .patched(&[("and left > 0 and left <= LONGEST then", "then")]),
    ]
}

fn contestants() -> Vec<Control> {
    use Promise::{Exclusion, OneStart, Slots};
    vec![
        Control {
            contestant: Contestant::Naive,
            ..locks("naive Redlock", Profile::Servers, Exclusion, 10)
        },
        // Three holders of two slots, of whom each of three servers counts two.
        Control {
            contestant: Contestant::Counting,
            ..locks("slots by counting", Profile::Network, Slots, 10).with_slots()
        },
        Control {
            contestant: Contestant::LeaseOnly,
            ..control("scheduler with leases alone", Profile::Clients, Work::Jobs, OneStart, 20)
        },
    ]
}
