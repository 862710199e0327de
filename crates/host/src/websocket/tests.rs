use super::*;
use tungstenite::protocol::frame::Frame;

/// A frame as a client sends it.
fn frame(payload: &[u8], opcode: OpCode, is_final: bool) -> Vec<u8> {
    let mask = [7, 99, 201, payload.len() as u8];
    let header = FrameHeader { is_final, rsv1: false, rsv2: false, rsv3: false, opcode, mask: Some(mask) };
    let mut bytes = Vec::new();
    header.format(payload.len() as u64, &mut bytes).unwrap();
    bytes.extend(payload.iter().enumerate().map(|(at, byte)| byte ^ mask[at & 3]));
    bytes
}

fn binary(payload: &[u8]) -> Vec<u8> {
    frame(payload, OpCode::Data(Data::Binary), true)
}

/// What comes out when the bytes come in pieces of this size.
fn decoded(bytes: &[u8], piece: usize) -> (Vec<u8>, Option<Closing>, WebSocket) {
    let mut socket = WebSocket::default();
    let mut out = Vec::new();
    for piece in bytes.chunks(piece) {
        let mut piece = piece.to_vec();
        let (length, closing) = socket.decode(&mut piece);
        out.extend_from_slice(&piece[..length]);
        if closing.is_some() {
            return (out, closing, socket);
        }
    }
    (out, None, socket)
}

#[test]
fn payloads_come_out_whatever_the_pieces() {
    let long: Vec<u8> = (0..70_000_u32).map(|n| (n * 31) as u8).collect();
    let mut bytes = Vec::new();
    let mut wanted = Vec::new();
    for payload in [&b"a"[..], &[], &long[..125], &long[..126], &long[..65_535], &long] {
        bytes.extend(binary(payload));
        wanted.extend_from_slice(payload);
    }
    // One message in three pieces, with a ping between.
    bytes.extend(frame(b"be", OpCode::Data(Data::Binary), false));
    bytes.extend(frame(b"are you there", OpCode::Control(Control::Ping), true));
    bytes.extend(frame(b"gi", OpCode::Data(Data::Continue), false));
    bytes.extend(frame(b"n", OpCode::Data(Data::Continue), true));
    wanted.extend_from_slice(b"begin");
    for piece in [1, 2, 3, 7, 64, 1_000, bytes.len()] {
        let (out, closing, mut socket) = decoded(&bytes, piece);
        assert!(out == wanted && closing.is_none(), "pieces of {piece}");
        let mut answer = Vec::new();
        socket.answer(|head, said| answer.extend_from_slice(&[head, said].concat()));
        let mut wanted = Vec::new();
        Frame::pong(b"are you there".to_vec()).format(&mut wanted).unwrap();
        assert_eq!(answer, wanted);
        assert!(!socket.wants_to_answer());
    }
}

#[test]
fn what_breaks_the_rules_closes_with_its_code() {
    let unmasked = {
        let mut bytes = Vec::new();
        Frame::message(b"x".to_vec(), OpCode::Data(Data::Binary), true).format(&mut bytes).unwrap();
        bytes
    };
    let mut extended = binary(b"x");
    extended[0] |= 0x40;
    let mut reserved = binary(b"x");
    reserved[0] = 0x83;
    let begun = frame(b"x", OpCode::Data(Data::Binary), false);
    let cases: [(&str, Vec<u8>, u16); 9] = [
        ("no mask", unmasked, 1002),
        ("extension", extended, 1002),
        ("reserved kind", reserved, 1002),
        ("text", frame(b"x", OpCode::Data(Data::Text), true), 1003),
        ("continued", frame(b"x", OpCode::Data(Data::Continue), true), 1002),
        ("nested", [begun.clone(), binary(b"y")].concat(), 1002),
        ("ping in pieces", frame(b"x", OpCode::Control(Control::Ping), false), 1002),
        ("long ping", frame(&[1; 126], OpCode::Control(Control::Ping), true), 1002),
        ("half a reason", frame(&[3], OpCode::Control(Control::Close), true), 1002),
    ];
    for (name, bytes, code) in cases {
        let (_, closing, _) = decoded(&bytes, 3);
        assert!(matches!(closing, Some(Closing::Broken(told, _)) if told == code), "{name}: {closing:?}");
    }
}

#[test]
fn closing_has_a_reason_or_none() {
    let close = |said: &[u8]| frame(said, OpCode::Control(Control::Close), true);
    assert_eq!(decoded(&close(&[]), 1).1, Some(Closing::Asked(1000)));
    let (out, closing, _) = decoded(&[binary(b"last"), close(&[3, 233, b'x'])].concat(), 100);
    assert_eq!((&out[..], closing), (&b"last"[..], Some(Closing::Asked(1001))));
    let mut wanted = Vec::new();
    let reason = tungstenite::protocol::CloseFrame { code: 1001.into(), reason: "".into() };
    Frame::close(Some(reason)).format(&mut wanted).unwrap();
    assert_eq!(closing_frame(1001)[..], wanted[..]);
}

#[test]
fn any_bytes_are_taken_without_a_panic() {
    let mut state = 1_u64;
    for round in 0..20_000 {
        let mut bytes = [0_u8; 48];
        for byte in &mut bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (state >> 56) as u8;
        }
        // Half of them begin well.
        if round % 2 == 0 {
            (bytes[0], bytes[1]) = (0x82, bytes[1] | 0x80);
        }
        let whole = decoded(&bytes, bytes.len());
        let pieces = decoded(&bytes, 1 + round % 9);
        assert_eq!((whole.0, whole.1), (pieces.0, pieces.1));
    }
}
