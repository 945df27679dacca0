#!/usr/bin/env bats
# SPDX-License-Identifier: Apache-2.0
# Joining without PMIx on a real two-node Slurm: Slurm's variables with TCP and MUNGE, RANK and WORLD_SIZE
# with a key, and peers that must not get in.
load setup

setup_file() { lab_up --nodes 2 --gpus 0 --etc <(echo MpiParams=ports=12000-12099); }
teardown_file() { lab_down; }

program() { echo "$MUSTER_BUILD/bin/joining_ranks"; }
# ranks OPTIONS -- WHAT: runs four ranks on two nodes without PMIx.
ranks() {
  local options=()
  while [[ $1 != -- ]]; do options+=("$1") && shift; done
  shift
  together 4
  lab exec env MUSTER_LOG="${MUSTER_LOG-}" srun -N2 -n4 --overcommit --mpi=none --kill-on-bad-exit=0 "${options[@]}" "$(program)" "$@"
}
job_lines() { grep -E '^joining_ranks: ' <<<"$output"; }
# one_line_from HOST...: the job printed one line from each of these hosts, and no other line.
one_line_from() {
  local host
  [ "$(job_lines | wc -l)" = $# ] || { echo "not $# lines: $output"; return 1; }
  for host; do [ "$(job_lines | grep -cE "(rank [0-9]+ \\(host $host\\) cannot meet|on host $host MUNGE cannot|MUNGE works on host $host:)")" = 1 ] || { echo "not one line from $host: $output"; return 1; }; done
}

@test "four ranks on two nodes join without PMIx" {
  run -0 ranks --
  [[ "$output" == *"joined through slurm: 4 ranks on 2 hosts"* ]]
}

@test "the trace has a line for each bootstrap method, and the port is one that the step reserved" {
  MUSTER_LOG=debug run -0 ranks --resv-ports=2 --
  [[ "$output" == *"join: PMIx: no server"* ]]
  [[ "$output" == *"rank 0 on n0, reserved port 120"* ]]
  [[ "$output" == *"join: slurm: MUNGE authenticates"* ]]
  [[ "$output" == *"joined through slurm: 4 ranks on 2 hosts"* ]]
}

# traced PATTERN: a line of the trace matches PATTERN.
traced() { grep -E "^muster: rank [0-9?]+: [+][0-9.]+ ms join: $1\$" <<<"$output" >/dev/null || { echo "no line 'join: $1' in: $output"; return 1; }; }
# times N TEXT: N lines of the trace contain TEXT.
times() { [ "$(grep -cF "$2" <<<"$output")" = "$1" ] || { echo "not $1 times '$2' in: $output"; return 1; }; }

@test "the trace of a join through PMIx names no other bootstrap method" {
  needs_pmix
  run -0 lab exec env MUSTER_LOG=debug srun -N2 -n4 --overcommit --mpi=pmix "$(program)"
  traced 'PMIx: connected to slurm\.pmix\.[0-9.]+, 4 ranks'
  times 4 'join: PMIx: connected to slurm.pmix.'
  times 4 'join: PMIx: 4 hellos read'
  times 0 'join: Slurm: '
  times 0 'join: RANK'
  times 0 'join: alone'
  [[ "$output" == *"joined through pmix: 4 ranks on 2 hosts"* ]]
}

@test "the trace of a single rank has a line for each bootstrap method that does not apply" {
  # In the order in which the bootstrap methods are tried.
  run -0 lab exec env MUSTER_LOG=debug srun -N1 -n1 --mpi=none "$(program)"
  [ "$(sed -nE 's/^muster: rank [?]: [+][0-9.]+ ms join: (PMIx|Slurm|address|alone)/\1/p' <<<"$output")" = "PMIx: no server (PMIX_NAMESPACE is not set)
Slurm: no step of several tasks (SLURM_STEP_NUM_TASKS)
address: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT: not all set, or one rank
alone" ]
  [[ "$output" == *"joined through alone: 1 ranks on 1 hosts"* ]]
}

# shifted SECONDS OPTION...: the same ranks; the clock of those on n1 is that far ahead.
shifted() {
  # shellcheck disable=SC2016 # the inner shell expands it
  lab exec env SHIFTED_CLOCK_SECONDS="$1" srun -N2 -n4 --overcommit "${@:2}" bash -c \
    '[ "$SLURMD_NODENAME" = n0 ] || export LD_PRELOAD='"$MUSTER_BUILD"'/lib/shifted_clock.so; exec '"$(program)"
}

@test "a host with a wrong clock is named with its ranks and the difference, and the job goes on" {
  local how
  for how in $LAB_MPI none; do
    run -0 shifted 7 --mpi=$how
    times 1 'the clock of the host of'
    # The difference is measured once, and a busy machine may delay the answer.
    [[ "$output" =~ "the clock of the host of rank 2 (host n1) is "(6\.[5-9]|7\.[0-5])" s ahead of the other host's" ]]
    [[ "$output" == *"start chrony or ntpd there"* ]]
    [[ "$output" == *": 4 ranks on 2 hosts"* ]]
  done
  run -0 shifted -3600 --mpi="$LAB_MPI"
  [[ "$output" =~ "is "(3599\.[5-9]|3600\.[0-5])" s behind the other host's" ]]
  run -0 shifted 0 --mpi="$LAB_MPI"
  times 0 'the clock of the host of'
}

@test "ranks with a cyclic distribution join" {
  run -0 ranks --distribution=cyclic --
  [[ "$output" == *"joined through slurm: 4 ranks on 2 hosts"* ]]
}

@test "parallel jobs do not mix, even on the same ports" {
  for i in 1 2 3; do ranks -- slowly >"$BATS_TEST_TMPDIR/out.$i" 2>&1 & done
  wait
  [ "$(cat "$BATS_TEST_TMPDIR"/out.* | grep -c 'joined through slurm: 4 ranks on 2 hosts')" = 3 ]
  # Two steps with the same ports in one allocation: the second finds the first one's port in use.
  run -0 lab exec salloc --quiet -N2 -n4 --overcommit bash -c "
    for i in 1 2; do
      srun -N2 -n4 --overlap --overcommit --mpi=none bash -c 'SLURM_STEP_RESV_PORTS=12090-12093 exec $(program) slowly' &
      pids+=(\$!)
    done
    wait \${pids[0]} && wait \${pids[1]}"
  [ "$(grep -c 'joined through slurm: 4 ranks on 2 hosts' <<<"$output")" = 2 ]
}

@test "a rank that never joins is named with its host and process, in one line for the job" {
  searched ranks -- absent:3
  [ "$status" = 75 ]
  [ "$(job_lines | wc -l)" = 1 ]
  [[ "$(job_lines)" =~ "1 of 4 ranks missing after 2 s: rank 3 (host n1) started (pid "[0-9]+", joining_ranks) but sent no hello" ]]
}

@test "with PMIx, a rank that cannot listen is named at once" {
  needs_pmix
  local rank
  for rank in 0 3; do
    run lab exec srun -N2 -n4 --overcommit --mpi=pmix --kill-on-bad-exit=0 "$(program)" deaf:$rank
    [ "$status" = 71 ]
    [ "$(job_lines | wc -l)" = 1 ]
    [[ "$(job_lines)" == *": rank $rank (host n"*") cannot listen for the other ranks: Too many open files" ]]
  done
}

@test "when rank 0 never joins, one rank of each host reports it" {
  run ranks -- absent:0
  [ "$status" = 75 ]
  one_line_from n0 n1
  [[ "$(job_lines)" =~ "rank 1 (host n0) cannot meet rank 0 within 2 s".*"rank 0 (host n0) started (pid "[0-9]+", joining_ranks) but sent no hello" ]]
  for absent in 0,1 0,1,2; do
    run ranks -- absent:$absent
    [ "$status" = 75 ]
    one_line_from n1
    [[ "$(job_lines)" =~ "cannot meet rank 0 within 2 s".*"rank 0 (host n0) sent no hello" ]]
  done
  # Also if the step ends with its first process.
  run ranks --kill-on-bad-exit=1 -- absent:0,1
  one_line_from n1
}

@test "when a host's leader is stopped, the host's other ranks meet rank 0 without it, and it is named" {
  searched ranks --kill-on-bad-exit=1 -- absent:none stopped:2
  [ "$(job_lines | wc -l)" = 1 ]
  [[ "$(job_lines)" =~ "1 of 4 ranks missing after 2 s: rank 2 (host n1) started (pid "[0-9]+", joining_ranks) but sent no hello" ]]
}

@test "the line distinguishes a rank that ended before it joined from a stuck one" {
  searched ranks -- ended:3
  [ "$status" = 75 ]
  [ "$(job_lines | wc -l)" = 1 ]
  [[ "$(job_lines)" == *"1 of 4 ranks missing after 2 s: rank 3 (host n1) has no process there any more: it ended without a hello" ]]
}

@test "with PMIx too, one line for the job names the missing ranks and their progress" {
  needs_pmix
  searched ranks --mpi=pmix -- absent:1,3
  [ "$(job_lines | wc -l)" = 1 ]
  [[ "$(job_lines)" =~ "2 of 4 ranks missing after 2 s: rank 1 (host n0) started (pid "[0-9]+", joining_ranks) but sent no hello; rank 3 (host n1) started (pid "[0-9]+", joining_ranks) but sent no hello" ]]
  searched ranks --mpi=pmix -- ended:3
  [ "$(job_lines | wc -l)" = 1 ]
  [[ "$(job_lines)" == *"rank 3 (host n1) has no process there any more: it ended without a hello" ]]
}

# without_munge NODE KILL WHAT: four ranks on two nodes without MUNGE on NODE; KILL: whether the step ends with its
# first process.
without_munge() {
  together 4
  run lab exec srun -N2 -n4 --overcommit --mpi=none --kill-on-bad-exit="$2" \
    bash -c '[ "$SLURM_NODEID" != '"$1"' ] || export MUSTER_MUNGE_LIBRARY=/nonexistent.so; exec '"$(program) $3"
  [ "$status" != 0 ]
}

@test "when MUNGE is missing on one node only, one rank of that node reports it" {
  for node in 0 1; do
    without_munge $node 1 ""
    # Slurm may kill rank 0 some time before another rank, which then says so.
    output=$(grep -v 'cannot meet rank 0 within 100 s: it ended or broke the connection' <<<"$output")
    one_line_from n$node
    [[ "$(job_lines)" == *"MUNGE cannot authenticate them ("*/nonexistent.so*"start munged on every node"* ]]
  done
  # Where the step goes on, the ranks of the other node report at the deadline that the ranks are missing.
  without_munge 0 0 briefly
  one_line_from n0 n1
}

@test "the components of a heterogeneous step join without PMIx, for any node names" {
  run -0 lab exec srun --mpi=none -w n1 -n1 "$(program)" : -w n0 -n2 --overcommit "$(program)"
  [[ "$output" == *"joined through slurm: 3 ranks on 2 hosts"* ]]
  run -0 lab exec salloc --quiet -N2 -n4 --overcommit srun --mpi=none -w n1 -N1 -n1 "$(program)" : -w n0 -N1 -n2 --overcommit "$(program)"
  [[ "$output" == *"joined through slurm: 3 ranks on 2 hosts"* ]]
}

@test "torchrun's ranks on one host need no key, for any MASTER_ADDR of the host" {
  script="for r in 0 1; do RANK=\$r LOCAL_RANK=\$r WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=\$(hostname) MASTER_PORT=23456 TORCHELASTIC_RUN_ID=7 $(program) & pids+=(\$!); done; wait \${pids[0]} && wait \${pids[1]}"
  run -0 lab exec srun -N1 -n1 --mpi=none bash -c "$script"
  [[ "$output" == *"joined through address: 2 ranks on 1 hosts"* ]]
}

@test "a rank that is killed after the join is named in one line for the job" {
  # The program may be asleep when it happens: then Muster prints the line.
  job_lines() { grep -E '^(joining_ranks|muster): ' <<<"$output"; }
  run ranks -- killed
  [ "$status" != 0 ]
  [ "$(job_lines | wc -l)" = 1 ]
  [[ "$(job_lines)" =~ "rank 3 (host n1), pid "[0-9]+", "$(killed_by_9)", while running" ]]
}

@test "without MUNGE the job names what is missing, and joins with a user's key" {
  run ranks --export=ALL,MUSTER_MUNGE_LIBRARY=/nonexistent.so --
  [ "$status" != 0 ]
  one_line_from n0 n1
  [[ "$(job_lines)" == *"MUNGE cannot authenticate"*/nonexistent.so*"--mpi=pmix"* ]]
  run -0 ranks --export=ALL,MUSTER_MUNGE_LIBRARY=/nonexistent.so,MUSTER_KEY=9b1f04d2c7e85a36f20d8e4b7159ac63 --
  [[ "$output" == *"joined through slurm: 4 ranks on 2 hosts"* ]]
  run ranks --export=ALL,MUSTER_MUNGE_LIBRARY=/nonexistent.so,MUSTER_KEY=short --
  [ "$(job_lines | wc -l)" = 1 ]
  [[ "$(job_lines)" == *"MUSTER_KEY has 5 characters"* ]]
}

@test "on one node the kernel authenticates instead of MUNGE" {
  run -0 lab exec srun -N1 -n2 --overcommit --mpi=none --export=ALL,MUSTER_MUNGE_LIBRARY=/nonexistent.so "$(program)"
  [[ "$output" == *"joined through slurm: 2 ranks on 1 hosts"* ]]
}

@test "peers that send garbage, another user's credential, or a replayed one are rejected and do no harm" {
  # shellcheck disable=SC2016 # the inner shell expands it
  run -0 lab exec salloc --quiet -N2 -n4 --overcommit srun -N2 -n4 --overlap --overcommit --mpi=none --kill-on-bad-exit=0 \
    env MUSTER_LOG=debug SLURM_STEP_RESV_PORTS=12080 bash -c \
    'if [ "$SLURM_PROCID" = 3 ]; then python3 '"$REPOSITORY"'/tests/cluster/join_strangers.py n0 12080; fi; exec '"$(program)"
  [[ "$output" == *"joined through slurm: 4 ranks on 2 hosts"* ]]
  [[ "$output" == *"refused: the credential is of user 65534"* ]]
  [[ "$output" == *"refused: MUNGE: Replayed credential"* ]]
  [[ "$output" == *"refused: it belongs to another job"* ]]
  [[ "$output" == *"strangers: 5 of 5 cut off"* ]]
}

@test "a port scan, replayed handshakes and a flood of half-open connections during a join do no harm" {
  # Rank 1 starts the scanner when rank 2 has sent its hello; rank 3 joins when all attacks are running,
  # however long a busy machine takes.
  local file=$BATS_TEST_TMPDIR
  lab node n0 python3 "$REPOSITORY/tests/cluster/join_listener.py" n0 n1 "$file/ready" "$file/said" 3>&- &
  wait_until '[ -e "$file/ready" ]'
  # shellcheck disable=SC2016 # the inner shell expands it
  run -0 lab exec srun -N2 -n4 --overcommit --mpi=none --kill-on-bad-exit=0 \
    env TORCHELASTIC_RUN_ID=7 MUSTER_KEY=9b1f04d2c7e85a36f20d8e4b7159ac63 MASTER_ADDR=n0 MASTER_PORT=12069 WORLD_SIZE=4 SHARED="$file" bash -c '
      export RANK=$SLURM_PROCID
      '"$(declare -f wait_until)"'
      scan() {
        wait_until "grep -q \"hello sent\" \"$SHARED/rank2\" 2>/dev/null"
        touch "$SHARED/said"
        wait_until "[ -s \"$SHARED/said\" ]"
        exec python3 '"$REPOSITORY"'/tests/cluster/join_scanner.py n0 12070 "$SHARED/said" "$SHARED/scanned"
      }
      case $RANK in
        1) scan & scanner=$! ;;
        2) export MUSTER_LOG=debug; exec 2>"$SHARED/rank2" ;;
        3) wait_until "[ -e \"$SHARED/scanned\" ]" ;;
      esac
      '"$(program)"'
      status=$?
      [ -z "${scanner-}" ] || kill "$scanner" 2>/dev/null
      exit $status'
  [[ "$output" == *"scanner: True 5 of 5 replays cut off, 600 connections held"* ]]
  [[ "$output" == *"joined through address: 4 ranks on 2 hosts"* ]]
}

