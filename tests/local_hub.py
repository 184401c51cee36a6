"""Small local copies of the datasets that the paper's preset reads, with the hub's layouts, columns and lengths."""

from pathlib import Path

import numpy as np
import pandas as pd
import yaml

ROOT = Path(__file__).parents[1]
WORDS = [f"{a}{b}{c}" for a in ("an", "ber", "col", "der") for b in "aio" for c in ("men", "tur", "st")]


def make(folder: Path) -> dict[str, str]:
    """Write the datasets below `folder`; return their folders by their names on the hub."""
    rng = np.random.default_rng(0)

    def text(words):
        return " ".join(rng.choice(WORDS, words)).capitalize() + "."

    articles = [[text(70) for _ in range(15)] for _ in range(14)]
    paragraphs = [
        {"id": "1", "title": f"Article_{i}", "context": paragraph, "question": "Who?", "answers": "he"}
        for i, article in enumerate(articles)
        for paragraph in article
        for _ in range(5)  # a row for every question
    ]
    numbers = {"train": 200, "validation": 40, "test": 60}
    sentences = {
        split: [
            {"sentence": text(int(rng.integers(2, 20))), "label": -1 if split == "test" else i % 2, "idx": i}
            for i in range(number)
        ]
        for split, number in numbers.items()
    }
    wikipedia = [{"id": str(i), "url": "u", "title": "t", "text": text(400)} for i in range(150)]
    layouts = {
        "legacy-datasets/wikipedia": ("20220301.en", {"train": wikipedia}),
        "rajpurkar/squad": ("plain_text", {"validation": paragraphs}),
        "nyu-mll/glue": ("sst2", sentences),
    }
    return {name: str(write(folder / name, *layout)) for name, layout in layouts.items()}


def write(folder: Path, config: str, splits: dict) -> Path:
    """Write a dataset with one configuration to `folder`; `splits` has what pandas makes a table of, by split."""
    (folder / config).mkdir(parents=True)
    lines = ["---", "configs:", f"- config_name: {config}", "  data_files:"]
    for split, rows in splits.items():
        pd.DataFrame(rows).to_parquet(folder / config / f"{split}-00000-of-00001.parquet")
        lines += [f"  - split: {split}", f"    path: {config}/{split}-*"]
    (folder / "README.md").write_text("\n".join([*lines, "---", ""]))
    return folder


def paper_preset(datasets: dict[str, str]) -> dict:
    """The paper's preset on these datasets; what else differs are numbers, and the device."""
    text = (ROOT / "workflow/presets/paper.yaml").read_text(encoding="utf-8")
    for name, folder in datasets.items():
        text = text.replace(name, folder)
    preset = yaml.safe_load(text)
    smoke = yaml.safe_load((ROOT / "workflow/presets/smoke.yaml").read_text(encoding="utf-8"))
    words = preset["text"]["words"]
    words["corpus"]["limit"] = 140
    words["split"] = {"training": 0.8, "validation": 0.2, "held_out": 0.0}
    words["long"]["contexts"], words["sentences"]["contexts"] = 16, 10
    for name in ("long", "sentences"):
        preset["text"]["bytes"] = {**preset["text"]["bytes"], name: smoke["text"]["bytes"][name]}
    for section in ("majority", "random_keys", "statements"):
        preset[section] = smoke[section]
    sizes = {"steps": 20, "batch_size": 2, "evaluate_every": 10, "checkpoint_every": 10}
    models = preset["language_model"]
    for settings in filter(None, models.values()):
        settings |= sizes | {"seeds": dict.fromkeys(settings["seeds"], 2)}
    models["gpt"]["validation_windows"], models["gpt_paper_rate"]["runs_per_job"] = 2, "all"
    models |= {name: settings for name, settings in smoke["language_model"].items() if name not in models}
    return {**preset, "device": "cpu", "pretrained": smoke["pretrained"]}
