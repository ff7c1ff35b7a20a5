"""`rag train eagle`: levels as drafting runs them, the loss, exact resumption, and that heads get better."""

from __future__ import annotations

import copy
import functools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_load import WORDS, folder_of

from decoder import Engine, SamplingParams
from decoder.drafters.context import DrafterContext
from decoder.errors import EagleHeadError
from decoder.heads import checkpoint
from decoder.heads.checkpoint import load
from decoder.heads.head import FittedHead
from decoder.model.target import TargetModel
from decoder.recording.prompts import BenchError
from decoder.training import main
from decoder.training.answers import Answer, frequent_tokens, read_answers, split
from decoder.training.checkpoint import CHECKPOINT, CURVE
from decoder.training.eagle.features import FeatureStore, shards_of
from decoder.training.eagle.initial_head import fit, fresh_head
from decoder.training.eagle.levels import Batch, levels
from decoder.training.eagle.order import batches, visits
from decoder.training.eagle.run import run
from decoder.training.eagle.score import DEPTH
from decoder.training.eagle.trainer import Trainer
from decoder.training.frozen_head_loss import frozen_head_loss
from decoder.training.muon import Muon, orthogonalised
from tests.support.models.trained_heads import tiny_answers, tiny_options
from tests.support.tiny_models import ARCHITECTURES, tiny_model, tiny_target

VOCAB = 61


@functools.cache
def target_of(architecture: str = "llama", memory: float = 0.01) -> TargetModel:
    return tiny_target(architecture, memory=memory)


@functools.cache
def answers_of(architecture: str = "llama") -> list[Answer]:
    return tiny_answers(target_of(architecture), 60)


