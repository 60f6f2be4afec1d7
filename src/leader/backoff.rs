use std::time::Duration;

/// The pauses between the terms of a candidate whose work returns.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    /// Short terms in a row.
    terms: u32,
}

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

impl Backoff {
    /// The longest pause after a term that lasted this long.
    pub(super) fn after(&mut self, led_for: Duration) -> Duration {
        if led_for > LONGEST {
            self.terms = 0;
        }
        let pause = FIRST.saturating_mul(1 << self.terms.min(16)).min(LONGEST);
        self.terms = self.terms.saturating_add(1);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_minute() {
        let mut backoff = Backoff::default();
        let pauses: Vec<_> = (0..8).map(|_| backoff.after(LONGEST).as_secs()).collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
    }

    #[test]
    fn a_long_term_begins_anew() {
        let mut backoff = Backoff::default();
        for _ in 0..8 {
            backoff.after(FIRST);
        }
        assert_eq!(backoff.after(LONGEST + FIRST), FIRST);
        assert_eq!(backoff.after(FIRST), FIRST * 2);
    }
}
