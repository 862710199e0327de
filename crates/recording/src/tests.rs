use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::File;

use super::flaws::DESCRIBED_FLAWS;
use super::layout::MAX_COLUMNS;
use super::source::MAX_LINE_BYTES;
use super::survey::{Gaps, MAX_KEPT_STEPS};
use super::time_format::Form;
use super::*;

fn parse(text: &str) -> Option<i64> {
    time_format::parse(text, Form::default())
}

/// Rows of clean data.
const CLEAN_ROWS: usize = 100;

/// A file of its own for each test, gone when the test is over.
struct Scratch(PathBuf);

impl Scratch {
    fn new(contents: impl AsRef<[u8]>) -> Scratch {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("verge-recording-{}-{number}.csv", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, contents).unwrap();
        Scratch(path)
    }

    fn open(&self) -> Recording {
        Recording::open(&self.0, &Options::default()).unwrap()
    }

    fn open_with(&self, options: &Options) -> Recording {
        Recording::open(&self.0, options).unwrap()
    }

    fn survey(&self) -> Survey {
        self.open().survey().unwrap()
    }

    fn error(&self) -> RecordingError {
        self.error_with(&Options::default())
    }

    fn error_with(&self, options: &Options) -> RecordingError {
        Recording::open(&self.0, options).and_then(|mut recording| recording.survey()).unwrap_err()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn gzip(contents: impl AsRef<[u8]>) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(contents.as_ref()).unwrap();
    encoder.finish().unwrap()
}

/// Every row as its line, its time in seconds, and its cells with `_` for `None`.
fn rows(recording: &mut Recording) -> Vec<String> {
    let mut rows = Vec::new();
    while let Some(row) = recording.next_row().unwrap() {
        let cells: Vec<_> = row.cells().map(|cell| cell.unwrap_or("_")).collect();
        rows.push(format!("{} {} {}", row.line, row.time_ns as f64 / 1e9, cells.join(" ")));
    }
    rows
}

fn names(recording: &Recording) -> Vec<&str> {
    recording.columns().iter().map(|column| column.name.as_str()).collect()
}

fn kinds(recording: &Recording) -> Vec<Kind> {
    recording.columns().iter().map(|column| column.kind).collect()
}

fn columns(names: &[&str]) -> Options {
    Options { columns: names.iter().map(|&name| name.to_owned()).collect(), ..Options::default() }
}

fn time_column(name: &str) -> Options {
    Options { time_column: Some(name.to_owned()), ..Options::default() }
}

const SMALL: &str = "time,kw,state\n1000,1.5,on\n1001,2.5,off\n";

#[test]
fn a_row_has_a_time_a_line_and_its_cells() {
    let file = Scratch::new(SMALL);
    let mut recording = file.open();
    assert_eq!(names(&recording), ["kw", "state"]);
    assert_eq!(kinds(&recording), [Kind::Number, Kind::Text]);
    assert_eq!(recording.time_column(), Some("time"));
    let row = recording.next_row().unwrap().unwrap();
    assert_eq!((row.time_ns, row.line), (1_000_000_000_000, 2));
    assert_eq!((row.cell(0), row.cell(1), row.cell(2)), (Some("1.5"), Some("on"), None));
    assert_eq!(row.cells().len(), 2);
    assert_eq!(rows(&mut recording), ["3 1001 2.5 off"]);
    assert!(recording.next_row().unwrap().is_none());
    assert!(recording.flaws().is_empty());
}

#[test]
fn gzip_is_recognised_by_its_contents_and_not_by_the_name() {
    let file = Scratch::new(gzip(SMALL));
    let mut recording = file.open();
    assert_eq!(rows(&mut recording), ["2 1000 1.5 on", "3 1001 2.5 off"]);
    let size = fs::metadata(&file.0).unwrap().len();
    assert_eq!(recording.progress(), (size, size));
}

#[test]
fn gzip_members_one_after_the_other_are_one_recording() {
    let file = Scratch::new([gzip(SMALL), gzip("1002,3.5,on\n")].concat());
    assert_eq!(file.survey().rows, 3);
}

#[test]
fn every_delimiter_is_detected() {
    for delimiter in [",", ";", "\t", "|"] {
        let file = Scratch::new(SMALL.replace(',', delimiter));
        assert_eq!(rows(&mut file.open()), ["2 1000 1.5 on", "3 1001 2.5 off"], "{delimiter:?}");
    }
}

#[test]
fn decimal_commas_do_not_pass_for_delimiters() {
    let file =
        Scratch::new("time;power, kw;wind, m/s\n01.02.2015 00:00:00;1,5;2,5\n01.02.2015 00:00:01;-3,5;4\n");
    let mut recording = file.open();
    assert_eq!(kinds(&recording), [Kind::Number, Kind::Number]);
    assert_eq!(rows(&mut recording), ["2 1422748800 1.5 2.5", "3 1422748801 -3.5 4"]);
}

#[test]
fn delimiters_inside_of_quotes_do_not_count() {
    let file = Scratch::new("time|\"a;b;c\"|d\n1|\"2;3;4\"|5\n");
    let mut recording = file.open();
    assert_eq!(names(&recording), ["a;b;c", "d"]);
    assert_eq!(rows(&mut recording), ["2 1 2;3;4 5"]);
}

#[test]
fn a_given_delimiter_overrides_the_detected_one() {
    let file = Scratch::new("time;kw,rpm\n1;2,3\n2;4,5\n");
    let recording = file.open_with(&Options { delimiter: Some(b','), ..Options::default() });
    assert_eq!(names(&recording), ["time;kw", "rpm"]);
    let error = Scratch::new(SMALL).error_with(&Options { delimiter: Some(b';'), ..Options::default() });
    assert!(matches!(error, RecordingError::NoData { .. }), "{error}");
    let error = file.error_with(&Options { delimiter: Some(b'\n'), ..Options::default() });
    assert!(matches!(error, RecordingError::BadDelimiter { delimiter: '\n' }), "{error}");
}

#[test]
fn byte_order_mark_line_ends_and_blank_lines_do_not_matter() {
    for end in ["\n", "\r\n", "\r"] {
        let contents = "\u{feff}\ntime,kw\n\n1,2\n   \n3,\"4\n5\"\n6,7".replace('\n', end);
        let file = Scratch::new(contents);
        let mut recording = file.open();
        assert_eq!(names(&recording), ["kw"]);
        assert_eq!(rows(&mut recording), ["4 1 2", "6 3 4\n5", "8 6 7"], "{end:?}");
    }
}

#[test]
fn columns_are_selected_in_the_order_asked_for() {
    let file = Scratch::new(SMALL);
    let mut recording = file.open_with(&columns(&["state", "kw", "state"]));
    assert_eq!(names(&recording), ["state", "kw"]);
    assert_eq!(rows(&mut recording), ["2 1000 on 1.5", "3 1001 off 2.5"]);
}

#[test]
fn an_unknown_column_is_an_error_that_lists_the_columns() {
    let file = Scratch::new(SMALL);
    for options in [columns(&["wind"]), time_column("wind")] {
        let error = file.error_with(&options).to_string();
        assert!(error.contains("no column \"wind\"; it has: time, kw, state"), "{error}");
    }
}

#[test]
fn an_error_lists_no_more_columns_than_a_person_reads() {
    let header: Vec<_> = (0..500).map(|number| format!("c{number}")).collect();
    let file = Scratch::new(format!("{}\n1\n", header.join(",")));
    let error = file.error_with(&columns(&["wind"])).to_string();
    assert!(error.contains("c39 and 460 more"), "{error}");
}

#[test]
fn unnamed_and_repeated_columns_get_distinct_names() {
    let file = Scratch::new(",kw, kw ,kw_2,kw\n1,2,3,4,5\n");
    assert_eq!(names(&file.open()), ["column_1", "kw", "kw_3", "kw_2", "kw_4"]);
}

#[test]
fn a_delimiter_at_the_end_of_every_line_makes_no_column_and_no_flaw() {
    for header in ["time;kw;", "time;kw"] {
        let file = Scratch::new(format!("{header}\n1;2;\n3;4;\n"));
        let mut recording = file.open_with(&Options { delimiter: Some(b';'), ..Options::default() });
        assert_eq!(names(&recording), ["kw"]);
        assert_eq!(rows(&mut recording), ["2 1 2", "3 3 4"]);
        assert!(recording.flaws().is_empty(), "{:?}", recording.flaws());
    }
}

#[test]
fn the_time_column_is_found_by_its_name_in_any_case() {
    for name in ["time", "Timestamp", "DATETIME", "date", "dttm", "ts", "Date_Time"] {
        let file = Scratch::new(format!("kw,{name}\n5,1000\n"));
        assert_eq!(file.open().time_column(), Some(name));
    }
}

#[test]
fn the_time_column_is_found_by_its_first_value() {
    let file = Scratch::new("kw,when\nNA,\n5,2015-01-01 00:00:00\n");
    assert_eq!(file.open().time_column(), Some("when"));
}

#[test]
fn a_column_that_is_only_named_like_the_time_gives_way_to_one_that_holds_it() {
    let file = Scratch::new("time,when\nnight,2015-01-01 00:00:00\n");
    assert_eq!(file.open().time_column(), Some("when"));
}

#[test]
fn a_given_time_column_overrides_the_found_one() {
    let file = Scratch::new("time,other\n1,1000\n");
    let mut recording = file.open_with(&time_column("other"));
    assert_eq!(rows(&mut recording), ["2 1000 1"]);
}

#[test]
fn a_time_column_without_times_is_an_error_that_names_the_readable_forms() {
    let file = Scratch::new("date,kw\nin the morning,1\n");
    let error = file.error().to_string();
    assert!(error.contains("line 2, column \"date\": \"in the morning\" is no time"), "{error}");
    assert!(error.contains("DD.MM.YYYY"), "{error}");
    let error = Scratch::new("time,kw\n,1\n").error();
    assert!(matches!(error, RecordingError::EmptyTimeColumn { .. }), "{error}");
}

#[test]
fn without_a_time_column_each_row_counts_as_a_second() {
    let file = Scratch::new("a,b\n5,6\n7,8\n");
    let mut recording = file.open();
    assert!(!recording.has_time());
    assert_eq!(rows(&mut recording), ["2 0 5 6", "3 1 7 8"]);
}

#[test]
fn every_common_way_to_write_a_time_is_read() {
    const SECOND: i64 = 1_000_000_000;
    let noon = 1_420_113_600 * SECOND;
    let same = [
        "2015-01-01 12:00:00",
        "2015-01-01T12:00:00Z",
        "2015-01-01T12:00:00.000000000+00:00",
        "2015-01-01 13:00:00 +0100",
        "2015-01-01T06:30:00-05:30",
        "2015-01-01 12:00:00 UTC",
        "2015/1/1 12:00",
        "01.01.2015 12:00:00",
        "1.1.2015 12:00",
        "01/01/2015 12:00",
        "1/1/2015 12:00:00",
        "01.01.15 12:00:00",
        "1/1/15 12:00:00 PM",
        "1/1/2015 12:00 pm",
        "1-Jan-2015 12:00:00",
        "01 january 2015 12:00",
        "01.Jan.2015 12:00:00",
        "2015.01.01 12:00:00",
        "20150101120000",
        "20150101T120000Z",
        "20150101120000.000",
        "201501011200",
        "1420113600",
        "1420113600.0",
        "1.4201136e9",
        "1420113600000",
        "1420113600000000",
        "1420113600000000000",
    ];
    for text in same {
        assert_eq!(parse(text), Some(noon), "{text}");
    }
    assert_eq!(parse("31.12.2014 23:59:59,5"), Some(1_420_070_399 * SECOND + SECOND / 2));
    assert_eq!(parse("31.12.2014"), Some(1_419_984_000 * SECOND));
    assert_eq!(parse("1.3.2014 12:00 AM"), parse("1-Mär-2014"));
    assert_eq!(parse("12/31/2014 23:59"), Some(1_420_070_340 * SECOND));
    assert_eq!(parse("2015-01-01 12:00:00.1234567899"), Some(noon + 123_456_789));
    assert_eq!(parse("1420113600.123456789"), Some(noon + 123_456_789));
    assert_eq!(parse("1420113600000.25"), Some(noon + 250_000));
    assert_eq!((parse("0"), parse("-1.5"), parse("0.001")), (Some(0), Some(-1_500_000_000), Some(1_000_000)));
}

#[test]
fn what_is_no_time_is_refused() {
    let refused = [
        "",
        "noon",
        "-",
        ".",
        "+",
        "1.2.3",
        "1e",
        "e9",
        "1e300",
        "inf",
        "12:00:00",
        "2015-02-29 00:00:00",
        "2015-13-01 00:00:00",
        "16/12/2006 17:24:00",
        "2015-01-01 24:00:00",
        "2015-01-01 12:60:00",
        "2015-01-01 12:00:00 CET",
        "2015-01-01 12:00:00+99:00",
        "2015-01-01 12:00:00+01:75",
        "2015-01-01 12:00:00.",
        "2015-01.01 12:00:00",
        "15-01-01 12:00:00",
        "2015-01-01 13:00:00 PM",
        "2015-01-01 12:00:00 XM",
        "01-Foo-2015 12:00:00",
        "9999-01-01 00:00:00",
        "99999999999999999999",
        "9223372036854775808",
        "2015-01-01 12:00:00 €",
    ];
    for text in refused {
        assert_eq!(parse(text), None, "{text}");
    }
}

#[test]
fn missing_markers_are_no_values_and_counted() {
    let file = Scratch::new("time,kw\n1,\n2,NA\n3,n/a\n4,NaN\n5,NULL\n6,-\n7,?\n8, \n9,-1\n");
    let mut recording = file.open();
    assert_eq!(kinds(&recording), [Kind::Number]);
    assert_eq!(rows(&mut recording)[6..], ["8 7 _", "9 8 _", "10 9 -1"]);
    let flaws = recording.flaws();
    assert_eq!(flaws.count(FlawKind::MissingCell), 8);
    assert_eq!(flaws.first(FlawKind::MissingCell).len(), DESCRIBED_FLAWS);
    assert_eq!(flaws.first(FlawKind::MissingCell)[1].to_string(), "line 3, column \"kw\": \"NA\"");
}

#[test]
fn a_cell_that_is_no_number_is_refused_and_the_row_goes_on() {
    let good: String = (0..CLEAN_ROWS).map(|second| format!("{second},1,2\n")).collect();
    let file = Scratch::new(format!("time,a,b\n{good}200,#ERR,3\n201,inf,4\n"));
    let mut recording = file.open();
    assert_eq!(rows(&mut recording)[CLEAN_ROWS..], ["102 200 _ 3", "103 201 _ 4"]);
    assert_eq!(recording.flaws().count(FlawKind::NotANumber), 2);
    let first = &recording.flaws().first(FlawKind::NotANumber)[0];
    assert_eq!(first.to_string(), "line 102, column \"a\": \"#ERR\"");
}

#[test]
fn a_column_that_is_silent_for_long_is_what_it_says_in_the_end() {
    let silent: String = (0..CLEAN_ROWS).map(|second| format!("{second},1,\n")).collect();
    let file = Scratch::new(format!("time,a,alarm\n{silent}200,1,oil pressure\n"));
    assert_eq!(rows(&mut file.open())[CLEAN_ROWS], "102 200 1 oil pressure");
}

#[test]
fn decimal_commas_between_commas_need_quotes() {
    let file = Scratch::new("time,kw\n1,\"1,5\"\n2,\"980,25\"\n");
    assert_eq!(rows(&mut file.open()), ["2 1 1.5", "3 2 980.25"]);
    let error = Scratch::new("Zeit,Wert\n2025-01-01 00:00:00,1,0\n2025-01-01 00:00:01,1,5\n").error();
    assert!(matches!(error, RecordingError::TornNumbers { line: 1, names: 2, cells: 3, .. }), "{error}");
}

#[test]
fn a_whole_column_decides_what_points_and_commas_are() {
    let file = Scratch::new("time;a;b\n1;980,5;1.020\n2;1.234;980\n3;1.231,5;1.000\n");
    let mut recording = file.open();
    assert_eq!(rows(&mut recording), ["2 1 980.5 1020", "3 2 1234 980", "4 3 1231.5 1000"]);
    let told = recording.understood();
    let notes: Vec<&str> =
        told.iter().filter(|(name, _)| *name == "note").map(|(_, text)| text.as_str()).collect();
    assert!(notes[0].contains("a comma begins decimals in `a`"), "{notes:?}");
    assert!(notes[1].contains("`b`") && notes[1].contains("thousands"), "{notes:?}");
    assert_eq!(notes.len(), 2);
    let whole = Scratch::new("time,a\n1,21.375\n2,22.481\n").open().understood();
    assert!(whole.iter().all(|(name, _)| *name != "note"), "three decimals are usual: {whole:?}");
}

#[test]
fn several_points_or_commas_part_thousands_also_where_others_stand_alone() {
    let file = Scratch::new("time;v\n1;998.500\n2;999.500\n3;1.000.500\n");
    assert_eq!(rows(&mut file.open()), ["2 1 998500", "3 2 999500", "4 3 1000500"]);
    let file = Scratch::new("time;v\n1;998,500\n2;1,000,500\n");
    assert_eq!(rows(&mut file.open()), ["2 1 998500", "3 2 1000500"]);
}

/// Names that are repeated on each page of a print have no time, and so are no rows.
#[test]
fn rows_without_a_time_do_not_tell_what_a_column_is() {
    let day = "2024-03-01 10:00:0";
    let file = Scratch::new(format!("time;v\n{day}0;0,25\n{day}1;1,75\ntime;v\n{day}2;3,25\n"));
    let mut recording = file.open();
    assert_eq!(recording.columns()[0].kind, Kind::Number);
    assert_eq!(rows(&mut recording).len(), 3);
    let told = Scratch::new("time,v\n1,1\n2,2\n3,3\n4,4\n5,Bad Input\n").open().understood();
    assert!(
        told.iter().any(|(_, text)| text.contains("1 of 5 cells are no numbers (\"Bad Input\" in line 6)")),
        "{told:?}"
    );
}

#[test]
fn eight_digits_are_dates_where_all_of_them_are() {
    let days = Scratch::new("time,v\n20240229,1\n20240301,2\n");
    assert_eq!(rows(&mut days.open()), ["2 1709164800 1", "3 1709251200 2"]);
    let seconds = Scratch::new("time,v\n20240229,1\n20240230,2\n");
    assert_eq!(rows(&mut seconds.open()), ["2 20240229 1", "3 20240230 2"]);
}

#[test]
fn eight_digits_and_a_time_of_day_may_have_columns_of_their_own() {
    let file = Scratch::new("date,time,v\n20240301,10:00:00,1\n20240301,11:00:00,2\n");
    assert_eq!(rows(&mut file.open()), ["2 1709287200 1", "3 1709290800 2"]);
}

/// What is called as a time and counts seconds is none where another column has dates.
#[test]
fn a_moment_that_is_named_as_a_time_wins() {
    let file = Scratch::new("elapsed,timestamp,v\n0,2024-03-01 10:00:00,1\n2,2024-03-01 10:00:01,2\n");
    assert_eq!(file.open().time_column(), Some("timestamp"));
}

#[test]
fn names_in_angle_brackets_are_no_web_page() {
    let file = Scratch::new("<DATE>,<TIME>,<OPEN>\n2024-03-01,10:00:00,1.5\n2024-03-01,10:00:01,2.5\n");
    assert_eq!(rows(&mut file.open()).len(), 2);
}

#[test]
fn a_way_to_read_dates_that_fits_none_is_an_error_with_the_line() {
    let options = Options { dates: Some(DateOrder::DayFirst), ..Options::default() };
    let file = Scratch::new("time,v\n02/13/2024,1\n02/14/2024,2\n");
    let error = file.open_with(&options).survey().unwrap_err();
    assert!(matches!(&error, RecordingError::UnreadableTimeColumn { line: 2, .. }), "{error}");
}

/// The first of each month in one order is the first days of a year in the other, and years of two digits may come first.
#[test]
fn steps_by_the_calendar_do_not_decide_dates() {
    let months: String = (1..=12).map(|month| format!("01/{month:02}/2024,{month}\n")).collect();
    let error = Scratch::new(format!("time,v\n{months}")).error();
    assert!(matches!(error, RecordingError::AmbiguousDates { .. }), "{error}");
    let years = "time,v\n24/03/03 10:00,1\n24/03/04 10:00,2\n24/03/05 10:00,3\n";
    let error = Scratch::new(years).error();
    assert!(matches!(error, RecordingError::AmbiguousDates { .. }), "{error}");
    let told = Scratch::new("time,v\n01/03/2024 10:00,1\n01/03/2024 11:00,2\n02/03/2024 11:00,3\n")
        .open()
        .understood();
    assert!(told.iter().any(|(_, text)| text.contains("the day comes first")), "{told:?}");
}

#[test]
fn a_table_below_many_lines_is_found() {
    let above: String = (0..300).map(|number| format!("# comment {number}, by the logger\n")).collect();
    let file = Scratch::new(format!("{above}time,v,w\n1,2,3\n2,3,4\n3,4,5\n"));
    assert_eq!(rows(&mut file.open()), ["302 1 2 3", "303 2 3 4", "304 3 4 5"]);
}

/// As `verge record` writes them: a row for each message.
#[test]
fn topics_of_a_sparse_recording_have_paces_of_their_own() {
    let rows: String =
        (0..50).map(|second| format!("{second},1,,\n{second}.0001,,2,\n{second}.0002,,,3\n")).collect();
    let file = Scratch::new(format!("time,a/x,b,c\n{rows}"));
    let survey = file.open().survey().unwrap();
    assert_eq!(survey.usual_step_ns, Some(1_000_000_000));
    assert_eq!(survey.smallest_step_ns, Some(1_000_000_000));
    let two = Scratch::new("time,a,b\n0,1,\n0.5,,1\n1,2,\n1.5,,2\n2,3,\n");
    assert_eq!(two.open().survey().unwrap().usual_step_ns, Some(1_000_000_000));
    // Of one column alone, what is missing is missing.
    let one = Scratch::new("time,a\n0,1\n1,\n2,\n3,2\n");
    assert!(!one.open().survey().unwrap().is_sparse);
}

#[test]
fn what_is_no_table_is_refused() {
    for text in [
        "<!DOCTYPE html>\n<html>\n<body>\nPlease, log in\n",
        "{\"time\":\"2024-03-01 10:00:00\",\"v\":1.5}\n{\"time\":\"2024-03-01 10:00:01\",\"v\":2.5}\n",
        "%PDF-1.4\n1 0 obj\n",
    ] {
        let error = Scratch::new(text).error();
        assert!(matches!(error, RecordingError::ForeignFormat { .. }), "{error}");
    }
    let letter = "Dear all,\nplease find attached the export of line four, with thanks.\nRegards, Tom\n";
    let error = Scratch::new(letter).error();
    assert!(matches!(error, RecordingError::NoData { .. }), "{error}");
}

#[test]
fn columns_of_times_may_have_units_in_their_names() {
    for (name, steps) in [("time_ms", 0.001), ("Time [s]", 1.0), ("elapsed (us)", 0.000_001), ("epoch", 1.0)]
    {
        let file = Scratch::new(format!("{name},v\n1,1\n2,2\n3,3\n"));
        let mut recording = file.open();
        assert_eq!(recording.time_column(), Some(name));
        let step = recording.survey().unwrap().usual_step_ns.unwrap();
        assert_eq!(step, (steps * 1e9) as i64, "{name}");
    }
}

#[test]
fn texts_that_look_like_numbers_are_told() {
    let told = Scratch::new("time,load,state\n1,50 %,on\n2,51 %,off\n").open().understood();
    let notes: Vec<&(&str, String)> = told.iter().filter(|(name, _)| *name == "note").collect();
    assert!(
        notes.len() == 1 && notes[0].1.contains("`load`") && notes[0].1.contains("\"50 %\" in line 2"),
        "{told:?}"
    );
}

#[test]
fn a_date_and_a_time_of_day_may_have_columns_of_their_own() {
    let file = Scratch::new(
        "Datum;Uhrzeit;kW\nTT.MM.JJJJ;hh:mm:ss;kW\n31.12.2024;23:59:59;1,5\n01.01.2025;00:00:00;2,5\n",
    );
    let mut recording = file.open();
    assert_eq!(names(&recording), ["kW"]);
    assert_eq!(recording.understood()[1], ("units", "TT.MM.JJJJ hh:mm:ss kW".to_owned()));
    assert_eq!(rows(&mut recording), ["3 1735689599 1.5", "4 1735689600 2.5"]);
    let days = Scratch::new("day,kWh\n2024-12-31,10\n2025-01-01,12\n");
    assert_eq!(rows(&mut days.open()), ["2 1735603200 10", "3 1735689600 12"]);
    let later = Scratch::new("kWh,installed\n10,2024-12-31\n12,2024-12-31\n");
    assert!(!later.open().has_time(), "a date somewhere is no time of its row");
}

#[test]
fn files_that_are_not_sorted_by_time_are_refused() {
    let newest_first: String = (0..20).rev().map(|second| format!("{second},1\n")).collect();
    let error = Scratch::new(format!("time,kw\n{newest_first}")).error();
    assert!(matches!(error, RecordingError::Unsorted { line: 3, back: 19, rows: 20, .. }), "{error}");
    assert!(error.to_string().contains("the oldest row first"), "{error}");
}

#[test]
fn a_row_that_goes_back_in_time_takes_the_time_before_it() {
    let file = Scratch::new("time,kw\n10,1\n8,2\n9,3\n11,4\n");
    let mut recording = file.open();
    assert_eq!(rows(&mut recording), ["2 10 1", "3 10 2", "4 10 3", "5 11 4"]);
    assert_eq!(recording.flaws().count(FlawKind::OutOfOrder), 2);
    assert!(FlawKind::OutOfOrder.remedy().contains("sort the file"));
}

#[test]
fn a_row_with_an_unreadable_time_is_skipped_and_counted() {
    let file = Scratch::new("time,kw\n1,1\nnoon,2\n,3\n4,4\n");
    let mut recording = file.open();
    assert_eq!(rows(&mut recording), ["2 1 1", "5 4 4"]);
    assert_eq!(recording.flaws().count(FlawKind::UnreadableTime), 2);
}

#[test]
fn short_and_long_rows_are_read_as_far_as_they_go() {
    let file = Scratch::new("time,a,b\n1,2,3\n4,5\n6,7,8,9\n");
    let mut recording = file.open();
    assert_eq!(rows(&mut recording), ["2 1 2 3", "3 4 5 _", "4 6 7 8"]);
    let flaws = recording.flaws();
    assert_eq!(flaws.first(FlawKind::ShortRow)[0].to_string(), "line 3: 2 cells for 3 columns");
    assert_eq!(flaws.first(FlawKind::LongRow)[0].to_string(), "line 4: 4 cells for 3 columns");
    assert_eq!(flaws.count(FlawKind::MissingCell), 0);
}

#[test]
fn long_cells_are_shortened_in_descriptions() {
    let good: String = (0..CLEAN_ROWS).map(|second| format!("{second},1\n")).collect();
    let file = Scratch::new(format!("time,a\n{good}200,{}\n", "é".repeat(5000)));
    let flaws = file.survey().flaws;
    assert_eq!(flaws.first(FlawKind::NotANumber)[0].text.chars().count(), 61);
}

#[test]
fn rewinding_starts_over_with_fresh_flaws() {
    for contents in [b"kw,time\n1,5\nNA,4\n".to_vec(), gzip("kw,time\n1,5\nNA,4\n")] {
        let file = Scratch::new(contents);
        let mut recording = file.open();
        let first = rows(&mut recording);
        let flaws = recording.flaws().clone();
        recording.rewind().unwrap();
        assert!(recording.flaws().is_empty());
        assert_eq!(rows(&mut recording), first);
        assert_eq!(recording.flaws(), &flaws);
    }
}

#[test]
fn rewinding_notices_a_file_with_other_columns() {
    let file = Scratch::new(SMALL);
    let mut recording = file.open();
    fs::write(&file.0, "time,wind\n1,2\n").unwrap();
    let error = recording.rewind().unwrap_err();
    assert!(matches!(error, RecordingError::Changed { .. }), "{error}");
    assert!(recording.next_row().unwrap().is_none());
}

#[test]
fn progress_grows_from_row_to_row_up_to_the_size() {
    let file = Scratch::new(SMALL);
    let mut recording = file.open();
    let start = recording.progress().0;
    recording.next_row().unwrap();
    let middle = recording.progress().0;
    rows(&mut recording);
    let (end, size) = recording.progress();
    assert!(start < middle && middle < end, "{start} {middle} {end}");
    assert_eq!((end, size), (SMALL.len() as u64, SMALL.len() as u64));
}

#[test]
fn a_survey_tells_the_extent_of_a_recording() {
    let file = Scratch::new("time;kw;state\n10;1,25;on\n20;2;off\n20;NA;off\n30;3;standby\n32;3;on\n");
    let survey = file.survey();
    assert_eq!((survey.rows, survey.has_time), (5, true));
    assert_eq!((survey.first_ns, survey.last_ns), (Some(10_000_000_000), Some(32_000_000_000)));
    assert_eq!(survey.smallest_step_ns, Some(2_000_000_000));
    assert_eq!(survey.median_step_ns, Some(2_000_000_000));
    assert_eq!(survey.longest_cells, [4, 7]);
    assert_eq!(survey.columns[0], Column { name: "kw".to_owned(), kind: Kind::Number });
    assert_eq!(survey.flaws.count(FlawKind::MissingCell), 1);
}

#[test]
fn a_survey_of_a_single_row_has_no_steps() {
    let survey = Scratch::new("time,kw\n1,2\n").survey();
    assert_eq!((survey.smallest_step_ns, survey.median_step_ns), (None, None));
}

#[test]
fn the_median_step_holds_for_more_steps_than_are_kept() {
    let mut contents = "time,a\n".to_owned();
    let mut time = 0;
    for row in 0..3 * MAX_KEPT_STEPS {
        time += if row % 10 == 0 { 7 } else { 2 };
        contents.push_str(&format!("{time},1\n"));
    }
    let survey = Scratch::new(gzip(contents)).survey();
    assert_eq!(survey.rows, 3 * MAX_KEPT_STEPS as u64);
    assert_eq!((survey.smallest_step_ns, survey.median_step_ns), (Some(2_000_000_000), Some(2_000_000_000)));
}

#[test]
fn a_table_without_names_has_columns_by_their_places() {
    for (first, time) in
        [("1,2.5,NA", None), ("2015-01-01 00:00:00,2.5,on", Some("column_1")), ("5,-3,1e5", None)]
    {
        let file = Scratch::new(format!("{first}\n2015-01-01 00:00:01,2,3\n"));
        let recording = file.open();
        assert_eq!(recording.time_column(), time, "{first}");
        assert!(names(&recording).contains(&"column_2"), "{first}");
        assert!(recording.understood().iter().any(|(_, text)| text.starts_with("none: columns")), "{first}");
    }
}

#[test]
fn what_stands_above_the_table_is_left_out() {
    let logger = "Logger X7\nSerial number;4711\nFirmware;2.1\n\nTime;Speed;Temp\n\
                  01.02.2025 10:00:00;1200,5;40\n01.02.2025 10:00:01;1201;41\n01.02.2025 10:00:02;1202;42\n";
    let file = Scratch::new(logger);
    let mut recording = file.open();
    assert_eq!(names(&recording), ["Speed", "Temp"]);
    assert_eq!(kinds(&recording), [Kind::Number, Kind::Number]);
    assert_eq!(rows(&mut recording)[0], "6 1738404000 1200.5 40");
    let told = &recording.understood()[0];
    assert_eq!(told.1, "lines 1 to 3: Logger X7 / Serial number;4711 / Firmware;2.1");
    // Even where it is as wide as the table, and nothing parts them.
    let file = Scratch::new("Serial number;4711\nFirmware;2.1\ntime;kw\n1;2,5\n2;3,5\n");
    let mut recording = file.open();
    assert_eq!(rows(&mut recording), ["4 1 2.5", "5 2 3.5"]);
    recording.rewind().unwrap();
    assert_eq!(rows(&mut recording), ["4 1 2.5", "5 2 3.5"]);
}

#[test]
fn units_below_the_names_are_no_data() {
    let file =
        Scratch::new("Time;Speed;Temp\ns;rpm;degC\n0,0;1200,5;40,0\n0,1;1201,5;40,1\n0,2;1202,5;40,2\n");
    let mut recording = file.open();
    assert_eq!(kinds(&recording), [Kind::Number, Kind::Number]);
    assert_eq!(rows(&mut recording), ["3 0 1200.5 40.0", "4 0.1 1201.5 40.1", "5 0.2 1202.5 40.2"]);
    assert!(recording.understood().contains(&("units", "s rpm degC".to_owned())));
    assert!(recording.flaws().is_empty());
}

#[test]
fn a_first_row_with_an_outlier_is_no_header() {
    let more: String = (2..20).map(|second| format!("{second},{second}.5,1\n")).collect();
    let file = Scratch::new(format!("n,a,b\n0,Bad Input,1\n1,,1\n{more}"));
    let mut recording = file.open();
    assert_eq!(names(&recording), ["n", "a", "b"]);
    assert_eq!(kinds(&recording), [Kind::Number; 3]);
    assert_eq!(rows(&mut recording)[..2], ["2 0 0 _ 1", "3 1 1 _ 1"]);
    assert_eq!(recording.outliers.as_slice(), [0, 1, 0]);
}

#[test]
fn a_first_line_may_say_what_parts_the_cells() {
    for (line, delimiter) in [("sep=;", ";"), ("SEP=|", "|"), ("sep=\t", "\t")] {
        let text = format!("{line}\r\ntime;kw\r\n1;100,5\r\n2;110,5\r\n").replace(';', delimiter);
        let text = text.replace(&format!("sep={delimiter}"), line);
        let file = Scratch::new(text);
        assert_eq!(rows(&mut file.open()), ["3 1 100.5", "4 2 110.5"], "{line}");
    }
}

#[test]
fn a_single_column_with_decimal_commas_is_one() {
    let file = Scratch::new("kw\n1,5\n-2,5\n3,0\n");
    assert_eq!(rows(&mut file.open()), ["2 0 1.5", "3 1 -2.5", "4 2 3.0"]);
}

#[test]
fn one_text_makes_no_text_of_a_column_of_numbers_and_many_do() {
    let mut lines: Vec<String> = (0..40).map(|second| format!("{second},{second}")).collect();
    lines[39] = "39,Bad Input".to_owned();
    let file = Scratch::new(format!("time,kw\n{}\n", lines.join("\n")));
    let survey = file.survey();
    assert_eq!((survey.columns[0].kind, survey.values[0], survey.outliers[0]), (Kind::Number, 39, 1));
    for line in &mut lines[..8] {
        line.push_str(" kW");
    }
    let file = Scratch::new(format!("time,kw\n{}\n", lines.join("\n")));
    assert_eq!(file.survey().columns[0].kind, Kind::Text);
}

fn steps(text: &str) -> Vec<i64> {
    let file = Scratch::new(text);
    let mut recording = file.open();
    let mut times = Vec::new();
    while let Some(row) = recording.next_row().unwrap() {
        times.push(row.time_ns / 1_000_000_000);
    }
    times.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[test]
fn the_whole_column_decides_whether_the_day_comes_first() {
    let midnight = "Date,kW\n11/02/2025 23:59:58,1\n11/02/2025 23:59:59,2\n12/02/2025 00:00:00,3\n";
    assert_eq!(steps(midnight), [1, 1], "no month has its second day a second after that of the one before");
    assert_eq!(steps("Date,kW\n12/02/2025 23:59:59,1\n13/02/2025 00:00:00,2\n"), [1], "there is no month 13");
    assert_eq!(steps("Date,kW\n02/12/2025 23:59:59,1\n02/13/2025 00:00:00,2\n"), [1]);
    assert_eq!(steps("Date,kW\n02-12-2025 23:59:59,1\n02-13-2025 00:00:00,2\n"), [1]);
    let either = "Date,kW\n01/02/2025 10:00:00,1\n01/02/2025 10:00:05,2\n";
    assert_eq!(steps(either), [5], "either will do");
    let told = Scratch::new(either).open().understood();
    assert!(
        told.iter().any(|(name, text)| *name == "note" && text.contains("--dates")),
        "and that is said: {told:?}"
    );
    let undecided = Scratch::new("Date,kW\n01/02/2025 00:00:00,1\n02/03/2025 00:00:00,2\n");
    let error = undecided.error();
    assert!(matches!(error, RecordingError::AmbiguousDates { line: 2, .. }), "{error}");
    assert!(error.to_string().contains("--dates day-first"), "{error}");
    let said = undecided.open_with(&Options { dates: Some(DateOrder::DayFirst), ..Options::default() });
    assert_eq!(said.date_order(), DateOrder::DayFirst);
    let mixed = Scratch::new("Date,kW\n13/02/2025 00:00:00,1\n02/14/2025 00:00:00,2\n").error();
    assert!(matches!(mixed, RecordingError::MixedDates { line: 2, other_line: 3, .. }), "{mixed}");
}

#[test]
fn numbers_of_days_are_not_taken_for_seconds() {
    let file = Scratch::new("time,kW\n45690.416666667,1\n45690.416678241,2\n45690.416689815,3\n");
    let error = file.error();
    assert!(matches!(error, RecordingError::DayNumbers { line: 2, .. }), "{error}");
    let survey = file.open_with(&Options { time_unit: Some(TimeUnit::Days), ..Options::default() }).survey();
    let survey = survey.unwrap();
    let step = survey.usual_step_ns.unwrap();
    assert!((step - 1_000_000_000).abs() < 100_000, "{step}");
    let first = survey.first_ns.unwrap() / 1_000_000_000;
    assert!((first - 1_738_490_400).abs() < 2, "2025-02-02 10:00, but {first}");
    let hourly = Scratch::new("time,kW\n45690.5,1\n45690.541666667,2\n45690.583333333,3\n").error();
    assert!(matches!(hourly, RecordingError::DayNumbers { .. }), "{hourly}");
}

#[test]
fn one_glitch_does_not_set_the_pace_and_gaps_are_told() {
    let file = Scratch::new("time,kw\n0,1\n1,2\n1.000001,3\n2,4\n3,5\n4,6\n100,7\n101,8\n");
    let survey = file.survey();
    assert!(survey.usual_step_ns.unwrap() > 990_000_000, "{survey:?}");
    assert_eq!(survey.gaps, Gaps { count: 1, longest_ns: 96_000_000_000, line: 8 });
    // Ten rows have the time of one second.
    let rows: String = (0..100).map(|row| format!("{},{row}\n", row / 10)).collect();
    let survey = Scratch::new(format!("time,kw\n{rows}")).survey();
    let step = survey.usual_step_ns.unwrap();
    assert!((80_000_000..=100_000_000).contains(&step), "{step}");
    assert_eq!(survey.gaps, Gaps::default(), "a second after which the next begins is none");
}

#[test]
fn utf_16_is_read() {
    for big in [false, true] {
        let text = "\u{feff}time;kW \u{1f32c}\r\n1;2,5\r\n2;3,5\r\n";
        let bytes = |unit: u16| if big { unit.to_be_bytes() } else { unit.to_le_bytes() };
        let contents: Vec<u8> = text.encode_utf16().flat_map(bytes).collect();
        for contents in [contents.clone(), gzip(&contents)] {
            let file = Scratch::new(contents);
            assert_eq!(names(&file.open()), ["kW \u{1f32c}"]);
            assert_eq!(rows(&mut file.open()), ["2 1 2.5", "3 2 3.5"]);
        }
        let half = Scratch::new(&contents[..contents.len() - 1]);
        let error = half.error();
        assert!(matches!(error, RecordingError::NotText { .. }), "{error}");
    }
}

#[test]
fn files_without_rows_are_errors() {
    for empty in ["", "\n\n  \r\n", "\u{feff}"] {
        let error = Scratch::new(empty).error();
        assert!(matches!(error, RecordingError::Empty { .. }), "{empty:?}: {error}");
    }
    let error = Scratch::new(gzip("")).error();
    assert!(matches!(error, RecordingError::Empty { .. }), "{error}");
    let error = Scratch::new("time,kw\n\n").error();
    assert!(matches!(error, RecordingError::OnlyHeader { .. }), "{error}");
    let error = Scratch::new("time\n1\n").error();
    assert!(matches!(error, RecordingError::NoColumns { .. }), "{error}");
}

#[test]
fn what_is_no_file_is_an_error() {
    let directory = Recording::open(&std::env::temp_dir(), &Options::default()).err().unwrap();
    assert!(matches!(directory, RecordingError::NotAFile { .. }), "{directory}");
    let absent = std::env::temp_dir().join("verge-recording-absent.csv");
    let absent = Recording::open(&absent, &Options::default()).err().unwrap();
    assert!(matches!(absent, RecordingError::Open { .. }), "{absent}");
}

#[test]
fn binary_files_are_errors() {
    let utf16: Vec<u8> = SMALL.encode_utf16().flat_map(u16::to_le_bytes).collect();
    // Without a byte order mark.
    for contents in [utf16, b"\x7fELF\x02\x01\x01\0\0".to_vec(), b"time,\xb0C\n1,2\n".to_vec()] {
        let error = Scratch::new(contents).error();
        assert!(matches!(error, RecordingError::NotText { line: 1, .. }), "{error}");
    }
    let error = Scratch::new(b"time,state\n1,on\n2,\xff\n").error();
    assert!(matches!(error, RecordingError::NotText { line: 3, .. }), "{error}");
    let error = Scratch::new(b"PK\x03\x04rest").error();
    assert!(error.to_string().contains("an Excel workbook or a zip archive"), "{error}");
}

#[test]
fn an_oversized_row_is_an_error_with_its_line() {
    let long = Scratch::new(format!("time,a\n1,2\n3,{}\n", "x".repeat(MAX_LINE_BYTES)));
    let unclosed = Scratch::new(format!("time,a\n1,2\n3,\"{}", "4,5\n".repeat(MAX_LINE_BYTES)));
    let endless = Scratch::new(gzip(vec![b'x'; 8 * MAX_LINE_BYTES]));
    for (file, expected) in [(long, 3), (unclosed, 3), (endless, 1)] {
        let error = file.error();
        assert!(matches!(error, RecordingError::LineTooLong { line, .. } if line == expected), "{error}");
    }
}

#[test]
fn an_open_quote_is_an_error_instead_of_swallowing_the_rest() {
    for end in ["", "\n", "\r\n"] {
        let file = Scratch::new(format!("time,a\n1,on\n2,\"off\n3,on\n4,on{end}"));
        let error = file.error();
        assert!(matches!(error, RecordingError::UnclosedQuote { line: 3, .. }), "{error}");
        let closed = Scratch::new(format!("time,a\n1,on\n2,\"off\n3\"\n4,\"on\"{end}"));
        assert_eq!(closed.survey().rows, 3);
    }
}

#[test]
fn a_row_just_below_the_limit_and_many_blank_lines_are_read() {
    let cell = "x".repeat(MAX_LINE_BYTES - 2 * "1,\n".len());
    let blank = "\n".repeat(2 * MAX_LINE_BYTES);
    let survey = Scratch::new(format!("time,a\n1,{cell}\n{blank}2,x\n")).survey();
    assert_eq!((survey.rows, survey.longest_cells[0]), (2, cell.len()));
}

#[test]
fn too_many_columns_are_an_error() {
    let header = "a,".repeat(MAX_COLUMNS);
    let error = Scratch::new(format!("{header}a\n1\n")).error();
    assert!(
        matches!(error, RecordingError::TooManyColumns { count, .. } if count == MAX_COLUMNS + 1),
        "{error}"
    );
    let most = Scratch::new(format!("{}\n1\n", header.trim_end_matches(',')));
    assert_eq!(most.open().columns().len(), MAX_COLUMNS);
}

#[test]
fn a_truncated_gzip_is_an_error_with_its_line() {
    let contents: String = (0..20_000).map(|row| format!("{row},{}\n", row * row % 977)).collect();
    let packed = gzip(format!("time,a\n{contents}"));
    let file = Scratch::new(&packed[..packed.len() / 2]);
    // Before anything has been published.
    let error = file.error();
    assert!(matches!(error, RecordingError::Truncated { line, .. } if line > 1000), "{error}");
    for length in 2..30 {
        let error = Scratch::new(&packed[..length]).error();
        assert!(matches!(error, RecordingError::Truncated { .. }), "{length}: {error}");
    }
}

#[test]
fn a_damaged_gzip_is_an_error() {
    let mut packed = gzip(SMALL.repeat(100));
    let checksum = packed.len() - 6;
    packed[checksum] ^= 0xff;
    let error = Scratch::new(packed).error();
    assert!(matches!(error, RecordingError::Damaged { .. }), "{error}");
}

#[test]
fn errors_read_as_parts_of_a_sentence_and_name_the_file() {
    let texts = ["", "time,kw\n", "time\n1\n", "time,kw\nnoon,1\n", "a\0b", "PAR1"];
    for text in texts {
        let file = Scratch::new(text);
        let message = file.error().to_string();
        assert!(message.contains(file.0.to_str().unwrap()), "{message}");
        assert!(message.contains(';') && !message.ends_with('.') && !message.contains("  "), "{message}");
    }
}

#[test]
fn mangled_files_never_cause_a_panic() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    let plain =
        b"time;a;\"b\nc\"\n2015-01-01 00:00:00,5+01:00;1,5;on\n1420113600.5;-;\"o;ff\"\r\n1e9;2;x\n".to_vec();
    let spice = b"\n\r\",;\t|.:-+/TZe0912\0\xff\xc3 ?";
    for round in 0..600 {
        let mut contents = if round % 3 == 0 { gzip(&plain) } else { plain.clone() };
        for _ in 0..=random(6) {
            let place = random(contents.len());
            match random(3) {
                0 => contents[place] = spice[random(spice.len())],
                1 => contents.insert(place, spice[random(spice.len())]),
                _ => contents.truncate(place.max(1)),
            }
        }
        let file = Scratch::new(&contents);
        let delimiter = [None, Some(b';'), Some(b'T')][random(3)];
        let _ = Recording::open(&file.0, &Options { delimiter, ..Options::default() })
            .and_then(|mut it| it.survey());
        let _ = parse(&String::from_utf8_lossy(&contents[..random(contents.len())]));
        let _ = parse(&String::from_utf8_lossy(&contents[contents.len() / 3..]));
    }
}

#[test]
fn what_is_packed_with_zstd_is_read_and_what_is_damaged_is_named() {
    let packed = zstd::encode_all(SMALL.as_bytes(), 3).unwrap();
    let file = Scratch::new([packed.clone(), zstd::encode_all(&b"1002,3.5,on\n"[..], 3).unwrap()].concat());
    assert_eq!(rows(&mut file.open()).len(), 3, "frames one after the other");
    let long: String = (0..20_000).map(|row| format!("{row},{}\n", row * 7919 % 1009)).collect();
    let long = zstd::encode_all(format!("time,a\n{long}").as_bytes(), 3).unwrap();
    let error = Scratch::new(&long[..long.len() / 2]).error();
    assert!(matches!(error, RecordingError::Truncated { packed: "zstd", .. }), "{error}");
    let mut damaged = long.clone();
    let middle = damaged.len() / 2;
    damaged[middle..middle + 64].fill(0xa5);
    let error = Scratch::new(&damaged).error();
    assert!(matches!(error, RecordingError::Damaged { packed: "zstd", .. }), "{error}");
}

#[test]
fn a_damaged_parquet_file_is_named() {
    for contents in
        [&b"PAR1"[..], b"PAR1 nonsense PAR1", &[b"PAR1".as_slice(), &[7; 100], b"\x40\0\0\0PAR1"].concat()]
    {
        let error = Scratch::new(contents).error();
        assert!(matches!(error, RecordingError::Damaged { packed: "Parquet", .. }), "{error}");
    }
}

/// A Parquet file says what is a number: what commas and points mean in other columns is not asked.
#[test]
fn columns_of_parquet_files_are_what_the_file_says() {
    let file = Scratch::new("");
    let opened = File::options().write(true).truncate(true).open(&file.0).unwrap();
    let mut table = ParquetTable::create(opened, &[("101", true), ("texts", false)]).unwrap();
    for row in 0..3_i64 {
        table.put(row * 1_000_000_000, 0, "1.234").unwrap();
        table.put(row * 1_000_000_000 + 1, 1, "1,5").unwrap();
    }
    table.end().unwrap();
    let mut recording = file.open();
    assert_eq!(recording.columns()[0], Column { name: "101".to_owned(), kind: Kind::Number });
    let numbers: Vec<f64> = std::iter::from_fn(|| {
        let row = recording.next_row().unwrap()?;
        Some(row.cell(0).map(|cell| cell.parse().unwrap()))
    })
    .flatten()
    .collect();
    assert_eq!(numbers, [1.234; 3]);
}
