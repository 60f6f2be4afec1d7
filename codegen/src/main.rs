//! Writes the gRPC code of the example `tonic_orders` anew from its .proto, without protoc:
//!
//! ```text
//! cargo run --package tower-redlock-codegen
//! ```
//!
//! The code is committed, so that nobody who runs the example needs a generator; a test here
//! compares it with a fresh generation. A package of its own, so that the examples don't build what
//! it needs.

use std::{error::Error, fs, path::Path};

/// The folder of the .proto and of the code.
const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/tonic_orders");
const PROTO: &str = "orders.proto";
/// Below the folder `generated`: named by the package in the .proto.
const CODE: &str = "orders.v1.rs";

fn main() -> Result<(), Box<dyn Error>> {
    let path = Path::new(EXAMPLE).join("generated").join(CODE);
    fs::write(&path, generate()?)?;
    println!("wrote {}", path.display());
    Ok(())
}

fn generate() -> Result<String, Box<dyn Error>> {
    let out = tempfile::tempdir()?;
    let parsed = protox::compile([PROTO], [EXAMPLE])?;
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
        let path = Path::new(EXAMPLE).join("generated").join(CODE);
        let committed = fs::read_to_string(path).unwrap_or_default();
        assert!(
            committed == generate().unwrap(),
            "examples/tonic_orders/generated/{CODE} is out of date; write it anew: \
             cargo run --package tower-redlock-codegen"
        );
    }
}
