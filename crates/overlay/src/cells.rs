//! The area as a quadtree of fixed depth: which part of it is whose.
//!
//! The area is halved four times in each direction at most, so that there are 256 smallest cells. They are numbered along a Z-curve:
//! each quarter of a quarter is a run of numbers, and any set of regions is 256 bits.

use contract::Location;
use std::fmt;

/// How often the area is quartered at most.
pub const DEPTH: u32 = 4;
/// How many smallest cells there are.
pub const CELLS: usize = 1 << (2 * DEPTH);

/// What the overlay covers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Extent {
    south_west: Location,
    north_east: Location,
}

/// Why something is no extent.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
#[error("the area from {0} to {1} is empty: its first corner lies south and west of its second")]
pub struct EmptyExtent(Location, Location);

impl Extent {
    /// From its corner in the south-west to that in the north-east.
    pub fn new(south_west: Location, north_east: Location) -> Result<Extent, EmptyExtent> {
        if south_west.lat() < north_east.lat() && south_west.long() < north_east.long() {
            Ok(Extent { south_west, north_east })
        } else {
            Err(EmptyExtent(south_west, north_east))
        }
    }

    /// The smallest cell in which something is. What lies outside counts with the cell at the border. A point on a line between
    /// cells lies in the south and in the west of it.
    pub fn cell_of(&self, location: Location) -> Cell {
        let steps = f64::from(1 << DEPTH);
        let step = |at: f64, from: f64, to: f64| {
            let scaled = (at - from) / (to - from) * steps;
            (scaled.ceil() as i64 - 1).clamp(0, (1 << DEPTH) - 1) as u32
        };
        let north = step(location.lat(), self.south_west.lat(), self.north_east.lat());
        let east = step(location.long(), self.south_west.long(), self.north_east.long());
        let bit = |of: u32, level: u32| (of >> level) & 1;
        let index =
            (0..DEPTH).rev().fold(0, |index, level| index << 2 | bit(north, level) << 1 | bit(east, level));
        Cell(index as u8)
    }

    /// The corners of a block: in the south-west and in the north-east, each as latitude and longitude.
    pub fn corners(&self, block: Block) -> [(f64, f64); 2] {
        let (mut low, mut high) = (
            (self.south_west.lat(), self.south_west.long()),
            (self.north_east.lat(), self.north_east.long()),
        );
        for level in (0..block.depth).rev() {
            let quarter = block.index >> (2 * level) & 3;
            let middle = (f64::midpoint(low.0, high.0), f64::midpoint(low.1, high.1));
            if quarter & 2 == 0 {
                high.0 = middle.0;
            } else {
                low.0 = middle.0;
            }
            if quarter & 1 == 0 { high.1 = middle.1 } else { low.1 = middle.1 }
        }
        [low, high]
    }

    /// The smallest cells that a box touches, given by its corners as latitude and longitude.
    pub fn cells_in(&self, south_west: Location, north_east: Location) -> Cells {
        let mut cells = Cells::NONE;
        for cell in Cells::ALL.iter() {
            let [low, high] = self.corners(Block { depth: DEPTH, index: u32::from(cell.0) });
            let touches = low.0 <= north_east.lat()
                && high.0 >= south_west.lat()
                && low.1 <= north_east.long()
                && high.1 >= south_west.long();
            if touches {
                cells.insert(cell);
            }
        }
        // What lies outside of all counts with the border.
        cells.insert(self.cell_of(south_west));
        cells.insert(self.cell_of(north_east));
        cells
    }
}

/// One smallest cell.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Cell(pub u8);

/// A square of the quadtree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Block {
    /// How often the area was quartered to come to it: 0 is all of it.
    pub depth: u32,
    /// Which of its depth: two bits for each quartering, the first north or south (1 or 0), the second east or west.
    pub index: u32,
}

impl Block {
    /// All of the area.
    pub const ALL: Block = Block { depth: 0, index: 0 };

    /// Its cells.
    pub fn cells(self) -> Cells {
        let each = CELLS >> (2 * self.depth);
        let first = self.index as usize * each;
        let mut cells = Cells::NONE;
        for index in first..first + each {
            cells.insert(Cell(index as u8));
        }
        cells
    }

    /// Its quarters: south-west, south-east, north-west, north-east. None at the greatest depth.
    pub fn quarters(self) -> Option<[Block; 4]> {
        let quarter = |index| Block { depth: self.depth + 1, index: self.index << 2 | index };
        (self.depth < DEPTH).then(|| [quarter(0), quarter(1), quarter(2), quarter(3)])
    }
}

impl fmt::Display for Block {
    /// The quarters to it from all of the area, as in `ne.sw`; all of it is `all`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.depth == 0 {
            return f.write_str("all");
        }
        for level in (0..self.depth).rev() {
            let name = ["sw", "se", "nw", "ne"][(self.index >> (2 * level) & 3) as usize];
            write!(f, "{name}{}", if level > 0 { "." } else { "" })?;
        }
        Ok(())
    }
}

/// Some of the cells.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Cells([u64; CELLS / 64]);

impl Cells {
    /// None.
    pub const NONE: Cells = Cells([0; CELLS / 64]);
    /// All of them.
    pub const ALL: Cells = Cells([u64::MAX; CELLS / 64]);

    /// Adds a cell.
    pub fn insert(&mut self, cell: Cell) {
        self.0[usize::from(cell.0) / 64] |= 1 << (cell.0 % 64);
    }

