//! `verge context`: names for pairs, so that nobody types addresses, users and files again and again.
//!
//! A name stands for what commands to brokers could be told by flags. Whoever names brokers by flags, or a configuration, means those; a
//! context that is in use stands in where nothing is named, also before a `verge.toml` of the folder. Passwords are kept in files of their own.

use crate::arguments::{BrokerArguments, Format};
use clap::Subcommand;
use config::layers::main_file;
use console::{Outcome, Trouble, complain, json, line, table, yes};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Names a context for one command, or for all that are started from a shell; empty for none.
pub const VARIABLE: &str = "VERGE_CONTEXT";
/// A configuration that says nothing.
const NOTHING: &str = "/dev/null";
/// Characters of a name.
const NAME_MAX: usize = 64;

#[derive(Subcommand, Debug)]
pub enum ContextCommand {
    /// Keep what follows under a name, as in `verge context add plant -h 10.0.0.1 -h 10.0.0.2 -u ann --password-file ~/.plant`.
    Add {
        /// The name.
        name: String,
        #[command(flatten)]
        brokers: Box<BrokerArguments>,
    },
    /// Let commands that name no brokers mean these from now on.
    Use {
        /// The name; `-` for none.
        name: String,
    },
    /// List all, and which is in use.
    List,
    /// Forget one.
    Remove {
        /// The name.
        name: String,
    },
}

/// All that is kept.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contexts {
    /// The one that is in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    current: Option<String>,
    #[serde(default)]
    context: BTreeMap<String, Context>,
}

/// What a name stands for.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Context {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hosts: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    config: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    password_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ca: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<PathBuf>,
}

/// Changes or shows what is kept. `config` is what was named by `--config`.
pub fn run(command: ContextCommand, config: Option<&Path>, format: Format) -> Outcome {
    let file = place()?;
    let _only = if matches!(command, ContextCommand::List) { None } else { Some(lock(&file)?) };
    let mut all = Contexts::load(&file)?;
    match command {
        ContextCommand::Add { name, brokers } => {
            check_name(&name)?;
            let context = Context::of(&brokers, config)?;
            let there = all.context.insert(name.clone(), context).is_some();
            all.save(&file)?;
            let done = if there { "is another one now" } else { "is kept" };
            line(&format!(
                "`{name}` {done} in {}; `verge context use {name}` makes commands mean it",
                file.display()
            ))?;
        }
        ContextCommand::Use { name } => {
            all.current = (name != "-").then(|| all.get(&name).map(|_| name.clone())).transpose()?;
            all.save(&file)?;
            line(&match &all.current {
                Some(name) => format!("commands that name no brokers mean `{name}`"),
                None => "no context is in use".to_owned(),
            })?;
        }
        ContextCommand::Remove { name } => {
            all.get(&name)?;
            all.context.remove(&name);
            all.current = all.current.take().filter(|current| *current != name);
            all.save(&file)?;
        }
        ContextCommand::List => match format {
            Format::Json => json(&all)?,
            Format::Table => all.show()?,
        },
    }
    Ok(yes(true))
}

/// The context that a command means, and what of it is not said otherwise: brokers get its addresses, and the configuration that is
/// returned is read. `named` is what `--context` says.
pub fn apply(
    named: Option<&str>,
    brokers: &mut BrokerArguments,
    config: Option<PathBuf>,
) -> Result<Option<PathBuf>, Trouble> {
    let by_variable = std::env::var(VARIABLE).ok();
    let asked = named.or(by_variable.as_deref());
    if asked.is_some_and(str::is_empty) {
        return Ok(config);
    }
    let elsewhere = brokers.addresses().is_some() || config.is_some();
    if elsewhere {
        // What is typed goes before what was set for the whole shell, or long ago.
        return match named {
            Some(name) => Err(Trouble(format!(
                "--context {name} names brokers, and so do --host, --port and --config: give one of them"
            ))),
            None => Ok(config),
        };
    }
    // Who has no home has no contexts, unless one is named.
    let file = match place() {
        Err(trouble) if asked.is_some() => return Err(trouble),
        Err(_) => return Ok(config),
        Ok(file) => file,
    };
    let all = Contexts::load(&file)?;
    let Some(name) = asked.map(str::to_owned).or_else(|| all.current.clone()) else { return Ok(config) };
    let context = all.get(&name)?;
    if asked.is_none()
        && let Some(there) = main_file(None).filter(|there| context.config.as_ref() != Some(there))
    {
        complain(&format!(
            "verge: context `{name}` is in use, and goes before {}; --context '' leaves it out",
            there.display()
        ));
    }
    context.fill(brokers);
    // What a configuration of the folder says of users and sources is not of these brokers.
    Ok(Some(context.config.clone().unwrap_or_else(|| PathBuf::from(NOTHING))))
}

