//! Stopping: the signals that ask for it, and the word that goes round.

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

/// What each part of the demo waits for beside its work.
#[derive(Clone)]
pub(crate) struct Stop(watch::Receiver<bool>);

impl Stop {
    pub(crate) async fn requested(&mut self) {
        // A stopper that is gone means the same.
        let _ = self.0.wait_for(|stop| *stop).await;
    }
}

/// Completes at Ctrl-C, and at SIGTERM where there is one.
pub(crate) async fn asked_to() {
    let ctrl_c = async {
        tokio::signal::ctrl_c().await.expect("the system takes a handler for Ctrl-C");
    };
    #[cfg(unix)]
    let terminate = async {
        use tokio::signal::unix::{SignalKind, signal};
        signal(SignalKind::terminate()).expect("the system takes a signal handler").recv().await;
    };
    #[cfg(not(unix))]
    let terminate = std::future::pending::<()>();
    tokio::select! {
        () = ctrl_c => {}
        () = terminate => {}
    }
}
