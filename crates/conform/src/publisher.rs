//! What a client must do that publishes (docs/protocol.md, sections 3, 4 and 6).

use crate::stage::{A, B, NODES, Said, Sent, Stage};
use crate::{Client, Findings, OUT, PATIENCE, QUIET, follows, greets, lives_and_leaves};
use contract::{Contract, Remedies, Span};
use host::now;
use node::Trouble;
use std::collections::BTreeMap;
use std::time::Duration;
use wire::{FarewellReason, Frame, MessageFlags, Shortfall, Standing, Verdict};

/// What is answered where a client states no contract.
fn contract() -> Contract {
    Contract::every(Span::millis(50)).deadline(Span::millis(100)).retain(3)
}

/// Messages that show that a client publishes.
const SOME: usize = 6;
/// How far clocks of one host may seem to be apart.
const CLOCK: Span = Span::secs(10);
/// Messages that are published while there is no primary, at least: there is none for 0.9 s.
const MEANWHILE: u64 = 5;
/// How many more messages a changed contract has kept.
const MORE: u32 = 3;

/// Tries a publisher.
pub fn try_it(command: &str) -> Result<Findings, Trouble> {
    let mut stage = Stage::new()?;
    let mut client = Client::start(command, &stage, OUT)?;
    let mut findings = Findings::new("publisher");
    if greets(&mut stage, &mut client, &mut findings) {
        let mut story = Story { stage: &mut stage, findings: &mut findings, retain: 0, stream: 0 };
        // What follows from what was not done says nothing.
        if story.registers() && story.publishes() {
            story.survives_a_death();
            story.waits_without_a_primary();
            story.disregards_lower_reigns();
            story.registers_again();
            story.takes_over_another_contract();
        }
        lives_and_leaves(&mut stage, &mut client, &mut findings);
    }
    Ok(findings)
}

struct Story<'a> {
    stage: &'a mut Stage,
    findings: &'a mut Findings,
    retain: u32,
    stream: u32,
}

type Seen = Result<(), String>;