# listening NODE: prints the ports on which the node's joining_ranks listen, one per line. They inherit one of
# slurmstepd's.
listening() { lab node "$1" ss -Hltnp | sed -nE '/"slurmstepd"/d; s/^[^ ]+ +[0-9]+ +[0-9]+ +[^ ]*:([0-9]+) .*"joining_ranks".*/\1/p'; }

@test "a port scan, replayed handshakes and a flood at the port of a running job that joined through PMIx do no harm" {
  needs_pmix
  local listener job port file=$BATS_TEST_TMPDIR
  lab node n0 python3 "$REPOSITORY/tests/cluster/join_listener.py" n0 n1 "$file/ready" "$file/said" >"$file/heard" 3>&- &
  listener=$!
  wait_until '[ -e "$file/ready" ]'
  lab exec srun -N2 -n4 --overcommit --mpi=pmix --kill-on-bad-exit=0 env MUSTER_LOG=debug "$(program)" "until:$file/scanned" >"$file/job" 2>&1 3>&- &
  job=$!
  wait_until 'grep -q "^joined through pmix: 4 ranks on 2 hosts" "$file/job"'
  # Rank 0 listens on one port. Each rank has another one for the time after a loss, on which nothing is accepted until then.
  # The line comes from another rank than the one above.
  wait_until 'port=$(sed -nE "s/.*connected to the leader at .* port ([0-9]+)\$/\1/p" "$file/job") && [ -n "$port" ]'
  [[ $port =~ ^[0-9]+$ ]]
  listening n0 | grep -qx "$port"
  [ "$(listening n0 | wc -l)" = 3 ]
  [ "$(listening n1 | wc -l)" = 2 ]
  touch "$file/said"
  wait "$listener"
  # During the flood the ranks run 100 more barriers, then leave; then nothing listens, and the scanner ends.
  run -0 lab node n1 python3 "$REPOSITORY/tests/cluster/join_scanner.py" n0 "$port" "$file/said" "$file/scanned"
  [[ "$output" == *"scanner: True 5 of 5 replays cut off, 600 connections held"* ]]
  wait "$job"
  [ "$(grep -c "^joined through pmix: 4 ranks on 2 hosts$" "$file/job")" = 1 ]
}

