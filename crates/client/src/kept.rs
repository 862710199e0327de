//! What peers keep: put, get, delete and query.

use crate::Error;
use crate::peers::{Peers, bytes_of, request, rest};
use contract::Span;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use report::{KeptReport, VALUE_BYTES_MAX};
use serde_json::Value;

/// Something that is kept.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Kept {
    /// What it is, as a profile.
    pub key: String,
    /// How many bytes its value has.
    pub bytes: u64,
    /// Which of several; those that come later have greater ones. About when it was put, in nanoseconds since the Unix epoch.
    pub version: u64,
    /// Where it is: how far to the north, and to the east.
    pub place: (f64, f64),
    /// How long it lasts; `None`: for ever.
    pub left: Option<Span>,
    /// The value, if values were asked for.
    pub value: Option<Vec<u8>>,
}

/// How something is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Put {
    /// Which of several; those that come later have greater ones.
    pub version: u64,
    /// How many peers have it. Where a region has fewer than `overlay.least`, these are all.
    pub copies: u64,
}

/// How much of what is kept is wanted.
#[derive(Clone, PartialEq, Debug)]
pub struct KeptQuery {
    /// How many things at most, up to 10,000.
    pub limit: usize,
    /// Only those that come behind this, as [`KeptPage::next`] has said it.
    pub after: Option<String>,
    /// Whether with values.
    pub values: bool,
}

impl Default for KeptQuery {
    fn default() -> KeptQuery {
        KeptQuery { limit: 1_000, after: None, values: false }
    }
}

/// Some of what is kept.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct KeptPage {
    /// What there is.
    pub things: Vec<Kept>,
    /// Behind what there may be more; `None`: that is all.
    pub next: Option<String>,
    /// How many peers have not answered in time: something may lack.
    pub silent: usize,
}

impl Peers {
    /// Keeps a value under a profile, in place of what was there. Returns when the peers that have to have it have it on disk.
    /// ```no_run
    /// # fn f() -> Result<(), verge::Error> {
    /// let peers = verge::Peers::at("127.0.0.1:7611")?;
    /// peers.put("drone, lidar", b"0.271", None)?;
    /// assert_eq!(peers.get("drone, lidar")?, Some(b"0.271".to_vec()));
    /// # Ok(())
    /// # }
    /// ```
    pub fn put(&self, profile: &str, value: &[u8], lasts: Option<Span>) -> Result<Put, Error> {
        if value.len() > VALUE_BYTES_MAX {
            return Err(Error::Peer(format!(
                "a value may have {VALUE_BYTES_MAX} bytes, and this has {}",
                value.len()
            )));
        }
        let lasts = lasts.map(|lasts| format!("?lasts={}ns", lasts.as_nanos_u64())).unwrap_or_default();
        let body = self.ask("PUT", &(path(profile)? + &lasts), value)?;
        done(&body)
    }

    /// What is kept under a profile; `None`: nothing.
    pub fn get(&self, profile: &str) -> Result<Option<Vec<u8>>, Error> {
        match self.ask("GET", &path(profile)?, &[]) {
            Err(Error::Nothing) => Ok(None),
            value => value.map(Some),
        }
    }

    /// Deletes what is kept under a profile. That there was nothing is no error.
    pub fn delete(&self, profile: &str) -> Result<(), Error> {
        self.ask("DELETE", &path(profile)?, &[]).map(drop)
    }

    /// What is kept that matches an interest.
    pub fn query(&self, interest: &str, query: &KeptQuery) -> Result<KeptPage, Error> {
        let KeptQuery { limit, after, values } = query;
        let after = after.as_ref().map(|after| format!("&after={after}")).unwrap_or_default();
        let path = format!("/api/v1/query?limit={limit}&values={values}{after}");
        let body = self.ask("POST", &path, interest.as_bytes())?;
        let mut lines: Vec<&[u8]> = body.trim_ascii_end().split(|byte| *byte == b'\n').collect();
        let end: Value = read(lines.pop().unwrap_or_default())?;
        Ok(KeptPage {
            things: lines.into_iter().map(kept).collect::<Result<_, _>>()?,
            next: end["next"].as_str().map(str::to_owned),
            silent: end["silent"].as_u64().and_then(|silent| silent.try_into().ok()).unwrap_or(0),
        })
    }

    /// Has a function kept and run, in place of one of the same name, in the region of the peer that answers first. Returns when the peers that have
    /// to have it have it on disk; one of them runs it soon afterwards.
    pub fn add_function(&self, name: &str, text: &str) -> Result<Put, Error> {
        done(&self.ask("PUT", &function_path(name), text.as_bytes())?)
    }

    /// Removes a function there. That there was none is no error.
    pub fn remove_function(&self, name: &str) -> Result<(), Error> {
        self.ask("DELETE", &function_path(name), &[]).map(drop)
    }

    /// Starts a function there that runs only when it is asked to, for so long; `None`: until it is stopped.
    pub fn start_function(&self, name: &str, lasts: Option<Span>) -> Result<(), Error> {
        let lasts = lasts.map(|lasts| format!("?lasts={}ns", lasts.as_nanos_u64())).unwrap_or_default();
        self.ask("POST", &(function_path(name) + "/start" + &lasts), &[]).map(drop)
    }

    /// Stops it.
    pub fn stop_function(&self, name: &str) -> Result<(), Error> {
        self.ask("DELETE", &(function_path(name) + "/start"), &[]).map(drop)
    }

    /// The answer of the first peer that gives one.
    fn ask(&self, method: &str, path: &str, body: &[u8]) -> Result<Vec<u8>, Error> {
        let mut troubles = Vec::new();
        for place in self.0.iter().map(ToString::to_string) {
            match request(&place, method, path, body).and_then(|answer| rest(&place, answer)) {
                Err(Error::NoPeer(why)) => troubles.push(why),
                answer => return answer,
            }
        }
        Err(Error::NoPeer(troubles.join("; ")))
    }
}

fn path(profile: &str) -> Result<String, Error> {
    if profile.trim().is_empty() {
        return Err(Error::Peer("nothing is said: write for example `drone, lidar`".to_owned()));
    }
    Ok(format!("/api/v1/store/{}", utf8_percent_encode(profile, NON_ALPHANUMERIC)))
}

fn function_path(name: &str) -> String {
    format!("/api/v1/functions/{}", utf8_percent_encode(name, NON_ALPHANUMERIC))
}

/// What is answered when something is kept.
fn done(body: &[u8]) -> Result<Put, Error> {
    let answer: Value = read(body)?;
    let number = |name: &str| answer[name].as_u64().ok_or_else(|| unreadable("a number lacks"));
    Ok(Put { version: number("version")?, copies: number("copies")? })
}

fn kept(line: &[u8]) -> Result<Kept, Error> {
    let KeptReport { key, bytes, version, lat, long, left_ns, value, encoding } = read(line)?;
    let left = left_ns.map(|left| Span(i64::try_from(left).unwrap_or(i64::MAX)));
    let value = value.and_then(|value| bytes_of(value, encoding.as_deref()));
    Ok(Kept { key, bytes, version, place: (lat, long), left, value })
}

fn read<T: serde::de::DeserializeOwned>(text: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(text).map_err(|error| unreadable(&error.to_string()))
}

fn unreadable(why: &str) -> Error {
    Error::NoPeer(format!("the answer cannot be read: {why}"))
}
