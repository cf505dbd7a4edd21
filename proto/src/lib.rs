//! The contract of proctor: the `proctor.v1` messages, their descriptor set, and the text forms of the answers.
//!
//! Client and server both depend on this crate, and on nothing else of each other.

#![deny(clippy::print_stdout, clippy::print_stderr, reason = "they panic where nothing can be written")]

pub mod analysis_text;
pub mod check_text;
pub mod client;
pub mod difference;
pub mod printable;
pub mod reason;
pub mod report_format;
pub mod test_times;
pub mod text;
pub mod untested_text;

/// Messages, clients and servers of `proctor.v1`, generated from `proto/proctor/v1/*.proto`, where they are documented.
#[expect(
    missing_docs,
    unused_qualifications,
    clippy::all,
    clippy::allow_attributes,
    reason = "generated; documented in the .proto files"
)]
pub mod v1 {
    tonic::include_proto!("proctor.v1");
}

/// The encoded `FileDescriptorSet` of `proctor.v1`, for gRPC reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/proctor_v1.bin"));

/// Largest message either side accepts, in bytes. A report of 100,000 tests takes about 30 MiB.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;
