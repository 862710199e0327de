//! The legend, beside the plot so that it covers nothing.

use super::palette::colour;
use super::{BAND, DEATH, FONT, Family, INK, SIZE, Scene};
use contract::Span;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::error::Error;

/// Entries that fit.
const ENTRIES_MAX: usize = 28;
const ROW_MAX: i32 = 26;
const TOP: i32 = 64;
/// Room below, for what the signs mean.
const NOTES: i32 = 118;
/// Letters of a filter that fit beside its deadline.
const NAME_LETTERS_MAX: usize = 27;
const RIGHT: i32 = 274;

/// Writes which colour is which family, and what the other signs mean.
pub fn draw(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    families: &[Family],
    scene: &Scene<'_>,
) -> Result<(), Box<dyn Error>> {
    let write = |text: &str, x: i32, y: i32, size: i32, place: HPos| {
        let style = TextStyle::from((FONT, size).into_font()).color(&INK);
        area.draw_text(text, &style.pos(Pos::new(place, VPos::Center)), (x, y))
    };
    write("topics", 28, TOP - 22, 15, HPos::Left)?;
    write("deadline", RIGHT, TOP - 22, 15, HPos::Right)?;
    let shown = if families.len() > ENTRIES_MAX { ENTRIES_MAX - 1 } else { families.len() };
    let rows = if shown < families.len() { shown + 1 } else { shown };
    let height = ((SIZE.1 as i32 - TOP - NOTES) / rows.max(1) as i32).min(ROW_MAX);
    let mut y = TOP + height / 2;
    for (index, family) in families.iter().take(shown).enumerate() {
        let colour = colour(index, families.len());
        area.draw(&Circle::new((14, y), 5, colour.filled()))?;
        write(&shortened(&family.name), 28, y, 15, HPos::Left)?;
        write(&deadline(family.deadline), RIGHT, y, 15, HPos::Right)?;
        y += height;
    }
    if shown < families.len() {
        write(&format!("and {} more", families.len() - shown), 28, y, 15, HPos::Left)?;
        y += height;
    }
    y += 22;
    let middle = INK.stroke_width(2);
    area.draw(&PathElement::new([(6, y), (12, y)], middle))?;
    area.draw(&PathElement::new([(16, y), (22, y)], middle))?;
    write("deadlines, in their colours", 28, y, 14, HPos::Left)?;
    y += 22;
    area.draw(&Circle::new((14, y), 2, INK.filled()))?;
    area.draw(&Circle::new((14, y), 4, INK.stroke_width(1)))?;
    write("ringed: later than its deadline", 28, y, 14, HPos::Left)?;
    if scene.marks.first().is_some_and(|mark| mark.what == DEATH) {
        y += 22;
        area.draw(&Rectangle::new([(6, y - 7), (22, y + 7)], BAND.filled()))?;
        write(&format!("network.failover = {}", scene.failover), 28, y, 14, HPos::Left)?;
    }
    Ok(())
}

fn deadline(span: Span) -> String {
    if span.is_forever() { "none".to_owned() } else { span.to_string() }
}

/// The beginning and the end of a long name, since either may be what makes the difference.
fn shortened(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= NAME_LETTERS_MAX {
        return name.to_owned();
    }
    let kept = NAME_LETTERS_MAX / 2;
    let begin: String = letters[..kept].iter().collect();
    let end: String = letters[letters.len() - kept..].iter().collect();
    format!("{begin}…{end}")
}
