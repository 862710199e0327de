//! How something was a moment ago: one thread draws it, others look at it.

use contract::{Span, Time};
use std::sync::{Arc, Mutex, PoisonError};

/// Between two pictures.
const EVERY: Span = Span::millis(200);

/// A picture that is drawn again and again.
pub struct Picture<T>(Arc<Mutex<Option<T>>>);

/// Who draws it.
pub struct Painter<T> {
    picture: Picture<T>,
    drawn: Time,
}

impl<T> Clone for Picture<T> {
    fn clone(&self) -> Picture<T> {
        Picture(Arc::clone(&self.0))
    }
}

impl<T: Clone> Picture<T> {
    /// One that has not been drawn yet, and who will draw it.
    pub fn new() -> (Picture<T>, Painter<T>) {
        let picture = Picture(Arc::default());
        (picture.clone(), Painter { picture, drawn: Time::ZERO })
    }

    /// One that stays as it is.
    pub fn of(drawn: T) -> Picture<T> {
        Picture(Arc::new(Mutex::new(Some(drawn))))
    }

    /// It; `None`: it has not been drawn yet.
    pub fn look(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl<T> Painter<T> {
    /// Draws it again if it is time.
    pub fn draw(&mut self, now: Time, draw: impl FnOnce() -> T) {
        // A clock that went back must not keep it from being drawn.
        if now >= self.drawn + EVERY || now < self.drawn {
            self.drawn = now;
            *self.picture.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(draw());
        }
    }
}
