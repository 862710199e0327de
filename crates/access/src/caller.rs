//! Who asks, and what `%u` and `%c` mean for them.

/// Who asks.
#[derive(Clone, Copy)]
pub(crate) struct Caller<'a> {
    /// The user's name. User files have no name that is not a plain level.
    pub user: &'a str,
    /// What the client calls itself: anything at all.
    pub client: &'a str,
}

/// What a level of a rule's pattern means for somebody.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    /// This level.
    One(&'a str),
    /// Any one level: `+`.
    Any,
    /// All that follow, or none: `#`.
    Rest,
    /// No level at all: a client id that is not a plain level, in a rule that allows.
    Never,
    /// Whatever there is from here on: such a client id in a rule that denies.
    Everything,
}

impl<'a> Caller<'a> {
    /// A level of a rule that allows. A client id that could mean more than one plain level means nothing.
    pub fn allowing(self, level: &'a str, first: bool) -> Part<'a> {
        let plain = is_plain(self.client) && !(first && self.client.starts_with('$'));
        self.part(level, if plain { Part::One(self.client) } else { Part::Never })
    }

    /// A level of a rule that denies. A client id that could mean more than one plain level means everything.
    pub fn denying(self, level: &'a str) -> Part<'a> {
        self.part(level, if is_plain(self.client) { Part::One(self.client) } else { Part::Everything })
    }

    fn part(self, level: &'a str, client: Part<'a>) -> Part<'a> {
        match level {
            "+" => Part::Any,
            "#" => Part::Rest,
            "%u" => Part::One(self.user),
            "%c" => client,
            level => Part::One(level),
        }
    }
}

/// Whether a text is one level that means only itself.
pub(crate) fn is_plain(level: &str) -> bool {
    !level.is_empty() && !level.contains(['/', '+', '#']) && !level.chars().any(char::is_control)
}
