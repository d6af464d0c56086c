//! `cascade serve --check-health`: the health check of a container that holds the program alone.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::exit::ExitCode;
use crate::terminal;

/// For connecting, and for each read.
const PATIENCE: Duration = Duration::from_secs(3);

/// Far more than the server's answer.
const LONGEST_ANSWER: u64 = 64 << 10;

/// Prints what the server that listens on an address says of its health. Exit status: 0 if it takes
/// requests, 1 if it does not answer, is being stopped, or is something else.
pub(crate) fn check(address: SocketAddr) -> Result<ExitCode> {
    match ask(reached_at(address)) {
        Ok(health) => {
            writeln!(terminal::stdout(), "{health}")?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            terminal::error(format_args!("unhealthy: {address}: {error:#}"));
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Where this machine reaches a server that listens on all of its addresses.
fn reached_at(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}

fn ask(address: SocketAddr) -> Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).context("no server answers")?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    write!(
        stream,
        "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    stream.take(LONGEST_ANSWER).read_to_string(&mut answer)?;
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .context("this is no HTTP server")?;
    let status = head.lines().next().unwrap_or_default();
    ensure!(status.starts_with("HTTP/1.1 200 "), "{status}: {body}");
    Ok(body.to_owned())
}
