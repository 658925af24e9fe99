#!/usr/bin/env python3
"""Trains the digits network, and checks the committed files against each other.

    python3 train.py            train, then write every other file of this folder
    python3 train.py --check    recompute the predictions from the committed files; exit code 1 on a mismatch

Training needs numpy and scikit-learn (for the data only). Checking needs numpy alone.
The file formats are described in README.md and in docs/model-container.md.
"""

import argparse
import json
import struct
import sys
import zlib
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent

# The split and the training are functions of these constants and of the data.
# `RandomState` is used because numpy promises that its streams never change.
SPLIT_SEED = 1998
TRAIN_SEED = 64
HELD_OUT = 497
EPOCHS = 80
BATCH = 32
LEARNING_RATE = 2e-3
WEIGHT_DECAY = 1e-4
WIDTHS = (64, 64, 32, 10)

# A prediction is safe when its lead over the runner-up is this many times the rounding error of float32.
SAFETY_FACTOR = 1000.0

IMAGE_MAGIC = b"XUDIGITS"
MODEL_MAGIC = b"XUMODEL\0"

MANIFEST = {
    "name": "digits",
    "inputs": [{"name": "image", "dtype": "u8", "shape": [64]}],
    "outputs": [
        {"name": "scores", "dtype": "f32", "shape": [10]},
        {"name": "label", "dtype": "u32", "shape": [1]},
    ],
    "layers": [
        {"op": "scale", "input": "image", "output": "x", "factor": 0.0625},
        {"op": "matmul", "input": "x", "weight": "fc1.weight", "output": "h1.pre"},
        {"op": "bias", "input": "h1.pre", "bias": "fc1.bias", "output": "h1.biased"},
        {"op": "relu", "input": "h1.biased", "output": "h1"},
        {"op": "matmul", "input": "h1", "weight": "fc2.weight", "output": "h2.pre"},
        {"op": "bias", "input": "h2.pre", "bias": "fc2.bias", "output": "h2.biased"},
        {"op": "relu", "input": "h2.biased", "output": "h2"},
        {"op": "matmul", "input": "h2", "weight": "fc3.weight", "output": "logits.pre"},
        {"op": "bias", "input": "logits.pre", "bias": "fc3.bias", "output": "logits"},
        {"op": "softmax", "input": "logits", "output": "scores"},
        {"op": "argmax", "input": "scores", "output": "label"},
    ],
}


# ---------------------------------------------------------------- files


def manifest_bytes(manifest):
    """One layer per line, so that a difference between two versions can be read."""

    def rows(items):
        return "[\n" + ",\n".join("    " + json.dumps(item) for item in items) + "\n  ]"

    text = (
        "{\n"
        f'  "name": {json.dumps(manifest["name"])},\n'
        f'  "inputs": {rows(manifest["inputs"])},\n'
        f'  "outputs": {rows(manifest["outputs"])},\n'
        f'  "layers": {rows(manifest["layers"])}\n'
        "}\n"
    )
    assert json.loads(text) == manifest
    return text.encode()


