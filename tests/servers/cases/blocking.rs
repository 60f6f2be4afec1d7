//! Threads without a runtime.

use std::{
    thread,
    time::{Duration, Instant},
};

use tower_redlock::{LockError, blocking::Blocking, error::LossCause};

use crate::fixture::{HANG_GUARD, RedisServer, eventually, key, over, patient, urls};

fn manager(servers: &[RedisServer]) -> Blocking {
    let redlock = over(patient(), urls(servers)).build().unwrap().blocking();
    redlock.ready_within(HANG_GUARD).unwrap();
    redlock
}

fn keys(servers: &[RedisServer]) -> usize {
    servers.iter().filter(|server| server.exists(&key("x"))).count()
}

#[test]
fn key_exists_while_the_work_runs() {
    let servers = RedisServer::start_n(3);
    let redlock = manager(&servers);

    let during = redlock.lock("x").run(|_| keys(&servers)).unwrap();

    assert!(during >= 2, "{during}");
    assert!(keys(&servers) < 2, "a quorum has acknowledged the release");
    eventually("every key is gone", || keys(&servers) == 0);
}

#[test]
fn flag_is_up_by_the_end_over_frozen_servers() {
    const TTL: Duration = Duration::from_millis(500);
    let servers = RedisServer::start_n(3);
    let redlock = manager(&servers);
    let ended = redlock.lock("x").ttl(TTL).run(|cx| {
        servers.iter().for_each(RedisServer::freeze);
        let begun = Instant::now();
        let mut end = begun + TTL;
        loop {
            let asked = Instant::now();
            if !cx.is_valid() {
                break cx.ensure_valid();
            }
            assert!(asked < end, "valid {:?} after the end", asked - end);
            assert!(begun.elapsed() < HANG_GUARD, "it is renewed for ever");
            end = match cx.remaining() {
                Duration::ZERO => end,
                left => Instant::now() + left,
            };
            thread::yield_now();
        }
    });
    let Err(LockError::Lost { cause: LossCause::Expired { .. } }) = ended else {
        panic!("{ended:?}")
    };
    let refused = redlock.lock("y").acquire();
    assert!(matches!(refused, Err(LockError::NoQuorum { .. })), "{refused:?}");
}
