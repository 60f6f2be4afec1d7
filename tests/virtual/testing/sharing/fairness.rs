//! Readers and writers that contend.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use tower_redlock::{LockOptions, testing::ManualClock, time::Clock};

use crate::{
    durations::{MS, SECOND},
    fixture::Fixture,
};

/// What the tasks of a fixture do at this moment.
#[derive(Default)]
struct Now {
    readers: usize,
    writers: usize,
    most_readers: usize,
    grants: BTreeMap<(usize, bool), u32>,
    /// Number of turns of the writers, and of the readers. A turn is all grants of a process to its
    /// writers, one after the other, or all readers between two writers.
    turns: [u32; 2],
    /// The last process, and whether it reads.
    last: Option<(usize, bool)>,
    /// The longest wait of a writer, and of a reader, and the greatest number of turns of the others
    /// meanwhile.
    longest: [Duration; 2],
    passed: [u32; 2],
}

impl Now {
    /// Records a grant, after `before` turns of the other side at the request.
    fn granted(&mut self, process: usize, reads: bool, (before, waited): (u32, Duration)) {
        if reads {
            self.readers += 1;
        } else {
            self.writers += 1;
        }
        assert!(self.writers == 0 || self.readers == 0, "a reader beside a writer");
        assert!(self.writers <= 1, "two writers");
        self.most_readers = self.most_readers.max(self.readers);
        *self.grants.entry((process, reads)).or_default() += 1;
        let is_same = self.last.is_some_and(|last| last == (process, reads) || (reads && last.1));
        self.turns[usize::from(reads)] += u32::from(!is_same);
        self.last = Some((process, reads));
        let side = usize::from(reads);
        self.longest[side] = waited.max(self.longest[side]);
        self.passed[side] = self.passed[side].max(self.turns[1 - side] - before);
    }

    fn turns_of_others(&self, reads: bool) -> u32 {
        self.turns[usize::from(!reads)]
    }
}

/// Tasks of each process read and write again and again, for the same time or for random ones.
fn contend(fixture: &Fixture<3>, seed: u64, is_steady: bool) -> Arc<Mutex<Now>> {
    let now = Arc::<Mutex<Now>>::default();
    let mut tasks = Vec::new();
    for (process, redlock) in fixture.processes.iter().enumerate() {
        for task in 0..4_u32 {
            let (redlock, now) = (redlock.clone(), Arc::clone(&now));
            let clock = fixture.clock.clone();
            let reads = task > 0;
            let mut random = seed * 100 + process as u64 * 10 + u64::from(task);
            let mut time = move || {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let random = MS * u32::try_from((random >> 33) % 20).unwrap();
                if is_steady { MS * (2 + 3 * task) } else { random }
            };
            tasks.push(fixture.clock.spawn(async move {
                for round in 0.. {
                    let options = LockOptions::new().wait(600 * SECOND).shared(reads);
                    let asked = now_of(&clock);
                    let before = now.lock().unwrap().turns_of_others(reads);
                    let lock = redlock.lock("report").options(options).await.unwrap();
                    let waited = now_of(&clock).saturating_sub(asked);
                    now.lock().unwrap().granted(process, reads, (before, waited));
                    clock.sleep(time()).await;
                    {
                        let mut now = now.lock().unwrap();
                        if reads { now.readers -= 1 } else { now.writers -= 1 }
                    }
                    if reads || round % 2 == 0 {
                        drop(lock);
                    } else {
                        let lock = lock.downgrade().unwrap();
                        now.lock().unwrap().readers += 1;
                        assert_eq!(now.lock().unwrap().writers, 0, "a reader beside a writer");
                        clock.sleep(MS).await;
                        now.lock().unwrap().readers -= 1;
                        drop(lock);
                    }
                    clock.sleep(if is_steady { MS } else { MS + time() / 8 }).await;
                }
            }));
        }
    }
    fixture.clock.advance(4 * SECOND);
    now
}

fn now_of(clock: &ManualClock) -> Duration {
    Duration::from_nanos(clock.now().as_nanos())
}

#[test]
fn neither_side_starves() {
    for (seed, is_steady) in (0..8).flat_map(|seed| [(seed, true), (seed, false)]) {
        let fixture = Fixture::<3>::numbered(seed);

        let now = contend(&fixture, seed, is_steady);

        let now = now.lock().unwrap();
        println!(
            "seed {seed}: {:?}, {:?} turns, waits {:?}, for {:?} turns, {} readers",
            now.grants, now.turns, now.longest, now.passed, now.most_readers
        );
        assert!(now.most_readers > 3, "seed {seed}: readers of several processes");
        assert_eq!(now.grants.len(), 6, "seed {seed}: {:?}", now.grants);
        // With random times, 64 seeds had at most 5 turns of readers and 8 of writers.
        let most = if is_steady { 4 } else { 12 };
        assert!(now.passed.iter().all(|passed| *passed <= most), "seed {seed}: {:?}", now.passed);
    }
}
