//! Part of a file, so that neighbours are not read one by one.

use crate::{FileError, FileName, Files};

#[derive(Debug, Default)]
pub(crate) struct Page {
    bytes: Vec<u8>,
    of: Option<(FileName, u64)>,
    /// So many of its bytes are what is in the file, and will stay so.
    valid: usize,
}

/// What is read at once: most items and those around them, and little enough to be read for a single one.
const PAGE_BYTES: u64 = 4 << 10;

impl Page {
    /// Bytes of a file, which has been written up to `end`. Nothing: it is shorter than that.
    pub(crate) fn fetch<F: Files>(
        &mut self,
        files: &F,
        name: FileName,
        at: u64,
        len: usize,
        end: u64,
    ) -> Result<Option<&[u8]>, FileError> {
        let to = at + len as u64;
        if to > end {
            return Ok(None);
        }
        let has = |of: &(FileName, u64)| of.0 == name && at >= of.1 && to <= of.1 + self.valid as u64;
        if !self.of.as_ref().is_some_and(has) {
            let aligned = at - at % PAGE_BYTES;
            let from = if to <= aligned + PAGE_BYTES { aligned } else { at };
            let wanted = (end - from).min(PAGE_BYTES.max(to - from)) as usize;
            (self.of, self.valid) = (None, 0);
            if self.bytes.len() < wanted || self.bytes.len() > wanted.max(2 * PAGE_BYTES as usize) {
                self.bytes = vec![0; wanted.max(PAGE_BYTES as usize)];
            }
            let count = files.read(name, from, &mut self.bytes[..wanted])?;
            (self.of, self.valid) = (Some((name, from)), count);
        }
        let from = self.of.map_or(0, |of| (at - of.1) as usize);
        Ok(self.bytes[..self.valid].get(from..from + len))
    }

    /// A file is gone.
    pub(crate) fn forget(&mut self) {
        self.of = None;
    }
}
