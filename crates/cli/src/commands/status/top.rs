//! `verge top`: what `verge status` shows, live, sorted and filtered by keys.

use super::{concerns, ms, protection, state_in_words};
use crate::arguments::{BrokerArguments, Format};
use crate::commands::stopping::Stop;
use crate::commands::{admin_name, start_client};
use config::Config;
use console::{GREEN, Outcome, RED, Trouble, YELLOW, has_colours, terminal, yes};
use crossbeam_channel::{Sender, bounded};
use node::status::{PATIENCE, look};
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span as Piece};
use ratatui::widgets::{Cell, Paragraph, Row, Table};
use report::{Before, BrokerRow, LevelRow, OperatorRow, PairReport, State, TopicRow};
use signal_hook::consts::{SIGHUP, SIGQUIT};
use signal_hook::flag;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use verge::Client;

/// How often brokers are asked.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// What is older than this is said to be old.
const OLD_AFTER: Duration = Duration::from_secs(3);
/// How long a key is waited for before the screen is drawn again.
const KEYS_WAIT: Duration = Duration::from_millis(200);
/// Characters of a filter.
const FILTER_MAX: usize = 128;
/// Causes of broken topics that have room below them.
const CONCERNS_SHOWN: usize = 3;
/// Rows that one press of Page Down moves.
const PAGE: usize = 10;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shown {
    Topics,
    Publishers,
    Operators,
}

const VIEWS: [(Shown, &str); 3] =
    [(Shown::Topics, "topics"), (Shown::Publishers, "publishers"), (Shown::Operators, "operators")];

/// By what rows are sorted, the first of it on top.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    /// What is left of the deadline at the slowest message.
    Slack,
    State,
    Late,
    Lost,
    Rate,
    Name,
}

const ORDERS: [(By, &str); 6] = [
    (By::Slack, "slack"),
    (By::State, "state"),
    (By::Late, "late"),
    (By::Lost, "lost"),
    (By::Rate, "rate"),
    (By::Name, "name"),
];

/// What is on the screen, and what keys make of it.
struct Screen {
    report: PairReport,
    /// Messages of each stream in a second, between the last two looks.
    rates: BTreeMap<(String, String), f64>,
    arrived: BTreeMap<(String, String), u64>,
    looked: Option<Instant>,
    /// How long ago that was.
    age: Option<Duration>,
    /// What asking again has come to.
    trouble: Option<String>,
    shown: Shown,
    by: By,
    filter: String,
    /// Keys are characters of the filter.
    typing: bool,
    helps: bool,
    first: usize,
    ends: bool,
}

/// Streams of one publisher.
#[derive(Default)]
struct PublisherRow {
    name: String,
    topics: usize,
    rate: f64,
    arrived: u64,
    late: u64,
    lost: u64,
    longest_run: u32,
    /// Of its topics, those that are not met.
    unmet: usize,
}

/// Asks brokers, again and again, until nobody hears it.
fn ask(client: &Client, first: Before, sender: &Sender<Result<PairReport, String>>) {
    let mut before = first;
    loop {
        std::thread::sleep(LOOK_EVERY);
        let report = look(client, Instant::now() + LOOK_EVERY, &mut before);
        if sender.send(report.map_err(|trouble| trouble.0)).is_err() {
            return;
        }
    }
}

/// Shows brokers until a key or a signal ends it.
pub fn run(config: &Config, brokers: &BrokerArguments, format: Format) -> Outcome {
    if format == Format::Json || terminal().is_none() {
        return Err(Trouble(
            "verge top draws on a terminal, and standard output is none: use `verge status`, or `verge status --format json`".to_owned(),
        ));
    }
    let client = start_client(config, brokers, Some(&admin_name()))?;
    let mut before = Before::default();
    let report = look(&client, Instant::now() + PATIENCE, &mut before)?;
    let mut screen = Screen::new(report, Instant::now());
    let stop = Stop::on_signals()?;
    for signal in [SIGHUP, SIGQUIT] {
        flag::register(signal, stop.handle())?;
    }
    // A broker that stands still holds up who asks it, and not the keys.
    let (sender, reports) = bounded(1);
    std::thread::Builder::new().name("top".to_owned()).spawn(move || ask(&client, before, &sender))?;
    let mut canvas = ratatui::try_init()?;
    let mut play = || -> Result<(), Trouble> {
        while !screen.ends && !stop.is_asked() {
            for report in reports.try_iter() {
                match report {
                    Ok(report) => screen.take(report, Instant::now()),
                    Err(trouble) => screen.trouble = Some(trouble),
                }
            }
            screen.age = screen.looked.map(|at| at.elapsed());
            canvas.draw(|frame| screen.draw(frame))?;
            if event::poll(KEYS_WAIT)?
                && let Event::Key(key) = event::read()?
                && key.kind == KeyEventKind::Press
            {
                screen.press(key);
            }
        }
        Ok(())
    };
    let played = play();
    ratatui::restore();
    played?;
    Ok(yes(true))
}

