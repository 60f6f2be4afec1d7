//! A seed repeats a run exactly.

use tower_redlock_sim::world::{Profile, Scenario, Settings, Work, run};

#[test]
fn seed_repeats_every_command_and_event() {
    for (number, work) in Work::ALL.into_iter().enumerate() {
        for profile in [Profile::All, Profile::Beyond, Profile::Clocks] {
            let scenario = Scenario::with(4_000 + number as u64, profile, work);
            let settings = Settings { shows_commands: true, ..Settings::default() };
            let (one, other) = (run(&scenario, &settings), run(&scenario, &settings));
            assert!(
                one.trace.len() > 10_000,
                "{profile:?} {work:?}: an empty trace repeats itself"
            );
            let differs = one.trace.lines().zip(other.trace.lines()).find(|(a, b)| a != b);
            assert_eq!(differs, None, "{profile:?} {work:?}");
            assert_eq!(one.trace, other.trace);
        }
    }
}

#[test]
fn seeds_differ() {
    let trace = |seed| {
        let settings = Settings::default();
        run(&Scenario::with(seed, Profile::Network, Work::Locks), &settings).trace
    };
    let end = |text: String| text.lines().last().unwrap_or_default().to_owned();
    assert_ne!(end(trace(1)), end(trace(2)));
}
