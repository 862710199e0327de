//! The same for C, and for all that can call C. `include/verge_kv.h` says what each function does; both must be changed together.
//!
//! A handle may be used by several threads at once: reads never wait, writes take turns.
#![allow(
    unsafe_code,
    reason = "pointers come from C; what they must be is in the header, and each use says it again"
)]

mod report;

use crate::{Client, Error, Key, Number, Options, Reader, Releases, Said, now};
use contract::{Span, Time};
use kv_shared::clock::sleep_towards;
use report::{Code, guarded, refuse};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What C holds.
pub struct Handle {
    reader: Reader,
    /// By their numbers.
    keys: Vec<Key>,
    /// The names of nodes, by number.
    nodes: Vec<CString>,
    client: Mutex<Client>,
}

impl Handle {
    fn attach(socket: &str, lane: u16, options: &Options) -> Result<Handle, Error> {
        let client = Client::attach(socket, lane, options)?;
        let reader = client.reader().clone();
        let mut keys: Vec<Key> = reader.keys().collect();
        keys.sort_by_key(Key::number);
        // No name has a zero in it.
        let nodes =
            reader.nodes().iter().map(|name| CString::new(name.as_str()).unwrap_or_default()).collect();
        Ok(Handle { reader, keys, nodes, client: Mutex::new(client) })
    }

    fn write(&self, key: i64, write: impl FnOnce(&mut Client, &Key) -> Result<(), Error>) -> c_int {
        let Some(key) = self.key(key) else { return no_key() };
        let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        write(&mut client, key).map_or_else(|error| refuse(&error), |()| 0)
    }

    fn key(&self, key: i64) -> Option<&Key> {
        self.keys.get(usize::try_from(key).ok()?)
    }
}

fn no_key() -> c_int {
    report::say(Code::Invalid, format_args!("no such key number: use what verge_kv_key gave for this lane"))
}

/// # Safety
/// `socket` and `name` are texts that end with a zero; `name` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn verge_kv_attach(
    socket: *const c_char,
    lane: u16,
    tuples: usize,
    name: *const c_char,
    wait_ms: u32,
) -> *mut Handle {
    let mut handle = std::ptr::null_mut();
    guarded(|| {
        // SAFETY: promised by the caller.
        let (socket, name) = unsafe { (text(socket), text(name)) };
        let Some(socket) = socket else { return no_text("socket") };
        let mut options =
            Options { tuples, wait: Duration::from_millis(wait_ms.into()), ..Options::default() };
        if let Some(name) = name {
            options.name = name.to_owned();
        }
        match Handle::attach(socket, lane, &options) {
            Ok(attached) => handle = Box::into_raw(Box::new(attached)),
            Err(error) => return refuse(&error),
        }
        0
    });
    handle
}

/// # Safety
/// `handle` is null, or what `verge_kv_attach` gave, and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn verge_kv_detach(handle: *mut Handle) {
    guarded(|| {
        if !handle.is_null() {
            // SAFETY: it came from `Box::into_raw`, and the caller has promised to give it back once.
            drop(unsafe { Box::from_raw(handle) });
        }
        0
    });
}

/// # Safety
/// `handle` is what `verge_kv_attach` gave, `name` a text that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn verge_kv_key(handle: *const Handle, name: *const c_char) -> i64 {
    // SAFETY: promised by the caller.
    let (handle, name) = unsafe { (&*handle, text(name)) };
    let mut number = -1;
    let code = guarded(|| {
        let Some(name) = name else { return no_text("name") };
        handle
            .reader
            .key(name)
            .map(|key| number = key.number().into())
            .map_or_else(|error| refuse(&error), |()| 0)
    });
    if code < 0 { code.into() } else { number }
}

/// # Safety
/// `handle` is what `verge_kv_attach` gave, `buffer` has `size` bytes, `stamp` is null or a number to be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn verge_kv_read(
    handle: *const Handle,
    key: i64,
    freshness: u64,
    buffer: *mut c_void,
    size: usize,
    stamp: *mut u64,
) -> i64 {
    // SAFETY: promised by the caller.
    unsafe {
        read_into(handle, key, buffer, size, stamp, |reader, key, buffer| {
            reader.read(key, Time(freshness), buffer).map(|value| (value.stamp, value.bytes.len()))
        })
    }
}

/// # Safety
/// As for `verge_kv_read`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn verge_kv_read_vector(
    handle: *const Handle,
    key: i64,
    freshness: u64,
    buffer: *mut c_void,
    size: usize,
    stamp: *mut u64,
) -> i64 {
    // SAFETY: promised by the caller.
    unsafe {
        read_into(handle, key, buffer, size, stamp, |reader, key, buffer| {
            reader.read_vector(key, Time(freshness), buffer).map(|vector| (vector.stamp, vector.bytes.len()))
        })
    }
}

