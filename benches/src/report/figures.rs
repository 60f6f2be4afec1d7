//! The plots.

use std::error::Error;

use plotters::{
    backend::SVGBackend,
    drawing::IntoDrawingArea,
    prelude::{Rectangle, Text},
    style::{Color, RGBColor, WHITE},
};

use super::{
    format::significant,
    panel::{Panel, Row, Shape, font},
};
use crate::{
    contestants::Kind,
    cycles,
    samples::{Samples, key},
    scenarios::{
        self, contended,
        distinct::{self, FEW_TASKS, NODES},
        faults::{self, Condition},
        many::{self, Crowd},
        processes,
    },
    spread::Spread,
    waits,
};

pub(crate) const CONTENDED: &str = "contended.svg";
pub(crate) const DISTINCT: &str = "distinct.svg";
pub(crate) const FAULTS: &str = "faults.svg";
pub(crate) const MANY: &str = "many.svg";
pub(crate) const MANAGERS: &str = "managers.svg";

/// Returns names and contents of files, without plots that have no values.
pub(crate) fn all(samples: &Samples) -> Vec<(&'static str, String)> {
    let kinds = |kinds: &[Kind]| -> Vec<_> {
        kinds.iter().map(|kind| (kind.name(), color(*kind))).collect()
    };
    let figures = [
        (CONTENDED, kinds(&contended::KINDS), contended(samples)),
        (DISTINCT, kinds(&distinct::KINDS), distinct(samples)),
        (FAULTS, kinds(&distinct::KINDS), faults(samples)),
        (MANY, vec![("client", CLIENT), ("all five servers", SERVERS)], many(samples)),
        (MANAGERS, vec![("client", CLIENT), ("all five servers", SERVERS)], managers(samples)),
    ];
    let full = |panels: &[Panel]| panels.iter().all(|panel| !panel.is_empty());
    figures
        .into_iter()
        .filter(|(_, _, panels)| full(panels))
        .map(|(name, legend, panels)| (name, draw(&legend, &panels).expect("a string takes it")))
        .collect()
}

/// Distinguishable for people with colour blindness.
fn color(kind: Kind) -> RGBColor {
    match kind {
        Kind::Ours | Kind::Awaited | Kind::OnRuntime | Kind::OnRuntimeAwaited => {
            RGBColor(0, 114, 178)
        }
        Kind::Rslock => RGBColor(213, 94, 0),
        Kind::Lingering => RGBColor(120, 80, 160),
        Kind::Floor => RGBColor(140, 140, 140),
    }
}

fn rows(
    kinds: &[Kind],
    cases: &[String],
    value: impl Fn(&str, Kind) -> Option<Spread>,
) -> Vec<Row> {
    let values = |kind| cases.iter().map(|case| value(case, kind)).collect();
    kinds.iter().map(|kind| Row { color: color(*kind), values: values(*kind) }).collect()
}

fn contended(samples: &Samples) -> Vec<Panel> {
    let cases: Vec<_> = contended::TASKS
        .map(contended::case)
        .into_iter()
        .chain(processes::TASKS.map(processes::case))
        .collect();
    let categories = ["1 × 16", "1 × 256", "4 × 1", "4 × 4"].map(String::from).to_vec();
    let of = |case: &str, kind: Kind, what| samples.spread(&key(case, kind.name(), what));
    // Computed from the medians of the rounds.
    let wait = |case: &str, kind| {
        let [p50, mean, p99] =
            [waits::P50, waits::MEAN, waits::P99].map(|what| Some(of(case, kind, what)?.median));
        Some(Spread { least: p50?, median: mean?, most: p99? })
    };
    let panel = |title: &str, y, shape, tick, rows| Panel {
        title: title.into(),
        x: "processes × tasks",
        y,
        categories: categories.clone(),
        rows,
        shape,
        tick,
    };
    let rates = rows(&contended::KINDS, &cases, |case, kind| of(case, kind, waits::RATE));
    let waits = rows(&contended::KINDS, &cases, wait);
    vec![
        panel("One name: grants", "grants per second", Shape::Bars, number, rates),
        panel("One name: waits, p50 to p99, dot: mean", "wait", Shape::Ranges, seconds, waits),
    ]
}

fn distinct(samples: &Samples) -> Vec<Panel> {
    let panel = |title: String, x, categories: &[usize], cases: &[String]| Panel {
        title,
        x,
        y: "cycles per second",
        categories: categories.iter().map(ToString::to_string).collect(),
        rows: rows(&distinct::KINDS, cases, |case, kind| {
            samples.spread(&key(case, kind.name(), cycles::RATE))
        }),
        shape: Shape::Lines,
        tick: number,
    };
    let tasks = distinct::TASKS.map(|tasks| distinct::case(tasks, 5));
    let mut panels = vec![panel("Five servers".into(), "tasks", &distinct::TASKS, &tasks)];
    panels.extend(FEW_TASKS.map(|tasks| {
        let nodes = NODES.map(|nodes| distinct::case(tasks, nodes));
        let title = scenarios::tasks(tasks);
        panel(title, "servers", &NODES, &nodes)
    }));
    panels
}

