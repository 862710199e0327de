//! Routers that a coordination service names: which there are, and which carries which topic.
//!
//! The idea: the site's part of coordination ([`federation::Site`]) stands in each of its uplinks. That of the one that carries says which topics are
//! published here and what is wanted, and is told where each topic goes and which routers are to be linked. That of the other one is told the same, and
//! says nothing, so that it can go on at once. Where a topic goes is all that differs from routers that a file lists: what is wanted, and what is
//! kept until the next one has it, stay as they are.
//!
//! Whoever drives the uplink keeps a session with the service, and tells by [`Uplink::coordinate`] what comes of it. Another number of
//! [`Uplink::coordination`] wants another session. It makes known where routers are that [`Uplink::poll_link`] gives.
//!
//! Source: PubSubCoord §2.6; `docs/decisions/0041`.

use super::wishes::Wishes;
use super::{Uplink, UplinkNews, UplinkReporter, Which, may_cross, sampling};
use contract::{Epoch, Span, Time, TopicFilter};
use federation::{
    Holder, MemberNews, Participant, Refused, Request, Side, Site, SiteNews, SiteSettings, Terms, Ticket,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wire::Effects;

/// How a site is coordinated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Coordinated {
    /// What both brokers of the site have in common, and nobody else has.
    pub identity: String,
    /// Topics that it may share with others.
    pub topics_max: usize,
}

/// How coordination is, for people.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CoordinationView {
    /// Whether the site holds its name, and is coordinated.
    pub holds: bool,
    /// Why it does not, or what else is wrong; empty: nothing.
    pub trouble: String,
    /// Topics that are published here, and may leave.
    pub offered: usize,
    /// Topics that are asked for.
    pub asked: usize,
    /// Topics that have a router.
    pub routed: usize,
}

/// The part of an uplink that is coordinated.
pub(super) struct Coordinator {
    settings: SiteSettings,
    /// What the site's brokers say to be published here.
    published: Wishes,
    /// Topics of these of which the service has not been told that they have come or gone.
    changed: BTreeSet<String>,
    /// It observes while the other broker's uplink carries.
    site: Site,
    /// The number of its session.
    life: u64,
    offered: BTreeSet<String>,
    holds: bool,
    trouble: String,
    /// Routers that are to be connected to: names, and where they are reached.
    to_link: VecDeque<(String, String)>,
    /// Where each router that is linked, or is to be, is reached.
    linked: BTreeMap<String, String>,
    /// Routers that have nothing more of this site, and when they are left: until then others may not know it yet.
    to_unlink: BTreeMap<String, Time>,
}

impl Coordinator {
    pub(super) fn new(settings: Coordinated, name: &str) -> Coordinator {
        let Coordinated { identity, topics_max } = settings;
        let holder = Holder { identity, reign: 0 };
        let settings = SiteSettings { name: name.to_owned(), holder, topics_max };
        Coordinator {
            site: Site::observing(settings.clone()),
            settings,
            published: Wishes::default(),
            changed: BTreeSet::new(),
            life: 0,
            offered: BTreeSet::new(),
            holds: false,
            trouble: String::new(),
            to_link: VecDeque::new(),
            linked: BTreeMap::new(),
            to_unlink: BTreeMap::new(),
        }
    }

    /// Begins to carry in this reign.
    pub(super) fn begin(&mut self, now: Time, reign: Epoch) {
        self.site.reign(now, reign.0);
    }

    /// The other broker's uplink carries: it claims what stands in the tree, and until then that is to stay.
    pub(super) fn end(&mut self, now: Time) {
        self.site = Site::observing(self.settings.clone());
        self.life += 1;
        self.holds = false;
        // The new one knows of nothing that is published here.
        self.changed.append(&mut self.offered);
        self.trouble.clear();
        for (router, _) in self.to_link.drain(..) {
            self.linked.remove(&router);
        }
        // Those that the new one wants stay.
        self.to_unlink.extend(self.linked.keys().map(|router| (router.clone(), now + UNWANTED_FOR)));
    }

    /// The site's broker is asked anew what is published.
    pub(super) fn ask(&mut self) {
        self.published.ask();
    }

