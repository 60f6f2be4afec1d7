//! The behaviour of the simulated network.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tower_redlock_sim::{
    net::{EPOCH, Net, ServerHost, SimConnector},
    redis::{Server, Value},
    rng::Rng,
    trace::Trace,
};

/// Runs a command over a new connection, and waits until no message is in flight.
async fn run_once_over(net: &Net, command: &[u8]) {
    let delivery = tokio::spawn(net.clone().run());
    let mut stream = SimConnector::new(net, 0).open(0).await.expect("the server listens");
    stream.write_all(command).await.expect("the connection is open");
    let mut reply = [0; 4];
    stream.read_exact(&mut reply).await.expect("a reply");
    assert_eq!(&reply, b":1\r\n", "the first of two commands has this reply");
    tokio::time::sleep(Duration::from_secs(5)).await;
    delivery.abort();
}

fn network(seed: u64) -> Net {
    let server = ServerHost::new(Server::new("a".repeat(40), "b".repeat(40)));
    Net::new(1, vec![server], Rng::of(seed, 1), Trace::new(false))
}

/// The items of the list under the key `k`.
fn list(net: &Net) -> Vec<String> {
    let millis = i64::try_from(EPOCH / 1_000).expect("a time");
    let lists = net.servers(|host, _| match host.server.store.get(b"k", millis) {
        Some(Value::List(items)) => items.clone(),
        _ => Vec::new(),
    });
    lists[0].iter().map(|item| String::from_utf8_lossy(item).into_owned()).collect()
}

#[tokio::test(start_paused = true)]
async fn doubled_connection_runs_commands_twice() {
    let push = b"*3\r\n$5\r\nRPUSH\r\n$1\r\nk\r\n$1\r\nv\r\n";
    for (is_doubled, runs) in [(false, 1), (true, 2)] {
        let net = network(1);
        net.double(0, 0, is_doubled);
        run_once_over(&net, push).await;
        assert_eq!(list(&net).len(), runs);
    }
}

/// Kept messages are resent after some time, and messages in flight at that moment stay after them.
#[tokio::test(start_paused = true)]
async fn partition_keeps_segments_in_order() {
    for seed in 0..200 {
        let net = network(seed);
        let delivery = tokio::spawn(net.clone().run());
        let mut stream = SimConnector::new(&net, 0).open(0).await.expect("the server listens");
        net.block(0, 0, true, false);
        for number in 1..=40 {
            let push = format!("*3\r\n$5\r\nRPUSH\r\n$1\r\nk\r\n$2\r\n{number:02}\r\n");
            if stream.write_all(push.as_bytes()).await.is_err() {
                break;
            }
            tokio::time::sleep(Duration::from_micros(150)).await;
            if number == 20 {
                net.block(0, 0, false, false);
            }
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        delivery.abort();
        let expected: Vec<_> = (1..=40).map(|number| format!("{number:02}")).collect();
        let stored = list(&net);
        assert_eq!(stored, expected[..stored.len()], "seed {seed}");
    }
}
