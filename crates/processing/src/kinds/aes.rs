//! Keeping payloads secret, and noticing when somebody changed one.
//!
//! The problem: under one key no nonce may ever come with two payloads, or both are laid open, and with GCM forgeries are too.
//! An operator has no source of randomness, and its memory ends with a crash; several operators may have one key, and several
//! payloads may be created in one nanosecond, so that time and a counter are not enough. The idea: the nonce is a keyed digest
//! of the creation time and the payload itself. The same payload of the same time has the same nonce and the same result, which
//! tells nobody anything, and makes a run after a crash repeat the one before it. Different ones share a nonce with a chance of
//! 2^-96 a pair: after 2^40 payloads under one key, 2^-17.
//!
//! The key of the digest is derived from the key of the cipher by a function that has nothing to do with AES.
//!
//! Further reading: NIST SP 800-38D; RFC 8452, where nonces are made of payloads for the same reason.

use super::setup::{missing, unsuitable};
use crate::operator::{
    Answer, Answers, Built, Fault, Input, Kind, Memory, Operator, ParameterDoc, Setup, SetupError,
};
use crate::payload::PayloadType;
use aes::{Aes128, Aes256};
use aes_gcm::aead::{AeadInOut, KeyInit, Nonce, Tag};
use aes_gcm::{Aes128Gcm, Aes256Gcm};
use contract::Time;
use ctr::cipher::{InnerIvInit, StreamCipher};
use ctr::{Ctr32BE, CtrCore};

/// `aes`.
pub const AES: Kind = Kind {
    name: "aes",
    doc: "Encrypts payloads, or decrypts them. A result is the nonce (12 bytes), the encrypted bytes, and with gcm a tag (16 \
          bytes) that shows every change.",
    inputs: (1, 1),
    parameters: &[KEY, DIRECTION, MODE, TYPE],
    build,
};

const KEY: ParameterDoc = ParameterDoc {
    name: "key",
    values: "32 or 64 hexadecimal digits; required",
    doc: "the key, for AES-128 or AES-256; whoever reads the configuration has it",
};
const DIRECTION: ParameterDoc =
    ParameterDoc { name: "direction", values: "encrypt or decrypt; required", doc: "which way" };
const MODE: ParameterDoc = ParameterDoc {
    name: "mode",
    values: "gcm (default) or ctr",
    doc: "ctr has no tag: changes go unnoticed. Only for partners that know nothing else, and with a key of its own",
};
const TYPE: ParameterDoc = ParameterDoc {
    name: "type",
    values: "payload type, default bytes",
    doc: "decrypt: what comes out, for operators that need numbers",
};

/// The bytes of a nonce.
const NONCE: usize = 12;
/// The bytes of a tag.
const TAG: usize = 16;
/// The most bytes of a payload: the counter of blocks has 32 bits, and some are taken.
const PAYLOAD_MAX: u64 = 1 << 32;
const TOO_LONG: Fault = Fault::Failed("a payload has more than 4 GiB");

#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Encrypt,
    Decrypt,
}

#[derive(Clone, Copy)]
enum Mode {
    Gcm,
    Ctr,
}

fn build(setup: &Setup<'_>) -> Result<Built, SetupError> {
    let key = key(setup.text(&KEY)?.ok_or_else(|| missing(&KEY))?)?;
    let directions = [("encrypt", Direction::Encrypt), ("decrypt", Direction::Decrypt)];
    let direction = setup.choice(&DIRECTION, &directions)?.ok_or_else(|| missing(&DIRECTION))?;
    let mode = setup.choice(&MODE, &[("gcm", Mode::Gcm), ("ctr", Mode::Ctr)])?.unwrap_or(Mode::Gcm);
    let output: PayloadType = match setup.text(&TYPE)? {
        None => PayloadType::Bytes,
        Some(_) if direction == Direction::Encrypt => {
            return Err(unsuitable(&TYPE, "is given, and what is encrypted is just bytes: leave it out"));
        }
        Some(name) => name.parse().map_err(|error| unsuitable(&TYPE, format!("is unclear: {error}")))?,
    };
    let cipher = Cipher::new(mode, &key).ok_or_else(|| unsuitable(&KEY, LENGTHS))?;
    // Nonces of one mode are none of the other.
    let digest_key = match mode {
        Mode::Gcm => blake3::derive_key("verge stream aes gcm nonce 1", &key),
        Mode::Ctr => blake3::derive_key("verge stream aes ctr nonce 1", &key),
    };
    let operator: Box<dyn Operator> = match direction {
        Direction::Encrypt => Box::new(Encrypt { cipher, digest_key }),
        Direction::Decrypt => Box::new(Decrypt { cipher }),
    };
    Ok(Built { operator, output, answers: Answers::Always, memory: Memory::Nothing })
}

