//! As much of HTTP/1.1 as requests to one server need, one after the other on a connection that stays: POST, and answers with a length or
//! in chunks (RFC 9112).

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Longer answers are refused.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// No time left is still a little, since zero would mean to wait forever.
const WAIT_MIN: Duration = Duration::from_millis(1);

/// A connection that is made when it is needed.
pub struct Connection {
    address: String,
    stream: Option<BufReader<TcpStream>>,
}

impl Connection {
    /// Host and port.
    pub fn to(address: &str) -> Connection {
        Connection { address: address.to_owned(), stream: None }
    }

    /// The body of the answer; an error if it is none of success, or takes longer than `wait` at any step.
    pub fn post(&mut self, path: &str, body: &[u8], wait: Duration) -> io::Result<Vec<u8>> {
        // After a failure the answer may still come; it would be taken for the next one.
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect(&self.address)?;
                stream.set_nodelay(true)?;
                BufReader::with_capacity(1 << 16, stream)
            }
        };
        stream.get_ref().set_read_timeout(Some(wait.max(WAIT_MIN)))?;
        stream.get_ref().set_write_timeout(Some(wait.max(WAIT_MIN)))?;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.address,
            body.len()
        );
        stream.get_mut().write_all(&[head.as_bytes(), body].concat())?;
        let (status, answer) = answer(&mut stream)?;
        self.stream = Some(stream);
        if status == 200 {
            return Ok(answer);
        }
        Err(io::Error::other(format!("status {status}: {}", String::from_utf8_lossy(&answer))))
    }
}

fn answer(stream: &mut impl BufRead) -> io::Result<(u16, Vec<u8>)> {
    let first = line(stream)?;
    let status = first.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(|| bad(&first))?;
    let (mut length, mut chunked) = (0, false);
    loop {
        let line = line(stream)?;
        let Some((name, value)) = line.split_once(':') else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().map_err(|_| bad(&line))?;
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            chunked = value.trim().eq_ignore_ascii_case("chunked");
        }
    }
    let mut body = Vec::new();
    if !chunked {
        take(stream, length, &mut body)?;
        return Ok((status, body));
    }
    loop {
        let head = line(stream)?;
        let digits = head.split(';').next().unwrap_or_default();
        let length = usize::from_str_radix(digits.trim(), 16).map_err(|_| bad(&head))?;
        take(stream, length, &mut body)?;
        line(stream)?;
        if length == 0 {
            return Ok((status, body));
        }
    }
}

fn take(stream: &mut impl Read, length: usize, body: &mut Vec<u8>) -> io::Result<()> {
    let before = body.len();
    if length > ANSWER_BYTES_MAX - before {
        return Err(io::Error::other("an answer that is too long"));
    }
    body.resize(before + length, 0);
    stream.read_exact(&mut body[before..])
}

/// Without its end; the empty one ends a head.
fn line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    if !line.ends_with('\n') {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    line.truncate(line.trim_end().len());
    Ok(line)
}

fn bad(line: &str) -> io::Error {
    io::Error::other(format!("not HTTP: {line:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_a_length_or_come_in_chunks() {
        let plain = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP".as_slice();
        let chunks = b"HTTP/1.1 404 Not Found\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\nA;x=1\r\n0123456789\r\n0\r\n\r\n".as_slice();
        for (mut bytes, status, body, rest) in
            [(plain, 200, "abc", "HTTP"), (chunks, 404, "ab0123456789", "")]
        {
            let (code, content) = answer(&mut bytes).expect("it is whole");
            assert_eq!((code, content.as_slice(), bytes), (status, body.as_bytes(), rest.as_bytes()));
        }
    }

    #[test]
    fn what_is_cut_off_or_no_answer_is_refused() {
        let whole = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n";
        for end in 0..whole.len() {
            assert!(answer(&mut &whole[..end]).is_err(), "{end} bytes");
        }
        assert!(answer(&mut b"SSH-2.0\r\n\r\n".as_slice()).is_err());
        assert!(answer(&mut b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n".as_slice()).is_err());
    }
}
