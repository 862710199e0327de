//! For tests of what is made of a configuration.
#![allow(clippy::unwrap_used, reason = "for tests")]

use crate::Config;
use processing::{
    Answer, Answers, Built, Factory, Fault, Input, Memory, Operator, PayloadType, Setup, SharedFactory,
};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The configuration that a text means, with operators of any kind.
///
/// # Panics
///
/// If it is none.
pub fn load(name: &str, text: &str) -> Config {
    Scratch::new(name, text).load(&[], &[]).unwrap_or_else(|report| panic!("{report}"))
}

/// A file that is removed with its folder.
pub struct Scratch(pub PathBuf);

impl Scratch {
    /// Writes it.
    pub fn new(name: &str, text: &str) -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder =
            std::env::temp_dir().join(format!("verge-config-{}-{number}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("verge.toml"), text).unwrap();
        Scratch(folder)
    }

    /// What it means, with so much of the environment and these flags; or what is wrong, in words.
    pub fn load(&self, environment: &[(&str, &str)], flags: &[&str]) -> Result<Config, String> {
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let factory: SharedFactory = Arc::new(Anything);
        Config::load_from(Some(&self.0.join("verge.toml")), environment, &flags, &factory, &Arc::default())
            .map_err(|problems| problems.to_string())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Knows every kind but `nonsense`; `rms` needs numbers and may have a `window`.
pub struct Anything;

impl Factory for Anything {
    fn build(&self, kind: &str, setup: &Setup<'_>) -> Result<Built, String> {
        struct Pass;
        impl Operator for Pass {
            fn run(&mut self, inputs: &[Input<'_>], output: &mut Vec<u8>) -> Result<Answer, Fault> {
                inputs.iter().for_each(|input| output.extend_from_slice(input.payload));
                Ok(Answer::Result)
            }
        }
        if kind == "nonsense" {
            return Err(format!("there is no operator of kind `{kind}`"));
        }
        if let Some(other) = setup.parameters.keys().find(|name| kind == "rms" && **name != "window") {
            return Err(format!("`{other}` is no parameter of `rms`: it has window"));
        }
        if kind == "numbers" && !setup.inputs.iter().all(PayloadType::is_numeric) {
            return Err("`numbers` needs numbers as input 0, and that is bytes".to_owned());
        }
        let output = setup.inputs.first().cloned().unwrap_or_default();
        Ok(Built { operator: Box::new(Pass), output, answers: Answers::Always, memory: Memory::Nothing })
    }
}
