//! The lock servers of `contrib/compose.yaml`, started by hand with the same arguments.

use tower_redlock::diagnosis::Verdict;

use crate::fixture::{
    RedisServer,
    guard::{settled, taken},
};

const FILE: &str = include_str!("../../../contrib/compose.yaml");

#[tokio::test]
async fn servers_of_the_compose_file_grant_locks() {
    let commands =
        FILE.lines().filter_map(|line| line.trim().strip_prefix("command: redis-server "));
    let commands: Vec<_> = commands.collect();
    let [arguments] = commands[..] else { panic!("{commands:?}") };
    let arguments: Vec<_> = arguments.split(' ').map(|it| it.trim_matches('"')).collect();
    let servers: Vec<_> = (0..3).map(|_| RedisServer::with(&arguments)).collect();

    let redlock = settled(&servers).await;

    let lock = taken(&redlock, "x").await;
    let diagnosis = redlock.diagnosis().await;
    assert_eq!(diagnosis.verdict(), Verdict::Healthy, "{diagnosis:?}");
    lock.release().await.unwrap();
}
