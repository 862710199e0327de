//! What is said to a proxy so that it makes a connection and carries it: CONNECT of HTTP (RFC 9110, section 9.3.6), and SOCKS version 5
//! (RFC 1928, with the login of RFC 1929).
//!
//! A name is said as it is, and looked up by the proxy: who stands behind one often cannot.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// The longest answer of a proxy of HTTP.
pub const ANSWER_BYTES_MAX: usize = 8 << 10;
/// Header lines in it.
const HEADERS_MAX: usize = 64;
/// The longest name, user and password: SOCKS says how long they are in one byte.
const TEXT_BYTES_MAX: usize = 255;

const SOCKS: u8 = 5;
const NO_LOGIN: u8 = 0;
const WITH_LOGIN: u8 = 2;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// What a proxy speaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProxyKind {
    /// HTTP/1.1, with the method CONNECT.
    Http,
    /// SOCKS version 5.
    Socks5,
}

/// A connection that a proxy is asked for.
#[derive(Clone, PartialEq, Eq)]
pub struct Tunnel {
    kind: ProxyKind,
    host: Box<str>,
    port: u16,
    login: Option<(Box<str>, Box<str>)>,
}

/// Without the password.
impl fmt::Debug for Tunnel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} to {}:{}", self.kind, self.host, self.port)
    }
}

/// Why a connection cannot be asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TunnelError {
    /// The host is empty, too long, or has signs that no host has.
    #[error("a host has 1 to 255 letters, digits, `-`, `.` and `_`, or is an address")]
    Host,
    /// The user or the password cannot be said.
    #[error(
        "the user and the password for the proxy have 1 to 255 bytes each, no control signs, and the user no `:`"
    )]
    Login,
}

impl Tunnel {
    /// A connection to this host and port; `host` is a name or an address, one of IPv6 with or without brackets. `login`: a user with a password.
    ///
    /// # Errors
    ///
    /// What cannot be said to a proxy.
    pub fn new(
        kind: ProxyKind,
        host: &str,
        port: u16,
        login: Option<(&str, &str)>,
    ) -> Result<Tunnel, TunnelError> {
        let host = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        let is_name = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '-' | '.' | '_');
        let fits = |text: &str| (1..=TEXT_BYTES_MAX).contains(&text.len());
        if !fits(host) || (host.parse::<IpAddr>().is_err() && !host.chars().all(is_name)) {
            return Err(TunnelError::Host);
        }
        let can_be_said = |text: &str| fits(text) && !text.chars().any(char::is_control);
        if login.is_some_and(|(user, password)| {
            !can_be_said(user) || user.contains(':') || !can_be_said(password)
        }) {
            return Err(TunnelError::Login);
        }
        let login = login.map(|(user, password)| (user.into(), password.into()));
        Ok(Tunnel { kind, host: host.into(), port, login })
    }

    /// Begins, on a connection to the proxy. Returns what is said first.
    pub fn begin(self: &Arc<Tunnel>) -> (Tunnelling, Vec<u8>) {
        let (stage, first) = match self.kind {
            ProxyKind::Http => (Stage::Http, self.connect_line()),
            ProxyKind::Socks5 if self.login.is_some() => {
                (Stage::Method, vec![SOCKS, 2, NO_LOGIN, WITH_LOGIN])
            }
            ProxyKind::Socks5 => (Stage::Method, vec![SOCKS, 1, NO_LOGIN]),
        };
        (Tunnelling { tunnel: Arc::clone(self), stage, heard: Vec::new() }, first)
    }

    fn connect_line(&self) -> Vec<u8> {
        let Tunnel { host, port, .. } = self;
        let to = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        let mut text = format!("CONNECT {to} HTTP/1.1\r\nHost: {to}\r\n");
        if let Some((user, password)) = &self.login {
            let login = BASE64_STANDARD.encode(format!("{user}:{password}"));
            text += &format!("Proxy-Authorization: Basic {login}\r\n");
        }
        text += "\r\n";
        text.into_bytes()
    }

    fn login(&self) -> Vec<u8> {
        let (user, password) = self.login.as_ref().map_or(("", ""), |(user, password)| (user, password));
        let mut bytes = vec![1];
        for text in [user, password] {
            bytes.push(text.len() as u8);
            bytes.extend_from_slice(text.as_bytes());
        }
        bytes
    }

    fn request(&self) -> Vec<u8> {
        let mut bytes = vec![SOCKS, CONNECT, 0];
        match self.host.parse() {
            Ok(IpAddr::V4(address)) => {
                bytes.push(IPV4);
                bytes.extend_from_slice(&address.octets());
            }
            Ok(IpAddr::V6(address)) => {
                bytes.push(IPV6);
                bytes.extend_from_slice(&address.octets());
            }
            Err(_) => {
                bytes.extend_from_slice(&[NAME, self.host.len() as u8]);
                bytes.extend_from_slice(self.host.as_bytes());
            }
        }
        bytes.extend_from_slice(&self.port.to_be_bytes());
        bytes
    }
}

