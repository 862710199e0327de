//! What a client must do that subscribes (docs/protocol.md, sections 3, 5 and 6).

use crate::stage::{A, B, NODES, Said, Stage};
use crate::{Client, Findings, IN, PATIENCE, QUIET, follows, greets, lives_and_leaves};
use contract::{Contract, Crossing, Span};
use node::Trouble;
use std::time::Duration;
use wire::{Announce, Frame, MessageFlags, Shortfall, Standing};

/// The topic of all messages.
const TOPIC: &str = "conform/in/x";
const FIRST_LIFE: u64 = 1_700_000_000_000_000_000;
const NONE: MessageFlags = MessageFlags::NONE;

/// Tries a subscriber.
pub fn try_it(command: &str) -> Result<Findings, Trouble> {
    let mut stage = Stage::new()?;
    let mut client = Client::start(command, &stage, IN)?;
    let mut findings = Findings::new("subscriber");
    if greets(&mut stage, &mut client, &mut findings) {
        let mut story =
            Story { stage: &mut stage, findings: &mut findings, client: &client, seen: Vec::new() };
        if story.subscribes() && story.receives() {
            story.confirms();
            story.survives_a_death();
            story.forgets_numbers();
            story.knows_lives();
            story.comes_back();
        }
        lives_and_leaves(&mut stage, &mut client, &mut findings);
    }
    Ok(findings)
}

struct Story<'a> {
    stage: &'a mut Stage,
    findings: &'a mut Findings,
    client: &'a Client,
    /// What it should have printed by now.
    seen: Vec<String>,
}

