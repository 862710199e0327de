//! Programs that offer and want things, over HTTP: what they ask, and how they are answered.
//!
//! What is offered or wanted lives as long as its request. The answer is a line of JSON for each topic that begins or ends, and an empty one now
//! and then, by which a program that has gone is noticed.

mod functions;
mod keeping;

use crate::report::PeerReport;
use crate::work::Work;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put as put_of};
use contract::Span;
use engine::{PutError, TEXT_BYTES_MAX, Where};
use futures_util::Stream;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rendezvous::Topic;
use report::RefusalReport;
use socket2::SockRef;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use store::{Answer, Query};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::{Interval, interval, timeout};

/// Things that are offered and wanted at once.
const PUT_MAX: usize = 1_024;
/// Connections at once, those of them among these. Who comes beyond that is told so.
const CONNECTIONS_MAX: usize = PUT_MAX + 128;
const FULL: &str = "this peer has as many requests as it takes: ask another one";
/// Lines that wait for a program; one that takes no more is let go.
const LINES_MAX: usize = 1_024;
/// How long a request may take to come, each of its two parts.
const COMES_WITHIN: Duration = Duration::from_secs(5);
/// How long a program may leave unread what is sent to it.
const UNREAD_FOR: Duration = Duration::from_secs(30);
/// How often an empty line is sent.
const EMPTY_EVERY: Duration = Duration::from_secs(5);
const LINES: &str = "application/x-ndjson";
const DOOR_RESTS: Duration = Duration::from_millis(100);

/// Something that a program has put.
pub(crate) struct Stands {
    pub(crate) number: u64,
    pub(crate) lines: mpsc::Receiver<String>,
}

/// Why something is not put.
pub(crate) enum NotPut {
    /// It is wrong.
    Wrong(PutError),
    /// The peer takes no part any more.
    Out,
}

/// What is asked of the peer.
pub(crate) enum Asked {
    /// Something is offered, or wanted.
    Put { offers: bool, text: String, answer: oneshot::Sender<Result<Stands, NotPut>> },
    /// It is over.
    Over { number: u64 },
    /// Brokers refuse a topic. Does anybody here have it?
    Refuse { topic: Topic, why: String, answer: oneshot::Sender<bool> },
    /// Something is to be kept, or deleted where it has no value.
    Keep {
        key: String,
        value: Option<Arc<[u8]>>,
        lasts: Span,
        answer: oneshot::Sender<Result<Answer, NotPut>>,
    },
    /// What is kept under this?
    Fetch { key: String, answer: oneshot::Sender<Result<Answer, NotPut>> },
    /// What is kept that is so?
    Look { query: Query, answer: oneshot::Sender<Result<Answer, NotPut>> },
    /// A function is to be kept, or removed where it has no text.
    KeepFunction {
        name: String,
        function: Option<(Where, Arc<[u8]>)>,
        answer: oneshot::Sender<Result<Answer, NotPut>>,
    },
    /// A function is to run for so long, or to stop.
    StartFunction { name: String, lasts: Option<Span>, answer: oneshot::Sender<Result<Answer, NotPut>> },
    /// Which functions are there?
    LookForFunctions { limit: usize, answer: oneshot::Sender<Result<Answer, NotPut>> },
    /// How is it?
    Report { answer: oneshot::Sender<PeerReport> },
}

/// Lines for a program.
pub(crate) fn lines() -> (mpsc::Sender<String>, mpsc::Receiver<String>) {
    mpsc::channel(LINES_MAX)
}

#[derive(Clone)]
struct Peer {
    asks: mpsc::Sender<Asked>,
    /// For what is put.
    places: Arc<Semaphore>,
    /// For what is kept.
    keeping: Arc<Semaphore>,
    /// Who runs functions.
    work: Option<Arc<dyn Work>>,
}

