//! What is measured: a run of `programs/files`, what it tells, and what is aimed at.

/// A benchmark with its arguments.
#[derive(Debug, Clone)]
pub struct Workload {
    /// The program's name for it.
    pub program: &'static str,
    /// What it is called in tables.
    pub title: String,
    /// What follows the file's name.
    pub arguments: Vec<String>,
    /// How many ranks run it.
    pub ranks: u32,
    /// What it tells.
    pub rows: Vec<Row>,
    /// Whether stock drivers are run as well: not where there is nothing to compare.
    pub is_compared: bool,
    /// The curve of which it is a point.
    pub point: Option<Point>,
    /// Bytes that a run moves, where these may be so many that they decide how long it may take.
    pub moved: u64,
}

impl Workload {
    /// With these goals of these rows, and no others.
    #[must_use]
    pub fn with_goals(mut self, goals: &[(&str, Goal)]) -> Workload {
        for row in &mut self.rows {
            row.goals = goals.iter().filter(|(name, _)| *name == row.name).map(|(_, goal)| *goal).collect();
        }
        self
    }
}

/// A point of a curve over the size of pieces.
#[derive(Debug, Clone)]
pub struct Point {
    /// The curve.
    pub curve: String,
    /// The size, bytes.
    pub bytes: u64,
}

/// One of the numbers that a run tells.
#[derive(Debug, Clone)]
pub struct Row {
    /// Its name in the program's output, and in tables.
    pub name: &'static str,
    /// What it is shown as.
    pub quantity: Quantity,
    /// What is aimed at.
    pub goals: Vec<Goal>,
    /// The row that tells the least, or the most, that it can be, by what the machine does without files.
    pub limit: Option<&'static str>,
}

impl Row {
    /// A row without aims.
    pub fn new(name: &'static str, quantity: Quantity) -> Row {
        Row { name, quantity, goals: Vec::new(), limit: None }
    }

    /// With aims.
    #[must_use]
    pub fn with_goals(self, goals: Vec<Goal>) -> Row {
        Row { goals, ..self }
    }

    /// Bounded by what another row tells.
    #[must_use]
    pub fn within(self, limit: &'static str) -> Row {
        Row { limit: Some(limit), ..self }
    }
}

/// What the seconds, or bytes, of a run are shown as.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Quantity {
    /// MB/s, where so many bytes were moved.
    Bandwidth {
        /// By all ranks.
        bytes: u64,
    },
    /// A thousand calls a second, where there were so many.
    Calls {
        /// Of all ranks.
        count: u64,
    },
    /// Microseconds.
    Microseconds,
    /// Seconds.
    Seconds,
    /// MiB.
    Mebibytes,
}

/// What is aimed at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// So many times as good as the best stock driver.
    TimesStock(f64),
    /// This share of what the cores copy in memory.
    OfCopying(f64),
    /// No more than that, in the row's unit.
    AtMost(f64),
    /// A time that is at most so many times that of another row, in the same run of svmio's.
    TimesRow {
        /// How often.
        times: f64,
        /// The other row.
        row: &'static str,
    },
}

impl Quantity {
    /// What is shown, of a number that was told.
    pub fn shown(self, told: f64) -> f64 {
        match self {
            Quantity::Bandwidth { bytes } => bytes as f64 / 1e6 / told,
            Quantity::Calls { count } => count as f64 / 1e3 / told,
            Quantity::Microseconds => told * 1e6,
            Quantity::Seconds => told,
            Quantity::Mebibytes => told / f64::from(1 << 20),
        }
    }

    /// The unit of what is shown.
    pub fn unit(self) -> &'static str {
        match self {
            Quantity::Bandwidth { .. } => "MB/s",
            Quantity::Calls { .. } => "thousand/s",
            Quantity::Microseconds => "µs",
            Quantity::Seconds => "s",
            Quantity::Mebibytes => "MiB",
        }
    }

    /// Whether large numbers are the good ones.
    pub fn is_rate(self) -> bool {
        matches!(self, Quantity::Bandwidth { .. } | Quantity::Calls { .. })
    }

    /// How many times as good one shown number is as another.
    pub fn ratio(self, own: f64, other: f64) -> f64 {
        if self.is_rate() { own / other } else { other / own }
    }

    /// The best of some shown numbers; NaN where there is none.
    pub fn best(self, numbers: impl Iterator<Item = f64>) -> f64 {
        let better = if self.is_rate() { f64::max } else { f64::min };
        // Both pass NaN by.
        numbers.fold(f64::NAN, better)
    }
}

#[cfg(test)]
mod tests {
    use super::Quantity;

    #[test]
    fn more_is_better_for_rates_and_less_for_times() {
        let rate = Quantity::Bandwidth { bytes: 2_000_000 };
        assert_eq!(rate.shown(0.5), 4.0);
        assert_eq!(rate.ratio(4.0, 2.0), 2.0);
        assert_eq!(rate.best([1.0, f64::NAN, 3.0].into_iter()), 3.0);
        let time = Quantity::Microseconds;
        assert_eq!(time.shown(0.5), 5e5);
        assert_eq!(time.ratio(4.0, 2.0), 0.5);
        assert_eq!(time.best([f64::NAN, 1.0, 3.0].into_iter()), 1.0);
        assert!(time.best(std::iter::empty()).is_nan());
    }
}