/// # Safety
/// `vector` has `len` bytes; `value` and `size` are null or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn verge_kv_said(
    vector: *const c_void,
    len: usize,
    node: c_int,
    value: *mut *const c_void,
    size: *mut usize,
) -> c_int {
    // SAFETY: promised by the caller.
    let vector = unsafe { bytes(vector, len) };
    guarded(|| {
        let said = Said::of(vector).find(|(who, _)| c_int::from(who.0) == node);
        if let Some((_, said)) = said {
            // SAFETY: promised by the caller.
            unsafe {
                put(value, said.as_ptr().cast());
                put(size, said.len());
            }
        }
        said.is_some().into()
    })
}

/// # Safety
/// `handle` is what `verge_kv_attach` gave.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn verge_kv_vector_bytes_max(handle: *const Handle) -> usize {
    // SAFETY: promised by the caller.
    unsafe { &*handle }.reader.vector_bytes_max()
}

/// # Safety
/// `handle` is what `verge_kv_attach` gave.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn verge_kv_nodes(handle: *const Handle) -> c_int {
    // SAFETY: promised by the caller.
    unsafe { &*handle }.nodes.len() as c_int
}

/// # Safety
/// `handle` is what `verge_kv_attach` gave. The text is valid as long as that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn verge_kv_node_name(handle: *const Handle, node: c_int) -> *const c_char {
    // SAFETY: promised by the caller.
    let nodes = unsafe { &(&*handle).nodes };
    let name = usize::try_from(node).ok().and_then(|node| nodes.get(node));
    name.map_or(std::ptr::null(), |name| name.as_ptr())
}

/// # Safety
/// `handle` is what `verge_kv_attach` gave.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn verge_kv_fail_safe(handle: *const Handle, on: c_int) {
    // SAFETY: promised by the caller.
    unsafe { &*handle }.reader.fail_safe(on != 0);
}

/// # Safety
/// `handle` is what `verge_kv_attach` gave.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn verge_kv_alarm(handle: *const Handle) -> c_int {
    // SAFETY: promised by the caller.
    unsafe { &*handle }.reader.alarm().into()
}

/// # Safety
/// As for `verge_kv_read`; `number` may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn verge_kv_read_f64(
    handle: *const Handle,
    key: i64,
    freshness: u64,
    number: *mut f64,
    stamp: *mut u64,
) -> c_int {
    // SAFETY: promised by the caller.
    unsafe { read_number(handle, key, freshness, number, stamp) }
}

/// # Safety
/// As for `verge_kv_read_f64`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn verge_kv_read_i64(
    handle: *const Handle,
    key: i64,
    freshness: u64,
    number: *mut i64,
    stamp: *mut u64,
) -> c_int {
    // SAFETY: promised by the caller.
    unsafe { read_number(handle, key, freshness, number, stamp) }
}

/// # Safety
/// `handle` is what `verge_kv_attach` gave, `value` has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn verge_kv_write(
    handle: *const Handle,
    key: i64,
    value: *const c_void,
    size: usize,
    publishing: u64,
) -> c_int {
    // SAFETY: promised by the caller. No slice is made of a null pointer.
    let (handle, value) = unsafe { (&*handle, bytes(value, size)) };
    guarded(|| handle.write(key, |client, key| client.write(key, value, Time(publishing))))
}

/// # Safety
/// `handle` is what `verge_kv_attach` gave.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn verge_kv_write_f64(
    handle: *const Handle,
    key: i64,
    number: f64,
    publishing: u64,
) -> c_int {
    // SAFETY: promised by the caller.
    let handle = unsafe { &*handle };
    guarded(|| handle.write(key, |client, key| client.write_number(key, number, Time(publishing))))
}

/// # Safety
/// `handle` is what `verge_kv_attach` gave.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn verge_kv_write_i64(
    handle: *const Handle,
    key: i64,
    number: i64,
    publishing: u64,
) -> c_int {
    // SAFETY: promised by the caller.
    let handle = unsafe { &*handle };
    guarded(|| handle.write(key, |client, key| client.write_number(key, number, Time(publishing))))
}

/// # Safety
/// `handle` is what `verge_kv_attach` gave.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn verge_kv_alive(handle: *const Handle) -> c_int {
    // SAFETY: promised by the caller.
    let handle = unsafe { &*handle };
    guarded(|| {
        handle.reader.node_alive().map_or_else(|gone| report::say(Code::Gone, format_args!("{gone}")), |()| 1)
    })
}

/// # Safety
/// `handle` is what `verge_kv_attach` gave.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn verge_kv_period(handle: *const Handle) -> u64 {
    // SAFETY: promised by the caller.
    unsafe { &*handle }.reader.facts().period.as_nanos_u64()
}

