//! What is told when the service goes and comes back, when a session ends, and when somebody is not let in.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod service;

use coordination::{Event, Login, REQUESTS_QUEUED_MAX, Settings, TOLD_MAX, Trouble, ZooKeeper};
use federation::{Lasting, Operation, REQUESTS_MAX, Refusal, Reply, Request, Session};
use service::{Server, Talk};
use std::sync::Arc;

fn create(path: &str, lasting: Lasting) -> Operation {
    Operation::Create { path: path.to_owned(), data: b"x".to_vec(), lasting }
}

fn read(path: &str) -> Request {
    Request::Read { path: path.to_owned() }
}

#[test]
fn a_session_outlives_a_server_that_is_killed_and_started_on_its_data() {
    let Some(mut server) = Server::start() else { return };
    let (mut talk, session) = Talk::connected(server.settings("/away"));
    let write = Request::Write(vec![create("/mine", Lasting::Ephemeral)]);
    assert_eq!(talk.answer(write), Reply::Written(vec![None]));
    server.kill();
    talk.until("away", |talk| talk.sessions.last() == Some(&Session::Away));
    server.run();
    assert_eq!(talk.until_connected(), session);
    let Reply::Node(Some(node)) = talk.answer(read("/mine")) else { panic!("{:?}", talk.told) };
    assert_eq!((node.stat.owner, node.data.as_slice()), (session, b"x".as_slice()));
    assert!(!talk.sessions.contains(&Session::Expired));
}

#[test]
fn a_session_is_gone_on_with_after_longer_than_the_client_waits_for_itself() {
    let Some(mut server) = Server::start() else { return };
    let settings = Settings { session_time_out: contract::Span::secs(2), ..server.settings("/away") };
    let (mut talk, session) = Talk::connected(settings);
    let write = Request::Write(vec![create("/mine", Lasting::Ephemeral)]);
    assert_eq!(talk.answer(write), Reply::Written(vec![None]));
    server.kill();
    // By then the client has given the session up, and the driver has tried to go on with it.
    let unreachable = |event: &Event| matches!(event, Event::Trouble(Trouble::Unreachable { .. }));
    talk.until("trouble is told", |talk| talk.told.iter().any(unreachable));
    server.run();
    // The server began to wait anew when it started, and the driver may come a little later than that.
    let after = talk.until_connected();
    assert_eq!(after == session, !talk.sessions.contains(&Session::Expired));
    let mine = talk.answer(read("/mine"));
    assert_eq!(after == session, matches!(mine, Reply::Node(Some(_))), "{mine:?} {:?}", talk.told);
}

#[test]
fn a_session_that_the_service_ends_is_followed_by_a_new_one() {
    let Some(server) = Server::start() else { return };
    let settings = Settings { session_time_out: contract::Span::secs(1), ..server.settings("/ends") };
    let relay = service::Relay::start(server.port);
    let through = Settings { servers: format!("127.0.0.1:{}", relay.port), ..settings.clone() };
    let (mut talk, session) = Talk::connected(through);
    let (mut other, _) = Talk::connected(settings);
    let write = Request::Write(vec![create("/mine", Lasting::Ephemeral)]);
    assert_eq!(talk.answer(write), Reply::Written(vec![None]));
    assert!(matches!(other.answer(read("/mine")), Reply::Node(Some(_))));
    relay.cut(true);
    other.until("it is gone", |other| other.rings == ["/mine"]);
    assert_eq!(other.answer(read("/mine")), Reply::Node(None));
    relay.cut(false);
    talk.until("it is told", |talk| talk.sessions.contains(&Session::Expired));
    assert_ne!(talk.until_connected(), session);
    let told = &talk.sessions;
    assert_eq!(told[..3], [Session::Connected(session), Session::Away, Session::Expired], "{told:?}");
}

#[test]
fn what_a_session_owns_goes_at_once_when_it_is_closed_and_stays_when_it_is_abandoned() {
    let Some(server) = Server::start() else { return };
    let settings = Settings { session_time_out: contract::Span::secs(2), ..server.settings("/left") };
    let (mut one, _) = Talk::connected(settings.clone());
    let (mut two, owner) = Talk::connected(settings.clone());
    let (mut other, _) = Talk::connected(settings);
    one.answer(Request::Write(vec![create("/one", Lasting::Ephemeral)]));
    two.answer(Request::Write(vec![create("/two", Lasting::Ephemeral)]));
    one.zookeeper.close();
    assert_eq!(other.answer(read("/one")), Reply::Node(None));
    two.zookeeper.abandon();
    let Reply::Node(Some(node)) = other.answer(read("/two")) else { panic!("{:?}", other.told) };
    assert_eq!(node.stat.owner, owner);
    other.until("it times out", |other| other.rings.contains(&"/two".to_owned()));
}

