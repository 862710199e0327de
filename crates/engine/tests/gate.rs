//! Who is let in by a broker that has users, and what they may do there. The test plays clients, partners, and whoever checks
//! passwords.
#![allow(clippy::unwrap_used, reason = "a broken world is a broken test")]

use crate::world::seat;

use access::Access;
use broker::Settings;
use contract::{Contract, Epoch, NodeId, Reign, Span, Time};
use engine::testing::Log;
use engine::{BrokerNode, Guarding, Node};
use mqtt::packet::Reason;
use seat::Seat;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use wire::{
    Carry, Decoded, FarewellReason, Frame, Hello, LinkChange, LinkId, Message, MessageFlags, MessageKind,
    Outbox, PeerIndex, Protocol, Register, Secret, Standing, decode,
};

const START: Time = Time(1_000_000_000_000);
const HOME: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7));

const USERS: &str = r##"
[[user]]
name = "line"
certificate = "line.example"
[[user.rule]]
allow = ["publish", "contract"]
topics = ["plant/%u/#"]
[[user.rule]]
allow = "publish"
topics = ["open"]
[[user.rule]]
allow = "subscribe"
topics = ["plant/#"]
[[user.rule]]
deny = "subscribe"
topics = ["plant/secret"]

[[user]]
name = "boss"
[[user.rule]]
allow = "admin"
[[user.rule]]
allow = "subscribe"
topics = ["#"]
"##;

/// A broker, and what its driver keeps for it.
struct Stand {
    seat: Seat<BrokerNode<Log>>,
}

fn rules(text: &str) -> Arc<Access> {
    Arc::new(Access::parse(text).unwrap())
}

impl Stand {
    /// A broker that reigns alone.
    fn new(by: Guarding) -> Stand {
        let node = BrokerNode::new(Settings::new("a", NodeId(1), START), Log::default()).with_gate(by);
        let mut bench = Stand { seat: Seat::new(node, START) };
        for _ in 0..100 {
            bench.seat.now = bench.seat.now + Span::millis(10);
            bench.seat.rest();
        }
        assert!(bench.seat.node.broker().is_primary());
        bench
    }

    fn with_users() -> Stand {
        Stand::new(Guarding { access: Some(rules(USERS)), ..Guarding::default() })
    }

    fn open(&mut self, change: LinkChange) -> LinkId {
        let link = self.seat.open(change);
        self.seat.rest();
        link
    }

    fn accept(&mut self) -> LinkId {
        let link = self.open(LinkChange::Accepted(Protocol::Verge));
        self.seat.node.handle_address(link, HOME);
        link
    }

    fn tell(&mut self, link: LinkId, frame: &Frame<'_>) {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        self.feed(link, &bytes);
    }

    fn feed(&mut self, link: LinkId, bytes: &[u8]) {
        self.seat.bring(link, bytes);
        self.seat.rest();
    }

    fn answer(&mut self, user: Result<&str, Reason>) {
        let login = self.seat.node.reporter().logins.remove(0);
        let user = user.map(|name| Some(Box::from(name)));
        self.seat.node.judged(self.seat.now, login.ticket, user, &mut self.seat.wires);
        self.seat.rest();
    }

    /// A client that has been let in.
    fn enter(&mut self, user: &str, name: &str) -> LinkId {
        let link = self.accept();
        self.tell(link, &hello(Standing::Orphaned, name, user, "right"));
        self.answer(Ok(user));
        assert!(self.heard(link)[0].contains("Hello"), "{user} is greeted");
        link
    }

    /// What the broker has said since the last look.
    fn heard(&mut self, link: LinkId) -> Vec<String> {
        let bytes = self.seat.wires.take(link);
        let (mut rest, mut words) = (&bytes[..], Vec::new());
        while let Ok(Decoded::Frame(frame, used)) = decode(rest) {
            rest = &rest[used..];
            words.push(format!("{frame:?}"));
        }
        words
    }

