//! The bytes of a recording: unpacked, cut into lines, and put together as records.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use csv::StringRecord;
use flate2::bufread::MultiGzDecoder;

use super::RecordingError;
use super::parquet_text::{self, ParquetText};

/// The longest row in bytes, over all its lines. It bounds the memory for a file without line ends, and for
/// one with a quote that is never closed.
pub const MAX_LINE_BYTES: usize = 1 << 20;

const BUFFER_BYTES: usize = 64 << 10;
const GZIP_MAGIC: &[u8] = &[0x1f, 0x8b];
const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// How files are packed; the last of it is a table of its own.
const GZIP: &str = "gzip";
const ZSTD: &str = "zstd";
const PARQUET: &str = "Parquet";
const UTF8_BOM: &[u8] = &[0xef, 0xbb, 0xbf];
/// The byte order marks of UTF-16, and whether the low byte comes first.
const UTF16_BOMS: [(&[u8], bool); 2] = [(&[0xff, 0xfe], true), (&[0xfe, 0xff], false)];

/// Formats that people take for a recording, by the bytes they begin with.
const FOREIGN_FORMATS: [(&[u8], &str); 4] = [
    (b"PK\x03\x04", "an Excel workbook or a zip archive"),
    (b"\xd0\xcf\x11\xe0", "an old Excel workbook"),
    (b"\xfd7zXZ", "packed with xz"),
    (b"BZh", "packed with bzip2"),
];

/// The same of texts, whether packed or not.
const FOREIGN_TEXTS: [(&[u8], &str); 10] = [
    (b"<!", "a web page or XML"),
    (b"<?", "a web page or XML"),
    (b"<html", "a web page"),
    (b"<HTML", "a web page"),
    (b"<svg", "a picture"),
    (b"{\"", "JSON"),
    (b"{ \"", "JSON"),
    (b"[{", "JSON"),
    (b"[[", "JSON"),
    (b"%PDF", "a PDF document"),
];

/// A file as lines that all end in one `\n`, whether it was packed, and whichever line ends it uses. As a
/// [`Read`] it hands out one line at a time, so that a CSV reader on top of it never runs ahead and the line
/// of each record is known exactly.
pub(super) struct Lines {
    path: PathBuf,
    input: Box<dyn BufRead + Send>,
    /// How it is packed, if it is.
    packed: Option<&'static str>,
    consumed: Arc<AtomicU64>,
    size: u64,
    line: Vec<u8>,
    handed_out: usize,
    number: u64,
    after_cr: bool,
    record_line: Option<u64>,
    record_bytes: usize,
    /// Whether the file ended inside of a record, which only an open quote can cause.
    cut_off: bool,
}

impl Lines {
    pub(super) fn open(path: &Path) -> Result<Lines, RecordingError> {
        let cannot_open = |cause| RecordingError::Open { path: path.to_owned(), cause };
        // Asked before opening, because opening a pipe without a writer would wait for ever.
        let metadata = fs::metadata(path).map_err(cannot_open)?;
        if !metadata.is_file() {
            return Err(RecordingError::NotAFile { path: path.to_owned() });
        }
        let file = File::open(path).map_err(cannot_open)?;
        let consumed = Arc::new(AtomicU64::new(0));
        let input = BufReader::with_capacity(BUFFER_BYTES, file);
        let mut input = Counted { input, consumed: Arc::clone(&consumed) };
        let start = input.fill_buf().map_err(cannot_open)?;
        let foreign = FOREIGN_FORMATS.iter().find(|(magic, _)| start.starts_with(magic));
        if let Some(&(_, format)) = foreign {
            return Err(RecordingError::ForeignFormat { path: path.to_owned(), format });
        }
        let packed = [(GZIP_MAGIC, GZIP), (ZSTD_MAGIC, ZSTD), (parquet_text::MAGIC, PARQUET)]
            .iter()
            .find_map(|(magic, name)| start.starts_with(magic).then_some(*name));
        let unpack = || -> io::Result<Box<dyn BufRead + Send>> {
            Ok(match packed {
                Some(GZIP) => buffered(MultiGzDecoder::new(input)),
                Some(ZSTD) => buffered(zstd::Decoder::with_buffer(input)?),
                // It is read from both ends.
                Some(_) => buffered(ParquetText::new(File::open(path)?, Arc::clone(&consumed))?),
                None => Box::new(input),
            })
        };
        let mut input = unpack().map_err(|cause| cannot_read(path, packed, 1, cause))?;
        let start = input.fill_buf().map_err(|cause| cannot_read(path, packed, 1, cause))?;
        let begins = start.strip_prefix(UTF8_BOM).unwrap_or(start).trim_ascii_start();
        let foreign = FOREIGN_TEXTS.iter().find(|(begin, _)| begins.starts_with(begin));
        if let Some(&(_, format)) = foreign.filter(|_| packed != Some(PARQUET)) {
            return Err(RecordingError::ForeignFormat { path: path.to_owned(), format });
        }
        if let Some((_, low_first)) = UTF16_BOMS.iter().find(|(mark, _)| start.starts_with(mark)) {
            let text = Utf16 { input, low_first: *low_first, high: None, ready: Vec::new(), given: 0 };
            input = Box::new(BufReader::with_capacity(BUFFER_BYTES, text));
        }
        Ok(Lines {
            path: path.to_owned(),
            input,
            packed,
            consumed,
            size: metadata.len(),
            line: Vec::new(),
            handed_out: 0,
            number: 0,
            after_cr: false,
            record_line: None,
            record_bytes: 0,
            cut_off: false,
        })
    }

