//! One run from beginning to end, and what came of it.

use crate::checkers::Violation;
use crate::faults::Phase;
use crate::node::Program;
use crate::report::Findings;
use crate::scenario::Scenario;
use crate::story::{Story, StoryLine};
use crate::world::{START, World};
use contract::{Span, Time};

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was broken first, if anything.
    pub violation: Option<Violation>,
    /// The fingerprint of everything that happened.
    pub hash: u64,
    /// Things that happened.
    pub steps: u64,
    /// How long it lasted, in the world's time.
    pub lasted: Span,
    /// What became of each topic.
    pub findings: Findings,
    /// The last lines of the story, if it was told.
    pub story: Vec<StoryLine>,
}

impl Outcome {
    /// Whether this checker noticed something.
    pub fn breaks(&self, checker: &str) -> bool {
        self.violation.as_ref().is_some_and(|violation| violation.checker == checker)
    }
}

/// A run that takes more steps than this for every second of its time is not getting anywhere.
const STEPS_PER_SECOND_MAX: u64 = 2_000_000;
/// Lines of the story that are kept.
const STORY_LINES: usize = 200_000;

impl World {
    /// Plays a scenario to its end.
    pub fn play(scenario: &Scenario, seed: u64) -> Outcome {
        World::new(scenario, seed).finish()
    }

    /// The same, and tells the story.
    pub fn play_aloud(scenario: &Scenario, seed: u64) -> Outcome {
        let mut world = World::new(scenario, seed);
        world.story = Some(Story::new(STORY_LINES));
        world.finish()
    }

    /// The same as [`World::play`], and keeps the way of every message; see [`Findings::samples`].
    pub fn play_sampled(scenario: &Scenario, seed: u64) -> Outcome {
        let mut world = World::new(scenario, seed);
        world.watch.samples = Some(Vec::new());
        world.finish()
    }

    /// What clients have to tell a primary that they follow has been told.
    fn ask_what_was_told(&mut self) {
        let World { hosts, watch, now, .. } = self;
        for host in hosts.iter() {
            let Program::Client(node) = &host.program else { continue };
            let local = host.machine.local(*now);
            watch.has_told(*now, &host.machine.name, local, node.endpoint().untold_since());
        }
    }

    /// Every subscriber judges its gaps and says what it makes of its streams.
    fn ask_for_accounts(&mut self) {
        let World { hosts, watch, now, .. } = self;
        let names: Vec<String> = hosts.iter().map(|host| host.machine.name.clone()).collect();
        for (index, host) in hosts.iter_mut().enumerate() {
            let Program::Client(node) = &mut host.program else { continue };
            node.with(&mut host.port, |endpoint, _| endpoint.judge_gaps(Time::NEVER));
            for account in node.endpoint().streams() {
                if account.publisher.starts_with("mqtt:") {
                    continue;
                }
                // Results are published in the name of whose messages they are made of.
                let name = account.publisher.rsplit('@').next().unwrap_or_default();
                let publisher = names.iter().position(|known| known == name);
                watch.accounts_for(*now, index, publisher.unwrap_or(usize::MAX), &account);
            }
        }
    }

    /// What clients say of their clocks is held against the truth.
    fn look_at_clocks(&mut self) {
        for index in 0..self.hosts.len() {
            let (Some(client), state) = (self.hosts[index].client(), &self.hosts[index]) else { continue };
            // A way through one broker leads to the other.
            let reached = |primary| match client.is_direct(primary) {
                true => self.peer_host(index, primary),
                false => 1 - self.peer_host(index, primary),
            };
            let primary = client.primary().map(reached);
            let (Some(known), Some(primary)) = (client.clock(), primary) else { continue };
            let (own, other, now) = (&state.machine.clock, &self.hosts[primary].machine.clock, self.now);
            let ahead = own.local(now).since(other.local(now));
            let drift = own.drift_ppb() - other.drift_ppb();
            let name = state.machine.name.clone();
            self.watch.knows_clock(now, &name, known, ahead, drift);
        }
    }

    fn finish(mut self) -> Outcome {
        let mut steps_max = STEPS_PER_SECOND_MAX;
        while self.progress.phase != Phase::Done && self.watch.violation().is_none() {
            if !self.step() {
                break;
            }
            let lasted = self.now.since(START);
            if self.steps > steps_max {
                let allowed = (lasted.0 / 1_000_000_000 + 1) as u64 * STEPS_PER_SECOND_MAX;
                if self.steps > allowed {
                    let latest = format!("{:?}", self.latest);
                    self.watch.no_progress(self.now, self.steps, &latest);
                }
                steps_max = allowed;
            }
        }
        if self.watch.violation().is_none() {
            self.ask_what_was_told();
            self.ask_for_accounts();
            self.look_at_clocks();
            self.watch.ends(self.now);
        }
        let lasted = self.now.since(START);
        let violation = self.watch.violation().cloned();
        if let (Some(violation), Some(story)) = (&violation, &mut self.story) {
            let (who, what) = ("VIOLATED".to_owned(), violation.to_string());
            story.add(StoryLine { at: violation.at, who, what, matters: true });
        }
        Outcome {
            violation,
            hash: self.hash,
            steps: self.steps,
            lasted,
            findings: self.watch.findings(lasted),
            story: self.story.map(Story::into_lines).unwrap_or_default(),
        }
    }
}
