//! Streams of Redis: XADD, and XREAD that waits. There are no filters: a topic is a key.

use super::{Peer, Publisher, Route, Subscriber, Taker};
use crate::socket::{Reader, connect, write_out};
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};

/// Where it listens.
pub struct Server(pub SocketAddr);

/// What a stream keeps, or a little more, in messages and in bytes; far above what may be on its way.
const KEPT: usize = 100_000;
const KEPT_BYTES: usize = 64 << 20;
/// Entries of one answer.
const AT_ONCE: &str = "1000";

impl Peer for Server {
    fn publish(&self, route: &Route<'_>) -> io::Result<Box<dyn Publisher>> {
        let socket = connect(self.0)?;
        let kept = KEPT.min(KEPT_BYTES / route.bytes.max(1)).to_string();
        let head = |topic: &super::Topic| {
            let mut bytes = Vec::new();
            let words = ["XADD", &topic.name, "MAXLEN", "~", &kept, "*", "p"];
            put_command(&words, words.len() + 1, &mut bytes);
            bytes.extend_from_slice(format!("${}\r\n", route.bytes).as_bytes());
            bytes
        };
        let heads = route.topics.iter().map(head).collect();
        let reader = Reader::start(&socket, route.name, skip_answers)?;
        Ok(Box::new(Connection { socket, output: Vec::new(), heads, _reader: reader }))
    }

    fn subscribe(&self, route: &Route<'_>, mut take: Taker) -> io::Result<Box<dyn Subscriber>> {
        if route.filters.iter().any(|filter| filter.contains(['+', '#'])) {
            return Err(io::Error::other("streams of Redis have no filters"));
        }
        let keys = route.filters.to_vec();
        let mut ids = vec!["0-0".to_owned(); keys.len()];
        let mut socket = connect(self.0)?;
        let mut output = Vec::new();
        put_read(&keys, &ids, &mut output);
        socket.write_all(&output)?;
        let mut asking = socket.try_clone()?;
        let mut came: Vec<Entry> = Vec::new();
        let cut = move |bytes: &[u8]| {
            let Some(used) = Cursor { bytes, at: 0 }.answer(&mut came)? else { return Ok(0) };
            for entry in &came {
                let key = &bytes[entry.key.0..entry.key.1];
                if let Some(index) = keys.iter().position(|known| known.as_bytes() == key) {
                    ids[index].clear();
                    ids[index].push_str(&String::from_utf8_lossy(&bytes[entry.id.0..entry.id.1]));
                    take(&bytes[entry.payload.0..entry.payload.1]);
                }
            }
            output.clear();
            put_read(&keys, &ids, &mut output);
            asking.write_all(&output)?;
            Ok(used)
        };
        Ok(Box::new(Reader::start(&socket, route.name, cut)?))
    }
}

fn put_command(words: &[&str], count: usize, to: &mut Vec<u8>) {
    to.extend_from_slice(format!("*{count}\r\n").as_bytes());
    for word in words {
        to.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
}

fn put_read(keys: &[String], ids: &[String], to: &mut Vec<u8>) {
    let mut words = vec!["XREAD", "COUNT", AT_ONCE, "BLOCK", "0", "STREAMS"];
    words.extend(keys.iter().chain(ids).map(String::as_str));
    put_command(&words, words.len(), to);
}

/// Answers to XADD are numbers of entries; only errors matter.
fn skip_answers(bytes: &[u8]) -> io::Result<usize> {
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let mut lines = bytes[..whole].split(|byte| *byte == b'\n');
    match lines.find(|line| line.starts_with(b"-")) {
        Some(line) => Err(refusal(line)),
        None => Ok(whole),
    }
}

fn refusal(line: &[u8]) -> io::Error {
    io::Error::other(String::from_utf8_lossy(line).trim().to_owned())
}

type Range = (usize, usize);

/// One message of an answer, by places in its bytes.
struct Entry {
    key: Range,
    id: Range,
    payload: Range,
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    /// An answer to XREAD and its length, if it is complete.
    fn answer(mut self, to: &mut Vec<Entry>) -> io::Result<Option<usize>> {
        to.clear();
        if self.bytes.first() == Some(&b'-') {
            return Err(refusal(self.bytes));
        }
        Ok(self.streams(to).map(|()| self.at))
    }

    fn streams(&mut self, to: &mut Vec<Entry>) -> Option<()> {
        for _ in 0..self.count(b'*')? {
            self.count(b'*')?;
            let key = self.text()?;
            for _ in 0..self.count(b'*')? {
                self.count(b'*')?;
                let id = self.text()?;
                self.count(b'*')?;
                self.text()?;
                to.push(Entry { key, id, payload: self.text()? });
            }
        }
        Some(())
    }

    /// The number behind this sign.
    fn count(&mut self, sign: u8) -> Option<usize> {
        let rest = self.bytes.get(self.at..)?;
        let length = rest.iter().position(|byte| *byte == b'\n')?;
        let line = std::str::from_utf8(&rest[..length]).ok()?.trim_end();
        self.at += length + 1;
        line.strip_prefix(char::from(sign))?.parse().ok()
    }

    fn text(&mut self) -> Option<Range> {
        let length = self.count(b'$')?;
        let range = (self.at, self.at + length);
        self.at += length + 2;
        (self.at <= self.bytes.len()).then_some(range)
    }
}

struct Connection {
    socket: TcpStream,
    output: Vec<u8>,
    heads: Vec<Vec<u8>>,
    _reader: Reader,
}

impl Publisher for Connection {
    fn put(&mut self, topic: usize, payload: &[u8]) {
        self.output.extend_from_slice(&self.heads[topic]);
        self.output.extend_from_slice(payload);
        self.output.extend_from_slice(b"\r\n");
    }

    fn send(&mut self) -> io::Result<()> {
        write_out(&mut self.socket, &mut self.output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &[u8] =
        b"*1\r\n*2\r\n$3\r\na/1\r\n*2\r\n*2\r\n$3\r\n1-0\r\n*2\r\n$1\r\np\r\n$4\r\nab\r\n\r\n\
        *2\r\n$3\r\n1-1\r\n*2\r\n$1\r\np\r\n$0\r\n\r\n";

    #[test]
    fn an_answer_is_read_when_it_is_complete_and_not_before() {
        let mut came = Vec::new();
        for length in 0..ANSWER.len() {
            let cut = Cursor { bytes: &ANSWER[..length], at: 0 }.answer(&mut came);
            assert_eq!(cut.unwrap(), None, "at {length}");
        }
        let used = Cursor { bytes: ANSWER, at: 0 }.answer(&mut came).unwrap();
        assert_eq!(used, Some(ANSWER.len()));
        let texts: Vec<&[u8]> = came.iter().map(|entry| &ANSWER[entry.payload.0..entry.payload.1]).collect();
        assert_eq!(texts, [&b"ab\r\n"[..], &b""[..]]);
    }

    #[test]
    fn an_error_is_told() {
        assert!(skip_answers(b"$3\r\n1-0\r\n-OOM too much\r\n").is_err());
        assert_eq!(skip_answers(b"$3\r\n1-0\r\n$3\r\n1").unwrap(), 13);
    }
}
