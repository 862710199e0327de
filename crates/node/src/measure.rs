//! What a run of each operator takes on this host, on made-up inputs of its type.
//!
//! A graph is fed as a broker would feed it: made-up readings go in where its suppliers are, and each operator gets what those
//! before it have made. Where they make nothing, its inputs are made up as well.

use contract::{Span, Time};
use planner::Cost;
use processing::{
    Answer, Element, Factory, Fault, Graph, Input, Join, Memory, Operator, Origin, PayloadType, Setup,
};
use std::time::Instant;

/// Runs of each operator.
const RUNS: usize = 300;
/// Of so many runs the longest counts, and of all such the middle one: what happens to the host once is not the operator's.
const ROUND: usize = 100;
/// Runs before, so that memory and caches are warm.
const FIRST_RUNS: usize = 20;
/// Times that an operator is asked what it remembers.
const SAVES: usize = 20;
/// How many numbers a made-up reading has: the first count that all operators of a graph take.
const COUNTS: [usize; 8] = [256, 1, 2, 3, 4, 6, 16, 1024];

/// The cost of each operator of a graph. `sizes`: by supplier, how many bytes its payloads have at most; zero where nobody says.
pub fn measure(graph: &Graph, factory: &dyn Factory, sizes: &[usize]) -> Vec<Cost> {
    let tries = COUNTS.iter().map(|count| feed(graph, factory, sizes, *count));
    let mut best: Option<Vec<Cost>> = None;
    for costs in tries {
        let faults = |costs: &[Cost]| costs.iter().filter(|cost| cost.fault.is_some()).count();
        if best.as_ref().is_none_or(|best| faults(&costs) < faults(best)) {
            best = Some(costs);
        }
        if best.as_ref().is_some_and(|best| faults(best) == 0) {
            break;
        }
    }
    best.unwrap_or_default()
}

fn feed(graph: &Graph, factory: &dyn Factory, sizes: &[usize], count: usize) -> Vec<Cost> {
    let mut made: Vec<Vec<u8>> = vec![Vec::new(); graph.operators.len()];
    let mut costs: Vec<Cost> = graph
        .operators
        .iter()
        .map(|step| Cost {
            worst: step.cost.unwrap_or(Span::ZERO),
            median: None,
            save: Span::ZERO,
            fault: None,
        })
        .collect();
    for index in graph.order.iter().copied() {
        let step = &graph.operators[index];
        let payloads: Vec<Vec<u8>> = step
            .inputs
            .iter()
            .map(|origin| match origin {
                Origin::Operator(before) if !made[*before].is_empty() => made[*before].clone(),
                origin => {
                    let payload = &graph.source(*origin).payload;
                    let size = match origin {
                        Origin::Supplier(supplier) => sizes.get(*supplier).copied().unwrap_or(0),
                        Origin::Operator(_) => 0,
                    };
                    reading(payload, numbers_in(payload, size).unwrap_or(count))
                }
            })
            .collect();
        let types = graph.input_types(index);
        let setup = Setup { inputs: &types, parameters: &step.parameters };
        let (taken, save, fault) = match factory.build(&step.kind, &setup) {
            Ok(mut built) => {
                let (taken, fault) = run(&mut *built.operator, &payloads, step, &mut made[index]);
                let asked = built.memory == Memory::Saved && step.cost.is_none();
                (taken, if asked { save(&mut *built.operator) } else { Span::ZERO }, fault)
            }
            Err(reason) => (Vec::new(), Span::ZERO, Some(reason)),
        };
        if step.cost.is_none() {
            costs[index] = cost(taken, fault);
        }
        costs[index].save = save;
    }
    costs
}

fn cost(mut taken: Vec<Span>, fault: Option<String>) -> Cost {
    let mut longest: Vec<Span> =
        taken.chunks(ROUND).filter_map(|round| round.iter().max().copied()).collect();
    longest.sort_unstable();
    let worst = longest.get(longest.len() / 2).copied().unwrap_or(Span::ZERO);
    taken.sort_unstable();
    Cost {
        worst,
        median: taken.get(taken.len() / 2).copied(),
        save: Span::ZERO,
        fault: fault.filter(|_| taken.is_empty()),
    }
}

