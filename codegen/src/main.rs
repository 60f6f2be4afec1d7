//! Writes what is generated and committed: the gRPC code of the example `tonic`, from its .proto
//! without protoc, the list of the public interface, `docs/api.txt`, and the page of the command,
//! `cli/command-line.md`:
//!
//! ```text
//! cargo run --package tower-redlock-codegen
//! ```
//!
//! All are committed, so running the example needs no generator; tests compare them with a fresh
//! generation. This is a package of its own, so the examples don't build its dependencies.

mod api;
mod help;

use std::{
    env,
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The folder of the .proto and of the code.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/proto");
const PROTO: &str = "orders.proto";
/// Named by the package in the .proto.
const CODE: &str = "orders.v1.rs";

/// The list of the public interface.
const API: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/api.txt");

/// The page of the command. A test of the command compares it.
const COMMAND: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/command-line.md");

fn main() -> Result<(), Box<dyn Error>> {
    let path = Path::new(FOLDER).join(CODE);
    fs::write(&path, generate()?)?;
    println!("wrote {}", path.display());
    fs::write(API, public_interface())?;
    println!("wrote {API}");
    fs::write(COMMAND, help::page(&redlock()?))?;
    println!("wrote {COMMAND}");
    Ok(())
}

/// Builds the command beside this program, and returns where it is.
fn redlock() -> Result<PathBuf, Box<dyn Error>> {
    let mut cargo = Command::new(env!("CARGO"));
    let status = cargo.args(["build", "--quiet", "--package", "redlock-cli"]).status()?;
    if !status.success() {
        return Err("the command was not built".into());
    }
    Ok(env::current_exe()?.with_file_name(format!("redlock{}", env::consts::EXE_SUFFIX)))
}

fn generate() -> Result<String, Box<dyn Error>> {
    let out = tempfile::tempdir()?;
    let parsed = protox::compile([PROTO], [FOLDER])?;
    tonic_prost_build::configure()
        .emit_rerun_if_changed(false)
        .out_dir(out.path())
        .compile_fds(parsed)?;
    Ok(fs::read_to_string(out.path().join(CODE))?)
}

fn public_interface() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    api::list(&root.join("src"), &root.join("crates/redlock-core/src"), "tower_redlock")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_code_matches_the_proto() {
        let path = Path::new(FOLDER).join(CODE);
        let committed = fs::read_to_string(path).unwrap_or_default();
        assert!(
            committed == generate().unwrap(),
            "examples/proto/{CODE} is out of date; generate it again: \
             cargo run --package tower-redlock-codegen"
        );
    }

    #[test]
    fn public_interface_is_as_listed() {
        let committed = fs::read_to_string(API).unwrap_or_default();
        let (fresh, kept) = (public_interface(), committed);
        let gone: Vec<_> = kept.lines().filter(|line| !fresh.lines().any(|l| l == *line)).collect();
        let new: Vec<_> = fresh.lines().filter(|line| !kept.lines().any(|l| l == *line)).collect();
        assert!(
            gone.is_empty() && new.is_empty(),
            "the public interface has changed: gone {gone:#?}, new {new:#?}; if that is meant, list it \
             anew: cargo run --package tower-redlock-codegen"
        );
    }
}
