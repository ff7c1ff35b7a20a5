"""Training of SDSAT adapters: the pass it trains on is the one that decodes, it helps, and it resumes exactly."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from decoder import Engine, SamplingParams
from decoder.drafters.sdsat import adapter_files
from decoder.drafters.sdsat.drafter import SdsatDrafter
from decoder.drafts.mask_chains import MaskChains
from decoder.drafts.tree import ROOT, DraftTree
from decoder.errors import AdaptersError
from decoder.model.adapters import Adapters
from decoder.model.conditioner import Conditioner
from decoder.model.fingerprint import describe
from decoder.model.pass_parts import TreePass
from decoder.model.shipped import shipped_names
from decoder.model.target import TargetModel
from decoder.recording.prompts import BenchError
from decoder.sampling.select import perturbed_scores
from decoder.training import main
from decoder.training.answers import Answer
from decoder.training.checkpoint import CHECKPOINT, CURVE, read_curve
from decoder.training.eagle.features import Example, FeatureStore
from decoder.training.sdsat.mask_pass import IGNORED, Points, Vocabulary, frozen_rows, mask_states, predict
from decoder.training.sdsat.pretraining import fit
from decoder.training.sdsat.run import Plan, Trainer
from tests.support.tiny_models import ARCHITECTURES, tiny_adapters, tiny_model, tiny_target

VOCAB = 61
PLAN = Plan(masks=3, rank=4, coupler=32, tokens=50, batch=4, points=24, lr=2e-2, steps=60, held_out=4, save_minutes=1e9)


@functools.cache
def target() -> TargetModel:
    """What comes next depends on the last token alone, so the conditioner can learn it."""
    return tiny_target("llama", VOCAB, memory=0.0)


@functools.cache
def answers(temperature: float = 0.0) -> tuple[Answer, ...]:
    """The target's own answers."""
    engine = Engine(target(), "plain")
    source = np.random.default_rng(0)
    recorded = []
    for seed in range(40):
        prompt = source.integers(3, VOCAB, 4).tolist()
        params = SamplingParams(max_tokens=20, temperature=temperature, seed=seed, ignore_eos=temperature > 0)
        tokens = [token for step in engine.generate(prompt, params) for token in step.tokens]
        recorded.append(Answer(np.array([*prompt, *tokens], np.int32), len(prompt)))
    return tuple(recorded)


def trainer(folder: Path, plan: Plan = PLAN) -> Trainer:
    return Trainer(target(), answers(), plan, folder)


def quiet(_line: str) -> None:
    pass


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_pass_it_trains_on_is_the_one_that_decodes(architecture: str) -> None:
    """Whatever the point: the states are those of masks behind that root in a decoding pass."""
    tiny = tiny_target(architecture, VOCAB)
    tiny.adapters = adapters = tiny_adapters(tiny, seed=2)
    source = np.random.default_rng(1)
    batch = [Answer(source.integers(0, VOCAB, size).astype(np.int32), 3) for size in (12, 7, 20)]
    points = [Points.of(answer, 4, source).at for answer in batch]
    states = mask_states(tiny, adapters, frozen_rows(tiny, batch), points)
    row = 0
    for answer, at in zip(batch, points, strict=True):
        for point in at:
            cache = tiny.new_cache(40)
            tiny.prefill(answer.tokens[:point].tolist(), cache)
            part = TreePass(cache, int(answer.tokens[point]), DraftTree(), masks=MaskChains.after([ROOT], 3))
            masks = tiny.forward_tree([part])[0].masks
            assert masks is not None
            torch.testing.assert_close(states[row], masks.states, rtol=1e-9, atol=1e-9)
            row += 1
    assert row == len(states)


def test_masks_are_told_what_comes_two_tokens_on() -> None:
    answer = Answer(np.arange(10, 20, dtype=np.int32), 4)
    points = Points.of(answer, 99)
    assert points.at.tolist() == [4, 5, 6, 7], "from the first answer token, while a token for a mask is left"
    assert points.labels(3)[0].tolist() == [16, 17, 18]
    assert points.before(3)[0].tolist() == [15, 16, 17]
    assert points.labels(3)[-1].tolist() == [19, IGNORED, IGNORED]
    assert Points.of(answer, 2).at.tolist() == [4, 7]
    drawn = Points.of(answer, 2, np.random.default_rng(0)).at
    assert len(set(drawn.tolist())) == 2


