//! One node that a participant keeps as it wants it: there or not, with what it is to hold.
//!
//! A pair is one participant. When its primary dies, the ephemeral nodes of the dead broker's session would live on for a while and then
//! vanish, and routes with them. So the new primary replaces each: deleted and created under its own session in one write. Nobody else
//! sees it gone.

use crate::coordination::{Lasting, Node, Operation, Refusal, Reply};
use crate::mirror::Mirror;
use crate::records::{Holder, from_bytes};
use crate::tree::above;
use contract::{Mutant, Time};

/// How a node that is to be kept stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// As it is wanted.
    Done,
    /// A write or read is under way.
    Busy,
    /// Tried again at this time.
    Waits(Time),
    /// It is somebody else's: another pair of the same name.
    Foreign,
    /// The other broker of the pair reigns.
    Deposed,
    /// The service does not let us.
    Refused(Refusal),
}

/// What a participant's node says that must be true for anything that it writes: a broker that has been deposed and does not know it yet
/// must not delete what its successor has created. A version cannot say whose a node is, since a new node begins at zero; so the node by which
/// a participant claims its name is set so often, right when it is created, that its version tells the reign.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fence {
    pub(crate) path: String,
    pub(crate) version: i32,
}

/// Reigns that follow each other so closely that one does not know of the other are fewer.
const REIGNS_APART: u64 = 8;

/// The version of the node that claims a name in this reign.
pub(crate) fn version_of(holder: &Holder) -> i32 {
    (holder.reign % REIGNS_APART) as i32
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum State {
    /// It is not there, or goes with the session that owns it.
    Absent,
    /// A connection broke while it was written: it may be there or not.
    Unknown,
    /// It holds this, and nobody but us writes it.
    Present(Vec<u8>),
    /// A write is under way, after which it holds this, or is gone.
    Writing(Option<Vec<u8>>),
    /// It was there when it was to be created: whose is it?
    Looking(Vec<u8>),
}

/// What is created next where the node is to come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// The node alone: nearly always what it is to be created in is there.
    Alone,
    /// Together with the folders that only exist for it, in one write.
    Along,
    /// The node alone: the first of the folders is there, and so the others should be.
    AloneAgain,
    /// A folder above those, by how far above.
    Above(usize),
    /// One of the folders that only exist for it, by its place: some of them were there, and others were not.
    Each(usize),
}

/// See the module's words.
#[derive(Clone, Debug)]
pub(crate) struct Owned {
    path: String,
    lasting: Lasting,
    /// Nodes that are created with it where they are missing: those directly above it that only exist for it.
    with: Vec<String>,
    /// It claims a name, and is set so often right after it is created.
    sets: Option<i32>,
    fence: Option<Fence>,
    state: State,
    step: Step,
    /// Writes since it was last there, or waited.
    attempts: u32,
    /// When it may be tried again.
    not_before: Time,
    trouble: Option<Standing>,
}

/// Writes after which a node that still is not there waits: somebody takes away what is created.
const ATTEMPTS_MAX: u32 = 12;

/// How long a participant waits before it tries again what is somebody else's.
pub(crate) const RETRY: contract::Span = contract::Span::secs(1);

impl Owned {
    /// A node directly below one of the folders at the top.
    pub(crate) fn new(path: String, lasting: Lasting) -> Owned {
        Owned {
            path,
            lasting,
            with: Vec::new(),
            sets: None,
            fence: None,
            state: State::Absent,
            step: Step::Alone,
            attempts: 0,
            not_before: Time::ZERO,
            trouble: None,
        }
    }

    /// The same, which is created together with these nodes where they are missing.
    pub(crate) fn along_with(self, with: Vec<String>) -> Owned {
        Owned { with, ..self }
    }

    /// The same, which says by its version in which reign it was created.
    pub(crate) fn claiming(self, holder: &Holder) -> Owned {
        Owned { sets: Some(version_of(holder)), ..self }
    }