    /// Whether a cell is one of them.
    pub fn contains(self, cell: Cell) -> bool {
        self.0[usize::from(cell.0) / 64] & (1 << (cell.0 % 64)) != 0
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self == Cells::NONE
    }

    /// How many there are.
    pub fn count(self) -> u32 {
        self.0.iter().map(|bits| bits.count_ones()).sum()
    }

    /// Those of both.
    #[must_use]
    pub fn and(self, other: Cells) -> Cells {
        Cells(std::array::from_fn(|at| self.0[at] & other.0[at]))
    }

    /// Those of either.
    #[must_use]
    pub fn or(self, other: Cells) -> Cells {
        Cells(std::array::from_fn(|at| self.0[at] | other.0[at]))
    }

    /// Those that are not of the other.
    #[must_use]
    pub fn without(self, other: Cells) -> Cells {
        Cells(std::array::from_fn(|at| self.0[at] & !other.0[at]))
    }

    /// Each, in the order of the curve.
    pub fn iter(self) -> impl Iterator<Item = Cell> {
        (0..=u8::MAX).map(Cell).filter(move |cell| self.contains(*cell))
    }

    /// The first in the order of the curve.
    pub fn first(self) -> Option<Cell> {
        self.iter().next()
    }

    /// The fewest blocks that make it up, in the order of the curve.
    pub fn blocks(self) -> Vec<Block> {
        let mut found = Vec::new();
        self.blocks_in(Block::ALL, &mut found);
        found
    }

    fn blocks_in(self, block: Block, found: &mut Vec<Block>) {
        let cells = block.cells();
        if self.and(cells) == cells {
            found.push(block);
        } else if !self.and(cells).is_empty()
            && let Some(quarters) = block.quarters()
        {
            for quarter in quarters {
                self.blocks_in(quarter, found);
            }
        }
    }

    /// As bytes, the first cell in the lowest bit of the first.
    pub fn to_bytes(self) -> [u8; CELLS / 8] {
        let mut bytes = [0; CELLS / 8];
        for (to, from) in bytes.chunks_exact_mut(8).zip(self.0) {
            to.copy_from_slice(&from.to_le_bytes());
        }
        bytes
    }

    /// From such bytes.
    pub fn from_bytes(bytes: [u8; CELLS / 8]) -> Cells {
        let mut cells = Cells::NONE;
        for (to, from) in cells.0.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *to = u64::from_le_bytes(*from);
        }
        cells
    }
}

impl fmt::Display for Cells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.blocks().iter().map(Block::to_string).collect();
        f.write_str(if names.is_empty() { "none" } else { "" })?;
        f.write_str(&names.join("+"))
    }
}

impl fmt::Debug for Cells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(lat: f64, long: f64) -> Location {
        Location::new(lat, long).unwrap()
    }

    fn square() -> Extent {
        Extent::new(at(0.0, 0.0), at(80.0, 80.0)).unwrap()
    }

    #[test]
    fn a_point_on_a_line_lies_south_and_west_of_it() {
        let quarter_of = |lat, long| {
            let cell = square().cell_of(at(lat, long));
            Block::ALL.quarters().unwrap().iter().position(|block| block.cells().contains(cell)).unwrap()
        };
        assert_eq!(quarter_of(40.0, 40.0), 0);
        assert_eq!(quarter_of(40.0, 40.1), 1);
        assert_eq!(quarter_of(40.1, 40.0), 2);
        assert_eq!(quarter_of(40.1, 40.1), 3);
        assert_eq!(quarter_of(-20.0, 90.0), 1, "what lies outside counts with the border");
    }

    #[test]
    fn blocks_have_names_and_corners() {
        let [_, _, _, north_east] = Block::ALL.quarters().unwrap();
        let [south_west, ..] = north_east.quarters().unwrap();
        assert_eq!(south_west.to_string(), "ne.sw");
        assert_eq!(square().corners(south_west), [(40.0, 40.0), (60.0, 60.0)]);
        let rest = Cells::ALL.without(south_west.cells());
        assert_eq!(rest.to_string(), "sw+se+nw+ne.se+ne.nw+ne.ne");
        assert!(Extent::new(at(1.0, 1.0), at(0.0, 2.0)).is_err());
    }

    proptest! {
        #[test]
        fn blocks_make_up_what_they_are_of(bits in any::<[u64; 4]>()) {
            let cells = Cells(bits);
            let blocks = cells.blocks();
            let mut again = Cells::NONE;
            for block in &blocks {
                prop_assert!(again.and(block.cells()).is_empty());
                again = again.or(block.cells());
            }
            prop_assert_eq!(again, cells);
            prop_assert_eq!(Cells::from_bytes(cells.to_bytes()), cells);
            prop_assert_eq!(cells.iter().count() as u32, cells.count());
        }

        #[test]
        fn a_point_lies_within_the_corners_of_its_cell(lat in 0.0..80.0f64, long in 0.0..80.0f64) {
            let Cell(index) = square().cell_of(at(lat, long));
            let [low, high] = square().corners(Block { depth: DEPTH, index: u32::from(index) });
            prop_assert!(low.0 <= lat && lat <= high.0 && low.1 <= long && long <= high.1);
            prop_assert!(square().cells_in(at(lat, long), at(lat, long)).contains(Cell(index)));
        }
    }
}
