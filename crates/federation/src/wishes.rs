//! What a site wants by filters: topics that they mean, as far as another site publishes them.
//!
//! The problem: a filter with wildcards means topics of which nobody at the site has heard, and a topic that is wanted by such a filter alone must
//! be forgotten when nobody publishes it any more. The idea: while there is such a filter, the folders of all topics are followed, and of each topic
//! that is meant, who publishes it. It is asked for while another site does. A filter without wildcards names its topic, and asks for it at once.
//!
//! The invariant: a topic is asked for exactly if a filter names it, or means it and another site is known to publish it.

use crate::mirror::Aspect;
use crate::records::Terms;
use crate::site::{Site, SiteNews};
use crate::tree::{Side, folder_of, folders, side_path, unescape};
use contract::{Filters, Time, TopicFilter};
use std::collections::{BTreeMap, BTreeSet};

/// See the module's words.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wishes {
    /// Filters that are wanted, as they were given last.
    filters: BTreeSet<String>,
    /// Those without wildcards.
    named: BTreeSet<String>,
    /// Those with wildcards.
    wild: Filters<Vec<()>>,
    is_wild: bool,
    /// Topics that are there and are meant by one of these, by their folder.
    meant: BTreeMap<String, BTreeSet<String>>,
    /// Topics that are asked for.
    asked: BTreeSet<String>,
    /// That there are too many has been told.
    told: bool,
}

impl Wishes {
    fn mean(&self, topic: &str) -> bool {
        self.meant.get(&folder_of(topic)).is_some_and(|topics| topics.contains(topic))
    }

    fn is_wild(&self, topic: &str) -> bool {
        !topic.starts_with('$') && self.wild.find(topic, &mut |_, _| true)
    }
}

impl Site {
    /// From now on topics are wanted that these filters mean, and no others. Where those are more than the site may have, some are not asked
    /// for, which is told.
    pub fn wish(&mut self, now: Time, filters: &[TopicFilter]) {
        let wanted: BTreeSet<String> = filters.iter().map(|filter| filter.as_str().to_owned()).collect();
        if self.wishes.filters == wanted {
            return;
        }
        let (wild, named): (BTreeSet<String>, BTreeSet<String>) =
            wanted.iter().cloned().partition(|filter| filter.contains(['+', '#']));
        (self.wishes.filters, self.wishes.told) = (wanted, false);
        let before = std::mem::replace(&mut self.wishes.named, named);
        self.wishes.wild = Filters::default();
        for filter in &wild {
            self.wishes.wild.change(filter, |told| *told = vec![()]);
        }
        self.follow_folders(!wild.is_empty());
        folders().for_each(|folder| self.look_for_meant(now, &folder));
        let changed: Vec<String> = before.symmetric_difference(&self.wishes.named).cloned().collect();
        changed.iter().for_each(|topic| self.ask_for(now, topic));
        self.settle(now);
    }

    /// How many topics filters ask for.
    pub fn wished(&self) -> usize {
        self.wishes.asked.len()
    }

    fn follow_folders(&mut self, follow: bool) {
        if std::mem::replace(&mut self.wishes.is_wild, follow) == follow {
            return;
        }
        for folder in folders() {
            let mirror = &mut self.member.mirror;
            if follow {
                mirror.follow(Aspect::Children, &folder);
            } else {
                mirror.unfollow(Aspect::Children, &folder);
            }
        }
    }

    /// Topics of a folder have come or gone, or are meant by other filters than before.
    pub(crate) fn look_for_meant(&mut self, now: Time, folder: &str) {
        let there = self.member.mirror.children(folder).filter(|_| self.wishes.is_wild);
        let topics = there.into_iter().flatten().filter_map(|name| unescape(name));
        let meant: BTreeSet<String> = topics.filter(|topic| self.wishes.is_wild(topic)).collect();
        let before = self.wishes.meant.remove(folder).unwrap_or_default();
        let come: Vec<String> = meant.difference(&before).cloned().collect();
        let gone: Vec<String> = before.difference(&meant).cloned().collect();
        if !meant.is_empty() {
            self.wishes.meant.insert(folder.to_owned(), meant);
        }
        for topic in &come {
            self.member.mirror.follow(Aspect::Children, &side_path(topic, Side::Publishes));
        }
        for topic in &gone {
            self.member.mirror.unfollow(Aspect::Children, &side_path(topic, Side::Publishes));
        }
        come.iter().chain(&gone).for_each(|topic| self.ask_for(now, topic));
    }

    /// Asks for a topic, or does not any more.
    pub(crate) fn ask_for(&mut self, now: Time, topic: &str) {
        let publish = side_path(topic, Side::Publishes);
        let is_other = |site: &String| unescape(site).is_some_and(|site| site != self.name());
        let by_others =
            || self.member.mirror.children(&publish).is_some_and(|sites| sites.iter().any(is_other));
        let wanted = self.wishes.named.contains(topic) || self.wishes.mean(topic) && by_others();
        match (wanted, self.wishes.asked.contains(topic)) {
            (true, false) => match self.open(now, topic, Side::Subscribes, &Terms::default()) {
                Ok(()) => _ = self.wishes.asked.insert(topic.to_owned()),
                Err(many) => {
                    if !std::mem::replace(&mut self.wishes.told, true) {
                        self.tell(SiteNews::TooMany(many));
                    }
                }
            },
            (false, true) => {
                self.wishes.asked.remove(topic);
                self.close(now, topic, Side::Subscribes);
            }
            _ => {}
        }
    }
}
