//! Formats quantities for people: `1.5 GiB`, `0.5 processors`, `300 s`.

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
