// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "records.hpp"
#include "simulator.hpp"

namespace simulator {

enum class FaultKind {
  killed,     ///< the process of a rank is killed
  stopped,    ///< the process of a rank is stopped
  exits,      ///< the program ends by exit(0) and leaves the job without a word
  throws,     ///< the program ends by an exception of its own
  computes,   ///< the program computes for longer than the others wait
  skips,      ///< the program leaves out a call that the others make
  differs,    ///< the program makes a call of a communicator with another count
  host_down,  ///< a host loses its power
  link_down,  ///< a host loses its network
  absent,     ///< a process that is invited to a job that grows does not come
  leaves,     ///< the program leaves the job before the calls that the others still make
};

inline constexpr int fault_kinds = 11;
std::string name_of(FaultKind kind);
/// The others notice it by missing heartbeats.
bool is_silent(FaultKind kind);
/// Caused by a call that the program makes, leaves out or makes late.
bool is_of_program(FaultKind kind);

/// What becomes of the ranks that are left when one is lost.
enum class AfterLoss {
  end,       ///< each ends by itself
  shrink,    ///< they go on as a smaller job (JoinOptions::tolerate_rank_loss)
  launcher,  ///< the launcher kills them, a while after the first exit with another code than 0
};

inline constexpr int after_loss_kinds = 3;
std::string name_of(AfterLoss after_loss);

/// Of a growth.
enum class GrowMoment {
  begins,    ///< the first rank calls grow()
  connects,  ///< rank 0 has the records of all
  votes,     ///< the first rank knows that all have connected
};

struct Fault {
  FaultKind kind;
  Duration when;              ///< since the start; in a job that grows, since `moment`, until it comes
  int rank;                   ///< of a host: its lowest
  std::vector<int> culprits;  ///< the ranks of which the job's line may name one
  GrowMoment moment{};        ///< in a job that grows
};

struct JobOptions {
  std::uint64_t seed = 0;
  int ranks = 0;                     ///< 0: 2 to 24, by the seed
  std::optional<int> fault_count{};  ///< empty: 0 to 2, by the seed
  std::optional<FaultKind> kind{};   ///< empty: any, by the seed
  std::optional<AfterLoss> after_loss{};
  bool grow = false;   ///< the job grows, and goes on after a loss; the faults come meanwhile
  bool plain = false;  ///< without stall warnings and on_rank_lost()
};

/// The process of rank N has the pid first_pid + N.
inline constexpr int first_pid = 1000;
/// Elements of each all_reduce, and of one that differs.
inline constexpr std::size_t right_count = 8;
inline constexpr std::size_t wrong_count = 7;
/// Of each Job::shrink().
inline constexpr Duration shrink_deadline = std::chrono::seconds(20);

/// That a rank printed.
struct Warning {
  Duration when;  ///< since the start
  std::string text;
};

struct RankEnd {
  bool ended = false;  ///< false: it still ran at the end of the simulation
  int exit_code = 0;
  Duration when{};  ///< since the start
  std::vector<std::string> lines;
  std::vector<Warning> warnings;
  bool returned = false;          ///< its program has
  bool ended_by_library = false;  ///< its program did not call Muster
  std::optional<Duration> stopped;
  std::vector<Stay> stays;             ///< in the order of its sessions
  bool turned_away = false;            ///< the next loss came before it was connected to the smaller job
  std::vector<int> members;            ///< of the last job that it was in; ranks of the start
  std::optional<Duration> grow_ended;  ///< when its call of grow() ended
  bool has_grown = false;              ///< it was in the grown job
};

struct JobResult {
  AfterLoss after_loss = AfterLoss::end;
  std::optional<Duration> launcher_kills;  ///< when the launcher killed the ranks that were left
  int hosts = 0;
  std::vector<int> host_of;
  Duration slow_network{};  ///< greatest latency between hosts
  std::vector<Fault> faults;
  std::vector<RankEnd> ranks;
  int first_ranks = 0;  ///< those of the start; the others are new processes of a job that grows
  bool grows = false;
  Duration grow_began{};  ///< when the last rank called grow()
  Duration last_call{};   ///< when the first rank began the last barrier; zero if none did
  std::vector<SessionRecord> sessions;
  std::chrono::milliseconds stall_warning{0};
  bool calls_again = false;  ///< after a loss the programs make another call
  bool saves = false;        ///< the programs call on_rank_lost()
  Duration longest_save{};   ///< that a rank's function takes
  Duration save_deadline{};
};

/// Runs one job of real control planes in simulated time. The seed decides its hosts, its program, its faults
/// and the order of all events.
JobResult run_job(const JobOptions& options);

/// What the job should not have done, a line each; empty: nothing. The rules of docs/failures.md.
std::vector<std::string> find_violations(const JobResult& result);

/// The job, its faults and the ends of its ranks, for a reader.
std::string describe(const JobResult& result);

}  // namespace simulator
