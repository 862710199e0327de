use super::*;
use crate::password::{Cost, check_hash, verify_password};

const FILE: &str = r##"
[[user]]
name = "pump"
certificate = "pump.plant.example"
roles = ["machine"]
messages_per_second = 50
[[user.rule]]
deny = "publish"
topics = ["plant/pump/secret"]

[[user]]
name = "boss"
password = "$argon2id$v=19$m=64,t=2,p=1$dmVyZ2UgZGVjb3kgc2FsdA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
[[user.rule]]
allow = ["subscribe", "admin"]
topics = ["#", "$SYS/#"]
[[user.rule]]
deny = "subscribe"
topics = "plant/+/secret"

[[user]]
name = "anonymous"
[[user.rule]]
allow = "subscribe"
topics = ["public/#"]

[[role]]
name = "machine"
[[role.rule]]
allow = ["publish", "contract"]
topics = ["plant/%u/#", "by-client/%c"]
[[role.rule]]
allow = "admin"
"##;

fn access() -> Access {
    Access::parse(FILE).unwrap_or_else(|problems| panic!("{problems:?}"))
}

fn allowed(name: &str, client: &str, action: Action, topic: &str) -> bool {
    let access = access();
    access.allows(access.user(name).unwrap(), client, action, topic).allowed
}

#[test]
fn what_no_rule_allows_is_denied() {
    assert!(allowed("pump", "c", Action::Publish, "plant/pump/speed"));
    assert!(!allowed("pump", "c", Action::Publish, "plant/boss/speed"));
    assert!(!allowed("pump", "c", Action::Subscribe, "plant/pump/speed"));
    assert!(allowed("pump", "c", Action::Contract, "plant/pump/#"));
    assert!(!allowed("pump", "c", Action::Contract, "plant/#"));
    assert!(allowed("pump", "c7", Action::Publish, "by-client/c7"));
    assert!(!allowed("pump", "c8", Action::Publish, "by-client/c7"));
    assert!(!allowed("pump", "+", Action::Publish, "by-client/c7"));
    assert!(!allowed("anonymous", "c", Action::Publish, "public/a"));
}

#[test]
fn what_a_rule_denies_is_denied_whatever_others_allow() {
    assert!(!allowed("pump", "c", Action::Publish, "plant/pump/secret"));
    assert!(!allowed("boss", "c", Action::Subscribe, "plant/pump/secret"));
    assert!(!allowed("boss", "c", Action::Subscribe, "#"), "some of it is denied");
    assert!(!allowed("boss", "c", Action::Subscribe, "$share/g/plant/#"));
    assert!(allowed("boss", "c", Action::Subscribe, "$share/g/office/#"));
}

#[test]
fn the_brokers_own_topics_need_a_rule_of_their_own() {
    assert!(allowed("boss", "c", Action::Subscribe, "$SYS/broker/#"));
    let access = Access::parse("[[user]]\nname='a'\n[[user.rule]]\nallow='subscribe'\ntopics=['#']").unwrap();
    let user = access.user("a").unwrap();
    assert!(access.allows(user, "c", Action::Subscribe, "#").allowed);
    assert!(!access.allows(user, "c", Action::Subscribe, "$SYS/broker/uptime").allowed);
}

#[test]
fn managing_needs_no_topics() {
    assert!(allowed("pump", "c", Action::Admin, "handover"));
    assert!(!allowed("anonymous", "c", Action::Admin, "status"));
}

#[test]
fn a_judgement_names_the_rule() {
    let access = access();
    let user = access.user("pump").unwrap();
    let Because::Rule(rule) = access.allows(user, "c", Action::Publish, "plant/pump/secret").because else {
        panic!("a rule denies this");
    };
    assert_eq!((rule.place().line, rule.verdict()), (9, Verdict::Deny));
    assert_eq!(access.owner(rule).to_string(), "user `pump`");
    let Because::Rule(rule) = access.allows(user, "c", Action::Publish, "by-client/c").because else {
        panic!("a rule allows this");
    };
    assert_eq!((rule.place(), rule.pattern()), (Place { line: 31, column: 25 }, "by-client/%c"));
    assert_eq!(access.owner(rule).to_string(), "role `machine`");
    assert_eq!(access.allows(user, "c", Action::Publish, "x").because, Because::NoRule);
    assert_eq!(access.allows(user, "c", Action::Publish, "plant/pump/#").because, Because::NotATopic);
    assert_eq!(access.allows(user, "c", Action::Subscribe, "a/#/b").because, Because::NotATopic);
    assert_eq!(access.allows(UserId(9), "c", Action::Publish, "x").because, Because::NoUser);
}

#[test]
fn users_are_found_by_name_and_by_certificate() {
    let access = access();
    let pump = access.user("pump").unwrap();
    assert_eq!(access.by_certificate("pump.plant.example"), Some(pump));
    assert_eq!(access.by_certificate("other"), None);
    assert_eq!(access.anonymous(), access.user("anonymous"));
    assert_eq!(access.get(pump).unwrap().limits().messages_per_second, Some(50));
    assert_eq!(access.roles(pump).collect::<Vec<_>>(), ["machine"]);
    assert_eq!(Access::parse("").unwrap().anonymous(), None);
}

#[test]
fn a_stranger_costs_as_much_as_a_user() {
    let access = access();
    let dear = Cost { memory_kib: 64, passes: 2, lanes: 1 };
    for name in ["nobody", "pump", "anonymous", "boss"] {
        let challenge = access.challenge(name);
        assert_eq!(check_hash(challenge.hash), Ok(dear));
        assert_eq!(challenge.user.is_some(), name == "boss", "the others have no password");
        assert!(!verify_password(challenge.hash, b"guess"));
    }
}

#[test]
fn without_a_user_file_everything_is_allowed() {
    let access = Access::open();
    let user = access.anonymous().unwrap();
    let judgement = access.allows(user, "c", Action::Admin, "handover");
    assert_eq!(judgement, Judgement { allowed: true, because: Because::Open });
    assert!(access.is_open() && !self::access().is_open());
}