/// Where contexts are kept.
fn place() -> Result<PathBuf, Trouble> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = named("XDG_CONFIG_HOME").or_else(|| named("HOME").map(|home| home.join(".config")));
    let none = "there is no place for contexts: neither XDG_CONFIG_HOME nor HOME is set";
    Ok(folder.ok_or_else(|| Trouble(none.to_owned()))?.join("verge").join("contexts.toml"))
}

/// Nobody else changes them meanwhile.
fn lock(file: &Path) -> Result<File, Trouble> {
    let at = |error: std::io::Error| Trouble(format!("{}: {error}", file.display()));
    std::fs::create_dir_all(file.parent().unwrap_or(Path::new("."))).map_err(at)?;
    let lock = OpenOptions::new().create(true).append(true).mode(0o600).open(file.with_extension("lock"));
    let lock = lock.map_err(at)?;
    lock.lock().map_err(at)?;
    Ok(lock)
}

fn check_name(name: &str) -> Result<(), Trouble> {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    if (1..=NAME_MAX).contains(&name.len()) && name.chars().all(plain) && name != "-" {
        return Ok(());
    }
    Err(Trouble(format!(
        "`{name}` cannot be a context's name: take up to {NAME_MAX} letters, digits, `-`, `_` and `.`"
    )))
}

impl Context {
    fn of(brokers: &BrokerArguments, config: Option<&Path>) -> Result<Context, Trouble> {
        if brokers.password.is_some() {
            return Err(Trouble(
                "a context keeps no password: put it into a file, and give --password-file".to_owned(),
            ));
        }
        let hosts =
            brokers.addresses().map_or_else(Vec::new, |all| all.split(',').map(str::to_owned).collect());
        if hosts.is_empty() && config.is_none() {
            return Err(Trouble(
                "say which brokers it stands for: -h HOST (twice for a pair), or -c FILE".to_owned(),
            ));
        }
        // It is used from any folder.
        let whole = |path: &Path| {
            std::path::absolute(path).map_err(|error| Trouble(format!("{}: {error}", path.display())))
        };
        let file = |path: &Option<PathBuf>| path.as_deref().map(whole).transpose();
        Ok(Context {
            hosts,
            config: config.map(whole).transpose()?,
            user: brokers.user.clone(),
            password_file: file(&brokers.password_file)?,
            ca: file(&brokers.ca)?,
            certificate: file(&brokers.certificate)?,
            key: file(&brokers.key)?,
        })
    }

    /// Says what was not said by flags.
    fn fill(&self, brokers: &mut BrokerArguments) {
        brokers.host.clone_from(&self.hosts);
        let fill = |given: &mut Option<PathBuf>, kept: &Option<PathBuf>| {
            if given.is_none() {
                given.clone_from(kept);
            }
        };
        fill(&mut brokers.ca, &self.ca);
        if brokers.certificate.is_none() {
            brokers.certificate.clone_from(&self.certificate);
            brokers.key.clone_from(&self.key);
        }
        // Another user has another password.
        if brokers.user.is_none() {
            brokers.user.clone_from(&self.user);
            if brokers.password.is_none() {
                fill(&mut brokers.password_file, &self.password_file);
            }
        }
    }
}

