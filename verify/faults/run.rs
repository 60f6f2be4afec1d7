//! One cell, from the start of its servers to its findings.

use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tower_redlock_verify::ledger::Event;
use tower_redlock_verify::message::Order;

use crate::cell::{Cell, Phase, SUBJECT, WORKERS};
use crate::fault::Strike;
use crate::fixture::Fixture;
use crate::outcome::{Outcome, Times};
use crate::recovery::{CHECK_INTERVAL, Recovery, now};
use crate::strike;

/// Timeout for a step that the fault does not hinder.
const STEP_TIMEOUT: Duration = Duration::from_secs(10);

/// Time from the recovery to the end, for late writes.
pub(crate) const SETTLE_TIME: Duration = Duration::from_millis(200);

/// An error means that the cell was not carried out.
pub(crate) fn run(cell: Cell, runtime: &Handle) -> Result<Outcome, String> {
    let Cell { fault, client, phase } = cell;
    let mut fixture = Fixture::start(client, fault.kind.needs(), fault.servers, runtime)?;
    fixture.await_ready()?;
    strike::detach(&fixture, cell)?;
    stage(&fixture, phase)?;
    let strike = Strike::in_matrix(fault);
    strike::strike(&mut fixture, &strike)?;
    let struck = now();
    let ends = Instant::now() + strike.lasts;
    proceed(&fixture, phase)?;
    let mut recovery = Recovery::default();
    while Instant::now() < ends {
        thread::sleep(CHECK_INTERVAL);
        if fault.kind.is_momentary() {
            recovery.update(&fixture, struck);
        }
    }
    let repairing = now();
    strike::repair(&mut fixture, &strike)?;
    let since = if fault.kind.is_momentary() { struck } else { now() };
    fixture.driver.order(SUBJECT, Order::Contend)?;
    recovery.complete(&fixture, since)?;
    thread::sleep(SETTLE_TIME);
    let entries = fixture.driver.end()?;
    Ok(Outcome::of(&entries, &Times::in_cell(fault, struck..repairing, recovery)))
}

/// Brings the subject to the phase. In the middle of a request, its proxies hold it.
fn stage(fixture: &Fixture, phase: Phase) -> Result<(), String> {
    let driver = &fixture.driver;
    let await_event = |event| driver.ledger().await_event(SUBJECT, event, STEP_TIMEOUT);
    if phase == Phase::Acquire {
        fixture.arm();
    }
    if phase != Phase::Before {
        driver.order(SUBJECT, Order::Acquire)?;
    }
    if !matches!(phase, Phase::Before | Phase::Acquire) {
        await_event(Event::Granted)?;
    }
    match phase {
        Phase::Before | Phase::Acquire | Phase::Held => {}
        Phase::Renewing => fixture.arm(),
        Phase::Releasing => {
            fixture.arm();
            driver.order(SUBJECT, Order::Release)?;
        }
        Phase::After => {
            driver.order(SUBJECT, Order::Release)?;
            await_event(Event::Released)?;
        }
    }
    if phase.is_in_flight() {
        fixture.await_held()?;
    }
    Ok(())
}

/// Forwards the held data, and lets the other workers contend and every worker attempt its own
/// name.
fn proceed(fixture: &Fixture, phase: Phase) -> Result<(), String> {
    let driver = &fixture.driver;
    fixture.open();
    for worker in (0..WORKERS).filter(|&worker| worker != SUBJECT) {
        driver.order(worker, Order::Contend)?;
    }
    match phase {
        Phase::Before => driver.order(SUBJECT, Order::Acquire)?,
        Phase::Acquire | Phase::Held | Phase::Renewing => {}
        Phase::Releasing | Phase::After => driver.order(SUBJECT, Order::Contend)?,
    }
    driver.order_all(Order::Probe)
}
