//! What may be typed after `verge sim`.

use clap::Args;
use contract::Span;
use std::path::PathBuf;
use trials::TrueCosts;
use trials::length::{RUN_MAX, RUN_MAX_WORDS};

/// What `--help` says below the flags.
pub const EXAMPLES: &str = "\
Examples:
  verge sim verge.toml                        100 crashes of the primary, each at another moment
  verge sim verge.toml --crash a@30s          one crash, exactly then, with 100 seeds
  verge sim verge.toml --svg crash.svg        draw the latencies around the crash
  verge sim --random --seeds 1000             1000 invented deployments and faults

A scenario says what goes wrong, and changes the deployment where it says so:
  duration = \"40s\"
  workload = { payload = 64, pace = \"sporadic\", jitter = 20 }       # in percent
  network.pair = { least = \"10us\", typical = \"20us\", most = \"50us\" }  # or publishers, subscribers
  clock.a = { offset = \"1ms\", drift_ppm = 20 }
  [[fault]]
  kind = \"crash\"          # host-crash, pause, partition, break, handover, clock-step, slow
  host = \"primary\"        # backup, a broker's name, publisher-1, subscriber-edge
  at = \"30s\"              # or after = \"500ms\", counted from when everything is whole again
  restart = \"2s\"          # also last_writes = { connections = 1, percent = 50 }
What other kinds need, besides host:
  pause          for = \"200ms\"
  partition      between = [[\"a\"], [\"b\", \"publisher-1\"]], for; it may have one_way = true
  break          from = \"publisher-1\", to = \"primary\"; it may have delivers = true, half_open = true
  clock-step     by = \"-2s\"
  slow           times = 10, for

What the table says, over all runs:
  T, D, L, N     the contract: period, deadline, losses in a row that are tolerated, and how many
                 messages a publisher retains
  copied %       messages that were copied to the backup; none can be while there is no backup
  CPU %          of one processor, as admission counts it
  lost run       most messages of a stream that a subscriber missed in a row, whoever is to blame
  spare          how many more L would have tolerated; negative: so many too many
  worst ms       the slowest message while nothing was broken; then what was left of D, and how
                 many came late
  fault ms       the slowest message around a fault, and how many came late there: deadlines do
                 not cover that
  contract       kept, REFUSED by admission, BROKEN (lost more than L, late without a fault, or
                 nothing came), unclear (a violated invariant broke a run off)
Messages flow for as long as --for says, and until every topic has been seen to flow after the
faults. A crash, also of --crash, is that of a process, which others notice at once; a power cut
is a host-crash in a scenario.

Exit codes: 0 every contract was kept, 1 one was not, or an invariant was violated, 2 trouble.";

#[derive(Args, Debug)]
pub struct SimArguments {
    /// The configuration whose deployment is simulated.
    pub file: Option<PathBuf>,
    /// How many runs, each from a seed of its own [default: 100, and 1 with --trace].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub seeds: Option<u64>,
    /// The first seed; the others follow.
    #[arg(long, value_name = "S", default_value_t = 0)]
    pub seed: u64,
    /// Crash a broker (primary, backup, or its name) at exactly this time; it is back 2 s later
    /// [default: the primary, in the middle of the run].
    #[arg(long, value_name = "WHO@TIME", value_parser = parse_crash, conflicts_with = "scenario")]
    pub crash: Vec<(String, Span)>,
    /// A file that says what goes wrong.
    #[arg(long, value_name = "FILE")]
    pub scenario: Option<PathBuf>,
    /// How long messages flow, at least [default: 10s].
    #[arg(long = "for", value_name = "SPAN", value_parser = parse_length)]
    pub length: Option<Span>,
    /// What jobs really cost: to take in, per subscriber, to copy; and a turn, a read, a write, 1024 bytes [default: what admission
    /// counts where that is configured, half of it where it is measured, which has a margin].
    #[arg(long, value_name = "SPAN,SPAN,SPAN[,SPAN,SPAN,SPAN,SPAN]", value_parser = parse_costs)]
    pub true_costs: Option<TrueCosts>,
    /// Tell the story of one run.
    #[arg(long)]
    pub trace: bool,
    /// Draw the latencies of the first run into this file.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Runs at a time [default: one per processor].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
    /// Make up deployments and faults from the seeds, and look for violated invariants.
    #[arg(long, conflicts_with_all = ["file", "crash", "scenario", "length", "true_costs", "svg"])]
    pub random: bool,
    /// Faults beyond what the guarantees assume; loss bounds and deadlines are not demanded then.
    #[arg(long, requires = "random")]
    pub beyond: bool,
    /// Run every seed twice; both runs must be the same, step by step.
    #[arg(long, requires = "random")]
    pub twice: bool,
}

fn parse_crash(text: &str) -> Result<(String, Span), String> {
    let (who, time) = text
        .split_once('@')
        .filter(|(who, _)| !who.is_empty())
        .ok_or("write who and when, as in primary@30s")?;
    let span: Span = time.parse().map_err(|error: contract::SpanError| error.to_string())?;
    if span < Span::ZERO || span.is_forever() {
        return Err(format!("{span} is not a time of the run: write for example {who}@30s"));
    }
    check_length(span)?;
    Ok((who.to_owned(), span))
}

fn parse_length(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error: contract::SpanError| error.to_string())?;
    let sensible = span > Span::ZERO && !span.is_forever();
    if !sensible {
        return Err("a run has an end: write for example 10s".to_owned());
    }
    check_length(span)?;
    Ok(span)
}

fn check_length(span: Span) -> Result<(), String> {
    if span > RUN_MAX {
        Err(format!("a run lasts {RUN_MAX_WORDS} at most: write for example 10s"))
    } else {
        Ok(())
    }
}

fn parse_costs(text: &str) -> Result<TrueCosts, String> {
    let spans = text.split(',').map(str::parse).collect::<Result<Vec<Span>, _>>();
    let spans = spans.map_err(|error| error.to_string())?;
    let positive = spans.iter().all(|span| *span >= Span::ZERO);
    if let Some((message, rest)) = spans.split_first_chunk::<3>().filter(|_| positive) {
        match rest.first_chunk::<4>() {
            Some(turn) if rest.len() == 4 => {
                return Ok(TrueCosts { message: *message, turn: Some(*turn) });
            }
            None if rest.is_empty() => return Ok(TrueCosts { message: *message, turn: None }),
            _ => {}
        }
    }
    Err("write three spans, as in 2us,3us,2us, or seven".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_is_who_and_when() {
        assert_eq!(parse_crash("primary@30s"), Ok(("primary".to_owned(), Span::secs(30))));
        assert_eq!(parse_crash("left@1.5s"), Ok(("left".to_owned(), Span::millis(1_500))));
    }

    #[test]
    fn what_is_no_crash_says_what_to_write() {
        for (text, says) in [
            ("primary", "primary@30s"),
            ("@30s", "primary@30s"),
            ("a@30", "`30ms`"),
            ("a@-3s", "a@30s"),
            ("a@inf", "a@30s"),
            ("a@soon", "50ms"),
            ("a@200h", "7 days at most"),
        ] {
            let error = parse_crash(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn true_costs_are_three_spans_or_seven() {
        let message = [Span::micros(2), Span::micros(3), Span::nanos(500)];
        assert_eq!(parse_costs("2us,3us,500ns"), Ok(TrueCosts { message, turn: None }));
        let turn = Some([1, 2, 3, 4].map(Span::micros));
        assert_eq!(parse_costs("2us,3us,500ns,1us,2us,3us,4us"), Ok(TrueCosts { message, turn }));
        assert!(parse_costs("2us,-3us,1us").is_err());
        assert!(parse_costs("2us,3us").unwrap_err().contains("three spans"));
        assert!(parse_costs("2us,3,1us").unwrap_err().contains("no unit"));
    }
}
