//! What happens: a replica is killed in the middle of a run, and comes back.

use std::{pin::pin, time::Duration};

use tokio::{
    sync::mpsc::UnboundedReceiver,
    time::{Instant, sleep_until},
};

use crate::{
    Failure,
    fleet::{Fleet, Heard, PATIENCE},
    said::Said,
    table::Table,
};

/// How long nothing happens before a replica is killed, and again after it has come back.
const CALM: Duration = Duration::from_millis(2_500);
const LONG_CALM: Duration = Duration::from_secs(8);
/// How long it is away.
const AWAY: Duration = Duration::from_secs(2);

enum Next {
    /// A replica, as soon as one begins a run.
    Kill,
    Restart(usize),
    /// The others stop, so the ticks are this replica's.
    LeaveAlone(usize),
    End,
}

/// Until it was once so, or until Ctrl-C.
pub(crate) async fn play(
    fleet: &mut Fleet,
    mut said: UnboundedReceiver<Heard>,
    once: bool,
) -> Result<Table, Failure> {
    let mut table = Table::new();
    let (mut next, mut at) = (Next::Kill, Instant::now() + CALM);
    let mut interrupt = pin!(tokio::signal::ctrl_c());
    loop {
        tokio::select! {
            Some((replica, said)) = said.recv() => {
                let begins = matches!(said, Said::Began { .. });
                table.add(replica, said);
                if begins && matches!(next, Next::Kill) && Instant::now() >= at {
                    fleet.kill(replica).await?;
                    table.kill(replica);
                    (next, at) = (Next::Restart(replica), Instant::now() + AWAY);
                }
            }
            () = sleep_until(at), if !matches!(next, Next::Kill) => {
                let (then, calm) = match next {
                    Next::Restart(replica) => {
                        fleet.start_replica(replica)?;
                        table.restart(replica);
                        if once { (Next::LeaveAlone(replica), CALM) } else { (Next::Kill, LONG_CALM) }
                    }
                    Next::LeaveAlone(replica) => {
                        fleet.stop_all_but(replica).await?;
                        table.leave_alone(replica);
                        (Next::End, CALM)
                    }
                    Next::Kill | Next::End => break,
                };
                (next, at) = (then, Instant::now() + calm);
            }
            _ = &mut interrupt => break,
        }
    }
    fleet.stop().await?;
    // What the replicas said last may still be on its way.
    let last = async {
        while let Some((replica, said)) = said.recv().await {
            table.add(replica, said);
        }
    };
    tokio::time::timeout(PATIENCE, last).await?;
    Ok(table)
}
