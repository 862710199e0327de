//! Checking passwords, on threads of their own: each check takes tens of milliseconds on purpose, which the data thread does
//! not have.
//!
//! The data thread asks and goes on. Answers come back through a ring of their own, and a bell wakes it. How many questions
//! may be under way is limited: above that the answer is "busy" at once, and whoever wants to log in tries again.
//!
//! Passwords that have just been right are remembered, so that many who connect again at once are not made to wait in line.
//! What is remembered is not the password but a digest of it and of its hash under a random key, which ends with the process.
//! A password that is changed has another hash, so nothing remembered fits any more. Only the data thread looks at this, so
//! there is no lock on which it could wait for a thread of lower priority.

mod recent;

use crate::error::HostError;
use crate::helpers::{Helpers, errno};
use access::{Challenge, PASSWORD_BYTES_MAX, verify_password};
use recent::Recent;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{read, write};
use rustix::rand::{GetRandomFlags, getrandom};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How passwords are to be checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Authentication {
    /// Threads.
    pub threads: usize,
    /// Questions that may be under way. Above it the answer is "busy".
    pub pending: usize,
    /// Passwords that are remembered as right.
    pub remembered: usize,
    /// How long they are.
    pub lifetime: Duration,
}

impl Default for Authentication {
    fn default() -> Authentication {
        Authentication { threads: 1, pending: 256, remembered: 16_384, lifetime: Duration::from_mins(15) }
    }
}

/// What becomes of a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// The password is right, and was so recently.
    Right,
    /// The answer comes later, under the ticket.
    Waiting,
    /// Too many questions are under way. This one is not.
    Busy,
}

/// An answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The ticket of the question.
    pub ticket: u64,
    /// Whether there is such a user with this password.
    pub right: bool,
}

/// Checks passwords. Its threads end when this is dropped, each after the check that it is at.
pub struct Authenticator {
    /// `None` only while this is being dropped.
    questions: Option<SyncSender<Question>>,
    answers: Receiver<(Answer, Option<Digest>)>,
    bell: Arc<OwnedFd>,
    ends: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    pending: usize,
    pending_max: usize,
    recent: Recent,
    key: Digest,
}

type Digest = [u8; blake3::OUT_LEN];

struct Question {
    ticket: u64,
    hash: Box<str>,
    password: Box<[u8]>,
    /// What is remembered if the password is right; `None` where there is no such user, and the answer is no.
    digest: Option<Digest>,
}

impl Authenticator {
    /// Starts the threads. To be called before the caller takes a real-time priority, which they would inherit.
    pub fn start(authentication: Authentication, helpers: &Helpers) -> Result<Authenticator, HostError> {
        let failed = |what| move |reason| HostError::System { what, reason };
        let mut key = [0; blake3::OUT_LEN];
        getrandom(&mut key, GetRandomFlags::empty()).map_err(failed("cannot draw a random key"))?;
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        let bell = Arc::new(eventfd(0, flags).map_err(failed("cannot make a bell"))?);
        let pending_max = authentication.pending.max(1);
        // No more are under way than either ring holds, so neither end ever waits for room.
        let (questions, inbox) = sync_channel(pending_max);
        let (outbox, answers) = sync_channel(pending_max);
        let inbox = Arc::new(Mutex::new(inbox));
        let ends = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        for number in 0..authentication.threads.max(1) {
            let (inbox, outbox) = (inbox.clone(), outbox.clone());
            let (bell, ends) = (bell.clone(), ends.clone());
            let work = move || {
                work(&inbox, &outbox, &bell, &ends);
                Ok(())
            };
            let thread = helpers.hire(&format!("verify-{number}"), work);
            threads
                .push(thread.map_err(|error| failed("cannot start a thread for passwords")(errno(&error)))?);
        }
        let recent = Recent::new(authentication.remembered, authentication.lifetime);
        let questions = Some(questions);
        Ok(Authenticator { questions, answers, bell, ends, threads, pending: 0, pending_max, recent, key })
    }

    /// What is readable when answers have come. To be given to [`crate::serve()`] as a waker.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Asks whether a password fits. A name that nobody has goes the same way as others, and takes as long.
    pub fn ask(&mut self, ticket: u64, challenge: &Challenge<'_>, password: &[u8]) -> Asked {
        // What is too long cannot be right; its beginning costs as much to check, and the answer is no.
        let fits = password.len() <= PASSWORD_BYTES_MAX;
        let password = &password[..password.len().min(PASSWORD_BYTES_MAX)];
        // Made for names that nobody has as well, so that they cost the same here too.
        let digest = self.digest(challenge.hash, password);
        let known = self.recent.has(&digest, Instant::now());
        let digest = challenge.user.filter(|_| fits).map(|_| digest);
        if known && digest.is_some() {
            return Asked::Right;
        }
        let Some(questions) = self.questions.as_ref().filter(|_| self.pending < self.pending_max) else {
            return Asked::Busy;
        };
        let question = Question { ticket, hash: challenge.hash.into(), password: password.into(), digest };
        match questions.try_send(question) {
            Ok(()) => {
                self.pending += 1;
                Asked::Waiting
            }
            // No thread is left, which takes a panic in one.
            Err(_) => Asked::Busy,
        }
    }

    /// The next answer, if one has come. Whoever asked may be gone by then.
    pub fn next_answer(&mut self) -> Option<Answer> {
        let Ok((answer, digest)) = self.answers.try_recv() else {
            // Rung for answers that have been taken by now. One that comes after this rings again.
            let _ = read(&*self.bell, &mut [0; 8]);
            return self.answers.try_recv().ok().map(|answer| self.take(answer));
        };
        Some(self.take((answer, digest)))
    }

    /// Questions under way.
    pub fn pending(&self) -> usize {
        self.pending
    }

    fn take(&mut self, (answer, digest): (Answer, Option<Digest>)) -> Answer {
        self.pending -= 1;
        if let Some(digest) = digest.filter(|_| answer.right) {
            self.recent.add(digest, Instant::now());
        }
        answer
    }

    fn digest(&self, hash: &str, password: &[u8]) -> Digest {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        // The length keeps one pair of texts from looking like another.
        hasher.update(&(hash.len() as u64).to_le_bytes()).update(hash.as_bytes()).update(password);
        *hasher.finalize().as_bytes()
    }
}

impl Drop for Authenticator {
    fn drop(&mut self) {
        // Questions in line are left unanswered.
        self.ends.store(true, Relaxed);
        self.questions = None;
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

fn work(
    inbox: &Mutex<Receiver<Question>>,
    outbox: &SyncSender<(Answer, Option<Digest>)>,
    bell: &OwnedFd,
    ends: &AtomicBool,
) {
    // Whoever logs in waits; what is under way does not. Without the right to do so, all are equal.
    let _ = rustix::process::setpriority_process(None, NICENESS);
    loop {
        let next = inbox.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Some(mut question) = next.ok().filter(|_| !ends.load(Relaxed)) else { return };
        let fits = verify_password(&question.hash, &question.password);
        question.password.fill(0);
        std::hint::black_box(&question.password);
        let right = fits && question.digest.is_some();
        let answer = Answer { ticket: question.ticket, right };
        if outbox.send((answer, question.digest)).is_err() {
            return;
        }
        let _ = write(bell, &1_u64.to_ne_bytes());
    }
}

/// How far threads that check passwords stand behind others under ordinary scheduling.
const NICENESS: i32 = 5;

#[cfg(test)]
mod tests;