@test "the traffic between two nodes during a join has no host name, hello or key in plain text" {
  local words=(overheard-host hello 9b1f04d2c7e85a36f20d8e4b7159ac63 joining_ranks meet 10.66.0.1)
  lab node n0 python3 "$REPOSITORY/tests/cluster/join_listener.py" n0 n1 "$BATS_TEST_TMPDIR/ready" "$BATS_TEST_TMPDIR/stop" "${words[@]}" \
    >"$BATS_TEST_TMPDIR/heard" 3>&- &
  wait_until '[ -e "$BATS_TEST_TMPDIR/ready" ]'
  # Host names so long that they do not occur in encrypted bytes by chance.
  # shellcheck disable=SC2016 # the inner shell expands it
  run -0 lab exec srun -N2 -n4 --overcommit --mpi=none env TORCHELASTIC_RUN_ID=7 MUSTER_KEY=9b1f04d2c7e85a36f20d8e4b7159ac63 MASTER_ADDR=n0 MASTER_PORT=12069 \
    WORLD_SIZE=4 MUSTER_LOG=debug unshare --uts bash -c 'hostname overheard-host-$SLURM_NODEID; RANK=$SLURM_PROCID exec '"$(program)"
  [[ "$output" == *"joined through address: 4 ranks on 2 hosts"* ]]
  [[ "$output" == *"rank 2 (host overheard-host-1)"* ]]
  touch "$BATS_TEST_TMPDIR/stop"
  wait
  cat "$BATS_TEST_TMPDIR/heard"
  [[ "$(cat "$BATS_TEST_TMPDIR/heard")" =~ ^"listener: "[0-9]{4,}" bytes, greeting: True, plain text: none"$ ]]
}

