//! A terminal, and the program on it.

use std::{
    fs::{File, OpenOptions},
    io::{Read, Write},
    os::fd::OwnedFd,
    process::{Child, Command},
    sync::{Arc, Mutex},
    thread,
};

use rustix::{
    process::Signal,
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize},
};

use crate::{
    fixture::{nodes, send, wait},
    program::PATIENT,
    support::{RedisServer, eventually},
};

/// The program on a terminal of its own.
pub(crate) struct Terminal {
    master: File,
    /// Kept open, so that its mode can be read at the end.
    slave: File,
    written: Arc<Mutex<Vec<u8>>>,
    child: Child,
}

impl Terminal {
    /// Starts the program on a terminal of 24 lines with 80 columns.
    pub(crate) fn start(servers: &[RedisServer], env: &[(&str, &str)], args: &[&str]) -> Self {
        Self::run(servers, env, &[&PATIENT, args].concat())
    }

    /// The same with the restart guard: new servers begin a probation of that length.
    pub(crate) fn guarded(servers: &[RedisServer], ttl: &str, args: &[&str]) -> Self {
        Self::run(servers, &[], &[&["--ttl", ttl], args].concat())
    }

    fn run(servers: &[RedisServer], env: &[(&str, &str)], args: &[&str]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&master).expect("our own");
        unlockpt(&master).expect("our own");
        let path = ptsname(&master, Vec::new()).expect("a name").into_string().expect("UTF-8");
        let slave = OpenOptions::new().read(true).write(true).open(path).expect("the other end");
        let stream = || OwnedFd::from(slave.try_clone().expect("a copy"));
        let master = File::from(master);
        resize(&master, 24, 80);
        let mut command = Command::new(env!("CARGO_BIN_EXE_redlock"));
        for decides_on_colours in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI"] {
            command.env_remove(decides_on_colours);
        }
        let child = command
            .args(args)
            .env("REDLOCK_NODES", nodes(servers))
            .env("TERM", "xterm")
            .envs(env.iter().copied())
            .stdin(stream())
            .stdout(stream())
            .stderr(stream())
            .spawn()
            .expect("redlock starts");
        let written = Arc::<Mutex<Vec<u8>>>::default();
        let (mut reader, all) = (master.try_clone().expect("a copy"), Arc::clone(&written));
        // Ends with the test process.
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                all.lock().expect("no thread panics").extend_from_slice(&buffer[..count]);
            }
        });
        Self { master, slave, written, child }
    }

    /// All that was written so far.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().expect("no thread panics")).into_owned()
    }

    /// The last complete frame.
    pub(crate) fn frame(&self) -> String {
        let text = self.text();
        let frames: Vec<_> = text.split("\x1b[H").skip(1).collect();
        let is_complete = |frame: &&&str| frame.contains("\x1b[J");
        frames.iter().rfind(is_complete).map(ToString::to_string).unwrap_or_default()
    }

    #[track_caller]
    pub(crate) fn shows(&self, words: &str) {
        eventually(words, || self.frame().contains(words));
    }

    #[track_caller]
    pub(crate) fn says(&self, words: &str) {
        eventually(words, || self.text().contains(words));
    }

    pub(crate) fn types(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).expect("it is open");
    }

    pub(crate) fn send(&self, signal: Signal) {
        send(&self.child, signal);
    }

    pub(crate) fn resize(&self, rows: u16, columns: u16) {
        resize(&self.master, rows, columns);
        // The system sends this to the process group in the foreground, of which there is none here.
        self.send(Signal::WINCH);
    }

    /// Whether typed characters are shown, and come line by line.
    pub(crate) fn is_cooked(&self) -> bool {
        let mode = tcgetattr(&self.slave).expect("a terminal").local_modes;
        mode.contains(LocalModes::ECHO | LocalModes::ICANON)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end of the program. Returns its exit code.
    pub(crate) fn end(&mut self) -> Option<i32> {
        wait(&mut self.child)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn resize(terminal: &File, rows: u16, columns: u16) {
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal, size).expect("a terminal");
}
