//! The hub's files, from servers on this machine that speak the hub's protocol, well or badly.

#![allow(clippy::unwrap_used)]

mod cases;
mod good_hub;
mod models;
mod processes;
mod protocol;
#[path = "../../../testing/test_server.rs"]
mod test_server;
mod tokens;
mod trust;
mod world;
