//! Users and rules, as an admin meets them: `verge user` and `verge acl`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod support;

use serde_json::Value;
use std::fs::{Permissions, read_to_string, set_permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use support::Folder;

const NO: i32 = 1;
const TROUBLE: i32 = 2;

const BY_HAND: &str = "\
# The line's machines.
[[role]]
name = \"machine\" # one per station
[[role.rule]]
allow = [\"publish\", \"contract\"]
topics = [\"plant/%u/#\"]
[[role.rule]]
deny = \"publish\"
topics = [\"plant/%u/safety\"]

[[role]]
name = \"viewer\"
[[role.rule]]
allow = \"subscribe\"
topics = [\"plant/#\"]
";

/// Runs the program with a password on its standard input.
fn with_input(folder: &Folder, arguments: &[&str], input: &str) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_verge"));
    command.current_dir(folder.path("")).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // It may have ended without reading.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(said).unwrap())
}

#[test]
fn a_user_is_added_tested_changed_and_removed() {
    let folder = Folder::new();
    folder.write("users.toml", BY_HAND);
    folder.write("verge.toml", "[security]\nusers = \"users.toml\"\n");
    folder.write("secret.txt", "apple\nsecond line\n");
    let add = ["user", "add", "pump", "--password-file", "secret.txt", "--role", "machine"];
    assert_eq!(with_input(&folder, &add, ""), (0, String::new()));
    std::fs::remove_file(folder.path("secret.txt")).unwrap();

    let text = read_to_string(folder.path("users.toml")).unwrap();
    assert!(text.starts_with(BY_HAND), "what was written by hand stays, comments and all:\n{text}");
    let mode = folder.path("users.toml").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(folder.path("").read_dir().unwrap().count(), 2, "nothing is left over");
    let access = access::Access::parse(&text).unwrap();
    let challenge = access.challenge("pump");
    assert!(challenge.user.is_some() && access::verify_password(challenge.hash, b"apple"));

    let test = |topic: &str, action: &str| folder.run(["acl", "test", "pump", topic, action]);
    test("plant/pump/speed", "publish")
        .must(0, &["allowed: ", "users.toml:6:11 of role `machine`", "plant/%u/#"]);
    test("plant/pump/safety", "publish")
        .must(NO, &["denied: ", "users.toml:9:11", "deny \"plant/%u/safety\""]);
    test("plant/other/speed", "publish").must(NO, &["denied: no rule allows it"]);
    test("plant/pump/#", "publish").must(NO, &["this is no topic"]);
    test("plant/pump/speed", "read").must(TROUBLE, &["`read` is no action"]);

    let passwd = ["user", "passwd", "pump", "--password-stdin"];
    assert_eq!(with_input(&folder, &passwd, "berry\r\n").0, 0);
    let text = read_to_string(folder.path("users.toml")).unwrap();
    let access = access::Access::parse(&text).unwrap();
    assert!(access::verify_password(access.challenge("pump").hash, b"berry"));
    assert!(!access::verify_password(access.challenge("pump").hash, b"apple"));

    folder.run(["user", "remove", "pump"]).must(0, &[]);
    assert_eq!(read_to_string(folder.path("users.toml")).unwrap().trim_end(), BY_HAND.trim_end());
    test("plant/pump/speed", "publish").must(TROUBLE, &["there is no user `pump`"]);
    folder.run(["user", "remove", "pump"]).must(TROUBLE, &["there is no user `pump`"]);
}

#[test]
fn the_file_is_made_with_the_first_user() {
    let folder = Folder::new();
    let add = ["user", "add", "a", "--file", "new.toml", "--certificate", "a.example"];
    folder.run(add).must(0, &["`a` may do nothing yet"]);
    folder.run(["user", "add", "anonymous", "--file", "new.toml"]).must(0, &[]);
    let ran = folder.run(["user", "list", "--file", "new.toml", "--format", "json"]);
    let users: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(users[0]["certificate"], "a.example");
    assert_eq!((&users[0]["password"], &users[1]["name"]), (&Value::Bool(false), &Value::from("anonymous")));
    let ran = folder.run(["user", "list", "--file", "new.toml"]);
    ran.must(0, &["certificate a.example", "nothing"]);
    assert!(!ran.out.contains("nobody may connect"));
}

#[test]
fn an_answer_for_programs_names_the_rule() {
    let folder = Folder::new();
    let text = format!(
        "{BY_HAND}[[user]]\nname = \"ann\"\nroles = [\"viewer\"]\n[[user.rule]]\ndeny = \"subscribe\"\ntopics = [\"plant/%c\"]\n"
    );
    folder.write("users.toml", text);
    let test = |client: &str| {
        let ask = ["acl", "test", "ann", "$share/g/plant/c1", "subscribe", "--client", client];
        let ran = folder.run(ask.iter().chain(&["--file", "users.toml", "--format", "json"]));
        (ran.code, serde_json::from_str::<Value>(&ran.out).unwrap())
    };
    let (code, answer) = test("c1");
    assert_eq!((code, &answer["allowed"]), (Some(1), &Value::Bool(false)));
    assert_eq!(
        (&answer["rule"]["line"], &answer["rule"]["owner"]),
        (&Value::from(21), &Value::from("user `ann`"))
    );
    let (code, answer) = test("c2");
    assert_eq!((code, &answer["rule"]["owner"]), (Some(0), &Value::from("role `viewer`")));
    let (code, _) = test("c/2");
    assert_eq!(code, Some(1), "an odd client id is denied what any may be");
}

#[test]
fn what_is_wrong_is_shown_with_its_place_and_nothing_is_changed() {
    let folder = Folder::new();
    let text = "[[user]]\nname = \"a\"\nroles = [\"machin\"]\npassword = \"secret\"\n";
    let path = folder.write("users.toml", text);
    let add = ["user", "add", "b", "--file", "users.toml", "--certificate", "b"];
    let wanted =
        ["users.toml:3:10", "no role `machin`", "users.toml:4:12", "no hash", "2 problems in the user file"];
    folder.run(add).must(TROUBLE, &wanted);
    assert_eq!(read_to_string(&path).unwrap(), text);

    folder.write("users.toml", BY_HAND);
    set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    let add = |more: &[&'static str]| {
        let first = ["user", "add", "b", "--file", "users.toml", "--password-stdin"];
        first.into_iter().chain(more.iter().copied()).collect::<Vec<_>>()
    };
    let (code, said) = with_input(&folder, &add(&["--role", "machin"]), "x\n");
    assert!(code == TROUBLE && said.contains("the roles are: machine, viewer"), "{said}");
    let (code, said) = with_input(&folder, &add(&[]), "\n");
    assert!(code == TROUBLE && said.contains("at least one character"), "{said}");
    let (code, said) = with_input(&folder, &add(&[]), &"x".repeat(5000));
    assert!(code == TROUBLE && said.contains("above the limit of 1024"), "{said}");
    folder.run(["user", "add", "a/b", "--file", "users.toml"]).must(TROUBLE, &["cannot hold '/'"]);
    assert_eq!(read_to_string(&path).unwrap(), BY_HAND);
    folder.run(["user", "list", "--file", "users.toml"]).must(0, &["others may read", "chmod 600"]);
    folder.run(["user", "list"]).must(TROUBLE, &["name it with --file, or set the key security.users"]);
    folder.run(["user", "list", "--file", "none.toml"]).must(TROUBLE, &["cannot read none.toml"]);
}

#[test]
fn users_added_at_the_same_time_are_all_there() {
    let folder = Folder::new();
    folder.write("users.toml", BY_HAND);
    let children: Vec<_> = (0..8)
        .map(|number| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_verge"));
            let name = format!("u{number}");
            command.current_dir(folder.path("")).args(["user", "add", &name, "--certificate", &name]);
            command.args(["--file", "users.toml", "--role", "viewer"]).stdin(Stdio::null()).spawn().unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let access = access::Access::parse(&read_to_string(folder.path("users.toml")).unwrap()).unwrap();
    assert_eq!(access.users().count(), 8);
}

#[test]
fn a_relative_path_starts_at_the_file_that_names_it() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("etc")).unwrap();
    folder.write("etc/verge.toml", "[security]\nusers = \"users.toml\"\n");
    folder.write("etc/users.toml", "[[user]]\nname = \"ann\"\n");
    folder
        .run(["--config", "etc/verge.toml", "user", "list"])
        .must(0, &["ann", "nobody may connect without"]);
}

#[test]
fn a_broker_does_not_start_with_a_broken_user_file() {
    let folder = Folder::new();
    folder.write("users.toml", "[[user]]\nname = \"a b\"\n");
    folder.write("verge.toml", "[security]\nusers = \"users.toml\"\n");
    folder.run(["broker", "a"]).must(TROUBLE, &["users.toml:2:8", "a name cannot hold ' '"]);
}
