//! A stream is named on a link before anything is said of it there.

use crate::outputs::Outputs;
use crate::steps::Steps;
use crate::store::links::{Link, Party};
use crate::store::table::{Stream, Topic};
use contract::{Crossing, Span, StreamId, invariant};
use wire::{Announce, Effects, Frame, LinkId};

/// Names a stream on a link, unless that has been done. A free function, since its callers hold parts of the broker.
#[inline]
pub(crate) fn announce(
    state: &mut Link,
    link: LinkId,
    index: StreamId,
    stream: &Stream,
    topic: &Topic,
    next_seq: impl FnOnce(&Stream) -> u64,
    out: &mut impl Effects,
) {
    if state.announced.insert(index) {
        let next_seq = next_seq(stream);
        let crossing = match state.party {
            // Where anything is admitted, a message may have to leave before it was created.
            Party::Client { .. } => {
                let age = topic.plan.pseudo.dispatch.max(Span::ZERO);
                Crossing { age, ..stream.record.crossing }
            }
            _ => stream.record.crossing,
        };
        out.send(
            link,
            &Frame::Announce(Announce {
                stream: index.0,
                incarnation: stream.record.incarnation,
                next_seq,
                contract: topic.contract,
                gapless: stream.record.gapless,
                class: topic.class,
                topic: topic.name.as_str(),
                publisher: &stream.record.publisher,
                origin: &stream.record.origin,
                crossing,
            }),
        );
    }
}

impl Steps<'_> {
    /// Names a stream on a link, unless that has been done.
    pub(crate) fn announce(&mut self, link: LinkId, index: StreamId, out: &mut impl Outputs) {
        // A backup is told of all places, and there need not be a stream at each.
        let Some((stream, topic)) = self.flow.store.table.pair(index) else { return };
        let Some(state) = self.flow.store.links.get_mut(link) else {
            return invariant!("a broker that is told of a stream has a link");
        };
        announce(state, link, index, stream, topic, Stream::next_seq, out);
    }
}