impl Contexts {
    fn load(file: &Path) -> Result<Contexts, Trouble> {
        let at = |error: &dyn std::fmt::Display| Trouble(format!("{}: {error}", file.display()));
        match std::fs::read_to_string(file) {
            Ok(text) => {
                let all: Contexts = toml::from_str(&text).map_err(|error| at(&error))?;
                match all
                    .context
                    .iter()
                    .find(|(_, context)| context.hosts.is_empty() && context.config.is_none())
                {
                    Some((name, _)) => {
                        Err(at(&format!("`{name}` names neither hosts nor a configuration: add one")))
                    }
                    None => Ok(all),
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Contexts::default()),
            Err(error) => Err(at(&error)),
        }
    }

    /// Whole or not at all.
    fn save(&self, file: &Path) -> Result<(), Trouble> {
        let at = |error: &dyn std::fmt::Display| Trouble(format!("cannot write {}: {error}", file.display()));
        let text = toml::to_string(self).map_err(|error| at(&error))?;
        let folder = file.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(|error| at(&error))?;
        let new = file.with_extension(format!("new-{}", std::process::id()));
        let write = || {
            let mut opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
            opened.write_all(text.as_bytes())?;
            opened.sync_all()?;
            std::fs::rename(&new, file)
        };
        write().map_err(|error| {
            let _ = std::fs::remove_file(&new);
            at(&error)
        })
    }

    fn get(&self, name: &str) -> Result<&Context, Trouble> {
        self.context.get(name).ok_or_else(|| {
            let names: Vec<&str> = self.context.keys().map(String::as_str).collect();
            let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            Trouble(format!(
                "there is no context `{name}`: there is {there}; `verge context add {name} -h HOST` makes it"
            ))
        })
    }

    fn show(&self) -> Result<(), Trouble> {
        let mut rows = table(&["", "context", "brokers", "configuration", "user", "TLS"], &[]);
        for (name, context) in &self.context {
            let Context { hosts, config, user, ca, .. } = context;
            let shown = |path: &Option<PathBuf>| {
                path.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
            };
            let mark = if self.current.as_ref() == Some(name) { "*" } else { "" };
            rows.add_row([
                mark.to_owned(),
                name.clone(),
                hosts.join(", "),
                shown(config),
                user.clone().unwrap_or_default(),
                shown(ca),
            ]);
        }
        line(&rows.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_by_flags_goes_before_what_is_kept() {
        let kept = BrokerArguments {
            host: vec!["one".to_owned(), "two:1".to_owned()],
            user: Some("ann".to_owned()),
            password_file: Some("/secret".into()),
            ca: Some("ca.pem".into()),
            ..BrokerArguments::default()
        };
        let context = Context::of(&kept, None).unwrap_or_else(|trouble| panic!("{}", trouble.0));
        assert_eq!(context.hosts, ["one:7571", "two:1"]);
        assert!(context.ca.as_ref().is_some_and(|ca| ca.is_absolute()));
        let mut said = BrokerArguments { user: Some("bob".to_owned()), ..BrokerArguments::default() };
        context.fill(&mut said);
        assert_eq!(
            (said.user.as_deref(), said.password_file),
            (Some("bob"), None),
            "ann's password is not bob's"
        );
        let mut said = BrokerArguments::default();
        context.fill(&mut said);
        assert_eq!((said.user.as_deref(), said.host.len()), (Some("ann"), 2));
        assert_eq!(said.password_file, Some("/secret".into()));
        let secret = BrokerArguments { password: Some("x".to_owned()), ..kept };
        assert!(Context::of(&secret, None).is_err());
        assert!(Context::of(&BrokerArguments::default(), None).is_err());
    }

    #[test]
    fn what_is_written_is_read_again() {
        let folder = std::env::temp_dir().join(format!("verge-contexts-{}", std::process::id()));
        let file = folder.join("deep/contexts.toml");
        let mut all = Contexts::load(&file).unwrap_or_else(|trouble| panic!("{}", trouble.0));
        let context = Context { config: Some("/etc/verge/verge.toml".into()), ..Context::default() };
        all.context.insert("plant.7".to_owned(), context);
        all.current = Some("plant.7".to_owned());
        assert!(all.save(&file).is_ok());
        assert!(Contexts::load(&file).is_ok_and(|read| read == all));
        assert!(all.get("other").is_err_and(|trouble| trouble.0.contains("there is plant.7")));
        std::fs::write(&file, "[context.x]\nhost = \"a\"\n").unwrap();
        assert!(Contexts::load(&file).is_err_and(|trouble| trouble.0.contains("host")), "a slip is named");
        std::fs::remove_dir_all(&folder).unwrap();
        for (name, good) in [("a", true), ("-", false), ("", false), ("a b", false), ("a/b", false)] {
            assert_eq!(check_name(name).is_ok(), good, "{name}");
        }
    }
}
