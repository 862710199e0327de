//! What the cells of each column are, by all of them.
//!
//! A first look is not enough: the value that tells a date's order may stand in the last row, a sensor may say something for the first time
//! after an hour, and one `Bad Input` makes no text of a million numbers.

use super::flaws::quoted;
use super::head::{Head, TIME_NAMES, has_decimal_comma};
use super::source::Records;
use super::time_format::{self, DateOrder, Form, TimeUnit};
use super::{Kind, Options, RecordingError, is_missing, push_number};
use csv::StringRecord;
use std::path::Path;

/// A column is of numbers where at most one cell in so many is none.
const OUTLIERS_ONE_IN: u64 = 10;
/// Numbers in this range may be a spreadsheet's days since 1899, from 1982 on.
const DAY_NUMBERS: std::ops::Range<f64> = 30_000.0..80_000.0;
/// Seconds are not recorded so closely, in a file that says nothing of its unit: a second is 1.16e-5 days.
const DAY_STEP_MAX: f64 = 5e-4;
/// The largest step of the wrong order is at least so many times that of the right one.
const STEP_RATIO: i64 = 10;

/// What the file shows of one column.
#[derive(Clone, Default)]
pub(super) struct Seen {
    /// The first cell that is not missing, with its line.
    pub(super) first: Option<(u64, String)>,
    pub(super) first_is_civil_time: bool,
    numbers: u64,
    texts: u64,
    pub(super) times: u64,
    dates: Dates,
    days: Days,
}

impl Seen {
    /// A column without any value counts as text, which refuses nothing.
    pub(super) fn kind(&self) -> Kind {
        let outliers = self.texts * (OUTLIERS_ONE_IN - 1) <= self.numbers;
        if self.numbers > 0 && outliers { Kind::Number } else { Kind::Text }
    }

    fn look(&mut self, line: u64, cell: &str, decimal_comma: bool, scratch: &mut String) {
        if self.first.is_none() {
            self.first = Some((line, quoted(cell)));
            self.first_is_civil_time = time_format::civil_in_any_order(cell).is_some();
        }
        scratch.clear();
        if push_number(scratch, cell, decimal_comma) {
            self.numbers += 1;
            self.days.look(scratch);
        } else {
            self.texts += 1;
        }
        if time_format::is_time(cell) {
            self.times += 1;
            self.dates.look(line, cell);
        }
    }
}

/// Dates of which neither the year nor a point tells which number is the day.
#[derive(Clone, Default)]
struct Dates {
    /// The first, and the first of which only one order is a date at all.
    first: Option<(u64, String)>,
    day_first: Option<(u64, String)>,
    month_first: Option<(u64, String)>,
    by_day: Steps,
    by_month: Steps,
}

/// How times follow each other in one order.
#[derive(Clone, Copy, Default)]
struct Steps {
    last: Option<i64>,
    largest: i64,
    backward: u64,
}

impl Steps {
    fn look(&mut self, time: Option<i64>) {
        let Some(time) = time else { return };
        if let Some(last) = self.last.replace(time) {
            self.largest = self.largest.max(time.saturating_sub(last).saturating_abs());
            self.backward += u64::from(time < last);
        }
    }
}

impl Dates {
    fn look(&mut self, line: u64, cell: &str) {
        let Some((first, second)) = time_format::undecided(cell) else { return };
        let here = || Some((line, quoted(cell)));
        self.first = self.first.take().or_else(here);
        if first > 12 {
            self.day_first = self.day_first.take().or_else(here);
        }
        if second > 12 {
            self.month_first = self.month_first.take().or_else(here);
        }
        self.by_day.look(time_format::civil(cell, DateOrder::DayFirst));
        self.by_month.look(time_format::civil(cell, DateOrder::MonthFirst));
    }

    /// The order that the whole column decides: by a number that can be no month, else by which makes of it a recording.
    fn order(&self, path: &Path, column: &str) -> Result<DateOrder, RecordingError> {
        let (path, column) = (path.to_owned(), column.to_owned());
        match (&self.first, &self.day_first, &self.month_first) {
            (None, ..) => return Ok(DateOrder::default()),
            (_, Some((line, text)), Some((other_line, other))) => {
                let (line, text, other_line, other) = (*line, text.clone(), *other_line, other.clone());
                return Err(RecordingError::MixedDates { path, column, line, text, other_line, other });
            }
            (_, Some(_), None) => return Ok(DateOrder::DayFirst),
            (_, None, Some(_)) => return Ok(DateOrder::MonthFirst),
            (_, None, None) => {}
        }
        let (day, month) = (self.by_day, self.by_month);
        let same = day.largest == month.largest && day.backward == month.backward;
        if same || smoother(&month, &day) {
            // A replay goes by steps, so either is right where both have the same.
            return Ok(DateOrder::MonthFirst);
        }
        if smoother(&day, &month) {
            return Ok(DateOrder::DayFirst);
        }
        let (line, text) = self.first.clone().unwrap_or_default();
        Err(RecordingError::AmbiguousDates { path, column, line, text })
    }
}

