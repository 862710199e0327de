//! What a service manager wants to know of a broker: that it is ready, alive, reading its configuration, ending. Datagrams to the
//! socket that the manager names; without a manager nothing is sent.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

/// Tells the service manager, if there is one.
#[derive(Clone, Debug, Default)]
pub struct Notifier {
    socket: Option<Arc<UnixDatagram>>,
    watchdog: Option<Duration>,
}

impl Notifier {
    /// The manager that started this process, by the environment (`NOTIFY_SOCKET`, `WATCHDOG_USEC`, `WATCHDOG_PID`).
    pub fn from_environment() -> io::Result<Notifier> {
        let variable = |name: &str| std::env::var(name).ok();
        let Some(address) = variable("NOTIFY_SOCKET").filter(|address| !address.is_empty()) else {
            return Ok(Notifier::default());
        };
        let watched = variable("WATCHDOG_PID").is_none_or(|id| id == std::process::id().to_string());
        let interval = variable("WATCHDOG_USEC").and_then(|micros| micros.parse().ok()).filter(|_| watched);
        Notifier::new(&address, interval.map(Duration::from_micros))
    }

    /// The manager at this address: a path, or a name in the abstract namespace after `@`.
    pub fn new(address: &str, watchdog: Option<Duration>) -> io::Result<Notifier> {
        let address = match address.strip_prefix('@') {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None if address.starts_with('/') => SocketAddr::from_pathname(address)?,
            None => {
                let text = format!("`{address}` is neither a path from / nor a name after @");
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
            }
        };
        let socket = UnixDatagram::unbound()?;
        socket.connect_addr(&address)?;
        // A manager that does not read must not hold us up.
        socket.set_nonblocking(true)?;
        Ok(Notifier {
            socket: Some(Arc::new(socket)),
            watchdog: watchdog.filter(|interval| !interval.is_zero()),
        })
    }

    /// Whether anybody listens.
    pub fn is_connected(&self) -> bool {
        self.socket.is_some()
    }

    /// How soon the manager takes us for dead when it hears no [`Notifier::alive`].
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// Starting, or reading the configuration anew, is over.
    pub fn ready(&self) {
        self.tell("READY=1");
    }

    /// The configuration is being read anew.
    pub fn reloading(&self) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let micros = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
    }

    /// The process is on its way out.
    pub fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// The data thread turns.
    pub fn alive(&self) {
        self.tell("WATCHDOG=1");
    }

    /// A line for people.
    pub fn status(&self, text: &str) {
        self.tell(&format!("STATUS={}", text.replace('\n', " ")));
    }

    fn tell(&self, text: &str) {
        if let Some(socket) = &self.socket {
            // A manager that has gone, or reads too slowly, misses it; there is nobody else to tell.
            let _ = socket.send(text.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 512];
        let length = socket.recv(&mut bytes).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }

    fn hear_all(manager: &UnixDatagram, address: &str) {
        let notifier = Notifier::new(address, None).unwrap();
        notifier.ready();
        notifier.status("primary\nin epoch 3");
        notifier.reloading();
        notifier.alive();
        notifier.stopping();
        assert_eq!(receive(manager), "READY=1");
        assert_eq!(receive(manager), "STATUS=primary in epoch 3");
        let reloading = receive(manager);
        let time = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
        assert!(time.parse::<u64>().unwrap() > 0);
        assert_eq!(receive(manager), "WATCHDOG=1");
        assert_eq!(receive(manager), "STOPPING=1");
    }

    #[test]
    fn a_manager_at_a_path_hears_everything() {
        let path = std::env::temp_dir().join(format!("verge-notify-{}", std::process::id()));
        let manager = UnixDatagram::bind(&path).unwrap();
        hear_all(&manager, path.to_str().unwrap());
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_manager_at_an_abstract_name_hears_everything() {
        let name = format!("verge-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        hear_all(&manager, &format!("@{name}"));
    }

    #[test]
    fn a_manager_that_has_gone_does_no_harm_and_one_that_never_was_is_an_error() {
        let name = format!("verge-notify-gone-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        let notifier = Notifier::new(&format!("@{name}"), None).unwrap();
        drop(manager);
        notifier.ready();
        assert!(Notifier::new(&format!("@{name}"), None).is_err());
        let error = Notifier::new("relative/path", None).unwrap_err();
        assert!(error.to_string().contains("neither a path"), "{error}");
    }

    #[test]
    fn a_manager_that_does_not_read_does_not_hold_up() {
        let name = format!("verge-notify-full-{}", std::process::id());
        let _manager = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let notifier = Notifier::new(&format!("@{name}"), None).unwrap();
        // Far more than a socket keeps.
        (0..100_000).for_each(|_| notifier.alive());
    }
}