const LENGTHS: &str = "must have 32 or 64 digits";

/// What is wrong is said without the key.
fn key(text: &str) -> Result<Vec<u8>, SetupError> {
    let digit = |digit: u8| char::from(digit).to_digit(16).map(|digit| digit as u8);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return Err(unsuitable(&KEY, LENGTHS));
    }
    let byte = |[high, low]: &[u8; 2]| Some(digit(*high)? << 4 | digit(*low)?);
    let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
    bytes.ok_or_else(|| unsuitable(&KEY, "must be hexadecimal digits, 0-9 and a-f"))
}

struct Encrypt {
    cipher: Cipher,
    digest_key: [u8; 32],
}

impl Encrypt {
    fn nonce(&self, created: Time, payload: &[u8]) -> [u8; NONCE] {
        let mut digest = blake3::Hasher::new_keyed(&self.digest_key);
        digest.update(&created.0.to_le_bytes()).update(payload);
        let mut nonce = [0; NONCE];
        nonce.copy_from_slice(&digest.finalize().as_bytes()[..NONCE]);
        nonce
    }
}

impl Operator for Encrypt {
    fn run(&mut self, inputs: &[Input<'_>], output: &mut Vec<u8>) -> Result<Answer, Fault> {
        let input = inputs.first().ok_or(Fault::Failed("a run needs an input"))?;
        if input.payload.len() as u64 > PAYLOAD_MAX {
            return Err(TOO_LONG);
        }
        let nonce = self.nonce(input.created, input.payload);
        output.reserve(NONCE + input.payload.len() + TAG);
        output.extend_from_slice(&nonce);
        output.extend_from_slice(input.payload);
        let bytes = &mut output[NONCE..];
        if let Some(tag) = self.cipher.encrypt(&nonce, bytes)? {
            output.extend_from_slice(&tag);
        }
        Ok(Answer::Result)
    }
}

struct Decrypt {
    cipher: Cipher,
}

impl Operator for Decrypt {
    fn run(&mut self, inputs: &[Input<'_>], output: &mut Vec<u8>) -> Result<Answer, Fault> {
        let Some(&Input { slot, payload, .. }) = inputs.first() else {
            return Err(Fault::Failed("a run needs an input"));
        };
        let needed = NONCE + if self.cipher.has_tag() { TAG } else { 0 };
        let too_short = Fault::TooShort { slot, bytes: payload.len(), needed };
        let Some((nonce, sealed)) = payload.split_first_chunk::<NONCE>() else { return Err(too_short) };
        if sealed.len() as u64 > PAYLOAD_MAX {
            return Err(TOO_LONG);
        }
        let opened = if self.cipher.has_tag() {
            let Some((bytes, tag)) = sealed.split_last_chunk::<TAG>() else { return Err(too_short) };
            output.extend_from_slice(bytes);
            self.cipher.decrypt(nonce, output, Some(tag))
        } else {
            output.extend_from_slice(sealed);
            self.cipher.decrypt(nonce, output, None)
        };
        if opened {
            return Ok(Answer::Result);
        }
        output.clear();
        Err(Fault::Malformed { slot, reason: "it was changed, or encrypted with another key" })
    }
}

/// A cipher with its key.
enum Cipher {
    Gcm128(Box<Aes128Gcm>),
    Gcm256(Box<Aes256Gcm>),
    Ctr128(Box<Aes128>),
    Ctr256(Box<Aes256>),
}

impl Cipher {
    /// `None` if the key has the wrong length.
    fn new(mode: Mode, key: &[u8]) -> Option<Cipher> {
        Some(match (mode, key.len()) {
            (Mode::Gcm, 16) => Cipher::Gcm128(Box::new(Aes128Gcm::new_from_slice(key).ok()?)),
            (Mode::Gcm, _) => Cipher::Gcm256(Box::new(Aes256Gcm::new_from_slice(key).ok()?)),
            (Mode::Ctr, 16) => Cipher::Ctr128(Box::new(Aes128::new_from_slice(key).ok()?)),
            (Mode::Ctr, _) => Cipher::Ctr256(Box::new(Aes256::new_from_slice(key).ok()?)),
        })
    }

