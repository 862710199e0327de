//! WebSocket frames (RFC 6455) of a server, as they come: payloads are handed on before their frame is complete, so no frame
//! is too large. The boundaries of frames mean nothing to what is carried (MQTT 5.0, section 6).

use std::io::Cursor;
use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{Control, Data, OpCode};

/// The longest head of a frame.
pub(crate) const HEAD_BYTES_MAX: usize = 14;
/// The longest payload of a frame that controls.
const CONTROL_BYTES_MAX: usize = 125;

/// The state of one connection.
pub(crate) struct WebSocket {
    /// The beginning of a frame's head.
    head: [u8; HEAD_BYTES_MAX],
    head_bytes: usize,
    frame: Option<Incoming>,
    /// A message has begun whose last frame has not come.
    in_message: bool,
    /// What a frame that controls says, so far.
    control: [u8; CONTROL_BYTES_MAX],
    /// The newest ping that was not answered: so many bytes of `pong`. Older ones need no answer (section 5.5.3).
    pong_bytes: Option<usize>,
    pong: [u8; CONTROL_BYTES_MAX],
}

/// The frame of which a part has come.
struct Incoming {
    opcode: OpCode,
    mask: [u8; 4],
    length: u64,
    came: u64,
}

/// Why no more will come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Closing {
    /// The peer closes, for this reason.
    Asked(u16),
    /// The peer broke a rule: the code that it is told, and what it did.
    Broken(u16, &'static str),
}

/// A peer that closes without a reason is answered with "normal".
const NORMAL: u16 = 1000;
const PROTOCOL_ERROR: u16 = 1002;
const UNSUPPORTED: u16 = 1003;

impl Default for WebSocket {
    fn default() -> WebSocket {
        WebSocket {
            head: [0; HEAD_BYTES_MAX],
            head_bytes: 0,
            frame: None,
            in_message: false,
            control: [0; CONTROL_BYTES_MAX],
            pong_bytes: None,
            pong: [0; CONTROL_BYTES_MAX],
        }
    }
}

