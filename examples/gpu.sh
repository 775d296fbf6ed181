#!/bin/sh
# Uses some minutes of a GPU in order of worth, and keeps every result as it comes.
#
#   examples/gpu.sh PLAN [FOLDER]
#
# PLANS:
#   decoder   trains DECODER (examples/configs/decoder/10-reading.toml) for as many steps as there is time for, and writes the
#             model in pieces of 15 MB
#   table1    the study TABLE1 (examples/paper/table1-gpu.toml): Table 1 from a curriculum, with far copies
#   speed     Tables 3 and 4, kernels beside their peers: examples/gpu_bench.sh, STEPS as it takes them
#   all       these three, in this order, for a half, a third and the rest of the time
#   light     takes weights that git tracks out of the working tree, so that what is left can be sent; git checkout brings them
#             back. Changes no commit
#   join      makes the model folder FOLDER/decoder out of its pieces
# FOLDER (gpu) gets the results: a log of each step, tables, metrics, pieces of the model. The same command goes on where an
# earlier one was stopped, as long as runs/ is there. Each step is a process of its own with a limit of its own.
# SECONDS_LIMIT (540) is the time of all; DEVICE cuda or cpu; SET: settings of every
# run, as drt train takes them. A rehearsal: DEVICE=cpu, small configurations as DECODER and TABLE1, and MOST_STEPS, which the
# decoder does not pass.
set -u
started=$PWD
cd "$(dirname "$0")/.." || exit 1
plan=${1:-}
case ${2:-gpu} in /*) folder=$2 ;; *) folder=$started/${2:-gpu} ;; esac
device=${DEVICE:-cuda}
limit=${SECONDS_LIMIT:-540}
end=$(($(date +%s) + limit))
decoder=${DECODER:-examples/configs/decoder/10-reading.toml}
table1=${TABLE1:-examples/paper/table1-gpu.toml}
export PYTHONPATH="$PWD/kernels:$PWD/engine:$PWD/sdk:$PWD${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
for python in python python3; do
    "$python" -c 'from importlib.util import find_spec as f; exit(f("torch") is None)' 2> /dev/null \
        && break
done

left() { echo $((end - $(date +%s))); }

# step NAME SECONDS COMMAND...: run it with both outputs to NAME.log, and note in steps.txt how it ended.
step() {
    name=$1 most=$2
    shift 2
    [ "$most" -gt "$(left)" ] && most=$(left)
    if [ "$most" -lt 3 ]; then
        echo "$name: no time left" | tee -a "$folder/steps.txt" >&2
        return 1
    fi
    began=$(date +%s)
    # Ctrl-C first: training then saves its state. What does not end is killed.
    timeout -s INT -k 20 "$most" "$@" > "$folder/$name.log" 2>&1
    code=$?
    echo "$name: code $code, $(($(date +%s) - began)) of at most $most s" | tee -a "$folder/steps.txt" >&2
    return $code
}

drt() { # NAME SECONDS ARGUMENTS...
    name=$1 most=$2
    shift 2
    step "$name" "$most" "$python" -m drt_cli "$@"
}

# setting NAME: of the decoder's configuration.
setting() {
    "$python" -c 'import sys, tomllib; print(tomllib.load(open(sys.argv[1], "rb"))["decoder"][sys.argv[2]])' "$decoder" "$1"
}

# fit SECONDS: the steps that fit, by the clock of the last few timed ones.
fit() {
    "$python" - "$folder/timing/metrics.jsonl" "$1" "${MOST_STEPS:-1000000}" << 'END'
import sys
from pathlib import Path

from drt_lab.train.metrics import read_metrics

rows = [row for row in read_metrics(Path(sys.argv[1])) if "loss" in row]
first, last = rows[0], rows[-1]
each = (last["seconds"] - first["seconds"]) / (last["step"] - first["step"])
# Less a tenth, for starting and checkpoints.
steps = max(2, int(0.9 * float(sys.argv[2]) / max(each, 1e-4)))
print(min(steps, int(sys.argv[3])))
END
}

train_decoder() {
    seconds=$1
    if [ ! -e "$decoder" ]; then
        echo "decoder: $decoder does not exist, expected its configuration" | tee -a "$folder/steps.txt" >&2
        return 1
    fi
    out=$(setting run) || return 1
    set -- "decoder.device=$device" decoder.reading_steps=0 ${SET:-}
    if [ ! -e "$folder/decoder.steps" ]; then
        # The schedule counts steps: a few are timed, from another folder, and give their number.
        rm -rf "$folder/timing"
        drt decoder-timing $((seconds / 3)) train "$decoder" "$@" "decoder.run=$folder/timing" \
            decoder.steps=40 decoder.evaluate_every=1000000 || return 1
        fit $((seconds - 90)) > "$folder/decoder.steps" || return 1
        rm -rf "$folder/timing"
    fi
    drt decoder "$(left)" train "$decoder" "$@" "decoder.steps=$(cat "$folder/decoder.steps")" \
        "decoder.limit_minutes=$(awk "BEGIN { print ($seconds - 60) / 60 }")"
    cp "$out/metrics.jsonl" "$folder/decoder.jsonl" 2> /dev/null
    # A training that its limit ended has a model, too.
    [ -d "$out/model" ] || return 1
    rm -f "$folder"/decoder.tar.xz.*
    tar -C "$out/model" -c . | xz -T0 -1 | split -b 15000000 - "$folder/decoder.tar.xz."
    echo "decoder: $out/model in $(ls "$folder"/decoder.tar.xz.* | wc -l) pieces" | tee -a "$folder/steps.txt"
}

train_table1() {
    [ "$device" = cuda ] && bf16=true || bf16=false
    drt table1 "$1" study "$table1" "train.run.device=$device" "train.run.bf16=$bf16" ${SET:-} \
        --results "$folder/table1.json"
    code=$?
    out=$("$python" -c 'import sys, tomllib; print(tomllib.load(open(sys.argv[1], "rb"))["out"])' "$table1")
    cp "$out/table.md" "$folder/table1.md" 2> /dev/null
    for metrics in "$out"/*/metrics.jsonl; do
        [ -e "$metrics" ] && cp "$metrics" "$folder/table1-$(basename "$(dirname "$metrics")").jsonl"
    done
    return $code
}

