//! Barriers of the SCI Collectives Library, measured anew in virtual time, and what the paper could not measure.
//!
//! B. Bierbaum, G. Wassen, S. Lankes and T. Bemmerl, "Evaluation of Optimized Barrier Algorithms for SCI Networks with
//! Different MPI Implementations". With one rank per node; all ranks come at once.

use std::sync::Arc;
use std::time::Duration;

use svmio_transport::sim::Model;
use svmio_transport::sim::figures::{Axis, Figure, Series};

use crate::algorithm::{Algorithm, AlgorithmError};
use crate::simulation::{Signalling, Simulation};

/// What a message-passing library adds to a message at each end. Not in the papers: chosen between what the paper's
/// barrier of messages on 3 and on 16 nodes asks for.
pub const MESSAGE_SOFTWARE: Duration = Duration::from_nanos(1200);

/// How long a barrier by flags takes on so many nodes.
///
/// # Errors
/// [`AlgorithmError`].
pub fn barrier_time(
    model: &Arc<Model>,
    algorithm: &Algorithm,
    nodes: u32,
) -> Result<Duration, AlgorithmError> {
    Ok(Simulation::of_nodes(model.clone(), nodes).run(&algorithm.schedule(nodes)?).total)
}

/// How long the barrier of a message-passing library takes: dissemination by messages, as MPICH2 does it.
///
/// # Errors
/// [`AlgorithmError`].
pub fn message_barrier_time(model: &Arc<Model>, nodes: u32) -> Result<Duration, AlgorithmError> {
    let messages = Signalling::Messages { software: MESSAGE_SOFTWARE };
    let simulation = Simulation::of_nodes(model.clone(), nodes).signalling(messages);
    Ok(simulation.run(&Algorithm::Dissemination.schedule(nodes)?).total)
}

/// Figure 6: n-ary dissemination for different n.
///
/// # Errors
/// [`AlgorithmError`].
pub fn optimization(model: &Arc<Model>, most_nodes: u32) -> Result<Figure, AlgorithmError> {
    let mut series = Vec::new();
    for (name, radix) in [("n = 2", 2), ("n = 6", 6), ("n = 16", 16), ("n = N", u32::MAX)] {
        let time = |nodes| barrier_time(model, &Algorithm::NaryDissemination { radix }, nodes);
        series.push(curve(name, most_nodes, time)?);
    }
    Ok(figure(6, "Optimization of the n-ary exchange algorithm", series))
}

/// Figure 7: the library's barriers, the one of SCI-MPICH, which has fans of eight, and, which the paper left out for
/// its length, that of messages.
///
/// # Errors
/// [`AlgorithmError`].
pub fn comparison(model: &Arc<Model>, most_nodes: u32) -> Result<Figure, AlgorithmError> {
    let mut series = Vec::new();
    let hsb = |fan| Algorithm::Hsb { fan_in: fan, fan_out: fan };
    let all = Algorithm::NaryDissemination { radix: u32::MAX };
    for (name, algorithm) in [("nx, n = N", all), ("hsb, f = N - 1", hsb(u32::MAX)), ("hsb, f = 8", hsb(8))] {
        series.push(curve(name, most_nodes, |nodes| barrier_time(model, &algorithm, nodes))?);
    }
    series.push(curve("messages", most_nodes, |nodes| message_barrier_time(model, nodes))?);
    Ok(figure(7, "Comparison of barrier implementations", series))
}

/// Beyond the paper: algorithms on numbers of nodes that double, up to `most_nodes`.
///
/// # Errors
/// [`AlgorithmError`].
pub fn scaling(
    model: &Arc<Model>,
    algorithms: &[Algorithm],
    most_nodes: u32,
) -> Result<Figure, AlgorithmError> {
    let mut series = Vec::new();
    for algorithm in algorithms {
        let mut points = Vec::new();
        for nodes in std::iter::successors(Some(2_u32), |nodes| nodes.checked_mul(2)) {
            let nodes = nodes.min(most_nodes);
            points.push((f64::from(nodes), microseconds(barrier_time(model, algorithm, nodes)?)));
            if nodes == most_nodes {
                break;
            }
        }
        series.push(Series { name: algorithm.to_string(), points });
    }
    let mut figure = figure(0, "Barriers on many nodes", series);
    figure.x.is_logarithmic = true;
    figure.y.is_logarithmic = true;
    Ok(figure)
}

fn curve(
    name: &str,
    most_nodes: u32,
    time: impl Fn(u32) -> Result<Duration, AlgorithmError>,
) -> Result<Series, AlgorithmError> {
    let mut points = Vec::new();
    for nodes in 2..=most_nodes {
        points.push((f64::from(nodes), microseconds(time(nodes)?)));
    }
    Ok(Series { name: name.into(), points })
}

fn figure(number: u32, title: &str, series: Vec<Series>) -> Figure {
    let axis = |label: &str| Axis { label: label.into(), is_logarithmic: false };
    Figure { number, title: title.into(), x: axis("nodes"), y: axis("barrier [µs]"), series }
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