/// A proxy that is being asked.
#[derive(Debug)]
pub struct Tunnelling {
    tunnel: Arc<Tunnel>,
    stage: Stage,
    /// What has come and was not used; never longer than an answer may be, and what was read at once.
    heard: Vec<u8>,
}

/// What is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Http,
    Method,
    Login,
    Answer,
}

/// Why there is no connection through a proxy.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TunnelRefused {
    /// What answers speaks something else.
    #[error("what answers there is no proxy of {0}: correct uplink.proxy")]
    Stranger(&'static str),
    /// It wants a user, and none is configured.
    #[error("it wants a user: give uplink.proxy_user and uplink.proxy_password_file")]
    LoginMissing,
    /// It knows the user not, or by another password.
    #[error("it turns the user away: correct uplink.proxy_user, or the password")]
    LoginWrong,
    /// It does not connect, and says why.
    #[error("it does not connect to {to}: {why}")]
    Refused {
        /// Host and port.
        to: String,
        /// What it says.
        why: String,
    },
}

const STRANGER: TunnelRefused = TunnelRefused::Stranger("SOCKS version 5");

impl Tunnelling {
    /// Takes what has come. Appends to `say` what is to be sent. Once the proxy carries the connection, returns what has come of it behind the
    /// last answer.
    ///
    /// # Errors
    ///
    /// The proxy does not connect.
    pub fn hear(&mut self, bytes: &[u8], say: &mut Vec<u8>) -> Result<Option<Vec<u8>>, TunnelRefused> {
        self.heard.extend_from_slice(bytes);
        loop {
            let used = match self.stage {
                Stage::Http => return self.hear_http(),
                Stage::Method => self.hear_method(say)?,
                Stage::Login => self.hear_login(say)?,
                Stage::Answer => return self.hear_answer(),
            };
            match used {
                0 => return Ok(None),
                used => _ = self.heard.drain(..used.min(self.heard.len())),
            }
        }
    }

