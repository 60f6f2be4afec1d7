//! Checks whether a server votes, by its own data.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use crate::ask::command;
use crate::support::resp::Resp;

/// Timeout for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(200);

/// Returns whether its tag belongs to an active node, in its present run and with its present data.
/// A server that does not answer does not vote.
pub fn votes(server: SocketAddr, prefix: &str) -> bool {
    ask(server, prefix).unwrap_or(false)
}

fn ask(server: SocketAddr, prefix: &str) -> io::Result<bool> {
    let meta = format!("{prefix}:meta");
    let ask = |args: &[&str]| command(server, ANSWER_TIMEOUT, args);
    let Resp::Bulk(Some(tag)) = ask(&["HGET", &meta, "tag"])? else { return Ok(false) };
    let run = ask(&["INFO", "server"])?.text();
    let data = ask(&["INFO", "replication"])?.text();
    Ok(is_active(&String::from_utf8_lossy(&tag), &run, &data))
}

fn is_active(tag: &str, run: &str, data: &str) -> bool {
    let (Some(run), Some(data)) = (digits(run, "run_id:"), digits(data, "master_replid:")) else {
        return false;
    };
    tag.starts_with(&format!("a {run}{data} "))
}

/// The first 16 digits of a field.
fn digits<'a>(info: &'a str, field: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(field))?.get(..16)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "# Server\r\nrun_id:0123456789abcdef0123\r\n";
    const DATA: &str = "master_replid:fedcba9876543210ffff\r\n";

    #[test]
    fn only_active_node_votes() {
        let of = |state| format!("{state} 0123456789abcdeffedcba9876543210 layout");
        assert!(is_active(&of("a"), RUN, DATA));
        assert!(!is_active(&of("p"), RUN, DATA));
        assert!(!is_active(&of("a"), RUN, "master_replid:0123456789abcdef0000"));
        assert!(!is_active(&of("a"), RUN, ""));
        assert!(!is_active("", RUN, DATA));
    }
}
