#![doc = include_str!("../README.md")]

mod access;
mod action;
mod attempts;
mod caller;
mod password;
mod pattern;
mod problem;
mod rate;
mod reader;
mod table;

pub use access::{
    ANONYMOUS, Access, Because, Challenge, Judgement, NAME_BYTES_MAX, Owner, Rule, User, UserId, UserLimits,
    Verdict, check_user_name,
};
pub use action::{Action, Actions};
pub use attempts::Attempts;
pub use password::{
    Cost, PASSWORD_BYTES_MAX, PasswordError, SALT_BYTES, check_hash, hash_password, verify_password,
};
pub use problem::{Place, Problem};
pub use rate::Rate;
pub use reader::{PROBLEMS_MAX, ROLES_MAX, RULES_MAX, TOPICS_PER_RULE_MAX, USERS_MAX};
