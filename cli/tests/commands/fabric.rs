//! `svmio fabric info` and `svmio config`.

use std::fs;

use serde_json::{Value, json};

use crate::setting::{Setting, text};

/// The program's JSON with variables of the environment.
fn json_with(setting: &Setting, variables: &[(&str, &str)], arguments: &[&str]) -> Value {
    let output = setting.svmio().args(arguments).envs(variables.iter().copied()).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Value and origin of a setting.
fn effective<'a>(configuration: &'a Value, section: &str, key: &str) -> (&'a Value, &'a Value) {
    let settings = configuration["settings"].as_array().unwrap();
    let one = settings.iter().find(|one| one["section"] == section && one["key"] == key).unwrap();
    (&one["value"], &one["origin"])
}

#[test]
fn every_fabric_tells_what_it_can_do() {
    let setting = Setting::new();
    let all = setting.json(&["fabric", "info", "--json"]);
    let all = all.as_array().unwrap();
    let of = |fabric: &str, provider: &str| {
        all.iter().find(|one| one["fabric"] == fabric && (provider.is_empty() || one["provider"] == provider))
    };
    let shm = &of("shm", "").unwrap()["capabilities"];
    assert_eq!((&shm["direct_mapping"], &shm["atomics"]), (&json!(true), &json!("processor")));
    // The one that every machine has, by either of its names.
    let tcp = of("ofi", "tcp;ofi_rxm").unwrap();
    assert_eq!(tcp["capabilities"]["direct_mapping"], false, "{tcp}");
    let sci = &of("sim", "sci-switch").unwrap()["capabilities"];
    assert_eq!((&sci["stream_buffer"], &sci["is_reliable"]), (&json!(128), &json!(false)));
    for one in all {
        let has = |key: &str| one.get(key).is_some();
        assert!(has("capabilities") != has("unavailable"), "{one}");
    }

    let printed = setting.printed(&["fabric", "info", "--fabric", "sim"]);
    let lines: Vec<&str> = printed.lines().collect();
    assert!(
        lines[0].starts_with("FABRIC  PROVIDER") && lines[1..].iter().all(|line| line.starts_with("sim "))
    );
    assert!(setting.complaint(2, &["fabric", "info", "--fabric", "pigeon"]).contains("shm, ofi, sim"));
}

#[test]
fn the_guide_has_every_setting_with_its_default() {
    let guide = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide.md");
    let guide = fs::read_to_string(guide).unwrap();
    let (_, section) = guide.split_once("### Settings\n").unwrap();
    let (_, block) = section.split_once("```toml\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let setting = Setting::new();
    let file = setting.outside("guide.toml");
    fs::write(&file, block).unwrap();
    let told =
        json_with(&setting, &[("SVMIO_CONFIG", file.to_str().unwrap())], &["config", "--show", "--json"]);
    let defaults = setting.json(&["config", "--show", "--json"]);
    let [told, defaults] = [&told, &defaults].map(|all| all["settings"].as_array().unwrap());
    assert_eq!(told.len(), defaults.len());
    for (told, default) in told.iter().zip(defaults) {
        assert!(told["origin"]["file"].is_object(), "the guide lacks {}.{}", told["section"], told["key"]);
        assert_eq!(told["value"], default["value"], "{}.{}", told["section"], told["key"]);
    }
}

#[test]
fn settings_are_told_with_their_origin() {
    let setting = Setting::new();
    let defaults = setting.json(&["config", "--show", "--json"]);
    assert_eq!(effective(&defaults, "messages", "mode"), (&json!("automatic"), &json!("default")));

    let file = setting.outside("my.toml");
    fs::write(&file, "[messages]\n\nring = 65536\nmode = \"eager\"\n").unwrap();
    let variables = [("SVMIO_CONFIG", file.to_str().unwrap()), ("SVMIO_MESSAGES_MODE", "short")];
    let changed = json_with(&setting, &variables, &["config", "--show", "--json"]);
    let origin = json!({"file": {"path": file, "line": 3}});
    assert_eq!(effective(&changed, "messages", "ring"), (&json!("65536"), &origin));
    let origin = json!({"environment": {"variable": "SVMIO_MESSAGES_MODE"}});
    assert_eq!(effective(&changed, "messages", "mode"), (&json!("short"), &origin));
    assert_eq!(changed["buffers"]["peer"]["ring"], 65536);

    let output = setting.svmio().args(["config", "--show"]).envs(variables).output().unwrap();
    let printed = text(&output.stdout);
    let line = printed.lines().find(|line| line.starts_with("messages.ring ")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words[1..], ["65536".to_owned(), format!("{}:3", file.display())]);
}

#[test]
fn a_setting_that_there_is_not_is_an_error_and_not_called_ignored() {
    let setting = Setting::new();
    let output = setting.svmio().args(["config", "--show"]).env("SVMIO_START_LIMITS", "3").output().unwrap();
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("SVMIO_START_LIMITS: there is no key limits in section start"), "{message}");
    assert!(!message.contains("ignored"), "{message}");
}

