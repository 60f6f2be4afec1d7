//! A redis-server of the test.

use std::{
    io::{Read, Write},
    os::unix::net::UnixStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use tower_redlock_sim::redis::{Bytes, Reply};

/// A server, until it is dropped.
pub(super) struct RealServer {
    child: Child,
    folder: PathBuf,
    stream: UnixStream,
    unread: Bytes,
}

/// The name of its socket.
const SOCKET: &str = "socket";

/// Timeout that only a hang exceeds.
const HANG: Duration = Duration::from_secs(30);

impl RealServer {
    pub(super) fn start() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("redlock-sim-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        Self::start_in(folder, &[])
    }

    /// Starts a server that loads its data slowly: 200 keys of a kilobyte, one in 50 ms.
    pub(super) fn loading() -> Self {
        let mut server = Self::start();
        let mut ask =
            |args: &[&[u8]]| server.ask(&args.iter().map(|it| it.to_vec()).collect::<Vec<_>>());
        for number in 0..200 {
            ask(&[b"SET", format!("k{number}").as_bytes(), &[b'v'; 1_000]]);
        }
        ask(&[b"CONFIG", b"SET", b"rdbcompression", b"no"]);
        ask(&[b"SAVE"]);
        server.stop();
        let slow = ["--key-load-delay", "50000", "--loading-process-events-interval-bytes", "1024"];
        Self::start_in(std::mem::take(&mut server.folder), &slow)
    }

    fn start_in(folder: PathBuf, options: &[&str]) -> Self {
        // The socket is in a separate folder, so that no other server can have it.
        let mut child = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--dir"])
            .arg(&folder)
            .arg("--unixsocket")
            .arg(folder.join(SOCKET))
            .args(options)
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed");
        let began = Instant::now();
        loop {
            if let Ok(stream) = UnixStream::connect(folder.join(SOCKET)) {
                return Self { child, folder, stream, unread: Bytes::new() };
            }
            assert!(child.try_wait().expect("a child").is_none(), "redis-server has ended");
            assert!(began.elapsed() < HANG, "redis-server does not start");
            std::thread::yield_now();
        }
    }

    fn stop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Another connection to it.
    pub(super) fn connect(&self) -> UnixStream {
        UnixStream::connect(self.folder.join(SOCKET)).expect("it listens")
    }

    /// Sends a command, and returns the answer.
    pub(super) fn ask(&mut self, args: &[Bytes]) -> Reply {
        self.stream.write_all(&encode(args)).expect("it reads");
        loop {
            let mut at = 0;
            if let Some(reply) = decode(&self.unread, &mut at) {
                self.unread.drain(..at);
                return reply;
            }
            let mut buffer = [0; 4096];
            let length = self.stream.read(&mut buffer).expect("it answers");
            assert!(length > 0, "it hung up");
            self.unread.extend_from_slice(&buffer[..length]);
        }
    }
}

impl Drop for RealServer {
    fn drop(&mut self) {
        self.stop();
        // Empty once another server owns the folder.
        if !self.folder.as_os_str().is_empty() {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}

pub(super) fn encode(args: &[Bytes]) -> Bytes {
    let mut out = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
    out
}

fn decode(input: &[u8], at: &mut usize) -> Option<Reply> {
    let end = *at + input[*at..].windows(2).position(|pair| pair == b"\r\n")?;
    let line = String::from_utf8_lossy(&input[*at..end]).into_owned();
    let (kind, rest) = line.split_at(1);
    *at = end + 2;
    Some(match kind {
        "+" => Reply::Status(rest.into()),
        "-" => Reply::Error(rest.into()),
        ":" => Reply::Int(rest.parse().expect("a number")),
        "$" => match usize::try_from(rest.parse::<i64>().expect("a number")) {
            Err(_) => Reply::Nil,
            Ok(length) => {
                let text = input.get(*at..*at + length)?.to_vec();
                *at += length + 2;
                (input.len() >= *at).then_some(())?;
                Reply::Bulk(text)
            }
        },
        _ => match usize::try_from(rest.parse::<i64>().expect("a number")) {
            Err(_) => Reply::Nil,
            Ok(length) => {
                let items: Option<Vec<_>> = (0..length).map(|_| decode(input, at)).collect();
                Reply::Array(items?)
            }
        },
    })
}
