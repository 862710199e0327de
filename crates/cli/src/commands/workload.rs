//! The workload of the source's table 3.2: six categories of topics, published in batches by proxies.

use contract::{Contract, LinkClass, Span};

/// One category of topics.
pub struct Category {
    /// Its number in the table; also the first level of its topics, `c0` to `c5`.
    pub number: usize,
    pub contract: Contract,
    pub topics: u32,
    /// Topics of one proxy, which publishes one message of each at a time.
    pub batch: u32,
}

/// Topics of the categories whose number is fixed.
const FIXED: [u32; 6] = [10, 10, 0, 0, 0, 5];
/// The categories that share the rest.
const SCALED: std::ops::RangeInclusive<usize> = 2..=4;
/// The payload of every message.
pub const PAYLOAD_BYTES: usize = 16;

/// The six categories, with as many topics as near to this number as they can have.
pub fn categories(topics: u32) -> Vec<Category> {
    let ms = Span::millis;
    let contracts = [
        Contract::every(ms(50)).tolerate(0).retain(2),
        Contract::every(ms(50)).tolerate(3).retain(0),
        Contract::every(ms(100)).tolerate(0).retain(1),
        Contract::every(ms(100)).tolerate(3).retain(0),
        Contract::every(ms(100)).best_effort(),
        Contract::every(ms(500)).tolerate(0).retain(1).over(LinkClass::CLOUD),
    ];
    let each = topics.saturating_sub(FIXED.iter().sum()) / SCALED.count() as u32;
    let category = |(number, contract): (usize, Contract)| Category {
        number,
        contract,
        topics: if SCALED.contains(&number) { each } else { FIXED[number] },
        batch: match number {
            0 | 1 => 10,
            5 => 1,
            _ => 50,
        },
    };
    contracts.into_iter().enumerate().map(category).collect()
}

impl Category {
    /// The name of one of its topics.
    pub fn topic(&self, index: u32) -> String {
        format!("c{}/{index}", self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sizes_of_the_table_are_met() {
        for (topics, per_second) in [(1525, 15_410), (7525, 75_410), (13_525, 135_410)] {
            let all = categories(topics);
            assert_eq!(all.iter().map(|category| category.topics).sum::<u32>(), topics);
            let rate =
                |category: &Category| i64::from(category.topics) * 1_000_000_000 / category.contract.period.0;
            assert_eq!(all.iter().map(rate).sum::<i64>(), per_second);
        }
    }
}
