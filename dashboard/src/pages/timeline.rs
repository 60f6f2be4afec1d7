//! The holders of a lock of late: a drawing of who held it when, and the same as a table.

use std::time::{Duration, SystemTime};

use maud::{Markup, html};
use serde_json::{Value, json};

use super::{
    layout::Visit,
    region::table,
    words::{ago, counted, moment, span, text, token},
};
use crate::{
    recent::{Holding, HoldingEnd},
    text::unix_millis,
};

/// Width of a row, in units of the drawing.
const WIDTH: u128 = 1_000;
/// Height of a row.
const HEIGHT: u128 = 14;
/// Minimum width of a bar.
const LEAST: u128 = 4;
/// Maximum time that is drawn.
const MAX_SPAN: Duration = Duration::from_secs(3_600);

/// The colours of bars, and their meanings.
const KEYS: [(&str, &str); 3] =
    [("held", "seen to hold it"), ("maybe", "ended within this time"), ("lost", "lost it")];

/// Shows holders, the latest first.
pub(super) fn timeline(holdings: &[Holding], visit: &Visit) -> Markup {
    const COLUMNS: [&str; 5] = ["Holder", "#Token", "From", "Seen for", "Until"];
    html! {
        p {
            "From the events of this process, and from what the servers answered to its viewers: the last 16 holders. \
             One that came and went between two answers is missing."
        }
        @if holdings.is_empty() {
            p { "No holder has been seen." }
        } @else {
            (drawing(holdings, visit.now))
            (table("holders", "holders of late", &COLUMNS, &html! { @for of in holdings {
                tr data-holding=(of.token) {
                    th scope="row" { (text(&of.owner)) @if of.is_shared { ", shared" } }
                    td.number { (token(of.token)) }
                    td { (ago(of.since, visit.now)) }
                    td { (span(length(of.since, of.seen))) }
                    td { (until(of)) }
                }
            } }))
        }
    }
}

fn until(of: &Holding) -> Markup {
    match of.end {
        HoldingEnd::Open => html! { "not seen to end" },
        HoldingEnd::Before(at) => html! { "ended before " (moment(at)) },
        HoldingEnd::Lost(at) => html! { strong.bad { "lost" } " at " (moment(at)) },
    }
}

fn length(from: SystemTime, to: SystemTime) -> Duration {
    to.duration_since(from).unwrap_or_default()
}

/// Draws a row for each owner.
fn drawing(holdings: &[Holding], now: SystemTime) -> Markup {
    let begin = holdings.iter().map(|of| of.since).min().unwrap_or(now);
    let drawn = length(begin, now).clamp(Duration::from_secs(1), MAX_SPAN);
    let begin = now.checked_sub(drawn).unwrap_or(now);
    let mut owners: Vec<&str> = Vec::new();
    for of in holdings {
        if !owners.contains(&&*of.owner) {
            owners.push(&of.owner);
        }
    }
    let place = |at: SystemTime| {
        let share = length(begin, at).min(drawn).as_millis() * WIDTH / drawn.as_millis();
        share.min(WIDTH)
    };
    html! {
        figure.timeline {
            table {
                caption { "Who held it, from " (moment(begin)) " until now" }
                tbody { @for (nth, owner) in owners.iter().enumerate() {
                    @let rows: Vec<_> = holdings.iter().filter(|of| &*of.owner == *owner).collect();
                    tr { th scope="row" { (text(owner)) } td { (row(nth, owner, &rows, &place)) } }
                } }
            }
            p.axis { span { (span(drawn)) " ago" } span { "now" } }
            figcaption { span.keys { @for (class, words) in KEYS { span { span.key.(class) {} (words) } " " } } }
        }
    }
}

fn row(
    nth: usize,
    owner: &str,
    holdings: &[&Holding],
    place: &impl Fn(SystemTime) -> u128,
) -> Markup {
    let bar = |class: &str, from: SystemTime, to: SystemTime| {
        let left = place(from).min(WIDTH - LEAST);
        let width = place(to).saturating_sub(left).max(LEAST);
        html! { rect.(class) x=(left) y="1" width=(width) height=(HEIGHT - 2) {} }
    };
    let times = counted(holdings.len() as u64, "time");
    let is_open = holdings.iter().any(|of| of.end == HoldingEnd::Open);
    html! {
        svg role="img" aria-labelledby={ "holder-" (nth) } viewBox={ "0 0 " (WIDTH) " " (HEIGHT) }
            preserveAspectRatio="none" {
            title #{ "holder-" (nth) } {
                (crate::text::visible(owner)) " held it " (times) @if is_open { ", and was not seen to end" }
            }
            rect.track x="0" y="6" width=(WIDTH) height="2" {}
            @for of in holdings.iter().rev() {
                @match of.end {
                    HoldingEnd::Open => (bar("held", of.since, of.seen)),
                    HoldingEnd::Before(at) => {
                        (bar("maybe", of.seen, at))
                        (bar("held", of.since, of.seen))
                    }
                    HoldingEnd::Lost(at) => (bar("lost", of.since, at)),
                }
            }
        }
    }
}

/// Returns the same for programs.
pub(super) fn holders_json(holdings: &[Holding]) -> Value {
    let of = |of: &Holding| {
        let (end, at) = match of.end {
            HoldingEnd::Open => ("open", None),
            HoldingEnd::Before(at) => ("before", Some(at)),
            HoldingEnd::Lost(at) => ("lost", Some(at)),
        };
        json!({
            "owner": of.owner,
            "token": of.token,
            "shared": of.is_shared,
            "since_unix_ms": unix_millis(of.since),
            "seen_unix_ms": unix_millis(of.seen),
            "end": end,
            "end_unix_ms": at.and_then(unix_millis),
        })
    };
    holdings.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn at(second: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(100_000 + second)
    }

    fn holding(owner: &str, since: u64, seen: u64, end: HoldingEnd) -> Holding {
        let (since, seen) = (at(since), at(seen));
        Holding { owner: owner.into(), token: 1, is_shared: false, since, seen, end }
    }

    #[test]
    fn bars_are_where_the_times_are() {
        let holdings = [
            holding("ann", 60, 100, HoldingEnd::Open),
            holding("bob", 30, 40, HoldingEnd::Lost(at(50))),
            holding("ann", 0, 10, HoldingEnd::Before(at(20))),
        ];

        let drawn = drawing(&holdings, at(100)).into_string();

        for bar in [
            r#"class="held" x="600" y="1" width="400""#,
            r#"class="lost" x="300" y="1" width="200""#,
            r#"class="maybe" x="100" y="1" width="100""#,
            r#"class="held" x="0" y="1" width="100""#,
            "ann held it 2 times, and was not seen to end",
        ] {
            assert!(drawn.contains(bar), "{bar}: {drawn}");
        }
        assert_eq!(drawn.matches("<svg").count(), 2, "one row for each owner: {drawn}");
    }

    #[test]
    fn times_beyond_the_drawing_are_cut() {
        let future = holding("ann", 5, 9_000, HoldingEnd::Before(at(9_000)));
        let drawn = drawing(&[future], at(4)).into_string();
        assert!(drawn.contains(r#"x="996" y="1" width="4""#), "{drawn}");

        let old = holding("ann", 0, 9_000, HoldingEnd::Open);
        let drawn = drawing(&[old], at(9_000)).into_string();
        assert!(drawn.contains(r#"x="0" y="1" width="1000""#), "{drawn}");
        assert!(drawn.contains("1h ago"), "{drawn}");
    }
}
