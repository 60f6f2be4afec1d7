//! Any body that is read and passed on, compared with the original body.

use http::HeaderMap;
use http_body::{Body, SizeHint};
use proptest::{collection::vec, prelude::*};
use tower_redlock::once::{ReadBody, ReadBodyError, RestoredBody};

use crate::bodies::scripted::{Scripted, Step, drain, poll_to_end};

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let data = vec(any::<u8>(), 0..20).prop_map(Step::Data);
    let middle = vec(prop_oneof![4 => data, 1 => Just(Step::Pending)], 0..100);
    let end = prop_oneof![
        Just(vec![]),
        any::<u8>().prop_map(|value| vec![Step::Trailers(value)]),
        Just(vec![Step::Error]),
    ];
    (middle, end).prop_map(|(middle, end)| [middle, end].concat())
}

proptest! {
    #[test]
    fn body_is_passed_on_unchanged(
        steps in steps(),
        limit in 0..1000_usize,
        tells_its_end: bool,
        tells_its_size: bool,
    ) {
        let len = steps.iter().map(|step| if let Step::Data(data) = step { data.len() } else { 0 });
        let len = len.sum::<usize>();
        let body = || {
            let hint = if tells_its_size { SizeHint::with_exact(len as u64) } else { SizeHint::default() };
            Scripted { tells_its_end, hint, ..Scripted::new(steps.clone()) }
        };
        let expected = drain(body());

        let again = match poll_to_end(ReadBody::new(&HeaderMap::new(), body(), limit)) {
            Ok(whole) => {
                prop_assert!(len <= limit && !expected.failed);
                let again = RestoredBody::from(whole);
                // HTTP/1 allows no trailers after a body of announced length.
                let exact = expected.trailers.is_empty().then_some(len as u64);
                prop_assert_eq!(again.size_hint().exact(), exact);
                prop_assert_eq!(again.size_hint().lower(), len as u64);
                prop_assert_eq!(again.is_end_stream(), len == 0 && expected.trailers.is_empty());
                again
            }
            Err(short) => {
                match short.error() {
                    ReadBodyError::TooLarge { .. } => prop_assert!(len > limit),
                    _ => prop_assert!(expected.failed && len <= limit),
                }
                short.into_body()
            }
        };

        prop_assert_eq!(drain(again), expected);
    }
}
