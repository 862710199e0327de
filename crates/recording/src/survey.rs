//! What one pass over a whole recording tells before it is replayed.

use super::{Column, FlawKind, Flaws, Recording, RecordingError};

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
    /// The median step between rows, steps of zero included. It is exact up to `MAX_KEPT_STEPS` steps and
    /// an estimate from evenly spread ones beyond.
    pub median_step_ns: Option<i64>,
    /// The step that most rows keep, in nanoseconds: of those that are no outliers, nearly the smallest.
    pub usual_step_ns: Option<i64>,
    /// Whether most rows have a value of one column alone, as in the recording of several topics: holes are no flaws there.
    pub is_sparse: bool,
    /// Where rows are missing.
    pub gaps: Gaps,
    /// The selected columns, in the order of [`Recording::columns`].
    pub columns: Vec<Column>,
    /// For each of them, how many cells have a value.
    pub values: Vec<u64>,
    /// For each column, how many cells are not what the column is.
    pub outliers: Vec<u64>,
    /// The longest cell of each selected column in bytes, as it would be published.
    pub longest_cells: Vec<usize>,
    /// What was wrong on the way.
    pub flaws: Flaws,
}

/// Steps that are much longer than the usual one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gaps {
    /// How many.
    pub count: u64,
    /// The longest, in nanoseconds, and the line after it.
    pub longest_ns: i64,
    /// The line at which the recording goes on.
    pub line: u64,
}

/// A step is a gap if it is more than so many times the usual one.
const GAP_RATIO: i64 = 3;
/// A step that is so many times smaller than the median is an outlier, and so is none a measure of the pace.
const OUTLIER_RATIO: i64 = 10;
/// Where more than one time in so many is that of the row before, times are coarser than rows.
const REPEATED_ONE_IN: usize = 10;
/// Where more than one row in so many goes back, the file is not sorted by time.
const UNSORTED_ONE_IN: u64 = 3;
/// Of the steps that are left, one in so many may be smaller than the usual one.
const USUAL_ONE_IN: usize = 20;

impl Recording {
    /// Reads the whole file without publishing anything, and goes back to its first row.
    pub fn survey(&mut self) -> Result<Survey, RecordingError> {
        let mut longest_cells = vec![0; self.columns.len()];
        let mut values = vec![0; longest_cells.len()];
        let mut steps = Steps::up_to(MAX_KEPT_STEPS);
        let kept = (MAX_KEPT_STEPS / longest_cells.len().max(1)).max(STEPS_OF_A_COLUMN);
        let mut of_columns: Vec<(Option<i64>, Steps)> =
            longest_cells.iter().map(|_| (None, Steps::up_to(kept))).collect();
        let (mut rows, mut lonely, mut first_ns, mut last_ns) = (0, 0, None, None);
        while let Some(row) = self.next_row()? {
            rows += 1;
            first_ns.get_or_insert(row.time_ns);
            if let Some(previous) = last_ns.replace(row.time_ns) {
                steps.add(row.time_ns.saturating_sub(previous));
            }
            let columns = longest_cells.iter_mut().zip(&mut values);
            lonely += u64::from(row.cells().flatten().nth(1).is_none());
            for (((longest, values), (last, steps)), cell) in columns.zip(&mut of_columns).zip(row.cells()) {
                let Some(cell) = cell else { continue };
                *longest = cell.len().max(*longest);
                *values += 1;
                if let Some(last) = last.replace(row.time_ns) {
                    steps.add(row.time_ns.saturating_sub(last));
                }
            }
        }
        self.refuse_without_times(rows)?;
        self.refuse_unsorted(rows)?;
        // Each topic has its own pace then.
        let is_sparse = values.len() > 1 && lonely > rows / 2;
        let of_columns = || of_columns.iter().filter_map(|(_, steps)| steps.usual()).min();
        let usual_step_ns = if is_sparse { of_columns() } else { steps.usual() };
        if is_sparse {
            steps.smallest = usual_step_ns;
        }
        let (outliers, flaws) = (self.outliers.clone(), self.flaws.clone());
        let gaps = match steps.usual_without_repeats().max(usual_step_ns) {
            Some(usual) if self.has_time() => self.gaps(usual.saturating_mul(GAP_RATIO))?,
            _ => Gaps::default(),
        };
        self.rewind()?;
        Ok(Survey {
            rows,
            has_time: self.has_time(),
            first_ns,
            last_ns,
            smallest_step_ns: steps.smallest,
            median_step_ns: steps.median(),
            usual_step_ns,
            is_sparse,
            gaps,
            columns: self.columns.clone(),
            values,
            outliers,
            longest_cells,
            flaws,
        })
    }

