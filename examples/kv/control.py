"""A controller whose state lives in the store: it may run on several nodes at once, and all of them compute the same.

    PYTHONPATH=python python3 examples/kv/control.py SOCKET [ROUNDS]
"""

import sys

from verge_kv import Error, Lane, realtime


def main(socket: str, rounds: str = "0") -> None:
    state, read, written = 0.0, 0, 0
    try:
        realtime(priority=20)
    except Error as refusal:
        # It only means that other programs may get in the way.
        print(refusal, file=sys.stderr)

    with Lane(socket, tuples=1, name="control-python", wait_ms=10_000) as lane:
        angle = lane.key("pendulum/angle")

        def control(job):
            nonlocal state, read, written
            try:
                # What this and the other replicas agreed on; where nothing came of it, the own state has to do.
                state = job.read_f64(angle).number
                read += 1
            except Error as error:
                print(error, file=sys.stderr)
            state = 0.5 * state + 1.0
            try:
                job.write_f64(angle, state)
                written += 1
            except Error as error:
                print(error, file=sys.stderr)
            return job.report.runs != int(rounds)

        report = lane.every(lane.period, control)
    print(f"state {state:.6f} read {read} written {written} runs {report.runs} missed {report.missed}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: control.py SOCKET [ROUNDS]")
    main(*sys.argv[1:])
