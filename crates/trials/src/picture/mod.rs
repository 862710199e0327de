//! A picture of one run: how long every message took, around what went wrong.
//!
//! Time goes to the right, the latency upwards and by powers of ten, since a message that was recovered took a hundred
//! times as long as one before. Every message is a dot; the deadlines are dashed.

mod axes;
mod legend;
pub mod palette;

use axes::Axes;
use config::{Config, TopicFamily};
use contract::Span;
use palette::colour;
use plotters::prelude::*;
use sim::{Act, Fault, Findings, Scenario, When};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;

/// A family of topics, as it is drawn.
pub struct Family {
    name: String,
    deadline: Span,
    /// Publishing time and latency of each message.
    dots: Vec<(Span, Span)>,
}

/// A moment at which something went wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark {
    /// Since the beginning.
    pub at: Span,
    /// What is written there.
    pub what: &'static str,
}

/// What is written where a broker dies.
pub const DEATH: &str = "a broker dies";

/// The deaths of a run, or if nobody died, the faults whose times are known.
pub fn marks(scenario: &Scenario, findings: &Findings) -> Vec<Mark> {
    if !findings.deaths.is_empty() {
        return findings.deaths.iter().map(|at| Mark { at: *at, what: DEATH }).collect();
    }
    let mark = |fault: &Fault| match fault.when {
        When::At(at) => Some(Mark { at, what: words(&fault.act) }),
        When::Settled(_) | When::After(_) => None,
    };
    scenario.faults.iter().filter_map(mark).collect()
}

fn words(act: &Act) -> &'static str {
    match act {
        Act::Crash { .. } | Act::HostCrash { .. } => "a crash",
        Act::Pause { .. } => "a process stands still",
        Act::Partition { .. } => "a cut in the network",
        Act::Break { .. } => "a connection breaks",
        Act::Handover => "a handover",
        Act::Graphs { .. } => "other operators",
        Act::Priorities { .. } => "other contracts",
        Act::ClockStep { .. } => "a clock is set",
        Act::Slow { .. } => "a slow processor",
    }
}

/// What else there is to see.
pub struct Scene<'a> {
    /// When something went wrong, and what.
    pub marks: &'a [Mark],
    /// How long the run lasted.
    pub lasted: Span,
    /// How long a failover may take.
    pub failover: Span,
    /// The run's seed.
    pub seed: u64,
}

const SIZE: (u32, u32) = (1280, 720);
const LEGEND_WIDTH: u32 = 290;
const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(40, 44, 52);
const FAINT: RGBColor = RGBColor(225, 229, 234);
const BAND: RGBColor = RGBColor(243, 239, 220);
/// More dots than this make a file that is slow to look at, and no better picture.
const DOTS_MAX: usize = 20_000;
/// With fewer than this, each may be larger.
const DOTS_FEW: usize = 2_500;
const DASH_PIXELS: i32 = 7;

/// The families of a run, each with its messages.
pub fn families(config: &Config, findings: &Findings, family_of: &BTreeMap<String, usize>) -> Vec<Family> {
    let family = |family: &TopicFamily| Family {
        name: family.rule.filter.to_string(),
        deadline: family.rule.contract.deadline,
        dots: Vec::new(),
    };
    let mut families: Vec<Family> = config.topics.iter().map(family).collect();
    for sample in &findings.samples {
        let topic = findings.streams.get(sample.stream as usize).map(|stream| &stream.topic);
        let place = topic.and_then(|topic| family_of.get(topic));
        if let Some(family) = place.and_then(|place| families.get_mut(*place)) {
            family.dots.push((sample.at, sample.latency));
        }
    }
    families
}

/// The picture, as SVG.
pub fn draw(families: &[Family], scene: &Scene<'_>) -> Result<String, Box<dyn Error>> {
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let (left, right) = root.split_horizontally(SIZE.0 - LEGEND_WIDTH);
        let axes = Axes::of(families, scene, left)?;
        if let Some(mark) = scene.marks.first().filter(|mark| mark.what == DEATH) {
            axes.band(mark.at, mark.at + scene.failover, &BAND)?;
        }
        axes.grid()?;
        draw_deadlines(&axes, families)?;
        for mark in scene.marks {
            axes.mark(*mark)?;
        }
        draw_dots(&axes, families)?;
        axes.title(scene)?;
        legend::draw(&right, families, scene)?;
        root.present()?;
    }
    Ok(text)
}

/// Each family's deadline as a dashed line. Where several have the same, their dashes take turns.
fn draw_deadlines(axes: &Axes<'_>, families: &[Family]) -> Result<(), Box<dyn Error>> {
    let mut by_deadline: BTreeMap<Span, Vec<usize>> = BTreeMap::new();
    for (index, family) in families.iter().enumerate() {
        by_deadline.entry(family.deadline).or_default().push(index);
    }
    for (deadline, sharers) in by_deadline {
        let Some(y) = axes.y(deadline) else { continue };
        let (mut x, end) = axes.horizontal();
        for sharer in sharers.iter().cycle() {
            if x >= end {
                break;
            }
            let colour = colour(*sharer, families.len());
            axes.line([(x, y), ((x + DASH_PIXELS).min(end), y)], colour.stroke_width(2))?;
            x += 2 * DASH_PIXELS;
        }
    }
    Ok(())
}

/// The messages, each place once; of very many places, every so manieth, but all of late messages.
fn draw_dots(axes: &Axes<'_>, families: &[Family]) -> Result<(), Box<dyn Error>> {
    let places = |family: &Family, wanted: bool| -> BTreeSet<(i32, i32)> {
        let is_wanted = |(_, latency): &&(Span, Span)| (*latency > family.deadline) == wanted;
        let dots = family.dots.iter().filter(is_wanted);
        dots.filter_map(|(at, latency)| Some((axes.x(*at)?, axes.y(*latency)?))).collect()
    };
    let in_time: Vec<BTreeSet<(i32, i32)>> = families.iter().map(|family| places(family, false)).collect();
    let total: usize = in_time.iter().map(BTreeSet::len).sum();
    let step = total.div_ceil(DOTS_MAX).max(1);
    let size = if total < DOTS_FEW { 3 } else { 2 };
    for (index, dots) in in_time.iter().enumerate() {
        let colour = colour(index, families.len()).mix(0.8);
        dots.iter().step_by(step).try_for_each(|place| axes.dot(*place, size, colour.filled()))?;
    }
    // Late ones last, so that nothing covers them.
    for (index, family) in families.iter().enumerate() {
        let colour = colour(index, families.len());
        for place in places(family, true) {
            axes.dot(place, size + 2, colour.stroke_width(1))?;
            axes.dot(place, size, colour.filled())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
