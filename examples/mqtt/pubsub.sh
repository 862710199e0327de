#!/bin/sh
# mosquitto's programs with two brokers: each command goes to the first one that takes it.
# BROKERS=host:port,host:port says where they are.
BROKERS=${BROKERS:-127.0.0.1:1883,127.0.0.1:1884}

either() {
    for address in $(echo "$BROKERS" | tr , ' '); do
        "$@" -h "${address%:*}" -p "${address##*:}" 2>/dev/null && return
    done
    echo "none of $BROKERS takes: $*" >&2
    exit 1
}

# A session that stays (-c) under this name (-i); -E ends when the subscription is made.
either mosquitto_sub -i pubsub-example -c -q 1 -t 'plant/+/temperature' -E

for number in 1 2 3; do
    # QoS 1: the command ends well only when the message is covered. Both brokers may be asked without harm.
    either mosquitto_pub -q 1 -t "plant/line$number/temperature" -m "21.$number"
done

# What has waited for the session: three messages, for ten seconds at most.
either mosquitto_sub -i pubsub-example -c -q 1 -t 'plant/+/temperature' -C 3 -W 10 -F '%t %p (QoS %q)'

# The session is not needed any more.
either mosquitto_sub -i pubsub-example -q 1 -t none -E
