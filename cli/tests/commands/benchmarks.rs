//! `svmio bench`: real jobs on shared memory, and the simulated fabric.

use std::fs;

use serde_json::Value;
use svmio_collectives::Algorithm;
use svmio_collectives::simulation::figures as barriers;
use svmio_transport::sim::Model;
use svmio_transport::sim::figures;

use crate::setting::{Setting, text};

/// The points of a benchmark's JSON, checked for what all of them have.
fn points(result: &Value, sizes: &[u64]) -> Vec<f64> {
    let points = result["points"].as_array().unwrap();
    assert_eq!(points.iter().map(|point| point["size"].as_u64().unwrap()).collect::<Vec<_>>(), sizes);
    let seconds = points.iter().map(|point| point["median_seconds"].as_f64().unwrap());
    let seconds: Vec<f64> = seconds.collect();
    assert!(seconds.iter().all(|seconds| *seconds > 0.0 && *seconds < 10.0), "{result}");
    seconds
}

#[test]
fn messages_between_processes_are_measured() {
    let setting = Setting::new();
    for what in ["pingpong", "bandwidth"] {
        let arguments = ["bench", what, "--sizes", "8,64K..256K", "--repeat", "2", "--json"];
        let result = setting.json(&arguments);
        points(&result, &[8, 64 << 10, 128 << 10, 256 << 10]);
        assert_eq!((&result["benchmark"], &result["fabric"]), (&what.into(), &"shm".into()));
        assert_eq!(result["points"][0]["seconds"].as_array().unwrap().len(), 2);
    }
    let printed =
        setting.printed(&["bench", "pingpong", "--sizes", "1K", "--mode", "eager,rendezvous-stores"]);
    let lines: Vec<Vec<&str>> = printed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[1], ["SIZE", "eager", "µs", "MB/s", "rendezvous-stores", "µs", "MB/s"]);
    assert_eq!((lines[2][..2].join(" "), lines[2].len()), ("1 KiB".into(), 6));
}

/// Between processes over the loopback interface, each with a diagram of what it tells.
#[test]
fn libfabrics_messages_and_interrupts_are_measured_and_drawn() {
    const SIZES: [u64; 3] = [8, 4 << 10, 256 << 10];
    let setting = Setting::new();
    let over = ["--fabric", "ofi", "--repeat", "1", "--json", "--plot"];
    let across = figures::Axis { label: "bytes".into(), is_logarithmic: true };
    for (what, label, is_logarithmic) in
        [("pingpong", "half a round trip, µs", true), ("bandwidth", "MB/s", false)]
    {
        let plot = format!("{what}.svg");
        let result = setting.json(&[&["bench", what, "--sizes", "8,4K,256K"][..], &over, &[&plot]].concat());
        let seconds = points(&result, &SIZES);
        assert_eq!((&result["benchmark"], &result["fabric"]), (&what.into(), &"ofi".into()), "{result}");
        let svg = fs::read_to_string(setting.outside(&plot)).unwrap();
        assert!(svg.contains(&format!("{what} on ofi (")) && svg.contains(label), "{svg}");
        let rates =
            result["points"].as_array().unwrap().iter().map(|point| point["mb_per_second"].as_f64().unwrap());
        let values = if is_logarithmic { seconds } else { rates.collect() };
        let [line] = &drawn_lines(&svg)[..] else { panic!("no line, or several: {svg}") };
        let (xs, ys): (Vec<f64>, Vec<f64>) = line.iter().copied().unzip();
        assert_in_scale(&SIZES.map(|size| size as f64), &xs, &across);
        assert_in_scale(&values, &ys, &figures::Axis { label: label.into(), is_logarithmic });
    }
    let interrupts = ["bench", "interrupt", "--count", "50"];
    let result = setting.json(&[&interrupts[..], &over, &["interrupt.svg"]].concat());
    assert_eq!((&result["fabric"], &result["count"]), (&"ofi".into(), &50.into()), "{result}");
    assert!(fs::read_to_string(setting.outside("interrupt.svg")).unwrap().contains("interrupts on ofi ("));
}