impl Screen {
    fn new(report: PairReport, now: Instant) -> Screen {
        let mut screen = Screen {
            report: PairReport::default(),
            rates: BTreeMap::new(),
            arrived: BTreeMap::new(),
            looked: None,
            age: None,
            trouble: None,
            shown: Shown::Topics,
            by: By::Slack,
            filter: String::new(),
            typing: false,
            helps: false,
            first: 0,
            ends: false,
        };
        screen.take(report, now);
        screen
    }

    /// What brokers say now.
    fn take(&mut self, report: PairReport, now: Instant) {
        let elapsed = self.looked.map_or(0.0, |at| now.duration_since(at).as_secs_f64());
        let key = |row: &TopicRow| (row.topic.clone(), row.publisher.clone());
        self.rates.clear();
        for row in &report.topics {
            let before = self.arrived.get(&key(row)).copied().filter(|_| elapsed > 0.0);
            // A new primary counts from zero.
            let more = before.and_then(|before| row.arrived.checked_sub(before)).unwrap_or(0);
            self.rates.insert(key(row), if elapsed > 0.0 { more as f64 / elapsed } else { 0.0 });
        }
        self.arrived = report.topics.iter().map(|row| (key(row), row.arrived)).collect();
        (self.report, self.looked) = (report, Some(now));
        (self.trouble, self.age) = (None, None);
    }

