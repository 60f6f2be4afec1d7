//! What the live view shows, and the changes that count.

use std::{iter::once, time::SystemTime};

use anstyle::Style;
use humantime::format_rfc3339_seconds;
use serde_json::{Value, json};
use tower_redlock::node::NodeHealth;

use super::listing::{Listing, node_table};
use crate::{
    client::{has_votes, quorum, voting},
    doctor::kind,
    output::{
        fit, paint,
        terminal::{BOLD, DIM, GREEN, RED, Size, YELLOW},
        unix_millis,
    },
};

const PLAIN: Style = Style::new();

/// All that is shown at one moment.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) at: SystemTime,
    pub(super) prefix: String,
    pub(super) nodes: Vec<NodeHealth>,
    /// Number of nodes of each set.
    pub(super) sets: Vec<usize>,
    /// `None` before the first reading.
    pub(super) listing: Option<Listing>,
}

impl View {
    /// Returns a text that differs after each change of the states of nodes or the holders of locks. Times do
    /// not count.
    pub(super) fn state(&self) -> String {
        let nodes: Vec<_> = self.nodes.iter().map(|node| kind(&node.state)).collect();
        let Some(listing) = &self.listing else { return format!("{nodes:?}") };
        let locks = listing.locks.iter().map(|lock| {
            (&lock.name, &lock.owner, lock.token, lock.kept, lock.is_quorum, lock.is_awaited)
        });
        let jobs = listing.jobs.iter().map(|job| (&job.name, job.state(), job.last_start()));
        let (locks, jobs) = (locks.collect::<Vec<_>>(), jobs.collect::<Vec<_>>());
        format!("{:?}", (nodes, locks, jobs, listing.error.is_some()))
    }

    pub(super) fn json(&self) -> Value {
        let node = |node: &NodeHealth| {
            let state = node.state.to_string();
            json!({ "name": &*node.name, "votes": node.is_voting(), "state": state })
        };
        json!({
            "at_unix_ms": unix_millis(self.at),
            "prefix": self.prefix,
            "voting": voting(&self.nodes),
            "quorum": self.needed(),
            "nodes": self.nodes.iter().map(node).collect::<Vec<_>>(),
            "locks": self.listing.as_ref().map(Listing::json),
        })
    }

    /// Returns the lines that fit on a screen; all of them without one.
    pub(super) fn lines(&self, size: Option<Size>) -> Vec<String> {
        let mut lines = self.head();
        let mut table = self.locks();
        // The last line is for the keys.
        let room = size.map_or(usize::MAX, |size| size.rows.saturating_sub(lines.len() + 1));
        if room < table.len() {
            let hidden = table.len() - room.saturating_sub(1);
            table.truncate(room.saturating_sub(1));
            if room > 0 {
                table.push((PLAIN, format!("… and {hidden} more")));
            }
        }
        lines.append(&mut table);
        if let Some(size) = size {
            lines.truncate(size.rows.saturating_sub(1));
            lines.push((DIM, "q: quit".into()));
            debug_assert!(lines.len() <= size.rows.max(1), "the view fits on the screen");
        }
        let columns = size.map_or(usize::MAX, |size| size.columns);
        lines.into_iter().map(|(style, line)| paint(style, &fit(&line, columns))).collect()
    }

    /// Returns the number of votes that a lock in each set needs together.
    fn needed(&self) -> usize {
        self.sets.iter().map(|nodes| quorum(*nodes)).sum()
    }

    fn head(&self) -> Vec<(Style, String)> {
        let empty = || (PLAIN, String::new());
        let (voting, nodes, needed) = (voting(&self.nodes), self.nodes.len(), self.needed());
        let votes = format!("{voting} of {nodes} nodes vote, {needed} are needed");
        let verdict = if !has_votes(&self.nodes, &self.sets, quorum) {
            (RED, format!("NO QUORUM: no locks at present; {votes}"))
        } else if voting < nodes {
            (YELLOW, format!("DEGRADED: locks work; {votes}"))
        } else {
            (GREEN, format!("LOCKS WORK: {votes}"))
        };
        let title = format!("{}  prefix {:?}", format_rfc3339_seconds(self.at), self.prefix);
        let nodes = self.nodes.iter();
        let styles = nodes.clone().map(|node| if node.is_voting() { PLAIN } else { RED });
        let table =
            node_table(nodes.map(|node| (&*node.name, node.round_trip, node.state.to_string())));
        let mut lines = vec![(DIM, title), verdict, empty()];
        lines.extend(titled(styles, &table));
        lines.push(empty());
        let Some(listing) = &self.listing else {
            lines.push((PLAIN, "reading the locks".into()));
            return lines;
        };
        let jobs = listing.job_lines();
        if !jobs.is_empty() {
            let style = |i| if i == 1 { BOLD } else { PLAIN };
            lines.extend(jobs.into_iter().enumerate().map(|(i, line)| (style(i), line)));
            lines.push(empty());
        }
        lines.push((if listing.error.is_some() { RED } else { PLAIN }, listing.summary()));
        lines
    }