fn smoother(one: &Steps, other: &Steps) -> bool {
    one.backward <= other.backward && one.largest <= other.largest / STEP_RATIO
}

/// Whether numbers may be days.
#[derive(Clone, Copy, Default)]
struct Days {
    last: Option<f64>,
    smallest_step: Option<f64>,
    others: bool,
}

impl Days {
    fn look(&mut self, number: &str) {
        let Some(value) = number.parse::<f64>().ok().filter(|value| DAY_NUMBERS.contains(value)) else {
            self.others = true;
            return;
        };
        let step = self.last.replace(value).map(|last| value - last).filter(|step| *step > 0.0);
        if let Some(step) = step {
            self.smallest_step = Some(self.smallest_step.map_or(step, |smallest| smallest.min(step)));
        }
    }

    fn are_likely(&self) -> bool {
        !self.others && self.smallest_step.is_some_and(|step| step < DAY_STEP_MAX)
    }
}

/// Looks at every cell of the file.
pub(super) fn look(path: &Path, head: &Head) -> Result<Vec<Seen>, RecordingError> {
    let mut records = Records::open(path, head.delimiter, head.above)?;
    let (mut record, mut scratch) = (StringRecord::new(), String::new());
    head.skip(path, &mut records, &mut record)?;
    let mut seen = vec![Seen::default(); head.header.len()];
    let decimal_comma = has_decimal_comma(head.delimiter);
    let mut rows = 0_u64;
    while let Some(line) = records.read(&mut record)? {
        rows += 1;
        for (seen, cell) in seen.iter_mut().zip(&record) {
            let cell = cell.trim();
            if !is_missing(cell) {
                seen.look(line, cell, decimal_comma, &mut scratch);
            }
        }
    }
    if rows == 0 {
        return Err(RecordingError::OnlyHeader { path: path.to_owned() });
    }
    Ok(seen)
}

/// The column with the time. One that is named as the time and never holds one is an error rather than passed over: replaying such a file at
/// one row a second would look right and be wrong.
pub(super) fn choose_time(
    path: &Path,
    names: &[String],
    seen: &[Seen],
    wanted: Option<usize>,
) -> Result<Option<usize>, RecordingError> {
    let by_name = |&place: &usize| TIME_NAMES.iter().any(|name| names[place].eq_ignore_ascii_case(name));
    let found = wanted.or_else(|| {
        (0..names.len())
            .find(|place| seen[*place].first_is_civil_time || by_name(place) && seen[*place].times > 0)
            .or_else(|| (0..names.len()).find(by_name))
    });
    match found {
        Some(place) if seen[place].times == 0 => {
            let (path, column) = (path.to_owned(), names[place].clone());
            Err(match seen[place].first.clone() {
                Some((line, text)) => RecordingError::UnreadableTimeColumn { path, column, line, text },
                None => RecordingError::EmptyTimeColumn { path, column },
            })
        }
        found => Ok(found),
    }
}

/// How the cells of the time column are to be read.
pub(super) fn time_form(
    path: &Path,
    name: &str,
    seen: &Seen,
    options: &Options,
) -> Result<Form, RecordingError> {
    let order = match options.dates {
        Some(order) => order,
        None => seen.dates.order(path, name)?,
    };
    if options.time_unit.is_none() && seen.dates.first.is_none() && seen.days.are_likely() {
        let (line, text) = seen.first.clone().unwrap_or_default();
        let (path, column) = (path.to_owned(), name.to_owned());
        return Err(RecordingError::DayNumbers { path, column, line, text });
    }
    Ok(Form { order, unit: options.time_unit })
}

/// How people name units of time.
impl std::str::FromStr for TimeUnit {
    type Err = String;

    fn from_str(text: &str) -> Result<TimeUnit, String> {
        Ok(match text {
            "s" => TimeUnit::Seconds,
            "ms" => TimeUnit::Millis,
            "us" | "µs" => TimeUnit::Micros,
            "ns" => TimeUnit::Nanos,
            "days" => TimeUnit::Days,
            _ => return Err("s, ms, us, ns or days".to_owned()),
        })
    }
}