#[test]
fn the_simulated_fabric_always_measures_the_same_and_in_its_own_time() {
    let setting = Setting::new();
    let arguments = ["bench", "pingpong", "--fabric", "sim:sci-switch", "--sizes", "8,1M", "--json"];
    let result = setting.json(&arguments);
    assert_eq!(setting.json(&arguments), result);
    // The papers' adapters: microseconds for a word, tens of milliseconds for a mebibyte.
    let seconds = points(&result, &[8, 1 << 20]);
    assert!((1e-6..1e-4).contains(&seconds[0]) && (1e-2..1e-1).contains(&seconds[1]), "{seconds:?}");
    assert_eq!(result["provider"], "sci-switch");

    let alone = ["bench", "bandwidth", "--fabric", "sim:sci-switch", "--sizes", "64K", "--json"];
    let together = [&alone[..], &["--ranks", "8"]].concat();
    let speed = |arguments: &[&str]| setting.json(arguments)["points"][0]["mb_per_second"].as_f64().unwrap();
    let (alone, together) = (speed(&alone), speed(&together));
    assert!(together > 1.5 * alone && together < 4.5 * alone, "{alone} MB/s, four pairs {together}");
}

#[test]
fn overlap_is_told_as_a_table_json_and_diagrams() {
    let setting = Setting::new();
    let arguments = ["bench", "overlap", "--fabric", "sim:sci-switch", "--mode", "rendezvous-staged"];
    let arguments = [&arguments[..], &["--sizes", "512K,1M", "--compute", "10,20,40,60"]].concat();
    let result = setting.json(&[&arguments[..], &["--json", "--plot", "overlap.svg"]].concat());
    let of_mode = &result["modes"][0];
    assert_eq!(of_mode["mode"], "rendezvous-staged");
    let sizes = of_mode["sizes"].as_array().unwrap();
    assert_eq!(sizes.len(), 2);
    for size in sizes {
        assert_eq!(size["steps"].as_array().unwrap().len(), 5, "0 is always among them");
        for key in ["hidden", "hidden_by_double"] {
            assert!(size[key].as_f64().unwrap() > 0.9, "{key}: {size}");
        }
        let calculated = size["break_even_calculated"].as_f64().unwrap();
        let difference = size["asynchronous"].as_f64().unwrap() - size["synchronous"].as_f64().unwrap();
        assert!((calculated - difference).abs() < 1e-9, "{size}");
    }
    for name in ["overlap.svg", "overlap-512KiB.svg", "overlap-1MiB.svg"] {
        let svg = fs::read_to_string(setting.outside(name)).unwrap();
        assert!(svg.contains("<svg") && svg.contains("asynchronous, rendezvous-staged"), "{name}");
    }
    let printed = setting.printed(&arguments);
    assert!(printed.contains("BREAK-EVEN µs, MEASURED") && printed.contains("1 MiB"), "{printed}");
    // Nothing is said by silence where no computation is long enough.
    let arguments = ["bench", "overlap", "--fabric", "sim:sci-switch", "--sizes", "1M", "--compute", "10"];
    let printed = setting.printed(&arguments);
    assert!(printed.contains("BY TWICE AS LONG") && printed.contains("not measured"), "{printed}");
    let short = setting.json(&[&arguments[..], &["--json"]].concat());
    let of_size = &short["modes"][0]["sizes"][0];
    for key in ["hidden", "hidden_by_double", "bare_hidden", "bare_hidden_by_double"] {
        assert!(of_size.get(key).is_some_and(serde_json::Value::is_null), "{key}: {of_size}");
    }
}

#[test]
fn interrupts_are_told_as_a_cumulative_histogram() {
    let setting = Setting::new();
    let arguments =
        ["bench", "interrupt", "--count", "50", "--repeat", "2", "--json", "--plot", "interrupt.svg"];
    let result = setting.json(&arguments);
    assert_eq!(result["count"], 100);
    let histogram = result["histogram"].as_array().unwrap();
    let seconds: Vec<f64> = histogram.iter().map(|share| share["seconds"].as_f64().unwrap()).collect();
    assert!(seconds.is_sorted() && seconds[0] > 0.0, "{result}");
    assert!(fs::read_to_string(setting.outside("interrupt.svg")).unwrap().contains("100 interrupts"));
    let printed = setting.printed(&["bench", "interrupt", "--fabric", "sim:sci-switch", "--count", "10"]);
    // The first paper's 35.6 µs.
    assert!(printed.lines().any(|line| line.starts_with("50 %") && line.contains("35.")), "{printed}");
}

