//! How recordings write the time: dates with a time of day in three orders, and numbers since 1970.

use jiff::civil::{Date, Time};
use jiff::tz::Offset;

/// Which number is the day where the year comes last and neither it nor a point says so.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DateOrder {
    /// As in the United States.
    #[default]
    MonthFirst,
    /// As in most countries.
    DayFirst,
}

/// What numbers of a time column count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeUnit {
    /// Seconds since 1970, or since the recording began.
    Seconds,
    /// Thousandths of them.
    Millis,
    /// Millionths.
    Micros,
    /// Billionths.
    Nanos,
    /// Days since 30 December 1899, as spreadsheets count them.
    Days,
}

/// What the whole column, or a person, says of its times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) order: DateOrder,
    /// `None`: each number's magnitude tells.
    pub(super) unit: Option<TimeUnit>,
    /// Eight digits are a date as `YYYYMMDD`.
    pub(super) compact_days: bool,
}

/// What to tell a person whose times could not be read.
pub(super) const READABLE_FORMS: &str = "times are readable as YYYY-MM-DD HH:MM:SS, \
    DD.MM.YYYY HH:MM:SS, MM/DD/YYYY HH:MM (also with AM or PM), DD/MM/YYYY HH:MM, 2-Jan-2006 HH:MM, YYYYMMDD, YYYYMMDDHHMMSS or a number of seconds, \
    ms, µs or ns since 1970; a zone is Z, UTC or as +01:00";

const NS_PER_SECOND: i128 = 1_000_000_000;
/// From the day of which spreadsheets count to that of Unix.
const SPREADSHEET_DAYS: i128 = 25_569;
/// Years of two digits are of this century below this one, and of the last from it on.
const TWO_DIGITS_LAST: i32 = 70;
/// Years that twelve or fourteen digits in a row may begin with.
const COMPACT_YEARS: std::ops::RangeInclusive<i32> = 1900..=2199;
/// No zone is further from UTC.
const ZONE_HOURS_MAX: i32 = 14;
/// How months begin, in the languages of most loggers.
const MONTHS: [&[&str]; 12] = [
    &["jan"],
    &["feb"],
    &["mar", "mär", "mrz"],
    &["apr"],
    &["may", "mai"],
    &["jun"],
    &["jul"],
    &["aug"],
    &["sep"],
    &["oct", "okt"],
    &["nov"],
    &["dec", "dez"],
];

/// What a cell may say of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// A date with a time of day.
    Moment,
    /// A date alone.
    Day,
    /// A time of day alone.
    Clock,
}

/// What a cell says by itself; bare numbers do not.
pub(super) fn shape(text: &str) -> Option<Shape> {
    let rest = &mut text.as_bytes();
    if time_of_day(rest).is_some() && rest.is_empty() {
        return Some(Shape::Clock);
    }
    // A number may be any sensor's.
    civil_in_any_order(text).filter(|_| text.parse::<f64>().is_err())?;
    Some(if text.contains(':') || text.contains('T') { Shape::Moment } else { Shape::Day })
}

/// Reads a time in any known form, in nanoseconds since the Unix epoch. `None` also stands for times that do
/// not fit (before 1677 or after 2262).
pub(super) fn parse(text: &str, form: Form) -> Option<i64> {
    if form.compact_days {
        return compact_day(text);
    }
    civil(text, form.order).or_else(|| unix(text, form.unit))
}

/// Reads a date as `YYYYMMDD`, also with a time of day behind it. Only a column in which all are that holds such dates: it might be a
/// number of seconds.
pub(super) fn compact_day(text: &str) -> Option<i64> {
    let rest = &mut text.as_bytes();
    let (year, 4) = digits(rest, 4)? else { return None };
    let mut two = || digits(rest, 2).filter(|(_, length)| *length == 2).map(|(value, _)| value as i8);
    let date = Date::new(year as i16, two()?, two()?).ok().filter(|_| COMPACT_YEARS.contains(&year))?;
    let time = match rest.split_off_first() {
        None => Time::midnight(),
        Some(b' ') => {
            *rest = rest.trim_ascii_start();
            time_of_day(rest)?
        }
        Some(_) => return None,
    };
    moment(date, time, rest)
}

