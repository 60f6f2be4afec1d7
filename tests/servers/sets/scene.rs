//! Two sets of three servers, and a name in each.

use tower_redlock::{Redlock, RedlockBuilder};

use crate::support::{RedisServer, all_vote, eventually_async, in_time, over, patient, urls};

/// Number of servers of a set.
pub(super) const EACH: usize = 3;

/// Two sets of servers.
pub(super) struct Sets {
    pub(super) servers: [Vec<RedisServer>; 2],
}

impl Sets {
    pub(super) fn start() -> Self {
        Self::of(RedisServer::start_n(2 * EACH))
    }

    fn of(mut servers: Vec<RedisServer>) -> Self {
        let second = servers.split_off(EACH);
        Self { servers: [servers, second] }
    }

    /// Returns a manager that is not connected yet. Servers vote at once.
    pub(super) fn build(&self, builder: impl Fn() -> RedlockBuilder) -> Redlock {
        let sets = self.servers.iter().map(|servers| over(builder(), urls(servers)));
        Redlock::sharded(sets).expect("valid settings")
    }

    /// Returns a manager whose nodes all vote.
    pub(super) async fn connect(&self, builder: impl Fn() -> RedlockBuilder) -> Redlock {
        let redlock = self.build(builder);
        all_vote(&redlock).await;
        redlock
    }

    /// Returns a manager under whose settings nothing expires.
    pub(super) async fn owner(&self, owner: &str) -> Redlock {
        self.connect(|| patient().owner(owner)).await
    }

    /// Returns a name in each set that begins with the prefix.
    pub(super) async fn names(&self, prefix: &str) -> [String; 2] {
        let redlock = self.owner("names").await;
        names(&redlock, &self.servers, prefix).await
    }

    /// Kills the servers of a set, and waits until the managers know it.
    pub(super) async fn take_down(&mut self, set: usize, managers: &[&Redlock]) {
        self.servers[set].iter_mut().for_each(RedisServer::kill);
        for redlock in managers {
            eventually_async("the set is down", async || {
                redlock.sets()[set].health().iter().all(|node| !node.is_voting())
            })
            .await;
        }
    }
}

/// Returns a name in each of the sets: its key is on servers of that set.
pub(super) async fn names<S: AsRef<[RedisServer]>>(
    redlock: &Redlock,
    sets: &[S; 2],
    prefix: &str,
) -> [String; 2] {
    let mut found = [None, None];
    for number in 0.. {
        let name = format!("{prefix}{number}");
        let lock = in_time(async { redlock.lock(name.as_str()).await }).await.expect("it is free");
        let key = format!("redlock:lock:{name}");
        let is_in = |set: &S| set.as_ref().iter().any(|server| server.exists(&key));
        let set = sets.iter().position(is_in).expect("one set has it");
        lock.release().await.expect("all servers are up");
        found[set].get_or_insert(name);
        if let [Some(first), Some(second)] = &found {
            return [first.clone(), second.clone()];
        }
    }
    unreachable!("a half of the names is in each set")
}
