//! The first paper's numbers and the shapes of its figures, on the simulated fabric that its constants make.
//!
//! J. Worringen, "SCI-MPICH: The Second Generation", SCI-Europe 2000: table 1, figures 3, 4, 9, 11 and 12.

#![allow(clippy::unwrap_used, reason = "all of this is a test")]

use std::sync::Arc;
use std::time::Duration;

use svmio_transport::sim::Model;
use svmio_transport::sim::figures::{self, Figure};

const KIB: f64 = 1024.0;
const MIB: f64 = 1024.0 * KIB;

fn model() -> Arc<Model> {
    Model::named("sci-switch").unwrap()
}

fn series<'a>(figure: &'a Figure, name: &str) -> &'a [(f64, f64)] {
    &figure.named(name).unwrap_or_else(|| panic!("no curve {name}")).points
}

fn at(figure: &Figure, name: &str, x: f64) -> f64 {
    figure.named(name).and_then(|series| series.at(x)).unwrap_or_else(|| panic!("no {x} in {name}"))
}

#[track_caller]
fn assert_near(value: f64, expected: f64, tolerance: f64) {
    assert!((value - expected).abs() <= tolerance, "{value} is not {expected} ± {tolerance}");
}

#[test]
fn table_1_the_copies_and_their_bound() {
    let model = model();
    let bandwidth = |time: Duration| 1.0 / time.as_secs_f64();
    let copy = bandwidth(model.copy_time(1 << 20));
    let dma = bandwidth(figures::dma_time(&model, 1 << 20).unwrap());
    assert_near(copy, 146.0, 0.5);
    assert_near(dma, 69.0, 0.5);
    // The paper says 35.3, from bandwidths that it rounds.
    assert_near(1.0 / (2.0 / copy + 1.0 / dma), 35.3, 0.3);
}

#[test]
fn figure_7_an_interrupt_takes_35_6_microseconds() {
    let latency = figures::interrupt_latency(&model()).unwrap();
    assert_near(latency.as_secs_f64() * 1e6, 35.6, 0.2);
}

#[test]
fn figure_3_short_packets_make_steps_where_they_end() {
    let figure = figures::short_packets(&model()).unwrap();
    let mut longest_before = 0.0;
    for packet in [64, 128, 256, 512] {
        let name = format!("packets of {packet} B");
        let curve = series(&figure, &name);
        // The clearly recognizable step: the largest rise from a point to the next.
        let (step, rise) = curve
            .windows(2)
            .map(|pair| (pair[1].0, pair[1].1 - pair[0].1))
            .max_by(|one, other| one.1.total_cmp(&other.1))
            .unwrap();
        assert!(step > longest_before && step <= f64::from(packet), "{name}: step at {step}");
        assert!(rise > 1.5, "{name}: {rise} µs");
        // Up to it nothing else rises as much, and beyond it neither.
        let others = curve.windows(2).filter(|pair| pair[1].0 != step);
        assert!(others.clone().all(|pair| pair[1].1 - pair[0].1 < rise / 1.5), "{name}");
        longest_before = step;
    }
    // Bigger packets raise the least latency only slightly, and 64 bytes have the lowest.
    let least = at(&figure, "packets of 64 B", 16.0);
    for packet in [128, 256, 512] {
        let latency = at(&figure, &format!("packets of {packet} B"), 16.0);
        assert!(latency >= least - 0.15 && latency < least + 2.0, "{packet}: {latency}, {least}");
    }
    // The transition is smoother the bigger the packet: what a message of the packet's size gains over the eager
    // protocol becomes smaller.
    let gain = |packet: u32| {
        let size = (0..640).step_by(16).map(f64::from).rfind(|&size| size < f64::from(packet) * 0.7).unwrap();
        at(&figure, "packets of 64 B", size.max(64.0))
            - at(&figure, &format!("packets of {packet} B"), size.max(64.0))
    };
    assert!(gain(128) > gain(512), "{} {}", gain(128), gain(512));
}

#[test]
fn figure_4_stores_win_for_small_blocks_and_dma_for_large_ones() {
    let figure = figures::write_bandwidth(&model()).unwrap();
    // What DMA comes to in table 1.
    assert_near(at(&figure, "DMA", MIB), 69.0, 0.5);
    assert!(at(&figure, "stores", KIB) > 2.0 * at(&figure, "DMA", KIB));
    assert!(at(&figure, "DMA", MIB) > at(&figure, "stores", MIB));
    for curve in ["stores", "DMA"] {
        assert!(series(&figure, curve).windows(2).all(|pair| pair[1].1 > pair[0].1), "{curve}");
    }
}

