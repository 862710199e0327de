//! Connections between peers: each carries words one way, from who made it.
//!
//! Words are frames of a length (32 bits, little endian) and so many bytes. The first is a greeting; one of no bytes is a goodbye, after which the
//! connection may be closed without a loss.

use crate::greeting::{GREETING_BYTES_MAX, greeted, host_of};
use crate::secure::{Secure, Wire, no_tls};
use engine::PeerWord;
use overlay::{Member, PeerId};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

/// The longest word: a table of all members that a region may have, or all meetings of something.
const WORD_BYTES_MAX: usize = 16 << 20;
/// Connections that others have made, and those that this peer has.
const LINKS_MAX: usize = 4_096;
/// Of those, who has not greeted yet.
const STRANGERS_MAX: usize = 64;
/// How long one may take to greet, and to be reached.
const PATIENCE: Duration = Duration::from_secs(5);
/// After so long without a word a connection is closed with a goodbye.
const IDLE: Duration = Duration::from_secs(60);
/// Words that wait for a connection, and their bytes: a peer that takes no more is lost.
const QUEUE_MAX: usize = 4_096;
const QUEUE_BYTES_MAX: usize = 64 << 20;
/// So long after a failure words to the same address are dropped, instead of trying again with each.
const REST: Duration = Duration::from_millis(100);
/// How long nobody is let in after the system could not.
const DOOR_RESTS: Duration = Duration::from_millis(100);

/// What links have to tell.
pub(crate) enum Heard {
    /// A peer has said something.
    Word(Arc<Member>, PeerWord),
    /// Who has connected was turned away, and why.
    TurnedAway(String),
    /// A connection of a peer has ended without a goodbye.
    Gone(PeerId),
    /// A connection to an address has been made.
    Reached(Which),
    /// None could be made, or it has broken.
    Failed(Which),
    /// One has been closed with a goodbye.
    Closed(Which),
}

/// A connection that this peer makes: to which address, and which of those.
#[derive(Clone)]
pub(crate) struct Which {
    address: Arc<str>,
    number: u64,
}

/// A connection that this peer has made, or makes.
struct Line {
    number: u64,
    queue: mpsc::Sender<Vec<u8>>,
    waiting: Arc<AtomicUsize>,
    task: AbortHandle,
    /// Who is there, if that is known.
    peer: Option<PeerId>,
}

/// All connections that this peer makes.
pub(crate) struct Links {
    greeting: Arc<[u8]>,
    secure: Secure,
    told: mpsc::Sender<Heard>,
    lines: BTreeMap<Arc<str>, Line>,
    /// So many have been made.
    made: u64,
    /// Addresses to which the last connection failed, and when.
    failed: BTreeMap<Arc<str>, Instant>,
    /// Peers that do not take what is said to them.
    pub(crate) lost: Vec<PeerId>,
}

impl Links {
    pub(crate) fn new(greeting: Vec<u8>, secure: Secure, told: mpsc::Sender<Heard>) -> Links {
        Links {
            greeting: greeting.into(),
            secure,
            told,
            lines: BTreeMap::new(),
            made: 0,
            failed: BTreeMap::new(),
            lost: Vec::new(),
        }
    }

    /// Says something to whoever is at an address; `peer`: who should be.
    pub(crate) fn say(&mut self, address: &str, peer: Option<PeerId>, word: &PeerWord) {
        let mut bytes = vec![0; 4];
        word.append_to(&mut bytes);
        let length = bytes.len() - 4;
        if length > WORD_BYTES_MAX {
            return contract::invariant!("words have limits that are below that of frames");
        }
        bytes.iter_mut().zip((length as u32).to_le_bytes()).for_each(|(byte, of)| *byte = of);
        let rests = self.failed.get(address).is_some_and(|failed| failed.elapsed() < REST);
        // One that is just being closed, since nothing was said for long, takes no more.
        let is_open = self.lines.get(address).is_some_and(|line| !line.queue.is_closed());
        if !is_open && !rests {
            self.open(address);
        }
        let Some(line) = self.lines.get_mut(address) else { return };
        line.peer = peer.or(line.peer);
        let waiting = line.waiting.fetch_add(bytes.len(), Ordering::Relaxed) + bytes.len();
        if waiting > QUEUE_BYTES_MAX || line.queue.try_send(bytes).is_err() {
            self.lose(address);
        }
    }

