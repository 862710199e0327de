//! Connections whose bytes are not those of their nodes: TLS, WebSocket.

use super::Network;
use crate::transport::End;
use engine::driving::READ_BYTES;
use rustix::net::{self, SendFlags};
use wire::LinkId;

impl Network {
    /// The same where the bytes of the socket are not those of the node.
    pub(super) fn read_shell(
        &mut self,
        index: u32,
        scratch: &mut [u8],
        kept: usize,
        handle: impl FnOnce(&[u8], &mut Network) -> usize,
    ) {
        let mut sealed = std::mem::take(&mut self.sealed);
        let read = self.get(index).and_then(|connection| {
            let room = &mut scratch[kept..kept + READ_BYTES];
            let layers = connection.layers.as_mut()?;
            let came = layers.read(&connection.socket, connection.portion.bytes(), room, &mut sealed);
            connection.read = came.bytes;
            Some((came, layers.wants_to_send()))
        });
        self.sealed = sealed;
        let Some((came, wants_to_send)) = read else { return };
        if came.bytes > 0 {
            let bytes = &scratch[..kept + came.bytes];
            let used = handle(bytes, self);
            self.keep_partial(index, bytes.get(used..).unwrap_or(&[]));
        } else {
            self.keep_partial(index, &scratch[..kept]);
        }
        if wants_to_send {
            self.touch(LinkId(index));
        }
        match came.end {
            // What was held has not been looked at. The end is found again when it has.
            Some(End::Closed) if self.get(index).is_some_and(|connection| connection.held) => {}
            Some(End::Closed) => self.end_shell(index),
            Some(End::Broken(cause, text)) => {
                let from = self.get(index).and_then(|connection| connection.from());
                let from = from.map_or_else(|| "a broker".to_owned(), |from| from.to_string());
                self.troubles.note(cause, || format!("{from}: {text}; the connection is closed"));
                self.end_shell(index);
            }
            None => {}
        }
    }

    /// The peer closes, or must go. It is told, as far as that needs no waiting.
    fn end_shell(&mut self, index: u32) {
        if let Some(connection) = self.get(index)
            && let Some(layers) = &mut connection.layers
        {
            layers.say_farewell();
            let _ = net::send(&connection.socket, layers.ready(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
            let _ = net::shutdown(&connection.socket, net::Shutdown::Write);
        }
        self.drop_connection(index);
    }
}
