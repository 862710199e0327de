//! What one pass over a whole recording tells before it is replayed.

use std::path::Path;

use super::{Column, Flaws, Options, Recording, RecordingError};

/// How many steps are kept for the median. Files with more rows are thinned out evenly, so that the memory is
/// bounded for any length.
pub const MAX_KEPT_STEPS: usize = 1 << 16;

/// The extent of a recording: what a replay needs to announce its duration, choose a pace, and size topics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    /// The rows a replay would publish; rows with an unreadable time are not among them.
    pub rows: u64,
    /// Whether the times below come from the file, or count rows as seconds.
    pub has_time: bool,
    /// The time of the first row, in nanoseconds since the Unix epoch.
    pub first_ns: Option<i64>,
    /// The time of the last row, in nanoseconds since the Unix epoch.
    pub last_ns: Option<i64>,
    /// The smallest step between two rows that differ in time: it bounds how much the replay can be sped up.
    pub smallest_step_ns: Option<i64>,
    /// The median step between rows, steps of zero included. It is exact up to [`MAX_KEPT_STEPS`] steps and
    /// an estimate from evenly spread ones beyond.
    pub median_step_ns: Option<i64>,
    /// The selected columns, in the order of [`Recording::columns`].
    pub columns: Vec<Column>,
    /// The longest cell of each selected column in bytes, as it would be published.
    pub longest_cells: Vec<usize>,
    /// What was wrong on the way.
    pub flaws: Flaws,
}

impl Recording {
    /// Reads the whole file once without publishing anything.
    pub fn survey(path: &Path, options: &Options) -> Result<Survey, RecordingError> {
        let mut recording = Recording::open(path, options)?;
        let mut longest_cells = vec![0; recording.columns().len()];
        let mut steps = Steps { every: 1, ..Steps::default() };
        let (mut rows, mut first_ns, mut last_ns) = (0, None, None);
        while let Some(row) = recording.next_row()? {
            rows += 1;
            first_ns.get_or_insert(row.time_ns);
            if let Some(previous) = last_ns.replace(row.time_ns) {
                steps.add(row.time_ns.saturating_sub(previous));
            }
            for (longest, cell) in longest_cells.iter_mut().zip(row.cells()) {
                *longest = cell.map_or(0, str::len).max(*longest);
            }
        }
        Ok(Survey {
            rows,
            has_time: recording.has_time(),
            first_ns,
            last_ns,
            smallest_step_ns: steps.smallest,
            median_step_ns: steps.median(),
            columns: recording.columns,
            longest_cells,
            flaws: recording.flaws,
        })
    }
}

/// The steps seen so far, of which every n-th is kept.
#[derive(Default)]
struct Steps {
    smallest: Option<i64>,
    kept: Vec<i64>,
    every: usize,
    seen: usize,
}

impl Steps {
    fn add(&mut self, step: i64) {
        if step > 0 {
            self.smallest = Some(self.smallest.map_or(step, |smallest| smallest.min(step)));
        }
        if self.seen.is_multiple_of(self.every) {
            if self.kept.len() == MAX_KEPT_STEPS {
                let mut index = 0;
                self.kept.retain(|_| {
                    index += 1;
                    index % 2 == 1
                });
                self.every *= 2;
            }
            self.kept.push(step);
        }
        self.seen += 1;
    }

    fn median(&mut self) -> Option<i64> {
        let middle = self.kept.len().checked_sub(1)? / 2;
        Some(*self.kept.select_nth_unstable(middle).1)
    }
}