    fn hear_http(&mut self) -> Result<Option<Vec<u8>>, TunnelRefused> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut headers);
        match response.parse(&self.heard) {
            Ok(httparse::Status::Complete(used)) if used <= ANSWER_BYTES_MAX => {
                let (code, reason) = (response.code.unwrap_or_default(), response.reason.unwrap_or_default());
                match (code, &self.tunnel.login) {
                    (200..300, _) => Ok(Some(self.heard.split_off(used))),
                    (407, None) => Err(TunnelRefused::LoginMissing),
                    (407, Some(_)) => Err(TunnelRefused::LoginWrong),
                    _ => Err(self.refused(format!("{code} {}", reason.escape_debug()))),
                }
            }
            Ok(httparse::Status::Partial) if self.heard.len() <= ANSWER_BYTES_MAX => Ok(None),
            Ok(_) | Err(_) => Err(TunnelRefused::Stranger("HTTP")),
        }
    }

    fn hear_method(&mut self, say: &mut Vec<u8>) -> Result<usize, TunnelRefused> {
        if self.heard.first().is_some_and(|version| *version != SOCKS) {
            return Err(STRANGER);
        }
        let Some(&method) = self.heard.get(1) else { return Ok(0) };
        let (stage, next) = match (method, &self.tunnel.login) {
            (NO_LOGIN, _) => (Stage::Answer, self.tunnel.request()),
            (WITH_LOGIN, Some(_)) => (Stage::Login, self.tunnel.login()),
            (_, None) => return Err(TunnelRefused::LoginMissing),
            (_, Some(_)) => return Err(TunnelRefused::LoginWrong),
        };
        self.stage = stage;
        say.extend_from_slice(&next);
        Ok(2)
    }

    fn hear_login(&mut self, say: &mut Vec<u8>) -> Result<usize, TunnelRefused> {
        let Some(&status) = self.heard.get(1) else { return Ok(0) };
        if status != 0 {
            return Err(TunnelRefused::LoginWrong);
        }
        self.stage = Stage::Answer;
        say.extend_from_slice(&self.tunnel.request());
        Ok(2)
    }

    fn hear_answer(&mut self) -> Result<Option<Vec<u8>>, TunnelRefused> {
        let heard = self.heard.as_slice();
        if heard.first().is_some_and(|version| *version != SOCKS) {
            return Err(STRANGER);
        }
        // Who refuses may leave the rest out.
        if let Some(why) = heard.get(1).copied().and_then(socks_reason) {
            return Err(self.refused(why));
        }
        let address = match (heard.get(3), heard.get(4)) {
            (Some(&IPV4), _) => 4,
            (Some(&IPV6), _) => 16,
            (Some(&NAME), Some(length)) => 1 + usize::from(*length),
            (Some(&NAME), None) | (None, _) => return Ok(None),
            (Some(_), _) => return Err(STRANGER),
        };
        let all = 4 + address + 2;
        Ok((heard.len() >= all).then(|| self.heard.split_off(all)))
    }

    fn refused(&self, why: String) -> TunnelRefused {
        let Tunnel { host, port, .. } = &*self.tunnel;
        TunnelRefused::Refused { to: format!("{host}:{port}"), why }
    }
}