    fn open(&mut self, address: &str) {
        if self.lines.len() >= LINKS_MAX {
            return;
        }
        let address: Arc<str> = address.into();
        let (queue, words) = mpsc::channel(QUEUE_MAX);
        let waiting = Arc::new(AtomicUsize::new(0));
        self.made += 1;
        let which = Which { address: Arc::clone(&address), number: self.made };
        let greeting = Arc::clone(&self.greeting);
        let (told, taken, secure) = (self.told.clone(), Arc::clone(&waiting), self.secure.clone());
        let task = tokio::spawn(async move {
            let ended = carry((&which, &secure), &greeting, words, &taken, &told).await;
            if let Err(error) = &ended
                && error.kind() == io::ErrorKind::Other
            {
                _ = told.send(Heard::TurnedAway(format!("{}: {error}", which.address))).await;
            }
            // Nobody hears it when the peer ends.
            _ = told.send(if ended.is_ok() { Heard::Closed(which) } else { Heard::Failed(which) }).await;
        });
        let line = Line { number: self.made, queue, waiting, task: task.abort_handle(), peer: None };
        self.lines.insert(address, line);
    }

    fn lose(&mut self, address: &str) {
        let Some((address, line)) = self.lines.remove_entry(address) else { return };
        line.task.abort();
        self.lost.extend(line.peer);
        self.failed.retain(|_, failed| failed.elapsed() < IDLE);
        self.failed.insert(address, Instant::now());
    }

    fn has(&self, which: &Which) -> bool {
        self.lines.get(&which.address).is_some_and(|line| line.number == which.number)
    }

    /// A connection has failed.
    pub(crate) fn failed(&mut self, which: &Which) {
        if self.has(which) {
            self.lose(&which.address);
        }
    }

    /// A connection was closed with a goodbye.
    pub(crate) fn closed(&mut self, which: &Which) {
        if self.has(which) {
            self.lines.remove(&which.address);
        }
    }

    /// A connection has been made. Returns who is there, where the last one had failed.
    pub(crate) fn reached(&mut self, which: &Which) -> Option<PeerId> {
        self.failed.remove(&which.address)?;
        self.lines.get(&which.address).and_then(|line| line.peer)
    }

