//! A job that three replicas schedule: each tick runs on one of them, once, though their clocks
//! differ and one of them is killed during a run.

mod history;
mod replica;

use std::time::Duration;

use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::{Instant, timeout, timeout_at},
};

pub(crate) use self::replica::replicate;
use self::{
    history::{History, Mishap},
    replica::{Report, now},
};
use crate::stories::{
    Failure,
    member::{HANG_GUARD, Member, Part, Role},
    nodes::Nodes,
    quiet_machine,
};

const REPLICAS: usize = 3;
/// Difference between the clocks of two successive replicas, in ms.
const SKEW: usize = 40;
/// Minimum time between two faults.
const CALM: Duration = Duration::from_millis(2_500);
/// Time for which the killed replica is down.
const AWAY: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ticks_run_once_over_embedded_nodes() {
    let _machine = quiet_machine().await;
    play(Nodes::embedded()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ticks_run_once_over_servers() {
    let _machine = quiet_machine().await;
    play(Nodes::servers().await).await.unwrap();
}

struct Fleet {
    nodes: Nodes,
    replicas: [Option<Member>; REPLICAS],
    report: UnboundedSender<(usize, Report)>,
    reports: UnboundedReceiver<(usize, Report)>,
    history: History,
}

async fn play(nodes: Nodes) -> Result<(), Failure> {
    let (report, reports) = unbounded_channel();
    let replicas = [const { None }; REPLICAS];
    let mut fleet = Fleet { nodes, replicas, report, reports, history: History::default() };
    for replica in 0..REPLICAS {
        fleet.start(replica)?;
    }
    fleet.watch(CALM).await;
    let replica = fleet.next_run().await?;
    fleet.replicas[replica].take().ok_or("it runs")?.kill().await?;
    let killed = now();
    println!("replica {replica} is killed during a run");
    fleet.watch(AWAY).await;
    fleet.start(replica)?;
    let restarted = now();
    fleet.watch(CALM).await;
    fleet.stop_but(Some(replica)).await?;
    let alone = now();
    fleet.watch(CALM).await;
    fleet.stop_but(None).await?;
    fleet.nodes.no_lock_is_left().await;

    // The last lines of the replicas may still be on their way.
    drop(fleet.report);
    let rest = async {
        while let Some((replica, report)) = fleet.reports.recv().await {
            fleet.history.add(replica, report);
        }
    };
    timeout(HANG_GUARD, rest).await?;
    fleet.history.judge(&Mishap { replica, killed, restarted, alone });
    Ok(())
}

impl Fleet {
    fn start(&mut self, replica: usize) -> Result<(), Failure> {
        let report = self.report.clone();
        let on_line = move |line: String| {
            // At the end of the test the receiver is gone.
            let _ = report.send((replica, line.parse().expect("a line about a run")));
        };
        let ahead = SKEW * (REPLICAS - 1 - replica);
        let part = Part::new(Role::Replica, &format!("replica-{replica}"), &ahead);
        self.replicas[replica] = Some(Member::start(&self.nodes, part, on_line)?);
        Ok(())
    }

    async fn watch(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while let Ok(Some((replica, report))) = timeout_at(end, self.reports.recv()).await {
            self.history.add(replica, report);
        }
    }

    /// Waits until a run begins, and returns its replica.
    async fn next_run(&mut self) -> Result<usize, Failure> {
        loop {
            let next = timeout(HANG_GUARD, self.reports.recv()).await?;
            let (replica, report) = next.ok_or("all replicas have ended")?;
            self.history.add(replica, report);
            if matches!(report, Report::Began { .. }) {
                return Ok(replica);
            }
        }
    }

    /// Stops all replicas, or all but one, at the same time.
    async fn stop_but(&mut self, kept: Option<usize>) -> Result<(), Failure> {
        let stopped = self.replicas.iter_mut().enumerate();
        let stopped = stopped.filter(|(replica, _)| Some(*replica) != kept);
        let stopped = stopped.filter_map(|(_, member)| member.take().map(Member::stop));
        futures_util::future::try_join_all(stopped).await.map(drop)
    }
}
