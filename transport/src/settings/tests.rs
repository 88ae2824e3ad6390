use std::time::Duration;

use super::*;
use crate::message::Mode;

fn from_file(text: &str) -> Result<Settings> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    Settings::from_sources(Some(file.path()), [])
}

fn from_variables(variables: &[(&str, &str)]) -> Result<Settings> {
    Settings::from_sources(None, variables.iter().map(|(name, value)| ((*name).into(), (*value).into())))
}

/// The problem and the end of the place.
fn problem(result: Result<Settings>) -> (String, String) {
    match result.unwrap_err() {
        Error::Setting { place, problem } => (place, problem),
        other => panic!("{other:?}"),
    }
}

#[test]
fn without_sources_all_is_default() {
    let settings =
        from_variables(&[("PATH", "/bin"), ("SVMIO_STORE", "/s"), ("SVMIO_JOB_RANK", "3")]).unwrap();
    assert_eq!(settings, Settings::default());
    let rows = settings.effective();
    assert!(rows.iter().all(|row| row.origin == Origin::Default));
    let row = |section: &str, key: &str| {
        rows.iter().find(|row| row.section == section && row.key == key).map(|row| row.value.as_str())
    };
    assert_eq!(row("", "fabric"), Some("shm"));
    assert_eq!(row("watchdog", "timeout"), Some("5s"));
    assert_eq!(row("messages", "mode"), Some("automatic"));
    for section in ["shm", "ofi", "messages", "start", "watchdog"] {
        assert!(rows.iter().any(|row| row.section == section), "{section}");
    }
}

#[test]
fn the_environment_changes_what_the_file_says() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = "fabric = \"ofi\"\n[messages]\neager_buffer = \"32KiB\"\neager_buffers = 3\n[watchdog]\ntimeout = \"700ms\"\n";
    std::fs::write(file.path(), text).unwrap();
    let variables = [
        ("SVMIO_MESSAGES_EAGER_BUFFERS", "5"),
        ("SVMIO_MESSAGES_MODE", "rendezvous-staged"),
        ("SVMIO_MESSAGES_MEMORY_CAP", "2 MiB"),
        ("SVMIO_WATCHDOG_SIGNALS", "true"),
        ("SVMIO_START_ADDRESS", "7"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let settings = Settings::from_sources(Some(file.path()), variables).unwrap();
    assert_eq!(settings.fabric, FabricChoice::Ofi);
    assert_eq!(settings.messages.eager_buffer, 32 << 10);
    assert_eq!(settings.messages.eager_buffers, 5);
    assert_eq!(settings.messages.mode, Mode::RendezvousStaged);
    assert_eq!(settings.messages.memory_cap, 2 << 20);
    assert_eq!(settings.watchdog.timeout, Duration::from_millis(700));
    assert!(settings.watchdog.signals);
    assert_eq!(settings.start.address, "7");
    let origin = |key: &str| settings.effective().into_iter().find(|row| row.key == key).unwrap().origin;
    assert_eq!(origin("eager_buffer"), Origin::File { path: file.path().into(), line: 3 });
    assert_eq!(
        origin("eager_buffers"),
        Origin::Environment { variable: "SVMIO_MESSAGES_EAGER_BUFFERS".into() }
    );
    assert_eq!(origin("staging_buffers"), Origin::Default);
}

#[test]
fn what_the_program_sets_is_told_as_such() {
    let mut settings = Settings::default();
    settings.start.limit = Duration::from_secs(3);
    let row = settings.effective().into_iter().find(|row| row.key == "limit").unwrap();
    assert_eq!((row.value.as_str(), row.origin), ("3s", Origin::Program));
}

#[test]
fn what_does_not_exist_is_an_error_that_names_the_line_and_what_exists() {
    let (place, text) = problem(from_file("[messages]\n\neager_bufer = 3\n"));
    assert!(place.ends_with(":3"), "{place}");
    assert!(
        text.contains("no key eager_bufer in section messages") && text.contains("eager_buffer,"),
        "{text}"
    );
    let (place, text) = problem(from_file("fabric = \"shm\"\n[message]\nmode = 1"));
    assert!(place.ends_with(":3"), "{place}");
    assert!(text.contains("no section message;") && text.contains("shm, ofi, messages, start"), "{text}");
    let (place, _) = problem(from_file("# nothing\n[message]\n"));
    assert!(place.ends_with(":2"), "{place}");
    let (_, text) = problem(from_file("speed = 3\n"));
    assert!(text.contains("no key speed here; there is fabric"), "{text}");
    let (place, text) = problem(from_variables(&[("SVMIO_START_LIMITS", "3s")]));
    assert_eq!(place, "SVMIO_START_LIMITS");
    assert!(text.contains("no key limits in section start"), "{text}");
}

#[test]
fn a_value_that_makes_no_sense_is_an_error_that_says_what_would() {
    let of = |variable, value| problem(from_variables(&[(variable, value)]));
    let (place, text) = of("SVMIO_FABRIC", "sci");
    assert_eq!(place, "SVMIO_FABRIC");
    assert!(text.contains("expected `shm` or `ofi`"), "{text}");
    assert!(of("SVMIO_WATCHDOG_TIMEOUT", "soon").1.contains("as in 5s or 500ms"));
    assert!(of("SVMIO_WATCHDOG_TIMEOUT", "1ms").1.contains("should be from 20ms"));
    assert!(of("SVMIO_WATCHDOG_SIGNALS", "maybe").1.contains("true or false"));
    let (_, text) = of("SVMIO_MESSAGES_EAGER_BUFFER", "large");
    assert!(text.contains("eager_buffer = large") && text.contains("32KiB"), "{text}");
    assert!(of("SVMIO_MESSAGES_EAGER_BUFFER", "99999999GiB").1.contains("eager_buffer"));
    let (place, _) = problem(from_file("fabric =\n"));
    assert!(place.ends_with(":1"), "{place}");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let (place, text) = problem(Settings::from_sources(Some(Path::new("/nowhere/svmio.toml")), []));
    assert_eq!(place, "/nowhere/svmio.toml");
    assert!(text.contains("SVMIO_CONFIG"), "{text}");
}
