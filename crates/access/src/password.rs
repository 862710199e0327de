//! Passwords, of which only a slow hash with a salt is kept: argon2id in the PHC form, `$argon2id$v=19$m=...$salt$hash`.

use argon2::password_hash::phc::{Output, PasswordHash, Salt};
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{ARGON2ID_IDENT, Algorithm, Argon2, Params, Version};
use std::fmt;

/// The longest password, in bytes.
pub const PASSWORD_BYTES_MAX: usize = 1024;
/// The length of the salts that are made here, in bytes.
pub const SALT_BYTES: usize = 16;
/// The most memory that a hash may ask for, in KiB.
const MEMORY_KIB_MAX: u32 = 256 * 1024;
/// The most passes over that memory.
const PASSES_MAX: u32 = 32;
/// The most lanes.
const LANES_MAX: u32 = 16;
/// The shortest hash, in bytes. What is shorter could be met by trying.
const HASH_BYTES_MIN: usize = 16;
/// The length of the hashes that are made here, in bytes.
const HASH_BYTES: usize = 32;

/// How expensive a hash is, to check and to guess. Ordered by memory times passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cost {
    /// Memory, in KiB.
    pub memory_kib: u32,
    /// Passes over that memory.
    pub passes: u32,
    /// Lanes, which could be worked on side by side.
    pub lanes: u32,
}

impl Cost {
    /// 19 MiB, two passes: what guides for keeping passwords ask for at least. Some 20 to 50 ms of one processor.
    pub const DEFAULT: Cost = Cost { memory_kib: 19 * 1024, passes: 2, lanes: 1 };
    /// As cheap as it gets. For tests that check many passwords.
    pub const LEAST: Cost = Cost { memory_kib: 8, passes: 1, lanes: 1 };

    fn params(self) -> Result<Params, PasswordError> {
        Params::new(self.memory_kib, self.passes, self.lanes, Some(HASH_BYTES))
            .map_err(|error| PasswordError::NotAHash(error.to_string()))
    }

    fn work(self) -> u64 {
        u64::from(self.memory_kib) * u64::from(self.passes)
    }
}

impl PartialOrd for Cost {
    fn partial_cmp(&self, other: &Cost) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Cost {
    fn cmp(&self, other: &Cost) -> std::cmp::Ordering {
        let key = |cost: &Cost| (cost.work(), cost.memory_kib, cost.lanes);
        key(self).cmp(&key(other))
    }
}

/// What is wrong with a password or its hash.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PasswordError {
    /// A password without any character.
    Empty,
    /// A password of so many bytes.
    TooLong(usize),
    /// Something else than a hash.
    NotAHash(String),
    /// A hash of another kind.
    NotArgon2id(String),
    /// A hash that would take too much to check.
    TooExpensive(Cost),
}

impl fmt::Display for PasswordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PasswordError::Empty => f.write_str("a password needs at least one character"),
            PasswordError::TooLong(bytes) => {
                write!(f, "a password of {bytes} bytes is above the limit of {PASSWORD_BYTES_MAX}")
            }
            PasswordError::NotAHash(why) => {
                write!(f, "this is no hash of a password ({why}); passwords themselves are not kept")
            }
            PasswordError::NotArgon2id(kind) => {
                write!(f, "a hash of the kind `{kind}`; the one that is taken is argon2id, version 19")
            }
            PasswordError::TooExpensive(cost) => write!(
                f,
                "a hash with m={},t={},p={} is above the limit of m={MEMORY_KIB_MAX},t={PASSES_MAX},p={LANES_MAX}",
                cost.memory_kib, cost.passes, cost.lanes
            ),
        }
    }
}

impl std::error::Error for PasswordError {}

/// The hash to keep of a password. `salt` has to be random, and another one each time.
pub fn hash_password(password: &[u8], salt: &[u8; SALT_BYTES], cost: Cost) -> Result<String, PasswordError> {
    if password.is_empty() {
        return Err(PasswordError::Empty);
    }
    if password.len() > PASSWORD_BYTES_MAX {
        return Err(PasswordError::TooLong(password.len()));
    }
    let hasher = Argon2::new(Algorithm::Argon2id, Version::V0x13, cost.params()?);
    let hash = hasher.hash_password_with_salt(password, salt);
    hash.map(|hash| hash.to_string()).map_err(|error| PasswordError::NotAHash(error.to_string()))
}

