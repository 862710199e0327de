//! A pair on two hosts, and a publisher and a subscriber on two others.

use crate::lab::{Guest, Job, Lab};
use crate::support::wait_until;
use std::collections::BTreeSet;

/// The topic that flows.
const TOPIC: &str = "plant/flow";

/// The deployment. The brokers `a` and `b` are on guests 1 and 2, the publisher is on guest 3 and the subscriber on guest 4.
pub struct Plant<'a> {
    lab: &'a Lab,
    pub brokers: [Job; 2],
    pub publisher: Job,
    pub subscriber: Job,
}

/// Guests of a plant.
pub const GUESTS: usize = 4;

/// Guests have no real-time rights, and their kernels look at the time a hundred times a second.
const CONFIG: &str = r#"
[realtime]
priority = 0
lock_memory = false
[admission]
arrival_cost = "5us"
dispatch_cost = "5us"
replication_cost = "5us"
turn_cost = "8us"
read_cost = "2us"
write_cost = "5us"
kib_cost = "1us"
blocking = "1ms"
[detection]
poll = "50ms"
misses = 4
[network]
failover = "1s"
"#;

impl<'a> Plant<'a> {
    /// Starts the pair, `a` as primary, and the flow of messages. Returns when the pair is protected and messages flow.
    pub fn start(lab: &'a Lab, more: &str) -> Plant<'a> {
        Plant::start_as(lab, String::from(CONFIG) + more)
    }

    /// The same with a configuration of its own, to which the brokers are added.
    pub fn start_as(lab: &'a Lab, mut config: String) -> Plant<'a> {
        for (name, guest, role) in [("a", 1, "primary"), ("b", 2, "backup")] {
            let host = lab.guest(guest).address();
            config += &format!(
                "[brokers.{name}]\nclients = \"{host}:7571\"\npair = \"{host}:7573\"\nstart_as = \"{role}\"\n"
            );
        }
        lab.write("verge.toml", &config);
        let brokers = [start_broker(lab.guest(1), "a"), start_broker(lab.guest(2), "b")];
        wait_until("that the pair is protected", || {
            brokers.iter().any(|broker| broker.log().contains(": protected: "))
        });
        let subscriber = lab.guest(4).spawn(&format!("verge sub -c /lab/verge.toml -t {TOPIC} -o json"));
        // What is retained covers ten seconds without a primary, as a busy machine may take.
        let publisher = lab.guest(3).spawn(&format!(
            "verge pub -c /lab/verge.toml -t {TOPIC} -m x --period 40ms --deadline 500ms --loss 0 --retain 250 --repeat 1000000"
        ));
        let plant = Plant { lab, brokers, publisher, subscriber };
        plant.flows("the start");
        plant
    }

    /// Messages go on coming after this. None of the four has ended.
    pub fn flows(&self, after: &str) {
        let before = self.newest();
        wait_until(&format!("that messages come after {after}"), || {
            self.all_live(after);
            self.newest() > before + 25
        });
    }

    /// The same where one broker is dead.
    pub fn flows_without(&self, dead: usize, after: &str) {
        let before = self.newest();
        wait_until(&format!("that messages come after {after}"), || {
            let ended = self.brokers[1 - dead].exit_code();
            assert_eq!(ended, None, "the other broker has ended after {after}");
            self.newest() > before + 25
        });
    }

    /// None of them has ended.
    pub fn all_live(&self, after: &str) {
        for (who, job) in [("broker a", &self.brokers[0]), ("broker b", &self.brokers[1])] {
            assert_eq!(job.exit_code(), None, "{who} has ended after {after}: {}", job.log());
        }
        for (who, job) in [("the publisher", &self.publisher), ("the subscriber", &self.subscriber)] {
            assert_eq!(job.exit_code(), None, "{who} has ended after {after}: {}", job.log());
        }
    }

    /// The highest number that has come.
    pub fn newest(&self) -> u64 {
        numbers(&self.subscriber.log()).last().copied().unwrap_or(0)
    }

    /// Every message from the first that came to the newest has come.
    pub fn nothing_is_missing(&self) {
        let came = numbers(&self.subscriber.log());
        let (Some(first), Some(last)) = (came.first(), came.last()) else { panic!("nothing came") };
        let missing: Vec<u64> = (*first..=*last).filter(|number| !came.contains(number)).collect();
        assert!(missing.is_empty(), "missing of {}: {missing:?}", came.len());
    }

    /// Both brokers are one pair again, after so many protections (see [`Plant::protections`]).
    pub fn is_protected_again(&self, before: usize) {
        wait_until("that the pair is protected again", || self.protections() > before);
    }

    /// How often brokers have said so far that they are protected.
    pub fn protections(&self) -> usize {
        self.said().matches(": protected: ").count()
    }

    /// Which broker reigns by what both have said: the one that came last to it.
    pub fn reigning(&self) -> usize {
        let highest = |broker: &Job| {
            let log = broker.log();
            let said = log.split("this broker is primary in epoch ").skip(1);
            said.filter_map(|rest| rest.split(':').next()?.parse::<u64>().ok()).max()
        };
        usize::from(highest(&self.brokers[1]) > highest(&self.brokers[0]))
    }

    /// How many messages came late, and how many of those between the first and the newest are missing.
    pub fn late_and_missing(&self) -> (usize, usize) {
        let log = self.subscriber.log();
        let came = numbers(&log);
        let between = came.last().zip(came.first()).map_or(0, |(last, first)| last - first + 1);
        (log.matches("\"late\":true").count(), between as usize - came.len())
    }

    /// How often somebody has taken the reign, beyond the first time.
    pub fn takeovers(&self) -> usize {
        self.said().matches(": this broker is primary in epoch ").count().saturating_sub(1)
    }

    /// Ends all four.
    pub fn end(&self) {
        for host in self.lab.guests() {
            host.run("killall -9 verge");
        }
    }

    /// Waits until a broker has said this.
    pub fn wait_for(&self, text: &str) {
        wait_until(&format!("that a broker says `{text}`"), || self.said().contains(text));
    }

    /// What both brokers have said.
    pub fn said(&self) -> String {
        self.brokers.iter().map(Job::log).collect::<Vec<_>>().join("")
    }

    /// Starts a broker again whose host is back.
    pub fn restart(&mut self, index: usize) {
        self.brokers[index] = start_broker(self.lab.guest(index + 1), ["a", "b"][index]);
    }
}

fn start_broker(host: &Guest, name: &str) -> Job {
    host.spawn(&format!("verge broker {name} -c /lab/verge.toml --insecure"))
}

fn numbers(log: &str) -> BTreeSet<u64> {
    let number = |line: &str| serde_json::from_str::<serde_json::Value>(line).ok()?.get("seq")?.as_u64();
    log.lines().filter_map(number).collect()
}
