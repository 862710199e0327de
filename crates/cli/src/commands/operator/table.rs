//! Tables of inputs, a column for each, and payloads made of their cells.

use console::Trouble;
use processing::{Element, PayloadType};
use std::path::Path;

/// How many runs one table may ask for.
pub const ROWS_MAX: usize = 100_000;

/// A table that has been read.
pub struct Table {
    /// What the inputs are, by column.
    pub types: Vec<PayloadType>,
    /// The runs.
    pub rows: Vec<Row>,
}

/// The inputs of one run.
pub struct Row {
    /// Its line in the file.
    pub line: u64,
    /// A payload for each column, or nothing where the cell is empty.
    pub payloads: Vec<Option<Vec<u8>>>,
}

/// Reads a table; `types` holds one type for all columns, or one for each.
pub fn read(path: &Path, types: &[PayloadType]) -> Result<Table, Trouble> {
    let file = path.display();
    let unreadable = |error: csv::Error| {
        Trouble(format!(
            "cannot read {file}: {error}; it must be CSV with the names of the inputs in its first line"
        ))
    };
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_path(path).map_err(unreadable)?;
    let names: Vec<String> = reader.headers().map_err(unreadable)?.iter().map(str::to_owned).collect();
    let types = spread(types, names.len()).ok_or_else(|| {
        let (columns, types) = (names.len(), types.len());
        Trouble(format!(
            "{file} has {columns} columns, and there are {types} types: give one --type for all of them, or one for each"
        ))
    })?;
    if let Some(number) = names.iter().find(|name| name.parse::<f64>().is_ok()) {
        return Err(Trouble(format!(
            "{file}, line 1: expected the names of the inputs and found the number {number:?}; put a line with names first"
        )));
    }
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(unreadable)?;
        let line = record.position().map_or(0, csv::Position::line);
        if rows.len() == ROWS_MAX {
            return Err(Trouble(format!(
                "{file}, line {line}: at most {ROWS_MAX} runs can be made at once; split the file"
            )));
        }
        let payload = |(column, cell): (usize, &str)| {
            encode(cell, &types[column]).map_err(|problem| {
                Trouble(format!("{file}, line {line}, column `{}`: {problem}", names[column]))
            })
        };
        let payloads = record.iter().enumerate().map(payload).collect::<Result<_, _>>()?;
        rows.push(Row { line, payloads });
    }
    if rows.is_empty() {
        return Err(Trouble(format!(
            "{file} has no line below the names of the inputs; write one for each run"
        )));
    }
    Ok(Table { types, rows })
}

/// A result as people read it.
pub fn decode(payload: &[u8], kind: &PayloadType) -> String {
    match kind {
        PayloadType::Array(element) => {
            let numbers = payload.chunks_exact(element.bytes()).map(|bytes| number(bytes, *element));
            numbers.collect::<Vec<_>>().join(";")
        }
        _ => match std::str::from_utf8(payload) {
            Ok(text) if !text.contains(|letter: char| letter.is_control()) => text.to_owned(),
            _ => payload.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" "),
        },
    }
}

fn spread(types: &[PayloadType], columns: usize) -> Option<Vec<PayloadType>> {
    match types {
        [one] => Some(vec![one.clone(); columns]),
        more => (more.len() == columns).then(|| more.to_vec()),
    }
}

fn encode(cell: &str, kind: &PayloadType) -> Result<Option<Vec<u8>>, String> {
    if cell.is_empty() {
        return Ok(None);
    }
    let element = match kind {
        PayloadType::Array(element) => *element,
        PayloadType::Bytes | PayloadType::Text | PayloadType::Json(_) => {
            return Ok(Some(cell.as_bytes().to_vec()));
        }
        PayloadType::Cbor(_) => {
            return Err("CBOR cannot be written in a table; give it as another type".to_owned());
        }
    };
    let mut payload = Vec::new();
    for text in cell.split(';').map(str::trim) {
        push(text, element, &mut payload).ok_or_else(|| {
            format!("{text:?} is no {kind}; write a number, or several as in 1;2;3, or give another --type")
        })?;
    }
    Ok(Some(payload))
}

fn push(text: &str, element: Element, payload: &mut Vec<u8>) -> Option<()> {
    match element {
        Element::I16 => payload.extend(text.parse::<i16>().ok()?.to_le_bytes()),
        Element::I32 => payload.extend(text.parse::<i32>().ok()?.to_le_bytes()),
        Element::F32 => payload.extend(text.parse::<f32>().ok()?.to_le_bytes()),
        Element::F64 => payload.extend(text.parse::<f64>().ok()?.to_le_bytes()),
    }
    Some(())
}

/// The number in these bytes, of which there are as many as it takes.
fn number(bytes: &[u8], element: Element) -> String {
    let mut eight = [0; 8];
    eight[..bytes.len()].copy_from_slice(bytes);
    let [a, b, c, d, ..] = eight;
    match element {
        Element::I16 => i16::from_le_bytes([a, b]).to_string(),
        Element::I32 => i32::from_le_bytes([a, b, c, d]).to_string(),
        Element::F32 => f32::from_le_bytes([a, b, c, d]).to_string(),
        Element::F64 => f64::from_le_bytes(eight).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_become_payloads_and_payloads_cells() {
        for (kind, cell, back) in [
            ("f64", "1.5;-2", "1.5;-2"),
            ("f32", "0.1", "0.1"),
            ("i16", "-32768; 7", "-32768;7"),
            ("i32", "70000", "70000"),
            ("bytes", "some text", "some text"),
            ("json:a", "{\"a\":1}", "{\"a\":1}"),
        ] {
            let kind = kind.parse().unwrap();
            assert_eq!(decode(&encode(cell, &kind).unwrap().unwrap(), &kind), back);
        }
        assert_eq!(encode("", &PayloadType::Bytes), Ok(None));
        assert!(encode("32768", &"i16".parse().unwrap()).unwrap_err().contains("is no i16"));
        assert!(encode("1;;2", &"f64".parse().unwrap()).is_err());
        assert_eq!(decode(b"\x01\xff", &PayloadType::Bytes), "01 ff");
    }
}