/// Whether a password is the one of a hash. Takes as long as the hash says, on purpose.
pub fn verify_password(hash: &str, password: &[u8]) -> bool {
    let Ok(parsed) = parse(hash) else { return false };
    password.len() <= PASSWORD_BYTES_MAX && Argon2::default().verify_password(password, &parsed).is_ok()
}

/// How expensive a hash is, or why it is not taken.
pub fn check_hash(hash: &str) -> Result<Cost, PasswordError> {
    cost_of(&parse(hash)?)
}

/// A hash of this cost that no password fits.
pub(crate) fn decoy(cost: Cost) -> String {
    let salt = "dmVyZ2UgZGVjb3kgc2FsdA";
    let Cost { memory_kib, passes, lanes } = cost;
    format!("$argon2id$v=19$m={memory_kib},t={passes},p={lanes}${salt}${}", "A".repeat(43))
}

fn parse(hash: &str) -> Result<PasswordHash, PasswordError> {
    let not = |why: &str| PasswordError::NotAHash(why.to_owned());
    let parsed =
        PasswordHash::new(hash).map_err(|_| not("not of the form $argon2id$v=19$m=...$salt$hash"))?;
    if parsed.algorithm != ARGON2ID_IDENT || parsed.version != Some(Version::V0x13.into()) {
        return Err(PasswordError::NotArgon2id(parsed.algorithm.to_string()));
    }
    if parsed.salt.as_ref().map_or(0, |salt| salt.as_ref().len()) < Salt::MIN_LENGTH {
        return Err(not("its salt is missing"));
    }
    if parsed.hash.as_ref().map_or(0, Output::len) < HASH_BYTES_MIN {
        return Err(not("its last part is missing or too short"));
    }
    let cost = cost_of(&parsed)?;
    if cost.memory_kib > MEMORY_KIB_MAX || cost.passes > PASSES_MAX || cost.lanes > LANES_MAX {
        return Err(PasswordError::TooExpensive(cost));
    }
    Ok(parsed)
}

fn cost_of(hash: &PasswordHash) -> Result<Cost, PasswordError> {
    let params = Params::try_from(hash).map_err(|error| PasswordError::NotAHash(error.to_string()))?;
    Ok(Cost { memory_kib: params.m_cost(), passes: params.t_cost(), lanes: params.p_cost() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_fits_its_password_and_no_other() {
        for cost in [Cost::LEAST, Cost { memory_kib: 64, passes: 3, lanes: 2 }] {
            let hash = hash_password(b"correct horse", b"0123456789abcdef", cost).unwrap();
            assert!(verify_password(&hash, b"correct horse"));
            assert!(!verify_password(&hash, b"correct horsf"));
            assert!(!verify_password(&hash, b""));
            assert_eq!(check_hash(&hash), Ok(cost));
            let other = hash_password(b"correct horse", b"0123456789abcdeg", cost).unwrap();
            assert_ne!(hash, other, "another salt, another hash");
        }
    }

    /// A test vector of the reference implementation.
    #[test]
    fn hashes_of_other_programs_are_understood() {
        let hash = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc";
        assert!(verify_password(hash, b"password"));
        assert!(!verify_password(hash, b"passwort"));
    }

    #[test]
    fn what_is_no_hash_is_refused_with_the_reason() {
        assert!(matches!(check_hash("secret"), Err(PasswordError::NotAHash(_))));
        assert!(matches!(check_hash("$argon2id$v=19$m=8,t=1,p=1"), Err(PasswordError::NotAHash(_))));
        let other = decoy(Cost::LEAST).replace("argon2id", "argon2i");
        assert_eq!(check_hash(&other), Err(PasswordError::NotArgon2id("argon2i".to_owned())));
        let dear = Cost { memory_kib: 1 << 20, passes: 1, lanes: 1 };
        assert_eq!(check_hash(&decoy(dear)), Err(PasswordError::TooExpensive(dear)));
        assert!(!verify_password(&decoy(dear), b"x"));
        assert_eq!(hash_password(b"", &[1; SALT_BYTES], Cost::LEAST), Err(PasswordError::Empty));
        let long = vec![b'x'; PASSWORD_BYTES_MAX + 1];
        assert!(matches!(
            hash_password(&long, &[1; SALT_BYTES], Cost::LEAST),
            Err(PasswordError::TooLong(_))
        ));
    }

    #[test]
    fn a_decoy_has_the_cost_asked_for() {
        assert_eq!(check_hash(&decoy(Cost::DEFAULT)), Ok(Cost::DEFAULT));
        assert!(!verify_password(&decoy(Cost::LEAST), b"anything"));
    }
}