    /// It has told that a topic is, or is not any more. Returns whether the service is to be told of something.
    pub(super) fn hear(&mut self, topic: &str, is_published: bool) -> bool {
        let changed = self.published.hear(topic, is_published.then_some(Span::ZERO), false);
        if changed && topic.is_empty() {
            // Those that it has not told again are gone.
            let gone = self.offered.iter().filter(|topic| !self.published.mean(topic));
            self.changed.extend(gone.cloned());
        } else if changed {
            self.changed.insert(topic.to_owned());
        }
        changed
    }

    /// A router is to be linked, or is reached elsewhere; one that was to be left stays.
    fn want(&mut self, router: &str, locator: &str) {
        let stays = self.to_unlink.remove(router).is_some();
        let before = self.linked.insert(router.to_owned(), locator.to_owned());
        if !stays || before.as_deref() != Some(locator) {
            self.to_link.push_back((router.to_owned(), locator.to_owned()));
        }
    }

    /// A router has nothing more of this site.
    fn want_no_more(&mut self, now: Time, router: &str) {
        let waiting = self.to_link.len();
        self.to_link.retain(|(name, _)| name != router);
        if self.to_link.len() < waiting {
            self.linked.remove(router);
        } else {
            self.to_unlink.insert(router.to_owned(), now + LINGERS);
        }
    }

    /// Routers that are to be left by now.
    fn due(&mut self, now: Time) -> Vec<String> {
        let due = self.to_unlink.extract_if(.., |_, at| *at <= now);
        let due: Vec<String> = due.map(|(router, _)| router).collect();
        due.iter().for_each(|router| _ = self.linked.remove(router));
        due
    }

    /// Tells the service what has come and gone of what may leave.
    fn offer(&mut self, now: Time, share: &[TopicFilter]) {
        for topic in std::mem::take(&mut self.changed) {
            let leaves = may_cross(&topic, share);
            let wanted = leaves && self.published.mean(&topic);
            if wanted && !self.offered.contains(&topic) {
                match self.site.open(now, &topic, Side::Publishes, &Terms::default()) {
                    Ok(()) => _ = self.offered.insert(topic),
                    Err(many) => self.trouble = many.to_string(),
                }
            } else if !wanted && self.offered.remove(&topic) {
                self.site.close(now, &topic, Side::Publishes);
            }
        }
    }

    /// The router of a topic; before it the one that had it, which all who want it are linked to until the service says that they are at the new one.
    pub(super) fn routers_of(&self, topic: &str) -> impl Iterator<Item = &str> {
        let route = self.site.route(topic);
        let names = route.map(|route| [route.former.as_deref(), Some(route.router.as_str())]);
        names.into_iter().flatten().flatten()
    }

    pub(super) fn next_deadline(&self) -> Time {
        let leaves = self.to_unlink.values().copied().min().unwrap_or(Time::NEVER);
        self.site.next_deadline().min(leaves)
    }

    pub(super) fn view(&self) -> CoordinationView {
        CoordinationView {
            holds: self.holds,
            trouble: self.trouble.clone(),
            offered: self.offered.len(),
            asked: self.site.wished(),
            routed: self.site.routed(),
        }
    }
}

const NAME_TAKEN: &str =
    "another site holds this site's name: give each a name of its own (site.name). It is tried again";
const DEPOSED: &str = "the other broker of this site has claimed its name in a later reign";
/// So long a router is linked after it has nothing more of this site: what others have sent there comes.
const LINGERS: Span = Span::secs(2);
/// So long routers stay that an uplink had while it carried, until it has read again which are wanted.
const UNWANTED_FOR: Span = Span::secs(60);
impl<R: UplinkReporter> Uplink<R> {
    /// The number of the session that is to be kept with the coordination service; `None`: none is. Another one than before wants a new session, and
    /// the former is to be abandoned, so that what it owns stays until it is claimed anew.
    pub fn coordination(&self) -> Option<u64> {
        Some(self.coordinator.as_ref()?.life)
    }

    /// Tells the site's part of coordination something of its session.
    pub fn coordinate<N: Effects>(
        &mut self,
        now: Time,
        net: &mut N,
        tell: impl FnOnce(&mut dyn Participant),
    ) {
        if let Some(coordinator) = &mut self.coordinator {
            tell(&mut coordinator.site);
            self.take_site_news(now, net);
        }
    }