    /// Whether the link is to be closed, and why.
    fn closed(&self, link: LinkId) -> Option<(FarewellReason, &str)> {
        let farewells = self.seat.wires.ended.iter().filter(|ended| ended.link == link);
        farewells
            .filter_map(|ended| ended.farewell.as_ref())
            .next_back()
            .map(|(why, text)| (*why, text.as_str()))
    }

    fn close(&mut self, link: LinkId) {
        self.seat.change(link, LinkChange::Closed);
        self.seat.rest();
    }

    /// The only answer to a frame.
    fn ask(&mut self, link: LinkId, frame: &Frame<'_>) -> String {
        self.tell(link, frame);
        let mut heard = self.heard(link);
        assert_eq!(heard.len(), 1, "{heard:?}");
        heard.remove(0)
    }
}

fn hello<'a>(standing: Standing, name: &'a str, user: &'a str, password: &'a str) -> Frame<'a> {
    let reign = Reign { epoch: Epoch(0), node: NodeId(0) };
    let (node, password) = (NodeId(77), Secret(password));
    Frame::Hello(Hello {
        standing,
        prefers_to_reign: false,
        reign,
        node,
        incarnation: 1,
        name,
        user,
        password,
        knows: wire::Knows::NOTHING,
    })
}

fn register(topic: &str, contract: Option<Contract>) -> Frame<'_> {
    Frame::Register(Register { stream: 0, incarnation: 1, contract, topic })
}

fn contract() -> Option<Contract> {
    Some(Contract::every(Span::millis(50)).retain(2))
}

#[test]
fn who_has_the_right_password_comes_in_when_that_is_known_and_not_before() {
    let mut bench = Stand::with_users();
    let link = bench.accept();
    bench.tell(link, &hello(Standing::Orphaned, "plc", "line", "right"));
    bench.tell(link, &Frame::Poll { number: 1 });
    assert!(bench.heard(link).is_empty(), "nothing is said to whoever is not known");
    let login = &bench.seat.node.reporter().logins[0];
    assert_eq!((login.user.as_deref(), login.password.as_deref()), (Some("line"), Some(&b"right"[..])));
    assert_eq!(bench.seat.node.reporter().callers, [Some(HOME)]);
    bench.answer(Ok("line"));
    let heard = bench.heard(link);
    assert!(heard[0].contains("Hello") && heard[1].contains("PollReply"), "{heard:?}");
    assert_eq!(bench.closed(link), None);
}

#[test]
fn who_has_a_wrong_password_is_told_and_the_broker_never_sees_it() {
    for (reason, farewell, text) in [
        (Reason::BAD_CREDENTIALS, FarewellReason::Denied, "no such user, or the password is wrong"),
        (Reason::SERVER_BUSY, FarewellReason::Busy, "try again"),
        (Reason::CONNECTION_RATE_EXCEEDED, FarewellReason::Busy, "security.logins_per_minute"),
    ] {
        let mut bench = Stand::with_users();
        let link = bench.accept();
        bench.tell(link, &hello(Standing::Orphaned, "plc", "line", "wrong"));
        bench.answer(Err(reason));
        let (why, said) = bench.closed(link).unwrap();
        assert_eq!(why, farewell);
        assert!(said.contains(text), "{said}");
        assert_eq!(bench.seat.node.broker().occupancy().clients, 0);
        assert!(bench.seat.node.reporter().words.last().unwrap().contains("plc as `line` from 10.0.0.7"));
        bench.tell(link, &Frame::Subscribe { number: 0, needs: contract::Needs::NONE, filter: "plant/#" });
        assert_eq!(
            bench.seat.node.broker().occupancy().sessions,
            0,
            "what it sends afterwards means nothing"
        );
    }
}

