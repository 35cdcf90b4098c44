"""How many connections are held, by how many files may be open."""

import resource

import pytest

from mercato.http import server


@pytest.mark.parametrize(
    ("soft", "hard", "held", "raised"),
    [
        (1_024, 524_288, server.CONNECTIONS, server.CONNECTIONS + server.FILES_BESIDE),
        (1_024, 4_096, 2_048, 4_096),
        (1_024, 1_024, 512, None),
        (256, 256, 128, None),
        (1_048_576, 1_048_576, server.CONNECTIONS, None),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, server.CONNECTIONS, None),
        (1_024, resource.RLIM_INFINITY, server.CONNECTIONS, server.CONNECTIONS + server.FILES_BESIDE),
    ],
)
def test_connections_are_limited_so_that_file_descriptors_remain(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, held: int, raised: int | None
):
    limits = [(soft, hard)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, now: limits.append(now))
    assert server.connections() == held
    assert limits[1:] == ([] if raised is None else [(raised, hard)])
