//! Texts and times as HTML.

use std::time::{Duration, SystemTime};

use humantime::{format_duration, format_rfc3339_seconds};
use maud::{Markup, html};

use crate::query::visible;

/// A text from elsewhere, in its own direction.
pub(super) fn text(text: &str) -> Markup {
    html! { bdi { (visible(text)) } }
}

/// A span in words, rounded to what matters: `9s 800ms`, `42s`, `3m 5s`, `4h 2m`, `12days 3h`.
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

/// A time, and how long ago it was.
pub(super) fn ago(at: SystemTime, now: SystemTime) -> Markup {
    let ago = span(now.duration_since(at).unwrap_or_default());
    html! { (time(at, &format!("{ago} ago"))) }
}

/// A time in the future, and how long it is until then.
pub(super) fn until(at: SystemTime, now: SystemTime) -> Markup {
    match at.duration_since(now) {
        Ok(left) => time(at, &format!("in {}", span(left))),
        Err(_) => time(at, "now"),
    }
}

fn time(at: SystemTime, shown: &str) -> Markup {
    let at = format_rfc3339_seconds(at).to_string();
    html! { time datetime=(at) title=(at) { (shown) } }
}

/// A time as it is, in UTC.
pub(super) fn moment(at: SystemTime) -> Markup {
    let at = format_rfc3339_seconds(at).to_string();
    let shown = at.replace('T', " ").replace('Z', " UTC");
    html! { time datetime=(at) { (shown) } }
}

#[cfg(test)]
mod tests {
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
    fn texts_are_escaped() {
        let shown = text("<script>\u{202e}").into_string();
        assert_eq!(shown, r"<bdi>&lt;script&gt;\u{202e}</bdi>");
    }
}
