//! Streams that nobody registers: a client of another protocol publishes something, or an operator has a result.

use crate::broker::Broker;
use crate::commands::register::{Denial, Publisher};
use crate::outputs::Outputs;
use crate::steps::posting::Unposted;
use crate::steps::process::Outcome;
use crate::store::results::ResultStream;
use crate::store::table::Stream;
use crate::watch::events::Event;
use contract::{Contract, Loss, Span, StreamId, Time, invariant};
use wire::Posting;
use wire::limits::NAME_BYTES_MAX;

/// A result without a deadline of its own is dispatched as if it were due so long after the newest reading.
const WITHOUT_DEADLINE: Span = Span::secs(1);
/// Between two attempts to have a refused stream of results carried.
const ASK_AGAIN: Span = Span::secs(1);

impl Broker {
    /// The stream of what a client of another protocol publishes, made if need be.
    pub(crate) fn posted_stream(
        &mut self,
        now: Time,
        posting: &Posting<'_>,
        out: &mut impl Outputs,
    ) -> Result<StreamId, Unposted> {
        match posting.hint.filter(|index| self.is_stream_of(*index, posting)) {
            Some(index) => Ok(index),
            None => self.open_posted(now, posting, out).map_err(|denial| Unposted::Refused(denial.text)),
        }
    }

    fn is_stream_of(&self, index: StreamId, posting: &Posting<'_>) -> bool {
        self.flow.store.table.pair(index).is_some_and(|(stream, topic)| {
            &*stream.record.publisher == posting.publisher
                && topic.name.as_str() == posting.topic
                && stream.record.admitted
        })
    }

    /// The stream of a client of another protocol, made if need be.
    fn open_posted(
        &mut self,
        now: Time,
        posting: &Posting<'_>,
        out: &mut impl Outputs,
    ) -> Result<StreamId, Denial> {
        let Posting { publisher: name, topic, .. } = *posting;
        let known = self.flow.store.table.find_topic(topic);
        let carried = known.and_then(|index| self.flow.store.table.topic(index));
        let contract = match (posting.asked.as_ref(), carried) {
            // Who asks for nothing takes what is there.
            (None, Some(topic)) => topic.contract,
            (asked, _) => self.find_contract(topic, asked).or_else(|denial| match asked {
                None if contract::check_name(topic).is_ok() => Ok(posting.fallback),
                _ => Err(denial),
            })?,
        };
        if carried.is_some_and(|topic| topic.made) {
            return Err(Denial::made(topic));
        }
        let stream = known.and_then(|index| self.flow.store.table.find_stream(index, name));
        let incarnation = stream
            .and_then(|index| self.flow.store.table.stream(index))
            .map_or(now.0, |stream| stream.record.incarnation);
        let publisher = Publisher { gapless: false, ..Publisher::new(name, incarnation) };
        self.take_stream(now, topic, contract, &publisher, true, out)
    }

    /// The stream of these results, made if need be.
    pub(crate) fn result_stream(
        &mut self,
        now: Time,
        result: &Outcome<'_>,
        out: &mut impl Outputs,
    ) -> Option<StreamId> {
        // Operators may take so long that the stream has ended.
        let (origin, topic) = self.flow.store.table.pair(result.stream)?;
        if origin.record.incarnation != result.incarnation {
            return None;
        }
        let known = origin.record.results.iter().find(|known| known.output == result.output);
        if let Some(known) = known {
            let there = known.stream.and_then(|index| self.flow.store.table.stream(index));
            let is_its = |stream: &Stream| stream.record.made_of == Some(result.stream);
            match there.filter(|stream| is_its(stream)) {
                Some(stream) if stream.record.incarnation == result.incarnation => return known.stream,
                None if now < known.ask_again => return None,
                _ => {}
            }
        }
        let name = result_publisher(topic.name.as_str(), &origin.record.publisher);
        let contract = self.result_contract(result, &topic.contract);
        let publisher = Publisher {
            made: Some(result.seq),
            gapless: result.gaps.is_none(),
            ..Publisher::new(&name, result.incarnation)
        };
        let taken = match uncountable(result, &contract) {
            Some(denial) => Err(denial),
            None => self.take_stream(now, result.topic, contract, &publisher, true, out),
        };
        if let Err(denial) = &taken {
            out.report(&Event::ResultRefused { topic: result.topic, reason: &denial.text });
        }
        let stream = taken.ok();
        let entry = ResultStream { output: result.output, stream, ask_again: now + ASK_AGAIN };
        let Some(origin) = self.flow.store.table.stream_mut(result.stream) else {
            return invariant!("taking a stream of results ends none", None);
        };
        origin.record.results.retain(|known| known.output != result.output);
        origin.record.results.push(entry);
        let Some(made) = self.flow.store.table.stream_mut(stream?) else {
            return invariant!("a stream that was found or made is there", None);
        };
        made.record.made_of = Some(result.stream);
        stream
    }

    /// The configured contract of a topic of results, or what follows from the messages that they are made of.
    fn result_contract(&self, result: &Outcome<'_>, origin: &Contract) -> Contract {
        let configured =
            self.promises.rule_of(result.topic).and_then(|place| self.settings.topics.get(place));
        if let Some(rule) = configured {
            return rule.contract;
        }
        let deadline = if result.deadline.is_forever() { WITHOUT_DEADLINE } else { result.deadline };
        let contract = Contract { period: result.period, deadline, confirm: false, ..*origin };
        if result.gaps.is_none() {
            contract
        } else {
            Contract { loss: Loss::Unbounded, retain: 0, ..contract }
        }
    }
}

impl Denial {
    pub(crate) fn made(topic: &str) -> Denial {
        Denial::from(format!("`{topic}` is published by an operator: publish on another topic"))
    }
}

/// Why a loss number for these results cannot be kept, if it cannot: what is lost cannot be told from what was never made.
fn uncountable(result: &Outcome<'_>, contract: &Contract) -> Option<Denial> {
    let gaps = result.gaps.filter(|_| contract.loss != Loss::Unbounded)?;
    Some(Denial::from(format!(
        "its results have gaps of their own, since {gaps}, so that losses in a row cannot be counted: say loss = \"unbounded\" for this topic, or \
         let each message have a result"
    )))
}

/// Whose results they are: the topic and the publisher of the messages. A long one is told from others by a checksum.
fn result_publisher(topic: &str, publisher: &str) -> String {
    let name = format!("{topic}@{publisher}");
    if name.len() <= NAME_BYTES_MAX {
        return name;
    }
    // FNV-1a.
    let sum = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let keep = name.floor_char_boundary(NAME_BYTES_MAX - 17);
    format!("{}~{sum:016x}", &name[..keep])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_of_results_stay_apart() {
        assert_eq!(result_publisher("a/b", "p"), "a/b@p");
        let long = |end: &str| result_publisher(&format!("{}{end}", "ü".repeat(100)), "p");
        assert!(long("1").len() <= NAME_BYTES_MAX);
        assert_ne!(long("1"), long("2"));
    }
}
