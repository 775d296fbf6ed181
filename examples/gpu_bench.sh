#!/bin/sh
# Measures kernels, decoding, training and retrieval on a GPU, and prints one table for all.
#
#   examples/gpu_bench.sh [FOLDER] [DEVICE] [SHAPE]
#
# FOLDER (gpu-bench) gets a JSON file for each benchmark and what it said; DEVICE is cuda, SHAPE
# 128m. Each benchmark is a process of its own, so that one that fails costs no other. Nothing needs
# to be installed but the dependencies.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
export PYTHONPATH="$root/kernels:$root/engine:$root/sdk:$root${PYTHONPATH:+:$PYTHONPATH}"
folder=${1:-gpu-bench}
device=${2:-cuda}
shape=${3:-128m}
mkdir -p "$folder"

run() {
    name=$1
    shift
    echo "drt bench $name ..." >&2
    if ! python -m drt_cli --device "$device" bench "$name" "$@" --json \
        > "$folder/$name.json" 2> "$folder/$name.log"; then
        echo "drt bench $name failed; the end of $folder/$name.log:" >&2
        tail -n 5 "$folder/$name.log" >&2
        rm -f "$folder/$name.json"
    fi
}

run kernels --shape "$shape"
run decode --shape "$shape"
run train --shape "$shape"
run retrieve --tokens "${RETRIEVE_TOKENS:-16777216}"

python - "$folder" <<'END'
import json
import sys
from pathlib import Path

from drt import report_table

for file in sorted(Path(sys.argv[1]).glob("*.json")):
    print(report_table(json.loads(file.read_text())), end="\n\n")
for file in sorted(Path(sys.argv[1]).glob("*.log")):
    for line in file.read_text().splitlines():
        print(f"{file.stem}: {line}")
END