/// Answers programs, as long as the runtime lives.
pub(crate) async fn attend(door: TcpListener, asks: mpsc::Sender<Asked>, work: Option<Arc<dyn Work>>) {
    let keeping = Arc::new(Semaphore::new(keeping::KEEPING_MAX));
    let peer = Peer { asks, places: Arc::new(Semaphore::new(PUT_MAX)), keeping, work };
    let router = Router::new()
        .route("/api/v1/offer", post(offer))
        .route("/api/v1/want", post(want))
        .route("/api/v1/refuse", post(refuse))
        .route("/api/v1/peer", get(report))
        .route("/api/v1/store/{*key}", get(keeping::fetch).put(keeping::keep).delete(keeping::remove))
        .route("/api/v1/query", post(keeping::look))
        .route("/api/v1/functions", get(functions::list))
        .route("/api/v1/functions/{name}", put_of(functions::add).delete(functions::remove))
        .route("/api/v1/functions/{name}/start", post(functions::start).delete(functions::stop))
        .route("/api/v1/functions/{name}/trace", get(functions::trace))
        .route("/api/v1/running", get(functions::running))
        .fallback(unknown)
        .with_state(peer);
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok((stream, _)) = door.accept().await else {
            tokio::time::sleep(DOOR_RESTS).await;
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            // What does not go at once does not matter.
            let words = format!("HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n\r\n{FULL}\n");
            _ = stream.try_write(words.as_bytes());
            continue;
        };
        _ = stream.set_nodelay(true);
        _ = SockRef::from(&stream).set_tcp_user_timeout(Some(UNREAD_FOR));
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            // What went wrong with one request concerns whoever made it.
            _ = http1::Builder::new()
                .keep_alive(false)
                .timer(TokioTimer::new())
                .header_read_timeout(COMES_WITHIN)
                .serve_connection(TokioIo::new(stream), service)
                .await;
            drop(place);
        });
    }
}

async fn offer(State(peer): State<Peer>, head: HeaderMap, text: Body) -> Response {
    put(peer, true, &head, text).await
}

async fn want(State(peer): State<Peer>, head: HeaderMap, text: Body) -> Response {
    put(peer, false, &head, text).await
}

async fn put(peer: Peer, offers: bool, head: &HeaderMap, text: Body) -> Response {
    if let Some(refused) = refused_page(head) {
        return refused;
    }
    let Ok(place) = Arc::clone(&peer.places).try_acquire_owned() else {
        return refusal(StatusCode::SERVICE_UNAVAILABLE, FULL);
    };
    let text = match timeout(COMES_WITHIN, to_bytes(text, TEXT_BYTES_MAX)).await {
        Ok(Ok(text)) => text,
        Ok(Err(_)) => {
            let why =
                format!("what is offered or wanted may have {TEXT_BYTES_MAX} bytes: say it more shortly");
            return refusal(StatusCode::PAYLOAD_TOO_LARGE, &why);
        }
        Err(_) => return refusal(StatusCode::REQUEST_TIMEOUT, "what is offered or wanted does not come"),
    };
    let Ok(text) = std::str::from_utf8(&text) else {
        return refusal(StatusCode::BAD_REQUEST, "this is no UTF-8");
    };
    let (answer, answered) = oneshot::channel();
    let asked = peer.asks.send(Asked::Put { offers, text: text.trim().to_owned(), answer }).await;
    match (asked, answered.await) {
        (Ok(()), Ok(Ok(stands))) => {
            let lines = Lines { stands, asks: peer.asks, empty: interval(EMPTY_EVERY), _place: place };
            ([(header::CONTENT_TYPE, LINES)], Body::from_stream(lines)).into_response()
        }
        (Ok(()), Ok(Err(why))) => why.response(),
        _ => refusal(StatusCode::SERVICE_UNAVAILABLE, "the peer ends"),
    }
}

/// The longest word of a refusal.
const REFUSAL_BYTES_MAX: usize = 16 << 10;