/// What an answer of SOCKS means that is not 0 (RFC 1928, section 6).
fn socks_reason(code: u8) -> Option<String> {
    Some(match code {
        0 => return None,
        1 => "general failure".to_owned(),
        2 => "its rules do not allow it".to_owned(),
        3 => "the network cannot be reached from there".to_owned(),
        4 => "the host cannot be reached from there, or its name is not known".to_owned(),
        5 => "nobody listens there".to_owned(),
        6 => "it took too long".to_owned(),
        7 => "it knows no CONNECT".to_owned(),
        8 => "it cannot reach addresses of this kind".to_owned(),
        code => format!("code {code}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    type Heard = Result<Option<Vec<u8>>, TunnelRefused>;

    fn tunnel(kind: ProxyKind, host: &str, login: Option<(&str, &str)>) -> Arc<Tunnel> {
        Arc::new(Tunnel::new(kind, host, 7571, login).unwrap())
    }

    /// What is said in all, and what comes of it, when the answers come in pieces of this many bytes.
    fn ask(tunnel: &Arc<Tunnel>, answers: &[u8], piece: usize) -> (Vec<u8>, Heard) {
        let (mut tunnelling, mut said) = tunnel.begin();
        for bytes in answers.chunks(piece) {
            match tunnelling.hear(bytes, &mut said) {
                Ok(None) => {}
                Ok(Some(mut early)) => {
                    let at = bytes.as_ptr() as usize - answers.as_ptr() as usize + bytes.len();
                    early.extend_from_slice(&answers[at..]);
                    return (said, Ok(Some(early)));
                }
                Err(refused) => return (said, Err(refused)),
            }
        }
        (said, Ok(None))
    }

    fn in_any_pieces(tunnel: &Arc<Tunnel>, answers: &[u8]) -> (Vec<u8>, Heard) {
        let whole = ask(tunnel, answers, answers.len().max(1));
        for piece in 1..answers.len() {
            assert_eq!(ask(tunnel, answers, piece), whole, "{piece}");
        }
        whole
    }

    #[test]
    fn http_is_asked_with_a_host_and_the_login_of_rfc_7617() {
        let asked = |host: &str, login| {
            let (_, first) = tunnel(ProxyKind::Http, host, login).begin();
            String::from_utf8(first).unwrap()
        };
        assert_eq!(
            asked("router.example", None),
            "CONNECT router.example:7571 HTTP/1.1\r\nHost: router.example:7571\r\n\r\n"
        );
        for host in ["[::1]", "::1"] {
            assert!(asked(host, None).starts_with("CONNECT [::1]:7571 HTTP/1.1\r\nHost: [::1]:7571\r\n"));
        }
        // The example of RFC 7617, section 2.
        let text = asked("router", Some(("Aladdin", "open sesame")));
        assert!(text.contains("\r\nProxy-Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n"), "{text}");
    }

    #[test]
    fn an_answer_of_http_opens_or_says_why_not() {
        let (nobody, user) = (None, Some(("verge", "secret")));
        let ask =
            |login, answer: &str| in_any_pieces(&tunnel(ProxyKind::Http, "r1", login), answer.as_bytes()).1;
        for open in
            ["HTTP/1.1 200 Connection established", "HTTP/1.0 200 OK\r\nVia: 1.0 plant", "HTTP/1.1 204 "]
        {
            let early = ask(nobody, &format!("{open}\r\n\r\nearly")).unwrap().unwrap();
            assert_eq!(early, b"early", "{open}");
        }
        assert_eq!(ask(nobody, "HTTP/1.1 407 No\r\n\r\n"), Err(TunnelRefused::LoginMissing));
        assert_eq!(ask(user, "HTTP/1.1 407 No\r\n\r\n"), Err(TunnelRefused::LoginWrong));
        let refused = ask(nobody, "HTTP/1.1 403 Forbidden\r\nContent-Length: 9\r\n\r\n<html>").unwrap_err();
        assert_eq!(refused.to_string(), "it does not connect to r1:7571: 403 Forbidden");
        assert_eq!(ask(nobody, "HTTP/1.1 200 OK\r\n"), Ok(None));
        for strange in ["\u{5}\u{0}", "SSH-2.0-OpenSSH_9.6\r\n"] {
            assert_eq!(ask(nobody, strange), Err(TunnelRefused::Stranger("HTTP")), "{strange:?}");
        }
        let endless = format!("HTTP/1.1 200 OK\r\nX: {}", "y".repeat(ANSWER_BYTES_MAX));
        let mut said = Vec::new();
        let (mut tunnelling, _) = tunnel(ProxyKind::Http, "r1", None).begin();
        assert_eq!(tunnelling.hear(endless.as_bytes(), &mut said), Err(TunnelRefused::Stranger("HTTP")));
    }

    #[test]
    fn socks_is_asked_by_name_or_by_address_with_and_without_a_login() {
        let opened = [SOCKS, 0, 0, IPV4, 0, 0, 0, 0, 0, 0, b'e'];
        let first = |login: bool| if login { vec![5, 2, 0, 2] } else { vec![5, 1, 0] };
        let port = [0x1d, 0x93];
        for (host, address) in [
            ("r1", &[3, 2, b'r', b'1'][..]),
            ("10.0.0.1", &[1, 10, 0, 0, 1]),
            ("[::1]", &[4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
        ] {
            let request = [&[5, 1, 0][..], address, &port].concat();
            let answers = [&[5, 0][..], &opened].concat();
            let (said, heard) = in_any_pieces(&tunnel(ProxyKind::Socks5, host, None), &answers);
            assert_eq!((said, heard), ([&first(false)[..], &request].concat(), Ok(Some(vec![b'e']))));
            // One that wants no login is not given one.
            let known = tunnel(ProxyKind::Socks5, host, Some(("u", "pw")));
            let (said, _) = in_any_pieces(&known, &answers);
            assert_eq!(said, [&first(true)[..], &request].concat());
            let answers = [&[5, 2, 1, 0][..], &opened].concat();
            let (said, heard) = in_any_pieces(&known, &answers);
            assert_eq!(said, [&first(true)[..], &[1, 1, b'u', 2, b'p', b'w'], &request].concat());
            assert_eq!(heard, Ok(Some(vec![b'e'])));
        }
    }

    #[test]
    fn an_answer_of_socks_opens_with_any_address_or_says_why_not() {
        let ask = |login, answer: &[u8]| in_any_pieces(&tunnel(ProxyKind::Socks5, "r1", login), answer).1;
        let user = Some(("verge", "secret"));
        let by_name = [5, 0, 5, 0, 0, NAME, 2, b'x', b'y', 1, 2];
        assert_eq!(ask(None, &by_name), Ok(Some(Vec::new())));
        assert_eq!(ask(None, &by_name[..10]), Ok(None));
        let ipv6 = [&[5, 0, 5, 0, 0, IPV6][..], &[0; 18]].concat();
        assert_eq!(ask(None, &ipv6), Ok(Some(Vec::new())));
        assert_eq!(ask(None, &[5, 0xff]), Err(TunnelRefused::LoginMissing));
        assert_eq!(ask(None, &[5, 2]), Err(TunnelRefused::LoginMissing));
        assert_eq!(ask(user, &[5, 0xff]), Err(TunnelRefused::LoginWrong));
        assert_eq!(ask(user, &[5, 2, 1, 1]), Err(TunnelRefused::LoginWrong));
        let refused = ask(None, &[5, 0, 5, 5]).unwrap_err();
        assert_eq!(refused.to_string(), "it does not connect to r1:7571: nobody listens there");
        for strange in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], &[4, 0], &[5, 0, 4], &[5, 0, 5, 0, 0, 9]] {
            assert_eq!(ask(None, strange), Err(STRANGER), "{strange:?}");
        }
    }

    #[test]
    fn what_cannot_be_said_is_refused_before_anything_is_sent() {
        let with = |host: &str, login| Tunnel::new(ProxyKind::Http, host, 1, login);
        for host in ["", "a b", "a\r\nX: y", "a/b", &"x".repeat(256)] {
            assert_eq!(with(host, None), Err(TunnelError::Host), "{host:?}");
        }
        let long = "x".repeat(256);
        for login in [("", "p"), ("u", ""), ("u:v", "p"), ("u", "p\n"), (&long, "p"), ("u", &long)] {
            assert_eq!(with("r1", Some(login)), Err(TunnelError::Login), "{login:?}");
        }
        let shown = format!("{:?}", with("r1", Some(("verge", "secret"))).unwrap());
        assert!(!shown.contains("secret"), "{shown}");
    }

    proptest::proptest! {
        #[test]
        fn whatever_a_proxy_says_is_heard(
            answers in proptest::collection::vec(proptest::num::u8::ANY, 0..64),
            piece in 1_usize..8,
            is_http: bool,
            known: bool,
        ) {
            let kind = if is_http { ProxyKind::Http } else { ProxyKind::Socks5 };
            let tunnel = tunnel(kind, "router.example", known.then_some(("verge", "secret")));
            let (_, in_pieces) = ask(&tunnel, &answers, piece);
            let (_, at_once) = ask(&tunnel, &answers, answers.len().max(1));
            proptest::prop_assert_eq!(in_pieces, at_once);
        }
    }
}
