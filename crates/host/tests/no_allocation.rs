//! In steady state a broker allocates nothing: counted by the allocator, on the thread that drives a broker with real
//! sockets, while a publisher and a subscriber use it.
#![allow(clippy::unwrap_used, reason = "a test")]

use broker::Replication;
use contract::admission::Costs;
use contract::{Contract, Every, Lazy, NodeId, Span, Supply, Time};
use endpoint::Settings;
use engine::testing::Silent;
use engine::{Application, BrokerNode, ClientNode, Operators, Processor};
use host::{Driver, Helpers, Movers, Staffing, Workers, now};
use processing::{
    BuiltIn, ConsumerSpec, Element, GraphSpec, Join, Keep, Level, OperatorSpec, Parameters, PayloadType,
    SupplierSpec, Value, Violation,
};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

#[derive(Default)]
struct Counter(u64);

impl Application for Counter {
    fn deliver(&mut self, _delivery: &endpoint::Delivery<'_>) {
        self.0 += 1;
    }
}

fn settings(name: &str, number: u64, partner: bool) -> broker::Settings {
    broker::Settings {
        prefers_to_reign: number == 1,
        has_peer: partner,
        costs: Costs::of_messages(Span(500), Span(500), Span(500)),
        supply: Supply { share_ppm: 900_000, blocking: Span::millis(1) },
        // A host that is held up must not end the pair: joining again allocates.
        detection: broker::Detection { misses: 500, ..Default::default() },
        ..broker::Settings::new(name, NodeId(number), now())
    }
}

/// What the broker's thread tells, and is told.
#[derive(Default)]
struct Shared {
    over: AtomicBool,
    /// Allocations so far on the broker's thread.
    allocations: AtomicU64,
    protected: AtomicBool,
}

/// Runs a broker on a thread of its own.
fn start<O: Operators + Send + 'static>(
    mut driver: Driver<BrokerNode<Silent, O>>,
    shared: &Arc<Shared>,
) -> std::thread::JoinHandle<()> {
    let shared = Arc::clone(shared);
    std::thread::spawn(move || {
        let mut ready = Vec::with_capacity(64);
        while !shared.over.load(Ordering::Relaxed) {
            driver.wait_and_turn(&mut ready).unwrap();
            shared.allocations.store(counting::allocations(), Ordering::Relaxed);
            shared.protected.store(driver.node().broker().is_protected(), Ordering::Relaxed);
        }
    })
}

fn loopback() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// Turns a client until the condition holds.
fn turn_until(
    client: &mut Driver<ClientNode<Counter>>,
    mut holds: impl FnMut(&mut Driver<ClientNode<Counter>>) -> bool,
) {
    let watchdog = now() + Span::secs(30);
    let mut ready = Vec::new();
    while !holds(client) {
        assert!(now() < watchdog, "nothing happened for 30 s");
        let patience = client.patience().min(Span::millis(5));
        client.poller().wait(patience, &mut ready).unwrap();
        client.turn(&ready);
    }
}

#[test]
fn a_broker_allocates_nothing_while_messages_flow() {
    let lazy = Lazy { every: Every::All, window: Span::millis(40), budget: Span::millis(5) };
    for replication in [Replication::Eager, Replication::Lazy(lazy)] {
        let settings = broker::Settings { replication, ..settings("a", 1, false) };
        let allocations = while_messages_flow(BrokerNode::new(settings, Silent::default()), 2, |_| {});
        assert_eq!(allocations, 0, "allocations for 10 000 messages, 5 000 of them copied: {replication:?}");
    }
}

/// A worker and the data thread may reach for the same store at the same instant; who is second makes an event anew.
const RACES_MAX: u64 = 100;

#[test]
fn operators_make_the_data_thread_allocate_nothing() {
    let staffing = Staffing {
        levels: 1,
        workers: 1,
        priority: None,
        processors: Vec::new(),
        inbox: 1_000,
        results: 1_000,
        movers: Movers::Workers,
    };
    let workers = Workers::start(&staffing, &Helpers::new().unwrap()).unwrap();
    let bell = workers.bell().try_clone_to_owned().unwrap();
    let mut operators = Processor::new(Arc::new(BuiltIn), 1, 1_000, workers);
    operators.change(vec![graph()]).unwrap();
    let node = BrokerNode::with_operators(settings("a", 1, false), Silent::default(), operators);
    // A message of each topic, and a result of one.
    let allocations = while_messages_flow(node, 3, |driver| driver.wake_with(&bell).unwrap());
    assert!(allocations <= RACES_MAX, "{allocations} allocations for 10 000 messages and 5 000 results");
}

