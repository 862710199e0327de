//! The parts of a broker that a message's way takes, and what its driver asks of that way.

use crate::broker::Broker;
use crate::outputs::Outputs;
use crate::steps::Steps;
use crate::steps::posting::{Posted, Unposted};
use crate::steps::process::Outcome;
use contract::{Receipt, StreamId, Time};
use wire::{LinkId, Posting};

impl Broker {
    /// The parts that a message's way takes.
    #[inline]
    pub(crate) fn steps(&mut self) -> Steps<'_> {
        Steps {
            settings: &self.settings,
            pair: &self.membership.pair,
            reign_was_taken: self.membership.beginning.taken,
            flow: &mut self.flow,
        }
    }

    /// Runs up to `budget` jobs. Returns whether more are waiting.
    ///
    /// A broker that does not reign forwards what reached it to the one that does; while it knows none, jobs wait.
    pub fn run(&mut self, now: Time, budget: usize, out: &mut impl Outputs) -> bool {
        self.steps().run(now, budget, out)
    }

    /// Whether somebody waits for [`Broker::handle_left`].
    #[inline]
    pub fn awaits_leaving(&self) -> bool {
        self.flow.work.departures.are_awaited()
    }

    /// Everything that was written so far has left this process: given to the system, or waiting for peers that do not take it.
    pub fn handle_left(&mut self, now: Time, out: &mut impl Outputs) {
        self.steps().handle_left(now, out);
    }

    /// Bytes that may wait on the connection of one subscriber as things are.
    pub fn backlog_part(&self) -> usize {
        self.flow.work.part.backlog
    }

    /// Takes a message from a client of another protocol.
    pub fn post(
        &mut self,
        now: Time,
        posting: &Posting<'_>,
        out: &mut impl Outputs,
    ) -> Result<Posted, Unposted> {
        if !self.membership.pair.is_primary() {
            return Err(Unposted::NotReigning);
        }
        let index = self.posted_stream(now, posting, out)?;
        self.steps().post(now, index, posting, out)
    }

    /// Whether a message that was posted has been given to all who wanted its topic, or is gone.
    pub fn was_dispatched(&self, stream: StreamId, seq: u64) -> bool {
        self.flow.store.was_dispatched(stream, seq)
    }

    /// An operator has a result. `false`: it is not published, and its lineage need not be kept.
    pub fn publish_result(&mut self, now: Time, result: &Outcome<'_>, out: &mut impl Outputs) -> bool {
        // A broker that has stepped down has given the messages away, and the other one makes their results.
        if !self.membership.pair.is_primary() {
            return false;
        }
        let Some(index) = self.result_stream(now, result, out) else {
            self.flow.stats.results_refused += 1;
            return false;
        };
        self.steps().publish_result(now, index, result, out)
    }

    /// Operators are done with a message, and all its results have been dispatched.
    pub fn processed(&mut self, receipt: Receipt, out: &mut impl Outputs) {
        self.steps().processed(receipt, out);
    }

    /// No picture could be taken of what operators remember whose results are on these topics: a crash would take it away.
    pub fn endanger_results(&mut self, now: Time, topics: &[String]) {
        self.steps().endanger_results(now, topics);
    }

    /// A copy of what operators remember, made of messages of these streams in these lives, has been sent to the backup on this link.
    pub fn count_memory(&mut self, backup: LinkId, bytes: usize, streams: &[(StreamId, u64)]) {
        self.steps().count_memory(backup, bytes, streams);
    }
}
