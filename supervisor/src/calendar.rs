//! The calendar: days since 1970 to a date of the proleptic Gregorian calendar, and back. Must not know what a date is for.

/// Days from 0000-03-01, the first of an era of 400 years, to 1970-01-01.
const BEFORE_1970: u64 = 719_468;

/// Days of 400 years, after which everything is the same again.
const ERA: u64 = 146_097;

/// A day. One that there is not, as the 30th of February, is no number of days.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Date {
    /// The year.
    pub year: u64,
    /// The month, from 1.
    pub month: u64,
    /// The day of the month, from 1.
    pub day: u64,
}

impl Date {
    /// The date so many days after 1970-01-01.
    #[must_use]
    pub fn of(days: u64) -> Date {
        // The year begins in March here, so that a leap day is its last.
        let days = days.saturating_add(BEFORE_1970);
        let (era, day) = (days / ERA, days % ERA);
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        Date { year: era * 400 + year + next, month, day }
    }

    /// How many days it is after 1970-01-01; `None` where it is before, or there is no such date.
    #[must_use]
    pub fn days(self) -> Option<u64> {
        let (year, month) = match self.month {
            1..=2 => (self.year.checked_sub(1)?, self.month + 9),
            3..=12 => (self.year, self.month - 3),
            _ => return None,
        };
        let leap_days = year / 4 - year / 100 + year / 400;
        let of_the_year = ((153 * month + 2) / 5).checked_add(self.day.checked_sub(1)?)?;
        let days = year.checked_mul(365)?.checked_add(leap_days)?.checked_add(of_the_year)?.checked_sub(BEFORE_1970)?;
        (Date::of(days) == self).then_some(days)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_two_eras_is_the_next_date_and_leads_back() {
        let mut before = Date { year: 1969, month: 12, day: 31 };
        for days in 0..2 * ERA {
            let date = Date::of(days);
            assert_eq!(date.days(), Some(days), "{date:?}");
            let is_next = (date.year, date.month, date.day) > (before.year, before.month, before.day);
            assert!(is_next && date.day.abs_diff(before.day) <= 30, "{date:?} after {before:?}");
            before = date;
        }
        assert_eq!(before, Date { year: 2769, month: 12, day: 31 });
    }

    #[test]
    fn dates_are_those_of_everybody() {
        // As `date -u -d @SECONDS` has them.
        for (days, (year, month, day)) in
            [(0, (1970, 1, 1)), (11_016, (2000, 2, 29)), (20_453, (2025, 12, 31)), (47_541, (2100, 3, 1))]
        {
            assert_eq!(Date::of(days), Date { year, month, day });
        }
    }

    #[test]
    fn what_is_no_date_is_no_number_of_days() {
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
