#!/usr/bin/env python3
"""Writes arrivals.csv: requests as a log of a front end has them.

Sessions begin at random, each asks a few questions with pauses in between whose
prompts grow by what was said before; now and then a batch of short jobs comes
all at once. Columns as in public traces of LLM services: when, how long the
prompt, how long the answer.
"""
import csv
import os
import random

random.seed(20)
rows = []
now = 0.0
while len(rows) < 250:
    now += random.expovariate(1 / 4.0)
    if random.random() < 0.15:  # a batch of jobs
        for job in range(random.randint(8, 20)):
            rows.append((now + 0.02 * job, random.randint(64, 256), random.randint(4, 40)))
        continue
    at, prompt = now, int(random.lognormvariate(5.5, 0.8))
    for turn in range(random.randint(1, 6)):
        answer = max(1, min(600, int(random.lognormvariate(4.0, 0.9))))
        rows.append((at, max(16, min(prompt, 2048)), answer))
        prompt += answer + int(random.lognormvariate(4.0, 0.7))
        at += random.expovariate(1 / 6.0)

rows = sorted(rows)[:250]
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "arrivals.csv"), "w", newline="") as out:
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["arrival_s", "prompt_tokens", "output_tokens"])
    for at, prompt, answer in rows:
        writer.writerow([f"{at - rows[0][0]:.3f}", prompt, answer])
