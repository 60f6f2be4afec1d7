//! Any order of begins and ends, compared with a list that is searched linearly.

use std::{
    future::{Future, Pending, pending},
    pin::Pin,
    task::{Context, Waker},
};

use proptest::{collection::vec, prelude::*};
use tower::{Layer, Service, service_fn};
use tower_redlock::fencing::{FencingError, FencingFuture, FencingServiceError};

use crate::fencing::fixture::{Write, layer, overtaken, stale};

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

#[derive(Clone, Debug)]
enum Step {
    /// Some of the names, by their bits.
    Begin(u8, u64),
    End(usize),
    Poll(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1..32_u8, 1..8_u64).prop_map(|(names, token)| Step::Begin(names, token)),
        2 => (0..5_u32, 1..8_u64).prop_map(|(name, token)| Step::Begin(1 << name, token)),
        2 => any::<usize>().prop_map(Step::End),
        2 => any::<usize>().prop_map(Step::Poll),
    ]
}

#[derive(Debug)]
struct Known {
    name: &'static str,
    newest: u64,
    running: usize,
}

/// From the least to the most recently used.
#[derive(Debug)]
struct Model {
    known: Vec<Known>,
    capacity: usize,
}

impl Model {
    fn find(&mut self, name: &str) -> Option<&mut Known> {
        self.known.iter_mut().find(|known| known.name == name)
    }

    /// Uses an entry: it goes to the end of the list.
    fn use_now(&mut self, name: &str) {
        let i = self.known.iter().position(|known| known.name == name).unwrap();
        let known = self.known.remove(i);
        self.known.push(known);
    }

    fn forget_one(&mut self) -> bool {
        let idle = self.known.iter().position(|known| known.running == 0);
        idle.map(|i| self.known.remove(i)).is_some()
    }

    /// Returns the newest token if the request must be refused.
    fn begin(&mut self, names: &[&'static str], token: u64) -> Option<u64> {
        let mut newest = 0;
        for name in names {
            if let Some(known) = self.find(name) {
                newest = newest.max(known.newest);
                self.use_now(name);
            }
        }
        if newest > token {
            return Some(newest);
        }
        for name in names {
            if self.find(name).is_none() {
                while self.known.len() >= self.capacity && self.forget_one() {}
                self.known.push(Known { name, newest: token, running: 0 });
            }
            let known = self.find(name).unwrap();
            known.newest = token;
            known.running += 1;
        }
        None
    }

    fn end(&mut self, names: &[&'static str]) {
        for name in names {
            self.find(name).unwrap().running -= 1;
            self.use_now(name);
            while self.known.len() > self.capacity && self.forget_one() {}
        }
    }

    fn newest(&mut self, names: &[&'static str]) -> u64 {
        names.iter().map(|name| self.find(name).unwrap().newest).max().unwrap()
    }
}

type Answer = FencingFuture<Pending<Result<(), &'static str>>>;

struct Running {
    names: Vec<&'static str>,
    token: u64,
    answer: Pin<Box<Answer>>,
}

impl Running {
    fn poll(&mut self) -> Option<FencingError> {
        match self.answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            std::task::Poll::Pending => None,
            std::task::Poll::Ready(Err(FencingServiceError::Fencing(error))) => Some(error),
            std::task::Poll::Ready(other) => panic!("{other:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn requests_pass_as_the_model_says(capacity in 0..6_usize, steps in vec(step(), 1..60)) {
        let layer = layer().capacity(capacity);
        let mut service = layer.layer(service_fn(|_: Write| pending::<Result<(), &'static str>>()));
        let mut model = Model { known: Vec::new(), capacity };
        let mut running: Vec<Running> = Vec::new();

        for step in steps {
            match step {
                Step::Begin(bits, token) => {
                    let names: Vec<_> =
                        (0..5).filter(|i| bits & (1 << i) != 0).map(|i| NAMES[i]).collect();
                    let write = Write { names: names.clone(), token: Some(token) };
                    let answer = Box::pin(service.call(write));
                    let mut begun = Running { names, token, answer };
                    let turned_away = model.begin(&begun.names, token);
                    prop_assert_eq!(begun.poll(), turned_away.map(|newest| stale(token, newest)));
                    if turned_away.is_none() {
                        running.push(begun);
                    }
                }
                Step::End(i) | Step::Poll(i) if running.is_empty() => { let _ = i; }
                Step::End(i) => {
                    let ended = running.swap_remove(i % running.len());
                    model.end(&ended.names);
                }
                Step::Poll(i) => {
                    let i = i % running.len();
                    let (newest, token) = (model.newest(&running[i].names), running[i].token);
                    let stopped = (newest > token).then(|| overtaken(token, newest));
                    prop_assert_eq!(running[i].poll(), stopped);
                    if newest > token {
                        model.end(&running.swap_remove(i).names);
                    }
                }
            }
            let kept = format!("resources: {},", model.known.len());
            prop_assert!(format!("{layer:?}").contains(&kept), "{layer:?}, not {kept}");
        }
    }
}
