//! The picture of graphs: levels as bands, suppliers on the left, outputs on the right. What goes from level to level is dashed.

mod layout;

use crate::study::{GraphRow, OperatorRow, OutputRow, SourceRow, Study};
use layout::{Extent, Layout, Node, lay_out};
use std::collections::BTreeMap;
use std::fmt::Write;

/// What is written in a box: a heading and smaller lines.
struct Drawn {
    shape: Shape,
    lines: Vec<String>,
    /// What a browser shows when it is pointed at.
    title: String,
    is_bad: bool,
    node: Node,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Source,
    Operator,
    Output,
}

const HEADING: f64 = 12.0;
const SMALL: f64 = 10.0;
/// How wide a letter is, for a size of one.
const LETTER: f64 = 0.6;
const LINE: f64 = 14.0;
const PADDING: f64 = 9.0;
/// Longer texts are cut.
const LETTERS_MAX: usize = 34;
/// Left of the first column: the names of the bands.
const LEFT: f64 = 92.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 34.0;
const INK: &str = "#23272e";
const QUIET: &str = "#565c66";
const BAD: &str = "#b3261e";
const BANDS: [&str; 4] = ["#f7efdd", "#e6eff7", "#eceee9", "#f2eaf2"];

/// Draws all graphs into one picture.
pub fn draw(study: &Study, rows: &[GraphRow]) -> String {
    let levels = study.levels().len();
    let (drawn, edges) = scene(rows, levels);
    let has_idle = drawn.iter().any(|drawn| drawn.node.band == levels);
    let bands = levels + usize::from(has_idle);
    let nodes: Vec<Node> = drawn.iter().map(|drawn| drawn.node).collect();
    let layout = lay_out(&nodes, &edges, bands, (LEFT, TOP));
    let right = layout.columns.last().map_or(LEFT, |column| column.from + column.length) + 24.0;
    let width = right.max(560.0);
    let lower = layout.bands.last().map_or(TOP, |band| band.from + band.length);
    let mut text = String::new();
    let height = lower + BOTTOM;
    let _ = writeln!(
        text,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} \
         {height:.0}\" font-family=\"sans-serif\" fill=\"{INK}\">"
    );
    let _ = writeln!(text, "<rect width=\"{width:.0}\" height=\"{height:.0}\" fill=\"#ffffff\"/>");
    heading(&mut text, study);
    for (number, band) in layout.bands.iter().enumerate() {
        draw_band(&mut text, number, levels, *band, width, study);
    }
    for (edge, passes) in edges.iter().zip(&layout.passes) {
        draw_edge(&mut text, &drawn, *edge, &layout, passes);
    }
    for (drawn, middle) in drawn.iter().zip(&layout.middles) {
        draw_box(&mut text, drawn, layout.columns[drawn.node.column], *middle);
    }
    legend(&mut text, lower + 22.0);
    text.push_str("</svg>\n");
    text
}

/// The boxes, and which leads to which.
fn scene(rows: &[GraphRow], levels: usize) -> (Vec<Drawn>, Vec<(usize, usize)>) {
    let (mut drawn, mut edges) = (Vec::new(), Vec::new());
    let last =
        rows.iter().map(|graph| columns(graph).values().max().copied().unwrap_or(0)).max().unwrap_or(0);
    for graph in rows {
        let columns = columns(graph);
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        for source in &graph.sources {
            places.insert(&source.topic, drawn.len());
            drawn.push(source_box(source, graph.instances, levels));
        }
        for operator in &graph.operators {
            places.insert(&operator.name, drawn.len());
            let column = columns.get(operator.name.as_str()).copied().unwrap_or(1);
            drawn.push(operator_box(operator, column, levels));
        }
        for operator in &graph.operators {
            let inputs = operator.inputs.iter().filter_map(|input| places.get(input.as_str()));
            edges.extend(inputs.map(|input| (*input, places[operator.name.as_str()])));
        }
        for output in &graph.outputs {
            edges.push((places[output.operator.as_str()], drawn.len()));
            drawn.push(output_box(output, last + 1));
        }
    }
    (drawn, edges)
}

/// How many steps are before each operator, itself included.
fn columns(graph: &GraphRow) -> BTreeMap<&str, usize> {
    let mut columns: BTreeMap<&str, usize> = BTreeMap::new();
    // Each round settles at least one more.
    for _ in 0..graph.operators.len() {
        for operator in &graph.operators {
            let before = operator.inputs.iter().filter_map(|input| columns.get(input.as_str()));
            let column = 1 + before.max().copied().unwrap_or(0);
            columns.insert(&operator.name, column);
        }
    }
    columns
}

