//! The worker processes, from the view of their parent.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use std::{env, thread};

use rustix::process::Signal;

use crate::history::Hold;
use crate::launch::PATIENCE;
use crate::support::process::Process;
use crate::support::temp_dir::TempDir;

/// The line that a worker prints once a quorum of servers votes.
pub const READY: &str = "ready";

/// The prefix of lines that the parent keeps unchanged.
pub const NOTE: &str = "note ";

/// Processes of this program, which are killed on drop.
#[derive(Debug)]
pub struct Workers {
    processes: Vec<Mutex<Process>>,
    logs: Vec<PathBuf>,
    dir: TempDir,
}

/// The output of the workers so far.
#[derive(Debug, Default)]
pub struct Heard {
    /// The holds, in the order in which they were read.
    pub holds: Vec<Hold>,
    /// Worker and text of each line that began with [`NOTE`].
    pub notes: Vec<(usize, String)>,
    read: Vec<u64>,
    ready: usize,
}

impl Workers {
    /// Starts a process for each list of arguments.
    pub fn start(args: &[Vec<String>]) -> Result<Self, String> {
        let dir = TempDir::new();
        let program = env::current_exe().map_err(|error| format!("this program: {error}"))?;
        let program = program.to_str().ok_or("this program's path is not UTF-8")?;
        let mut workers = Self { processes: Vec::new(), logs: Vec::new(), dir };
        for (index, args) in args.iter().enumerate() {
            let log = workers.dir.path().join(format!("worker-{index}"));
            let mut command = vec![program.to_owned()];
            command.extend_from_slice(args);
            let process = Process::spawn(&command, &log);
            workers.processes.push(Mutex::new(process));
            workers.logs.push(log);
        }
        Ok(workers)
    }

    /// Waits until all workers have a quorum of servers.
    pub fn await_ready(&self, heard: &mut Heard, patience: Duration) -> Result<(), String> {
        let started = Instant::now();
        while heard.ready < self.processes.len() {
            thread::sleep(Duration::from_millis(10));
            self.listen(heard)?;
            if started.elapsed() > patience {
                return Err(format!("the workers have no quorum after {patience:?}"));
            }
        }
        Ok(())
    }

    /// Reads new output. A worker that has ended is an error.
    pub fn listen(&self, heard: &mut Heard) -> Result<(), String> {
        self.read(heard)?;
        for (index, process) in self.processes.iter().enumerate() {
            if process.lock().expect("nobody panics with it").has_ended() {
                self.read(heard)?;
                return Err(format!("worker {index} has ended"));
            }
        }
        Ok(())
    }

    /// Stops a worker for a while.
    pub fn freeze(&self, worker: usize, lasts: Duration) -> Result<(), String> {
        self.signal(worker, Signal::STOP)?;
        thread::sleep(lasts);
        self.signal(worker, Signal::CONT)
    }

    /// Makes the workers release their locks and end, and reads their last output.
    pub fn end(self, heard: &mut Heard) -> Result<(), String> {
        for worker in 0..self.processes.len() {
            self.signal(worker, Signal::TERM)?;
        }
        let started = Instant::now();
        for process in &self.processes {
            while !process.lock().expect("nobody panics with it").has_ended() {
                if started.elapsed() > PATIENCE {
                    return Err("a worker does not end".into());
                }
                thread::sleep(Duration::from_millis(10));
            }
        }
        self.read(heard)
    }

    fn signal(&self, worker: usize, signal: Signal) -> Result<(), String> {
        let mut process = self.processes[worker].lock().expect("nobody panics with it");
        if process.has_ended() {
            return Err(format!("worker {worker} has ended"));
        }
        process.signal(signal);
        Ok(())
    }

    fn read(&self, heard: &mut Heard) -> Result<(), String> {
        heard.read.resize(self.logs.len(), 0);
        for (worker, log) in self.logs.iter().enumerate() {
            let text = match read_from(log, heard.read[worker]) {
                Ok(text) => text,
                // It is still being started.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(format!("{}: {error}", log.display())),
            };
            // A line that is being written is read the next time.
            let whole = text.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
            heard.read[worker] += u64::try_from(whole).expect("a length fits");
            for line in String::from_utf8_lossy(&text[..whole]).lines() {
                if let Some(hold) = Hold::from_line(line) {
                    heard.holds.push(hold);
                } else if let Some(note) = line.strip_prefix(NOTE) {
                    heard.notes.push((worker, note.to_owned()));
                } else if line == READY {
                    heard.ready += 1;
                } else {
                    eprintln!("  worker {worker}: {line}");
                }
            }
        }
        Ok(())
    }
}

fn read_from(file: &Path, position: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(file)?;
    file.seek(SeekFrom::Start(position))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}