/// The points of a diagram's lines, in pixels.
fn drawn_lines(svg: &str) -> Vec<Vec<(f64, f64)>> {
    let lines = svg.split("<polyline").skip(1).filter(|line| line.contains("stroke-width=\"2\""));
    let points = lines.map(|line| {
        let (_, points) = line.split_once("points=\"").unwrap();
        let pairs = points.split('"').next().unwrap().split_whitespace();
        let pair = |pair: &str| pair.split_once(',').map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap()));
        pairs.map(|text| pair(text).unwrap()).collect::<Vec<_>>()
    });
    // The legend's have two points.
    points.filter(|points| points.len() > 2).collect()
}

/// Whether pixels are where an axis has the values: as one place is to another, whatever the axis begins and ends with.
fn assert_in_scale(values: &[f64], pixels: &[f64], axis: &figures::Axis) {
    let scaled: Vec<f64> =
        values.iter().map(|value| if axis.is_logarithmic { value.ln() } else { *value }).collect();
    let order = |one: &&f64, other: &&f64| one.total_cmp(other);
    let of = |value: f64| pixels[scaled.iter().position(|one| *one == value).unwrap()];
    let (least, most) = (*scaled.iter().min_by(order).unwrap(), *scaled.iter().max_by(order).unwrap());
    let each = (of(most) - of(least)) / (most - least);
    for (value, pixel) in scaled.iter().zip(pixels) {
        let expected = of(least) + (value - least) * each;
        assert!((pixel - expected).abs() < 2.5, "{}: {value} at {pixel}, not {expected}", axis.label);
    }
}

