"""Settings are MERCATO_… variables, each with a documented default; an unknown one stops the start."""

from pathlib import Path

import msgspec
import pytest

from mercato.settings import Settings, load
from mercato_contract.texts import Secret
from mercato_tools import settings as tools
from mercato_tools.settings import PREFIX, IngestSettings, SettingsError


def test_without_variables_the_defaults_apply():
    assert load({"PATH": "/bin"}) == Settings()


def test_an_unknown_setting_stops_the_start_and_the_closest_name_is_suggested():
    with pytest.raises(
        SettingsError, match=r"MERCATO_DATBASE_URL is not a setting\. Did you mean MERCATO_DATABASE_URL"
    ):
        load({"MERCATO_DATBASE_URL": "x"})


def test_an_unknown_setting_without_a_close_name_says_what_to_do():
    with pytest.raises(
        SettingsError, match=r"MERCATO_FOO is not a setting\. Remove it from the environment\."
    ):
        load({"MERCATO_FOO": "1"})


def test_all_faults_are_reported_at_once():
    with pytest.raises(SettingsError) as caught:
        load({"MERCATO_PORT": "http", "MERCATO_INGEST_CONCURRENCY": "0", "MERCATO_X": ""})
    assert len(str(caught.value).splitlines()) == 3


@pytest.mark.parametrize(
    ("text", "value"), [("off", False), ("false", False), ("on", True), ("TRUE", True), ("1", True)]
)
def test_switches_read_on_and_off(text: str, value: bool):
    assert load({"MERCATO_RATE_LIMITS": text}).rate_limits is value


def test_a_secret_is_never_shown():
    settings = load(
        {"MERCATO_METRICS_TOKEN": "hunter2", "MERCATO_DATABASE_URL": "postgresql://u:hunter2@h/d"}
    )
    assert "hunter2" not in f"{settings!r} {settings} {settings.metrics_token}"
    assert settings.metrics_token == Secret("hunter2")


def test_the_command_line_overrides_the_environment():
    settings = load({"MERCATO_PORT": "1", "MERCATO_DATA_DIR": "a"}, port=2, data_dir=Path("b"), host=None)
    assert (settings.port, settings.data_dir, settings.host) == (2, Path("b"), "127.0.0.1")


def test_every_setting_is_documented():
    for field in msgspec.structs.fields(Settings):
        info = msgspec.inspect.type_info(field.type)
        assert isinstance(info, msgspec.inspect.Metadata), field.name


def test_variables_of_the_projects_own_tests_are_ignored():
    assert load({"MERCATO_TEST_POSTGRES_URL": "x"}) == Settings()


@pytest.mark.parametrize(
    ("name", "good"),
    [
        ("MERCATO_PUBLIC_URL", "https://api.example.com/network/"),
        ("MERCATO_PUBLIC_URL", "http://[::1]:8000"),
        ("MERCATO_PUBLIC_URL", ""),
        ("MERCATO_TRACES_ENDPOINT", "http://collector:4318"),
        ("MERCATO_DATABASE_URL", "sqlite:///relative/file"),
        ("MERCATO_REDIS_URL", "unix:///run/valkey.sock"),
        ("MERCATO_DATABASE_URL", "postgresql+asyncpg://u:p@h/d?host=/run"),
    ],
)
def test_a_url_is_accepted_as_it_is_written(name: str, good: str):
    load({name: good})


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("MERCATO_PUBLIC_URL", "foo"),
        ("MERCATO_PUBLIC_URL", "api.example.com:443"),
        ("MERCATO_PUBLIC_URL", "ftp://api.example.com"),
        ("MERCATO_PUBLIC_URL", "https://api.example.com/?a=b"),
        ("MERCATO_PUBLIC_URL", "https://"),
        ("MERCATO_TRACES_ENDPOINT", "collector:4318"),
        ("MERCATO_DATABASE_URL", "hunter2"),
        ("MERCATO_DATABASE_REPLICA_URL", "hunter2"),
        ("MERCATO_REDIS_URL", "hunter2:6379"),
    ],
)
def test_a_malformed_url_stops_the_start_and_an_example_is_shown(name: str, bad: str):
    with pytest.raises(SettingsError, match=rf"^{name}: Write it as [a-z]+://\S+\.$") as caught:
        load({name: bad})
    assert "hunter2" not in str(caught.value)


def test_a_fault_of_an_option_names_the_option():
    with pytest.raises(SettingsError, match=r"^--port: Write a whole number from 0 to 65535\.$"):
        load({"MERCATO_PORT": "1"}, port=99_999)


@pytest.mark.parametrize("name", ["MERCATO_HOST", "MERCATO_DATA_DIR", "MERCATO_PORT", "MERCATO_RATE_LIMITS"])
def test_a_setting_with_a_default_must_not_be_empty(name: str):
    with pytest.raises(SettingsError, match=rf"^{name}: It is empty\. Leave it out for the default\.$"):
        load({name: ""})


@pytest.mark.parametrize(
    "name",
    [
        "CUSTOMER_DATA_DAYS",
        "INGEST_CONCURRENCY",
        "DELIVERY_CONCURRENCY_PER_PARTNER",
        "RATE_LIMIT_READS",
        "PULL_BYTES",
    ],
)
def test_a_number_beyond_calendars_and_databases_stops_the_start(name: str):
    """Background work would fail on such a number, long after the start."""
    with pytest.raises(SettingsError, match=rf"^MERCATO_{name}: Write a whole number from \d+ to \d+\.$"):
        load({f"MERCATO_{name}": "9" * 15})


@pytest.mark.parametrize(
    ("name", "value", "advice"),
    [
        ("RATE_LIMITS", "maybe", "Write on or off."),
        ("PORT", "http", "Write a whole number from 0 to 65535."),
        ("PULL_SECONDS", "soon", "Write a number above 0, at most 3600."),
        ("LOG_LEVEL", "loud", "Write one of: debug, error, info, warning."),
        ("DEFAULT_CURRENCY", "euro", "Write three capital letters, such as EUR."),
    ],
)
def test_an_invalid_value_stops_the_start_and_the_message_says_how_to_write_it(
    name: str, value: str, advice: str
):
    with pytest.raises(SettingsError) as caught:
        load({f"MERCATO_{name}": value})
    assert str(caught.value) == f"MERCATO_{name}: {advice}"


def test_the_tools_read_the_settings_of_catalogs_and_leave_the_others_to_the_service():
    environment = {"MERCATO_DEFAULT_CURRENCY": "EUR", "MERCATO_PULL_BYTES": "9", "MERCATO_PORT": "http"}
    found = tools.load(IngestSettings, environment)
    assert (found.default_currency, found.pull_limits.max_raw) == ("EUR", 9)


def test_a_variable_that_is_nearly_a_setting_of_the_tools_is_refused():
    with pytest.raises(
        SettingsError, match=r"MERCATO_DEFAULT_CURENCY is not a setting\. Did you mean MERCATO_D"
    ):
        tools.load(IngestSettings, {"MERCATO_DEFAULT_CURENCY": "EUR"})


@pytest.mark.parametrize("name", sorted({*Settings.__struct_fields__} - {*IngestSettings.__struct_fields__}))
def test_no_setting_of_the_service_is_nearly_one_of_the_tools(name: str):
    assert tools.load(IngestSettings, {f"{PREFIX}{name.upper()}": "anything"}) == IngestSettings()
