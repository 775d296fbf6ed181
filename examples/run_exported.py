"""Prints the chunk that a question is about, by an export of `drt model convert`, without drt."""

import json

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from tokenizers import Tokenizer

folder, file, question = (input(f"{what}: ") for what in ("export", "text file", "question"))
with open(f"{folder}/config.json") as config, open(file, encoding="utf-8") as source:
    c, text = json.load(config), source.read()
w = {name: tensor.float() for name, tensor in load_file(f"{folder}/model.safetensors").items()}
tokenizer, size, width = Tokenizer.from_file(f"{folder}/tokenizer.json"), c["chunk"], c["width"]
shape = width, c["encoder"]["heads"], c["encoder"]["mlp"], 0.0, "gelu", 1e-12, True
layers = (torch.nn.TransformerEncoderLayer(*shape) for _ in range(c["encoder"]["layers"]))
encoder = torch.nn.Sequential(*layers).eval()
encoder.load_state_dict({k[15:]: w[k] for k in w if k.startswith("encoder.layers.")})


def lower(ids):  # token ids [T], a landmark after each chunk -> states [T, width]
    x, ago = w["embedding"][ids], torch.arange(len(ids))[:, None] - torch.arange(len(ids))
    slopes = 2 ** (-8 * torch.arange(1, c["heads"] + 1) / c["heads"])[:, None, None]
    mask = (-slopes * ago).masked_fill((ago < 0) | (ago >= c["window"]), -torch.inf)
    for i in range(c["lower_layers"]):
        m = {k.split(".")[2]: w[k].t() for k in w if k.startswith(f"lower.{i}.")}
        y = F.rms_norm(x, (width,), m["attention_norm"], 1e-5)
        parts = (y @ m[name] for name in ("query", "key", "value"))
        q, k, v = (part.unflatten(1, (-1, width // c["heads"])).movedim(1, 0) for part in parts)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
        x = x + y.movedim(0, 1).flatten(1) @ m["attention_out"]
        y = F.rms_norm(x, (width,), m["mlp_norm"], 1e-5)
        x = x + (F.silu(y @ m["gate"]) * (y @ m["up"])) @ m["down"]
    return x


@torch.no_grad()
def read(ids):  # token ids -> the states of the landmark tokens and the landmarks, [2, C, width]
    chunks = [[*ids[i : i + size], c["landmark_id"]] for i in range(0, len(ids), size)]
    back, found = -(-c["lower_layers"] * c["window"] // (size + 1)), []  # as far as a state sees
    for at in range(0, len(chunks), 16):
        states = lower(sum(chunks[max(0, at - back) : at + 16], [])).split(size + 1)
        for x in states[min(at, back) :]:
            y = x + w["encoder.positions"][1 : len(x) + 1]
            y = F.layer_norm(y, (width,), w["encoder.norm.weight"], w["encoder.norm.bias"], 1e-12)
            found.append(torch.stack([x[-1], encoder(y[None])[0].mean(0)]))
    return torch.stack(found, dim=1)


doc, ((state, *_), (own, *_)) = tokenizer.encode(text), read(tokenizer.encode(question).ids)
keys = F.normalize(read(doc.ids)[1] @ w["retrieval.key.weight"].T)
query = state @ w["retrieval.state_query.0.weight"].T + own @ w["retrieval.landmark_query.weight"].T
best = size * int((keys @ query).argmax())
print(text[doc.offsets[best][0] : doc.offsets[best : best + size][-1][1]])
