// SPDX-License-Identifier: Apache-2.0
#include "make_data.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "config/option_validators.hpp"
#include "config/parse_command.hpp"
#include "data/cifar.hpp"
#include "data/idx.hpp"
#include "data/shard.hpp"
#include "data/synthetic_digits.hpp"
#include "data/synthetic_language.hpp"
#include "data/synthetic_shapes.hpp"
#include "files/output_file.hpp"
#include "make_pictures.hpp"
#include "muster/error.hpp"

namespace muster {
namespace {

namespace fs = std::filesystem;

struct ImageOptions {
  std::string output;
  int training = 0, held_out = 10'000;
  std::uint64_t seed = 1;
};

struct CifarOptions : ImageOptions {
  int classes = 10;
};

struct LanguageOptions {
  std::string output = "language", format = "text";
  std::int64_t tokens = 1'000'000;
  int symbols = 27, order = 1;
  std::uint64_t seed = 1;
};

/// Symbol i of a text is the i-th character.
constexpr std::string_view alphabet = "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,";
/// llm.c's scripts write shards of this size.
constexpr std::size_t shard_tokens = 100'000'000;

/// Path of a new file in the folder; creates the folder. Throws when the file exists.
fs::path new_file(const fs::path& folder, const std::string& name) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw Error(ErrorCode::system, fmt::format("cannot create {}: {}", folder.string(), error.message()));
  if (fs::exists(fs::symlink_status(folder / name, error))) {
    throw Error(ErrorCode::usage,
                fmt::format("{} exists: remove it or name another --output", (folder / name).string()));
  }
  return folder / name;
}

void write_digits(const ImageOptions& o) {
  const std::pair<int, std::uint64_t> sets[] = {{o.training, 1}, {o.held_out, 2}};
  std::vector<fs::path> paths;
  for (const char* name : data::ImageSet::names) paths.push_back(new_file(o.output, name));
  for (std::size_t set = 0; set < 2; ++set) {
    const auto [count, stream] = sets[set];
    std::vector<std::uint8_t> pixels, labels;
    for (int image = 0; image < count; ++image) {
      const data::Digit digit = data::draw_digit(o.seed, stream, static_cast<std::uint64_t>(image));
      pixels.insert(pixels.end(), digit.pixels.begin(), digit.pixels.end());
      labels.push_back(digit.label);
    }
    const auto images = static_cast<std::uint32_t>(count);
    const std::uint32_t image_extents[] = {images, data::digit_side, data::digit_side},
                        label_extents[] = {images};
    data::write_idx(paths[2 * set], image_extents, pixels);
    data::write_idx(paths[2 * set + 1], label_extents, labels);
  }
  fmt::print("{}: {} drawn digits to train on, {} to validate with, in MNIST's four files\n", o.output,
             o.training, o.held_out);
  fmt::print("train: muster-train --model=mnist-cnn --data {}\n", o.output);
}

/// Writes images [begin, end) of a stream.
void write_shapes(const fs::path& path, const CifarOptions& o, std::uint64_t stream, int begin, int end) {
  OutputFile file(path);
  for (int image = begin; image < end; ++image) {
    const auto drawn = data::draw_shape(o.seed, stream, static_cast<std::uint64_t>(image), o.classes);
    // CIFAR-100's coarse label comes first: here each is five fine ones.
    const std::uint8_t labels[] = {static_cast<std::uint8_t>(drawn.label / 5), drawn.label};
    const std::size_t label_bytes = o.classes == 100 ? 2 : 1;
    file.write(labels + (2 - label_bytes), label_bytes);
    file.write(drawn.planes.data(), drawn.planes.size());
  }
  file.commit();
}

void write_cifar(const CifarOptions& o) {
  const data::CifarFormat& format = o.classes == 100 ? data::cifar100() : data::cifar10();
  const int files = static_cast<int>(format.training.size());
  std::vector<fs::path> paths;
  for (const char* name : format.training) paths.push_back(new_file(o.output, name));
  const fs::path held_out = new_file(o.output, format.held_out);
  for (int file = 0; file < files; ++file) {
    const auto first = [&](int number) {
      return static_cast<int>(std::int64_t{o.training} * number / files);
    };
    write_shapes(paths[static_cast<std::size_t>(file)], o, 1, first(file), first(file + 1));
  }
  write_shapes(held_out, o, 2, 0, o.held_out);
  fmt::print("{}: {} drawn shapes to train on, {} to validate with, in CIFAR-{}'s files\n", o.output,
             o.training, o.held_out, o.classes);
  fmt::print("train: muster-train --model=resnet20 --data {}\n", o.output);
}

void write_text(const LanguageOptions& o, std::span<const compute::Token> tokens) {
  const fs::path path = new_file(o.output, "language.txt");
  std::string text;
  for (const compute::Token token : tokens) text += alphabet[token];
  OutputFile file(path);
  file.write(text);
  file.commit();
}

void write_shards(const LanguageOptions& o, std::span<const compute::Token> tokens) {
  const std::size_t held_out = tokens.size() / 10;
  data::write_shard(new_file(o.output, "language_val_000000.bin"), tokens.last(held_out));
  tokens = tokens.first(tokens.size() - held_out);
  for (std::size_t shard = 0; !tokens.empty(); ++shard) {
    const std::size_t count = std::min(tokens.size(), shard_tokens);
    data::write_shard(new_file(o.output, fmt::format("language_train_{:06}.bin", shard)),
                      tokens.first(count));
    tokens = tokens.subspan(count);
  }
}

void write_language(const LanguageOptions& o) {
  const bool text = o.format == "text";
  if (text && o.symbols > static_cast<int>(alphabet.size())) {
    throw Error(ErrorCode::usage, fmt::format("--symbols {}: a text has at most {}; pass --format=shards",
                                              o.symbols, alphabet.size()));
  }
  const data::Language language(o.symbols, o.order, o.seed);
  const auto tokens = language.generate(static_cast<std::uint64_t>(o.tokens));
  text ? write_text(o, tokens) : write_shards(o, tokens);
  fmt::print("{}: {} tokens of {} symbols, each depending on the last {}\n", o.output, o.tokens, o.symbols,
             o.order);
  fmt::print("entropy rate {:.6f} nats/token: no model's loss over many tokens is below it\n",
             language.entropy_rate());
  fmt::print("train: muster-train --data {}{}\n", o.output,
             text ? "" : fmt::format(" --vocabulary {}", o.symbols));
}

/// `least`: the fewest images to train on.
void add_image_options(CLI::App& app, ImageOptions& o, int least) {
  app.add_option("--output", o.output, "Folder for the files; created")->capture_default_str();
  app.add_option("--train", o.training, "Images to train on")
      ->check(integer(least, 1'000'000))
      ->capture_default_str();
  app.add_option("--held-out", o.held_out, "Images to validate with")
      ->check(integer(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--seed", o.seed, "Seed; another one gives other images")
      ->check(integer(std::uint64_t{0}, ~std::uint64_t{0}).description(""))
      ->capture_default_str();
}

void add_classes(CLI::App& app, CifarOptions& o) {
  app.add_option("--classes", o.classes,
                 "10: the shape, in CIFAR-10's files; 100: shape and colour, in CIFAR-100's")
      ->check(CLI::IsMember({10, 100}))
      ->capture_default_str();
}

void add_pictures(CLI::App& app, MakePicturesOptions& o) {
  app.add_option("--output", o.output, "Folder for the files; created")->capture_default_str();
  app.add_option("--train", o.training, "Pictures to train on")
      ->check(integer(10, 1'000'000))
      ->capture_default_str();
  app.add_option("--held-out", o.held_out, "Pictures to validate with")
      ->check(integer(10, 1'000'000))
      ->capture_default_str();
  app.add_option("--classes", o.classes, "Shapes")->check(integer(2, 10))->capture_default_str();
  app.add_flag("--bad", o.bad, "Add three truncated pictures and one with 61,680 x 61,680 pixels");
  app.add_option("--seed", o.seed, "Seed; another one gives other pictures")
      ->check(integer(std::uint64_t{0}, ~std::uint64_t{0}).description(""))
      ->capture_default_str();
}

void add_language(CLI::App& app, LanguageOptions& o) {
  app.add_option("--output", o.output, "Folder for the text or the shards; created")->capture_default_str();
  app.add_option("--format", o.format,
                 "language.txt, or token shards with the last tenth held out for validation")
      ->check(CLI::IsMember({"text", "shards"}))
      ->capture_default_str();
  app.add_option("--tokens", o.tokens, "Number of tokens")
      ->check(integer(std::int64_t{100}, std::int64_t{1'000'000'000}))
      ->capture_default_str();
  app.add_option("--symbols", o.symbols, "Number of different tokens")
      ->check(integer(2, data::most_two_byte_tokens))
      ->capture_default_str();
  app.add_option("--order", o.order, "Earlier tokens that the next one depends on")
      ->check(integer(1, 16))
      ->capture_default_str();
  app.add_option("--seed", o.seed, "Seed; another one gives another language")
      ->check(integer(std::uint64_t{0}, ~std::uint64_t{0}).description(""))
      ->capture_default_str();
}

}  // namespace

int make_data(int argc, const char* const* argv) {
  CLI::App app("Generates training data, the same for the same options.", "muster-train make-data");
  ImageOptions digits{"digits", 60'000};
  CifarOptions cifar{{"cifar", 50'000}};
  LanguageOptions language;
  CLI::App* digits_app =
      app.add_subcommand("digits", "Synthetic digits as MNIST's four IDX files, for --model=mnist-cnn");
  CLI::App* cifar_app =
      app.add_subcommand("cifar", "Coloured shapes as CIFAR's binary files, for --model=resnet20 and others");
  MakePicturesOptions pictures;
  CLI::App* pictures_app = app.add_subcommand(
      "pictures", "Coloured shapes as JPEG and PNG files of many kinds, for --model=mobilenet-v1 and others");
  CLI::App* language_app = app.add_subcommand(
      "language", "A synthetic language with a known entropy rate, which is the least possible loss");
  app.require_subcommand(1);
  add_image_options(*digits_app, digits, 1);
  add_image_options(*cifar_app, cifar, 5);
  add_classes(*cifar_app, cifar);
  add_pictures(*pictures_app, pictures);
  add_language(*language_app, language);
  if (!parse_command(app, argc, argv)) return 0;
  if (*digits_app) write_digits(digits);
  if (*cifar_app) write_cifar(cifar);
  if (*pictures_app) make_pictures(pictures);
  if (*language_app) write_language(language);
  return 0;
}

}  // namespace muster
