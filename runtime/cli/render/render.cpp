// SPDX-License-Identifier: Apache-2.0
#include "render/render.hpp"

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "render/difference.hpp"
#include "render/render_file.hpp"
#include "render/site_profiles.hpp"

namespace muster::cli {

namespace {

struct RenderOptions {
  std::string file, target, profile, diff;
  std::vector<std::string> assignments;
  bool list_profiles = false;
};

int run(const RenderOptions& options) {
  if (options.list_profiles) {
    std::cout << render::list_profiles();
    return 0;
  }
  if (options.file.empty()) throw CLI::RequiredError("FILE");
  if (options.target.empty()) throw CLI::RequiredError("--to");
  const auto text = render::render_file(options.file, options.target, options.profile, options.assignments);
  if (!options.diff.empty()) return render::print_difference(options.diff, text);
  std::cout << text;
  return 0;
}

}  // namespace

void add_render(CLI::App& app, int& code) {
  auto options = std::make_shared<RenderOptions>();
  auto* command = app.add_subcommand(
      "render", "Write a batch script or manifest for Slurm, Kubernetes or mpirun from one job description");
  command->add_option("FILE", options->file, "The job description (TOML, docs/render.md)");
  command->add_option("--to", options->target, "slurm, kubernetes-mpijob, jobset or mpirun")
      ->type_name("TARGET")
      ->check(CLI::IsMember({"slurm", "kubernetes-mpijob", "jobset", "mpirun"}));
  command
      ->add_option("--profile", options->profile,
                   "A site's nodes and options: a name of --list-profiles, or a TOML file (default: the "
                   "description's)")
      ->type_name("NAME");
  command
      ->add_option(
          "--set", options->assignments,
          "Replace a value of the description, such as nodes=4 or slurm.partition=gpu; may be repeated")
      ->type_name("KEY=VALUE")
      ->take_all()
      ->allow_extra_args(false);
  command
      ->add_option("--diff", options->diff,
                   "Print the difference from this file (diff -u) instead; exit 1 if there is one")
      ->type_name("FILE");
  command->add_flag("--list-profiles", options->list_profiles, "List the profiles, one line each")
      ->disable_flag_override();
  command->footer(
      "Examples:\n"
      "  muster render job.toml --to slurm > job.sbatch\n"
      "  muster render job.toml --to jobset --set nodes=4 | kubectl apply -f -\n"
      "  muster render job.toml --to slurm --profile jean-zay-a100 --diff job.sbatch");
  command->callback([&code, options] { code = run(*options); });
}

}  // namespace muster::cli
