"""Compiled kernels: a process that compiles one and a process that loads it from the cache compute the same bytes."""

import os
import subprocess
import sys

import pytest

PROGRAMS = {
    "majority": """
from layernorm_roles.majority import kernel
counts = rng.multinomial(50, np.ones(20) / 20, size=600).astype(np.uint8)
tables = [np.float32(rng.random(shape)) for shape in kernel.Sizes(20, 8, 8).shapes]
loss, _, gradients = kernel.loss_and_gradients(counts, counts.argmax(axis=1), tables)
arrays = [np.array(loss), *gradients]
""",
    "cross-entropy": """
from layernorm_roles.language_model.cross_entropy import fused
hidden, weight = (torch.tensor(rng.random((rows, 8)), dtype=torch.float32) for rows in (70, 300))
arrays = [t.numpy() for t in fused(hidden, weight, torch.arange(70))]
""",
    "attention": """
from layernorm_roles.language_model.attention import causal_attention
q, k, v, grad = (torch.tensor(rng.standard_normal((2, 4, 70, 2)), dtype=torch.float32) for _ in range(4))
inputs = [t.requires_grad_() for t in (q, k, v)]
out = causal_attention(*inputs)
arrays = [t.detach().numpy() for t in (out, *torch.autograd.grad(out, inputs, grad))]
""",
    "verdicts": """
from layernorm_roles.selectability import certify
verdicts = [certify(rng.standard_normal((n, d))) for n, d in ((300, 4), (500, 8), (200, 16))]
verdicts.append(certify(rng.standard_normal((300, 5)), bias=rng.standard_normal(300)))
arrays = [a for c in verdicts for a in (c.verdict, c.margin, c.residual)]
""",
    "ceilings": """
from layernorm_roles.selectability import QueryEllipsoid, ceilings
found = [ceilings(rng.standard_normal((n, d))) for n, d in ((300, 3), (200, 8))]
for d in (2, 16):
    queries = QueryEllipsoid(rng.standard_normal(d), rng.standard_normal((d, d)))
    found.append(ceilings(rng.standard_normal((200, d)), queries))
arrays = [a for c in found for a in (c.lower, c.upper, c.query, c.proof)]
""",
}


@pytest.mark.parametrize("part", PROGRAMS)
def test_compiled_and_loaded_kernels_give_the_same_bytes(part, tmp_path):
    program = (
        "import hashlib; import numpy as np; import torch; rng = np.random.default_rng(0)\n"
        + PROGRAMS[part]
        + "print([hashlib.sha256(np.ascontiguousarray(a)).hexdigest()[:16] for a in arrays])"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}

    def output():
        command = [sys.executable, "-c", program]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True)

    compiled, loaded = output(), output()
    assert any(tmp_path.rglob("*.nbc"))
    assert loaded.stdout == compiled.stdout
    assert compiled.stderr.count("\n") == 1, "one line says that it compiles"
    assert loaded.stderr == ""
