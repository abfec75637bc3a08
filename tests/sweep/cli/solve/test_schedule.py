"""``archsweep solve schedule`` and the lists of what it takes: what they print, and how they end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.formats.chips import FOLDER, load_chip
from costmodel.formats.json.programs import read_program
from costmodel.formats.layer_graphs import load_layer_graph
from costmodel.formats.yaml.file_keys import check_keys
from costmodel.mapping.mapping import Mapping
from costmodel.mapping.nest_text import mapping_of_text
from costmodel.schedule.tree.text import parse_tree
from costmodel.schedule.tree.tree import leaves
from results.report.data import RunData
from results.report.page import build_page
from results.store.folder import RunFolder
from results.store.schema.chips import PROGRAMS
from solvers.schedule.tiles.layer_parts import TilePart
from solvers.schedule.tiles.mapper import TileMapper
from sweep.study.schedule_choice import ScheduleChoice
from sweep.tasks.chips import schedule_answer
from tests.costmodel.schedule.program.program_counts import dram_bytes

Command = Callable[..., tuple[int, str, str]]

CHAIN = {
    "name": "chain",
    "layers": [
        {"name": name, "type": "conv", "K": 16, "H": 4, "W": 4, "R": 1, "S": 1, "sH": 1, "sW": 1}
        | {"pad_h": 0, "pad_w": 0, "ifmap_real": [16, 4, 4], "ifm_prevs": before}
        | {"external_C": 0 if before else 16}
        for name, before in (("a", []), ("b", [0]))
    ],
}


@pytest.fixture
def solve(command_line: Command, tmp_path: Path) -> Command:
    (tmp_path / "chain.json").write_text(json.dumps(CHAIN))

    def run(*options: str) -> tuple[int, str, str]:
        given = ("--chip", "set-edge", "--network", "chain.json", "--most-partitions", "1")
        params = () if "--params" in options else ("--params", '{"beta": 2}')
        tiles = () if "--tile-solver" in options else ("--tile-solver", "nvdla")
        return command_line("solve", "schedule", *given, *params, *tiles, *options)

    return run


@pytest.mark.slow
def test_json_holds_the_best_schedule_and_every_seed_and_is_counted_again(
    solve: Command, command_line: Command, tmp_path: Path
) -> None:
    status, out, errors = solve("--batch", "2", "--seeds", "3", "--objective", "ed2", "--json")
    assert status == 0
    answer = json.loads(out)
    assert [row["seed"] for row in answer["seeds"]] == [0, 1, 2]
    assert answer["objective"] == min(row["objective"] for row in answer["seeds"])
    assert answer["objective"] == pytest.approx(answer["energy_pj"] * answer["cycles"] ** 2)
    assert sum(answer["energy_by_part_pj"].values()) == pytest.approx(answer["energy_pj"])
    assert [leaf.layer for leaf in leaves(parse_tree(answer["tree"]))] == ["a", "b"]
    assert "3 schedules to find" in errors.replace("\n", " ")
    assert [path.name for path in tmp_path.iterdir()] == ["chain.json"]
    (tmp_path / "schedule.json").write_text(out)
    status, again, _ = command_line("evaluate", "schedule.json", "--json")
    line = json.loads(again)
    assert status == 0
    assert line["energy_pj"] == pytest.approx(answer["energy_pj"])
    counted = ("latency_cycles", "dram_bytes", "noc_hop_bytes")
    assert [line[name] for name in counted] == [answer[n] for n in ("cycles", *counted[1:])]
    _, text, _ = command_line("evaluate", "schedule.json")
    assert text.startswith(f"chain batch 2 on set-edge  {answer['cycles']} cycles")


@pytest.mark.slow
def test_a_dataflow_of_tiles_is_kept_in_the_answer_and_counted_again(
    solve: Command, command_line: Command, tmp_path: Path
) -> None:
    (tmp_path / "dataflow.yaml").write_text("constraints: [{level: Buffer, spatial_x: [Q], spatial_y: [P]}]")
    given = ("--chip", "set-edge-eyeriss", "--tile-solver", "exact", "--seeds", "1", "--json")
    answers = [json.loads(solve(*given, *more)[1]) for more in ((), ("--tile-constraints", "dataflow.yaml"))]
    # 16 outputs of 16 channels: the array is of use for channels only, which the dataflow keeps off it
    assert answers[1]["energy_pj"] > answers[0]["energy_pj"]
    assert "tile_space" not in answers[0]
    for leaf in answers[1]["leaves"]:
        for one in leaf["mappings"]:
            mapping = mapping_of_text(one["mapping"])
            assert isinstance(mapping, Mapping)
            buffer = mapping.levels[-1]
            assert {dim for dim, _ in (*buffer.spatial_x, *buffer.spatial_y)} <= {"P", "Q"}
    (tmp_path / "schedule.json").write_text(json.dumps(answers[1]))
    status, again, _ = command_line("evaluate", "schedule.json", "--json")
    assert status == 0
    assert json.loads(again)["energy_pj"] == pytest.approx(answers[1]["energy_pj"])
    wrong = answers[1] | {"tile_space": {"constraint": []}}
    (tmp_path / "schedule.json").write_text(json.dumps(wrong))
    status, _, errors = command_line("evaluate", "schedule.json")
    assert status == 2
    assert "tile_space" in errors
    assert "Did you mean constraints?" in errors.replace("\n", " ")


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["energy", "cycles"])
def test_what_tiles_are_mapped_for_follows_the_objective_or_an_option(
    solve: Command, command_line: Command, tmp_path: Path, objective: str
) -> None:
    """The only part of the only tree of one layer on one tile, against the tile solver asked itself."""
    large = {"K": 20, "H": 14, "W": 14, "R": 3, "S": 3, "ifmap_real": [48, 16, 16], "external_C": 48}
    (tmp_path / "chain.json").write_text(json.dumps({"layers": [CHAIN["layers"][0] | large]}))  # type: ignore[operator]
    text = (FOLDER / "set-edge.yaml").read_text(encoding="utf-8")
    (tmp_path / "one.yaml").write_text(text.replace("mesh: [4, 4]", "mesh: [1, 1]"))
    tile = load_chip(str(tmp_path / "one.yaml")).tile
    assert tile.architecture is not None
    part = TilePart.of(load_layer_graph(str(tmp_path / "chain.json")).layers[0], (1, 1, 1, 1), 1)
    costs = {TileMapper("nvdla", one).cost(tile.architecture, part) for one in ("energy", "cycles", "edp")}
    assert len(costs) == 3
    for options, asked in (((), objective), (("--tile-objective", "edp"), "edp")):
        given = ("--chip", "one.yaml", "--seeds", "1", "--objective", objective, "--json", *options)
        answer = json.loads(solve(*given)[1])
        cost = TileMapper("nvdla", asked).cost(tile.architecture, part)  # type: ignore[arg-type]
        assert cost is not None
        assert answer["tile_objective"] == asked
        assert answer["energy_by_part_pj"]["tiles"] == pytest.approx(cost.energy_pj)
        (tmp_path / "again.json").write_text(json.dumps(answer))
        again = json.loads(command_line("evaluate", "again.json", "--json")[1])
        assert (again["energy_pj"], again["latency_cycles"]) == (
            pytest.approx(answer["energy_pj"]),
            answer["cycles"],
        )


@pytest.mark.slow
def test_a_limit_that_was_reached_is_said_in_json_text_and_report(solve: Command, tmp_path: Path) -> None:
    said = "limit of 1 ways to cut a layer among tiles reached"
    assert said in json.loads(solve("--seeds", "1", "--json")[1])["note"]
    status, out, _ = solve("--seeds", "1", "-o", "runs/mine")
    assert status == 0
    assert said in " ".join(out.split())
    (row,) = RunFolder(tmp_path / "runs" / "mine").read_rows("schedules")
    assert said in row["note"]
    assert said in build_page(RunData.read(tmp_path / "runs" / "mine"))
    assert "note" not in solve("--seeds", "1", "--most-partitions", "1000")[1]


@pytest.mark.slow
def test_the_program_of_the_best_schedule_can_be_kept(solve: Command, tmp_path: Path) -> None:
    """With how each layer runs: the program moves the bytes that the answer says."""
    status, out, _ = solve("--batch", "4", "--seeds", "2", "--program", "best.json.gz", "--json")
    assert status == 0
    answer, program = json.loads(out), read_program(tmp_path / "best.json.gz")
    assert (program.network, program.batch, program.chip) == ("chain.json", 4, load_chip("set-edge"))
    read, written = dram_bytes(program)
    assert read + written == answer["dram_bytes"]
    by_layer = {leaf["layer"]: leaf for leaf in answer["leaves"]}
    assert list(by_layer) == ["a", "b"]
    assert sum(leaf["dram_read_bytes"] for leaf in answer["leaves"]) == read
    assert sum(leaf["dram_write_bytes"] for leaf in answer["leaves"]) == written
    for work in program.works:
        leaf = by_layer[work.layer]
        assert work.cycles == leaf["tile_cycles"]
        sizes = {"K": 16, "N": leaf["samples"], "P": 4, "Q": 4}
        lengths = [end - first for first, end in work.box[:4]]
        for dim, length in zip("NKPQ", lengths, strict=True):
            assert length <= -(-sizes[dim] // leaf["parts"][dim])
        part = dict(zip("NKPQ", lengths, strict=True))
        (own,) = (one["mapping"] for one in leaf["mappings"] if one["part"] == part)
        assert work.mapping == own != ""


@pytest.mark.slow
def test_an_answer_without_leaves_is_not_silent(
    solve: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store may have answers of an earlier version, which have a tree and nothing of their layers."""
    measured = schedule_answer._measured
    monkeypatch.setattr(schedule_answer, "_measured", lambda *given: {**measured(*given), "leaves": None})
    status, out, _ = solve("--seeds", "1", "-o", "runs/mine", "--json")
    answer = json.loads(out)
    assert (status, answer["leaves"]) == (0, None)
    assert answer["tree"]
    assert (
        "the stored answer is of an earlier version, which kept nothing of how each layer runs"
        in answer["note"]
    )
    status, _, errors = solve("--seeds", "1", "-o", "runs/mine", "--program", "best.json")
    assert status == 2
    assert "the stored answer is of an earlier version" in " ".join(errors.split())
    assert not (tmp_path / "best.json").exists()


