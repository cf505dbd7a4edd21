//! Cuts a recorded stream into pieces, as a pipe does.

use proptest::sample::Index;

/// `bytes` in pieces, some of which may be empty.
pub(crate) fn pieces<'b>(bytes: &'b [u8], cuts: &[Index]) -> Vec<&'b [u8]> {
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    at.extend([0, bytes.len()]);
    at.sort_unstable();
    at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}