def silent(line: str) -> None:
    return None


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_levels_are_what_drafting_computes(architecture: str, tmp_path: Path) -> None:
    """Level 0 is the pass over committed rows, level j the j-th drafted row behind one of them."""
    target = target_of(architecture)
    answers = answers_of(architecture)[:5]
    examples = FeatureStore(target, tmp_path, 1e9).examples(answers)
    head, _ = fresh_head(target, None, answers[0].tokens.tolist(), seed=1)
    embeddings = target.model.get_input_embeddings().weight
    examples = [copy.copy(example) for example in examples]
    batch = Batch(examples, embeddings, target.device, torch.float64)
    got = [states.detach() for states in levels(head, batch, 3)]
    fitted = FittedHead(copy.deepcopy(head), target)
    start = 0
    for example in examples:
        for query in (0, example.positions // 2, example.positions - 3):
            at = example.prompt - 1 + query  # the root's row
            cache = fitted.new_cache(64)
            state = fitted.catch_up(example.tokens[1 : at + 2], example.features[: at + 1].double(), cache)
            for level in range(3):
                torch.testing.assert_close(got[level][start + query], state[0], rtol=1e-6, atol=1e-8)
                sees = torch.ones(1, cache.length + 1, dtype=torch.bool)
                token = example.tokens[at + 2 + level : at + 3 + level]
                assert batch.target_tokens(level)[start + query] == token
                state = fitted.run(token, state, torch.tensor([cache.length]), cache, sees)
        start += example.positions


def test_answers_padded_together_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a GPU, where the attention of several answers is one product."""
    target = target_of()
    examples = FeatureStore(target, tmp_path, 1e9).examples(answers_of()[:7])
    head, _ = fresh_head(target, None, answers_of()[0].tokens.tolist(), seed=1)
    outputs = []
    for size in (1, 3):
        monkeypatch.setattr("decoder.training.eagle.levels._GROUP", {"cpu": size})
        batch = Batch(examples, target.model.get_input_embeddings().weight, target.device, torch.float64)
        assert len(batch.groups) == -(-7 // size)
        outputs.append(list(levels(head, batch, 3)))
    for alone, padded in zip(*outputs, strict=True):
        torch.testing.assert_close(alone, padded, rtol=1e-9, atol=1e-12)
    head.zero_grad()
    outputs[1][2].sum().backward()  # type: ignore[no-untyped-call]
    assert all(bool(weight.grad.isfinite().all()) for weight in head.parameters() if weight.grad is not None)


def test_labels_belong_to_their_level(tmp_path: Path) -> None:
    target = target_of()
    examples = FeatureStore(target, tmp_path, 1e9).examples(answers_of()[:4])
    batch = Batch(examples, target.model.get_input_embeddings().weight, target.device, torch.float64)
    head = target.model.get_output_embeddings()
    for level in range(3):
        ids, chances = batch.labels(level)
        there = batch.continues(level)
        assert int(there.sum()) == sum(max(example.positions - level, 0) for example in examples)
        expected = head(batch.target_features(level)).softmax(-1)
        best = expected.argmax(-1)
        assert torch.equal(ids[:, 0][there], best[there])
        torch.testing.assert_close(
            chances[there].double(), expected.gather(1, ids)[there], rtol=0.05, atol=5e-3, msg="features are float16"
        )
        assert (batch.target_tokens(level) == best)[there].double().mean() > 0.95, "the answers are the target's own"


def test_the_loss_and_its_gradient_are_autograds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("decoder.training.frozen_head_loss.CHUNK", {"cpu": 3})
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(8, 6, generator=generator, dtype=torch.float64, requires_grad=True)
    matrix = torch.randn(11, 6, generator=generator, dtype=torch.float64)
    ids = torch.stack([torch.randperm(11, generator=generator)[:4] for _ in range(8)])
    chances = torch.rand(8, 4, generator=generator) / 4
    chances[2, 1] = 0
    logs = (states @ matrix.T).log_softmax(-1)
    expected = -(logs.gather(1, ids) * chances).sum()
    (slope,) = torch.autograd.grad(expected, states)
    loss, best = frozen_head_loss(states, matrix, ids, chances)
    (0.5 * loss).backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(loss.double(), expected.detach(), rtol=1e-5, atol=1e-5)
    assert states.grad is not None
    torch.testing.assert_close(states.grad, 0.5 * slope, rtol=1e-5, atol=1e-6)
    assert torch.equal(best, logs.argmax(-1))


def test_a_sampled_loss_counts_what_is_likely_and_lets_others_stand_for_the_rest() -> None:
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(6, 5, generator=generator, dtype=torch.float64)
    matrix = torch.randn(40, 5, generator=generator, dtype=torch.float64)
    ids = torch.stack([torch.randperm(8, generator=generator)[:3] for _ in range(6)])
    chances = torch.rand(6, 3, generator=generator) / 3
    chances[1, 2] = 0
    whole, best = frozen_head_loss(states, matrix, ids, chances)
    everything, same = frozen_head_loss(states, matrix, ids, chances, torch.arange(40))
    torch.testing.assert_close(whole, everything)
    assert torch.equal(best, same)
    drawn = torch.tensor([5, 20, 31, 20])
    likely = sorted({int(token) for token in ids[chances > 0]})
    others = [token for token in (5, 20, 31) if token not in likely]
    states.requires_grad_()
    logits = states @ matrix.T
    counted = torch.cat([logits[:, likely], logits[:, others] + np.log((40 - len(likely)) / len(others))], dim=1)
    expected = -((logits.gather(1, ids) - counted.logsumexp(-1, keepdim=True)) * chances).sum()
    (slope,) = torch.autograd.grad(expected, states)
    loss, best = frozen_head_loss(states, matrix, ids, chances, drawn)
    torch.testing.assert_close(loss.detach().double(), expected.detach(), rtol=1e-5, atol=1e-5)
    assert {int(token) for token in best} <= {*likely, *others}
    loss.backward()  # type: ignore[no-untyped-call]
    assert states.grad is not None
    torch.testing.assert_close(states.grad, slope, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(12, 30), (30, 12)])
def test_muon_steps_are_orthogonal(shape: tuple[int, int]) -> None:
    update = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    values = torch.linalg.svdvals(orthogonalised(update))
    assert 0.6 < float(values.min()) <= float(values.max()) < 1.3
    weight = torch.nn.Parameter(torch.zeros(shape))
    weight.grad = update
    Muon([weight], lr=0.1).step()
    assert float(weight.detach().pow(2).mean().sqrt()) == pytest.approx(0.1 * 0.2, rel=0.5)


def test_the_start_is_the_best_linear_guess(tmp_path: Path) -> None:
    """Of the next feature, over the answers' positions: no other weights come closer."""
    target = target_of()
    examples = FeatureStore(target, tmp_path, 1e9).examples(answers_of()[:40])
    head, gain = fresh_head(target, None, answers_of()[0].tokens.tolist(), seed=1)
    embeddings = gain * target.model.get_input_embeddings().weight
    given, wanted = [], []
    for example in examples:
        for at in range(example.prompt, len(example.tokens) - 1):
            given.append(torch.cat([embeddings[example.tokens[at]], example.features[at - 1].double()]).detach())
            wanted.append(example.features[at].double())
    rows, goal = torch.stack(given), torch.stack(wanted)
    fit(head, examples, embeddings)
    least = torch.linalg.lstsq(rows, goal).solution
    away = float((rows @ head.fc.weight.T - goal).detach().pow(2).sum())
    assert away < 1.1 * float((rows @ least - goal).pow(2).sum()) + 0.02 * float(goal.pow(2).sum())


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_training_raises_acceptance(architecture: str, tmp_path: Path) -> None:
    target, answers = target_of(architecture), answers_of(architecture)
    learned = split(answers)[0]
    head, _ = fresh_head(target, None, learned[0].tokens.tolist(), seed=0)
    before = FittedHead(head, target)
    run(target, "tiny", answers, tiny_options(tmp_path, steps=60), silent)
    after = FittedHead(checkpoint.load(tmp_path), target)

    def mat(model: FittedHead) -> float:
        engine = Engine(target, "plain", context=DrafterContext(eagle_head=model))
        tokens = steps = 0
        for prompt in ([4, 9], [33, 8, 50, 12], [20], [7, 41, 28]):
            sequence = engine.start(
                prompt, SamplingParams(max_tokens=24, ignore_eos=True), drafter="eagle", max_nodes=4
            )
            engine.prefill(sequence)
            while not sequence.finished:
                engine.step([sequence])
            tokens, steps = tokens + len(sequence.tokens) - 1, steps + sequence.stats.steps
        return tokens / steps

    assert mat(after) > 1.3 * mat(before)
    lines = [json.loads(line) for line in (tmp_path / CURVE).read_text().splitlines()]
    assert lines[-1]["step"] == 60
    assert len(lines[-1]["held_aside"]["acceptance"]) == DEPTH
    card = (tmp_path / "README.md").read_text()
    assert "60 steps" in card
    assert "held out" in card
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["target"]["layers"] == 2
    assert config["qkv_bias"] == (architecture == "qwen2")


def test_a_resumed_run_is_the_same_to_the_bit(tmp_path: Path) -> None:
    target, answers = target_of(), answers_of()
    heads = []
    for name, stops in (("whole", (12,)), ("pieces", (5, 7, 12))):
        out = tmp_path / name
        for number, stop in enumerate(stops):
            options = tiny_options(out, steps=12, vocab=30, resume=number > 0)
            if stop < 12:  # a run that is stopped: its limit is never told to the schedule
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(
                        "decoder.training.eagle.run.Limit.reached", lambda _self, t, stop=stop: t.step >= stop
                    )
                    run(target, "tiny", answers, options, silent)
            else:
                run(target, "tiny", answers, options, silent)
        heads.append(torch.load(out / CHECKPOINT, weights_only=True))
    whole, pieces = heads
    assert whole["counts"][:3] == pieces["counts"][:3]
    for name, tensor in whole["head"].items():
        assert torch.equal(tensor, pieces["head"][name]), name
    torch.testing.assert_close(whole["optimizers"], pieces["optimizers"], rtol=0, atol=0)


def test_another_seed_gives_another_head_and_the_same_seed_the_same(tmp_path: Path) -> None:
    weights = []
    for number, seed in enumerate((0, 0, 1)):
        run(target_of(), "tiny", answers_of(), tiny_options(tmp_path / str(number), steps=3, seed=seed), silent)
        weights.append(load(tmp_path / str(number)).fc.weight)
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_checkpoints_of_other_runs_are_refused(tmp_path: Path) -> None:
    run(target_of(), "tiny", answers_of(), tiny_options(tmp_path, steps=1), silent)
    with pytest.raises(BenchError, match="--resume"):
        run(target_of(), "tiny", answers_of(), tiny_options(tmp_path, steps=2), silent)
    with pytest.raises(BenchError, match="seed 0"):
        run(target_of(), "tiny", answers_of(), tiny_options(tmp_path, steps=2, seed=3, resume=True), silent)
    reports: list[str] = []
    run(target_of(), "tiny", answers_of(), tiny_options(tmp_path, steps=2, lr=1e-4, resume=True), reports.append)
    assert "--lr was 0.005 and is 0.0001 from here on" in reports


def test_features_are_computed_once_and_within_their_space(tmp_path: Path) -> None:
    answers = answers_of()
    shards = shards_of(answers, 0, size=200)
    assert sorted(answer.key for shard in shards for answer in shard) == sorted(answer.key for answer in answers)
    first = FeatureStore(target_of(), tmp_path, 1e9)
    examples_of_shards = [first.examples(shard) for shard in shards]
    assert first.computed == sum(map(len, answers))
    again = FeatureStore(target_of(), tmp_path, 1e9)
    for shard, before in zip(shards, examples_of_shards, strict=True):
        for one, other in zip(again.examples(shard), before, strict=True):
            assert torch.equal(one.features, other.features)
            assert torch.equal(one.best_ids, other.best_ids)
    assert again.computed == 0
    tuned = FeatureStore(target_of(memory=1.0), tmp_path, 1e9)
    tuned.examples(shards[0])
    assert tuned.computed > 0, "a tuned model's features are others"
    small = FeatureStore(target_of(), tmp_path / "small", 1e5)
    for shard in shards:
        small.examples(shard)
    assert 0 < small.stored_bytes() <= 1e5


def test_order_is_fixed_and_sees_everything() -> None:
    new = 8 + 7 * 4  # the first eight, then each with those visited again
    first = [number for number, _ in zip(visits(12, 3), range(new + 24), strict=False)]
    assert first == [number for number, _ in zip(visits(12, 3), range(new + 24), strict=False)]
    assert first[:9] == list(range(9))
    assert set(first[:new]) == set(range(12))
    assert sorted(first[new : new + 12]) == list(range(12)), "then all, again and again"
    assert all(first.index(number) <= at for at, number in enumerate(first))


def test_batches_hold_each_example_once(tmp_path: Path) -> None:
    examples = FeatureStore(target_of(), tmp_path, 1e9).examples(answers_of()[:30])
    parts = batches(examples, 120, 5)
    assert sum(map(len, parts)) == 30
    assert {id(example) for part in parts for example in part} == {id(example) for example in examples}
    sizes = [sum(example.positions for example in part) for part in parts]
    assert max(sizes) < 2 * 120


def test_a_reduced_vocabulary_is_what_answers_use_most() -> None:
    chosen = frequent_tokens(answers_of(), VOCAB, 10)
    assert chosen is not None
    used = np.bincount(np.concatenate([a.tokens[a.prompt :] for a in answers_of()]), minlength=VOCAB)
    assert used[chosen.numpy()].min() >= np.delete(used, chosen.numpy()).max()
    assert chosen.tolist() == sorted(chosen.tolist())
    assert frequent_tokens(answers_of(), VOCAB, 0) is frequent_tokens(answers_of(), VOCAB, VOCAB) is None


def test_answers_are_read_from_archives_and_recordings(tmp_path: Path) -> None:
    archive, lines = tmp_path / "a.npz", tmp_path / "b.jsonl"
    np.savez(
        archive,
        tokens=np.array([5, 6, 7, 8, 9, 4, 3, 2, 1], np.uint16),
        offsets=np.array([0, 5, 9]),
        prompt_lengths=np.array([2, 1]),
    )
    recording = {
        **{"id": "x", "benchmark": "b", "category": "c", "turn": 1, "prompt_ids": [5, 6], "output_ids": [1, 2, 3]},
        **{"model": "m", "dtype": "float32", "finish_reason": "stop", "max_tokens": 9},
    }
    lines.write_text(json.dumps(recording) + "\n" + json.dumps(recording | {"prompt_ids": [9]}) + "\n")
    answers = read_answers([archive, lines], VOCAB, 4)
    assert [(answer.tokens.tolist(), answer.prompt) for answer in answers] == [
        ([5, 6, 7, 8], 2),  # cut at the longest; its prompt's second answer does not count
        ([4, 3, 2, 1], 1),
        ([9, 1, 2, 3], 1),
    ]
    with pytest.raises(BenchError, match="vocabulary of 8"):
        read_answers([archive], 8, 100)
    np.savez(tmp_path / "c.npz", tokens=np.zeros(3))
    with pytest.raises(BenchError, match="no archive"):
        read_answers([tmp_path / "c.npz"], VOCAB, 100)
    with pytest.raises(BenchError, match="no answer"):
        read_answers([archive], VOCAB, 2)


def test_held_out_prompts_are_never_learned_from() -> None:
    answers = [Answer(np.array([number, 1, 2, 3], np.int32), 1) for number in range(500)]
    train_set, held_out = split(answers)
    assert 0 < len(held_out) < 30
    assert len(train_set) + len(held_out) == 500
    assert {a.key for a in split(list(reversed(answers)))[1]} == {a.key for a in held_out}, "by hash, not by place"
    assert len(split(answers[:3])[1]) >= 1


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_target_is_left_as_it_is(dtype: torch.dtype) -> None:
    """Its weights were once scaled in place where they already were what the head starts from: float32 on the CPU."""
    target = TargetModel(tiny_model().to(dtype))
    before = {name: weight.clone() for name, weight in target.model.state_dict().items()}
    head, gain = fresh_head(target, None, [5, 6, 7, 8], seed=0)
    Trainer(target, head, (1,), 1e-2, gain).finished()
    for name, weight in target.model.state_dict().items():
        assert torch.equal(weight, before[name]), name


def test_other_kinds_of_models_are_refused() -> None:
    model: Any = tiny_model()
    model.config.model_type = "phi3"
    with pytest.raises(EagleHeadError, match="not for phi3"):
        fresh_head(TargetModel(model), None, [1, 2], 0)


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = folder_of(tmp_path / "model", 0, WORDS)
    data, out = tmp_path / "answers.npz", tmp_path / "out"
    answers = tiny_answers(tiny_target(), 20)
    np.savez(
        data,
        tokens=np.concatenate([answer.tokens for answer in answers]),
        offsets=np.cumsum([0, *map(len, answers)]),
        prompt_lengths=np.array([answer.prompt for answer in answers]),
    )
    line = ["eagle", "--model", folder, "--data", str(data), "--out", str(out), "--vocab", "30", "--batch", "64"]
    assert main([*line, "--steps", "2", "--dtype", "float64"]) == 0
    assert main([*line, "--steps", "3", "--dtype", "float64", "--resume"]) == 0
    assert json.loads((out / CURVE).read_text().splitlines()[-1])["step"] == 3
    assert "rag train eagle --model" in (out / "README.md").read_text()
    head = checkpoint.load(out)
    assert head.tokens is not None
    assert len(head.tokens) == 30
    assert main(line) == 2
    assert "--resume" in capsys.readouterr().err
    assert main(["eagle", "--model", folder, "--data", str(tmp_path / "no.jsonl"), "--out", str(out)]) == 2
    assert main(["distil", "--model", folder, "--data", str(tmp_path / "no.jsonl"), "--out", str(out / "x.jsonl")]) == 2
