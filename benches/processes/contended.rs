//! Grants a second, who gets them, and how long they wait.

use std::time::{Duration, SystemTime};

use crate::child::{self, Kind, Part};

pub(crate) const PROCESSES: usize = 4;

#[expect(clippy::cast_precision_loss, reason = "numbers for people")]
pub(crate) fn measure(kind: Kind, urls: &[String], time: Duration, tasks: usize) -> String {
    let begin = SystemTime::now() + Duration::from_millis(700);
    let part = Part { kind, tasks, hold: Duration::ZERO, begin, time };
    let children: Vec<_> = (0..PROCESSES).map(|_| child::start(part, urls)).collect();
    let turns: Vec<_> = children.into_iter().map(child::finish).collect();
    let end = begin + time;
    let end = end.duration_since(SystemTime::UNIX_EPOCH).expect("after it").as_nanos();
    let in_time = |turns: &Vec<child::Turn>| {
        turns.iter().filter(|turn| u128::from(turn.granted) < end).count()
    };
    let served: Vec<_> = turns.iter().map(in_time).collect();
    let mut waits: Vec<_> = turns
        .iter()
        .flatten()
        .map(|turn| Duration::from_nanos(turn.granted - turn.asked))
        .collect();
    waits.sort_unstable();
    let mean = waits.iter().sum::<Duration>() / u32::try_from(waits.len()).expect("not so many");
    let rank = |percent: usize| waits[(waits.len() - 1) * percent / 100];
    let total: usize = served.iter().sum();
    let (least, most) = (served.iter().min().expect("some"), served.iter().max().expect("some"));
    format!(
        "| {} | {:.0} | {least} : {most} = {:.2} | {mean:.2?} | {:.2?} | {:.2?} | {:.2?} |",
        kind.name(),
        total as f64 / time.as_secs_f64(),
        *least as f64 / (*most).max(1) as f64,
        rank(50),
        rank(99),
        rank(100),
    )
}
