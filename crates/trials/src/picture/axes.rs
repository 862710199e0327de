//! The axes of the picture: seconds to the right, milliseconds upwards by powers of ten.

use super::{FAINT, FONT, Family, INK, Mark, SIZE, Scene};
use contract::Span;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::error::Error;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Where times and latencies are on the picture. The grid is drawn by hand, since a library's powers of ten have no
/// lines in between.
pub struct Axes<'a> {
    area: Area<'a>,
    /// The time that is called zero.
    origin: Span,
    from: Span,
    until: Span,
    /// The logarithms of the least and the greatest latency in milliseconds.
    low: f64,
    high: f64,
    /// What the picture is around, if anything.
    around: Option<&'static str>,
}

/// Pixels around the plot.
const LEFT: i32 = 84;
const RIGHT: i32 = 12;
const TOP: i32 = 64;
const BOTTOM: i32 = 64;
/// So much is shown before the first death of a broker, at least, and twice as much after it.
const BEFORE_MIN: Span = Span::millis(500);
/// What is shown before, in failovers.
const BEFORE_FAILOVERS: u64 = 5;

impl<'a> Axes<'a> {
    /// Axes that hold the messages around the first thing that went wrong, or all of them.
    pub fn of(families: &[Family], scene: &Scene<'_>, area: Area<'a>) -> Result<Axes<'a>, Box<dyn Error>> {
        let (origin, from, until) = match scene.marks.first() {
            Some(mark) => {
                let before = BEFORE_MIN.max(scene.failover * BEFORE_FAILOVERS);
                (mark.at, mark.at - before, mark.at + before * 2)
            }
            None => (Span::ZERO, Span::ZERO, scene.lasted.max(Span::millis(1))),
        };
        let shown = |(at, _): &&(Span, Span)| (from..=until).contains(at);
        let latencies = families.iter().flat_map(|family| family.dots.iter().filter(shown)).map(|(_, l)| *l);
        let deadlines =
            families.iter().map(|family| family.deadline).filter(|deadline| !deadline.is_forever());
        let all: Vec<Span> = latencies.chain(deadlines).filter(|span| *span > Span::ZERO).collect();
        let least = all.iter().min().copied().unwrap_or(Span::micros(100));
        let most = all.iter().max().copied().unwrap_or(Span::secs(1));
        let (low, high) = (least.as_millis_f64().log10() - 0.15, most.as_millis_f64().log10() + 0.15);
        Ok(Axes { area, origin, from, until, low, high, around: scene.marks.first().map(|mark| mark.what) })
    }

    /// The first and the last pixel of the plot, from left to right.
    pub fn horizontal(&self) -> (i32, i32) {
        (LEFT, self.area.dim_in_pixel().0 as i32 - RIGHT)
    }

    fn vertical(&self) -> (i32, i32) {
        (TOP, SIZE.1 as i32 - BOTTOM)
    }

    /// Where a time is, if it is shown.
    pub fn x(&self, at: Span) -> Option<i32> {
        let (left, right) = self.horizontal();
        let part = (at - self.from).0 as f64 / (self.until - self.from).0 as f64;
        (0.0..=1.0).contains(&part).then(|| left + (part * f64::from(right - left)).round() as i32)
    }

    /// Where a latency is, if it is shown.
    pub fn y(&self, latency: Span) -> Option<i32> {
        let (top, bottom) = self.vertical();
        let part = (latency.as_millis_f64().log10() - self.low) / (self.high - self.low);
        let shown = !latency.is_forever() && (0.0..=1.0).contains(&part);
        shown.then(|| bottom - (part * f64::from(bottom - top)).round() as i32)
    }

    pub fn line(&self, ends: [(i32, i32); 2], style: impl Into<ShapeStyle>) -> Result<(), Box<dyn Error>> {
        Ok(self.area.draw(&PathElement::new(ends, style))?)
    }

    pub fn dot(&self, at: (i32, i32), size: i32, style: impl Into<ShapeStyle>) -> Result<(), Box<dyn Error>> {
        Ok(self.area.draw(&Circle::new(at, size, style))?)
    }

    fn text(&self, text: &str, at: (i32, i32), size: i32, place: Pos) -> Result<(), Box<dyn Error>> {
        let style = TextStyle::from((FONT, size).into_font()).color(&INK).pos(place);
        Ok(self.area.draw_text(text, &style, at)?)
    }

    /// A stretch of time, from top to bottom.
    pub fn band(&self, from: Span, until: Span, colour: &RGBColor) -> Result<(), Box<dyn Error>> {
        let ((top, bottom), (_, right)) = (self.vertical(), self.horizontal());
        let Some(from) = self.x(from) else { return Ok(()) };
        let until = self.x(until).unwrap_or(right);
        Ok(self.area.draw(&Rectangle::new([(from, top), (until, bottom)], colour.filled()))?)
    }

    /// Lines and numbers for both axes.
    pub fn grid(&self) -> Result<(), Box<dyn Error>> {
        let ((left, right), (top, bottom)) = (self.horizontal(), self.vertical());
        for exponent in self.low.floor() as i32..=self.high.ceil() as i32 {
            for digit in 1..10 {
                let nanos = f64::from(digit) * 10_f64.powi(exponent + 6);
                let Some(y) = self.y(Span(nanos.round() as i64)) else { continue };
                let labelled = matches!(digit, 1 | 2 | 5);
                let strength = if digit == 1 { 1.0 } else { 0.55 };
                self.line([(left, y), (right, y)], FAINT.mix(strength))?;
                if labelled {
                    let number = format!("{}", nanos / 1e6);
                    self.text(&number, (left - 8, y), 15, Pos::new(HPos::Right, VPos::Center))?;
                }
            }
        }
        for (at, label) in self.ticks() {
            let Some(x) = self.x(at) else { continue };
            self.line([(x, top), (x, bottom)], FAINT)?;
            self.text(&label, (x, bottom + 8), 15, Pos::new(HPos::Center, VPos::Top))?;
        }
        self.line([(left, bottom), (right, bottom)], INK)?;
        self.line([(left, top), (left, bottom)], INK)
    }

    /// Round times, about ten of them.
    fn ticks(&self) -> Vec<(Span, String)> {
        const STEPS: [i64; 9] = [1, 5, 10, 25, 50, 100, 250, 500, 1_000];
        let length = self.until - self.from;
        let fits = |step: &&i64| length.0 / (**step * 10_000_000) <= 14;
        let step = Span::millis(STEPS.iter().find(fits).map_or(length.0 / 10_000_000, |step| step * 10));
        let first = ((self.from - self.origin).0 as f64 / step.0 as f64).ceil() as i64;
        let last = (self.until - self.origin).0 / step.0.max(1);
        let tick = |number: i64| {
            let after = Span(step.0 * number);
            (self.origin + after, format!("{}", after.0 as f64 / 1e9))
        };
        (first..=last).map(tick).collect()
    }

    /// A line where something goes wrong.
    pub fn mark(&self, mark: Mark) -> Result<(), Box<dyn Error>> {
        let (top, bottom) = self.vertical();
        let Some(x) = self.x(mark.at) else { return Ok(()) };
        self.line([(x, top), (x, bottom)], INK.mix(0.55))?;
        self.text(mark.what, (x, top - 4), 15, Pos::new(HPos::Center, VPos::Bottom))
    }

    /// What this is, and what the axes are.
    pub fn title(&self, scene: &Scene<'_>) -> Result<(), Box<dyn Error>> {
        let ((left, right), (top, bottom)) = (self.horizontal(), self.vertical());
        let (title, time) = if let Some(around) = self.around {
            let at = format!("{:.3}", self.origin.0 as f64 / 1e9);
            let title = format!("Latency in the run with seed {}, around {at} s: {around}", scene.seed);
            (title, "published so many seconds after that")
        } else {
            (
                format!("Latency in the run with seed {}", scene.seed),
                "published so many seconds after the beginning",
            )
        };
        self.text(&title, (left, 12), 20, Pos::new(HPos::Left, VPos::Top))?;
        let middle = (left + right) / 2;
        self.text(time, (middle, bottom + 34), 16, Pos::new(HPos::Center, VPos::Top))?;
        let upwards = TextStyle::from((FONT, 16).into_font().transform(FontTransform::Rotate270));
        let upwards = upwards.color(&INK).pos(Pos::new(HPos::Center, VPos::Top));
        Ok(self.area.draw_text("latency in ms", &upwards, (14, (top + bottom) / 2))?)
    }
}
