//! Drawings as SVG: no script, no style, and nothing from elsewhere. What each shows is also in words beside it.

use std::fmt::Write as _;

use maud::{Markup, html};

/// Width of a bar and of the gap after it.
const STEP: usize = 4;
/// Height of a row of bars.
const HEIGHT: u64 = 44;
/// Minimum height of a bar of a value that is not zero.
const LEAST: u64 = 2;

/// Draws a bar for each value, the oldest at the left; the greatest has the whole height. `what` says what the
/// drawing shows, for those who do not see it.
pub(super) fn sparkline(id: &str, what: &str, values: &[u64]) -> Markup {
    let width = values.len() * STEP;
    let greatest = values.iter().max().copied().unwrap_or(0);
    let mut bars = String::new();
    for (nth, value) in values.iter().enumerate().filter(|(_, value)| **value > 0) {
        let share = u128::from(*value) * u128::from(HEIGHT) / u128::from(greatest);
        let height = u64::try_from(share).unwrap_or(HEIGHT).max(LEAST);
        let _ = write!(bars, "M{} {HEIGHT}v-{height}h{}v{height}z", nth * STEP, STEP - 1);
    }
    html! {
        svg.spark role="img" aria-labelledby=(format!("{id}-drawn")) viewBox={ "0 0 " (width) " " (HEIGHT + 1) }
            preserveAspectRatio="none" {
            title #{ (id) "-drawn" } { (what) }
            path.base d={ "M0 " (HEIGHT) "h" (width) "v1h-" (width) "z" } {}
            @if !bars.is_empty() { path.bars d=(bars) {} }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greatest_value_has_the_whole_height() {
        let drawn = sparkline("waits", "waits", &[0, 1_000, 500, 1]).into_string();
        assert!(drawn.contains(r#"d="M4 44v-44h3v44zM8 44v-22h3v22zM12 44v-2h3v2z""#), "{drawn}");
        assert!(drawn.contains(r#"viewBox="0 0 16 45""#), "{drawn}");
    }

    #[test]
    fn nothing_is_drawn_without_values() {
        let drawn = sparkline("waits", "waits", &[0, 0]).into_string();
        assert!(!drawn.contains("bars"), "{drawn}");
        let greatest = sparkline("waits", "waits", &[u64::MAX]).into_string();
        assert!(greatest.contains("v-44h"), "{greatest}");
    }

    #[test]
    fn drawings_have_a_name() {
        let drawn = sparkline("waits", "a < b", &[1]).into_string();
        assert!(drawn.contains(r#"<title id="waits-drawn">a &lt; b</title>"#), "{drawn}");
        assert!(drawn.contains(r#"aria-labelledby="waits-drawn""#), "{drawn}");
        assert!(!drawn.contains("style"), "{drawn}");
    }
}
