//! The user file: read with everything that is wrong with it, and rewritten without harm to what somebody wrote by hand.

use crate::{Trouble, complain};
use access::{Access, PASSWORD_BYTES_MAX};
use config::{File, Problem, Problems, Source, Subject, read_text};
use std::io::{BufRead, ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table};

/// Who may do what, by the file.
pub fn read(path: &Path) -> Result<Access, Problems> {
    understand(path, read_text(path, Subject::Users)?)
}

fn understand(path: &Path, text: String) -> Result<Access, Problems> {
    Access::parse(&text).map_err(|problems| {
        let problem = |problem: access::Problem| Problem {
            source: Source::File(0, problem.span),
            message: problem.message,
            remedy: problem.remedy,
        };
        Problems {
            subject: Subject::Users,
            list: problems.into_iter().map(problem).collect(),
            files: vec![File { path: path.to_path_buf(), text }],
        }
    })
}

/// Says so if others than the owner may read or change the file.
pub fn warn_of_readers(path: &Path) {
    if has_readers(path) {
        let path = path.display();
        complain(&format!("verge: others may read {path}, and guess passwords from it: chmod 600 {path}"));
    }
}

fn has_readers(path: &Path) -> bool {
    let mode = std::fs::metadata(path).map_or(0, |metadata| metadata.permissions().mode());
    mode & 0o077 != 0
}

/// A password that somebody keeps in a file: its first line.
pub fn read_password(path: &Path) -> Result<String, Trouble> {
    read_first_line(path, "password")
}

/// The first line of a file, in which this is.
fn read_first_line(path: &Path, what: &str) -> Result<String, Trouble> {
    let shown = path.display();
    let failed =
        |reason: &dyn std::fmt::Display| Trouble(format!("cannot read the {what} in {shown}: {reason}"));
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| failed(&error))?;
    let most = PASSWORD_LINE_MAX;
    std::io::BufReader::new(file.take(most)).read_line(&mut text).map_err(|error| failed(&error))?;
    let password = password_in(&text);
    if password.is_empty() || password.len() > PASSWORD_BYTES_MAX {
        return Err(failed(&format!("its first line must have from 1 to {PASSWORD_BYTES_MAX} bytes")));
    }
    Ok(password.to_owned())
}

/// One byte more than a password may have, a byte order mark, and the end of the line.
pub const PASSWORD_LINE_MAX: u64 = PASSWORD_BYTES_MAX as u64 + 6;

/// The password in a line, without its end, and without the byte order mark that some editors put in front.
pub fn password_in(line: &str) -> &str {
    line.trim_start_matches('\u{feff}').trim_end_matches(['\n', '\r'])
}

/// What the brokers of a pair know each other by. Whoever guesses it can be one of them.
pub fn read_pair_secret(path: &Path) -> Result<Box<str>, Trouble> {
    let shown = path.display();
    let secret = read_first_line(path, "secret of the pair")?;
    if secret.len() < PAIR_SECRET_BYTES_MIN {
        return Err(Trouble(format!(
            "the secret in {shown} has {} bytes and needs {PAIR_SECRET_BYTES_MIN}: make one with `openssl rand -hex 32`",
            secret.len()
        )));
    }
    if has_readers(path) {
        return Err(Trouble(format!("others may read {shown}, and be brokers with it: chmod 600 {shown}")));
    }
    Ok(secret.into())
}

/// Fewer could be guessed.
const PAIR_SECRET_BYTES_MIN: usize = 16;

/// A user file that is being changed. Nobody else changes it meanwhile, and nothing changes before [`Edit::save`].
pub struct Edit {
    path: PathBuf,
    folder: PathBuf,
    /// Locked until this is dropped.
    _lock: std::fs::File,
    document: DocumentMut,
}

impl Edit {
    /// Begins to change a file, which need not exist if `make` says so.
    pub fn begin(path: &Path, make: bool) -> Result<Edit, Trouble> {
        // The file itself and not a link to it is replaced.
        let path = match std::fs::canonicalize(path) {
            Err(error) if error.kind() == ErrorKind::NotFound && make => path.to_path_buf(),
            Err(error) => return Err(Problems::unreadable(Subject::Users, path, &error).into()),
            Ok(path) => path,
        };
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
            _ => PathBuf::from("."),
        };
        let lock = std::fs::File::open(&folder).and_then(|file| file.lock().map(|()| file));
        let lock = lock.map_err(|error| Trouble(format!("cannot lock {}: {error}", folder.display())))?;
        let text = if path.exists() { read_text(&path, Subject::Users)? } else { String::new() };
        understand(&path, text.clone())?;
        let document = text.parse().map_err(|error| Trouble(format!("{}: {error}", path.display())))?;
        Ok(Edit { path, folder, _lock: lock, document })
    }

    /// The `[[user]]` tables.
    pub fn users(&mut self) -> Result<&mut ArrayOfTables, Trouble> {
        let item = self.document.entry("user").or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
        let path = &self.path;
        item.as_array_of_tables_mut().ok_or_else(|| {
            let path = path.display();
            Trouble(format!("{path} has its users as one list in a line: write each below a line [[user]]"))
        })
    }

    /// The table of one user.
    pub fn user(&mut self, name: &str) -> Result<&mut Table, Trouble> {
        let index = self.index(name)?;
        self.users()?.get_mut(index).ok_or_else(|| nobody(name))
    }

    /// Removes a user.
    pub fn remove(&mut self, name: &str) -> Result<(), Trouble> {
        let index = self.index(name)?;
        self.users()?.remove(index);
        Ok(())
    }

    fn index(&mut self, name: &str) -> Result<usize, Trouble> {
        let is = |table: &Table| table.get("name").and_then(Item::as_str) == Some(name);
        self.users()?.iter().position(is).ok_or_else(|| nobody(name))
    }

    /// Puts the new file in the place of the old one, at once and for good: a crash leaves one of the two. Only its owner may
    /// read it.
    pub fn save(&mut self) -> Result<(), Trouble> {
        let text = self.document.to_string();
        understand(&self.path, text.clone())?;
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let new = self.folder.join(format!(".{name}.{}", std::process::id()));
        let failed =
            |error: std::io::Error| Trouble(format!("cannot write {}: {error}", self.path.display()));
        let written = self.write(&new, &text).and_then(|()| std::fs::rename(&new, &self.path));
        if written.is_err() {
            let _ = std::fs::remove_file(&new);
        }
        written.map_err(failed)?;
        std::fs::File::open(&self.folder).and_then(|folder| folder.sync_all()).map_err(failed)
    }

    fn write(&self, new: &Path, text: &str) -> std::io::Result<()> {
        // One of this name is left over from a process that died, and this one has the lock.
        match std::fs::remove_file(new) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(new)?;
        if let Ok(old) = std::fs::metadata(&self.path) {
            let ours = file.metadata()?;
            // The broker goes on being able to read it.
            if (old.uid(), old.gid()) != (ours.uid(), ours.gid()) {
                fchown(&file, Some(old.uid()), Some(old.gid()))?;
            }
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()
    }
}

/// There is no such user.
pub fn nobody(name: &str) -> Trouble {
    Trouble(format!("there is no user `{name}`; see `verge user list`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_has_neither_the_end_of_its_line_nor_what_an_editor_put_in_front() {
        for line in ["correct horse", "correct horse\n", "correct horse\r\n", "\u{feff}correct horse\r\n"] {
            assert_eq!(password_in(line), "correct horse", "{line:?}");
        }
        assert_eq!(password_in(" with blanks \n"), " with blanks ");
    }
}