/// How long an operator takes at worst to say what it remembers by now.
fn save(operator: &mut dyn Operator) -> Span {
    let mut memory = Vec::new();
    let mut asked = || {
        memory.clear();
        let (began, busy) = (Instant::now(), busy());
        // One that cannot say it is not held up by it either.
        let _ = operator.save(&mut memory);
        let wall = Span(i64::try_from(began.elapsed().as_nanos()).unwrap_or(i64::MAX));
        wall.min(self::busy() - busy)
    };
    (0..SAVES).map(|_| asked()).max().unwrap_or(Span::ZERO)
}

/// What each run took, and the last fault. What it makes is left in `made`.
fn run(
    operator: &mut dyn Operator,
    payloads: &[Vec<u8>],
    step: &processing::Step,
    made: &mut Vec<u8>,
) -> (Vec<Span>, Option<String>) {
    let period = if step.source.period.is_forever() { Span::secs(1) } else { step.source.period };
    let (mut taken, mut fault) = (Vec::with_capacity(RUNS), None);
    let mut output = Vec::new();
    for number in 0..FIRST_RUNS + RUNS {
        let created = Time::ZERO + period * (number as u64 + 1);
        let mut inputs: Vec<Input<'_>> = payloads
            .iter()
            .enumerate()
            .map(|(slot, payload)| Input { slot, payload: payload.as_slice(), created })
            .collect();
        if step.join == Join::Any {
            inputs = inputs.into_iter().skip(number % payloads.len().max(1)).take(1).collect();
        }
        output.clear();
        let (began, busy) = (Instant::now(), busy());
        let answer = operator.run(&inputs, &mut output);
        let wall = Span(i64::try_from(began.elapsed().as_nanos()).unwrap_or(i64::MAX));
        let took = wall.min(self::busy() - busy);
        match answer {
            Ok(answer) => {
                if answer == Answer::Result && !output.is_empty() {
                    made.clone_from(&output);
                }
                if number >= FIRST_RUNS {
                    taken.push(took);
                }
            }
            Err(error @ Fault::Panicked) => return (taken, Some(error.to_string())),
            Err(error) => fault = Some(error.to_string()),
        }
    }
    (taken, fault)
}

/// The processor time of this thread. What others take in the middle of a run is not the operator's.
fn busy() -> Span {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Span::secs(time.tv_sec) + Span::nanos(time.tv_nsec)
}

/// How many numbers a reading of so many bytes has; nothing where that is not said.
fn numbers_in(payload: &PayloadType, bytes: usize) -> Option<usize> {
    let length = |count| reading(payload, count).len();
    let (first, each) = (length(1), (length(101) - length(1)).div_ceil(100));
    (bytes > 0).then(|| 1 + bytes.saturating_sub(first) / each.max(1))
}

/// A reading of so many numbers.
fn reading(payload: &PayloadType, count: usize) -> Vec<u8> {
    let numbers = (0..count).map(|index| (index as f64 * 0.7).sin() * 100.0 + 200.0);
    match payload {
        PayloadType::Bytes => numbers.map(|number| number as u8).collect(),
        PayloadType::Array(Element::I16) => {
            numbers.flat_map(|number| (number as i16).to_le_bytes()).collect()
        }
        PayloadType::Array(Element::I32) => {
            numbers.flat_map(|number| (number as i32).to_le_bytes()).collect()
        }
        PayloadType::Array(Element::F32) => {
            numbers.flat_map(|number| (number as f32).to_le_bytes()).collect()
        }
        PayloadType::Array(Element::F64) => numbers.flat_map(f64::to_le_bytes).collect(),
        PayloadType::Text => {
            numbers.map(|number| format!("{number:.3}")).collect::<Vec<_>>().join(" ").into_bytes()
        }
        PayloadType::Json(path) => json(path, &numbers.collect::<Vec<_>>()).to_string().into_bytes(),
        PayloadType::Cbor(path) => {
            let mut bytes = Vec::new();
            cbor(&json(path, &numbers.collect::<Vec<_>>()), &mut bytes);
            bytes
        }
    }
}

