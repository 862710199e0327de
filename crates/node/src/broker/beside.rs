//! What stands beside a broker (uplink, keeper) has a voice: into the log, and, where a promise is concerned, as alarms on the broker's own topic.

use crate::log::Lines;
use broker::{Alarms, Fact, JsonObject, Severity};
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
    /// What has been told lately.
    alarms: Alarms,
    to: Sender<String>,
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
        let (to, told) = bounded(ALARMS_MAX);
        let (lines, broker, alarms) = (lines.clone(), broker.to_owned(), Alarms::default());
        (Voice { lines, broker, alarms, to }, told)
    }

    /// Tells it. Alarms of topics are told no more often than those of brokers.
    pub fn tell(&mut self, word: &Word<'_>) {
        if word.bad {
            self.lines.warn(&word.text);
        } else {
            self.lines.say(&word.text);
        }
        if let Some(alarm) = written(&mut self.alarms, now(), &self.broker, word) {
            // Where as many wait as may, it is in the log.
            _ = self.to.try_send(alarm);
        }
    }
}

/// An alarm, with the fields that those of brokers have; nothing, where it is none, or may not be told now.
fn written(alarms: &mut Alarms, at: Time, broker: &str, word: &Word<'_>) -> Option<String> {
    let kind = word.alarm?;
    // A state is told each time: of two that follow each other soon, the latter is what holds. Of topics and filters there may be thousands.
    let chosen = word.about.iter().find(|(name, _)| matches!(*name, "topic" | "filter"));
    let left_out = chosen.map_or(Some(0), |(_, subject)| alarms.allow(at, (kind, subject), true))?;
    let severity = if word.bad { Severity::Warning } else { Severity::Info };
    let mut text = String::new();
    let mut object = JsonObject::begin_record(&mut text, at, broker, (kind, severity));
    word.about.iter().for_each(|(name, value)| object.field(name, Fact::Text(value)));
    object.field("left_out", Fact::Number(left_out));
    object.field("text", Fact::Text(&word.text));
    object.end();
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::Span;

    #[test]
    fn an_alarm_has_the_fields_of_those_of_brokers_and_of_states_none_is_left_out() {
        let mut alarms = Alarms::default();
        let word =
            Word::bad("r1 is not \"reached\"".to_owned()).alarm("router_unreached", &[("router", "r1")]);
        let mut at = |now: Time| written(&mut alarms, now, "a", &word);
        assert_eq!(
            at(Time(7)).unwrap(),
            "{\"time_ns\":7,\"broker\":\"a\",\"kind\":\"router_unreached\",\"severity\":\"warn\",\"router\":\"r1\",\
             \"left_out\":0,\"text\":\"r1 is not \\\"reached\\\"\"}"
        );
        assert!(at(Time(8)).is_some());
        assert_eq!(written(&mut alarms, Time(7), "a", &Word::good("all is well".to_owned())), None);
    }

    #[test]
    fn a_router_that_refuses_thousands_of_topics_does_not_fill_the_alarms() {
        let mut alarms = Alarms::default();
        let told = (0..5_000).filter_map(|number| {
            let topic = format!("t/{number}");
            let word =
                Word::bad("it does not carry it".to_owned()).alarm("not_carried", &[("topic", &topic)]);
            written(&mut alarms, Time(7), "a", &word)
        });
        assert_eq!(told.count(), 20);
        let word = Word::bad("nor this".to_owned()).alarm("not_carried", &[("topic", "t/1")]);
        assert_eq!(written(&mut alarms, Time(8), "a", &word), None);
        let later = written(&mut alarms, Time(7) + Span::secs(1), "a", &word).unwrap();
        assert!(later.contains("\"left_out\":4981,"), "{later}");
    }
}