fn faults(samples: &Samples) -> Vec<Panel> {
    let unsound = [Condition::Frozen, Condition::Dead, Condition::Slow];
    let panel = |tasks| Panel {
        title: scenarios::tasks(tasks),
        x: "one of five servers",
        y: "rate to one's own healthy rate",
        categories: ["frozen", "dead", "slow by 20 ms"].map(String::from).to_vec(),
        rows: rows(&distinct::KINDS, &unsound.map(|condition| faults::case(tasks, condition)), {
            |case, kind| {
                let condition =
                    unsound.into_iter().find(|one| faults::case(tasks, *one) == case)?;
                let sound = faults::case(tasks, condition.sound()?);
                let [upper, lower] =
                    [case, &sound].map(|case| key(case, kind.name(), cycles::RATE));
                samples.ratio(&upper, &lower)
            }
        }),
        shape: Shape::Bars,
        tick: number,
    };
    faults::TASKS.map(panel).into()
}

const CLIENT: RGBColor = RGBColor(0, 114, 178);
const SERVERS: RGBColor = RGBColor(140, 140, 140);

fn many(samples: &Samples) -> Vec<Panel> {
    let of = |crowd: Crowd, what| samples.spread(&key(crowd.case(), Kind::Ours.name(), what));
    let row = |color, what| Row { color, values: Crowd::FULL.map(|crowd| of(crowd, what)).into() };
    let panel = |title: &str, y, tick, rows| Panel {
        title: title.into(),
        x: "locks",
        y,
        categories: Crowd::FULL.map(|crowd| crowd.locks().to_string()).into(),
        rows,
        shape: Shape::Lines,
        tick,
    };
    let times = vec![row(CLIENT, many::CLIENT), row(SERVERS, many::SERVERS)];
    let memory = vec![row(CLIENT, many::MEMORY), row(SERVERS, many::SERVER_MEMORY)];
    vec![
        panel("Processor time a second, for each lock", "processor time", seconds, times),
        panel("Memory of a lock (of one server)", "memory", memory_size, memory),
    ]
}

fn managers(samples: &Samples) -> Vec<Panel> {
    let of = |crowd: Crowd, what| samples.spread(&key(crowd.case(), Kind::Ours.name(), what));
    let row =
        |color, what| Row { color, values: Crowd::GROWING.map(|crowd| of(crowd, what)).into() };
    let panel = |title: &str, y, tick, rows| Panel {
        title: title.into(),
        x: "idle managers",
        y,
        categories: Crowd::GROWING.map(|crowd| crowd.locks().to_string()).into(),
        rows,
        shape: Shape::Lines,
        tick,
    };
    let times = vec![row(CLIENT, many::IDLE_CLIENT), row(SERVERS, many::IDLE_SERVERS)];
    let memory = vec![row(CLIENT, many::MEMORY_OF_MANAGER), row(SERVERS, many::IDLE_MEMORY)];
    let commands = vec![row(SERVERS, many::IDLE_COMMANDS)];
    vec![
        panel("Processor time a second, for each", "processor time", seconds, times),
        panel("Memory of each (on one server)", "memory", memory_size, memory),
        panel("Commands a second of one server, for each", "commands", number, commands),
    ]
}

fn memory_size(value: f64) -> String {
    trimmed(super::format::bytes(value))
}

const PANEL_WIDTH: u32 = 420;
const HEIGHT: u32 = 360;
const HEAD: i32 = 34;

/// A legend, and the panels next to each other.
fn draw(legend: &[(&str, RGBColor)], panels: &[Panel]) -> Result<String, Box<dyn Error>> {
    let columns = u32::try_from(panels.len())?;
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (PANEL_WIDTH * columns, HEIGHT));
        let root = root.into_drawing_area();
        root.fill(&WHITE)?;
        let mut x = 76;
        for (name, color) in legend {
            let square = [(x, HEAD / 2 - 5), (x + 12, HEAD / 2 + 7)];
            root.draw(&Rectangle::new(square, color.filled()))?;
            root.draw(&Text::new(*name, (x + 18, HEAD / 2 - 5), font(13.0)))?;
            // The width of letters is not measured: all count as wide ones.
            x += 44 + 7 * i32::try_from(name.len())?;
        }
        let (_, body) = root.split_vertically(HEAD);
        for (panel, area) in panels.iter().zip(body.split_evenly((1, panels.len()))) {
            panel.draw(&root, &area)?;
        }
        root.present()?;
    }
    Ok(svg)
}

fn number(value: f64) -> String {
    // The grid lines are powers of ten in this range.
    if value < 0.01 { value.to_string() } else { trimmed(significant(value)) }
}

fn seconds(value: f64) -> String {
    trimmed(super::format::time(value))
}

/// Formats `1.00 k` as `1 k`.
fn trimmed(text: String) -> String {
    let (digits, unit) = text.split_once(' ').unwrap_or((&text, ""));
    if !digits.contains('.') || digits.contains('e') {
        return text;
    }
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    if unit.is_empty() { digits.into() } else { format!("{digits} {unit}") }
}
