//! What the uplink of a broker's site shows.

use crate::exposition::Samples;
use crate::metrics::{Kind, write_family};
use report::{
    CoordinationReport, FlowReport, GivenReport, KeeperReport, LinkReport, LinkUse, MissedReport,
    RouterReport, SiteReport,
};
use std::sync::Arc;

/// Says how the uplink is, as far as that is known already.
pub type SiteSource = Arc<dyn Fn() -> Option<SiteReport> + Send + Sync>;

/// One metric of an uplink.
pub struct SiteMetric {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// What it means.
    pub help: &'static str,
    figure: Figure,
}

/// Where a figure is in what is said of an uplink. Of routers there is something to say only where the uplink carries.
#[derive(Clone, Copy)]
enum Figure {
    Site(fn(&SiteReport) -> u64),
    Coordination(fn(&CoordinationReport) -> u64),
    Keeper(fn(&KeeperReport) -> u64),
    Missed(fn(&MissedReport) -> u64),
    Given(fn(&GivenReport) -> u64),
    Router(fn(&RouterReport) -> Option<f64>),
    Flow(fn(&FlowReport) -> u64),
    Link(fn(&LinkReport) -> u64),
    LinkUse(fn(&LinkUse) -> f64),
}

impl SiteMetric {
    /// Its labels.
    pub fn labels(&self) -> &'static [&'static str] {
        match self.figure {
            Figure::Site(_) | Figure::Coordination(_) | Figure::Keeper(_) | Figure::Link(_) => &[],
            Figure::LinkUse(_) => &["direction"],
            Figure::Missed(_) | Figure::Given(_) => &["site"],
            Figure::Router(_) => &["router"],
            Figure::Flow(_) => &["router", "direction"],
        }
    }

    fn collect(&self, report: &SiteReport, samples: &mut Samples<'_>) {
        let routers = report.routers.iter().filter(|_| report.carries);
        match self.figure {
            Figure::Site(of) => samples.count(of(report)),
            Figure::Coordination(of) => {
                let coordination = report.coordination.iter().filter(|_| report.carries);
                coordination.for_each(|coordination| samples.count(of(coordination)));
            }
            Figure::Keeper(of) => report.keeper.iter().for_each(|keeper| samples.count(of(keeper))),
            Figure::Missed(of) => {
                let missed =
                    report.keeper.iter().filter(|keeper| keeper.asks).flat_map(|keeper| &keeper.missed);
                missed.for_each(|missed| samples.labelled(&[("site", &missed.site)], of(missed)));
            }
            Figure::Given(of) => {
                let given = report.keeper.iter().flat_map(|keeper| &keeper.given);
                given.for_each(|given| samples.labelled(&[("site", &given.site)], of(given)));
            }
            Figure::Router(of) => {
                for router in routers {
                    if let Some(value) = of(router) {
                        samples.labelled_value(&[("router", &router.name)], value);
                    }
                }
            }
            Figure::Link(of) => {
                let link = report.link.iter().filter(|_| report.carries);
                link.for_each(|link| samples.count(of(link)));
            }
            Figure::LinkUse(of) => {
                for link in report.link.iter().filter(|_| report.carries) {
                    for (direction, used) in [("out", &link.outward), ("in", &link.inward)] {
                        samples.labelled_value(&[("direction", direction)], of(used));
                    }
                }
            }
            Figure::Flow(of) => {
                for router in routers {
                    for (direction, flow) in [("out", &router.outward), ("in", &router.inward)] {
                        samples.labelled(&[("router", &router.name), ("direction", direction)], of(flow));
                    }
                }
            }
        }
    }
}

const fn metric(name: &'static str, kind: Kind, figure: Figure, help: &'static str) -> SiteMetric {
    SiteMetric { name, kind, help, figure }
}

fn seconds(nanos: i64) -> f64 {
    nanos as f64 / 1e9
}