#[test]
fn a_certificate_means_its_user_and_needs_no_password() {
    let mut bench = Stand::with_users();
    let link = bench.accept();
    bench.seat.node.handle_identity(bench.seat.now, link, "line.example");
    bench.tell(link, &hello(Standing::Orphaned, "plc", "", ""));
    assert!(bench.seat.node.reporter().logins.is_empty());
    assert!(bench.heard(link)[0].contains("Hello"));
    assert!(bench.ask(link, &register("plant/line/x", contract())).contains("admitted: true"));
    let stranger = bench.accept();
    bench.seat.node.handle_identity(bench.seat.now, stranger, "unknown.example");
    bench.tell(stranger, &hello(Standing::Orphaned, "x", "", ""));
    assert_eq!(bench.closed(stranger).unwrap().0, FarewellReason::Denied);
}

#[test]
fn who_does_not_log_in_is_anonymous_where_there_is_such_a_user_and_nobody_otherwise() {
    let mut bench = Stand::with_users();
    let link = bench.accept();
    bench.tell(link, &hello(Standing::Orphaned, "x", "", ""));
    assert!(bench.closed(link).unwrap().1.contains("--user"));
    let users = format!(
        "{USERS}\n[[user]]\nname = \"anonymous\"\n[[user.rule]]\nallow = \"subscribe\"\ntopics = [\"open\"]\n"
    );
    let mut bench = Stand::new(Guarding { access: Some(rules(&users)), ..Guarding::default() });
    let link = bench.accept();
    bench.tell(link, &hello(Standing::Orphaned, "x", "", ""));
    assert!(bench.heard(link)[0].contains("Hello"));
    assert!(
        bench
            .ask(link, &Frame::Subscribe { number: 0, needs: contract::Needs::NONE, filter: "open" })
            .contains("admitted: true")
    );
    let refused = bench
        .ask(link, &Frame::Subscribe { number: 1, needs: contract::Needs::NONE, filter: "plant/line/x" });
    assert!(refused.contains("admitted: false"), "{refused}");
    bench.tell(link, &Frame::StatusRequest { first_stream: 0, rows: 0 });
    assert_eq!(bench.closed(link).unwrap().0, FarewellReason::Denied);
}

/// A site's link may do more than others, and no more than what is shared with it.
#[test]
fn a_sites_link_needs_a_right_of_its_own_beside_those_for_its_topics() {
    let carry = |topic| {
        let contract = contract().unwrap();
        let (publisher, origin) = ("pump@north", "north");
        Frame::Carry(Carry {
            stream: 0,
            incarnation: 1,
            first_seq: 7,
            contract,
            topic,
            publisher,
            origin,
            crossing: contract::Crossing::NONE,
        })
    };
    let users = |rules: &str| {
        format!(
            "{USERS}\n[[user]]\nname = \"anonymous\"\n[[user.rule]]\nallow = [\"publish\", \"contract\", \"subscribe\"]\ntopics = [\"north/#\"]\n{rules}"
        )
    };
    let enter = |users: &str| {
        let mut bench = Stand::new(Guarding { access: Some(rules(users)), ..Guarding::default() });
        let link = bench.accept();
        bench.tell(link, &hello(Standing::Orphaned, "@north", "", ""));
        assert!(bench.heard(link)[0].contains("Hello"));
        (bench, link)
    };
    let (mut bench, link) = enter(&users(""));
    let refused = bench.ask(link, &carry("north/pump"));
    assert!(
        refused.contains("admitted: false") && refused.contains("acl test anonymous sites admin"),
        "{refused}"
    );
    bench.tell(link, &Frame::AskInterest { topics: false });
    assert_eq!(bench.closed(link).unwrap().0, FarewellReason::Denied);
    let sites = "[[user.rule]]\nallow = \"admin\"\ntopics = [\"sites\"]\n";
    let (mut bench, link) = enter(&users(sites));
    assert!(bench.ask(link, &carry("north/pump")).contains("admitted: true"));
    let refused = bench.ask(link, &carry("south/pump"));
    assert!(refused.contains("admitted: false"), "{refused}");
    bench.tell(link, &Frame::AskInterest { topics: false });
    let heard = bench.heard(link);
    assert!(
        heard.last().unwrap().contains("Interest { wanted: true, onward: Span(0), filter: \"\" }"),
        "{heard:?}"
    );
}

