//! Compiles the protocol's definitions without `protoc`: into Rust types, and into the descriptors that reflection serves.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use prost::Message;
use prost_types::field_descriptor_proto::Type;
use prost_types::{DescriptorProto, FileDescriptorSet};

const ROOT: &str = "proto";
const SERVICE: &str = "envoy/service/ratelimit/v3/rls.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed={ROOT}");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let mut definitions = protox::compile([SERVICE], [ROOT])?;
    fs::write(out.join("descriptors.bin"), definitions.encode_to_vec())?;
    take_values_as_bytes(&mut definitions)?;
    tonic_prost_build::configure()
        .build_transport(false)
        .client_mod_attribute(".", "#[cfg(test)]")
        .include_file("wire.rs")
        .compile_fds(definitions)?;
    Ok(())
}

/// Envoy copies header values into entries as they are. The generated code would refuse a message with a value that is
/// not UTF-8, and Envoy lets through whatever is refused: any client could switch its limits off. On the wire
/// a string and bytes are the same, so only the generated code needs to know.
fn take_values_as_bytes(definitions: &mut FileDescriptorSet) -> Result<(), Box<dyn Error>> {
    let messages = definitions.file.iter_mut().flat_map(|file| &mut file.message_type);
    let value = messages
        .filter(|message| message.name() == "RateLimitDescriptor")
        .flat_map(|message| &mut message.nested_type)
        .filter(|message: &&mut DescriptorProto| message.name() == "Entry")
        .flat_map(|message| &mut message.field)
        .find(|field| field.name() == "value");
    value.ok_or("the definitions have no RateLimitDescriptor.Entry.value")?.set_type(Type::Bytes);
    Ok(())
}
