//! The guests themselves: what later tests rely on.

use crate::lab::Lab;
use crate::support::wait_until;

#[test]
fn guests_have_clocks_cables_and_power_of_their_own() {
    let Some(lab) = Lab::start("guests_have_clocks_cables_and_power_of_their_own", 2) else { return };
    let (one, two) = (lab.guest(1), lab.guest(2));
    let clock = |guest: &crate::lab::Guest| guest.must("date +%s").trim().parse::<i64>().unwrap();
    let reaches = || one.run(&format!("ping -c 1 -W 1 {}", two.address())).code == 0;
    assert!(one.must("verge --version").starts_with("verge "), "the program runs there");

    one.step_clock("-1000 seconds");
    assert!((900..1100).contains(&(clock(two) - clock(one))), "only one of the clocks was stepped");

    wait_until("that guests reach each other", reaches);
    two.cut();
    assert!(!reaches(), "the cable is cut");
    assert_eq!(two.run("exit 7").code, 7, "commands reach a guest without a cable");
    two.join();
    wait_until("that guests reach each other again", reaches);

    one.mute_towards(&[two]);
    assert!(!reaches());
    one.netem("delay 1ms loss 1%");
    assert!(one.must("tc qdisc show dev vec0").contains("netem"), "the link loses and delays");
    one.mend_link();

    let job = two.spawn("sleep 1000");
    one.must("true");
    two.must(&format!("kill -9 {}", job.id()));
    wait_until("the end of the job", || job.exit_code() == Some(137));

    two.must("echo kept > /lab/kept; echo gone > /tmp/gone");
    two.kill();
    assert!(!reaches(), "the host is dead");
    two.boot();
    wait_until("that the host is back", reaches);
    assert_eq!(two.must("cat /lab/kept; ls /tmp").trim(), "kept");
}
