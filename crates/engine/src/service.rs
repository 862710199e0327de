//! What serves beside a broker, in one shape: operators, clients of MQTT, clients that are let through to the primary.
//!
//! Each is a type without a value; what it has lies in the node, since each calls the broker, and the broker calls each. The node asks all
//! of them in turn ([`BrokerNode`] is the one place that knows the order), and each is chosen when the program is built.

use crate::broker_node::BrokerNode;
use crate::processing::Operators;
use crate::reporter::Reporter;
use contract::Time;
use mqtt::Rules;
use wire::{Effects, LinkChange, LinkId};

/// Something that serves beside the broker of a node. Nothing has a default: each says what it does.
pub(crate) trait Service {
    /// A link has changed. `false`: it is none of its own.
    fn handle_link<R: Reporter, O: Operators, G: Rules>(
        node: &mut BrokerNode<R, O, G>,
        now: Time,
        link: LinkId,
        change: LinkChange,
        net: &mut impl Effects,
    ) -> bool;

    /// Bytes have come. Returns how many were used; `None`: the link is none of its own.
    fn handle_bytes<R: Reporter, O: Operators, G: Rules>(
        node: &mut BrokerNode<R, O, G>,
        now: Time,
        link: LinkId,
        bytes: &[u8],
        net: &mut impl Effects,
    ) -> Option<usize>;

    /// Does what is due.
    fn handle_timeout<R: Reporter, O: Operators, G: Rules>(
        node: &mut BrokerNode<R, O, G>,
        now: Time,
        net: &mut impl Effects,
    );

    /// Takes and gives what has to go between it and the broker. Returns whether that has made work.
    fn poll_work<R: Reporter, O: Operators, G: Rules>(
        node: &mut BrokerNode<R, O, G>,
        now: Time,
        net: &mut impl Effects,
    ) -> bool;

    /// When it has something to do although nothing comes.
    fn next_deadline<R: Reporter, O: Operators, G: Rules>(node: &BrokerNode<R, O, G>) -> Time;
}
