//! What can be on the agenda.

use simulation::network::Passing;

/// Something that is going to happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Happening {
    /// Something of the network.
    Passing(Passing),
    /// A node's turn is over: what it wrote leaves.
    TurnEnd { node: usize, life: u32 },
    /// A worker of a broker has ended a run of an operator.
    WorkEnd { node: usize, life: u32, worker: usize },
    /// A node's deadline.
    Wake { node: usize, life: u32 },
    /// A broker's heartbeat is due.
    Beat { node: usize, life: u32 },
    /// A heartbeat reaches the other broker's host.
    Datagram { number: u32 },
    /// A publisher's topics of one period are due.
    Publish { node: usize, life: u32, group: u32 },
    /// A publisher sends one topic once more, to prove that all is well.
    Prove { node: usize, life: u32, topic: u32 },
    /// A client's process starts.
    Start { node: usize },
    /// A dead host or process comes back.
    Restart { node: usize, life: u32 },
    /// A pause ends.
    Resume { node: usize, life: u32 },
    /// A process dies although it did not get to write.
    Perish { node: usize, life: u32 },
    /// A slow processor recovers.
    Recover { node: usize, life: u32 },
    /// A partition ends.
    Heal { partition: u32 },
    /// A fault of the scenario is due.
    Fault { number: u32 },
    /// The simulator looks around.
    Look,
}
