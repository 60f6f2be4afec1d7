//! Encodes commands as RESP2.

use std::io::Write;

/// Capacity in bytes above which an empty buffer is freed.
pub(super) const MAX_KEPT: usize = 256 * 1024;

/// A command in RESP2; its buffers are reused.
#[derive(Debug, Default)]
pub(crate) struct Command {
    count: usize,
    /// The arguments with their lengths.
    args: Vec<u8>,
    /// An argument of unknown length.
    text: Vec<u8>,
}

/// A type of arguments.
pub(crate) trait Arg {
    fn write_to(self, command: &mut Command);
}

impl Command {
    /// Clears the command.
    pub(crate) fn clear(&mut self) {
        self.count = 0;
        for memory in [&mut self.args, &mut self.text] {
            memory.clear();
            if memory.capacity() > MAX_KEPT {
                *memory = Vec::new();
            }
        }
    }

    pub(crate) fn arg(&mut self, arg: impl Arg) -> &mut Self {
        arg.write_to(self);
        self
    }

    /// Adds one argument of two parts.
    pub(crate) fn joined(&mut self, first: &str, second: &str) -> &mut Self {
        self.begin(first.len() + second.len());
        self.args.extend_from_slice(first.as_bytes());
        self.args.extend_from_slice(second.as_bytes());
        self.end();
        self
    }

    /// Adds what `write` writes as one argument.
    pub(crate) fn written(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> &mut Self {
        let mut text = std::mem::take(&mut self.text);
        text.clear();
        write(&mut text);
        self.arg(&text[..]);
        self.text = text;
        self
    }

    pub(in crate::node::redis) fn append_to(&self, output: &mut Vec<u8>) {
        // The length and its line are never longer than this.
        output.reserve(self.args.len() + 16);
        head(output, b'*', self.count);
        output.extend_from_slice(&self.args);
    }

    fn begin(&mut self, length: usize) {
        self.count += 1;
        head(&mut self.args, b'$', length);
    }

    fn end(&mut self) {
        self.args.extend_from_slice(b"\r\n");
    }
}

fn head(output: &mut Vec<u8>, kind: u8, number: usize) {
    output.push(kind);
    // Writing into memory does not fail.
    let _ = write!(output, "{number}");
    output.extend_from_slice(b"\r\n");
}

impl Arg for &[u8] {
    fn write_to(self, command: &mut Command) {
        command.begin(self.len());
        command.args.extend_from_slice(self);
        command.end();
    }
}

impl Arg for &str {
    fn write_to(self, command: &mut Command) {
        self.as_bytes().write_to(command);
    }
}

impl Arg for u64 {
    fn write_to(self, command: &mut Command) {
        command.written(|text| {
            let _ = write!(text, "{self}");
        });
    }
}

impl Arg for usize {
    fn write_to(self, command: &mut Command) {
        // No platform has a wider `usize`.
        (self as u64).write_to(command);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_match_the_redis_crate() {
        let mut command = Command::default();
        command.arg("GET").arg("gone with the next");
        command.clear();
        command.arg("EVALSHA").arg(12_usize).arg(u64::MAX).arg(&b"\r\n\0"[..]).arg("");
        command.joined("lock:", "ä").written(|text| text.extend_from_slice(b"x y"));
        let mut output = b"+before".to_vec();
        command.append_to(&mut output);
        let mut same = ::redis::cmd("EVALSHA");

        same.arg(12).arg(u64::MAX).arg(b"\r\n\0").arg("").arg("lock:ä").arg("x y");

        assert_eq!(output, [b"+before".to_vec(), same.get_packed_command()].concat());
    }
    #[test]
    fn memory_of_long_command_is_freed() {
        let mut command = Command::default();
        command.written(|text| text.resize(MAX_KEPT + 1, b'x'));
        command.clear();
        assert!(command.args.capacity() <= MAX_KEPT && command.text.capacity() <= MAX_KEPT);
    }
}
