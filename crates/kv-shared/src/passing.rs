//! Lines over a Unix socket, and descriptors that travel with them.

use crate::protocol::{LINE_BYTES_MAX, LineError, decode, encode};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// How many descriptors come with one answer: the store, the ring, and what values were made of.
pub const FILES_MAX: usize = 3;

/// What is read at once.
const CHUNK_BYTES: usize = 4096;

/// One end of a connection.
#[derive(Debug)]
pub struct Lines {
    stream: UnixStream,
    /// What has come and is not a whole line yet.
    rest: Vec<u8>,
    /// Descriptors that have come and nobody has taken.
    files: Vec<OwnedFd>,
}

/// Why there is no message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PassingError {
    /// The connection is at its end, or it failed.
    #[error("the connection to the node: {0}")]
    Connection(#[from] io::Error),
    /// The other side has said something that is no message.
    #[error(transparent)]
    Line(#[from] LineError),
}

impl Lines {
    /// Over this connection.
    pub fn new(stream: UnixStream) -> Lines {
        Lines { stream, rest: Vec::new(), files: Vec::new() }
    }

    /// The connection.
    pub fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Sends a message, with descriptors.
    pub fn send(&mut self, message: &impl Serialize, files: &[BorrowedFd<'_>]) -> Result<(), PassingError> {
        let line = encode(message)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(files)) {
            return Err(io::Error::from(ErrorKind::InvalidInput).into());
        }
        let sent = sendmsg(&self.stream, &[IoSlice::new(&line)], &mut control, SendFlags::NOSIGNAL);
        // The descriptors go with the first byte.
        let sent = sent.map_err(io::Error::from)?;
        self.stream.write_all(&line[sent..])?;
        Ok(())
    }

    /// Waits for a line; `None` at the end of the connection.
    pub fn line(&mut self) -> Result<Option<Vec<u8>>, PassingError> {
        let mut looked = 0;
        loop {
            if let Some(end) = self.rest[looked..].iter().position(|&byte| byte == b'\n') {
                let after = self.rest.split_off(looked + end + 1);
                return Ok(Some(std::mem::replace(&mut self.rest, after)));
            }
            looked = self.rest.len();
            if looked >= LINE_BYTES_MAX {
                return Err(LineError::TooLong(looked).into());
            }
            if self.fill()? == 0 {
                return Ok(None);
            }
        }
    }

    /// Waits for a message. The connection must not end before it.
    pub fn receive<T: DeserializeOwned>(&mut self) -> Result<T, PassingError> {
        let line = self.line()?.ok_or_else(|| io::Error::from(ErrorKind::UnexpectedEof))?;
        Ok(decode(&line)?)
    }

    /// The descriptors that have come.
    pub fn take_files(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.files)
    }

    fn fill(&mut self) -> io::Result<usize> {
        let mut chunk = [0; CHUNK_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let chunk = &mut [IoSliceMut::new(&mut chunk)];
            match recvmsg(&self.stream, chunk, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Err(rustix::io::Errno::INTR) => {}
                received => break received?,
            }
        };
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(files) = message {
                // More than belong to an answer are closed at once.
                let room = FILES_MAX - self.files.len();
                self.files.extend(files.take(room));
            }
        }
        self.rest.extend_from_slice(&chunk[..received.bytes]);
        Ok(received.bytes)
    }
}
