//! Which parts of a body are read.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, header::CONTENT_LENGTH};
use http_body::{Body, SizeHint};
use http_body_util::{Empty, Full};
use tower_redlock::once::{ReadBody, ReadBodyError, RestoredBody};

use crate::bodies::scripted::{Broken, Scripted, Step, drain, poll_to_end, trailers};

/// Longer than any operation here takes.
const HANG: Duration = Duration::from_secs(30);

fn none() -> HeaderMap {
    HeaderMap::new()
}

fn data(text: &str) -> Step {
    Step::Data(text.into())
}

#[test]
fn data_and_trailers_are_read() {
    let steps =
        [data("ab"), Step::Pending, data(""), data("cde"), Step::Pending, Step::Trailers(7)];
    let whole = poll_to_end(ReadBody::new(&none(), Scripted::new(steps), 5)).unwrap();
    assert_eq!(whole.data(), "abcde");
    assert_eq!(whole.trailers(), Some(&trailers(7)));

    let again = RestoredBody::<Scripted>::from(whole);
    assert_eq!(
        again.size_hint().exact(),
        None,
        "HTTP/1 would announce it, and leave the trailers away"
    );
    assert!(!again.is_end_stream());
    let seen = drain(again);
    assert_eq!((seen.data, seen.trailers), (b"abcde".to_vec(), vec![trailers(7)]));
}

#[test]
fn one_byte_above_limit_passes_intact() {
    let steps = [data("ab"), data("cde"), Step::Pending, data("fg"), Step::Trailers(7)];
    let short = poll_to_end(ReadBody::new(&none(), Scripted::new(steps), 4)).unwrap_err();

    assert_eq!(short.error(), &ReadBodyError::TooLarge { limit: 4 });

    let text = "the body is too large: at most 4 bytes are accepted";
    assert_eq!(short.error().to_string(), text);

    let body = short.into_body();
    assert_eq!((body.size_hint().lower(), body.size_hint().upper()), (5, None));

    let seen = drain(body);
    assert_eq!((seen.data, seen.trailers), (b"abcdefg".to_vec(), vec![trailers(7)]));
}

#[test]
fn announced_excess_is_never_polled() {
    let length = |length: &'static str| {
        let length = HeaderValue::from_static(length);
        HeaderMap::from_iter([(CONTENT_LENGTH, length)])
    };
    let read = |headers: &HeaderMap, lower: u64| {
        let mut body = Scripted::new([data("abcd")]);
        body.hint.set_lower(lower);
        let read = poll_to_end(ReadBody::new(headers, body, 4));
        read.map(|whole| whole.data().len())
            .map_err(|short| (format!("{short:?}"), short.into_error()))
    };

    for (headers, lower) in [(none(), 5), (none(), u64::MAX), (length("5"), 0)] {
        let (shown, error) = read(&headers, lower).unwrap_err();
        assert_eq!(error, ReadBodyError::TooLarge { limit: 4 });
        assert!(shown.contains("bytes: 0"), "{shown}");
    }

    // The server has to refuse a length that no integer can hold; the body is still bounded.
    for (headers, lower) in [(none(), 4), (length("4"), 0), (length("x"), 0), (length(""), 0)] {
        assert_eq!(read(&headers, lower).unwrap(), 4);
    }
}

#[test]
fn error_is_replayed_after_data() {
    let body = || Scripted::new([data("ab"), Step::Error]);
    let error = poll_to_end(ReadBody::new(&none(), body(), 9)).unwrap_err().into_error();

    assert_eq!(error, ReadBodyError::Body(Broken));
    assert_eq!(error.to_string(), "the body failed: broken on purpose");

    let again = poll_to_end(ReadBody::new(&none(), body(), 9)).unwrap_err().into_body();
    assert_eq!((again.size_hint().lower(), again.size_hint().upper()), (2, None));
    assert!(!again.is_end_stream());

    let seen = drain(again);
    assert_eq!((seen.data, seen.failed), (b"ab".to_vec(), true));
}

#[test]
fn known_end_is_not_polled() {
    let read = |steps: &[Step]| {
        let mut body = Scripted::new(steps.iter().cloned());
        body.tells_its_end = true;
        let mut read = pin!(ReadBody::new(&none(), body, 9));
        let polled = read.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Ready(Ok(_))));
    };
    read(&[]);
    read(&[Step::Pending]);
    read(&[data("a"), Step::Pending]);

    let whole = poll_to_end(ReadBody::new(&none(), Empty::<Bytes>::new(), 0)).unwrap();

    assert_eq!((whole.data().len(), whole.trailers()), (0, None));
    assert!(RestoredBody::<Empty<Bytes>>::from(whole).is_end_stream());
}

#[test]
fn single_frame_is_not_copied() {
    let sent = Bytes::from(vec![7; 1000]);
    let whole = poll_to_end(ReadBody::new(&none(), Full::new(sent.clone()), 1000)).unwrap();
    assert_eq!(whole.data().as_ptr(), sent.as_ptr());
}

#[tokio::test]
async fn always_ready_body_yields() {
    let body = || Scripted::new(std::iter::repeat_n(Step::Data(Vec::new()), 1000));
    let whole = tokio::time::timeout(HANG, ReadBody::new(&none(), body(), 9)).await;

    assert!(whole.expect("nobody woke it").is_ok());

    let mut read = pin!(ReadBody::new(&none(), body(), 9));
    let mut polls = 1;
    while read.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
        polls += 1;
    }

    assert!(polls > 10, "{polls} polls");
}

#[test]
fn untouched_body_is_unchanged() {
    let mut body = Scripted::new([data("ab"), Step::Trailers(1)]);
    body.hint = SizeHint::with_exact(2);
    body.tells_its_end = true;

    let body = RestoredBody::untouched(body);

    assert_eq!(body.size_hint().exact(), Some(2));

    let seen = drain(body);
    assert_eq!((seen.data, seen.trailers), (b"ab".to_vec(), vec![trailers(1)]));
    assert!(RestoredBody::<Scripted>::default().is_end_stream());

    let mut end = Scripted::new([]);
    end.tells_its_end = true;
    assert!(RestoredBody::untouched(end).is_end_stream());
}

#[test]
fn nothing_of_a_body_is_shown() {
    let secret = || Scripted::new([data("s3cret"), data("s3cret")]);
    let whole = poll_to_end(ReadBody::new(&none(), secret(), 99)).unwrap();
    let short = poll_to_end(ReadBody::new(&none(), secret(), 6)).unwrap_err();
    let shown = format!("{whole:?} {short:?} {:?}", RestoredBody::<Scripted>::from(whole.clone()));
    assert!(!shown.contains("s3cret") && shown.contains("12"), "{shown}");
}
