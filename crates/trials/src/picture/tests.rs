use super::*;

fn family(name: &str, deadline: Span, dots: usize) -> Family {
    let dot = |number: usize| {
        (Span::millis(number as i64 % 3_000), Span::micros(300 + number as i64 * 7_919 % 30_000))
    };
    Family { name: name.to_owned(), deadline, dots: (0..dots).map(dot).collect() }
}

fn scene(marks: &[Mark]) -> Scene<'_> {
    Scene { marks, lasted: Span::secs(3), failover: Span::millis(50), seed: 7 }
}

#[test]
fn a_picture_names_everything() {
    let families =
        [family("pump/+/speed", Span::millis(50), 100), family("<odd & \"name\">", Span::FOREVER, 0)];
    let text = draw(&families, &scene(&[Mark { at: Span::secs(1), what: DEATH }])).unwrap();
    for expected in ["<svg", "pump/+/speed", "50ms", "&lt;odd", "seed 7", "latency in ms", "a broker dies"] {
        assert!(text.contains(expected), "lacks {expected}");
    }
}

#[test]
fn very_many_messages_are_thinned_out_but_late_ones_stay() {
    let mut many = family("a", Span::millis(50), 100_000);
    many.dots.extend([(Span::secs(1), Span::millis(80)); 10]);
    let text = draw(&[many], &scene(&[])).unwrap();
    let circles = text.matches("<circle").count();
    assert!((8_000..21_000).contains(&circles), "{circles}");
}

#[test]
fn a_run_without_messages_is_a_picture_too() {
    assert!(draw(&[family("a", Span::FOREVER, 0)], &scene(&[])).unwrap().contains("<svg"));
}

#[test]
fn without_a_death_a_picture_is_around_the_first_fault() {
    let act = Act::Pause { target: sim::Target::Primary, span: Span::millis(200) };
    let faults = vec![Fault { when: When::At(Span::secs(2)), act }];
    let scenario = Scenario { faults, ..sim::scenario_of(1, sim::Weather::Assumed) };
    let marks = marks(&scenario, &Findings::default());
    let text = draw(&[family("a", Span::millis(50), 100)], &scene(&marks)).unwrap();
    assert!(text.contains("around 2.000 s: a process stands still") && !text.contains("network.failover"));
}
