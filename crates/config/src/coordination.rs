//! A coordination service, and what a router says of itself there.

use super::site::Login;
use super::{Config, Understanding, keys};
use contract::{Span, TopicFilter};
use federation::Policy;
use host::Place;

/// Where the coordination service is, and as whom it is spoken to.
#[derive(Clone, PartialEq, Debug)]
pub struct CoordinationConfig {
    /// The ensemble.
    pub servers: Vec<Place>,
    /// The node below which everything stands.
    pub namespace: String,
    /// Of whom nothing is heard for so long is gone.
    pub session: Span,
    /// Whether it is spoken to over TLS.
    pub secure: bool,
    /// Whether the user is made known by SASL, else by the digest scheme.
    pub sasl: bool,
    /// Who we are.
    pub login: Login,
    /// Topics that a site may share.
    pub topics: usize,
}

/// A router that a coordination service names.
#[derive(Clone, PartialEq, Debug)]
pub struct RouterConfig {
    /// Its name.
    pub name: String,
    /// Where sites reach its brokers.
    pub places: Vec<Place>,
    /// Topics that go by it before all others, while no others do; none: any.
    pub topics: Vec<TopicFilter>,
    /// Topics that it is given at most.
    pub topics_max: usize,
    /// To which router topics are given, where this one leads.
    pub policy: Policy,
}

/// After a session has ended, topics go to another router within this.
pub const REASSIGNED_AFTER: Span = Span::secs(1);

impl Config {
    /// What both brokers have in common, and no other pair has, as far as addresses tell.
    pub fn pair(&self) -> String {
        let addresses: Vec<String> =
            self.brokers.iter().map(|broker| format!("{},{}", broker.clients, broker.pair)).collect();
        addresses.join(",")
    }

    /// Whether all brokers are reached on their own host alone, so that another host may have the same addresses.
    pub fn is_local(&self) -> bool {
        self.brokers.iter().all(|broker| !broker.pair.is_of_others() || broker.pair.is_unspecified())
    }

    /// How long it takes until another router carries the topics of one that is alone and dies.
    pub fn reassigned(&self) -> Span {
        match &self.coordination {
            Some(service) => service.session + REASSIGNED_AFTER,
            None => contract::path::REASSIGNED_WITHIN,
        }
    }
}

impl Understanding {
    pub(super) fn coordination(&self) -> Option<CoordinationConfig> {
        let servers = self.get(&keys::COORDINATION_SERVERS);
        let login = Login {
            user: self.get(&keys::COORDINATION_USER),
            password_file: self.file(&keys::COORDINATION_PASSWORD_FILE),
        };
        (!servers.is_empty()).then(|| CoordinationConfig {
            servers,
            namespace: self.get(&keys::COORDINATION_NAMESPACE),
            session: self.get(&keys::COORDINATION_SESSION),
            secure: self.get(&keys::COORDINATION_TLS),
            sasl: self.get(&keys::COORDINATION_LOGIN),
            login,
            topics: self.get(&keys::COORDINATION_TOPICS),
        })
    }

    pub(super) fn router(&mut self) -> Option<RouterConfig> {
        let name = self.get(&keys::ROUTER_NAME)?;
        let brokers = self.brokers();
        let given = [self.get(&keys::ROUTER_ADDRESS), self.get(&keys::ROUTER_PARTNER)];
        let places = brokers.iter().zip(given).map(|(broker, given)| {
            let own = broker.listeners.clients_tls.as_ref().unwrap_or(&broker.clients);
            given.unwrap_or_else(|| own.clone())
        });
        Some(RouterConfig {
            name,
            places: places.collect(),
            topics: self.get(&keys::ROUTER_TOPICS),
            topics_max: self.get(&keys::ROUTER_TOPICS_MAX),
            policy: self.get(&keys::ROUTER_POLICY),
        })
    }

