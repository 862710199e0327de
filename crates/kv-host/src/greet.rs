//! The first words on a connection, at both ends. They block, for no longer than [`PATIENCE`] a step; no real-time thread is here.
//! Who connects to this node has [`GREETING_TIME`] for all of them: a stranger that sends a byte now and then holds its place no longer.

use contract::Span;
use kv::frame::HeadError;
use kv::hello::{
    CHALLENGE_BYTES, Challenge, GREETING_BYTES, Greeting, HelloError, PROOF_BYTES, Purpose, TEXT_BYTES_MAX,
    check_address, clock_bounds, compare, encode_facts, is_proof, proof,
};
use kv::{LinkKey, Node, Setup};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// How long one step may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);
/// How long all steps together may take of who connects to this node.
pub(crate) const GREETING_TIME: Duration = Duration::from_secs(4);
/// A connection carries so much before its first frame, so that the first jobs do not wait for TCP to learn how fast it may send.
const WARM_UP_BYTES_MAX: usize = 1 << 20;
const NONCE_BYTES: usize = 16;

/// Why a connection did not become one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GreetError {
    /// The other end, or this one, refuses.
    #[error(transparent)]
    Hello(#[from] HelloError),
    /// The connection broke, or was too slow.
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl From<HeadError> for GreetError {
    fn from(error: HeadError) -> GreetError {
        GreetError::Hello(HelloError::Head(error))
    }
}

/// Who connects to whom.
pub(crate) struct Dial<'a> {
    pub(crate) purpose: Purpose,
    pub(crate) setup: &'a Setup,
    pub(crate) me: Node,
    pub(crate) peer: Node,
    pub(crate) incarnation: u64,
    pub(crate) key: &'a LinkKey,
}

/// What the dialer has learnt.
pub(crate) struct Dialed {
    /// How far the peer's clock is ahead, at least and at most.
    pub(crate) clock: (Span, Span),
    /// Whether the peer's jobs count already.
    pub(crate) is_running: bool,
}

/// The dialer's part.
pub(crate) fn dial(stream: &mut TcpStream, dial: &Dial<'_>) -> Result<Dialed, GreetError> {
    prepare(stream)?;
    let greeting = Greeting {
        purpose: dial.purpose,
        lane: dial.setup.config().lane,
        sender: dial.me,
        receiver: dial.peer,
        incarnation: dial.incarnation,
        fingerprint: dial.setup.fingerprint(),
        nonce: nonce(),
    };
    let greeting = greeting.encode();
    let before = host::now();
    stream.write_all(&greeting)?;
    let mut answer = [0; CHALLENGE_BYTES];
    stream.read_exact(&mut answer)?;
    let after = host::now();
    let challenge = Challenge::open(&answer, &greeting, dial.key)?;
    let clock = clock_bounds(before, challenge.time, after);
    if dial.purpose == Purpose::Clock {
        return Ok(Dialed { clock, is_running: false });
    }
    let differs = challenge.fingerprint != dial.setup.fingerprint();
    let facts = if differs { encode_facts(&dial.setup.config().facts()) } else { Vec::new() };
    stream.write_all(&proof(&greeting, &answer, &facts, dial.key))?;
    write_text(stream, &facts)?;
    let mut verdict = [0; 1];
    stream.read_exact(&mut verdict)?;
    if verdict[0] == REFUSED {
        let text = read_text(stream)?;
        return Err(HelloError::Refused(String::from_utf8_lossy(&text).into_owned()).into());
    }
    warm_up(stream, dial.setup)?;
    Ok(Dialed { clock, is_running: verdict[0] == RUNNING })
}

