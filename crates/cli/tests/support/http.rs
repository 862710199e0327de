//! Requests over HTTP, on raw sockets.

use super::WATCHDOG;
use serde_json::Value;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};

/// A connection to this port.
pub fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).unwrap();
    stream.set_read_timeout(Some(WATCHDOG)).unwrap();
    stream.set_write_timeout(Some(WATCHDOG)).unwrap();
    stream
}

/// Everything until the other end closes, which it may do before it has read everything.
pub fn read_all(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The code and the body of an answer.
pub fn get(port: u16, path: &str) -> (u16, String) {
    let mut stream = connect(port);
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let answer = read_all(stream);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

/// The value of the sample with this beginning.
pub fn sample(page: &str, beginning: &str) -> Option<f64> {
    page.lines().find_map(|line| line.strip_prefix(beginning)?.trim().parse().ok())
}

/// The codes of the reasons in what `/readyz` says.
pub fn codes(body: &str) -> Vec<String> {
    let json: Value = serde_json::from_str(body).unwrap_or_else(|_| panic!("{body}"));
    let reasons = json["reasons"].as_array().unwrap();
    reasons.iter().map(|reason| reason["code"].as_str().unwrap().to_owned()).collect()
}
