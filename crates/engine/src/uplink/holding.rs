//! What is kept back from a router that has begun anew, until those have come back who want it.
//!
//! The problem: what is sent again to a router that has restarted finds nobody there who subscribes it, and is gone, if it comes before the
//! receiving sites' uplinks do. The idea: a primary that stood by while another one reigned knows the sessions of that; any other one may know nothing. Nothing is sent to
//! it but what it says to be wanted; what was wanted before is retained for as long as another site's uplink may need to come back.
//!
//! Where it is the same primary as before, and only the connection had gone, this costs one way there and back.

use super::{Uplink, UplinkReporter, Which};
use contract::{Mutant, Time};
use wire::Effects;

impl<R: UplinkReporter> Uplink<R> {
    /// A router is away: what goes there is retained.
    pub(super) fn hold_all<N: Effects>(&mut self, router: usize, net: &mut N) {
        if Mutant::SendAtOnce.is_on() {
            return;
        }
        for publication in self.outward.publications_at(router) {
            self.hold(router, publication, true, net);
        }
    }

    /// A router knows what was wanted: all of it goes on.
    pub(super) fn release_all<N: Effects>(&mut self, router: usize, net: &mut N) {
        for publication in self.outward.publications_at(router) {
            self.hold(router, publication, false, net);
        }
    }

    /// A router that had begun anew has said what is wanted: that goes on.
    pub(super) fn release<N: Effects>(&mut self, router: usize, net: &mut N) {
        for publication in self.outward.publications_at(router) {
            let there = self.routers.get(router);
            let wanted = there.is_some_and(|there| {
                let carried = there.end.endpoint.carried(publication);
                carried.is_some_and(|(topic, _)| there.wishes.mean_surely(topic))
            });
            if wanted {
                self.hold(router, publication, false, net);
            }
        }
    }

    /// Who has not come back to a router by now does not want anything there any more.
    pub(super) fn wait_no_longer<N: Effects>(&mut self, now: Time, net: &mut N) {
        let mut changed = false;
        let mut settled = false;
        for index in 0..self.routers.len() {
            let Some(router) = self.routers.get_mut(index) else { continue };
            if router.settles_until.is_some_and(|until| until <= now) {
                router.settles_until = None;
                settled = true;
            }
            if router.anew_until.is_none_or(|until| until > now) {
                continue;
            }
            router.anew_until = None;
            if router.reached {
                changed |= router.wishes.forget_untold();
                self.release_all(index, net);
            }
        }
        if changed {
            self.wish_at_home(net);
        } else if settled {
            self.move_streams(net);
        }
    }

    fn hold<N: Effects>(&mut self, router: usize, publication: u32, held: bool, net: &mut N) {
        self.with_end(Which::Router(router), net, |end, out| end.endpoint.hold(publication, held, out));
    }
}
