#!/bin/sh
# Tests and measures what runs on a GPU within some minutes, and prints one page for all.
#
#   examples/gpu_bench.sh [FOLDER] [DEVICE] [SHAPE]
#
# STEPS are done in their order until SECONDS_LIMIT (420) are over:
#   tests     the tests marked gpu
#   kernels, models (Table 3), decode, train, retrieve    drt bench of that name
#   table4    the study table4-speed at 128M, 350M and 760M (Table 4); table4-SIZE: at one size
#   ask       whole processes that read and ask the handbook, on DEVICE and on the CPU
# FOLDER (gpu-bench) gets the results and what each step said; rows of models and studies that are
# in it are not measured again. DEVICE is cuda, SHAPE 128m. Each step is a process of its own with a
# limit of its own, so that one that fails or hangs costs no other. Nothing needs to be installed but
# the dependencies and pytest, and the shipped weights may be missing: ask and retrieve then take
# random ones. REPEAT (3) is how often ask starts each process after the first time. TOKENS makes all
# smaller, to try the script itself.
set -u
cd "$(dirname "$0")/.." || exit 1
case ${1:-gpu-bench} in /*) folder=$1 ;; *) folder=$OLDPWD/${1:-gpu-bench} ;; esac
device=${2:-cuda}
shape=${3:-128m}
tokens=${TOKENS:-}
steps=${STEPS:-tests kernels models table4 table4-1.5B decode train retrieve table4-3B ask}
end=$(($(date +%s) + ${SECONDS_LIMIT:-420}))
export PYTHONPATH="$PWD/kernels:$PWD/engine:$PWD/sdk:$PWD${PYTHONPATH:+:$PYTHONPATH}"
export PYTHONUNBUFFERED=1 COLUMNS=180
for python in python python3; do
    "$python" -c 'from importlib.util import find_spec as f; exit(f("torch") is None)' 2> /dev/null \
        && break
done
mkdir -p "$folder"
: > "$folder/steps.txt"

# step NAME SECONDS OUTPUT COMMAND...: run it, standard output to OUTPUT, the rest to NAME.log.
step() {
    name=$1 most=$2 output=$3
    shift 3
    left=$((end - $(date +%s)))
    [ "$most" -gt "$left" ] && most=$left
    if [ "$most" -lt 5 ]; then
        echo "$name: no time left" >> "$folder/steps.txt"
        return 1
    fi
    began=$(date +%s)
    timeout -k 5 "$most" "$@" > "$output" 2> "$folder/$name.log"
    code=$?
    took=$(($(date +%s) - began))
    echo "$name: code $code, $took of at most $most s" | tee -a "$folder/steps.txt" >&2
    return $code
}

tests() {
    name=$1
    shift
    step "test-$name" 150 "$folder/test-$name.txt" "$python" -m pytest -q -o addopts= \
        --import-mode=importlib -p no:cacheprovider --tb=short --durations=3 -m gpu "$@" &
}

bench() {
    name=$1 most=$2
    shift 2
    step "$name" "$most" "$folder/$name.json" "$python" -m drt_cli --device "$device" \
        bench "$name" "$@" --json || rm -f "$folder/$name.json"
}

table4() {
    size=$1 most=$2
    shift 2
    step "table4-$size" "$most" "$folder/table4.txt" "$python" -m drt_cli study \
        examples/paper/table4-speed.toml "out=$folder/table4" "train.run.device=$device" \
        --results "$folder/table4-results.json" \
        --only "DRT $size" --only "Base LM $size" "$@"
}

all_tests() {
    [ "$device" = cpu ] && return
    # Compiling takes most of the time of tests: they run side by side.
    gca=tests/kernels/test_gca_gpu.py
    tests shapes-bf16 $gca -k "test_shapes and bfloat16"
    tests shapes-fp16 $gca -k "test_shapes and float16 and not bfloat16"
    tests shapes-fp32 $gca -k "test_shapes and float32"
    tests gca $gca -k "not test_shapes and not tiles"
    tests tiles $gca -k "tiles"
    tests decode tests/kernels/test_decode.py
    tests scan tests/kernels/test_scan.py
    tests window tests/kernels/test_window.py
    tests measures tests/lab/study/test_measures.py
    tests asking tests/engine/test_gpu.py
    for task in questions needles cloze stream; do
        tests "$task" tests/lab/train/test_device.py -k "$task"
    done
    wait
}

# The model that reads and asks: the shipped one, or random weights of its shape.
model_for_asking() {
    model=drt-small-en
    [ -f engine/drt_engine/weights/$model/model.safetensors ] && return
    model=$folder/model
    [ -d "$model" ] && return
    step model 30 "$folder/model.txt" "$python" - "$model" << 'END'
import shutil
import sys
from pathlib import Path

from drt_engine.model.drt import DRT
from drt_engine.model.weights import load_config, model_folder, save_model
from drt_engine.text.tokenizer import Tokenizer

shipped, folder = model_folder("drt-small-en"), Path(sys.argv[1])
save_model(DRT(load_config(shipped)), Tokenizer.load(shipped / "tokenizer.json"), folder)
shutil.copy(shipped / "calibration.json", folder)
END
}

for name in $steps; do
    case $name in
        tests) all_tests ;;
        kernels) bench kernels 75 --shape "$shape" --repetitions 3 ${tokens:+--tokens "$tokens"} ;;
        models)
            # It ends by itself, before its process is ended: 15 s are for starting and the last row.
            left=$((end - $(date +%s)))
            [ "$left" -gt 100 ] && left=100
            if [ "$left" -ge 25 ]; then
                bench models "$left" --shape "$shape" --tokens "${tokens:-16k}" --repetitions 3 \
                    --minutes "$(awk "BEGIN { print ($left - 15) / 60 }")" \
                    --results "$folder/models-rows.json"
            else
                echo "models: no time left" >> "$folder/steps.txt"
            fi
            ;;
        table4)
            if [ -z "$tokens" ]; then
                for size in 128M 350M 760M; do table4 $size 60; done
            else
                table4 128M 100 train.model.preset=drt-tiny train.passkey.symbols=64 \
                    train.run.bf16=false
            fi
            ;;
        table4-*) [ -z "$tokens" ] && table4 "${name#table4-}" 60 ;;
        decode) bench decode 40 --shape "$shape" ;;
        train) bench train "$([ "$device" = cpu ] && echo 300 || echo 60)" --shape "$shape" --repetitions 3 ${tokens:+--tokens "$tokens"} ;;
        retrieve)
            model_for_asking
            bench retrieve 60 --model "$model" --tokens "${RETRIEVE_TOKENS:-${tokens:-16M}}"
            ;;
        ask)
            model_for_asking
            step ask 90 "$folder/ask.txt" "$python" examples/time_asking.py \
                --device "$device" --model "$model" --repeat "${REPEAT:-3}"
            ;;
        *) echo "$name: no such step" >> "$folder/steps.txt" ;;
    esac
done

"$python" - "$folder" > "$folder/page.txt" << 'END'
import json
import re
import sys
from pathlib import Path

MOST = 9_800  # characters of the page
folder = Path(sys.argv[1])


def row_line(row):
    """A name, its median and, in brackets, the ratio to what it is compared with."""
    ratio = "" if row["ratio"] is None else f" ({row['ratio']:.3g})"
    return f"{row['name']}: {row['median']:.4g} {row['unit']}{ratio}"


steps = (folder / "steps.txt").read_text().splitlines()
pieces = ["\n".join(steps)]
for file in sorted(folder.glob("test-*.txt")):
    lines = file.read_text(errors="replace").splitlines()
    failed = [line[:180] for line in lines if line.startswith(("FAILED", "ERROR"))]
    reasons = dict.fromkeys(line[:180] for line in lines if line.startswith("E  "))
    heading = f"{file.stem}: {lines[-1] if lines else 'nothing'}"
    pieces.append("\n".join([heading, *failed[:8], *list(reasons)[:8]]))
for name in ("kernels", "models", "table4", "decode", "train", "retrieve"):
    file = folder / f"{name}.json"
    if file.exists():
        report = json.loads(file.read_text())
        numbers = ", ".join(f"{k} {v:.4g}" for k, v in report["calibration"].items())
        heading = f"{name}, {report['model']}, {report['seconds']:.0f} s; {numbers}"
        pieces.append("\n".join([heading, *map(row_line, report["rows"])]))
    elif name == "models" and (kept := folder / "models-rows.json").exists():
        rows = [row for unit in json.loads(kept.read_text())["units"] for row in unit["rows"]]
        pieces.append("\n".join([f"{name}, not all", *map(row_line, rows)]))
    elif name == "table4" and (table := folder / "table4" / "table.md").exists():
        pieces.append(table.read_text())
if (asked := folder / "ask.txt").exists():
    pieces.append(asked.read_text())
for line in steps:
    name, _, rest = line.partition(": ")
    if rest.startswith("code 0") or name.startswith("test-"):
        continue
    file = folder / f"{name}.log"
    log = file.read_text(errors="replace").splitlines() if file.exists() else []
    pieces.append("\n".join([f"{name}:", *(text[:300] for text in log[-6:])]))
for name in ("kernels", "models", "decode", "train", "retrieve"):
    file = folder / f"{name}.log"
    said = file.read_text(errors="replace").splitlines() if file.exists() else []
    pieces += [f"{name}: {text[:160]}" for text in said if "left out" in text]
page = "\n\n".join(piece for piece in pieces if piece)
print(page if len(page) <= MOST else page[: MOST - 40] + "\n(cut; the rest is in the folder)")
END
cat "$folder/page.txt"
