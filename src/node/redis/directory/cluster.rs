//! What a node of a Redis Cluster says about the master of a slot.

use ::redis::{Pipeline, Value};

use super::location_reports::ReportedLocation;
use crate::{
    error::Reason,
    node::redis::{Address, single_server::CommandAnswers, values::text},
};

pub(super) fn ask() -> Pipeline {
    let mut pipeline = Pipeline::with_capacity(1);
    pipeline.cmd("CLUSTER").arg("NODES");
    pipeline
}

/// A line of `CLUSTER NODES`: `id address flags master ping pong config-epoch link slot …`.
struct ClusterNode<'a> {
    id: &'a str,
    address: &'a str,
    flags: &'a str,
    master: &'a str,
    epoch: &'a str,
    slots: &'a str,
}

/// Parses the answer to [`ask`] from the server at `asked`. With TLS, servers are addressed by the
/// host names that they announce, as their certificates contain these names.
pub(super) fn parse(
    slot: u16,
    asked: &Address,
    tls: bool,
    answers: CommandAnswers,
) -> Result<ReportedLocation, Reason> {
    let table = match answers.into_iter().next() {
        Some(Ok(value @ (Value::BulkString(_) | Value::SimpleString(_)))) => text(&value),
        Some(Err(reason)) => return Err(reason),
        _ => return Err(not_understood()),
    };
    let nodes = || table.lines().filter_map(ClusterNode::parse);
    let Some(owner) = nodes().find(|node| node.has(slot)) else {
        return Err(Reason::NotConnected(format!("no master has the slot {slot}").into()));
    };
    let at = owner.address(asked, tls).ok_or_else(not_understood)?;
    let epoch = owner.epoch.parse().map_err(|_| not_understood())?;
    let replicas = nodes().filter(|node| node.master == owner.id);
    let others = replicas.filter_map(|node| node.address(asked, tls)).collect();
    Ok(ReportedLocation { epoch, at, others })
}

fn not_understood() -> Reason {
    Reason::Protocol("CLUSTER NODES did not answer with a table of nodes".into())
}

impl<'a> ClusterNode<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut parts = line.splitn(9, ' ');
        let mut next = || parts.next();
        let (id, address, flags, master) = (next()?, next()?, next()?, next()?);
        let (_, _, epoch, _) = (next()?, next()?, next()?, next()?);
        Some(Self { id, address, flags, master, epoch, slots: next().unwrap_or("") })
    }

    /// Returns whether the node has a slot, by ranges such as `7` and `0-5460`. A migrating slot is
    /// listed in brackets and also remains in its range.
    fn has(&self, slot: u16) -> bool {
        self.slots.split(' ').any(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let bounds = (first.parse::<u16>(), last.parse::<u16>());
            matches!(bounds, (Ok(first), Ok(last)) if (first..=last).contains(&slot))
        })
    }

    /// Parses `ip:port@bus-port[,hostname[,…]]`. A server that does not know its own address omits
    /// it.
    fn address(&self, asked: &Address, tls: bool) -> Option<Address> {
        if self.flags.split(',').any(|flag| flag == "noaddr") {
            return None;
        }
        let (socket, names) = self.address.split_once(',').unwrap_or((self.address, ""));
        let socket = socket.split_once('@').map_or(socket, |(socket, _)| socket);
        let (ip, port) = socket.rsplit_once(':')?;
        let name = names.split(',').next().filter(|name| !name.is_empty() && !name.contains('='));
        let host = match (name.filter(|_| tls), ip, asked) {
            (Some(name), _, _) => name,
            (None, "", Address::Tcp { host, .. }) => host,
            (None, ip, _) => ip,
        };
        let port = port.parse().ok().filter(|port| *port > 0)?;
        Address::is_host(host).then(|| Address::Tcp { host: host.to_owned(), port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
        a1 :7000@17000 myself,master - 0 0 3 connected 0-5460 5462 [93->-b1]\n\
        b1 10.0.0.2:7001@17001,locks-b.example master,fail? - 0 0 9 connected 5461 5463-10922\n\
        c1 10.0.0.3:7002@17002 master - 0 0 2 disconnected 10923-16382\n\
        d1 10.0.0.9/x:7002@17002 master - 0 0 2 connected 16383\n\
        a2 10.0.0.4:7003@17003,,shard-id=x slave a1 0 0 3 connected\n\
        a3 :0@0 slave,noaddr a1 0 0 3 disconnected\n\
        a4 10.0.0.5/3:7003@17003 slave a1 0 0 3 connected\n\
        b2 [::1] x\n";

    fn read(slot: u16, tls: bool) -> Result<ReportedLocation, Reason> {
        let asked = Address::Tcp { host: "10.0.0.1".into(), port: 7000 };
        parse(slot, &asked, tls, vec![Ok(Value::BulkString(TABLE.into()))])
    }

    #[test]
    fn slot_leads_to_its_master() {
        for (slot, tls, address, epoch) in [
            (0, false, "10.0.0.1:7000", 3),
            (93, false, "10.0.0.1:7000", 3),
            (5_460, true, "10.0.0.1:7000", 3),
            (5_461, true, "locks-b.example:7001", 9),
            (5_461, false, "10.0.0.2:7001", 9),
            (5_462, false, "10.0.0.1:7000", 3),
            (16_382, true, "10.0.0.3:7002", 2),
        ] {
            let found = read(slot, tls).unwrap();
            assert_eq!((found.at.to_string().as_str(), found.epoch), (address, epoch), "{slot}");
        }

        assert!(read(16_383, false).is_err(), "no host");
    }

    #[test]
    fn replicas_of_the_master_are_known() {
        let others = |slot| read(slot, false).unwrap().others;
        assert_eq!(others(0), [Address::Tcp { host: "10.0.0.4".into(), port: 7003 }]);
        assert_eq!(others(16_382), []);
    }

    #[test]
    fn tables_without_the_slot_are_errors() {
        let asked = Address::Unix { path: "/s".into() };
        for answer in [
            Ok(Value::BulkString(b"".into())),
            Ok(Value::BulkString(b"a1 :7000@17000 myself,master - 0 0 3 connected 0-5460".into())),
            Ok(Value::BulkString(b"a1 h:7000@17000 myself,master - 0 0 x connected 0-5460".into())),
            Ok(Value::Int(1)),
            Err(Reason::Server("ERR This instance has cluster support disabled".into())),
        ] {
            assert!(parse(9, &asked, false, vec![answer.clone()]).is_err(), "{answer:?}");
        }

        assert!(parse(9, &asked, false, vec![]).is_err());
    }
}