#[test]
fn the_papers_diagrams_show_the_figures_that_are_compared_with_it() {
    let setting = Setting::new();
    let printed = setting.printed(&["bench", "figures", "--plot", "figures"]);
    let named = |name: &str| Model::named(name).unwrap();
    let algorithms: Vec<Algorithm> =
        ["linear", "tree:4", "dissemination", "hsb:8,8", "nx:6", "nx2:6", "x1tree"]
            .map(|text| text.parse().unwrap())
            .into();
    let figures = [
        figures::all(&named("sci-switch")).unwrap(),
        vec![
            barriers::optimization(&named("sci-torus"), 24).unwrap(),
            barriers::comparison(&named("sci-torus"), 16).unwrap(),
            barriers::scaling(&named("infiniband-hdr"), &algorithms, 1024).unwrap(),
        ],
    ]
    .concat();
    let names = [
        "figure-3",
        "figure-4",
        "figure-9",
        "figure-11",
        "figure-12",
        "collectives-figure-6",
        "collectives-figure-7",
    ];
    let names = names.into_iter().chain(["collectives-scaling"]);
    for (name, figure) in names.zip(&figures) {
        let name = format!("figures/{name}.svg");
        assert!(printed.contains(&name) && printed.contains(&figure.title), "{name} in {printed}");
        let svg = fs::read_to_string(setting.outside(&name)).unwrap();
        let lines = drawn_lines(&svg);
        let lengths: Vec<usize> = lines.iter().map(Vec::len).collect();
        assert_eq!(lengths, figure.series.iter().map(|series| series.points.len()).collect::<Vec<_>>());
        assert!(figure.series.iter().all(|series| svg.contains(&series.name)), "{name}");
        let values: Vec<(f64, f64)> = figure.series.iter().flat_map(|series| series.points.clone()).collect();
        let pixels = lines.concat();
        let across = |points: &[(f64, f64)]| points.iter().map(|point| point.0).collect::<Vec<_>>();
        let up = |points: &[(f64, f64)]| points.iter().map(|point| point.1).collect::<Vec<_>>();
        assert_in_scale(&across(&values), &across(&pixels), &figure.x);
        assert_in_scale(&up(&values), &up(&pixels), &figure.y);
    }
    assert_eq!(fs::read_dir(setting.outside("figures")).unwrap().count(), figures.len());
    let told = setting.json(&["bench", "figures", "--plot", "figures", "--json"]);
    // By text, too: reading it rounds the last digit.
    let text = serde_json::to_string(&figures).unwrap();
    assert!(told == serde_json::from_str::<Value>(&text).unwrap(), "{told}");
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_measured() {
    let setting = Setting::new();
    let wrong: &[(&[&str], &str)] = &[
        (&["pingpong", "--fabric", "tcp"], "shm, ofi, ofi:PROVIDER or sim:MODEL"),
        (&["pingpong", "--fabric", "sim:abacus"], "sci-switch"),
        (&["pingpong", "--sizes", "0"], "1 byte"),
        (&["pingpong", "--sizes", "64..8"], "from more to less"),
        (&["pingpong", "--mode", "fast"], "rendezvous-direct"),
        (&["pingpong", "--ranks", "3"], "even number"),
        (&["pingpong", "--repeat", "0"], "1..=1000"),
        (&["overlap", "--compute", "-1"], "10000 ms"),
        (&["interrupt", "--count", "0"], "1..=1000000"),
        (&["pingpong", "--fabric", "sim:sci-switch", "--prefix0", "nice"], "in this process"),
        (&["figures", "--model", "abacus", "--plot", "x"], "sci-switch"),
    ];
    for (arguments, expected) in wrong {
        let message = setting.complaint(2, &[&["bench"], *arguments].concat());
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
    assert!(setting.names_outside().is_empty());
}

#[test]
fn a_benchmark_that_fails_says_so() {
    let setting = Setting::new();
    let message = setting.complaint(1, &["bench", "pingpong", "--sizes", "8", "--prefix1", "false"]);
    assert!(message.contains("process 1 ended"), "{message}");
    let message =
        setting.complaint(1, &["bench", "pingpong", "--sizes", "8", "--prefix0", "no-such-program"]);
    assert!(message.contains("no-such-program"), "{message}");
    let message = setting.complaint(1, &["bench", "process", "{}", "report"]);
    assert!(message.contains("do not understand"), "{message}");
    let arguments = ["bench", "pingpong", "--fabric", "sim:sci-switch", "--sizes", "1M"];
    let message = setting.complaint(1, &[&arguments[..], &["--mode", "rendezvous-direct"]].concat());
    assert!(message.contains("offers no"), "{message}");
    let path = setting.outside("none/plot.svg");
    let arguments = ["bench", "interrupt", "--fabric", "sim:sci-switch", "--plot", path.to_str().unwrap()];
    assert!(setting.complaint(1, &arguments).contains("plot.svg"));
    // Nothing is measured for a diagram that has no place, and none that could not be drawn takes the result with it.
    let arguments = ["bench", "pingpong", "--prefix0", "no-such-program", "--plot", path.to_str().unwrap()];
    let message = setting.complaint(1, &arguments);
    assert!(message.contains("plot.svg") && !message.contains("no-such-program"), "{message}");
    for what in [&["bench", "interrupt"][..], &["barrier", "bench", "linear", "--ranks", "4"]] {
        let output =
            setting.run(&[what, &["--fabric", "sim:sci-switch", "--json", "--plot", "/dev/full"]].concat());
        assert!(text(&output.stderr).contains("/dev/full") && output.status.code() == Some(1), "{what:?}");
        assert!(!output.stdout.is_empty(), "{what:?}");
    }
}

#[test]
fn completions_know_the_new_commands() {
    let setting = Setting::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = setting.printed(&["completions", shell]);
        for word in ["bench", "pingpong", "overlap", "fabric", "config", "rendezvous-half-staged"] {
            assert!(script.contains(word), "{word} for {shell}");
        }
    }
    for command in ["pingpong", "bandwidth", "overlap", "interrupt", "figures"] {
        let help = setting.printed(&["bench", command, "--help"]);
        assert!(
            help.contains(&format!("  svmio bench {command} ")) && help.contains("Exit codes: 0 fine"),
            "{help}"
        );
    }
    assert!(
        !text(&setting.run(&["bench", "--help"]).stdout).contains("process "),
        "what others start is hidden"
    );
}
