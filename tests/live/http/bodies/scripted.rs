//! Scripted bodies, and the observable properties of a body.

use std::{
    collections::VecDeque,
    fmt::{self, Display},
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use http_body::{Body, Frame, SizeHint};

use crate::http::fixture::Flag;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Data(Vec<u8>),
    Trailers(u8),
    Error,
    Pending,
    Panic,
}

/// A body that follows a script.
#[derive(Default)]
pub(super) struct Scripted {
    pub(super) steps: VecDeque<Step>,
    /// Whether `is_end_stream` is exact; otherwise it always returns false, which is allowed.
    pub(super) tells_its_end: bool,
    /// `size_hint` is exact; otherwise it is unknown.
    pub(super) tells_its_size: bool,
    /// A flag that is set when the body is dropped.
    #[allow(dead_code, reason = "it is there to be dropped")]
    pub(super) dropped: Option<Flag>,
}

impl Scripted {
    pub(super) fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self { steps: steps.into_iter().collect(), ..Self::default() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken;

impl Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("broken on purpose")
    }
}

impl std::error::Error for Broken {}

impl Body for Scripted {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let Some(step) = self.steps.pop_front() else { return Poll::Ready(None) };
        Poll::Ready(Some(match step {
            Step::Data(data) => Ok(Frame::data(data.into())),
            Step::Trailers(value) => {
                let value = HeaderValue::from(u16::from(value));
                Ok(Frame::trailers(HeaderMap::from_iter([(http::header::AGE, value)])))
            }
            Step::Error => Err(Broken),
            Step::Pending => return Poll::Pending,
            Step::Panic => panic!("on purpose"),
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.tells_its_end && self.steps.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        if !self.tells_its_size {
            return SizeHint::default();
        }
        let lengths = self.steps.iter().map(|step| match step {
            Step::Data(data) => data.len() as u64,
            _ => 0,
        });
        SizeHint::with_exact(lengths.sum())
    }
}

pub(super) type Frames<E> = Poll<Option<Result<Frame<Bytes>, E>>>;

pub(super) fn frame<B: Body<Data = Bytes>>(body: Pin<&mut B>) -> Frames<B::Error> {
    body.poll_frame(&mut Context::from_waker(Waker::noop()))
}

/// All observable properties of a body, poll by poll, until it ends or fails, and once more after
/// that.
pub(super) fn transcript<B>(body: B) -> Vec<String>
where
    B: Body<Data = Bytes>,
    B::Error: Display,
{
    let mut body = pin!(body);
    let look = |body: &B| {
        let (size, ends) = (body.size_hint(), body.is_end_stream());
        format!("size {} to {:?}, ends: {ends}", size.lower(), size.upper())
    };
    let mut seen = vec![look(&body)];
    while seen.len() < 100 {
        let polled = frame(body.as_mut());
        let (text, is_over) = match polled {
            Poll::Pending => ("pending".to_owned(), false),
            Poll::Ready(None) => ("end".to_owned(), true),
            Poll::Ready(Some(Err(error))) => (format!("error: {error}"), true),
            Poll::Ready(Some(Ok(frame))) => (format!("{frame:?}"), false),
        };
        seen.push(text);
        seen.push(look(&body));
        if is_over {
            return seen;
        }
    }
    panic!("no end: {seen:?}");
}