#[test]
fn buffers_shrink_to_the_memory_that_there_is() {
    let setting = Setting::new();
    let buffers = |cap: &str| {
        let variables = [("SVMIO_MESSAGES_MEMORY_CAP", cap)];
        json_with(&setting, &variables, &["config", "--show", "--json", "--ranks", "9"])["buffers"].clone()
    };
    let (enough, short) = (buffers("64MiB"), buffers("1MiB"));
    for key in ["eager_buffer", "staging_buffer", "ring"] {
        assert!(number(&short["peer"][key]) <= number(&enough["peer"][key]), "{key}: {short}");
    }
    assert!(number(&short["peer"]["bytes"]) < number(&enough["peer"]["bytes"]), "{short}");
    assert!(number(&short["total"]) <= number(&short["limit"]) && short["limit"] == 1 << 20, "{short}");

    let mut command = setting.svmio();
    command.args(["config", "--show", "--ranks", "9"]).env("SVMIO_MESSAGES_MEMORY_CAP", "4KiB");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("smallest message buffers"), "{}", text(&output.stderr));
}

#[test]
fn buffers_shrink_to_the_part_of_a_process_of_the_available_memory() {
    let setting = Setting::new();
    let buffers = |ranks: &str| {
        let variables = [("SVMIO_MESSAGES_MEMORY_CAP", "100000GiB")];
        json_with(&setting, &variables, &["config", "--show", "--json", "--ranks", ranks])["buffers"].clone()
    };
    // More memory for each than machines have, so that the part decides, and not the cap.
    let (few, many) = (buffers("1"), buffers("4000"));
    assert!(number(&many["limit"]) <= number(&few["limit"]) / 1000, "{few} {many}");
    for key in ["eager_buffer", "staging_buffer", "ring"] {
        assert!(number(&many["peer"][key]) < number(&few["peer"][key]), "{key}: {many}");
    }
    assert!(number(&many["total"]) <= number(&many["limit"]), "{many}");
}

#[test]
fn what_may_turn_out_smaller_is_told() {
    let setting = Setting::new();
    let shown = |fabric: &str| {
        let output = setting.svmio().args(["config", "--show"]).env("SVMIO_FABRIC", fabric).output().unwrap();
        text(&output.stdout)
    };
    assert!(shown("ofi").contains("up to 32 receive buffers of 64.50 KiB; where memory is short"));
    assert!(!shown("shm").contains("receive buffers of"));
}

#[test]
fn receive_buffers_are_told_as_the_provider_takes_them() {
    let setting = Setting::new();
    let buffers = |variables: &[(&str, &str)]| {
        let variables = [&[("SVMIO_FABRIC", "ofi")], variables].concat();
        json_with(&setting, &variables, &["config", "--show", "--json"])["buffers"].clone()
    };
    // It may let a short message overtake one that is longer.
    let rxm = ("SVMIO_OFI_PROVIDER", "tcp;ofi_rxm");
    assert_eq!(number(&buffers(&[rxm])["receive_buffer"]), 8 << 10);
    // More than its queue is long.
    let many = buffers(&[rxm, ("SVMIO_OFI_RECEIVE_BUFFERS", "16384"), ("SVMIO_OFI_MESSAGE_BYTES", "512")]);
    let number_of = number(&many["receive_buffers_at_most"]);
    assert!((1..16384).contains(&number_of), "{many}");
    assert_eq!(number(&many["receive_buffer"]), 512);
}

#[test]
fn a_setting_that_makes_no_sense_is_named() {
    let setting = Setting::new();
    let file = setting.outside("my.toml");
    fs::write(&file, "[messages]\nrings = 3\n").unwrap();
    let wrong = [
        ("SVMIO_CONFIG", file.to_str().unwrap(), "my.toml:2"),
        ("SVMIO_CONFIG", "/none.toml", "/none.toml"),
        ("SVMIO_MESSAGES_RING", "round", "SVMIO_MESSAGES_RING"),
        ("SVMIO_FABRIC", "pigeon", "SVMIO_FABRIC"),
    ];
    for (variable, value, expected) in wrong {
        let output = setting.svmio().args(["config", "--show"]).env(variable, value).output().unwrap();
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{variable}={value}: {message}");
        assert!(message.contains(expected), "{variable}={value}: {message}");
    }
    let output = setting.run(&["config"]);
    assert!(text(&output.stderr).contains("Usage: svmio config"), "without --show there is help");
}
