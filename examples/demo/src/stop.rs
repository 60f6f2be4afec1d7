//! Shutdown: the signals that request it, and the channel that distributes the request.

#[cfg(unix)]
use tokio::signal::unix;
use tokio::sync::watch;

pub(crate) fn channel() -> (Stopper, Stop) {
    let (sender, receiver) = watch::channel(false);
    (Stopper(sender), Stop(receiver))
}

pub(crate) struct Stopper(watch::Sender<bool>);

impl Stopper {
    pub(crate) fn stop(&self) {
        self.0.send_replace(true);
    }
}

/// Each part of the demo waits for this in parallel with its work.
#[derive(Clone)]
pub(crate) struct Stop(watch::Receiver<bool>);

impl Stop {
    pub(crate) async fn requested(&mut self) {
        // A dropped stopper means the same.
        let _ = self.0.wait_for(|stop| *stop).await;
    }
}

/// Ctrl-C and SIGTERM. Created before the first lock is acquired, so that no signal has its default
/// action and leaves keys on the nodes.
pub(crate) struct Signals {
    #[cfg(unix)]
    interrupt: unix::Signal,
    #[cfg(unix)]
    terminate: unix::Signal,
}

impl Signals {
    #[cfg(unix)]
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: unix::signal(unix::SignalKind::interrupt())?,
            terminate: unix::signal(unix::SignalKind::terminate())?,
        })
    }

    #[cfg(not(unix))]
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {})
    }

    /// Completes once for each signal.
    #[cfg(unix)]
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    #[cfg(not(unix))]
    pub(crate) async fn next(&mut self) {
        tokio::signal::ctrl_c().await.expect("the system takes a handler for Ctrl-C");
    }
}
