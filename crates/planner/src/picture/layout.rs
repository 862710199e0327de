//! Where everything goes in the picture of graphs.
//!
//! Each node has a column, by how many steps are before it, and a band, by its level. A way over several columns has a place
//! in each of those between, so that it goes past nodes and not through them. Within a band, places are put in the order of
//! the middle of their neighbours, from left to right and back, a few times.

/// A node to be placed.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    /// Its column.
    pub column: usize,
    /// Its band.
    pub band: usize,
    /// How wide it is.
    pub width: f64,
    /// How high it is.
    pub height: f64,
}

/// Where a column or a band is.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Extent {
    /// Its beginning.
    pub from: f64,
    /// Its length.
    pub length: f64,
}

/// Where everything is.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The columns, from the left.
    pub columns: Vec<Extent>,
    /// The bands, from the top.
    pub bands: Vec<Extent>,
    /// The middle of each node's height.
    pub middles: Vec<f64>,
    /// The heights at which each edge passes the columns between its ends.
    pub passes: Vec<Vec<f64>>,
}

/// Between two places of a column.
const GAP: f64 = 14.0;
/// What an edge takes where it passes a column.
const PASS: f64 = 6.0;
/// Between a band's edge and its places.
const MARGIN: f64 = 18.0;
/// Between two columns.
const BETWEEN: f64 = 84.0;
/// How often places are put in order.
const SWEEPS: usize = 12;

/// A place in a column: of a node, or of an edge that passes.
struct Place {
    column: usize,
    band: usize,
    height: f64,
    middle: f64,
    left: Vec<usize>,
    right: Vec<usize>,
}

/// Places nodes and edges, given as pairs of nodes, in so many bands. `corner`: where the first column and band begin.
pub fn lay_out(nodes: &[Node], edges: &[(usize, usize)], bands: usize, corner: (f64, f64)) -> Layout {
    let place = |node: &Node| Place {
        column: node.column,
        band: node.band,
        height: node.height,
        middle: 0.0,
        left: Vec::new(),
        right: Vec::new(),
    };
    let mut places: Vec<Place> = nodes.iter().map(place).collect();
    let ways: Vec<Vec<usize>> = edges.iter().map(|(from, to)| pass(&mut places, *from, *to)).collect();
    let columns = columns(nodes, corner.0);
    let mut order: Vec<Vec<usize>> = vec![Vec::new(); columns.len()];
    (0..places.len()).for_each(|index| order[places[index].column].push(index));
    order.iter_mut().for_each(|column| column.sort_by_key(|index| places[*index].band));
    let bands = heights(&places, &order, bands, corner.1);
    stack(&mut places, &order, &bands);
    for sweep in 0..SWEEPS {
        let rightwards = sweep % 2 == 0;
        let mut turn: Vec<usize> = (0..order.len()).collect();
        if !rightwards {
            turn.reverse();
        }
        for column in turn {
            let wish = |index: usize| {
                let place = &places[index];
                let neighbours = if rightwards { &place.left } else { &place.right };
                let sum: f64 = neighbours.iter().map(|other| places[*other].middle).sum();
                if neighbours.is_empty() { place.middle } else { sum / neighbours.len() as f64 }
            };
            let mut wishes: Vec<(usize, f64, usize)> =
                order[column].iter().map(|index| (places[*index].band, wish(*index), *index)).collect();
            wishes.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
            order[column] = wishes.into_iter().map(|(_, _, index)| index).collect();
            stack(&mut places, &order[column..=column], &bands);
        }
    }
    Layout {
        columns,
        bands,
        middles: places[..nodes.len()].iter().map(|place| place.middle).collect(),
        passes: ways.iter().map(|way| way.iter().map(|index| places[*index].middle).collect()).collect(),
    }
}

/// Gives an edge a place in each column between its ends.
fn pass(places: &mut Vec<Place>, from: usize, to: usize) -> Vec<usize> {
    let (mut last, mut way) = (from, Vec::new());
    for column in places[from].column + 1..places[to].column {
        let (index, band) = (places.len(), places[to].band);
        let (left, right) = (vec![last], Vec::new());
        places.push(Place { column, band, height: PASS, middle: 0.0, left, right });
        places[last].right.push(index);
        way.push(index);
        last = index;
    }
    places[last].right.push(to);
    places[to].left.push(last);
    way
}

fn columns(nodes: &[Node], from: f64) -> Vec<Extent> {
    let count = nodes.iter().map(|node| node.column + 1).max().unwrap_or(0);
    let mut at = from;
    (0..count)
        .map(|column| {
            let widths = nodes.iter().filter(|node| node.column == column).map(|node| node.width);
            let length = widths.fold(0.0, f64::max);
            let extent = Extent { from: at, length };
            at += length + BETWEEN;
            extent
        })
        .collect()
}

/// Each band is as high as the fullest of its columns.
fn heights(places: &[Place], order: &[Vec<usize>], bands: usize, from: f64) -> Vec<Extent> {
    let mut at = from;
    (0..bands)
        .map(|band| {
            let fullest = order.iter().map(|column| needed(places, column, band)).fold(0.0, f64::max);
            let extent = Extent { from: at, length: fullest + 2.0 * MARGIN };
            at += extent.length;
            extent
        })
        .collect()
}

fn needed(places: &[Place], column: &[usize], band: usize) -> f64 {
    let heights = column.iter().map(|index| &places[*index]).filter(|place| place.band == band);
    heights.map(|place| place.height + GAP).sum::<f64>() - GAP
}

/// Puts the places of columns below each other, in the middle of their bands.
fn stack(places: &mut [Place], order: &[Vec<usize>], bands: &[Extent]) {
    for column in order {
        for (number, band) in bands.iter().enumerate() {
            let mut at = band.from + (band.length - needed(places, column, number)) / 2.0;
            for index in column {
                let place = &mut places[*index];
                if place.band == number {
                    place.middle = at + place.height / 2.0;
                    at += place.height + GAP;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(column: usize, band: usize) -> Node {
        Node { column, band, width: 100.0, height: 40.0 }
    }

    #[test]
    fn nodes_of_a_column_do_not_overlap_and_stay_in_their_bands() {
        let nodes = [node(0, 0), node(0, 0), node(0, 1), node(1, 0), node(1, 1), node(2, 1)];
        let edges = [(0, 3), (1, 3), (2, 4), (0, 5), (3, 5), (4, 5)];
        let layout = lay_out(&nodes, &edges, 2, (10.0, 20.0));
        for (index, node) in nodes.iter().enumerate() {
            let (middle, band) = (layout.middles[index], layout.bands[node.band]);
            assert!(middle - 20.0 >= band.from && middle + 20.0 <= band.from + band.length);
            for (other, placed) in nodes.iter().enumerate().skip(index + 1) {
                let apart = (middle - layout.middles[other]).abs() >= 40.0;
                assert!(node.column != placed.column || apart, "{index} and {other}");
            }
        }
        assert_eq!(layout.passes.iter().map(Vec::len).collect::<Vec<_>>(), [0, 0, 0, 1, 0, 0]);
        assert!((layout.passes[3][0] - layout.middles[4]).abs() >= 20.0, "it goes through a node");
    }

    #[test]
    fn edges_that_need_not_cross_do_not() {
        let nodes = [node(0, 0), node(0, 0), node(1, 0), node(1, 0)];
        let layout = lay_out(&nodes, &[(0, 3), (1, 2)], 1, (0.0, 0.0));
        assert_eq!(layout.middles[0] < layout.middles[1], layout.middles[3] < layout.middles[2]);
    }
}
