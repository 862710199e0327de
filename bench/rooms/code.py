"""Code that several measurements measure, by paths of this repository."""

# What a broker and its clients run for every message.
BROKER = ("crates/broker", "crates/node/src/allocator.rs", "crates/client", "crates/contract", "crates/endpoint", "crates/engine", "crates/host",
          "crates/wire")
OPERATORS = ("crates/processing", "crates/wasm")
