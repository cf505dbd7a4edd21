//! Picks some of many mutants: first one of each line, evenly over the lines, then a second one, and so on. The same mutants
//! give the same choice.

/// Indices of at most `max` mutants, in order. `lines` has the line that each of them changes, as any key, sorted.
#[must_use]
pub fn choose<L: PartialEq>(lines: &[L], max: usize) -> Vec<usize> {
    let mut by_line: Vec<Vec<usize>> = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        match by_line.last_mut() {
            Some(same) if lines[same[0]] == *line => same.push(index),
            _ => by_line.push(vec![index]),
        }
    }
    // Another kind of change on each line, not always the leftmost.
    for (number, same) in by_line.iter_mut().enumerate() {
        let by = number % same.len();
        same.rotate_left(by);
    }
    let mut chosen = Vec::new();
    for round in 0.. {
        let candidates: Vec<usize> = by_line.iter().filter_map(|same| same.get(round).copied()).collect();
        let left = max - chosen.len();
        if candidates.is_empty() || left == 0 {
            break;
        }
        let taken = candidates.len().min(left);
        chosen.extend((0..taken).map(|number| candidates[number * candidates.len() / taken]));
    }
    chosen.sort_unstable();
    chosen
}