impl WebSocket {
    /// Takes frames out of bytes and moves what they carry to the front. Returns how many bytes that are, and whether
    /// anything comes after them.
    pub(crate) fn decode(&mut self, bytes: &mut [u8]) -> (usize, Option<Closing>) {
        let (mut read, mut written) = (0, 0);
        while read < bytes.len() || self.frame.as_ref().is_some_and(|frame| frame.came == frame.length) {
            let Some(frame) = &mut self.frame else {
                match self.take_head(bytes.get(read..).unwrap_or(&[])) {
                    Ok(used) => read += used,
                    Err(closing) => return (written, Some(closing)),
                }
                continue;
            };
            let left = frame.length - frame.came;
            let part = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len() - read);
            let from = frame.came as usize;
            unmask(&mut bytes[read..read + part], frame.mask, from);
            match frame.opcode {
                OpCode::Data(_) => {
                    bytes.copy_within(read..read + part, written);
                    written += part;
                }
                OpCode::Control(_) => {
                    self.control[from..from + part].copy_from_slice(&bytes[read..read + part]);
                }
            }
            read += part;
            frame.came += part as u64;
            if frame.came == frame.length
                && let Some(closing) = self.end_frame()
            {
                return (written, Some(closing));
            }
        }
        (written, None)
    }

    /// Takes a head, or what there is of it. Returns how many bytes that were.
    fn take_head(&mut self, bytes: &[u8]) -> Result<usize, Closing> {
        let before = self.head_bytes;
        let more = bytes.len().min(HEAD_BYTES_MAX - before);
        self.head[before..before + more].copy_from_slice(&bytes[..more]);
        let mut cursor = Cursor::new(&self.head[..before + more]);
        match FrameHeader::parse(&mut cursor) {
            Ok(Some((header, length))) => {
                let used = cursor.position() as usize;
                self.head_bytes = 0;
                self.begin_frame(&header, length)?;
                Ok(used - before)
            }
            Ok(None) => {
                self.head_bytes = before + more;
                Ok(more)
            }
            Err(_) => Err(Closing::Broken(PROTOCOL_ERROR, "it sent a frame of a kind that does not exist")),
        }
    }

    fn begin_frame(&mut self, header: &FrameHeader, length: u64) -> Result<(), Closing> {
        let broken = |what| Err(Closing::Broken(PROTOCOL_ERROR, what));
        let Some(mask) = header.mask else { return broken("it sent a frame without a mask") };
        if header.rsv1 || header.rsv2 || header.rsv3 {
            return broken("it used an extension that was not agreed on");
        }
        match header.opcode {
            OpCode::Control(_) if !header.is_final || length > CONTROL_BYTES_MAX as u64 => {
                return broken("it sent a control frame in pieces, or a long one");
            }
            OpCode::Control(_) => {}
            OpCode::Data(Data::Text) => {
                return Err(Closing::Broken(UNSUPPORTED, "it sent text, and MQTT is binary"));
            }
            OpCode::Data(Data::Continue) if !self.in_message => {
                return broken("it went on with a message that had not begun");
            }
            OpCode::Data(Data::Binary) if self.in_message => {
                return broken("it began a message inside another one");
            }
            OpCode::Data(_) if length >> 63 != 0 => return broken("it sent a length that is none"),
            OpCode::Data(_) => self.in_message = !header.is_final,
        }
        self.frame = Some(Incoming { opcode: header.opcode, mask, length, came: 0 });
        Ok(())
    }

    /// A frame is complete.
    fn end_frame(&mut self) -> Option<Closing> {
        let frame = self.frame.take()?;
        let said = &self.control[..usize::try_from(frame.length).unwrap_or(0).min(CONTROL_BYTES_MAX)];
        match frame.opcode {
            OpCode::Control(Control::Ping) => {
                self.pong[..said.len()].copy_from_slice(said);
                self.pong_bytes = Some(said.len());
                None
            }
            OpCode::Control(Control::Close) => Some(match said {
                [] => Closing::Asked(NORMAL),
                [high, low, ..] => Closing::Asked(u16::from_be_bytes([*high, *low])),
                [_] => Closing::Broken(PROTOCOL_ERROR, "it closed with half a reason"),
            }),
            _ => None,
        }
    }

    /// Whether a ping waits for its answer.
    pub(crate) fn wants_to_answer(&self) -> bool {
        self.pong_bytes.is_some()
    }

    /// Writes the answer to the last ping, if there was one.
    pub(crate) fn answer(&mut self, write: impl FnOnce(&[u8], &[u8])) {
        if let Some(length) = self.pong_bytes.take() {
            let said = &self.pong[..length];
            with_head(OpCode::Control(Control::Pong), length, |head| write(head, said));
        }
    }
}

/// Takes the mask off, `from` bytes behind the beginning of the payload.
fn unmask(bytes: &mut [u8], mut mask: [u8; 4], from: usize) {
    mask.rotate_left(from & 3);
    let (words, rest) = bytes.as_chunks_mut::<4>();
    for word in words {
        *word = (u32::from_ne_bytes(*word) ^ u32::from_ne_bytes(mask)).to_ne_bytes();
    }
    rest.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
}

/// The head of a frame that carries so many bytes.
pub(crate) fn with_data_head<T>(length: usize, act: impl FnOnce(&[u8]) -> T) -> T {
    with_head(OpCode::Data(Data::Binary), length, act)
}

/// A frame that closes, with its reason.
pub(crate) fn closing_frame(code: u16) -> [u8; 4] {
    let [high, low] = code.to_be_bytes();
    [0x88, 2, high, low]
}

fn with_head<T>(opcode: OpCode, length: usize, act: impl FnOnce(&[u8]) -> T) -> T {
    let header = FrameHeader { is_final: true, rsv1: false, rsv2: false, rsv3: false, opcode, mask: None };
    let mut head = Cursor::new([0_u8; HEAD_BYTES_MAX]);
    let written = header.format(length as u64, &mut head);
    debug_assert!(written.is_ok(), "a head has its room");
    let bytes = head.position() as usize;
    act(&head.get_ref()[..bytes])
}

#[cfg(test)]
mod tests;