/// Whether it can be read as a time in some way.
pub(super) fn is_time(text: &str) -> bool {
    civil_in_any_order(text).is_some() || unix(text, None).is_some()
}

/// [`civil`], whichever number is the day.
pub(super) fn civil_in_any_order(text: &str) -> Option<i64> {
    civil(text, DateOrder::MonthFirst).or_else(|| civil(text, DateOrder::DayFirst))
}

/// The first two numbers of a date, where the year comes last and nothing in it says which of them is the day.
pub(super) fn undecided(text: &str) -> Option<(i32, i32)> {
    civil_in_any_order(text)?;
    let rest = &mut text.as_bytes();
    let (first, length) = digits(rest, 4)?;
    let separator = *rest.split_off_first()?;
    let (second, _) = digits(rest, 2)?;
    (length <= 2 && separator != b'.').then_some((first, second))
}

/// Reads a date with a time of day. Without a zone it is taken as UTC, because a recording is replayed by its
/// steps and a guessed local zone would tear them apart twice a year.
///
/// This is the only form that tells by itself that a column holds times: a bare number could be any sensor.
pub(super) fn civil(text: &str, order: DateOrder) -> Option<i64> {
    let rest = &mut text.as_bytes();
    let Some((date, time)) = compact(rest) else {
        let date = date(rest, order)?;
        let time = match rest.split_off_first() {
            None => Time::midnight(),
            Some(b'T' | b't') => time_of_day(rest)?,
            Some(b' ') => {
                *rest = rest.trim_ascii_start();
                time_of_day(rest)?
            }
            Some(_) => return None,
        };
        return moment(date, time, rest);
    };
    moment(date, time, rest)
}

fn moment(date: Date, time: Time, zone: &[u8]) -> Option<i64> {
    let offset = offset(zone.trim_ascii_start())?;
    let timestamp = offset.to_timestamp(date.to_datetime(time)).ok()?;
    i64::try_from(timestamp.as_nanosecond()).ok()
}

/// `YYYYMMDDHHMM` or `YYYYMMDDHHMMSS`, also with a `T` in it: as a number of any unit since 1970 this would be early in that year.
fn compact(rest: &mut &[u8]) -> Option<(Date, Time)> {
    let mut at = *rest;
    let (year, 4) = digits(&mut at, 4)? else { return None };
    let mut two = || digits(&mut at, 2).filter(|(_, length)| *length == 2).map(|(value, _)| value as i8);
    let date = Date::new(year as i16, two()?, two()?).ok().filter(|_| COMPACT_YEARS.contains(&year))?;
    let _ = skip(&mut at, b'T');
    let mut two = || digits(&mut at, 2).filter(|(_, length)| *length == 2).map(|(value, _)| value as i8);
    let (hour, minute) = (two()?, two()?);
    let (second, mut nanosecond) = (two(), 0);
    if second.is_some() && skip(&mut at, b'.').is_some() {
        let length = at.iter().take_while(|byte| byte.is_ascii_digit()).count();
        nanosecond = billionths(at.split_off(..length)?)?;
    }
    let time = Time::new(hour, minute, second.unwrap_or(0), nanosecond).ok()?;
    let ends = at.first().is_none_or(|byte| !byte.is_ascii_digit() && !matches!(byte, b'.' | b','));
    ends.then(|| *rest = at).map(|()| (date, time))
}