#[test]
fn what_no_rule_allows_is_refused_with_a_remedy() {
    let mut bench = Stand::with_users();
    let link = bench.enter("line", "plc");
    assert!(bench.ask(link, &register("plant/line/x", contract())).contains("admitted: true"));
    let refused = bench.ask(link, &register("plant/other/x", contract()));
    assert!(refused.contains("admitted: false"), "{refused}");
    assert!(refused.contains("verge acl test line plant/other/x publish"), "{refused}");
    let refused = bench.ask(link, &register("open", contract()));
    assert!(refused.contains("verge acl test line open contract"), "{refused}");
    let refused = bench.ask(link, &register("open", None));
    assert!(refused.contains("has no contract"), "the rules allow it, the broker has no contract: {refused}");
    let refused =
        bench.ask(link, &Frame::Subscribe { number: 0, needs: contract::Needs::NONE, filter: "plant/#" });
    assert!(refused.contains("denies `subscribe`"), "{refused}");
    assert!(
        bench
            .ask(link, &Frame::Subscribe { number: 0, needs: contract::Needs::NONE, filter: "plant/a/+" })
            .contains("admitted: true")
    );
    let refused = bench.ask(link, &Frame::Handover);
    assert!(refused.contains("done: false") && refused.contains("line handover admin"), "{refused}");
    let refused = bench.ask(link, &register("$SYS/verge/alarms", contract()));
    assert!(refused.contains("admitted: false"), "{refused}");
    assert_eq!(bench.closed(link), None, "a refusal ends nothing");
    bench.tell(link, &Frame::StatusRequest { first_stream: 0, rows: 0 });
    assert!(bench.closed(link).unwrap().1.contains("line status admin"));
    let asked = [
        (Frame::ClientsRequest { after: "" }, "line status admin"),
        (Frame::DropClient { client: "plc", ends: false }, "line clients admin"),
    ];
    for (frame, right) in asked {
        let link = bench.enter("line", "plc");
        bench.tell(link, &frame);
        assert!(bench.closed(link).unwrap().1.contains(right));
    }
}

#[test]
fn who_may_manage_gets_the_status_and_an_answer_to_a_handover() {
    let mut bench = Stand::with_users();
    let link = bench.enter("boss", "desk");
    assert!(bench.ask(link, &Frame::StatusRequest { first_stream: 0, rows: 0 }).contains("NodeStatus"));
    assert!(bench.ask(link, &Frame::ClientsRequest { after: "" }).contains("Clients"));
    let drop = Frame::DropClient { client: "nobody", ends: true };
    assert!(bench.ask(link, &drop).contains("found: false"));
    assert!(bench.ask(link, &Frame::Handover).contains("no backup"));
}

#[test]
fn messages_of_a_stream_that_was_refused_go_nowhere() {
    let mut bench = Stand::with_users();
    let (publisher, subscriber) = (bench.enter("line", "plc"), bench.enter("boss", "desk"));
    bench.ask(subscriber, &Frame::Subscribe { number: 0, needs: contract::Needs::NONE, filter: "#" });
    for (topic, carried) in [("plant/other/x", false), ("plant/line/x", true)] {
        bench.ask(publisher, &register(topic, contract()));
        let mut outbox = Outbox::default();
        let (flags, created) = (MessageFlags::NONE, bench.seat.now);
        outbox.push_message(
            MessageKind::Publish,
            &Message { stream: 0, flags, seq: 0, created, payload: b"x" },
        );
        let bytes = outbox.unsent().to_vec();
        bench.feed(publisher, &bytes);
        let delivered = bench.heard(subscriber).iter().any(|frame| frame.contains("Deliver"));
        assert_eq!(delivered, carried, "{topic}");
        bench.heard(publisher);
    }
}

