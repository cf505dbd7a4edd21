//! The actor and its runs, in a world of their own (`world`).

mod draining;
mod ending;
mod idle;
mod lacking;
mod looking;
mod registry;
mod runs;
mod waiting;
mod world;