impl Story<'_> {
    fn subscribed_at(&mut self, broker: usize, from: usize) -> Option<u32> {
        self.stage.wait(PATIENCE, |stage| {
            stage.heard_by(broker, from).find_map(|said| match said {
                Said::Subscribe { number, filter } if filter == IN => Some(*number),
                _ => None,
            })
        })
    }

    fn answer(&mut self, broker: usize, number: u32) {
        let reigns = self.stage.standings[broker] == Standing::Primary;
        self.stage.send(broker, &Frame::Subscribed { number, admitted: true, reigns, text: "" });
    }

    fn announce(&mut self, broker: usize, stream: u32, incarnation: u64, next_seq: u64) {
        let contract = Contract::every(Span::millis(50)).deadline(Span::secs(10)).retain(3);
        let (gapless, class, topic, publisher, origin) = (true, 0, TOPIC, "somebody", "");
        let announce = Announce {
            stream,
            incarnation,
            next_seq,
            contract,
            gapless,
            class,
            topic,
            publisher,
            origin,
            crossing: Crossing::NONE,
        };
        self.stage.send(broker, &Frame::Announce(announce));
    }

    /// These are printed after what was printed before, each once.
    fn printed(&mut self, section: &'static str, rule: &'static str, payloads: &[&str]) -> bool {
        self.seen.extend(payloads.iter().map(|payload| format!("{TOPIC} {payload}")));
        let client = self.client;
        let expected = self.seen.clone();
        self.stage.wait(PATIENCE, |_| (client.lines().len() >= expected.len()).then_some(()));
        // What comes twice comes soon.
        self.stage.listen(QUIET / 3);
        let lines = client.lines();
        let seen = if lines == expected {
            Ok(())
        } else {
            let from = lines.iter().zip(&expected).take_while(|(one, other)| one == other).count();
            Err(format!("expected {:?}, printed {:?}", &expected[from..], &lines[from.min(lines.len())..]))
        };
        self.seen = lines;
        self.findings.judge(section, rule, seen)
    }

    fn subscribes(&mut self) -> bool {
        let (one, other) = (self.subscribed_at(A, 0), self.subscribed_at(B, 0));
        let seen = match (one, other) {
            (Some(one), Some(other)) => {
                self.answer(A, one);
                self.answer(B, other);
                Ok(())
            }
            (None, _) => Err(format!("no Subscribe of `{IN}` came to the primary")),
            (_, None) => Err(format!("no Subscribe of `{IN}` came to the backup")),
        };
        self.findings.judge("3", "subscribes with both brokers", seen)
    }

    fn receives(&mut self) -> bool {
        self.announce(A, 7, FIRST_LIFE, 0);
        for (seq, payload) in ["m0", "m1", "m2"].iter().enumerate() {
            self.stage.deliver(A, 7, NONE, seq as u64, payload);
        }
        let all = self.printed("5", "hands over messages as they come", &["m0", "m1", "m2"]);
        let before = [A, B].map(|broker| self.stage.connection(broker));
        self.stage.in_bytes = true;
        let shortfall = Shortfall { span: Span::secs(1), dropped: 1, waited: 2, rate: 3 };
        self.stage.send(A, &Frame::Shortfall(shortfall));
        self.stage.send(A, &Frame::Untaken { stream: 5, messages: 1, text: "no memory" });
        self.stage.send(A, &Frame::HandoverReply { done: false, epoch: contract::Epoch(1), text: "no" });
        self.stage.deliver(A, 99, NONE, 0, "of nobody");
        self.stage.deliver(A, 7, NONE, 3, "m3");
        self.stage.in_bytes = false;
        let printed = self.printed(
            "1",
            "takes frames in pieces, skips those that it does not use, and messages under unbound numbers",
            &["m3"],
        );
        let same = [A, B].map(|broker| self.stage.connection(broker)) == before;
        let seen = if same { Ok(()) } else { Err("it closed a connection".to_owned()) };
        self.findings.judge("1", "and closes no connection for them", seen);
        all && printed
    }

    fn confirms(&mut self) {
        let from = self.stage.heard.len();
        for _ in 0..2 {
            self.stage.deliver(A, 7, MessageFlags::CONFIRM, 4, "m4");
        }
        self.printed("5", "drops a message that it has had", &["m4"]);
        let confirmed = |stage: &Stage| {
            let its = |said: &&Said| **said == Said::Confirm { stream: 7, seq: 4 };
            stage.heard_by(A, from).filter(its).count()
        };
        self.stage.wait(PATIENCE, |stage| (confirmed(stage) >= 2).then_some(()));
        let count = confirmed(self.stage);
        let seen = if count == 2 {
            Ok(())
        } else {
            Err(format!("{count} confirmations came for it and its duplicate"))
        };
        self.findings.judge("5", "confirms where it is asked to, duplicates too", seen);
    }

    fn survives_a_death(&mut self) {
        let from = self.stage.heard.len();
        self.announce(B, 3, FIRST_LIFE, 5);
        self.stage.die(A);
        self.stage.listen(Duration::from_millis(40));
        self.stage.stand(B, Standing::Primary, 2, NODES[B]);
        for (seq, payload) in [(3, "m3"), (4, "m4"), (5, "m5")] {
            self.stage.deliver(B, 3, MessageFlags::RESEND, seq, payload);
        }
        self.stage.deliver(B, 3, NONE, 6, "m6");
        self.printed(
            "5",
            "goes on with the backup's numbers, and drops what it has had from the other",
            &["m5", "m6"],
        );
        self.stage.deliver(B, 3, NONE, 8, "m8");
        self.stage.deliver(B, 3, NONE, 7, "m7");
        self.printed("5", "takes a message that comes after one with a higher number", &["m8", "m7"]);
        let seen = follows(self.stage, B, 2, from);
        self.findings.judge("6", "tells the new primary that it follows it", seen);
    }

    fn forgets_numbers(&mut self) {
        self.stage.send(B, &Frame::Retire { stream: 3 });
        self.stage.deliver(B, 3, NONE, 9, "under a number that is gone");
        self.announce(B, 9, FIRST_LIFE, 9);
        self.stage.deliver(B, 9, NONE, 9, "m9");
        self.printed(
            "5",
            "drops messages under a number that was retired, and takes the next number of the stream",
            &["m9"],
        );
    }

    fn knows_lives(&mut self) {
        self.announce(B, 12, FIRST_LIFE + 1, 0);
        self.stage.deliver(B, 12, NONE, 0, "n0");
        self.printed("5", "begins anew with a later life of the publisher", &["n0"]);
        self.stage.deliver(B, 9, NONE, 10, "of the life before");
        self.stage.deliver(B, 12, NONE, 1, "n1");
        self.printed("5", "unbinds numbers of the life before", &["n1"]);
    }

    fn comes_back(&mut self) {
        let from = self.stage.heard.len();
        self.stage.come_back(A, Standing::Backup, 2, NODES[B]);
        let back = self.stage.wait(PATIENCE, |stage| stage.is_connected(A).then_some(()));
        let seen = back.ok_or_else(|| format!("it did not come back within {} s", PATIENCE.as_secs()));
        self.findings.judge("3", "connects again to a broker that has come back", seen);
        let again = self.subscribed_at(A, from);
        if let Some(number) = again {
            self.answer(A, number);
        }
        let seen = again.map(drop).ok_or_else(|| "no Subscribe came on the new connection".to_owned());
        self.findings.judge("3", "subscribes again on each new connection", seen);
        self.announce(A, 1, FIRST_LIFE + 1, 0);
        self.stage.deliver(A, 1, NONE, 1, "n1");
        self.stage.deliver(A, 1, NONE, 2, "n2");
        self.stage.deliver(B, 12, NONE, 2, "n2");
        self.stage.deliver(B, 12, NONE, 3, "n3");
        self.printed("5", "takes messages from either broker, and each once", &["n2", "n3"]);
    }
}