#[test]
fn a_name_that_belongs_to_another_users_client_is_refused() {
    let mut bench = Stand::with_users();
    let boss = bench.enter("boss", "desk");
    bench.ask(boss, &Frame::Subscribe { number: 0, needs: contract::Needs::NONE, filter: "plant/secret" });
    let thief = |bench: &mut Stand| {
        let link = bench.accept();
        bench.tell(link, &hello(Standing::Orphaned, "desk", "line", "right"));
        bench.answer(Ok("line"));
        link
    };
    let link = thief(&mut bench);
    assert!(bench.closed(link).unwrap().1.contains("name of its own"));
    assert_eq!(bench.closed(boss), None, "its owner stays");
    // What waits for the owner does not go to somebody else, either.
    bench.close(boss);
    let link = thief(&mut bench);
    assert!(bench.closed(link).unwrap().1.contains("may not"), "{:?}", bench.closed(link));
    bench.enter("boss", "desk");
}

#[test]
fn rules_that_change_hold_for_what_is_asked_from_then_on() {
    let mut bench = Stand::with_users();
    let (line, boss) = (bench.enter("line", "plc"), bench.enter("boss", "desk"));
    assert!(bench.ask(line, &register("plant/line/x", contract())).contains("admitted: true"));
    let fewer = rules("[[user]]\nname = \"line\"\n[[user.rule]]\nallow = \"subscribe\"\ntopics = [\"#\"]\n");
    bench.seat.node.change_rules(bench.seat.now, fewer, &mut bench.seat.wires);
    assert!(bench.closed(boss).unwrap().1.contains("taken out"), "users that are gone have to go");
    assert_eq!(bench.closed(line), None);
    assert!(bench.ask(line, &register("plant/line/y", contract())).contains("admitted: false"));
    assert!(
        bench
            .ask(line, &Frame::Subscribe { number: 0, needs: contract::Needs::NONE, filter: "#" })
            .contains("admitted: true")
    );
    // A login that was right while it was looked at, and whose user has gone meanwhile.
    let late = bench.accept();
    bench.tell(late, &hello(Standing::Orphaned, "late", "boss", "right"));
    bench.answer(Ok("boss"));
    assert_eq!(bench.closed(late).unwrap().0, FarewellReason::Denied);
}

#[test]
fn a_broker_has_to_know_the_secret_and_clients_are_not_told_it() {
    let by = Guarding {
        access: Some(rules(USERS)),
        pair_secret: Some("between us".into()),
        partner: Some("b.example".into()),
    };
    let mut bench = Stand::new(by);
    let liar = bench.accept();
    bench.tell(liar, &hello(Standing::Seeking, "b", "", "guessed"));
    assert!(bench.closed(liar).unwrap().1.contains("security.pair_secret_file"));
    bench.tell(liar, &Frame::Join);
    assert!(bench.seat.node.broker().backup_link().is_none());
    let partner = bench.accept();
    bench.tell(partner, &hello(Standing::Seeking, "b", "", "between us"));
    assert!(bench.heard(partner)[0].contains("hidden"), "it is told the secret");
    bench.tell(partner, &Frame::Join);
    assert_eq!(bench.seat.node.broker().backup_link(), Some(partner));
    bench.close(partner);
    let named = bench.accept();
    bench.seat.node.handle_identity(bench.seat.now, named, "b.example");
    bench.tell(named, &hello(Standing::Seeking, "b", "", ""));
    bench.tell(named, &Frame::Join);
    assert_eq!(bench.seat.node.broker().backup_link(), Some(named));
    let device = bench.accept();
    bench.seat.node.handle_identity(bench.seat.now, device, "line.example");
    bench.tell(device, &hello(Standing::Seeking, "b", "", ""));
    assert!(bench.closed(device).is_some(), "a device's certificate makes no broker of it");
    let client = bench.accept();
    bench.tell(client, &hello(Standing::Orphaned, "plc", "line", "right"));
    bench.answer(Ok("line"));
    assert!(bench.heard(client)[0].contains("password: none"));
    let dialed = bench.open(LinkChange::Dialed(PeerIndex(0)));
    assert!(bench.heard(dialed)[0].contains("password: hidden"));
    bench.tell(dialed, &hello(Standing::Seeking, "b", "", "guessed"));
    assert!(bench.closed(dialed).is_some(), "whoever answers at the partner's address has to know it, too");
}

