//! What the live view shows, and when that has changed.

use std::time::{Duration, SystemTime};

use humantime::format_rfc3339_seconds;
use serde_json::{Value, json};
use tower_redlock::node::NodeHealth;

use super::listing::Listing;
use crate::{
    doctor::kind,
    locks::COLUMNS,
    output::{Color, Column, Style, Table, fit, shown, terminal::Size, time, unix_millis},
    settle::quorum,
};

/// A node as the view shows it.
#[derive(Clone, Debug, PartialEq)]
struct NodeView {
    name: String,
    votes: bool,
    state: String,
    /// The state without its times.
    kind: String,
    round_trip: Option<Duration>,
}

/// All that is shown at one moment.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct View {
    at: SystemTime,
    prefix: String,
    nodes: Vec<NodeView>,
    /// `None` before the first reading.
    listing: Option<Listing>,
}

impl View {
    pub(super) fn new(
        at: SystemTime,
        prefix: &str,
        health: &[NodeHealth],
        listing: Option<Listing>,
    ) -> Self {
        let node = |node: &NodeHealth| NodeView {
            name: node.name.to_string(),
            votes: node.is_voting(),
            state: node.state.to_string(),
            kind: kind(&node.state),
            round_trip: node.round_trip,
        };
        Self { at, prefix: prefix.into(), nodes: health.iter().map(node).collect(), listing }
    }

    /// Returns what changes count: the states of the nodes and the holders of the locks, not times.
    pub(super) fn state(&self) -> String {
        let nodes = self.nodes.iter().map(|node| format!("{}\n", node.kind));
        let locks = self.listing.iter().flat_map(|listing| &listing.locks);
        let lock = |lock: &crate::locks::LockRow| {
            format!(
                "{:?}\n",
                (&lock.name, &lock.owner, lock.token, lock.kept, lock.is_quorum, lock.is_awaited)
            )
        };
        let jobs = self.listing.iter().flat_map(|listing| &listing.jobs);
        let job = |job: &crate::jobs::JobRow| {
            format!("{:?}\n", (&job.name, job.state(), job.last_start()))
        };
        let error = self.listing.as_ref().and_then(|listing| listing.error.as_deref());
        let error = error.map(|_| "error".to_owned());
        nodes.chain(locks.map(lock)).chain(jobs.map(job)).chain(error).collect()
    }

    pub(super) fn json(&self) -> Value {
        let node = |node: &NodeView| json!({ "name": node.name, "votes": node.votes, "state": node.state });
        json!({
            "at_unix_ms": unix_millis(self.at),
            "prefix": self.prefix,
            "voting": self.voting(),
            "quorum": quorum(self.nodes.len()),
            "nodes": self.nodes.iter().map(node).collect::<Vec<_>>(),
            "locks": self.listing.as_ref().map(Listing::json),
        })
    }

    /// Returns the lines that fit on a screen; all of them without one.
    pub(super) fn lines(&self, size: Option<Size>, style: Style) -> Vec<String> {
        let mut lines = self.head();
        let mut table = self.locks();
        // The last line is for the keys.
        let room = size.map(|size| size.rows.saturating_sub(lines.len() + 1));
        if let Some(room) = room.filter(|room| *room < table.len()) {
            let hidden = table.len() - room.saturating_sub(1);
            table.truncate(room.saturating_sub(1));
            if room > 0 {
                table.push((None, format!("… and {hidden} more")));
            }
        }
        lines.append(&mut table);
        if let Some(size) = size {
            lines.truncate(size.rows.saturating_sub(1));
            lines.push((Some(Color::Dim), "q: quit".into()));
        }
        lines
            .into_iter()
            .map(|(color, line)| {
                let line = size.map_or(line.clone(), |size| fit(&line, size.columns));
                color.map_or(line.clone(), |color| style.paint(color, &line))
            })
            .collect()
    }

    fn voting(&self) -> usize {
        self.nodes.iter().filter(|node| node.votes).count()
    }

    fn head(&self) -> Vec<(Option<Color>, String)> {
        let (voting, nodes, needed) = (self.voting(), self.nodes.len(), quorum(self.nodes.len()));
        let votes = format!("{voting} of {nodes} nodes vote, {needed} are needed");
        let verdict = if voting < needed {
            (Some(Color::Red), format!("NO QUORUM: no locks at present; {votes}"))
        } else if voting < nodes {
            (Some(Color::Yellow), format!("DEGRADED: locks work; {votes}"))
        } else {
            (Some(Color::Green), format!("LOCKS WORK: {votes}"))
        };
        let title = format!("{}  prefix {:?}", format_rfc3339_seconds(self.at), self.prefix);
        let mut lines = vec![(Some(Color::Dim), title), verdict, (None, String::new())];
        let mut table =
            Table::new([Column::left("NODE"), Column::right("ROUND TRIP"), Column::left("STATE")]);
        let mut text = String::new();
        for node in &self.nodes {
            let trip = node.round_trip.map_or_else(|| "-".into(), time);
            text.push_str(&table.row([shown(&node.name), trip, shown(&node.state)]));
        }
        text.push_str(&table.end());
        for (i, line) in text.lines().enumerate() {
            let node = i.checked_sub(1).and_then(|i| self.nodes.get(i));
            let color = match node {
                None => Some(Color::Bold),
                Some(node) if node.votes => None,
                Some(_) => Some(Color::Red),
            };
            lines.push((color, line.to_owned()));
        }
        lines.push((None, String::new()));
        let jobs = self.listing.as_ref().map(Listing::job_lines).unwrap_or_default();
        for (i, line) in jobs.into_iter().enumerate() {
            lines.push(((i == 1).then_some(Color::Bold), line));
        }
        if lines.last().is_some_and(|(_, line)| !line.is_empty()) {
            lines.push((None, String::new()));
        }
        let summary = self.listing.as_ref().map_or("reading the locks".into(), Listing::summary);
        let failed = self.listing.as_ref().is_some_and(|listing| listing.error.is_some());
        lines.push((failed.then_some(Color::Red), summary));
        lines
    }

