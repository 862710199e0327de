//! What a log will take of the disk.

use crate::Settings;
use crate::format::{HEADER_BYTES, ITEM_BYTES, NOTE_BYTES};
use crate::segment::bytes_used;

/// What is to be kept: items that are all alike, of topics that take turns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Forecast {
    /// Items that are kept at the same time.
    pub items: u64,
    /// The bytes of each payload.
    pub payload_bytes: u32,
    /// The bytes of each stream's identity.
    pub identity_bytes: u16,
    /// The topics that they are of, all of one priority.
    pub topics: u64,
    /// The bytes of each topic's name.
    pub name_bytes: u16,
}

/// The bytes of the segments that hold these items, which are taken whole: exact for items that are appended one after the other. Where old items are
/// deleted while others come, there may be one segment more of each priority, of which the first items are out of date; compaction
/// has another one for a while, and notes take twice what they say, or 64 KiB.
pub fn bytes_for(forecast: &Forecast, settings: &Settings) -> u64 {
    let items = items_per_segment(forecast, settings).max(1);
    forecast.items.div_ceil(items) * u64::from(settings.segment_bytes)
}

/// How many of these items a segment holds.
fn items_per_segment(forecast: &Forecast, settings: &Settings) -> u64 {
    let item = ITEM_BYTES as u64 + u64::from(forecast.identity_bytes) + u64::from(forecast.payload_bytes);
    let (mut fits, mut too_many) = (0, u64::from(settings.segment_bytes) / item + 1);
    while fits + 1 < too_many {
        let items = fits.midpoint(too_many);
        if has_room(items, item, forecast, settings) { fits = items } else { too_many = items }
    }
    fits
}

/// Whether so many items fit into a segment, with names and the index.
fn has_room(items: u64, item: u64, forecast: &Forecast, settings: &Settings) -> bool {
    let topics = forecast.topics.clamp(1, items.max(1));
    let (each, more) = (items / topics, items % topics);
    let step = u64::from(settings.items_per_mark);
    let marks = more * (each + 1).div_ceil(step) + (topics - more) * each.div_ceil(step);
    let names = topics * (NOTE_BYTES as u64 + u64::from(forecast.name_bytes));
    let end = HEADER_BYTES as u64 + names + items * item;
    topics <= settings.topics_per_segment_max as u64
        && marks <= settings.marks_per_segment_max as u64
        && bytes_used(end as usize, topics as usize, marks as usize) <= u64::from(settings.segment_bytes)
}
