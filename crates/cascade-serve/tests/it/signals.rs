//! Servers that listen for signals.

use std::process::Command;

use cascade_config::AssembleOptions;
use cascade_serve::{ServeOptions, Served, Server};

use crate::common::config;

#[test]
fn a_signal_before_the_first_request_stops_the_server_in_order() {
    let config = config();
    let pool = config.pool(&AssembleOptions::default());
    let mut options = ServeOptions::default();
    options.address.set_port(0);
    let server = Server::bind(Served::new(config, pool, None).unwrap(), options).unwrap();
    // Whoever knows that the port is open may end the server: the process must not end by it.
    let id = std::process::id().to_string();
    let killed = Command::new("kill").args(["-TERM", &id]).status();
    assert!(killed.unwrap().success());
    server.run().unwrap();
}
