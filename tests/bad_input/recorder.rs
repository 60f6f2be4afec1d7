//! A node and a connector that count their calls, to check that nothing was sent.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tower_redlock::node::redis::{Address, Connector, IoStream};
use tower_redlock::node::{Node, Op, Reply};
use tower_redlock::{BuildError, Reason, Redlock, RedlockBuilder};

/// A node that counts the operations that it receives.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorder(Arc<AtomicUsize>);

impl Recorder {
    pub(crate) fn redlock(&self) -> Redlock {
        Redlock::builder().node(self.clone()).build().unwrap()
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Node for Recorder {
    fn send(&self, _: Op, reply: Reply) {
        self.0.fetch_add(1, Ordering::SeqCst);
        reply.send(Err(Reason::Loading));
    }

    fn name(&self) -> &'static str {
        "recorder"
    }
}

impl Connector for Recorder {
    fn connect(
        &self,
        _: &Address,
    ) -> Pin<Box<dyn Future<Output = io::Result<Box<dyn IoStream>>> + Send>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Err(io::ErrorKind::ConnectionRefused.into()) })
    }
}

/// Returns the builder's error. Checks that neither the node nor the connector was called.
pub(crate) fn build_error(configure: impl FnOnce(RedlockBuilder) -> RedlockBuilder) -> BuildError {
    let recorder = Recorder::default();
    let builder = Redlock::builder().node(recorder.clone()).connector(recorder.clone());
    let error = configure(builder).build().unwrap_err();
    assert_eq!(recorder.count(), 0);
    error
}

#[tokio::test]
async fn the_recorder_records() {
    let recorder = Recorder::default();
    recorder.redlock().lock("a").await.unwrap_err();
    assert!(recorder.count() > 0);
}
