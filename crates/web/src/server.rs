//! Requests over HTTP. They are few and small, so everything is bounded tightly: connections, bytes of a request, and time.

use crate::metrics::{Reading, render};
use crate::probe::Live;
use crate::process::ProcessUse;
use crate::readiness::{Reason, judge, to_json};
use crate::site::{self, SiteSource};
use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Semaphore};
use tokio::task::AbortHandle;

/// Connections at the same time, where there are descriptors enough. For a further one, that which has said nothing for longest is closed.
pub const CONNECTIONS_MAX: usize = 32;
/// Bytes of a request's head.
pub const HEAD_BYTES_MAX: usize = 16 << 10;
/// How long a connection may take, from being accepted to the last byte of its answer.
pub const REQUEST_TIME: Duration = Duration::from_secs(5);
/// How long the data thread may take to answer before it counts as stuck.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long accepting rests when no descriptor is left.
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// Makes the JSON of `verge status`. It may take a second or two, and runs on a thread of its own.
pub type StatusSource = Arc<dyn Fn() -> Result<String, String> + Send + Sync>;

/// What requests are answered from.
pub(crate) struct Shared {
    pub(crate) live: Mutex<Live>,
    pub(crate) status: StatusSource,
    pub(crate) site: Option<SiteSource>,
    /// One who asks for the status of the pair at a time.
    pub(crate) asking: Semaphore,
}

/// What a broker shows.
pub(crate) fn pages(shared: Arc<Shared>) -> Router {
    let pages = routes(get(metrics), get(healthz), get(readyz), get(status));
    pages.route("/api/v1/site", get(how_the_site_is)).with_state(shared)
}

/// Where whatever is watched shows itself.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>(
    metrics: MethodRouter<S>,
    healthz: MethodRouter<S>,
    readyz: MethodRouter<S>,
    status: MethodRouter<S>,
) -> Router<S> {
    Router::new()
        .route("/metrics", metrics)
        .route("/healthz", healthz)
        .route("/readyz", readyz)
        .route("/api/v1/status", status)
        .fallback(unknown)
}

/// Answers requests for ever.
pub(crate) fn serve(
    listener: std::net::TcpListener,
    connections: usize,
    router: Router,
) -> io::Result<impl Future<Output = ()> + Send> {
    listener.set_nonblocking(true)?;
    Ok(accept(TcpListener::from_std(listener)?, connections, router))
}

async fn accept(listener: TcpListener, connections: usize, router: Router) {
    let room = Arc::new(Semaphore::new(connections));
    let mut guests = VecDeque::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(_) => {
                tokio::time::sleep(ACCEPT_REST).await;
                continue;
            }
        };
        guests.retain(|guest: &Guest| !guest.task.is_finished());
        if room.available_permits() == 0 {
            make_room(&mut guests);
        }
        // It is never closed.
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        let (router, asked) = (router.clone(), Arc::new(AtomicBool::new(false)));
        let asks = Arc::clone(&asked);
        let task = tokio::spawn(async move {
            // Whoever is too slow is cut off.
            let _ = tokio::time::timeout(REQUEST_TIME, answer(stream, router, asks)).await;
            drop(permit);
        });
        guests.push_back(Guest { asked, task: task.abort_handle() });
    }
}

/// A connection that is being answered, or has not asked for anything yet.
struct Guest {
    asked: Arc<AtomicBool>,
    task: AbortHandle,
}

/// Closes the connection that has said nothing for longest. Where all have asked, the next one waits for an answer to be given.
fn make_room(guests: &mut VecDeque<Guest>) {
    let silent = guests.iter().position(|guest| !guest.asked.load(Ordering::Relaxed));
    if let Some(guest) = silent.and_then(|silent| guests.remove(silent)) {
        guest.task.abort();
    }
}

/// One request. Connections are not kept: scrapes are seconds apart, and an idle one would take the place of another. It `asked` once its
/// request has come.
async fn answer(stream: TcpStream, router: Router, asked: Arc<AtomicBool>) -> Result<(), hyper::Error> {
    let service = TowerToHyperService::new(router);
    let listen = hyper::service::service_fn(move |request| {
        asked.store(true, Ordering::Relaxed);
        service.call(request)
    });
    http1::Builder::new()
        .keep_alive(false)
        .max_buf_size(HEAD_BYTES_MAX)
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIME)
        .serve_connection(TokioIo::new(stream), listen)
        .await
}

