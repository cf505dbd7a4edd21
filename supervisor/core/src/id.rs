//! Ids of tenants, sessions and runs. The edge draws session and run ids at random.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Wraps an id that the edge has drawn or validated.
            #[must_use]
            pub fn new(name: impl Into<String>) -> Self {
                Self(name.into())
            }

            /// The id as sent to clients.
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
    /// Tenant of a caller, decided by the transport and never by a request.
    TenantId
}
id! {
    /// One session of one tenant on one workspace. 128 random bits, so that one session id reveals no other.
    SessionId
}
id! {
    /// One test run of one session. 128 random bits.
    RunId
}