#[test]
fn with_users_and_without_a_secret_nobody_is_taken_for_a_broker_that_calls() {
    let mut bench = Stand::with_users();
    let caller = bench.accept();
    bench.tell(caller, &hello(Standing::Primary, "b", "", ""));
    assert_eq!(bench.closed(caller).unwrap().0, FarewellReason::Denied);
    let dialed = bench.open(LinkChange::Dialed(PeerIndex(0)));
    bench.tell(dialed, &hello(Standing::Seeking, "b", "", ""));
    assert_eq!(bench.closed(dialed), None);
}

#[test]
fn with_a_secret_and_without_users_clients_come_in_as_before() {
    let mut bench = Stand::new(Guarding { pair_secret: Some("s".into()), ..Guarding::default() });
    let client = bench.accept();
    bench.tell(client, &hello(Standing::Orphaned, "x", "whoever", "whatever"));
    assert!(bench.heard(client)[0].contains("Hello"));
    assert!(bench.ask(client, &register("t", contract())).contains("admitted: true"));
    let liar = bench.accept();
    bench.tell(liar, &hello(Standing::Seeking, "b", "", ""));
    assert!(bench.closed(liar).is_some());
}

#[test]
fn who_is_not_known_cannot_make_the_broker_keep_much() {
    let mut bench = Stand::with_users();
    let waiting = bench.accept();
    bench.tell(waiting, &hello(Standing::Orphaned, "x", "line", "?"));
    bench.feed(waiting, &[0; 60 << 10]);
    assert_eq!(bench.closed(waiting), None);
    bench.feed(waiting, &[0; 8 << 10]);
    assert_eq!(bench.closed(waiting).unwrap().0, FarewellReason::Misbehaved);
    assert!(!bench.seat.kept.contains_key(&waiting));
    let loud = bench.accept();
    let mut head = vec![0x20, 0, 0, 0];
    head.extend_from_slice(&(1_u32 << 20).to_le_bytes());
    bench.feed(loud, &head);
    assert!(bench.closed(loud).unwrap().1.contains("begins with a greeting"));
    let early = bench.accept();
    bench.tell(early, &Frame::StatusRequest { first_stream: 0, rows: 0 });
    assert!(bench.closed(early).unwrap().1.contains("begins with a greeting"));
    let stranger = bench.accept();
    bench.feed(stranger, b"GET / HTTP/1.1\r\n\r\n");
    assert!(bench.closed(stranger).is_some());
}

#[test]
fn an_answer_for_somebody_who_has_left_is_forgotten() {
    let mut bench = Stand::with_users();
    let gone = bench.accept();
    bench.tell(gone, &hello(Standing::Orphaned, "x", "line", "right"));
    bench.close(gone);
    bench.seat.kept.clear();
    // Somebody else has its number now.
    bench.seat.links = gone.0;
    let next = bench.accept();
    assert_eq!(next, gone);
    bench.answer(Ok("line"));
    assert!(bench.heard(next).is_empty());
    bench.tell(next, &Frame::Subscribe { number: 0, needs: contract::Needs::NONE, filter: "plant/a" });
    assert!(bench.closed(next).unwrap().1.contains("begins with a greeting"));
}