    fn locks(&self) -> Vec<(Option<Color>, String)> {
        let Some(listing) = &self.listing else { return Vec::new() };
        let mut table = Table::new(COLUMNS);
        let mut text: String =
            listing.locks.iter().map(|lock| table.row(lock.cells(self.at))).collect();
        text.push_str(&table.end());
        let color = |i: usize| match i.checked_sub(1).and_then(|i| listing.locks.get(i)) {
            None => Some(Color::Bold),
            Some(lock) if lock.is_quorum => None,
            Some(_) => Some(Color::Yellow),
        };
        text.lines().enumerate().map(|(i, line)| (color(i), line.to_owned())).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::locks::LockRow;

    const PLAIN: Style = Style { colored: false };

    fn lock(name: &str) -> LockRow {
        LockRow {
            name: name.into(),
            owner: Some("night-shift".into()),
            token: 7,
            since: Some(UNIX_EPOCH),
            remaining: Some(Duration::from_secs(9)),
            kept: 2,
            nodes: 3,
            is_quorum: true,
            is_awaited: false,
            lingers: false,
        }
    }

    fn view(locks: &[&str]) -> View {
        let node = |name: &str, votes: bool| NodeView {
            name: name.into(),
            votes,
            state: if votes { "voting" } else { "down for 3s" }.into(),
            kind: if votes { "voting" } else { "down" }.into(),
            round_trip: votes.then_some(Duration::from_micros(120)),
        };
        let locks = locks.iter().map(|name| lock(name)).collect();
        View {
            at: UNIX_EPOCH + Duration::from_secs(5),
            prefix: "redlock".into(),
            nodes: vec![node("a", true), node("b", true), node("c\x1b[2J", false)],
            listing: Some(Listing { locks, ..Listing::default() }),
        }
    }

    #[test]
    fn whole_view_without_screen() {
        let text = view(&["invoice:42", "x"]).lines(None, PLAIN).join("\n");
        let expected = "\
1970-01-01T00:00:05Z  prefix \"redlock\"
DEGRADED: locks work; 2 of 3 nodes vote, 2 are needed

NODE        ROUND TRIP  STATE
a              120.0µs  voting
b              120.0µs  voting
c\\u{1b}[2J           -  down for 3s

2 locks
NAME        OWNER        TOKEN  HELD  ENDS IN  NODES  WAITERS
invoice:42  night-shift      7  5.0s     9.0s  2/3
x           night-shift      7  5.0s     9.0s  2/3";
        assert_eq!(text, expected);
    }

    #[test]
    fn lines_fit_on_the_screen() {
        let names: Vec<_> = (0..50).map(|i| format!("{i}-{}", "n".repeat(60))).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        for rows in [1, 2, 5, 9, 10, 11, 24, 80] {
            for columns in [1, 20, 80] {
                let lines = view(&names).lines(Some(Size { columns, rows }), PLAIN);
                assert!(lines.len() <= rows, "{} lines on {rows}", lines.len());
                let width = lines.iter().map(|line| crate::output::width(line)).max();
                assert!(width <= Some(columns), "{width:?} on {columns}");
            }
        }
        let lines = view(&names).lines(Some(Size { columns: 80, rows: 24 }), PLAIN);
        assert_eq!(lines.len(), 24);
        // 9 lines of the head, the titles, 12 locks, and one line each for the rest and the keys.
        assert_eq!(lines[22], "… and 38 more");
        assert!(lines[21].starts_with("11-n"), "{lines:#?}");
        assert_eq!(lines[23], "q: quit");
    }

    #[test]
    fn passing_time_is_no_change() {
        let before = view(&["x"]);
        let mut after = before.clone();
        after.at += Duration::from_secs(60);
        after.nodes[2].state = "down for 63s".into();
        after.nodes[0].round_trip = Some(Duration::from_millis(1));
        after.listing.as_mut().unwrap().locks[0].remaining = Some(Duration::from_secs(3));
        assert_eq!(after.state(), before.state());

        after.nodes[0].kind = "down".into();
        assert_ne!(after.state(), before.state());
        assert_ne!(view(&["x", "y"]).state(), before.state());
        let mut next = before.clone();
        next.listing.as_mut().unwrap().locks[0].token = 8;
        assert_ne!(next.state(), before.state());
    }

    #[test]
    fn colours_mark_what_is_wrong() {
        let colored = Style { colored: true };
        let mut view = view(&["x"]);
        view.listing.as_mut().unwrap().locks[0].is_quorum = false;
        let lines = view.lines(None, colored);
        assert!(lines[1].starts_with("\x1b[33mDEGRADED"), "{}", lines[1]);
        assert!(lines[6].starts_with("\x1b[31mc"), "{}", lines[6]);
        assert!(lines[10].starts_with("\x1b[33mx"), "{}", lines[10]);
        assert!(!lines[4].contains('\x1b'), "{}", lines[4]);
    }
}