# heard_on_n1 WORD... -- OPTION...: which of the words pass through n1's network interface, slurmd's traffic included, while four ranks join.
heard_on_n1() {
  local words=()
  while [ "$1" != -- ]; do words+=("$1") && shift; done
  shift
  rm -f "$BATS_TEST_TMPDIR"/{ready,stop}
  lab node n1 python3 "$REPOSITORY/tests/cluster/join_listener.py" n1 all "$BATS_TEST_TMPDIR/ready" "$BATS_TEST_TMPDIR/stop" "${words[@]}" \
    >"$BATS_TEST_TMPDIR/heard" 3>&- &
  wait_until '[ -e "$BATS_TEST_TMPDIR/ready" ]'
  run -0 lab exec srun -N2 -n4 --overcommit "$@" "$(program)"
  [[ "$output" == *": 4 ranks on 2 hosts"* ]]
  touch "$BATS_TEST_TMPDIR/stop"
  wait
  sed 's/.*plain text: //' "$BATS_TEST_TMPDIR/heard"
}

@test "on no path from srun to the last rank is a key in plain text" {
  local key=9b1f04d2c7e85a36f20d8e4b7159ac63 file=$BATS_TEST_TMPDIR/key
  (umask 077 && echo $key >"$file")
  # What srun sends to slurmd is heard, so the listener would hear the key.
  [ "$(heard_on_n1 $key -- --mpi=none --export=ALL,MUSTER_KEY=$key)" = $key ]
  [ "$(heard_on_n1 $key -- --mpi=none --export=ALL,MUSTER_KEY_FILE="$file")" = none ]
  # So it is without MUNGE, and with PMIx.
  [ "$(heard_on_n1 $key -- --mpi=none --export=ALL,MUSTER_MUNGE_LIBRARY=none,MUSTER_KEY_FILE="$file")" = none ]
  needs_pmix
  [ "$(heard_on_n1 $key -- --mpi=pmix --export=ALL,MUSTER_KEY_FILE="$file")" = none ]
}