    pub(super) fn check_coordination(&mut self, config: &Config) {
        if let Some(router) = &config.router {
            let source = self.place_of(&keys::ROUTER_NAME);
            if config.coordination.is_none() {
                let message = format!("the router {} has no service to name it", router.name);
                let remedy = "give coordination.servers; or leave router.name out, and list the router in the files of sites";
                self.problem(&source, message, remedy.to_owned());
            }
            if config.site.is_some() {
                let message = "these brokers cannot be a site's and a router's both".to_owned();
                self.problem(&source, message, "give the router brokers of its own".to_owned());
            }
            for (key, place) in [&keys::ROUTER_ADDRESS, &keys::ROUTER_PARTNER].into_iter().zip(&router.places)
            {
                if place.is_unspecified() {
                    let message =
                        format!("{place} is all addresses of a host, and sites have to be told one");
                    self.problem(
                        &source,
                        message,
                        format!("say where sites reach it: {} = \"host:7571\"", key.path()),
                    );
                }
            }
        }
        let Some(service) = &config.coordination else { return };
        if config.site.as_ref().is_some_and(|site| !site.routers.is_empty()) {
            let source = self.place_of(&keys::COORDINATION_SERVERS);
            let message = "[routers.*] are given, and coordination.servers, which names them".to_owned();
            self.problem(&source, message, "leave one of both out".to_owned());
        }
        if service.secure && config.tls.ca.is_none() {
            let source = self.place_of(&keys::COORDINATION_TLS);
            let message =
                "coordination.tls is true, and nobody is known who issues certificates of its servers";
            self.problem(&source, message.to_owned(), "give tls.ca".to_owned());
        }
        if service.login.user.is_some() != service.login.password_file.is_some() {
            let source = self.place_of(&keys::COORDINATION_SERVERS);
            let message = "coordination.user and coordination.password_file belong together".to_owned();
            self.problem(&source, message, "give both, or neither".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Scratch, load};

    const PAIR: &str = "[brokers.a]\nclients = \"0.0.0.0:7571\"\npair = \"10.0.0.1:7573\"\nstart_as = \"primary\"\n\
                        [brokers.b]\nclients = \"10.0.0.2:7571\"\npair = \"10.0.0.2:7573\"\nstart_as = \"backup\"\n";
    const SERVICE: &str = "[coordination]\nservers = [\"zk1:2181\", \"zk2:2181\"]\n";

    #[test]
    fn a_router_is_reached_where_it_says_or_where_its_brokers_listen() {
        let text = format!("{PAIR}{SERVICE}[router]\nname = \"r1\"\naddress = \"10.0.0.1:7571\"\n");
        let config = load("router", &text);
        let places: Vec<String> = config.router.unwrap().places.iter().map(ToString::to_string).collect();
        assert_eq!(places, ["10.0.0.1:7571", "10.0.0.2:7571"]);
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        for (more, said) in [
            (format!("{SERVICE}[site]\nname = \"north\"\n"), ""),
            (
                format!("{SERVICE}[site]\nname = \"north\"\n[routers.r1]\naddress = \"r:1\"\n"),
                "leave one of both out",
            ),
            (format!("{SERVICE}[router]\nname = \"r1\"\n"), "router.address = "),
            ("[router]\nname = \"r1\"\naddress = \"10.0.0.1:1\"\n".to_owned(), "give coordination.servers"),
            (
                format!("{SERVICE}[site]\nname = \"n\"\n[router]\nname = \"r1\"\naddress = \"10.0.0.1:1\"\n"),
                "brokers of its own",
            ),
            (format!("{SERVICE}user = \"verge\"\n"), "belong together"),
            (format!("{SERVICE}tls = true\n"), "give tls.ca"),
            (format!("{SERVICE}namespace = \"verge\"\n"), "begins with `/`"),
            ("[coordination]\nservers = [\"zk1\"]\n".to_owned(), "no port"),
        ] {
            let problems =
                Scratch::new("service", &format!("{PAIR}{more}")).load(&[], &[]).err().unwrap_or_default();
            assert!(problems.contains(said) && problems.is_empty() == said.is_empty(), "{more}: {problems}");
        }
    }
}
