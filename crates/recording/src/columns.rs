//! What the cells of each column are, by all of them.
//!
//! A first look is not enough: the value that tells a date's order may stand in the last row, a sensor may say something for the first time
//! after an hour, and one `Bad Input` makes no text of a million numbers.

use super::flaws::quoted;
use super::head::{Head, is_time_name, unit_in_name};
use super::layout::TimeColumn;
use super::number::{self, Decimal, Shown};
use super::source::Records;
use super::time_format::{self, DateOrder, Form, Shape, TimeUnit};
use super::{Kind, Options, RecordingError, is_missing};
use csv::StringRecord;
use std::path::Path;

/// A column is of numbers where at most one cell in so many is none.
const OUTLIERS_ONE_IN: u64 = 10;
/// Numbers in this range may be a spreadsheet's days since 1899, from 1982 on.
const DAY_NUMBERS: std::ops::Range<f64> = 30_000.0..80_000.0;
/// Recordings with a row a day are the slowest whose times a spreadsheet counts.
const DAY_STEP_MAX: f64 = 1.0;
/// A text that is longer is none that was meant as a number.
const NUMBER_CHARS_MAX: usize = 24;
/// The largest step of the wrong order is at least so many times that of the right one.
const STEP_RATIO: i64 = 10;

/// What the file shows of one column.
#[derive(Clone, Default)]
pub(super) struct Seen {
    /// The first cell that is not missing, with its line.
    pub(super) first: Option<(u64, String)>,
    /// What that says of a time.
    shape: Option<Shape>,
    numbers: u64,
    texts: u64,
    first_text: Option<(u64, String)>,
    /// Texts that begin as numbers do, and the first of them.
    nearly: u64,
    first_nearly: Option<(u64, String)>,
    pub(super) shown: Shown,
    pub(super) times: u64,
    /// Cells that are no times.
    no_times: u64,
    /// Times that are a date as `YYYYMMDD`.
    compact_days: u64,
    dates: Dates,
    days: Days,
}

impl Seen {
    /// A column without any value counts as text, which refuses nothing.
    pub(super) fn kind(&self) -> Kind {
        let outliers = self.texts * (OUTLIERS_ONE_IN - 1) <= self.numbers;
        if self.numbers > 0 && outliers { Kind::Number } else { Kind::Text }
    }

    /// What its first cell says of a time, or all of them together: eight digits are a date where all are.
    fn has_shape(&self, shape: Shape) -> bool {
        self.shape == Some(shape) || shape == Shape::Day && self.shape.is_none() && self.are_compact_days()
    }

    fn are_compact_days(&self) -> bool {
        self.times > 0 && self.compact_days == self.times
    }

    /// Whether some of its cells are times and some are not.
    pub(super) fn is_mixed(&self) -> bool {
        self.times > 0 && self.no_times > 0
    }

    /// Whether some of its cells are numbers.
    pub(super) fn has_numbers(&self) -> bool {
        self.numbers > 0
    }

    /// What a person may want to know of a column that is not what it seems. `others`: what the other columns tell of decimals.
    pub(super) fn note(&self, name: &str, others: Option<Decimal>) -> Option<String> {
        let first = |(line, text): &(u64, String)| format!("{text:?} in line {line}");
        match self.kind() {
            Kind::Number if self.shown.parts_by_others(others) => Some(format!(
                "`{name}`: points or commas before three digits part thousands here, since other columns write decimals with the other one"
            )),
            Kind::Number if self.shown.may_be_thousands() => Some(format!(
                "`{name}`: points or commas before three digits begin decimals here; if they part thousands, take them out of the file"
            )),
            Kind::Text if self.numbers >= self.texts => {
                let first = self.first_text.as_ref().map_or_else(String::new, first);
                let all = self.numbers + self.texts;
                Some(format!(
                    "`{name}` is published as text: {} of {all} cells are no numbers ({first})",
                    self.texts
                ))
            }
            Kind::Text if self.nearly > 0 && self.nearly * OUTLIERS_ONE_IN >= self.numbers + self.texts => {
                let first = self.first_nearly.as_ref().map_or_else(String::new, first);
                Some(format!("`{name}` is published as text, although it looks like numbers ({first})"))
            }
            _ => None,
        }
    }