async fn refuse(State(peer): State<Peer>, head: HeaderMap, body: Body) -> Response {
    if let Some(refused) = refused_page(&head) {
        return refused;
    }
    let body = timeout(COMES_WITHIN, to_bytes(body, REFUSAL_BYTES_MAX)).await;
    let said = body.ok().and_then(Result::ok).and_then(|body| serde_json::from_slice(&body).ok());
    let Some(RefusalReport { topic, why }) = said else {
        return refusal(StatusCode::BAD_REQUEST, "write {\"topic\": \"rv/...\", \"why\": \"...\"}");
    };
    let topic = match topic.parse::<Topic>() {
        Ok(topic) => topic,
        Err(wrong) => return refusal(StatusCode::BAD_REQUEST, &wrong.to_string()),
    };
    // It stands in lines of JSON and in terminals.
    let why: String = why.chars().filter(|letter| !letter.is_control()).collect();
    let (answer, answered) = oneshot::channel();
    let asked = peer.asks.send(Asked::Refuse { topic, why, answer }).await;
    match (asked, answered.await) {
        (Ok(()), Ok(true)) => "the other end is told\n".into_response(),
        (Ok(()), Ok(false)) => refusal(StatusCode::NOT_FOUND, "nobody who asked this peer has that topic"),
        _ => refusal(StatusCode::SERVICE_UNAVAILABLE, "the peer ends"),
    }
}

/// Pages of browsers are turned away.
fn refused_page(head: &HeaderMap) -> Option<Response> {
    let why = "pages of a browser may not ask a peer: anybody could have written them";
    head.contains_key(header::ORIGIN).then(|| refusal(StatusCode::FORBIDDEN, why))
}

impl NotPut {
    fn response(self) -> Response {
        match self {
            NotPut::Wrong(why) => refusal(StatusCode::BAD_REQUEST, &why.to_string()),
            NotPut::Out => refusal(
                StatusCode::SERVICE_UNAVAILABLE,
                "another peer has this one's name, and this one takes no part: ask another one",
            ),
        }
    }
}

async fn report(State(peer): State<Peer>) -> Response {
    let (answer, answered) = oneshot::channel();
    let asked = peer.asks.send(Asked::Report { answer }).await;
    match (asked, answered.await) {
        (Ok(()), Ok(report)) => match serde_json::to_string_pretty(&report) {
            Ok(body) => ([(header::CONTENT_TYPE, "application/json")], body + "\n").into_response(),
            Err(error) => refusal(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
        },
        _ => refusal(StatusCode::SERVICE_UNAVAILABLE, "the peer ends"),
    }
}

async fn unknown() -> Response {
    refusal(
        StatusCode::NOT_FOUND,
        "there is /api/v1/peer, POST of a profile to /api/v1/offer, of an interest to /api/v1/want and /api/v1/query, of a refusal to /api/v1/refuse, PUT, GET and DELETE of /api/v1/store/PROFILE, /api/v1/functions, PUT and DELETE of /api/v1/functions/NAME, POST and DELETE of /api/v1/functions/NAME/start, /api/v1/functions/NAME/trace, and /api/v1/running",
    )
}

fn refusal(code: StatusCode, why: &str) -> Response {
    (code, format!("{why}\n")).into_response()
}

/// The lines of an answer. When it ends, what was put is over.
struct Lines {
    stands: Stands,
    asks: mpsc::Sender<Asked>,
    empty: Interval,
    _place: OwnedSemaphorePermit,
}

impl Stream for Lines {
    type Item = Result<String, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Poll::Ready(line) = self.stands.lines.poll_recv(context) {
            return Poll::Ready(line.map(Ok));
        }
        self.empty.poll_tick(context).map(|_| Some(Ok("\n".to_owned())))
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        let (asks, number) = (self.asks.clone(), self.stands.number);
        // Nobody is to be told when the peer ends.
        tokio::spawn(async move { _ = asks.send(Asked::Over { number }).await });
    }
}
