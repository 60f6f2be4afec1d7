//! The settings, and a manager with them, as the programs of the fleet have it.

use std::{error::Error, time::Duration};

use humantime_serde::re::humantime::parse_duration;
use toml::{Table, Value};
use tower_redlock::{Config, Redlock, node::EmbeddedNodes};

use crate::args::{From, NONE, Overrides};

/// All settings as one table that [`Config`] reads.
#[derive(Clone)]
pub(crate) struct Setup {
    table: Table,
}

/// The settings that this program itself uses.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) prefix: String,
    pub(crate) max_ttl: Duration,
    /// Without servers: nodes inside this process.
    pub(crate) embedded: bool,
}

impl Setup {
    /// Reads the command line, the file and the environment.
    pub(crate) fn new(given: &Overrides) -> Result<Self, Box<dyn Error>> {
        let mut table = match &given.config {
            Some(path) => read(path)?,
            None => Table::new(),
        };
        let settings = [
            ("key_prefix", &given.prefix),
            ("ttl", &given.ttl),
            ("max_ttl", &given.max_ttl),
            ("clock_guard", &given.clock_guard),
            ("restart_guard", &given.restart_guard),
        ];
        for (name, value) in settings {
            if let Some(value) = value {
                table.insert(name.into(), Value::String(value.clone()));
            }
        }
        if !has_nodes(&table)
            && let Ok(urls) = std::env::var("REDLOCK_NODES")
        {
            let nodes = nodes(&urls);
            if !nodes.is_empty() {
                table.insert("nodes".into(), Value::Array(nodes));
            }
        }
        Ok(Self { table })
    }

    /// Returns the setup of the old set.
    pub(crate) fn changed(&self, from: &From) -> Result<Self, Box<dyn Error>> {
        let mut table = self.table.clone();
        if let Some(urls) = &from.nodes {
            let nodes = nodes(urls);
            if nodes.is_empty() {
                return Err("--from names no node".into());
            }
            table.insert("nodes".into(), Value::Array(nodes));
        }
        if let Some(prefix) = &from.prefix {
            table.insert("key_prefix".into(), Value::String(prefix.clone()));
        }
        match from.clock_guard.as_deref() {
            Some(NONE) => drop(table.remove("clock_guard")),
            Some(time) => drop(table.insert("clock_guard".into(), Value::String(time.into()))),
            None => {}
        }
        Ok(Self { table })
    }

    /// Changes a setting.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.table.insert(name.into(), Value::String(value.into()));
        self
    }

    pub(crate) fn is_embedded(&self) -> bool {
        !has_nodes(&self.table)
    }

    /// Builds a manager, which connects in the background.
    pub(crate) fn build(&self, embedded: &EmbeddedNodes) -> Result<Redlock, Box<dyn Error>> {
        let config: Config =
            self.table.clone().try_into().map_err(|error: toml::de::Error| {
                format!("settings: {}", without_values(&error))
            })?;
        let mut builder = config.into_builder()?;
        if self.is_embedded() {
            builder = builder.nodes_from(embedded);
        }
        Ok(builder.build()?)
    }

    pub(crate) fn settings(&self) -> Settings {
        let text = |name| self.table.get(name).and_then(Value::as_str);
        let time = |name| text(name).and_then(|text| parse_duration(text).ok());
        let ttl = time("ttl").unwrap_or(Duration::from_secs(10));
        Settings {
            prefix: text("key_prefix").unwrap_or("redlock").into(),
            max_ttl: time("max_ttl").unwrap_or(ttl),
            embedded: self.is_embedded(),
        }
    }
}

fn has_nodes(table: &Table) -> bool {
    table.get("nodes").is_some_and(|nodes| nodes.as_array().is_none_or(|list| !list.is_empty()))
}

fn read(path: &str) -> Result<Table, Box<dyn Error>> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
    text.parse().map_err(|error: toml::de::Error| {
        // The error's full text repeats the line, which may hold a password.
        let line = error.span().map_or(0, |span| text[..span.start].matches('\n').count()) + 1;
        format!("{path}, line {line}: not valid TOML").into()
    })
}

/// The message without the given values: one may be a password.
fn without_values(error: &toml::de::Error) -> String {
    let parts = error.message().split('"').enumerate();
    parts.map(|(i, part)| if i % 2 == 0 { part } else { "…" }).collect()
}

/// Parses `url,name=url,…`.
fn nodes(list: &str) -> Vec<Value> {
    let entries = list.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    entries
        .map(|entry| match entry.split_once('=') {
            // A URL may have a `=` as well, in a password or a query.
            Some((name, url)) if !name.contains("://") => Value::Table(Table::from_iter([
                ("name".to_owned(), Value::String(name.trim().into())),
                ("url".to_owned(), Value::String(url.trim().into())),
            ])),
            _ => Value::String(entry.into()),
        })
        .collect()
}
