//! Results of a level, by their latency.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Results of a level.
pub struct Tally {
    pub name: String,
    per_second: f64,
    /// Microseconds.
    pub latency: Histogram<u64>,
}

/// What is said of them.
#[derive(Serialize)]
pub struct Quantiles {
    /// Results by the periods of the streams, and those that came.
    expected: f64,
    results: u64,
    p50_ms: f64,
    p99_ms: f64,
    p999_ms: f64,
    max_ms: f64,
}

impl Tally {
    pub fn new(name: String, per_second: f64) -> Tally {
        let latency =
            Histogram::new_with_bounds(1, 60_000_000, 3).expect("invariant: constant bounds are valid");
        Tally { name, per_second, latency }
    }

    pub fn quantiles(&self, seconds: f64) -> Quantiles {
        let quantile = |q| self.latency.value_at_quantile(q) as f64 / 1e3;
        Quantiles {
            expected: self.per_second * seconds,
            results: self.latency.len(),
            p50_ms: quantile(0.5),
            p99_ms: quantile(0.99),
            p999_ms: quantile(0.999),
            max_ms: self.latency.max() as f64 / 1e3,
        }
    }
}