@test "with PMIx, MUNGE or the user's key seals the job's key, and a rank that cannot open it says so" {
  needs_pmix
  # In CBOR: no timeline, no error, its code, then 33 bytes, the first of which says that the key is not sealed.
  local unsealed=hex:f46005582100 file=$BATS_TEST_TMPDIR/key
  (umask 077 && echo 9b1f04d2c7e85a36f20d8e4b7159ac63 >"$file")
  [ "$(heard_on_n1 $unsealed -- --mpi=pmix --export=ALL,MUSTER_MUNGE_LIBRARY=none)" = $unsealed ]
  [ "$(heard_on_n1 $unsealed -- --mpi=pmix)" = none ]
  [ "$(heard_on_n1 $unsealed -- --mpi=pmix --export=ALL,MUSTER_MUNGE_LIBRARY=none,MUSTER_KEY_FILE="$file")" = none ]
  # shellcheck disable=SC2016 # the inner shell expands it
  run lab exec srun -N2 -n4 --overcommit --mpi=pmix --kill-on-bad-exit=1 bash -c \
    '[ "$SLURM_NODEID" = 0 ] || export MUSTER_MUNGE_LIBRARY=none; exec '"$(program)"
  [ "$status" != 0 ]
  one_line_from n1
  [[ "$(job_lines)" == *"MUNGE cannot open the job's key ("*"start munged on every node"* ]]
  # Nor does a rank take an unsealed key where its own MUNGE works: anyone could have put it there.
  # shellcheck disable=SC2016 # the inner shell expands it
  run lab exec srun -N2 -n4 --overcommit --mpi=pmix --kill-on-bad-exit=1 bash -c \
    '[ "$SLURM_NODEID" = 1 ] || exec unshare --mount bash -c "mount -t tmpfs none /run/munge && exec '"$(program)"'"; exec '"$(program)"
  [ "$status" != 0 ]
  one_line_from n1
  [[ "$(job_lines)" == *"rank 0 sent the job's key unsealed, but MUNGE works on host n1: start munged on rank 0's host"* ]]
  [[ "$output" == *"muster: warning: join: on host n0 MUNGE cannot seal the job's key (MUNGE: "*"in plain text"* ]]
  # On one node the key stays there.
  # shellcheck disable=SC2016 # the inner shell expands it
  run -0 lab exec srun -N1 -n2 --overcommit --mpi=pmix unshare --mount bash -c "mount -t tmpfs none /run/munge && exec $(program)"
  [[ "$output" == *": 2 ranks on 1 hosts"* ]]
  [[ "$output" != *"warning"* ]]
}

