//! Any packets and bytes on MQTT links of a whole broker, with time, closures and records of a partner in between. Nothing may
//! panic, limits hold, and a well-behaved client must still be served. Eight bytes are one step.
#![no_main]

#[path = "../../crates/engine/tests/any_mqtt_bench/mod.rs"]
mod any_mqtt_bench;

use any_mqtt_bench::Stand;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((stands_by, steps)) = data.split_first() else { return };
    let mut bench = Stand::new(stands_by % 2 == 1);
    for step in steps.as_chunks().0 {
        bench.step(*step);
    }
    bench.check_limits();
    assert!(bench.serves());
});
