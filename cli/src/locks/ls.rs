//! `redlock ls`: all locks, as they are read, as rows of a table or objects of JSON.

use std::time::SystemTime;

use futures_util::TryStreamExt;
use serde_json::{Value, json};
use tower_redlock::{Resource, lock::Holder};

use super::{
    readers::{owners, with_readers},
    slot::with_slot,
};
use crate::{
    client::Client,
    exit::Failure,
    glob::Glob,
    options::SharedArgs,
    output::{Table, millis, print, print_json_line, say, short, shown, unix_millis},
};

/// Lists the locks that are held
///
/// Reads the servers in small steps, so that locks are not delayed. A lock that is acquired or released
/// meanwhile may be missing. Keys that only a minority of the nodes keeps are marked: an attempt is under
/// way, or a client crashed. Prints one object per line with
/// --json.
#[derive(Debug, clap::Args)]
pub(crate) struct LsArgs {
    /// Only names that match: * is any text, ? is any character, \ takes the next one as it is
    ///
    /// A slot matches by its own name, such as slot:3:export, and by the name that it belongs to.
    #[arg(default_value = "*")]
    glob: Glob,
}

pub(crate) async fn ls(shared: &SharedArgs, args: &LsArgs) -> Result<(), Failure> {
    let client = Client::reading(shared).await?;
    let mut locks = std::pin::pin!(client.redlock.locks());
    let mut table = Table::new(COLUMNS);
    let ended = loop {
        let holder = match locks.try_next().await {
            Ok(Some(holder)) => holder,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        if !is_wanted(&args.glob, &holder.name) {
            continue;
        }
        if shared.json {
            print_json_line(&lock_json(&holder))?;
        } else {
            print(&table.row(lock_cells(&holder, SystemTime::now())))?;
        }
    };
    print(&table.end())?;
    if ended.is_err() {
        say("redlock: locks may be missing from this list");
    }
    Ok(ended?)
}

fn is_wanted(glob: &Glob, name: &str) -> bool {
    glob.matches(name) || Resource::slot_of(name).is_some_and(|(_, of)| glob.matches(of))
}

/// The columns of [`lock_cells`].
pub(crate) const COLUMNS: [&str; 7] =
    ["NAME", "OWNER", ">TOKEN", ">HELD", ">ENDS IN", "NODES", "WAITERS"];

pub(crate) fn lock_cells(holder: &Holder, now: SystemTime) -> [String; 7] {
    let nodes = format!("{}/{}", holder.kept, holder.votes.len());
    // Zero for a holder whose clock is ahead of ours.
    let held = holder.since.map(|at| short(now.duration_since(at).unwrap_or_default()));
    let token = Some(holder.token.get()).filter(|token| *token > 0);
    [
        shown(&Resource::display_name(&holder.name)),
        owners(holder, "(foreign key)"),
        token.map_or_else(|| "-".into(), |token| token.to_string()),
        held.unwrap_or_else(|| "-".into()),
        holder.remaining.map_or_else(|| "never".into(), short),
        if holder.is_quorum { nodes } else { nodes + " minority" },
        match &holder.waiter {
            Some(waiter) => shown(waiter),
            None => if holder.is_awaited { "yes" } else { "" }.into(),
        },
    ]
}

pub(crate) fn lock_json(holder: &Holder) -> Value {
    let json = json!({
        "name": &*holder.name,
        "owner": holder.owner.as_deref(),
        "token": holder.token.get(),
        "since_unix_ms": holder.since.and_then(unix_millis),
        "remaining_ms": holder.remaining.map(millis),
        "quorum": holder.is_quorum,
        "awaited": holder.is_awaited,
        "lingers": holder.lingers,
        "kept": holder.kept,
        "nodes": holder.votes.len(),
    });
    with_slot(with_readers(json, holder), &holder.name)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use tower_redlock::{FencingToken, Redlock, node::EmbeddedNodes};

    use super::*;

    /// A lock with fixed values.
    pub(crate) async fn holder() -> Holder {
        let redlock = Redlock::embedded();
        let _lock = redlock.lock("a").await.unwrap();
        let mut holder = redlock.inspect("a").await.unwrap().unwrap();
        holder.name = "invoice:42".into();
        holder.owner = Some("night-shift".into());
        holder.token = FencingToken::new(17);
        holder.since = Some(UNIX_EPOCH + Duration::from_secs(100));
        holder.remaining = Some(Duration::from_millis(9_870));
        holder.is_awaited = true;
        holder
    }

    #[tokio::test]
    async fn cells_of_a_lock() {
        let holder = holder().await;
        let now = UNIX_EPOCH + Duration::from_secs(175);
        let nodes = format!("{0}/{0}", holder.votes.len());
        let cells = ["invoice:42", "night-shift", "17", "1m15s", "9.8s", &nodes, "yes"];
        assert_eq!(lock_cells(&holder, now), cells);
        // A holder whose clock is ahead.
        assert_eq!(lock_cells(&holder, UNIX_EPOCH)[3], "0ms");
    }

    #[tokio::test]
    async fn cells_of_a_foreign_minority() {
        let mut holder = holder().await;
        holder.name = "odd\u{202e}".into();
        holder.owner = None;
        holder.token = FencingToken::new(0);
        (holder.since, holder.remaining) = (None, None);
        (holder.kept, holder.is_quorum, holder.is_awaited) = (0, false, false);
        let nodes = format!("0/{} minority", holder.votes.len());
        let cells = [r"odd\u{202e}", "(foreign key)", "-", "-", "never", &nodes, ""];
        assert_eq!(lock_cells(&holder, UNIX_EPOCH), cells);
        assert_eq!(lock_json(&holder)["owner"], Value::Null);
        assert_eq!(lock_json(&holder)["name"], "odd\u{202e}");
    }

    #[tokio::test]
    async fn slots_are_shown_by_name_and_number() {
        let mut holder = holder().await;
        assert_eq!(lock_json(&holder)["slot"], Value::Null);
        assert_eq!(lock_json(&holder)["slot_of"], Value::Null);
        holder.name = "slot:3:export".into();

        let json = lock_json(&holder);

        assert_eq!(lock_cells(&holder, UNIX_EPOCH)[0], "export, slot 3");
        assert_eq!(json["name"], "slot:3:export");
        assert_eq!((&json["slot"], &json["slot_of"]), (&3.into(), &"export".into()));
    }

    #[test]
    fn slots_match_by_both_names() {
        let is_wanted = |glob: &str, name| is_wanted(&glob.parse().unwrap(), name);
        for glob in ["export", "exp*", "slot:3:*", "slot:*:export", "*"] {
            assert!(is_wanted(glob, "slot:3:export"), "{glob}");
        }
        for glob in ["slot:4:*", "slot", "report"] {
            assert!(!is_wanted(glob, "slot:3:export"), "{glob}");
        }
    }

    #[tokio::test]
    async fn readers_are_in_place_of_the_owner() {
        let redlock = Redlock::builder().nodes_from(&EmbeddedNodes::new(1)).owner("p").build();
        let redlock = redlock.unwrap();
        let _reader = redlock.lock("a").shared().await.unwrap();
        let holder = redlock.inspect("a").await.unwrap().unwrap();

        let (cells, json) = (lock_cells(&holder, UNIX_EPOCH), lock_json(&holder));

        assert_eq!((&*cells[1], &*cells[2]), ("1 reader: p", "-"));
        assert_eq!((&json["mode"], &json["readers"]), (&"shared".into(), &1.into()));
        assert_eq!(lock_json(&super::tests::holder().await)["mode"], "exclusive");
    }

    #[tokio::test]
    async fn owners_are_escaped() {
        let mut holder = holder().await;
        holder.owner = Some("a\x1b[2Jb\n".into());
        assert_eq!(lock_cells(&holder, UNIX_EPOCH)[1], r"a\u{1b}[2Jb\n");
    }
}
