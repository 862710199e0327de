//! What bridges say of themselves, for people: who is there, and who hears whom.

use dds::{BridgeId, Endpoint, Heard, Mismatch, Remote, Word};
use std::time::{Duration, Instant};
use verge::{Client, Contract, Error};

/// What was heard.
pub struct Survey {
    /// All bridges, with what is in their domains.
    pub bridges: Vec<Remote>,
    /// Every reader and every writer of its topic in another domain.
    pub links: Vec<Link>,
}

/// A writer and a reader of one topic, in different domains.
pub struct Link {
    /// The topic, in DDS.
    pub topic: String,
    /// The bridge of the writer's domain.
    pub from: BridgeId,
    /// The writer.
    pub writer: Endpoint,
    /// The bridge of the reader's domain.
    pub to: BridgeId,
    /// The reader.
    pub reader: Endpoint,
    /// Why it does not hear the writer.
    pub mismatch: Option<Mismatch>,
}

/// How long to listen. Bridges answer at once, over however many sites.
const LISTEN: Duration = Duration::from_millis(2500);

/// Asks the bridges of a domain, as it is numbered among them, what there is. `name` is the client's, and no bridge's.
///
/// # Errors
/// The client cannot publish or subscribe.
pub fn survey(client: &Client, name: &str, domain: u32) -> Result<Survey, Error> {
    let words = client.subscribe(&dds::words_filter(domain))?;
    // Nobody else publishes there: a topic of Verge has one contract.
    let publisher = client.publisher(&dds::words_topic(domain, name), Contract::unstated())?;
    let mut heard = Heard::default();
    let begun = Instant::now();
    let ask = || publisher.publish(&Word::Ask { of: None }.encode(0));
    ask()?;
    let mut asked = 1;
    while begun.elapsed() < LISTEN {
        // The way from the farthest site may not be there at first.
        if begun.elapsed() >= LISTEN / 3 * asked {
            asked += 1;
            ask()?;
        }
        if let Some(message) = words.next_within(Duration::from_millis(50))
            && let Ok((number, word)) = Word::decode(&message.payload)
        {
            // Whom to ask is told by the beats that come meanwhile.
            let _ = heard.hear(host::monotonic(), number, word);
        }
    }
    let bridges: Vec<Remote> = heard.bridges().cloned().collect();
    Ok(Survey { links: links(&bridges), bridges })
}

/// Every writer with every reader of its topic in another domain.
fn links(bridges: &[Remote]) -> Vec<Link> {
    let all = || {
        bridges.iter().flat_map(|bridge| bridge.endpoints.values().map(|endpoint| (bridge.who.id, endpoint)))
    };
    let mut readers: std::collections::BTreeMap<&str, Vec<(BridgeId, &Endpoint)>> =
        std::collections::BTreeMap::new();
    for (bridge, reader) in all().filter(|(_, endpoint)| !endpoint.writes) {
        readers.entry(&reader.topic).or_default().push((bridge, reader));
    }
    let mut links = Vec::new();
    for (from, writer) in all().filter(|(_, endpoint)| endpoint.writes) {
        let readers = readers.get(writer.topic.as_str()).into_iter().flatten();
        for (to, reader) in readers.filter(|(to, _)| *to != from) {
            let mismatch = writer.is_heard_by(reader).err();
            links.push(Link {
                topic: writer.topic.clone(),
                from,
                writer: writer.clone(),
                to: *to,
                reader: (*reader).clone(),
                mismatch,
            });
        }
    }
    links.sort_by(|a, b| (&a.topic, a.from, a.writer.guid).cmp(&(&b.topic, b.from, b.writer.guid)));
    links
}
