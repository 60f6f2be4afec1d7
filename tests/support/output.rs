//! Prints what the crate logs, so that the output of the tests has it.
//!
//! `scripts/test` searches all output for secrets. The events of a test with its own subscriber are
//! searched there and not here.

use std::fmt::{Debug, Write};

use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

/// Prints all events and spans from here on that no other subscriber gets.
pub(super) fn print_events() {
    // An error means that there is one already.
    let _ = tracing::subscriber::set_global_default(Printer);
}

struct Printer;

fn print(title: String, record: impl FnOnce(&mut Line)) {
    let mut line = Line(title);
    record(&mut line);
    println!("{}", line.0);
}

fn title(metadata: &Metadata<'_>) -> String {
    format!("logged: {} {}", metadata.level(), metadata.name())
}

impl Subscriber for Printer {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("tower_redlock") || metadata.target().starts_with("redis")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        print(title(span.metadata()), |line| span.record(line));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        print("span".into(), |line| values.record(line));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        print(title(event.metadata()), |line| event.record(line));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {}={value:?}", field.name()).expect("a string takes everything");
    }
}
