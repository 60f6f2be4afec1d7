//! Generates the gRPC code of the example `tonic` from its .proto, without protoc:
//!
//! ```text
//! cargo run --package tower-redlock-codegen
//! ```
//!
//! The code is committed, so running the example needs no generator; a test compares it with a fresh
//! generation. This is a package of its own, so the examples don't build its dependencies.

use std::{error::Error, fs, path::Path};

/// The folder of the .proto and of the code.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/proto");
const PROTO: &str = "orders.proto";
/// Named by the package in the .proto.
const CODE: &str = "orders.v1.rs";

fn main() -> Result<(), Box<dyn Error>> {
    let path = Path::new(FOLDER).join(CODE);
    fs::write(&path, generate()?)?;
    println!("wrote {}", path.display());
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_code_is_what_the_proto_gives() {
        let path = Path::new(FOLDER).join(CODE);
        let committed = fs::read_to_string(path).unwrap_or_default();
        assert!(
            committed == generate().unwrap(),
            "examples/proto/{CODE} is out of date; generate it again: \
             cargo run --package tower-redlock-codegen"
        );
    }
}
