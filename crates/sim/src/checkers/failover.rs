//! After the primary has failed, every publisher has another one within `x`.
//!
//! Source: FRAME, A6: detection and redirection together must not take longer than the configured `x`, on which
//! lemma 1 rests.

use crate::scenario::{Act, Scenario, Target};
use contract::{Reign, Span, Time};

pub(super) const NAME: &str = "failover";
pub(super) const STATEMENT: &str = "every publisher has another primary within x of the old one's failure";

#[derive(Clone)]
pub(crate) struct Failover {
    bound: Span,
    holds: bool,
    /// The failed primary, and when it failed.
    failed: Option<(usize, Time)>,
    /// The longest that it took.
    pub(crate) worst: Span,
}

impl Failover {
    pub(super) fn new(scenario: &Scenario) -> Failover {
        Failover { bound: scenario.delays.failover, holds: scenario.assumed, failed: None, worst: Span::ZERO }
    }

    pub(super) fn fault_begins(&mut self, now: Time, act: &Act, whole: bool, primary: usize) {
        self.failed = None;
        if let Act::HostCrash { target, .. } = act
            && whole
            && (*target == Target::Primary || *target == Target::Broker(primary))
        {
            self.failed = Some((primary, now));
        }
        // A process that dies in its next writing fails then.
        if let Act::Crash { target, .. } = act
            && whole
            && (*target == Target::Primary || *target == Target::Broker(primary))
        {
            self.failed = Some((primary, now));
        }
    }

    pub(super) fn dies(&mut self, now: Time, host: usize) {
        if let Some((failed, at)) = &mut self.failed
            && *failed == host
        {
            *at = now;
        }
    }

    pub(super) fn promoted(&mut self, host: usize) {
        if self.failed.is_some_and(|(failed, _)| failed == host) {
            self.failed = None;
        }
    }

    pub(super) fn whole(&mut self) {
        self.failed = None;
    }

    pub(super) fn follows(
        &mut self,
        now: Time,
        _host: usize,
        reign: Option<Reign>,
        publishes: bool,
    ) -> Result<(), String> {
        let Some((_, at)) = self.failed.filter(|_| reign.is_some() && publishes) else { return Ok(()) };
        let took = now.since(at);
        self.worst = self.worst.max(took);
        if self.holds && took > self.bound {
            return Err(format!("a publisher had no primary for {took}, above x = {}", self.bound));
        }
        Ok(())
    }
}
