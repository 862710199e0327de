//! As much of MQTT 3.1.1 and 5 as a load needs.

/// The version of the protocol, as its number in CONNECT.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Version(pub u8);

impl Version {
    fn has_properties(self) -> bool {
        self.0 == 5
    }
}

/// The answer to CONNECT.
pub const CONNACK: u8 = 2;
/// A message.
pub const PUBLISH: u8 = 3;
/// The answer to a message of QoS 1.
pub const PUBACK: u8 = 4;
/// The answer to SUBSCRIBE.
pub const SUBACK: u8 = 9;
/// The broker ends the connection.
pub const DISCONNECT: u8 = 14;

/// A packet that has come.
pub struct Packet<'a> {
    /// The first byte: kind and flags.
    first: u8,
    body: &'a [u8],
}

impl<'a> Packet<'a> {
    /// The first packet of these bytes and what it takes of them, if it is complete.
    pub fn cut(bytes: &'a [u8]) -> Option<(Packet<'a>, usize)> {
        let (&first, rest) = bytes.split_first()?;
        let (length, digits) = number(rest)?;
        let body = rest.get(digits..digits + length)?;
        Some((Packet { first, body }, 1 + digits + length))
    }

    /// One of the constants.
    pub fn kind(&self) -> u8 {
        self.first >> 4
    }

    /// What was answered: the code of CONNACK or the last one of SUBACK; 128 and more are refusals.
    pub fn code(&self) -> u8 {
        let code = if self.kind() == CONNACK { self.body.get(1) } else { self.body.last() };
        code.copied().unwrap_or(u8::MAX)
    }

    /// Of PUBLISH: its number, if it wants an answer, and its payload.
    pub fn published(&self, version: Version) -> Option<(Option<[u8; 2]>, &'a [u8])> {
        let topic = u16::from_be_bytes(self.body.first_chunk::<2>().copied()?);
        let mut rest = self.body.get(2 + usize::from(topic)..)?;
        let mut id = None;
        if self.first & 0b110 != 0 {
            let (bytes, after) = rest.split_first_chunk::<2>()?;
            (id, rest) = (Some(*bytes), after);
        }
        if version.has_properties() {
            let (length, digits) = number(rest)?;
            rest = rest.get(digits + length..)?;
        }
        Some((id, rest))
    }
}

fn number(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0;
    for (index, byte) in bytes.iter().take(4).enumerate() {
        value |= usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, index + 1));
        }
    }
    None
}

fn put_number(mut value: usize, to: &mut Vec<u8>) {
    loop {
        let more = value > 0x7f;
        to.push((value & 0x7f) as u8 | if more { 0x80 } else { 0 });
        value >>= 7;
        if !more {
            return;
        }
    }
}

fn put_text(text: &str, to: &mut Vec<u8>) {
    to.extend_from_slice(&(text.len() as u16).to_be_bytes());
    to.extend_from_slice(text.as_bytes());
}

fn framed(first: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![first];
    put_number(body.len(), &mut packet);
    packet.extend_from_slice(body);
    packet
}

/// A client that begins anew, and speaks at least every ten minutes.
pub fn connect(version: Version, client: &str) -> Vec<u8> {
    const CLEAN: u8 = 0b10;
    let mut body = Vec::new();
    put_text("MQTT", &mut body);
    body.extend_from_slice(&[version.0, CLEAN]);
    body.extend_from_slice(&600_u16.to_be_bytes());
    if version.has_properties() {
        body.push(0);
    }
    put_text(client, &mut body);
    framed(0x10, &body)
}

/// Asks for a filter, with the only subscription of its connection.
pub fn subscribe(version: Version, filter: &str, qos: u8) -> Vec<u8> {
    let mut body = vec![0, 1];
    if version.has_properties() {
        body.push(0);
    }
    put_text(filter, &mut body);
    body.push(qos);
    framed(0x82, &body)
}

/// Appends the answer to a message.
pub fn acknowledge(id: [u8; 2], to: &mut Vec<u8>) {
    to.extend_from_slice(&[PUBACK << 4, 2, id[0], id[1]]);
}

/// Messages of one topic, of which only the number and the time change.
pub struct Template {
    bytes: Vec<u8>,
    id_at: Option<usize>,
    time_at: usize,
    next_id: u16,
}

impl Template {
    /// The payload begins with a time, which takes eight bytes.
    pub fn new(version: Version, topic: &str, qos: u8, payload: usize) -> Template {
        let mut body = Vec::new();
        put_text(topic, &mut body);
        let id_at = (qos > 0).then_some(body.len());
        if qos > 0 {
            body.extend_from_slice(&[0, 0]);
        }
        if version.has_properties() {
            body.push(0);
        }
        let time_at = body.len();
        body.resize(time_at + payload.max(8), 0);
        let bytes = framed(PUBLISH << 4 | qos << 1, &body);
        let head = bytes.len() - body.len();
        Template { bytes, id_at: id_at.map(|at| head + at), time_at: head + time_at, next_id: 0 }
    }

    /// Appends one message with this payload, which must be as long as was said.
    pub fn put_payload(&mut self, payload: &[u8], to: &mut Vec<u8>) {
        let start = to.len() + self.time_at;
        self.put(0, to);
        to[start..].copy_from_slice(payload);
    }

    /// Appends one message.
    pub fn put(&mut self, time_ns: u64, to: &mut Vec<u8>) {
        let start = to.len();
        to.extend_from_slice(&self.bytes);
        to[start + self.time_at..][..8].copy_from_slice(&time_ns.to_le_bytes());
        if let Some(at) = self.id_at {
            self.next_id = self.next_id.checked_add(1).unwrap_or(1);
            to[start + at..][..2].copy_from_slice(&self.next_id.to_be_bytes());
        }
    }
}

/// The time in a payload of a [`Template`].
pub fn time_of(payload: &[u8]) -> Option<u64> {
    payload.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_as_it_was_written_in_both_versions() {
        for (version, qos) in [(4, 0), (4, 1), (5, 0), (5, 1)] {
            let version = Version(version);
            let mut template = Template::new(version, "a/b", qos, 200);
            let mut bytes = Vec::new();
            template.put(7, &mut bytes);
            template.put(8, &mut bytes);
            let (first, length) = Packet::cut(&bytes).unwrap();
            assert_eq!(first.kind(), PUBLISH);
            let (second, rest) = Packet::cut(&bytes[length..]).unwrap();
            assert_eq!(length + rest, bytes.len());
            let (id, payload) = second.published(version).unwrap();
            assert_eq!((id, payload.len()), ((qos > 0).then_some([0, 2]), 200));
            assert_eq!(time_of(payload), Some(8));
            assert!(Packet::cut(&bytes[..length - 1]).is_none());
        }
    }

    #[test]
    fn connect_and_subscribe_are_as_the_standard_has_them() {
        let wanted = [0x10, 13, 0, 4, b'M', b'Q', b'T', b'T', 4, 2, 2, 88, 0, 1, b'x'];
        assert_eq!(connect(Version(4), "x"), wanted);
        assert_eq!(subscribe(Version(5), "a", 1), [0x82, 7, 0, 1, 0, 0, 1, b'a', 1]);
    }
}
