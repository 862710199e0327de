//! Messages one by one, as CSV.

use crate::worker::{ReceiveReport, Traced};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Writes what the receivers traced. Creation is in seconds from this instant, or from the first message.
pub fn write(path: &Path, received: &[ReceiveReport], origin_ns: Option<u64>) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    rows(&mut file, received, origin_ns)?;
    file.flush()
}

fn rows(to: &mut impl Write, received: &[ReceiveReport], origin_ns: Option<u64>) -> io::Result<()> {
    let messages = || received.iter().flat_map(|report| &report.traced).flat_map(|(_, messages)| messages);
    let first = messages().map(|message| message.created_ns).min().unwrap_or(0);
    let origin = origin_ns.unwrap_or(first);
    writeln!(to, "topic,number,created_s,latency_ms")?;
    for (topic, messages) in received.iter().flat_map(|report| &report.traced) {
        for Traced { seq, created_ns, latency_ns } in messages {
            let created_s = (i128::from(*created_ns) - i128::from(origin)) as f64 / 1e9;
            writeln!(to, "{topic},{seq},{created_s:.6},{:.6}", *latency_ns as f64 / 1e6)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(origin_ns: Option<u64>) -> String {
        let mut report = ReceiveReport::default();
        let message = |seq, created_ns, latency_ns| Traced { seq, created_ns, latency_ns };
        let messages = vec![message(7, 2_000_000_000, 250_000), message(8, 2_050_000_000, 1_000_000)];
        report.traced.insert("c0/0".to_owned(), messages);
        let mut text = Vec::new();
        rows(&mut text, &[report], origin_ns).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn creation_counts_from_the_crash_and_is_negative_before_it() {
        let expected =
            "topic,number,created_s,latency_ms\nc0/0,7,-0.025000,0.250000\nc0/0,8,0.025000,1.000000\n";
        assert_eq!(text(Some(2_025_000_000)), expected);
    }

    #[test]
    fn without_a_crash_it_counts_from_the_first_message() {
        assert!(text(None).contains("c0/0,7,0.000000,") && text(None).contains("c0/0,8,0.050000,"));
    }
}
