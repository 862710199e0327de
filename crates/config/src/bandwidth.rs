//! What a link carries.

use std::fmt;
use std::str::FromStr;

/// Bytes in a second, as text in bits: `500kbit/s`, `2Mbit/s`, `1Gbit/s`; `kbps`, `Mbps` and `Gbps` are understood as well.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Bandwidth(pub u64);

/// Units, and how many bytes in a second each is.
const UNITS: [(&str, u64); 6] = [
    ("Gbit/s", 125_000_000),
    ("Mbit/s", 125_000),
    ("kbit/s", 125),
    ("Gbps", 125_000_000),
    ("Mbps", 125_000),
    ("kbps", 125),
];
/// No link carries more.
const MOST: u64 = 125_000_000_000;

impl FromStr for Bandwidth {
    type Err = String;

    fn from_str(text: &str) -> Result<Bandwidth, String> {
        let known = UNITS.iter().find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, *bytes)));
        let (number, unit) = known.ok_or_else(|| format!("`{text}` has no unit of a bandwidth"))?;
        let number: f64 = number.trim().parse().map_err(|_| format!("`{number}` is no number"))?;
        let bytes = number * unit as f64;
        if !(bytes >= contract::BANDWIDTH_MIN as f64 && bytes <= MOST as f64) {
            return Err(format!(
                "`{text}` is not from {} to {}",
                Bandwidth(contract::BANDWIDTH_MIN),
                Bandwidth(MOST)
            ));
        }
        Ok(Bandwidth(bytes.round() as u64))
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |unit: u64| self.0 >= unit;
        let (unit, bytes) = UNITS.iter().take(3).find(|(_, unit)| fits(*unit)).unwrap_or(&UNITS[2]);
        // Three places are enough for people.
        let rounded = (self.0 as f64 / *bytes as f64 * 1_000.0).round() / 1_000.0;
        write!(f, "{rounded}{unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bandwidths_are_read_in_bits_and_shown_so() {
        for (text, bytes, shown) in [
            ("64kbit/s", 8_000, "64kbit/s"),
            ("2Mbit/s", 250_000, "2Mbit/s"),
            ("1.5 Mbps", 187_500, "1.5Mbit/s"),
            ("1Gbps", 125_000_000, "1Gbit/s"),
            ("1000kbit/s", 125_000, "1Mbit/s"),
        ] {
            let bandwidth: Bandwidth = text.parse().unwrap();
            assert_eq!((bandwidth.0, bandwidth.to_string().as_str()), (bytes, shown), "{text}");
        }
        for bad in ["", "2", "2MiB", "-1Mbit/s", "NaNMbit/s", "1kbit/s", "2000Gbit/s", "Mbit/s", "infMbit/s"]
        {
            assert!(bad.parse::<Bandwidth>().is_err(), "{bad}");
        }
    }
}
