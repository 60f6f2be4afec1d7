//! The rule as a whole, and with each of its parts left out.

use super::{
    rule::{Part, Rule},
    search::{Search, shorten},
    world::{Faults, Setup},
};

fn setup(names: usize, rule: Rule) -> Setup {
    Setup {
        names,
        machines: 2,
        ttl: 3,
        rule,
        faults: Faults { moves: 3, blank_restarts: 1, restarts: 1, crashes: 1, cuts: 2 },
        at_once: if names % 2 == 1 { (names - 1) / 2 } else { 1 },
        blank: false,
        split_lookups: true,
        locks: true,
    }
}

fn env(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

#[test]
fn explore() {
    let names = env("N", 3) as usize;
    let walks = env("WALKS", 20000);
    let bootstrap = env("BOOT", 0) == 1;
    let mut parts = vec![None];
    for part in [
        Part::Views,
        Part::EnoughWitnesses,
        Part::ActiveWitnesses,
        Part::AgreeingWitnesses,
        Part::Merge,
        Part::Wait,
        Part::ViewsOnExtensions,
        Part::Fences,
        Part::NoExtensionsInProbation,
        Part::WitnessTags,
        Part::ActivationTag,
        Part::Epochs,
        Part::DisplacedNotDriven,
        Part::WholeStarts,
    ] {
        parts.push(Some(part));
    }
    let only = std::env::var("PART").ok();
    for without in parts {
        if only.as_ref().is_some_and(|p| *p != format!("{without:?}")) {
            continue;
        }
        let mut setup = setup(names, Rule { without, bootstrap });
        setup.machines = env("M", 2) as usize;
        setup.split_lookups = env("SPLIT", 1) == 1;
        setup.ttl = env("TTL", 3) as u16;
        setup.at_once = env("ATONCE", setup.at_once as u64) as usize;
        setup.locks = env("LOCKS", 1) == 1;
        setup.blank = env("BLANK", 0) == 1;
        setup.faults.moves = env("MOVES", 3) as u8;
        setup.faults.restarts = env("RESTARTS", 1) as u8;
        setup.faults.blank_restarts = env("BLANKS", 1) as u8;
        setup.faults.crashes = env("CRASHES", 1) as u8;
        setup.faults.cuts = env("CUTS", 2) as u8;
        let start = std::time::Instant::now();
        let mut best: Option<Vec<_>> = None;
        for more in 0..env("MORE", 1) {
            let start = std::time::Instant::now();
            let mut search = Search::new(setup, env("SEED", 1) + more);
            let found = search.run(walks, env("LEN", 20) as usize);
            println!("{without:?}: {:?} {} walks {} steps {} outlines {:?}", found.as_ref().map(|f| f.violation), search.walks, search.steps, search.outlines(), start.elapsed());
            if let Some(found) = found {
                let s = shorten(setup, &found.trace);
                if best.as_ref().is_none_or(|b| s.len() < b.len()) { best = Some(s); }
            }
        }
        if let Some(best) = best {
            println!("   shortest {}", best.len());
            if env("TRACE", 0) == 1 { for s in best { println!("   {s:?}"); } }
        }
    }
}

#[test]
fn liveness() {
    let names = env("N", 3) as usize;
    let mut setup = setup(names, Rule { without: None, bootstrap: env("BOOT", 0) == 1 });
    setup.locks = false;
    setup.faults.moves = env("MOVES", 3) as u8;
    setup.faults.restarts = env("RESTARTS", 1) as u8;
    setup.faults.blank_restarts = env("BLANKS", 1) as u8;
    setup.at_once = env("ATONCE", setup.at_once as u64) as usize;
    let mut search = Search::new(setup, env("SEED", 1));
    let found = search.run(env("WALKS", 20000), 20);
    for ticks in [6, 7, 8, 10, 12, 16, 30] {
        let (stuck, of, trace) = search.stuck(ticks);
        println!("N {names} found {} ticks {ticks}: stuck {stuck} of {of}", found.is_some());
        if ticks == env("SHOW", 12) as usize {
            for s in trace.unwrap_or_default() { println!("   {s:?}"); }
        }
    }
}
