//! A job's claim as a server keeps it: its token; tick, attempt, since when and until when (zero: not
//! ended) of its run and of the run before (zeros: none); the owner.
//!
//! The token comes first: of two claims the one with the greater number stands, where nodes learn
//! from one another.

use std::{io::Write, time::Duration};

use crate::node::{TickClaim, TickRun};

pub(super) fn write(to: &mut impl Write, claim: &TickClaim) {
    let none = TickRun::new(Duration::ZERO, 0, Duration::ZERO);
    // Writing into memory does not fail.
    let _ = write!(to, "{} ", claim.token);
    for TickRun { tick, attempt, since, ended } in [claim.run, claim.before.unwrap_or(none)] {
        let (tick, since) = (tick.as_millis(), since.as_millis());
        let ended = ended.map_or(0, |ended| ended.as_millis());
        let _ = write!(to, "{tick} {attempt} {since} {ended} ");
    }
    let _ = write!(to, "{}", claim.owner);
}

/// The claim, if it was written by this crate.
pub(super) fn read(text: &str) -> Option<TickClaim> {
    let mut parts = text.splitn(10, ' ');
    let token = parts.next()?.parse().ok()?;
    let run = read_run(&mut parts)?;
    let before = Some(read_run(&mut parts)?).filter(|run| run.attempt > 0);
    Some(TickClaim::new(token, run, parts.next()?.into(), before))
}

fn read_run<'a>(parts: &mut impl Iterator<Item = &'a str>) -> Option<TickRun> {
    let tick = Duration::from_millis(parts.next()?.parse().ok()?);
    let attempt = parts.next()?.parse().ok()?;
    let since = Duration::from_millis(parts.next()?.parse().ok()?);
    let ended = parts.next()?.parse().ok()?;
    let run = TickRun::new(tick, attempt, since);
    Some(if ended > 0 { run.ended(Duration::from_millis(ended)) } else { run })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(claim: &TickClaim) -> String {
        let mut text = Vec::new();
        write(&mut text, claim);
        String::from_utf8(text).unwrap()
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn runs() -> impl Strategy<Value = TickRun> {
        let ended = prop_oneof![Just(None), (1..u64::MAX).prop_map(|at| Some(ms(at)))];
        (any::<u64>(), 1..u32::MAX, any::<u64>(), ended).prop_map(
            |(tick, attempt, since, ended)| TickRun {
                ended,
                ..TickRun::new(ms(tick), attempt, ms(since))
            },
        )
    }

    proptest! {
        #[test]
        fn a_claim_is_read_as_it_was_written(
            token: u64,
            run in runs(),
            owner in ".{0,40}",
            before in proptest::option::of(runs()),
        ) {
            let claim = TickClaim::new(token, run, owner.into(), before);
            prop_assert_eq!(read(&written(&claim)), Some(claim));
        }

        #[test]
        fn what_is_cut_off_before_the_owner_is_no_claim(run in runs(), keep in 0_usize..9) {
            let text = written(&TickClaim::new(7, run, "me".into(), None));
            let parts: Vec<&str> = text.split(' ').take(keep).collect();
            prop_assert_eq!(read(&parts.join(" ")), None);
        }

        #[test]
        fn no_text_is_too_odd_to_be_looked_at(text in ".{0,60}") {
            let _ = read(&text);
        }
    }

    /// Stored text outlives the program that wrote it.
    #[test]
    fn the_form_is_this_one() {
        let run = TickRun::new(ms(1_000), 2, ms(1_003));
        let before = TickRun::new(ms(500), 1, ms(501)).ended(ms(502));
        let claim = TickClaim::new(7, run, "svc@host:1 a".into(), Some(before));
        assert_eq!(written(&claim), "7 1000 2 1003 0 500 1 501 502 svc@host:1 a");
        let claim = TickClaim::new(7, run.ended(ms(1_009)), "".into(), None);
        assert_eq!(written(&claim), "7 1000 2 1003 1009 0 0 0 0 ");
        assert_eq!(read("7 1000 2 1003 1009 0 0 0 0 "), Some(claim));
    }

    #[test]
    fn nonsense_is_no_claim() {
        let texts = [
            "",
            " ",
            "nonsense",
            "7",
            "-7 1 1 1 0 0 0 0 0 me",
            "7 x 1 1 0 0 0 0 0 me",
            "7 1 4294967296 1 0 0 0 0 0 me",
            "7 18446744073709551616 1 1 0 0 0 0 0 me",
            "7 1 1 1 0 0 0 0 0",
            "7  1 1 1 0 0 0 0 0 me",
            "7 1 1 1 0 0 0 0 x me",
        ];
        for text in texts {
            assert_eq!(read(text), None, "{text:?}");
        }
    }
}
