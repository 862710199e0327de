//! Counters that are listed once.

/// A struct of counters: its fields, their names, and all of them in their order, which is that on the wire.
#[macro_export]
macro_rules! counters {
    ($(#[$about:meta])* pub struct $name:ident { $($(#[$doc:meta])* $field:ident,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct $name {
            $($(#[$doc])* pub $field: u64,)*
        }

        impl $name {
            /// Their names.
            pub const NAMES: [&'static str; [$(stringify!($field)),*].len()] = [$(stringify!($field)),*];
            /// Where nothing has been counted.
            pub const ZERO: $name = $name { $($field: 0,)* };

            /// All of them.
            pub fn to_array(&self) -> [u64; $name::NAMES.len()] {
                [$(self.$field),*]
            }

            /// From all of them.
            pub fn from_array([$($field),*]: [u64; $name::NAMES.len()]) -> $name {
                $name { $($field),* }
            }

            /// Each with its name.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                $name::NAMES.into_iter().zip(self.to_array())
            }
        }
    };
}

counters! {
    /// What an operator has done since it was made.
    pub struct OperatorCounters {
        /// Runs that have ended.
        runs,
        /// Those that gave a result.
        results,
        /// Events dropped because they were out of date.
        shed_absolute,
        /// Events dropped because they were too far from the others.
        shed_relative,
        /// Runs on events that were out of date or too far apart, where such are marked.
        marked,
        /// Events that gave way to a newer one before they were used.
        replaced,
        /// Events that gave way because more came than an input keeps.
        dropped,
        /// Runs that failed.
        faults,
        /// Those among them that did not end in time.
        runaways,
        /// Those among them whose code broke off.
        traps,
    }
}
