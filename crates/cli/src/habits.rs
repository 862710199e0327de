//! What hands do by habit: `-h` alone asks for help, and flags of mosquitto's clients that mean nothing here say what does.

use crate::arguments::Arguments;
use clap::Parser;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use std::ffi::OsString;

/// Flags that people know from mosquitto's clients, and what stands for them.
const KNOWN_ELSEWHERE: [(&[&str], &str); 10] = [
    (
        &["-q", "--qos"],
        "how surely messages come, the contract of a topic says (loss and retain; `verge pub --loss --retain`)",
    ),
    (
        &["-r"],
        "brokers keep the last message of a topic for clients of MQTT: publish it with one (mosquitto_pub -r)",
    ),
    (&["-R"], "this protocol has no retained messages, so none come"),
    (&["-N"], "each message ends its line; `-o json` has it as it is"),
    (&["-d"], "`verge status` and the broker's log say what happens"),
    (&["-k"], "connections are watched by the client itself; nothing is to be set"),
    (&["-V"], "this speaks Verge's native protocol; MQTT has ports of its own (1883, or mqtt.listeners)"),
    (&["-L"], "give the broker with -h HOST and -p PORT"),
    (&["-T", "-U"], "name what is wanted with -t; nothing can be left out, and filters end with the command"),
    (
        &["--will-topic", "--will-payload", "--will-qos", "--will-retain"],
        "wills are of MQTT; where nothing comes any more, the alarm `silent` says so",
    ),
];

/// The command line, understood; ends the process where it cannot be, or where help was asked for.
pub fn arguments() -> Arguments {
    let words: Vec<OsString> = std::env::args_os().collect();
    understand(&words).unwrap_or_else(|error| {
        let hint = hint(&error);
        let _ = error.print();
        hint.into_iter().for_each(|hint| console::complain(&format!("\n  here: {hint}")));
        std::process::exit(error.exit_code())
    })
}

fn understand(words: &[OsString]) -> Result<Arguments, Error> {
    Arguments::try_parse_from(words).or_else(|error| {
        // A host must follow, or is of no use here.
        let asks = words.len() > 1 && words.last().is_some_and(|last| last == "-h");
        let mut asking = words.to_vec();
        asking.last_mut().filter(|_| asks).into_iter().for_each(|last| *last = "--help".into());
        if asks { Arguments::try_parse_from(asking) } else { Err(error) }
    })
}

fn hint(error: &Error) -> Option<&'static str> {
    let unknown = error.kind() == ErrorKind::UnknownArgument;
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg).filter(|_| unknown) else {
        return None;
    };
    let flag = word.split('=').next().unwrap_or_default();
    KNOWN_ELSEWHERE.iter().find(|(flags, _)| flags.contains(&flag)).map(|(_, hint)| *hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(words: &[&str]) -> Error {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        understand(&words).unwrap_err()
    }

    #[test]
    fn h_alone_asks_for_help() {
        for words in [
            &["verge", "-h"][..],
            &["verge", "demo", "-h"],
            &["verge", "status", "-h"],
            &["verge", "config", "check", "-h"],
        ] {
            assert_eq!(error_of(words).kind(), ErrorKind::DisplayHelp, "{words:?}");
        }
        let words = ["verge", "status", "-h", "plant"].map(OsString::from);
        assert!(understand(&words).is_ok());
    }

    #[test]
    fn flags_of_other_clients_say_what_stands_for_them() {
        assert!(
            hint(&error_of(&["verge", "pub", "-t", "x", "-m", "1", "-q", "1"]))
                .is_some_and(|hint| hint.contains("--loss"))
        );
        assert!(hint(&error_of(&["verge", "pub", "-t", "x", "-m", "1", "--will-topic=x"])).is_some());
        assert_eq!(hint(&error_of(&["verge", "pub", "-t", "x", "--nonsense"])), None);
    }
}
