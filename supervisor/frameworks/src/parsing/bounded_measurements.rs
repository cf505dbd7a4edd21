//! Measurements of one run within [`COVERAGE_MEASURED_BYTES_MAX`].

use proctor_core::bounds::COVERAGE_MEASURED_BYTES_MAX;
use proctor_core::coverage::{CoverageMeasurement, LineSpan};

/// Measurements that fit, and how many tests the others have.
#[derive(Debug)]
pub(crate) struct BoundedMeasurements {
    pub(crate) measured: Vec<CoverageMeasurement>,
    bytes_left: usize,
    left_out: usize,
}

impl Default for BoundedMeasurements {
    fn default() -> BoundedMeasurements {
        BoundedMeasurements { measured: Vec::new(), bytes_left: COVERAGE_MEASURED_BYTES_MAX, left_out: 0 }
    }
}

impl BoundedMeasurements {
    /// Adds a measurement if it fits.
    pub(crate) fn push(&mut self, measurement: CoverageMeasurement) {
        let entry = size_of::<(String, Vec<LineSpan>)>();
        let of_file =
            |(file, spans): &(String, Vec<LineSpan>)| entry + file.len() + spans.len() * size_of::<LineSpan>();
        let names = measurement.tests.iter().map(|name| name.len() + size_of::<String>()).sum::<usize>();
        let bytes = names + measurement.files.iter().chain(&measurement.kept).map(of_file).sum::<usize>();
        if bytes > self.bytes_left {
            self.left_out += measurement.tests.len();
            return;
        }
        self.bytes_left -= bytes;
        self.measured.push(measurement);
    }

    /// A note about what did not fit.
    pub(crate) fn note(&self) -> Option<String> {
        (self.left_out > 0).then(|| format!("the lines of {} test(s) are left out: too many", self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proctor_core::coverage::{Attribution, Calibration};

    #[test]
    fn keeps_within_its_memory_and_says_what_is_left_out() {
        let mut harvest = BoundedMeasurements { bytes_left: 200, ..BoundedMeasurements::default() };
        for line in 1..5 {
            harvest.push(CoverageMeasurement {
                package: "tests/test_a.py".to_owned(),
                tests: vec!["test_x".to_owned()],
                complete: true,
                attribution: Attribution::Test,
                started_processes: false,
                kept: Vec::new(),
                calibration: Calibration::None,
                files: vec![("a.py".to_owned(), vec![LineSpan { first: line, last: line }])],
            });
        }
        assert_eq!(harvest.measured.len(), 2);
        assert_eq!(harvest.note().unwrap(), "the lines of 2 test(s) are left out: too many");
    }
}
