//! What subscribers need beyond the contract of a topic, as user properties of their SUBSCRIBE.

use crate::sessions::passing;
use crate::world::World;
use crate::world::mqtt::lasting;
use contract::{Contract, Loss, Span};
use mqtt::testing::{QoS, v5};

const STATED: (Span, Loss) = (Span::millis(40), Loss::AtMost(2));
const STRICT: (Span, Loss) = (Span::millis(15), Loss::AtMost(0));
const GRANTED: u8 = 1;
const REFUSED: u8 = 0x97;
const SENSELESS: u8 = 0x83;

struct Plant {
    world: World,
    publisher: usize,
}

impl Plant {
    /// A pair, and a publisher that has not said anything.
    fn new() -> Plant {
        let mut world = World::serving(|_| {});
        let publisher = world.add_client("plc");
        world.run_for(Span::millis(100));
        Plant { world, publisher }
    }

    fn with_topic() -> Plant {
        let mut plant = Plant::new();
        plant.advertise();
        plant
    }

    fn advertise(&mut self) {
        let contract = Contract::every(Span::millis(50)).deadline(Span::millis(40)).tolerate(2).retain(2);
        self.world.advertise(self.publisher, "t", contract);
        self.world.run_for(Span::millis(50));
    }

    fn ask(&mut self, client: usize, filter: &str, terms: &[(&str, &str)]) -> u8 {
        let term = |(name, value): &(&str, &str)| (format!("verge-{name}").into(), (*value).into());
        let asks = terms.iter().map(term).collect();
        self.world.want_needing(client, filter, QoS::AtLeastOnce, asks)
    }

    fn connected(&mut self, broker: u8, hello: v5::Connect) -> usize {
        self.world.connected(broker, hello)
    }

    /// To how many the topic is promised, and how many are served last.
    fn receivers(&self, broker: usize) -> (u32, u32) {
        let broker = self.world.broker(broker);
        let those = broker.receivers_of(broker.stream_of("t", "plc").unwrap()).unwrap();
        (those.promised, those.best_effort)
    }

    /// By what a broker plans the topic, and for whom.
    fn planned(&self, broker: usize) -> ((Span, Loss), String) {
        let broker = self.world.broker(broker);
        let (contract, needs) = broker.planned_for(broker.stream_of("t", "plc").unwrap()).unwrap();
        ((contract.deadline, contract.loss), needs)
    }
}

#[test]
fn a_topic_is_planned_by_what_its_subscribers_need_for_as_long_as_they_need_it() {
    let mut plant = Plant::with_topic();
    let calm = plant.connected(0, passing("calm"));
    let urgent = plant.connected(0, passing("urgent"));
    assert_eq!(plant.ask(calm, "t", &[]), GRANTED);
    assert_eq!(plant.planned(0), (STATED, String::new()));
    let terms = [("deadline", "15ms"), ("loss", "0")];
    assert_eq!(plant.ask(urgent, "t", &terms), GRANTED);
    assert_eq!(plant.planned(0), (STRICT, "urgent: deadline 15ms, loss 0".to_owned()));
    // The same again changes nothing, and something else has to be asked for anew.
    assert_eq!(plant.ask(urgent, "t", &terms), GRANTED);
    assert_eq!(plant.ask(urgent, "t", &[("deadline", "20ms")]), SENSELESS);
    let words = plant.world.mqtt[urgent].words.last().cloned().unwrap_or_default();
    assert!(words.contains("unsubscribe from it first"), "{words}");
    assert_eq!(plant.planned(0).0, STRICT);
    plant.world.unwant(urgent, "t");
    assert_eq!(plant.planned(0), (STATED, String::new()));
    // A session that ends needs nothing any more.
    assert_eq!(plant.ask(urgent, "t", &terms), GRANTED);
    plant.world.cut_off(urgent);
    plant.world.run_for(Span::millis(50));
    assert_eq!(plant.planned(0), (STATED, String::new()));
}

#[test]
fn a_topic_that_comes_later_is_planned_by_it_too_and_by_its_contract_where_it_cannot_be() {
    for (terms, planned) in
        [(&[("deadline", "15ms"), ("loss", "0")][..], STRICT), (&[("deadline", "300us")], STATED)]
    {
        let mut plant = Plant::new();
        let urgent = plant.connected(0, passing("urgent"));
        assert_eq!(plant.ask(urgent, "#", terms), GRANTED);
        plant.advertise();
        assert_eq!(plant.planned(0).0, planned, "{:?}", plant.world.log(0));
        let told = plant.world.log(0).iter().any(|line| line.contains("is carried by its contract"));
        assert_eq!(told, planned == STATED, "{:?}", plant.world.log(0));
    }
}