/// A document with numbers at a path.
fn json(path: &str, numbers: &[f64]) -> serde_json::Value {
    let leaf = match numbers {
        [only] => serde_json::json!(only),
        several => serde_json::json!(several),
    };
    let steps: Vec<&str> = processing::path_parts(path).filter(|step| !step.is_empty()).collect();
    steps.into_iter().rev().fold(leaf, |inner, step| match step.parse::<usize>() {
        Ok(index) if index < 256 => {
            let mut items = vec![serde_json::Value::Null; index];
            items.push(inner);
            serde_json::Value::Array(items)
        }
        _ => serde_json::json!({ step: inner }),
    })
}

/// The same in CBOR.
fn cbor(value: &serde_json::Value, out: &mut Vec<u8>) {
    let head = |major: u8, len: usize, out: &mut Vec<u8>| {
        out.push(major << 5 | 26);
        out.extend_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes());
    };
    match value {
        serde_json::Value::Object(map) => {
            head(5, map.len(), out);
            for (key, value) in map {
                head(3, key.len(), out);
                out.extend_from_slice(key.as_bytes());
                cbor(value, out);
            }
        }
        serde_json::Value::Array(items) => {
            head(4, items.len(), out);
            items.iter().for_each(|item| cbor(item, out));
        }
        serde_json::Value::Number(number) => {
            out.push(0xfb);
            out.extend_from_slice(&number.as_f64().unwrap_or(0.0).to_be_bytes());
        }
        _ => out.push(0xf6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_befalls_the_host_once_counts_for_no_operator_and_what_comes_again_does() {
        let taken = |long: &[usize]| -> Vec<Span> {
            (0..RUNS)
                .map(|run| Span::micros(if long.contains(&run) { 900 } else { 10 + run as i64 % 5 }))
                .collect()
        };
        assert_eq!(cost(taken(&[17, 18]), None).worst, Span::micros(14));
        let again = cost(taken(&[17, 170]), None);
        assert_eq!((again.worst, again.median), (Span::micros(900), Some(Span::micros(12))));
        assert_eq!(cost(vec![Span(5)], None).worst, Span(5));
    }

    #[test]
    fn a_made_up_reading_is_as_long_as_its_topic_says() {
        for (payload, bytes) in
            [("bytes", 100), ("f32", 8_192), ("f64", 4), ("json:axes", 2_000), ("cbor:a", 900)]
        {
            let payload: PayloadType = payload.parse().unwrap();
            let length = reading(&payload, numbers_in(&payload, bytes).unwrap()).len();
            assert!(
                length <= bytes.max(8) + bytes / 10 && length + bytes / 10 + 8 >= bytes,
                "{payload}: {length} of {bytes}"
            );
            assert_eq!(numbers_in(&payload, 0), None);
        }
    }

    #[test]
    fn a_made_up_reading_is_what_its_type_says() {
        assert_eq!(reading(&PayloadType::Array(Element::F32), 3).len(), 12);
        assert_eq!(reading(&"json:motor.rpm".parse().unwrap(), 1), br#"{"motor":{"rpm":200.0}}"#);
        assert_eq!(reading(&"json:axes.1.load".parse().unwrap(), 1), br#"{"axes":[null,{"load":200.0}]}"#);
        let cbor = reading(&"cbor:a".parse().unwrap(), 1);
        assert_eq!(cbor[..7], [0xba, 0, 0, 0, 1, 0x7a, 0]);
        assert_eq!(cbor[cbor.len() - 9..], [&[0xfb][..], &200.0_f64.to_be_bytes()].concat());
    }
}
