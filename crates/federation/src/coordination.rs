//! What is asked of a coordination service, and what it answers: a tree of nodes with versions, sessions that own some of them, and
//! watches that ring once.
//!
//! The words are those of Apache ZooKeeper. Nobody here waits for an answer: requests are polled from a participant and answers are told
//! to it, in whatever order they come. A driver speaks to a real service; a simulator plays one.

/// Which request an answer belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ticket(pub u64);

/// A request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// What a node holds. Leaves a watch, which rings when the node is created, changed or deleted.
    Read {
        /// The node.
        path: String,
    },
    /// The names of what lies below a node. Leaves a watch, which rings when that changes, or when the node is created or deleted.
    List {
        /// The node.
        path: String,
    },
    /// All of these, or none.
    Write(Vec<Operation>),
}

/// How long a node lasts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lasting {
    /// Until somebody deletes it.
    Persistent,
    /// Until the session that created it ends.
    Ephemeral,
    /// The same, and the service appends a number of ten digits to its name, which grows with each.
    EphemeralSequential,
}

/// One change of the tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operation {
    /// A new node.
    Create {
        /// The node.
        path: String,
        /// What it holds.
        data: Vec<u8>,
        /// How long it lasts.
        lasting: Lasting,
    },
    /// A node holds something else.
    Set {
        /// The node.
        path: String,
        /// What it holds.
        data: Vec<u8>,
        /// What its version must be; `None`: whatever it is.
        version: Option<i32>,
    },
    /// A node is gone. It must have no children.
    Delete {
        /// The node.
        path: String,
        /// What its version must be; `None`: whatever it is.
        version: Option<i32>,
    },
    /// A node must be there.
    Check {
        /// The node.
        path: String,
        /// What its version must be; `None`: whatever it is.
        version: Option<i32>,
    },
}

impl Operation {
    /// A node that lasts until somebody deletes it, with nothing in it.
    pub(crate) fn folder(path: impl Into<String>) -> Operation {
        Operation::Create { path: path.into(), data: Vec::new(), lasting: Lasting::Persistent }
    }

    /// The node that it changes.
    pub fn path(&self) -> &str {
        match self {
            Operation::Create { path, .. }
            | Operation::Set { path, .. }
            | Operation::Delete { path, .. }
            | Operation::Check { path, .. } => path,
        }
    }
}

/// What is said of a node beside what it holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stat {
    /// How often it has been set.
    pub version: i32,
    /// The session that owns it; zero where none does.
    pub owner: i64,
    /// When it was created, in the service's own count of changes. A node that was deleted and created again has another.
    pub created: i64,
}

/// What a node holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// What it holds.
    pub data: Vec<u8>,
    /// What else is said of it.
    pub stat: Stat,
}

/// An answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reply {
    /// To [`Request::Read`]; `None`: there is no such node.
    Node(Option<Node>),
    /// To [`Request::List`]; `None`: there is no such node.
    Children(Option<Vec<String>>),
    /// To [`Request::Write`]: everything has been done. For each operation the name of the node that it created, where that was for the
    /// service to choose.
    Written(Vec<Option<String>>),
    /// To [`Request::Write`]: nothing has been done.
    Refused {
        /// The first operation that could not be done, by its place.
        operation: usize,
        /// Why.
        why: Refusal,
    },
    /// The connection broke: whether it was done is not known.
    Lost,
}

/// Why nothing was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// There is no such node, or nothing to create it below.
    #[error("there is no such node")]
    Missing,
    /// The node is there already.
    #[error("the node is there already")]
    Exists,
    /// The node has another version.
    #[error("the node has changed")]
    Version,
    /// The node has children.
    #[error("the node has children")]
    NotEmpty,
    /// The service lets somebody else do that, but not us.
    #[error("the coordination service does not allow it: its access lists name another user")]
    Forbidden,
    /// Something else.
    #[error("the coordination service refused it")]
    Other,
}

/// What has become of the session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Session {
    /// It is connected. One with another number than before is a new one: what the former owned is gone, or goes soon.
    Connected(i64),
    /// The connection is lost; the session may live on. Requests on their way are answered [`Reply::Lost`], or never.
    Away,
    /// It has ended.
    Expired,
}
