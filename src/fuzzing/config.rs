//! Fuzz target of configurations.

use std::{future::Future, pin::Pin};

use serde_json::Value;

use crate::{Config, error::BuildError, lock::Spawner};

/// Drops every task.
#[derive(Debug)]
struct DropSpawner;

impl Spawner for DropSpawner {
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        drop(task);
    }
}

/// A password that occurs in no document.
const PASSWORD: &str = "QZXpasswordXZQ";

/// Reads a JSON document as a configuration, inserts passwords, and builds a manager from it.
///
/// A manager has at least one node. No output contains a password, and errors are one line.
pub fn config(data: &[u8]) {
    let Ok(mut document) = serde_json::from_slice::<Value>(data) else { return };
    let Some(settings) = document.as_object_mut() else { return };
    // These settings name files of the machine.
    if settings.contains_key("password_file") || settings.contains_key("tls") {
        return;
    }
    settings.insert("password".into(), PASSWORD.into());
    let url = format!("redis://user:{PASSWORD}@host.example");
    match settings.get_mut("nodes") {
        Some(Value::Array(nodes)) => nodes.push(url.into()),
        Some(Value::String(text)) => *text = url,
        Some(_) => {}
        None => drop(settings.insert("nodes".into(), [url].as_slice().into())),
    }
    let config = match serde_json::from_value::<Config>(document) {
        Ok(config) => config,
        Err(error) => return hides_password(&error.to_string()),
    };
    hides_password(&format!("{config:?}"));
    let builder = match config.into_builder() {
        Ok(builder) => builder.spawner(DropSpawner),
        Err(error) => return is_presentable(&error),
    };
    hides_password(&format!("{builder:?}"));
    match builder.build() {
        Ok(redlock) => {
            hides_password(&format!("{redlock:?} {:?}", redlock.health()));
            assert!(!redlock.nodes().is_empty());
            hides_password(&format!("{:?}", redlock.lock("name")));
        }
        Err(error) => is_presentable(&error),
    }
}

fn is_presentable(error: &BuildError) {
    let text = error.to_string();
    hides_password(&format!("{text} {error:?}"));
    assert!(!text.contains(char::is_control), "{text:?}");
}

fn hides_password(shown: &str) {
    assert!(!shown.contains(PASSWORD), "{shown}");
}
