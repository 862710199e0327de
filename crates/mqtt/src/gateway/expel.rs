//! Clients whose users may not be connected any more.

use super::{Gateway, Phase, Rules};
use crate::packet::Reason;
use contract::{Time, invariant};
use wire::{Effects, LinkId};

impl<R: Rules> Gateway<R> {
    /// Ends the connections of users of whom `gone` gives a reason; it is asked with the user and the name in the client's
    /// certificate. Sessions stay as they are, and wills are published: to those
    /// who wait for them, the client has gone.
    pub fn expel(
        &mut self,
        now: Time,
        gone: impl Fn(Option<&str>, Option<&str>) -> Option<String>,
        net: &mut impl Effects,
    ) {
        for index in 0..self.clients.len() as u32 {
            let link = LinkId(index);
            // Others have the link, or nobody.
            let Some(client) = self.client(link) else { continue };
            let user = match &client.phase {
                Phase::Open { session } => match self.sessions.get(*session) {
                    Some(session) => session.user.as_deref(),
                    None => {
                        invariant!("a client that was let in has a session");
                        continue;
                    }
                },
                Phase::Held { connect, ticket: None } => connect.user.as_deref(),
                // Who is not known yet will be judged by what holds then.
                Phase::Held { .. } | Phase::Fresh | Phase::Closing => continue,
            };
            let Some(text) = gone(user, client.certificate.as_deref()) else { continue };
            self.refuse(now, link, Reason::ADMINISTRATIVE_ACTION, &text, net);
        }
    }
}
