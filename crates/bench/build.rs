//! Compiles the protocol's definitions for the bare tonic server that Tollgate is compared with, without `protoc`.

use std::error::Error;

const ROOT: &str = "../server/proto";
const SERVICE: &str = "envoy/service/ratelimit/v3/rls.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={ROOT}");
    let definitions = protox::compile([SERVICE], [ROOT])?;
    tonic_prost_build::configure()
        .build_client(false)
        .build_transport(false)
        .include_file("wire.rs")
        .compile_fds(definitions)?;
    Ok(())
}
