//! A connection apart from a node's own, used by one task.

use std::{future::poll_fn, task::Poll, time::Duration};

use ::redis::{Pipeline, Value};

use super::{
    connection_login::{ConnectionLogin, LoginStep},
    wire::Wire,
};
use crate::error::Reason;

/// A connection on which one task sends commands and waits for the replies.
#[derive(Debug)]
pub(super) struct SideConnection {
    wire: Wire,
    login: ConnectionLogin,
}

impl SideConnection {
    pub(super) const fn new(wire: Wire, login: ConnectionLogin) -> Self {
        Self { wire, login }
    }

    /// Sends commands; errors are among the replies. See [`Wire::ask_within`]. Does not wait for
    /// credentials: new ones are sent before the commands that follow their arrival.
    pub(super) async fn ask_within(
        &mut self,
        pipeline: &Pipeline,
        silence: Duration,
        memory: usize,
    ) -> Result<Vec<Value>, Reason> {
        match poll_fn(|cx| Poll::Ready(self.login.poll(cx))).await {
            Poll::Ready(LoginStep::Send(auth)) => {
                let answers = self.wire.ask_within(&auth, silence, memory).await;
                let answers = answers.map_err(|reason| self.login.hide(reason))?;
                self.login.answered(answers.first().unwrap_or(&Value::Nil));
            }
            Poll::Ready(LoginStep::Close(reason)) => return Err(reason),
            Poll::Pending => {}
        }
        self.wire.ask_within(pipeline, silence, memory).await
    }

    /// See [`Wire::check_idle`].
    pub(super) async fn check_idle(&mut self) -> Result<(), Reason> {
        self.wire.check_idle().await
    }

    /// See [`Wire::check_answered`].
    pub(super) fn check_answered(&self) -> Result<(), Reason> {
        self.wire.check_answered()
    }
}
