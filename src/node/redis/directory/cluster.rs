//! What a node of a Redis Cluster says about the master of a slot.

use ::redis::{Pipeline, Value};

use super::lookup::Sighted;
use crate::{
    error::Reason,
    node::redis::{Address, decode::text, single_server::CommandAnswers},
};

pub(super) fn ask() -> Pipeline {
    let mut pipeline = Pipeline::with_capacity(1);
    pipeline.cmd("CLUSTER").arg("NODES");
    pipeline
}

/// A line of `CLUSTER NODES`: `id address flags master ping pong config-epoch link slot …`.
struct ClusterNode<'a> {
    id: &'a str,
    address: Address,
    flags: &'a str,
    master: &'a str,
    epoch: u64,
    slots: Vec<&'a str>,
}

/// Parses the answer to [`ask`] of the server at `asked`.
pub(super) fn parse(
    slot: u16,
    asked: &Address,
    answers: CommandAnswers,
) -> Result<Sighted, Reason> {
    let table = match answers.into_iter().next() {
        Some(Ok(Value::BulkString(table))) => String::from_utf8_lossy(&table).into_owned(),
        Some(Ok(value @ (Value::VerbatimString { .. } | Value::SimpleString(_)))) => {
            text(&value).to_string()
        }
        Some(Err(reason)) => return Err(reason),
        _ => return Err(Reason::Protocol("CLUSTER NODES did not answer with a text".into())),
    };
    let nodes: Vec<_> = table.lines().filter_map(|line| parse_line(line, asked)).collect();
    let owner = nodes.iter().find(|node| node.slots.iter().any(|range| has(range, slot)));
    let Some(owner) = owner else {
        return Err(Reason::NotConnected(format!("no master has the slot {slot}").into()));
    };
    let replicas = nodes.iter().filter(|node| node.master == owner.id);
    let others = replicas.map(|node| node.address.clone()).collect();
    Ok(Sighted { epoch: owner.epoch, at: owner.address.clone(), others })
}

fn parse_line<'a>(line: &'a str, asked: &Address) -> Option<ClusterNode<'a>> {
    let mut parts = line.split(' ');
    let (id, address, flags, master) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let epoch = parts.nth(2)?.parse().ok()?;
    let slots = parts.skip(1).collect();
    let address = parse_address(address, asked)?;
    let node = ClusterNode { id, address, flags, master, epoch, slots };
    (!node.flags.split(',').any(|flag| flag == "noaddr")).then_some(node)
}

/// Parses `ip:port@bus-port[,hostname[,…]]`. A server that does not know its address leaves it out; with a
/// host name it is called by that, for the sake of its certificate.
fn parse_address(text: &str, asked: &Address) -> Option<Address> {
    let (socket, names) = text.split_once(',').unwrap_or((text, ""));
    let socket = socket.split_once('@').map_or(socket, |(socket, _)| socket);
    let (ip, port) = socket.rsplit_once(':')?;
    let name = names.split(',').next().filter(|name| !name.is_empty() && !name.contains('='));
    let host = match (name, ip, asked) {
        (Some(name), _, _) => name,
        (None, "", Address::Tcp { host, .. }) => host,
        (None, "", Address::Unix { .. }) => return None,
        (None, ip, _) => ip,
    };
    Some(Address::Tcp { host: host.to_owned(), port: port.parse().ok()? })
}

/// Whether a range has a slot: `7`, `0-5460`. Slots that migrate are in brackets, beside the range.
fn has(range: &str, slot: u16) -> bool {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let bounds = (first.parse::<u16>(), last.parse::<u16>());
    matches!(bounds, (Ok(first), Ok(last)) if (first..=last).contains(&slot))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
        a1 :7000@17000 myself,master - 0 0 3 connected 0-5460 5462 [93->-b1]\n\
        b1 10.0.0.2:7001@17001,locks-b.example master,fail? - 0 0 9 connected 5461 5463-10922\n\
        c1 10.0.0.3:7002@17002 master - 0 0 2 disconnected 10923-16383\n\
        a2 10.0.0.4:7003@17003,,shard-id=x slave a1 0 0 3 connected\n\
        a3 :0@0 slave,noaddr a1 0 0 3 disconnected\n\
        b2 [::1] x\n";

    fn master(slot: u16) -> Result<Sighted, Reason> {
        let asked = Address::Tcp { host: "10.0.0.1".into(), port: 7000 };
        parse(slot, &asked, vec![Ok(Value::BulkString(TABLE.into()))])
    }

    #[test]
    fn slot_leads_to_its_master() {
        for (slot, address, epoch) in [
            (0, "10.0.0.1:7000", 3),
            (5_460, "10.0.0.1:7000", 3),
            (5_461, "locks-b.example:7001", 9),
            (5_462, "10.0.0.1:7000", 3),
            (16_383, "10.0.0.3:7002", 2),
        ] {
            let found = master(slot).unwrap();
            assert_eq!((found.at.to_string().as_str(), found.epoch), (address, epoch), "{slot}");
        }
    }

    #[test]
    fn replicas_of_the_master_are_known() {
        let others = |slot| master(slot).unwrap().others;
        assert_eq!(others(0), [Address::Tcp { host: "10.0.0.4".into(), port: 7003 }]);
        assert_eq!(others(16_383), []);
    }

    #[test]
    fn tables_without_the_slot_are_errors() {
        let asked = Address::Unix { path: "/s".into() };
        for answer in [
            Ok(Value::BulkString(b"".into())),
            Ok(Value::BulkString(b"a1 :7000@17000 myself,master - 0 0 3 connected 0-5460".into())),
            Ok(Value::Int(1)),
            Err(Reason::Server("ERR This instance has cluster support disabled".into())),
        ] {
            assert!(parse(9, &asked, vec![answer.clone()]).is_err(), "{answer:?}");
        }
        assert!(parse(9, &asked, vec![]).is_err());
    }
}
