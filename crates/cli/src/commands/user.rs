//! `verge user`: who may connect, and how they prove it.

mod prompt;

use crate::arguments::Format;
use crate::arguments::user::{AddArguments, PasswordArguments, UserCommand};
use access::{ANONYMOUS, Access, Cost, SALT_BYTES, User, UserId, check_user_name, hash_password};
use console::{Outcome, Trouble, complain, line, print, table, yes};
use node::users::{Edit, PASSWORD_LINE_MAX, password_in, read, read_password, warn_of_readers};
use rustix::rand::{GetRandomFlags, getrandom};
use serde::Serialize;
use std::io::{BufRead, Read};
use std::path::Path;
use toml_edit::{Array, Item, Table, value};

#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    password: bool,
    certificate: Option<&'a str>,
    roles: Vec<&'a str>,
    connections: Option<u32>,
    messages_per_second: Option<u64>,
    bytes_per_second: Option<u64>,
}

/// Runs one of the sub-commands.
pub fn run(file: &Path, command: &UserCommand, format: Format) -> Outcome {
    match command {
        UserCommand::Add(arguments) => add(file, arguments)?,
        UserCommand::Remove { name } => {
            let mut edit = Edit::begin(file, false)?;
            edit.remove(name)?;
            edit.save()?;
        }
        UserCommand::List => list(file, format)?,
        UserCommand::Passwd { name, password: from } => {
            let mut edit = Edit::begin(file, false)?;
            // Before anybody types a password in vain.
            edit.user(name)?;
            let hash = hash(&password(from)?)?;
            put(edit.user(name)?, "password", value(hash));
            edit.save()?;
        }
    }
    Ok(yes(true))
}

fn add(file: &Path, arguments: &AddArguments) -> Result<(), Trouble> {
    let name = &arguments.name;
    check_user_name(name).map_err(Trouble)?;
    let mut edit = Edit::begin(file, true)?;
    if edit.user(name).is_ok() {
        let remedy = "give it another password with `verge user passwd`, or remove it first";
        return Err(Trouble(format!("there is a user `{name}` already: {remedy}")));
    }
    let mut table = Table::new();
    table.insert("name", value(name));
    let given = arguments.password.password_stdin || arguments.password.password_file.is_some();
    let by_certificate = arguments.certificate.is_some() && !given;
    if !by_certificate && (name != ANONYMOUS || given) {
        table.insert("password", value(hash(&password(&arguments.password)?)?));
    }
    if let Some(certificate) = &arguments.certificate {
        table.insert("certificate", value(certificate));
    }
    if !arguments.role.is_empty() {
        table.insert("roles", value(arguments.role.iter().collect::<Array>()));
    }
    edit.users()?.push(table);
    edit.save()?;
    if arguments.role.is_empty() {
        let file = file.display();
        complain(&format!("verge: `{name}` may do nothing yet: give it a [[user.rule]] or roles in {file}"));
    }
    Ok(())
}

/// Sets a key where it stands, with the comment behind it.
fn put(table: &mut Table, key: &str, mut item: Item) {
    if let (Some(old), Some(new)) = (table.get(key).and_then(Item::as_value), item.as_value_mut()) {
        *new.decor_mut() = old.decor().clone();
    }
    table.insert(key, item);
}

fn list(file: &Path, format: Format) -> Result<(), Trouble> {
    let access = read(file)?;
    warn_of_readers(file);
    let rows: Vec<Row<'_>> = access.users().map(|(id, user)| row(&access, id, user)).collect();
    let headings = ["user", "logs in by", "roles", "connections", "messages/s", "bytes/s"];
    let mut shown = table(&headings, &[3, 4, 5]);
    let number = |number: Option<u64>| number.map_or("-".to_owned(), |number| number.to_string());
    for row in &rows {
        let mut login: Vec<String> = Vec::new();
        login.extend(row.password.then(|| "password".to_owned()));
        login.extend(row.certificate.map(|name| format!("certificate {name}")));
        let login = match login.is_empty() {
            true if row.name == ANONYMOUS => "nothing".to_owned(),
            true => "not at all".to_owned(),
            false => login.join(", "),
        };
        shown.add_row([
            row.name.to_owned(),
            login,
            row.roles.join(", "),
            number(row.connections.map(u64::from)),
            number(row.messages_per_second),
            number(row.bytes_per_second),
        ]);
    }
    print(format, &shown, &rows)?;
    if format == Format::Table && access.anonymous().is_none() {
        line("there is no user `anonymous`: nobody may connect without logging in")?;
    }
    Ok(())
}

fn row<'a>(access: &'a Access, id: UserId, user: &'a User) -> Row<'a> {
    let limits = user.limits();
    Row {
        name: user.name(),
        password: user.password().is_some(),
        certificate: user.certificate(),
        roles: access.roles(id).collect(),
        connections: limits.connections,
        messages_per_second: limits.messages_per_second,
        bytes_per_second: limits.bytes_per_second,
    }
}

/// The password that is given: by the first line of the standard input or of a file, or typed twice.
fn password(from: &PasswordArguments) -> Result<String, Trouble> {
    if let Some(file) = &from.password_file {
        return read_password(file);
    }
    if !from.password_stdin {
        return prompt::twice();
    }
    let mut text = String::new();
    std::io::stdin().lock().take(PASSWORD_LINE_MAX).read_line(&mut text)?;
    Ok(password_in(&text).to_owned())
}

fn hash(password: &str) -> Result<String, Trouble> {
    let mut salt = [0; SALT_BYTES];
    getrandom(&mut salt, GetRandomFlags::empty())
        .map_err(|error| Trouble(format!("no random salt: {error}")))?;
    hash_password(password.as_bytes(), &salt, Cost::DEFAULT).map_err(|error| Trouble(error.to_string()))
}