/// What the node that was connected to knows.
pub(crate) trait Listener {
    /// Its number.
    fn me(&self) -> Node;
    /// How many nodes there are.
    fn nodes(&self) -> usize;
    /// The key of the link to a peer.
    fn key(&self, peer: Node) -> &LinkKey;
    /// Room for so many bytes of somebody who has not shown that he has a key; whether there is any.
    fn reserve(&self, bytes: usize) -> bool;
    /// It is not needed any more.
    fn give_back(&self, bytes: usize);
    /// What a lane has agreed on, if there is such a lane.
    fn setup(&self, lane: u16) -> Option<&Setup>;
    /// Whether the peer may connect, and whether the jobs of the lane count already.
    fn admit(&self, greeting: &Greeting) -> Result<bool, HelloError>;
}

/// The listener's part. `None`: it was about the clock, and is over.
pub(crate) fn answer(stream: &mut TcpStream, host: &impl Listener) -> Result<Option<Greeting>, GreetError> {
    prepare(stream)?;
    let stream = &mut Within { stream, until: Instant::now() + GREETING_TIME };
    let mut asked = [0; GREETING_BYTES];
    stream.read_exact(&mut asked)?;
    let greeting = Greeting::parse(&asked)?;
    // Without a key that both have, there is nobody who could be answered.
    check_address(&greeting, host.me(), host.nodes())?;
    let key = host.key(greeting.sender);
    let setup = host.setup(greeting.lane);
    let challenge =
        Challenge { fingerprint: setup.map_or(0, Setup::fingerprint), time: host::now(), nonce: nonce() };
    let answered = challenge.seal(&asked, key);
    stream.write_all(&answered)?;
    if greeting.purpose == Purpose::Clock {
        return Ok(None);
    }
    let mut shown = [0; PROOF_BYTES];
    stream.read_exact(&mut shown)?;
    let length = read_length(stream)?;
    if !host.reserve(length) {
        return Err(GreetError::Io(io::ErrorKind::OutOfMemory.into()));
    }
    let facts = read_rest(stream, length);
    host.give_back(length);
    let facts = facts?;
    if !is_proof(&shown, &asked, &answered, &facts, key) {
        return Err(HelloError::Key.into());
    }
    match judge(&greeting, setup, &facts, host) {
        Ok((setup, is_running)) => {
            stream.write_all(&[if is_running { RUNNING } else { WELCOME }])?;
            be_warmed_up(stream, setup)?;
            Ok(Some(greeting))
        }
        Err(error) => {
            stream.write_all(&[REFUSED])?;
            write_text(stream, error.to_string().as_bytes())?;
            Err(error.into())
        }
    }
}

const WELCOME: u8 = 0;
const RUNNING: u8 = 1;
const REFUSED: u8 = 2;

fn judge<'a>(
    greeting: &Greeting,
    setup: Option<&'a Setup>,
    facts: &[u8],
    host: &impl Listener,
) -> Result<(&'a Setup, bool), HelloError> {
    let setup = setup.ok_or(HelloError::NoLane(greeting.lane))?;
    if greeting.fingerprint != setup.fingerprint() {
        compare(setup, facts)?;
    }
    Ok((setup, host.admit(greeting)?))
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))
}

/// A connection whose steps have a common end.
struct Within<'a> {
    stream: &'a mut TcpStream,
    until: Instant,
}

impl Within<'_> {
    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now()).min(PATIENCE);
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Read for Within<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(bytes)
    }
}

impl Write for Within<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

fn warm_up(stream: &mut TcpStream, setup: &Setup) -> io::Result<()> {
    stream.write_all(&vec![0; warm_up_bytes(setup)])?;
    stream.read_exact(&mut [0; 1])
}

fn be_warmed_up(stream: &mut (impl Read + Write), setup: &Setup) -> io::Result<()> {
    stream.read_exact(&mut vec![0; warm_up_bytes(setup)])?;
    stream.write_all(&[WELCOME])
}

fn warm_up_bytes(setup: &Setup) -> usize {
    setup.frame_bytes_max().min(WARM_UP_BYTES_MAX)
}

