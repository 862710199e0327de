//! Who may connect, and how often.

use super::value::Value;
use super::{Source, Understanding};
use std::path::{Path, PathBuf};

/// What is configured of users and logins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SecurityConfig {
    /// The user file, if there is one.
    pub users: Option<PathBuf>,
    /// What the brokers of a pair know each other by.
    pub pair_secret_file: Option<PathBuf>,
    /// Failed logins from one address.
    pub logins_per_minute: u64,
    /// How passwords are checked.
    pub vetting: host::Vetting,
}

/// Who the commands are that connect to brokers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientConfig {
    /// The user, if there is one.
    pub user: Option<String>,
    /// Where its password is.
    pub password_file: Option<PathBuf>,
}

impl Understanding {
    pub(super) fn client(&self) -> ClientConfig {
        let user = match self.values.get("client.user") {
            Some(Value::Word(user)) if !user.is_empty() => Some(user.clone()),
            _ => None,
        };
        ClientConfig { user, password_file: self.path("client.password_file") }
    }

    pub(super) fn security(&self) -> SecurityConfig {
        SecurityConfig {
            users: self.path("security.users"),
            pair_secret_file: self.path("security.pair_secret_file"),
            logins_per_minute: self.integer("security.logins_per_minute").max(1).unsigned_abs(),
            vetting: host::Vetting {
                threads: self.size("security.password_threads"),
                pending: self.size("security.passwords_pending"),
                remembered: self.size("security.passwords_remembered"),
                lifetime: std::time::Duration::from_nanos(
                    self.span("security.password_memory").as_nanos_u64(),
                ),
            },
        }
    }

    /// A file that is named. A relative path in a file starts at that file, so that it means the same wherever a command is
    /// typed.
    fn path(&self, key: &str) -> Option<PathBuf> {
        let Some(Value::Word(text)) = self.values.get(key) else { return None };
        if text.is_empty() {
            return None;
        }
        let folder = match self.source(key) {
            Source::File(index, _) => self.layers.files.get(index).and_then(|file| file.path.parent()),
            _ => None,
        };
        Some(folder.unwrap_or(Path::new("")).join(text))
    }
}
