//! Log messages for operators.

use std::{convert::Infallible, time::Duration};

use tower_redlock::{Redlock, once::Once};

use crate::fixture::{Fixture, Log, LoggedSpawner, Proxy, connected, over};

const TTL: Duration = Duration::from_secs(1);

async fn proxied(fixture: &Fixture, log: &Log) -> Redlock {
    let builder = Redlock::builder().spawner(LoggedSpawner::start(log));
    let builder = over(builder, fixture.proxies.iter().map(Proxy::url));
    connected(builder.ttl(TTL).node_timeout(TTL / 10)).await
}

#[tokio::test]
async fn unrecorded_work_is_a_warning() {
    let (log, fixture) = (Log::new(), Fixture::new(3));
    let redlock = proxied(&fixture, &log).await;
    let run = redlock.once("order:7").run(|cx| {
        let token = cx.fencing_token();
        fixture.proxies.iter().for_each(Proxy::stall);
        async move { Ok::<_, Infallible>(token) }
    });
    let ended = run.await;
    let Ok(Once::RanUnrecorded(token, _)) = ended else { panic!("{ended:?}") };
    let parts = ["too few nodes stored its record", "once:order:7", &token.to_string()];
    log.wait_for("WARN", &parts).await;
}
