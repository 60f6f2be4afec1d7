//! A listener served by a runtime on a thread of its own, so that the test's runtime may be of any
//! flavour, blocked or paused.

use std::net::SocketAddr;
use std::thread::{self, JoinHandle};

use tokio::net::TcpListener;
use tokio::runtime;
use tokio::sync::oneshot;

use super::port::{self, Port};

#[derive(Debug)]
pub struct Background {
    port: Port,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Runs `serve`, and what it spawns, until dropped.
    pub fn run<F>(serve: impl FnOnce(TcpListener) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()>,
    {
        let (listener, port) = port::listen();
        let (stop, stopped) = oneshot::channel();
        let thread = thread::spawn(move || {
            let runtime =
                runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).expect("a non-blocking listener");
                tokio::select! {
                    _ = stopped => {}
                    () = serve(listener) => {}
                }
            });
        });
        Self { port, stop: Some(stop), thread: Some(thread) }
    }

    pub fn addr(&self) -> SocketAddr {
        self.port.addr()
    }
}

impl Drop for Background {
    /// Returns when connections are closed and new ones are refused.
    fn drop(&mut self) {
        self.stop = None;
        let _ = self.thread.take().expect("dropped once").join();
        port::await_refusal(self.addr());
    }
}