    fn has_tag(&self) -> bool {
        matches!(self, Cipher::Gcm128(_) | Cipher::Gcm256(_))
    }

    fn encrypt(&self, nonce: &[u8; NONCE], bytes: &mut [u8]) -> Result<Option<[u8; TAG]>, Fault> {
        let sealed = match self {
            Cipher::Gcm128(cipher) => {
                cipher.encrypt_inout_detached(&Nonce::<Aes128Gcm>::from(*nonce), &[], bytes.into())
            }
            Cipher::Gcm256(cipher) => {
                cipher.encrypt_inout_detached(&Nonce::<Aes256Gcm>::from(*nonce), &[], bytes.into())
            }
            Cipher::Ctr128(_) | Cipher::Ctr256(_) => {
                return if self.apply_stream(nonce, bytes) { Ok(None) } else { Err(TOO_LONG) };
            }
        };
        sealed.map(|tag| Some(tag.into())).map_err(|_| TOO_LONG)
    }

    /// Whether it could be decrypted.
    fn decrypt(&self, nonce: &[u8; NONCE], bytes: &mut [u8], tag: Option<&[u8; TAG]>) -> bool {
        match (self, tag) {
            (Cipher::Gcm128(cipher), Some(tag)) => {
                let (nonce, tag) = (Nonce::<Aes128Gcm>::from(*nonce), Tag::<Aes128Gcm>::from(*tag));
                cipher.decrypt_inout_detached(&nonce, &[], bytes.into(), &tag).is_ok()
            }
            (Cipher::Gcm256(cipher), Some(tag)) => {
                let (nonce, tag) = (Nonce::<Aes256Gcm>::from(*nonce), Tag::<Aes256Gcm>::from(*tag));
                cipher.decrypt_inout_detached(&nonce, &[], bytes.into(), &tag).is_ok()
            }
            (Cipher::Gcm128(_) | Cipher::Gcm256(_), None) => false,
            (Cipher::Ctr128(_) | Cipher::Ctr256(_), _) => self.apply_stream(nonce, bytes),
        }
    }