/// What the broker has said in a channel since the last look.
fn heard_through(bench: &mut Stand, partner: LinkId, channel: u32) -> Vec<String> {
    let bytes = bench.seat.wires.take(partner);
    let (mut rest, mut said, mut words) = (&bytes[..], Vec::new(), Vec::new());
    while let Ok(Decoded::Frame(frame, used)) = decode(rest) {
        rest = &rest[used..];
        match frame {
            Frame::Relay { channel: of, bytes } if of == channel => said.extend_from_slice(bytes),
            Frame::RelayEnd { channel: of } if of == channel => words.push("the end".to_owned()),
            _ => {}
        }
    }
    let mut rest = &said[..];
    while let Ok(Decoded::Frame(frame, used)) = decode(rest) {
        rest = &rest[used..];
        words.insert(
            words.len().saturating_sub(usize::from(words.last().is_some_and(|word| word == "the end"))),
            format!("{frame:?}"),
        );
    }
    words
}

fn tell_through(bench: &mut Stand, partner: LinkId, channel: u32, frame: &Frame<'_>) {
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    bench.tell(partner, &Frame::Relay { channel, bytes: &bytes });
}

#[test]
fn who_comes_through_the_backup_is_looked_at_as_anybody_is() {
    let mut bench = Stand::new(Guarding {
        access: Some(rules(USERS)),
        pair_secret: Some("between us".into()),
        ..Guarding::default()
    });
    let partner = bench.accept();
    bench.tell(partner, &hello(Standing::Seeking, "b", "", "between us"));
    bench.tell(partner, &Frame::Join);
    assert_eq!(bench.seat.node.broker().backup_link(), Some(partner));
    bench.heard(partner);
    let there: IpAddr = "10.0.0.9".parse().unwrap();
    let open =
        |channel, certificate| Frame::RelayOpen { channel, client: "plc", address: "10.0.0.9", certificate };

    // A certificate that was shown to the backup.
    bench.tell(partner, &open(0, "line.example"));
    tell_through(&mut bench, partner, 0, &hello(Standing::CutOff, "plc", "", ""));
    let heard = heard_through(&mut bench, partner, 0);
    assert!(heard[0].contains("Hello") && heard[0].contains("Primary"), "{heard:?}");
    tell_through(&mut bench, partner, 0, &register("plant/line/x", contract()));
    assert!(heard_through(&mut bench, partner, 0)[0].contains("admitted: true"));
    tell_through(
        &mut bench,
        partner,
        0,
        &Frame::Subscribe { number: 0, needs: contract::Needs::NONE, filter: "plant/secret" },
    );
    assert!(heard_through(&mut bench, partner, 0)[0].contains("admitted: false"));

    // A password, with the address from which it comes.
    bench.tell(partner, &open(1, ""));
    tell_through(&mut bench, partner, 1, &hello(Standing::CutOff, "desk", "boss", "right"));
    assert!(heard_through(&mut bench, partner, 1).is_empty(), "nothing is said to whoever is not known");
    assert_eq!(bench.seat.node.reporter().callers.last(), Some(&Some(there)));
    bench.answer(Ok("boss"));
    assert!(heard_through(&mut bench, partner, 1)[0].contains("Hello"));

    // A wrong one, and nobody.
    bench.tell(partner, &open(2, ""));
    tell_through(&mut bench, partner, 2, &hello(Standing::CutOff, "x", "boss", "wrong"));
    bench.answer(Err(Reason::BAD_CREDENTIALS));
    let heard = heard_through(&mut bench, partner, 2);
    assert!(heard[0].contains("Denied") && heard[1] == "the end", "{heard:?}");
    bench.tell(partner, &open(3, ""));
    tell_through(&mut bench, partner, 3, &hello(Standing::CutOff, "x", "", ""));
    assert!(heard_through(&mut bench, partner, 3)[0].contains("Denied"));
    assert_eq!(bench.seat.node.broker().occupancy().clients, 2);

    // And a client opens no channels.
    let client = bench.enter("boss", "another");
    bench.tell(client, &open(4, "line.example"));
    assert_eq!(bench.closed(client).unwrap().0, FarewellReason::Misbehaved);
}
