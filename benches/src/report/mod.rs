//! The tables, and the aims.

mod aims;
mod costs;
mod distance;
pub(crate) mod format;
mod table;
mod tables;

use std::{fmt::Write, fs, io, path::Path};

use table::Table;

use crate::{
    cycles::FAILURES,
    samples::Samples,
    scenarios::{
        self, contended,
        distinct::{self, FEW_TASKS, KINDS, NODES, WITH_RUNTIME},
        faults::{self, Condition},
        linger, processes,
    },
};

/// Writes `results.md` to `folder`, from the samples in a file.
///
/// # Errors
///
/// If a file can't be read or written.
///
/// # Panics
///
/// If the file does not contain samples.
pub fn report(file: &Path, folder: &Path) -> io::Result<()> {
    let samples = Samples::read(&fs::read_to_string(file)?);
    let mut markdown = heading(&samples);
    for (title, table) in sections(&samples) {
        if !table.is_empty() {
            let _ = write!(markdown, "\n## {title}\n\n{table}");
        }
    }
    let _ = write!(markdown, "\n{}", failures(&samples));
    fs::write(folder.join("results.md"), markdown)
}

fn heading(samples: &Samples) -> String {
    let mut text = String::from(
        "# Results\n\nMade by `scripts/bench`; [README.md](README.md) says what is measured. Medians of the rounds, and in \
         brackets the least and the most. Ratios are taken round by round.\n",
    );
    for note in &samples.notes {
        let _ = write!(text, "\n{note}.\n");
    }
    text
}

fn sections(samples: &Samples) -> Vec<(&'static str, Table)> {
    let contended = contended::TASKS.map(contended::case);
    let [few, many] = processes::TASKS;
    let processes = [processes::case(few), processes::case(many), processes::case_held(many)];
    let tasks = distinct::TASKS.map(|tasks| (scenarios::tasks(tasks), distinct::case(tasks, 5)));
    let nodes = FEW_TASKS.into_iter().flat_map(|tasks| {
        NODES.map(|nodes| {
            let case = distinct::case(tasks, nodes);
            (case.clone(), case)
        })
    });
    let faults = faults::TASKS.into_iter().flat_map(|tasks| {
        Condition::ALL.map(|condition| {
            let case = faults::case(tasks, condition);
            (case.clone(), case)
        })
    });
    let again = linger::cases().map(|(case, ..)| (case.clone(), case));
    let again: Vec<_> = again.collect();
    let (nodes, faults): (Vec<_>, Vec<_>) = (nodes.collect(), faults.collect());
    let over_others =
        nodes.iter().filter(|node| !tasks.contains(&(node.0.clone(), node.1.clone())));
    let every = tasks.iter().chain(over_others).cloned();
    vec![
        ("Aims", aims::table(samples)),
        ("Servers at a distance: acquire", distance::acquires(samples)),
        ("Servers at a distance: acquire and release", distance::cycles(samples)),
        ("One name, one process", tables::waits(samples, &contended, "least to most served task")),
        ("One name, several processes", tables::waits(samples, &processes, tables::SERVED)),
        ("Slots of one name, several processes", tables::slots(samples)),
        ("Readers and writers of one name", tables::readers(samples)),
        ("Hand-over between two processes", tables::handover(samples)),
        ("As many names as waiters", tables::waiters(samples)),
        ("Locks that are listed", tables::listing(samples)),
        ("The same names again", tables::rates(samples, &again, &linger::KINDS)),
        ("The layer, without any network", tables::layer(samples)),
        ("Readers that join, without any network", tables::reader_costs(samples)),
        ("Allocations of a cycle over five servers", tables::allocations(samples)),
        ("Distinct names, five servers", tables::rates(samples, &tasks, &WITH_RUNTIME)),
        ("One to nine servers", tables::rates(samples, &nodes, &WITH_RUNTIME)),
        (
            "Processor time of a cycle",
            costs::processor(samples, &every.map(|(_, case)| case).collect::<Vec<_>>()),
        ),
        ("One of five servers slow, frozen or dead", tables::shares(samples)),
        ("The same as rates", tables::rates(samples, &faults, &KINDS)),
        ("Many locks held and renewed", costs::held(samples)),
        ("Managers of one process", costs::managers(samples)),
        ("A server of many managers restarts", costs::reconnects(samples)),
        ("Many names, several processes", costs::wanted(samples)),
        ("Requests to a service over HTTP, three servers", costs::service(samples)),
        ("Accuracy of the forwarder", distance::lateness(samples)),
    ]
}

fn failures(samples: &Samples) -> String {
    let of = |kind: crate::contestants::Kind| {
        let failed = samples.total(kind.name(), FAILURES)?;
        Some(format!("{} {:.0}", kind.name(), failed))
    };
    let all: Vec<_> = WITH_RUNTIME.into_iter().filter_map(of).collect();
    if all.is_empty() {
        String::new()
    } else {
        format!("Cycles that failed: {}.\n", all.join(", "))
    }
}