#[test]
fn figure_9_three_copies_come_close_to_their_bound() {
    let figure = figures::staged_bandwidth(&model()).unwrap();
    let efficiency = |size| at(&figure, "3 copies", size) / at(&figure, "bound of 3 copies", size);
    assert_near(at(&figure, "bound of 3 copies", MIB), 35.3, 0.3);
    for &(size, _) in series(&figure, "3 copies") {
        assert!(efficiency(size) < 1.0, "{size}: {}", efficiency(size));
        if size > 512.0 * KIB {
            assert!(efficiency(size) > 0.97, "{size}: {}", efficiency(size));
        }
    }
    assert!(efficiency(8.0 * MIB) >= 0.99, "{}", efficiency(8.0 * MIB));
    // The constant overhead weighs more on smaller messages.
    assert!(efficiency(16.0 * KIB) < efficiency(128.0 * KIB));
    assert!(efficiency(128.0 * KIB) < efficiency(8.0 * MIB));
    for &(size, raw) in series(&figure, "DMA alone") {
        let two = at(&figure, "2 copies, estimated", size);
        assert!(raw > two && two > at(&figure, "bound of 3 copies", size));
    }
    assert_near(at(&figure, "DMA alone", 8.0 * MIB), 69.2, 0.5);
    // What the paper did not have: parts that overlap leave the three copies' bound behind, towards that of DMA.
    assert!(
        at(&figure, "3 copies, overlapping parts", 8.0 * MIB)
            > 1.5 * at(&figure, "bound of 3 copies", 8.0 * MIB)
    );
}

#[test]
fn figure_11_computation_hides_the_asynchronous_message() {
    let figure = figures::overlapping(&model()).unwrap();
    let (synchronous, asynchronous) = (series(&figure, "synchronous"), series(&figure, "asynchronous"));
    let (l_sync, l_async) = (synchronous[0].1, asynchronous[0].1);
    assert_near(l_sync, 18.0, 0.5);
    assert_near(l_async, 29.0, 1.0);
    for (&(job, total), &(_, hidden)) in synchronous.iter().zip(asynchronous) {
        // The one rises linearly from the start, the other stays until the computation is longer than the message.
        assert_near(total, l_sync + job, 0.5);
        assert_near(hidden, l_async.max(job), 0.5);
    }
    // At least 95 % of the transfer is hidden once the computation is longer.
    let &(job, total) = asynchronous.last().unwrap();
    assert!(total - job < 0.05 * l_async, "{total} for a computation of {job}");
    // By the paper's rule, t_be = l_async - l_sync, the curves cross at 11 ms; its figure shows 15 ms. With curves that
    // start at 18 and 29 ms and rise as it says, 15 ms are not possible: either a part of the synchronous message was
    // over before the computation began (a sender whose receiver waits already could store the first parts within
    // MPI_Isend), or the asynchronous one took longer beside a computation that shares the memory bus. Its text does
    // not tell. Here the synchronous send only asks before it computes and the processors do not disturb each other,
    // which is what the rule describes.
    let measured = figures::break_even_point(&model(), 1 << 20, Duration::from_millis(60)).unwrap();
    let measured = measured.as_secs_f64() * 1e3;
    assert_near(measured, l_async - l_sync, 0.5);
    assert!((10.0..=15.0).contains(&measured), "{measured}");
}

#[test]
fn figure_12_the_break_even_point_grows_with_the_message() {
    let figure = figures::break_even(&model()).unwrap();
    let computed = series(&figure, "break-even, computed");
    for (&(size, break_even), &(_, measured)) in computed.iter().zip(series(&figure, "break-even, measured"))
    {
        let (synchronous, asynchronous) =
            (at(&figure, "synchronous", size), at(&figure, "asynchronous", size));
        assert!(asynchronous > synchronous, "{size}");
        assert_near(break_even, asynchronous - synchronous, 1e-6);
        // The rule holds: the curves cross where it says.
        assert_near(measured, break_even, 0.05 * asynchronous);
    }
    for pair in computed.windows(2) {
        assert!(pair[1].1 > pair[0].1, "{pair:?}");
    }
    // From 1 MiB on all of it is proportional to the size.
    let ratio = at(&figure, "break-even, computed", 8.0 * MIB) / at(&figure, "break-even, computed", MIB);
    assert_near(ratio, 8.0, 1.0);
}
