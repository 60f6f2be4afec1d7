//! `status --watch`: the view is drawn after each event, until a signal or a key ends it.

use std::{
    io::{self, IsTerminal, stdout},
    pin::Pin,
    process::ExitCode,
    time::{Duration, SystemTime},
};

use rustix::process::{Signal, getpid, kill_process};
use tokio::{
    io::{AsyncReadExt, stdin},
    time::{MissedTickBehavior, interval, sleep},
};
use tower_redlock::Redlock;

use super::{listing::Listing, view::View};
use crate::{
    client::{Client, sets, settle},
    exit::Failure,
    output::{
        print, print_json_line,
        terminal::{Screen, size},
    },
    signals::{self, Signals},
};

/// Interval between checks of the nodes.
const REDRAW_INTERVAL: Duration = Duration::from_secs(1);

/// Where views go.
enum Target {
    Screen(Screen),
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
        Screen::enter().map(Self::Screen)
    }

    fn show(&mut self, view: &View) -> Result<(), Failure> {
        let (json, last) = match self {
            Self::Screen(screen) => return screen.draw(&view.lines(Some(size()))),
            Self::Lines { json, last } => (*json, last),
        };
        let state = view.state();
        if last.as_ref() == Some(&state) {
            return Ok(());
        }
        *last = Some(state);
        if json {
            return print_json_line(&view.json());
        }
        print(&format!("{}\n\n", view.lines(None).join("\n")))
    }
}

pub(super) async fn watch(
    client: &Client,
    limit: usize,
    every: Duration,
) -> Result<ExitCode, Failure> {
    // Before the screen is taken over, as their default actions do not restore it.
    let mut ended = Signals::new(signals::END)?;
    let mut target = Target::new(client.output.json)?;
    let is_screen = matches!(target, Target::Screen(_));
    let mut window = Signals::new([Signal::WINCH, Signal::TSTP].into_iter().filter(|_| is_screen))?;
    let mut has_keys = is_screen && io::stdin().is_terminal();
    let mut keys = stdin();
    let mut ticks = interval(REDRAW_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut reading = read(&client.redlock, limit, Duration::ZERO);
    let mut listing = None;
    if !is_screen {
        // The first block has the locks.
        tokio::select! {
            read = &mut reading => listing = Some(read),
            signal = ended.recv() => return Ok(signals::exit_code(signal).into()),
        }
        reading = read(&client.redlock, limit, every);
    }
    loop {
        let prefix = client.settings.prefix().to_owned();
        let (at, nodes) = (SystemTime::now(), client.redlock.health());
        let sets = sets(&client.redlock);
        target.show(&View { at, prefix, nodes, sets, listing: listing.clone() })?;
        tokio::select! {
            signal = ended.recv() => return Ok(signals::exit_code(signal).into()),
            key = keys.read_u8(), if has_keys => match key {
                Ok(b'q' | b'Q') => return Ok(ExitCode::SUCCESS),
                Ok(_) => {}
                Err(_) => has_keys = false,
            },
            found = &mut reading => {
                listing = Some(found);
                reading = read(&client.redlock, limit, every);
            }
            signal = window.recv() => if signal == Signal::TSTP {
                // The shell gets its screen back until the program continues.
                drop(target);
                // If it fails, the program just continues.
                let _ = kill_process(getpid(), Signal::STOP);
                target = Target::Screen(Screen::enter()?);
            },
            _ = ticks.tick() => {}
        }
    }
}

/// Reads the locks after a pause.
fn read(
    redlock: &Redlock,
    limit: usize,
    pause: Duration,
) -> Pin<Box<dyn Future<Output = Listing> + '_>> {
    Box::pin(async move {
        sleep(pause).await;
        settle(redlock).await;
        Listing::read(redlock, limit).await
    })
}
