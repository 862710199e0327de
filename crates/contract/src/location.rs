//! Where on earth something is.

use std::fmt;

/// A point of the earth, in degrees.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Location {
    lat: f64,
    long: f64,
}

/// Why something is no location.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
#[error("({lat}, {long}) is no place on earth: latitudes go from -90 to 90, longitudes from -180 to 180")]
pub struct NoLocation {
    lat: f64,
    long: f64,
}

impl Location {
    /// The point at this latitude (to the north) and longitude (to the east).
    pub fn new(lat: f64, long: f64) -> Result<Location, NoLocation> {
        if (-90.0..=90.0).contains(&lat) && (-180.0..=180.0).contains(&long) {
            Ok(Location { lat, long })
        } else {
            Err(NoLocation { lat, long })
        }
    }

    /// Degrees to the north.
    pub fn lat(self) -> f64 {
        self.lat
    }

    /// Degrees to the east.
    pub fn long(self) -> f64 {
        self.long
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}, {})", self.lat, self.long)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_on_earth_is_refused() {
        assert!(Location::new(90.0, -180.0).is_ok());
        for (lat, long) in [(90.1, 0.0), (0.0, 180.5), (f64::NAN, 0.0), (0.0, f64::INFINITY)] {
            assert!(Location::new(lat, long).is_err(), "{lat} {long}");
        }
        assert_eq!(Location::new(40.0583, -74.4056).unwrap().to_string(), "(40.0583, -74.4056)");
    }
}
