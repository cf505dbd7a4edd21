//! The supervisor: the tokio edge of proctor, between the wire and the sandbox.
//!
//! A request flows one way down: [`grpc`] (authenticate, validate, translate) -> [`sessions::registry`] (find the session) ->
//! [`sessions`] (its actor: refuse, attach or start) -> [`runs`] (a turn on the host, the adapter's command, the sandbox,
//! the parser). Events flow one way up: into the run's log, from which subscribers read, and back to the actor.
//!
//! # Tasks and channels
//!
//! | task | lives | mailbox, and why its bound |
//! |---|---|---|
//! | registry | as long as the supervisor | 1,024 questions: each is answered without waiting |
//! | scheduler | as long as the supervisor | 1,024 runs that knock: each is answered without waiting |
//! | session actor | from CreateSession to CloseSession, or until it has been idle for too long | 64 messages: one tenant's calls in flight |
//! | service manager's | as long as the supervisor, if one has started it | none: it asks the registry for a sign of life |
//! | run driver | from start to end of a run | none: it looks, waits for a turn, then for its thread |
//! | run log | from acceptance until forgotten | 64 questions or batches: readers wait in the log, not before it |
//! | greeter of TLS | as long as the supervisor | 16 connections: each is taken as it comes; its handshakes are guests at the door |
//! | lookout | as long as the supervisor | 1,024 who ask about the host: one look at a time is the answer to all who wait |
//! | reload | as long as the daemon | none: it waits for SIGHUP and replaces the value of two `watch` channels |
//! | audit log | as long as `serve --config` | 8,192 lines: a thread of its own, for which nobody waits; what finds no room is counted |
//! | run thread | as long as its run looks at the workspace or has its turn | none: 256 at most that look, of a tenant 64, and 1,024 that have their turn; it blocks in `poll`, feeds the parser and writes the log |
//! | removal of caches that became another user's | as long as it takes | none: a thread of its own, for which nobody waits |
//! | lease | as long as its stream, or until its caller is not known any more | none: it waits for one of the two |
//! | large report for a stream | until it is made, or its stream is gone | none: one for each stream, of which a tenant has four made at a time |
//! | looks for calls, reads of files | as long as one of them | the runtime's 512 threads for what blocks: no run is among them, and of a tenant 64 looks, those of its runs included |

#![deny(clippy::print_stdout, clippy::print_stderr, reason = "they panic where nothing can be written")]

pub mod caches;
pub mod calendar;
pub mod cli;
pub mod clock;
pub mod config;
pub mod grpc;
pub mod host;
pub mod net;
pub mod ops;
mod random_id;
pub mod runs;
pub mod sessions;
pub mod tenants;
pub mod workspace;