    fn locks(&self) -> Vec<(Style, String)> {
        let Some(listing) = &self.listing else { return Vec::new() };
        let style = |is_quorum: bool| if is_quorum { PLAIN } else { YELLOW };
        let styles = listing.locks.iter().map(|lock| style(lock.is_quorum));
        titled(styles, &listing.lock_table(self.at)).collect()
    }
}

/// Gives the lines of a table below its titles these styles.
fn titled(
    styles: impl Iterator<Item = Style>,
    table: &str,
) -> impl Iterator<Item = (Style, String)> {
    once(BOLD).chain(styles).zip(table.lines().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use anstream::adapter::strip_str;

    use tower_redlock::{
        FencingToken, Redlock,
        error::Reason,
        node::{EmbeddedNodes, NodeState},
    };

    use super::*;
    use crate::locks::ls::tests::holder;

    fn plain(view: &View, size: Option<Size>) -> Vec<String> {
        view.lines(size).iter().map(|line| strip_str(line).to_string()).collect()
    }

    fn down_for(seconds: u64) -> NodeState {
        NodeState::Down { reason: Reason::TimedOut, since: Duration::from_secs(seconds) }
    }

    async fn view(locks: &[&str]) -> View {
        let nodes = EmbeddedNodes::new(3);
        let redlock = Redlock::builder().nodes_from(&nodes).build().unwrap();
        redlock.ready().await.unwrap();
        let mut nodes = redlock.health();
        for (node, name) in nodes.iter_mut().zip(["a", "b", "c\x1b[2J"]) {
            (node.name, node.round_trip) = (name.into(), Some(Duration::from_micros(120)));
        }
        (nodes[2].state, nodes[2].round_trip) = (down_for(3), None);
        let mut listing = Listing::default();
        for name in locks {
            let mut lock = holder().await;
            lock.name = (*name).into();
            (lock.since, lock.is_awaited) = (Some(UNIX_EPOCH), false);
            listing.locks.push(lock);
        }
        let at = UNIX_EPOCH + Duration::from_secs(5);
        let sets = vec![nodes.len()];
        View { at, prefix: "redlock".into(), nodes, sets, listing: Some(listing) }
    }

    #[tokio::test]
    async fn whole_view_without_screen() {
        let text = plain(&view(&["invoice:42", "x"]).await, None).join("\n");
        let expected = "\
1970-01-01T00:00:05Z  prefix \"redlock\"
DEGRADED: locks work; 2 of 3 nodes vote, 2 are needed

NODE        ROUND TRIP  STATE
a              120.0µs  voting
b              120.0µs  voting
c\\u{1b}[2J           -  down for 3.0s: timed out

2 locks
NAME        OWNER        TOKEN  HELD  ENDS IN  NODES  WAITERS
invoice:42  night-shift     17  5.0s     9.8s  5/5
x           night-shift     17  5.0s     9.8s  5/5";
        assert_eq!(text, expected);
    }

    #[tokio::test]
    async fn lines_fit_on_the_screen() {
        let names: Vec<_> = (0..50).map(|i| format!("{i}-{}", "n".repeat(60))).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        for rows in [1, 2, 5, 9, 10, 11, 24, 80] {
            for columns in [1, 20, 80] {
                let lines = plain(&view(&names).await, Some(Size { columns, rows }));
                assert!(lines.len() <= rows, "{} lines on {rows}", lines.len());
                let width = lines.iter().map(|line| crate::output::width(line)).max();
                assert!(width <= Some(columns), "{width:?} on {columns}");
            }
        }
        let lines = plain(&view(&names).await, Some(Size { columns: 80, rows: 24 }));
        assert_eq!(lines.len(), 24);
        // 9 lines of the head, the titles, 12 locks, and one line each for the rest and the keys.
        assert_eq!(lines[22], "… and 38 more");
        assert!(lines[21].starts_with("11-n"), "{lines:#?}");
        assert_eq!(lines[23], "q: quit");
    }

    #[tokio::test]
    async fn passing_time_does_not_count() {
        let before = view(&["x"]).await;
        let mut after = before.clone();
        after.at += Duration::from_secs(60);
        after.nodes[2].state = down_for(63);
        after.nodes[0].round_trip = Some(Duration::from_millis(1));
        after.listing.as_mut().unwrap().locks[0].remaining = Some(Duration::from_secs(3));
        assert_eq!(after.state(), before.state());

        after.nodes[0].state = down_for(0);
        assert_ne!(after.state(), before.state());
        assert_ne!(view(&["x", "y"]).await.state(), before.state());
        let mut next = before.clone();
        next.listing.as_mut().unwrap().locks[0].token = FencingToken::new(8);
        assert_ne!(next.state(), before.state());
    }

    #[tokio::test]
    async fn colours_mark_what_is_wrong() {
        let mut view = view(&["x"]).await;
        view.listing.as_mut().unwrap().locks[0].is_quorum = false;
        let lines = view.lines(None);
        assert!(lines[1].starts_with("\x1b[33mDEGRADED"), "{}", lines[1]);
        assert!(lines[6].starts_with("\x1b[31mc"), "{}", lines[6]);
        assert!(lines[10].starts_with("\x1b[33mx"), "{}", lines[10]);
        assert!(!lines[4].contains('\x1b'), "{}", lines[4]);
    }
}
