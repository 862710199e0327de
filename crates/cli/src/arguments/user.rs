//! What may be typed after `verge user` and `verge acl`.

use access::Action;
use clap::{Args, Subcommand};
use std::path::PathBuf;

pub const EXAMPLES: &str = "\
Examples:
  verge user add line-4 --role machine                    asks for the password
  verge user add line-4 --password-stdin < secret.txt     takes it from a file
  verge user add line-5 --certificate line-5.plant.example --role machine
  verge user add anonymous --role visitor                 whoever does not log in
  verge acl test line-4 plant/line-4/speed publish        may it, and which rule says so

Rules and roles are written in the user file by hand; docs/users.md describes it.";

/// Where the user file is.
#[derive(Args, Debug, Clone, Default)]
pub struct FileArguments {
    /// The user file [default: the key security.users].
    #[arg(long, global = true, value_name = "FILE")]
    pub file: Option<PathBuf>,
}

#[derive(Subcommand, Debug)]
pub enum UserCommand {
    /// Add a user. The file is made if there is none.
    Add(AddArguments),
    /// Remove a user, with its own rules.
    Remove {
        /// Its name.
        name: String,
    },
    /// List all users.
    List,
    /// Give a user another password.
    Passwd {
        /// Its name.
        name: String,
        #[command(flatten)]
        password: PasswordArguments,
    },
}

/// Where a password comes from; it is asked for where nothing says so.
#[derive(Args, Debug)]
pub struct PasswordArguments {
    /// Take the password from the first line of the standard input.
    #[arg(long, conflicts_with = "password_file")]
    pub password_stdin: bool,
    /// Take the password from the first line of this file.
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct AddArguments {
    /// Its name: one level of a topic, which rules call %u.
    pub name: String,
    #[command(flatten)]
    pub password: PasswordArguments,
    /// The common name (CN) of the certificates that mean this user. It then needs no password.
    #[arg(long, value_name = "CN")]
    pub certificate: Option<String>,
    /// A role of the user file; more than once for more.
    #[arg(long, value_name = "ROLE")]
    pub role: Vec<String>,
}

#[derive(Subcommand, Debug)]
pub enum AclCommand {
    /// Say whether a user may do something, and which rule decides. Exit code 0 for allowed, 1 for denied.
    Test {
        /// The user; `anonymous` for whoever does not log in.
        user: String,
        /// A topic, or a filter for subscribe and contract; for admin what is to be done, such as `status` or `handover`.
        topic: String,
        /// publish, subscribe, contract or admin.
        action: Action,
        /// The client id, which rules call %c.
        #[arg(long, value_name = "ID", default_value = "")]
        client: String,
    },
}
