// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <utility>

#include "catch.hpp"
#include "has.hpp"
#include "muster/error.hpp"
#include "rendezvous/key_seal.hpp"

using namespace muster;
using namespace muster::bootstrap;

namespace {

using Bytes = std::vector<std::uint8_t>;

// Stands for MUNGE: credentials that hide their content.
struct Inverting : CredentialCodec {
  Bytes encode(std::span<const std::uint8_t> bytes) override {
    Bytes turned(bytes.begin(), bytes.end());
    for (auto& byte : turned) byte ^= 0xff;
    return turned;
  }
  Bytes decode(std::span<const std::uint8_t> bytes) override { return encode(bytes); }
};

std::unique_ptr<CredentialCodec> make_inverting() { return std::make_unique<Inverting>(); }
std::unique_ptr<CredentialCodec> make_none() { throw Error(ErrorCode::system, "no munged"); }
std::unique_ptr<CredentialCodec> make_no_library() { throw Error(ErrorCode::device, "no libmunge"); }

bool shows(const Bytes& sealed, const control::Key& key) {
  return std::search(sealed.begin(), sealed.end(), key.begin(), key.end()) != sealed.end();
}

std::string refusal(KeySeal seal, const Bytes& sealed) {
  try {
    seal.open(sealed);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// What is printed to stderr when `seal` seals a key.
std::string warning_of(KeySeal seal, bool warns = true) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* const terminal = std::exchange(stderr, open_memstream(&text, &size));
  seal.seal(control::random_key(), warns);
  std::fclose(std::exchange(stderr, terminal));
  std::string printed(text, size);
  std::free(text);
  return printed;
}

}  // namespace

TEST_CASE("a sealed key opens on a rank with the same means, and shows only where there are none") {
  auto const key = control::random_key(), users = control::random_key();
  Bytes const plain(key.begin(), key.end());
  for (const auto& user_key : {std::optional<control::Key>(), std::optional(users)}) {
    for (auto* const make : {&make_inverting, &make_none}) {
      auto const sealed = KeySeal(make, user_key).seal(key, false);
      CHECK(KeySeal(make, user_key).open(sealed) == plain);
      CHECK(shows(sealed, key) == (!user_key && make == &make_none));
    }
  }
  CHECK(KeySeal(nullptr, {}).open(KeySeal(nullptr, {}).seal(key)) == plain);
}

TEST_CASE("a sealed key shows whether MUNGE alone opens it") {
  auto const key = control::random_key(), users = control::random_key();
  CHECK(KeySeal::needs_only_munge(KeySeal(make_inverting, {}).seal(key)));
  CHECK_FALSE(KeySeal::needs_only_munge(KeySeal(make_inverting, users).seal(key)));
  CHECK_FALSE(KeySeal::needs_only_munge(KeySeal(make_none, {}).seal(key, false)));
  CHECK_FALSE(KeySeal::needs_only_munge({}));
}

TEST_CASE("a rank that cannot open the job's key says what is missing") {
  auto const key = control::random_key(), users = control::random_key();
  auto const by_munge = KeySeal(make_inverting, {}).seal(key);
  CHECK(has(refusal(KeySeal(make_none, {}), by_munge), "MUNGE cannot open the job's key (no munged): start"));
  auto const by_user = KeySeal(make_none, users).seal(key);
  CHECK(has(refusal(KeySeal(make_none, {}), by_user), "MUSTER_KEY or MUSTER_KEY_FILE is not the same"));
  CHECK(has(refusal(KeySeal(make_none, control::random_key()), by_user), "is not the same"));
  CHECK(has(refusal(KeySeal(make_inverting, users), by_munge), "is not the same"));
  CHECK(has(refusal(KeySeal(make_none, {}), {}), "damaged"));
  CHECK(has(refusal(KeySeal(make_none, {}), {9, 9}), "damaged"));
  for (std::size_t size = 1; size < by_user.size(); ++size)
    CHECK(has(refusal(KeySeal(make_none, users),
                      Bytes(by_user.begin(), by_user.begin() + static_cast<std::ptrdiff_t>(size))),
              "is not the same"));
}

TEST_CASE("where MUNGE works, a rank refuses a key that rank 0 did not seal") {
  auto const key = control::random_key(), users = control::random_key();
  auto const unsealed = KeySeal(nullptr, {}).seal(key);
  CHECK(has(refusal(KeySeal(make_inverting, {}), unsealed),
            "rank 0 sent the job's key unsealed, but MUNGE works on host "));
  // Where MUNGE works nowhere, and below another launcher, the ranks join.
  CHECK(refusal(KeySeal(make_none, {}), unsealed).empty());
  CHECK(refusal(KeySeal(make_no_library, {}), unsealed).empty());
  CHECK(refusal(KeySeal(nullptr, {}), unsealed).empty());
  // The user's key seals, too.
  CHECK(refusal(KeySeal(make_inverting, users), KeySeal(make_none, users).seal(key)).empty());
}

TEST_CASE("however many unsealed reports arrive, munged makes one credential") {
  static int credentials = 0;
  struct Counting : Inverting {
    Bytes encode(std::span<const std::uint8_t> bytes) override {
      ++credentials;
      return Inverting::encode(bytes);
    }
  };
  auto const unsealed = KeySeal(nullptr, {}).seal(control::random_key());
  KeySeal seal([] { return std::make_unique<Counting>(); }, {});
  for (int i = 0; i < 5; ++i) CHECK_THROWS_AS(seal.open(unsealed), Error);
  CHECK(credentials == 1);
}

TEST_CASE("rank 0 warns when libmunge is there but the job's key leaves its host unsealed") {
  CHECK(has(warning_of(KeySeal(make_none, {})),
            "MUNGE cannot seal the job's key (no munged): PMIx sends it in plain text"));
  CHECK(warning_of(KeySeal(make_none, {}), false).empty());  // a process report
  CHECK(warning_of(KeySeal(make_none, control::random_key())).empty());
  CHECK(warning_of(KeySeal(make_inverting, {})).empty());
  CHECK(warning_of(KeySeal(make_no_library, {})).empty());  // a cluster without MUNGE
  CHECK(warning_of(KeySeal(nullptr, {})).empty());          // another launcher
  setenv("SLURM_STEP_NUM_NODES", "1", 1);
  CHECK(warning_of(KeySeal(make_none, {})).empty());
  setenv("SLURM_STEP_NUM_NODES", "2", 1);
  CHECK_FALSE(warning_of(KeySeal(make_none, {})).empty());
  unsetenv("SLURM_STEP_NUM_NODES");
}