#[test]
fn what_cannot_be_kept_or_makes_no_sense_is_refused_with_the_reason() {
    let mut plant = Plant::with_topic();
    let client = plant.connected(0, passing("client"));
    for (terms, code, says) in [
        (("deadline", "300us"), REFUSED, "cannot be carried as this subscriber needs it"),
        (("link", "moon"), REFUSED, "moon"),
        (("deadline", "soon"), SENSELESS, "verge-deadline"),
        (("deadline", "0ms"), SENSELESS, "deadline"),
        (("loss", "unbounded"), SENSELESS, "write a number"),
        (("period", "10ms"), SENSELESS, "verge-deadline, verge-loss and verge-link"),
    ] {
        assert_eq!(plant.ask(client, "t", &[terms]), code, "{terms:?}");
        let words = plant.world.mqtt[client].words.last().cloned().unwrap_or_default();
        assert!(words.contains(says), "{terms:?}: {words}");
        assert_eq!(plant.planned(0), (STATED, String::new()), "{terms:?}");
    }
    assert_eq!(plant.ask(client, "t", &[]), GRANTED, "nothing is left of what was refused");
}

#[test]
fn the_needs_of_a_lasting_session_outlive_the_primary() {
    let mut plant = Plant::with_topic();
    let client = plant.connected(0, lasting("hmi"));
    assert_eq!(plant.ask(client, "$share/panels/t", &[("deadline", "15ms"), ("loss", "0")]), GRANTED);
    assert_eq!(plant.planned(0).0, STRICT);
    plant.world.kill(0);
    plant.world.run_for(Span::millis(300));
    assert_eq!(plant.planned(1), (STRICT, "hmi: deadline 15ms, loss 0".to_owned()));
    assert!(plant.world.reconnect(client, 1, lasting("hmi")));
    plant.world.unwant(client, "$share/panels/t");
    assert_eq!(plant.planned(1), (STATED, String::new()));
}

#[test]
fn who_asks_for_best_effort_has_all_of_it_so_or_nothing() {
    let mut plant = Plant::with_topic();
    let last = [("best-effort", "true")];
    let client = plant.connected(0, lasting("dashboard"));
    assert_eq!(plant.ask(client, "#", &last), GRANTED);
    assert_eq!(plant.planned(0), (STATED, "dashboard: best effort".to_owned()));
    assert_eq!(plant.receivers(0), (0, 1));
    assert_eq!(plant.ask(client, "u", &[]), SENSELESS);
    let words = plant.world.mqtt[client].words.last().cloned().unwrap_or_default();
    assert!(words.contains("use a client of its own"), "{words}");
    assert_eq!(plant.ask(client, "u", &[("best-effort", "true"), ("loss", "0")]), SENSELESS);
    assert_eq!(plant.ask(client, "u", &[("best-effort", "often")]), SENSELESS);
    plant.world.kill(0);
    plant.world.run_for(Span::millis(300));
    assert_eq!(plant.receivers(1), (0, 1), "the other broker knows");
    assert!(plant.world.reconnect(client, 1, lasting("dashboard")));
    plant.world.unwant(client, "#");
    assert_eq!(plant.receivers(1), (0, 0));
}

#[test]
fn for_whom_there_is_no_time_is_served_last_where_that_is_configured() {
    fn costly(settings: &mut broker::Settings) {
        settings.supply.share_ppm = 1_000_000;
        settings.costs.io.tcp.write = Span::millis(1);
        settings.best_effort_subscriptions = true;
    }
    let mut world = World::with_gateway(costly, Some(|_| {}));
    world.run_for(Span::secs(1));
    let mut plant = Plant { world, publisher: 0 };
    plant.publisher = plant.world.add_client("plc");
    plant.world.run_for(Span::millis(100));
    plant.advertise();
    let mut promised = 0;
    while plant.receivers(0).1 == 0 {
        let client = plant.connected(0, passing(&format!("hmi-{promised}")));
        assert_eq!(plant.ask(client, "t", &[]), GRANTED);
        let words = plant.world.mqtt[client].words.last().cloned().unwrap_or_default();
        promised += u32::from(!words.contains("served as best effort: not schedulable"));
        assert!(promised < 40, "there is no end of time");
    }
    assert!(promised > 0);
    assert_eq!(plant.receivers(0), (promised, 1));
    assert!(plant.world.log(0).iter().any(|line| line.contains("is served as best effort")));
}