/// All metrics of uplinks.
pub const SITE_METRICS: &[SiteMetric] = &[
    metric(
        "verge_site_carries",
        Kind::Gauge,
        Figure::Site(|site| site.carries.into()),
        "1 if this broker's uplink carries between its site and others. One of a pair's does, that of the broker that reigns.",
    ),
    metric(
        "verge_site_wanted_filters",
        Kind::Gauge,
        Figure::Site(|site| site.wanted_here as u64),
        "Filters that are subscribed at this site.",
    ),
    metric(
        "verge_site_refused_streams",
        Kind::Gauge,
        Figure::Site(|site| site.refused.len() as u64),
        "Streams that are wanted elsewhere and not carried. `verge site status` says which and why.",
    ),
    metric(
        "verge_site_unpromised_streams",
        Kind::Gauge,
        Figure::Site(|site| site.unpromised.len() as u64),
        "Streams that cross without a promise, since the whole way does not keep their contracts. `verge site status` says which and why.",
    ),
    metric(
        "verge_site_unwished_filters",
        Kind::Gauge,
        Figure::Site(|site| site.unwished.len() as u64),
        "Filters that are wanted elsewhere or here, and could not be subscribed on the other side. `verge site status` says which and why.",
    ),
    metric(
        "verge_site_topics_by_one_router",
        Kind::Gauge,
        Figure::Site(|site| site.by_one_router.len() as u64),
        "Topics with `paths = 2` that go by one router only. `verge site status` says which.",
    ),
    metric(
        "verge_site_coordinated",
        Kind::Gauge,
        Figure::Coordination(|of| (of.holds && of.trouble.is_empty()).into()),
        "1 if the coordination service knows the site by its name. Only where a service names the routers, and this uplink carries, as the next three.",
    ),
    metric(
        "verge_site_offered_topics",
        Kind::Gauge,
        Figure::Coordination(|of| of.offered as u64),
        "Topics that are published at this site, and may leave.",
    ),
    metric(
        "verge_site_asked_topics",
        Kind::Gauge,
        Figure::Coordination(|of| of.asked as u64),
        "Topics of other sites that are asked for.",
    ),
    metric(
        "verge_site_routed_topics",
        Kind::Gauge,
        Figure::Coordination(|of| of.routed as u64),
        "Of both, those that have a router.",
    ),
    metric(
        "verge_uplink_reached",
        Kind::Gauge,
        Figure::Router(|router| Some(if router.reached { 1.0 } else { 0.0 })),
        "1 if the router is reached, and has a primary. Only where this uplink carries, as all that follow.",
    ),
    metric(
        "verge_uplink_way_seconds",
        Kind::Gauge,
        Figure::Router(|router| router.clock_within_ns.map(seconds)),
        "Half of the quickest way to the router and back. So exactly its clock is known; more than `verge_uplink_reckoned_seconds` is further away than planned.",
    ),
    metric(
        "verge_uplink_reckoned_seconds",
        Kind::Gauge,
        Figure::Router(|router| Some(seconds(router.reckoned_ns))),
        "How long the way to the router is reckoned to take at most.",
    ),
    metric(
        "verge_uplink_wanted_filters",
        Kind::Gauge,
        Figure::Router(|router| Some(router.wanted_elsewhere as f64)),
        "Filters that other sites subscribe there.",
    ),
    metric(
        "verge_uplink_streams",
        Kind::Gauge,
        Figure::Flow(|flow| flow.streams as u64),
        "Streams that cross by the router, out of the site or into it.",
    ),
    metric(
        "verge_uplink_messages_total",
        Kind::Counter,
        Figure::Flow(|flow| flow.messages),
        "Messages that crossed.",
    ),
    metric(
        "verge_uplink_bytes_total",
        Kind::Counter,
        Figure::Flow(|flow| flow.bytes),
        "Bytes of their payloads.",
    ),
    metric(
        "verge_uplink_dropped_total",
        Kind::Counter,
        Figure::Flow(|flow| flow.dropped),
        "Messages that were not handed on, since too much waited on the connection.",
    ),
    metric(
        "verge_uplink_repeated_total",
        Kind::Counter,
        Figure::Flow(|flow| flow.repeated),
        "Messages that came once more by this router, after another one had brought them, and were dropped: of topics with `paths = 2`, and of what moved.",
    ),
    metric(
        "verge_journal_healthy",
        Kind::Gauge,
        Figure::Keeper(|keeper| keeper.trouble.is_empty().into()),
        "1 if the site's journal beside this broker keeps what it is to. Only where there is one (site.journal), as all that follow.",
    ),
    metric(
        "verge_link_bytes_per_second",
        Kind::Gauge,
        Figure::Link(|link| link.bandwidth),
        "What the link to routers carries each way, as stated (uplink.bandwidth). Only where that is, and this uplink carries, as the next three.",
    ),
    metric(
        "verge_link_bulk_bytes_per_second",
        Kind::Gauge,
        Figure::Link(|link| link.bulk),
        "What best effort may take of it.",
    ),
    metric(
        "verge_link_promised_bytes_per_second",
        Kind::Gauge,
        Figure::LinkUse(|used| used.promised as f64),
        "What contracts are promised to take of it at most, with all that is around messages.",
    ),
    metric(
        "verge_link_waits_seconds",
        Kind::Gauge,
        Figure::LinkUse(|used| seconds(used.waits_ns)),
        "How long the last of these messages waits there if all come at once; uplink.queueing is the most that is promised.",
    ),
    metric(
        "verge_journal_bytes",
        Kind::Gauge,
        Figure::Keeper(|keeper| keeper.bytes),
        "Bytes of the journal's files.",
    ),
    metric(
        "verge_journal_kept_total",
        Kind::Counter,
        Figure::Keeper(|keeper| keeper.kept),
        "Messages that were kept.",
    ),
    metric(
        "verge_journal_not_kept_total",
        Kind::Counter,
        Figure::Keeper(|keeper| keeper.not_kept),
        "Messages that should have been kept and were not: the disk is full or has failed, or they are too long.",
    ),
    metric(
        "verge_journal_given_up_total",
        Kind::Counter,
        Figure::Keeper(|keeper| keeper.given_up),
        "Messages that were given up before their time, since the journal had no room (site.journal_bytes).",
    ),
    metric(
        "verge_backlog_left_messages",
        Kind::Gauge,
        Figure::Missed(|missed| missed.left),
        "Messages of a site that have not been looked at yet for what was missed, at most; those that came live are among them. Only at the broker that reigns, as the next two.",
    ),
    metric(
        "verge_backlog_came_messages_total",
        Kind::Counter,
        Figure::Missed(|missed| missed.messages),
        "Messages of a site that were missed and came as backlog.",
    ),
    metric(
        "verge_backlog_gone_messages_total",
        Kind::Counter,
        Figure::Missed(|missed| missed.gone),
        "Messages of a site that were missed, listed, and there no more when they were to be sent. What was given up before is counted where it was published (`verge_journal_given_up_total`).",
    ),
    metric(
        "verge_backlog_given_messages_total",
        Kind::Counter,
        Figure::Given(|given| given.messages),
        "Messages that were given to a site that had missed them.",
    ),
];

