// SPDX-License-Identifier: Apache-2.0
#include "save_violations.hpp"

#include <algorithm>

#include "verdict.hpp"

namespace simulator {
namespace {

class SaveVerdict : private Verdict {
 public:
  explicit SaveVerdict(const JobResult& result) : Verdict(result) {}

  std::vector<std::string> find() {
    for (std::size_t r = 0; r < result_.ranks.size(); ++r) {
      const auto& rank = result_.ranks[r];
      for (const auto& stay : rank.stays) check_stay(r, stay, &stay == &rank.stays.back());
      if (result_.saves) check_rank(r);
    }
    return std::move(violations_);
  }

 private:
  static std::size_t count_saves(const RankEnd& rank) {
    std::size_t saves = 0;
    for (const auto& stay : rank.stays) saves += stay.saves.size();
    return saves;
  }

  // Once for each loss, before the call throws it.
  void check_stay(std::size_t r, const Stay& stay, bool is_last) {
    const auto& rank = result_.ranks[r];
    if (stay.overlooked_failure) add("a call of rank {} went on although the job had failed", r);
    if (stay.saves.size() > 1) add("rank {} saved {} times in one job", r, stay.saves.size());
    for (const auto& save : stay.saves) {
      if (!save.on_program_thread) add("rank {} saved on another thread than its program's", r);
      if (stay.loss && save.when > stay.loss->when) add("rank {} saved after its call had thrown", r);
      if (stay.loss && save.what != stay.loss->what)
        add("rank {} saved after '{}', and its call threw '{}'", r, save.what, stay.loss->what);
    }
    if (stay.loss && stay.saves.empty() && stay.registered)
      add("rank {} did not save before its call threw: {}", r, stay.loss->what);
    bool const may_have_ended = is_last && !rank.returned;  // before the call could throw
    if (!stay.loss && !stay.saves.empty() && !may_have_ended) add("rank {} saved and went on", r);
  }

  // By the faults of the job.
  void check_rank(std::size_t r) {
    const auto& rank = result_.ranks[r];
    auto const saves = count_saves(rank);
    auto const& faults = result_.faults;
    bool const has_loss = std::any_of(faults.begin(), faults.end(), loses_rank);
    if (saves > 0 && !has_loss) add("rank {} saved, and no rank was lost", r);
    // It is cut off: for it, the others are lost.
    bool const sees_loss = faults.size() > 1 || facts_.is_cut_off(r);
    if (saves > 0 && facts_.is_culprit(r) && !sees_loss) add("rank {} saved, and is lost itself", r);
    if (rank.ended_by_library && !rank.stays.empty() && !rank.stays.back().saves.empty())
      add("the library ended rank {}, which saved", r);
    bool const survives = rank.returned && !facts_.is_culprit(r) && !result_.grows;
    // A call's deadline may pass before a silence is noticed.
    bool const one_loss = faults.size() == 1 && has_loss && !is_silent(faults.front().kind);
    if (survives && saves != 1 && one_loss && rank.exit_code == 75)
      add("rank {} saved {} times after one loss", r, saves);
    bool const went_on = rank.exit_code == 0 && rank.stays.size() > 1;
    if (survives && saves == 0 && went_on) add("rank {} went on after a loss and did not save", r);
  }

  static bool loses_rank(const Fault& fault) {
    return !is_of_program(fault.kind) && fault.kind != FaultKind::absent;
  }
};

}  // namespace

std::vector<std::string> find_save_violations(const JobResult& result) { return SaveVerdict(result).find(); }

}  // namespace simulator
