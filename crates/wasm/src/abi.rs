//! What the host and a module call each other: names, signatures, and how a result is packed. `docs/webassembly.md` says it
//! to the authors of modules.

use crate::engine::{PortKind, Ports};
use crate::error::Problem;
use crate::limits::Limits;

/// The version of this interface.
pub const VERSION: i32 = 1;
/// The export with the memory.
pub const MEMORY: &str = "memory";
/// The function that says for which version the module was made.
pub const ABI_VERSION: &str = "verge_abi_version";
/// The function that says where an input may be written.
pub const INPUT: &str = "verge_input";
/// The function that processes the inputs.
pub const RUN: &str = "verge_run";
/// The function that says what the module remembers, if it has it; packed as [`RUN`] does.
pub const SAVE: &str = "verge_save";
/// Its signature.
pub const SAVE_SIGNATURE: &str = "() -> i64";
/// The function that takes back what [`SAVE`] said, from where [`INPUT`] of input 0 wanted so many bytes. Zero: it did.
pub const RESTORE: &str = "verge_restore";
/// Its signature.
pub const RESTORE_SIGNATURE: &str = "(i32) -> i32";
/// What the names of functions begin with that take a parameter.
pub const SET: &str = "verge_set_";
/// The signature of those.
pub const SET_SIGNATURE: &str = "(f64)";
/// What [`RUN`] returns for nothing to say. Every other negative number means that it failed.
pub const NOTHING: i64 = -1;

/// The functions that a module must have, with their signatures.
pub const FUNCTIONS: [(&str, &str); 3] =
    [(ABI_VERSION, "() -> i32"), (INPUT, "(i32, i32, i64) -> i32"), (RUN, "(i64) -> i64")];

/// What [`RUN`] said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reply {
    /// A result of so many bytes at this address.
    Result {
        /// Where.
        address: usize,
        /// How long.
        length: usize,
    },
    /// Nothing this time.
    Nothing,
    /// It failed.
    Failed,
}

impl Reply {
    /// Address in the upper half, length in the lower.
    pub fn unpack(packed: i64) -> Reply {
        match u64::try_from(packed) {
            Ok(packed) => {
                Reply::Result { address: (packed >> 32) as usize, length: (packed & 0xffff_ffff) as usize }
            }
            Err(_) if packed == NOTHING => Reply::Nothing,
            Err(_) => Reply::Failed,
        }
    }
}

/// Checks that a module wants nothing and offers what it must.
pub(crate) fn check(ports: &Ports, limits: &Limits) -> Result<(), Problem> {
    if let Some(import) = ports.imports.first() {
        let (module, name) = (shown(&import.module), shown(&import.name));
        return Err(Problem::Import { module, name, more: ports.imports.len() - 1 });
    }
    match find(ports, MEMORY) {
        Some(PortKind::Memory(bytes)) if *bytes > limits.memory_bytes() as u64 => {
            return Err(Problem::Memory { bytes: *bytes, max: limits.memory_bytes() });
        }
        Some(PortKind::Memory(_)) => {}
        Some(other) => return Err(wrong(MEMORY, "a memory", other)),
        None => return Err(Problem::Missing { name: MEMORY.to_owned(), wanted: "a memory" }),
    }
    FUNCTIONS.iter().try_for_each(|(name, signature)| check_function(ports, name, signature))
}

/// Whether a module can say what it remembers, and take it back. One function without the other is a mistake.
pub(crate) fn remembers(ports: &Ports) -> Result<bool, Problem> {
    let wanted = [(SAVE, SAVE_SIGNATURE), (RESTORE, RESTORE_SIGNATURE)];
    if wanted.iter().all(|(name, _)| find(ports, name).is_none()) {
        return Ok(false);
    }
    wanted.iter().try_for_each(|(name, signature)| check_function(ports, name, signature))?;
    Ok(true)
}

/// Checks that a function is exported under this name, with this signature.
pub(crate) fn check_function(ports: &Ports, name: &str, wanted: &'static str) -> Result<(), Problem> {
    match find(ports, name) {
        Some(PortKind::Function(signature)) if signature == wanted => Ok(()),
        Some(other) => Err(wrong(name, wanted, other)),
        None => Err(Problem::Missing { name: name.to_owned(), wanted }),
    }
}

/// A name out of a module, fit to be shown: it may be long, and hold anything.
pub(crate) fn shown(name: &str) -> String {
    const SHOWN_MAX: usize = 60;
    let mut text: String = name.escape_debug().take(SHOWN_MAX).collect();
    if name.escape_debug().nth(SHOWN_MAX).is_some() {
        text.push('…');
    }
    text
}

fn find<'a>(ports: &'a Ports, name: &str) -> Option<&'a PortKind> {
    ports.exports.iter().find(|export| export.name == name).map(|export| &export.kind)
}

fn wrong(name: &str, wanted: &'static str, given: &PortKind) -> Problem {
    let given = match given {
        PortKind::Function(signature) => shown(signature),
        PortKind::Memory(_) => "a memory".to_owned(),
        PortKind::Table => "a table".to_owned(),
        PortKind::Global => "a global variable".to_owned(),
    };
    Problem::WrongExport { name: name.to_owned(), wanted, given }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_told_apart() {
        let packed = |address: i64, length: i64| (address << 32) | length;
        assert_eq!(Reply::unpack(packed(1024, 8)), Reply::Result { address: 1024, length: 8 });
        assert_eq!(Reply::unpack(0), Reply::Result { address: 0, length: 0 });
        let largest = Reply::Result { address: 0x7fff_ffff, length: 0xffff_ffff };
        assert_eq!(Reply::unpack(i64::MAX), largest);
        assert_eq!(Reply::unpack(-1), Reply::Nothing);
        assert_eq!(Reply::unpack(-2), Reply::Failed);
        assert_eq!(Reply::unpack(i64::MIN), Reply::Failed);
    }

    #[test]
    fn names_out_of_modules_are_cut_and_escaped() {
        assert_eq!(shown("wasi"), "wasi");
        assert_eq!(shown("a\u{1b}[2J"), "a\\u{1b}[2J");
        assert_eq!(shown(&"x".repeat(1000)).chars().count(), 61);
    }
}
