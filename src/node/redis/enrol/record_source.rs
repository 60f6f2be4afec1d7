//! Copies the records of one node to another one.
//!
//! Keys are scanned in small pages. Only records that the target lacks are read, up to one full
//! reply at a time, over separate connections. This bounds the size of a reply and the rate of
//! bytes and calls. A restarted copy repeats the scan only.

use std::sync::Arc;

use ::redis::{Pipeline, Value};
use tokio::time::Instant;

use super::{
    bulk_connection::BulkConnection,
    copier::{Copier, RateShare},
    records_report::RecordsReport,
};
use crate::{
    error::Reason,
    node::redis::{scripts, status_detail::Copied, values::text},
};

/// Number of keys scanned in one call, and maximum number of keys of a script.
const PAGE: usize = 250;
/// Size of a reply in bytes; the last record may exceed it.
const ANSWER: usize = 256 * 1024;
/// Maximum TTL of a copied record, in milliseconds. Redis refuses a TTL that overflows when the
/// current time is added, and Lua does not print greater numbers as integers.
const MAX_TTL: i64 = 1 << 53;

/// A node whose records are copied.
pub(super) struct RecordSource<'a> {
    copier: &'a Copier<'a>,
    source: BulkConnection,
    target: BulkConnection,
    _share: RateShare<'a>,
}

impl<'a> RecordSource<'a> {
    /// Copies the records of a node that the target lacks; returns whether the node was complete.
    /// With `only_complete`, an incomplete node is not read.
    pub(super) async fn copy(
        copier: &'a Copier<'a>,
        node: usize,
        only_complete: bool,
    ) -> Result<bool, Reason> {
        let set = copier.set;
        let mut source = BulkConnection::open(set, node).await?;
        let begun = RecordsReport::read(set, &mut source).await?;
        if only_complete && !begun.is_complete() {
            return Ok(false);
        }
        let mut target = BulkConnection::open(set, copier.node).await?;
        // The connection may lead to another server by now.
        RecordsReport::read(set, &mut target).await?.are_those_of(copier.begun)?;
        let share = RateShare::new(copier);
        let mut this = Self { copier, source, target, _share: share };
        this.copy_pages().await?;
        // The source may have lost the records meanwhile, or may not be the server that votes.
        let ended = RecordsReport::read(set, &mut this.source).await?;
        ended.are_those_of(&begun)?;
        // A node in probation may have taken the place of a node that other clients still count,
        // with its records.
        if !set.votes_with(node, &ended.tag) {
            return Err(Reason::WrongTag { found: Arc::clone(ended.tag.text()) });
        }
        Ok(ended.is_complete())
    }

    async fn copy_pages(&mut self) -> Result<(), Reason> {
        let prefix = &self.copier.set.keys.done_prefix;
        let mut cursor = String::from("0");
        loop {
            let turn = Instant::now();
            let (next, mut keys) = self.source.scan(&cursor, prefix, PAGE).await?;
            if keys.is_empty() {
                self.copier.pace(turn, 1, 0).await;
            }
            // A hostile server may return a long page.
            while !keys.is_empty() {
                let rest = keys.len().saturating_sub(PAGE);
                self.copy_page(keys.split_off(rest)).await?;
            }
            if next == "0" {
                return Ok(());
            }
            cursor = next;
        }
    }

    /// Copies the records of some keys. Returns when the target has, for each of them, the record
    /// of this source or a better one.
    ///
    /// Two sources may read the same record at the same time; the second one to write it changes nothing. Servers
    /// scan their keys in different orders, so with more than a page of keys this is rare.
    async fn copy_page(&mut self, mut keys: Vec<Vec<u8>>) -> Result<(), Reason> {
        while !keys.is_empty() {
            let turn = Instant::now();
            let mut missing = self.missing(&keys).await?;
            if missing.is_empty() {
                self.copier.pace(turn, 1, 0).await;
                break;
            }
            let answers = self.read(&missing).await?;
            let copied = self.write(&missing, &answers).await?;
            keys = missing.split_off(answers.len() / 2);
            self.copier.report_progress(copied);
            self.copier.pace(turn, 2, copied.bytes).await;
        }
        Ok(())
    }

