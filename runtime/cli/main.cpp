// SPDX-License-Identifier: Apache-2.0
// The `muster` command. Exit codes are those of BSD sysexits.h: 64 invalid command line, 65 invalid input, 74
// output failed.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "bench/bench.hpp"
#include "check_build.hpp"
#include "doctor/doctor.hpp"
#include "exec.hpp"
#include "launcher/launcher_detection.hpp"
#include "launcher/local_hello.hpp"
#include "muster/error.hpp"
#include "muster/version.hpp"
#include "placement/topology/error.hpp"
#include "plan.hpp"
#include "render/render.hpp"
#include "render/settings.hpp"
#include "text/printable.hpp"

namespace {

constexpr int exit_usage = 64;
constexpr int exit_data = 65;
constexpr int exit_software = 70;
constexpr int exit_output = 74;
/// A launcher ends the job as soon as one rank has failed, so the other ranks wait until rank 0 has printed,
/// also on a busy machine.
constexpr std::chrono::seconds silent_exit_delay{5};

// CLI11 reports a missing command before an unknown word.
std::string describe_error(const CLI::App& app, const CLI::ParseError& error) {
  const auto unknown = app.remaining();
  if (!app.get_subcommands().empty() || unknown.empty()) return error.what();
  const std::string& first = unknown.front();
  return (first.starts_with('-') ? "unknown option: " : "unknown command: ") + first;
}

// Every process of a job has the same wrong command line; only the first one prints the error.
bool should_report() {
  const auto launcher = muster::bootstrap::detect_launcher(muster::bootstrap::get_env);
  return !launcher || launcher->rank == 0;
}

void print_failure(const std::string& text) { std::cerr << "muster: " << muster::printable(text) << "\n"; }

int run(int argc, char** argv) {
  int code = 0;
  auto command = muster::cli::take_command(argc, argv);
  CLI::App app("Muster: every rank of a multi-node GPU job on the right GPU, cores, memory and network card.",
               "muster");
  app.set_version_flag("--version", std::string("muster ") + muster::version);
  app.set_help_all_flag("--help-all", "Show the help of all commands");
  app.require_subcommand(1);
  muster::cli::add_plan(app);
  muster::cli::add_doctor(app, code);
  muster::cli::add_bench(app, code);
  muster::cli::add_exec(app, code, std::move(command));
  muster::cli::add_render(app, code);
  muster::cli::add_check_build(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    if (!should_report()) {
      std::this_thread::sleep_for(silent_exit_delay);
      return exit_usage;
    }
    print_failure(describe_error(app, error) + " (see muster --help-all)");
    return exit_usage;
  }
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  // hwloc prints several lines of its own about a file that it cannot read. `exec` does not use hwloc, and
  // its command gets this environment.
  if (argc < 2 || std::string_view(argv[1]) != "exec") setenv("HWLOC_HIDE_ERRORS", "2", 0);
  int code = exit_software;
  try {
    code = run(argc, argv);
  } catch (const muster::placement::Error& error) {
    print_failure(error.what());
    code = exit_data;
  } catch (const muster::render::DescriptionError& error) {
    print_failure(error.what());
    code = exit_data;
  } catch (const muster::Error& error) {
    if (!error.reported_elsewhere()) print_failure(error.what());
    code = error.exit_code();
  } catch (const std::exception& error) {
    print_failure(error.what());
  }
  std::cout.flush();
  if (code == 0 && !std::cout) {
    print_failure("standard output cannot be written.");
    return exit_output;
  }
  return code;
}
