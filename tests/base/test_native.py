"""Work that nobody waits for is remembered until it ends, and no longer."""

from posnmt.base.parallel import native


def test_work_is_forgotten_when_it_has_ended(monkeypatch):
    monkeypatch.setattr(native, "_ABANDONED", [])
    done = set()
    for number in range(3):
        native.abandon(lambda number=number: number in done)
    assert native.still_running()
    done |= {0, 1}
    native.abandon(lambda: 3 in done)
    assert len(native._ABANDONED) == 2
    done |= {2, 3}
    assert not native.still_running()
    assert native._ABANDONED == []
