//! A server's files, which outlive its process.

use std::fs;
use std::path::PathBuf;

use super::temp_dir::TempDir;

#[derive(Debug)]
pub struct Home(TempDir);

impl Home {
    pub fn new() -> Self {
        let home = Self(TempDir::new());
        home.wipe();
        home
    }

    /// Where the server keeps its data, and nothing else is.
    pub fn data(&self) -> PathBuf {
        self.file("data")
    }

    pub fn log(&self) -> PathBuf {
        self.file("server.log")
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Deletes all data; a test may already have removed the directory.
    pub fn wipe(&self) {
        let _ = fs::remove_dir_all(self.data());
        fs::create_dir(self.data()).expect("the directory is ours");
    }
}
