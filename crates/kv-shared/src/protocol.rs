//! What applications and the node say to each other over the node's Unix socket: one line of JSON for each request, and one for each
//! answer. `docs/kv-clients.md` has examples.

use kv::Format;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The longest line, with its end.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// The longest name of an application.
pub const CLIENT_NAME_BYTES_MAX: usize = 64;

/// What an application asks for.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Request {
    /// Shared memory to read from, and a ring to write to; both come as descriptors with the answer. They are the application's as long
    /// as the connection stands.
    Attach {
        /// Which lane.
        lane: u16,
        /// How many tuples it writes for one job.
        tuples: usize,
        /// What it is called in the node's status.
        #[serde(default)]
        name: String,
    },
    /// How the node does.
    Status {},
    /// The newest visible value of a key.
    Read {
        /// Which lane.
        lane: u16,
        /// The name of the key.
        key: String,
        /// The oldest stamp that will do, in nanoseconds; without it, any.
        #[serde(default)]
        freshness: u64,
    },
    /// What the newest visible value of a key was made of.
    Vector {
        /// Which lane.
        lane: u16,
        /// The name of the key.
        key: String,
        /// The oldest stamp that will do, in nanoseconds; without it, any.
        #[serde(default)]
        freshness: u64,
    },
    /// A value to publish.
    Write {
        /// Which lane.
        lane: u16,
        /// The name of the key.
        key: String,
        /// The value.
        #[serde(flatten)]
        content: Content,
        /// From when on it is to be visible, in nanoseconds.
        publishing: u64,
    },
}

/// A value in one of three ways.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// Text, as it is.
    Value(String),
    /// Bytes, two hexadecimal digits for each.
    Bytes(String),
    /// A number, in the format that the key votes on.
    Number(serde_json::Number),
}

/// What the node says.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Answer {
    /// Two descriptors come with it, the store and the ring; and a third where the lane keeps what values were made of.
    Attached {
        /// The number of the application at this lane.
        slot: u32,
        /// How many tuples it may write for one job.
        tuples: usize,
        /// The names of all nodes, by number.
        nodes: Vec<String>,
    },
    /// As the node sees itself.
    Status(serde_json::Value),
    /// A value.
    Value {
        /// The instant from which on it is valid, in nanoseconds.
        stamp: u64,
        /// The value.
        #[serde(flatten)]
        plain: Plain,
    },
    /// What a value was made of.
    Vector {
        /// The instant from which on the value is valid, in nanoseconds.
        stamp: u64,
        /// Who proposed what, by the names of nodes. Who is missing proposed nothing, or has lied.
        said: BTreeMap<String, Plain>,
    },
    /// It is in the next job.
    Written {},
    /// Nothing was done, for this reason.
    Error(String),
}

/// A value for whoever does not share memory.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Plain {
    /// Two hexadecimal digits for each byte.
    pub bytes: String,
    /// The same as text, if it is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The same as a number, if the key votes on numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<serde_json::Number>,
}

/// Why a line is none.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LineError {
    /// Too long.
    #[error("the line has {0} bytes or more: at most {LINE_BYTES_MAX}")]
    TooLong(usize),
    /// Not what is expected.
    #[error("{0}; write one request to a line, for example {{\"read\":{{\"lane\":0,\"key\":\"a\"}}}}")]
    Malformed(serde_json::Error),
}

/// A message as a line, with its end.
pub fn encode(message: &impl Serialize) -> Result<Vec<u8>, LineError> {
    let mut line = serde_json::to_vec(message).map_err(LineError::Malformed)?;
    line.push(b'\n');
    if line.len() > LINE_BYTES_MAX { Err(LineError::TooLong(line.len())) } else { Ok(line) }
}

/// A message of a line.
pub fn decode<T: DeserializeOwned>(line: &[u8]) -> Result<T, LineError> {
    if line.len() > LINE_BYTES_MAX {
        return Err(LineError::TooLong(line.len()));
    }
    serde_json::from_slice(line).map_err(LineError::Malformed)
}

impl Content {
    /// The bytes of the value, for a key of this format.
    pub fn to_bytes(&self, format: Option<Format>) -> Result<Vec<u8>, String> {
        match self {
            Content::Value(text) => Ok(text.as_bytes().to_vec()),
            Content::Bytes(hex) => {
                from_hex(hex).ok_or_else(|| "`bytes` must be pairs of hexadecimal digits".to_owned())
            }
            Content::Number(number) => match format {
                Some(Format::F64) => number.as_f64().map(|number| number.to_le_bytes().to_vec()),
                Some(Format::I64) => number.as_i64().map(|number| number.to_le_bytes().to_vec()),
                Some(Format::Decimal) => Some(number.to_string().into_bytes()),
                None => return Err("the key does not vote on numbers: write `value` or `bytes`".to_owned()),
            }
            .ok_or_else(|| format!("{number} is not a number of the format that the key votes on")),
        }
    }
}

impl Answer {
    /// A value that was read under a key of this format.
    pub fn value(stamp: u64, bytes: &[u8], format: Option<Format>) -> Answer {
        Answer::Value { stamp, plain: Plain::of(bytes, format) }
    }
}

