#!/bin/sh
# Installs the MQTT clients of others that the tests use: Debian's mosquitto where that is allowed, the rest below the folder that
# is given. What cannot be had is said, and the tests that need it say SKIPPED.
folder=$1
mkdir -p "$folder" || exit 0

if ! { command -v mosquitto_sub && test -x /usr/sbin/mosquitto; } >/dev/null; then
    { test "$(id -u)" = 0 && command -v apt-get >/dev/null \
        && timeout 600 apt-get install -y -q --no-install-recommends mosquitto mosquitto-clients; } \
        || echo "no mosquitto (apt-get install mosquitto mosquitto-clients): its programs are not tested"
fi

# Major version, version.
paho() {
    test -e "$folder/paho$1.ready" && return
    { timeout 120 python3 -m venv "$folder/paho$1" \
        && timeout 300 "$folder/paho$1/bin/python" -m pip install --quiet --disable-pip-version-check "paho-mqtt==$2" \
        && touch "$folder/paho$1.ready"; } || echo "no paho-mqtt $2 for Python (python3 with venv and pip): it is not tested"
}
paho 1 1.6.1
paho 2 2.1.0

if ! test -e "$folder/node.ready"; then
    { mkdir -p "$folder/node" && command -v node >/dev/null \
        && timeout 300 npm install --prefix "$folder/node" --no-audit --no-fund --silent --ignore-scripts mqtt@5.16.0 \
        && touch "$folder/node.ready"; } || echo "no MQTT.js (Node.js with npm): it is not tested"
fi
exit 0