    /// Reads the next line that can belong to a record. Blank lines are passed over between records and kept
    /// inside of one, where they are part of a quoted cell.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, RecordingError> {
        self.handed_out = 0;
        loop {
            self.line.clear();
            if !self.fill_line()? {
                self.cut_off = self.record_line.is_some();
                return Ok(None);
            }
            self.number += 1;
            if self.number == 1 && self.line.starts_with(UTF8_BOM) {
                self.line.drain(..UTF8_BOM.len());
            }
            if self.line.contains(&0) {
                return Err(RecordingError::NotText { path: self.path.clone(), line: self.number });
            }
            if self.record_line.is_some() || self.line.iter().any(|byte| !matches!(byte, b' ' | b'\n')) {
                break;
            }
        }
        self.record_line.get_or_insert(self.number);
        self.record_bytes += self.line.len();
        Ok(Some(&self.line))
    }

    /// Whether the file says itself what its columns are.
    pub(super) fn is_typed(&self) -> bool {
        self.packed == Some(PARQUET)
    }

    /// The line that was read last.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// What was read last is nobody's.
    fn pass_over(&mut self) {
        self.begin_record();
        self.line.clear();
        self.handed_out = 0;
    }

    /// Starts a record with the next line: the limit on bytes applies anew.
    pub(super) fn begin_record(&mut self) {
        self.record_line = None;
        self.record_bytes = 0;
    }

    /// Appends bytes up to the next line end, which may be `\n`, `\r\n` or `\r`. False at the end of the
    /// file.
    fn fill_line(&mut self) -> Result<bool, RecordingError> {
        loop {
            let available = match self.input.fill_buf() {
                Ok(available) => available,
                Err(cause) if cause.kind() == ErrorKind::Interrupted => continue,
                Err(cause) => return Err(cannot_read(&self.path, self.packed, self.number + 1, cause)),
            };
            let Some(&first) = available.first() else {
                let unfinished = !self.line.is_empty();
                if unfinished {
                    self.line.push(b'\n');
                }
                return Ok(unfinished);
            };
            if std::mem::take(&mut self.after_cr) && first == b'\n' {
                self.input.consume(1);
                continue;
            }
            let end = available.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let taken = end.unwrap_or(available.len());
            if self.record_bytes + self.line.len() + taken > MAX_LINE_BYTES {
                let line = self.record_line.unwrap_or(self.number + 1);
                return Err(RecordingError::LineTooLong { path: self.path.clone(), line });
            }
            self.line.extend_from_slice(&available[..taken]);
            if let Some(end) = end {
                self.after_cr = available[end] == b'\r';
                self.input.consume(end + 1);
                self.line.push(b'\n');
                return Ok(true);
            }
            self.input.consume(taken);
        }
    }
}

fn buffered(input: impl Read + Send + 'static) -> Box<dyn BufRead + Send> {
    Box::new(BufReader::with_capacity(BUFFER_BYTES, input))
}

fn cannot_read(path: &Path, packed: Option<&'static str>, line: u64, cause: io::Error) -> RecordingError {
    let path = path.to_owned();
    match (cause.kind(), packed) {
        (ErrorKind::UnexpectedEof, Some(packed)) => RecordingError::Truncated { path, packed, line },
        // What a decoder says has the last kind; what a disk says has others.
        (ErrorKind::InvalidData | ErrorKind::InvalidInput | ErrorKind::Other, Some(packed)) => {
            RecordingError::Damaged { path, packed, line, cause }
        }
        _ => RecordingError::Read { path, line, cause },
    }
}

impl Read for Lines {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.handed_out == self.line.len() && self.next().map_err(io::Error::other)?.is_none() {
            return Ok(0);
        }
        Ok(hand_out(&self.line, &mut self.handed_out, out))
    }
}