def write_safetensors(tensors):
    """u64 header length, JSON header padded with spaces to 8 bytes, then the data without gaps."""
    header, data = {}, b""
    for name, tensor in tensors.items():
        raw = np.ascontiguousarray(tensor, dtype="<f4").tobytes()
        header[name] = {
            "dtype": "F32",
            "shape": list(tensor.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def read_safetensors(raw):
    (length,) = struct.unpack_from("<Q", raw)
    header = json.loads(raw[8 : 8 + length])
    data = raw[8 + length :]
    tensors = {}
    for name, entry in header.items():
        assert entry["dtype"] == "F32", name
        begin, end = entry["data_offsets"]
        tensors[name] = np.frombuffer(data[begin:end], dtype="<f4").reshape(entry["shape"])
    return tensors


def pack_model(manifest, weights):
    checksum = zlib.crc32(weights, zlib.crc32(manifest))
    return MODEL_MAGIC + struct.pack("<IIQII", 1, len(manifest), len(weights), checksum, 0) + manifest + weights


def unpack_model(raw):
    version, manifest_len, weights_len, checksum, reserved = struct.unpack_from("<IIQII", raw, 8)
    assert raw[:8] == MODEL_MAGIC and version == 1 and reserved == 0
    assert len(raw) == 0x20 + manifest_len + weights_len
    assert zlib.crc32(raw[0x20:]) == checksum
    return raw[0x20 : 0x20 + manifest_len], raw[0x20 + manifest_len :]


def write_images(pixels, labels):
    header = IMAGE_MAGIC + struct.pack("<IIHHI", 1, len(pixels), 8, 8, 0)
    return header + pixels.astype(np.uint8).tobytes() + labels.astype(np.uint8).tobytes()


def read_images(raw):
    version, count, rows, cols, reserved = struct.unpack_from("<IIHHI", raw, 8)
    assert raw[:8] == IMAGE_MAGIC and (version, rows, cols, reserved) == (1, 8, 8, 0)
    assert len(raw) == 24 + count * 65
    body = np.frombuffer(raw, dtype=np.uint8, offset=24)
    return body[: count * 64].reshape(count, 64), body[count * 64 :]


# ---------------------------------------------------------------- training


def load_split():
    """Pixels and labels of the training part and of the held-out part."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    pixels = digits.data.astype(np.uint8)
    labels = digits.target.astype(np.uint8)
    assert np.array_equal(pixels, digits.data) and pixels.max() == 16
    order = np.random.RandomState(SPLIT_SEED).permutation(len(pixels))
    held_out, train = order[:HELD_OUT], order[HELD_OUT:]
    return pixels[train], labels[train], pixels[held_out], labels[held_out]


def initial_weights(random):
    """Normal with variance 2 / inputs, as usual before a ReLU; biases start at zero."""
    tensors = {}
    for layer, (rows, cols) in enumerate(zip(WIDTHS, WIDTHS[1:]), start=1):
        spread = np.sqrt(2.0 / rows)
        tensors[f"fc{layer}.weight"] = (random.standard_normal((rows, cols)) * spread).astype(np.float32)
        tensors[f"fc{layer}.bias"] = np.zeros(cols, dtype=np.float32)
    return tensors


def gradients(tensors, x, labels):
    """Gradients of the mean cross entropy plus the weight decay."""
    h1 = np.maximum(x @ tensors["fc1.weight"] + tensors["fc1.bias"], 0)
    h2 = np.maximum(h1 @ tensors["fc2.weight"] + tensors["fc2.bias"], 0)
    logits = h2 @ tensors["fc3.weight"] + tensors["fc3.bias"]
    scores = np.exp(logits - logits.max(axis=1, keepdims=True))
    scores /= scores.sum(axis=1, keepdims=True)

    back = scores
    back[np.arange(len(labels)), labels] -= 1
    back /= len(labels)
    grads = {}
    for layer, activation in ((3, h2), (2, h1), (1, x)):
        weight = tensors[f"fc{layer}.weight"]
        grads[f"fc{layer}.weight"] = activation.T @ back + WEIGHT_DECAY * weight
        grads[f"fc{layer}.bias"] = back.sum(axis=0)
        back = (back @ weight.T) * (activation > 0)
    return grads


def train(pixels, labels):
    """Adam on shuffled batches; the learning rate falls linearly to zero. Nothing looks at the held-out part."""
    random = np.random.RandomState(TRAIN_SEED)
    x = pixels.astype(np.float32) * np.float32(0.0625)
    tensors = initial_weights(random)
    first = {name: np.zeros_like(t) for name, t in tensors.items()}
    second = {name: np.zeros_like(t) for name, t in tensors.items()}
    batches_per_epoch = -(-len(x) // BATCH)
    steps, step = EPOCHS * batches_per_epoch, 0
    for _ in range(EPOCHS):
        order = random.permutation(len(x))
        for begin in range(0, len(x), BATCH):
            batch = order[begin : begin + BATCH]
            rate = LEARNING_RATE * (1 - step / steps)
            step += 1
            for name, grad in gradients(tensors, x[batch], labels[batch]).items():
                first[name] = 0.9 * first[name] + 0.1 * grad
                second[name] = 0.999 * second[name] + 0.001 * grad**2
                mean = first[name] / (1 - 0.9**step)
                scale = np.sqrt(second[name] / (1 - 0.999**step)) + 1e-8
                tensors[name] = (tensors[name] - rate * mean / scale).astype(np.float32)
    return tensors


# ---------------------------------------------------------------- forward pass of a manifest


def forward(manifest, tensors, images, dtype=np.float32):
    """Every value of a manifest, by name. Shares no code with training: it interprets the layers one by one."""
    values = {manifest["inputs"][0]["name"]: images}
    for layer in manifest["layers"]:
        op = layer["op"]
        x = values[layer["input"]]
        if op == "scale":
            y = x.astype(dtype) * dtype(layer["factor"])
        elif op == "matmul":
            y = x @ tensors[layer["weight"]].astype(dtype)
        elif op == "bias":
            y = x + tensors[layer["bias"]].astype(dtype)
        elif op == "relu":
            y = np.maximum(x, dtype(0))
        elif op == "softmax":
            y = np.exp(x - x.max(axis=1, keepdims=True))
            y = y / y.sum(axis=1, keepdims=True)
        elif op == "argmax":
            y = np.argmax(x, axis=1).astype(np.uint32)[:, None]
        else:
            raise ValueError(f"this forward pass does not know the op {op!r}")
        values[layer["output"]] = y
    return values


def evaluate(manifest, tensors, images, labels):
    """Facts about the network on `images`, as they stand in expected.json."""
    values = forward(manifest, tensors, images)
    exact = forward(manifest, tensors, images, np.float64)
    predictions = values["label"][:, 0].astype(np.uint8)
    ranked = np.sort(values["logits"], axis=1)
    margin = float((ranked[:, -1] - ranked[:, -2]).min())
    ranked_scores = np.sort(values["scores"], axis=1)
    score_margin = float((ranked_scores[:, -1] - ranked_scores[:, -2]).min())
    rounding = float(np.abs(values["logits"] - exact["logits"]).max())
    score_rounding = float(np.abs(values["scores"] - exact["scores"]).max())
    if not np.array_equal(values["label"], exact["label"]):
        raise SystemExit("a prediction depends on the precision")
    if margin < SAFETY_FACTOR * rounding or score_margin < SAFETY_FACTOR * score_rounding:
        raise SystemExit(
            f"margins {margin:.3e} (logits) and {score_margin:.3e} (scores) are not safely above "
            f"the rounding errors {rounding:.3e} and {score_rounding:.3e}"
        )
    correct = int((predictions == labels).sum())
    return {
        "images": len(images),
        "correct": correct,
        "accuracy": round(correct / len(images), 6),
        "predictions_crc32": f"{zlib.crc32(predictions.tobytes()):08x}",
        "smallest_margin": round(margin, 6),
        "smallest_score_margin": round(score_margin, 6),
    }, max(rounding, score_rounding)


# ---------------------------------------------------------------- the two commands


def train_and_write():
    train_pixels, train_labels, pixels, labels = load_split()
    shared = {p.tobytes() for p in train_pixels} & {p.tobytes() for p in pixels}
    assert not shared, "an image is in both parts"
    tensors = train(train_pixels, train_labels)
    fitted = forward(MANIFEST, tensors, train_pixels)["label"][:, 0]
    facts, rounding = evaluate(MANIFEST, tensors, pixels, labels)
    facts["train_images"] = len(train_pixels)

    manifest, weights = manifest_bytes(MANIFEST), write_safetensors(tensors)
    files = {
        "manifest.json": manifest,
        "weights.safetensors": weights,
        "model.xum": pack_model(manifest, weights),
        "heldout.xud": write_images(pixels, labels),
        "expected.json": (json.dumps(facts, indent=2) + "\n").encode(),
    }
    for name, content in files.items():
        (HERE / name).write_bytes(content)
        print(f"{name:20} {len(content):6} bytes  crc32 {zlib.crc32(content):08x}")
    print(f"training:  {int((fitted == train_labels).sum())} of {len(train_labels)} correct")
    print(f"held out:  {facts['correct']} of {facts['images']} correct, accuracy {facts['accuracy']:.4f}")
    print(f"smallest margin: logits {facts['smallest_margin']}, scores {facts['smallest_score_margin']}")
    print(f"largest difference between float32 and float64: {rounding:.2e}")


def check():
    """Compares every committed file with the others; returns the list of disagreements."""
    wrong = []
    raw = {
        name: (HERE / name).read_bytes()
        for name in ("manifest.json", "weights.safetensors", "model.xum", "heldout.xud")
    }
    manifest, weights = unpack_model(raw["model.xum"])
    if manifest != raw["manifest.json"]:
        wrong.append("model.xum does not contain manifest.json")
    if weights != raw["weights.safetensors"]:
        wrong.append("model.xum does not contain weights.safetensors")
    images, labels = read_images(raw["heldout.xud"])
    found, _ = evaluate(json.loads(manifest), read_safetensors(weights), images, labels)
    expected = json.loads((HERE / "expected.json").read_text())
    for name, value in found.items():
        close = isinstance(value, float) and abs(value - expected[name]) <= 1e-5
        if value != expected[name] and not close:
            wrong.append(f"{name}: expected {expected[name]}, found {value}")
    for line in wrong:
        print(f"mismatch: {line}")
    if not wrong:
        print(f"{found['correct']} of {found['images']} correct, predictions crc32 {found['predictions_crc32']}: as expected")
    return wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Train the digits network, or check the committed files.")
    parser.add_argument("--check", action="store_true", help="only compare the committed files with each other")
    if parser.parse_args().check:
        sys.exit(1 if check() else 0)
    train_and_write()
