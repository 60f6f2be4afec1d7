//! A node and a connector that count their calls, to check that nothing was sent.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tower_redlock::node::redis::{Address, Connector, IoStream};
use tower_redlock::{
    Redlock, RedlockBuilder,
    error::{BuildError, Reason},
};

use crate::support::mock_node::MockNode;

/// Counts the operations that its nodes receive, and its connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorder(Arc<AtomicUsize>);

impl Recorder {
    pub(crate) fn redlock(&self) -> Redlock {
        Redlock::builder().node(self.node()).build().unwrap()
    }

    pub(crate) fn node(&self) -> MockNode {
        let recorder = self.clone();
        MockNode::answering("recorder", move |_| {
            recorder.record();
            Err(Reason::Loading)
        })
    }

    fn record(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Connector for Recorder {
    fn connect(
        &self,
        _: &Address,
    ) -> Pin<Box<dyn Future<Output = io::Result<Box<dyn IoStream>>> + Send>> {
        self.record();
        Box::pin(async { Err(io::ErrorKind::ConnectionRefused.into()) })
    }
}

/// Returns the builder's error. Checks that neither the node nor the connector was called.
pub(crate) fn build_error(configure: impl FnOnce(RedlockBuilder) -> RedlockBuilder) -> BuildError {
    let recorder = Recorder::default();
    let builder = Redlock::builder().node(recorder.node()).connector(recorder.clone());
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
