//! Guards that can be disabled. The simulation detects the absence of each.

use tower_redlock::switches::Switch;

use crate::{
    oracle::Promise,
    redis::Patch,
    world::{Contestant, List, Other, Profile, Scene, Settings, Work},
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
    /// The scene of a seed.
    pub fn scene(&self, seed: u64) -> Scene {
        let mut scene = Scene::with(seed, self.profile, self.work);
        scene.contestant = self.contestant;
        scene.slots = self.slots.to_vec();
        scene.shares = self.shares;
        scene.list = self.list;
        scene.other = self.stray.map(Other::LastClient);
        if self.list != List::Plain {
            // The third group is that of a list with more sets.
            (scene.servers, scene.groups) = (9, 3);
        } else if self.stray.is_some() {
            scene.servers = 5;
        }
        if self.profile == Profile::Amnesia {
            (scene.apart, scene.gap) = (15_000_000, 300);
        }
        if self.profile == Profile::Cuts {
            (scene.ttl, scene.gap, scene.pace.most) = (400, 250, 16_000);
        }
        if self.profile == Profile::Failovers {
            (scene.ttl, scene.gap, scene.servers) = (1_500, 150, 3);
        }
        if self.profile == Profile::Pauses {
            (scene.ttl, scene.gap, scene.pace.most) = (400, 120, 16_000);
        }
        if self.profile == Profile::Steps {
            (scene.ttl, scene.gap) = (400, 120);
        }
        scene
    }
}

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

fn patched(mut control: Control, patches: &[(&'static str, &'static str)]) -> Control {
    let patches = patches.iter().map(|(from, to)| Patch { from, to }).collect();
    control.settings.patches = patches;
    control
}

fn switched(mut control: Control, switch: Switch) -> Control {
    control.settings.switch = Some(switch);
    control
}

/// Returns all guards, and contestants without guards.
pub fn controls() -> Vec<Control> {
    [safety(), sharing(), sets(), ends(), contestants()].concat()
}

fn safety() -> Vec<Control> {
    use Promise::{Done, Exclusion, Fencing, Once, OneStart};
    vec![
        patched(
            control("compare on release", Profile::Clients, Work::Locks, Exclusion, 10),
            &[("if value and string.sub(value, 1, 32) == ARGV[1] then", "if value then")],
        ),
        switched(
            control("majority", Profile::Network, Work::Locks, Exclusion, 10),
            Switch::Majority,
        ),
        switched(
            control("majority, for work that is done once", Profile::Network, Work::Once, Once, 40),
            Switch::Majority,
        ),
        switched(
            control(
                "deadline at the end of an acquire",
                Profile::Pauses,
                Work::Locks,
                Exclusion,
                40,
            ),
            Switch::AcquireDeadline,
        ),
        switched(
            control("raise round", Profile::Servers, Work::Locks, Fencing, 10),
            Switch::RaiseRound,
        ),
        patched(
            control("block ends", Profile::Network, Work::Locks, Fencing, 10),
            &[
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
            ],
        ),
        switched(
            control(
                "second command of a plain acquire",
                Profile::Servers,
                Work::Locks,
                Fencing,
                40,
            ),
            Switch::SecondCommand,
        ),
        switched(
            control("restart probation", Profile::Servers, Work::Locks, Exclusion, 80),
            Switch::Probation,
        ),
        // A promoted replica lacks the latest keys, or its former master still serves.
        switched(
            control("probation after a failover", Profile::Failovers, Work::Locks, Exclusion, 160),
            Switch::Probation,
        ),
        switched(control("floor", Profile::Amnesia, Work::Locks, Fencing, 60), Switch::Floor),
        Control {
            stray: Some(List::Majority),
            ..switched(
                control("layout check", Profile::Network, Work::Locks, Exclusion, 10),
                Switch::LayoutCheck,
            )
        },
        switched(
            control("jump detection", Profile::Clocks, Work::Locks, Exclusion, 160),
            Switch::JumpDetection,
        ),
        switched(
            control("allowance for steps", Profile::Steps, Work::Locks, Exclusion, 40),
            Switch::StepAllowance,
        ),
        // A late claim also has a deadline.
        patched(
            control("claim's promise", Profile::Cuts, Work::Jobs, OneStart, 60),
            &[
                ("if tonumber(kept[1] or 0) > token then", "if false then"),
                (
                    "if now > tonumber(ARGV[2]) then return {5, now} end\nlocal promise",
                    "local promise",
                ),
            ],
        ),
        patched(
            control("record's nonce", Profile::Evictions, Work::Once, Done, 120),
            &[(
                "if not value or string.sub(value, 1, 32) ~= ARGV[3] then return {7, now} end\n",
                "",
            )],
        ),
    ]
}