    /// The next request for the service.
    pub fn poll_coordination(&mut self) -> Option<(Ticket, Request)> {
        self.coordinator.as_mut()?.site.poll_request()
    }

    /// What keeps the session from the service, in words for people; or nothing does any more.
    pub fn coordination_trouble(&mut self, trouble: Option<&str>) {
        if let Some(coordinator) = &mut self.coordinator {
            let before = std::mem::replace(&mut coordinator.trouble, trouble.unwrap_or_default().to_owned());
            if let Some(why) = trouble.filter(|why| before != **why) {
                self.reporter.report(&UplinkNews::Uncoordinated { why });
            }
        }
    }

    /// The next router that is to be connected to: its name, and where it is reached.
    pub fn poll_link(&mut self) -> Option<(String, String)> {
        self.coordinator.as_mut()?.to_link.pop_front()
    }

    /// What is published here, or wanted, has changed: the service hears of it.
    pub(super) fn tell_coordination<N: Effects>(&mut self, now: Time, wishes: bool, net: &mut N) {
        let wished: Vec<_> = match wishes {
            // What is wanted less often goes by the router of its topic.
            true => self.wanted().iter().filter_map(|(filter, _)| sampling::topics_of(filter)).collect(),
            false => Vec::new(),
        };
        let Some(coordinator) = &mut self.coordinator else { return };
        coordinator.offer(now, &self.settings.share);
        if !wishes {
            return self.take_site_news(now, net);
        }
        coordinator.site.wish(now, &wished);
        self.take_site_news(now, net);
    }

    /// Does what the service has time for.
    pub(super) fn coordinate_on_time<N: Effects>(&mut self, now: Time, net: &mut N) {
        self.coordinate(now, net, |site| site.handle_timeout(now));
    }

    /// Takes up what has been told: topics go by other routers, routers are linked or not any more.
    fn take_site_news<N: Effects>(&mut self, now: Time, net: &mut N) {
        let mut moves = false;
        while let Some(news) = self.coordinator.as_mut().and_then(|coordinator| coordinator.site.poll_news())
        {
            match news {
                SiteNews::Route { .. } => moves = true,
                SiteNews::Link { router, locator } => {
                    self.coordinator.iter_mut().for_each(|coordinator| coordinator.want(&router, &locator));
                }
                SiteNews::Unlink { router } => {
                    self.coordinator
                        .iter_mut()
                        .for_each(|coordinator| coordinator.want_no_more(now, &router));
                }
                SiteNews::Refused { topic, refused } => self.note_mismatch(&topic, &refused),
                SiteNews::Member(news) => self.note_member(news),
                SiteNews::TooMany(many) => self.coordination_trouble(Some(&many.to_string())),
                _ => {}
            }
        }
        if moves {
            self.move_streams(net);
        }
        self.leave_routers_in_time(now, net);
    }

    /// Routers that have had nothing of this site for a while are left.
    fn leave_routers_in_time<N: Effects>(&mut self, now: Time, net: &mut N) {
        let due = self.coordinator.as_mut().map(|coordinator| coordinator.due(now)).unwrap_or_default();
        for router in due {
            if let Some(place) = self.router_called(&router) {
                self.unlink(now, place, net);
            }
        }
    }

    fn note_member(&mut self, news: MemberNews) {
        let trouble = match news {
            MemberNews::Claimed => {
                self.reporter.report(&UplinkNews::Coordinated);
                String::new()
            }
            MemberNews::NameTaken => NAME_TAKEN.to_owned(),
            MemberNews::Deposed => DEPOSED.to_owned(),
            MemberNews::Layout { found } => format!(
                "the tree of the coordination service is not of this release (`{found}`): give coordination.namespace another one"
            ),
            MemberNews::Forbidden { path, why } => format!("{path}: {why}"),
            _ => return,
        };
        let holds = trouble.is_empty();
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.holds = holds;
        }
        self.coordination_trouble((!holds).then_some(&trouble));
    }

    /// What two sites say of a topic does not go together, or does again.
    fn note_mismatch(&mut self, topic: &str, refused: &[Refused]) {
        match refused.first() {
            Some(Refused { from, to, why }) => {
                self.refuse(Which::Home, topic, &format!("between {from} and {to}: {why}"));
            }
            None => self.forget_troubles(Which::Home, topic),
        }
    }
}
