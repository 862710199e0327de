//! How items come into the log.

use crate::format::{Header, RawItem};
use crate::room::Cause;
use crate::segment::Segment;
use crate::topics::Place;
use crate::{FileError, Files, Journal, NotKept, Position, State, TopicId, format};
use contract::{Time, invariant};

/// An item to be kept.
#[derive(Clone, Copy, Debug)]
pub struct NewItem<'a> {
    /// Of which topic it is.
    pub topic: TopicId,
    /// Which stream it is of, in bytes that the journal does not look into: origin site, publisher, incarnation.
    pub identity: &'a [u8],
    /// Its number in its stream.
    pub sequence: u64,
    /// When it was created.
    pub created: Time,
    /// When it is out of date; it is in any case after the topic's `keep`. [`Time::NEVER`]: not before.
    pub expires: Time,
    /// Whatever else is to be remembered.
    pub flags: u8,
    /// What it says.
    pub payload: &'a [u8],
}

impl<F: Files> Journal<F> {
    /// Keeps an item. That it is not kept is counted, and says nothing about the message.
    pub fn append(&mut self, now: Time, item: &NewItem) -> Result<Position, NotKept> {
        let kept = self.try_append(now, item);
        if let Err(why) = kept
            && let Some(topic) = self.topics.get_mut(&item.topic)
        {
            topic.counters.not_kept.count(why);
        }
        kept
    }

    fn try_append(&mut self, now: Time, item: &NewItem) -> Result<Position, NotKept> {
        let lane = self.admit(now, item)?;
        let bytes = format::ITEM_BYTES + item.identity.len() + item.payload.len();
        let place = self.place_for(now, item.topic, lane, bytes)?;
        let Some(segment) = self.segments.get_mut(&place.segment) else {
            return invariant!("a place is in a segment", Err(NotKept::Failed));
        };
        let before = segment.entries.get(place.entry).map_or(0, |entry| entry.last_at);
        let raw = RawItem {
            topic: item.topic,
            flags: item.flags,
            before,
            position: self.next,
            sequence: item.sequence,
            created: item.created,
            expires: item.expires,
            identity: item.identity,
            payload: item.payload,
        };
        raw.encode(&mut self.scratch);
        if let Err(error) = self.files.write(segment.name(), u64::from(segment.end), &self.scratch) {
            return Err(self.abandon(now, lane, &error));
        }
        segment.add(place.entry, &raw);
        self.syncs.soil(segment.name());
        self.next.0 += 1;
        let Some(topic) = self.topics.get_mut(&item.topic) else {
            return invariant!("a topic that was let in is there", Err(NotKept::NoTopic));
        };
        topic.counters.kept += 1;
        topic.bytes += bytes as u64;
        if topic.bytes > topic.settings.bytes_max {
            self.keep_topic_small(item.topic);
        }
        Ok(raw.position)
    }

    /// Whether an item may come in, and by which priority.
    fn admit(&mut self, now: Time, item: &NewItem) -> Result<usize, NotKept> {
        let topic = self.topics.get_mut(&item.topic).ok_or(NotKept::NoTopic)?;
        if matches!(self.state, State::Poisoned(_)) {
            return Err(NotKept::Poisoned);
        }
        if item.payload.len() as u64 > u64::from(self.settings.payload_bytes_max)
            || item.identity.len() > usize::from(self.settings.identity_bytes_max)
        {
            return Err(NotKept::TooLong);
        }
        if (item.created + topic.settings.keep).min(item.expires) <= now {
            return Err(NotKept::Expired);
        }
        if topic.places.is_empty() {
            topic.lane = topic.settings.priority;
        }
        Ok(usize::from(topic.lane))
    }

    /// Where an item of so many bytes goes. The topic's name stands there already.
    fn place_for(&mut self, now: Time, id: TopicId, lane: usize, bytes: usize) -> Result<Place, NotKept> {
        if let Some(place) = self.place_in_head(id, lane, bytes) {
            return place.or_else(|()| self.declare(now, id, lane));
        }
        self.roll(now, lane)?;
        self.declare(now, id, lane)
    }

    /// Nothing: it has no room there. `Err`: the name must be written first.
    fn place_in_head(&self, id: TopicId, lane: usize, bytes: usize) -> Option<Result<Place, ()>> {
        let head = self.heads[lane]?;
        let topic = self.topics.get(&id)?;
        let place = topic.places.back().filter(|place| place.segment == head).copied();
        let entry = place.map(|place| place.entry).ok_or(topic.name.len());
        let has_room = self.segments.get(&head)?.has_room(bytes, entry, &self.settings);
        has_room.then_some(place.ok_or(()))
    }