/// Returns the guards of names that are shared.
fn sharing() -> Vec<Control> {
    use Promise::{Exclusion, Fencing, Liveness};
    let shared = |name, breaks, patches: &[(&'static str, &'static str)]| Control {
        shares: true,
        ..patched(control(name, Profile::Network, Work::Locks, breaks, 10), patches)
    };
    vec![
        shared(
            "exclusive lease, for a shared one",
            Exclusion,
            &[("return (held(KEYS[2], '', fence, ARGV[4]))", "redis.call('DEL', KEYS[2])")],
        ),
        shared(
            "shared leases, for an exclusive one",
            Exclusion,
            &[(
                "return held_shared(key, fence, mark)",
                "redis.call('DEL', key)\n    return nil, false",
            )],
        ),
        shared(
            "other shared leases on release",
            Exclusion,
            &[("redis.call('ZREM', KEYS[1], ARGV[1]) == 0", "redis.call('DEL', KEYS[1]) == 0")],
        ),
        shared(
            "fence of a shared lease",
            Fencing,
            &[(
                "if tonumber(fence) > tonumber(ARGV[3]) then return {2, fence} end\n  \
                 if tonumber(fence) < tonumber(ARGV[3]) then",
                "if true then",
            )],
        ),
        shared(
            "mark of an exclusive request",
            Liveness,
            &[(
                "if mark ~= '' and tonumber(ARGV[2]) > now then\n    redis.pcall('ZADD', key, now + 2000 - 1e13, mark)",
                "if false then",
            )],
        ),
        Control {
            seeds: 60,
            ..shared(
                "end of a mark with its request",
                Liveness,
                &[("and redis.call('ZREM', key, ARGV[1]) == 1 then", "and false then")],
            )
        },
    ]
}

/// Returns the guards of several sets.
fn sets() -> Vec<Control> {
    let sets = |name, breaks| Control {
        list: List::Sets(2),
        ..control(name, Profile::Network, Work::Locks, breaks, 10)
    };
    let stray = |name, list, switch| Control {
        stray: Some(list),
        ..switched(sets(name, Promise::Exclusion), switch)
    };
    let mut braces = sets("part of a name in braces", Promise::Exclusion);
    braces.settings.last_lacks = Some(Switch::Braces);
    vec![
        stray("place of a set, for another order", List::Rotated(2), Switch::Place),
        stray("place of a set, for a client without sets", List::First, Switch::Place),
        stray("one list, for a set of new servers", List::Sets(3), Switch::OneList),
        braces,
    ]
}

/// Returns the guards that make work, keys, requests and waits end.
fn ends() -> Vec<Control> {
    use Promise::{Ends, HardStop, Liveness, NoDeadlock};
    vec![
        switched(
            control("hard stop", Profile::Clients, Work::Locks, HardStop, 40),
            Switch::HardStop,
        ),
        switched(control("turns", Profile::Network, Work::Locks, Liveness, 40), Switch::Turns),
        Control {
            slots: &[2],
            ..switched(
                control("turns of slots", Profile::Network, Work::Locks, Liveness, 40),
                Switch::SlotTurns,
            )
        },
        switched(control("timeouts", Profile::Hangs, Work::Locks, Ends, 40), Switch::Timeouts),
        patched(
            control("TTL of a key", Profile::Clients, Work::Locks, NoDeadlock, 40),
            &[
                (
                    "pcall('SET', KEYS[2], ARGV[1], 'NX', 'PXAT', ARGV[2])",
                    "pcall('SET', KEYS[2], ARGV[1], 'NX')",
                ),
                (
                    "pcall('SET', key, ARGV[1] .. awaited[key], 'PXAT', ARGV[2])",
                    "pcall('SET', key, ARGV[1] .. awaited[key])",
                ),
            ],
        ),
        patched(
            control("end of a dead client's task", Profile::All, Work::Locks, Liveness, 40),
            &[("and left > 0 and left <= LONGEST then", "then")],
        ),
    ]
}

fn contestants() -> Vec<Control> {
    use Promise::{Exclusion, OneStart, Slots};
    vec![
        Control {
            contestant: Contestant::Naive,
            ..control("naive Redlock", Profile::Servers, Work::Locks, Exclusion, 10)
        },
        // Three holders of two slots, of whom each of three servers counts two.
        Control {
            contestant: Contestant::Counting,
            slots: &[2],
            ..control("slots by counting", Profile::Network, Work::Locks, Slots, 10)
        },
        Control {
            contestant: Contestant::LeaseOnly,
            ..control("scheduler with leases alone", Profile::Clients, Work::Jobs, OneStart, 20)
        },
    ]
}
