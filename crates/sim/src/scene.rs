//! Payloads that say what they are, so that whatever becomes of a message, everybody can tell which it was.

/// Bytes at the beginning of every payload: the simulator's number of the stream, and the message's number.
pub(crate) const PAYLOAD_HEAD: usize = 12;

/// Writes the payload of a message.
pub(crate) fn write_payload(payload: &mut Vec<u8>, stream: u32, seq: u64, length: usize) {
    payload.clear();
    payload.extend_from_slice(&stream.to_le_bytes());
    payload.extend_from_slice(&seq.to_le_bytes());
    payload.resize(length.max(PAYLOAD_HEAD), fill(stream, seq));
}

/// Reads a payload: the stream, the message, and whether it is whole.
pub(crate) fn read_payload(payload: &[u8]) -> (u32, u64, bool) {
    let Some((head, rest)) = payload.split_first_chunk::<PAYLOAD_HEAD>() else {
        return (crate::port::NO_STREAM, 0, false);
    };
    let [a, b, c, d, seq @ ..] = *head;
    let (stream, seq) = (u32::from_le_bytes([a, b, c, d]), u64::from_le_bytes(seq));
    let fill = fill(stream, seq);
    (stream, seq, rest.iter().all(|byte| *byte == fill))
}

fn fill(stream: u32, seq: u64) -> u8 {
    (u64::from(stream) * 31 + seq * 7) as u8
}