#[test]
fn nothing_waits_while_there_is_no_service() {
    let settings = Settings::new("127.0.0.1:1", "/none");
    let mut talk = Talk::new(settings);
    talk.until("trouble is told", |talk| matches!(talk.told.first(), Some(Event::Trouble(_))));
    let Some(Event::Trouble(trouble)) = talk.told.first() else { panic!("{:?}", talk.told) };
    let words = trouble.to_string();
    assert!(words.starts_with("no coordination service at 127.0.0.1:1"), "{words}");
    assert_eq!(talk.answer(read("/x")), Reply::Lost);
    assert!(talk.sessions.is_empty());
    talk.zookeeper.close();
    let never = ZooKeeper::connect(Settings::new("", "/x"), Arc::new(|| ()));
    assert!(never.is_err());
}

#[test]
fn nodes_are_for_their_user_alone() {
    let Some(server) = Server::start() else { return };
    let login = |password: &str| {
        let login = Login::Digest { user: "verge".to_owned(), password: password.to_owned() };
        Settings { login: Some(login), ..server.settings("/locked/up") }
    };
    let (mut right, _) = Talk::connected(login("right"));
    let write = Request::Write(vec![create("/a", Lasting::Persistent)]);
    assert_eq!(right.answer(write), Reply::Written(vec![None]));
    let (mut wrong, _) = Talk::connected(login("wrong"));
    let forbidden = Reply::Refused { operation: 0, why: Refusal::Forbidden };
    assert_eq!(wrong.answer(read("/a")), forbidden);
    let set = Operation::Set { path: "/a".to_owned(), data: Vec::new(), version: None };
    let check = Operation::Check { path: "/a".to_owned(), version: None };
    let later = wrong.answer(Request::Write(vec![check, set]));
    assert!(matches!(later, Reply::Refused { why: Refusal::Forbidden, .. }), "{later:?}");
    let told = wrong.told.iter().find_map(|event| match event {
        Event::Trouble(trouble) => Some(trouble.to_string()),
        _ => None,
    });
    assert!(told.is_some_and(|words| words.contains("/a") && words.contains("verge")), "{:?}", wrong.told);
    let Reply::Node(Some(_)) = right.answer(read("/a")) else { panic!("{:?}", right.told) };
}

#[test]
fn as_many_as_may_be_are_asked_at_once_and_done_in_order() {
    let Some(server) = Server::start() else { return };
    let (mut talk, _) = Talk::connected(server.settings("/many"));
    let write = Request::Write(vec![create("/n", Lasting::Persistent)]);
    assert_eq!(talk.answer(write), Reply::Written(vec![None]));
    let tickets: Vec<_> = (0..REQUESTS_MAX)
        .map(|number| {
            let (path, data) = ("/n".to_owned(), number.to_string().into_bytes());
            let version = Some(number as i32);
            talk.send(Request::Write(vec![Operation::Set { path, data, version }]))
        })
        .collect();
    talk.until("all are done", |talk| talk.replies.len() == REQUESTS_MAX);
    assert!(tickets.iter().all(|ticket| talk.replies[ticket] == Reply::Written(vec![None])));
}

#[test]
fn what_is_read_again_rings_once_and_what_all_stands_below_comes_back() {
    let Some(server) = Server::start() else { return };
    let (mut talk, _) = Talk::connected(server.settings("/gone"));
    (0..5).for_each(|_| assert_eq!(talk.answer(read("/a")), Reply::Node(None)));
    let write = Request::Write(vec![create("/a", Lasting::Persistent)]);
    talk.answer(write.clone());
    assert_eq!(talk.rings, ["/a"]);
    let delete = |path: &str| Operation::Delete { path: path.to_owned(), version: None };
    let (mut top, _) = Talk::connected(server.settings("/gone"));
    top.answer(Request::Write(vec![delete("/a")]));
    service::remove(&server, "/gone");
    let refused = Reply::Refused { operation: 0, why: Refusal::Missing };
    assert_eq!(talk.answer(write.clone()), refused);
    assert_eq!(talk.answer(write), Reply::Written(vec![None]));
}

#[test]
fn whoever_does_not_listen_is_not_told_more_than_may_wait_and_keeps_its_session() {
    let Some(server) = Server::start() else { return };
    let settings = Settings { session_time_out: contract::Span::secs(1), ..server.settings("/deaf") };
    let (mut talk, session) = Talk::connected(settings);
    let mut asked = Vec::new();
    let most = TOLD_MAX + REQUESTS_MAX + REQUESTS_QUEUED_MAX + 2;
    let begun = std::time::Instant::now();
    // It goes on until nothing has been taken for a second: then all queues are full.
    let mut last = begun;
    while last.elapsed() < std::time::Duration::from_secs(1) {
        if talk.zookeeper.has_room() {
            asked.push(talk.send(read("/x")));
            last = std::time::Instant::now();
        }
        assert!(asked.len() <= most && begun.elapsed() < service::LONG, "{}", asked.len());
    }
    assert!(asked.len() >= TOLD_MAX + REQUESTS_QUEUED_MAX, "{}", asked.len());
    std::thread::sleep(std::time::Duration::from_secs(2));
    talk.until("all are answered", |talk| talk.replies.len() == asked.len());
    assert_eq!(talk.sessions, [Session::Connected(session)]);
}
