//! Many tasks at once, which wait, are cancelled at any moment, and hold the lock for some time or
//! not at all.

use std::{
    future::{Future, IntoFuture, poll_fn},
    pin::{Pin, pin},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::Poll,
    time::Duration,
};

use tower_redlock::{Lock, LockError, Redlock, node::EmbeddedNodes};

use crate::support::{HANG_GUARD, eventually_async};

const NODES: usize = 3;
const NAMES: [&str; 2] = ["a", "b"];
const TASKS: u64 = 24;
const STEPS: usize = 60;

/// A xorshift generator that selects a task's next step.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// The state of one name, as its holders see it.
#[derive(Default)]
struct Inside {
    taken: AtomicBool,
    last_token: AtomicU64,
    /// The context of the last holder, which must not be valid any more.
    former: Mutex<Option<tower_redlock::LockContext>>,
}

impl Inside {
    fn enter(&self, lock: &Lock) {
        assert!(!self.taken.swap(true, Ordering::SeqCst), "two are inside");
        let token = lock.fencing_token().get();
        let last = self.last_token.swap(token, Ordering::SeqCst);
        assert!(last < token, "{token} after {last}");
        let former = self.former.lock().unwrap().replace(lock.context());
        if let Some(former) = former {
            assert!(former.ensure_valid().is_err() && former.remaining().is_zero());
        }
    }

    fn leave(&self) {
        assert!(self.taken.swap(false, Ordering::SeqCst));
    }
}

/// Polls a future at most a number of times, then drops it.
async fn some_polls<F: Future>(future: F, polls: u64) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        let polled = Pin::new(&mut future).as_mut().poll(cx).map(Some);
        if polled.is_pending() {
            // Polls again, whatever woke the future.
            cx.waker().wake_by_ref();
        }
        polled
    })
    .await
}

async fn play(redlock: Redlock, inside: Arc<[Inside; 2]>, mut dice: Dice) -> u32 {
    let mut grants = 0;
    for _ in 0..STEPS {
        let which = usize::from(dice.roll(4) == 0);
        let request = redlock.lock(NAMES[which]);
        let request = match dice.roll(8) {
            0 => request.wait(Duration::ZERO),
            1 => request.wait(Duration::from_micros(dice.roll(2_000))),
            2 => request.wait(HANG_GUARD).ttl(Duration::from_secs(5)),
            _ => request.wait(HANG_GUARD),
        };
        let acquired = match dice.roll(6) {
            0 => some_polls(request.into_future(), dice.roll(5)).await,
            1 => {
                let limit = Duration::from_micros(dice.roll(1_500));
                tokio::time::timeout(limit, request.into_future()).await.ok()
            }
            _ => Some(request.await),
        };
        let lock = match acquired {
            Some(Ok(lock)) => lock,
            None | Some(Err(LockError::Held { .. })) => continue,
            Some(Err(LockError::WaitTimedOut { waited, .. })) if waited < HANG_GUARD => continue,
            Some(Err(other)) => panic!("{other}"),
        };
        grants += 1;
        inside[which].enter(&lock);
        match dice.roll(4) {
            0 => tokio::time::sleep(Duration::from_micros(dice.roll(300))).await,
            1 => {}
            _ => tokio::task::yield_now().await,
        }
        assert!(lock.is_valid());
        inside[which].leave();
        match dice.roll(4) {
            0 => drop(lock.release().await.unwrap()),
            1 => drop(lock.release()),
            _ => drop(lock),
        }
    }
    grants
}

async fn run(seed: u64) -> u32 {
    let nodes = EmbeddedNodes::new(NODES);
    let manager = || {
        let delay = Duration::from_micros(100)..=Duration::from_millis(2);
        Redlock::builder().nodes_from(&nodes).retry_delay(delay).build().unwrap()
    };
    let managers = [manager(), manager()];
    let inside = Arc::<[Inside; 2]>::default();
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let redlock = managers[usize::from(task % 3 == 0)].clone();
            let dice = Dice((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ ((task + 1) << 17));
            tokio::spawn(play(redlock, Arc::clone(&inside), dice))
        })
        .collect();
    let mut grants = 0;
    for task in tasks {
        // A waiter that is never woken would wait forever.
        grants += tokio::time::timeout(HANG_GUARD, task)
            .await
            .expect("each waiter is granted the lock")
            .unwrap();
    }
    eventually_async("every key is given back", async || nodes.key_counts() == [0; NODES]).await;
    for (redlock, name) in managers.iter().flat_map(|redlock| NAMES.map(|name| (redlock, name))) {
        drop(redlock.lock(name).await.expect("the lock is granted at once"));
    }
    grants
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn random_tasks_exclude_each_other() {
    for seed in 0..4 {
        let grants = run(seed).await;
        assert!(grants > 200, "{grants}");
    }
}