    fn look(&mut self, line: u64, cell: &str, scratch: &mut String) {
        if self.first.is_none() {
            self.first = Some((line, quoted(cell)));
            self.shape = time_format::shape(cell);
        }
        scratch.clear();
        if let Some(shown) = number::push(scratch, cell, Decimal::default()) {
            self.numbers += 1;
            self.shown += shown;
            self.days.look(scratch);
        } else {
            self.texts += 1;
            self.first_text.get_or_insert_with(|| (line, quoted(cell)));
            let begins =
                cell.trim_start_matches(['-', '+', '.', ',']).starts_with(|c: char| c.is_ascii_digit());
            if begins && cell.chars().count() <= NUMBER_CHARS_MAX && time_format::shape(cell).is_none() {
                self.nearly += 1;
                self.first_nearly.get_or_insert_with(|| (line, quoted(cell)));
            }
        }
        if time_format::is_time(cell) {
            self.times += 1;
            self.compact_days += u64::from(time_format::compact_day(cell).is_some());
            self.dates.look(line, cell);
        } else {
            self.no_times += 1;
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
    /// Their years have two digits.
    short_years: bool,
}

/// How times follow each other in one order.
#[derive(Clone, Copy, Default)]
struct Steps {
    last: Option<i64>,
    smallest: Option<i64>,
    largest: i64,
    backward: u64,
}

const DAY_NS: i64 = 86_400_000_000_000;
/// Days in a month, a quarter and a year.
const CALENDAR_STEPS: [(i64, i64); 3] = [(28, 31), (90, 92), (365, 366)];

impl Steps {
    fn look(&mut self, time: Option<i64>) {
        let Some(time) = time else { return };
        if let Some(last) = self.last.replace(time) {
            let step = time.saturating_sub(last).saturating_abs();
            self.largest = self.largest.max(step);
            self.smallest = Some(self.smallest.map_or(step, |smallest| smallest.min(step)));
            self.backward += u64::from(time < last);
        }
    }
}

impl Steps {
    /// Whether each step is a month, a quarter or a year.
    fn follow_the_calendar(&self) -> bool {
        let within = |(least, most): &(i64, i64)| {
            self.smallest.is_some_and(|smallest| smallest >= least * DAY_NS) && self.largest <= most * DAY_NS
        };
        self.backward == 0 && CALENDAR_STEPS.iter().any(within)
    }
}

impl Dates {
    fn look(&mut self, line: u64, cell: &str) {
        let Some((first, second)) = time_format::undecided(cell) else { return };
        let here = || Some((line, quoted(cell)));
        self.first = self.first.take().or_else(here);
        let date = cell.split([' ', 'T']).next().unwrap_or_default();
        self.short_years |= date.rsplit(['/', '-']).next().is_some_and(|year| year.len() == 2);
        if first > 12 {
            self.day_first = self.day_first.take().or_else(here);
        }
        if second > 12 {
            self.month_first = self.month_first.take().or_else(here);
        }
        self.by_day.look(time_format::civil(cell, DateOrder::DayFirst));
        self.by_month.look(time_format::civil(cell, DateOrder::MonthFirst));
    }

    /// The order that the whole column decides: by a number that can be no month, else by which makes of it a recording; and what to tell
    /// of that.
    fn order(&self, path: &Path, column: &str) -> Result<(DateOrder, Option<&'static str>), RecordingError> {
        let (path, column) = (path.to_owned(), column.to_owned());
        let (day, month) = (self.by_day, self.by_month);
        let ambiguous = |path, column| {
            let (line, text) = self.first.clone().unwrap_or_default();
            Err(RecordingError::AmbiguousDates { path, column, line, text })
        };
        match (&self.first, &self.day_first, &self.month_first) {
            (None, ..) => return Ok((DateOrder::default(), None)),
            (_, Some((line, text)), Some((other_line, other))) => {
                let (line, text, other_line, other) = (*line, text.clone(), *other_line, other.clone());
                return Err(RecordingError::MixedDates { path, column, line, text, other_line, other });
            }
            // A step of a year each: the year seems to come first, with two digits.
            (Some((_, text)), Some(_), None) if self.short_years && day.follow_the_calendar() => {
                return ambiguous(path, column);
            }
            (_, Some(_), None) => return Ok((DateOrder::DayFirst, None)),
            (_, None, Some(_)) => return Ok((DateOrder::MonthFirst, None)),
            (_, None, None) => {}
        }
        if day.largest == month.largest && day.backward == month.backward {
            // A replay goes by steps, so either is right where both have the same.
            return Ok((
                DateOrder::MonthFirst,
                Some(
                    "whether the day or the month comes first in dates, nothing decides; the replay is the same (--dates says it)",
                ),
            ));
        }
        // The first of each month in one order is the first days of a year in the other.
        if smoother(&month, &day) && !day.follow_the_calendar() {
            return Ok((
                DateOrder::MonthFirst,
                Some("the month comes first in dates, since that makes even steps (--dates says otherwise)"),
            ));
        }
        if smoother(&day, &month) && !month.follow_the_calendar() {
            return Ok((
                DateOrder::DayFirst,
                Some("the day comes first in dates, since that makes even steps (--dates says otherwise)"),
            ));
        }
        ambiguous(path, column)
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
        !self.others && self.smallest_step.is_some_and(|step| step <= DAY_STEP_MAX)
    }
}

/// Looks at every cell of the file; of rows with a time alone, where that has a place.
pub(super) fn look(path: &Path, head: &Head, time: Option<usize>) -> Result<Vec<Seen>, RecordingError> {
    let mut records = Records::open(path, head.delimiter, head.above)?;
    let (mut record, mut scratch) = (StringRecord::new(), String::new());
    head.skip(path, &mut records, &mut record)?;
    let mut seen = vec![Seen::default(); head.header.len()];
    let mut rows = 0_u64;
    while let Some(line) = records.read(&mut record)? {
        rows += 1;
        if time.is_some_and(|place| !record.get(place).is_some_and(|cell| time_format::is_time(cell.trim())))
        {
            continue;
        }
        for (seen, cell) in seen.iter_mut().zip(&record) {
            let cell = cell.trim();
            if !is_missing(cell) {
                seen.look(line, cell, &mut scratch);
            }
        }
    }
    if rows == 0 {
        return Err(RecordingError::OnlyHeader { path: path.to_owned() });
    }
    Ok(seen)
}

/// The column with the time, or the two with the date and the time of day. One that is named as the time and never holds one is an error
/// rather than passed over: replaying such a file at one row a second would look right and be wrong.
pub(super) fn choose_time(
    path: &Path,
    names: &[String],
    seen: &[Seen],
    wanted: Option<usize>,
) -> Result<Option<TimeColumn>, RecordingError> {
    let by_name = |place: &usize| is_time_name(&names[*place]);
    let is = |shape: Shape| move |place: &usize| seen[*place].has_shape(shape);
    let moment = |place: &usize| {
        let tells = by_name(place) && seen[*place].times > 0 && seen[*place].shape.is_none();
        is(Shape::Moment)(place) || tells
    };
    let places = || 0..names.len();
    let has_clock = places().any(|place| is(Shape::Clock)(&place));
    let has_its_clock = |place: &usize| has_clock && is(Shape::Day)(place);
    let found = wanted
        .or_else(|| places().find(|place| by_name(place) && is(Shape::Moment)(place)))
        .or_else(|| places().find(|place| by_name(place) && has_its_clock(place)))
        .or_else(|| places().find(moment))
        .or_else(|| places().find(has_its_clock))
        .or_else(|| places().find(|place| is(Shape::Day)(place) && (*place == 0 || by_name(place))))
        .or_else(|| places().find(by_name));
    let Some(date) = found else { return Ok(None) };
    if seen[date].times == 0 {
        let (path, column) = (path.to_owned(), names[date].clone());
        return Err(match seen[date].first.clone() {
            Some((line, text)) => RecordingError::UnreadableTimeColumn { path, column, line, text },
            None => RecordingError::EmptyTimeColumn { path, column },
        });
    }
    // The time of day stands behind its date, or somewhere.
    let behind = (date + 1..names.len()).chain(0..date);
    let clock = behind.into_iter().find(is(Shape::Clock)).filter(|_| is(Shape::Day)(&date));
    Ok(Some(TimeColumn { date, clock, name: names[date].clone() }))
}

/// How the cells of the time column are to be read, and whether the file decides in which order dates are.
pub(super) fn time_form(
    path: &Path,
    name: &str,
    seen: &Seen,
    options: &Options,
) -> Result<(Form, Option<&'static str>), RecordingError> {
    let (order, told) = match options.dates {
        Some(order) => (order, None),
        None => seen.dates.order(path, name)?,
    };
    let unit = options.time_unit.or_else(|| unit_in_name(name));
    let compact_days = unit.is_none() && seen.are_compact_days();
    let nearly = seen.compact_days * 2 > seen.times;
    let told = told
        .or(compact_days.then_some("eight digits are dates here, as YYYYMMDD (--time-unit says otherwise)"));
    let told = told.or((nearly && !compact_days)
        .then_some("most times look like dates as YYYYMMDD, but not all, so they are read as numbers"));
    if unit.is_none() && seen.dates.first.is_none() && seen.days.are_likely() {
        let (line, text) = seen.first.clone().unwrap_or_default();
        let (path, column) = (path.to_owned(), name.to_owned());
        return Err(RecordingError::DayNumbers { path, column, line, text });
    }
    Ok((Form { order, unit, compact_days }, told))
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