/// The separator and the place of the year decide the order: a leading year is ISO, and with `.` the day comes first. Otherwise the whole
/// column has to.
fn date(rest: &mut &[u8], order: DateOrder) -> Option<Date> {
    let (first, first_digits) = digits(rest, 4)?;
    let separator = *rest.split_off_first()?;
    if let Some(month) = month_name(rest) {
        let dotted = skip(rest, b'.').is_some();
        if !(dotted && separator == b'.') {
            skip(rest, separator)?;
        }
        let (year, year_digits) = digits(rest, 4)?;
        let year = (first_digits <= 2).then(|| full_year(year, year_digits)).flatten()?;
        return Date::new(i16::try_from(year).ok()?, month, i8::try_from(first).ok()?).ok();
    }
    let (second, _) = digits(rest, 2)?;
    skip(rest, separator)?;
    let (third, third_digits) = digits(rest, 4)?;
    let last = || full_year(third, third_digits);
    let (year, month, day) = match (separator, first_digits, third_digits) {
        (b'-' | b'/' | b'.', 4, 1..=2) => (first, second, third),
        (b'.', 1..=2, 2 | 4) => (last()?, second, first),
        (b'/', 1..=2, 2) | (b'/' | b'-', 1..=2, 4) if order == DateOrder::DayFirst => {
            (last()?, second, first)
        }
        (b'/', 1..=2, 2) | (b'/' | b'-', 1..=2, 4) => (last()?, first, second),
        _ => return None,
    };
    Date::new(i16::try_from(year).ok()?, i8::try_from(month).ok()?, i8::try_from(day).ok()?).ok()
}

fn full_year(year: i32, digits: usize) -> Option<i32> {
    match digits {
        4 => Some(year),
        2 if year < TWO_DIGITS_LAST => Some(2000 + year),
        2 => Some(1900 + year),
        _ => None,
    }
}

/// Takes the name of a month off the front.
fn month_name(rest: &mut &[u8]) -> Option<i8> {
    let text = str::from_utf8(rest).ok()?;
    let length = text.find(|c: char| !c.is_alphabetic()).unwrap_or(text.len());
    let name = text[..length].to_lowercase();
    let begins = |names: &&[&str]| names.iter().any(|begin| name.starts_with(begin));
    let month = MONTHS.iter().position(begins).map(|month| month as i8 + 1)?;
    rest.split_off(..length)?;
    Some(month)
}

/// Seconds and their fraction may be left out, as spreadsheets like to do.
fn time_of_day(rest: &mut &[u8]) -> Option<Time> {
    let (mut hour, _) = digits(rest, 2)?;
    skip(rest, b':')?;
    let (minute, _) = digits(rest, 2)?;
    let (mut second, mut nanosecond) = (0, 0);
    if skip(rest, b':').is_some() {
        (second, _) = digits(rest, 2)?;
        if skip(rest, b'.').or_else(|| skip(rest, b',')).is_some() {
            let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            nanosecond = billionths(rest.split_off(..length)?)?;
        }
    }
    let half = rest.trim_ascii_start();
    if let Some(two) = half.first_chunk::<2>().filter(|two| two[1].eq_ignore_ascii_case(&b'm')) {
        let noon = match two[0].to_ascii_lowercase() {
            b'a' => 0,
            b'p' => 12,
            _ => return None,
        };
        *rest = &half[2..];
        hour = (1..=12).contains(&hour).then_some(hour % 12 + noon)?;
    }
    let [hour, minute, second] = [hour, minute, second].map(|part| i8::try_from(part).ok());
    Time::new(hour?, minute?, second?, nanosecond).ok()
}

/// Nothing, `Z`, `UTC`, or an offset as `+01`, `+0100` or `+01:00`.
fn offset(mut rest: &[u8]) -> Option<Offset> {
    let sign = match rest {
        b"" | b"Z" | b"z" | b"UTC" => return Some(Offset::UTC),
        [b'+', ..] => 1,
        [b'-', ..] => -1,
        _ => return None,
    };
    rest.split_off_first()?;
    let (hours, _) = digits(&mut rest, 2).filter(|(hours, _)| *hours <= ZONE_HOURS_MAX)?;
    let mut minutes = 0;
    if !rest.is_empty() {
        let _ = skip(&mut rest, b':');
        (minutes, _) = digits(&mut rest, 2)?;
    }
    let whole = rest.is_empty() && minutes < 60;
    whole.then(|| Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).ok()).flatten()
}

