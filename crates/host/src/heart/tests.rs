use super::*;
use wire::Nonce;

const HEARING: Hearing =
    Hearing { every: Span::millis(2), patience: Span::millis(20), patience_max: Span::millis(500) };
const A: (NodeId, &Nonce) = (NodeId(1), &[1; 16]);
const B: (NodeId, &Nonce) = (NodeId(2), &[2; 16]);

/// Two free UDP ports of this host.
fn ports() -> [SocketAddr; 2] {
    let one = || std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let (a, b) = (one(), one());
    [a, b].map(|socket| socket.local_addr().expect("its address"))
}

fn heart(own: SocketAddr, partner: SocketAddr) -> Heart {
    let helpers = Helpers::new().expect("a bell");
    Heart::start(
        HeartSettings { own, partner: Whereabouts::known(partner), hearing: HEARING, priority: None },
        &helpers,
    )
    .expect("it starts")
    .0
}

/// Waits for something that comes in the end.
fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..10_000 {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("{what} does not come");
}

#[test]
fn two_hear_each_other_until_one_ends() {
    let [at_a, at_b] = ports();
    let (mut a, mut b) = (heart(at_a, at_b), heart(at_b, at_a));
    assert_eq!(a.evidence(), None, "nobody is listened for");
    a.listen_for(Some(Companion::new(A, B, "s")));
    b.listen_for(Some(Companion::new(B, A, "s")));
    let evidence = wait("a round trip", || a.evidence().filter(|it| it.round_trip.is_some()));
    assert_eq!(evidence.node, B.0);
    b.begin_turn();
    wait("word of its turn", || a.evidence().filter(|it| it.still > Span::millis(30)));
    b.end_turn();
    wait("the end of its turn", || a.evidence().filter(|it| it.still == Span::ZERO));
    drop(b);
    wait("silence", || a.evidence().filter(|it| it.silence >= it.patience));
}

#[test]
fn a_flood_from_the_partners_address_costs_a_batch_for_each_heartbeat() {
    let [at_a, at_b] = ports();
    let flood = std::net::UdpSocket::bind(at_b).expect("the partner's port");
    let mut a = heart(at_a, at_b);
    a.listen_for(Some(Companion::new(A, B, "s")));
    let there = Companion::new(B, A, "s");
    let beat =
        |number| wire::Heartbeat { number, heard: 0, held: Span::ZERO, still: Span::ZERO, received: 0 };
    for number in 1..=2_000 {
        let _ = flood.send_to(&[0x55; 64], at_a);
        if number % 100 == 0 {
            let _ = flood.send_to(&there.sign(&beat(number)), at_a);
        }
    }
    // What is the partner's is heard all the same, in the end.
    let mut number = 2_000;
    wait("the partner", || {
        number += 1;
        let _ = flood.send_to(&there.sign(&beat(number)), at_a);
        a.evidence()
    });
}

#[test]
fn what_is_read_belongs_together() {
    let board = Arc::new(Board::default());
    let over = Arc::new(AtomicBool::new(false));
    let evidence = |n: i64| Evidence {
        node: NodeId(n as u64),
        silence: Span(n),
        unheard: Span(n + 9),
        patience: Span(n),
        still: Span(n),
        heard: n as u64,
        round_trip: Some(Span(n)),
        loss_ppm: n as u32,
    };
    let (writes, ends) = (Arc::clone(&board), Arc::clone(&over));
    let writer = std::thread::spawn(move || {
        let mut n = 0;
        while !ends.load(Ordering::Relaxed) {
            n = (n + 1) % 1_000_000;
            writes.write(Time(5), Some(evidence(n)));
        }
    });
    let mut read = 0;
    while read < 20_000 {
        if let Some(it) = board.read(Time(5), Span::ZERO) {
            assert_eq!(it, evidence(it.silence.0));
            read += 1;
        }
    }
    over.store(true, Ordering::Relaxed);
    writer.join().expect("the writer ends");
}