def test_gradients_reach_masks_and_adapters_alone() -> None:
    tiny = target()
    adapters = Adapters.fresh(tiny.model, 3, 4, conditioner=8)
    adapters = Adapters.of({name: torch.randn_like(weight) * 0.1 for name, weight in adapters.tensors().items()})
    for weight in adapters.weights().values():
        weight.requires_grad_(True)
    predictions = predict(tiny, adapters, [Points.of(answer, 5) for answer in answers()[:2]])
    predictions.loss.backward()  # type: ignore[no-untyped-call]
    assert all(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in adapters.weights().values())
    assert all(weight.grad is None for weight in tiny.model.parameters())
    assert not any(module._forward_hooks for module in tiny.model.modules())


def test_tokens_that_cannot_be_drafted_count_as_wrong() -> None:
    tiny, answer = target(), answers()[0]
    points = Points.of(answer, 99)
    missing = int(points.labels(1)[0, 0])
    tokens = torch.tensor([token for token in range(VOCAB) if token != missing])
    adapters = Adapters.fresh(tiny.model, 1, 2, tokens=tokens)
    predictions = predict(tiny, adapters, [points], Vocabulary(tiny, tokens))
    absent = points.labels(1) == missing
    assert predictions.known[absent].all()
    assert not predictions.right[absent].any()


def test_training_raises_the_accept_rate_and_saves_passes(tmp_path: Path) -> None:
    lines: list[str] = []
    training = trainer(tmp_path)
    before = training.evaluate()
    after = training.train(lines.append)
    assert after.accept_rate[2] > before.accept_rate[2] + 0.3
    assert after.accepted == sorted(after.accepted, reverse=True)
    assert after.mat["one_pass"] == pytest.approx(1 + sum(after.accepted))
    curve = read_curve(tmp_path / CURVE)
    assert [line["step"] for line in curve] == [0, 60]
    assert curve[-1]["accept_rate"] == after.accept_rate
    engine = Engine(tiny_target("llama", VOCAB, memory=0.0), "plain")
    mat = {}
    for name, adapters in (("fresh", tiny_adapters(engine.target, scale=0.0)), ("trained", training.adapters)):
        engine.target.adapters = adapters.to(engine.target.device, engine.target.dtype)
        for drafter in ("sdsat", "sdsat_two_step"):
            stats = []
            for answer in answers()[:6]:
                sequence = engine.start(
                    answer.tokens[: answer.prompt].tolist(), SamplingParams(max_tokens=20), drafter=drafter
                )
                engine.prefill(sequence)
                while not sequence.finished:
                    engine.step([sequence])
                assert sequence.tokens == answer.tokens[answer.prompt :].tolist()
                stats.append(sequence.stats)
            mat[name, drafter] = sum(one.tokens - 1 for one in stats) / sum(one.steps for one in stats)
    assert mat["trained", "sdsat"] > mat["fresh", "sdsat"] + 0.5
    assert mat["trained", "sdsat_two_step"] > mat["fresh", "sdsat_two_step"]
    assert mat["trained", "sdsat"] > mat["trained", "sdsat_two_step"]


def test_a_conditioner_learns_alone_what_the_last_token_tells(tmp_path: Path) -> None:
    training = trainer(tmp_path, replace(PLAN, start=6000, shards=1))
    masks, before = training.adapters.masks.detach().clone(), training.evaluate()
    store = FeatureStore(training.target, tmp_path / "features", 1e9)
    training.pretrain(store, quiet)
    after = training.evaluate()
    assert after.accept_rate[2] > before.accept_rate[2] + 0.3
    assert torch.equal(training.adapters.masks, masks)
    computed = store.computed
    again = trainer(tmp_path, training.plan)
    again.pretrain(store, quiet)
    assert store.computed == computed > 0, "features are kept"
    for name, weight in again.adapters.weights().items():
        assert torch.equal(weight, training.adapters.weights()[name]), name


