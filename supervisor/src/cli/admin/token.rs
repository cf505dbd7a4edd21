//! `proctor admin token`: creates a bearer token. It is stored nowhere; the host file holds only its hash.

use crate::cli::{CommandError, print};
use crate::config::TOKEN_PREFIX;

/// Prints a token of 256 random bits, and its hash for the host file.
pub(super) fn token() -> Result<u8, CommandError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| CommandError::host(format!("no random numbers: {error}")))?;
    let token: String =
        [TOKEN_PREFIX.to_owned()].into_iter().chain(bytes.iter().map(|byte| format!("{byte:02x}"))).collect();
    let hash = blake3::hash(token.as_bytes());
    print::text(&format!("token for the tenant:      {token}\ntoken_hashes in the file:  {hash}\n"))?;
    Ok(0)
}
