//! The real `proctor-mcp` between an MCP client and a supervisor that is a fake: what goes over the wire on both sides.
//! Must not know the shim's insides. Runs against the real supervisor live in the `tests` crate.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, which clippy takes for ordinary code")]

mod client;
mod error_texts;
mod fake_supervisor;
mod json_rpc_lines;
mod lifecycle;
mod private_supervisor;
mod queries;
mod runs;
mod sessions;
