//! The supervisor: the tokio edge of proctor, between gRPC and the sandbox.
//!
//! A request flows one way down: [`grpc`] (authenticate, validate, translate) -> [`sessions::registry`] (find the
//! session) -> [`sessions`] (its actor: refuse, attach or start) -> [`runs`] (a slot on the host, the adapter's
//! command, the sandbox, the parser). Events flow one way up: into the run's log, from which subscribers read, and back
//! to the actor.
//!
//! # Tasks and channels
//!
//! | task | lifetime | mailbox, and the reason for its bound |
//! |---|---|---|
//! | registry | as long as the supervisor | 1,024 messages: each is answered without waiting |
//! | scheduler | as long as the supervisor | 1,024 slot requests: each is answered without waiting |
//! | session actor | from CreateSession to CloseSession, or until it has been idle for too long | 64 messages: one tenant's calls in flight |
//! | service manager watchdog | as long as the supervisor, if a service manager started it | none: it pings the registry |
//! | run driver | from start to end of a run | none: it scans the workspace, waits for a slot, then for its thread |
//! | run log | from acceptance until forgotten | 64 reads or batches: readers wait in the log, not in front of it |
//! | TLS acceptor | as long as the supervisor | 16 connections: each is taken at once; connections in a handshake count in the connection limiter |
//! | host check cache | as long as the supervisor | 1,024 requests for host checks: one check at a time answers all waiting requests |
//! | config reload | as long as the daemon | none: it waits for SIGHUP and replaces the value of two `watch` channels |
//! | audit log | as long as `serve --config` | 8,192 lines: a thread of its own, for which no task waits; lines that find no room are counted |
//! | metrics | as long as `serve --config` with `[telemetry] listen` | 16 scrapes, which share a result for a quarter of a second; the listener has 16 connections |
//! | logins to the page | as long as `serve --config` with `[telemetry] page` | 256 messages: each is answered without waiting |
//! | observer of the page | likewise | none: it asks registry, scheduler and sessions at most once a second while there are viewers, and replaces the value of a `watch` channel |
//! | viewer of the page | from its request until it leaves, for an hour at most | 1 event: a viewer that does not take it for 10 seconds is dropped; at most 64 |
//! | recording of traces | as long as the process, if a collector of traces is named | 2,048 ended spans, those that find no place are counted: a thread of its own sends them in batches of 512, over a runtime of its own with one thread, for which nothing else waits |
//! | history | as long as the supervisor or command | 32 finished runs, 8 of them of one tenant: a thread of its own; the report of a run waits at most five seconds for its comparison, and that of a command of the request, which has none, only behind another run of its tenant |
//! | run thread | as long as its run scans the workspace or has its slot | none: at most 256 scanning, 64 of one tenant, and 1,024 with a slot; it blocks in `poll`, feeds the parser and writes the log |
//! | removal of caches after a change of user | as long as it takes | none: a thread of its own, for which no task waits |
//! | revocation | as long as its stream, or until its caller's credential is revoked | none: it waits for one of the two |
//! | large report for a stream | until it is encoded, or its stream is gone | none: one per stream, of which four per tenant are encoded at a time |
//! | scans for calls, reads of files | as long as one of them | the runtime's 512 blocking threads: no run uses them, and a tenant has at most 64 scans, those of its runs included |

#![deny(clippy::print_stdout, clippy::print_stderr, reason = "they panic where nothing can be written")]

pub mod caches;
pub mod cli;
pub mod clock;
pub mod config;
pub mod grpc;
mod hash_prefix;
pub mod history;
pub mod host;
pub mod net;
pub mod ops;
pub mod page;
mod random_id;
pub mod reports;
pub mod runs;
pub mod sessions;
pub mod telemetry;
pub mod tenants;
pub mod workspace;
