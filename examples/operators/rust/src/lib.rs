//! How far the numbers of an array lie apart, when that is more than the parameter `above`. Input and output: f64.
#![no_std]

use core::{panic::PanicInfo, ptr, slice};

static mut VALUES: [f64; 4096] = [0.0; 4096];
static mut COUNT: usize = 0;
static mut ABOVE: f64 = 0.0;
static mut RESULT: f64 = 0.0;

#[unsafe(no_mangle)]
extern "C" fn verge_abi_version() -> i32 { 1 }

#[unsafe(no_mangle)]
extern "C" fn verge_set_above(value: f64) { unsafe { ABOVE = value } }

#[unsafe(no_mangle)]
extern "C" fn verge_input(_slot: i32, length: i32, _created_ns: i64) -> *mut f64 {
    unsafe { COUNT = length as usize / 8 };
    if length as usize <= 4096 * 8 { &raw mut VALUES as *mut f64 } else { ptr::null_mut() }
}

#[unsafe(no_mangle)]
extern "C" fn verge_run(_present: i64) -> i64 {
    let values = unsafe { slice::from_raw_parts(&raw const VALUES as *const f64, COUNT) };
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    unsafe {
        RESULT = high - low;
        if RESULT > ABOVE { (&raw const RESULT as i64) << 32 | 8 } else { -1 }
    }
}

#[panic_handler]
fn panic(_: &PanicInfo) -> ! { core::arch::wasm32::unreachable() }