    fn press(&mut self, key: KeyEvent) {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => self.ends = true,
            KeyCode::Enter if self.typing => self.typing = false,
            KeyCode::Esc if self.typing => (self.typing, self.filter) = (false, String::new()),
            KeyCode::Backspace if self.typing => _ = self.filter.pop(),
            KeyCode::Char(character) if self.typing => {
                self.filter = self.filter.chars().chain([character]).take(FILTER_MAX).collect();
            }
            _ if self.helps => self.helps = false,
            KeyCode::Char('q') | KeyCode::Esc => self.ends = true,
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char('?' | 'h') => self.helps = true,
            KeyCode::Char('s') => self.by = after(&ORDERS, self.by),
            KeyCode::Tab => self.show(after(&VIEWS, self.shown)),
            KeyCode::Char(digit @ '1'..='3') => {
                let place = digit as usize - '1' as usize;
                self.show(VIEWS[place].0);
            }
            KeyCode::Down | KeyCode::Char('j') => self.first += 1,
            KeyCode::Up | KeyCode::Char('k') => self.first = self.first.saturating_sub(1),
            KeyCode::PageDown => self.first += PAGE,
            KeyCode::PageUp => self.first = self.first.saturating_sub(PAGE),
            KeyCode::Home => self.first = 0,
            _ => {}
        }
    }

    fn show(&mut self, shown: Shown) {
        (self.shown, self.first) = (shown, 0);
    }

    fn draw(&mut self, frame: &mut Frame<'_>) {
        let brokers = self.report.brokers.len() + self.report.troubles.len();
        let concerns: Vec<Line<'_>> = concerns(&self.report)
            .into_iter()
            .take(CONCERNS_SHOWN)
            .map(|(state, text)| {
                let colour = if state == State::Broken { RED } else { YELLOW };
                Line::from(vec![
                    Piece::styled(state.as_str().to_uppercase(), painted(colour)),
                    Piece::raw(format!(": {text}")),
                ])
            })
            .collect();
        let rows = [
            Constraint::Length(2),
            Constraint::Length(brokers as u16),
            Constraint::Length(1),
            Constraint::Min(1),
            Constraint::Length(concerns.len() as u16),
            Constraint::Length(1),
        ];
        let [verdict, pair, tabs, body, why, keys] = Layout::vertical(rows).areas(frame.area());
        frame.render_widget(Paragraph::new(self.verdict()), verdict);
        frame.render_widget(Paragraph::new(self.pair()), pair);
        frame.render_widget(self.tabs(), tabs);
        frame.render_widget(Paragraph::new(concerns), why);
        if self.helps {
            frame.render_widget(Paragraph::new(HELP), body);
        } else {
            match self.shown {
                Shown::Topics => self.draw_topics(frame, body),
                Shown::Publishers => self.draw_publishers(frame, body),
                Shown::Operators => self.draw_operators(frame, body),
            }
        }
        let text = match self.typing {
            true => format!("/{}_   Enter keeps the filter, Esc takes it away", self.filter),
            false => "q quit   1 2 3 views   s sort   / filter   arrows scroll   ? help".to_owned(),
        };
        frame.render_widget(Line::from(text).style(faint()), keys);
    }

    fn verdict(&self) -> Vec<Line<'static>> {
        let (text, colour) = protection(&self.report);
        if let Some(age) = self.age.filter(|age| *age > OLD_AFTER) {
            let why = self.trouble.as_deref().unwrap_or("brokers do not answer");
            let old = format!("OLD: this is what was {:.0} s ago; {why}", age.as_secs_f64());
            return vec![Line::from(old).style(painted(RED)), self.counts()];
        }
        vec![Line::from(text).style(painted(colour)), self.counts()]
    }

    fn counts(&self) -> Line<'static> {
        let PairReport { met, at_risk, silent, broken, .. } = &self.report;
        Line::from(format!("topics: {met} met, {at_risk} at risk, {silent} silent, {broken} broken"))
    }

    fn pair(&self) -> Vec<Line<'static>> {
        let one = |row: &BrokerRow| {
            Line::from(format!(
                "{} {} {} (epoch {}), {} clients, {} streams, CPU planned {:.1} %, p99 {} ms, up {:.0} s",
                row.role.as_str(),
                row.name,
                row.address,
                row.epoch,
                row.clients,
                row.streams,
                row.utilisation * 100.0,
                ms(row.latency_p99_ms),
                row.uptime_s
            ))
        };
        let trouble =
            |(address, why): (&String, &String)| Line::from(format!("{address} {why}")).style(painted(RED));
        self.report.brokers.iter().map(one).chain(self.report.troubles.iter().map(trouble)).collect()
    }

    fn tabs(&self) -> Line<'static> {
        let mut pieces = Vec::new();
        for (place, (view, name)) in VIEWS.iter().enumerate() {
            let style =
                if *view == self.shown { Style::new().add_modifier(Modifier::REVERSED) } else { faint() };
            pieces.push(Piece::styled(format!(" {}:{name} ", place + 1), style));
        }
        let order = ORDERS.iter().find(|(by, _)| *by == self.by).map_or("", |(_, name)| name);
        pieces.push(Piece::styled(format!("  by {order}"), faint()));
        if !self.filter.is_empty() {
            pieces.push(Piece::styled(format!("  with \"{}\"", self.filter), faint()));
        }
        Line::from(pieces)
    }

    fn rate(&self, row: &TopicRow) -> f64 {
        self.rates.get(&(row.topic.clone(), row.publisher.clone())).copied().unwrap_or(0.0)
    }

    fn topics(&self) -> Vec<&TopicRow> {
        let has = |text: &str| text.contains(self.filter.as_str());
        let mut rows: Vec<&TopicRow> =
            self.report.topics.iter().filter(|row| has(&row.topic) || has(&row.publisher)).collect();
        match self.by {
            // As brokers are asked: what is broken first.
            By::State => {}
            By::Slack => rows.sort_by(|one, other| slack(one).total_cmp(&slack(other))),
            By::Late => rows.sort_by_key(|row| Reverse(row.late.max(row.subscribers_late))),
            By::Lost => rows.sort_by_key(|row| Reverse(row.lost.max(row.subscribers_lost))),
            By::Rate => rows.sort_by(|one, other| self.rate(other).total_cmp(&self.rate(one))),
            By::Name => rows.sort_by(|one, other| one.topic.cmp(&other.topic)),
        }
        rows
    }

    fn publishers(&self) -> Vec<PublisherRow> {
        let mut rows: BTreeMap<&str, PublisherRow> = BTreeMap::new();
        for topic in &self.report.topics {
            let row = rows.entry(&topic.publisher).or_default();
            row.name.clone_from(&topic.publisher);
            row.topics += 1;
            row.rate += self.rate(topic);
            row.arrived += topic.arrived;
            row.late += topic.late.max(topic.subscribers_late);
            row.lost += topic.lost.max(topic.subscribers_lost);
            row.longest_run = row.longest_run.max(topic.longest_run.max(topic.subscribers_longest_run));
            row.unmet += usize::from(topic.state != State::Met);
        }
        let mut rows: Vec<PublisherRow> =
            rows.into_values().filter(|row| row.name.contains(self.filter.as_str())).collect();
        match self.by {
            By::Name => {}
            By::State | By::Slack => rows.sort_by_key(|row| Reverse(row.unmet)),
            By::Late => rows.sort_by_key(|row| Reverse(row.late)),
            By::Lost => rows.sort_by_key(|row| Reverse(row.lost)),
            By::Rate => rows.sort_by(|one, other| other.rate.total_cmp(&one.rate)),
        }
        rows
    }

    fn draw_topics(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let rows = self.topics();
        let (first, count) = window(self.first, rows.len(), area);
        let row = |row: &&TopicRow| {
            let colour = match row.state {
                State::Broken | State::Silent => painted(RED),
                State::AtRisk => painted(YELLOW),
                State::Met => painted(GREEN),
            };
            Row::new([
                Cell::from(row.topic.clone()),
                Cell::from(row.publisher.clone()),
                Cell::from(state_in_words(row)).style(colour),
                number(&format!("{:.1}", self.rate(row))),
                number(&ms(slack(row))),
                number(&ms(row.latency_last_ms)),
                number(&ms(row.latency_max_ms)),
                number(&ms(row.deadline_ms)),
                number(&row.late.max(row.subscribers_late)),
                number(&row.lost.max(row.subscribers_lost)),
                number(&format!("{}/{}", row.longest_run.max(row.subscribers_longest_run), row.loss)),
                number(&row.subscribers),
            ])
        };
        let shown: Vec<Row<'_>> = rows.iter().skip(first).take(count).map(row).collect();
        let headings = [
            "topic",
            "publisher",
            "state",
            "msg/s",
            "slack ms",
            "last ms",
            "max ms",
            "D ms",
            "late",
            "lost",
            "run/L",
            "subs",
        ];
        let widths = widths(area, (24, 14, 11), &[7, 9, 8, 8, 8, 6, 6, 9, 4]);
        self.first = first;
        draw_table(frame, area, &headings, shown, widths);
    }

    fn draw_publishers(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let rows = self.publishers();
        let (first, count) = window(self.first, rows.len(), area);
        let row = |row: &PublisherRow| {
            Row::new([
                Cell::from(row.name.clone()),
                number(&row.topics),
                number(&row.unmet),
                number(&format!("{:.1}", row.rate)),
                number(&row.arrived),
                number(&row.late),
                number(&row.lost),
                number(&row.longest_run),
            ])
        };
        let shown = rows.iter().skip(first).take(count).map(row).collect();
        self.first = first;
        let headings = ["publisher", "topics", "not met", "msg/s", "arrived", "late", "lost", "longest run"];
        let mut widths = vec![Constraint::Min(16)];
        widths.extend([7, 8, 9, 12, 8, 8, 12].map(Constraint::Length));
        draw_table(frame, area, &headings, shown, widths);
    }

    fn draw_operators(&mut self, frame: &mut Frame<'_>, area: Rect) {
        let PairReport { operators, levels, .. } = &self.report;
        let has = |row: &&OperatorRow| row.operator.contains(self.filter.as_str());
        let mut rows: Vec<&OperatorRow> = operators.iter().filter(has).collect();
        match self.by {
            By::Name => rows.sort_by(|one, other| one.operator.cmp(&other.operator)),
            By::Late | By::Lost => {
                rows.sort_by_key(|row| Reverse(row.faults + row.shed_absolute + row.shed_relative));
            }
            By::Rate => rows.sort_by_key(|row| Reverse(row.runs)),
            By::State | By::Slack => {}
        }
        let level = |row: &LevelRow| {
            Line::from(format!(
                "level {}: {} operators, {:.1} % busy, worst {} ms, {} refused",
                row.level,
                row.operators,
                row.busy_percent,
                ms(row.worst_ms),
                row.refused
            ))
        };
        let heads: Vec<Line<'_>> = levels.iter().map(level).collect();
        let split = [Constraint::Length(heads.len() as u16), Constraint::Min(1)];
        let [above, below] = Layout::vertical(split).areas(area);
        let (first, count) = window(self.first, rows.len(), below);
        let row = |row: &&OperatorRow| {
            Row::new([
                Cell::from(row.operator.clone()),
                number(&row.level),
                number(&row.runs),
                number(&row.results),
                number(&(row.shed_absolute + row.shed_relative)),
                number(&row.faults),
                number(&format!("{:.1}", row.mean_us)),
                number(&format!("{:.1}", row.worst_us)),
            ])
        };
        let shown = rows.iter().skip(first).take(count).map(row).collect();
        let headings = ["operator", "level", "runs", "results", "shed", "faults", "mean us", "worst us"];
        let mut widths = vec![Constraint::Min(16)];
        widths.extend([5, 12, 12, 8, 8, 10, 10].map(Constraint::Length));
        frame.render_widget(Paragraph::new(heads), above);
        draw_table(frame, below, &headings, shown, widths);
        self.first = first;
    }
}

