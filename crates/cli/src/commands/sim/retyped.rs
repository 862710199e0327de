//! The command that repeats a run, as it would be typed.

use crate::arguments::sim::SimArguments;
use std::path::Path;

/// The command line that tells the story of one run of a configuration. `flags` are those that measured costs need.
pub fn of_own(
    arguments: &SimArguments,
    config: Option<&Path>,
    set: &[String],
    flags: &[String],
    seed: u64,
) -> String {
    let mut words = vec!["verge".to_owned(), "sim".to_owned()];
    let path = |path: &Path| path.display().to_string();
    words.extend(config.map(path));
    words.extend(set.iter().flat_map(|set| ["--set".to_owned(), set.clone()]));
    words.extend_from_slice(flags);
    for (who, at) in &arguments.crash {
        words.extend(["--crash".to_owned(), format!("{who}@{at}")]);
    }
    if let Some(scenario) = &arguments.scenario {
        words.extend(["--scenario".to_owned(), path(scenario)]);
    }
    if let Some(length) = arguments.length {
        words.extend(["--for".to_owned(), length.to_string()]);
    }
    words.extend(["--seed".to_owned(), seed.to_string(), "--trace".to_owned()]);
    join(&words)
}

/// The same for a made-up deployment.
pub fn of_random(beyond: bool, twice: bool, seed: u64) -> String {
    let beyond = if beyond { " --beyond" } else { "" };
    let how = if twice { " --twice" } else { "" };
    format!("verge sim --random{beyond} --seed {seed}{how} --trace")
}

fn join(words: &[String]) -> String {
    words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ")
}

/// Quotes a word for a shell where it needs it.
fn quote(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::{Arguments, Command};
    use clap::Parser;

    #[test]
    fn a_command_is_typed_again() {
        let typed = "verge sim --crash primary@30s --for 40s --seeds 5";
        let Command::Sim(arguments) = Arguments::parse_from(typed.split(' ')).command else { panic!() };
        let set = ["realtime.processors=[1, 2]".to_owned()];
        let again = of_own(&arguments, Some(Path::new("my plant.toml")), &set, &[], 17);
        let expected = "verge sim 'my plant.toml' --set 'realtime.processors=[1, 2]' --crash primary@30s --for 40s \
                        --seed 17 --trace";
        assert_eq!(again, expected);
    }

    #[test]
    fn quotes_within_quotes_survive() {
        assert_eq!(quote("it's"), r"'it'\''s'");
    }
}
