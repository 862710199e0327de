//! The workloads of FRAME and ARREC: categories of topics, published in batches by proxies. FRAME, table 3.2, is for brokers alone,
//! ARREC, table 4.1, for topics whose messages are processed.

use clap::ValueEnum;
use contract::{Contract, LinkClass, Span};

/// Which workload.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Table {
    /// FRAME, table 3.2: `c0` to `c5`.
    #[default]
    Delivery,
    /// The same, with two messages retained where table 3.2 has one: nothing needs a copy then.
    DeliveryPlus,
    /// ARREC, table 4.1: `c1` to `c5`.
    Processing,
}

impl Table {
    /// Its name as it is typed.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Its categories, with as many topics as near to this number as they can have, and only one in so many of all.
    pub fn categories(self, topics: u32, divide: u32) -> Vec<Category> {
        let mut all = match self {
            Table::Delivery => categories(topics),
            Table::DeliveryPlus => retaining_more(categories(topics)),
            Table::Processing => processed(topics),
        };
        all.iter_mut().for_each(|category| category.topics /= divide.max(1));
        all
    }
}

/// One category of topics.
pub struct Category {
    /// Its number in the table; also the first level of its topics, `c0` to `c5`.
    pub number: usize,
    pub contract: Contract,
    pub topics: u32,
    /// Topics of one proxy, which publishes one message of each at a time.
    pub batch: u32,
    /// The payload of every message.
    pub payload_bytes: usize,
}

/// Topics of the categories whose number is fixed.
const FIXED: [u32; 6] = [10, 10, 0, 0, 0, 5];
/// The categories that share the rest.
const SCALED: std::ops::RangeInclusive<usize> = 2..=4;
/// The payload of every message of table 3.2, and of table 4.1.
const PAYLOAD_BYTES: usize = 16;
const PROCESSED_BYTES: usize = 512;
/// Topics of the categories of table 4.1 whose number is fixed; the fifth has the rest.
const PROCESSED_FIXED: [u32; 4] = [50, 100, 100, 50];
const LOG_DEADLINE: Span = Span::secs(1);
/// Topics of a proxy of table 4.1; one proxy has all of the fifth category, ARREC's large group (§4.7.1).
const PROCESSED_BATCH: u32 = 10;

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
        payload_bytes: PAYLOAD_BYTES,
    };
    contracts.into_iter().enumerate().map(category).collect()
}

/// What copies are for, publishers retain: the categories that retain one message retain two.
fn retaining_more(mut all: Vec<Category>) -> Vec<Category> {
    all.iter_mut()
        .filter(|category| category.contract.retain == 1)
        .for_each(|category| category.contract.retain = 2);
    all
}

/// The five categories of table 4.1. The first is for a log, which is late at no time in ARREC; a broker keeps messages
/// until their deadline, so here it has a long one.
fn processed(topics: u32) -> Vec<Category> {
    let ms = Span::millis;
    let contracts = [
        Contract::every(ms(50)).deadline(LOG_DEADLINE).tolerate(0).retain(1),
        Contract::every(ms(100)).tolerate(0).retain(1),
        Contract::every(ms(500)).tolerate(0).retain(1),
        Contract::every(ms(50)).tolerate(3).retain(0),
        Contract::every(ms(100)).tolerate(3).retain(0),
    ];
    let rest = topics.saturating_sub(PROCESSED_FIXED.iter().sum());
    let category = |(index, contract): (usize, Contract)| Category {
        number: index + 1,
        contract,
        topics: PROCESSED_FIXED.get(index).copied().unwrap_or(rest),
        batch: if index < PROCESSED_FIXED.len() { PROCESSED_BATCH } else { rest.max(1) },
        payload_bytes: PROCESSED_BYTES,
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
    use contract::timing::replication_is_needed;
    use contract::{Delays, Links};

    #[test]
    fn the_sizes_of_the_table_for_processing_are_met() {
        for (topics, divide, per_second) in [(1200, 1, 12_200), (1600, 1, 16_200), (1200, 5, 2_440)] {
            let all = Table::Processing.categories(topics, divide);
            let rate =
                |category: &Category| i64::from(category.topics) * 1_000_000_000 / category.contract.period.0;
            assert_eq!(all.iter().map(rate).sum::<i64>(), per_second);
        }
    }

    #[test]
    fn nothing_needs_a_copy_where_more_is_retained() {
        let copied = |table: Table| -> Vec<usize> {
            let all = table.categories(1525, 1);
            let planned = |category: &Category| {
                let c = &category.contract;
                let delay = Links::default().delay(c.link).expect("both classes are known");
                replication_is_needed(c, delay.to_subscriber, &Delays::default())
            };
            all.iter().filter(|category| planned(category)).map(|category| category.number).collect()
        };
        assert_eq!(copied(Table::Delivery), [2, 5]);
        assert!(copied(Table::DeliveryPlus).is_empty());
    }

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
