#![doc = include_str!("../README.md")]

pub mod crash;
pub mod pendulum;
pub mod sites;
pub mod worker;
mod workload;
