//! The settings of the manager: from the command line, a file and the environment.

use std::{env, path::Path, time::Duration};

use humantime::{format_duration, parse_duration};
use toml::{Table, Value};
use tower_redlock::{Config, Redlock, RedlockBuilder, node::EmbeddedNodes};

use crate::{exit::Failure, options::SharedArgs};

/// Default TTL of a manager.
const DEFAULT_TTL: Duration = Duration::from_secs(10);

/// All settings as one table that [`Config`] reads.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    table: Table,
}

impl Settings {
    /// Reads the command line, the file and the environment.
    pub(crate) fn new(given: &SharedArgs) -> Result<Self, Failure> {
        let file = given.config.clone().or_else(|| variable("REDLOCK_CONFIG").map(Into::into));
        let table = file.map_or_else(|| Ok(Table::new()), |path| read(&path))?;
        let mut settings = Self { table };
        let has_prefix = settings.sets("key_prefix");
        let prefix = || variable("REDLOCK_PREFIX").filter(|_| !has_prefix);
        if let Some(text) = variable("REDLOCK_ASSUME_NEW_SERVERS") {
            let is_on = matches!(&*text, "1" | "true");
            if !is_on && !matches!(&*text, "0" | "false") {
                let problem = "REDLOCK_ASSUME_NEW_SERVERS is not 1, true, 0 or false";
                return Err(Failure::config(problem.to_owned()));
            }
            settings.table.insert("assume_new_servers".into(), is_on.into());
        }
        let time = |time: Option<Duration>| Some(format_duration(time?).to_string());
        for (name, value) in [
            ("ttl", time(given.ttl)),
            ("max_ttl", time(given.max_ttl)),
            ("restart_guard", given.restart_guard.clone()),
            ("key_prefix", given.prefix.clone().or_else(prefix)),
        ] {
            if let Some(value) = value {
                settings.set(name, value);
            }
        }
        if given.accept_few_servers {
            settings.set("accept_few_servers", true);
        }
        if let Some(urls) = &given.nodes {
            settings.set_nodes("--nodes", urls)?;
        } else if !settings.has_nodes()
            && let Some(urls) = variable("REDLOCK_NODES")
        {
            settings.set_nodes("REDLOCK_NODES", &urls)?;
        }
        Ok(settings)
    }

    /// Replaces the nodes by the entries of the list `url,name=url,…`, which `option` was set to. Several
    /// sets have a semicolon between them.
    pub(crate) fn set_nodes(&mut self, option: &str, urls: &str) -> Result<(), Failure> {
        let sets = urls.split(';').filter(|set| !set.trim().is_empty()).count();
        let (name, urls) =
            if sets > 1 { ("sets", urls) } else { ("nodes", urls.trim_matches([';', ' '])) };
        for name in ["nodes", "sets"] {
            self.table.remove(name);
        }
        self.set(name, urls);
        let only = Table::from_iter([(name.to_owned(), urls.into())]);
        match only.try_into::<Config>() {
            Ok(_) => Ok(()),
            Err(error) => {
                let problem = error.message().trim_start_matches(&format!("{name}: "));
                Err(Failure::config(format!("{option}: {problem}")))
            }
        }
    }

    pub(crate) fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.table.insert(name.into(), value.into());
    }

    pub(crate) fn has_nodes(&self) -> bool {
        let mut nodes = ["nodes", "sets"].into_iter().filter_map(|name| self.table.get(name));
        nodes.any(|nodes| nodes.as_array().is_none_or(|list| !list.is_empty()))
    }

    pub(crate) fn prefix(&self) -> &str {
        self.table.get("key_prefix").and_then(Value::as_str).unwrap_or("redlock")
    }

    pub(crate) fn ttl(&self) -> Duration {
        self.time("ttl").unwrap_or(DEFAULT_TTL)
    }

    pub(crate) fn max_ttl(&self) -> Duration {
        self.time("max_ttl").unwrap_or_else(|| self.ttl())
    }

    /// Returns whether the file or the command line sets this.
    pub(crate) fn sets(&self, name: &str) -> bool {
        self.table.contains_key(name)
    }

    fn time(&self, name: &str) -> Option<Duration> {
        self.table.get(name).and_then(Value::as_str).and_then(|text| parse_duration(text).ok())
    }

    /// Builds a manager over the servers, which connects in the background. `set` adds settings.
    pub(crate) fn build_with(
        &self,
        set: impl Fn(RedlockBuilder) -> RedlockBuilder,
    ) -> Result<Redlock, Failure> {
        if !self.has_nodes() {
            return Err(Failure::config(
                "no servers: give --nodes redis://host:port,…, REDLOCK_NODES, or nodes in --config",
            ));
        }
        let mut builders = self.config()?.into_builders()?;
        if builders.len() == 1
            && let Some(builder) = builders.pop()
        {
            return Ok(set(builder).build()?);
        }
        Ok(Redlock::sharded(builders.into_iter().map(set))?)
    }

    pub(crate) fn build(&self) -> Result<Redlock, Failure> {
        self.build_with(|builder| builder)
    }

    /// Builds a manager with these settings over nodes inside this process.
    pub(crate) fn build_embedded(&self, nodes: &EmbeddedNodes) -> Result<Redlock, Failure> {
        Ok(self.config()?.into_builder()?.nodes_from(nodes).build()?)
    }

    fn config(&self) -> Result<Config, Failure> {
        self.table.clone().try_into().map_err(|error: toml::de::Error| {
            Failure::config(format!("settings: {}", error.message()))
        })
    }
}

/// Returns a variable of the environment that is not empty.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

fn read(path: &Path) -> Result<Table, Failure> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::config(format!("{shown}: {error}")))?;
    text.parse().map_err(|error: toml::de::Error| {
        // The error's full text repeats the line, which may hold a password.
        let line = error.span().map_or(0, |span| text[..span.start].matches('\n').count()) + 1;
        Failure::config(format!("{shown}, line {line}: not valid TOML"))
    })
}
