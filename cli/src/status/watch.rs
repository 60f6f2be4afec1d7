//! `status --watch`: the view is drawn when something has happened, until a signal or a key ends it.

use std::{
    future::{Future, pending},
    io::{IsTerminal, Read, stdin, stdout},
    pin::Pin,
    process::ExitCode,
    thread,
    time::{Duration, SystemTime},
};

use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, interval, sleep},
};
use tower_redlock::Redlock;

use super::{listing::Listing, view::View};
use crate::{
    exit::Failure,
    output::{
        Style, print, print_json_line,
        terminal::{Screen, size},
    },
    settings::Settings,
    settle::settle,
    signals::EndSignals,
};

/// Interval between two looks at the nodes.
const TICK: Duration = Duration::from_secs(1);

/// Where views go.
enum Target {
    Screen(Option<Screen>),
    /// A block or an object for each change; the state that was printed last.
    Lines {
        json: bool,
        last: Option<String>,
    },
}

impl Target {
    fn new(json: bool) -> Result<Self, Failure> {
        if json || !stdout().is_terminal() {
            return Ok(Self::Lines { json, last: None });
        }
        Ok(Self::Screen(Some(Screen::enter()?)))
    }

    fn show(&mut self, view: &View) -> Result<(), Failure> {
        match self {
            Self::Screen(None) => Ok(()),
            Self::Screen(Some(screen)) => {
                let size = size().unwrap_or_default();
                screen.draw(&view.lines(Some(size), Style::stdout()))
            }
            Self::Lines { json, last } => {
                let state = view.state();
                if last.as_ref() == Some(&state) {
                    return Ok(());
                }
                *last = Some(state);
                if *json {
                    print_json_line(&view.json())
                } else {
                    let lines = view.lines(None, Style::stdout()).join("\n");
                    print(&format!("{lines}\n\n"))
                }
            }
        }
    }
}

pub(super) async fn watch(
    redlock: Redlock,
    settings: &Settings,
    limit: usize,
    every: Duration,
    json: bool,
) -> Result<ExitCode, Failure> {
    // Before the screen is taken over, as they would not restore it.
    let mut ended = EndSignals::new();
    let mut target = Target::new(json)?;
    let mut keys = matches!(target, Target::Screen(_)).then(keys);
    let mut window = Window::new();
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut reading = read(redlock.clone(), limit, Duration::ZERO);
    let mut listing = None;
    if matches!(target, Target::Lines { .. }) {
        // The first block has the locks.
        tokio::select! {
            read = &mut reading => listing = Some(read),
            code = ended.recv() => return Ok(ExitCode::from(code)),
        }
        reading = read(redlock.clone(), limit, every);
    }
    loop {
        let view =
            View::new(SystemTime::now(), settings.prefix(), &redlock.health(), listing.clone());
        target.show(&view)?;
        tokio::select! {
            code = ended.recv() => return Ok(ExitCode::from(code)),
            key = next(&mut keys) => if matches!(key, b'q' | b'Q') {
                return Ok(ExitCode::SUCCESS);
            },
            found = &mut reading => {
                listing = Some(found);
                reading = read(redlock.clone(), limit, every);
            }
            event = window.event() => if event == WindowEvent::Stop && let Target::Screen(screen) = &mut target {
                // The shell gets its screen back until the program continues.
                *screen = None;
                stop();
                *screen = Some(Screen::enter()?);
            },
            _ = ticks.tick() => {}
        }
    }
}

/// Reads the locks after a pause.
fn read(redlock: Redlock, limit: usize, pause: Duration) -> Pin<Box<dyn Future<Output = Listing>>> {
    Box::pin(async move {
        sleep(pause).await;
        settle(&redlock).await;
        Listing::read(&redlock, limit).await
    })
}

/// Reads keys, on a thread that ends with the program.
fn keys() -> mpsc::Receiver<u8> {
    let (sender, receiver) = mpsc::channel(16);
    if Screen::has_keys() {
        thread::spawn(move || {
            let mut key = [0];
            while matches!(stdin().read(&mut key), Ok(1)) && sender.blocking_send(key[0]).is_ok() {}
        });
    }
    receiver
}

async fn next(keys: &mut Option<mpsc::Receiver<u8>>) -> u8 {
    let key = match keys {
        Some(receiver) => receiver.recv().await,
        None => None,
    };
    match key {
        Some(key) => key,
        // Nobody types.
        None => pending().await,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WindowEvent {
    Resize,
    /// Ctrl-Z.
    Stop,
}

/// What happens to the terminal's window.
#[cfg(unix)]
struct Window {
    resized: Option<tokio::signal::unix::Signal>,
    stopped: Option<tokio::signal::unix::Signal>,
}

#[cfg(unix)]
impl Window {
    fn new() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        let stop = SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw());
        let is_screen = stdout().is_terminal();
        Self {
            resized: signal(SignalKind::window_change()).ok(),
            stopped: is_screen.then(|| signal(stop).ok()).flatten(),
        }
    }

    async fn event(&mut self) -> WindowEvent {
        async fn of(signal: &mut Option<tokio::signal::unix::Signal>) -> Option<()> {
            signal.as_mut()?.recv().await
        }
        tokio::select! {
            Some(()) = of(&mut self.resized) => WindowEvent::Resize,
            Some(()) = of(&mut self.stopped) => WindowEvent::Stop,
            else => pending().await,
        }
    }
}

#[cfg(not(unix))]
struct Window;

#[cfg(not(unix))]
impl Window {
    fn new() -> Self {
        Self
    }

    async fn event(&mut self) -> WindowEvent {
        pending().await
    }
}

/// Stops this process until it is continued.
#[cfg(unix)]
fn stop() {
    use rustix::process::{Signal, getpid, kill_process};
    // Where it fails, the program just continues.
    let _ = kill_process(getpid(), Signal::STOP);
}

#[cfg(not(unix))]
fn stop() {}