def test_a_fitted_conditioner_knows_what_is_linear(monkeypatch: pytest.MonkeyPatch) -> None:
    """Features that are linear in the one before and in the token are met: exactly one place on, as far as they can be
    two places on."""
    monkeypatch.setattr("decoder.training.ridge.RIDGE", 1e-12)
    source = torch.Generator().manual_seed(4)
    width, masks = 6, 2
    embeddings = F.rms_norm(torch.randn(VOCAB, width, generator=source, dtype=torch.float64), (width,))
    turned, added = torch.randn(2, width, width, generator=source, dtype=torch.float64) * 0.3
    examples = []
    for prompt in (*range(1, 28), 28, 29):  # the last ones have no point for the second mask, and none at all
        tokens = torch.randint(VOCAB, (30,), generator=source)
        features = [torch.randn(width, generator=source, dtype=torch.float64)]
        for token in tokens[1:-1]:
            features.append(turned @ features[-1] + added @ embeddings[token])
        none = torch.empty(0)
        examples.append(Example(tokens, prompt, torch.stack(features), none, none))
    conditioner = Conditioner(
        *(tensor.double() for tensor in Conditioner.fresh(masks, width, 4, source).tensors().values())
    )
    fit(conditioner, examples, embeddings)
    torch.testing.assert_close(conditioner.point[0], turned, atol=1e-6, rtol=0)
    torch.testing.assert_close(conditioner.token[0], added, atol=1e-6, rtol=0)
    twice = turned @ turned
    assert (conditioner.point[1] - twice).norm() < 0.3 * (turned - twice).norm()
    torch.testing.assert_close(conditioner.token[1], added, atol=0.15, rtol=0)


