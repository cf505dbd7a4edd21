//! The supervisor: the tokio edge of proctor, between the wire and the sandbox.
//!
//! A request flows one way down: [`api`] (authenticate, validate, translate) -> [`registry`] (find the session) ->
//! [`session`] (its actor: refuse, attach or start) -> [`run`] (a turn on the host, the adapter's command, the sandbox,
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
//! | run driver | from start to end of a run | none: it waits for a turn, then for its thread |
//! | run log | from acceptance until forgotten | 64 questions or batches: readers wait in the log, not before it |
//! | greeter of TLS | as long as the supervisor | 16 connections: each is taken as it comes; 256 greetings at a time |
//! | reload | as long as the daemon | none: it waits for SIGHUP and replaces the value of two `watch` channels |
//! | audit log | as long as `serve --config` | 8,192 lines: a thread of its own, for which nobody waits; what finds no room is counted |
//! | run thread | as long as its run has a turn | none: it blocks in `poll`, feeds the parser and writes the log |

pub mod access;
pub mod allowance;
pub mod api;
pub mod audit;
pub mod caches;
pub mod cli;
pub mod clock;
pub mod config;
pub mod context;
pub mod convert;
pub mod host;
pub mod notify;
pub mod owned;
pub mod prepare;
pub mod project_file;
pub mod quotas;
pub mod registry;
pub mod run;
pub mod scheduler;
pub mod serve;
pub mod session;
pub mod shown;
pub mod tenant;
pub mod toolchain;
pub mod units;
pub mod workspace;
