//! The live view: redrawn in place on a terminal, or as occasional lines elsewhere.

use std::{
    fmt::Write as _,
    io::{IsTerminal, Write as _},
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{Demo, board::Counts, cluster, stop::Stop};

pub(crate) async fn show(demo: Arc<Demo>, mut stop: Stop) {
    let mut screen = Screen::new();
    let started = Instant::now();
    if !screen.is_terminal {
        println!("tower-redlock demo on {}", demo.url);
    }
    loop {
        if screen.is_terminal {
            screen.draw(&frame(&demo));
        }
        let stopped = tokio::select! {
            () = tokio::time::sleep(screen.pause(&demo)) => false,
            () = stop.requested() => true,
        };
        if !screen.is_terminal {
            screen.draw(&line(&demo, started.elapsed()));
        }
        if stopped {
            break;
        }
    }
    if screen.is_terminal {
        screen.draw(&frame(&demo));
    }
}

/// Standard output. Errors are ignored: a closed pipe must not stop the service.
struct Screen {
    is_terminal: bool,
    /// The number of lines of the last frame.
    lines: usize,
}

const NO_WRAP: &str = "\x1b[?7l";
const WRAP: &str = "\x1b[?7h";

impl Screen {
    fn new() -> Self {
        Self { is_terminal: std::io::stdout().is_terminal(), lines: 0 }
    }

    /// Returns the pause before the next frame or line.
    fn pause(&self, demo: &Demo) -> Duration {
        match (self.is_terminal, demo.progress.done() < demo.progress.total) {
            (true, _) => Duration::from_millis(200),
            (false, true) => Duration::from_millis(100),
            (false, false) => Duration::from_secs(2),
        }
    }

    fn draw(&mut self, text: &str) {
        let mut out = std::io::stdout().lock();
        if self.is_terminal {
            // Long lines are truncated, not wrapped, as the cursor moves up by the number of lines.
            let up = if self.lines > 0 { format!("\x1b[{}A", self.lines) } else { String::new() };
            let body = text.replace('\n', "\x1b[K\n");
            let _ = write!(out, "{up}{NO_WRAP}{body}{WRAP}\x1b[J");
            self.lines = text.lines().count();
        } else {
            let _ = out.write_all(text.as_bytes());
        }
        let _ = out.flush();
    }
}

/// Draws everything, in some 20 lines.
fn frame(demo: &Demo) -> String {
    let mut text = format!("tower-redlock demo   {}   Ctrl-C stops it\n\n", demo.url);
    let _ = writeln!(text, "{:<11} {:<16} {:<17} valid for", "holder", "resource", "token");
    let mut holders = demo.board.holders();
    holders.sort_by_cached_key(|holder| holder.lock.resource().clone());
    for holder in holders {
        let (resource, token) = (holder.lock.resource(), holder.lock.fencing_token());
        let left = holder.lock.remaining().as_secs_f64();
        let (resource, token) = (resource.to_string(), token.get());
        let _ = writeln!(text, "{:<11} {resource:<16} {token:<17} {left:.2} s", holder.replica);
    }
    let _ = writeln!(text, "\nnodes, as {} sees them", demo.cluster.replicas[0].name);
    for node in demo.cluster.health() {
        let _ = writeln!(text, "  {:<22} {}", node.name, cluster::state(&node));
    }
    let _ = writeln!(text, "\nrequests  {}", requests(&demo.board.counts()));
    let _ = writeln!(text, "report    {}", report(demo));
    if demo.progress.total > 0 {
        let (done, total) = (demo.progress.done(), demo.progress.total);
        let bar = "#".repeat(40 * done / total);
        let _ = writeln!(text, "driven    [{bar:<40}] {done}/{total}");
    } else {
        let _ = writeln!(text, "\ntry: curl -X POST {}/accounts/1/withdraw", demo.url);
    }
    text
}

fn line(demo: &Demo, elapsed: Duration) -> String {
    let health = demo.cluster.health();
    let voting = health.iter().filter(|node| node.is_voting()).count();
    let mut text = format!("{:5.1} s  ", elapsed.as_secs_f64());
    if demo.progress.total > 0 {
        let _ = write!(text, "{}/{} driven; ", demo.progress.done(), demo.progress.total);
    }
    for holder in demo.board.holders() {
        let (token, left) = (holder.lock.fencing_token(), holder.lock.remaining());
        let what = holder.lock.resource();
        let _ = write!(text, "{} holds {what} ({token}, {left:.1?}); ", holder.replica);
    }
    let _ = write!(text, "requests: {}; ", requests(&demo.board.counts()));
    let _ = writeln!(text, "report: {}; {voting} of {} nodes vote", report(demo), health.len());
    text
}

fn requests(counts: &Counts) -> String {
    format!(
        "{} ran ({} waited), {} held, {} unavailable, {} unknown, {} other",
        counts.ran, counts.waited, counts.held, counts.unavailable, counts.unknown, counts.other
    )
}

fn report(demo: &Demo) -> String {
    let history = demo.report.history();
    let mut text =
        format!("{} ran, {} missed, {} failed", history.ran, history.missed, history.failed);
    for (i, run) in history.runs.iter().enumerate() {
        let _ =
            write!(text, "{} {} {}", if i == 0 { "; last:" } else { "," }, run.tick, run.replica);
    }
    text
}
