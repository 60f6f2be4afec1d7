//! What happens: one holder is late, another takes over.

use std::time::Instant;

use crate::{
    Failure,
    actors::{Actor, Company},
    storage::Shelf,
    worker::{self, FILE, Said, TTL},
};

/// What came of it.
#[derive(Default)]
pub(crate) struct Tally {
    /// Writes of a holder in its time, and those of them that were taken.
    pub(crate) timely: usize,
    pub(crate) taken: usize,
    /// Writes of a holder that was late, and those of them that were answered 412.
    pub(crate) late: usize,
    pub(crate) turned_away: usize,
    /// Rounds in which the new holder's token was greater.
    pub(crate) grown: usize,
    /// Rounds after which the new holder's final version was there.
    pub(crate) stands: usize,
    /// Rounds in which the lock was given away no earlier than its time.
    pub(crate) patient: usize,
}

pub(crate) fn play(rounds: usize, company: &Company, shelf: &Shelf) -> Result<Tally, Failure> {
    let mut tally = Tally::default();
    for round in 1..=rounds {
        let names = if round % 2 == 1 { ["alice", "bob"] } else { ["bob", "alice"] };
        println!("round {round}");
        play_round(names, company, shelf, &mut tally)?;
    }
    Ok(tally)
}

fn play_round(
    [first, second]: [&str; 2],
    company: &Company,
    shelf: &Shelf,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let started = Instant::now();
    let mut late = company.start(first)?;
    let old = tally.draft(&late)?;
    late.freeze()?;
    println!("  {first} holds the lock with token {old}, has checked it, and is late:");
    println!("    {}", company.manner());

    let mut heir = company.start(second)?;
    let new = tally.draft(&heir)?;
    // The lock was taken after the start, and is free a TTL after it was taken.
    let waited = started.elapsed();
    tally.patient += usize::from(waited >= TTL);
    tally.grown += usize::from(new > old);
    println!("  {second} has the lock with token {new} after {waited:.2?}, and writes");
    heir.go()?;
    tally.timely(&heir.listen()?);
    finish(heir)?;

    late.go()?;
    late.thaw()?;
    let written = late.listen()?;
    let status = tally.late(&written, old);
    println!("  {first} goes on, and writes with token {old}: {status}");
    finish(late)?;

    let content = shelf.content(FILE).unwrap_or_default();
    println!("  the storage has: {content}");
    tally.stands += usize::from(content == worker::content(second, "final"));
    Ok(())
}

fn finish(actor: Actor) -> Result<(), Failure> {
    match actor.listen()? {
        Said::Done => actor.leave(),
        said => Err(format!("{} is not done: {said}", actor.name).into()),
    }
}

impl Tally {
    /// A worker takes the lock, writes its draft, and checks the lock; returns its token.
    fn draft(&mut self, actor: &Actor) -> Result<u64, Failure> {
        self.timely(&actor.listen()?);
        match actor.listen()? {
            Said::Checked { token } => Ok(token),
            said => Err(format!("{} has not checked: {said}", actor.name).into()),
        }
    }

    fn timely(&mut self, said: &Said) {
        self.timely += 1;
        self.taken += usize::from(matches!(said, Said::Wrote { status: 200, .. }));
    }

    fn late(&mut self, said: &Said, expected: u64) -> String {
        self.late += 1;
        match said {
            Said::Wrote { token, status } if *token == expected => {
                self.turned_away += usize::from(*status == 412);
                format!("answered {status}")
            }
            said => format!("unexpected: {said}"),
        }
    }
}