fn source_box(source: &SourceRow, instances: u32, levels: usize) -> Drawn {
    let mut what = source.payload.clone();
    if instances > 1 && source.topic.contains('+') {
        what = format!("{instances} × {what}");
    }
    let times = format!("{}, valid {}", every(source.period_ms), valid(source.validity_ms));
    let band = source.level.map_or(levels, usize::from);
    boxed(Shape::Source, &source.topic, vec![what, times], (0, band), false)
}

fn operator_box(operator: &OperatorRow, column: usize, levels: usize) -> Drawn {
    let cost = format!("{} → {}", operator.kind, operator.payload);
    let takes = format!("takes {}, valid {}", micros(operator.cost_us), valid(operator.validity_ms));
    let mut lines = vec![cost, takes];
    if operator.sheds {
        lines.push("may shed".to_owned());
    }
    let band = operator.level.map_or(levels, usize::from);
    boxed(Shape::Operator, &operator.name, lines, (column, band), operator.sheds)
}

fn output_box(output: &OutputRow, column: usize) -> Drawn {
    let bound =
        output.bound_ms.map_or("no bound".to_owned(), |bound| format!("at most {}", micros(bound * 1e3)));
    let due = output.deadline_ms.map_or("no deadline".to_owned(), |due| format!("due {}", micros(due * 1e3)));
    let mut lines = vec![format!("{bound}, {due}")];
    if !output.kept {
        lines.push("NOT KEPT".to_owned());
    }
    boxed(Shape::Output, &output.topic, lines, (column, usize::from(output.level)), !output.kept)
}

fn boxed(
    shape: Shape,
    heading: &str,
    small: Vec<String>,
    (column, band): (usize, usize),
    is_bad: bool,
) -> Drawn {
    let title = std::iter::once(heading.to_owned()).chain(small.clone()).collect::<Vec<_>>().join("\n");
    let lines: Vec<String> =
        std::iter::once(heading.to_owned()).chain(small).map(|line| cut(&line)).collect();
    let size = |number: usize| if number == 0 { HEADING } else { SMALL };
    let widths = lines.iter().enumerate().map(|(n, line)| line.chars().count() as f64 * LETTER * size(n));
    let width = widths.fold(60.0, f64::max) + 2.0 * PADDING;
    let height = lines.len() as f64 * LINE + PADDING;
    Drawn { shape, lines, title, is_bad, node: Node { column, band, width, height } }
}

fn cut(text: &str) -> String {
    if text.chars().count() <= LETTERS_MAX {
        return text.to_owned();
    }
    text.chars().take(LETTERS_MAX - 1).chain(['…']).collect()
}

fn every(period_ms: Option<f64>) -> String {
    period_ms.map_or("rare".to_owned(), |ms| format!("every {}", micros(ms * 1e3)))
}

fn valid(validity_ms: Option<f64>) -> String {
    validity_ms.map_or("always".to_owned(), |ms| micros(ms * 1e3))
}

