//! How a worker builds its client.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tower_redlock::node::redis::RestartGuard;
use tower_redlock_verify::locks::{Locks, Manner, builder};
use tower_redlock_verify::plain::{Plain, PlainOptions, Url};
use tower_redlock_verify::worker::Client;

use crate::servers::{PREFIX, master_by};

/// The prefix of the control's keys.
const PLAIN_PREFIX: &str = "plain";

/// Maximum age of the control's connections. Some of its processes find the new master while others
/// are connected to the former one, which stays a master for some 8 s.
const LIFETIME: Duration = Duration::from_secs(8);

/// TTL of the control's keys, longer than an election takes. Otherwise they expire before the
/// promoted server, which lacks some of them, is available.
const PLAIN_TTL: Duration = Duration::from_secs(5);

/// Timeout of the control for its only server.
const PLAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// Returns the words for this crate over nodes with these URLs.
pub(crate) fn redlock(urls: [String; 3], is_guarded: bool) -> Vec<String> {
    let kind = if is_guarded { "guarded" } else { "unguarded" };
    [kind.into()].into_iter().chain(urls).collect()
}

/// Returns the words for the control, with the master that these Sentinels report.
pub(crate) fn plain(sentinels: &[SocketAddr]) -> Vec<String> {
    let sentinels = sentinels.iter().map(SocketAddr::to_string);
    ["plain".into()].into_iter().chain(sentinels).collect()
}

pub(crate) fn connect(worker: usize, words: &[String]) -> Result<Client, String> {
    let (kind, places) = words.split_first().ok_or("no kind of client")?;
    let guard = match kind.as_str() {
        "guarded" => RestartGuard::Probation,
        "unguarded" => RestartGuard::Off,
        "plain" => {
            let locks = Locks::Plain(Arc::new(connect_plain(worker, places)?));
            return Ok(Client { locks, manner: Manner::Exclusive });
        }
        other => return Err(format!("unknown client: {other}")),
    };
    let built = builder(worker, PREFIX).nodes(places).restart_guard(guard).build();
    let locks = Locks::Redlock(built.map_err(|error| error.to_string())?);
    Ok(Client { locks, manner: Manner::Exclusive })
}

/// Creates a lock on one server: the master that a Sentinel reports when a connection is opened.
fn connect_plain(worker: usize, sentinels: &[String]) -> Result<Plain, String> {
    let sentinels = sentinels.iter().map(|sentinel| sentinel.parse());
    let sentinels: Vec<SocketAddr> =
        sentinels.collect::<Result<_, _>>().map_err(|error| format!("{error}"))?;
    let options = PlainOptions {
        ttl: PLAIN_TTL,
        node_timeout: PLAIN_TIMEOUT,
        prefix: PLAIN_PREFIX,
        lifetime: Some(LIFETIME),
        seed: u64::try_from(worker).expect("a small number"),
    };
    let resolve = move || {
        let master = sentinels.iter().find_map(|&sentinel| master_by(sentinel));
        master.map(|master| format!("redis://{master}")).ok_or("no Sentinel answers".to_owned())
    };
    Ok(Plain::new([Box::new(resolve) as Url], options))
}