def test_a_program_is_not_written_where_no_file_can_be(solve: Command, tmp_path: Path) -> None:
    status, _, errors = solve("--program", "nowhere/best.json")
    assert status == 2
    assert "--program: expected a file that can be written" in " ".join(errors.split())


@pytest.mark.slow
def test_text_has_the_tree_and_a_chart_and_html_can_be_kept(solve: Command, tmp_path: Path) -> None:
    status, out, _ = solve("--seeds", "1", "--chart", "chart.html", "-o", "runs/mine")
    assert status == 0
    assert "a a   b b" in out
    page = (tmp_path / "chart.html").read_text(encoding="utf-8")
    assert "schedule-chart" in page
    assert "Pareto front" not in page
    assert (tmp_path / "runs" / "mine" / "schedules").is_dir()
    # the next one finds the tile costs, and the schedule itself
    _, _, errors = solve("--seeds", "2", "-o", "runs/again")
    assert "1 in the store, 1 to solve" in errors.replace("\n", " ")


def test_a_network_without_a_schedule_ends_with_status_1(solve: Command, tmp_path: Path) -> None:
    large = {"R": 61, "S": 61, "ifmap_real": [4096, 64, 64], "external_C": 4096}
    (tmp_path / "chain.json").write_text(json.dumps({"layers": [CHAIN["layers"][0] | large]}))  # type: ignore[operator]
    status, out, errors = solve("--seeds", "1", "--json", "--params", '{"beta": 1}')
    assert status == 1
    assert json.loads(out)["tree"] is None
    assert "no schedule: chain.json: " in errors


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        ({"chip": 3}, 2, "expected a text, found 3"),
        ({"chip": "set-egde"}, 2, "Did you mean set-edge"),
        ({"tree": "T 2/1\n\ta 2\n"}, 2, "layer b has no leaf"),
        ({"tree": "T 2/x"}, 2, "line 1"),
        (
            {"tile_objective": None},
            2,
            "tile_objective: expected one of energy, cycles, edp, found None",
        ),
        ({"tile_solver": "cosma"}, 2, "tile solver: expected one of nvdla"),
        ({"whole_chip": "yes"}, 2, "whole_chip: expected true or false"),
        ({"whole_chip": True}, 2, "a mapping solver"),
        ({"chip": "small.yaml"}, 1, "fits the buffers"),
    ],
)
def test_schedules_that_cannot_be_counted_say_why(
    command_line: Command, tmp_path: Path, change: dict[str, Any], status: int, said: str
) -> None:
    (tmp_path / "chain.json").write_text(json.dumps(CHAIN))
    text = (FOLDER / "set-edge.yaml").read_text(encoding="utf-8").replace("size: 1 MiB", "size: 10.25 KiB")
    small = text.replace("at_size: 10.25 KiB", "at_size: 1 MiB").replace("mesh: [4, 4]", "mesh: [1, 1]")
    (tmp_path / "small.yaml").write_text(small)
    schedule = {"chip": "set-edge", "network": "chain.json", "objective_name": "edp", "tile_solver": "nvdla"}
    schedule |= {"tile_objective": "edp", "tree": "T 2/1\n\ta 2\n\tb 2\n"}
    (tmp_path / "schedule.json").write_text(json.dumps(schedule | change))
    ended, out, errors = command_line("evaluate", "schedule.json", "--json")
    assert ended == status
    assert said in (out + errors).replace("\n", " ")
    assert "Traceback" not in errors


