//! The picture: the angle of both poles, and what was wrong meanwhile.

use super::report::BOUND_DEGREES;
use super::script::{Part, Phase};
use super::stand::SAMPLE;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::error::Error;
use trials::picture::palette::colour;

const SIZE: (u32, u32) = (1280, 640);
const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(40, 44, 52);
const FAINT: RGBColor = RGBColor(215, 219, 224);
/// What is shown upwards and downwards, in degrees; whoever leaves it has fallen.
const SHOWN: f64 = 50.0;
/// How many dashes and gaps fit into the width.
const DASHES: f64 = 160.0;
/// The colours of the two curves, of those that are told apart easily.
const WITH: usize = 0;
const WITHOUT: usize = 1;

/// Draws angles (in rad, every [`SAMPLE`]) as SVG, on white, which is readable in light and dark surroundings.
pub fn draw(with: &[f64], without: &[f64], phases: &[Phase]) -> Result<String, Box<dyn Error>> {
    let seconds = phases.last().map_or(0.0, |phase| phase.until.0 as f64 / 1e9);
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let dash_seconds = seconds / DASHES;
        let title = "An inverted pendulum, four replicas of its controller, and a liar among them";
        let mut chart = ChartBuilder::on(&root)
            .caption(title, (FONT, 20).into_font().color(&INK))
            .margin(12)
            .x_label_area_size(48)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..seconds, -SHOWN..SHOWN)?;
        for phase in phases {
            let (from, until) = (phase.from.0 as f64 / 1e9, phase.until.0 as f64 / 1e9);
            let shade = Rectangle::new([(from, -SHOWN), (until, SHOWN)], shade(phase.part).filled());
            chart.draw_series([shade])?;
        }
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(FAINT)
            .axis_style(INK)
            .label_style((FONT, 15).into_font().color(&INK))
            .axis_desc_style((FONT, 16).into_font().color(&INK))
            .x_desc("seconds since the poles were let go; both are pushed at the same moments")
            .y_desc("angle from upright in degrees")
            .x_labels(19)
            .x_label_formatter(&|seconds| format!("{seconds:.0}"))
            .y_label_formatter(&|degrees| format!("{degrees:.0}"))
            .draw()?;
        for phase in phases {
            let middle = (phase.from + phase.until).0 as f64 / 2e9;
            let place = Pos::new(HPos::Center, VPos::Top);
            let style = (FONT, 16).into_font().color(&INK).pos(place);
            chart.draw_series([Text::new(phase.part.name(), (middle, SHOWN - 2.0), style)])?;
        }
        for bound in [BOUND_DEGREES, -BOUND_DEGREES] {
            let dash = |from: f64| {
                PathElement::new([(from, bound), ((from + dash_seconds).min(seconds), bound)], INK.mix(0.6))
            };
            let places = (0..).map(|number| f64::from(number) * 2.0 * dash_seconds);
            chart.draw_series(places.take_while(|from| *from < seconds).map(dash))?;
        }
        for (angles, name, index) in [(without, "without the store", WITHOUT), (with, "with the store", WITH)]
        {
            let style = colour(index, 2).stroke_width(2);
            let curve = PathElement::new(points(angles).collect::<Vec<_>>(), style);
            chart
                .draw_series([curve])?
                .label(name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 24, y)], style));
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerLeft)
            .legend_area_size(32)
            .margin(14)
            .label_font((FONT, 16).into_font().color(&INK))
            .background_style(WHITE.mix(0.85))
            .border_style(FAINT)
            .draw()?;
        root.present()?;
    }
    Ok(text)
}

/// Until a pole has left what is shown: from then on it lies, and there is nothing to see.
fn points(angles: &[f64]) -> impl Iterator<Item = (f64, f64)> {
    let degrees = angles.iter().map(|angle| angle.to_degrees());
    let mut has_left = false;
    let shown = degrees.take_while(move |angle| !std::mem::replace(&mut has_left, angle.abs() > SHOWN));
    shown
        .enumerate()
        .map(|(sample, angle)| (sample as f64 * SAMPLE.0 as f64 / 1e9, angle.clamp(-SHOWN, SHOWN)))
}

fn shade(part: Part) -> RGBColor {
    match part {
        Part::Calm | Part::Honest | Part::Back => RGBColor(255, 255, 255),
        Part::Lying => RGBColor(250, 232, 224),
        Part::Dead => RGBColor(233, 235, 240),
    }
}

#[cfg(test)]
mod tests {
    use super::super::script::phases;
    use super::*;

    #[test]
    fn a_picture_names_curves_parts_and_axes() {
        let standing = vec![0.01; 1_800];
        let falling: Vec<f64> = (0..1_800).map(|sample| f64::from(sample) / 600.0).collect();
        let text = draw(&standing, &falling, &phases(18)).unwrap();
        for expected in
            ["<svg", "d lies", "node d is dead", "degrees", "seconds", "with the store", "without the store"]
        {
            assert!(text.contains(expected), "lacks {expected}");
        }
    }

    #[test]
    fn a_curve_ends_where_the_pole_has_left_the_picture() {
        let angles = [0.0, 0.5, 1.2, 1.5, 0.0];
        let shown: Vec<f64> = points(&angles).map(|(_, degrees)| degrees.round()).collect();
        assert_eq!(shown, [0.0, 29.0, 50.0]);
    }
}
