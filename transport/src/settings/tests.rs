use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::message::{Footprint, Messenger, Mode, Port};
use crate::units::Rank;

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
        ("SVMIO_WATCHDOG_TIMEOUT", ""),
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
fn the_guide_shows_the_defaults() {
    let guide = include_str!("../../../docs/guide.md");
    let (_, settings) = guide.split_once("\n### Settings\n").unwrap();
    let (_, sample) = settings.split_once("```toml\n").unwrap();
    let (sample, _) = sample.split_once("```").unwrap();
    let settings = from_file(sample).unwrap();
    let rows = settings.effective();
    assert!(rows.iter().filter(|row| row.origin != Origin::Default).count() > 10);
    assert_eq!(Settings { origins: BTreeMap::new(), ..settings }, Settings::default());
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

#[test]
fn numbers_of_every_section_are_checked_and_named_where_they_stand() {
    for (variable, value, parts) in [
        ("SVMIO_MESSAGES_SHORT_PACKET", "3GiB", ["short_packet is 3221225472", "from 16 to 65536 bytes"]),
        ("SVMIO_MESSAGES_EAGER_BUFFERS", "0", ["eager_buffers is 0", "from 1 to 65536"]),
        ("SVMIO_MESSAGES_CHUNK", "1", ["chunk is 1", "from 4096"]),
        ("SVMIO_SHM_SPIN_MICROSECONDS", "4000000000", ["spin_microseconds is 4000000000", "to 1000000"]),
        ("SVMIO_OFI_MESSAGE_BYTES", "17", ["message_bytes is 17", "from 512 to 1048576 bytes"]),
        ("SVMIO_OFI_ANSWER_SECONDS", "0", ["answer_seconds is 0", "from 1 to 86400 seconds"]),
        ("SVMIO_OFI_SILENCE", "2years", ["silence is", "to a year"]),
        ("SVMIO_START_LIMIT", "0s", ["limit is 0ns", "from 1ms to a year"]),
        ("SVMIO_WATCHDOG_GRACE", "2years", ["grace is", "to a year"]),
    ] {
        let (place, text) = problem(from_variables(&[(variable, value)]));
        assert_eq!(place, variable);
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
    let (place, text) = problem(from_file("[messages]\nring = 4096\n\nmemory_cap = 100\n"));
    assert!(place.ends_with(":4"), "{place}");
    assert!(text.contains("memory_cap is 100"), "{text}");
}

#[test]
fn what_the_program_sets_is_checked_too() {
    let mut settings = Settings::default();
    settings.check().unwrap();
    settings.messages.ring = 0;
    let (place, text) = problem(settings.check().map(|()| Settings::default()));
    assert_eq!(place, "messages.ring, as the program set it");
    assert!(text.contains("ring is 0"), "{text}");
}

/// Keys of numbers, with their sections, as the environment names them.
fn numbers() -> Vec<String> {
    let mut names = Vec::new();
    let table = assignment::table(&Settings::default());
    for &(section, keys) in fields::all() {
        for key in keys {
            if assignment::value(&table, section, key).is_some_and(toml::Value::is_integer) {
                names.push(format!("SVMIO_{section}_{key}").to_uppercase());
            }
        }
    }
    names
}

/// Plausible values, and such that are at the edge of what a word holds.
fn values() -> impl Strategy<Value = u64> {
    let power =
        (0_u32..64, -1_i64..=1).prop_map(|(power, more)| (1_u64 << power).saturating_add_signed(more));
    prop_oneof![6 => 1_u64..100_000, 3 => power, 1 => any::<u64>()]
}

/// Two processes exchange a short and a long message.
fn exchange(settings: &crate::message::MessageSettings) {
    let fabrics = crate::shm::within_process(2);
    let expected = Footprint::expected(settings, fabrics[0].capabilities(), 2, None);
    // What a cap leaves too little room for is told so, and a mebibyte is enough for any other numbers.
    if settings.memory_cap < 1 << 20 && expected.is_err() {
        return;
    }
    expected.unwrap();
    let open = |index: usize| Messenger::open(&fabrics[index], Port::FIRST, settings).unwrap();
    let (first, second) = (open(0), open(1));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for length in [100, 100_000] {
                first.send(Rank(1), &vec![7; length]).unwrap();
            }
        });
        for length in [100, 100_000] {
            let mut place = vec![0; length + 1];
            assert_eq!(second.receive(Rank(0), &mut place).unwrap(), length);
            assert!(place[..length].iter().all(|byte| *byte == 7) && place[length] == 0);
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_numbers_there_are_they_are_refused_or_work(
        given in prop::collection::btree_map(prop::sample::select(numbers()), values(), 0..8),
    ) {
        let variables = given.iter().map(|(name, value)| (name.clone(), value.to_string()));
        match Settings::from_sources(None, variables) {
            Ok(settings) => {
                // A cap of the test's own: it is about numbers, not about how much memory there is.
                let memory_cap = settings.messages.memory_cap.min(16 << 20);
                exchange(&crate::message::MessageSettings { memory_cap, ..settings.messages });
            }
            Err(Error::Setting { place, problem }) => {
                prop_assert!(given.contains_key(&place), "{place}: {problem}");
            }
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}