    /// Returns the keys for which the target has no record of finished work.
    async fn missing(&mut self, keys: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, Reason> {
        let mut pipeline = Pipeline::with_capacity(1);
        pipeline.cmd("EVAL").arg(scripts::KINDS).arg(keys.len()).arg(keys);
        let kinds = self.target.list(&pipeline).await?;
        if kinds.len() != keys.len() {
            return Err(Reason::Protocol("unexpected number of records".into()));
        }
        let is_missing = |kind: &Value| matches!(&*text(kind), "" | "u");
        let kept = keys.iter().zip(kinds);
        Ok(kept.filter(|(_, kind)| is_missing(kind)).map(|(key, _)| key.clone()).collect())
    }

    /// Reads values and TTLs of the first records, up to one full reply.
    async fn read(&mut self, keys: &[Vec<u8>]) -> Result<Vec<Value>, Reason> {
        let mut pipeline = Pipeline::with_capacity(1);
        let cmd = pipeline.cmd("EVAL").arg(scripts::READ_RECORDS).arg(keys.len());
        cmd.arg(keys).arg(ANSWER);
        let answers = self.source.list(&pipeline).await?;
        let count = answers.len() / 2;
        if count == 0 || count > keys.len() {
            return Err(Reason::Protocol("unexpected number of records".into()));
        }
        Ok(answers)
    }

    /// Stores records, given as values and TTLs, unless better ones exist. Returns what was stored.
    async fn write(&mut self, keys: &[Vec<u8>], records: &[Value]) -> Result<Copied, Reason> {
        let (mut to, mut what) = (Vec::new(), Vec::new());
        for (key, record) in keys.iter().zip(records.chunks_exact(2)) {
            let (Value::BulkString(value), Value::Int(ttl)) = (&record[0], &record[1]) else {
                continue;
            };
            // Zero means the last millisecond of the record, and storing it without a TTL would
            // keep it forever.
            if *ttl == 0 {
                continue;
            }
            to.push(key);
            what.push((&value[..], (*ttl).min(MAX_TTL)));
        }
        if to.is_empty() {
            return Ok(Copied::default());
        }
        let mut pipeline = Pipeline::with_capacity(1);
        let cmd = pipeline.cmd("EVAL").arg(scripts::COPY_RECORDS).arg(to.len()).arg(&to);
        for (value, ttl) in &what {
            cmd.arg(*value).arg(*ttl);
        }
        let stored = self.target.list(&pipeline).await?;
        let mut copied = Copied::default();
        for (i, (key, (value, _))) in to.iter().zip(&what).enumerate() {
            // Another source may have been first.
            if stored.get(i) == Some(&Value::Int(1)) {
                copied.records += 1;
                copied.bytes += (key.len() + value.len()) as u64;
            }
        }
        Ok(copied)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    use super::{super::tests::Scripted, *};

    fn bulk(text: &str) -> String {
        format!("${}\r\n{text}\r\n", text.len())
    }

    fn list(items: &[String]) -> String {
        format!("*{}\r\n{}", items.len(), items.concat())
    }

    /// Answers the next command, and returns it without the script.
    async fn answer(server: &mut DuplexStream, reply: &str) -> Vec<String> {
        let mut sent = vec![0; 16 * 1024];
        let length = server.read(&mut sent).await.unwrap();
        server.write_all(reply.as_bytes()).await.unwrap();
        let sent = String::from_utf8_lossy(&sent[..length]).into_owned();
        // After the script come pairs of a length and a text.
        let behind =
            sent.rsplit_once("return answer\n\r\n").or(sent.rsplit_once("return stored\n\r\n"));
        let lines = behind.expect("a whole script").1.lines();
        lines.skip(1).step_by(2).map(str::to_owned).collect()
    }

    /// Runs a part of the copy from a source, and answers the commands that it sends to the source
    /// or to the target.
    async fn asked<T>(
        is_source: bool,
        reply: &str,
        call: impl AsyncFnOnce(&mut RecordSource<'_>) -> T,
    ) -> (T, Vec<String>) {
        let Scripted { set, .. } = Scripted::new("p");
        let begun = RecordsReport::of_tests("copying x");
        let copier = Copier::new(&set, 0, &begun);
        let (source, mut of_source) = tokio::io::duplex(16 * 1024);
        let (target, mut of_target) = tokio::io::duplex(16 * 1024);
        let mut this = RecordSource {
            copier: &copier,
            source: BulkConnection::over(source),
            target: BulkConnection::over(target),
            _share: RateShare::new(&copier),
        };
        let server = if is_source { &mut of_source } else { &mut of_target };
        tokio::join!(call(&mut this), answer(server, reply))
    }

    fn keys(names: &str) -> Vec<Vec<u8>> {
        names.bytes().map(|name| vec![name]).collect()
    }

    #[tokio::test]
    async fn only_finished_work_is_not_missing() {
        let kinds = |kinds: &str| list(&kinds.split('|').map(bulk).collect::<Vec<_>>());
        let ask = async |kinds: &str| {
            asked(false, kinds, async |this| this.missing(&keys("abcd")).await).await.0
        };
        assert_eq!(ask(&kinds("|u|d|?")).await, Ok(keys("ab")));
        assert!(matches!(ask(&kinds("u|u|u")).await, Err(Reason::Protocol(_))));
    }

    #[tokio::test]
    async fn first_records_are_read() {
        let record = |count| list(&vec![[bulk("v"), ":5\r\n".into()].concat(); count]);
        // The items of a list are values and TTLs in turn.
        let reply =
            |count: usize| record(count).replacen(&count.to_string(), &(2 * count).to_string(), 1);
        let ask = async |count| {
            asked(true, &reply(count), async |this| this.read(&keys("abc")).await).await
        };

        for count in [1, 2, 3] {
            let (answers, sent) = ask(count).await;
            assert_eq!(answers.map(|answers| answers.len()), Ok(2 * count));
            assert_eq!(sent, ["3", "a", "b", "c", "262144"]);
        }

        for count in [0, 4] {
            assert!(matches!(ask(count).await.0, Err(Reason::Protocol(_))), "{count}");
        }
    }

    #[tokio::test]
    async fn records_keep_their_time() {
        let mut records = Vec::new();
        // Zero is a record's last millisecond.
        for ttl in [5, 0, -1, i64::MAX] {
            records.extend([Value::BulkString(b"val".to_vec()), Value::Int(ttl)]);
        }
        records.extend([Value::Nil, Value::Int(5)]);
        let write = async |reply| {
            asked(false, reply, async |this| {
                this.write(&keys("abcde"), &records)
                    .await
                    .map(|copied| (copied.records, copied.bytes))
            })
            .await
        };

        let (copied, sent) = write("*3\r\n:1\r\n:1\r\n:1\r\n").await;

        assert_eq!(copied, Ok((3, 12)));
        let other_was_first = write("*3\r\n:1\r\n:0\r\n:0\r\n").await.0;
        assert_eq!(other_was_first, Ok((1, 4)), "only what was stored counts");

        let ours = ["3", "a", "c", "d", "val", "5", "val", "-1", "val", "9007199254740992"];
        assert_eq!(sent, ours);
        assert_eq!(write("-OOM full\r\n").await.0, Err(Reason::OutOfMemory));
    }
}
