# SPDX-License-Identifier: Apache-2.0
"""Trains a small GPT deterministically in plain PyTorch and prints a hash of its parameters.

usage: train.py STEPS [LAYERS]: about 1 GB of device memory per layer. Knows nothing of gpupres.
"""
import hashlib
import os
import sys
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # deterministic cuBLAS

import torch
from torch import nn
from torch.nn import functional as F

WIDTH, HEADS, VOCABULARY, LENGTH, BATCH, WARM_UP = 1024, 16, 8192, 512, 16, 10


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.project = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        heads = [t.view(BATCH, LENGTH, HEADS, -1).transpose(1, 2)
                 for t in self.qkv(self.norm1(x)).split(WIDTH, 2)]
        scores = heads[0] @ heads[1].transpose(-2, -1) / (WIDTH // HEADS) ** 0.5
        mask = torch.ones(LENGTH, LENGTH, device=x.device, dtype=torch.bool).triu(1)
        mixed = scores.masked_fill(mask, float("-inf")).softmax(-1) @ heads[2]
        x = x + self.project(mixed.transpose(1, 2).reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def main():
    steps = int(sys.argv[1])
    layers = int(sys.argv[2]) if len(sys.argv) > 2 else 12
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    model = nn.Sequential(nn.Embedding(VOCABULARY, WIDTH), *[Block() for _ in range(layers)],
                          nn.Linear(WIDTH, VOCABULARY)).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    tokens = torch.randint(0, VOCABULARY, (BATCH, LENGTH + 1), device="cuda")
    times = []
    for step in range(steps):
        begin = time.perf_counter()
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss = loss.item()  # synchronizes
        times.append(time.perf_counter() - begin)
        if step == WARM_UP:
            print("training", flush=True)
    times = sorted(times[WARM_UP:])
    digest = hashlib.sha256(b"".join(p.detach().cpu().numpy().tobytes()
                                     for p in model.parameters())).hexdigest()
    print("train: hash=%s loss=%.9f median_ms=%.3f peak_gb=%.2f" % (
        digest[:16], loss, times[len(times) // 2] * 1e3, torch.cuda.max_memory_reserved() / 1e9),
        flush=True)


main()
