//! The clients of a broker, for whoever asks who they are, and how they are dropped.
//!
//! Clients of the native protocol come first, by name, and then those of others.

use crate::broker::Broker;
use crate::outputs::Outputs;
use crate::watch::facts::{Fact, JsonObject};
use contract::{Time, invariant};
use std::net::IpAddr;
use wire::{ClientRow, FarewellReason, Frame, LinkId};

/// Writes a client, and a comma.
fn write_row(row: &ClientRow<'_>, out: &mut String) {
    let mut object = JsonObject::begin(out);
    object.field("client", Fact::Text(row.client));
    object.field("protocol", Fact::Text(row.protocol));
    object.field("user", Fact::Text(row.user));
    object.field("address", Fact::Text(row.address));
    object.field("connected", Fact::Flag(row.connected));
    object.field("since_ns", Fact::Number(row.since.0));
    object.field("subscriptions", Fact::Number(row.subscriptions as u64));
    object.field("queued", Fact::Number(row.queued as u64));
    object.field("in_flight", Fact::Number(row.in_flight as u64));
    object.field("dropped", Fact::Number(row.dropped));
    object.end();
    out.push(',');
}

/// Rows in one answer.
pub(crate) const CLIENT_ROWS: usize = 128;
/// What a place among clients of the native protocol begins with, and one among others.
const NATIVE: char = 'n';
const OTHERS: char = 'o';

impl Broker {
    /// Answers who this broker's clients are, from a place on.
    pub(crate) fn send_clients(&mut self, to: LinkId, after: &str, out: &mut impl Outputs) {
        let (mut rows, mut next) = (String::new(), String::new());
        let mut left = CLIENT_ROWS;
        if !after.starts_with(OTHERS) {
            let after = after.strip_prefix(NATIVE);
            let mut names: Vec<(&str, LinkId)> = self
                .flow
                .store
                .links
                .iter()
                .filter(|(_, link)| link.is_client() && after.is_none_or(|after| *link.name > *after))
                .map(|(id, link)| (&*link.name, id))
                .collect();
            names.sort_unstable();
            // Those of one name are two connections for a moment.
            names.dedup_by_key(|(name, _)| *name);
            if names.len() > left {
                names.truncate(left);
                next = names.last().map(|(name, _)| format!("{NATIVE}{name}")).unwrap_or_default();
            }
            left -= names.len();
            names.iter().for_each(|(_, id)| self.write_native(*id, &mut rows));
        }
        if next.is_empty() {
            let after = after.strip_prefix(OTHERS).unwrap_or("");
            let more = out.list_clients(after, left, &mut |row| write_row(row, &mut rows));
            next = more.map(|last| format!("{OTHERS}{last}")).unwrap_or_default();
        }
        out.send(to, &Frame::Clients { next: &next, rows: rows.as_bytes() });
    }

    fn write_native(&self, id: LinkId, rows: &mut String) {
        let Some(link) = self.flow.store.links.get(id) else {
            return invariant!("a link that was listed is there");
        };
        let session = link.session().and_then(|session| self.flow.store.sessions.get(session));
        let address = link.address.map(|address| address.to_string()).unwrap_or_default();
        let row = ClientRow {
            client: &link.name,
            protocol: "native",
            user: &link.user,
            address: &address,
            connected: true,
            since: link.opened,
            subscriptions: session.map_or(0, |session| session.filters.len()),
            queued: session.map_or(0, |session| session.deferred.len()),
            in_flight: 0,
            dropped: session.map_or(0, |session| session.dropped),
        };
        write_row(&row, rows);
    }

    /// Disconnects a client, and ends its session if that is wanted.
    pub(crate) fn drop_client(
        &mut self,
        now: Time,
        (asker, client): (LinkId, &str),
        ends: bool,
        out: &mut impl Outputs,
    ) {
        let named = |link: &LinkId| *link != asker;
        let link = self.client_link(client).filter(named);
        let session = self.flow.store.sessions.find(client).filter(|_| ends);
        if let Some(link) = link {
            self.expel(link, FarewellReason::Busy, "an admin has dropped it", out);
        }
        if let Some(session) = session {
            self.end_session(now, session, out);
        }
        let other = out.drop_client(now, client, ends);
        out.send(asker, &Frame::DropReply { found: other || link.is_some() || session.is_some() });
    }

    /// Who the client of a connection has logged in as: only to be told, rights are judged elsewhere.
    pub fn belong_to(&mut self, link: LinkId, user: &str) {
        // What came before a connection ended may be read after it.
        if let Some(link) = self.flow.store.links.get_mut(link) {
            link.user = user.into();
        }
    }

    /// Where a connection comes from.
    pub fn come_from(&mut self, link: LinkId, address: IpAddr) {
        // Those of other protocols are not here.
        if let Some(link) = self.flow.store.links.get_mut(link) {
            link.address = Some(address.to_canonical());
        }
    }
}
