# The two commands that matter: `make demo` and `make test`.

CARGO ?= cargo
DATA ?=
DEMO_FLAGS ?=

SEEDS ?= 20000

# Where cargo puts what it builds.
TARGET := $(or $(CARGO_TARGET_DIR),target)

WASM_TARGET := wasm32-unknown-unknown

.PHONY: help demo demo-kv demo-sites zookeeper test test-dds tools sim lint bare instructions bench bench-peers bench-flink fmt fuzz fuzz-check

## Kill a broker under load and see what is lost. DATA=file.csv replays a recording of your own beside the workload.
demo:
	$(CARGO) build --release --bin verge
	$(TARGET)/release/verge demo $(if $(DATA),--data $(DATA)) $(DEMO_FLAGS)

## Balance a pendulum with four replicas of its controller, make one of them a liar, and draw target/demo/pendulum.svg.
demo-kv:
	$(CARGO) build --release --bin verge
	$(TARGET)/release/verge kv demo $(DEMO_FLAGS)

## Join three sites by two routers, kill a primary at each of two and a router, cut a link, move a site, and see what is lost. DATA=file.csv plays a recording.
demo-sites: zookeeper
	$(CARGO) build --release --bin verge
	$(TARGET)/release/verge site demo $(if $(DATA),--data $(DATA)) $$(command -v java >/dev/null && test -e $(ZOOKEEPER)/whole && echo --zookeeper $(ZOOKEEPER)) $(DEMO_FLAGS)

# The jars of ZooKeeper, which Java runs and Maven fetches, where both are there. Tests fetch the same.
ZOOKEEPER := $(TARGET)/zookeeper/jars

zookeeper:
	@test -e $(ZOOKEEPER)/whole || { command -v java >/dev/null && command -v mvn >/dev/null \
		&& timeout 300 mvn -q -B -f crates/coordination/tests/service/pom.xml dependency:copy-dependencies -DoutputDirectory=$(abspath $(ZOOKEEPER)) \
		&& touch $(ZOOKEEPER)/whole; } \
		|| echo "no jars of ZooKeeper (apt-get install default-jre-headless maven): sites have a list of the routers instead"

## All tests. The first run fetches and builds what they need.
test: tools
	$(CARGO) test --workspace
	@if test -f $(DDS_HEADER); then $(MAKE) --no-print-directory test-dds; \
	else echo "SKIPPED: no Cyclone DDS (apt-get install cyclonedds-dev cyclonedds-tools): the bridge to DDS is not tested"; fi

# Where the headers of Cyclone DDS are, which `make tools` installs.
DDS_HEADER := /usr/include/dds/dds.h

## The bridge to DDS, with programs of Cyclone DDS (needs cyclonedds-dev and cyclonedds-tools).
test-dds:
	$(CARGO) clippy -p verge-dds-host -p verge-cli --features verge-cli/dds --all-targets -- -D warnings
	$(CARGO) test -p verge-cli --features dds --test dds

## What the tests build example modules with and the MQTT clients that they try, if missing and to be had. Without
## them those tests say SKIPPED.
tools:
	@test -d "$$(rustc --print target-libdir --target $(WASM_TARGET))" \
		|| timeout 300 rustup target add $(WASM_TARGET) \
		|| echo "no Rust target $(WASM_TARGET): the Rust example is not tested"
	@{ command -v clang && command -v wasm-ld; } >/dev/null \
		|| { test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
			&& timeout 600 apt-get install -y -q --no-install-recommends clang lld; } \
		|| echo "no clang with wasm-ld (apt-get install clang lld): the C example is not tested"
	@test -f $(DDS_HEADER) || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
		&& timeout 600 apt-get install -y -q --no-install-recommends cyclonedds-dev cyclonedds-tools; } \
		|| echo "no Cyclone DDS (apt-get install cyclonedds-dev cyclonedds-tools)"
	@crates/cli/tests/mqtt/install.sh "$(TARGET)/mqtt-clients"

# The first seed comes from the commit, so that every run looks somewhere new, and the same commit at the same.
SEED ?= $(shell printf '%d00000' 0x$$(git rev-parse --short=7 HEAD 2>/dev/null | cut -c1-7 || echo 0))

