//! How long it takes to find the interests that a profile matches, among many, and the pieces of the ring that an interest has; as JSON.

use contract::RingId;
use rendezvous::{Interest, Interests, Kind, Profile, ProfileError, Resolution, Space};
use serde::Serialize;
use std::collections::BTreeSet;
use std::time::Instant;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const NAMES: [&str; 6] = ["kind", "sensor", "plant", "line", "state", "version"];
const PEERS: usize = 64;

/// Times, in microseconds.
#[derive(Serialize)]
struct Times {
    median: f64,
    p99: f64,
    max: f64,
}

#[derive(Serialize)]
struct Matched {
    dimensions: usize,
    interests: usize,
    /// With a wildcard in the first dimension.
    leading: usize,
    us: Times,
    /// How many a profile matches on average.
    matches: f64,
}

#[derive(Serialize)]
struct Resolved {
    dimensions: usize,
    what: String,
    us: Times,
    /// Pieces on average.
    pieces: f64,
    /// The part of [`PEERS`] peers that has one of them, on average.
    peers: f64,
}

#[derive(Serialize)]
struct Report {
    peers: usize,
    matching: Vec<Matched>,
    clusters: Vec<Resolved>,
}

fn times(mut all: Vec<f64>) -> Times {
    all.sort_by(f64::total_cmp);
    let at =
        |part: f64| all.get((all.len() as f64 * part) as usize).or(all.last()).copied().unwrap_or_default();
    Times { median: at(0.5), p99: at(0.99), max: at(1.0) }
}

/// Words as devices have them: few at first letters, many with the same beginning.
fn word(random: &mut fastrand::Rng, of: usize) -> String {
    const BEGINNINGS: [&str; 8] = ["drone", "lidar", "pump", "temp", "vib", "cam", "flow", "arm"];
    format!("{}{}", BEGINNINGS[random.usize(..BEGINNINGS.len())], random.usize(..of))
}

fn elements(random: &mut fastrand::Rng, dimensions: usize) -> Vec<String> {
    (0..dimensions).map(|_| word(random, 50)).collect()
}

fn space(dimensions: usize) -> Space {
    let names: Vec<(&str, Kind)> = NAMES.iter().take(dimensions).map(|name| (*name, Kind::Words)).collect();
    Space::new(&names, false).expect("invariant: these are dimensions")
}

/// One in ten has a wildcard in the first dimension, and two in ten a beginning in the last.
fn interest(random: &mut fastrand::Rng, dimensions: usize, leads: bool) -> String {
    let mut elements = elements(random, dimensions);
    if leads {
        elements[0] = "*".to_owned();
    } else if random.usize(..5) == 0 {
        let last = elements.len() - 1;
        elements[last] = format!("{}*", &elements[last][..3]);
    }
    // Of many dimensions two are said, and the others do not matter.
    let others = random.usize(1..dimensions);
    let named = elements.iter().zip(NAMES).enumerate().filter(|(place, _)| *place == 0 || *place == others);
    named.map(|(_, (element, name))| format!("{name}={element}")).collect::<Vec<_>>().join(", ")
}

fn matching(dimensions: usize, interests: usize, rounds: usize) -> Result<Matched, ProfileError> {
    let (space, mut random) = (space(dimensions), fastrand::Rng::with_seed(7));
    let (mut all, mut leading) = (Interests::new(&space), 0);
    for number in 0..interests {
        let leads = number % 10 == 0;
        leading += usize::from(leads);
        all.insert(Interest::read(&space, &interest(&mut random, dimensions, leads))?, number);
    }
    let (mut took, mut found) = (Vec::new(), 0);
    for _ in 0..rounds {
        let profile = Profile::read(&space, &elements(&mut random, dimensions).join(", "))?;
        let began = Instant::now();
        found += std::hint::black_box(all.matching(&profile).count());
        took.push(began.elapsed().as_secs_f64() * 1e6);
    }
    Ok(Matched { dimensions, interests, leading, us: times(took), matches: found as f64 / rounds as f64 })
}

fn clusters(dimensions: usize, what: &str, rounds: usize) -> Result<Resolved, ProfileError> {
    let (space, mut random) = (space(dimensions), fastrand::Rng::with_seed(11));
    let peers: BTreeSet<RingId> = (0..PEERS).map(|_| RingId::beginning_with(random.u128(..), 128)).collect();
    let (mut took, mut pieces, mut reached) = (Vec::new(), 0, 0);
    for _ in 0..rounds {
        let mut elements = elements(&mut random, dimensions);
        for element in &mut elements {
            let mut letter = |first: u8| char::from(first + random.u8(..8));
            *element = match what {
                "beginnings" => format!("{}*", &element[..2]),
                "a wide range and words" | "wide ranges" => format!("{}..{}", letter(b'a'), letter(b'q')),
                _ => format!("{}..{}", &element[..1], &element[..3]),
            };
            if what == "a wide range and words" {
                // The others are words.
                break;
            }
        }
        let interest = Interest::read(&space, &elements.join(", "))?;
        let began = Instant::now();
        let all = std::hint::black_box(space.clusters_of(&interest, &Resolution::default()));
        took.push(began.elapsed().as_secs_f64() * 1e6);
        pieces += all.len();
        let within = all.iter().flat_map(|piece| peers.range(piece.first..=piece.last));
        let owner = |place: RingId| peers.range(place..).next().or(peers.first());
        let last = all.iter().filter_map(|piece| owner(piece.last));
        reached += within.chain(last).collect::<BTreeSet<_>>().len();
    }
    let average = |sum: usize| sum as f64 / rounds as f64;
    let peers = average(reached) / PEERS as f64;
    Ok(Resolved { dimensions, what: what.to_owned(), us: times(took), pieces: average(pieces), peers })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rounds: usize = std::env::args().nth(1).ok_or("how many rounds?")?.parse()?;
    let mut report = Report { peers: PEERS, matching: Vec::new(), clusters: Vec::new() };
    for dimensions in [2, 6] {
        report.matching.push(matching(dimensions, 100_000, rounds)?);
    }
    for dimensions in [2, 4, 6] {
        for what in ["a wide range and words", "beginnings", "narrow ranges", "wide ranges"] {
            report.clusters.push(clusters(dimensions, what, rounds)?);
        }
    }
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}
