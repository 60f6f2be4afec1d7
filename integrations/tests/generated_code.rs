//! The gRPC code of the example `tonic` is what its .proto generates, without protoc. It is
//! committed, so that the example builds without a generator; `scripts/generate` writes it.

use std::{env, fs, path::Path};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/proto");
const PROTO: &str = "orders.proto";
/// Named by the package in the .proto.
const CODE: &str = "orders.v1.rs";

#[test]
fn committed_code_matches_the_proto() {
    let out = tempfile::tempdir().unwrap();
    tonic_prost_build::configure()
        .emit_rerun_if_changed(false)
        .out_dir(out.path())
        .compile_fds(protox::compile([PROTO], [FOLDER]).unwrap())
        .unwrap();
    let fresh = fs::read_to_string(out.path().join(CODE)).unwrap();

    let path = Path::new(FOLDER).join(CODE);
    if env::var_os("UPDATE_GENERATED").is_some() {
        fs::write(&path, &fresh).unwrap();
    }
    let is_current = fs::read_to_string(&path).unwrap() == fresh;
    assert!(is_current, "examples/proto/{CODE} is out of date; write it anew: scripts/generate");
}
