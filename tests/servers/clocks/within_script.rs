//! Under the strict clock guard, a server's clock jumps while a script runs: after the script has
//! read the clock, and before it uses the reading.

use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tower_redlock::{Redlock, RedlockBuilder};

use super::scene::{KEY, MINUTES, in_time};
use crate::support::{Feature, RedisServer, Resp, eventually, has, over};

const META: &str = "redlock:meta";
const LOOK: &str = "local now = time[1] * 1000000 + time[2]\n";
/// Logs that the clock was read, and continues when it has jumped. The server answers no client
/// meanwhile.
const AWAIT_JUMP: &str = "redis.log(redis.LOG_WARNING, 'looked at the clock')
local tries = 0
while redis.call('TIME')[1] - time[1] < 100 do
  tries = tries + 1
  if tries > 3000000 then return redis.error_reply('ERR the clock did not jump') end
end\n";

const HELPERS_BEGIN: &str = include_str!("../../../src/node/redis/scripts/helpers_begin.lua");
const HELPERS_END: &str = include_str!("../../../src/node/redis/scripts/helpers_end.lua");
const STRICT: &str = include_str!("../../../src/node/redis/scripts/strict.lua");
const RELEASE_KEYS: &str = include_str!("../../../src/node/redis/scripts/release_keys.lua");
const ACQUIRE: &str = include_str!("../../../src/node/redis/scripts/acquire.lua");
const EXTEND: &str = include_str!("../../../src/node/redis/scripts/extend.lua");

const HELD: i64 = 3;
const EXTENDED: i64 = 8;

fn strict() -> RedlockBuilder {
    let ttl = Duration::from_secs(20);
    Redlock::builder().ttl(ttl).node_timeout(ttl / 10).clock_guard(Duration::from_secs(1))
}

/// The script's reading of the clock.
fn guard(server: &RedisServer) -> String {
    let history = server.info("replication", "master_replid").expect("a master");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after the epoch").as_micros();
    let minute = 60_000_000;
    format!("{}{:016}{:016}", &history[..16], now - minute, now + minute)
}

/// Runs a script in which the clock jumps after it was read.
fn run(server: &RedisServer, script: &str, args: &[&str]) -> Vec<Resp> {
    let waiting = script.replacen(LOOK, &format!("{LOOK}{AWAIT_JUMP}"), 1);
    assert_ne!(waiting, script);
    let guard = guard(server);
    let mut command = vec!["EVAL", &waiting, "2", META, KEY];
    command.extend(args);
    command.push(&guard);
    let answer = thread::scope(|scope| {
        let answer = scope.spawn(|| server.cli(&command));
        eventually("the script runs", || server.log().contains("looked at the clock"));
        server.set_clock_offset_unseen(MINUTES);
        answer.join().expect("the server answers")
    });
    server.set_clock_offset(0.0);
    let answer = answer.items();
    // That of an acquire follows the time.
    match answer.get(2) {
        Some(Resp::Array(of_lease)) => of_lease.clone(),
        _ => answer,
    }
}

#[tokio::test]
async fn jump_within_script_ends_no_lease() {
    if !has(&[Feature::Clock, Feature::ExpiryTime]) {
        return;
    }
    let server = RedisServer::with_clock(&[]);
    let redlock = over(strict(), [server.url()]).build().unwrap();
    let lock = in_time(async { redlock.lock("a").await }).await.unwrap();

    let tag = server.cli(&["HGET", META, "tag"]).text();
    let nonce = "0".repeat(32);
    let value = format!("{nonce} 1 0 other");
    let deadline = "9007199254740991";
    let script = [HELPERS_BEGIN, RELEASE_KEYS, STRICT, HELPERS_END, ACQUIRE].concat();
    let args = [&tag, "f0", &nonce, "1", &value, "20000", deadline, "1", "256"];
    let answer = run(&server, &script, &args);
    assert_eq!(answer[0], Resp::Int(HELD), "{answer:?}");
    drop(lock);
}

#[tokio::test]
async fn lease_ends_despite_jump_within_script() {
    if !has(&[Feature::Clock, Feature::ExpiryTime]) {
        return;
    }
    let server = RedisServer::with_clock(&[]);
    let redlock = over(strict(), [server.url()]).build().unwrap();
    let lock = in_time(async { redlock.lock("a").auto_extend(false).await }).await.unwrap();

    let tag = server.cli(&["HGET", META, "tag"]).text();
    let value = String::from_utf8(server.get(KEY).expect("it is held")).unwrap();
    let args = [&tag, &value[..32], &value, "20000", "0"];
    let answer = run(&server, &[STRICT, EXTEND].concat(), &args);
    assert_eq!(answer[0], Resp::Int(EXTENDED), "{answer:?}");
    let lasts = Duration::from_millis(server.pttl(KEY).unsigned_abs());
    let day = Duration::from_secs(24 * 3600);
    assert!(lasts <= day + Duration::from_secs(20), "{lasts:?}");
    drop(lock);
}
