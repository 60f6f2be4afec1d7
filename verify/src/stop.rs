//! Ctrl-C, and requests to terminate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

/// Whether the program should end. All its processes end with this one, for any reason.
#[derive(Clone, Debug)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Makes the first signal request an end, and the second one end the process.
    pub fn listen(program: &'static str) -> Result<Self, String> {
        let problem = |error| format!("no signals: {error}");
        let asked = Arc::new(AtomicBool::new(false));
        let runtime = Builder::new_current_thread().enable_all().build().map_err(problem)?;
        let (mut interrupt, mut terminate) = {
            let _in_runtime = runtime.enter();
            let interrupt = signal(SignalKind::interrupt()).map_err(problem)?;
            (interrupt, signal(SignalKind::terminate()).map_err(problem)?)
        };
        let stop = Self(Arc::clone(&asked));
        thread::spawn(move || {
            runtime.block_on(async {
                loop {
                    tokio::select! {
                        _ = interrupt.recv() => {}
                        _ = terminate.recv() => {}
                    }
                    if asked.swap(true, Ordering::Relaxed) {
                        std::process::exit(130);
                    }
                    eprintln!("{program}: coming to an end");
                }
            });
        });
        Ok(stop)
    }

    /// Returns whether a signal has requested an end.
    pub fn is_asked_for(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