@pytest.mark.slow
def test_tiles_that_share_weights_hold_layers_that_others_do_not(
    solve: Command, command_line: Command, tmp_path: Path
) -> None:
    """Three layers of 4 KiB of weights each, on tiles of 8 KiB: shared, they stay there and move but once."""
    wide: Any = json.loads(json.dumps(CHAIN))
    wide["layers"].append({**wide["layers"][1], "name": "c", "ifm_prevs": [1]})
    for number, layer in enumerate(wide["layers"]):
        layer.update({"K": 64, "H": 8, "W": 8, "ifmap_real": [64, 8, 8], "external_C": 0 if number else 64})
    (tmp_path / "wide.json").write_text(json.dumps(wide))
    chip = (FOLDER / "set-edge.yaml").read_text().replace("size: 1 MiB", "size: 8 KiB", 1)
    chip = chip.replace("output_stream: 10 KiB", "output_stream: 0.5 KiB")
    chip = chip.replace("mesh: [4, 4]", "mesh: [2, 2]").replace("stripe: 4", "stripe: 2")
    chip = chip.replace("bandwidth: 16 B/cycle", "bandwidth: 2 B/cycle")
    (tmp_path / "small.yaml").write_text(chip)
    asked = ("--network", "wide.json", "--chip", "small.yaml", "--batch", "8", "--solver", "kapla_schedule")
    answers = []
    for options in ((), ("--share-weights", "--program", "shared.json")):
        status, out, errors = solve(*asked, "--params", "{}", "--most-partitions", "8", *options, "--json")
        assert status == 0, errors
        answers.append(json.loads(out))
    alone, sharing = answers
    assert "share_weights" not in alone
    assert sharing["share_weights"]
    assert sum(leaf.get("sharers", 1) > 1 for leaf in sharing["leaves"]) >= 2
    assert not any("sharers" in leaf for leaf in alone["leaves"])
    assert sharing["objective"] < 0.7 * alone["objective"]
    (tmp_path / "schedule.json").write_text(out)
    status, again, _ = command_line("evaluate", "schedule.json", "--json")
    assert (status, json.loads(again)["latency_cycles"]) == (0, sharing["cycles"])
    status, replayed, _ = command_line("replay", "shared.json", "--json")
    assert status == 0
    moved = json.loads(replayed)
    assert moved["dram_read_bytes"] + moved["dram_write_bytes"] == sharing["dram_bytes"]
    assert moved["noc_hop_bytes"] == sharing["noc_hop_bytes"]
    assert moved["cycles"] == pytest.approx(sharing["cycles"], rel=0.05)


