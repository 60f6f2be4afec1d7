//! What a Sentinel says about the master of a service.

use ::redis::{Pipeline, Value};

use super::location_reports::ReportedLocation;
use crate::{
    error::Reason,
    node::redis::{Address, single_server::CommandAnswers, values::text},
};

/// Queries the address, and the epoch of the configuration that it belongs to.
///
/// `SENTINEL MASTER` shows the former master until its replicas follow the new one;
/// `GET-MASTER-ADDR-BY-NAME` shows the promoted server as soon as it was promoted.
pub(super) fn ask(service: &str) -> Pipeline {
    let mut pipeline = Pipeline::with_capacity(2);
    pipeline.cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(service);
    pipeline.cmd("SENTINEL").arg("MASTER").arg(service);
    pipeline
}

/// Parses the answers to [`ask`].
pub(super) fn parse(service: &str, answers: CommandAnswers) -> Result<ReportedLocation, Reason> {
    let unknown = || Reason::NotLocated(format!("it has no master named {service}").into());
    let mut answers = answers.into_iter();
    let address = match answers.next() {
        Some(Ok(Value::Array(parts))) => parts,
        Some(Ok(Value::Nil)) => return Err(unknown()),
        Some(Err(reason)) => return Err(reason),
        _ => return Err(not_understood()),
    };
    let [host, port] = &address[..] else { return Err(not_understood()) };
    let port = text(port).parse().map_err(|_| not_understood())?;
    let host = text(host);
    if !Address::is_host(&host) {
        return Err(not_understood());
    }
    let fields = match answers.next() {
        Some(Ok(Value::Array(fields))) => fields,
        Some(Ok(Value::Map(pairs))) => {
            pairs.into_iter().flat_map(|(field, value)| [field, value]).collect()
        }
        // The service was removed between the two commands.
        Some(Err(Reason::Server(_))) => return Err(unknown()),
        Some(Err(reason)) => return Err(reason),
        _ => return Err(not_understood()),
    };
    let epoch = fields.chunks_exact(2).find(|pair| &*text(&pair[0]) == "config-epoch");
    let epoch = epoch.and_then(|pair| text(&pair[1]).parse().ok()).ok_or_else(not_understood)?;
    Ok(ReportedLocation {
        epoch,
        at: Address::Tcp { host: host.to_string(), port },
        others: Vec::new(),
    })
}

fn not_understood() -> Reason {
    Reason::Protocol("SENTINEL did not answer with an address: is this a Sentinel?".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(parts: &[&str]) -> Value {
        Value::Array(parts.iter().map(|part| Value::BulkString(part.as_bytes().into())).collect())
    }

    #[test]
    fn address_comes_with_its_epoch() {
        let fields = list(&["name", "locks", "ip", "10.0.0.1", "config-epoch", "7"]);
        let answers = vec![Ok(list(&["10.0.0.2", "6380"])), Ok(fields)];
        let ReportedLocation { epoch, at, .. } = parse("locks", answers).unwrap();
        assert_eq!((epoch, at.to_string().as_str()), (7, "10.0.0.2:6380"));
    }

    #[test]
    fn strange_answers_are_errors() {
        let address = || Ok(list(&["10.0.0.2", "6380"]));
        let unknown = || Err(Reason::Server("ERR No such master with that name".into()));
        let denied = || Err(Reason::NoPermission("NOPERM".into()));
        let fields = |epoch| Ok(list(&["config-epoch", epoch]));

        for (answers, expected) in [
            (vec![], "SENTINEL did not answer"),
            (vec![Ok(Value::Nil), unknown()], "it has no master named locks"),
            (vec![Err(Reason::NoPermission("NOPERM".into()))], "permission denied"),
            (vec![address()], "SENTINEL did not answer"),
            (vec![address(), unknown()], "it has no master named locks"),
            (vec![address(), denied()], "permission denied"),
            (vec![address(), Ok(list(&["config-epoch"]))], "SENTINEL did not answer"),
            (vec![address(), fields("-1")], "SENTINEL did not answer"),
            (vec![Ok(list(&["10.0.0.2"])), fields("1")], "SENTINEL did not answer"),
            (vec![Ok(list(&["10.0.0.2", "port"])), fields("1")], "SENTINEL did not answer"),
            (vec![Ok(list(&["10.0.0.2/x", "1"])), fields("1")], "SENTINEL did not answer"),
            (vec![Ok(Value::Int(1)), fields("1")], "SENTINEL did not answer"),
        ] {
            let error = parse("locks", answers.clone()).unwrap_err().to_string();
            assert!(error.contains(expected), "{answers:?}: {error}");
        }
    }
}
