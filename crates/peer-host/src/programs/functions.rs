//! Functions, over HTTP: add, remove, list, what runs here, and what it has seen.

use super::keeping::{ask, failure, json, lasts, unknown};
use super::{Asked, COMES_WITHIN, FULL, Peer, refusal, refused_page};
use axum::body::{Body, to_bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use contract::Span;
use engine::{Where, function_name, function_text};
use report::FunctionReport;
use serde::Serialize;
use std::sync::Arc;
use store::{Answer, VALUE_BYTES_MAX};
use tokio::time::timeout;

/// The longest text of a function: where it has to run is kept with it.
const TEXT_MAX: usize = VALUE_BYTES_MAX - 1;
/// Functions of a region that are listed.
const LISTED_MAX: usize = 1_024;

#[derive(Serialize)]
struct Done {
    version: u64,
    /// How many peers have it on disk.
    copies: u64,
}

pub(super) async fn add(
    State(peer): State<Peer>,
    Path(name): Path<String>,
    head: HeaderMap,
    body: Body,
) -> Response {
    if let Some(refused) = refused_page(&head) {
        return refused;
    }
    let Ok(_place) = peer.keeping.try_acquire() else {
        return refusal(StatusCode::SERVICE_UNAVAILABLE, FULL);
    };
    let text = match timeout(COMES_WITHIN, to_bytes(body, TEXT_MAX)).await {
        Ok(Ok(text)) => text,
        Ok(Err(_)) => {
            let why = format!("the text of a function may have {TEXT_MAX} bytes");
            return refusal(StatusCode::PAYLOAD_TOO_LARGE, &why);
        }
        Err(_) => return refusal(StatusCode::REQUEST_TIMEOUT, "the text does not come"),
    };
    let Ok(read) = std::str::from_utf8(&text) else {
        return refusal(StatusCode::BAD_REQUEST, "this is no UTF-8");
    };
    let Some(work) = peer.work.clone() else { return none_run() };
    let read = read.to_owned();
    // A module is tried, which takes time.
    match tokio::task::spawn_blocking(move || work.check(&read)).await {
        Ok(Ok(at)) => keep(&peer, &head, name, Some((at, Arc::from(&*text)))).await,
        Ok(Err(why)) => refusal(StatusCode::BAD_REQUEST, &why),
        Err(_) => refusal(StatusCode::BAD_REQUEST, "it cannot be set up"),
    }
}

pub(super) async fn remove(State(peer): State<Peer>, Path(name): Path<String>, head: HeaderMap) -> Response {
    let Ok(_place) = peer.keeping.try_acquire() else {
        return refusal(StatusCode::SERVICE_UNAVAILABLE, FULL);
    };
    keep(&peer, &head, name, None).await
}

async fn keep(peer: &Peer, head: &HeaderMap, name: String, function: Option<(Where, Arc<[u8]>)>) -> Response {
    match ask(peer, head, |answer| Asked::KeepFunction { name, function, answer }).await {
        Ok(Answer::Done(version, copies)) => json(&Done { version: version.at, copies }),
        other => failure(other),
    }
}

pub(super) async fn start(
    State(peer): State<Peer>,
    Path(name): Path<String>,
    uri: Uri,
    head: HeaderMap,
) -> Response {
    if let Some(refused) = unknown(&uri, &["lasts"]) {
        return refused;
    }
    match lasts(&uri) {
        Ok(lasts) => ask_to_run(&peer, &head, name, Some(lasts)).await,
        Err(why) => refusal(StatusCode::BAD_REQUEST, why),
    }
}

pub(super) async fn stop(State(peer): State<Peer>, Path(name): Path<String>, head: HeaderMap) -> Response {
    ask_to_run(&peer, &head, name, None).await
}

async fn ask_to_run(peer: &Peer, head: &HeaderMap, name: String, lasts: Option<Span>) -> Response {
    let Ok(_place) = peer.keeping.try_acquire() else {
        return refusal(StatusCode::SERVICE_UNAVAILABLE, FULL);
    };
    match ask(peer, head, |answer| Asked::StartFunction { name, lasts, answer }).await {
        Ok(Answer::Done(version, copies)) => json(&Done { version: version.at, copies }),
        other => failure(other),
    }
}

#[derive(Serialize)]
struct Listed {
    functions: Vec<FunctionReport>,
    /// How many peers have not answered: something may lack.
    silent: usize,
}

pub(super) async fn list(State(peer): State<Peer>, head: HeaderMap) -> Response {
    let Ok(_place) = peer.keeping.try_acquire() else {
        return refusal(StatusCode::SERVICE_UNAVAILABLE, FULL);
    };
    match ask(&peer, &head, |answer| Asked::LookForFunctions { limit: LISTED_MAX, answer }).await {
        Ok(Answer::Found { items, silent, .. }) => {
            let functions = items.iter().filter_map(|item| {
                let text = function_text(item.value.as_deref()?)?;
                Some(FunctionReport {
                    name: function_name(&item.key)?.to_owned(),
                    version: item.version.at,
                    text: String::from_utf8_lossy(text).into_owned(),
                })
            });
            let mut functions: Vec<FunctionReport> = functions.collect();
            functions.sort_by(|a, b| a.name.cmp(&b.name));
            json(&Listed { functions, silent })
        }
        other => failure(other),
    }
}

pub(super) async fn running(State(peer): State<Peer>) -> Response {
    json(&peer.work.as_ref().map(|work| work.running()).unwrap_or_default())
}

pub(super) async fn trace(State(peer): State<Peer>, Path(name): Path<String>, head: HeaderMap) -> Response {
    if let Some(refused) = refused_page(&head) {
        return refused;
    }
    let work = peer.work.clone();
    let traced = tokio::task::spawn_blocking(move || work.and_then(|work| work.trace(&name))).await;
    match traced.ok().flatten() {
        Some(traced) => json(&traced).into_response(),
        None => refusal(StatusCode::NOT_FOUND, "this peer does not run that function"),
    }
}

fn none_run() -> Response {
    refusal(StatusCode::SERVICE_UNAVAILABLE, "this peer runs no functions: ask another one")
}
