//! The real `proctor-mcp` between an MCP client and a fake supervisor: what goes over the wire on both sides. Tests against
//! the real supervisor are in the `tests` crate.

#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests, which clippy treats as ordinary code")]

mod checks;
mod client;
mod error_texts;
mod fake_supervisor;
mod hostile_messages;
mod http_client;
mod http_load;
mod http_protocol;
mod http_security;
mod http_tls;
mod http_tokens;
mod json_rpc_lines;
mod lifecycle;
mod private_supervisor;
mod queries;
mod raw_client;
mod runs;
mod sessions;
mod stdio_protocol;
mod tasks;
