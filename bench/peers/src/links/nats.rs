//! The text protocol of NATS: PUB, SUB, MSG.

use super::{Peer, Publisher, Route, Subscriber, Taker};
use crate::socket::{Reader, connect, read_until, write_out};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Where it listens.
pub struct Server(pub SocketAddr);

const END: &[u8] = b"\r\n";
const PONG: &[u8] = b"PONG\r\n";

impl Peer for Server {
    fn publish(&self, route: &Route<'_>) -> io::Result<Box<dyn Publisher>> {
        let socket = self.open(route)?;
        let head = |topic: &super::Topic| {
            format!("PUB {} {}\r\n", topic.name.replace('/', "."), route.bytes).into_bytes()
        };
        let heads = route.topics.iter().map(head).collect();
        let asked = Arc::new(AtomicBool::new(false));
        let asks = Arc::clone(&asked);
        let cut = move |bytes: &[u8]| {
            cut_all(bytes, &mut |_| {}, &mut || {
                asks.store(true, Ordering::Relaxed);
                Ok(())
            })
        };
        let reader = Reader::start(&socket, route.name, cut)?;
        Ok(Box::new(Connection { socket, output: Vec::new(), heads, asked, _reader: reader }))
    }

    fn subscribe(&self, route: &Route<'_>, mut take: Taker) -> io::Result<Box<dyn Subscriber>> {
        let mut socket = self.open(route)?;
        for (index, filter) in route.filters.iter().enumerate() {
            let subject = filter.replace('/', ".").replace('+', "*");
            write!(socket, "SUB {subject} {}\r\n", index + 1)?;
        }
        settle(&mut socket)?;
        let mut answer = socket.try_clone()?;
        let cut = move |bytes: &[u8]| cut_all(bytes, &mut *take, &mut || answer.write_all(PONG));
        Ok(Box::new(Reader::start(&socket, route.name, cut)?))
    }
}

impl Server {
    fn open(&self, route: &Route<'_>) -> io::Result<TcpStream> {
        let mut socket = connect(self.0)?;
        let greeting = read_until(&mut socket, END)?;
        if !greeting.starts_with(b"INFO ") {
            return Err(io::Error::other("the server does not greet like one of NATS"));
        }
        write!(
            socket,
            "CONNECT {{\"verbose\":false,\"pedantic\":false,\"name\":\"{}\",\"lang\":\"rust\",\"version\":\"0\",\"protocol\":1}}\r\n",
            route.name
        )?;
        settle(&mut socket)?;
        Ok(socket)
    }
}

/// Returns when the server has done everything so far.
fn settle(socket: &mut TcpStream) -> io::Result<()> {
    socket.write_all(b"PING\r\n")?;
    loop {
        let line = read_until(socket, END)?;
        match line.as_slice() {
            PONG => return Ok(()),
            b"PING\r\n" => socket.write_all(PONG)?,
            line if line.starts_with(b"-ERR") => return Err(refusal(line)),
            _ => {}
        }
    }
}

fn refusal(line: &[u8]) -> io::Error {
    io::Error::other(String::from_utf8_lossy(line).trim().to_owned())
}

/// Takes what is complete: messages, and questions whether we are there.
fn cut_all(
    bytes: &[u8],
    take: &mut dyn FnMut(&[u8]),
    asked: &mut dyn FnMut() -> io::Result<()>,
) -> io::Result<usize> {
    let mut at = 0;
    loop {
        let rest = &bytes[at..];
        let Some(length) = rest.iter().position(|byte| *byte == b'\n') else { return Ok(at) };
        let line = &rest[..=length];
        if line.starts_with(b"MSG ") {
            let Some(size) = last_number(line) else {
                return Err(io::Error::other("a message without length"));
            };
            let begin = line.len();
            let Some(payload) = rest.get(begin..begin + size + END.len()) else { return Ok(at) };
            take(&payload[..size]);
            at += begin + size + END.len();
            continue;
        }
        if line.starts_with(b"PING") {
            asked()?;
        } else if line.starts_with(b"-ERR") {
            return Err(refusal(line));
        }
        at += line.len();
    }
}

/// The number before the end of a line.
fn last_number(line: &[u8]) -> Option<usize> {
    let digits = line.strip_suffix(END)?;
    let begin = digits.iter().rposition(|byte| *byte == b' ')? + 1;
    digits[begin..].iter().try_fold(0_usize, |sum, digit| {
        let value = digit.is_ascii_digit().then(|| usize::from(digit - b'0'))?;
        sum.checked_mul(10)?.checked_add(value)
    })
}

struct Connection {
    socket: TcpStream,
    output: Vec<u8>,
    heads: Vec<Vec<u8>>,
    /// The server wants to know whether we are there.
    asked: Arc<AtomicBool>,
    _reader: Reader,
}

impl Publisher for Connection {
    fn put(&mut self, topic: usize, payload: &[u8]) {
        self.output.extend_from_slice(&self.heads[topic]);
        self.output.extend_from_slice(payload);
        self.output.extend_from_slice(END);
    }

    fn send(&mut self) -> io::Result<()> {
        if self.asked.swap(false, Ordering::Relaxed) {
            self.output.extend_from_slice(PONG);
        }
        write_out(&mut self.socket, &mut self.output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_where_they_end_and_questions_are_heard() {
        let bytes = b"MSG a.1 1 3\r\nx\ny\r\nPING\r\nMSG a.1 1 _INBOX.7 2\r\nzz\r\nMSG b 2 5\r\nab";
        let (mut seen, mut asked) = (Vec::new(), 0);
        let used = cut_all(bytes, &mut |payload| seen.push(payload.to_vec()), &mut || {
            asked += 1;
            Ok(())
        });
        assert_eq!(used.unwrap(), bytes.len() - b"MSG b 2 5\r\nab".len());
        assert_eq!((seen, asked), (vec![b"x\ny".to_vec(), b"zz".to_vec()], 1));
    }

    #[test]
    fn an_error_of_the_server_ends_the_connection() {
        let told = cut_all(b"-ERR 'Slow Consumer'\r\n", &mut |_| {}, &mut || Ok(())).unwrap_err();
        assert!(told.to_string().contains("Slow Consumer"));
    }
}
