//! What peers keep, over HTTP: put, get, delete and look.

use super::{Asked, COMES_WITHIN, FULL, NotPut, Peer, refusal, refused_page};
use axum::body::{Body, to_bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use contract::Span;
use engine::LOOK_MAX;
use percent_encoding::percent_decode_str;
use report::KeptReport;
use serde::Serialize;
use std::sync::Arc;
use store::{Answer, Item, ItemId, Query, Refusal, VALUE_BYTES_MAX};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Requests of this kind at once: each may have a value.
pub(super) const KEEPING_MAX: usize = 64;
/// Things in one answer, where nothing is said.
const LIMIT: usize = 1_000;
/// The longest interest.
const INTEREST_BYTES_MAX: usize = engine::TEXT_BYTES_MAX;

pub(super) async fn keep(
    State(peer): State<Peer>,
    Path(key): Path<String>,
    uri: Uri,
    head: HeaderMap,
    body: Body,
) -> Response {
    if let Some(refused) = unknown(&uri, &["lasts"]) {
        return refused;
    }
    let lasts = match lasts(&uri) {
        Ok(lasts) => lasts,
        Err(why) => return refusal(StatusCode::BAD_REQUEST, why),
    };
    // Before the value is in memory.
    let Ok(place) = Arc::clone(&peer.keeping).try_acquire_owned() else {
        return refusal(StatusCode::SERVICE_UNAVAILABLE, FULL);
    };
    let value = match timeout(COMES_WITHIN, to_bytes(body, VALUE_BYTES_MAX)).await {
        Ok(Ok(value)) => value,
        Ok(Err(_)) => {
            let why = format!("a value may have {VALUE_BYTES_MAX} bytes");
            return refusal(StatusCode::PAYLOAD_TOO_LARGE, &why);
        }
        Err(_) => return refusal(StatusCode::REQUEST_TIMEOUT, "the value does not come"),
    };
    let answer = put(&peer, &head, key, Some(Arc::from(&*value)), lasts).await;
    drop(place);
    answer
}

pub(super) async fn remove(State(peer): State<Peer>, Path(key): Path<String>, head: HeaderMap) -> Response {
    let Ok(_place) = peer.keeping.try_acquire() else {
        return refusal(StatusCode::SERVICE_UNAVAILABLE, FULL);
    };
    put(&peer, &head, key, None, Span::FOREVER).await
}

#[derive(Serialize)]
struct Done {
    version: u64,
    /// How many peers have it on disk.
    copies: u64,
}

async fn put(peer: &Peer, head: &HeaderMap, key: String, value: Option<Arc<[u8]>>, lasts: Span) -> Response {
    match ask(peer, head, |answer| Asked::Keep { key, value, lasts, answer }).await {
        Ok(Answer::Done(version, copies)) => json(&Done { version: version.at, copies }),
        other => failure(other),
    }
}

pub(super) async fn fetch(State(peer): State<Peer>, Path(key): Path<String>, head: HeaderMap) -> Response {
    let Ok(_place) = peer.keeping.try_acquire() else {
        return refusal(StatusCode::SERVICE_UNAVAILABLE, FULL);
    };
    match ask(&peer, &head, |answer| Asked::Fetch { key, answer }).await {
        Ok(Answer::Got(Some(Item { value: Some(value), version, .. }))) => (
            [
                (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
                (header::ETAG, format!("\"{}\"", version.at)),
            ],
            Body::from(value.to_vec()),
        )
            .into_response(),
        Ok(Answer::Got(_)) => refusal(StatusCode::NOT_FOUND, "nothing is kept under this profile here"),
        other => failure(other),
    }
}

/// The last line of an answer.
#[derive(Serialize)]
struct End {
    /// With `?after=` the next ones come; `null`: these are all.
    next: Option<String>,
    /// How many peers have not answered: something may lack.
    silent: usize,
}

pub(super) async fn look(State(peer): State<Peer>, uri: Uri, head: HeaderMap, body: Body) -> Response {
    if let Some(refused) = unknown(&uri, &["limit", "after", "values"]) {
        return refused;
    }
    let limit = parameter(&uri, "limit").map_or(Ok(LIMIT), |text| text.parse());
    let Some(limit) = limit.ok().filter(|limit| (1..=LOOK_MAX).contains(limit)) else {
        return refusal(StatusCode::BAD_REQUEST, &format!("`limit` is a number from 1 to {LOOK_MAX}"));
    };
    let Ok(after) = parameter(&uri, "after").map(|text| text.parse::<ItemId>()).transpose() else {
        return refusal(StatusCode::BAD_REQUEST, "`after` is what an answer has said as `next`");
    };
    let Ok(values) = parameter(&uri, "values").map_or(Ok(false), |text| text.parse::<bool>()) else {
        return refusal(StatusCode::BAD_REQUEST, "`values` is true or false");
    };
    let Ok(Ok(body)) = timeout(COMES_WITHIN, to_bytes(body, INTEREST_BYTES_MAX)).await else {
        return refusal(StatusCode::BAD_REQUEST, "an interest comes as text of at most 16 KiB");
    };
    let Ok(interest) = std::str::from_utf8(&body) else {
        return refusal(StatusCode::BAD_REQUEST, "this is no UTF-8");
    };
    let Ok(_place) = peer.keeping.try_acquire() else {
        return refusal(StatusCode::SERVICE_UNAVAILABLE, FULL);
    };
    let query = Query { interest: interest.trim().to_owned(), after, limit, values };
    match ask(&peer, &head, |answer| Asked::Look { query, answer }).await {
        Ok(Answer::Found { items, next, silent }) => {
            let mut text = String::new();
            for item in &items {
                text += &serde_json::to_string(&shown(item)).unwrap_or_default();
                text.push('\n');
            }
            let end = End { next: next.map(|next| next.to_string()), silent };
            text += &serde_json::to_string(&end).unwrap_or_default();
            text.push('\n');
            ([(header::CONTENT_TYPE, super::LINES)], text).into_response()
        }
        other => failure(other),
    }
}

fn shown(item: &Item) -> KeptReport {
    let (value, encoding) = match item.value.as_deref().map(|value| (value, std::str::from_utf8(value))) {
        Some((_, Ok(text))) => (Some(text.to_owned()), Some("utf-8".to_owned())),
        Some((value, Err(_))) => (Some(STANDARD.encode(value)), Some("base64".to_owned())),
        None => (None, None),
    };
    KeptReport {
        key: item.key.to_string(),
        bytes: item.size.unwrap_or(0),
        version: item.version.at,
        lat: item.location.lat(),
        long: item.location.long(),
        left_ns: (!item.left.is_forever()).then(|| item.left.as_nanos_u64()),
        value,
        encoding,
    }
}

/// Asks the peer.
pub(super) async fn ask(
    peer: &Peer,
    head: &HeaderMap,
    asked: impl FnOnce(oneshot::Sender<Result<Answer, NotPut>>) -> Asked,
) -> Result<Answer, Response> {
    if let Some(refused) = refused_page(head) {
        return Err(refused);
    }
    let (answer, answered) = oneshot::channel();
    let sent = peer.asks.send(asked(answer)).await;
    match (sent, answered.await) {
        (Ok(()), Ok(Ok(answer))) => Ok(answer),
        (Ok(()), Ok(Err(why))) => Err(why.response()),
        _ => Err(refusal(StatusCode::SERVICE_UNAVAILABLE, "the peer ends")),
    }
}

/// What is no answer to what was asked.
pub(super) fn failure(answer: Result<Answer, Response>) -> Response {
    match answer {
        Err(response) => response,
        Ok(Answer::Refused(refusal)) => {
            let code = match refusal {
                Refusal::Full(_) | Refusal::Disk(_) => StatusCode::INSUFFICIENT_STORAGE,
                Refusal::Unconfirmed { .. } | Refusal::NoAnswer { .. } => StatusCode::GATEWAY_TIMEOUT,
                _ => StatusCode::SERVICE_UNAVAILABLE,
            };
            super::refusal(code, &refusal.to_string())
        }
        Ok(_) => {
            contract::invariant!("an answer is of the kind of its question");
            refusal(StatusCode::INTERNAL_SERVER_ERROR, "the peer has answered something else")
        }
    }
}

pub(super) fn json(body: &impl Serialize) -> Response {
    let body = serde_json::to_string(body).unwrap_or_default();
    ([(header::CONTENT_TYPE, "application/json")], body + "\n").into_response()
}

/// How long something lasts, or what is wrong with that.
pub(super) fn lasts(uri: &Uri) -> Result<Span, &'static str> {
    match parameter(uri, "lasts").map(|text| text.parse::<Span>()) {
        None => Ok(Span::FOREVER),
        Some(Ok(lasts)) if lasts > Span::ZERO => Ok(lasts),
        Some(_) => Err("`lasts` is a time such as 1h, longer than zero"),
    }
}

/// Something behind `?` that means nothing here.
pub(super) fn unknown(uri: &Uri, known: &[&str]) -> Option<Response> {
    let all = uri.query()?.split('&').filter(|pair| !pair.is_empty());
    let name =
        { all }.map(|pair| pair.split('=').next().unwrap_or_default()).find(|name| !known.contains(name))?;
    let known = known.join("`, `");
    Some(refusal(StatusCode::BAD_REQUEST, &format!("`{name}` means nothing here: there is `{known}`")))
}

/// One of what stands behind `?`.
fn parameter(uri: &Uri, name: &str) -> Option<String> {
    let all = uri.query()?.split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = { all }.find(|(known, _)| *known == name)?;
    Some(percent_decode_str(value).decode_utf8_lossy().into_owned())
}