/// Reads a number since 1970 in the unit its magnitude gives away. Digits are kept exact: as an `f64`,
/// seconds of today would be good to a quarter of a microsecond only.
fn unix(text: &str, unit: Option<TimeUnit>) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = digits.split_once(['.', ',']).unwrap_or((digits, ""));
    if whole.is_empty() || ![whole, fraction].iter().all(|part| part.bytes().all(|b| b.is_ascii_digit())) {
        return scientific(text, unit);
    }
    let whole: i64 = whole.parse().ok()?;
    let unit_ns = unit.map_or_else(|| ns_per_unit(whole.unsigned_abs()), TimeUnit::nanos);
    let fraction = if fraction.is_empty() { 0 } else { billionths(fraction.as_bytes())? };
    let ns = i128::from(whole) * unit_ns + i128::from(fraction) * unit_ns / NS_PER_SECOND;
    i64::try_from(if negative { -ns } else { ns } - began(unit)).ok()
}

/// Reads `1.58e9`, the way some exporters write large numbers.
fn scientific(text: &str, unit: Option<TimeUnit>) -> Option<i64> {
    if !text.contains(['e', 'E']) {
        return None;
    }
    let value: f64 = text.parse().ok().filter(|value: &f64| value.abs() < i64::MAX as f64)?;
    let unit_ns = unit.map_or_else(|| ns_per_unit(value.abs() as u64), TimeUnit::nanos);
    let ns = value * unit_ns as f64 - began(unit) as f64;
    (ns.abs() < i64::MAX as f64).then_some(ns.round() as i64)
}

/// When numbers of this unit begin, before 1970.
fn began(unit: Option<TimeUnit>) -> i128 {
    if unit == Some(TimeUnit::Days) { SPREADSHEET_DAYS * TimeUnit::Days.nanos() } else { 0 }
}

impl TimeUnit {
    fn nanos(self) -> i128 {
        match self {
            TimeUnit::Seconds => NS_PER_SECOND,
            TimeUnit::Millis => 1_000_000,
            TimeUnit::Micros => 1_000,
            TimeUnit::Nanos => 1,
            TimeUnit::Days => 86_400 * NS_PER_SECOND,
        }
    }
}

/// Seconds reach to the year 2286 and every finer unit begins in early 1970, so the ranges do not overlap for
/// any date a recording can have.
fn ns_per_unit(magnitude: u64) -> i128 {
    match magnitude {
        0..10_000_000_000 => NS_PER_SECOND,
        10_000_000_000..10_000_000_000_000 => 1_000_000,
        10_000_000_000_000..10_000_000_000_000_000 => 1_000,
        _ => 1,
    }
}

/// The digits after a decimal point as billionths; further digits are below the resolution and dropped.
fn billionths(fraction: &[u8]) -> Option<i32> {
    let (value, length) = digits(&mut &fraction[..fraction.len().min(9)], 9)?;
    Some(value * 10_i32.pow(9 - u32::try_from(length).ok()?))
}

/// Takes one to `most` digits off the front, and says how many there were.
fn digits(rest: &mut &[u8], most: usize) -> Option<(i32, usize)> {
    let length = rest.iter().take(most).take_while(|byte| byte.is_ascii_digit()).count();
    let taken = rest.split_off(..length).filter(|taken| !taken.is_empty())?;
    Some((taken.iter().fold(0, |value, byte| value * 10 + i32::from(byte - b'0')), length))
}

fn skip(rest: &mut &[u8], byte: u8) -> Option<()> {
    *rest = rest.strip_prefix(&[byte])?;
    Some(())
}
