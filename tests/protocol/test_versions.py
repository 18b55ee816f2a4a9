from __future__ import annotations

import pytest

from rmqctl.protocol.versions import OUR_VERSION, V4_9_4, V5_0_0, Language, language_name, version_name, version_ordinal

# MQVersion.Version of 5.4.0.
ORDINALS = {
    0: "V3_0_0_SNAPSHOT",
    27: "V3_0_6",
    28: "V3_0_7_SNAPSHOT",
    37: "V3_0_11",
    61: "V3_1_7",
    62: "V3_1_8_SNAPSHOT",
    79: "V3_2_6",
    121: "V3_4_9",
    212: "V4_0_0_SNAPSHOT",
    213: "V4_0_0",
    392: "V4_9_0_SNAPSHOT",
    393: "V4_9_0",
    401: "V4_9_4",
    407: "V4_9_7",
    411: "V4_9_9",
    412: "V5_0_0_SNAPSHOT",
    413: "V5_0_0",
    433: "V5_1_0",
    453: "V5_2_0",
    473: "V5_3_0",
    475: "V5_3_1",
    479: "V5_3_3",
    493: "V5_4_0",
    611: "V5_9_9",
    612: "HIGHER_VERSION",
}


@pytest.mark.parametrize(("ordinal", "name"), ORDINALS.items())
def test_names_of_the_table(ordinal: int, name: str) -> None:
    assert version_name(ordinal) == name


@pytest.mark.parametrize("ordinal", [-1, 1, 29, 211])
def test_an_older_entry_keeps_its_number(ordinal: int) -> None:
    assert version_name(ordinal) == f"ORDINAL_{ordinal}"


@pytest.mark.parametrize("ordinal", [612, 613, 32767, 2**31 - 1])
def test_anything_above_is_higher(ordinal: int) -> None:
    assert version_name(ordinal) == "HIGHER_VERSION"


def test_releases_and_names_agree_from_4_0_0_to_5_9_9() -> None:
    releases = [(major, minor, patch) for major in (4, 5) for minor in range(10) for patch in range(10)]
    ordinals = [version_ordinal(*release) for release in releases]
    assert ordinals == list(range(213, 612, 2))
    for (major, minor, patch), ordinal in zip(releases, ordinals, strict=True):
        assert version_name(ordinal) == f"V{major}_{minor}_{patch}"
        assert version_name(ordinal - 1) == f"V{major}_{minor}_{patch}_SNAPSHOT"


@pytest.mark.parametrize("release", [(3, 4, 9), (6, 0, 0), (5, 10, 0), (5, 0, 10), (4, -1, 0), (4, 0, -1)])
def test_other_releases_have_no_regular_ordinal(release: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="no regular entry"):
        version_ordinal(*release)


def test_constants() -> None:
    assert version_ordinal(4, 9, 4) == V4_9_4
    assert version_ordinal(5, 0, 0) == V5_0_0
    assert version_ordinal(5, 3, 1) == OUR_VERSION


def test_we_get_standard_json_routes_and_no_go_away() -> None:
    assert V4_9_4 <= OUR_VERSION <= version_ordinal(5, 3, 1)


def test_languages() -> None:
    names = [
        *("JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY"),
        *("OTHER", "HTTP", "GO", "PHP", "OMS", "RUST", "NODE_JS"),
    ]
    assert [language.name for language in Language] == names
    assert [language_name(ordinal) for ordinal in range(len(names))] == names
    assert len(Language.__members__) == len(Language)


@pytest.mark.parametrize("ordinal", [-1, 14, 127])
def test_an_unknown_language_is_other(ordinal: int) -> None:
    assert language_name(ordinal) == "OTHER"
