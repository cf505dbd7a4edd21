//! Compiles the .proto files with protox, so that no `protoc` is needed, and writes the descriptor set for gRPC reflection.

use std::path::PathBuf;

const PROTOS: [&str; 5] = [
    "proctor/v1/types.proto",
    "proctor/v1/sessions.proto",
    "proctor/v1/runs.proto",
    "proctor/v1/results.proto",
    "proctor/v1/host.proto",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proctor");
    let descriptors = protox::compile(PROTOS, ["."])?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("proctor_v1.bin"), prost::Message::encode_to_vec(&descriptors))?;
    tonic_prost_build::configure().compile_fds(descriptors)?;
    Ok(())
}
