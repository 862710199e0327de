//! The interface of `shim.c`: the same structures, and what it can do.

use std::ffi::{c_char, c_void};

pub const PARTITIONS_MAX: usize = 64;

#[repr(C)]
pub struct BridgeQos {
    pub max_blocking: i64,
    pub deadline: i64,
    pub latency_budget: i64,
    pub lifespan: i64,
    pub lease: i64,
    pub reliability: i32,
    pub durability: i32,
    pub history: i32,
    pub depth: i32,
    pub service_history: i32,
    pub service_depth: i32,
    pub liveliness: i32,
    pub ownership: i32,
    pub strength: i32,
    pub order: i32,
    pub priority: i32,
    pub access: i32,
    pub representations: u32,
    pub partitions: u32,
    pub partition: [*const c_char; PARTITIONS_MAX],
}

#[repr(C)]
pub struct BridgeSample {
    pub tap: u64,
    pub writer: [u8; 16],
    pub stamp: i64,
    pub kind: u32,
    pub status: u32,
    pub has_hash: u32,
    pub hash: [u8; 16],
    pub bytes: *const u8,
    pub length: u32,
}

#[repr(C)]
pub struct BridgeEndpoint {
    pub guid: [u8; 16],
    pub participant: [u8; 16],
    pub alive: u32,
    pub is_writer: u32,
    pub topic: *const c_char,
    pub type_name: *const c_char,
    pub user_data: *const u8,
    pub user_data_length: u32,
    pub qos: BridgeQos,
}

#[repr(C)]
pub struct BridgeParticipant {
    pub guid: [u8; 16],
    pub alive: u32,
    pub user_data: *const u8,
    pub user_data_length: u32,
}

pub type Take = extern "C" fn(*mut c_void, *const BridgeSample);
pub type Wake = extern "C" fn(*mut c_void);

#[repr(C)]
pub struct Opaque {
    _private: [u8; 0],
}

unsafe extern "C" {
    pub fn bridge_open(
        domain: u32,
        mark: *const c_char,
        take: Take,
        wake: Wake,
        context: *mut c_void,
        error: *mut i32,
    ) -> *mut Opaque;
    pub fn bridge_close(bridge: *mut Opaque);
    pub fn bridge_say(bridge: *mut Opaque, mark: *const c_char) -> i32;
    pub fn bridge_guid(bridge: *const Opaque, guid: *mut u8);
    pub fn bridge_participants(
        bridge: *mut Opaque,
        tell: extern "C" fn(*mut c_void, *const BridgeParticipant),
        to: *mut c_void,
    );
    pub fn bridge_endpoints(
        bridge: *mut Opaque,
        tell: extern "C" fn(*mut c_void, *const BridgeEndpoint),
        to: *mut c_void,
    );
    pub fn bridge_tap(
        bridge: *mut Opaque,
        number: u64,
        topic: *const c_char,
        type_name: *const c_char,
        keyed: u32,
        from: *const BridgeQos,
        mark: *const c_char,
    ) -> i32;
    pub fn bridge_writer(
        bridge: *mut Opaque,
        topic: *const c_char,
        type_name: *const c_char,
        keyed: u32,
        from: *const BridgeQos,
        mark: *const c_char,
        sertype: *mut *mut Opaque,
    ) -> i32;
    pub fn bridge_write(writer: i32, sertype: *const Opaque, from: *const BridgeSample) -> i32;
    pub fn bridge_matched(writer: i32) -> i32;
    pub fn bridge_delete(entity: i32) -> i32;
    pub fn bridge_words(result: i32) -> *const c_char;
}