    /// The same, which is only written while this holds.
    pub(crate) fn fenced(self, fence: Fence) -> Owned {
        Owned { fence: Some(fence), ..self }
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// A new session owns nothing.
    pub(crate) fn forget(&mut self) {
        let lasts = self.lasting == Lasting::Persistent && self.state != State::Absent;
        self.state = if lasts { State::Unknown } else { State::Absent };
        (self.step, self.attempts, self.trouble) = (Step::Alone, 0, None);
        self.not_before = Time::ZERO;
    }

    /// Whether it stands in the tree, as far as is known.
    pub(crate) fn is_present(&self) -> bool {
        matches!(self.state, State::Present(_))
    }

    /// Does the next thing, so that the node holds what is wanted, or is gone where nothing is.
    pub(crate) fn pursue<P>(
        &mut self,
        now: Time,
        wanted: Option<&[u8]>,
        mirror: &mut Mirror<P>,
        purpose: P,
    ) -> Standing {
        let path = self.path.clone();
        let operations = match (&self.state, wanted) {
            (State::Writing(_) | State::Looking(_), _) => return Standing::Busy,
            (State::Absent, None) => return Standing::Done,
            (State::Present(has), Some(wanted)) if has == wanted => return Standing::Done,
            _ if self.not_before > now => return self.trouble.unwrap_or(Standing::Waits(self.not_before)),
            (State::Absent | State::Unknown, Some(wanted)) => self.creation(wanted),
            // What claims a name keeps its version.
            (State::Present(_), Some(wanted)) if self.sets.is_some() => {
                [vec![Operation::Delete { path, version: None }], self.create(wanted)].concat()
            }
            (State::Present(_), Some(wanted)) => {
                vec![Operation::Set { path, data: wanted.to_vec(), version: None }]
            }
            (State::Present(_) | State::Unknown, None) => vec![Operation::Delete { path, version: None }],
        };
        self.write(operations, wanted.map(<[u8]>::to_vec), mirror, purpose);
        Standing::Busy
    }

    fn write<P>(
        &mut self,
        mut operations: Vec<Operation>,
        data: Option<Vec<u8>>,
        mirror: &mut Mirror<P>,
        purpose: P,
    ) {
        if let Some(Fence { path, version }) = &self.fence {
            operations.insert(0, Operation::Check { path: path.clone(), version: Some(*version) });
        }
        self.state = State::Writing(data);
        mirror.write(purpose, operations);
    }

    fn create(&self, data: &[u8]) -> Vec<Operation> {
        let (path, lasting) = (&self.path, self.lasting);
        let create = Operation::Create { path: path.clone(), data: data.to_vec(), lasting };
        let set = || Operation::Set { path: path.clone(), data: data.to_vec(), version: None };
        std::iter::once(create).chain((0..self.sets.unwrap_or(0)).map(|_| set())).collect()
    }

    fn creation(&self, data: &[u8]) -> Vec<Operation> {
        match self.step {
            Step::Alone | Step::AloneAgain => self.create(data),
            Step::Along => self.with.iter().map(Operation::folder).chain(self.create(data)).collect(),
            Step::Each(place) => self.with.get(place).map(Operation::folder).into_iter().collect(),
            Step::Above(height) => {
                let mut folder = self.with.first().map_or(self.path.as_str(), String::as_str);
                (0..=height).for_each(|_| folder = above(folder));
                vec![Operation::folder(folder)]
            }
        }
    }

    /// What is created after the last write was done, or was refused since something was there already, or was missing.
    fn after(&self, refusal: Option<Refusal>) -> Step {
        let missing = refusal == Some(Refusal::Missing);
        let alone = self.with.is_empty();
        match self.step {
            Step::Alone if alone => Step::Above(0),
            Step::Alone => Step::Along,
            Step::Along if missing => Step::Above(0),
            // Mostly somebody else has created them meanwhile.
            Step::Along => Step::AloneAgain,
            // Some of the folders are there.
            Step::AloneAgain => Step::Each(0),
            Step::Each(_) if missing => Step::Above(0),
            Step::Each(place) if place + 1 < self.with.len() => Step::Each(place + 1),
            Step::Each(_) => Step::Alone,
            Step::Above(height) if missing => Step::Above((height + 1).min(self.path.matches('/').count())),
            Step::Above(0) if alone => Step::Alone,
            Step::Above(0) => Step::Along,
            Step::Above(height) => Step::Above(height - 1),
        }
    }

    /// A write or a read of this node has ended. What is to be done next, [`Owned::pursue`] says. `false`: the fence does not hold any more.
    pub(crate) fn settle<P>(
        &mut self,
        now: Time,
        reply: &Reply,
        holder: &Holder,
        mirror: &mut Mirror<P>,
        purpose: P,
    ) -> bool {
        self.trouble = None;
        if let (Some(_), Reply::Refused { operation: 0, .. }) = (&self.fence, reply) {
            self.state = State::Unknown;
            return false;
        }
        match (std::mem::replace(&mut self.state, State::Absent), reply) {
            (State::Writing(Some(data)), Reply::Written(_)) => match self.step {
                Step::Alone | Step::Along | Step::AloneAgain => {
                    (self.state, self.step, self.attempts) = (State::Present(data), Step::Alone, 0);
                }
                Step::Each(_) | Step::Above(_) => self.step = self.after(None),
            },
            (State::Writing(Some(data)), Reply::Refused { why: Refusal::Exists, .. })
                if matches!(self.step, Step::Alone | Step::AloneAgain) =>
            {
                self.state = State::Looking(data);
                mirror.read_once(purpose, &self.path);
            }
            (
                State::Writing(Some(_)),
                Reply::Refused { why: why @ (Refusal::Exists | Refusal::Missing), .. },
            ) => self.go_on(now, *why),
            (State::Writing(_), Reply::Refused { why, .. }) if *why != Refusal::Missing => {
                self.wait(now, Standing::Refused(*why));
            }
            (State::Looking(data), Reply::Node(Some(node))) => {
                self.look(now, data, node, holder, mirror, purpose);
            }
            (State::Writing(_) | State::Looking(_), Reply::Lost) => self.state = State::Unknown,
            // Deleted, or gone while it was looked at.
            _ => {}
        }
        true
    }

    fn go_on(&mut self, now: Time, why: Refusal) {
        self.step = self.after(Some(why));
        self.attempts += 1;
        if self.attempts >= ATTEMPTS_MAX {
            self.attempts = 0;
            self.not_before = now + RETRY;
        }
    }

    fn wait(&mut self, now: Time, trouble: Standing) {
        self.not_before = now + RETRY;
        self.trouble = Some(trouble);
    }

    /// Whose the node is that is there already.
    fn look<P>(
        &mut self,
        now: Time,
        data: Vec<u8>,
        node: &Node,
        holder: &Holder,
        mirror: &mut Mirror<P>,
        purpose: P,
    ) {
        let Some(found) = from_bytes::<Holder>(&node.data).filter(|found| found.identity == holder.identity)
        else {
            return self.wait(now, Standing::Foreign);
        };
        if found.reign > holder.reign {
            return self.wait(now, Standing::Deposed);
        }
        let path = self.path.clone();
        let ours = self.lasting == Lasting::Persistent || Some(node.stat.owner) == mirror.session();
        if Mutant::LeaveNodes.is_on() {
            self.state = State::Present(data);
            return;
        }
        let operations = if ours && self.sets.is_none() {
            vec![Operation::Set { path, data: data.clone(), version: Some(node.stat.version) }]
        } else {
            [vec![Operation::Delete { path, version: Some(node.stat.version) }], self.create(&data)].concat()
        };
        self.write(operations, Some(data), mirror, purpose);
    }
}