fn write_text(stream: &mut impl Write, text: &[u8]) -> io::Result<()> {
    stream.write_all(&(text.len() as u32).to_le_bytes())?;
    stream.write_all(text)
}

fn read_text(stream: &mut impl Read) -> io::Result<Vec<u8>> {
    let length = read_length(stream)?;
    read_rest(stream, length)
}

fn read_length(stream: &mut impl Read) -> io::Result<usize> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > TEXT_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a text of {length} bytes")));
    }
    Ok(length)
}

fn read_rest(stream: &mut impl Read, length: usize) -> io::Result<Vec<u8>> {
    // No more is reserved than has come.
    let mut text = Vec::new();
    stream.take(length as u64).read_to_end(&mut text)?;
    if text.len() == length { Ok(text) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn nonce() -> [u8; NONCE_BYTES] {
    let mut bytes = [0; NONCE_BYTES];
    let (one, other) = (host::random_number(), host::random_number());
    bytes[..8].copy_from_slice(&one.to_le_bytes());
    bytes[8..].copy_from_slice(&other.to_le_bytes());
    bytes
}

/// How far a clock is off at least, be it ahead or behind.
pub(crate) fn off_at_least((low, high): (Span, Span)) -> Span {
    low.max(Span::ZERO - high).max(Span::ZERO)
}

/// The narrower of two bounds.
pub(crate) fn narrower(one: (Span, Span), other: (Span, Span)) -> (Span, Span) {
    if other.1 - other.0 < one.1 - one.0 { other } else { one }
}

/// The bounds of a clock that nobody has looked at.
pub(crate) const fn unknown() -> (Span, Span) {
    (Span(-i64::MAX / 4), Span(i64::MAX / 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody whom a greeting could convince.
    struct Nobody;

    impl Listener for Nobody {
        fn me(&self) -> Node {
            Node::at(0)
        }

        fn nodes(&self) -> usize {
            1
        }

        fn key(&self, _peer: Node) -> &LinkKey {
            unreachable!("the greeting is never whole")
        }

        fn reserve(&self, _bytes: usize) -> bool {
            unreachable!("the greeting is never whole")
        }

        fn give_back(&self, _bytes: usize) {}

        fn setup(&self, _lane: u16) -> Option<&Setup> {
            None
        }

        fn admit(&self, _greeting: &Greeting) -> Result<bool, HelloError> {
            unreachable!("the greeting is never whole")
        }
    }

    #[test]
    fn a_stranger_that_sends_a_byte_now_and_then_is_cut_off_before_it_has_greeted() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stranger = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        let step = PATIENCE / 4;
        assert!(step * GREETING_BYTES as u32 > GREETING_TIME * 2, "no step is late, and all together are");
        let ended = std::sync::atomic::AtomicBool::new(false);
        let sent = std::thread::scope(|scope| {
            scope.spawn(|| {
                assert!(answer(&mut stream, &Nobody).is_err());
                ended.store(true, std::sync::atomic::Ordering::Release);
            });
            let goes_on = || !ended.load(std::sync::atomic::Ordering::Acquire);
            let mut bytes = (0..GREETING_BYTES - 1).take_while(|_| goes_on());
            let sent = bytes.by_ref().inspect(|_| {
                let _ = stranger.write_all(&[0]);
                std::thread::sleep(step);
            });
            sent.count()
        });
        assert!(sent < GREETING_BYTES - 1, "{sent} bytes");
    }

    #[test]
    fn a_clock_is_off_by_the_nearer_bound() {
        assert_eq!(off_at_least((Span(5), Span(9))), Span(5));
        assert_eq!(off_at_least((Span(-9), Span(-5))), Span(5));
        assert_eq!(off_at_least((Span(-5), Span(9))), Span::ZERO);
        assert_eq!(off_at_least(unknown()), Span::ZERO);
        assert_eq!(narrower(unknown(), (Span(1), Span(2))), (Span(1), Span(2)));
    }
}
