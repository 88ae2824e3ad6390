//! A stencil: neighbours' rows by page faults, beside the same program with reads and writes of them.

use serde_json::json;

use super::job::Nodes;
use crate::aims::{Aim, Extent};
use crate::figures::Record;
use crate::interleaved::medians;

/// Measures both on plates of several sizes, and prints the table. Returns what is aimed at.
///
/// # Panics
/// Where a run fails.
pub fn compare(places: &[Nodes<'_>], extent: Extent, record: &mut Record) -> Vec<Aim> {
    let sizes = if extent == Extent::Full { &[(1024, 400), (4096, 40)][..] } else { &[(512, 50)] };
    record.tell(format_args!(
        "\nA stencil of five points, in two plates of doubles on four nodes; milliseconds of a step.\n"
    ));
    record.tell(format_args!(
        "| between nodes | plate | mapped | explicit | mapped / explicit | faults of a step |"
    ));
    record.tell(format_args!("|---|--:|--:|--:|--:|--:|"));
    let mut aims = Vec::new();
    for place in places {
        for (side, steps) in sizes {
            let words = [side, steps].map(|number: &u32| number.to_string());
            let words =
                ["stencil", "--rows", &words[0], "--columns", &words[0], "--steps", &words[1], "--access"];
            let both = medians(2, |access| {
                let told = place.run(&[&words[..], &[["mapped", "explicit"][access]]].concat());
                let faults = told.all("faults").next().unwrap_or(0.0);
                [told.get("seconds") * 1e3, faults].map(|of_all| of_all / f64::from(*steps))
            });
            let [[mapped, faults], [explicit, _]] = [both[0], both[1]];
            let (name, ratio) = (place.name(), mapped / explicit);
            record.tell(format_args!(
                "| {name} | {side}² | {mapped:.3} | {explicit:.3} | {ratio:.2} | {faults:.1} |"
            ));
            record.add(json!({
                "part": "stencil", "between": name, "side": side, "mapped_milliseconds": mapped,
                "explicit_milliseconds": explicit, "faults": faults,
            }));
            let what = format!("stencil, {side}², {name}: mapped / explicit");
            aims.push(Aim::at_most(what, ratio, 1.0, 4.0));
        }
    }
    aims
}
