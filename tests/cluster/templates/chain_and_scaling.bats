#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# The templates that run longer: a chain of jobs and a scaling study. Run by ./check --templates.
load ../setup
load submit

setup_file() {
  small_runs
  lab_up --nodes 2 --gpus 2 --no-isolate --plugin "$(plugin)"
}
teardown_file() { lab_down; }

@test "array-chain: after a link is stopped or loses a rank, the next one continues, and a fourth has nothing to do" {
  OUTPUT=run submit array-chain --array=1-4%1 -- --steps=3000 --checkpoint-every=100
  wait_until 'compgen -G "$folder/run/checkpoints/step-????????" >/dev/null'
  # scancel delivers the signal and retries for a while until the link has ended; by then the next link
  # trains.
  lab exec scancel --signal=TERM "${job}_1" >/dev/null 2>&1 3>&- &
  wait_until 'grep -q "^resuming" "$folder/job.log"'
  # shellcheck disable=SC2016  # expanded on the node
  lab node n1 bash -c 'kill -KILL "$(pgrep --newest --exact muster-train)"'
  wait $! || true
  finished
  [ "$(grep -c '^link . of job' "$folder/job.log")" = 3 ]
  [ "$(grep -c 'link 1 was stopped with a checkpoint' "$folder/job.log")" = 1 ]
  [ "$(grep -c 'link 2 lost a rank' "$folder/job.log")" = 1 ]
  trained "$folder/run" 4 2
  [ "$(summary_value steps "$folder/run")" = 3000 ]
  [ "$(summary_value first_step "$folder/run")" -gt 0 ]
}

@test "scaling-study: on one and two nodes it prints a table and draws a chart of measured and predicted efficiency" {
  LINK_GBITS=10 BATCH=2 STUDY=study run_template scaling-study --nodes=2 -- --steps=20
  trained "$folder/study/1" 2 1
  trained "$folder/study/2" 4 2
  [ "$(summary_value tokens_per_step "$folder/study/2")" = 256 ]
  grep -q 'weak scaling' "$folder/study/scaling.svg"
  grep -q '10 Gbit/s' "$folder/study/scaling.svg"
  grep -qE '^ +2 +1 .* 100\.0% +100\.0%$' "$folder/job.log"
}