    /// The stream of CTR, whose first block is the nonce and a one. `false` with another mode, or if there are too many bytes.
    fn apply_stream(&self, nonce: &[u8; NONCE], bytes: &mut [u8]) -> bool {
        let mut first = [0; 16];
        first[..NONCE].copy_from_slice(nonce);
        first[15] = 1;
        match self {
            Cipher::Ctr128(cipher) => {
                let core = CtrCore::inner_iv_init(Aes128::clone(cipher), &first.into());
                Ctr32BE::<Aes128>::from_core(core).try_apply_keystream(bytes).is_ok()
            }
            Cipher::Ctr256(cipher) => {
                let core = CtrCore::inner_iv_init(Aes256::clone(cipher), &first.into());
                Ctr32BE::<Aes256>::from_core(core).try_apply_keystream(bytes).is_ok()
            }
            Cipher::Gcm128(_) | Cipher::Gcm256(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{OneOperator, text};
    use super::*;
    use crate::operator::Value;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn one(direction: &str, mode: &str, key: &str) -> OneOperator {
        let parameters = [("direction", text(direction)), ("mode", text(mode)), ("key", text(key))];
        OneOperator::new("aes", &["bytes"], &parameters)
    }

    fn keys() -> [String; 2] {
        ["0".repeat(32), "0".repeat(64)]
    }

    fn bytes(hex: &str) -> Vec<u8> {
        hex.as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }

    /// Test cases 2 and 14 of the specification of GCM, and the block that they call E(K, Y0).
    #[test]
    fn published_vectors_are_decrypted() {
        let [short, long] = keys();
        let nonce = "0".repeat(24);
        for (key, sealed) in [
            (&short, "0388dace60b6a392f328c2b971b2fe78ab6e47d42cec13bdf53a67b21257bddf"),
            (&long, "cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919"),
        ] {
            let payload = bytes(&format!("{nonce}{sealed}"));
            assert_eq!(one("decrypt", "gcm", key).run(&payload), Ok(Some(vec![0; 16])));
        }
        let stream = bytes("58e2fccefa7e3061367f1d57a4e7455a0388dace60b6a392f328c2b971b2fe78");
        let payload = [bytes(&nonce), stream].concat();
        assert_eq!(one("decrypt", "ctr", &short).run(&payload), Ok(Some(vec![0; 32])));
    }

    #[test]
    fn no_two_payloads_and_no_two_times_share_a_nonce() {
        let mut nonces = BTreeSet::new();
        for mode in ["gcm", "ctr"] {
            let mut one = one("encrypt", mode, &keys()[0]);
            for now in 0..20 {
                one.now = Time(now);
                for payload in 0..20_u8 {
                    nonces.insert(one.run(&[payload]).unwrap().unwrap()[..NONCE].to_vec());
                }
            }
        }
        assert_eq!(nonces.len(), 800);
    }

    #[test]
    fn a_run_after_a_crash_repeats_the_one_before() {
        let run = || one("encrypt", "gcm", &keys()[1]).run(b"reading");
        assert_eq!(run(), run());
    }

    #[test]
    fn what_is_too_short_is_said_to_be() {
        let too_short = |bytes, needed| Err(Fault::TooShort { slot: 0, bytes, needed });
        assert_eq!(one("decrypt", "gcm", &keys()[0]).run(&[]), too_short(0, 28));
        assert_eq!(one("decrypt", "gcm", &keys()[0]).run(&[0; 27]), too_short(27, 28));
        assert_eq!(one("decrypt", "ctr", &keys()[0]).run(&[0; 11]), too_short(11, 12));
        assert!(matches!(
            one("decrypt", "gcm", &keys()[0]).run(&[0; 28]),
            Err(Fault::Malformed { slot: 0, .. })
        ));
        assert_eq!(one("decrypt", "ctr", &keys()[0]).run(&[0; 12]), Ok(Some(Vec::new())));
    }

    #[test]
    fn parameters_are_checked_and_a_key_is_never_repeated() {
        let refused = |parameters: &[(&str, Value)]| OneOperator::refused("aes", &["bytes"], parameters);
        let encrypt = ("direction", text("encrypt"));
        assert!(refused(std::slice::from_ref(&encrypt)).starts_with("`key` is missing"));
        assert!(refused(&[("key", text(&keys()[0]))]).starts_with("`direction` is missing"));
        for (key, problem) in
            [("abc", "32 or 64 digits"), ("abcd", "32 or 64 digits"), ("zz", "hexadecimal"), ("", "32 or 64")]
        {
            let said = refused(&[encrypt.clone(), ("key", text(key))]);
            assert!(
                said.contains(problem) && (key.is_empty() || !said.contains(&format!("`{key}`"))),
                "{said}"
            );
        }
        let typed = |direction, name| {
            [("direction", text(direction)), ("key", text(&keys()[0])), ("type", text(name))]
        };
        assert!(refused(&typed("encrypt", "f64")).contains("leave it out"));
        assert!(refused(&typed("decrypt", "f16")).contains("is no payload type"));
        assert_eq!(
            OneOperator::new("aes", &["bytes"], &typed("decrypt", "json:a")).output.to_string(),
            "json:a"
        );
    }

    proptest! {
        #[test]
        fn what_is_encrypted_is_decrypted_and_changes_are_noticed(
            payload in prop::collection::vec(any::<u8>(), 0..200), key in "[0-9a-fA-F]{32}", now: u64, at: usize, bit in 0..8,
        ) {
            for key in [key.clone(), key.repeat(2)] {
                for mode in ["gcm", "ctr"] {
                    let mut encrypt = one("encrypt", mode, &key);
                    encrypt.now = Time(now);
                    let mut sealed = encrypt.run(&payload).unwrap().unwrap();
                    prop_assert_eq!(sealed.len(), payload.len() + NONCE + if mode == "gcm" { TAG } else { 0 });
                    let mut decrypt = one("decrypt", mode, &key);
                    prop_assert_eq!(decrypt.run(&sealed), Ok(Some(payload.clone())));
                    if mode == "gcm" {
                        let at = at % sealed.len();
                        sealed[at] ^= 1_u8 << bit;
                        prop_assert!(decrypt.run(&sealed).is_err());
                    }
                }
            }
        }
    }
}
