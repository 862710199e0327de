//! What Verge's simulators share: an agenda in invented time, fingerprints of runs, making a failing scenario smaller, and the proof that
//! checkers can fail. It knows nothing of what is simulated.

mod agenda;
mod mutants;
mod search;

pub mod hash;

pub use agenda::Agenda;
pub use mutants::unnoticed;
pub use search::Search;
