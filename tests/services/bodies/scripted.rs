//! A scripted body, and the observable properties of a body.

use std::{
    collections::VecDeque,
    fmt::{self, Display},
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

use bytes::{Buf, Bytes, buf::Chain};
use http::{HeaderMap, HeaderValue};
use http_body::{Body, Frame, SizeHint};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Data(Vec<u8>),
    Trailers(u8),
    Error,
    Pending,
}

/// A body that follows a script.
#[derive(Debug, Default)]
pub(crate) struct Scripted {
    pub(crate) steps: VecDeque<Step>,
    /// Whether `is_end_stream` is exact; otherwise it always returns false, which is allowed.
    pub(crate) tells_its_end: bool,
    /// The result of `size_hint`.
    pub(crate) hint: SizeHint,
    /// Number of polls.
    pub(crate) polls: usize,
}

impl Scripted {
    pub(crate) fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self { steps: steps.into_iter().collect(), ..Self::default() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

impl Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("broken on purpose")
    }
}

impl std::error::Error for Broken {}

pub(crate) fn trailers(value: u8) -> HeaderMap {
    let value = HeaderValue::from(u16::from(value));
    [("x-sum".parse().expect("a header's name"), value)].into_iter().collect()
}

/// Each data buffer consists of two pieces.
impl Body for Scripted {
    type Data = Chain<Bytes, Bytes>;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Broken>>> {
        self.polls += 1;
        Poll::Ready(match self.steps.pop_front() {
            None => None,
            Some(Step::Data(data)) => {
                let mut first = Bytes::from(data);
                let second = first.split_off(first.len() / 2);
                Some(Ok(Frame::data(first.chain(second))))
            }
            Some(Step::Trailers(value)) => Some(Ok(Frame::trailers(trailers(value)))),
            Some(Step::Error) => Some(Err(Broken)),
            Some(Step::Pending) => {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.tells_its_end && self.steps.iter().all(|step| *step == Step::Pending)
    }

    fn size_hint(&self) -> SizeHint {
        self.hint
    }
}

/// Everything that a body yields.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Seen {
    pub(crate) data: Vec<u8>,
    pub(crate) trailers: Vec<HeaderMap>,
    pub(crate) failed: bool,
}

/// Polls a future without a runtime, up to a maximum number of times.
pub(crate) fn poll_to_end<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..10_000 {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
    }
    panic!("it is not ready after 10,000 polls");
}

/// Reads a body to its end, and checks its properties at each step.
pub(crate) fn drain<B: Body>(body: B) -> Seen {
    let mut body = pin!(body);
    let mut seen = Seen::default();
    let said = body.size_hint();
    loop {
        let said_end = body.is_end_stream();
        let mut cx = Context::from_waker(Waker::noop());
        match body.as_mut().poll_frame(&mut cx) {
            Poll::Pending => continue,
            Poll::Ready(None) => break,
            Poll::Ready(Some(Err(_))) => seen.failed = true,
            Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                Ok(mut data) => {
                    assert!(seen.trailers.is_empty(), "data behind trailers");
                    seen.data.extend_from_slice(&data.copy_to_bytes(data.remaining()));
                }
                Err(frame) => {
                    seen.trailers.extend(frame.into_trailers().ok());
                }
            },
        }
        assert!(!said_end, "something came after the end");
    }
    let len = seen.data.len() as u64;
    if !seen.failed {
        assert!(said.lower() <= len, "{said:?} of {len}");
        assert!(said.upper().is_none_or(|upper| len <= upper), "{said:?} of {len}");
    }
    seen
}
