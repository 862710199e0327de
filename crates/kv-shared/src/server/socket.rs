//! The socket's file: made so that nobody else gets in, removed by nobody but us.

use super::ServerError;
use rustix::fs::{Mode, fchmod};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use std::fs::{Permissions, symlink_metadata};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// How many applications may wait to be taken in.
const BACKLOG: i32 = 64;

/// The owner and the group may connect.
const MODE: u32 = 0o660;

#[derive(Debug)]
pub(super) struct Socket {
    listener: UnixListener,
    path: PathBuf,
    /// Device and number of our file, to know it by.
    file: (u64, u64),
}

impl Socket {
    pub(super) fn bind(path: &Path) -> Result<Socket, ServerError> {
        let system = |error: io::Error| ServerError::System { path: path.to_owned(), error };
        remove_stale(path)?;
        let address = SocketAddrUnix::new(path).map_err(|error| system(error.into()))?;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
        let socket = socket.map_err(|error| system(error.into()))?;
        // The file gets the socket's mode, less what the umask takes: it is never wider than it will be.
        fchmod(&socket, Mode::from_raw_mode(MODE)).map_err(|error| system(error.into()))?;
        bind(&socket, &address).map_err(|error| match error {
            rustix::io::Errno::ADDRINUSE => ServerError::Taken(path.to_owned()),
            error => system(error.into()),
        })?;
        let bound = || {
            std::fs::set_permissions(path, Permissions::from_mode(MODE))?;
            let file = symlink_metadata(path)?;
            listen(&socket, BACKLOG)?;
            io::Result::Ok((file.dev(), file.ino()))
        };
        let file = bound().map_err(system)?;
        Ok(Socket { listener: socket.into(), path: path.to_owned(), file })
    }

    pub(super) fn accept(&self) -> io::Result<UnixStream> {
        Ok(self.listener.accept()?.0)
    }

    /// Ends an `accept` that waits, and all later ones.
    pub(super) fn wake(&self) {
        let _ = rustix::net::shutdown(self.listener.as_fd(), rustix::net::Shutdown::Both);
    }

    /// Removes the file, if it is still ours.
    pub(super) fn remove(&self) {
        if symlink_metadata(&self.path).is_ok_and(|file| (file.dev(), file.ino()) == self.file) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Removes a socket on which nobody answers.
fn remove_stale(path: &Path) -> Result<(), ServerError> {
    let system = |error: io::Error| ServerError::System { path: path.to_owned(), error };
    let file = match symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        file => file.map_err(system)?,
    };
    if !file.file_type().is_socket() {
        return Err(ServerError::NotASocket(path.to_owned()));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(ServerError::Taken(path.to_owned())),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(system)
        }
        Err(error) => Err(system(error)),
    }
}
