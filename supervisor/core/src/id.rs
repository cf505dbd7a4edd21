//! Names of tenants, sessions and runs. Must not know how they are made up; the edge draws them at random.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Wraps a name that the edge has drawn or validated.
            #[must_use]
            pub fn new(name: impl Into<String>) -> Self {
                Self(name.into())
            }

            /// The name as it travels.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id! {
    /// Who a caller is, decided by the transport and never by a request.
    TenantId
}
id! {
    /// One session of one tenant on one workspace. 128 random bits: knowing one session says nothing of another.
    SessionId
}
id! {
    /// One test run of one session. 128 random bits.
    RunId
}
