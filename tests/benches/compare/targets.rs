//! Measured figures beside their targets, and the verdict: a time worse than twice its target is a regression, and a promise
//! is kept or broken. Must not know what was measured or how.

use std::process::ExitCode;

/// How much worse than its target a time may be before the benchmark fails: machines are noisy, regressions are not small.
const TOLERANCE: f64 = 2.0;

/// Which way a figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Better {
    Lower,
    Higher,
}

/// One figure.
#[derive(Debug)]
pub(crate) struct Figure {
    name: &'static str,
    unit: &'static str,
    measured: f64,
    target: f64,
    better: Better,
    tolerance: f64,
}

impl Figure {
    pub(crate) fn at_most(name: &'static str, unit: &'static str, measured: f64, target: f64) -> Figure {
        Figure { name, unit, measured, target, better: Better::Lower, tolerance: TOLERANCE }
    }

    pub(crate) fn at_least(name: &'static str, unit: &'static str, measured: f64, target: f64) -> Figure {
        Figure { name, unit, measured, target, better: Better::Higher, tolerance: TOLERANCE }
    }

    /// A promise: how busy the machine is does not matter, or there is room for that.
    pub(crate) fn promised(self) -> Figure {
        Figure { tolerance: 1.0, ..self }
    }

    /// The value past which the figure is a regression.
    fn bound(&self) -> f64 {
        match self.better {
            Better::Lower => self.target * self.tolerance,
            Better::Higher => self.target / self.tolerance,
        }
    }

    /// A figure that is no number holds nowhere.
    fn holds(&self, against: f64) -> bool {
        match self.better {
            Better::Lower => self.measured <= against,
            Better::Higher => self.measured >= against,
        }
    }

    fn verdict(&self) -> &'static str {
        match (self.holds(self.target), self.holds(self.bound())) {
            (true, _) => "ok",
            (false, true) => "short of the target",
            (false, false) => "REGRESSION",
        }
    }
}

/// Prints the table and says whether the benchmark has failed.
pub(crate) fn conclude(figures: &[Figure]) -> ExitCode {
    anstream::println!("\n{:<44}{:>10}{:>10}{:>12}", "figure", "measured", "target", "fails past");
    for figure in figures {
        let (bound, verdict) = (figure.bound(), figure.verdict());
        anstream::println!(
            "{:<44}{:>10.2}{:>10.2}{bound:>12.2}  {:<5} {verdict}",
            figure.name,
            figure.measured,
            figure.target,
            figure.unit
        );
    }
    if figures.iter().all(|figure| figure.holds(figure.bound())) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The value below which `share` of `samples` lie; not a number without samples.
pub(crate) fn quantile(samples: &[f64], share: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index into a few thousand samples, and a share is between 0 and 1"
    )]
    let place = ((sorted.len() as f64) * share) as usize;
    sorted.get(place.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}