    /// Writes the name of a topic into the head.
    fn declare(&mut self, now: Time, id: TopicId, lane: usize) -> Result<Place, NotKept> {
        let found =
            self.heads[lane].and_then(|head| self.segments.get_mut(&head)).zip(self.topics.get_mut(&id));
        let Some((segment, topic)) = found else {
            return invariant!("a head and a topic that was let in are there", Err(NotKept::NoTopic));
        };
        topic.note(id).encode(&mut self.scratch);
        if let Err(error) = self.files.write(segment.name(), u64::from(segment.end), &self.scratch) {
            return Err(self.abandon(now, lane, &error));
        }
        let entry = segment.declare(id, self.scratch.len());
        let place = Place { segment: segment.id, entry };
        topic.places.push_back(place);
        Ok(place)
    }

    /// The head of a priority is full: it ends, and there is another.
    fn roll(&mut self, now: Time, lane: usize) -> Result<(), NotKept> {
        match self.state {
            State::Full if now < self.retry_at => return Err(NotKept::Full),
            State::Failed(_) if now < self.retry_at => return Err(NotKept::Failed),
            _ => {}
        }
        if let Some(id) = self.heads[lane].take() {
            self.seal(id);
        }
        let bytes = u64::from(self.settings.segment_bytes);
        if !self.make_room(lane, bytes) {
            return Err(NotKept::NoRoom);
        }
        let id = self.next_segment;
        let header = Header { lane: lane as u8, generation: 0, id, covers_to: id, bytes };
        let segment = Segment::new(&header, self.settings.items_per_mark);
        if let Err(error) = self.begin_segment(&segment) {
            self.trouble(now, &error);
            return Err(if error == FileError::Full { NotKept::Full } else { NotKept::Failed });
        }
        self.become_(State::Healthy);
        self.next_segment += 1;
        self.heads[lane] = Some(id);
        self.segments.insert(id, segment);
        Ok(())
    }

    /// Makes the file of a segment, or nothing at all.
    pub(crate) fn begin_segment(&mut self, segment: &Segment) -> Result<(), FileError> {
        let name = segment.name();
        self.files.create(name, segment.capacity)?;
        if let Err(error) = self.files.write(name, 0, &segment.header().encode(false)) {
            self.remove_file(name);
            return Err(error);
        }
        self.syncs.soil(name);
        self.syncs.names = true;
        self.used += segment.capacity;
        Ok(())
    }

    /// Writes the index of a segment behind it. If that fails, the segment is read from its beginning the next time.
    pub(crate) fn seal(&mut self, id: u64) {
        let Some(segment) = self.segments.get_mut(&id) else {
            return invariant!("a head is a segment");
        };
        let name = segment.name();
        format::encode_seal(segment, &mut self.scratch);
        let (at, len) = (segment.end, self.scratch.len() as u32);
        let trailer = format::encode_trailer(at, len);
        let trailer_at = segment.capacity - trailer.len() as u64;
        let written = self.files.write(name, u64::from(at), &self.scratch);
        let _ = written.and_then(|()| self.files.write(name, trailer_at, &trailer));
        segment.entries.iter_mut().for_each(|entry| entry.marks.shrink_to_fit());
        self.close(id);
    }

    /// Nothing more is written to a segment.
    fn close(&mut self, id: u64) {
        let Some(segment) = self.segments.get_mut(&id) else {
            return invariant!("a head is a segment");
        };
        segment.is_closed = true;
        let name = segment.name();
        // The name of a topic stands there, and its item could not be written.
        for (index, entry) in segment.entries.iter().enumerate().filter(|(_, entry)| entry.count == 0) {
            if let Some(topic) = self.topics.get_mut(&entry.topic) {
                topic.places.retain(|place| *place != Place { segment: id, entry: index });
            }
        }
        self.files.finish(name);
        self.judge_death(id);
        // It may hold nothing but the name of a topic.
        if self.segments.get(&id).is_some_and(|segment| segment.items() == 0) {
            self.remove_segment(id, Cause::Expired);
        }
    }

    /// A write to the head has failed: what is there now nobody knows, so nothing more is written to it.
    fn abandon(&mut self, now: Time, lane: usize, error: &FileError) -> NotKept {
        self.trouble(now, error);
        if let Some(id) = self.heads[lane].take() {
            self.close(id);
        }
        if *error == FileError::Full { NotKept::Full } else { NotKept::Failed }
    }
}
