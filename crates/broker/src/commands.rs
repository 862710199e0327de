//! What clients ask for besides carrying their messages: streams and subscriptions come and go.

use crate::commands::crowd::CrowdLook;
use crate::commands::needs::OtherNeeds;
use crate::settings::Settings;
use contract::{Admission, Filters};
use wire::limits::CLIENT_POLL;

pub(crate) mod binding;
pub(crate) mod counting;
pub(crate) mod crowd;
pub(crate) mod guests;
pub(crate) mod implied;
pub(crate) mod needs;
pub(crate) mod register;
pub(crate) mod rules;
pub(crate) mod sites;
pub(crate) mod subscribe;
pub(crate) mod tasks;

/// What has been promised to clients, and what more can be.
#[derive(Clone)]
pub(crate) struct Promises {
    pub(crate) admission: Admission,
    /// The places of [`Settings::topics`] by their filters.
    pub(crate) rules: Filters<Vec<usize>>,
    /// What subscribers of other protocols need beyond contracts.
    pub(crate) other_needs: OtherNeeds,
    pub(crate) crowd: CrowdLook,
}

impl Promises {
    /// Nothing has been promised yet.
    pub(crate) fn new(settings: &Settings) -> Promises {
        let Settings { delays, links, costs, supply, replication, .. } = settings;
        let admission = Admission::new(*delays, links.clone(), *costs, *supply)
            .polled(CLIENT_POLL)
            .with_lazy(replication.lazy())
            .with_best_effort(settings.best_effort_subscriptions);
        Promises {
            admission,
            rules: rules::by_filter(&settings.topics),
            other_needs: OtherNeeds::default(),
            crowd: CrowdLook::default(),
        }
    }

    /// The place of the configured rule that governs a topic: the first that means it.
    pub(crate) fn rule_of(&self, topic: &str) -> Option<usize> {
        rules::first(&self.rules, topic)
    }
}