    /// Says the rest of what was said, for so long at most.
    pub(crate) async fn finish(mut self, most: Duration) {
        let lines = std::mem::take(&mut self.lines);
        let until = Instant::now() + most;
        for line in lines.values() {
            while line.waiting.load(Ordering::Relaxed) > 0 && Instant::now() < until {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
}

/// Makes a connection and says there what comes, until nothing has come for long. An error: it could not be made, or has broken.
async fn carry(
    (which, secure): (&Which, &Secure),
    greeting: &[u8],
    mut words: mpsc::Receiver<Vec<u8>>,
    waiting: &AtomicUsize,
    told: &mpsc::Sender<Heard>,
) -> io::Result<()> {
    let made = timeout(PATIENCE, secure.connect(&which.address)).await;
    let mut stream = made.map_err(|_| io::ErrorKind::TimedOut)??;
    stream.write_all(&(greeting.len() as u32).to_le_bytes()).await?;
    stream.write_all(greeting).await?;
    stream.flush().await?;
    _ = told.send(Heard::Reached(which.clone())).await;
    let (mut back, mut there) = split(stream);
    let mut nothing = [0; 16];
    loop {
        let word = tokio::select! {
            word = timeout(IDLE, words.recv()) => word,
            // Nothing is said this way: it ends, or who is there is none of ours.
            read = back.read(&mut nothing) => return Err(match read {
                Err(error) if error.kind() == io::ErrorKind::InvalidData => no_tls(&error),
                _ => io::ErrorKind::ConnectionReset.into(),
            }),
        };
        let word = match word {
            Ok(Some(word)) => word,
            Ok(None) => return Ok(()),
            Err(_) => {
                // What was said just now still goes.
                words.close();
                match words.recv().await {
                    Some(word) => word,
                    None => break,
                }
            }
        };
        let written = timeout(PATIENCE, async {
            there.write_all(&word).await?;
            there.flush().await
        });
        let written = written.await;
        waiting.fetch_sub(word.len(), Ordering::Relaxed);
        written.map_err(|_| io::ErrorKind::TimedOut)??;
    }
    there.write_all(&0_u32.to_le_bytes()).await?;
    there.shutdown().await
}

/// Lets peers in, as long as the runtime lives.
pub(crate) async fn attend(door: TcpListener, terms: Arc<str>, secure: Secure, told: mpsc::Sender<Heard>) {
    let (places, strangers) = (Arc::new(Semaphore::new(LINKS_MAX)), Arc::new(Semaphore::new(STRANGERS_MAX)));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let Ok(strange) = Arc::clone(&strangers).acquire_owned().await else { return };
        let Ok((stream, from)) = door.accept().await else {
            tokio::time::sleep(DOOR_RESTS).await;
            continue;
        };
        let (terms, told, secure) = (Arc::clone(&terms), told.clone(), secure.clone());
        tokio::spawn(async move {
            let greeted = timeout(PATIENCE, greet(stream, &terms, &secure)).await;
            drop(strange);
            let greeted = greeted.unwrap_or_else(|_| Err("it does not say who it is".to_owned()));
            match greeted {
                Ok((stream, member)) => listen(stream, Arc::new(member), &told).await,
                Err(why) => _ = told.send(Heard::TurnedAway(format!("{from}: {why}"))).await,
            }
            drop(place);
        });
    }
}

/// Who has connected.
async fn greet(stream: TcpStream, terms: &str, secure: &Secure) -> Result<(Box<dyn Wire>, Member), String> {
    let (mut stream, shown) = secure.accept(stream).await.map_err(|error| error.to_string())?;
    let nothing = |_| "it closed before it had said who it is".to_owned();
    let greeting = word(&mut stream, GREETING_BYTES_MAX).await.map_err(nothing)?;
    let member = greeted(&greeting.unwrap_or_default(), terms)?;
    if !secure.may_be_at(&shown, &member.address) {
        return Err(format!(
            "the peer {} says that it is at {}, and its certificate is not for {}: give it one that is",
            member.name,
            member.address,
            host_of(&member.address)
        ));
    }
    Ok((stream, member))
}

/// Hears a peer until it has no more to say.
async fn listen(mut stream: Box<dyn Wire>, member: Arc<Member>, told: &mpsc::Sender<Heard>) {
    loop {
        let heard = match word(&mut stream, WORD_BYTES_MAX).await {
            Ok(Some(bytes)) => PeerWord::decode(&bytes).ok(),
            Ok(None) => return,
            Err(_) => None,
        };
        let (goes_on, heard) = match heard {
            Some(word) => (true, Heard::Word(Arc::clone(&member), word)),
            // It has ended, or says what is none of ours.
            None => (false, Heard::Gone(member.id)),
        };
        if told.send(heard).await.is_err() || !goes_on {
            return;
        }
    }
}

/// The next word; none: a goodbye. Memory is taken as it comes, whatever length was said.
async fn word(from: &mut (impl AsyncRead + Unpin), most: usize) -> io::Result<Option<Vec<u8>>> {
    let length = from.read_u32_le().await? as usize;
    if length == 0 {
        return Ok(None);
    }
    if length > most {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::new();
    from.take(length as u64).read_to_end(&mut bytes).await?;
    if bytes.len() < length { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(Some(bytes)) }
}

/// Addresses that are asked first, without the own one.
pub(crate) fn without(own: &str, contacts: &[String]) -> Vec<String> {
    let all: BTreeSet<&String> = contacts.iter().filter(|contact| **contact != own).collect();
    all.into_iter().cloned().collect()
}
