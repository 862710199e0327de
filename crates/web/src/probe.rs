//! Snapshots from the data thread. One of them exists, and goes back and forth: to the data thread as a question, and back as an
//! answer. Nothing is shared, and the data thread never waits.

use broker::Snapshot;
use crossbeam_channel::{Receiver, Sender, bounded};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Where questions are asked.
pub struct Probe {
    questions: Sender<Box<Snapshot>>,
    answers: Receiver<Box<Snapshot>>,
    ring: UnixStream,
    bell: UnixStream,
}

/// Where they are answered; the data thread has it.
pub struct Answers {
    questions: Receiver<Box<Snapshot>>,
    answers: Sender<Box<Snapshot>>,
    ring: UnixStream,
    bell: UnixStream,
}

/// Both ends.
pub fn probe() -> io::Result<(Probe, Answers)> {
    let (questions, asked) = bounded(1);
    let (answers, answered) = bounded(1);
    let (ring, heard) = UnixStream::pair()?;
    let (back, bell) = UnixStream::pair()?;
    for socket in [&ring, &heard, &back, &bell] {
        socket.set_nonblocking(true)?;
    }
    Ok((
        Probe { questions, answers: answered, ring, bell },
        Answers { questions: asked, answers, ring: back, bell: heard },
    ))
}

impl Answers {
    /// Becomes readable when there is a question.
    pub fn waker(&self) -> io::Result<OwnedFd> {
        Ok(self.bell.try_clone()?.into())
    }

    /// Answers the question that waits, if one does.
    pub fn answer(&mut self, fill: impl FnOnce(&mut Snapshot)) {
        let mut bytes = [0; 16];
        let _ = self.bell.read(&mut bytes);
        let Ok(mut snapshot) = self.questions.try_recv() else { return };
        fill(&mut snapshot);
        // There is one snapshot only, so there is room. When nobody listens any more, nobody needs to be told.
        if self.answers.try_send(snapshot).is_ok() {
            let _ = self.ring.write(&[0]);
        }
    }
}

/// The asking end at work.
pub(crate) struct Live {
    questions: Sender<Box<Snapshot>>,
    answers: Receiver<Box<Snapshot>>,
    ring: UnixStream,
    bell: tokio::net::UnixStream,
    /// The snapshot, unless the data thread has it.
    spare: Option<Box<Snapshot>>,
}

impl Live {
    /// Must be called inside of the runtime.
    pub(crate) fn new(probe: Probe) -> io::Result<Live> {
        let Probe { questions, answers, ring, bell } = probe;
        let bell = tokio::net::UnixStream::from_std(bell)?;
        Ok(Live { questions, answers, ring, bell, spare: Some(Box::default()) })
    }

    /// The broker as it is now; nothing if the data thread does not answer in time.
    pub(crate) async fn look(&mut self, with_streams: bool, patience: Duration) -> Option<&Snapshot> {
        let until = Instant::now() + patience;
        let mut snapshot = match self.spare.take() {
            Some(snapshot) => snapshot,
            // It has not answered the last question yet, whose answer would be old.
            None => self.next_answer(until).await?,
        };
        snapshot.with_streams = with_streams;
        if let Err(unsent) = self.questions.try_send(snapshot) {
            self.spare = Some(unsent.into_inner());
            return None;
        }
        let _ = self.ring.write(&[0]);
        let answer = self.next_answer(until).await?;
        Some(self.spare.insert(answer))
    }

    async fn next_answer(&self, until: Instant) -> Option<Box<Snapshot>> {
        let wait = async {
            let mut bytes = [0; 16];
            loop {
                if let Ok(answer) = self.answers.try_recv() {
                    return Some(answer);
                }
                self.bell.readable().await.ok()?;
                // Zero bytes: the other end is gone.
                if matches!(self.bell.try_read(&mut bytes), Ok(0)) {
                    return self.answers.try_recv().ok();
                }
            }
        };
        timeout_at(until, wait).await.ok()?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_runtime<T>(act: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(act)
    }

    const PATIENCE: Duration = Duration::from_secs(20);

    #[test]
    fn a_question_is_answered_by_another_thread_again_and_again() {
        let (probe, mut answers) = probe().unwrap();
        let answering = std::thread::spawn(move || {
            answers.bell.set_nonblocking(false).unwrap();
            for number in 1..=3 {
                // Blocks until the bell rings.
                answers.answer(|snapshot| snapshot.node.counters.arrived = number);
            }
        });
        on_runtime(async {
            let mut live = Live::new(probe).unwrap();
            for number in 1..=3 {
                assert_eq!(live.look(true, PATIENCE).await.unwrap().node.counters.arrived, number);
            }
        });
        answering.join().unwrap();
    }

    #[test]
    fn a_late_answer_is_not_taken_for_a_new_one() {
        let (probe, mut answers) = probe().unwrap();
        on_runtime(async {
            let mut live = Live::new(probe).unwrap();
            assert!(live.look(false, Duration::from_millis(1)).await.is_none());
            answers.answer(|snapshot| snapshot.node.counters.arrived = 1);
            let answering = tokio::spawn(async move {
                for _ in 0..1_000 {
                    tokio::task::yield_now().await;
                    answers.answer(|snapshot| snapshot.node.counters.arrived = 2);
                }
            });
            assert_eq!(live.look(false, PATIENCE).await.unwrap().node.counters.arrived, 2);
            answering.await.unwrap();
        });
    }

    #[test]
    fn when_the_data_thread_has_ended_nobody_waits() {
        let (probe, answers) = probe().unwrap();
        drop(answers);
        on_runtime(async {
            let mut live = Live::new(probe).unwrap();
            assert!(live.look(false, PATIENCE).await.is_none());
            assert!(live.look(false, PATIENCE).await.is_none());
        });
    }
}
