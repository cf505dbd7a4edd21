//! Measured figures with their targets. A time worse than twice its target is a regression; a firm limit has no tolerance.

use std::process::ExitCode;

/// Factor by which a figure may miss its target before the benchmark fails, since machines are noisy.
const TOLERANCE: f64 = 2.0;

/// Direction in which a figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Better {
    Lower,
    Higher,
}

/// A measured figure and its target.
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

    /// Makes the target a firm limit: it does not depend on the machine's load, or has enough margin.
    pub(crate) fn firm(self) -> Figure {
        Figure { tolerance: 1.0, ..self }
    }

    /// Value beyond which the figure is a regression.
    fn bound(&self) -> f64 {
        match self.better {
            Better::Lower => self.target * self.tolerance,
            Better::Higher => self.target / self.tolerance,
        }
    }

    /// Whether the figure is within a limit; false for NaN.
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

/// Prints the table and returns whether the benchmark passed.
pub(crate) fn print_verdict(figures: &[Figure]) -> ExitCode {
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

/// The value below which a `share` of `samples` lies; NaN without samples.
pub(crate) fn quantile(samples: &[f64], share: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index into a few thousand samples, and a share is between 0 and 1"
    )]
    let index = ((sorted.len() as f64) * share) as usize;
    sorted.get(index.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}