def test_a_layer_that_fits_no_tiles_has_the_whole_chip(
    solve: Command, command_line: Command, tmp_path: Path
) -> None:
    """Inputs of 32 MiB are twice what 16 tiles hold; the command finds its way without being told."""
    large: Any = json.loads(json.dumps(CHAIN))
    for layer in large["layers"]:
        layer.update({"H": 1448, "W": 1448, "ifmap_real": [16, 1448, 1448]})
    (tmp_path / "large.json").write_text(json.dumps(large))
    asked = ("--network", "large.json", "--solver", "layer_sequential", "--tile-solver", "exact")
    status, out, errors = solve(*asked, "--seeds", "1", "--json")
    assert status == 0, errors
    answer = json.loads(out)
    assert answer["whole_chip"]
    assert all(one["whole_chip"] for one in answer["spatial_temporal"])
    (tmp_path / "schedule.json").write_text(out)
    status, again, _ = command_line("evaluate", "schedule.json", "--json")
    assert (status, json.loads(again)["latency_cycles"]) == (0, answer["cycles"])
    status, out, errors = solve(*asked, "--seeds", "1", "--no-whole-chip")
    assert status == 1
    assert "fits the buffers" in (out + errors).replace("\n", " ")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--chip", "set-egde"), "Did you mean set-edge"),
        (("--network", "resnet5"), "Did you mean resnet50"),
        (("--solver", "cosa"), "--solver: expected one of set, kapla_schedule, segment_chain, layer_"),
        (("--objective", "speed"), "energy, cycles, edp"),
        (("--params", "{"), "a JSON object"),
        (("--params", '{"speed": 1}'), "parameters of set"),
        (("--tile-objective", "ed2"), "mapping.objective: expected 'energy', 'cycles' or 'edp', found 'ed2'"),
        (("--tile-solver", "cosma"), "expected one of nvdla, auto, cosa"),
        (
            ("--chip", "kapla-16x16-paper", "--tile-solver", "nvdla"),
            "mapping.solver: expected an NVDLA-style tile: a register a MAC, accumulators, weight,",
        ),
        (("--whole-chip",), "schedule.whole_chip: expected a mapping solver, for layers on the whole chip"),
        (("--network", "kapla-mlp-s.training"), "schedule.whole_chip: expected whole_chip: true, for "),
        (
            ("--solver", "kapla_schedule", "--params", "{}", "--seeds", "2"),
            "1, for every seed gives the same answer with kapla_schedule",
        ),
    ],
)
def test_wrong_input_is_named(solve: Command, options: tuple[str, ...], said: str) -> None:
    status, out, errors = solve(*options)
    assert (status, out) == (2, "")
    assert said in errors.replace("\n", " ")
    assert "Traceback" not in errors