/// # Safety
/// `handle` is what `verge_kv_attach` gave.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn verge_kv_value_bytes_max(handle: *const Handle) -> usize {
    // SAFETY: promised by the caller.
    unsafe { &*handle }.reader.facts().value_bytes_max
}

/// The time on the synchronised clock.
#[unsafe(no_mangle)]
pub extern "C" fn verge_kv_now() -> u64 {
    now().0
}

/// The first release after a time.
#[unsafe(no_mangle)]
pub extern "C" fn verge_kv_release_after(time: u64, period: u64) -> u64 {
    Releases::after(Time(time), span(period)).0
}

/// The latest release at or before a time.
#[unsafe(no_mangle)]
pub extern "C" fn verge_kv_latest_release(time: u64, period: u64) -> u64 {
    Releases::latest(Time(time), span(period)).0
}

/// Sleeps until a time, or until a signal comes.
#[unsafe(no_mangle)]
pub extern "C" fn verge_kv_sleep_until(time: u64) -> c_int {
    loop {
        match sleep_towards(Time(time)) {
            Ok(now) if now.0 >= time => return 0,
            Ok(_) => {}
            Err(_) => return Code::Interrupted as c_int,
        }
    }
}

/// Real-time scheduling for the calling thread.
#[unsafe(no_mangle)]
pub extern "C" fn verge_kv_realtime(priority: c_int, processor: c_int) -> c_int {
    guarded(|| {
        let refusals =
            crate::realtime(u8::try_from(priority).ok().filter(|&p| p > 0), usize::try_from(processor).ok());
        if refusals.is_empty() {
            0
        } else {
            report::say(Code::System, format_args!("{}", refusals.join("; ")))
        }
    })
}

/// The last refusal of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn verge_kv_last_error() -> *const c_char {
    report::last()
}

/// # Safety
/// As for `verge_kv_read`.
unsafe fn read_into(
    handle: *const Handle,
    key: i64,
    buffer: *mut c_void,
    size: usize,
    stamp: *mut u64,
    read: impl FnOnce(&Reader, &Key, &mut [u8]) -> Result<(Time, usize), Error>,
) -> i64 {
    // SAFETY: promised by the caller. No slice is made of a null pointer.
    let (handle, buffer) = unsafe { (&*handle, room(buffer, size)) };
    let mut len = 0;
    let code = guarded(|| {
        let Some(key) = handle.key(key) else { return no_key() };
        match read(&handle.reader, key, buffer) {
            Ok((found, bytes)) => {
                len = bytes as i64;
                // SAFETY: promised by the caller.
                unsafe { put(stamp, found.0) };
                0
            }
            Err(error) => refuse(&error),
        }
    });
    if code < 0 { code.into() } else { len }
}

/// # Safety
/// As for `verge_kv_read_f64`.
unsafe fn read_number<N: Number>(
    handle: *const Handle,
    key: i64,
    freshness: u64,
    number: *mut N,
    stamp: *mut u64,
) -> c_int {
    // SAFETY: promised by the caller.
    let handle = unsafe { &*handle };
    guarded(|| {
        let Some(key) = handle.key(key) else { return no_key() };
        match handle.reader.read_number::<N>(key, Time(freshness)) {
            Ok(read) => {
                // SAFETY: promised by the caller.
                unsafe {
                    put(number, read.number);
                    put(stamp, read.stamp.0);
                }
                0
            }
            Err(error) => refuse(&error),
        }
    })
}

/// # Safety
/// `place` is null or may be written to.
unsafe fn put<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: promised by the caller.
        unsafe { place.write(value) };
    }
}

/// # Safety
/// `buffer` is null, or has `size` bytes that nobody else uses.
unsafe fn room<'a>(buffer: *mut c_void, size: usize) -> &'a mut [u8] {
    if buffer.is_null() {
        return <&mut [u8]>::default();
    }
    // SAFETY: promised by the caller.
    unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), size) }
}

/// # Safety
/// `value` is null, or has `size` bytes that stay as they are.
unsafe fn bytes<'a>(value: *const c_void, size: usize) -> &'a [u8] {
    if value.is_null() {
        return <&[u8]>::default();
    }
    // SAFETY: promised by the caller.
    unsafe { std::slice::from_raw_parts(value.cast::<u8>(), size) }
}

/// # Safety
/// `text` is null, or ends with a zero and stays as it is.
unsafe fn text<'a>(text: *const c_char) -> Option<&'a str> {
    if text.is_null() {
        return None;
    }
    // SAFETY: promised by the caller.
    unsafe { CStr::from_ptr(text) }.to_str().ok()
}

fn no_text(what: &str) -> c_int {
    report::say(Code::Invalid, format_args!("{what} must be a text in UTF-8"))
}

fn span(nanos: u64) -> Span {
    Span(i64::try_from(nanos).unwrap_or(i64::MAX))
}