@test "a plain script over two nodes joins with RANK, WORLD_SIZE, MASTER_ADDR and a key" {
  script="for r in 0 1; do RANK=\$((2 * SLURM_NODEID + r)) LOCAL_RANK=\$r WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 MASTER_ADDR=n0 MASTER_PORT=23456 $(program) & pids+=(\$!); done; wait \${pids[0]} && wait \${pids[1]}"
  run -0 lab exec srun -N2 --ntasks-per-node=1 --mpi=none env MUSTER_JOIN=address MUSTER_KEY=9b1f04d2c7e85a36f20d8e4b7159ac63 bash -c "$script"
  [[ "$output" == *"joined through address: 4 ranks on 2 hosts"* ]]
  # Under torchrun no option is needed, and the trace shows that and each rank's number.
  run -0 lab exec srun -N2 --ntasks-per-node=1 --mpi=none env MUSTER_LOG=debug TORCHELASTIC_RUN_ID=7 MUSTER_KEY=9b1f04d2c7e85a36f20d8e4b7159ac63 bash -c "$script"
  [[ "$output" == *"joined through address: 4 ranks on 2 hosts"* ]]
  times 4 'join: PMIx, Slurm: passed over, torchrun started this process'
  for rank in 0 1 2 3; do traced "address: RANK=$rank, WORLD_SIZE=4 and MASTER_ADDR=n0, rank 0's port [0-9]+"; done
  # An error: RANK and Slurm's rank disagree.
  run lab exec srun -N2 --ntasks-per-node=1 --mpi=none env MUSTER_KEY=9b1f04d2c7e85a36f20d8e4b7159ac63 bash -c "$script"
  [ "$status" != 0 ]
  [[ "$output" == *"RANK=0 and WORLD_SIZE=4 but the launcher made this process rank 0 of 2"* ]]
  # Rank 0 reports a rank with a different key.
  together 2
  # shellcheck disable=SC2016 # the inner shell expands it
  run lab exec srun -N2 -n2 --mpi=none --kill-on-bad-exit=0 env TORCHELASTIC_RUN_ID=7 MASTER_ADDR=n0 MASTER_PORT=23458 WORLD_SIZE=2 bash -c \
    'export RANK=$SLURM_PROCID MUSTER_KEY=9b1f04d2c7e85a36f20d8e4b7159ac63; [ $RANK = 0 ] || export MUSTER_KEY=3e7a90c1d5462bf88f61b02d9ce4a573; exec '"$(program) briefly"
  [ "$status" != 0 ]
  [[ "$(job_lines)" == *"1 of 2 ranks missing after 2 s: rank 1 "*"a connection that claimed to be it was refused because it did not prove that it has this job's key: if it was that rank's, give every rank the same MUSTER_KEY"* ]]
  # Across hosts a key is always required.
  run lab exec srun -N2 --ntasks-per-node=1 --mpi=none env TORCHELASTIC_RUN_ID=7 bash -c "$script"
  [ "$status" != 0 ]
  [ "$(job_lines | wc -l)" = 1 ]
  [[ "$(job_lines)" == *"MUSTER_KEY is not set"* ]]
}
