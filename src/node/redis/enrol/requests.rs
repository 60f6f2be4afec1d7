//! Requests to the nodes of a set, over the connections of their sessions.

use std::{sync::Arc, time::Duration};

use ::redis::{Pipeline, Value};
use tokio::sync::oneshot;

use super::{
    AdminRequest, NodeReport, NodeSet, Tag, add_check,
    learnt_state::{LearntState, pairs},
    record::Change,
};
use crate::{
    error::Reason,
    node::redis::{
        permissions,
        scripts::{self, Enrolling},
        server_error::{reason, unexpected},
        values::text,
    },
    stripe::STRIPES,
};

/// Timeout for a node's answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Number of attempts to read a node whose record other clients change at the same time.
const ATTEMPTS: usize = 5;

impl NodeSet {
    /// Makes a node's session read the record again.
    pub(super) fn check(&self, node: usize) {
        let _ = self.members()[node].admin.send(AdminRequest::Check);
    }

    /// Begins a call of a script with the key of a node's metadata; the caller adds the arguments.
    pub(super) fn call(&self, node: usize, script: Enrolling) -> Pipeline {
        let mut call = Pipeline::with_capacity(1);
        let text = script.text(self.traits(node).knows_flags);
        call.cmd("EVAL").arg(text).arg(1).arg(&self.keys.meta);
        call
    }

    /// Reads a node's record.
    pub(super) async fn read(&self, node: usize) -> Result<NodeReport, Reason> {
        let mut pipeline = Pipeline::with_capacity(8);
        let tag = self.latest_tag(node);
        add_check(&mut pipeline, &self.keys, &tag, &self.other_names(node));
        let mut answers = self.ask(node, pipeline).await?.into_iter();
        NodeReport::parse(&mut answers, &tag, self.settings.guards.restart)
    }

    /// Reads a node's tag, and its state without the marks.
    pub(super) async fn meta(&self, node: usize) -> Result<(Option<Tag>, LearntState), Reason> {
        let mut found = Arc::from("");
        for _ in 0..ATTEMPTS {
            let mut pipeline = Pipeline::with_capacity(1);
            pipeline.cmd("HGETALL").arg(&self.keys.meta);
            let [meta] = self.ask_all(node, pipeline).await?;
            let (tag, mut known) = LearntState::of_meta(&meta);
            let stored = tag.clone().unwrap_or_else(|| Tag::new(""));
            let mut pipeline = Pipeline::with_capacity(1);
            pipeline.cmd("EVAL").arg(scripts::FENCES).arg(2);
            pipeline.arg(self.keys.fences(&stored)).arg(&self.keys.meta);
            let [answer] = self.ask_all(node, pipeline).await?;
            let Value::Array(items) = answer else { return Err(unexpected(&answer)) };
            let [fences, tag_after] = &items[..] else {
                return Err(unexpected(&Value::Array(items)));
            };
            found = text(tag_after);
            // The fences are stored under this key while the tag is unchanged.
            if found != *stored.text() {
                continue;
            }
            known.learn_fences(fences);
            // A node that lost some of its fences is not a source for the other nodes.
            let votes = stored.is_active() && *stored.layout() == *self.layout.hash;
            if votes && pairs(fences).count() < STRIPES {
                break;
            }
            return Ok((tag, known));
        }
        Err(Reason::WrongTag { found })
    }

    /// Changes a node's record; returns false if the record has changed since it was read.
    pub(super) async fn change(&self, node: usize, change: &Change) -> Result<bool, Reason> {
        let call = change.call(&self.keys, self.traits(node).knows_flags);
        match self.ask(node, call).await?.first() {
            Some(Value::Int(made)) => Ok(*made == 1),
            Some(Value::ServerError(error)) => Err(reason(error)),
            _ => {
                Err(Reason::Protocol("a change of the record did not answer with a number".into()))
            }
        }
    }

    /// Runs commands over a node's connection.
    pub(super) async fn ask(&self, node: usize, pipeline: Pipeline) -> Result<Vec<Value>, Reason> {
        let asked = self.ask_patiently(node, pipeline);
        tokio::time::timeout(ANSWER_TIMEOUT, asked).await.unwrap_or(Err(Reason::TimedOut))
    }

    /// Runs commands over a node's connection; fails if one of them fails.
    pub(super) async fn ask_all<const N: usize>(
        &self,
        node: usize,
        pipeline: Pipeline,
    ) -> Result<[Value; N], Reason> {
        let answers = self.ask(node, pipeline).await?;
        for answer in &answers {
            if let Value::ServerError(error) = answer {
                return Err(reason(error));
            }
        }
        answers.try_into().map_err(|_| Reason::Protocol("unexpected number of answers".into()))
    }

    /// Runs commands without a timeout, and so without a runtime.
    async fn ask_patiently(&self, node: usize, pipeline: Pipeline) -> Result<Vec<Value>, Reason> {
        let (sender, receiver) = oneshot::channel();
        let _ = self.members()[node].admin.send(AdminRequest::Run(pipeline, sender));
        receiver.await.unwrap_or(Err(Reason::Disconnected))
    }

    /// Tries each command on a connected node, and records the denied ones in its health.
    ///
    /// # Cancel safety
    ///
    /// Safe. The server may still try the commands, which have no lasting effect.
    pub(crate) async fn check_permissions(&self, node: usize) {
        let status = &self.members()[node].status;
        if status.down().is_some() {
            return;
        }
        let mut pipeline = Pipeline::with_capacity(2);
        permissions::ask(&mut pipeline, &self.settings, &self.keys);
        if let Ok(answers) = self.ask_patiently(node, pipeline).await
            && let Some(checked) = permissions::answer(answers)
        {
            status.denied(|denied| denied.checked = checked);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::Scripted, *};

    #[tokio::test(start_paused = true)]
    async fn nodes_answer_in_time() {
        let Scripted { set, mut nodes, .. } = Scripted::new("p");
        let ask = || set.ask(0, Pipeline::new());
        let begun = tokio::time::Instant::now();
        assert_eq!(ask().await, Err(Reason::TimedOut));
        assert_eq!(begun.elapsed(), ANSWER_TIMEOUT);
        nodes.remove(0);
        assert_eq!(ask().await, Err(Reason::Disconnected));
    }
}
