use super::*;
use crate::testing::Scratch;

const NODES: &str = "\
[kv.nodes.d]
address = \"127.0.0.1:7604\"
[kv.nodes.a]
address = \"127.0.0.1:7601\"
socket = \"a.sock\"
[kv.nodes.b]
address = \"127.0.0.1:7602\"
[kv.nodes.c]
address = \"127.0.0.1:7603\"
";

fn load(rest: &str) -> Result<KvConfig, String> {
    let loaded = Scratch::new("kv", &format!("{NODES}{rest}")).load(&[], &[]);
    loaded.map(|config| config.kv.expect("there are nodes"))
}

#[test]
fn nodes_are_numbered_by_name_and_keys_have_the_first_vote_that_matches() {
    let text = "\
[[lane]]
keys = [\"x/{0..9}\", \"mode\", \"own\"]
period = \"20ms\"
processor = 1
priority = \"auto\"

[[vote]]
filter = \"x/3\"
vote = \"weighted-mean decimal\"
weights = [1, 2, 3, 4]

[[vote]]
filter = \"x/#\"
vote = \"median f64\"

[[vote]]
filter = \"own\"
writers = [\"c\"]
single_source = true

[[task]]
name = \"fast\"
period = \"20ms\"
cost = \"2ms\"
";
    let kv = load(text).unwrap();
    assert_eq!(kv.names(), ["a", "b", "c", "d"]);
    assert_eq!(kv.nodes[0].socket, PathBuf::from("a.sock"));
    assert_eq!(kv.nodes[3].socket, PathBuf::from("/run/verge/kv-d.sock"));
    let lane = &kv.lanes[0];
    assert_eq!((lane.processor, lane.priority), (Some(1), None));
    let setup = &lane.setup;
    assert_eq!((setup.keys(), setup.period()), (12, Span::millis(20)));
    assert_eq!(setup.config().offset, Span::millis(2), "what the tasks take");
    let vote = |name: &str| {
        let key = setup.key(name).expect("it is configured");
        setup.config().keys[usize::from(key.0)].vote.as_ref().map(Vote::name)
    };
    assert_eq!(vote("x/0").as_deref(), Some("median f64"));
    assert_eq!(vote("x/3").as_deref(), Some("weighted mean decimal [1.0, 2.0, 3.0, 4.0]"));
    assert_eq!(vote("mode"), None);
    let own = setup.key("own").expect("it is configured");
    assert_eq!(setup.writers(own), [kv::Node(2)].into_iter().collect());
}

#[test]
fn several_lanes_share_the_period() {
    let lane = "[[lane]]\nkeys = [\"a\"]\nperiod = \"100ms\"\n";
    let kv = load(&lane.repeat(2)).unwrap();
    let offsets: Vec<Span> = kv.lanes.iter().map(|lane| lane.setup.config().offset).collect();
    assert_eq!(offsets, [Span::millis(10), Span::millis(60)]);
    assert_eq!(kv.lanes[1].setup.config().lane, 1);
}

#[test]
fn what_is_wrong_is_named_with_its_place_and_remedy() {
    let lane = "[[lane]]\nkeys = [\"a\"]\n";
    for (text, parts) in [
        ("", &["there are nodes of the key-value store, and no lanes", "add a [[lane]]"][..]),
        ("[[lane]]\nperiod = \"50ms\"\n", &["this lane lacks `keys`"]),
        ("[[lane]]\nkeys = [\"a{1..0}\"]\n", &["`a{1..0}` stands for no names"]),
        ("[[lane]]\nkeys = [\"a\", \"a\"]\n", &["key `a` is there twice"]),
        ("[[lane]]\nkeys = [\"a\"]\nround = \"40ms\"\n", &["40ms"]),
        (
            &format!("{lane}[[vote]]\nfilter = \"a\"\nvote = \"median f32\"\n"),
            &["\"median f32\"", "trimmed-mean"],
        ),
        (
            &format!("{lane}[[vote]]\nfilter = \"a\"\nwriters = [\"z\"]\n"),
            &["there is no node `z`", "a, b, c, d"],
        ),
        (&format!("{lane}[[vote]]\nfilter = \"a\"\nwriters = [\"b\"]\n"), &["single_source"]),
        (
            &format!("{lane}[[task]]\nname = \"t\"\nlane = 3\nperiod = \"1s\"\ncost = \"1ms\"\n"),
            &["there is no lane 3"],
        ),
        (&format!("{lane}[[task]]\nname = \"t\"\nperiod = \"0ms\"\ncost = \"1ms\"\n"), &["a period above 0"]),
        (&format!("[kv]\nfaults = 2\n{lane}"), &["7"]),
    ] {
        let report = load(text).map(|kv| kv.names()).unwrap_err();
        for part in parts {
            assert!(report.contains(part), "{text}\n{part}\n{report}");
        }
    }
    let report = Scratch::new("kv", lane).load(&[], &[]).map(|_| ()).unwrap_err();
    assert!(report.contains("there are lanes, and no nodes"), "{report}");
}
