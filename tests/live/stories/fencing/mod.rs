//! A holder that is frozen for longer than its lock is valid: the storage rejects its late write by
//! the fencing token, and its successor's write is kept.

mod storage;
mod worker;

use std::time::Instant;

use rustix::process::Signal;

pub(crate) use self::worker::work;
use self::{
    storage::{Shelf, Storage},
    worker::{FILE, Report, TTL},
};
use crate::stories::{
    Failure, MACHINE, judge,
    member::{Lines, Member, Part, Role},
    nodes::Nodes,
};

const ROUNDS: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_write_over_servers() {
    let _machine = MACHINE.lock().await;
    play(Nodes::servers().await).await.unwrap();
}

#[derive(Default)]
struct Tally {
    /// Writes by a holder of the lock, and those of them that were accepted.
    timely: usize,
    accepted: usize,
    /// Writes by a former holder, and those of them that were answered with 412.
    late: usize,
    rejected: usize,
    /// Rounds in which the successor's token was greater.
    increasing: usize,
    /// Rounds after which the storage had the successor's final version.
    stands: usize,
    /// Rounds in which the lock was granted no earlier than a TTL after it was acquired.
    patient: usize,
}

async fn play(nodes: Nodes) -> Result<(), Failure> {
    let storage = Storage::open().await?;
    let mut tally = Tally::default();
    for round in 1..=ROUNDS {
        println!("round {round}");
        tally.play_round(&nodes, &storage).await?;
    }
    nodes.no_lock_is_left().await;
    let Tally { timely, accepted, late, rejected, increasing, stands, patient } = tally;
    let (writes, backward) = (storage.shelf.writes(), storage.shelf.backward());
    judge(&[
        (timely == 3 * ROUNDS && accepted == timely, format!("timely writes: {accepted}")),
        (late == ROUNDS && rejected == late, format!("late writes rejected: {rejected}")),
        (writes == accepted, format!("nothing else was stored: {writes} writes")),
        (backward == 0, format!("writes after one with a newer token: {backward}")),
        (increasing == ROUNDS, format!("rounds with a greater token: {increasing}")),
        (patient == ROUNDS, format!("rounds in which the lock ran out first: {patient}")),
        (stands == ROUNDS, format!("rounds after which the successor's write was kept: {stands}")),
    ]);
    Ok(())
}

impl Tally {
    async fn play_round(&mut self, nodes: &Nodes, storage: &Storage) -> Result<(), Failure> {
        let start = |name| Member::start(nodes, Part::new(Role::Worker, name, &storage.addr));
        let started = Instant::now();
        let (mut late, mut late_lines) = start("alice")?;
        let old = self.draft(&mut late_lines).await?;
        late.signal(Signal::STOP)?;
        println!("  alice holds the lock with token {old}, has checked it, and is frozen");

        let (mut successor, mut lines) = start("bob")?;
        let new = self.draft(&mut lines).await?;
        let waited = started.elapsed();
        self.patient += usize::from(waited >= TTL);
        self.increasing += usize::from(new > old);
        println!("  bob has the lock with token {new} after {waited:.2?}, and writes");
        successor.send_input().await?;
        self.timely(&lines.next().await?.parse()?);
        finish(successor, lines).await?;

        late.send_input().await?;
        late.signal(Signal::CONT)?;
        let written: Report = late_lines.next().await?.parse()?;
        self.late += 1;
        println!("  alice writes with token {old}: {written:?}");
        self.rejected += usize::from(written == Report::Wrote { token: old, status: 412 });
        finish(late, late_lines).await?;
        self.stands += usize::from(is_by_successor(&storage.shelf));
        Ok(())
    }

    /// A worker acquires the lock, writes its draft, and checks the lock. Returns its token.
    async fn draft(&mut self, lines: &mut Lines) -> Result<u64, Failure> {
        self.timely(&lines.next().await?.parse()?);
        match lines.next().await?.parse()? {
            Report::Checked { token } => Ok(token),
            report => Err(format!("no check of the lock: {report:?}").into()),
        }
    }

    fn timely(&mut self, report: &Report) {
        self.timely += 1;
        self.accepted += usize::from(matches!(report, Report::Wrote { status: 200, .. }));
    }
}

fn is_by_successor(shelf: &Shelf) -> bool {
    shelf.content(FILE).unwrap_or_default() == worker::content("bob", "final")
}

async fn finish(member: Member, mut lines: Lines) -> Result<(), Failure> {
    match lines.next().await?.parse()? {
        Report::Done => member.stop().await,
        report => Err(format!("{} is not done: {report:?}", member.name).into()),
    }
}