## Simulate made-up deployments, within the assumptions of the guarantees and beyond, each twice. SEEDS is how many, SEED the first
## (by itself it follows from the commit).
sim:
	$(CARGO) build --release --bin verge
	$(TARGET)/release/verge sim --random --twice --seed $(SEED) --seeds $(SEEDS)
	$(TARGET)/release/verge sim --random --beyond --twice --seed $(SEED) --seeds $(SEEDS)
	$(TARGET)/release/verge kv sim --twice --seed $(SEED) --seeds $(SEEDS)
	$(TARGET)/release/verge kv sim --beyond --twice --seed $(SEED) --seeds $(SEEDS)

## What CI checks besides the tests: formatting, lints, warnings, documentation.
lint:
	$(CARGO) fmt --all --check
	$(CARGO) fmt --manifest-path bench/peers/zenoh/Cargo.toml --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --document-private-items --quiet

## Count the instructions of fixed scenarios, and fail where there are more than before (needs valgrind). ACCEPT=1 writes the new baseline.
instructions:
	@command -v valgrind >/dev/null \
		|| { test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
			&& timeout 600 apt-get install -y -q --no-install-recommends valgrind >/dev/null; } \
		|| echo "no valgrind (apt-get install valgrind)"
	$(CARGO) build --release -p verge-bench-instructions
	bench/instructions/gate.py $(if $(ACCEPT),--accept)

## Measure, and write bench/results/: the simulator, the workloads of FRAME with and without crashes, event processing, MQTT.
bench:
	CARGO="$(CARGO)" bench/run.py own

## The same for other brokers and stores beside Verge, which are installed if missing: load, SIGKILL of a broker (RUNS=100 for the page),
## and control tasks on the key-value store, Redis and etcd.
bench-peers:
	CARGO="$(CARGO)" bench/run.py peers

## The graph of figure 2.6 in Verge and in Apache Flink, which Maven fetches (about half an hour; needs java and mvn).
bench-flink:
	CARGO="$(CARGO)" bench/run.py flink

## Put all code into the common form.
fmt:
	$(CARGO) fmt --all

## Fuzz decoders, the broker, MQTT, the store, peers, and what sites keep and say, for a minute each (needs a nightly toolchain and cargo-fuzz).
fuzz:
	cd fuzz && $(CARGO) +nightly fuzz run decode -- -max_total_time=60
	cd fuzz && $(CARGO) +nightly fuzz run broker -- -max_total_time=60
	cd fuzz && $(CARGO) +nightly fuzz run mqtt_packet -- -max_total_time=60
	cd fuzz && $(CARGO) +nightly fuzz run mqtt_tree -- -max_total_time=60
	cd fuzz && $(CARGO) +nightly fuzz run mqtt_broker -- -max_total_time=60
	cd fuzz && $(CARGO) +nightly fuzz run kv_lane -- -max_total_time=60
	cd fuzz && $(CARGO) +nightly fuzz run journal -- -max_total_time=60
	cd fuzz && $(CARGO) +nightly fuzz run backlog -- -max_total_time=60
	cd fuzz && $(CARGO) +nightly fuzz run peer -- -max_total_time=60

## See that the fuzz targets compile, with any toolchain.
fuzz-check:
	$(CARGO) check --manifest-path fuzz/Cargo.toml --bins --target-dir $(TARGET)

# What is deterministic, and the nodes that are made of it.
CORES := contract wire report broker endpoint processing mqtt access kv journal backlog federation rendezvous overlay store engine simulation

## See that the cores need no operating system: they are built for a target that has none.
bare: tools
	@if test -d "$$(rustc --print target-libdir --target $(WASM_TARGET))"; then \
		$(CARGO) check $(CORES:%=-p verge-%) --target $(WASM_TARGET); \
	else echo "SKIPPED: there is no Rust target $(WASM_TARGET)"; fi

## What can be made.
help:
	@awk '/^## / {about = about substr($$0, 3); next} /^[a-z-]+:/ && about {printf "make %-14s%s\n", substr($$1, 1, index($$1, ":") - 1), about} \
		{about = ""}' $(firstword $(MAKEFILE_LIST))
