//! What came when, as a line of letters for each site.

use super::ledger::{RECEIVERS, Row, TICK, Tick};

/// The most letters that a line has.
const WIDTH: usize = 90;
/// From this part of what is published on it is all; below that one it is none.
const ALL: f64 = 0.8;
const NONE: f64 = 0.05;

/// Parts are named by letters.
pub fn letter(part: usize) -> char {
    char::from_u32('a' as u32 + part as u32).unwrap_or('?')
}

/// The lines, and what their signs mean.
pub fn draw(ticks: &[Tick], rows: &[Row]) -> String {
    // A moment that is not over yet says nothing.
    let ticks = &ticks[..ticks.len().saturating_sub(1)];
    let each = ticks.len().div_ceil(WIDTH).max(1);
    let seconds = each as f64 * TICK.as_secs_f64();
    let cells: Vec<Tick> = ticks.chunks(each).map(sum).collect();
    let indent = RECEIVERS.iter().map(|name| name.len()).max().unwrap_or(0) + 1;
    let parts = rows.iter().enumerate();
    let parts = parts.map(|(part, row)| ((row.at_seconds / seconds) as usize, letter(part).to_string()));
    let mut text = row("", indent, &marks(cells.len(), parts));
    for (site, name) in RECEIVERS.iter().enumerate() {
        text += &row(name, indent, &cells.iter().map(|cell| sign(cell, site)).collect::<String>());
    }
    let every = (10.0 / seconds).round().max(1.0) as usize;
    let scale = (0..cells.len()).step_by(every).map(|cell| (cell, format!("{:.0}", cell as f64 * seconds)));
    text += &row("", indent, &marks(cells.len(), scale));
    text + &format!("{:indent$}seconds; █ live, ▄ some live, ▓ live and backlog, ░ backlog, · nothing", "")
}

fn row(name: &str, indent: usize, signs: &str) -> String {
    format!("{name:indent$}{}\n", signs.trim_end())
}

/// Words at their places, as far as there is room.
fn marks(width: usize, words: impl Iterator<Item = (usize, String)>) -> String {
    let mut line = String::new();
    for (place, word) in words {
        if place >= line.chars().count() && place <= width {
            line = format!("{line:place$}{word}");
        }
    }
    line
}

fn sum(ticks: &[Tick]) -> Tick {
    let mut all = Tick::default();
    for tick in ticks {
        all.published += tick.published;
        for site in 0..RECEIVERS.len() {
            all.live[site] += tick.live[site];
            all.backlog[site] += tick.backlog[site];
        }
    }
    all
}

fn sign(cell: &Tick, site: usize) -> char {
    let part = |came: u32| f64::from(came) / f64::from(cell.published.max(1));
    match (part(cell.live[site]), part(cell.backlog[site])) {
        (live, backlog) if live >= ALL && backlog <= NONE => '█',
        (live, backlog) if live >= ALL && backlog > NONE => '▓',
        (live, _) if live > NONE => '▄',
        (_, backlog) if backlog > NONE => '░',
        _ => '·',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_is_drawn_and_what_happened_stands_above_it() {
        let tick = |live, backlog| Tick { published: 10, live: [live, 10], backlog: [backlog, 0] };
        let ticks = [tick(10, 0), tick(5, 0), tick(0, 0), tick(0, 90), tick(10, 5), tick(10, 0), tick(0, 0)];
        let part = |at_seconds| Row { what: String::new(), at_seconds, published: 0, sites: Vec::new() };
        let drawn = draw(&ticks, &[part(0.0), part(0.5)]);
        let lines: Vec<&str> = drawn.lines().collect();
        assert_eq!(lines[..3], ["      a b", "south █▄·░▓█", "east  ██████"]);
        assert_eq!(lines[3], "      0");
    }

    #[test]
    fn a_long_run_fits_the_screen() {
        let ticks = vec![Tick { published: 1, live: [1, 1], backlog: [0, 0] }; 1001];
        let drawn = draw(&ticks, &[]);
        assert!(drawn.lines().all(|line| line.chars().count() <= WIDTH + 6), "{drawn}");
    }
}
