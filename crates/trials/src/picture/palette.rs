//! Colours for families of topics.

use plotters::style::{Color, HSLColor, RGBColor};

/// Colours that people with any kind of sight can tell apart (Okabe and Ito), the darker ones first.
const DISTINCT: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
];

/// The colour of one of so many families.
pub fn colour(index: usize, count: usize) -> RGBColor {
    if count <= DISTINCT.len() {
        return DISTINCT[index % DISTINCT.len()];
    }
    // Around the wheel, with three different kinds of brightness for neighbours.
    let (lightness, saturation) = [(0.40, 0.75), (0.58, 0.70), (0.28, 0.60)][index % 3];
    let (r, g, b) = HSLColor(index as f64 / count as f64, saturation, lightness).to_rgba().rgb();
    RGBColor(r, g, b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_family_has_its_own_colour() {
        for count in [1, 6, 7, 8, 20, 60] {
            let colours: BTreeSet<_> =
                (0..count).map(|index| colour(index, count)).map(|c| (c.0, c.1, c.2)).collect();
            assert_eq!(colours.len(), count);
        }
    }
}
