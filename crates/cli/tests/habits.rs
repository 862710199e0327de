//! What hands do that know other programs of the field.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should end")]

mod support;

use std::fs::File;
use std::process::Stdio;
use support::{Pair, Process, free_ports, program, wait_until};
use verge::Standing;

#[test]
fn a_port_alone_means_this_host_and_no_other_pair() {
    let pair = Pair::start("");
    let primary = pair.wait_for_protection();
    let [nobody] = free_ports();
    let ran = pair.site.run(&["handover", "-p", &nobody.to_string()]);
    assert!(ran.code != Some(0), "{ran:?}");
    assert!(pair.stands(primary, Standing::Primary), "the configured pair was not meant");
    let addresses = pair.site.addresses();
    let port = addresses.split(',').nth(primary).and_then(|address| address.rsplit_once(':')).unwrap().1;
    pair.site.run(&["handover", "-p", port]).must(0, &["handed over"]);
    wait_until("the other one reigns", || pair.stands(1 - primary, Standing::Primary));
}

#[test]
fn addresses_of_two_pairs_hand_over_neither() {
    let pairs = [Pair::start(""), Pair::start("")];
    let primaries = pairs.each_ref().map(Pair::wait_for_protection);
    let of = |at: usize| pairs[at].site.addresses().split(',').nth(primaries[at]).unwrap().to_owned();
    let ran = pairs[0].site.run(&["handover", "-h", &of(0), "-h", &of(1)]);
    ran.must(2, &["brokers of different pairs", &of(0), &of(1)]);
    for (pair, primary) in pairs.iter().zip(primaries) {
        assert!(pair.stands(primary, Standing::Primary));
    }
}

/// Publishes with these arguments and this standard input, again and again, and returns what `verge sub` printed of the first with those.
fn heard(pair: &Pair, published: &[&str], input: &[u8], printed: &[&str]) -> Vec<u8> {
    let config = pair.site.config.to_str().unwrap();
    let given = pair.site.folder.write("input", input);
    let mut publisher = program(["--config", config, "pub", "-t", "habit/a"]);
    publisher.args(published).args(["--repeat", "2000", "--repeat-delay", "20ms"]);
    publisher.stdin(File::open(given).unwrap()).stdout(Stdio::null());
    let _publisher = Process::start(&mut publisher, pair.site.folder.path("pub.log"));
    let words = ["sub", "-t", "habit/#", "-C", "1", "-W", "30"];
    let ran = pair.site.run(&[&words[..], printed].concat());
    ran.must(0, &[]);
    ran.out.into_bytes()
}

#[test]
fn pub_and_sub_know_the_flags_of_mosquitto_that_mean_the_same() {
    let pair = Pair::start("");
    assert_eq!(heard(&pair, &["-s"], b"two\nlines\n", &["-F", "%t|%l|%p"]), b"habit/a|10|two\nlines\n\n");
    assert_eq!(heard(&pair, &["-n"], b"", &["-v"]), b"habit/a \n");
    assert_eq!(heard(&pair, &["-m", "on"], b"", &["-F", "%x 100 %%"]), b"6f6e 100 %\n");
    // What is no text comes undamaged, and says how.
    let json = String::from_utf8(heard(&pair, &["-s"], b"\xff\x00", &["--format", "json"])).unwrap();
    assert!(json.contains("\"payload\":\"/wA=\"") && json.contains("\"encoding\":\"base64\""), "{json}");
    let json = String::from_utf8(heard(&pair, &["-m", "12.5"], b"", &["--format", "json"])).unwrap();
    assert!(json.contains("\"payload\":\"12.5\"") && json.contains("\"encoding\":\"utf-8\""), "{json}");
    pair.site.run(&["sub", "-t", "x", "-F", "%k"]).must(2, &["%k is not known"]);
    pair.site.run(&["pub", "-t", "x", "-m", "1", "-n"]).must(2, &["cannot be used with"]);
}
