use super::*;
use proptest::prelude::*;

fn numbers(payload_type: &str, payload: &[u8]) -> Result<Vec<f64>, Fault> {
    let mut numbers = Vec::new();
    let input = Input { slot: 1, payload, created: Time::ZERO };
    read(&payload_type.parse().unwrap(), &input, &mut numbers).map(|()| numbers)
}

fn refused(payload_type: &str, payload: &[u8]) -> &'static str {
    match numbers(payload_type, payload) {
        Err(Fault::Malformed { slot: 1, reason }) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn arrays_are_little_endian() {
    assert_eq!(numbers("i16", &[1, 0, 0xff, 0xff]), Ok(vec![1.0, -1.0]));
    assert_eq!(numbers("i32", &[0, 1, 0, 0]), Ok(vec![256.0]));
    assert_eq!(numbers("f32", &1.5_f32.to_le_bytes()), Ok(vec![1.5]));
    assert_eq!(numbers("f64", &(-0.1_f64).to_le_bytes()), Ok(vec![-0.1]));
}

#[test]
fn a_part_of_a_number_is_too_short() {
    let too_short = |bytes, needed| Err(Fault::TooShort { slot: 1, bytes, needed });
    assert_eq!(numbers("i32", &[]), too_short(0, 4));
    assert_eq!(numbers("i32", &[1, 2, 3]), too_short(3, 4));
    assert_eq!(numbers("f64", &[0; 15]), too_short(15, 16));
}

#[test]
fn what_is_not_finite_is_no_number() {
    assert_eq!(refused("f32", &f32::NAN.to_le_bytes()), "a number is NaN or infinite");
    assert_eq!(refused("f64", &f64::INFINITY.to_le_bytes()), "a number is NaN or infinite");
    assert_eq!(refused("cbor", &[0xf9, 0x7c, 0x00]), "a number is NaN or infinite");
    assert!(numbers("json", b"1e999").is_err());
}

#[test]
fn json_is_followed_along_its_path() {
    let document = br#" {"n":[1,{"x":[]}],"motor":{"rpm":3000,"t":[20.5,-1]},"axes":[{"load":0.25},7]} "#;
    assert_eq!(numbers("json:motor.rpm", document), Ok(vec![3000.0]));
    assert_eq!(numbers("json:motor.t", document), Ok(vec![20.5, -1.0]));
    assert_eq!(numbers("json:motor.t.1", document), Ok(vec![-1.0]));
    assert_eq!(numbers("json:axes.0.load", document), Ok(vec![0.25]));
    assert_eq!(numbers("json", b"[1,2]"), Ok(vec![1.0, 2.0]));
    assert_eq!(numbers("json:axes[0][\"load\"]", document), Ok(vec![0.25]));
    for path in ["\"PM2.5\"", "[PM2.5]", "[\"PM2.5\"]"] {
        assert_eq!(
            numbers(&format!("json:{path}"), br#"{"PM2":{"5":1},"PM2.5":7}"#),
            Ok(vec![7.0]),
            "{path}"
        );
    }
    assert_eq!(numbers("json:v", br#"{"v":"12.5"}"#), Ok(vec![12.5]), "as some gateways write it");
    assert_eq!(numbers("json", b"18446744073709551615"), Ok(vec![u64::MAX as f64]));
    assert_eq!(numbers("json:tr\u{e4}ge", "{\"tr\\u00e4ge\":1}".as_bytes()), Ok(vec![1.0]));
}

#[test]
fn numbers_in_texts_are_read_as_people_write_them() {
    assert_eq!(numbers("text", b"12.5"), Ok(vec![12.5]));
    assert_eq!(numbers("text", b" -1e3\r\n"), Ok(vec![-1000.0]));
    assert_eq!(numbers("text", b"1;2, 3 4"), Ok(vec![1.0, 2.0, 3.0, 4.0]));
    for wrong in [&b"on"[..], b"12.5 bar", b"\xff", b"0x10"] {
        assert_eq!(refused("text", wrong), NO_TEXT);
    }
    assert_eq!(refused("text", b" "), "its list of numbers is empty");
    assert_eq!(refused("text", b"NaN"), "a number is NaN or infinite");
}

#[test]
fn json_that_is_wrong_is_refused() {
    for path in ["motor", "a.b", "0", "axes.9", "axes.x", "axes.0.load"] {
        assert_eq!(refused(&format!("json:{path}"), br#"{"axes":[1],"a":1}"#), NOTHING_THERE, "{path}");
    }
    assert_eq!(refused("json:a", br#"{"a":{"b":1}}"#), NO_NUMBER);
    assert_eq!(refused("json:a", br#"{"a":"one"}"#), NO_NUMBER);
    assert_eq!(refused("json:a.b", br#"{"a":"1"}"#), NOTHING_THERE);
    assert_eq!(refused("json:a", br#"{"a":null}"#), NO_NUMBER);
    assert_eq!(refused("json:a", br#"{"a":[1,[2]]}"#), NO_NUMBER);
    assert_eq!(refused("json:a", br#"{"a":1,"a":2}"#), TWICE);
    assert_eq!(refused("json:a", br#"{"a":1} {"#), TRAILING);
    assert_eq!(refused("json:a", br#"{"a":1"#), "its JSON ends too early");
    assert_eq!(refused("json:a", b""), "its JSON ends too early");
    assert_eq!(refused("json:a", br#"{"a":1,}"#), "it is not JSON, or too deep");
    assert_eq!(refused("json", b"[]"), "its list of numbers is empty");
}

#[test]
fn deep_documents_end_in_a_fault_and_not_on_the_stack() {
    let deep = "[".repeat(1_000_000);
    assert!(numbers("json:a", deep.as_bytes()).is_err());
    assert!(numbers("json:0.0.0", deep.as_bytes()).is_err());
    assert!(numbers("cbor:0.0.0", &vec![0x81; 1_000_000]).is_err());
    assert!(numbers("cbor:1", &vec![0x9f; 1_000_000]).is_err());
    assert!(numbers("cbor", &vec![0xc1; 1_000_000]).is_err());
}

#[test]
fn cbor_is_followed_along_its_path() {
    // {"m": {"r": 3000, 2: [_ 1.5, -1]}, "l": [_ 1]}
    let document = [
        0xa2, 0x61, b'm', 0xa2, 0x61, b'r', 0x19, 0x0b, 0xb8, 0x02, 0x9f, 0xf9, 0x3e, 0x00, 0x20, 0xff, 0x61,
        b'l', 0x9f, 0x01, 0xff,
    ];
    assert_eq!(numbers("cbor:m.r", &document), Ok(vec![3000.0]));
    assert_eq!(numbers("cbor:m.2", &document), Ok(vec![1.5, -1.0]));
    assert_eq!(numbers("cbor:m.2.1", &document), Ok(vec![-1.0]));
    assert_eq!(numbers("cbor:l", &document), Ok(vec![1.0]));
    assert_eq!(numbers("cbor", &[0xc1, 0x1a, 0, 0, 1, 0]), Ok(vec![256.0]), "a tagged number");
    assert_eq!(
        numbers("cbor", &[0x3b, 255, 255, 255, 255, 255, 255, 255, 255]),
        Ok(vec![-(2.0_f64.powi(64))])
    );
    assert_eq!(numbers("cbor", &[0x82, 0xfa, 0x3f, 0xc0, 0, 0, 0x01]), Ok(vec![1.5, 1.0]));
}

#[test]
fn cbor_tags_are_understood_or_refused() {
    // 4([-2, 1250]), and a list of that and of 5([3, -1]).
    let decimal = [0xc4, 0x82, 0x21, 0x19, 0x04, 0xe2];
    assert_eq!(numbers("cbor", &decimal), Ok(vec![12.5]));
    let list = [&[0x82][..], &decimal, &[0xc5, 0x82, 0x03, 0x20]].concat();
    assert_eq!(numbers("cbor", &list), Ok(vec![12.5, -8.0]));
    let inside = [&[0xd9, 0xd9, 0xf7, 0xa1, 0x61, b'a'][..], &decimal].concat();
    assert_eq!(numbers("cbor:a", &inside), Ok(vec![12.5]), "in a document with its mark");
    assert_eq!(refused("cbor:a.0", &inside), NOTHING_THERE, "a part of a number");
    // A bignum, an array of bytes that are f32, and a unit of somebody's own before a list.
    for unknown in [&[0xc2, 0x41, 0x05][..], &[0xd8, 85, 0x44, 0, 0, 0, 0], &[0xd9, 0x12, 0x34, 0x82, 1, 2]] {
        assert!(refused("cbor", unknown).contains("not understood"), "{unknown:?}");
    }
    for torn in [&[0xc4, 0x01][..], &[0xc4, 0x83, 1, 2, 3], &[0xc4, 0x82, 0x20, 0xf9, 0x3e, 0x00]] {
        assert!(refused("cbor", torn).contains("fraction"), "{torn:?}");
    }
}

#[test]
fn cbor_that_is_wrong_is_refused() {
    assert_eq!(refused("cbor:a", &[0xa1, 0x61, b'b', 1]), NOTHING_THERE);
    assert_eq!(refused("cbor:7", &[0x81, 1]), NOTHING_THERE);
    assert_eq!(refused("cbor:a.b", &[0xa1, 0x61, b'a', 1]), NOTHING_THERE);
    assert_eq!(refused("cbor:a", &[0xa1, 0x61, b'a', 0xf5]), NO_NUMBER);
    assert_eq!(refused("cbor:a", &[0xa2, 0x61, b'a', 1, 0x61, b'a', 2]), TWICE);
    assert_eq!(refused("cbor", &[1, 1]), TRAILING);
    assert_eq!(refused("cbor", &[]), "its CBOR ends too early");
    assert_eq!(
        refused("cbor", &[0x9b, 255, 255, 255, 255, 255, 255, 255, 255, 1]),
        "its CBOR ends too early"
    );
    assert_eq!(refused("cbor", &[0x80]), "its list of numbers is empty");
}

#[test]
fn what_does_not_fit_is_not_written() {
    let mut output = Vec::new();
    assert_eq!(write(&[1.4, -1.6], Element::I16, &mut output), Ok(()));
    assert_eq!(output, [1, 0, 0xfe, 0xff]);
    for (number, element) in [(32768.0, Element::I16), (-3e9, Element::I32), (1e39, Element::F32)] {
        assert!(write(&[number], element, &mut Vec::new()).is_err(), "{number}");
    }
    assert!(write(&[f64::NAN], Element::F64, &mut Vec::new()).is_err());
}

proptest! {
    #[test]
    fn what_is_written_is_read(written in prop::collection::vec(-30000_i16..30000, 1..20)) {
        let written: Vec<f64> = written.into_iter().map(f64::from).collect();
        for name in ["i16", "i32", "f32", "f64"] {
            let PayloadType::Array(element) = name.parse().unwrap() else { panic!() };
            let mut payload = Vec::new();
            write(&written, element, &mut payload).unwrap();
            prop_assert_eq!(numbers(name, &payload), Ok(written.clone()));
        }
        let json = format!("{{\"a\":{written:?}}}");
        prop_assert_eq!(numbers("json:a", json.as_bytes()), Ok(written));
    }

    #[test]
    fn garbage_never_panics(payload in prop::collection::vec(any::<u8>(), 0..200)) {
        for name in ["i16", "f64", "json", "json:a.0", "cbor", "cbor:a.0", "cbor:1"] {
            let _ = numbers(name, &payload);
        }
    }

    /// Bytes that are mostly the beginnings of lists and maps go deeper than random ones.
    #[test]
    fn structured_garbage_never_panics(
        cbor in prop::collection::vec(prop::sample::select(vec![0x81, 0x9f, 0xa1, 0xbf, 0x01, 0xff, 0x61, 0x61, 0xc1, 0xf9, 0x5f, 0x7f, 0x9b]), 0..60),
        json in "[\\[\\]{}\":,a01.e\\\\-]{0,60}",
    ) {
        for path in ["", "a", "0", "1.a", "a.a.0"] {
            let _ = numbers(&format!("cbor:{path}"), &cbor);
            let _ = numbers(&format!("json:{path}"), json.as_bytes());
        }
    }
}