def test_the_answers_own_noise_helps_trained_masks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Masks that meet the noise the target will meet agree with it more often than with noise of their own."""
    training = Trainer(target(), answers(0.8), PLAN, tmp_path)
    training.train(quiet)
    engine = Engine(tiny_target("llama", VOCAB, memory=0.0), "plain")
    engine.target.adapters = training.adapters.to(engine.target.device, engine.target.dtype)

    def accepted() -> int:
        total = 0
        for seed in range(8):
            params = SamplingParams(max_tokens=20, temperature=0.8, seed=100 + seed, ignore_eos=True)
            sequence = engine.start([5, 9, 14, 7], params, drafter=SdsatDrafter(branches=1))
            engine.prefill(sequence)
            while not sequence.finished:
                engine.step([sequence])
            total += sequence.stats.accepted
        return total

    shared = accepted()
    monkeypatch.setattr(
        "decoder.drafters.sdsat.mask_tree.perturbed_scores",
        lambda logits, params, position, history: perturbed_scores(logits, params, position + 1000, history),
    )
    assert shared > 1.2 * accepted()


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_resumed_run_ends_where_one_in_one_go_does(optimizer: str, tmp_path: Path) -> None:
    plan = replace(PLAN, steps=8, optimizer=optimizer, lr=5e-3)
    whole = trainer(tmp_path / "whole", plan)
    whole.train(quiet)
    first = trainer(tmp_path / "parts", plan)
    first.train(quiet, stop_after=3)
    second = trainer(tmp_path / "parts", plan)
    second.resume()
    assert second.step == 3
    second.train(quiet)
    for name, weight in whole.adapters.weights().items():
        assert torch.equal(weight, second.adapters.weights()[name]), name
    assert not torch.equal(first.adapters.masks, second.adapters.masks)
    with pytest.raises(BenchError, match="rank 4"):
        trainer(tmp_path / "parts", replace(plan, rank=5)).resume()
    with pytest.raises(BenchError, match=r"no .*checkpoint"):
        trainer(tmp_path / "nothing", plan).resume()


def test_no_held_out_prompt_is_trained_on(tmp_path: Path) -> None:
    training = trainer(tmp_path)
    held_out = {points.answer.key for points in training.held_out}
    assert held_out
    for training.step in range(30):
        assert not held_out & {points.answer.key for points in training._batch()}


def test_the_learning_rate_rises_stays_and_falls() -> None:
    plan = Plan(steps=1000, lr=1.0)
    rates = [plan.rate(step, plan.done(step, 0.0)) for step in range(1000)]
    assert rates[0] < rates[10] < rates[20] == rates[500] == 1.0
    assert rates[700] > rates[900] > rates[999] >= 0.05
    assert Plan(minutes=2.0).done(5, 60.0) == 0.5


def test_the_command_writes_adapters_that_load(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tiny_model("llama", VOCAB, memory=0.0).to(torch.float32)
    model.save_pretrained(tmp_path / "tiny")
    data = tmp_path / "answers.npz"
    tokens = [answer.tokens for answer in answers()]
    np.savez(
        data,
        tokens=np.concatenate(tokens).astype(np.uint16),
        offsets=np.cumsum([0, *map(len, tokens)]),
        prompt_lengths=np.array([answer.prompt for answer in answers()]),
    )
    out = tmp_path / "out"
    line = f"sdsat --model {tmp_path / 'tiny'} --data {data} --out {out} --k 2 --rank 2 --coupler 4 --vocab 0 --batch 2"
    line += " --start 300 --shards 1"
    assert main([*line.split(), "--steps", "2"]) == 0
    assert main([*line.split(), "--steps", "4"]) == 2
    assert "--resume" in capsys.readouterr().err
    assert main([*line.split(), "--steps", "4", "--resume"]) == 0
    assert [entry["step"] for entry in read_curve(out / CURVE)] == [0, 2, 4]
    assert (out / CHECKPOINT).is_file()
    assert (out / "accept_rate.svg").read_text(encoding="utf-8").count("<svg") == 1
    card = (out / "README.md").read_text(encoding="utf-8")
    assert "--steps 4 --resume" in card
    assert "| accept rate (accepted / k) |" in card
    assert "learned alone, from 300 points" in card
    tiny = TargetModel(model)
    adapters = adapter_files.fit_adapters(out, tiny, "tiny")
    assert adapters is not None
    assert (adapters.length, adapters.rank, adapters.tokens) == (2, 2, None)
    assert adapters.masks.dtype == torch.float32
    assert main(["sdsat", "--model", str(tmp_path / "none"), "--data", str(data), "--out", str(out / "x")]) == 2


def test_what_is_saved_is_what_is_loaded(tmp_path: Path) -> None:
    tiny = tiny_target("llama", VOCAB)
    adapters = tiny_adapters(tiny)
    adapters.tokens = torch.arange(0, VOCAB, 2)
    adapter_files.save(adapters, tmp_path, describe(tiny, "tiny"), torch.float64)
    again = adapter_files.load(tmp_path, tiny, "tiny")
    assert adapters.tensors().keys() == again.tensors().keys()
    assert all(torch.equal(tensor, again.tensors()[name]) for name, tensor in adapters.tensors().items())
    assert adapter_files.fit_adapters("off", tiny, "tiny") is None
    assert adapter_files.fit_adapters(None, tiny, "no such model") is None


def test_other_models_adapters_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = tiny_target("llama", VOCAB)
    adapter_files.save(tiny_adapters(tiny), tmp_path / "tiny", describe(tiny, "tiny"))
    with pytest.raises(AdaptersError, match="'tiny' with vocab_size 61, 'other' has 50"):
        adapter_files.load(tmp_path / "tiny", tiny_target("llama", 50), "other")
    with pytest.raises(AdaptersError, match="weights are not those of 'other'"):
        adapter_files.load(tmp_path / "tiny", tiny_target("llama", VOCAB, seed=5), "other")
    adapter_files.load(tmp_path / "tiny", tiny, "the same under another name")
    with pytest.raises(AdaptersError, match="no adapters 'nowhere'"):
        adapter_files.fit_adapters("nowhere", tiny, "tiny")
    with pytest.raises(AdaptersError, match=r"config\.json cannot be read"):
        adapter_files.fit_adapters(tmp_path, tiny, "tiny")
    monkeypatch.setattr(adapter_files, "FOLDER", tmp_path)
    assert shipped_names(tmp_path) == ["tiny"]
    assert adapter_files.fit_adapters(None, tiny, "a copy of it") is not None
    assert adapter_files.fit_adapters("tiny", tiny, "tiny") is not None
    assert adapter_files.fit_adapters(None, tiny_target("llama", 50), "tiny") is None
    config = json.loads((tmp_path / "tiny" / "config.json").read_text(encoding="utf-8"))
    (tmp_path / "tiny" / "config.json").write_text(json.dumps({**config, "format": "2"}), encoding="utf-8")
    with pytest.raises(AdaptersError, match="rag-sdsat-1"):
        adapter_files.load(tmp_path / "tiny", tiny, "tiny")
    (tmp_path / "tiny" / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (tmp_path / "tiny" / "adapters.safetensors").write_bytes(b"damaged")
    with pytest.raises(AdaptersError, match="cannot be read"):
        adapter_files.load(tmp_path / "tiny", tiny, "tiny")
    wrong = tiny_adapters(tiny)
    wrong.masks = wrong.masks[:, :-1]
    adapter_files.save(wrong, tmp_path / "wrong", describe(tiny, "tiny"))
    with pytest.raises(AdaptersError, match="width"):
        adapter_files.load(tmp_path / "wrong", tiny, "tiny")
