//! Any packets and bytes on several MQTT links of one broker, with time, closures and records of a partner in between:
//! nothing may panic, tables keep to their limits, and afterwards a well-behaved client is served. The fuzz target
//! `mqtt_broker` does the same for longer.
#![allow(clippy::unwrap_used, reason = "a test")]

mod any_mqtt_bench;

use any_mqtt_bench::{LINKS, Stand, WORDS};
use proptest::prelude::*;

fn any_step() -> impl Strategy<Value = [u8; 8]> {
    (0..LINKS as u8, any::<[u8; 6]>(), 0..WORDS.len() as u8)
        .prop_map(|(link, [what, a, b, c, d, e], word)| [link, what, a, b, c, d, e, word])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn nothing_that_mqtt_clients_and_partners_send_breaks_a_broker(
        stands_by in any::<bool>(),
        steps in prop::collection::vec(any_step(), 1..300)
    ) {
        let mut bench = Stand::new(stands_by);
        for step in &steps {
            bench.step(*step);
        }
        bench.check_limits();
        prop_assert!(bench.serves());
    }
}