impl Story<'_> {
    fn register_at(&mut self, broker: usize, from: usize) -> Option<(u32, u64, Option<Contract>)> {
        self.stage.wait(PATIENCE, |stage| {
            stage.heard_by(broker, from).find_map(|said| match said {
                Said::Register { stream, incarnation, contract, topic } if topic == OUT => {
                    Some((*stream, *incarnation, *contract))
                }
                _ => None,
            })
        })
    }

    fn verdict(&mut self, broker: usize, contract: Contract) {
        let (stream, reigns) = (self.stream, true);
        let deadlines = [contract.deadline, Span::millis(10)];
        let verdict = Verdict {
            stream,
            admitted: true,
            reigns,
            replicate: true,
            contract: Some(contract),
            deadlines,
            remedies: Remedies::default(),
            text: "",
        };
        self.stage.send(broker, &Frame::Verdict(verdict));
    }

    /// Waits until so many messages have come that are not sent again.
    fn new_messages(&mut self, broker: usize, from: usize, count: usize) -> Option<()> {
        self.stage.wait(PATIENCE, |stage| {
            let fresh = |sent: &&&Sent| !sent.flags.contains(MessageFlags::RESEND);
            (stage.messages(broker, from).iter().filter(fresh).count() >= count).then_some(())
        })
    }

    fn registers(&mut self) -> bool {
        let (one, other) = (self.register_at(A, 0), self.register_at(B, 0));
        let seen = match (&one, &other) {
            (Some(one), Some(other)) if one.1 == other.1 && one.2 == other.2 => Ok(()),
            (Some(_), Some(_)) => Err("with different incarnations or contracts".to_owned()),
            (None, _) => Err(format!("no Register of `{OUT}` came to the primary")),
            (_, None) => Err(format!("no Register of `{OUT}` came to the backup")),
        };
        let kept = self.findings.judge("4", "registers its topic with both brokers", seen);
        let Some((stream, _, asked)) = one else { return false };
        let contract = asked.unwrap_or_else(contract);
        (self.stream, self.retain) = (stream, contract.retain);
        self.verdict(A, contract);
        let retains = (1..=100).contains(&self.retain);
        let seen = if retains { Ok(()) } else { Err(format!("it retains {}: let it retain 3", self.retain)) };
        kept && self.findings.judge("-", "retains some messages, so that a failover can be tried", seen)
    }

    fn publishes(&mut self) -> bool {
        let came = self.new_messages(A, 0, SOME);
        let messages = self.stage.messages(A, 0);
        let numbers: Vec<u64> = messages.iter().map(|sent| sent.seq).collect();
        let ordered = numbers.iter().copied().eq(0..numbers.len() as u64);
        let seen = match (came, ordered) {
            (None, _) => {
                Err(format!("{} messages came to the primary in {} s", numbers.len(), PATIENCE.as_secs()))
            }
            (_, false) => Err(format!("their numbers are {numbers:?}")),
            _ => Ok(()),
        };
        let kept = self.findings.judge("4", "publishes to the primary, numbered from 0 without gaps", seen);
        let messages = self.stage.messages(A, 0);
        let right = |sent: &&&Sent| {
            let age = now().since(sent.created);
            sent.stream == self.stream
                && !sent.flags.contains(MessageFlags::RESEND)
                && age > -CLOCK
                && age < CLOCK
        };
        let wrong = messages.iter().find(|sent| !right(sent));
        let seen = wrong.map_or(Ok(()), |sent| {
            Err(format!(
                "message {} under number {}, flags {}, created {}",
                sent.seq, sent.stream, sent.flags.0, sent.created.0
            ))
        });
        self.findings.judge(
            "2.5",
            "under its own number, without RESEND, with its clock as creation time",
            seen,
        );
        let strays = self.stage.messages(B, 0).len();
        let seen = if strays == 0 { Ok(()) } else { Err(format!("{strays} messages came to the backup")) };
        self.findings.judge("4", "sends nothing to a backup", seen);
        kept && self.skips_what_it_does_not_use()
    }

    fn skips_what_it_does_not_use(&mut self) -> bool {
        let from = self.stage.heard.len();
        let before = [A, B].map(|broker| self.stage.connection(broker));
        self.stage.in_bytes = true;
        let (stream, messages) = (self.stream, 1);
        self.stage.send(A, &Frame::Untaken { stream, messages, text: "there was no memory" });
        let shortfall = Shortfall { span: Span::secs(1), dropped: 1, waited: 2, rate: 3 };
        self.stage.send(A, &Frame::Shortfall(shortfall));
        self.stage.send(A, &Frame::Retire { stream: 77 });
        self.stage.send(A, &Frame::ClockReply { sent: now(), clock: now() });
        self.stage.send(B, &Frame::PollReply { number: u64::MAX });
        self.stage.in_bytes = false;
        let goes_on = self.new_messages(A, from, 3);
        let connected = [A, B].map(|broker| self.stage.connection(broker)) == before;
        let seen = goes_on.filter(|()| connected).ok_or_else(|| {
            "it published no more, or closed a connection, after Untaken, Shortfall, Retire, ClockReply and PollReply in single bytes".to_owned()
        });
        self.findings.judge("1", "takes frames in pieces, and skips those that it does not use", seen)
    }

    /// What has been heard of each number so far.
    fn known(&self) -> BTreeMap<u64, Sent> {
        let all = [A, B].into_iter().flat_map(|broker| self.stage.messages(broker, 0));
        all.map(|sent| (sent.seq, sent.clone())).collect()
    }

    /// Judges what a broker hears first in a succession: what is retained, and then new messages.
    fn judge_succession(
        &mut self,
        broker: usize,
        from: usize,
        before: &BTreeMap<u64, Sent>,
        retain: u32,
    ) -> [Seen; 3] {
        let came = self.new_messages(broker, from, SOME);
        let messages = self.stage.messages(broker, from);
        let again = |sent: &&&Sent| sent.flags.contains(MessageFlags::RESEND);
        let resent: Vec<&Sent> = messages.iter().take_while(again).copied().collect();
        let new: Vec<&Sent> = messages.iter().skip(resent.len()).copied().collect();
        let (Some(()), Some(first)) = (came, new.first()) else {
            let text = format!(
                "{} messages sent again and {} new ones came to the new primary",
                resent.len(),
                new.len()
            );
            return [Err(text.clone()), Err(text.clone()), Err(text)];
        };
        let numbers: Vec<u64> = resent.iter().map(|sent| sent.seq).collect();
        let least = first.seq.saturating_sub(retain.into());
        let complete = numbers.first().is_some_and(|first| *first <= least);
        let whole = complete && numbers.windows(2).all(|pair| pair[1] == pair[0] + 1);
        let whole = whole && numbers.last().is_some_and(|last| last + 1 == first.seq);
        let expected = format!(
            "{least}..{} were kept, and {numbers:?} came with RESEND before {}",
            first.seq, first.seq
        );
        let newest = before.values().next_back();
        let unchanged = resent.iter().find_map(|sent| {
            let Some(known) = before.get(&sent.seq) else {
                // It was published since then.
                let older = newest.is_some_and(|newest| sent.created <= newest.created);
                return older
                    .then(|| format!("message {} is new, and was created before older ones", sent.seq));
            };
            let same = (known.created, &known.payload) == (sent.created, &sent.payload);
            (!same).then(|| {
                format!(
                    "message {} had been created {} and is {} now, or carries something else",
                    sent.seq, known.created.0, sent.created.0
                )
            })
        });
        let numbers: Vec<u64> = new.iter().map(|sent| sent.seq).collect();
        let newest = before.keys().next_back().copied().unwrap_or(0);
        let goes_on = numbers.windows(2).all(|pair| pair[1] == pair[0] + 1) && numbers[0] <= newest + 1 + 100;
        let flagged = new.iter().any(|sent| sent.flags.contains(MessageFlags::RESEND));
        [
            if whole { Ok(()) } else { Err(expected) },
            unchanged.map_or(Ok(()), Err),
            if goes_on && !flagged { Ok(()) } else { Err(format!("after {newest} came {numbers:?}")) },
        ]
    }

    fn survives_a_death(&mut self) {
        let (before, from) = (self.known(), self.stage.heard.len());
        self.stage.die(A);
        self.stage.listen(Duration::from_millis(40));
        self.stage.stand(B, Standing::Primary, 2, NODES[B]);
        let [whole, unchanged, goes_on] = self.judge_succession(B, from, &before, self.retain);
        self.findings.judge(
            "4",
            "sends what it retains again to a new primary, oldest first, before anything new",
            whole,
        );
        self.findings.judge("4", "sends it with its old numbers, creation times and payloads", unchanged);
        self.findings.judge("4", "goes on numbering where it was", goes_on);
        let seen = follows(self.stage, B, 2, from);
        self.findings.judge("6", "tells the new primary that it follows it", seen);
    }

    fn waits_without_a_primary(&mut self) {
        let from = self.stage.heard.len();
        self.stage.come_back(A, Standing::Backup, 2, NODES[B]);
        let back = self.stage.wait(PATIENCE, |stage| stage.is_connected(A).then_some(()));
        let seen = back.ok_or_else(|| format!("it did not come back within {} s", PATIENCE.as_secs()));
        self.findings.judge("3", "connects again to a broker that has come back", seen);
        let registered = self.register_at(A, from);
        let seen = registered.map(drop).ok_or_else(|| "no Register came on the new connection".to_owned());
        self.findings.judge("3", "registers again on each new connection", seen);
        let epoch = self.stage.heard[from..].iter().find_map(|heard| match &heard.said {
            Said::Hello { reign, .. } if heard.broker == A => Some(reign.epoch.0),
            _ => None,
        });
        let seen = if epoch == Some(2) {
            Ok(())
        } else {
            Err(format!("it said epoch {epoch:?} and had followed 2"))
        };
        self.findings.judge("3", "says the highest reign that it has followed when it greets again", seen);

        let before = self.known();
        self.stage.stand(B, Standing::Backup, 2, NODES[B]);
        // What is under way, and the time for which a broker that steps down still forwards.
        self.stage.listen(Duration::from_millis(300));
        let quiet = self.stage.heard.len();
        self.stage.listen(QUIET);
        let sent = self.stage.messages(A, quiet).len() + self.stage.messages(B, quiet).len();
        let seen =
            if sent == 0 { Ok(()) } else { Err(format!("{sent} messages came while both brokers stood by")) };
        self.findings.judge("4", "sends nothing while there is no primary", seen);
        let from = self.stage.heard.len();
        self.stage.stand(A, Standing::Primary, 3, NODES[A]);
        let [whole, _, _] = self.judge_succession(A, from, &before, self.retain);
        self.findings.judge("4", "sends what it retains to the next primary", whole);
        let newest = before.keys().next_back().copied().unwrap_or(0);
        let first = self.stage.messages(A, from).iter().map(|sent| sent.seq).max().unwrap_or(0);
        let many = newest + MEANWHILE + SOME as u64;
        let seen = if first >= many {
            Ok(())
        } else {
            Err(format!("{newest} came before, and {first} some time after that"))
        };
        self.findings.judge("4", "numbers messages while there is no primary", seen);
    }

    fn disregards_lower_reigns(&mut self) {
        self.stage.stand(B, Standing::Primary, 2, NODES[B]);
        self.stage.listen(Duration::from_millis(100));
        let from = self.stage.heard.len();
        self.stage.listen(QUIET);
        let (strays, right) = (self.stage.messages(B, from).len(), self.stage.messages(A, from).len());
        let seen = match (strays, right) {
            (0, 1..) => Ok(()),
            _ => {
                Err(format!("{strays} messages came to a primary of epoch 2 and {right} to that of epoch 3"))
            }
        };
        self.findings.judge("6", "does not follow a lower reign", seen);
        self.stage.stand(B, Standing::Backup, 3, NODES[A]);
    }

    fn registers_again(&mut self) {
        let Some(Said::Register { incarnation: first, .. }) = self
            .stage
            .heard
            .iter()
            .map(|heard| &heard.said)
            .find(|said| matches!(said, Said::Register { .. }))
            .cloned()
        else {
            return;
        };
        let from = self.stage.heard.len();
        let stream = self.stream;
        self.stage.send(A, &Frame::Unregister { stream });
        let again = self.register_at(A, from);
        let seen = match again {
            Some((_, incarnation, _)) if incarnation == first => Ok(()),
            Some(_) => Err("with another incarnation".to_owned()),
            None => Err("no Register came after Unregister".to_owned()),
        };
        if !self.findings.judge(
            "3.1",
            "registers again, as the same life, when a broker says Unregister",
            seen,
        ) {
            return;
        }
        if let Some((stream, _, asked)) = again {
            self.stream = stream;
            self.verdict(A, asked.unwrap_or_else(contract));
        }
        let from = self.stage.heard.len();
        let goes_on = self.new_messages(A, from, 3);
        self.findings.judge(
            "3.1",
            "and goes on",
            goes_on.ok_or_else(|| "it published nothing thereafter".to_owned()),
        );
    }

    /// As after SIGHUP on the brokers: only where the client has stated none itself.
    fn takes_over_another_contract(&mut self) {
        let stated = self
            .stage
            .heard
            .iter()
            .any(|heard| matches!(&heard.said, Said::Register { contract: Some(_), .. }));
        if stated {
            return;
        }
        let more = contract().retain(contract().retain + MORE);
        self.verdict(A, more);
        self.stage.listen(Duration::from_millis(100));
        let from = self.stage.heard.len();
        let filled = self.new_messages(A, from, more.retain as usize + 2);
        let before = self.known();
        let from = self.stage.heard.len();
        self.stage.hang_up(A);
        let [whole, _, _] = self.judge_succession(A, from, &before, more.retain);
        let seen = filled.ok_or_else(|| "it published nothing after a second Verdict".to_owned()).and(whole);
        self.findings.judge("4", "retains more when a later Verdict says so", seen);
        let leaving = wire::Farewell { reason: FarewellReason::Leaving, text: "the broker ends" };
        self.stage.send(B, &Frame::Farewell(leaving));
        self.stage.hang_up(B);
        let back = self.stage.wait(PATIENCE, |stage| stage.is_connected(B).then_some(()));
        let seen = back.ok_or_else(|| "it did not connect again".to_owned());
        self.findings.judge("3", "connects again after a broker has said Farewell", seen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::Heard;
    use contract::Time;
    use std::time::Instant;

    fn sent(seq: u64, resent: bool) -> Sent {
        let flags = if resent { MessageFlags::RESEND } else { MessageFlags::NONE };
        Sent { broker: B, stream: 0, flags, seq, created: Time(seq), payload: seq.to_string().into_bytes() }
    }

    /// What is said of a client that has published up to 9, retains three, and says this to the new primary.
    fn judged(said: &[Sent]) -> [bool; 3] {
        let mut stage = Stage::new().unwrap_or_else(|trouble| panic!("{}", trouble.0));
        let mut findings = Findings::new("publisher");
        let heard = |sent: &Sent| Heard {
            broker: B,
            connection: 1,
            at: Instant::now(),
            said: Said::Message(sent.clone()),
        };
        stage.heard = said.iter().map(heard).collect();
        let before = (0..10).map(|seq| (seq, sent(seq, false))).collect();
        let mut story = Story { stage: &mut stage, findings: &mut findings, retain: 3, stream: 0 };
        story.judge_succession(B, 0, &before, 3).map(|seen| seen.is_ok())
    }

    fn well() -> Vec<Sent> {
        (7..10).map(|seq| sent(seq, true)).chain((10..17).map(|seq| sent(seq, false))).collect()
    }

    #[test]
    fn whoever_sends_again_as_it_must_is_told_so() {
        assert_eq!(judged(&well()), [true; 3]);
        // One that retains more than it must may send more.
        let more: Vec<Sent> = (4..7).map(|seq| sent(seq, true)).chain(well()).collect();
        assert_eq!(judged(&more), [true; 3]);
    }

    #[test]
    fn each_way_to_do_it_wrong_is_found() {
        let without = |seq: u64| well().into_iter().filter(|sent| sent.seq != seq).collect::<Vec<_>>();
        assert_eq!(judged(&without(7)), [false, true, true], "the oldest is missing");
        assert_eq!(judged(&without(8)), [false, true, true], "one in the middle is missing");
        assert_eq!(judged(&without(12)), [true, true, false], "a number is left out");
        let mut wrong = well();
        wrong.swap(0, 1);
        assert_eq!(judged(&wrong), [false, true, true], "the newest goes first");
        let mut wrong = well();
        wrong[1].created = Time(99);
        assert_eq!(judged(&wrong), [true, false, true], "it is created anew");
        let mut wrong = well();
        wrong[2].payload = b"else".to_vec();
        assert_eq!(judged(&wrong), [true, false, true], "it carries something else");
        let mut wrong = well();
        wrong.iter_mut().for_each(|sent| sent.flags = MessageFlags::NONE);
        assert!(!judged(&wrong)[0], "nothing says that it comes again");
        let mut late = well();
        late.rotate_left(3);
        assert!(!judged(&late)[0], "what is new goes first");
    }
}