/// One operator that scales the numbers of the topic `copied`.
fn graph() -> GraphSpec {
    let supplier = SupplierSpec {
        name: "copied".to_owned(),
        payload: PayloadType::Array(Element::F64),
        validity: Span::FOREVER,
        period: Span::millis(100),
    };
    let operator = OperatorSpec {
        name: "double".to_owned(),
        kind: "scale".to_owned(),
        parameters: Parameters::from([("gain".to_owned(), Value::Number(2.0))]),
        inputs: vec!["copied".to_owned()],
        join: Join::All,
        violation: Violation::Mark,
        sets: Vec::new(),
        keep: Keep::All(16),
        cost: None,
    };
    let consumer = ConsumerSpec {
        name: "doubled".to_owned(),
        from: "double".to_owned(),
        level: Level(0),
        deadline: Span::millis(100),
    };
    GraphSpec { suppliers: vec![supplier], operators: vec![operator], consumers: vec![consumer] }
}

/// A primary, its backup and a client that publishes two topics and subscribes everything, of which `each` comes for both
/// together. Returns the allocations on the primary's data thread in 5 000 rounds.
fn while_messages_flow<O: Operators + Send + 'static>(
    node: BrokerNode<Silent, O>,
    each: u64,
    prepare: impl FnOnce(&mut Driver<BrokerNode<Silent, O>>),
) -> u64 {
    let mut primary = Driver::new(node, Vec::new()).unwrap();
    prepare(&mut primary);
    let (clients, pair) = (
        primary.listen(loopback(), wire::Protocol::Verge, wire::Transport::Plain).unwrap(),
        primary.listen(loopback(), wire::Protocol::Verge, wire::Transport::Plain).unwrap(),
    );
    let mut backup =
        Driver::new(BrokerNode::new(settings("b", 2, true), Silent::default()), vec![pair]).unwrap();
    backup.listen(loopback(), wire::Protocol::Verge, wire::Transport::Plain).unwrap();
    let (shared, other) = (Arc::new(Shared::default()), Arc::new(Shared::default()));
    let threads = [start(primary, &shared), start(backup, &other)];

    let endpoint_settings = Settings::new("client", now().0, 1);
    let mut client =
        Driver::new(ClientNode::new(endpoint_settings, now(), Counter::default()), vec![clients]).unwrap();
    client.with(|node, net| node.with(net, |endpoint, out| endpoint.subscribe(&"#".parse().unwrap(), out)));
    // One topic that is copied to the backup and one that is not.
    let contract = Contract::every(Span::millis(100)).retain(1);
    let topics: Vec<u32> = [("copied", contract), ("plain", contract.retain(2))]
        .into_iter()
        .map(|(topic, contract)| {
            let advertise = |node: &mut ClientNode<Counter>, net: &mut host::Network| {
                node.with(net, |endpoint, out| endpoint.advertise(topic, Some(contract), out))
            };
            client.with(advertise).unwrap()
        })
        .collect();
    let admitted = |client: &mut Driver<ClientNode<Counter>>, topic: u32| {
        let state = client.node().endpoint().publication_state(topic);
        matches!(state, Some(endpoint::PublicationState::Admitted(_)))
    };
    turn_until(&mut client, |client| {
        topics.iter().all(|topic| admitted(client, *topic)) && shared.protected.load(Ordering::Relaxed)
    });

    let mut sent = 0;
    let mut created = Time(now().0);
    let mut publish = |client: &mut Driver<ClientNode<Counter>>, rounds: u64| {
        for _ in 0..rounds {
            // The publisher's clock runs ahead of its schedule, so that a second of traffic takes milliseconds.
            created = created + Span::millis(100);
            client.with(|node, net| {
                for topic in &topics {
                    node.with(net, |endpoint, out| endpoint.publish(created, *topic, &[7; 64], out)).unwrap();
                }
            });
            sent += each;
            turn_until(client, |client| client.with(|node, _| node.application().0) == sent);
        }
    };
    publish(&mut client, 300);
    let before = shared.allocations.load(Ordering::Relaxed);
    publish(&mut client, 5_000);
    let after = shared.allocations.load(Ordering::Relaxed);

    [&shared, &other].into_iter().for_each(|shared| shared.over.store(true, Ordering::Relaxed));
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    after - before
}
