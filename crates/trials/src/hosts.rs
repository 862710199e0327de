//! The hosts of a simulated deployment, by the names that people call them.

use config::schema::nearest;
use sim::Target;

/// The names of all hosts. `primary` and `backup` are whoever is that at the moment.
#[derive(Clone, Debug)]
pub struct Hosts(Vec<(String, Target)>);

/// More clients than this are not listed one by one.
const LISTED: usize = 4;

impl Hosts {
    /// The brokers by their configured names, publishers and subscribers by theirs, each in the simulator's order.
    pub fn new(brokers: [&str; 2], publishers: &[&str], subscribers: &[&str]) -> Hosts {
        let roles = [("primary", Target::Primary), ("backup", Target::Backup)];
        let own = |(index, name): (usize, &&str)| (name.to_string(), index);
        let brokers = brokers.iter().enumerate().map(own).map(|(name, index)| (name, Target::Broker(index)));
        let publishers =
            publishers.iter().enumerate().map(own).map(|(name, index)| (name, Target::Publisher(index)));
        let subscribers =
            subscribers.iter().enumerate().map(own).map(|(name, index)| (name, Target::Subscriber(index)));
        let roles = roles.map(|(name, target)| (name.to_owned(), target));
        Hosts(roles.into_iter().chain(brokers).chain(publishers).chain(subscribers).collect())
    }

    /// Who is meant, or else what to write.
    pub fn find(&self, name: &str) -> Result<Target, String> {
        let found = self.0.iter().find(|(known, _)| known == name).map(|(_, target)| *target);
        // Any letter is near to any other.
        let near = nearest(name, self.0.iter().map(|(known, _)| known.as_str())).filter(|_| name.len() > 2);
        found.ok_or_else(|| match near {
            Some(near) => format!("did you mean `{near}`? There are {}", self.list()),
            None => format!("there are {}", self.list()),
        })
    }

    /// All names, long rows of clients shortened.
    pub fn list(&self) -> String {
        let is_publisher = |target: &Target| matches!(target, Target::Publisher(_));
        let publishers = self.0.iter().filter(|(_, target)| is_publisher(target)).count();
        let mut names = Vec::new();
        for (name, target) in &self.0 {
            let place = if let Target::Publisher(place) = target { *place } else { 0 };
            if publishers <= LISTED || place == 0 {
                names.push(name.clone());
            } else if place + 1 == publishers {
                names.push(format!("... {name}"));
            }
        }
        names.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_found_and_listed() {
        let names: Vec<String> = (1..=9).map(|number| format!("publisher-{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let hosts = Hosts::new(["left", "right"], &names, &["subscriber-edge"]);
        assert_eq!(hosts.find("right"), Ok(Target::Broker(1)));
        assert_eq!(hosts.find("backup"), Ok(Target::Backup));
        assert_eq!(hosts.find("publisher-9"), Ok(Target::Publisher(8)));
        let remedy = hosts.find("subscriber-egde").unwrap_err();
        assert!(remedy.starts_with("did you mean `subscriber-edge`?"), "{remedy}");
        assert_eq!(
            hosts.list(),
            "primary, backup, left, right, publisher-1, ... publisher-9, subscriber-edge"
        );
    }
}
