//! What is known of this host.

use crate::{measure, profile};
use config::Config;
use planner::{Host, memory};
use rustix::process::{Resource, geteuid, getrlimit};

/// All that a plan needs, measured where the configuration does not say it. `say` hears what was measured and why.
pub fn facts(config: &Config, say: impl Fn(&str)) -> Host {
    let (costs, blocking) = profile::costs(&config.admission, say);
    Host {
        costs,
        blocking,
        limits: memory::shares(config, host::allowance().as_ref()).broker,
        processors: std::thread::available_parallelism().map_or(1, usize::from),
        is_realtime: may_be_realtime(),
        measure: measure::measure,
    }
}

fn may_be_realtime() -> bool {
    let limit = getrlimit(Resource::Rtprio).current;
    geteuid().is_root() || limit.is_none_or(|limit| limit > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::testing::{Anything, load};
    use planner::Study;

    #[test]
    fn costs_that_nobody_gives_are_measured() {
        let text = "[[topic]]\nfilter = \"s/#\"\nperiod = \"20ms\"\nretain = 20\n\
                    [[operator]]\nname = \"a\"\nkind = \"pass\"\ninputs = [\"s/1\"]\noutput = \"out/a\"\n";
        let config = load("facts", text);
        let here = facts(&config, |_| ());
        let study = Study::on(&config, &Anything, here.for_operators(&config), here.measure).unwrap();
        let rows = study.rows();
        let operator = rows.iter().flat_map(|graph| &graph.operators).find(|row| row.name == "a").unwrap();
        assert!(operator.cost_measured && operator.cost_us > 0.0);
        assert!(operator.cost_median_us.unwrap() <= operator.cost_us);
    }
}
