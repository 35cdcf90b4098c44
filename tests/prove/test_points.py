"""The points at which a proof can kill."""

from tests.prove.points import POINTS


def test_every_point_has_a_name_of_its_own():
    assert len(POINTS) >= 19
    assert len(set(POINTS)) == len(POINTS)
