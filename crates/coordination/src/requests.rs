//! Requests in the words of Apache ZooKeeper, and its answers in ours.
//!
//! A read of a node that is not there leaves no watch with the service; so it is asked whether the node exists, which does. Where it has
//! come in between it is read again.

use crate::watches::Kind;
use federation::{Lasting, Node, Operation, Refusal, Reply, Request, Stat};
use zookeeper_client::{
    Acls, Client, CreateMode, Error, MultiWriteError, MultiWriteResult, MultiWriter, OneshotWatcher,
};

/// A connection to a service.
pub(crate) struct Service {
    /// With the whole tree.
    pub(crate) root: Client,
    /// With what stands below the namespace.
    pub(crate) client: Client,
    pub(crate) namespace: String,
    pub(crate) access: Acls<'static>,
}

/// An answer, and the watch that was left.
pub(crate) struct Answer {
    pub(crate) reply: Reply,
    pub(crate) watch: Option<(Kind, String, OneshotWatcher)>,
    /// What was not allowed.
    pub(crate) forbidden: Option<String>,
}

/// Why it was not done; `None`: whether it was is not known.
fn refusal(error: &Error) -> Option<Refusal> {
    Some(match error {
        Error::NoNode => Refusal::Missing,
        Error::NodeExists => Refusal::Exists,
        Error::BadVersion => Refusal::Version,
        Error::NotEmpty => Refusal::NotEmpty,
        // A list of nobody is invalid: we have not proved who we are.
        Error::NoAuth | Error::InvalidAcl => Refusal::Forbidden,
        Error::NoChildrenForEphemerals
        | Error::BadArguments(_)
        | Error::QuotaExceeded
        | Error::Throttled
        | Error::MarshallingError
        | Error::NotReadOnly
        | Error::Unimplemented
        | Error::UnmarshalError { .. }
        | Error::UnexpectedErrorCode(_) => Refusal::Other,
        _ => return None,
    })
}

fn refused(operation: usize, error: &Error) -> Reply {
    refusal(error).map_or(Reply::Lost, |why| Reply::Refused { operation, why })
}

fn stat(stat: &zookeeper_client::Stat) -> Stat {
    Stat { version: stat.version, owner: stat.ephemeral_owner, created: stat.czxid }
}

impl Service {
    /// Asks, and answers. The first poll sends what is asked.
    pub(crate) async fn answer(&self, request: &Request) -> Answer {
        match request {
            Request::Read { path } => self.read(path).await,
            Request::List { path } => self.list(path).await,
            Request::Write(operations) => self.write(operations).await,
        }
    }

    async fn read(&self, path: &str) -> Answer {
        loop {
            match self.client.get_and_watch_data(path).await {
                Ok((data, told, watcher)) => {
                    let reply = Reply::Node(Some(Node { data, stat: stat(&told) }));
                    return Answer::watched(reply, Kind::Data, path, watcher);
                }
                Err(Error::NoNode) => {}
                Err(error) => return Answer::failed(path, &error),
            }
            if let Some(answer) = self.miss(path, Kind::Data, Reply::Node(None)).await {
                return answer;
            }
        }
    }

    async fn list(&self, path: &str) -> Answer {
        loop {
            match self.client.list_and_watch_children(path).await {
                Ok((names, watcher)) => {
                    let reply = Reply::Children(Some(names));
                    return Answer::watched(reply, Kind::Children, path, watcher);
                }
                Err(Error::NoNode) => {}
                Err(error) => return Answer::failed(path, &error),
            }
            if let Some(answer) = self.miss(path, Kind::Children, Reply::Children(None)).await {
                return answer;
            }
        }
    }

    /// A watch of a node that is not there; `None`: it has come.
    async fn miss(&self, path: &str, kind: Kind, reply: Reply) -> Option<Answer> {
        match self.client.check_and_watch_stat(path).await {
            Ok((None, watcher)) => Some(Answer::watched(reply, kind, path, watcher)),
            Ok((Some(_), _)) => None,
            Err(error) => Some(Answer::failed(path, &error)),
        }
    }

    async fn write(&self, operations: &[Operation]) -> Answer {
        let mut writer = self.client.new_multi_writer();
        for (place, operation) in operations.iter().enumerate() {
            if let Err(error) = self.add(&mut writer, operation) {
                return Answer::unwatched(refused(place, &error));
            }
        }
        let (place, error) = match writer.commit().await {
            Ok(results) => return Answer::unwatched(written(operations, results)),
            Err(MultiWriteError::RequestFailed { source }) => (0, source),
            Err(MultiWriteError::OperationFailed { index, source }) => (index, source),
        };
        let path = operations.get(place).map_or("/", Operation::path);
        if error == Error::NoNode && path.matches('/').count() == 1 {
            // Somebody has taken away all of it. Whoever asked tries again.
            _ = self.make_namespace().await;
        }
        Answer { reply: refused(place, &error), ..Answer::failed(path, &error) }
    }

    fn add(&self, writer: &mut MultiWriter<'_>, operation: &Operation) -> Result<(), Error> {
        match operation {
            Operation::Create { path, data, lasting } => {
                let mode = match lasting {
                    Lasting::Persistent => CreateMode::Persistent,
                    Lasting::Ephemeral => CreateMode::Ephemeral,
                    Lasting::EphemeralSequential => CreateMode::EphemeralSequential,
                };
                writer.add_create(path, data, &mode.with_acls(self.access))
            }
            Operation::Set { path, data, version } => writer.add_set_data(path, data, *version),
            Operation::Delete { path, version } => writer.add_delete(path, *version),
            Operation::Check { path, version } => writer.add_check_version(path, version.unwrap_or(-1)),
        }
    }

    /// Creates what the tree stands below, where it is missing.
    pub(crate) async fn make_namespace(&self) -> Result<(), Error> {
        // Whoever may not create it may still use it: so it is looked at first. What may not be looked at is there.
        match self.root.check_stat(&self.namespace).await {
            Ok(Some(_)) | Err(Error::NoAuth) => return Ok(()),
            Ok(None) => {}
            Err(error) => return Err(error),
        }
        let options = CreateMode::Persistent.with_acls(self.access);
        self.root.mkdir(&self.namespace, &options).await
    }
}

/// The names that the service chose.
fn written(operations: &[Operation], results: Vec<MultiWriteResult>) -> Reply {
    let is_chosen = |operation: &Operation| {
        matches!(operation, Operation::Create { lasting: Lasting::EphemeralSequential, .. })
    };
    let names = operations.iter().zip(results).map(|(operation, result)| match result {
        MultiWriteResult::Create { path, .. } if is_chosen(operation) => Some(path),
        _ => None,
    });
    Reply::Written(names.collect())
}

impl Answer {
    fn unwatched(reply: Reply) -> Answer {
        Answer { reply, watch: None, forbidden: None }
    }

    fn watched(reply: Reply, kind: Kind, path: &str, watcher: OneshotWatcher) -> Answer {
        Answer { watch: Some((kind, path.to_owned(), watcher)), ..Answer::unwatched(reply) }
    }

    fn failed(path: &str, error: &Error) -> Answer {
        let is_forbidden = refusal(error) == Some(Refusal::Forbidden);
        Answer { forbidden: is_forbidden.then(|| path.to_owned()), ..Answer::unwatched(refused(0, error)) }
    }
}
