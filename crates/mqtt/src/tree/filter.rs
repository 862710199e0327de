//! What a client may write where a filter is expected.

use contract::{TOPIC_BYTES_MAX, TopicError, TopicFilter};

/// What a shared subscription begins with.
const SHARED: &str = "$share/";

/// A valid filter, and the group that shares it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Filter<'a> {
    /// The name between `$share/` and the filter.
    pub group: Option<&'a str>,
    /// Which topics.
    pub filter: &'a str,
}

/// Why a subscription is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// It is no filter.
    #[error(transparent)]
    Topic(#[from] TopicError),
    /// `$share/` without a name after it.
    #[error("`{0}`: a shared subscription names its group, as in `$share/group/turbine/#`")]
    GroupEmpty(String),
    /// A name with something in it that it may not have.
    #[error("`{0}`: the name of a group holds no `+`, `#` or control character")]
    GroupCharacter(String),
    /// A name longer than [`TOPIC_BYTES_MAX`].
    #[error("a group's name of {0} bytes is above the limit of {TOPIC_BYTES_MAX}")]
    GroupTooLong(usize),
    /// A group without a filter.
    #[error("`{0}`: a shared subscription has a filter after its group, as in `$share/group/turbine/#`")]
    FilterMissing(String),
    /// A shared subscription that does not want the subscriber's own messages.
    #[error("a shared subscription cannot leave out a subscriber's own messages: clear its no-local option")]
    SharedNoLocal,
    /// No more room.
    #[error(
        "there are {0} subscriptions, which is the limit: raise mqtt.subscriptions, or unsubscribe from what is not needed"
    )]
    Full(usize),
    /// No more memory for it.
    #[error(
        "filters of all sessions would take {needed} of the {limit} bytes that are theirs, a share of limits.memory: raise that, or use \
         shorter ones or ones with fewer levels"
    )]
    NoMemory {
        /// With this one.
        needed: usize,
        /// So many may be.
        limit: usize,
    },
}

impl FilterError {
    /// Whether the text is at fault, and not the option or the room.
    pub fn is_of_text(&self) -> bool {
        !matches!(self, FilterError::SharedNoLocal | FilterError::Full(_) | FilterError::NoMemory { .. })
    }
}

/// Whether a subscription with this text is shared.
pub fn is_shared(text: &str) -> bool {
    text.starts_with(SHARED)
}

/// Checks a filter and takes the group off it, where there is one.
pub fn parse_filter(text: &str) -> Result<Filter<'_>, FilterError> {
    let Some(rest) = text.strip_prefix(SHARED) else {
        text.parse::<TopicFilter>()?;
        return Ok(Filter { group: None, filter: text });
    };
    let shown = || contract::shown(text);
    let (group, filter) = match rest.split_once('/') {
        Some((group, filter)) => (group, Some(filter)),
        None => (rest, None),
    };
    if group.is_empty() {
        return Err(FilterError::GroupEmpty(shown()));
    }
    if group.len() > TOPIC_BYTES_MAX {
        return Err(FilterError::GroupTooLong(group.len()));
    }
    if group.contains(|c: char| c == '+' || c == '#' || c.is_control()) {
        return Err(FilterError::GroupCharacter(shown()));
    }
    let filter =
        filter.filter(|filter| !filter.is_empty()).ok_or_else(|| FilterError::FilterMissing(shown()))?;
    filter.parse::<TopicFilter>()?;
    Ok(Filter { group: Some(group), filter })
}
