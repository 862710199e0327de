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