const HELP: &str = "\
1 2 3, Tab   topics, publishers, operators
s            sort by slack, state, late, lost, rate, name
/            show rows whose names have this in them
arrows, j k  scroll; Page Up, Page Down, Home
q, Esc       end

slack is the deadline less the slowest message so far; a negative one was late.
late and lost are the worse of what the broker has seen and what subscribers say.
run/L is the longest run of losses, and how many the contract tolerates.

Any key goes back.";

/// What is left of the deadline at the slowest message so far, in milliseconds.
fn slack(row: &TopicRow) -> f64 {
    row.deadline_ms - row.latency_max_ms
}

/// The one after this, and after the last the first.
fn after<T: Copy + PartialEq>(all: &[(T, &str)], this: T) -> T {
    let place = all.iter().position(|(one, _)| *one == this).unwrap_or(0);
    all[(place + 1) % all.len()].0
}

fn number(value: &impl ToString) -> Cell<'static> {
    Cell::from(Line::from(value.to_string()).right_aligned())
}

fn faint() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

fn painted(colour: u8) -> Style {
    if !has_colours() {
        return Style::new();
    }
    Style::new().fg(match colour {
        RED => Color::Red,
        GREEN => Color::Green,
        _ => Color::Yellow,
    })
}

/// The first row that is shown, and how many are.
fn window(first: usize, rows: usize, area: Rect) -> (usize, usize) {
    let count = usize::from(area.height).saturating_sub(1);
    (first.min(rows.saturating_sub(count)), count)
}

