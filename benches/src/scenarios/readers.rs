//! Four processes whose tasks share one name, alone and beside tasks that lock it exclusively.

use std::time::Duration;

use crate::{
    child::{self, Locks, Part, Turn, run_all},
    contestants::Kind,
    options::Options,
    report::format::significant,
    samples::emit,
    servers::Servers,
};

const PROCESSES: usize = 4;
/// Number of readers in each process.
const READERS: usize = 4;
/// Numbers of writers in each process.
pub(crate) const WRITERS: [usize; 2] = [0, 1];
const HOLD: Duration = Duration::from_millis(2);

/// The names of the two groups of tasks in the report.
pub(crate) const GROUPS: [&str; 2] = ["readers", "writers"];

/// Number of scripts of all kinds, for writers too, that the servers ran for each grant of a reader
/// and server.
pub(crate) const SCRIPTS: &str = "scripts for a reader's grant";

pub(crate) fn case(writers: usize) -> String {
    let writers = match writers {
        0 => "no writer".into(),
        1 => "1 writer each".into(),
        _ => format!("{writers} writers each"),
    };
    let hold = HOLD.as_millis();
    format!("{PROCESSES} processes × {READERS} readers, {writers}, held for {hold} ms")
}

pub(crate) fn measure(servers: &Servers, options: &Options) {
    options.rounds(&WRITERS, |writers| {
        let case = case(writers);
        let part = Part {
            kind: Kind::Ours,
            tasks: READERS + writers,
            locks: Locks::Shared { writers },
            hold: HOLD,
            time: options.time,
        };
        let before = servers.calls("evalsha");
        let turns = run_all(servers, part, PROCESSES);
        let scripts = servers.calls("evalsha") - before;
        let of = |is_wanted: &dyn Fn(&Turn) -> bool| -> Vec<Vec<Turn>> {
            let each = |turns: &Vec<Turn>| turns.iter().copied().filter(is_wanted).collect();
            turns.iter().map(each).collect()
        };
        let of_readers = of(&|turn| turn.task >= writers);
        let [readers, writing] = GROUPS;
        child::waits(&of_readers, options.time).emit(&case, readers);
        if writers > 0 {
            child::waits(&of(&|turn| turn.task < writers), options.time).emit(&case, writing);
        }
        let each = scripts / child::count(&of_readers) / servers.count();
        emit(&case, readers, SCRIPTS, each);
        eprintln!("    {} scripts for a reader's grant", significant(each));
    });
}