/// Copies as much as fits of what has not been handed out yet. Returns how much that was.
fn hand_out(all: &[u8], handed_out: &mut usize, out: &mut [u8]) -> usize {
    let rest = &all[*handed_out..];
    let length = rest.len().min(out.len());
    out[..length].copy_from_slice(&rest[..length]);
    *handed_out += length;
    length
}

/// UTF-16 as UTF-8. What is no character is handed out as bytes that are no text, so that its line is told.
struct Utf16 {
    input: Box<dyn BufRead + Send>,
    low_first: bool,
    /// The first half of a character.
    high: Option<u16>,
    ready: Vec<u8>,
    given: usize,
}

/// In no UTF-8 text.
const NO_TEXT: u8 = 0xff;

impl Utf16 {
    fn take(&mut self, pair: [u8; 2]) {
        let unit = if self.low_first { u16::from_le_bytes(pair) } else { u16::from_be_bytes(pair) };
        let before = self.high.take();
        if before.is_none() && (0xd800..0xdc00).contains(&unit) {
            self.high = Some(unit);
            return;
        }
        let units = before.into_iter().chain([unit]);
        for character in char::decode_utf16(units) {
            match character {
                Ok(character) => {
                    self.ready.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                }
                Err(_) => self.ready.push(NO_TEXT),
            }
        }
    }
}

impl Read for Utf16 {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.given == self.ready.len() {
            self.ready.clear();
            self.given = 0;
            while self.ready.is_empty() {
                let mut pair = [0; 2];
                let first = self.input.read(&mut pair[..1])?;
                if first == 0 {
                    break;
                }
                match self.input.read(&mut pair[1..])? {
                    0 => self.ready.push(NO_TEXT),
                    _ => self.take(pair),
                }
                while self.ready.len() < BUFFER_BYTES && self.take_buffered()? {}
            }
        }
        Ok(hand_out(&self.ready, &mut self.given, out))
    }
}

impl Utf16 {
    /// Takes what can be had without reading.
    fn take_buffered(&mut self) -> io::Result<bool> {
        let available = self.input.fill_buf()?;
        let Some(pair) = available.first_chunk::<2>().copied() else { return Ok(false) };
        self.input.consume(2);
        self.take(pair);
        Ok(true)
    }
}

/// The rows of a file, the header included, each split into cells.
pub(super) struct Records {
    csv: csv::Reader<Lines>,
}

impl Records {
    /// The rows below this line.
    pub(super) fn open(path: &Path, delimiter: u8, above: u64) -> Result<Records, RecordingError> {
        let mut lines = Lines::open(path)?;
        while lines.number < above {
            lines.begin_record();
            if lines.next()?.is_none() {
                break;
            }
        }
        lines.pass_over();
        let mut builder = csv::ReaderBuilder::new();
        let csv = builder.delimiter(delimiter).has_headers(false).flexible(true).from_reader(lines);
        Ok(Records { csv })
    }

    /// Reads the next row into `record`, whose memory is reused, and returns the line it begins at.
    pub(super) fn read(&mut self, record: &mut StringRecord) -> Result<Option<u64>, RecordingError> {
        self.csv.get_mut().begin_record();
        let read = self.csv.read_record(record);
        let lines = self.csv.get_ref();
        let line = lines.record_line.unwrap_or(lines.number);
        let cause = match read {
            Ok(_) if lines.cut_off => {
                return Err(RecordingError::UnclosedQuote { path: lines.path.clone(), line });
            }
            Ok(more) => return Ok(more.then_some(line)),
            Err(error) => error.into_kind(),
        };
        let path = lines.path.clone();
        Err(match cause {
            csv::ErrorKind::Utf8 { .. } => RecordingError::NotText { path, line },
            csv::ErrorKind::Io(cause) => match cause.downcast() {
                Ok(error) => error,
                Err(cause) => RecordingError::Read { path, line, cause },
            },
            kind => RecordingError::Read { path, line, cause: io::Error::other(format!("{kind:?}")) },
        })
    }

    /// How many bytes of the file have been used, and how many it has.
    pub(super) fn progress(&self) -> (u64, u64) {
        let lines = self.csv.get_ref();
        (lines.consumed.load(Ordering::Relaxed).min(lines.size), lines.size)
    }
}

/// Counts what is taken from the file rather than what is buffered, so that progress is exact for small files
/// too. The count is shared because a gzip decoder hides its input.
struct Counted {
    input: BufReader<File>,
    consumed: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let length = self.input.read(out)?;
        self.consumed.fetch_add(length as u64, Ordering::Relaxed);
        Ok(length)
    }
}

impl BufRead for Counted {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.input.fill_buf()
    }

    fn consume(&mut self, length: usize) {
        self.input.consume(length);
        self.consumed.fetch_add(length as u64, Ordering::Relaxed);
    }
}