pub(crate) const TEXT: &str = "text/plain; charset=utf-8";
pub(crate) const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";
pub(crate) const JSON: &str = "application/json";

pub(crate) fn reply(code: StatusCode, kind: &'static str, body: String) -> Response {
    (code, [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-store")], body).into_response()
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    let mut live = shared.live.lock().await;
    let began = Instant::now();
    let Some(snapshot) = live.look(true, PATIENCE).await else {
        let body = "the data thread does not answer\n".to_owned();
        return reply(StatusCode::SERVICE_UNAVAILABLE, TEXT, body);
    };
    let answered_in = began.elapsed();
    let mut text = render(&Reading { snapshot, process: ProcessUse::now(), answered_in });
    if let Some(report) = shared.site.as_deref().and_then(|source| source()) {
        text += &site::render(&report);
    }
    reply(StatusCode::OK, EXPOSITION, text)
}

async fn healthz(State(shared): State<Arc<Shared>>) -> Response {
    match shared.live.lock().await.look(false, PATIENCE).await {
        Some(_) => reply(StatusCode::OK, TEXT, "alive\n".to_owned()),
        None => {
            let body = "the data thread does not answer\n".to_owned();
            reply(StatusCode::SERVICE_UNAVAILABLE, TEXT, body)
        }
    }
}

async fn readyz(State(shared): State<Arc<Shared>>, RawQuery(query): RawQuery) -> Response {
    readiness(&judge(shared.live.lock().await.look(false, PATIENCE).await), query)
}

/// With `?strict`, what makes it unsafe counts as well.
pub(crate) fn readiness(reasons: &[Reason], query: Option<String>) -> Response {
    let strict = query.is_some_and(|query| {
        query.split('&').any(|part| matches!(part, "strict" | "strict=1" | "strict=true"))
    });
    let not_ready = reasons.iter().any(|reason| reason.blocking || (strict && reason.endangers()));
    let code = if not_ready { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    reply(code, JSON, to_json(reasons))
}

async fn how_the_site_is(State(shared): State<Arc<Shared>>) -> Response {
    let arrived = match &shared.site {
        Some(_) => {
            shared.live.lock().await.look(false, PATIENCE).await.map(|seen| seen.node.counters.arrived_bytes)
        }
        None => None,
    };
    let known = |report| match arrived {
        Some(bytes) => site::with_arrived(report, bytes),
        None => report,
    };
    match shared.site.as_deref().map(|source| source().map(known)) {
        Some(Some(report)) => match serde_json::to_string_pretty(&report) {
            Ok(body) => reply(StatusCode::OK, JSON, body + "\n"),
            Err(error) => reply(StatusCode::INTERNAL_SERVER_ERROR, TEXT, format!("{error}\n")),
        },
        Some(None) => {
            let body = "the uplink has not begun yet\n".to_owned();
            reply(StatusCode::SERVICE_UNAVAILABLE, TEXT, body)
        }
        None => {
            let body = "this broker joins no site to others: site.name is not given\n".to_owned();
            reply(StatusCode::NOT_FOUND, TEXT, body)
        }
    }
}

async fn status(State(shared): State<Arc<Shared>>) -> Response {
    let Ok(_permit) = shared.asking.acquire().await else {
        return reply(StatusCode::SERVICE_UNAVAILABLE, TEXT, "ended\n".to_owned());
    };
    let source = Arc::clone(&shared.status);
    match tokio::task::spawn_blocking(move || source()).await {
        Ok(Ok(body)) => reply(StatusCode::OK, JSON, body),
        Ok(Err(text)) => reply(StatusCode::SERVICE_UNAVAILABLE, TEXT, text + "\n"),
        Err(_) => reply(StatusCode::INTERNAL_SERVER_ERROR, TEXT, "the status could not be made\n".to_owned()),
    }
}

async fn unknown() -> Response {
    let body = "there is /metrics, /healthz, /readyz, /api/v1/status and, where a site is joined to others, /api/v1/site\n".to_owned();
    reply(StatusCode::NOT_FOUND, TEXT, body)
}
