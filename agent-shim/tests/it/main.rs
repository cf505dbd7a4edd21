//! The real `proctor-mcp` between an MCP client and a supervisor that is a double: what goes over the wire on both sides.
//! Must not know the shim's insides. Runs against the real supervisor live in the `tests` crate.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, which clippy takes for ordinary code")]

mod client;
mod double;
mod lifecycle;
mod private;
mod queries;
mod refusals;
mod runs;
mod sessions;
mod wire;