measure_speed() {
    SECONDS_LIMIT=$1 STEPS=${STEPS:-models table4 kernels decode train} \
        step speed "$1" examples/gpu_bench.sh "$folder/speed" "$device" ${SHAPE:-}
}

case $plan in
    light)
        git ls-files -z | xargs -0 du -k 2> /dev/null | awk '$1 > 4096' | while read -r size file; do
            # Only what a commit has: anything else would be lost.
            if git diff --quiet HEAD -- "$file"; then
                rm "$file" && echo "took out $file ($((size / 1024)) MiB); git checkout -- $file"
            else
                echo "left $file: it has changes that no commit has" >&2
            fi
        done
        exit
        ;;
    join)
        mkdir -p "$folder/decoder" && cat "$folder"/decoder.tar.xz.* | tar -C "$folder/decoder" -xJ
        exit
        ;;
    decoder | table1 | speed | all) mkdir -p "$folder" ;;
    *)
        echo "PLAN is '$plan', expected decoder, table1, speed, all, light or join" >&2
        exit 2
        ;;
esac
case $plan in
    decoder) train_decoder "$limit" ;;
    table1) train_table1 "$limit" ;;
    speed) measure_speed "$limit" ;;
    all)
        train_decoder $((limit / 2))
        train_table1 $((limit / 3))
        measure_speed "$(left)"
        ;;
esac
code=$?
# What fits into the output of a command: how each step ended, tables, and the last lines of what failed.
cat "$folder/steps.txt"
[ -e "$folder/table1.md" ] && cat "$folder/table1.md"
grep -v "code 0" "$folder/steps.txt" | cut -d: -f1 | sort -u | while read -r name; do
    [ -e "$folder/$name.log" ] && echo "$name:" && tail -n 5 "$folder/$name.log" | cut -c1-300
done
exit $code
