//! The request with which a WebSocket begins, and its answer.

use tungstenite::handshake::machine::TryParse;
use tungstenite::handshake::server::{Request, create_response, write_response};
use tungstenite::http::HeaderValue;

/// The longest request.
const REQUEST_BYTES_MAX: usize = 8 << 10;
/// Where MQTT is spoken.
const PATHS: [&str; 2] = ["/mqtt", "/"];
/// What is spoken, as MQTT's standard names it.
const SUBPROTOCOL: &str = "mqtt";

/// What is said to a request.
pub(super) enum Answer {
    /// Its end has not come.
    Incomplete,
    /// It had so many bytes, and is welcome.
    Welcome { used: usize, response: Vec<u8> },
    /// It is not.
    Refused { reason: String, response: Vec<u8> },
}

/// Answers a request, of which at least the beginning is there.
pub(super) fn answer(bytes: &[u8]) -> Answer {
    let (used, request) = match Request::try_parse(bytes) {
        Ok(Some((used, request))) if used <= REQUEST_BYTES_MAX => (used, request),
        Ok(None) if bytes.len() <= REQUEST_BYTES_MAX => return Answer::Incomplete,
        Ok(_) => return refused("431 Request Header Fields Too Large", "its request is longer than 8 KiB"),
        Err(_) => return refused("400 Bad Request", "what comes is no GET request of HTTP"),
    };
    let path = request.uri().path();
    if !PATHS.contains(&path) {
        return refused("404 Not Found", &format!("it asks for {:?}; MQTT is at /mqtt", shortened(path)));
    }
    let offered = request.headers().get_all("Sec-WebSocket-Protocol").into_iter();
    let offers_mqtt = offered
        .filter_map(|value| value.to_str().ok())
        .flat_map(|list| list.split(','))
        .any(|name| name.trim() == SUBPROTOCOL);
    let mut response = match create_response(&request) {
        Ok(response) => response,
        Err(error) => {
            return refused(
                "426 Upgrade Required",
                &format!("it asks for no WebSocket that is known: {error}"),
            );
        }
    };
    if !offers_mqtt {
        return refused("400 Bad Request", "it does not offer the subprotocol `mqtt`");
    }
    response.headers_mut().insert("Sec-WebSocket-Protocol", HeaderValue::from_static(SUBPROTOCOL));
    let mut text = Vec::new();
    match write_response(&mut text, &response) {
        Ok(()) => Answer::Welcome { used, response: text },
        Err(error) => refused("400 Bad Request", &error.to_string()),
    }
}

fn refused(status: &str, reason: &str) -> Answer {
    let body = format!("{reason}\n");
    let response = format!(
        "HTTP/1.1 {status}\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nConnection: close\r\n\
         Content-Type: text/plain\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    Answer::Refused { reason: reason.to_owned(), response: response.into_bytes() }
}

fn shortened(path: &str) -> String {
    const CHARACTERS: usize = 64;
    path.chars().take(CHARACTERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "GET /mqtt HTTP/1.1\r\nHost: plant\r\nUpgrade: WebSocket\r\nConnection: keep-alive, Upgrade\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
        Sec-WebSocket-Protocol: mqttv3.1, mqtt\r\n\r\n";

    fn status(request: &str) -> String {
        match answer(request.as_bytes()) {
            Answer::Incomplete => "incomplete".to_owned(),
            Answer::Welcome { response, .. } | Answer::Refused { response, .. } => {
                let text = String::from_utf8(response).unwrap();
                text.split(' ').nth(1).unwrap_or("").to_owned()
            }
        }
    }

    #[test]
    fn a_good_request_is_answered_as_the_standard_says() {
        let Answer::Welcome { used, response } = answer(format!("{GOOD}early").as_bytes()) else {
            panic!("refused");
        };
        assert_eq!(used, GOOD.len());
        let text = String::from_utf8(response).unwrap().to_lowercase();
        assert!(text.starts_with("http/1.1 101 ") && text.ends_with("\r\n\r\n"), "{text}");
        // The example of RFC 6455, section 1.3.
        assert!(text.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=\r\n"), "{text}");
        assert!(text.contains("sec-websocket-protocol: mqtt\r\n"), "{text}");
        assert_eq!(status(&GOOD.replace("/mqtt", "/")), "101");
        assert_eq!(status(&GOOD.replace("/mqtt", "/mqtt?token=1")), "101");
    }

    #[test]
    fn every_piece_of_a_good_request_is_incomplete() {
        assert!((0..GOOD.len()).all(|end| matches!(answer(&GOOD.as_bytes()[..end]), Answer::Incomplete)));
    }

    #[test]
    fn other_requests_are_refused_with_what_is_wrong() {
        let long = format!("x-filler: {}\r\n\r\n", "y".repeat(REQUEST_BYTES_MAX));
        for (request, wanted) in [
            (GOOD.replace("/mqtt", "/admin"), "404"),
            (GOOD.replace("GET", "POST"), "400"),
            (GOOD.replace(": 13", ": 8"), "426"),
            (GOOD.replace("Upgrade: WebSocket\r\n", ""), "426"),
            (GOOD.replace("dGhlIHNhbXBsZSBub25jZQ==", "short"), "426"),
            (GOOD.replace("mqttv3.1, mqtt", "chat"), "400"),
            ("\u{16}\u{3}\u{1} hello\r\n\r\n".to_owned(), "400"),
            (GOOD.replace("\r\n\r\n", &format!("\r\n{long}")), "431"),
            (GOOD.replace("\r\n\r\n", &format!("\r\n{}", long.trim_end())), "431"),
        ] {
            assert_eq!(status(&request), wanted, "{}", &request[..request.len().min(300)]);
        }
    }
}
