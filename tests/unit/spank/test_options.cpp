// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>

#include "catch.hpp"
#include "options.hpp"

using namespace muster::spank;

namespace {

std::string refusal(const std::string& list) {
  try {
    parse_words(list);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

StepOptions options_for(const char* list, const std::vector<std::string_view>& arguments = {}) {
  return resolve(list == nullptr ? std::nullopt : std::optional(parse_words(list)),
                 parse_settings(arguments));
}

}  // namespace

TEST_CASE("An option without words requests placement with all defaults") {
  for (const char* list : {"", "(null)"}) {
    const StepOptions options = options_for(list);
    CHECK(options.mode == Mode::automatic);
    CHECK(options.explicitly_requested);
    CHECK((options.parts.gpu && options.parts.cpu && options.parts.nic && options.parts.env));
    CHECK(options.parts.memory == MemoryPolicy::prefer);
    CHECK_FALSE((options.report || options.explain || options.json));
    CHECK(options.tasks_per_gpu == 0);
  }
}

TEST_CASE("Each word sets its option, in any order") {
  const StepOptions options = options_for("report,nic=off,memory=bind,cpu=off,auto");
  CHECK(options.mode == Mode::automatic);
  CHECK(
      (options.report && !options.parts.nic && !options.parts.cpu && options.parts.gpu && options.parts.env));
  CHECK(options.parts.memory == MemoryPolicy::bind);
  CHECK(options_for("strict").mode == Mode::strict);
  CHECK(options_for("off").mode == Mode::off);
  CHECK_FALSE(options_for("gpu=off").parts.gpu);
  CHECK(options_for("memory=off").parts.memory == MemoryPolicy::off);
  CHECK(options_for("memory=prefer").parts.memory == MemoryPolicy::prefer);
  CHECK(options_for("explain").explain);
  CHECK(options_for("json").json == "");
  CHECK(options_for("json=/tmp/a=b.json").json == "/tmp/a=b.json");
  CHECK(options_for("tasks-per-gpu=4").tasks_per_gpu == 4);
  CHECK(options_for("report,report,cpu=off,cpu=off").report);
}

TEST_CASE("When env is off, the gpu and nic parts are off too") {
  const EnabledParts parts = options_for("env=off").parts;
  CHECK_FALSE((parts.env || parts.gpu || parts.nic));
  CHECK(parts.cpu);
}

TEST_CASE("For an unknown word, one line names it and the possible words") {
  CHECK(refusal("auto,fastest").find("'fastest' is not known: use auto, strict, off, gpu=") == 0);
  CHECK(refusal("cpu=maybe") == "'cpu=maybe' is not known: use cpu=on or cpu=off");
  CHECK(refusal("memory=on") == "'memory=on' is not known: use memory=prefer, memory=bind or memory=off");
  for (const char* list : {"tasks-per-gpu=0", "tasks-per-gpu=-1", "tasks-per-gpu=two", "tasks-per-gpu",
                           "tasks-per-gpu=1025", "tasks-per-gpu=2x"})
    CHECK(refusal(list).find("' is not known: use tasks-per-gpu=K with K from 1 to 1024") !=
          std::string::npos);
  for (const char* list : {"Auto", "on", "auto ", " auto", "reports", "1", "auto,", ",auto", "auto,,report",
                           "report=yes", "json=", "cpu", "auto=on", "memory", "report\nx"}) {
    CHECK(refusal(list).find("is not known: use ") != std::string::npos);
    CHECK(refusal(list).find('\n') == std::string::npos);
  }
}

TEST_CASE("However long a word is, its error stays one line") {
  CHECK(refusal(std::string(1 << 20, 'x').c_str()).size() < 400);
}

TEST_CASE("The user or the administrator sets which GPUs CUDA shows and whether ranks are set") {
  CHECK_FALSE(resolve(parse_words("auto"), {}).visible);
  CHECK(resolve(parse_words("visible=own"), {}).visible == Visible::own);
  CHECK(resolve(parse_words("visible=node"), parse_settings({"default=auto,visible=own"})).visible ==
        Visible::node);
  CHECK(resolve(parse_words("auto"), parse_settings({"default=auto,visible=own"})).visible == Visible::own);
  CHECK(resolve(parse_words("auto"), {}).parts.ranks);
  const EnabledParts without = resolve(parse_words("ranks=off"), {}).parts;
  for (const char* name :
       {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TF_CONFIG"})
    CHECK(is_switched_off(without, name));
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "NCCL_IB_HCA", "OMP_NUM_THREADS", "JAX_LOCAL_DEVICE_IDS",
                           "JAX_COORDINATOR_ADDRESS", "MUSTER_GPUS"})
    CHECK_FALSE(is_switched_off(without, name));
  CHECK_THROWS_WITH(parse_words("visible=all"),
                    "'visible=all' is not known: use visible=own or visible=node");
  CHECK_THROWS(parse_words("gpu=off,visible=node"));
  CHECK_THROWS(parse_words("env=off,visible=own"));
  CHECK_THROWS(parse_words("env=off,ranks=on"));
}

TEST_CASE("When two words contradict each other, the error names both") {
  CHECK(refusal("auto,report,strict") == "'auto' and 'strict' contradict each other: use one");
  CHECK(refusal("cpu=on,cpu=off") == "'cpu=on' and 'cpu=off' contradict each other: use one");
  for (const char* list :
       {"off,report", "cpu=off,off", "off,auto", "memory=bind,memory=off", "json,json=x", "json=x,json=y",
        "env=off,nic=on", "gpu=on,env=off", "tasks-per-gpu=1,tasks-per-gpu=2"})
    CHECK(refusal(list).find("contradict each other") != std::string::npos);
  CHECK(refusal("off,off").empty());
}

TEST_CASE("Invalid arguments in plugstack.conf are rejected") {
  CHECK_FALSE(parse_settings({}).defaults.mode.has_value());
  CHECK(parse_settings({}).isolation == Isolation::share);
  CHECK_FALSE(parse_settings({}).cache.has_value());
  const Settings all = parse_settings({"default=strict,memory=off", "isolation=keep", "topology=/etc/t.xml",
                                       "profiles=/etc/p", "cache=/run/c"});
  CHECK(all.defaults.mode == Mode::strict);
  CHECK(all.defaults.memory == MemoryPolicy::off);
  CHECK(all.isolation == Isolation::keep);
  CHECK(all.topology == "/etc/t.xml");
  CHECK(all.profiles == "/etc/p");
  CHECK(all.cache == "/run/c");
  CHECK(parse_settings({"cache=off"}).cache == "");
  for (const char* wrong :
       {"auto", "default", "default=", "default=on", "default=report", "default=auto,json", "defualt=auto",
        "default = auto", "isolation=off", "isolation", "topology=t.xml", "topology", "cache=", "cache=x",
        "profiles=", "default=auto,off", "default=tasks-per-gpu=2", ""})
    CHECK_THROWS_AS(parse_settings({wrong}), std::invalid_argument);
}

TEST_CASE("For an error in plugstack.conf, one line names it and the alternatives") {
  for (const char* wrong : {"default=maybe", "colour=red"}) try {
      parse_settings({wrong});
      FAIL("accepted");
    } catch (const std::invalid_argument& error) {
      const std::string text = error.what();
      CHECK(text.find("plugstack.conf: spank_muster.so: '") == 0);
      CHECK(text.find("is not known: use ") != std::string::npos);
      CHECK(text.find('\n') == std::string::npos);
    }
}

TEST_CASE("The user's words override the administrator's default, part by part") {
  CHECK(options_for(nullptr).mode == Mode::off);
  CHECK(options_for(nullptr, {"default=auto"}).mode == Mode::automatic);
  CHECK_FALSE(options_for(nullptr, {"default=auto"}).explicitly_requested);
  CHECK(options_for("off", {"default=auto"}).mode == Mode::off);
  CHECK(options_for("auto", {"default=strict"}).mode == Mode::automatic);
  // Words without a mode do not weaken the default.
  CHECK(options_for("report", {"default=strict"}).mode == Mode::strict);
  CHECK(options_for("report", {"default=off"}).mode == Mode::automatic);
  // `off` with a part: a step is placed only on request, and then this part is off.
  CHECK(options_for(nullptr, {"default=off,memory=off"}).mode == Mode::off);
  CHECK(options_for("auto", {"default=off,memory=off"}).parts.memory == MemoryPolicy::off);
  CHECK(options_for("memory=bind", {"default=off,memory=off"}).parts.memory == MemoryPolicy::bind);
  CHECK_FALSE(options_for("report", {"default=auto,nic=off"}).parts.nic);
}

TEST_CASE("When a part is off, its variables are switched off, and no others") {
  const auto off = [](const char* list, const char* variable) {
    return is_switched_off(options_for(list).parts, variable);
  };
  const std::vector<std::pair<const char*, const char*>> pairs = {
      {"gpu=off", "CUDA_VISIBLE_DEVICES"}, {"gpu=off", "MUSTER_GPUS"}, {"cpu=off", "OMP_NUM_THREADS"},
      {"memory=off", "MUSTER_MEMORY"},     {"nic=off", "NCCL_IB_HCA"}, {"nic=off", "NCCL_SOCKET_IFNAME"},
      {"nic=off", "UCX_NET_DEVICES"}};
  for (const auto& [list, variable] : pairs) {
    CHECK(off(list, variable));
    CHECK_FALSE(off("auto", variable));
    CHECK(off("env=off", variable));
    CHECK_FALSE(off(list, "RANK"));
    for (const auto& [other, its] : pairs)
      if (std::string(other) != list) CHECK_FALSE(off(list, its));
  }
}

TEST_CASE("When a list exceeds its limit of bytes or words, the error is one short line") {
  std::string words = "auto";
  for (int i = 1; i < 64; ++i) words += ",auto";
  CHECK(refusal(words).empty());
  CHECK(refusal(words + ",auto") == "the list has 65 words in 324 bytes: at most 64 in 8192");
  CHECK(refusal("json=/" + std::string(8186, 'x')).empty());
  CHECK(refusal("json=/" + std::string(8187, 'x')) ==
        "the list has 1 words in 8193 bytes: at most 64 in 8192");
  std::string many = "cpu=on";
  for (int i = 1; i < 24000; ++i) many += ",cpu=on";
  CHECK(refusal(many).size() < 100);
}