def test_a_solver_that_draws_nothing_has_one_seed() -> None:
    assert [ScheduleChoice(solver=name).seeds for name in ("set", "kapla_schedule")] == [4, 1]
    assert ScheduleChoice(solver="kapla_schedule", seeds=1, seed=3).seeds == 1
    said = r"study: seeds: expected 1, for every seed gives the same answer with kapla_schedule"
    with pytest.raises(InputError, match=said):
        check_keys(ScheduleChoice, {"solver": "kapla_schedule", "seeds": 4}, "study")


@pytest.mark.slow
def test_chips_and_their_networks_are_listed(command_line: Command) -> None:
    _, chips, _ = command_line("list", "chips", "--json")
    found = {row["name"]: row for row in json.loads(chips)}
    assert (found["set-edge"]["mesh"], found["set-edge"]["dram_bytes_per_cycle"]) == ("4x4", 16)
    _, networks, _ = command_line("list", "chip-networks", "--json")
    layers = {row["name"]: row["layers"] for row in json.loads(networks)}
    assert layers["resnet50"] == layers["set-resnet50"] == 72


@pytest.mark.slow
def test_a_repeated_block_is_scheduled_once_and_evaluate_counts_the_whole(
    solve: Command, command_line: Command, tmp_path: Path
) -> None:
    """Four layers four times: the same text for each copy, and the numbers of ``evaluate`` for all."""
    names = [f"{part}{copy}" for copy in range(4) for part in ("wide", "narrow", "tall", "flat")]
    filters = {"wide": (1, 1), "narrow": (3, 3), "tall": (3, 1), "flat": (1, 3)}
    layers = []
    for number, name in enumerate(names):
        r, s = filters[name[:-1]]
        one = CHAIN["layers"][0] | {"name": name, "R": r, "S": s, "pad_h": r // 2, "pad_w": s // 2}  # type: ignore[operator]
        layers.append(one | {"ifm_prevs": [number - 1] if number else [], "external_C": 0 if number else 16})
    (tmp_path / "blocks.json").write_text(json.dumps({"name": "blocks", "layers": layers}))
    asked = ("--network", "blocks.json", "--solver", "layer_sequential", "--seeds", "1", "--json")
    status, out, errors = solve(*asked, "--repeat-blocks")
    assert status == 0, errors
    answer = json.loads(out)
    assert "scheduled once for" in answer["note"]
    assert [leaf.layer for leaf in leaves(parse_tree(answer["tree"]))] == names
    (tmp_path / "best.json").write_text(out)
    status, counted, errors = command_line("evaluate", "best.json", "--json")
    assert status == 0, errors
    assert json.loads(counted)["latency_cycles"] == answer["cycles"]
    status, out, errors = solve(*asked)
    assert status == 0, errors
    assert "scheduled once" not in json.loads(out)["note"], "sixteen layers are searched as a whole"


@pytest.mark.slow
def test_a_program_is_written_only_where_it_is_asked_for(solve: Command, tmp_path: Path) -> None:
    asked = ("--solver", "layer_sequential", "--seeds", "1", "--output", str(tmp_path / "run"), "--json")
    status, first, errors = solve(*asked)
    assert status == 0, errors
    assert list(RunFolder(tmp_path / "run").read_rows(PROGRAMS)) == []
    status, second, errors = solve(*asked, "--program", str(tmp_path / "program.json"))
    assert status == 0, errors
    assert len(list(RunFolder(tmp_path / "run").read_rows(PROGRAMS))) == 1
    assert read_program(tmp_path / "program.json").works
    assert json.loads(first)["tree"] == json.loads(second)["tree"]


def test_large_networks_have_their_blocks_scheduled_once_unless_seeds_exchange_trees() -> None:
    choice = ScheduleChoice(repeat_blocks=True)
    assert choice.repeats_blocks(10)
    assert not ScheduleChoice().repeats_blocks(1_000)
    assert ScheduleChoice().repeats_blocks(1_001)
    assert not ScheduleChoice(epochs=2).repeats_blocks(5_000)
    with pytest.raises(InputError, match="repeat_blocks"):
        check_keys(ScheduleChoice, {"repeat_blocks": True, "epochs": 2}, "study")


@pytest.mark.slow
@pytest.mark.parametrize(("stated", "limit"), [(("--tile-seconds", "3"), 3.0), ((), 7.0)])
def test_the_limit_of_a_mapping_is_in_the_answer(
    solve: Command, stated: tuple[str, ...], limit: float
) -> None:
    """Seven seconds for the search are fewer than the ten that a mapping may take by default."""
    status, out, errors = solve(
        "--solver", "layer_sequential", "--seeds", "1", "--wall-seconds", "7", *stated, "--json"
    )
    assert status == 0, errors
    assert json.loads(out)["tile_seconds"] == limit
