//! Algorithms with parameters at random.

use proptest::prelude::*;
use svmio_collectives::Algorithm;

/// Any of them, also on two levels of blocks.
pub(crate) fn any_algorithm() -> impl Strategy<Value = Algorithm> {
    let flat = prop_oneof![
        Just("linear".to_owned()),
        Just("dissemination".to_owned()),
        Just("x1tree".to_owned()),
        (2_u32..40).prop_map(|arity| format!("tree:{arity}")),
        (1_u32..40, 1_u32..40).prop_map(|(fan_in, fan_out)| format!("hsb:{fan_in},{fan_out}")),
        (2_u32..40).prop_map(|group| format!("nx:{group}")),
        (2_u32..40).prop_map(|radix| format!("nx2:{radix}")),
    ];
    let text = (flat, prop::option::of(1_u32..40))
        .prop_map(|(flat, size)| size.map_or(flat.clone(), |size| format!("two-level:{size}:{flat}")));
    text.prop_map(|text| text.parse().unwrap())
}
