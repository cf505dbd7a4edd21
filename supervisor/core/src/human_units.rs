//! Formats quantities and lists for people: `1.5 GiB`, `0.5 processors`, `300 s`, `a, b and 3 more`.

use crate::limits::LimitKind;

/// Formats bytes, rounded down: `1.5 GiB`.
#[must_use]
pub fn format_bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1_024 {
        return format!("{bytes} B");
    }
    let mut tenths = u128::from(bytes) * 10;
    let mut unit = "B";
    for next in UNITS {
        if tenths < 10_240 {
            break;
        }
        tenths /= 1_024;
        unit = next;
    }
    if tenths >= 1_000 || tenths % 10 == 0 {
        format!("{} {unit}", tenths / 10)
    } else {
        format!("{}.{} {unit}", tenths / 10, tenths % 10)
    }
}

/// The first `max` of these names, and how many more there are: `a, b and 3 more`.
#[must_use]
pub fn first_names<S: AsRef<str>>(names: impl IntoIterator<Item = S>, max: usize) -> String {
    let mut names = names.into_iter();
    let first: Vec<S> = names.by_ref().take(max).collect();
    let first = first.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join(", ");
    match names.count() {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

impl LimitKind {
    /// Formats a value of this limit with its unit.
    #[must_use]
    pub fn format_value(self, value: u64) -> String {
        match self {
            LimitKind::Cpu => format!("{} processors", thousandths(value)),
            LimitKind::Pids => format!("{value} processes"),
            LimitKind::Wall => format!("{} s", thousandths(value)),
            LimitKind::Memory | LimitKind::Log | LimitKind::Tmp | LimitKind::Disk => format_bytes(value),
            LimitKind::Writes => format!("{} a second", format_bytes(value)),
        }
    }
}

/// Formats thousandths without trailing zeros.
fn thousandths(value: u64) -> String {
    let (whole, rest) = (value / 1_000, value % 1_000);
    if rest == 0 { whole.to_string() } else { format!("{whole}.{rest:03}").trim_end_matches('0').to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_sizes_in_binary_units() {
        let formatted = [0, 1_023, 1_536, 157_286_400, 2 << 30].map(format_bytes);
        assert_eq!(formatted, ["0 B", "1023 B", "1.5 KiB", "150 MiB", "2 GiB"]);
    }

    #[test]
    fn lists_the_first_names_and_counts_the_others() {
        let listed = [1, 2, 3, 4].map(|max| first_names(["a", "b", "c"], max));
        assert_eq!(listed, ["a and 2 more", "a, b and 1 more", "a, b, c", "a, b, c"]);
        assert_eq!(first_names([""; 0], 3), "");
    }

    #[test]
    fn formats_each_limit_with_its_unit() {
        let rows = [
            (LimitKind::Memory, 2 << 30, "2 GiB"),
            (LimitKind::Cpu, 2_000, "2 processors"),
            (LimitKind::Cpu, 50, "0.05 processors"),
            (LimitKind::Pids, 512, "512 processes"),
            (LimitKind::Wall, 1_500, "1.5 s"),
            (LimitKind::Disk, 4_096, "4 KiB"),
        ];
        for (limit, value, text) in rows {
            assert_eq!(limit.format_value(value), text);
        }
    }
}
