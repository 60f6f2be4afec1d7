//! Texts and times as HTML.

use std::time::{Duration, SystemTime};

use humantime::format_duration;
use maud::{Markup, html};

use crate::text::{stamp, visible};

/// Returns a text from elsewhere, in its own direction.
pub(super) fn text(text: &str) -> Markup {
    html! { bdi { (visible(text)) } }
}

/// Returns a span in words, rounded to what matters: `9s 800ms`, `42s`, `3m 5s`, `4h 2m`, `12days 3h`.
pub(super) fn span(span: Duration) -> String {
    let (millis, seconds) = (span.as_millis(), span.as_secs());
    let whole = match seconds {
        0 => Duration::from_millis(u64::try_from(millis).unwrap_or_default()),
        1..10 => Duration::from_millis(u64::try_from(millis / 100 * 100).unwrap_or_default()),
        10..3_600 => Duration::from_secs(seconds),
        3_600..86_400 => Duration::from_secs(seconds / 60 * 60),
        _ => Duration::from_secs(seconds / 3_600 * 3_600),
    };
    if whole.is_zero() { "0ms".into() } else { format_duration(whole).to_string() }
}

/// Returns a span with one decimal: `80.0µs`, `1.3ms`.
pub(super) fn brief(span: Duration) -> String {
    format!("{span:.1?}")
}

/// Returns a waiting time with two digits or so: `448µs`, `3.1ms`, `72ms`, `1s 200ms`.
pub(super) fn wait(wait: Duration) -> String {
    match wait.as_micros() {
        micros @ 0..1_000 => format!("{micros}µs"),
        micros @ 1_000..10_000 => format!("{}.{}ms", micros / 1_000, micros % 1_000 / 100),
        _ => span(wait),
    }
}

/// Returns a number with a comma between the thousands.
pub(super) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (nth, digit) in digits.char_indices() {
        if nth > 0 && (digits.len() - nth).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// Returns a noun with its number: `1 lock`, `2 locks`.
pub(super) fn counted(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", number(count), if count == 1 { "" } else { "s" })
}

/// Returns a fencing token, or a dash for none.
pub(super) fn token(token: u64) -> Markup {
    html! { @if token > 0 { (token) } @else { "–" } }
}

/// Returns how late something began, in words.
pub(super) fn late(lateness: Duration) -> String {
    if lateness < Duration::from_millis(1) {
        "on time".into()
    } else {
        format!("{} late", span(lateness))
    }
}

/// Returns a time as text, without fractions of a second.
fn second(at: SystemTime) -> Option<String> {
    Some(format!("{}Z", stamp(at)?.split('.').next()?))
}

/// Returns how long ago a time was.
pub(super) fn ago(at: SystemTime, now: SystemTime) -> Markup {
    let ago = span(now.duration_since(at).unwrap_or_default());
    html! { (time(at, &format!("{ago} ago"))) }
}

/// Returns how long it is until a time in the future.
pub(super) fn until(at: SystemTime, now: SystemTime) -> Markup {
    match at.duration_since(now) {
        Ok(left) => time(at, &format!("in {}", span(left))),
        Err(_) => time(at, "now"),
    }
}

fn time(at: SystemTime, shown: &str) -> Markup {
    html! {
        @match second(at) {
            Some(at) => time datetime=(at) title=(at) { (shown) },
            None => "an invalid time",
        }
    }
}

/// Returns a time in UTC.
pub(super) fn moment(at: SystemTime) -> Markup {
    html! {
        @match second(at) {
            Some(at) => time datetime=(at) { (at.replace('T', " ").replace('Z', " UTC")) },
            None => "an invalid time",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn spans_are_short() {
        let cases = [
            (0, "0ms"),
            (999, "999ms"),
            (1_050, "1s"),
            (9_876, "9s 800ms"),
            (59_999, "59s"),
            (185_500, "3m 5s"),
            (14_533_000, "4h 2m"),
            (1_047_600_000, "12days 3h"),
        ];
        for (millis, words) in cases {
            assert_eq!(span(Duration::from_millis(millis)), words);
        }
    }

    #[test]
    fn invalid_times_have_words() {
        let at = UNIX_EPOCH + Duration::from_millis(1_500);
        assert!(moment(at).into_string().contains("1970-01-01 00:00:01 UTC"));
        let far = UNIX_EPOCH + Duration::from_millis(999_999_999_999_999_999);
        for at in [far, UNIX_EPOCH - Duration::from_secs(1)] {
            for shown in [ago(at, UNIX_EPOCH), until(at, far), moment(at)] {
                assert_eq!(shown.into_string(), "an invalid time");
            }
        }
    }

    #[test]
    fn waits_have_two_digits() {
        let cases = [
            (0, "0µs"),
            (448, "448µs"),
            (3_199, "3.1ms"),
            (72_900, "72ms"),
            (1_200_000, "1s 200ms"),
        ];
        for (micros, shown) in cases {
            assert_eq!(wait(Duration::from_micros(micros)), shown);
        }
    }

    #[test]
    fn numbers_are_grouped() {
        let cases = [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")];
        for (of, shown) in cases {
            assert_eq!(number(of), shown);
        }
        assert_eq!((counted(1, "job"), counted(2, "job")), ("1 job".into(), "2 jobs".into()));
    }

    #[test]
    fn lateness_has_words() {
        assert_eq!(late(Duration::ZERO), "on time");
        assert_eq!(late(Duration::from_micros(999)), "on time");
        assert_eq!(late(Duration::from_millis(1_200)), "1s 200ms late");
    }

    #[test]
    fn texts_are_escaped() {
        let shown = text("<script>\u{202e}").into_string();
        assert_eq!(shown, r"<bdi>&lt;script&gt;\u{202e}</bdi>");
    }
}
