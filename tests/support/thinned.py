"""Tests with many like cases, of which `make test` runs some and `make test-slow` the others."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

SOME = {
    "data/test_offsets.py::test_real_corpora": 12,
    "metrics/test_ter.py::test_unlike_lines": 4,
    "model/test_compiled.py::test_a_graph_serves_all_layers_of_a_stack_and_all_lengths": 5,
    "model/test_gradients.py::test_bf16_differs_by_rounding_alone": 2,
    "model/test_kernel_trial.py::test_a_broken_kernel_is_refused_and_the_plain_form_computes": 4,
    "model/test_kernel_trial.py::test_the_kernel_for_relative_positions_agrees_and_draws_no_numbers_of_others": 2,
    "model/test_long_inputs.py::test_what_grows_with_the_square_of_the_length_does_not_grow_with_the_width": 5,
    "model/test_shaw_kernel.py::test_kernel_is_the_plain_path": 4,
    "model/test_shaw_kernel.py::test_keys_and_values_are_read_where_a_projection_has_them": 3,
    "model/test_shaw_kernel.py::test_padding_of_rows_by_distance_is_not_read_and_stays_zero": 2,
    "model/test_shaw_kernel.py::test_tiles_need_not_be_square": 4,
    "model/test_waits.py::test_a_training_step_does_not_wait": 5,
    "position/test_cross.py::test_a_strangers_scheme_in_attention_to_the_source": 3,
    "shim/test_shim.py::test_a_disturbed_command_can_be_repeated": 3,
    "study/test_study_evidence.py::test_intervals_hold_the_truth_in_95_of_100_studies": 3,
    "study/test_study_evidence.py::test_the_variance_is_that_of_the_studies": 3,
    "study/test_study_resources.py::test_the_paper_scale_trains_on_a_gpu": 3,
    "system/test_next.py::test_what_training_suggests_works": 3,
    "training/test_resume.py::test_a_stopped_run_goes_on_bit_for_bit": 3,
    "translate/test_draws.py::test_a_random_system": 3,
    "translate/test_graphs.py::test_buffers_change_nothing": 3,
    "translate/test_translations.py::test_a_list_has_each_text_once_and_begins_with_the_best": 3,
}
"""Test -> n: every n-th of its cases is fast, beginning with the first."""


def thin(items: Iterable[pytest.Item]) -> None:
    """Mark the cases that are left to `make test-slow`."""
    seen: dict[str, int] = {}
    for item in items:
        name = item.nodeid.removeprefix("tests/").partition("[")[0]
        if name in SOME and item.get_closest_marker("slow") is None:
            if seen.setdefault(name, 0) % SOME[name]:
                item.add_marker("slow")
            seen[name] += 1
