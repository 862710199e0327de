//! Who may connect, and how often.

use super::{Understanding, keys};
use std::path::PathBuf;

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
    pub authentication: host::Authentication,
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
        let password_file = self.file(&keys::CLIENT_PASSWORD_FILE);
        ClientConfig { user: self.get(&keys::CLIENT_USER), password_file }
    }

    pub(super) fn security(&self) -> SecurityConfig {
        SecurityConfig {
            users: self.file(&keys::SECURITY_USERS),
            pair_secret_file: self.file(&keys::SECURITY_PAIR_SECRET_FILE),
            logins_per_minute: self.get(&keys::SECURITY_LOGINS_PER_MINUTE).max(1),
            authentication: host::Authentication {
                threads: self.get(&keys::SECURITY_PASSWORD_THREADS),
                pending: self.get(&keys::SECURITY_PASSWORDS_PENDING),
                remembered: self.get(&keys::SECURITY_PASSWORDS_REMEMBERED),
                lifetime: std::time::Duration::from_nanos(
                    self.get(&keys::SECURITY_PASSWORD_MEMORY).as_nanos_u64(),
                ),
            },
        }
    }
}