impl Plain {
    /// A value of a key of this format.
    pub fn of(bytes: &[u8], format: Option<Format>) -> Plain {
        let word = || bytes.try_into().ok();
        let text = || str::from_utf8(bytes).ok();
        let number = match format {
            Some(Format::F64) => {
                word().and_then(|word| serde_json::Number::from_f64(f64::from_le_bytes(word)))
            }
            Some(Format::I64) => word().map(|word| i64::from_le_bytes(word).into()),
            Some(Format::Decimal) => text().and_then(|text| serde_json::Number::from_f64(text.parse().ok()?)),
            None => None,
        };
        let is_text = !matches!(format, Some(Format::F64 | Format::I64));
        let text = text().filter(|_| is_text).map(str::to_owned);
        Plain { bytes: to_hex(bytes), text, number }
    }
}

/// Two hexadecimal digits for each byte.
pub fn to_hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xF)]).collect()
}

/// The bytes of pairs of hexadecimal digits.
pub fn from_hex(hex: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| char::from(digit).to_digit(16).map(|digit| digit as u8);
    let pairs = hex.as_bytes().chunks(2);
    pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(message: &T, expected: &str) {
        let line = encode(message).unwrap();
        assert_eq!(str::from_utf8(&line).unwrap(), format!("{expected}\n"));
        assert_eq!(&decode::<T>(&line).unwrap(), message);
    }

    #[test]
    fn messages_are_lines_of_json() {
        let attach = Request::Attach { lane: 0, tuples: 20, name: "pendulum".into() };
        round(&attach, r#"{"attach":{"lane":0,"tuples":20,"name":"pendulum"}}"#);
        round(&Request::Status {}, r#"{"status":{}}"#);
        round(
            &Request::Read { lane: 0, key: "a".into(), freshness: 7 },
            r#"{"read":{"lane":0,"key":"a","freshness":7}}"#,
        );
        let content = Content::Value("v".into());
        let write = Request::Write { lane: 0, key: "a".into(), content, publishing: 9 };
        round(&write, r#"{"write":{"lane":0,"key":"a","value":"v","publishing":9}}"#);
        let attached = Answer::Attached { slot: 3, tuples: 20, nodes: vec!["a".into()] };
        round(&attached, r#"{"attached":{"slot":3,"tuples":20,"nodes":["a"]}}"#);
        let said = [("a".to_owned(), Plain::of(b"v", None))].into();
        round(
            &Answer::Vector { stamp: 5, said },
            r#"{"vector":{"stamp":5,"said":{"a":{"bytes":"76","text":"v"}}}}"#,
        );
        round(&Answer::Written {}, r#"{"written":{}}"#);
        round(&Answer::Error("no".into()), r#"{"error":"no"}"#);
        round(&Answer::value(5, b"v", None), r#"{"value":{"stamp":5,"bytes":"76","text":"v"}}"#);
        let half = Answer::value(5, &0.5_f64.to_le_bytes(), Some(Format::F64));
        round(&half, r#"{"value":{"stamp":5,"bytes":"000000000000e03f","number":0.5}}"#);
    }

    #[test]
    fn what_is_no_request_is_refused_with_the_reason() {
        for (line, reason) in [
            ("{}", "expected"),
            ("", "EOF"),
            (r#"{"attach":{"lane":0}}"#, "tuples"),
            (r#"{"attach":{"lane":70000,"tuples":1}}"#, "u16"),
            (r#"{"status":{"verbose":true}}"#, "verbose"),
            (r#"{"write":{"lane":0,"key":"a","publishing":9}}"#, "variant"),
            (r#"{"fly":{}}"#, "fly"),
            (r#"{"status":{}} {"status":{}}"#, "trailing"),
        ] {
            let error = decode::<Request>(line.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(reason), "{line}: {error}");
        }
        assert!(matches!(decode::<Request>(&[b' '; LINE_BYTES_MAX + 1]), Err(LineError::TooLong(_))));
        assert!(encode(&Answer::Error("x".repeat(LINE_BYTES_MAX))).is_err());
    }

    #[test]
    fn values_are_text_bytes_or_numbers() {
        let bytes = |content: Content, format| content.to_bytes(format);
        assert_eq!(bytes(Content::Bytes("00fF".into()), None), Ok(vec![0, 255]));
        assert!(
            bytes(Content::Bytes("0".into()), None).is_err()
                && bytes(Content::Bytes("é0".into()), None).is_err()
        );
        let two = || Content::Number(2.into());
        assert_eq!(bytes(two(), Some(Format::F64)), Ok(2.0_f64.to_le_bytes().to_vec()));
        assert_eq!(bytes(two(), Some(Format::I64)), Ok(2_i64.to_le_bytes().to_vec()));
        assert_eq!(bytes(two(), Some(Format::Decimal)), Ok(b"2".to_vec()));
        assert!(bytes(two(), None).is_err());
        let half = Content::Number(serde_json::Number::from_f64(0.5).unwrap());
        assert!(bytes(half, Some(Format::I64)).is_err());
    }
}
