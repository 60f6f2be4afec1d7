//! Wrappers of nodes: one records operations, one causes an even split.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use tower_redlock::{
    Redlock,
    error::Reason,
    node::{Answer, Node, Op, Reply},
};

use crate::fixture::mock_node::MockNode;

pub(super) type Outcome = Result<Answer, Reason>;

/// The nodes of a manager, which must outlive them, and the answers to its acquires.
pub(super) fn noted(of: &Redlock) -> (Vec<MockNode>, Arc<Mutex<Vec<Outcome>>>) {
    let notes = Arc::<Mutex<Vec<Outcome>>>::default();
    let node = |inner: &Arc<dyn Node>| {
        let notes = Arc::clone(&notes);
        MockNode::over(inner, move |op, reply, inner| {
            if !matches!(op, Op::Acquire(_)) {
                return inner.send(op, reply);
            }
            let notes = Arc::clone(&notes);
            let note = Reply::from_fn(move |result| {
                notes.lock().unwrap().push(result.clone());
                reply.send(result);
            });
            inner.send(op, note);
        })
    };
    (of.nodes().iter().map(node).collect(), notes)
}

/// Makes the first acquire operations of two clients split the nodes: each client is the first on
/// half of them, and no answer is delivered before all answers have arrived. Later operations are
/// passed on unchanged.
#[derive(Debug)]
pub(super) struct Split {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The second client's operations by node, held until the first client's operation is answered.
    waiting: Vec<Option<(Op, Reply)>>,
    first_answered: Vec<bool>,
    answers: Vec<(Reply, Outcome)>,
    outstanding: usize,
}

impl Split {
    pub(super) fn new(nodes: usize) -> Arc<Self> {
        let state = State {
            waiting: (0..nodes).map(|_| None).collect(),
            first_answered: vec![false; nodes],
            answers: Vec::new(),
            outstanding: 2 * nodes,
        };
        Arc::new(Self { state: Mutex::new(state) })
    }

    /// The nodes as client 0 or 1 sees them.
    pub(super) fn nodes(self: &Arc<Self>, client: usize, of: &Redlock) -> Vec<MockNode> {
        let half = of.nodes().len() / 2;
        let node = |(index, inner): (usize, &Arc<dyn Node>)| {
            let (split, node) = (Arc::clone(self), Arc::clone(inner));
            let is_first = (index < half) == (client == 0);
            let done = AtomicBool::new(false);
            MockNode::over(inner, move |op, reply, inner| {
                if done.swap(true, Ordering::SeqCst) {
                    return inner.send(op, reply);
                }
                {
                    let mut state = split.state.lock().unwrap();
                    if !is_first && !state.first_answered[index] {
                        state.waiting[index] = Some((op, reply));
                        return;
                    }
                }
                Arc::clone(&split).forward(&node, index, op, reply);
            })
        };
        of.nodes().iter().enumerate().map(node).collect()
    }

    fn forward(self: Arc<Self>, inner: &Arc<dyn Node>, index: usize, op: Op, reply: Reply) {
        let node = Arc::clone(inner);
        let collect = Reply::from_fn(move |result| {
            let (next, all) = {
                let mut state = self.state.lock().unwrap();
                state.answers.push((reply, result));
                state.outstanding -= 1;
                state.first_answered[index] = true;
                let next = state.waiting[index].take();
                let all = (state.outstanding == 0).then(|| std::mem::take(&mut state.answers));
                (next, all)
            };
            if let Some((op, reply)) = next {
                Arc::clone(&self).forward(&node, index, op, reply);
            }
            for (reply, result) in all.into_iter().flatten() {
                reply.send(result);
            }
        });
        inner.send(op, collect);
    }
}
