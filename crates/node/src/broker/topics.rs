//! Contracts of families of topics that change while a broker runs.
//!
//! Whether they fit what is carried only the data thread knows: it is asked while a configuration is looked at, and takes them over when
//! all parts of the broker have agreed.

use super::processing::Node;
use super::reload::{Commit, Taker};
use crate::log::Lines;
use broker::{Changed, TopicRule};
use config::Config;
use crossbeam_channel::{Receiver, Sender, bounded};
use host::{Network, now};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

type Answer = Result<Vec<Changed>, String>;

/// What the data thread is asked.
struct Question {
    topics: Vec<TopicRule>,
    /// Whether it takes them over.
    takes: bool,
    answer: Sender<Answer>,
}

/// Questions on their way to the data thread.
pub struct Questions(Receiver<Question>);

/// Asks them, when the configuration has been read again.
pub struct TopicTaker {
    asker: Asker,
    lines: Lines,
}

#[derive(Clone)]
struct Asker {
    sender: Sender<Question>,
    wake: Arc<UnixStream>,
}

/// Both ends. A byte written to `wake` wakes the data thread.
pub fn questions(lines: Lines, wake: Arc<UnixStream>) -> (Questions, TopicTaker) {
    let (sender, questions) = bounded(1);
    (Questions(questions), TopicTaker { asker: Asker { sender, wake }, lines })
}

impl Asker {
    fn ask(&self, topics: Vec<TopicRule>, takes: bool) -> Answer {
        let (answer, heard) = bounded(1);
        let ended = |_| "the broker is ending".to_owned();
        self.sender.send(Question { topics, takes, answer }).map_err(|error| ended(error.to_string()))?;
        (&*self.wake).write_all(&[0]).map_err(|error| ended(error.to_string()))?;
        heard.recv().map_err(|error| ended(error.to_string()))?
    }
}

impl Taker for TopicTaker {
    fn prepare(&mut self, config: &Config) -> Result<Commit, String> {
        let topics: Vec<TopicRule> = config.topics.iter().map(|family| family.rule.clone()).collect();
        self.asker.ask(topics.clone(), false)?;
        let (asker, lines) = (self.asker.clone(), self.lines.clone());
        Ok(Box::new(move || match asker.ask(topics, true) {
            Ok(changed) => {
                changed.iter().for_each(|changed| lines.say(&format!("contract of topic {changed}")));
            }
            Err(text) => lines.warn(&format!("contracts of topics stay as they are: {text}")),
        }))
    }
}

impl Questions {
    /// Answers what has been asked.
    pub fn answer(&mut self, node: &mut Node, net: &mut Network) {
        while let Ok(Question { topics, takes, answer }) = self.0.try_recv() {
            let result = match takes {
                true => node.change_topics(now(), topics, net),
                false => node.would_change_topics(&topics),
            };
            // Nobody hears it where the broker ends.
            let _ = answer.send(result);
        }
    }
}
