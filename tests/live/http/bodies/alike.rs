//! A body inside the layer and the same body without it are equal, poll by poll.

use std::{convert::Infallible, fmt::Display};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Empty, Full, Limited, StreamBody, channel::Channel};
use proptest::{collection::vec, prelude::*};

use super::scripted::{Scripted, Step, transcript};
use crate::http::fixture::Fixture;

#[track_caller]
fn assert_alike<B>(make: impl Fn() -> B)
where
    B: Body<Data = Bytes>,
    B::Error: Display + std::fmt::Debug,
{
    let fixture = Fixture::new();
    let beside = transcript(make());
    let through = fixture.through(make());
    assert_eq!(transcript(through), beside);
    assert!(fixture.is_free());
}

fn stream() -> impl Body<Data = Bytes, Error = Infallible> {
    let frames = ["a", "", "bc"].map(|text| Ok(Frame::data(Bytes::from(text))));
    StreamBody::new(tokio_stream::iter(frames))
}

fn trailers() -> HeaderMap {
    HeaderMap::from_iter([(http::header::ETAG, "x".parse().unwrap())])
}

#[test]
fn bodies_of_all_kinds_pass_untouched() {
    assert_alike(Empty::new);
    assert_alike(|| Full::from("some text"));
    assert_alike(|| Full::from(""));
    assert_alike(|| axum::body::Body::from("some text"));
    assert_alike(axum::body::Body::empty);
    assert_alike(stream);
    assert_alike(|| stream().with_trailers(std::future::ready(Some(Ok(trailers())))));
    assert_alike(|| Full::from("x").with_trailers(std::future::ready(None)));
    assert_alike(|| Full::from("x").boxed());
    assert_alike(|| Limited::new(Full::from("more than four"), 4));
    assert_alike(|| {
        let (mut sender, body) = Channel::<Bytes, Infallible>::new(4);
        sender.try_send(Frame::data("a".into())).unwrap();
        sender.try_send(Frame::trailers(trailers())).unwrap();
        body
    });
    assert_alike(|| {
        let (mut sender, body) = Channel::new(4);
        sender.try_send(Frame::data("a".into())).unwrap();
        sender.abort(std::io::Error::other("gone"));
        body
    });
}

#[test]
fn body_without_a_lock_passes_unchanged() {
    let fixture = Fixture::new();
    let request = http::Request::get("/").body(()).unwrap();
    let response = http::Response::new(stream());
    let through = crate::http::fixture::answer(&fixture.layer(), request, response).into_body();
    assert_eq!(transcript(through), transcript(stream()));
}

fn any_script() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => vec(any::<u8>(), 0..5).prop_map(Step::Data),
        2 => Just(Step::Pending),
    ];
    let last = prop_oneof![
        Just(None),
        any::<u8>().prop_map(|value| Some(Step::Trailers(value))),
        Just(Some(Step::Error)),
    ];
    (vec(step, 0..12), last).prop_map(|(mut steps, last)| {
        steps.extend(last);
        steps
    })
}

proptest! {
    #[test]
    fn any_sequence_of_frames_passes_untouched(
        steps in any_script(),
        tells_its_end: bool,
        tells_its_size: bool,
    ) {
        assert_alike(|| Scripted {
            tells_its_end,
            tells_its_size,
            ..Scripted::new(steps.clone())
        });
    }
}