/// A time in the unit in which it is short.
fn micros(us: f64) -> String {
    let (value, unit) = match us {
        us if us >= 1e6 => (us / 1e6, "s"),
        us if us >= 1e3 => (us / 1e3, "ms"),
        us => (us, "µs"),
    };
    let text = format!("{value:.2}");
    format!("{} {unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

fn heading(text: &mut String, study: &Study) {
    let order = if study.processors.preemptive { "with" } else { "without" };
    let said = format!("Operators on {:.2} processors, {order} preemption", study.capacity());
    let _ = writeln!(
        text,
        "<text x=\"16\" y=\"27\" font-size=\"15\" font-weight=\"bold\">{}</text>",
        escape(&said)
    );
}

fn draw_band(text: &mut String, number: usize, levels: usize, band: Extent, width: f64, study: &Study) {
    let fill = if number < levels { BANDS[number % BANDS.len()] } else { "#ffffff" };
    let Extent { from, length } = band;
    let _ = writeln!(
        text,
        "<rect x=\"8\" y=\"{from:.1}\" width=\"{:.1}\" height=\"{length:.1}\" fill=\"{fill}\" stroke=\"#ffffff\" \
         stroke-width=\"3\"/>",
        width - 16.0
    );
    let (name, load) = match study.levels().get(number) {
        Some(row) => (format!("level {number}"), format!("{:.1} % CPU", row.utilisation * 100.0)),
        None => ("no output".to_owned(), "never runs".to_owned()),
    };
    let middle = from + length / 2.0;
    label(text, (18.0, middle - 3.0), HEADING, "bold", INK, &name);
    label(text, (18.0, middle + 12.0), SMALL, "normal", QUIET, &load);
}

fn draw_edge(
    text: &mut String,
    drawn: &[Drawn],
    (from, to): (usize, usize),
    layout: &Layout,
    passes: &[f64],
) {
    let (source, target) = (&drawn[from].node, &drawn[to].node);
    let dashes = if source.band == target.band { "" } else { " stroke-dasharray=\"6 4\"" };
    let begin = layout.columns[source.column].from + source.width;
    let mut at = (begin, layout.middles[from]);
    let mut path = format!("M{:.1} {:.1}", at.0, at.1);
    // The end of a column's boxes that are narrower is reached straight.
    let straight = layout.columns[source.column].from + layout.columns[source.column].length;
    let _ = write!(path, " H{straight:.1}");
    at.0 = straight;
    for (number, pass) in passes.iter().enumerate() {
        let column = layout.columns[source.column + 1 + number];
        curve(&mut path, at, (column.from, *pass));
        let _ = write!(path, " H{:.1}", column.from + column.length);
        at = (column.from + column.length, *pass);
    }
    let end = layout.columns[target.column].from;
    curve(&mut path, at, (end - 6.0, layout.middles[to]));
    let _ =
        writeln!(text, "<path d=\"{path}\" fill=\"none\" stroke=\"{QUIET}\" stroke-width=\"1.3\"{dashes}/>");
    let y = layout.middles[to];
    let _ = writeln!(
        text,
        "<path d=\"M{:.1} {:.1} L{end:.1} {y:.1} L{:.1} {:.1} Z\" fill=\"{QUIET}\"/>",
        end - 8.0,
        y - 4.0,
        end - 8.0,
        y + 4.0
    );
}

fn curve(path: &mut String, from: (f64, f64), to: (f64, f64)) {
    let half = f64::midpoint(from.0, to.0);
    let _ = write!(path, " C{half:.1} {:.1} {half:.1} {:.1} {:.1} {:.1}", from.1, to.1, to.0, to.1);
}

fn draw_box(text: &mut String, drawn: &Drawn, column: Extent, middle: f64) {
    let Node { width, height, .. } = drawn.node;
    let (x, y) = (column.from, middle - height / 2.0);
    let stroke = if drawn.is_bad { BAD } else { INK };
    let (radius, thickness) = match drawn.shape {
        Shape::Source => (height / 2.0, 1.0),
        Shape::Operator => (3.0, 1.3),
        Shape::Output => (0.0, 2.2),
    };
    let _ = writeln!(text, "<g><title>{}</title>", escape(&drawn.title));
    let _ = writeln!(
        text,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"{radius:.1}\" fill=\"#ffffff\" \
         stroke=\"{stroke}\" stroke-width=\"{thickness}\"/>"
    );
    for (number, line) in drawn.lines.iter().enumerate() {
        let (size, weight, fill) =
            if number == 0 { (HEADING, "bold", INK) } else { (SMALL, "normal", QUIET) };
        let fill = if drawn.is_bad && number > 0 && number + 1 == drawn.lines.len() { BAD } else { fill };
        let at = (x + width / 2.0, y + LINE * (number as f64 + 1.0));
        let _ = writeln!(
            text,
            "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"{size}\" font-weight=\"{weight}\" fill=\"{fill}\" \
             text-anchor=\"middle\">{}</text>",
            at.0,
            at.1,
            escape(line)
        );
    }
    text.push_str("</g>\n");
}

fn label(text: &mut String, at: (f64, f64), size: f64, weight: &str, fill: &str, said: &str) {
    let _ = writeln!(
        text,
        "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"{size}\" font-weight=\"{weight}\" fill=\"{fill}\">{}</text>",
        at.0,
        at.1,
        escape(said)
    );
}

fn legend(text: &mut String, y: f64) {
    let line = |text: &mut String, x: f64, dashes: &str| {
        let _ = writeln!(
            text,
            "<path d=\"M{x:.1} {:.1} H{:.1}\" stroke=\"{QUIET}\" stroke-width=\"1.3\"{dashes}/>",
            y - 4.0,
            x + 34.0
        );
    };
    line(text, 18.0, "");
    label(text, (58.0, y), SMALL, "normal", QUIET, "within a level");
    line(text, 150.0, " stroke-dasharray=\"6 4\"");
    label(text, (190.0, y), SMALL, "normal", QUIET, "handed to another level");
    label(text, (330.0, y), SMALL, "normal", QUIET, "round: source, thick: output");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