/// Columns: the first takes what is left; numbers that do not fit are left out from the right.
fn widths(area: Rect, (least, second, third): (u16, u16, u16), numbers: &[u16]) -> Vec<Constraint> {
    let mut left = area.width.saturating_sub(least + 1);
    let mut take = |width: u16| {
        let fits = left > width;
        left = if fits { left - width - 1 } else { 0 };
        Constraint::Length(if fits { width } else { 0 })
    };
    // The state goes before the publisher.
    let state = take(third);
    let others: Vec<Constraint> = numbers.iter().map(|width| take(*width)).collect();
    let publisher = take(second);
    [Constraint::Min(least), publisher, state].into_iter().chain(others).collect()
}

fn draw_table(
    frame: &mut Frame<'_>,
    area: Rect,
    headings: &[&'static str],
    rows: Vec<Row<'_>>,
    widths: Vec<Constraint>,
) {
    let head = headings.iter().enumerate().map(|(place, name)| match widths.get(place) {
        Some(Constraint::Length(_)) if !["publisher", "state"].contains(name) => number(name),
        _ => Cell::from(*name),
    });
    let head = Row::new(head.collect::<Vec<_>>()).style(Style::new().add_modifier(Modifier::BOLD));
    frame.render_widget(Table::new(rows, widths).header(head).column_spacing(1), area);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use report::Role;

    fn topic(name: &str, arrived: u64, max: f64) -> TopicRow {
        TopicRow {
            topic: name.to_owned(),
            publisher: format!("of-{name}"),
            state: if max > 10.0 { State::Broken } else { State::Met },
            arrived,
            late: u64::from(max > 10.0),
            why: (max > 10.0).then(|| "it was late".to_owned()),
            latency_max_ms: max,
            deadline_ms: 10.0,
            loss: "0".to_owned(),
            ..TopicRow::default()
        }
    }

    fn report(more: u64) -> PairReport {
        let topics = vec![topic("a", more, 2.0), topic("b", 3 * more, 9.0), topic("c", 0, 12.5)];
        let brokers = vec![BrokerRow { name: "a".to_owned(), role: Role::Primary, ..BrokerRow::default() }];
        PairReport { met: 2, broken: 1, topics, brokers, protected: true, ..PairReport::default() }
    }

    fn press(screen: &mut Screen, keys: &str) {
        keys.chars().for_each(|key| {
            let code = if key == '\n' { KeyCode::Enter } else { KeyCode::Char(key) };
            screen.press(KeyEvent::new(code, KeyModifiers::NONE));
        });
    }

    fn drawn(screen: &mut Screen, width: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, 24)).unwrap_or_else(|never| match never {});
        terminal.draw(|frame| screen.draw(frame)).unwrap_or_else(|never| match never {});
        let buffer = terminal.backend().buffer();
        let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..24).map(|y| row(y).trim_end().to_owned() + "\n").collect()
    }

    /// The names of topics, from the top.
    fn order(screen: &Screen) -> Vec<&str> {
        screen.topics().into_iter().map(|row| row.topic.as_str()).collect()
    }

    #[test]
    fn topics_are_sorted_and_filtered_by_keys() {
        let start = Instant::now();
        let mut screen = Screen::new(report(0), start);
        screen.take(report(10), start + Duration::from_secs(2));
        assert_eq!(order(&screen), ["c", "b", "a"], "by slack");
        press(&mut screen, "ssss");
        assert_eq!((screen.by, order(&screen)), (By::Rate, vec!["b", "a", "c"]));
        assert_eq!(screen.rate(&screen.report.topics[1]), 15.0);
        press(&mut screen, "s/a\n");
        assert_eq!((screen.by, order(&screen)), (By::Name, vec!["a"]));
        press(&mut screen, "/q");
        assert!(!screen.ends && order(&screen).is_empty(), "`q` is a character there");
        screen.press(KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE));
        assert_eq!(order(&screen).len(), 3);
        press(&mut screen, "q");
        assert!(screen.ends);
    }

    #[test]
    fn what_is_old_is_said_to_be() {
        let mut screen = Screen::new(report(0), Instant::now());
        screen.age = Some(Duration::from_secs(2));
        assert!(drawn(&mut screen, 100).contains("protected"));
        (screen.age, screen.trouble) = (Some(Duration::from_secs(9)), Some("nobody answers".to_owned()));
        let old = drawn(&mut screen, 100);
        assert!(
            old.contains("OLD: this is what was 9 s ago; nobody answers") && !old.contains("protected"),
            "{old}"
        );
    }

    #[test]
    fn a_new_primary_counts_from_zero() {
        let start = Instant::now();
        let mut screen = Screen::new(report(100), start);
        screen.take(report(1), start + Duration::from_secs(1));
        assert!(screen.report.topics.iter().all(|row| screen.rate(row) == 0.0));
    }

    #[test]
    fn what_matters_is_on_the_screen_however_narrow_it_is() {
        let mut screen = Screen::new(report(1), Instant::now());
        let wide = drawn(&mut screen, 140);
        for words in [
            "protected",
            "1 broken",
            "BROKEN: c, since it was late.",
            "-2.50",
            "of-c",
            "run/L",
            "0/0",
            "q quit",
        ] {
            assert!(wide.contains(words), "{words}: {wide}");
        }
        let narrow = drawn(&mut screen, 60);
        assert!(
            narrow.contains("broken") && narrow.contains("-2.50") && !narrow.contains("of-c"),
            "{narrow}"
        );
        press(&mut screen, "2");
        assert!(drawn(&mut screen, 100).contains("of-c"));
        press(&mut screen, "3?");
        assert!(drawn(&mut screen, 100).contains("Any key goes back"));
        press(&mut screen, "1jjjjjjjjjjjj");
        drawn(&mut screen, 100);
        assert_eq!(screen.first, 0, "all fit");
    }
}
