"""The demo organisation's samples: added once, compiled once, however often the seed runs."""

from __future__ import annotations

import pytest

from apps.compilation import seed as compilation_seed
from apps.compilation.models import CompileJob, Program
from apps.registry import seed as registry_seed
from apps.registry.models import ModelVersion
from tests.cast import Cast
from tests.compilation.helpers import NOW, run_remembered
from tests.tiers import WHOLE


def test_the_seed_is_idempotent_and_what_it_queues_compiles(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    if not WHOLE:  # programs for 64 items take as long as all others
        monkeypatch.setitem(compilation_seed.DIMS, "batch", {"batch": [1, 2]})
    for _ in range(2):
        registry_seed.seed(now=NOW, organisation=cast.organisation, owner=cast.owner, admin=cast.admin)
        compilation_seed.seed(now=NOW, organisation=cast.organisation, owner=cast.owner, admin=cast.admin)
    assert ModelVersion.objects.count() == 3
    assert CompileJob.objects.count() == 6
    assert {run_remembered(job).state for job in CompileJob.objects.all()} == {CompileJob.State.DONE}
    compilation_seed.seed(now=NOW, organisation=cast.organisation, owner=cast.owner, admin=cast.admin)
    assert CompileJob.objects.count() == 6
    Program.objects.filter(target="lpu2").update(target_digest="0" * 64)  # as if lpu2 had been described otherwise then
    compilation_seed.seed(now=NOW, organisation=cast.organisation, owner=cast.owner, admin=cast.admin)
    assert sorted(CompileJob.objects.values_list("target", flat=True)) == ["lpu"] * 3 + ["lpu2"] * 6
