use super::*;

fn problems(text: &str) -> Vec<String> {
    Access::parse(text).err().unwrap_or_default().iter().map(ToString::to_string).collect()
}

#[track_caller]
fn one(text: &str, expected: &str) {
    let found = problems(text);
    assert!(found.len() == 1 && found[0].contains(expected), "{expected}: {found:#?}");
}

#[test]
fn everything_that_is_wrong_is_told_at_once_with_its_place() {
    let text = "[[user]]\nname = \"a/b\"\npasword = \"x\"\nroles = [\"none\"]\n\
                [[user.rule]]\nallow = \"read\"\ntopics = [\"a/#/b\", 7]\n[[role]]\nname = 3\n[extra]\n";
    let found = problems(text);
    let wanted = [
        "line 2, column 8: a name cannot hold '/'",
        "line 3, column 1: unknown key `pasword`",
        "line 4, column 10: there is no role `none`",
        "line 6, column 9: `read` is no action",
        "line 7, column 11: `a/#/b`: `#` may only be the last level",
        "line 7, column 20: `topics` must be a text, not an integer",
        "line 8, column 1: this role has no name",
        "line 9, column 8: `name` must be a text",
        "line 10, column 2: unknown key `extra`",
    ];
    assert_eq!(found.len(), wanted.len(), "{found:#?}");
    for (found, wanted) in found.iter().zip(wanted) {
        assert!(found.starts_with(wanted), "{found}, not {wanted}");
    }
}

#[test]
fn columns_are_counted_in_characters() {
    one(
        "[[user]]\nname = \"ä\"\nroles = [\"ö\"]\n[[role]]\nname=\"x\"",
        "line 3, column 10: there is no role `ö`",
    );
}

#[test]
fn each_mistake_in_a_rule_is_named() {
    let rule = |rule: &str| format!("[[user]]\nname = \"a\"\n[[user.rule]]\n{rule}");
    one(&rule("topics = [\"a\"]"), "neither allows nor denies");
    one(&rule("allow = \"admin\"\ndeny = \"admin\""), "both allows and denies");
    one(&rule("allow = \"publish\""), "this rule has no topics");
    one(&rule("allow = [\"publish\", \"admin\"]"), "this rule has no topics");
    one(&rule("allow = []\ntopics = [\"a\"]"), "about no action");
    one(&rule("allow = \"publish\"\ntopics = []"), "about no topic");
    one(&rule("allow = \"publish\"\ntopics = [\"a/x%u\"]"), "stand alone in their level");
    one(&rule("allow = \"subscribe\"\ntopics = [\"$share/g/a\"]"), "leave out `$share/`");
    one("[user]\nname = \"a\"", "`user` must be a list of tables");
    one("[[user]]\nname = \"a\"\nrule = 1", "`user.rule` must be a list of tables");
}

#[test]
fn what_must_be_single_is() {
    one(
        "[[user]]\nname=\"a\"\n[[user]]\nname=\"a\"",
        "line 4, column 6: there is a user `a` already, in line 2",
    );
    one("[[role]]\nname=\"a\"\n[[role]]\nname=\"a\"", "there is a role `a` already, in line 2");
    let twice = "[[user]]\nname=\"a\"\ncertificate=\"x\"\n[[user]]\nname=\"b\"\ncertificate=\"x\"";
    one(twice, "`x` already means the user of line 3");
    one("[[user]]\nname=\"anonymous\"\ncertificate=\"x\"", "neither password nor certificate");
}

#[test]
fn passwords_in_plain_text_are_refused() {
    one("[[user]]\nname=\"a\"\npassword=\"secret\"", "no hash of a password");
}

#[test]
fn limits_are_whole_numbers_above_zero() {
    one("[[user]]\nname=\"a\"\nconnections=0", "a whole number from 1 to 4294967295");
    one("[[user]]\nname=\"a\"\nmessages_per_second=-1", "a whole number");
    one("[[user]]\nname=\"a\"\nbytes_per_second=1.5", "a whole number");
    let access = Access::parse("[[user]]\nname=\"a\"\nbytes_per_second=1_000_000").unwrap();
    assert_eq!(access.users().next().unwrap().1.limits().bytes_per_second, Some(1_000_000));
}

#[test]
fn what_is_not_toml_is_shown() {
    let found = problems("[[user]]\nname = \n");
    assert!(found[0].starts_with("line 2") && found[0].contains("not TOML"), "{found:?}");
}

#[test]
fn no_more_problems_are_told_than_somebody_can_read() {
    assert_eq!(problems(&"[[user]]\n".repeat(1000)).len(), PROBLEMS_MAX);
}

proptest::proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "([\\[\\]=\"#a-z%/\n{}, ]|\\[\\[user\\]\\]\n|name|rule|topics){0,60}") {
        let _ = Access::parse(&text);
    }
}
