//! Converts between days since 1970-01-01 and dates of the proleptic Gregorian calendar.

/// Days from 0000-03-01, the first day of a 400-year era, to 1970-01-01.
const BEFORE_1970: u64 = 719_468;

/// Days in 400 years, after which the calendar repeats.
const ERA: u64 = 146_097;

/// A calendar date. It may name a day that does not exist (30 February): [`Date::days`] then returns `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Date {
    /// The year.
    pub year: u64,
    /// From 1 to 12.
    pub month: u64,
    /// From 1.
    pub day: u64,
}

impl Date {
    /// The date `days` days after 1970-01-01.
    #[must_use]
    pub fn from_days(days: u64) -> Date {
        // Years begin in March here, so that a leap day is the last day of its year.
        let days = days.saturating_add(BEFORE_1970);
        let (era, day) = (days / ERA, days % ERA);
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        Date { year: era * 400 + year + next, month, day }
    }

    /// Days since 1970-01-01; `None` for an earlier date or one that does not exist.
    #[must_use]
    pub fn days(self) -> Option<u64> {
        let (year, month) = match self.month {
            1..=2 => (self.year.checked_sub(1)?, self.month + 9),
            3..=12 => (self.year, self.month - 3),
            _ => return None,
        };
        let leap_days = year / 4 - year / 100 + year / 400;
        let day_of_year = ((153 * month + 2) / 5).checked_add(self.day.checked_sub(1)?)?;
        let days = year.checked_mul(365)?.checked_add(leap_days)?.checked_add(day_of_year)?.checked_sub(BEFORE_1970)?;
        (Date::from_days(days) == self).then_some(days)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converts_every_day_of_two_eras_in_order_and_back() {
        let mut before = Date { year: 1969, month: 12, day: 31 };
        for days in 0..2 * ERA {
            let date = Date::from_days(days);
            assert_eq!(date.days(), Some(days), "{date:?}");
            let is_next = (date.year, date.month, date.day) > (before.year, before.month, before.day);
            assert!(is_next && date.day.abs_diff(before.day) <= 30, "{date:?} after {before:?}");
            before = date;
        }
        assert_eq!(before, Date { year: 2769, month: 12, day: 31 });
    }

    #[test]
    fn agrees_with_date_1() {
        // Reference values from `date -u -d @SECONDS`.
        for (days, (year, month, day)) in
            [(0, (1970, 1, 1)), (11_016, (2000, 2, 29)), (20_453, (2025, 12, 31)), (47_541, (2100, 3, 1))]
        {
            assert_eq!(Date::from_days(days), Date { year, month, day });
        }
    }

    #[test]
    fn rejects_dates_that_do_not_exist() {
        for (year, month, day) in [
            (1969, 12, 31),
            (0, 1, 1),
            (2026, 2, 29),
            (2100, 2, 29),
            (2026, 0, 1),
            (2026, 13, 1),
            (2026, 1, 0),
            (2026, 4, 31),
            (u64::MAX, 1, 1),
            (2026, 1, u64::MAX),
        ] {
            assert_eq!(Date { year, month, day }.days(), None, "{year}-{month}-{day}");
        }
    }
}
