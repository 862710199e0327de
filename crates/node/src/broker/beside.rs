//! What stands beside a broker (uplink, keeper) has a voice: into the log, and, where a promise is concerned, as alarms on the broker's own topic.

use crate::log::Lines;
use broker::{Fact, JsonObject, Severity};
use contract::Time;
use crossbeam_channel::{Receiver, Sender, bounded};
use host::now;

/// Alarms that may wait for the broker to publish them. Above it, further ones are only in the log.
const ALARMS_MAX: usize = 256;

/// See the module's words.
#[derive(Clone)]
pub struct Voice {
    lines: Lines,
    broker: String,
    alarms: Sender<String>,
}

/// Something to tell.
pub struct Word<'a> {
    /// How it is called among alarms; nothing: it is none.
    pub alarm: Option<&'static str>,
    /// Whether somebody has to look after it.
    pub bad: bool,
    /// What it is about, by the names that alarms have for it.
    pub about: Vec<(&'static str, &'a str)>,
    /// For people.
    pub text: String,
}

impl<'a> Word<'a> {
    /// That something is so.
    pub fn good(text: String) -> Word<'a> {
        Word { alarm: None, bad: false, about: Vec::new(), text }
    }

    /// That something is wrong.
    pub fn bad(text: String) -> Word<'a> {
        Word { bad: true, ..Word::good(text) }
    }

    /// An alarm of this kind as well.
    pub fn alarm(self, kind: &'static str, about: &[(&'static str, &'a str)]) -> Word<'a> {
        Word { alarm: Some(kind), about: about.to_vec(), ..self }
    }
}

impl Voice {
    /// A voice beside a broker of this name, and where the broker finds alarms to publish.
    pub fn new(broker: &str, lines: &Lines) -> (Voice, Receiver<String>) {
        let (alarms, told) = bounded(ALARMS_MAX);
        (Voice { lines: lines.clone(), broker: broker.to_owned(), alarms }, told)
    }

    /// Tells it.
    pub fn tell(&self, word: &Word<'_>) {
        if word.bad {
            self.lines.warn(&word.text);
        } else {
            self.lines.say(&word.text);
        }
        if let Some(kind) = word.alarm {
            // Where as many wait as may, it is in the log.
            _ = self.alarms.try_send(written(now(), &self.broker, kind, word));
        }
    }
}

/// An alarm, with the fields that those of brokers have.
fn written(at: Time, broker: &str, kind: &str, word: &Word<'_>) -> String {
    let severity = if word.bad { Severity::Warning } else { Severity::Info };
    let mut text = String::new();
    let mut object = JsonObject::begin(&mut text);
    object.field("time_ns", Fact::Number(at.0));
    object.field("broker", Fact::Text(broker));
    object.field("kind", Fact::Text(kind));
    object.field("severity", Fact::Text(severity.as_str()));
    word.about.iter().for_each(|(name, value)| object.field(name, Fact::Text(value)));
    object.field("left_out", Fact::Number(0));
    object.field("text", Fact::Text(&word.text));
    object.end();
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_has_the_fields_of_those_of_brokers_and_what_it_is_about() {
        let word =
            Word::bad("r1 is not \"reached\"".to_owned()).alarm("router_unreached", &[("router", "r1")]);
        let text = written(Time(7), "a", "router_unreached", &word);
        assert_eq!(
            text,
            "{\"time_ns\":7,\"broker\":\"a\",\"kind\":\"router_unreached\",\"severity\":\"warn\",\"router\":\"r1\",\
             \"left_out\":0,\"text\":\"r1 is not \\\"reached\\\"\"}"
        );
    }
}
