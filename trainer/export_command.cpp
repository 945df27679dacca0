// SPDX-License-Identifier: Apache-2.0
#include "export_command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/find_checkpoint.hpp"
#include "compute/arena.hpp"
#include "config/option_validators.hpp"
#include "config/parse_command.hpp"
#include "muster/error.hpp"
#include "weights/huggingface_folder.hpp"
#include "weights/llmc_file.hpp"
#include "weights/network_weights.hpp"
#include "weights/safetensors_weights.hpp"
#include "weights/weight_source.hpp"

namespace muster {
namespace {

namespace fs = std::filesystem;

struct ExportOptions {
  std::string from, format = "huggingface", output, dtype = "fp32";

  weights::ElementType type() const {
    return dtype == "bf16" ? weights::ElementType::bfloat16 : weights::ElementType::float32;
  }
  const char* type_name() const { return dtype == "bf16" ? "bfloat16" : "float32"; }
};

/// A path beside the current folder that says what it is.
std::string default_output(const std::string& format) {
  if (format == "huggingface") return "muster-model";
  return format == "llm.c" ? "muster-model.bin" : "muster-model.safetensors";
}

void check_output(const ExportOptions& o) {
  std::error_code error;
  if (fs::exists(fs::symlink_status(o.output, error)))
    throw Error(ErrorCode::usage, fmt::format("{} exists: remove it or name another --output", o.output));
  const std::string ending = o.format == "llm.c" ? ".bin" : o.format == "safetensors" ? ".safetensors" : "";
  if (!o.output.ends_with(ending)) {
    throw Error(ErrorCode::usage,
                fmt::format("--output {} must end with {} for --format={}", o.output, ending, o.format));
  }
}

void write_weights(const ExportOptions& o, const weights::WeightSource& source) {
  const models::GptConfig& config = source.config();
  if (o.format == "llm.c" && config.llama) {
    throw Error(ErrorCode::usage,
                fmt::format("{} holds a model of the Llama kind, and llm.c's .bin is for GPT-2: pass "
                            "--format=huggingface or --format=safetensors",
                            o.from));
  }
  compute::Arena<float> parameters(models::gpt_tensors(config).arena_size);
  source.read(parameters.span());
  if (o.format == "huggingface")
    weights::write_huggingface_folder(o.output, config, source.tokenizer(), parameters.span(), o.type());
  else if (o.format == "llm.c")
    weights::write_llmc_file(o.output, config, parameters.span(), o.type());
  else
    weights::write_safetensors_weights(o.output, config, source.tokenizer(), parameters.span(), o.type());
}

/// False unless the checkpoint is of a network on images.
bool export_network(const ExportOptions& o) {
  const auto path = find_checkpoint(o.from);
  if (!path) return false;
  const Checkpoint checkpoint(*path);
  if (!weights::is_network_checkpoint(checkpoint)) return false;
  if (o.format != "safetensors") {
    throw Error(ErrorCode::usage,
                fmt::format("{} holds a network on images: pass --format=safetensors", path->string()));
  }
  fmt::print("{}: {}, {} parameters in {}\n", o.output, checkpoint.state().model,
             weights::write_network_weights(o.output, checkpoint, o.type()), o.type_name());
  return true;
}

}  // namespace

int export_command(int argc, const char* const* argv) {
  ExportOptions o;
  CLI::App app("Writes the weights that muster-train has trained, for other programs.",
               "muster-train export");
  app.add_option("CHECKPOINT", o.from,
                 "A checkpoint (step-…), an output folder (its newest checkpoint), or what another export or "
                 "program has written")
      ->required()
      ->check(not_an_option());
  app.add_option(
         "--format", o.format,
         "huggingface: a folder for transformers' from_pretrained(); llm.c: its .bin; safetensors: one "
         "file with Muster's own names, or with PyTorch's for a network on images")
      ->check(CLI::IsMember({"huggingface", "llm.c", "safetensors"}))
      ->capture_default_str();
  app.add_option("--dtype", o.dtype, "Type of the written weights: fp32, or bf16, which rounds them")
      ->check(CLI::IsMember({"fp32", "bf16"}))
      ->capture_default_str();
  app.add_option("--output", o.output,
                 "Folder or file to write; if not given, muster-model with the format's ending, here")
      ->check(not_an_option());
  if (!parse_command(app, argc, argv)) return 0;
  if (o.output.empty()) o.output = default_output(o.format);
  check_output(o);
  if (export_network(o)) return 0;
  const auto source = weights::open_weights(o.from);
  write_weights(o, *source);
  fmt::print("{}: {}, {} parameters in {}\n", o.output, models::gpt_text(source->config()),
             models::gpt_tensors(source->config()).parameter_count, o.type_name());
  return 0;
}

}  // namespace muster