    /// A file of which no row has a time that can be read, as it is to be read, is not replayed at all.
    fn refuse_without_times(&self, rows: u64) -> Result<(), RecordingError> {
        match self.flaws.first(FlawKind::UnreadableTime).first() {
            Some(first) if rows == 0 => Err(RecordingError::UnreadableTimeColumn {
                path: self.path.clone(),
                column: first.column.clone().unwrap_or_default(),
                line: first.line,
                text: first.text.clone(),
            }),
            _ => Ok(()),
        }
    }

    /// A file whose rows mostly go back has no pace.
    fn refuse_unsorted(&self, rows: u64) -> Result<(), RecordingError> {
        let back = self.flaws.count(FlawKind::OutOfOrder);
        match self.flaws.first(FlawKind::OutOfOrder).first() {
            Some(first) if back > 1 && back * UNSORTED_ONE_IN > rows => Err(RecordingError::Unsorted {
                path: self.path.clone(),
                line: first.line,
                column: first.column.clone().unwrap_or_default(),
                back,
                rows,
            }),
            _ => Ok(()),
        }
    }
}

impl Recording {
    /// Reads the file once more for the steps that are longer than this.
    fn gaps(&mut self, least: i64) -> Result<Gaps, RecordingError> {
        self.rewind()?;
        let (mut gaps, mut last) = (Gaps::default(), None);
        while let Some(row) = self.next_row()? {
            let step = last.replace(row.time_ns).map_or(0, |last| row.time_ns.saturating_sub(last));
            if step > least {
                gaps.count += 1;
                if step > gaps.longest_ns {
                    (gaps.longest_ns, gaps.line) = (step, row.line);
                }
            }
        }
        Ok(gaps)
    }
}

/// Steps that are kept of each column at least.
const STEPS_OF_A_COLUMN: usize = 32;

/// The steps seen so far, of which every n-th is kept.
struct Steps {
    smallest: Option<i64>,
    kept: Vec<i64>,
    most: usize,
    every: usize,
    seen: usize,
}

impl Steps {
    /// None yet, and so many at most.
    fn up_to(most: usize) -> Steps {
        Steps { smallest: None, kept: Vec::new(), most, every: 1, seen: 0 }
    }

    fn add(&mut self, step: i64) {
        if step > 0 {
            self.smallest = Some(self.smallest.map_or(step, |smallest| smallest.min(step)));
        }
        if self.seen.is_multiple_of(self.every) {
            if self.kept.len() == self.most {
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

    /// Nearly the smallest of those that are no outliers: rows closer together than this are rare.
    fn usual(&self) -> Option<i64> {
        let repeated = self.kept.iter().filter(|step| **step <= 0).count();
        if repeated * REPEATED_ONE_IN > self.kept.len() {
            // Times are coarser than rows: what they keep is their average.
            let sum: i128 = self.kept.iter().map(|step| i128::from(*step)).sum();
            return i64::try_from(sum / self.kept.len() as i128).ok().filter(|step| *step > 0);
        }
        self.usual_without_repeats()
    }

    /// The same of rows that differ in time.
    fn usual_without_repeats(&self) -> Option<i64> {
        let mut steps: Vec<i64> = self.kept.iter().copied().filter(|step| *step > 0).collect();
        let middle = steps.len().checked_sub(1)? / 2;
        let median = *steps.select_nth_unstable(middle).1;
        steps.retain(|step| *step >= median / OUTLIER_RATIO);
        let low = steps.len().checked_sub(1)? / USUAL_ONE_IN;
        Some(*steps.select_nth_unstable(low).1)
    }

    fn median(&mut self) -> Option<i64> {
        let middle = self.kept.len().checked_sub(1)? / 2;
        Some(*self.kept.select_nth_unstable(middle).1)
    }
}
