//! The requests of the last 15 minutes: drawings, and the same as numbers.

use std::time::Duration;

use maud::{Markup, html};
use serde_json::{Value, json};
use tower_redlock::lock::LockCounts;

use super::{
    drawing::sparkline,
    region::table,
    words::{number, span, wait},
};
use crate::{
    recent::{RATE_SLOT, RatesView},
    text::millis,
};

/// Number of steps in a row of the table.
const STEPS_IN_A_ROW: usize = 4;

/// One drawing, with its number in words.
struct Card<'a> {
    id: &'a str,
    title: &'a str,
    value: String,
    note: String,
    steps: Vec<u64>,
}

pub(super) fn activity(rates: &RatesView) -> Markup {
    html! {
        p.fresh {
            "The last 15 minutes, in steps of " (span(RATE_SLOT)) ", the newest at the right."
            @if rates.covered < Duration::from_secs(900) {
                " This process has counted for " (span(rates.covered)) "."
            }
        }
        ul.cards { @for card in cards(rates) {
            li data-card=(card.id) {
                h3 { (card.title) }
                p.value { (card.value) }
                (sparkline(card.id, &format!("{}: {}, {}", card.title, card.value, card.note), &card.steps))
                p.note { (card.note) }
            }
        } }
        details #activity-numbers { summary { "As a table" } (numbers(rates)) }
    }
}

fn cards(RatesView { steps, total, .. }: &RatesView) -> [Card<'static>; 5] {
    let count = |id, title, of: fn(&LockCounts) -> u64| {
        let steps: Vec<_> = steps.iter().map(of).collect();
        let greatest = steps.iter().max().copied().unwrap_or(0);
        let note = match greatest {
            0 => "none".into(),
            _ => format!("at most {} in {}", number(greatest), span(RATE_SLOT)),
        };
        Card { id, title, value: number(of(total)), note, steps }
    };
    let waits = |id, title, quantile: f64| {
        let of = |counts: &LockCounts| counts.waits.quantile(quantile);
        let micros = |wait: Duration| u64::try_from(wait.as_micros()).unwrap_or(u64::MAX);
        let steps: Vec<_> = steps.iter().map(|step| of(step).map_or(0, micros)).collect();
        let greatest = steps.iter().max().copied().unwrap_or(0);
        let note = match greatest {
            0 => "none was granted".into(),
            _ => format!("at most {} in a step", wait(Duration::from_micros(greatest))),
        };
        Card { id, title, value: of(total).map_or("–".into(), wait), note, steps }
    };
    [
        count("acquires", "Acquires", LockCounts::acquired),
        waits("wait-median", "Wait, median", 0.5),
        waits("wait-p99", "Wait, 99th percentile", 0.99),
        count("refusals", "Refusals", |counts| counts.refused),
        count("losses", "Losses", |counts| counts.lost),
    ]
}

fn numbers(rates: &RatesView) -> Markup {
    const COLUMNS: [&str; 6] =
        ["Minutes ago", "#Acquires", "#Median wait", "#99th percentile", "#Refusals", "#Losses"];
    let rows = rates.steps.rchunks(STEPS_IN_A_ROW).enumerate().map(|(minute, steps)| {
        let mut sum = LockCounts::default();
        for step in steps {
            sum.add(step);
        }
        (minute, sum)
    });
    table(
        "activity",
        "the last 15 minutes",
        &COLUMNS,
        &html! { @for (minute, sum) in rows {
            tr { th scope="row" { (minute) "–" (minute + 1) } (cells(&sum)) }
        } tr.total { th scope="row" { "All" } (cells(&rates.total)) } },
    )
}

fn cells(counts: &LockCounts) -> Markup {
    let waits = |quantile| counts.waits.quantile(quantile).map_or("–".into(), wait);
    html! {
        td.number { (number(counts.acquired())) }
        td.number { (waits(0.5)) }
        td.number { (waits(0.99)) }
        td.number { (number(counts.refused)) }
        td.number { (number(counts.lost)) }
    }
}

/// Returns the same for programs. Waits are upper bounds, in fractions of a millisecond.
pub(super) fn activity_json(rates: &RatesView) -> Value {
    let of = |counts: &LockCounts| {
        let wait = |quantile| {
            let wait = counts.waits.quantile(quantile);
            wait.map(|wait| wait.as_secs_f64() * 1_000.0)
        };
        json!({
            "acquired": counts.acquired(),
            "refused": counts.refused,
            "lost": counts.lost,
            "wait_median_ms": wait(0.5),
            "wait_p99_ms": wait(0.99),
        })
    };
    json!({
        "step_ms": millis(RATE_SLOT),
        "covered_ms": millis(rates.covered),
        "steps": rates.steps.iter().map(of).collect::<Vec<_>>(),
        "total": of(&rates.total),
        "lost_in_an_hour": rates.harm.lost,
        "unrecorded_in_an_hour": rates.harm.unrecorded,
    })
}
