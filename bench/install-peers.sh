#!/bin/sh
# Installs what bench/peers/measure.py, bench/crash/measure.py and bench/kv/measure.py measure beside Verge: mosquitto, nats-server, redis-server and etcd-server
# from Debian where that is allowed, and Python clients below the folder that is given, if one is. What cannot be had is said, and is left
# out of the pages.
folder=$1

# The services that these packages start by themselves would only take processor time from what is measured.
stop() {
    if command -v systemctl >/dev/null && test -d /run/systemd/system; then
        systemctl disable --now --quiet "$1" 2>/dev/null
    elif test -x "/etc/init.d/$1"; then
        "/etc/init.d/$1" stop >/dev/null 2>&1
    fi
    return 0
}

# Package, program, service if it has another name.
install() {
    test -x "$2" && return
    { test "$(id -u)" = 0 && command -v apt-get >/dev/null \
        && DEBIAN_FRONTEND=noninteractive timeout 600 apt-get install -y -q --no-install-recommends "$1" && stop "${3:-$1}"; } \
        || echo "no $1 (apt-get install $1): it is not measured"
}
install mosquitto /usr/sbin/mosquitto
install nats-server /usr/sbin/nats-server
install redis-server /usr/bin/redis-server
install etcd-server /usr/bin/etcd etcd

if test -n "$folder" && ! test -e "$folder/ready"; then
    { timeout 120 python3 -m venv "$folder" \
        && timeout 300 "$folder/bin/python" -m pip install --quiet --disable-pip-version-check nats-py==2.16.0 paho-mqtt==2.1.0 \
        && touch "$folder/ready"; } || echo "no nats-py and paho-mqtt for Python (python3 with venv and pip): crashes of others are not measured"
fi
exit 0
