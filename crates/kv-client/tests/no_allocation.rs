//! An application's periods allocate nothing, neither where all goes well nor where it does not.

#[path = "../../kv-shared/tests/common/mod.rs"]
mod common;

use common::house::House;
use std::ops::ControlFlow;
use verge_kv::{Client, Options, Time, now};

#[global_allocator]
static ALLOCATOR: counting::Counting = counting::Counting;

#[test]
fn tasks_allocate_nothing() {
    let house = House::start("allocates");
    let mut lane = Client::attach(&house.path, 0, &Options::default()).unwrap();
    let (angle, text, theirs) =
        (lane.key("pendulum/angle").unwrap(), lane.key("text").unwrap(), lane.key("theirs").unwrap());
    let period = lane.facts().period;
    let (mut read, mut refused) = (0, 0);
    let begun = counting::allocations();
    lane.every(period, |job| {
        let mut buffer = [0; 16];
        read += u32::from(job.read(&angle, &mut buffer).is_ok())
            + u32::from(job.read_number::<f64>(&text).is_ok());
        refused += u32::from(job.read(&theirs, &mut buffer).is_err());
        for _ in 0..20 {
            refused +=
                u32::from(job.write_number(&angle, 1.0).is_err() || job.write_number(&text, 0.1).is_err());
        }
        refused += u32::from(job.write(&theirs, b"v").is_err());
        if job.report().runs < 12 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })
    .unwrap();
    assert!(lane.write(&angle, b"", now()).is_err() && lane.read(&angle, Time::NEVER, &mut []).is_err());
    assert_eq!(counting::allocations() - begun, 0);
    assert!(read > 2 && refused > 100, "{read} {refused}");
    house.end();
}