/// What a report says when it is known how many bytes have arrived at the broker, those from elsewhere among them.
pub(crate) fn with_arrived(report: SiteReport, bytes: u64) -> SiteReport {
    let live = report.routers.iter().map(|router| router.inward.bytes).sum::<u64>();
    let backlog =
        report.keeper.iter().flat_map(|keeper| &keeper.missed).map(|missed| missed.bytes).sum::<u64>();
    SiteReport { published_bytes: Some(bytes.saturating_sub(live + backlog)), ..report }
}

/// All of them in the text format.
pub(crate) fn render(report: &SiteReport) -> String {
    let mut out = String::new();
    for metric in SITE_METRICS {
        write_family(&mut out, metric.name, metric.kind, metric.help, |samples| {
            metric.collect(report, samples);
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(carries: bool) -> SiteReport {
        let flow = FlowReport { streams: 2, messages: 30, bytes: 400, dropped: 1, repeated: 0 };
        SiteReport {
            site: "north".to_owned(),
            carries,
            published_bytes: None,
            wanted_here: 3,
            routers: vec![RouterReport {
                name: "r1".to_owned(),
                reached: true,
                why: String::new(),
                clock_ahead_ns: Some(-5),
                clock_within_ns: Some(250_000),
                reckoned_ns: 20_000_000,
                wanted_elsewhere: 4,
                outward: flow,
                inward: FlowReport { messages: 7, ..flow },
            }],
            refused: Vec::new(),
            unpromised: Vec::new(),
            unwished: Vec::new(),
            by_one_router: Vec::new(),
            coordination: None,
            link: Some(LinkReport {
                bandwidth: 125_000,
                bulk: 62_500,
                queueing_ns: 75_000_000,
                outward: LinkUse { promised: 2_740, waits_ns: 40_000_000 },
                inward: LinkUse { promised: 0, waits_ns: 0 },
                trouble: String::new(),
            }),
            keeper: None,
        }
    }

    #[test]
    fn each_router_and_direction_has_its_samples() {
        let text = render(&report(true));
        for line in [
            "verge_site_carries 1",
            "verge_uplink_reached{router=\"r1\"} 1",
            "verge_uplink_way_seconds{router=\"r1\"} 0.00025",
            "verge_link_bytes_per_second 125000",
            "verge_link_waits_seconds{direction=\"out\"} 0.04",
            "verge_uplink_messages_total{router=\"r1\",direction=\"out\"} 30",
            "verge_uplink_messages_total{router=\"r1\",direction=\"in\"} 7",
        ] {
            assert!(text.lines().any(|shown| shown == line), "{line}\n{text}");
        }
    }

    #[test]
    fn what_came_from_elsewhere_was_not_published_here() {
        assert_eq!(with_arrived(report(true), 1_000).published_bytes, Some(600));
    }

    #[test]
    fn an_uplink_that_stands_by_says_nothing_of_routers() {
        let text = render(&report(false));
        assert!(text.contains("verge_site_carries 0") && !text.contains("router="), "{text}");
    }
}
