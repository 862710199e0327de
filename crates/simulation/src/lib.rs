//! What Verge's simulators and tests share: an agenda in invented time, links where nobody is at the other end, fingerprints of runs,
//! making a failing scenario smaller, and the proof that checkers can fail. It knows nothing of what is simulated.

mod agenda;
mod mutants;
mod search;
mod wires;

pub mod hash;

pub use agenda::Agenda;
pub use mutants::unnoticed;
pub use search::Search;
pub use wires::{Ended, Wires};
