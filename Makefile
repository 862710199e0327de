# The two commands that matter: `make demo` and `make test`.

CARGO ?= cargo
DATA ?=
DEMO_FLAGS ?=

SEEDS ?= 20000

.PHONY: demo test sim lint bench fmt fuzz

## Kill a broker under load and see what is lost. DATA=file.csv replays a recording of your own beside the workload.
demo:
	$(CARGO) build --release --bin verge
	./target/release/verge demo $(if $(DATA),--data $(DATA)) $(DEMO_FLAGS)

## All tests. The first run fetches and builds what they need.
test:
	$(CARGO) test --workspace

## Simulate made-up deployments, within the assumptions of the guarantees and beyond, each twice.
sim:
	$(CARGO) build --release --bin verge
	./target/release/verge sim --random --twice --seeds $(SEEDS)
	./target/release/verge sim --random --beyond --twice --seeds $(SEEDS)

## What CI checks besides the tests: formatting, lints, warnings, documentation.
lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items --quiet

## Measure the workload of the source's table, fault-free, and write bench/results/.
bench:
	$(CARGO) build --release --bin verge
	bench/sim.py
	bench/frame.py

## Put all code into the common form.
fmt:
	$(CARGO) fmt --all

## Fuzz the decoder and the broker for a minute each (needs a nightly toolchain and cargo-fuzz).
fuzz:
	cd fuzz && $(CARGO) +nightly fuzz run decode -- -max_total_time=60
	cd fuzz && $(CARGO) +nightly fuzz run broker -- -max_total_time=60
