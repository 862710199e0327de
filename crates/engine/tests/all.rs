//! Tests on virtual time. They are one program, since the world in which they play is compiled once then.
//!
//! One of them is run by its name: `cargo test -p verge-engine --test all pair::`.

mod accounts;
mod anything;
mod best_effort;
mod control;
mod crowd;
mod gaps;
mod gate;
mod heartbeats;
mod keeper;
mod kept;
mod memory;
mod mended;
mod narrow;
mod needs;
mod pair;
mod peers;
mod relay;
mod setbacks;
mod uplink;
mod uplink_anything;
mod uplink_coordinated;
mod uplink_mutants;
mod uplink_thin;
mod world;
