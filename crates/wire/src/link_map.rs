//! Something for each link, by its number.

use crate::LinkId;

/// Something for each link: those that the driver knows, and those that come through the other broker, whose numbers are far apart.
#[derive(Clone, Debug)]
pub struct LinkMap<T> {
    direct: Vec<Option<T>>,
    relayed: Vec<Option<T>>,
}

impl<T> Default for LinkMap<T> {
    fn default() -> LinkMap<T> {
        LinkMap { direct: Vec::new(), relayed: Vec::new() }
    }
}

impl<T> LinkMap<T> {
    /// Puts a value in the place of a link. Returns what was there.
    pub fn insert(&mut self, link: LinkId, value: T) -> Option<T> {
        let (slots, index) = match link.channel() {
            None => (&mut self.direct, link.0 as usize),
            Some(channel) => (&mut self.relayed, channel as usize),
        };
        if index >= slots.len() {
            slots.resize_with(index + 1, || None);
        }
        slots.get_mut(index).and_then(|slot| slot.replace(value))
    }

    /// Takes what is there for a link.
    pub fn remove(&mut self, link: LinkId) -> Option<T> {
        match link.channel() {
            None => self.direct.get_mut(link.0 as usize)?.take(),
            Some(channel) => self.relayed.get_mut(channel as usize)?.take(),
        }
    }

    /// What is there for a link.
    #[inline]
    pub fn get(&self, link: LinkId) -> Option<&T> {
        // Numbers of relayed links are beyond the end of the others, so nothing more is asked where a link is found.
        match self.direct.get(link.0 as usize) {
            Some(slot) => slot.as_ref(),
            None => self.get_relayed(link),
        }
    }

    #[cold]
    fn get_relayed(&self, link: LinkId) -> Option<&T> {
        self.relayed.get(link.channel()? as usize)?.as_ref()
    }

    /// The same, to be changed.
    #[inline]
    pub fn get_mut(&mut self, link: LinkId) -> Option<&mut T> {
        match self.direct.get_mut(link.0 as usize) {
            Some(slot) => slot.as_mut(),
            None => self.relayed.get_mut(link.channel()? as usize)?.as_mut(),
        }
    }

    /// All, those that the driver knows first.
    pub fn iter(&self) -> impl Iterator<Item = (LinkId, &T)> {
        let direct = (0..).map(LinkId).zip(&self.direct);
        let relayed = (0..).map(LinkId::of_channel).zip(&self.relayed);
        direct.chain(relayed).filter_map(|(link, slot)| slot.as_ref().map(|value| (link, value)))
    }

    /// The same, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (LinkId, &mut T)> {
        let direct = (0..).map(LinkId).zip(&mut self.direct);
        let relayed = (0..).map(LinkId::of_channel).zip(&mut self.relayed);
        direct.chain(relayed).filter_map(|(link, slot)| slot.as_mut().map(|value| (link, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_both_kinds_have_their_places() {
        let (near, far) = (LinkId(3), LinkId::of_channel(2));
        let mut map = LinkMap::default();
        assert_eq!((map.insert(near, 'a'), map.insert(far, 'b')), (None, None));
        assert_eq!((map.get(near), map.get(far)), (Some(&'a'), Some(&'b')));
        assert_eq!((map.get(LinkId(2)), map.get(LinkId::of_channel(3))), (None, None));
        assert_eq!(map.iter().collect::<Vec<_>>(), [(near, &'a'), (far, &'b')]);
        map.iter_mut().for_each(|(_, value)| *value = 'c');
        assert_eq!((map.insert(far, 'd'), map.remove(far), map.get_mut(far)), (Some('c'), Some('d'), None));
        assert_eq!((far.channel(), near.channel()), (Some(2), None));
    }
}
